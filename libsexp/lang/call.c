/* Arguments: into the slots of a function, into the struct of a builtin, and out of their values. */
#include "call.h"

#include <inttypes.h>
#include <string.h>

#include "names.h"

static sx_span argument_span(const sx_datum *at, uint32_t i, uint32_t n) {
  bool matches = at && at->kind == SX_DATUM_LIST && at->n == n + 1;
  return matches ? at->items[i + 1]->span : sx_head_span(at);
}

static const char *count_phrase(sx_arena *arena, int64_t n) {
  return n == 1 ? "1 argument" : sx_format(arena, "%" PRId64 " arguments", n);
}

/* ---- functions of the language ---- */

static bool is_key_name(const sx_value *value) { return value->kind == SX_KIND_KEYWORD && value->n == 1; }

static const char *function_usage(sx_evaluator *evaluator, const sx_body *body) {
  const sx_datum *form = body->form;
  bool defun = form->kind == SX_DATUM_LIST && form->n > 2 && form->items[1]->kind == SX_DATUM_SYMBOL;
  sx_text text;
  sx_text_init(&text, evaluator->arena);
  sx_text_addf(&text, "(%s", body->name);
  const sx_datum *parameters = form->items[defun ? 2 : 1];
  for (uint32_t i = 0; i < parameters->n; i++) {
    sx_text_add(&text, " ");
    sx_datum_print(&text, parameters->items[i]);
  }
  sx_text_add(&text, ")");
  return sx_text_get(&text);
}

static bool fail_count(sx_evaluator *evaluator, const sx_function *function, uint32_t n, const sx_datum *at) {
  const sx_body *body = function->body;
  sx_diag *diag =
      sx_fail(evaluator, SX_E_EVAL_ARITY, at ? at->span : (sx_span){0, 0, 0}, "%s takes %s%s, got %" PRIu32, body->name,
              body->has_rest ? "at least " : "", count_phrase(evaluator->arena, body->n_positional), n);
  diag->hint = sx_format(evaluator->arena, "it is defined as %s", function_usage(evaluator, body));
  diag->second_span = sx_head_span(body->form);
  diag->second_label = "defined here";
  return false;
}

static const sx_key *find_key(const sx_body *body, const char *name) {
  for (uint32_t i = 0; i < body->n_keys; i++)
    if (strcmp(body->keys[i].name, name) == 0) return &body->keys[i];
  return NULL;
}

static bool fail_unknown_key(sx_evaluator *evaluator, const sx_body *body, const char *name, sx_span span) {
  sx_nearest nearest = sx_nearest_begin(name);
  for (uint32_t i = 0; i < body->n_keys; i++) sx_nearest_add(&nearest, body->keys[i].name);
  sx_diag *diag = sx_fail(evaluator, SX_E_EVAL_KEYWORD, span, "%s takes no keyword :%s", body->name, name);
  diag->hint = nearest.best ? sx_format(evaluator->arena, "did you mean :%s?", nearest.best)
                            : sx_format(evaluator->arena, "it is defined as %s", function_usage(evaluator, body));
  return false;
}

/* Puts keyword arguments into their slots, and what is left together. args: the arguments of the call. */
static bool bind_keys(sx_evaluator *evaluator, const sx_body *body, sx_value *slots, sx_value *args, uint32_t n,
                      uint32_t *n_left, const sx_datum *at) {
  uint32_t left = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (!is_key_name(&args[i])) {
      args[left++] = args[i];
      continue;
    }
    const sx_key *key = find_key(body, args[i].text);
    if (!key) return fail_unknown_key(evaluator, body, args[i].text, argument_span(at, i, n));
    if (slots[key->slot].kind != SX_KIND_NONE) {
      sx_fail(evaluator, SX_E_EVAL_KEYWORD, argument_span(at, i, n), "%s: :%s stands twice", body->name, key->name);
      return false;
    }
    slots[key->slot] = args[++i];
  }
  *n_left = left;
  return true;
}

static bool check_required(sx_evaluator *evaluator, const sx_body *body, const sx_value *slots, const sx_datum *at) {
  for (uint32_t i = 0; i < body->n_keys; i++) {
    const sx_key *key = &body->keys[i];
    if (!key->required || slots[key->slot].kind != SX_KIND_NONE) continue;
    sx_fail(evaluator, SX_E_EVAL_KEYWORD, at ? at->span : (sx_span){0, 0, 0}, "%s needs the keyword :%s", body->name,
            key->name);
    return false;
  }
  return true;
}

bool sx_bind(sx_evaluator *evaluator, const sx_function *function, size_t base, uint32_t n, bool keywords,
             const sx_datum *at) {
  const sx_body *body = function->body;
  sx_value *slots = evaluator->stack + base;
  if (!keywords && !body->n_keys && !body->has_rest)
    return n == body->n_positional ? true : fail_count(evaluator, function, n, at);
  if (!sx_spend(evaluator, n)) return false;
  sx_value *args = SX_NEW_N(evaluator->arena, sx_value, n);
  memcpy(args, slots, n * sizeof *args);
  for (uint32_t i = 0; i < body->n_slots; i++) slots[i] = (sx_value){0};
  uint32_t n_left = n;
  if (keywords && !bind_keys(evaluator, body, slots, args, n, &n_left, at)) return false;
  if (n_left < body->n_positional || (n_left > body->n_positional && !body->has_rest))
    return fail_count(evaluator, function, n_left, at);
  memcpy(slots, args, body->n_positional * sizeof *args);
  if (body->has_rest) slots[body->rest_slot] = sx_list(args + body->n_positional, n_left - body->n_positional);
  return check_required(evaluator, body, slots, at);
}

/* ---- builtins ---- */

bool sx_builtin_key(const sx_builtin *builtin, uint32_t i, const char **name, size_t *n_bytes) {
  const char *at = builtin->usage;
  for (;;) {
    at = strstr(at, " :");
    if (!at) return false;
    at += 2;
    if (i-- == 0) break;
  }
  *name = at;
  *n_bytes = strcspn(at, " )");
  return true;
}

static bool find_builtin_key(const sx_builtin *builtin, const char *word, uint32_t *found) {
  const char *name;
  size_t n_bytes;
  for (uint32_t i = 0; sx_builtin_key(builtin, i, &name, &n_bytes); i++) {
    *found = i;
    if (strncmp(name, word, n_bytes) == 0 && !word[n_bytes]) return true;
  }
  return false;
}

static bool fail_builtin_key(const sx_call *call, const char *word, sx_span span) {
  sx_arena *arena = call->evaluator->arena;
  sx_nearest nearest = sx_nearest_begin(word);
  const char *name;
  size_t n_bytes;
  for (uint32_t i = 0; sx_builtin_key(call->builtin, i, &name, &n_bytes); i++)
    sx_nearest_add(&nearest, sx_arena_copy_text(arena, name, n_bytes));
  sx_diag *diag =
      sx_fail(call->evaluator, SX_E_EVAL_KEYWORD, span, "%s takes no keyword :%s", call->builtin->name, word);
  diag->hint = nearest.best ? sx_format(arena, "did you mean :%s?", nearest.best)
                            : sx_format(arena, "the form is %s", call->builtin->usage);
  return false;
}

/* Takes keyword arguments out of the arguments into call->keys. A builtin without any takes keywords as values. */
static bool take_keys(sx_call *call, uint32_t n_given) {
  const char *name;
  size_t n_bytes;
  bool has_keys = sx_builtin_key(call->builtin, 0, &name, &n_bytes);
  if (!sx_spend(call->evaluator, n_given)) return false;
  sx_value *left = SX_NEW_N(call->evaluator->arena, sx_value, n_given);
  uint32_t n_left = 0;
  for (uint32_t i = 0; i < n_given; i++) {
    sx_value value = call->args[i];
    if (!has_keys || !is_key_name(&value)) {
      if (value.kind == SX_KIND_KEYWORD) value.n = 0;
      left[n_left++] = value;
      continue;
    }
    uint32_t key;
    sx_span span = argument_span(call->at, i, n_given);
    if (!find_builtin_key(call->builtin, value.text, &key)) return fail_builtin_key(call, value.text, span);
    if (call->keys[key].kind != SX_KIND_NONE) {
      sx_fail(call->evaluator, SX_E_EVAL_KEYWORD, span, "%s: :%s stands twice", call->builtin->name, value.text);
      return false;
    }
    call->keys[key] = call->args[++i];
  }
  call->args = left;
  call->n = n_left;
  return true;
}

static bool fail_builtin_count(const sx_call *call) {
  const sx_builtin *builtin = call->builtin;
  sx_arena *arena = call->evaluator->arena;
  const char *takes = builtin->max < 0 ? sx_format(arena, "at least %s", count_phrase(arena, builtin->min))
                      : builtin->min == builtin->max
                          ? count_phrase(arena, builtin->min)
                          : sx_format(arena, "%d to %d arguments", builtin->min, builtin->max);
  sx_diag *diag = sx_fail(call->evaluator, SX_E_EVAL_ARITY, call->at ? call->at->span : (sx_span){0, 0, 0},
                          "%s takes %s, got %" PRIu32, builtin->name, takes, call->n);
  diag->hint = sx_format(arena, "the form is %s", builtin->usage);
  return false;
}

bool sx_call_builtin(sx_evaluator *evaluator, const sx_builtin *builtin, size_t base, uint32_t n, bool keywords,
                     const sx_datum *at, sx_value *result) {
  sx_call call = {.evaluator = evaluator, .builtin = builtin, .at = at, .args = evaluator->stack + base, .n = n};
  if (keywords && !take_keys(&call, n)) return false;
  bool fits = call.n >= (uint32_t)builtin->min && (builtin->max < 0 || call.n <= (uint32_t)builtin->max);
  return fits ? builtin->function(&call, result) : fail_builtin_count(&call);
}

/* ---- complaints ---- */

bool sx_call_fail(const sx_call *call, sx_code code, const char *format, ...) {
  sx_text text;
  sx_text_init(&text, call->evaluator->arena);
  va_list arguments;
  va_start(arguments, format);
  sx_text_vaddf(&text, format, arguments);
  va_end(arguments);
  sx_fail(call->evaluator, code, sx_head_span(call->at), "%s: %s", call->builtin->name, sx_text_get(&text));
  return false;
}

/* The place of the value's argument: the i-th that is no keyword argument, or the one after its keyword. */
static sx_span span_of_value(const sx_call *call, const sx_value *value) {
  const sx_datum *at = call->at;
  sx_span whole = sx_head_span(at);
  if (!at || at->kind != SX_DATUM_LIST) return whole;
  bool is_key = value >= call->keys && value < call->keys + SX_KEYS_MAX;
  bool is_arg = !is_key && value >= call->args && value < call->args + call->n;
  const char *name = "";
  size_t n_bytes;
  bool has_keys = sx_builtin_key(call->builtin, 0, &name, &n_bytes);
  if (is_key) sx_builtin_key(call->builtin, (uint32_t)(value - call->keys), &name, &n_bytes);
  uint32_t position = 0;
  for (uint32_t i = 1; i < at->n; i++) {
    const sx_datum *item = at->items[i];
    if (has_keys && item->kind == SX_DATUM_KEYWORD && i + 1 < at->n) {
      i++;
      if (is_key && strncmp(item->text, name, n_bytes) == 0 && !item->text[n_bytes]) return at->items[i]->span;
      continue;
    }
    if (is_arg && value == &call->args[position]) return item->span;
    position++;
  }
  return whole;
}

bool sx_value_fail(const sx_call *call, const sx_value *value, sx_code code, const char *format, ...) {
  sx_text text;
  sx_text_init(&text, call->evaluator->arena);
  va_list arguments;
  va_start(arguments, format);
  sx_text_vaddf(&text, format, arguments);
  va_end(arguments);
  sx_fail(call->evaluator, code, span_of_value(call, value), "%s: %s", call->builtin->name, sx_text_get(&text));
  return false;
}

bool sx_expected(const sx_call *call, const sx_value *value, const char *what) {
  const char *shown = value->kind == SX_KIND_NONE ? "" : sx_value_show(call->evaluator->arena, value);
  return sx_value_fail(call, value, SX_E_TYPE_ARGUMENT, "expected %s, found %s%s%s", what,
                       sx_kind_phrase((sx_kind)value->kind), *shown ? ", " : "", shown);
}

/* ---- reading ---- */

static const char *with_name(const sx_call *call, const char *what, const char *kind) {
  return what ? sx_format(call->evaluator->arena, "%s for %s", kind, what) : kind;
}

bool sx_get_integer(const sx_call *call, const sx_value *value, const char *what, int64_t *integer) {
  if (value->kind != SX_KIND_INTEGER) return sx_expected(call, value, with_name(call, what, "an integer"));
  *integer = value->integer;
  return true;
}

bool sx_get_range(const sx_call *call, const sx_value *value, const char *what, int64_t lo, int64_t hi,
                  int64_t *integer) {
  if (!sx_get_integer(call, value, what, integer)) return false;
  if (*integer >= lo && *integer <= hi) return true;
  if (hi == INT64_MAX)
    return sx_value_fail(call, value, SX_E_EVAL_VALUE, "%s must be at least %" PRId64 ", found %" PRId64, what, lo,
                         *integer);
  return sx_value_fail(call, value, SX_E_EVAL_VALUE, "%s must lie from %" PRId64 " to %" PRId64 ", found %" PRId64,
                       what, lo, hi, *integer);
}

bool sx_get_number(const sx_call *call, const sx_value *value, const char *what, double *number) {
  if (!sx_is_number(value)) return sx_expected(call, value, with_name(call, what, "a number"));
  *number = sx_number(value);
  return true;
}

bool sx_get_boolean(const sx_call *call, const sx_value *value, const char *what, bool *boolean) {
  if (value->kind != SX_KIND_BOOLEAN) return sx_expected(call, value, with_name(call, what, "true or false"));
  *boolean = value->boolean;
  return true;
}

bool sx_get_text(const sx_call *call, const sx_value *value, const char *what, const char **text) {
  if (!sx_is_text(value)) return sx_expected(call, value, with_name(call, what, "a string"));
  *text = value->text;
  return sx_spend(call->evaluator, strlen(value->text) / SX_STEP_BYTES);
}

bool sx_get_dtype(const sx_call *call, const sx_value *value, sx_dtype *dtype) {
  if (value->kind != SX_KIND_DTYPE) return sx_expected(call, value, "a dtype (f32 bf16 f16 i32 u8 bool)");
  *dtype = value->dtype;
  return true;
}

bool sx_get_list(const sx_call *call, const sx_value *value, const char *what) {
  return value->kind == SX_KIND_LIST || sx_expected(call, value, with_name(call, what, "a list"));
}

bool sx_get_function(const sx_call *call, const sx_value *value, const char *what) {
  bool function = value->kind == SX_KIND_FUNCTION || value->kind == SX_KIND_BUILTIN;
  return function || sx_expected(call, value, with_name(call, what, "a function"));
}

bool sx_get_shape(const sx_call *call, const sx_value *value, int64_t dims[SX_RANK_MAX], int *rank) {
  bool single = value->kind == SX_KIND_INTEGER;
  if (!single && value->kind != SX_KIND_LIST) return sx_expected(call, value, "a shape, a list of sizes");
  const sx_value *sizes = single ? value : value->items;
  uint32_t n = single ? 1 : value->n;
  if (n > SX_RANK_MAX)
    return sx_value_fail(call, value, SX_E_SHAPE_RANK, "%" PRIu32 " axes, at most %d are possible", n,
                         (int)SX_RANK_MAX);
  for (uint32_t i = 0; i < n; i++) {
    if (sizes[i].kind != SX_KIND_INTEGER)
      return sx_value_fail(call, value, SX_E_TYPE_ARGUMENT, "a size is an integer, found %s in %s",
                           sx_value_show(call->evaluator->arena, &sizes[i]),
                           sx_value_show(call->evaluator->arena, value));
    dims[i] = sizes[i].integer;
  }
  *rank = (int)n;
  return true;
}

bool sx_get_axis(const sx_call *call, const sx_value *value, int rank, int *axis) {
  int64_t integer = 0;
  if (!sx_get_integer(call, value, "the axis", &integer)) return false;
  if (integer < -rank || integer >= rank)
    return sx_value_fail(call, value, SX_E_SHAPE_AXIS, "there is no axis %" PRId64 " in a tensor of rank %d", integer,
                         rank);
  *axis = (int)(integer < 0 ? integer + rank : integer);
  return true;
}
