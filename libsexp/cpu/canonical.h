/* Canonical bytes of values, as checkpoints, digests and records hold them. */
#ifndef SX_CPU_CANONICAL_H
#define SX_CPU_CANONICAL_H

#include "../ir/ir.h"

/* Makes every NaN among n elements the one NaN: 0x7fc00000 in f32, 0x7fc0 in bf16, 0x7e00 in f16. */
void sx_canonical_nans(void *data, sx_dtype dtype, int64_t n);

#endif
