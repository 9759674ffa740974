/* Lists, and questions about the kind of a value. */
#include <inttypes.h>
#include <string.h>

#include "call.h"

/* Pays for a list of n items. */
static bool spend_items(const sx_call *call, uint64_t n) {
  return n > UINT32_MAX ? sx_out_of_budget(call->evaluator) : sx_spend(call->evaluator, n);
}

static bool make_list(sx_call *call, sx_value *result) {
  if (!sx_spend(call->evaluator, call->n)) return false;
  sx_value *items = SX_NEW_N(call->evaluator->arena, sx_value, call->n);
  if (call->n) memcpy(items, call->args, call->n * sizeof *items);
  *result = sx_list(items, call->n);
  return true;
}

static bool fail_empty(const sx_call *call) {
  return sx_value_fail(call, &call->args[0], SX_E_EVAL_INDEX, "the list is empty");
}

static bool first(sx_call *call, sx_value *result) {
  if (!sx_get_list(call, &call->args[0], NULL)) return false;
  if (!call->args[0].n) return fail_empty(call);
  *result = call->args[0].items[0];
  return true;
}

static bool rest(sx_call *call, sx_value *result) {
  if (!sx_get_list(call, &call->args[0], NULL)) return false;
  if (!call->args[0].n) return fail_empty(call);
  *result = sx_list(call->args[0].items + 1, call->args[0].n - 1);
  return true;
}

/* (nth list i), also (nth i list); from the end when i is negative. */
static bool nth(sx_call *call, sx_value *result) {
  bool swapped = call->args[0].kind == SX_KIND_INTEGER;
  const sx_value *list = &call->args[swapped], *index = &call->args[!swapped];
  int64_t i;
  if (!sx_get_list(call, list, NULL) || !sx_get_integer(call, index, "the index", &i)) return false;
  if (i < 0) i += list->n;
  if (i < 0 || i >= list->n)
    return sx_value_fail(call, index, SX_E_EVAL_INDEX, "there is no item %" PRId64 " in a list of %" PRIu32,
                         index->integer, list->n);
  *result = list->items[i];
  return true;
}

static bool length(sx_call *call, sx_value *result) {
  const sx_value *a = &call->args[0];
  if (a->kind != SX_KIND_STRING && a->kind != SX_KIND_LIST) return sx_expected(call, a, "a list or a string");
  int64_t n = 0;
  if (a->kind == SX_KIND_LIST)
    n = a->n;
  else /* characters: all bytes but those that continue one */
    for (const char *c = a->text; *c; c++) n += ((unsigned char)*c & 0xc0) != 0x80;
  *result = sx_integer(n);
  return a->kind == SX_KIND_LIST || sx_spend(call->evaluator, (uint64_t)n / SX_STEP_BYTES);
}

static bool append(sx_call *call, sx_value *result) {
  uint64_t total = 0, at = 0;
  for (uint32_t i = 0; i < call->n; i++) {
    if (!sx_get_list(call, &call->args[i], NULL)) return false;
    total += call->args[i].n;
  }
  if (!spend_items(call, total)) return false;
  sx_value *items = SX_NEW_N(call->evaluator->arena, sx_value, total);
  for (uint32_t i = 0; i < call->n; i++) {
    if (call->args[i].n) memcpy(items + at, call->args[i].items, call->args[i].n * sizeof *items);
    at += call->args[i].n;
  }
  *result = sx_list(items, (uint32_t)total);
  return true;
}

/* (range end), (range begin end), (range begin end step) */
static bool range(sx_call *call, sx_value *result) {
  int64_t numbers[3] = {0, 0, 1};
  for (uint32_t i = 0; i < call->n; i++)
    if (!sx_get_integer(call, &call->args[i], NULL, &numbers[call->n == 1 ? 1 : i])) return false;
  int64_t begin = numbers[0], end = numbers[1], step = numbers[2];
  if (step == 0) return sx_value_fail(call, &call->args[2], SX_E_EVAL_VALUE, "the step is 0");
  bool empty = step > 0 ? end <= begin : end >= begin;
  uint64_t distance = step > 0 ? (uint64_t)end - (uint64_t)begin : (uint64_t)begin - (uint64_t)end;
  uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
  uint64_t n = empty ? 0 : (distance - 1) / stride + 1;
  if (!spend_items(call, n)) return false;
  sx_value *items = SX_NEW_N(call->evaluator->arena, sx_value, n);
  for (uint64_t i = 0; i < n; i++) items[i] = sx_integer((int64_t)((uint64_t)begin + i * (uint64_t)step));
  *result = sx_list(items, (uint32_t)n);
  return true;
}

/* Lists of the first items, of the second ones, up to the end of the shortest. */
static bool zip(sx_call *call, sx_value *result) {
  uint32_t n = UINT32_MAX;
  for (uint32_t i = 0; i < call->n; i++) {
    if (!sx_get_list(call, &call->args[i], NULL)) return false;
    if (call->args[i].n < n) n = call->args[i].n;
  }
  if (!sx_spend(call->evaluator, (uint64_t)n * (call->n + 1))) return false;
  sx_value *rows = SX_NEW_N(call->evaluator->arena, sx_value, n);
  for (uint32_t k = 0; k < n; k++) {
    sx_value *items = SX_NEW_N(call->evaluator->arena, sx_value, call->n);
    for (uint32_t i = 0; i < call->n; i++) items[i] = call->args[i].items[k];
    rows[k] = sx_list(items, call->n);
  }
  *result = sx_list(rows, n);
  return true;
}

/* Whether the argument is of the kind in `op`; FUNCTION stands for BUILTIN as well. */
static bool is_kind(sx_call *call, sx_value *result) {
  uint32_t kind = call->args[0].kind;
  if (kind == SX_KIND_BUILTIN) kind = SX_KIND_FUNCTION;
  *result = sx_boolean(kind == (uint32_t)call->builtin->op);
  return true;
}

static bool is_number(sx_call *call, sx_value *result) {
  *result = sx_boolean(sx_is_number(&call->args[0]));
  return true;
}

const sx_builtin sx_builtins_list[] = {
    {"list", 0, -1, make_list, "(list a b ...)", 0, NULL},
    {"first", 1, 1, first, "(first list)", 0, NULL},
    {"rest", 1, 1, rest, "(rest list)", 0, NULL},
    {"nth", 2, 2, nth, "(nth list i)", 0, NULL},
    {"length", 1, 1, length, "(length list)", 0, NULL},
    {"append", 0, -1, append, "(append list ...)", 0, NULL},
    {"range", 1, 3, range, "(range begin end step)", 0, NULL},
    {"zip", 1, -1, zip, "(zip list ...)", 0, NULL},
    {"apply", 2, -1, NULL, "(apply f a ... list)", 0, NULL}, /* by the machine */
    {"number?", 1, 1, is_number, "(number? x)", 0, NULL},
    {"integer?", 1, 1, is_kind, "(integer? x)", SX_KIND_INTEGER, NULL},
    {"real?", 1, 1, is_kind, "(real? x)", SX_KIND_REAL, NULL},
    {"boolean?", 1, 1, is_kind, "(boolean? x)", SX_KIND_BOOLEAN, NULL},
    {"string?", 1, 1, is_kind, "(string? x)", SX_KIND_STRING, NULL},
    {"symbol?", 1, 1, is_kind, "(symbol? x)", SX_KIND_SYMBOL, NULL},
    {"keyword?", 1, 1, is_kind, "(keyword? x)", SX_KIND_KEYWORD, NULL},
    {"list?", 1, 1, is_kind, "(list? x)", SX_KIND_LIST, NULL},
    {"function?", 1, 1, is_kind, "(function? x)", SX_KIND_FUNCTION, NULL},
    {"dtype?", 1, 1, is_kind, "(dtype? x)", SX_KIND_DTYPE, NULL},
    {"tensor?", 1, 1, is_kind, "(tensor? x)", SX_KIND_TENSOR, NULL},
    {NULL, 0, 0, NULL, NULL, 0, NULL},
};
