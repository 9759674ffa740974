/* The CUDA device as the public entry points open it. Needs no header of CUDA; only builds with CUDA have it. */
#ifndef SX_CUDA_OPEN_H
#define SX_CUDA_OPEN_H

#include "../device/backend.h"
#include "../sexp.h"

struct sx_cuda;

/* Loads the libraries, takes the device's context, its stream and handles. False: errors are in diags (E-DEVICE-010 to
 * 013, 021 to 029), or there is no memory. *cuda is to be closed either way, also where a failed allocation of the
 * diags' memory jumped out. */
bool sx_cuda_open(struct sx_cuda **cuda, const sexp_device_options *options, const sx_memory *memory, sx_diags *diags);
/* Gives everything back, executables that were not unmade too. NULL is none. */
void sx_cuda_close(struct sx_cuda *cuda);

const sexp_device_facts *sx_cuda_facts(const struct sx_cuda *cuda);
sx_backend *sx_cuda_backend(struct sx_cuda *cuda);

/* Devices that the driver shows; 0 with an error in diags where it shows none. */
int sx_cuda_count(const char *libraries, sx_arena *arena, sx_diags *diags);

#endif
