/* Options: found in a plan, told, tried, decided. */
#include "choose.h"

#include <string.h>

#include "../base/bug.h"
#include "../base/guard.h"
#include "cudnn_descriptor.h"
#include "trial.h"

const char sx_no_engine[] = "none";
static const char CONVOLUTION[] = "convolution", PRODUCT[] = "product";

/* ---- finding ------------------------------------------------------------------------------------ */

static bool is_of(const sx_option *option, const char *kind, const char *key) {
  return !strcmp(option->kind, kind) && !strcmp(option->key, key);
}

static sx_option *find(sx_options *options, const char *kind, const char *key) {
  for (size_t i = 0; i < options->list.n; i++)
    if (is_of(&options->list.items[i], kind, key)) return &options->list.items[i];
  return NULL;
}

static bool add_engines(sx_option *option, sx_options *options) {
  sx_offers offers = {0};
  if (options->cudnn && !sx_cudnn_offers(&offers, options->cudnn, &option->convolution)) return false;
  const char **values = SX_NEW_N(options->arena, const char *, offers.n_candidates ? offers.n_candidates : 1);
  values[0] = sx_no_engine;
  for (size_t i = 0; i < offers.n_candidates; i++) {
    sx_text text;
    sx_text_init(&text, options->arena);
    sx_engine_print(&text, &offers.candidates[i]->engine);
    values[i] = sx_text_get(&text);
  }
  option->values = values;
  option->n_values = offers.n_candidates ? offers.n_candidates : 1;
  return true;
}

/* The option of a task; false: it has none. */
static bool option_of(sx_option *option, const sx_options *options, const sx_plan *plan, uint32_t task) {
  *option = (sx_option){0};
  sx_text key;
  sx_text_init(&key, options->arena);
  if (sx_product_key_of(&option->product, plan, task)) {
    option->kind = PRODUCT;
    option->to = option->product.dtype;
    sx_product_key_print(&key, &option->product);
  } else if (sx_convolution_of(&option->convolution, plan, task)) {
    option->kind = CONVOLUTION;
    sx_convolution_print(&key, &option->convolution);
  }
  option->key = sx_text_get(&key);
  return option->kind;
}

bool sx_options_find(sx_options *options, const sx_plan *plan) {
  if (options->portable) return true;
  for (uint32_t task = 0; task < plan->tasks.n; task++) {
    sx_option option;
    if (!option_of(&option, options, plan, task) || find(options, option.kind, option.key)) continue;
    if (option.kind == PRODUCT)
      option.values = sx_product_implementations(&option.n_values, &option.product, options->arena);
    else if (!add_engines(&option, options))
      return false;
    SX_PUSH(options->arena, options->list, option);
  }
  return true;
}

/* Calls back for each option of the plan, once; stops at false. */
typedef bool each_function(void *context, sx_option *option);

static bool each_option(sx_options *options, const sx_plan *plan, each_function *call, void *context) {
  if (options->portable) return true;
  bool *seen = SX_NEW_N(options->arena, bool, options->list.n + 1);
  for (uint32_t task = 0; task < plan->tasks.n; task++) {
    sx_option option;
    if (!option_of(&option, options, plan, task)) continue;
    sx_option *found = find(options, option.kind, option.key);
    if (!found) SX_BUG("no option %s", option.key);
    size_t i = (size_t)(found - options->list.items);
    if (seen[i]) continue;
    seen[i] = true;
    if (!call(context, found)) return false;
  }
  return true;
}

/* ---- telling ------------------------------------------------------------------------------------ */

typedef struct needing {
  sx_options *options;
  sx_tell_need *tell;
  void *context;
} needing;

typedef struct need_work {
  sx_options *options;
  sx_convolution convolution;
} need_work;

typedef struct taking {
  const need_work *of;
  const char *value, *offered;
  sx_pin pin;
} taking;

static void pin_engine(void *context) {
  taking *t = context;
  sx_cudnn_plan plan;
  sx_choice_refusal refusal = {.offered = "cuDNN failed"};
  t->pin = sx_cudnn_pin(&plan, &refusal, t->of->options->cudnn, &t->of->convolution, t->value);
  t->offered = refusal.offered;
}

static bool refuse(char *words, size_t n_words, const char *offered) {
  size_t n = strlen(offered);
  if (n >= n_words) n = n_words - 1;
  memcpy(words, offered, n);
  words[n] = 0;
  return false;
}

/* An engine is taken if its plan can be made, whether or not the heuristics offer it; none can always be had. Asked for
 * outside of any guard. */
static bool takes_engine(void *work, const sexp_need *need, const char *value, char *words, size_t n_words) {
  (void)need;
  if (!strcmp(value, sx_no_engine)) return true;
  taking t = {.of = work, .value = value, .offered = "there is no memory to ask for it", .pin = SX_PIN_FAILED};
  sx_cudnn *cudnn = t.of->options->cudnn;
  if (!cudnn) return refuse(words, n_words, "the device has no cuDNN");
  size_t n_owned = cudnn->owned.n;
  bool had_memory = sx_guard(t.of->options->arena->memory, pin_engine, &t);
  sx_cudnn_release(cudnn, n_owned);
  return (had_memory && t.pin == SX_PINNED) || refuse(words, n_words, t.offered);
}

static bool tell_option(void *context, sx_option *option) {
  needing *n = context;
  sexp_need need = {.kind = option->kind, .key = option->key, .values = option->values, .n_values = option->n_values};
  if (option->kind == CONVOLUTION) {
    need_work *work = SX_NEW(n->options->arena, need_work);
    *work = (need_work){n->options, option->convolution};
    need.values = NULL;
    need.n_values = 0;
    need.takes = takes_engine;
    need.work = work;
  }
  n->tell(n->context, &need);
  return true;
}

bool sx_options_tell(sx_options *options, const sx_plan *plan, sx_tell_need *tell, void *context) {
  needing n = {options, tell, context};
  return sx_options_find(options, plan) && each_option(options, plan, tell_option, &n);
}

/* ---- deciding ----------------------------------------------------------------------------------- */

typedef struct decision {
  sx_options *options;
  const sx_deciding *deciding;
  const sx_trial_calls *trials;
  sx_diags *diags;
} decision;

/* The chooser is asked under a guard, so that a trial is ended on every path. */
typedef struct asking {
  decision *d;
  sx_option *option;
  sx_trial trial;
  const char *value;
} asking;

static void ask(void *context) {
  asking *a = context;
  sexp_choice choice = {.kind = a->option->kind,
                        .key = a->option->key,
                        .values = a->option->values,
                        .n_values = a->option->n_values,
                        .run = sx_trial_run,
                        .probe = sx_trial_probe,
                        .now_ns = sx_trial_now,
                        .work = &a->trial};
  a->value = a->d->deciding->decide(a->d->deciding->context, &choice, a->d->diags);
}

static bool decide_option(void *context, sx_option *option) {
  decision *d = context;
  if (option->decided) return true;
  if (!d->deciding) {
    option->decided = option->values[0];
    return true;
  }
  asking asked = {.d = d, .option = option};
  sx_trial_begin(&asked.trial, d->options, option, d->trials);
  bool had_memory = sx_guard(d->options->arena->memory, ask, &asked);
  sx_trial_end(&asked.trial);
  if (!had_memory) sx_memory_fail(d->options->arena->memory);
  if (!asked.value) return false;
  option->decided = sx_arena_copy_text(d->options->arena, asked.value, strlen(asked.value));
  return true;
}

bool sx_options_decide(sx_options *options, const sx_plan *plan, const sx_deciding *deciding,
                       const sx_trial_calls *trials, sx_diags *diags) {
  if (options->trying) return true; /* the plan is a candidate's */
  decision d = {options, deciding, trials, diags};
  return sx_options_find(options, plan) && each_option(options, plan, decide_option, &d);
}

const char *sx_options_value(void *context, const char *kind, const char *key) {
  sx_options *options = context;
  const sx_option *option = options->trying;
  const char *value = options->trying_value;
  if (!option || !is_of(option, kind, key)) {
    option = find(options, kind, key);
    if (!option) return NULL;
    value = option->values[option->kind == PRODUCT ? option->n_values - 1 : 0];
    if (option->decided) value = option->decided;
  }
  return strcmp(value, sx_no_engine) ? value : NULL;
}
