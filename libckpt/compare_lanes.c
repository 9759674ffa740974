/* f32 elements without a branch, in lanes that compilers make vectors of: two checkpoints of a training a step apart
 * differ in every element. */
#include "compare_lanes.h"

#include <math.h>
#include <string.h>

typedef struct lanes {
  uint32_t n_differing[CK_LANES], n_nan[CK_LANES], max_ulps[CK_LANES];
  double max_value[CK_LANES];
} lanes;

/* All bits of an answer. */
static inline uint32_t mask(int answer) { return (uint32_t)-answer; }

/* The place among the floats, both zeros being 0: the magnitude with the sign of two's complement. */
static inline int32_t place(uint32_t bits, uint32_t magnitude) {
  uint32_t negative = mask((int32_t)bits < 0);
  return (int32_t)((magnitude ^ negative) - negative);
}

/* left and right become the elements that have a distance, +0 where there is none. */
static void count(lanes *to, uint32_t *left, uint32_t *right) {
  const uint32_t infinity = 0x7f800000, all = 0x7fffffff;
  for (int k = 0; k < CK_LANES; k++) {
    uint32_t a = left[k] & all, b = right[k] & all;
    uint32_t a_nan = mask((int32_t)a > (int32_t)infinity), b_nan = mask((int32_t)b > (int32_t)infinity);
    uint32_t differ = mask(left[k] != right[k]) & ~(a_nan & b_nan), far = differ & ~(a_nan | b_nan);
    int32_t a_place = place(left[k], a), b_place = place(right[k], b);
    uint32_t up = (uint32_t)a_place - (uint32_t)b_place, above = mask(a_place > b_place);
    uint32_t ulps = ((up & above) | ((0 - up) & ~above)) & far;
    to->n_differing[k] -= differ;
    to->n_nan[k] -= differ & (a_nan | b_nan);
    to->max_ulps[k] = ulps > to->max_ulps[k] ? ulps : to->max_ulps[k];
    left[k] &= far;
    right[k] &= far;
  }
}

static void measure(lanes *to, const uint32_t *left, const uint32_t *right) {
  float a[CK_LANES], b[CK_LANES];
  memcpy(a, left, sizeof a);
  memcpy(b, right, sizeof b);
  for (int k = 0; k < CK_LANES; k++) {
    double value = fabs((double)a[k] - (double)b[k]);
    to->max_value[k] = value > to->max_value[k] ? value : to->max_value[k];
  }
}

void ck_compare_lanes_f32(ckpt_difference *out, const unsigned char *left, const unsigned char *right, size_t n) {
  lanes all = {0};
  for (size_t i = 0; i < n; i += CK_LANES) {
    uint32_t a[CK_LANES], b[CK_LANES];
    memcpy(a, left + i * sizeof *a, sizeof a);
    memcpy(b, right + i * sizeof *b, sizeof b);
    count(&all, a, b);
    measure(&all, a, b);
  }
  for (int k = 0; k < CK_LANES; k++) {
    out->n_differing += all.n_differing[k];
    out->n_nan += all.n_nan[k];
    if (all.max_ulps[k] > out->max_ulps) out->max_ulps = all.max_ulps[k];
    if (all.max_value[k] > out->max_value) out->max_value = all.max_value[k];
  }
}
