/* What the NVRTC shim gives in a cubin's place and the driver's stand-in takes: one line, then the PTX and a 0.
 *
 *   cudasim-cubin sm_80 nvrtc=13.0 bytes=5120 sum=0123456789abcdef
 *
 * bytes and sum (FNV-1a) are of the PTX without its 0: what was cut short or changed is an invalid image, as a damaged
 * cubin is. */
#ifndef SIM_IMAGE_H
#define SIM_IMAGE_H

#include <stdint.h>

#define SIM_IMAGE_BEGIN "cudasim-cubin sm_"
#define SIM_IMAGE_FORMAT SIM_IMAGE_BEGIN "%u nvrtc=%u.%u bytes=%zu sum=%016llx\n"
#define SIM_IMAGE_PARSE SIM_IMAGE_BEGIN "%u nvrtc=%u.%u bytes=%zu sum=%16llx"

static inline unsigned long long sim_image_sum(const char *text, size_t n) {
  uint64_t sum = 0xCBF29CE484222325u;
  for (size_t i = 0; i < n; i++) sum = (sum ^ (unsigned char)text[i]) * 0x100000001B3u;
  return sum;
}

#endif
