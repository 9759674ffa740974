/* Calls: frames for functions, results of builtins; and the way from C into the machine. */
#include <string.h>

#include "machine.h"
#include "names.h"
#include "translate.h"

enum { FIRST_ROOM = 1024 };

void sx_machine_begin(sx_evaluator *evaluator) {
  evaluator->room = FIRST_ROOM;
  evaluator->stack = SX_NEW_N(evaluator->arena, sx_value, FIRST_ROOM);
}

static bool too_deep(sx_evaluator *evaluator, const char *what) {
  sx_fail(evaluator, SX_E_EVAL_DEPTH, (sx_span){0, 0, 0}, "%s", what)->hint =
      "a function that calls itself last needs no depth";
  return false;
}

bool sx_stack_reserve(sx_evaluator *evaluator, size_t top, size_t n) {
  size_t need = top + n;
  if (need <= evaluator->room) return true;
  if (need > SX_STACK_VALUES) return too_deep(evaluator, "calls hold too many values at once");
  size_t room = evaluator->room;
  while (room < need) room *= 2;
  sx_value *stack = SX_NEW_N(evaluator->arena, sx_value, room);
  memcpy(stack, evaluator->stack, evaluator->top * sizeof *stack);
  evaluator->stack = stack;
  evaluator->room = room;
  return true;
}

static void undefined_name(sx_evaluator *evaluator, const sx_global *global, const sx_datum *at) {
  sx_diag *diag = sx_fail(evaluator, SX_E_EVAL_EARLY, at->span, "%s is used before its definition", global->name);
  if (!global->definition) return;
  diag->second_span = sx_head_span(global->definition);
  diag->second_label = "defined here";
}

bool sx_global_value(sx_evaluator *evaluator, sx_global *global, const sx_datum *at, sx_value *value) {
  if (global->lazy) {
    const sx_datum *form = global->lazy;
    global->lazy = NULL;
    sx_function *function = SX_NEW(evaluator->arena, sx_function);
    function->body = sx_translate_defun(evaluator, form);
    global->value = (sx_value){SX_KIND_FUNCTION, 0, {.function = function}};
  }
  *value = global->value;
  if (value->kind != SX_KIND_NONE) return true;
  if (!global->poisoned) undefined_name(evaluator, global, at);
  return false;
}

bool sx_make_closure(sx_evaluator *evaluator, const sx_activation *frame, const sx_body *body, sx_value *closure) {
  size_t n = body->captures.n;
  if (!sx_spend(evaluator, n + 1)) return false;
  sx_function *function = SX_NEW(evaluator->arena, sx_function);
  sx_value *captures = SX_NEW_N(evaluator->arena, sx_value, n);
  for (size_t i = 0; i < n; i++) {
    const sx_capture *from = &body->captures.items[i];
    captures[i] = from->kind == SX_DO_LOCAL     ? evaluator->stack[frame->base + from->n]
                  : from->kind == SX_DO_CAPTURE ? frame->captures[from->n]
                                                : (sx_value){SX_KIND_FUNCTION, 0, {.function = frame->function}};
  }
  *function = (sx_function){body, captures};
  *closure = (sx_value){SX_KIND_FUNCTION, 0, {.function = function}};
  return true;
}

/* A frame whose arguments lie from base on; `reuse`: in place of the top frame. */
static bool push_frame(sx_evaluator *evaluator, const sx_function *function, size_t base, const sx_datum *at,
                       bool reuse) {
  const sx_body *body = function->body;
  sx_activation frame = {.body = body, .captures = function->captures, .function = function, .base = base, .call = at};
  const sx_activation *caller = evaluator->frames.n ? &evaluator->frames.items[evaluator->frames.n - 1] : NULL;
  if (body->prelude) {
    bool nested = caller && caller->body->prelude;
    frame.user = nested ? caller->user : at;
    frame.entry = nested ? caller->entry : body->name;
  }
  if (reuse) {
    evaluator->frames.items[evaluator->frames.n - 1] = frame;
  } else {
    if (evaluator->frames.n >= SX_CALL_DEPTH)
      return too_deep(evaluator, sx_format(evaluator->arena, "calls are nested more than %d deep", (int)SX_CALL_DEPTH));
    SX_PUSH(evaluator->arena, evaluator->frames, frame);
  }
  evaluator->top = base + body->n_slots;
  return true;
}

static bool call_function(sx_evaluator *evaluator, const sx_function *function, uint32_t n, bool keywords, bool tail,
                          const sx_datum *at) {
  size_t base = evaluator->top - n;
  if (function->body->poisoned) return false;
  if (!sx_stack_reserve(evaluator, base, (n > function->body->n_stack ? n : function->body->n_stack) + 8)) return false;
  if (!sx_bind(evaluator, function, base, n, keywords, at)) return false;
  bool reuse = tail && evaluator->frames.n > SX_TAIL_DEPTH;
  if (!reuse) return push_frame(evaluator, function, base, at, false);
  /* The function and the arguments of the frame that ends are overwritten. */
  size_t end = evaluator->frames.items[evaluator->frames.n - 1].base;
  memmove(evaluator->stack + end, evaluator->stack + base, function->body->n_slots * sizeof *evaluator->stack);
  return push_frame(evaluator, function, end, at, true);
}

/* (apply f a ... list): the list's items become arguments. */
static bool spread(sx_evaluator *evaluator, const sx_builtin *builtin, uint32_t *n, const sx_datum *at) {
  sx_call call = {.evaluator = evaluator, .builtin = builtin, .at = at};
  call.args = evaluator->stack + evaluator->top - *n;
  call.n = *n;
  if (*n < 2)
    return sx_call_fail(&call, SX_E_EVAL_ARITY, "takes a function and a list, the form is %s", builtin->usage);
  sx_value list = call.args[*n - 1];
  if (!sx_get_list(&call, &call.args[*n - 1], "the last argument")) return false;
  if (!sx_spend(evaluator, list.n) || !sx_stack_reserve(evaluator, evaluator->top, list.n + 8u)) return false;
  sx_value *args = evaluator->stack + evaluator->top - *n; /* the function itself moves below them */
  memmove(args - 1, args, (*n - 1) * sizeof *args);
  if (list.n) memcpy(args + *n - 2, list.items, list.n * sizeof *args);
  evaluator->top = evaluator->top - 2 + list.n;
  *n = *n - 2 + list.n;
  return true;
}

bool sx_activate(sx_evaluator *evaluator, uint32_t n, bool keywords, bool tail, const sx_datum *at) {
  if (!sx_spend(evaluator, 1)) return false;
  for (;;) {
    sx_value callee = evaluator->stack[evaluator->top - n - 1];
    if (callee.kind == SX_KIND_FUNCTION) return call_function(evaluator, callee.function, n, keywords, tail, at);
    if (callee.kind != SX_KIND_BUILTIN) {
      sx_fail(evaluator, SX_E_EVAL_CALL, sx_head_span(at), "%s is no function: %s",
              sx_kind_phrase((sx_kind)callee.kind), sx_value_show(evaluator->arena, &callee));
      return false;
    }
    if (callee.builtin->function) {
      size_t base = evaluator->top - n;
      sx_value result = {0};
      if (!sx_call_builtin(evaluator, callee.builtin, base, n, keywords, at, &result)) return false;
      evaluator->top = base;
      evaluator->stack[base - 1] = result;
      return true;
    }
    if (!spread(evaluator, callee.builtin, &n, at)) return false;
    keywords = false;
  }
}
