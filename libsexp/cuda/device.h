/* The facts of a device by which engines are selected: what cuDNN calls device properties. They are read from their
 * JSON, which a device gives or a file keeps, so that engines are selected for a card that is not there. */
#ifndef SX_CUDA_DEVICE_H
#define SX_CUDA_DEVICE_H

#include "../base/diag.h"

typedef int64_t sx_fact_INTEGER;
typedef int64_t sx_fact_TRIPLE[3];
typedef const char *sx_fact_TEXT;

typedef struct sx_device {
#define SX_FACT(kind, member, name) sx_fact_##kind member;
#include "device.def"
#undef SX_FACT
  const char *json; /* the text that was read, as cuDNN takes it */
  size_t json_n_bytes;
} sx_device;

/* Reads an object with every fact of device.def; members of other names are left to cuDNN, which is given the text
 * itself. Errors: E-DEVICE-013 no such object, or a fact that is missing or of another kind. */
bool sx_device_parse(sx_device *device, const char *json, size_t n_bytes, sx_arena *arena, sx_diags *diags);

#endif
