/* Whole runs on the simulated device: with the products of numerics 1 the CPU's bits in every value, digest and tensor;
 * with its own products, the same again; stacked, the CPU's sums. */
#include "../common/device_case.h"

#ifdef SX_CUDA
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/moderate.h"
#include "../common/transcript.h"

static const char *run_name;
static bool portable;
static int64_t digest_every, digest_nodes_at;

static char *transcript(sexp_device *device) {
  memory_host files = {0};
  sexp_options options = SEXP_OPTIONS_DEFAULT;
  sexp_run_options run_options = SEXP_RUN_OPTIONS_DEFAULT;
  options.run = run_name;
  run_options.threads = 1;
  run_options.digest_every = digest_every;
  run_options.digest_nodes_at = digest_nodes_at;
  run_options.device = device;
  moderate_add(&files);
  return transcript_of(&files, MODERATE_PATH, &options, &run_options);
}

static void same(const char *expected, const char *got) {
  char difference[TRANSCRIPT_DIFFERENCE];
  bool is_same = transcript_same(difference, expected, got);
  if (!is_same) fprintf(stderr, "%s differs:\n%s\n", run_name, difference);
  CHECK(is_same);
}

static void compare(void) {
  sexp_device_options options = SEXP_DEVICE_OPTIONS_DEFAULT;
  options.portable = portable;
  sexp_device *device = device_open(options);
  char *expected = transcript(portable ? NULL : device), *got = transcript(device);
  CHECK(strstr(got, "status 1\n"));
  same(expected, got);
  free(expected);
  free(got);
  sexp_device_close(device);
}

static void check(const char *run, bool is_portable, int64_t every, int64_t nodes_at) {
  run_name = run;
  portable = is_portable;
  digest_every = every;
  digest_nodes_at = nodes_at;
  cudasim_good("", compare);
}

static void portable_runs_have_the_bits_of_the_cpu(void **state) {
  (void)state;
  check("images", true, 3, 0);
  check("text", true, 0, 0);
  check("made", true, 2, 2);
}

static void runs_repeat_their_bits(void **state) {
  (void)state;
  check("images", false, 4, 0);
  check("made", false, 0, 0);
}

int main(void) {
  if (!cudasim_has_nvrtc()) return 0;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(portable_runs_have_the_bits_of_the_cpu),
      cmocka_unit_test(runs_repeat_their_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
  puts("skipped: this build was made without the headers of CUDA and cuDNN (make says why)");
  return 0;
}
#endif
