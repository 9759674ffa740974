/* kernels/draws.h: Philox's published vectors, pinned draws, shuffle bijections. */
// cmocka.h needs the others first.
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <math.h>
#include <stdlib.h>

#include "../../kernels/draws.h"

#define KEY 0x0123456789abcdefu

static uint64_t fnv1a(uint64_t hash, uint64_t word, int n_bytes) {
  for (int i = 0; i < n_bytes; i++) hash = (hash ^ (word >> 8 * i & 0xff)) * 0x100000001b3u;
  return hash;
}

#define FNV1A_START 0xcbf29ce484222325u

/* Random123's kat_vectors for philox4x32-10. */
static void test_philox_known_answers(void **state) {
  (void)state;
  static const uint32_t vectors[3][10] = {
      {0, 0, 0, 0, 0, 0, 0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u},
      {0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu, 0x408f276du, 0x41c83b0eu,
       0xa20bc7c6u, 0x6d5451fdu},
      {0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u, 0xa4093822u, 0x299f31d0u, 0xd16cfe09u, 0x94fdccebu,
       0x5001e420u, 0x24126ea1u},
  };
  for (size_t i = 0; i < 3; i++) {
    uint32_t out[4];
    sx_philox(vectors[i], vectors[i][4], vectors[i][5], out);
    assert_memory_equal(out, &vectors[i][6], sizeof out);
  }
}

static void test_words_use_the_64_bit_block(void **state) {
  (void)state;
  uint32_t got[4], expected[4];
  const uint32_t counter[4] = {0x89abcdefu, 0x01234567u, 0, 0};
  sx_draw_words(KEY, 0x0123456789abcdefu, got);
  sx_philox(counter, 0x89abcdefu, 0x01234567u, expected);
  assert_memory_equal(got, expected, sizeof got);
}

static void test_salt_is_a_chain_of_philox(void **state) {
  (void)state;
  const int32_t words[3] = {7, -1, 0};
  assert_int_equal(sx_draw_salt(KEY, words, 0), KEY);
  uint64_t key = KEY;
  for (uint32_t i = 0; i < 3; i++) {
    const uint32_t counter[4] = {(uint32_t)words[i], i, 0x5a17u, 0};
    uint32_t out[4];
    sx_philox(counter, (uint32_t)key, (uint32_t)(key >> 32), out);
    key = (uint64_t)out[1] << 32 | out[0];
  }
  assert_int_equal(sx_draw_salt(KEY, words, 3), key);
  assert_int_equal(key, 0x67ccb02e792e2a7au);
}

static void test_blocks_equal_elements(void **state) {
  (void)state;
  for (uint64_t block = 0; block < 1000; block++) {
    float uniform[4], normal[4];
    sx_draw_uniform_block(KEY, block, uniform);
    sx_draw_normal_block(KEY, block, normal);
    for (uint64_t lane = 0; lane < 4; lane++) {
      assert_int_equal(sx_bits_f32(uniform[lane]), sx_bits_f32(sx_draw_uniform(KEY, 4 * block + lane)));
      assert_int_equal(sx_bits_f32(normal[lane]), sx_bits_f32(sx_draw_normal(KEY, 4 * block + lane)));
    }
  }
}

static void test_tiles_equal_blocks(void **state) {
  (void)state;
  float tile[4 * SX_DRAW_TILE], block[4];
  const uint64_t first = ((uint64_t)1 << 32) - 7; /* the block number's carry falls inside */
  sx_draw_normal_tile(KEY, first, tile);
  for (uint64_t i = 0; i < SX_DRAW_TILE; i++) {
    sx_draw_normal_block(KEY, first + i, block);
    assert_memory_equal(&tile[4 * i], block, sizeof block);
  }
}

static void test_pinned_draws(void **state) {
  (void)state;
  static const uint32_t uniform[6] = {0x3f385022u, 0x3f458cb0u, 0x3da53d00u, 0x3ef509feu, 0x3f2dca14u, 0x3ea47c1au};
  static const uint32_t normal[6] = {0x3de16be0u, 0xbf4d97ebu, 0xc00e4db2u, 0x3e9a0fceu, 0xbec317aau, 0x3f4b1becu};
  for (uint64_t i = 0; i < 6; i++) {
    assert_int_equal(sx_bits_f32(sx_draw_uniform(KEY, i)), uniform[i]);
    assert_int_equal(sx_bits_f32(sx_draw_normal(KEY, i)), normal[i]);
  }
  uint64_t uniform_hash = FNV1A_START, normal_hash = FNV1A_START;
  for (uint64_t i = 0; i < 100000; i++) {
    uniform_hash = fnv1a(uniform_hash, sx_bits_f32(sx_draw_uniform(KEY, i)), 4);
    normal_hash = fnv1a(normal_hash, sx_bits_f32(sx_draw_normal(KEY, i)), 4);
  }
  assert_int_equal(uniform_hash, 0xfdf127b457d9e911u);
  assert_int_equal(normal_hash, 0x6d6287fcd5197c19u);
}

static void test_extreme_words(void **state) {
  (void)state;
  float even, odd;
  assert_true(sx_uniform_from_word(0) == 0.0f);
  assert_true(sx_uniform_from_word(0xffffffffu) == 1.0f - 0x1p-24f);
  sx_normal_pair(0, 0, &even, &odd); /* the largest radius, sqrt(48 ln 2) */
  assert_true(even > 5.768f && even < 5.769f && odd == 0.0f);
  sx_normal_pair(0xffffffffu, 0x12345678u, &even, &odd); /* u1 = 1: radius 0 */
  assert_true(even == 0.0f && odd == 0.0f);
}

static void test_moments(void **state) {
  (void)state;
  const int n = 1 << 20;
  double uniform = 0, sum = 0, square = 0, fourth = 0;
  for (int i = 0; i < n; i++) {
    double u = (double)sx_draw_uniform(KEY + 1, (uint64_t)i);
    double x = (double)sx_draw_normal(KEY + 2, (uint64_t)i);
    assert_true(u >= 0 && u < 1);
    uniform += u;
    sum += x;
    square += x * x;
    fourth += x * x * x * x;
  }
  assert_true(fabs(uniform / n - 0.5) < 0.002);
  assert_true(fabs(sum / n) < 0.005);
  assert_true(fabs(square / n - 1) < 0.01);
  assert_true(fabs(fourth / n - 3) < 0.05);
}

static void check_bijection(uint64_t key, uint64_t epoch, uint64_t n) {
  unsigned char *seen = calloc(n, 1);
  assert_non_null(seen);
  for (uint64_t i = 0; i < n; i++) {
    uint64_t j = sx_shuffle_index(key, epoch, n, i);
    assert_true(j < n);
    assert_int_equal(seen[j], 0);
    seen[j] = 1;
  }
  free(seen);
}

static void test_shuffle_is_a_bijection(void **state) {
  (void)state;
  static const uint64_t sizes[] = {1, 2, 3, 5, 100, 1000, 65536, 100003};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
    for (uint64_t epoch = 0; epoch < 2; epoch++) check_bijection(KEY + i, epoch, sizes[i]);
  for (uint64_t n = 1; n < 70; n++) check_bijection(KEY, 3, n);
  assert_int_equal(sx_shuffle_index(KEY, 0, 0, 0), 0);
}

/* Places where two orders of n records agree. */
static uint64_t agreement(uint64_t key_a, uint64_t epoch_a, uint64_t key_b, uint64_t epoch_b, uint64_t n) {
  uint64_t same = 0;
  for (uint64_t i = 0; i < n; i++)
    same += sx_shuffle_index(key_a, epoch_a, n, i) == sx_shuffle_index(key_b, epoch_b, n, i);
  return same;
}

static void test_shuffle_differs_between_epochs_and_keys(void **state) {
  (void)state;
  assert_true(agreement(KEY, 0, KEY, 1, 10000) < 15); /* 1 is expected */
  assert_true(agreement(KEY, 0, KEY, (uint64_t)1 << 32, 10000) < 15);
  assert_true(agreement(KEY, 0, KEY + 1, 0, 10000) < 15);
  assert_true(agreement(KEY, 0, KEY + ((uint64_t)1 << 32), 0, 10000) < 15);
}

/* Each record comes to each place about equally often: chi-square over 16 x 16
 * cells (225 degrees of freedom; 320 has probability 3e-5), and neighbours part. */
static void test_shuffle_is_even(void **state) {
  (void)state;
  int count[16][16] = {{0}};
  const int n_epochs = 8000;
  for (int epoch = 0; epoch < n_epochs; epoch++)
    for (uint64_t i = 0; i < 16; i++) count[i][sx_shuffle_index(KEY, (uint64_t)epoch, 16, i)]++;
  double chi_square = 0, expected = n_epochs / 16.0;
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 16; j++) chi_square += (count[i][j] - expected) * (count[i][j] - expected) / expected;
  assert_true(chi_square < 320);
  uint64_t neighbours = 0, n = 100003;
  for (uint64_t i = 0; i + 1 < n; i++)
    neighbours += sx_shuffle_index(KEY, 0, n, i) + 1 == sx_shuffle_index(KEY, 0, n, i + 1);
  assert_true(neighbours < 15);
}

static void test_shuffle_pinned(void **state) {
  (void)state;
  static const uint64_t first[8] = {90065, 78966, 15438, 69749, 15483, 82882, 90385, 42230};
  uint64_t hash = FNV1A_START;
  for (uint64_t i = 0; i < 8; i++) assert_int_equal(sx_shuffle_index(KEY, 5, 100003, i), first[i]);
  for (uint64_t i = 0; i < 1000; i++) {
    hash = fnv1a(hash, sx_shuffle_index(KEY, i, 1000, i), 8);
    hash = fnv1a(hash, sx_shuffle_index(KEY, i, (uint64_t)1 << 62, i), 8);
  }
  assert_int_equal(hash, 0x8e8e1553643b492au);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_philox_known_answers),
      cmocka_unit_test(test_words_use_the_64_bit_block),
      cmocka_unit_test(test_salt_is_a_chain_of_philox),
      cmocka_unit_test(test_blocks_equal_elements),
      cmocka_unit_test(test_tiles_equal_blocks),
      cmocka_unit_test(test_pinned_draws),
      cmocka_unit_test(test_extreme_words),
      cmocka_unit_test(test_moments),
      cmocka_unit_test(test_shuffle_is_a_bijection),
      cmocka_unit_test(test_shuffle_differs_between_epochs_and_keys),
      cmocka_unit_test(test_shuffle_is_even),
      cmocka_unit_test(test_shuffle_pinned),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
