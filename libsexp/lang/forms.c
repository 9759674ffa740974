/* The special forms, as a table of translations. */
#include <string.h>

#include "translate.h"

static bool check(sx_translator *t, const sx_datum *form, bool holds) {
  const char *name = form->items[0]->text;
  if (!holds)
    sx_translate_fail(t, SX_E_EVAL_FORM, form, "malformed %s; the form is %s", name, sx_find_special(name)->usage);
  return holds;
}

static void translate_quote(sx_translator *t, const sx_datum *form, bool tail) {
  (void)tail;
  if (!check(t, form, form->n == 2)) return;
  sx_emit_constant(t, sx_quoted(t->evaluator, form->items[1]), form);
}

static void translate_lambda(sx_translator *t, const sx_datum *form, bool tail) {
  (void)tail;
  if (!check(t, form, form->n >= 3)) return;
  sx_translate_closure(t, form, form->items[1], 2, "lambda", NULL);
}

static void translate_begin(sx_translator *t, const sx_datum *form, bool tail) {
  if (!check(t, form, form->n >= 2)) return;
  sx_translate_body(t, form, 1, tail);
}

/* Sequential: each expression sees the names before it. */
static void translate_let(sx_translator *t, const sx_datum *form, bool tail) {
  const sx_datum *list = form->n >= 3 ? form->items[1] : form;
  if (!check(t, form, form->n >= 3 && (list->kind == SX_DATUM_LIST || list->kind == SX_DATUM_VECTOR))) return;
  sx_mark mark = sx_mark_names(t);
  for (uint32_t i = 0; i < list->n; i++) {
    const sx_datum *pair = list->items[i];
    bool good = pair->kind == SX_DATUM_LIST && pair->n == 2 && pair->items[0]->kind == SX_DATUM_SYMBOL;
    if (!good) {
      sx_translate_fail(t, SX_E_EVAL_FORM, pair, "let binds names as (name expression)");
      continue;
    }
    sx_translate(t, pair->items[1], false);
    uint16_t slot = sx_take_slots(t, 1, pair);
    sx_emit(t, SX_DO_STORE, slot, pair);
    sx_bind_name(t, pair->items[0]->text, slot);
  }
  sx_translate_body(t, form, 2, tail);
  sx_release_names(t, mark);
}

static void translate_if(sx_translator *t, const sx_datum *form, bool tail) {
  if (!check(t, form, form->n == 4)) return;
  sx_translate(t, form->items[1], false);
  uint32_t otherwise = sx_emit(t, SX_DO_JUMP_UNLESS, 0, form->items[1]);
  uint32_t depth = t->depth;
  sx_translate(t, form->items[2], tail);
  uint32_t end = sx_emit(t, SX_DO_JUMP, 0, form);
  sx_land(t, otherwise);
  t->depth = depth;
  sx_translate(t, form->items[3], tail);
  sx_land(t, end);
}

static bool is_else(const sx_datum *datum) {
  return datum->kind == SX_DATUM_SYMBOL && strcmp(datum->text, "else") == 0;
}

/* (cond (c e...)... (else e...)): without else, no clause that holds is an error when it happens. */
static void translate_cond(sx_translator *t, const sx_datum *form, bool tail) {
  if (!check(t, form, form->n >= 2)) return;
  uint32_t *ends = SX_NEW_N(t->evaluator->arena, uint32_t, form->n), n_ends = 0, depth = t->depth;
  bool closed = false;
  for (uint32_t i = 1; i < form->n && !closed; i++) {
    const sx_datum *clause = form->items[i];
    if (!check(t, form, clause->kind == SX_DATUM_LIST && clause->n >= 2)) return;
    closed = is_else(clause->items[0]);
    if (closed && !check(t, form, i + 1 == form->n)) return;
    uint32_t next = 0;
    if (!closed) {
      sx_translate(t, clause->items[0], false);
      next = sx_emit(t, SX_DO_JUMP_UNLESS, 0, clause->items[0]);
    }
    sx_translate_body(t, clause, 1, tail);
    if (closed) break;
    ends[n_ends++] = sx_emit(t, SX_DO_JUMP, 0, clause);
    sx_land(t, next);
    t->depth = depth;
  }
  if (!closed) sx_emit(t, SX_DO_NO_CLAUSE, 0, form);
  for (uint32_t i = 0; i < n_ends; i++) sx_land(t, ends[i]);
}

/* Short-circuit on compile-time booleans; from the first tensor on it is a tensor operation. */
static void translate_logic(sx_translator *t, const sx_datum *form, sx_instruction_kind test,
                            sx_instruction_kind join) {
  if (!check(t, form, form->n >= 2)) return;
  uint32_t *ends = SX_NEW_N(t->evaluator->arena, uint32_t, form->n), n_ends = 0;
  sx_translate(t, form->items[1], false);
  for (uint32_t i = 2; i < form->n; i++) {
    ends[n_ends++] = sx_emit(t, test, 0, form);
    sx_translate(t, form->items[i], false);
    sx_emit(t, join, 0, form);
  }
  /* the last operand's kind is checked as well */
  ends[n_ends++] = sx_emit(t, test, 0, form);
  for (uint32_t i = 0; i < n_ends; i++) sx_land(t, ends[i]);
}

static void translate_and(sx_translator *t, const sx_datum *form, bool tail) {
  (void)tail;
  translate_logic(t, form, SX_DO_AND_TEST, SX_DO_AND_JOIN);
}

static void translate_or(sx_translator *t, const sx_datum *form, bool tail) {
  (void)tail;
  translate_logic(t, form, SX_DO_OR_TEST, SX_DO_OR_JOIN);
}

enum { LOOP_SLOTS = 4 }; /* list, index, results, item */

/* (for (i list) body...) */
static void translate_for(sx_translator *t, const sx_datum *form, bool tail) {
  (void)tail;
  const sx_datum *head = form->n >= 3 ? form->items[1] : form;
  if (!check(t, form,
             form->n >= 3 && head->kind == SX_DATUM_LIST && head->n == 2 && head->items[0]->kind == SX_DATUM_SYMBOL))
    return;
  sx_mark mark = sx_mark_names(t);
  sx_translate(t, head->items[1], false);
  uint16_t slot = sx_take_slots(t, LOOP_SLOTS, form);
  sx_emit_slot(t, SX_DO_LOOP_BEGIN, slot, 0, head->items[1]);
  sx_bind_name(t, head->items[0]->text, (uint16_t)(slot + 3));
  uint32_t next = sx_emit_slot(t, SX_DO_LOOP_NEXT, slot, 0, form);
  sx_translate_body(t, form, 2, false);
  sx_emit_slot(t, SX_DO_LOOP_YIELD, slot, 0, form);
  sx_emit(t, SX_DO_JUMP, next, form);
  sx_land(t, next);
  sx_emit_slot(t, SX_DO_LOOP_END, slot, 0, form);
  sx_release_names(t, mark);
}

/* (fold f init list) */
static void translate_fold(sx_translator *t, const sx_datum *form, bool tail) {
  (void)tail;
  if (!check(t, form, form->n == 4)) return;
  sx_mark mark = sx_mark_names(t);
  uint16_t slot = sx_take_slots(t, LOOP_SLOTS + 2, form);
  uint16_t function = (uint16_t)(slot + LOOP_SLOTS), result = (uint16_t)(function + 1);
  sx_translate(t, form->items[1], false);
  sx_emit(t, SX_DO_STORE, function, form->items[1]);
  sx_translate(t, form->items[2], false);
  sx_emit(t, SX_DO_STORE, result, form->items[2]);
  sx_translate(t, form->items[3], false);
  sx_emit_slot(t, SX_DO_FOLD_BEGIN, slot, 0, form->items[3]);
  uint32_t next = sx_emit_slot(t, SX_DO_LOOP_NEXT, slot, 0, form);
  sx_emit(t, SX_DO_LOCAL, function, form);
  sx_emit(t, SX_DO_LOCAL, result, form);
  sx_emit(t, SX_DO_LOCAL, slot + 3u, form);
  sx_emit(t, SX_DO_CALL, 2, form);
  sx_emit(t, SX_DO_STORE, result, form);
  sx_emit(t, SX_DO_JUMP, next, form);
  sx_land(t, next);
  sx_emit(t, SX_DO_LOCAL, result, form);
  sx_release_names(t, mark);
}

/* (scope name body...) */
static void translate_scope(sx_translator *t, const sx_datum *form, bool tail) {
  (void)tail;
  if (!check(t, form, form->n >= 3)) return;
  sx_mark mark = sx_mark_names(t);
  sx_translate(t, form->items[1], false);
  uint16_t slot = sx_take_slots(t, 1, form);
  sx_emit_slot(t, SX_DO_SCOPE_ENTER, slot, 0, form->items[1]);
  sx_translate_body(t, form, 2, false);
  sx_emit_slot(t, SX_DO_SCOPE_LEAVE, slot, 0, form);
  sx_release_names(t, mark);
}

const sx_special_form sx_special_forms[] = {
    {"def", NULL, "(def name expression)"},
    {"defun", NULL, "(defun name (parameter ...) body ...)"},
    {"lambda", translate_lambda, "(lambda (parameter ...) body ...)"},
    {"let", translate_let, "(let ((name expression) ...) body ...)"},
    {"if", translate_if, "(if condition then else)"},
    {"cond", translate_cond, "(cond (condition expression ...) ... (else expression ...))"},
    {"and", translate_and, "(and a b ...)"},
    {"or", translate_or, "(or a b ...)"},
    {"for", translate_for, "(for (name list) body ...)"},
    {"fold", translate_fold, "(fold f init list)"},
    {"begin", translate_begin, "(begin expression ...)"},
    {"scope", translate_scope, "(scope name body ...)"},
    {"quote", translate_quote, "(quote datum)"},
    {"include", NULL, "(include \"path\")"},
    {"defknob", NULL, "(defknob name default :doc \"...\" :min a :max b)"},
    {"defvariant", NULL, "(defvariant name :knob value ...)"},
    {"defdata", NULL, "(defdata name :source (...) ...)"},
    {"defrun", NULL, "(defrun name :loss expression :steps n ...)"},
    {"defeval", NULL, "(defeval name :run run :data data :metrics ((\"name\" expression) ...) ...)"},
    {"defgenerator", NULL, "(defgenerator name :fields ((name [size ...] dtype) ...) ...)"},
    {NULL, NULL, NULL},
};
