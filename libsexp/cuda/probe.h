/* Probes of what is decided already: by a record, by the first rule of --deterministic, or by a library alone. */
#ifndef SX_CUDA_PROBE_H
#define SX_CUDA_PROBE_H

#include "../sexp.h"

struct sx_cuda;

/* As sexp_device_probe; the message of *why alone is filled. */
sexp_ran sx_cuda_probe(struct sx_cuda *cuda, uint64_t *digest, const char *kind, const char *key, const char *value,
                       const char **why);

#endif
