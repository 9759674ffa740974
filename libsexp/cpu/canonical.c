#include "canonical.h"

#include <string.h>

void sx_canonical_nans(void *data, sx_dtype dtype, int64_t n) {
  char *at = data;
  if (dtype == SX_F32) {
    for (int64_t i = 0; i < n; i++, at += 4) {
      uint32_t bits;
      memcpy(&bits, at, 4);
      if ((bits & 0x7fffffffu) > 0x7f800000u) bits = 0x7fc00000u;
      memcpy(at, &bits, 4);
    }
  } else if (dtype == SX_BF16 || dtype == SX_F16) {
    uint16_t infinity = dtype == SX_BF16 ? 0x7f80 : 0x7c00, nan = dtype == SX_BF16 ? 0x7fc0 : 0x7e00;
    for (int64_t i = 0; i < n; i++, at += 2) {
      uint16_t bits;
      memcpy(&bits, at, 2);
      if ((bits & 0x7fff) > infinity) bits = nan;
      memcpy(at, &bits, 2);
    }
  }
}
