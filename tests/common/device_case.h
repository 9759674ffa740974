/* For tests: the CUDA device opened on the stand-ins of tests/cudasim, and plans executed on it. Called in the body of
 * a case of cudasim.h: what fails ends the process. */
#ifndef TEST_DEVICE_CASE_H
#define TEST_DEVICE_CASE_H

#include "cudasim.h"

#ifdef SX_CUDA
#include "../../libsexp/device/device.h"

/* The folder of the stand-ins. */
const char *device_libraries(void);
/* Opens it; libraries are those of the folder where none are given. */
sexp_device *device_open(sexp_device_options options);
/* Opens it in vain; the first message's code and words. */
void device_refuse(sexp_device_options options, const char *code, const char *const words[3]);

/* An executable of a plan with memory of its buffers from outside. */
typedef struct device_plan {
  sx_backend *backend;
  const sx_plan *plan;
  sx_made *made;
  void **device, **host; /* one a buffer of the plan; NULL: not from outside */
  sx_diags diags;
} device_plan;

/* Makes it, and fills its inputs by leaf_fill and its outputs with rubbish; `ready` is the caller's. */
void device_plan_make(device_plan *d, sexp_device *device, const sx_plan *plan, uint64_t seed, sx_arena *arena);
/* The same, with its choices decided by `deciding`; false: it could not be made, errors are in d->diags. */
bool device_plan_decide(device_plan *d, sexp_device *device, const sx_plan *plan, uint64_t seed,
                        const sx_deciding *deciding, sx_arena *arena);
void device_plan_upload(device_plan *d);
/* Enqueues it and what brings its outputs. */
void device_plan_execute(device_plan *d);
void device_plan_free(device_plan *d);
/* Of the device's backend; ends the process where it failed. */
sx_finished device_finish(sexp_device *device, sx_stopped *why);
/* The buffer from outside of that name. */
uint32_t device_buffer(const device_plan *d, sx_buffer_kind kind, const char *name);
#endif

#endif
