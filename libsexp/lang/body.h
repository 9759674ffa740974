/* Code of the machine that evaluates the language: what a function body becomes before it runs.
 *
 * A body is compiled once into a list of instructions over a stack of values. The first n_slots values of a frame
 * are its slots: parameters, then names bound by let, for and fold; temporaries lie above. The language has no
 * assignment, so a closure copies the values that it captures. */
#ifndef SX_LANG_BODY_H
#define SX_LANG_BODY_H

#include "../read/datum.h"
#include "value.h"

typedef enum sx_instruction_kind {
  SX_DO_CONST,       /* push constants[n] */
  SX_DO_LOCAL,       /* push slot n */
  SX_DO_CAPTURE,     /* push captured value n */
  SX_DO_SELF,        /* push the running function */
  SX_DO_GLOBAL,      /* push the value of global */
  SX_DO_TRAINING,    /* push whether the graph is a training graph */
  SX_DO_STORE,       /* pop into slot n */
  SX_DO_POP,         /* pop */
  SX_DO_JUMP,        /* go to n */
  SX_DO_JUMP_UNLESS, /* pop a boolean; go to n when it is false */
  SX_DO_JUMP_SET,    /* go to n when the slot has a value */
  SX_DO_CLOSURE,     /* push a closure of bodies[n] */
  SX_DO_LIST,        /* pop n values, push their list */
  SX_DO_CALL,        /* pop n arguments and the function below them, push the result */
  SX_DO_TAIL_CALL,   /* as CALL where a RETURN follows */
  SX_DO_RETURN,      /* pop the result of the frame */
  SX_DO_AND_TEST,    /* go to n when the top is false */
  SX_DO_OR_TEST,     /* go to n when the top is true */
  SX_DO_AND_JOIN,    /* pop two, push both of them: bools, or tensors of bool */
  SX_DO_OR_JOIN,     /* pop two, push either of them */
  SX_DO_LOOP_BEGIN,  /* pop a list into slot; slot + 1 is the index, slot + 2 the results */
  SX_DO_FOLD_BEGIN,  /* the same without results */
  SX_DO_LOOP_NEXT,   /* at the end go to n; else slot + 3 is the next item */
  SX_DO_LOOP_YIELD,  /* pop a result of the loop in slot */
  SX_DO_LOOP_END,    /* push the list of the results */
  SX_DO_SCOPE_ENTER, /* pop a name, append it to the model path; slot keeps the path before */
  SX_DO_SCOPE_LEAVE, /* restore the path from slot */
  SX_DO_NO_CLAUSE,   /* no clause of a cond held: an error */
  SX_DO_FAIL         /* the code had errors, which were reported: stop */
} sx_instruction_kind;

typedef struct sx_instruction {
  uint8_t kind;
  bool keywords; /* of a call: a literal keyword is among its arguments */
  uint16_t slot;
  uint32_t n;
  const sx_datum *at; /* where it stands in the source */
  struct sx_global *global;
} sx_instruction;

typedef struct sx_key {
  const char *name;
  uint16_t slot;
  bool required; /* it has no default */
} sx_key;

/* From where a closure takes a captured value when it is made. */
typedef struct sx_capture {
  uint8_t kind; /* SX_DO_LOCAL, SX_DO_CAPTURE, SX_DO_SELF of the enclosing function */
  uint16_t n;
} sx_capture;

typedef struct sx_body {
  const char *name; /* of the defun, "lambda" else */
  const char *doc;  /* docstring, or NULL */
  const sx_datum *form;
  const sx_datum *body; /* for comparison: equal bodies and captured values are equal functions */
  bool prelude, poisoned;
  uint32_t n_positional, n_keys;
  sx_key *keys;
  bool has_rest;
  uint16_t rest_slot;
  uint32_t n_slots, n_stack; /* slots; slots and temporaries */
  bool *used;                /* per positional parameter: whether the body reads it */
  SX_VEC(sx_instruction) instructions;
  SX_VEC(sx_value) constants;
  SX_VEC(const struct sx_body *) bodies;
  SX_VEC(sx_capture) captures;
  SX_VEC(const char *) capture_names;
} sx_body;

typedef struct sx_function {
  const sx_body *body;
  const sx_value *captures;
} sx_function;

/* A top-level name. Names of the user's files come first; fallback is that of the prelude, or the builtin. */
typedef struct sx_global {
  const char *name;
  sx_value value;             /* NONE: not defined yet */
  const sx_datum *definition; /* the form that defines it; NULL for a builtin */
  const sx_datum *lazy;       /* a defun of the prelude that was not used yet */
  bool poisoned;              /* its definition had errors, which were reported */
} sx_global;

#endif
