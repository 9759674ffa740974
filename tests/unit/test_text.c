#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../libsexp/base/text.h"
#include "../common/cmocka_all.h"

typedef struct fixture {
  sx_memory memory;
  sx_arena arena;
  sx_text text;
} fixture;

static void begin(fixture *f) {
  f->memory = sx_memory_default();
  sx_arena_init(&f->arena, &f->memory);
  sx_text_init(&f->text, &f->arena);
}

static void test_text_grows(void **state) {
  (void)state;
  fixture f;
  begin(&f);
  assert_string_equal(sx_text_get(&f.text), "");
  for (int i = 0; i < 1000; i++) sx_text_addf(&f.text, "%d,", i % 10);
  assert_int_equal(f.text.n, 2000);
  assert_memory_equal(f.text.bytes + 1980, "0,1,2,3,4,5,6,7,8,9,", 20);
  sx_text_add_bytes(&f.text, "a\0b", 3);
  assert_memory_equal(f.text.bytes + 2000, "a\0b\0", 4);
  sx_arena_free(&f.arena);
}

static void test_shapes(void **state) {
  (void)state;
  fixture f;
  begin(&f);
  sx_text_add_shape(&f.text, (int64_t[]){2, 0, 1 << 20}, 3);
  sx_text_add_shape(&f.text, NULL, 0);
  assert_string_equal(sx_text_get(&f.text), "[2 0 1048576][]");
  sx_arena_free(&f.arena);
}

static void expect_f64(double value, const char *wanted) {
  fixture f;
  begin(&f);
  sx_text_add_f64(&f.text, value);
  assert_string_equal(sx_text_get(&f.text), wanted);
  sx_arena_free(&f.arena);
}

static void expect_f32(float value, const char *wanted) {
  fixture f;
  begin(&f);
  sx_text_add_f32(&f.text, value);
  assert_string_equal(sx_text_get(&f.text), wanted);
  sx_arena_free(&f.arena);
}

static void test_reals_are_short_and_whole_numbers_written_out(void **state) {
  (void)state;
  expect_f64(0.1, "0.1");
  expect_f64(0.1 + 0.2, "0.30000000000000004");
  expect_f64(10, "10");
  expect_f64(-100000, "-100000");
  expect_f64(-0.0, "-0");
  expect_f64(1e15, "1e+15");
  expect_f64(123456789012345, "123456789012345");
  expect_f64(5e-324, "5e-324");
  expect_f64((double)INFINITY, "inf");
  expect_f64(-(double)INFINITY, "-inf");
  expect_f64(-(double)NAN, "nan");
  expect_f32(0.1F, "0.1");
  expect_f32(30, "30");
  expect_f32(16777216, "16777216");
  expect_f32(1e7F, "1e+07");
  expect_f32(3.4028235e38F, "3.4028235e+38");
  expect_f32((float)NAN, "nan");
}

static void test_reals_read_back(void **state) {
  (void)state;
  uint64_t bits = 0x9e3779b97f4a7c15u;
  for (int i = 0; i < 20000; i++) {
    fixture f;
    double value;
    float narrow;
    bits = bits * 6364136223846793005u + 1442695040888963407u;
    uint32_t low = (uint32_t)(bits >> 32);
    memcpy(&value, &bits, sizeof value);
    memcpy(&narrow, &low, sizeof narrow);
    begin(&f);
    sx_text_add_f64(&f.text, value);
    if (!isnan(value)) assert_true(strtod(sx_text_get(&f.text), NULL) == value);
    f.text.n = 0;
    sx_text_add_f32(&f.text, narrow);
    if (!isnan(narrow)) assert_true(strtof(sx_text_get(&f.text), NULL) == narrow);
    sx_arena_free(&f.arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_text_grows),
      cmocka_unit_test(test_shapes),
      cmocka_unit_test(test_reals_are_short_and_whole_numbers_written_out),
      cmocka_unit_test(test_reals_read_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
