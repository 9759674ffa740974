/* Compiled code on disk: one file a unit under the hash of what it was made from. A file that is cut short or changed
 * is none; a directory that cannot be written keeps nothing, which is no error. Needs no header of CUDA. */
#ifndef SX_CUDA_CUBINS_H
#define SX_CUDA_CUBINS_H

#include <stdbool.h>

#include "../base/memory.h"

/* The key is 64 hexadecimal digits. */

/* True: *bytes is owned by the caller, of memory->allocate. False: it is NULL. */
bool sx_cubin_read(void **bytes, size_t *n_bytes, const char *directory, const char *key, const sx_memory *memory);
/* Makes the directory, writes under a name of its own and renames, so that readers see whole files alone. */
void sx_cubin_write(const char *directory, const char *key, const void *bytes, size_t n_bytes);

#endif
