/* The loop of the machine. */
#include "machine.h"

#include <string.h>

#include "translate.h"

/* What a condition must be. */
static bool fail_condition(sx_evaluator *evaluator, const sx_value *value, const sx_datum *at) {
  sx_diag *diag = sx_fail(evaluator, SX_E_TYPE_CONDITION, at->span, "a condition is true or false, found %s, %s",
                          sx_kind_phrase((sx_kind)value->kind), sx_value_show(evaluator->arena, value));
  if (value->kind == SX_KIND_TENSOR) diag->hint = "choose by a tensor's elements with (where condition a b)";
  return false;
}

static bool fail_operand(sx_evaluator *evaluator, const sx_value *value, const sx_datum *at) {
  const char *name = at->kind == SX_DATUM_LIST && at->n ? at->items[0]->text : "and";
  sx_fail(evaluator, SX_E_TYPE_ARGUMENT, sx_head_span(at), "%s: expected true, false or a tensor of bool, found %s, %s",
          name, sx_kind_phrase((sx_kind)value->kind), sx_value_show(evaluator->arena, value));
  return false;
}

/* What `and` and `or` take. */
static bool is_logical(const sx_value *value) {
  return value->kind == SX_KIND_BOOLEAN ||
         (value->kind == SX_KIND_TENSOR && sx_node_at(value->graph, value->n)->dtype == SX_BOOL);
}

static bool begin_loop(sx_evaluator *evaluator, sx_value *slots, const sx_instruction *instruction, sx_value list) {
  if (list.kind != SX_KIND_LIST) {
    sx_diag *diag = sx_fail(evaluator, SX_E_TYPE_ARGUMENT, instruction->at->span, "expected a list, found %s, %s",
                            sx_kind_phrase((sx_kind)list.kind), sx_value_show(evaluator->arena, &list));
    if (list.kind == SX_KIND_INTEGER) diag->hint = "count with (range n)";
    return false;
  }
  slots[0] = list;
  slots[1] = sx_integer(0);
  if (instruction->kind != SX_DO_LOOP_BEGIN) return true;
  if (!sx_spend(evaluator, list.n)) return false;
  slots[2] = sx_list(SX_NEW_N(evaluator->arena, sx_value, list.n), 0);
  return true;
}

/* The results of a loop are written in place; nobody else has the list before the loop ends. */
static void yield(sx_value *slots, sx_value value) { ((sx_value *)(uintptr_t)slots[2].items)[slots[2].n++] = value; }

const char *sx_extend_path(sx_evaluator *evaluator, const sx_value *name) {
  const char *path = evaluator->context.path;
  if (sx_is_text(name) && strlen(name->text) > SX_PATH_BYTES) return NULL;
  sx_text text;
  sx_text_init(&text, evaluator->arena);
  if (path[0]) sx_text_addf(&text, "%s/", path);
  sx_value_display(&text, name);
  return text.n > SX_PATH_BYTES ? NULL : sx_intern_text(evaluator->names, sx_text_get(&text));
}

static bool enter_scope(sx_evaluator *evaluator, sx_value *slot, const sx_value *name, const sx_datum *at) {
  bool named = sx_is_text(name) || name->kind == SX_KIND_INTEGER;
  if (!named || (sx_is_text(name) && !name->text[0])) {
    sx_fail(evaluator, SX_E_TYPE_ARGUMENT, at->span, "scope: its name is a text or an integer, found %s, %s",
            sx_kind_phrase((sx_kind)name->kind), sx_value_show(evaluator->arena, name));
    return false;
  }
  *slot = sx_string(evaluator->context.path);
  const char *path = sx_extend_path(evaluator, name);
  if (!path) {
    sx_fail(evaluator, SX_E_EVAL_DEPTH, at->span, "a model path of more than %d bytes", (int)SX_PATH_BYTES);
    return false;
  }
  evaluator->context.path = path;
  return sx_spend(evaluator, strlen(path) / SX_STEP_BYTES + 1);
}

static bool no_clause(sx_evaluator *evaluator, const sx_datum *at) {
  sx_fail(evaluator, SX_E_EVAL_VALUE, sx_head_span(at), "cond: no condition holds, and there is no else")->hint =
      "end it with (else expression)";
  return false;
}

/* Runs until `floor` frames are left; the result of the last one is on the stack's top. */
static bool run(sx_evaluator *evaluator, size_t floor) {
  for (;;) {
    sx_activation *frame = &evaluator->frames.items[evaluator->frames.n - 1];
    const sx_instruction *i = &frame->body->instructions.items[frame->ip++];
    sx_value *slots = evaluator->stack + frame->base, *top = evaluator->stack + evaluator->top;
    if (evaluator->instructions-- <= 0) return sx_out_of_budget(evaluator);
    switch ((sx_instruction_kind)i->kind) {
      case SX_DO_CONST:
        *top = frame->body->constants.items[i->n];
        goto push;
      case SX_DO_LOCAL:
        *top = slots[i->n];
        goto push;
      case SX_DO_CAPTURE:
        *top = frame->captures[i->n];
        goto push;
      case SX_DO_SELF:
        *top = (sx_value){SX_KIND_FUNCTION, 0, {.function = frame->function}};
        goto push;
      case SX_DO_TRAINING:
        *top = sx_boolean(evaluator->context.training);
        goto push;
      case SX_DO_LOOP_END:
        *top = slots[i->slot + 2];
        goto push;
      case SX_DO_GLOBAL:
        if (!sx_global_value(evaluator, i->global, i->at, top)) return false;
        goto push;
      case SX_DO_CLOSURE:
        if (!sx_make_closure(evaluator, frame, frame->body->bodies.items[i->n], top)) return false;
        goto push;
      case SX_DO_STORE:
        slots[i->n] = top[-1];
        goto pop;
      case SX_DO_POP:
        goto pop;
      case SX_DO_JUMP:
        frame->ip = i->n;
        break;
      case SX_DO_JUMP_UNLESS:
        if (top[-1].kind != SX_KIND_BOOLEAN) return fail_condition(evaluator, &top[-1], i->at);
        if (!top[-1].boolean) frame->ip = i->n;
        goto pop;
      case SX_DO_JUMP_SET:
        if (slots[i->slot].kind != SX_KIND_NONE) frame->ip = i->n;
        break;
      case SX_DO_LIST: {
        if (!sx_spend(evaluator, i->n)) return false;
        sx_value *items = SX_NEW_N(evaluator->arena, sx_value, i->n);
        for (uint32_t k = 0; k < i->n; k++) items[k] = top[(int64_t)k - (int64_t)i->n];
        evaluator->top -= i->n;
        evaluator->stack[evaluator->top++] = sx_list(items, i->n);
        break;
      }
      case SX_DO_CALL:
        if (!sx_activate(evaluator, i->n, i->keywords, false, i->at)) return false;
        break;
      case SX_DO_TAIL_CALL:
        if (!sx_activate(evaluator, i->n, i->keywords, true, i->at)) return false;
        break;
      case SX_DO_RETURN:
        evaluator->stack[frame->base - 1] = top[-1];
        evaluator->top = frame->base;
        evaluator->frames.n--;
        if (evaluator->frames.n == floor) return true;
        break;
      case SX_DO_AND_TEST:
      case SX_DO_OR_TEST:
        if (!is_logical(&top[-1])) return fail_operand(evaluator, &top[-1], i->at);
        if (top[-1].kind == SX_KIND_BOOLEAN && top[-1].boolean == (i->kind == SX_DO_OR_TEST)) frame->ip = i->n;
        break;
      case SX_DO_AND_JOIN:
      case SX_DO_OR_JOIN:
        if (!is_logical(&top[-1])) return fail_operand(evaluator, &top[-1], i->at);
        if (!sx_logic_join(evaluator, i->kind == SX_DO_AND_JOIN ? SX_OP_AND : SX_OP_OR, &top[-2], &top[-1], i->at,
                           &top[-2]))
          return false;
        goto pop;
      case SX_DO_LOOP_BEGIN:
      case SX_DO_FOLD_BEGIN:
        if (!begin_loop(evaluator, &slots[i->slot], i, top[-1])) return false;
        goto pop;
      case SX_DO_LOOP_NEXT:
        if (!sx_spend(evaluator, 1)) return false;
        if (slots[i->slot + 1].integer == slots[i->slot].n)
          frame->ip = i->n;
        else
          slots[i->slot + 3] = slots[i->slot].items[slots[i->slot + 1].integer++];
        break;
      case SX_DO_LOOP_YIELD:
        yield(&slots[i->slot], top[-1]);
        goto pop;
      case SX_DO_SCOPE_ENTER:
        if (!enter_scope(evaluator, &slots[i->slot], &top[-1], i->at)) return false;
        goto pop;
      case SX_DO_SCOPE_LEAVE:
        evaluator->context.path = slots[i->slot].text;
        break;
      case SX_DO_NO_CLAUSE:
        return no_clause(evaluator, i->at);
      case SX_DO_FAIL:
        return false;
    }
    continue;
  push:
    evaluator->top++;
    continue;
  pop:
    evaluator->top--;
  }
}

bool sx_apply(sx_evaluator *evaluator, const sx_value *function, const sx_value *args, uint32_t n, sx_value *result) {
  if (evaluator->native_depth >= SX_NATIVE_DEPTH) {
    sx_fail(evaluator, SX_E_EVAL_DEPTH, (sx_span){0, 0, 0}, "graphs within graphs are nested more than %d deep",
            (int)SX_NATIVE_DEPTH);
    return false;
  }
  size_t top = evaluator->top, floor = evaluator->frames.n;
  if (!sx_stack_reserve(evaluator, top, n + 8u)) return false;
  evaluator->stack[evaluator->top++] = *function;
  for (uint32_t i = 0; i < n; i++) evaluator->stack[evaluator->top++] = args[i];
  evaluator->native_depth++;
  bool good = sx_activate(evaluator, n, false, false, sx_at(evaluator));
  bool pushed = good && evaluator->frames.n > floor;
  if (pushed && !floor) evaluator->frames.items[0].call = NULL; /* no call of the language */
  if (pushed) good = run(evaluator, floor);
  evaluator->native_depth--;
  if (good) *result = evaluator->stack[top];
  evaluator->top = top;
  evaluator->frames.n = floor;
  return good;
}

bool sx_run_body(sx_evaluator *evaluator, const sx_body *body, const sx_value *args, uint32_t n, sx_value *result) {
  sx_function *function = SX_NEW(evaluator->arena, sx_function);
  *function = (sx_function){body, NULL};
  sx_value value = {SX_KIND_FUNCTION, 0, {.function = function}};
  return sx_apply(evaluator, &value, args, n, result);
}

bool sx_evaluate_datum(sx_evaluator *evaluator, const sx_datum *expression, sx_value *result) {
  return sx_run_body(evaluator, sx_translate_expression(evaluator, expression, "expression", NULL, 0), NULL, 0, result);
}
