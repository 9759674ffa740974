/* Datums into code. A function body is translated once, when its definition is evaluated (one of the prelude when it
 * is first used); mistakes of form and unknown names are reported then, all of them. */
#ifndef SX_LANG_TRANSLATE_H
#define SX_LANG_TRANSLATE_H

#include "call.h"

enum { SX_SLOTS_MAX = 4096 };

typedef struct sx_binding {
  const char *name;
  uint16_t slot;
  int parameter; /* its number, or -1 */
} sx_binding;

typedef struct sx_translator {
  sx_evaluator *evaluator;
  struct sx_translator *outer; /* of the enclosing function */
  sx_body *body;
  SX_VEC(sx_binding) bindings;
  uint32_t next_slot;
  uint32_t depth; /* temporaries at this point */
  uint32_t deepest;
  const char *self; /* name of a defun inside a function, for recursion */
  bool failed;
} sx_translator;

/* A special form; tail: its value is the function's. */
typedef void sx_special(sx_translator *translator, const sx_datum *form, bool tail);

typedef struct sx_special_form {
  const char *name;
  sx_special *translate; /* NULL: stands at the top level of a file only */
  const char *usage;
} sx_special_form;

extern const sx_special_form sx_special_forms[];
const sx_special_form *sx_find_special(const char *name);

/* Code of an expression whose free names in `parameters` are positional parameters. Its body may have failed
 * (poisoned): running it fails. */
sx_body *sx_translate_expression(sx_evaluator *evaluator, const sx_datum *expression, const char *name,
                                 const char *const *parameters, uint32_t n_parameters);
/* Code of (defun name (parameters) body...). */
sx_body *sx_translate_defun(sx_evaluator *evaluator, const sx_datum *form);

/* ---- for the special forms ---- */

void sx_translate(sx_translator *translator, const sx_datum *datum, bool tail);
/* items[first] to the last as a body: definitions among them are local. */
void sx_translate_body(sx_translator *translator, const sx_datum *form, uint32_t first, bool tail);
/* Leaves a closure of (parameters) items[first]... on the stack; self: its own name, or NULL. */
void sx_translate_closure(sx_translator *translator, const sx_datum *form, const sx_datum *parameters, uint32_t first,
                          const char *name, const char *self);
uint32_t sx_emit(sx_translator *translator, sx_instruction_kind kind, uint32_t n, const sx_datum *at);
uint32_t sx_emit_slot(sx_translator *translator, sx_instruction_kind kind, uint16_t slot, uint32_t n,
                      const sx_datum *at);
void sx_emit_constant(sx_translator *translator, sx_value value, const sx_datum *at);
/* Lets the jump go to the next instruction. */
void sx_land(sx_translator *translator, uint32_t jump);
uint16_t sx_take_slots(sx_translator *translator, uint32_t n, const sx_datum *at);
void sx_bind_name(sx_translator *translator, const char *name, uint16_t slot);
/* Ends what was bound since the mark. */
typedef struct sx_mark {
  size_t n_bindings;
  uint32_t next_slot;
} sx_mark;
sx_mark sx_mark_names(const sx_translator *translator);
void sx_release_names(sx_translator *translator, sx_mark mark);
/* Reports a mistake of form; what was translated will not run. */
void sx_translate_fail(sx_translator *translator, sx_code code, const sx_datum *at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The value of a quoted datum. */
sx_value sx_quoted(sx_evaluator *evaluator, const sx_datum *datum);

#endif
