/* What "repeats" promises: a run's every bit is the same again, with any number of threads, SIMD level,
 * without optimization and without reading ahead. */
#include <stdlib.h>
#include <string.h>

#include "../../libsexp/cpu/kernel.h"
#include "../common/cmocka_all.h"
#include "../common/moderate.h"
#include "../common/transcript.h"

static const char *const runs[] = {"images", "text", "made"};
enum { N_RUNS = sizeof runs / sizeof *runs };

static char *transcript(const char *run, bool optimize, const sexp_run_options *run_options) {
  memory_host files = {0};
  sexp_options options = SEXP_OPTIONS_DEFAULT;
  options.run = run;
  options.optimize = optimize;
  moderate_add(&files);
  return transcript_of(&files, MODERATE_PATH, &options, run_options);
}

static sexp_run_options settings(int threads) {
  sexp_run_options options = SEXP_RUN_OPTIONS_DEFAULT;
  options.threads = threads;
  options.digest_every = 1;
  return options;
}

static void assert_same(const char *expected, const char *got, const char *what) {
  char difference[TRANSCRIPT_DIFFERENCE];
  if (!transcript_same(difference, expected, got)) fail_msg("%s differs:\n%s", what, difference);
}

static void compare(const char *run, const char *expected, bool optimize, const sexp_run_options *options,
                    const char *what) {
  char *got = transcript(run, optimize, options);
  assert_same(expected, got, what);
  free(got);
}

static void test_ends_well(void **state) {
  (void)state;
  for (int r = 0; r < N_RUNS; r++) {
    sexp_run_options options = settings(1);
    char *text = transcript(runs[r], true, &options);
    if (!strstr(text, "status 1\n") || strstr(text, "E-")) fail_msg("%s", text);
    free(text);
  }
}

static void test_repeats_with_the_same_bits(void **state) {
  (void)state;
  for (int r = 0; r < N_RUNS; r++) {
    sexp_run_options options = settings(1);
    char *expected = transcript(runs[r], true, &options);
    compare(runs[r], expected, true, &options, "a second run");
    free(expected);
  }
}

static void test_threads_change_no_bit(void **state) {
  (void)state;
  static const int threads[] = {2, 3, 7};
  for (int r = 0; r < N_RUNS; r++) {
    sexp_run_options options = settings(1);
    char *expected = transcript(runs[r], true, &options);
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
      options = settings(threads[i]);
      compare(runs[r], expected, true, &options, "another number of threads");
    }
    free(expected);
  }
}

static void test_optimization_changes_no_bit(void **state) {
  (void)state;
  for (int r = 0; r < N_RUNS; r++) {
    sexp_run_options options = settings(2);
    char *expected = transcript(runs[r], true, &options);
    compare(runs[r], expected, false, &options, "without optimization");
    free(expected);
  }
}

static void test_reading_ahead_changes_no_bit(void **state) {
  (void)state;
  for (int r = 0; r < N_RUNS; r++) {
    sexp_run_options options = settings(2);
    char *expected = transcript(runs[r], true, &options);
    options.reads_ahead = false;
    compare(runs[r], expected, true, &options, "reading on demand");
    free(expected);
  }
}

static void test_simd_levels_change_no_bit(void **state) {
  (void)state;
  for (int r = 0; r < N_RUNS; r++) {
    sexp_run_options options = settings(2);
    char *expected = transcript(runs[r], true, &options);
    for (int level = 0; level < SX_N_SIMD; level++) {
      if (!sx_simd_available((sx_simd)level)) continue;
      options.simd = sx_simd_name((sx_simd)level);
      compare(runs[r], expected, true, &options, options.simd);
    }
    free(expected);
  }
}

/* Nodes observed one by one are those of the fused run: the digests after it are the same. */
static void test_observing_nodes_changes_no_bit(void **state) {
  (void)state;
  sexp_run_options options = settings(2);
  options.digest_every = 0;
  char *expected = transcript("images", true, &options);
  options.digest_nodes_at = 6; /* sampled for diagnostics too */
  char *got = transcript("images", true, &options), *nodes = strstr(got, "  digest/node/");
  assert_non_null(nodes);
  char *to = nodes, *from = nodes;
  for (; !strncmp(from, "  digest/node/", 14); from = strchr(from, '\n') + 1) continue;
  memmove(to, from, strlen(from) + 1);
  assert_same(expected, got, "a run with observed nodes");
  free(expected);
  free(got);
}

static void test_seeds_differ(void **state) {
  (void)state;
  sexp_run_options options = settings(1);
  char *a = transcript("images", true, &options), *b = transcript("text", true, &options);
  assert_string_not_equal(a, b);
  free(a);
  free(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ends_well),
      cmocka_unit_test(test_repeats_with_the_same_bits),
      cmocka_unit_test(test_threads_change_no_bit),
      cmocka_unit_test(test_optimization_changes_no_bit),
      cmocka_unit_test(test_reading_ahead_changes_no_bit),
      cmocka_unit_test(test_simd_levels_change_no_bit),
      cmocka_unit_test(test_observing_nodes_changes_no_bit),
      cmocka_unit_test(test_seeds_differ),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
