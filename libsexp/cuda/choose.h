/* What a plan's lowering chooses by measuring: engines of convolutions, implementations of long products. An option is
 * one decision under its key; a plan's are found, told to who checks a record (sx_backend_calls.needs), decided
 * (make), and asked for by the lowering.
 *
 * A candidate is tried as what it will be: a plan of the operation alone is made, lowered with the candidate as
 * decided, compiled and executed in memory of its own, on operands from the counter generator whose exponents are so
 * wide that another order of sums gives other bits. */
#ifndef SX_CUDA_CHOOSE_H
#define SX_CUDA_CHOOSE_H

#include "../device/backend.h"
#include "../sexp.h"
#include "../sexp_device.h"
#include "convolve.h"
#include "cudnn.h"

/* The value of a convolution that runs without cuDNN, as no engine of it may be taken. */
extern const char sx_no_engine[];

typedef struct sx_option {
  const char *kind, *key; /* "convolution", "product" */
  sx_convolution convolution;
  sx_product_key product;
  sx_dtype to;               /* of the product's result */
  const char *const *values; /* candidates, at least one; the first is that of --deterministic */
  size_t n_values;
  const char *decided; /* NULL: not yet */
} sx_option;

/* What trying candidates asks of the device; functions give SEXP_RAN or why not. */
typedef struct sx_trial_calls {
  void *context;
  /* Makes the plan's executable, with memory of its own for all buffers and scratch. Several are there at once, unless
   * there is no memory for it: then those that are not at hand are unmade, and made again for their turn. */
  sexp_ran (*make)(void *context, void **made, const sx_plan *plan);
  void (*unmake)(void *context, void *made);
  sexp_ran (*upload)(void *context, void *made, uint32_t buffer, const void *from, int64_t n_bytes);
  sexp_ran (*download)(void *context, void *made, uint32_t buffer, void *to, int64_t n_bytes);
  /* To its end; the time that the device took is added to now_ns. */
  sexp_ran (*execute)(void *context, void *made);
  int64_t (*now_ns)(void *context);
} sx_trial_calls;

/* The options of a device, over all plans; in its arena. */
typedef struct sx_options {
  sx_arena *arena;
  sx_cudnn *cudnn; /* NULL: there is none */
  bool portable;   /* nothing is chosen */
  SX_VEC(sx_option) list;
  const sx_option *trying; /* while a candidate is tried: what the lowering gets for it */
  const char *trying_value;
} sx_options;

/* Adds the plan's options that are new. False: cuDNN failed, errors are in its diags. */
bool sx_options_find(sx_options *options, const sx_plan *plan);
/* Calls tell for every option of the plan. */
bool sx_options_tell(sx_options *options, const sx_plan *plan, sx_tell_need *tell, void *context);
/* Decides what is undecided of the plan: as `deciding` says, or without one (NULL) the first candidate. False: an error
 * is in diags. */
bool sx_options_decide(sx_options *options, const sx_plan *plan, const sx_deciding *deciding,
                       const sx_trial_calls *trials, sx_diags *diags);
/* For sx_lowering: the value decided under the key, NULL where there is no such option, or no engine is taken. What is
 * not decided yet is the candidate that takes the most scratch, so that a plan's memory is known before. */
const char *sx_options_value(void *options, const char *kind, const char *key);

#endif
