/* A compiled program: its graphs after the passes, their plans, and what its data looked like. */
#ifndef SX_RUN_COMPILED_H
#define SX_RUN_COMPILED_H

#include "../lang/program.h"
#include "../pass/plan.h"

/* One graph on its way through the passes. */
typedef struct sx_unit {
  const char *label; /* as shown: "loss", "update", "eval/heldout", "init/fc1/w" */
  sx_graph *graph;   /* READY in the end; NULL: there is no such graph */
  sx_plan *plan;
  bool *in_place;  /* of the update: sx_plan_in_place */
  int64_t n_built; /* nodes before the passes */
  bool diagnosed;  /* a copy that computes statistics as well */
} sx_unit;

enum { SX_N_STATISTICS = 6 };
extern const char *const sx_statistic_names[SX_N_STATISTICS];

/* What a source held when it was compiled. */
typedef struct sx_data_facts {
  const char *name;
  sx_field_type *fields;
  uint32_t n_fields;
  int64_t n_records;
  const char *path; /* of its file, the first where it has several */
} sx_data_facts;

/* Whether the update writes a parameter or state, and if so over its old value: nothing can fail once the writing
 * begins, so a second block that is swapped in after a whole step is not needed. */
typedef enum sx_written { SX_WRITTEN_NEVER, SX_WRITTEN_BESIDE, SX_WRITTEN_IN_PLACE } sx_written;

typedef struct sx_compiled {
  sx_program *program;
  SX_VEC(sx_unit *) units;            /* all of them, in order */
  sx_unit *losses, *diagnosed_losses; /* one a stage */
  sx_unit update, diagnosed_update;
  sx_written *param_written, *state_written;
  sx_unit *evals, *partial_evals; /* one an evaluation */
  sx_unit *generator_inits, *trips, *emits;
  sx_unit *param_inits, *state_inits; /* one a parameter, a state */
  sx_data_facts **facts;              /* one a data source; NULL: not used */
  int64_t *stage_steps;               /* steps of a stage, fewer than asked where its data end */
  bool optimize;                      /* sx_compile_options */
  double recompute;                   /* budget of the plans but the update's, f32 operations a byte; 0: none */
  struct sx_sha256 *hash;             /* at work, else NULL: the entry point's to end when memory failed */
} sx_compiled;

/* Copies of a stage's loss and of the update that give, as outputs "statistic/NAME/STATISTIC", statistics
 * of what the program's globs select. Without outputs of that kind: NULL. */
sx_graph *sx_diagnose_loss(const sx_graph *loss, const sx_program *program);
sx_graph *sx_diagnose_update(const sx_graph *update, const sx_program *program);
/* The loss without its probes; itself where it has none. */
sx_graph *sx_without_probes(sx_graph *loss);

#endif
