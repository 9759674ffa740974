/* Numbers of a device that are measured: for the pass that weighs arithmetic against memory, and for the cost model. */
#ifndef SX_CUDA_MEASURE_H
#define SX_CUDA_MEASURE_H

#include "cuda.h"

/* Standard pieces of work. Each is timed by events, the least of some runs, once a process: amounts are such that one
 * takes 20 microseconds to a few milliseconds on a card of this decade. */
enum {
  SX_PIECE_COPY_BYTES = 128 << 20,  /* read, and written */
  SX_PIECE_UPLOAD_BYTES = 16 << 20, /* from page-locked memory */
  SX_PIECE_THREADS = 256,           /* of one block, which has a multiprocessor to itself: */
  SX_PIECE_CHAINS = 8,              /* independent of one another, a thread */
  SX_PIECE_TRIPS = 2048,            /* each a multiplication and an addition a chain */
  SX_PIECE_LAUNCHES = 64,           /* of a kernel that does nothing, in a replayed sequence */
  SX_PIECE_PRODUCT = 2048           /* rows, columns and terms; of zeros, which take the time of any numbers */
};

/* "recompute": f32 operations that the device does in the time in which it moves a byte of its memory, "10.99". False:
 * an error is in diags. */
bool sx_cuda_measure(sx_cuda *cuda, const char *what, char *text, size_t n_text, sx_diags *diags);

/* As sx_backend_calls.rates. Keys: "copy 134217728 bytes", "upload 16777216 bytes", "8388608 f32 operations in a
 * block", "64 launches in a sequence", "a sequence of a launch", "product 2048 x 2048 x 2048 bf16". While one is
 * measured, it takes 256 MiB of the device's memory. */
bool sx_cuda_rates(sx_cuda *cuda, sx_cost_rates *rates, unsigned dtypes, const sexp_chooser *chooser, sx_diags *diags);

#endif
