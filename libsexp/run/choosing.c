/* What a run on a device decides before its first step: how much is computed again instead of read, how many
 * microbatches are computed at once, and for each executable what the device chooses for it.
 *
 * In this order: what a record pins is read; everything that the run needs is checked against it in one call, before
 * any memory of the device is taken; then the budget of recomputation, on which all plans rest; then what executables
 * need, as they are made; last the stacking, by the cost model where it is sure, else measured by computing gradients
 * of the first step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/guard.h"
#include "../pass/recompute.h"
#include "../sexp.h"
#include "run.h"

static const char fixed_budget[] = "9"; /* f32 operations a byte, without a measurement */

/* ---- deciding ---- */

static const char *recorded_of(const sx_run *run, const char *kind, const char *key) {
  const sexp_chooser *chooser = run->options.chooser;
  return chooser && chooser->recorded ? chooser->recorded(chooser->context, kind, key) : NULL;
}

static bool is_noted(const sx_run *run, const sexp_choice *choice) {
  for (size_t i = 0; i < run->decisions.n; i++)
    if (!strcmp(run->decisions.items[i].kind, choice->kind) && !strcmp(run->decisions.items[i].key, choice->key))
      return true;
  return false;
}

static const char *copy(sx_arena *arena, const char *text) { return sx_arena_copy_text(arena, text, strlen(text)); }

typedef struct noting {
  sx_run *run;
  const sexp_choice *choice;
  const char *value; /* as the chooser has it; NULL: it has none */
  const sexp_failure *why;
  sx_diags *diags;
  uint32_t n_errors; /* before the chooser was asked */
  const char *kept;
} noting;

static void note(void *context) {
  noting *n = context;
  sx_arena *arena = &n->run->arena;
  if (!n->value) {
    if (n->diags->n_errors == n->n_errors) sx_report_failure(n->diags, (sx_span){0}, NULL, n->why);
    return;
  }
  const char *value = copy(arena, n->value);
  if (!is_noted(n->run, n->choice)) {
    sexp_decision decision = {copy(arena, n->choice->kind), copy(arena, n->choice->key), value};
    SX_PUSH(arena, n->run->decisions, decision);
  }
  n->kept = value;
}

/* Whoever asks has things to give back, so it returns where there is no memory, too. */
static const char *decide(void *context, const sexp_choice *choice, sx_diags *diags) {
  sx_run *run = context;
  const sexp_chooser *chooser = run->options.chooser;
  const char *value = choice->n_values ? choice->values[0] : fixed_budget;
  sexp_failure why = {.code = "E-DEVICE-051", .message = "a choice could not be made"};
  noting n = {.run = run, .choice = choice, .why = &why, .diags = diags, .n_errors = diags->n_errors};
  if (!chooser || !chooser->choose(chooser->context, choice, &value, &why)) n.value = value;
  return sx_guard(run->memory, note, &n) ? n.kept : NULL;
}

/* Of a decision that the run asks for itself. */
static const char *decide_now(sx_run *run, const sexp_choice *choice) {
  const char *value = decide(run, choice, &run->diags);
  if (!value && !run->diags.n_errors) sx_memory_fail(run->memory);
  return value;
}

void sx_choosing_begin(sx_run *run) { run->deciding = (sx_deciding){decide, run}; }

/* ---- plans ---- */

static bool is_update(const sx_run *run, const sx_bound *bound) {
  return bound->unit == &run->compiled->update || bound->unit == &run->compiled->diagnosed_update;
}

/* Where updates write in place has been settled with the plans that they have. */
static void plan_bound(sx_run *run, sx_bound *bound, double budget) {
  const sx_plan_options options = {.fuse = run->compiled->optimize, .reuse = run->compiled->optimize};
  bound->plan = NULL;
  if (!bound->observed && !is_update(run, bound) && run->compiled->optimize)
    bound->plan = sx_plan_recompute(bound->unit->graph, &options, budget, &run->arena);
}

/* The most that executables share, of those of all degrees. */
static int64_t shared_bytes(sx_run *run) {
  int64_t most = 0;
  for (const sx_bound *bound = run->bounds; bound; bound = bound->next_bound) {
    int64_t n = run->backend->calls->plan_bytes(run->backend, bound->plan ? bound->plan : bound->unit->plan);
    if (n > most) most = n;
  }
  return most;
}

/* Parameters, states, single values: whatever the degree. */
static int64_t fixed_bytes(const sx_run *run) {
  int64_t n_bytes = sx_row_offset(run->update_row + 1) + run->n_cells * SX_CELL_BYTES;
  for (size_t i = 0; i < run->n_slots; i++)
    n_bytes += run->slots[i].n_bytes * (run->slots[i].written == SX_WRITTEN_BESIDE ? 2 : 1);
  return n_bytes;
}

/* ---- degrees of stacking ---- */

static void list_generators(const sx_run *run, const sx_graph **graphs) {
  for (size_t i = 0; i < run->program->generators.n; i++) {
    const sx_generating *g = &run->generating[i];
    graphs[3 * i] = g->init.unit->graph;
    graphs[3 * i + 1] = g->trip.unit->graph;
    graphs[3 * i + 2] = g->emit.unit->graph;
  }
}

static int find_plans(sx_run *run, sx_degree *degrees, double budget, sx_stack_refusal *why) {
  uint32_t n = run->program->n_stages;
  const sx_graph **losses = SX_NEW_N(&run->arena, const sx_graph *, n);
  const sx_graph **generators = SX_NEW_N(&run->arena, const sx_graph *, 3 * run->program->generators.n);
  int64_t *microbatches = SX_NEW_N(&run->arena, int64_t, n);
  for (uint32_t s = 0; s < n; s++) {
    losses[s] = run->compiled->losses[s].graph;
    microbatches[s] = run->program->stages[s].microbatches;
  }
  list_generators(run, generators);
  const sx_degrees_request request = {.losses = losses,
                                      .microbatches = microbatches,
                                      .n_stages = n,
                                      .generators = generators,
                                      .n_generators = 3 * run->program->generators.n,
                                      .optimize = run->compiled->optimize,
                                      .recompute = run->compiled->optimize ? budget : 0};
  return sx_degrees(degrees, &request, why);
}

static const sx_unit *stacked_units(sx_run *run, const sx_degree *degree) {
  sx_unit *units = SX_NEW_N(&run->arena, sx_unit, run->program->n_stages);
  for (uint32_t s = 0; s < run->program->n_stages; s++) {
    const char *label = run->compiled->losses[s].label;
    units[s] = (sx_unit){.label = sx_format(&run->arena, "%s, stacked %lld", label, (long long)degree->degree),
                         .graph = (sx_graph *)degree->plans[s]->graph,
                         .plan = (sx_plan *)degree->plans[s]};
  }
  return units;
}

static int64_t added(int64_t a, int64_t b) { return __builtin_add_overflow(a, b, &a) ? INT64_MAX : a; }

/* Which degrees there are, and which of them fit the memory that is free. */
static void find_degrees(sx_run *run, double budget) {
  sx_degree degrees[SX_STACK_CANDIDATES];
  sx_stack_refusal why;
  sx_stacking *stacking = &run->stacking;
  int64_t fixed = fixed_bytes(run), shared = shared_bytes(run);
  stacking->free_bytes = run->backend->calls->free_bytes(run->backend);
  stacking->n = run->backend->stacks ? find_plans(run, degrees, budget, &why) : 0;
  stacking->refusal = stacking->n && why.text ? why.text : NULL;
  stacking->items = SX_NEW_N(&run->arena, sx_offered, stacking->n);
  for (int i = 0; i < stacking->n; i++) {
    sx_offered *offered = &stacking->items[i];
    int64_t most = shared;
    for (uint32_t s = 0; s < run->program->n_stages; s++) {
      int64_t n = run->backend->calls->plan_bytes(run->backend, degrees[i].plans[s]);
      if (n > most) most = n;
    }
    *offered = (sx_offered){.degree = degrees[i].degree, .fits = true};
    offered->n_bytes = added(fixed, added(most, added(degrees[i].field_bytes, sx_gradient_bytes(run))));
    offered->fits = !i || offered->n_bytes <= stacking->free_bytes;
    offered->value = sx_format(&run->arena, "%lld", (long long)degrees[i].degree);
    offered->units = i ? stacked_units(run, &degrees[i]) : NULL;
  }
}

static void make_plans(sx_run *run, double budget) {
  for (sx_bound *bound = run->bounds; bound; bound = bound->next_bound) plan_bound(run, bound, budget);
  if (!run->options.evaluations_only) find_degrees(run, budget);
}

/* ---- the check against a record ---- */

typedef struct needing {
  sx_run *run;
  SX_VEC(sexp_need) list;
} needing;

static void tell_need(void *context, const sexp_need *need) {
  needing *n = context;
  for (size_t i = 0; i < n->list.n; i++)
    if (!strcmp(n->list.items[i].kind, need->kind) && !strcmp(n->list.items[i].key, need->key)) return;
  SX_PUSH(&n->run->arena, n->list, *need);
}

static bool read_budget(const char *text, double *budget) {
  char *end = NULL;
  *budget = text ? strtod(text, &end) : 0;
  return text && end != text && !*end && *budget >= 0 && *budget <= 1e9;
}

static bool takes_budget(void *work, const sexp_need *need, const char *value, char *words, size_t n_words) {
  double budget;
  (void)work;
  (void)need;
  if (read_budget(value, &budget)) return true;
  snprintf(words, n_words, "a number of operations a byte");
  return false;
}

static const char *stacking_key(sx_run *run) {
  sx_text key;
  sx_text_init(&key, &run->arena);
  sx_text_addf(&key, "graph %s candidates", run->program->identity);
  for (int i = 0; i < run->stacking.n; i++)
    if (run->stacking.items[i].fits) sx_text_addf(&key, " %s", run->stacking.items[i].value);
  return sx_text_get(&key);
}

static size_t fitting_values(sx_run *run, const char ***values) {
  size_t n = 0;
  *values = SX_NEW_N(&run->arena, const char *, run->stacking.n + 1);
  for (int i = 0; i < run->stacking.n; i++)
    if (run->stacking.items[i].fits) (*values)[n++] = run->stacking.items[i].value;
  return n;
}

/* "1, 2 or 4 fit in 38.1 GiB", or why it is only 1. */
static const char *words_of(sx_run *run, const char *const *values, size_t n) {
  sx_text words;
  if (run->stacking.refusal) return sx_format(&run->arena, "1: %s", run->stacking.refusal);
  sx_text_init(&words, &run->arena);
  for (size_t i = 0; i < n; i++) sx_text_addf(&words, "%s%s", !i ? "" : i + 1 < n ? ", " : " or ", values[i]);
  sx_text_addf(&words, " fit%s in %.1f GiB", n == 1 ? "s" : "", (double)run->stacking.free_bytes / 1073741824);
  return sx_text_get(&words);
}

static void need_of_plans(needing *n, const sx_offered *pinned) {
  sx_run *run = n->run;
  const sx_backend_calls *calls = run->backend->calls;
  if (!calls->needs) return;
  for (const sx_bound *bound = run->bounds; bound; bound = bound->next_bound)
    calls->needs(run->backend, bound->plan ? bound->plan : bound->unit->plan, tell_need, n, &run->arena);
  for (uint32_t s = 0; pinned && pinned->units && s < run->program->n_stages; s++)
    calls->needs(run->backend, pinned->units[s].plan, tell_need, n, &run->arena);
}

/* The experiment's :recompute as a decision has it; NULL: it states none. */
static const char *stated_budget(sx_run *run) {
  double budget = run->program->recompute;
  return budget < 0 ? NULL : sx_format(&run->arena, "%.15g", budget);
}

static bool check(sx_run *run) {
  const sexp_chooser *chooser = run->options.chooser;
  needing n = {.run = run};
  sexp_failure why = {0};
  const sx_offered *pinned = NULL;
  if (!chooser || !chooser->check) return true;
  const char *stated = stated_budget(run);
  if (stated)
    tell_need(&n, &(sexp_need){.kind = "recompute",
                               .key = "device",
                               .values = &stated,
                               .n_values = 1,
                               .words = "the experiment's :recompute"});
  else
    tell_need(
        &n,
        &(sexp_need){
            .kind = "recompute", .key = "device", .takes = takes_budget, .words = "operations a byte, as measured"});
  const char *recorded = run->stacking.n ? recorded_of(run, "stacking", stacking_key(run)) : NULL;
  if (run->stacking.n > 1 || recorded) { /* a store remembers nothing of a run that has one degree */
    const char **values;
    size_t n_values = fitting_values(run, &values);
    for (int i = 0; recorded && i < run->stacking.n; i++)
      if (!strcmp(run->stacking.items[i].value, recorded)) pinned = &run->stacking.items[i];
    run->stacking.pinned = recorded != NULL;
    tell_need(&n, &(sexp_need){.kind = "stacking",
                               .key = stacking_key(run),
                               .values = values,
                               .n_values = n_values,
                               .words = words_of(run, values, n_values)});
  }
  need_of_plans(&n, pinned);
  if (!chooser->check(chooser->context, n.list.items, n.list.n, &why)) return true;
  sx_report_failure(&run->diags, (sx_span){0}, NULL, &why);
  return false;
}

/* ---- the budget ---- */

static sexp_ran measure_budget(void *work, char *text, size_t n_text) {
  sx_run *run = work;
  return run->backend->calls->measure(run->backend, "recompute", text, n_text, &run->diags) ? SEXP_RAN
                                                                                            : SEXP_RAN_REFUSED;
}

/* A record, which has the same, is asked for it too, since it counts what is taken of it. */
static bool take_stated(sx_run *run, const char *stated, bool recorded) {
  const sexp_choice choice = {.kind = "recompute", .key = "device", .values = &stated, .n_values = 1};
  sexp_decision decision = {choice.kind, choice.key, stated};
  make_plans(run, run->program->recompute);
  if (!check(run)) return false;
  if (recorded) return decide_now(run, &choice) != NULL;
  SX_PUSH(&run->arena, run->decisions, decision);
  return true;
}

bool sx_choose_plans(sx_run *run) {
  double budget = 0, tentative = 0;
  const char *recorded = recorded_of(run, "recompute", "device"), *stated = stated_budget(run);
  if (stated) return take_stated(run, stated, recorded != NULL);
  if (!read_budget(recorded, &tentative)) read_budget(fixed_budget, &tentative);
  make_plans(run, tentative);
  if (!check(run)) return false;
  const sexp_choice choice = {.kind = "recompute", .key = "device", .measure = measure_budget, .work = run};
  const char *text = decide_now(run, &choice);
  if (!text) return false;
  if (!read_budget(text, &budget)) budget = tentative;
  if (budget > tentative || budget < tentative) make_plans(run, budget);
  return true;
}

/* ---- what is kept of the decisions ---- */

static bool is_needed(const needing *n, const sexp_decision *decision) {
  for (size_t i = 0; i < n->list.n; i++)
    if (!strcmp(n->list.items[i].kind, decision->kind) && !strcmp(n->list.items[i].key, decision->key)) return true;
  return !strcmp(decision->kind, "recompute") || !strcmp(decision->kind, "stacking");
}

/* Those of degrees that were tried and not taken are none of the run's. */
static void keep_needed(sx_run *run, const sx_offered *taken) {
  needing n = {.run = run};
  size_t kept = 0;
  if (!run->backend->calls->needs) return;
  need_of_plans(&n, taken);
  for (size_t i = 0; i < run->decisions.n; i++)
    if (is_needed(&n, &run->decisions.items[i])) run->decisions.items[kept++] = run->decisions.items[i];
  run->decisions.n = kept;
}

/* ---- the stacking ---- */

typedef struct trying {
  sx_run *run;
  sx_offered **candidates;
  size_t n_candidates;
  const sx_offered *at_hand; /* whose executables are made */
} trying;

static void unmake_stacked(sx_run *run) {
  for (uint32_t s = 0; s < run->program->n_stages; s++) sx_release_bound(run, &run->stages[s].stacked);
}

static bool make_stacked(sx_run *run, const sx_offered *offered) {
  bool made = true;
  for (uint32_t s = 0; made && offered->units && s < run->program->n_stages; s++) {
    sx_bind_stacked(run, &run->stages[s], &offered->units[s]);
    made = sx_make_bound(run, &run->stages[s].stacked);
  }
  run->degree = offered->degree;
  return made && run->backend->calls->ready(run->backend, &run->diags);
}

/* A failure for lack of memory is told and forgotten; others stay in the run's diagnostics. */
static sexp_ran judge(sx_run *run, bool done, bool lacks_memory, sx_diag_mark mark) {
  if (done) return SEXP_RAN;
  if (!lacks_memory) return SEXP_RAN_REFUSED;
  sx_diags_forget(&run->diags, mark);
  return SEXP_RAN_OUT_OF_MEMORY;
}

/* The executables of one degree at a time are there: those of the next are made when it is run. */
static sexp_ran try_degree(trying *t, const sx_offered *offered) {
  sx_run *run = t->run;
  sx_diag_mark mark = sx_diags_mark(&run->diags);
  if (t->at_hand != offered) {
    unmake_stacked(run);
    t->at_hand = NULL;
    if (!make_stacked(run, offered)) return judge(run, false, true, mark);
    t->at_hand = offered;
  }
  bool done = sx_try_gradients(run);
  return judge(run, done, run->finished == SX_FINISHED_MEMORY, mark);
}

/* What the chooser calls comes back to it, also where the host's memory lacks. */
typedef struct calling {
  trying *t;
  size_t candidate;
  sexp_ran ran;
  double *estimated_ns;
  bool estimated;
} calling;

static void call_run(void *context) {
  calling *c = context;
  c->ran = try_degree(c->t, c->t->candidates[c->candidate]);
}

static sexp_ran run_degree(void *work, size_t candidate) {
  trying *t = work;
  calling c = {.t = t, .candidate = candidate};
  return sx_guard(t->run->memory, call_run, &c) ? c.ran : SEXP_RAN_OUT_OF_MEMORY;
}

static void call_estimate(void *context) {
  calling *c = context;
  c->estimated = sx_estimate_stacking(c->t->run, c->t->candidates, c->t->n_candidates, c->estimated_ns);
}

static bool estimate(void *work, double *estimated_ns) {
  trying *t = work;
  calling c = {.t = t, .estimated_ns = estimated_ns};
  return sx_guard(t->run->memory, call_estimate, &c) && c.estimated;
}

static int64_t now_ns(void *work) {
  sx_run *run = ((trying *)work)->run;
  return run->backend->calls->now_ns(run->backend);
}

bool sx_choose_stacking(sx_run *run) {
  const char **values;
  run->degree = 1;
  if (!run->stacking.n || run->position.step == run->position.stages_steps) return true;
  size_t n = fitting_values(run, &values);
  trying t = {.run = run, .candidates = SX_NEW_N(&run->arena, sx_offered *, n), .n_candidates = n};
  for (int i = 0, k = 0; i < run->stacking.n; i++)
    if (run->stacking.items[i].fits) t.candidates[k++] = &run->stacking.items[i];
  const sexp_choice choice = {.kind = "stacking",
                              .key = stacking_key(run),
                              .values = values,
                              .n_values = n,
                              .estimate = estimate,
                              .run = run_degree,
                              .now_ns = now_ns,
                              .work = &t};
  const char *value = decide_now(run, &choice);
  size_t chosen = 0;
  while (value && chosen < n && strcmp(values[chosen], value)) chosen++;
  if (value && chosen == n)
    sx_error(&run->diags, SX_E_DEVICE_CHOICE, (sx_span){0}, "stacking %s is none of those that fit: %s", value,
             words_of(run, values, n));
  if (!value || chosen == n) return false;
  const sx_offered *taken = t.candidates[chosen];
  if (t.at_hand != taken) unmake_stacked(run);
  if (t.at_hand != taken && !make_stacked(run, taken)) return false;
  keep_needed(run, taken);
  return true;
}

/* ---- products that the device decides by itself ---- */

enum { PRODUCTS_MOST = 64 };
#define PRODUCTS_BYTES (INT64_C(1) << 30)

typedef struct listing {
  sx_run *run;
  int64_t left_bytes;
} listing;

static void list_product(void *context, const char *key, int64_t n_bytes) {
  listing *l = context;
  sx_run *run = l->run;
  if (run->products.n == PRODUCTS_MOST || n_bytes > l->left_bytes) return;
  for (size_t i = 0; i < run->products.n; i++)
    if (!strcmp(run->products.items[i].key, key)) return;
  l->left_bytes -= n_bytes;
  sexp_decision product = {"product", copy(&run->arena, key), "ordinary"};
  SX_PUSH(&run->arena, run->products, product);
}

void sx_list_products(sx_run *run) {
  listing l = {run, PRODUCTS_BYTES};
  const sx_backend_calls *calls = run->backend->calls;
  if (!calls->products) return;
  for (uint32_t s = 0; s < run->program->n_stages; s++)
    if (run->stages[s].stacked.made) calls->products(run->backend, run->stages[s].stacked.made, list_product, &l);
  for (const sx_bound *bound = run->bounds; bound; bound = bound->next_bound)
    if (bound->made) calls->products(run->backend, bound->made, list_product, &l);
}

/* ---- what is told of it ---- */

static void describe_stacking(const sx_run *run, sx_text *text) {
  const sx_stacking *stacking = &run->stacking;
  for (int i = 0; i < stacking->n; i++) {
    const sx_offered *offered = &stacking->items[i];
    sx_text_addf(text, "%-19s %-18s %12.3f MiB, %s%s", i ? "" : "stacking", offered->value,
                 (double)offered->n_bytes / 1048576, offered->fits ? "fits" : "does not fit",
                 offered->degree == run->degree ? ", taken" : "");
    if (offered->estimated_ns > 0) sx_text_addf(text, ", estimated %.3f ms a step", offered->estimated_ns / 1e6);
    sx_text_add(text, "\n");
  }
  if (stacking->refusal)
    sx_text_addf(text, "%-19s not above 1: %s\n", stacking->n ? "" : "stacking", stacking->refusal);
}

static void describe_bound(const sx_run *run, const sx_bound *bound, sx_text *text) {
  if (!bound->made) return;
  sx_text_addf(text, "%s\n", bound->unit->label);
  run->backend->calls->print(run->backend, bound->made, text);
}

const char *sx_describe_run(sx_run *run, const char *what) {
  sx_text text;
  sx_text_init(&text, &run->arena);
  if (run->backend->shares_memory) return NULL;
  if (!strcmp(what, "memory")) {
    sx_describe_memory(run, &text);
  } else if (!strcmp(what, "stacking")) {
    describe_stacking(run, &text);
  } else if (!strcmp(what, "kernels")) {
    for (const sx_bound *bound = run->bounds; bound; bound = bound->next_bound) describe_bound(run, bound, &text);
    for (uint32_t s = 0; s < run->program->n_stages; s++) describe_bound(run, &run->stages[s].stacked, &text);
  } else {
    return NULL;
  }
  return sx_text_get(&text);
}
