/* The fused multiply-add for machines without the instruction equals fmaf, above all where the sum in
 * binary64 is a tie of f32 that only the bits below decide. */
#include <math.h>
#include <string.h>

#define SX_LEVEL scalar
#include "../../libsexp/cpu/fma.h"
#include "../common/cmocka_all.h"

static uint64_t state = 1;

static uint32_t next(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 32);
}

static void check(float a, float b, float c) {
  float got = sx_fma_by_f64(a, b, c), want = fmaf(a, b, c);
  if (isnan(got) && isnan(want)) return;
  if (memcmp(&got, &want, 4) != 0)
    fail_msg("fma(%a, %a, %a) is %a, expected %a", (double)a, (double)b, (double)c, (double)got, (double)want);
}

static void ties_are_decided_by_what_lies_below(void **unused) {
  (void)unused;
  check(1.0f + 0x1p-12f, 1.0f + 0x1p-12f, 0x1p-80f); /* 1 + 2^-11 + 2^-24 and a little more */
  check(1.0f + 0x1p-12f, 1.0f + 0x1p-12f, -0x1p-80f);
  check(-(1.0f + 0x1p-12f), 1.0f + 0x1p-12f, 0x1p-80f);
  check(0x1p-75f, 0x1p-75f, 0x1p-149f); /* half of the smallest subnormal beside it */
  check(0x1.8p-75f, 0x1p-75f, 0x0p0f);
  for (int k = 0; k < 1000000; k++) {
    float a = 1.0f + (float)(next() >> 20) * 0x1p-12f, b = 1.0f + (float)(next() >> 20) * 0x1p-12f;
    check(ldexpf(a, (int)(next() % 120) - 60), next() & 1 ? b : -b,
          ldexpf(next() & 1 ? 1.0f : -1.0f, -(int)(next() % 149)));
  }
}

static void any_bits(void **unused) {
  (void)unused;
  for (int k = 0; k < 3000000; k++) check(sx_from_bits_f32(next()), sx_from_bits_f32(next()), sx_from_bits_f32(next()));
  for (int k = 0; k < 1000000; k++) { /* magnitudes close enough to cancel */
    float a = sx_from_bits_f32((next() & 0x807fffffu) | 0x3f000000u),
          b = sx_from_bits_f32((next() & 0x807fffffu) | 0x3f000000u);
    check(a, b, -(a * b));
  }
}

static void special_values(void **unused) {
  (void)unused;
  static const float values[] = {0.0f,      -0.0f,    1.0f,      -1.0f, 0x1p-149f,       -0x1p-149f,
                                 0x1p-126f, INFINITY, -INFINITY, NAN,   0x1.fffffep127f, -0x1.fffffep127f,
                                 0x1p-75f,  0x1p127f, 0x1.8p1f};
  enum { N = sizeof values / sizeof *values };
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++)
      for (int k = 0; k < N; k++) check(values[i], values[j], values[k]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ties_are_decided_by_what_lies_below),
      cmocka_unit_test(any_bits),
      cmocka_unit_test(special_values),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
