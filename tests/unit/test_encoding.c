/* Values of files as graphs have them: every encoding, every number of elements, and the place of the first that does
 * not fit. */
#include <string.h>

#include "../../libsexp/run/encoding.h"
#include "../common/cmocka_all.h"

enum { MOST = 600 };

typedef struct kind {
  sx_encoding encoding;
  int n_bytes;
  bool big, sign, real; /* big: the highest byte comes first */
} kind;

static const kind kinds[] = {
    {SX_HOST_I64, 8, false, true, false},    {SX_HOST_U64, 8, false, false, false},
    {SX_HOST_U32, 4, false, false, false},   {SX_HOST_U16, 2, false, false, false},
    {SX_HOST_I16, 2, false, true, false},    {SX_HOST_I8, 1, false, true, false},
    {SX_LITTLE_U16, 2, false, false, false}, {SX_BIG_I16, 2, true, true, false},
    {SX_BIG_I32, 4, true, true, false},      {SX_LITTLE_I32, 4, false, true, false},
    {SX_HOST_F64, 8, false, false, true},    {SX_BIG_F64, 8, true, false, true},
};

static void put(unsigned char *at, uint64_t bits, const kind *k) {
  for (int b = 0; b < k->n_bytes; b++) at[k->big ? k->n_bytes - 1 - b : b] = (unsigned char)(bits >> (8 * b));
}

static int32_t whole(int i, const kind *k) {
  int64_t value = (int64_t)i * 2654435 % (k->n_bytes == 1 ? 128 : k->n_bytes == 2 ? 32768 : INT32_MAX);
  return (int32_t)(k->sign && i % 3 == 1 ? -value - 1 : value);
}

static void every_count_is_converted(void **state) {
  (void)state;
  static unsigned char in[MOST * 8 + 1];
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    for (int n = 0; n < MOST; n += n < 20 || n > 500 ? 1 : 61) {
      unsigned char *bytes = in + n % 2; /* at any alignment */
      int32_t out[MOST + 1];
      for (int i = 0; i < n; i++) {
        double real = whole(i, &kinds[k]) * 1.1;
        uint64_t bits = (uint64_t)(int64_t)whole(i, &kinds[k]);
        if (kinds[k].real) memcpy(&bits, &real, 8);
        put(bytes + i * kinds[k].n_bytes, bits, &kinds[k]);
      }
      out[n] = 77;
      assert_int_equal(sx_encoding_read(kinds[k].encoding, out, bytes, n), n);
      assert_int_equal(out[n], 77);
      for (int i = 0; i < n; i++) {
        float real = (float)(whole(i, &kinds[k]) * 1.1);
        int32_t expected = whole(i, &kinds[k]);
        if (kinds[k].real) memcpy(&expected, &real, 4);
        if (out[i] != expected) fail_msg("encoding %d, element %d of %d: %d", kinds[k].encoding, i, n, out[i]);
      }
    }
}

static void the_first_that_does_not_fit_is_told(void **state) {
  (void)state;
  static const struct {
    sx_encoding encoding;
    int n_bytes;
    uint64_t bad, good;
  } cases[] = {
      {SX_HOST_I64, 8, UINT64_C(1) << 31, INT32_MAX},
      {SX_HOST_I64, 8, UINT64_MAX - (UINT64_C(1) << 31), UINT64_MAX - INT32_MAX},
      {SX_HOST_U64, 8, UINT64_MAX, INT32_MAX},
      {SX_HOST_U64, 8, UINT64_C(1) << 40, 0},
      {SX_HOST_U32, 4, UINT32_MAX, INT32_MAX},
      {SX_HOST_U32, 4, UINT64_C(1) << 31, 5},
  };
  static const int places[] = {0, 1, 254, 255, 256, 257, 511, 512, 599};
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
      unsigned char in[MOST * 8];
      int32_t out[MOST];
      kind k = {cases[c].encoding, cases[c].n_bytes, false, false, false};
      for (int i = 0; i < MOST; i++)
        put(in + i * k.n_bytes, i >= places[p] && i % 2 == places[p] % 2 ? cases[c].bad : cases[c].good, &k);
      assert_int_equal(sx_encoding_read(k.encoding, out, in, MOST), places[p]);
      for (int i = 0; i < places[p]; i++) assert_int_equal(out[i], (int32_t)cases[c].good);
    }
}

static void swapped_floats_keep_their_bits(void **state) {
  (void)state;
  static const uint32_t values[] = {0, 0x80000000, 1, 0x7f800001, 0xffc12345, 0x3f800000};
  unsigned char in[24];
  uint32_t out[6];
  const kind k = {SX_BIG_F32, 4, true, false, false};
  for (int i = 0; i < 6; i++) put(in + 4 * i, values[i], &k);
  assert_int_equal(sx_encoding_read(SX_BIG_F32, out, in, 6), 6);
  assert_memory_equal(out, values, sizeof values);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_count_is_converted),
      cmocka_unit_test(the_first_that_does_not_fit_is_told),
      cmocka_unit_test(swapped_floats_keep_their_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
