/* One option being tried: sexp_choice's functions for its candidates. */
#ifndef SX_CUDA_TRIAL_H
#define SX_CUDA_TRIAL_H

#include "choose.h"

enum { SX_TRIALS_MOST = 16 }; /* candidates of an option */

typedef struct sx_trial {
  sx_options *options;
  const sx_option *option;
  const sx_trial_calls *calls;
  sx_arena arena; /* of the plan */
  const sx_plan *plan;
  void *made[SX_TRIALS_MOST]; /* NULL: not made, or unmade for want of memory */
} sx_trial;

/* A graph of the operation alone, planned: two inputs, one output. */
const sx_plan *sx_trial_plan(const sx_option *option, sx_arena *arena);

void sx_trial_begin(sx_trial *trial, sx_options *options, const sx_option *option, const sx_trial_calls *calls);
void sx_trial_end(sx_trial *trial);

/* Of sexp_choice; work is the sx_trial. */
sexp_ran sx_trial_run(void *work, size_t candidate);
/* The first 8 bytes, the first the highest, of the SHA-256 of the result. */
sexp_ran sx_trial_probe(void *work, size_t candidate, uint64_t *digest);
int64_t sx_trial_now(void *work);

/* n values of f32 or bf16 whose sums move bits when their order does: any sign and significand, exponents from 2^-12 to
 * 2^12. A function of the position. */
void sx_trial_fill(void *values, sx_dtype dtype, uint64_t stream, int64_t n);

#endif
