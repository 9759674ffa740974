/* The libraries of the CUDA device, as this machine has them. Needs no header of CUDA.
 *
 * Where one is looked for: at the path that is given (a file, or the directory that has it), and only there; without
 * one, as the system's loader looks for it (LD_LIBRARY_PATH, the loader's cache, the system's directories). A path
 * that has no usable library is an error, never a reason to take another.
 *
 * What is loaded stays loaded until the process ends: these libraries start threads and register exit handlers that do
 * not outlive them. Loading leaves the floating-point environment (rounding, exceptions, flushing to zero) as it was.
 */
#ifndef SX_CUDA_LIBRARY_H
#define SX_CUDA_LIBRARY_H

#include "../base/diag.h"

typedef enum sx_library {
#define SX_LIBRARY(id, name, files, least) SX_LIBRARY_##id,
#include "api.def"
  SX_N_LIBRARIES
} sx_library;

/* Owned by the arena that it was made in. */
typedef struct sx_library_found {
  const char *name;    /* "cuDNN" */
  const char *path;    /* of the file; NULL: not loaded */
  const char *version; /* "9.19.0"; NULL: not loaded, or it has no version to give */
  int64_t number;      /* the same as the library writes it, 91900 */
  const char *missing; /* why it cannot be used: what was searched, what was found; NULL: it can */
} sx_library_found;

/* Loads every library in turn and says of each what there is. Never fails: `missing` is the answer. */
void sx_libraries_find(sx_library_found found[SX_N_LIBRARIES], const char *path, sx_arena *arena);

#endif
