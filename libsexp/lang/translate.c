#include "translate.h"

#include <string.h>

#include "names.h"

/* ---- emitting ---- */

/* What an instruction adds to the temporaries; CALL and LIST depend on their count. */
static const int8_t effects[] = {
    [SX_DO_CONST] = 1,       [SX_DO_LOCAL] = 1,        [SX_DO_CAPTURE] = 1,     [SX_DO_SELF] = 1,
    [SX_DO_GLOBAL] = 1,      [SX_DO_TRAINING] = 1,     [SX_DO_STORE] = -1,      [SX_DO_POP] = -1,
    [SX_DO_JUMP] = 0,        [SX_DO_JUMP_UNLESS] = -1, [SX_DO_JUMP_SET] = 0,    [SX_DO_CLOSURE] = 1,
    [SX_DO_LIST] = 1,        [SX_DO_CALL] = 0,         [SX_DO_TAIL_CALL] = 0,   [SX_DO_RETURN] = -1,
    [SX_DO_AND_TEST] = 0,    [SX_DO_OR_TEST] = 0,      [SX_DO_AND_JOIN] = -1,   [SX_DO_OR_JOIN] = -1,
    [SX_DO_LOOP_BEGIN] = -1, [SX_DO_FOLD_BEGIN] = -1,  [SX_DO_LOOP_NEXT] = 0,   [SX_DO_LOOP_YIELD] = -1,
    [SX_DO_LOOP_END] = 1,    [SX_DO_SCOPE_ENTER] = -1, [SX_DO_SCOPE_LEAVE] = 0, [SX_DO_NO_CLAUSE] = 1,
    [SX_DO_FAIL] = 0,
};

uint32_t sx_emit_slot(sx_translator *t, sx_instruction_kind kind, uint16_t slot, uint32_t n, const sx_datum *at) {
  sx_instruction instruction = {.kind = (uint8_t)kind, .slot = slot, .n = n, .at = at};
  SX_PUSH(t->evaluator->arena, t->body->instructions, instruction);
  bool counted = kind == SX_DO_LIST || kind == SX_DO_CALL || kind == SX_DO_TAIL_CALL;
  int64_t depth = (int64_t)t->depth + effects[kind] - (counted ? (int64_t)n : 0);
  t->depth = depth < 0 ? 0 : (uint32_t)depth;
  if (t->depth > t->deepest) t->deepest = t->depth;
  return (uint32_t)t->body->instructions.n - 1;
}

uint32_t sx_emit(sx_translator *t, sx_instruction_kind kind, uint32_t n, const sx_datum *at) {
  return sx_emit_slot(t, kind, 0, n, at);
}

void sx_emit_constant(sx_translator *t, sx_value value, const sx_datum *at) {
  SX_PUSH(t->evaluator->arena, t->body->constants, value);
  sx_emit(t, SX_DO_CONST, (uint32_t)t->body->constants.n - 1, at);
}

void sx_land(sx_translator *t, uint32_t jump) {
  t->body->instructions.items[jump].n = (uint32_t)t->body->instructions.n;
}

void sx_translate_fail(sx_translator *t, sx_code code, const sx_datum *at, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  sx_vfail(t->evaluator, code, at->span, format, arguments);
  va_end(arguments);
  t->failed = true;
}

/* ---- names ---- */

uint16_t sx_take_slots(sx_translator *t, uint32_t n, const sx_datum *at) {
  if (t->next_slot + n > SX_SLOTS_MAX) {
    if (!t->failed)
      sx_translate_fail(t, SX_E_EVAL_SIZE, at, "a function with more than %d local names", (int)SX_SLOTS_MAX);
    t->failed = true;
    return 0;
  }
  uint16_t slot = (uint16_t)t->next_slot;
  t->next_slot += n;
  if (t->next_slot > t->body->n_slots) t->body->n_slots = t->next_slot;
  return slot;
}

void sx_bind_name(sx_translator *t, const char *name, uint16_t slot) {
  SX_PUSH(t->evaluator->arena, t->bindings, ((sx_binding){name, slot, -1}));
}

sx_mark sx_mark_names(const sx_translator *t) { return (sx_mark){t->bindings.n, t->next_slot}; }

void sx_release_names(sx_translator *t, sx_mark mark) {
  t->bindings.n = mark.n_bindings;
  t->next_slot = mark.next_slot;
}

static uint16_t capture(sx_translator *t, const char *name, sx_capture from) {
  sx_body *body = t->body;
  for (size_t i = 0; i < body->captures.n; i++)
    if (body->capture_names.items[i] == name && body->captures.items[i].kind == from.kind &&
        body->captures.items[i].n == from.n)
      return (uint16_t)i;
  SX_PUSH(t->evaluator->arena, body->captures, from);
  SX_PUSH(t->evaluator->arena, body->capture_names, name);
  return (uint16_t)(body->captures.n - 1);
}

/* Where a local name is: LOCAL, CAPTURE or SELF; false: it is none. */
static bool find_local(sx_translator *t, const char *name, sx_capture *found) {
  for (size_t i = t->bindings.n; i-- > 0;) {
    const sx_binding *binding = &t->bindings.items[i];
    if (binding->name != name) continue;
    if (binding->parameter >= 0) t->body->used[binding->parameter] = true;
    *found = (sx_capture){SX_DO_LOCAL, binding->slot};
    return true;
  }
  if (t->self == name) {
    *found = (sx_capture){SX_DO_SELF, 0};
    return true;
  }
  sx_capture outer;
  if (!t->outer || !find_local(t->outer, name, &outer)) return false;
  *found = (sx_capture){SX_DO_CAPTURE, capture(t, name, outer)};
  return true;
}

static void unknown_name(sx_translator *t, const sx_datum *datum) {
  t->failed = true;
  sx_diag *diag = sx_fail(t->evaluator, SX_E_EVAL_NAME, datum->span, "unknown name %s", datum->text);
  if (sx_too_many_errors(t->evaluator)) return;
  sx_nearest nearest = sx_nearest_begin(datum->text);
  for (sx_translator *at = t; at; at = at->outer)
    for (size_t i = 0; i < at->bindings.n; i++) sx_nearest_add(&nearest, at->bindings.items[i].name);
  sx_nearest_add_names(&nearest, t->evaluator);
  const char *hint = sx_nearest_hint(&nearest, t->evaluator->arena);
  if (hint) diag->hint = hint;
}

static void translate_symbol(sx_translator *t, const sx_datum *datum) {
  sx_capture found;
  if (find_local(t, datum->text, &found)) {
    sx_emit(t, (sx_instruction_kind)found.kind, found.n, datum);
    return;
  }
  sx_global *global = sx_names_find(t->evaluator, datum->text, t->body->prelude);
  if (global) {
    uint32_t i = sx_emit(t, SX_DO_GLOBAL, 0, datum);
    t->body->instructions.items[i].global = global;
  } else if (strcmp(datum->text, "training?") == 0) {
    sx_emit(t, SX_DO_TRAINING, 0, datum);
  } else if (sx_find_special(datum->text)) {
    sx_translate_fail(t, SX_E_EVAL_FORM, datum, "%s is a special form and no value", datum->text);
  } else {
    unknown_name(t, datum);
  }
}

const sx_special_form *sx_find_special(const char *name) {
  for (const sx_special_form *form = sx_special_forms; form->name; form++)
    if (strcmp(form->name, name) == 0) return form;
  return NULL;
}

/* ---- calls ---- */

/* :init of the builtin param is evaluated later, in a graph of its own: it becomes (lambda (shape) ...). */
static bool is_delayed(const sx_translator *t, const sx_datum *form, uint32_t i) {
  const sx_datum *head = form->items[0], *keyword = form->items[i - 1];
  if (head->kind != SX_DATUM_SYMBOL || strcmp(head->text, "param") != 0) return false;
  if (keyword->kind != SX_DATUM_KEYWORD || strcmp(keyword->text, "init") != 0) return false;
  const sx_global *global = sx_names_find(t->evaluator, head->text, t->body->prelude);
  return global && global->value.kind == SX_KIND_BUILTIN;
}

static void translate_delayed(sx_translator *t, const sx_datum *datum) {
  sx_datum *name = SX_NEW(t->evaluator->arena, sx_datum), *list = SX_NEW(t->evaluator->arena, sx_datum),
           *form = SX_NEW(t->evaluator->arena, sx_datum);
  const sx_datum **items = SX_NEW_N(t->evaluator->arena, const sx_datum *, 3);
  *name =
      (sx_datum){.kind = SX_DATUM_SYMBOL, .span = datum->span, .text = sx_intern_text(t->evaluator->names, "shape")};
  items[0] = name;
  items[1] = list;
  items[2] = datum;
  *list = (sx_datum){.kind = SX_DATUM_LIST, .span = datum->span, .items = items, .n = 1};
  *form = (sx_datum){.kind = SX_DATUM_LIST, .span = datum->span, .items = items + 1, .n = 2};
  sx_translate_closure(t, form, list, 1, ":init", NULL);
}

static void translate_call(sx_translator *t, const sx_datum *form, bool tail) {
  bool keywords = false;
  sx_translate(t, form->items[0], false);
  for (uint32_t i = 1; i < form->n; i++) {
    const sx_datum *argument = form->items[i];
    if (argument->kind == SX_DATUM_KEYWORD && i + 1 < form->n) {
      sx_emit_constant(t, (sx_value){SX_KIND_KEYWORD, 1, {.text = argument->text}}, argument);
      keywords = true;
      argument = form->items[++i];
      if (is_delayed(t, form, i)) {
        translate_delayed(t, argument);
        continue;
      }
    }
    sx_translate(t, argument, false);
  }
  uint32_t call = sx_emit(t, tail ? SX_DO_TAIL_CALL : SX_DO_CALL, form->n - 1, form);
  t->body->instructions.items[call].keywords = keywords;
}

static void translate_list(sx_translator *t, const sx_datum *form, bool tail) {
  if (!form->n) {
    sx_translate_fail(t, SX_E_EVAL_FORM, form, "an empty call; the empty list is written []");
    return;
  }
  const sx_datum *head = form->items[0];
  if (head->kind == SX_DATUM_SYMBOL) {
    sx_capture found;
    const sx_special_form *special = find_local(t, head->text, &found) ? NULL : sx_find_special(head->text);
    if (special && !special->translate) {
      sx_translate_fail(t, SX_E_EVAL_PLACE, form, "%s stands at the top level of a file only", head->text);
      return;
    }
    if (special) {
      uint32_t depth = t->depth;
      special->translate(t, form, tail);
      t->depth = depth + 1; /* also after a mistake */
      return;
    }
    if (form->n == 1 && strcmp(head->text, "training?") == 0) {
      translate_symbol(t, head);
      return;
    }
  }
  translate_call(t, form, tail);
}

/* ---- expressions ---- */

sx_value sx_quoted(sx_evaluator *evaluator, const sx_datum *datum) {
  switch (datum->kind) {
    case SX_DATUM_INTEGER:
      return sx_integer(datum->integer);
    case SX_DATUM_REAL:
      return sx_real(datum->real);
    case SX_DATUM_BOOLEAN:
      return sx_boolean(datum->boolean);
    case SX_DATUM_STRING:
      return sx_string(datum->text);
    case SX_DATUM_SYMBOL:
      return (sx_value){SX_KIND_SYMBOL, 0, {.text = datum->text}};
    case SX_DATUM_KEYWORD:
      return (sx_value){SX_KIND_KEYWORD, 0, {.text = datum->text}};
    default:
      break;
  }
  if (datum->kind == SX_DATUM_QUOTE) return sx_quoted(evaluator, datum->items[0]);
  sx_value *items = SX_NEW_N(evaluator->arena, sx_value, datum->n);
  for (uint32_t i = 0; i < datum->n; i++) items[i] = sx_quoted(evaluator, datum->items[i]);
  return sx_list(items, datum->n);
}

void sx_translate(sx_translator *t, const sx_datum *datum, bool tail) {
  switch (datum->kind) {
    case SX_DATUM_SYMBOL:
      translate_symbol(t, datum);
      break;
    case SX_DATUM_LIST:
      translate_list(t, datum, tail);
      break;
    case SX_DATUM_VECTOR:
      for (uint32_t i = 0; i < datum->n; i++) sx_translate(t, datum->items[i], false);
      sx_emit(t, SX_DO_LIST, datum->n, datum);
      break;
    case SX_DATUM_QUOTE:
      sx_emit_constant(t, sx_quoted(t->evaluator, datum->items[0]), datum);
      break;
    default:
      sx_emit_constant(t, sx_quoted(t->evaluator, datum), datum);
      break;
  }
}

static bool is_form(const sx_datum *datum, const char *name) {
  return datum->kind == SX_DATUM_LIST && datum->n && datum->items[0]->kind == SX_DATUM_SYMBOL &&
         strcmp(datum->items[0]->text, name) == 0;
}

/* A definition inside a body: a local name from here to its end. */
static bool translate_local_definition(sx_translator *t, const sx_datum *datum) {
  bool def = is_form(datum, "def"), defun = is_form(datum, "defun");
  if (!def && !defun) return false;
  if (datum->n < 3 || datum->items[1]->kind != SX_DATUM_SYMBOL || (def && datum->n != 3)) {
    sx_translate_fail(t, SX_E_EVAL_FORM, datum, "malformed %s; the form is %s", datum->items[0]->text,
                      sx_find_special(datum->items[0]->text)->usage);
    return true;
  }
  const char *name = datum->items[1]->text;
  if (def)
    sx_translate(t, datum->items[2], false);
  else
    sx_translate_closure(t, datum, datum->items[2], 3, name, name);
  uint16_t slot = sx_take_slots(t, 1, datum);
  sx_bind_name(t, name, slot);
  sx_emit(t, SX_DO_STORE, slot, datum);
  return true;
}

void sx_translate_body(sx_translator *t, const sx_datum *form, uint32_t first, bool tail) {
  if (first >= form->n) {
    sx_translate_fail(t, SX_E_EVAL_FORM, form, "a body without an expression");
    return;
  }
  sx_mark mark = sx_mark_names(t);
  for (uint32_t i = first; i < form->n; i++) {
    bool last = i + 1 == form->n;
    if (translate_local_definition(t, form->items[i])) {
      if (last)
        sx_translate_fail(t, SX_E_EVAL_FORM, form->items[i], "a body ends with an expression, not a definition");
      continue;
    }
    sx_translate(t, form->items[i], tail && last);
    if (!last) sx_emit(t, SX_DO_POP, 0, form->items[i]);
  }
  sx_release_names(t, mark);
}

/* ---- functions ---- */

static const char *interned_amp(const sx_datum *datum) {
  return datum->kind == SX_DATUM_SYMBOL && datum->text[0] == '&' ? datum->text : NULL;
}

static bool is_bound(const sx_translator *t, const char *name) {
  for (size_t i = 0; i < t->bindings.n; i++)
    if (t->bindings.items[i].name == name) return true;
  return false;
}

/* Binds a parameter to the next slot. */
static uint16_t add_parameter(sx_translator *t, const sx_datum *name) {
  if (name->kind != SX_DATUM_SYMBOL) {
    sx_translate_fail(t, SX_E_EVAL_FORM, name, "a parameter is a name");
    return 0;
  }
  if (is_bound(t, name->text)) sx_translate_fail(t, SX_E_EVAL_FORM, name, "the parameter %s stands twice", name->text);
  uint16_t slot = sx_take_slots(t, 1, name);
  sx_bind_name(t, name->text, slot);
  return slot;
}

/* A keyword parameter, `name` or `(name default)`. Code of the default runs where the slot has no value. */
static void add_keyword(sx_translator *t, const sx_datum *datum, sx_key *key) {
  bool has_default = datum->kind == SX_DATUM_LIST;
  if (has_default && datum->n != 2) {
    sx_translate_fail(t, SX_E_EVAL_FORM, datum, "a keyword parameter is name or (name default)");
    return;
  }
  const sx_datum *name = has_default ? datum->items[0] : datum;
  if (!has_default) {
    uint16_t slot = add_parameter(t, name);
    *key = (sx_key){name->kind == SX_DATUM_SYMBOL ? name->text : "", slot, true};
    return;
  }
  size_t before = t->bindings.n;
  uint16_t slot = add_parameter(t, name);
  t->bindings.n = before; /* its default does not see it */
  uint32_t jump = sx_emit_slot(t, SX_DO_JUMP_SET, slot, 0, datum);
  sx_translate(t, datum->items[1], false);
  sx_emit(t, SX_DO_STORE, slot, datum);
  sx_land(t, jump);
  if (name->kind != SX_DATUM_SYMBOL) return;
  sx_bind_name(t, name->text, slot);
  *key = (sx_key){name->text, slot, false};
}

/* (a b &key (c 1) d &rest r) */
static void add_parameters(sx_translator *t, const sx_datum *list) {
  sx_body *body = t->body;
  if (list->kind != SX_DATUM_LIST) {
    sx_translate_fail(t, SX_E_EVAL_FORM, list, "expected a list of parameters");
    return;
  }
  body->keys = SX_NEW_N(t->evaluator->arena, sx_key, list->n);
  body->used = SX_NEW_N(t->evaluator->arena, bool, list->n + 1);
  enum { POSITIONAL, KEYWORD, REST, ENDED } part = POSITIONAL;
  for (uint32_t i = 0; i < list->n; i++) {
    const sx_datum *item = list->items[i];
    const char *amp = interned_amp(item);
    bool key = amp && strcmp(amp, "&key") == 0, rest = amp && strcmp(amp, "&rest") == 0;
    if (amp && ((!key && !rest) || part >= REST || (key && part == KEYWORD))) {
      sx_translate_fail(t, SX_E_EVAL_FORM, item, "%s does not belong here; the order is (a b &key (c 1) d &rest r)",
                        amp);
      return;
    }
    if (key) {
      part = KEYWORD;
    } else if (rest) {
      part = REST;
    } else if (part == POSITIONAL) {
      add_parameter(t, item);
      if (!t->failed) t->bindings.items[t->bindings.n - 1].parameter = (int)body->n_positional++;
    } else if (part == KEYWORD) {
      add_keyword(t, item, &body->keys[body->n_keys]);
      if (!t->failed) body->n_keys++;
    } else if (part == REST) {
      body->rest_slot = add_parameter(t, item);
      body->has_rest = true;
      part = ENDED;
    } else {
      sx_translate_fail(t, SX_E_EVAL_FORM, item, "nothing follows the name after &rest");
    }
    if (t->failed) return;
  }
  if (part == REST) sx_translate_fail(t, SX_E_EVAL_FORM, list, "a name follows &rest");
}

static void begin_body(sx_translator *t, sx_evaluator *evaluator, sx_translator *outer, const sx_datum *form,
                       const char *name) {
  *t = (sx_translator){.evaluator = evaluator, .outer = outer, .body = SX_NEW(evaluator->arena, sx_body)};
  *t->body = (sx_body){.name = name, .form = form};
  const sx_source *source = form->span.file ? sx_sources_get(&evaluator->program->sources, form->span.file) : NULL;
  t->body->prelude = source && source->prelude;
  t->body->used = SX_NEW_N(evaluator->arena, bool, 1);
}

static sx_body *end_body(sx_translator *t, const sx_datum *form) {
  sx_emit(t, SX_DO_RETURN, 0, form);
  t->body->n_stack = t->body->n_slots + t->deepest + 1;
  if (t->failed) {
    t->body->poisoned = true;
    t->body->instructions.n = 0;
    sx_emit(t, SX_DO_FAIL, 0, form);
  }
  return t->body;
}

/* Parameters, an optional docstring, then the body. */
static sx_body *translate_function(sx_translator *t, const sx_datum *form, const sx_datum *parameters, uint32_t first) {
  add_parameters(t, parameters);
  if (form->n > first + 1 && form->items[first]->kind == SX_DATUM_STRING) t->body->doc = form->items[first++]->text;
  if (!t->failed) sx_translate_body(t, form, first, true);
  return end_body(t, form);
}

void sx_translate_closure(sx_translator *t, const sx_datum *form, const sx_datum *parameters, uint32_t first,
                          const char *name, const char *self) {
  sx_translator inner;
  begin_body(&inner, t->evaluator, t, form, name);
  inner.self = self;
  const sx_body *body = translate_function(&inner, form, parameters, first);
  if (inner.failed) t->failed = true;
  SX_PUSH(t->evaluator->arena, t->body->bodies, body);
  sx_emit(t, SX_DO_CLOSURE, (uint32_t)t->body->bodies.n - 1, form);
}

sx_body *sx_translate_expression(sx_evaluator *evaluator, const sx_datum *expression, const char *name,
                                 const char *const *parameters, uint32_t n_parameters) {
  sx_translator t;
  begin_body(&t, evaluator, NULL, expression, name);
  t.body->used = SX_NEW_N(evaluator->arena, bool, n_parameters + 1);
  t.body->n_positional = n_parameters;
  for (uint32_t i = 0; i < n_parameters; i++) {
    SX_PUSH(evaluator->arena, t.bindings, ((sx_binding){parameters[i], sx_take_slots(&t, 1, expression), (int)i}));
  }
  sx_translate(&t, expression, true);
  return end_body(&t, expression);
}

sx_body *sx_translate_defun(sx_evaluator *evaluator, const sx_datum *form) {
  sx_translator t;
  begin_body(&t, evaluator, NULL, form, form->items[1]->text);
  return translate_function(&t, form, form->items[2], 3);
}
