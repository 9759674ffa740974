/* The evaluator of the experiment language: what its files share.
 *
 *   load.c       reads the file and its includes, lists the top-level forms, finds who defines what
 *   translate.c  turns a datum into code (body.h); forms.c: its special forms
 *   machine.c    runs code; activate.c: calls; call.c: arguments; trace.c: errors and where they arise
 *   builtins_*.c the tables of builtins, on compile-time values and on tensors (tensor.c)
 *   param.c      parameters; state.c: states of an optimizer; update.c: the update graph
 *   forms_*.c    defdata, defrun, defeval, defgenerator, with options.c and fields.c; knobs.c: defknob, defvariant
 *   names.c      top-level names; suggest.c: the nearest one
 *   evaluate.c   the whole of it
 *
 * Functions that return bool return false after an error was reported, or where one that was reported before stands
 * behind it; the evaluation of the top-level form ends then. */
#ifndef SX_LANG_EVALUATOR_H
#define SX_LANG_EVALUATOR_H

#include "body.h"
#include "program.h"

/* What is being evaluated: decides what parameters, inputs, states and probes mean. */
typedef enum sx_place {
  SX_PLACE_FILE, /* a top-level form: no graph */
  SX_PLACE_LOSS,
  SX_PLACE_INIT,
  SX_PLACE_UPDATE,
  SX_PLACE_EVAL,
  SX_PLACE_GENERATOR,
  SX_PLACE_TRIP /* the trip graph of a generator */
} sx_place;

typedef struct sx_context {
  sx_place place;
  sx_graph *graph;  /* NULL: none */
  const char *path; /* enclosing scopes, interned; "" at the top */
  bool training;
  struct sx_param_entry *parameter; /* UPDATE: whose update it is */
} sx_context;

typedef struct sx_activation {
  const sx_body *body;
  const sx_value *captures;
  const sx_function *function;
  uint32_t ip;
  size_t base;          /* of its slots on the stack */
  const sx_datum *call; /* where it was called, or NULL */
  const sx_datum *user; /* of a frame of the prelude: the call in the user's file that led there */
  const char *entry;    /* likewise: the name called there */
} sx_activation;

enum {
  SX_CALL_DEPTH = 100000,     /* nested calls */
  SX_STACK_VALUES = 1 << 22,  /* values on the stack */
  SX_NATIVE_DEPTH = 40,       /* nested runs of the machine: :init in an optimizer in ... */
  SX_TAIL_DEPTH = 256,        /* above it tail calls reuse their frame; below they are kept for the call chain */
  SX_SOURCE_BYTES = 64 << 20, /* of a source file */
  SX_PATH_BYTES = 4000,       /* of a model path */
  SX_STEP_INSTRUCTIONS = 16,
  SX_STEP_BYTES = 8, /* of a text */
  SX_NODE_STEPS = 8  /* what adding a node counts */
};

/* A map from interned names to pointers. */
typedef struct sx_name_map {
  const char **keys;
  void **values;
  size_t n, room;
} sx_name_map;

void *sx_name_map_get(const sx_name_map *map, const char *name);
void sx_name_map_set(sx_name_map *map, sx_arena *arena, const char *name, void *value);

/* A top-level form that declares something by name: defdata, defrun, defeval, defgenerator, defvariant. */
typedef struct sx_declaration {
  const char *name;
  const sx_datum *form;
  void *built; /* what it became, once used */
} sx_declaration;

typedef enum sx_declaration_kind {
  SX_DECLARE_DATA, /* defdata and defgenerator share their names */
  SX_DECLARE_GENERATOR,
  SX_DECLARE_RUN,
  SX_DECLARE_EVAL,
  SX_DECLARE_VARIANT,
  SX_N_DECLARES
} sx_declaration_kind;

typedef SX_VEC(sx_declaration) sx_declarations;
typedef SX_VEC(const sx_datum *) sx_forms;

typedef struct sx_evaluator {
  sx_program *program;
  sx_arena *arena;
  sx_intern *names;
  sx_diags *diags;
  const sx_selection *selection;
  const sx_language_host *host;

  sx_name_map user_names, library_names; /* of sx_global */
  sx_forms forms;                        /* top-level forms in order, includes and begins spliced */
  sx_declarations declarations[SX_N_DECLARES];
  SX_VEC(struct sx_knob_entry *) knobs;

  const sx_datum *form; /* being evaluated at the top: calls from C stand there */
  int64_t steps;        /* left of the budget: calls, turns of loops, memory */
  int64_t instructions; /* left of SX_STEP_INSTRUCTIONS times the budget */
  bool spent;           /* it was exceeded, and reported */
  sx_value *stack;
  size_t top, room;
  SX_VEC(sx_activation) frames;
  int native_depth;

  sx_context context;
  SX_VEC(struct sx_param_entry *) params; /* in the order of their creation */
  sx_name_map param_names;
  sx_name_map state_names;
  sx_name_map probes; /* of the loss graph being built */
} sx_evaluator;

/* ---- errors ---- */

/* Reports an error at the span (file 0: where the machine stands) with the call chain. A place in the prelude is
 * shown as the user's call that led there. The result may be completed. */
sx_diag *sx_fail(sx_evaluator *evaluator, sx_code code, sx_span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
sx_diag *sx_vfail(sx_evaluator *evaluator, sx_code code, sx_span span, const char *format, va_list arguments)
    __attribute__((format(printf, 4, 0)));
/* Whether errors are only counted any more: hints and chains are not worth their making. */
bool sx_too_many_errors(const sx_evaluator *evaluator);
/* The call that runs, as a place in the user's files: errors and nodes get its span. NULL: none. */
const sx_datum *sx_here(const sx_evaluator *evaluator);
/* The datum whose instruction runs, also inside the prelude. */
const sx_datum *sx_at(const sx_evaluator *evaluator);
/* The span of a form's first word, of another datum itself. */
sx_span sx_head_span(const sx_datum *datum);

/* Reports, once, that the budget is spent. Always false. */
bool sx_out_of_budget(sx_evaluator *evaluator);
/* Takes n steps off the budget; false: it is spent, and reported. */
static inline bool sx_spend(sx_evaluator *evaluator, uint64_t n) {
  if (n > (uint64_t)evaluator->steps) return sx_out_of_budget(evaluator);
  evaluator->steps -= (int64_t)n;
  return true;
}

#endif
