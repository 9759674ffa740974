/* Opening the device on the stand-ins: what it says of itself, and what it refuses and why. */
#include "../common/device_case.h"

#ifdef SX_CUDA
#include <fenv.h>
#include <string.h>

#include "../common/cmocka_all.h"

static const sexp_device_options PLAIN = SEXP_DEVICE_OPTIONS_DEFAULT;

static void check_text(const sexp_device *device, const char *expected) {
  const char *text = sexp_device_describe(device)->text;
  if (strcmp(text, expected) != 0) fprintf(stderr, "%s\n", text);
  CHECK(strcmp(text, expected) == 0);
  CHECK(strcmp(text, device->backend->facts) == 0);
}

/* ---- what it says -------------------------------------------------------------------------------- */

static void says_a100(void) {
  sexp_device *device = device_open(PLAIN);
  const sexp_device_facts *facts = sexp_device_describe(device);
  char expected[256];
  const char *cudnn = strstr(facts->text, "cuDNN "), *cublas = strstr(facts->text, "cuBLAS ");
  CHECK(cudnn && cublas);
  snprintf(expected, sizeof expected,
           "compute_80 with 108 multiprocessors, cuBLAS %d, cuDNN %d, NVRTC 13.0, patterns on", atoi(cublas + 7),
           atoi(cudnn + 6));
  check_text(device, expected);
  CHECK(strcmp(facts->gpu, "NVIDIA A100-SXM4-40GB") == 0);
  CHECK(facts->driver == 13000 && facts->capability == 80 && facts->multiprocessors == 108);
  CHECK(facts->total_bytes == 42949672960 && facts->free_bytes > 0 && facts->free_bytes < facts->total_bytes);
  CHECK(strstr(facts->libraries, "{\"CUDA driver\":\"13.0\",\"NVRTC\":\"13.0\",\"cuBLAS\":\"") == facts->libraries);
  sexp_device_close(device);
}

static void says_h200_without_patterns(void) {
  sexp_device_options options = PLAIN;
  options.patterns = false;
  options.memory_bytes = 12 * (INT64_C(1) << 30);
  sexp_device *device = device_open(options);
  const sexp_device_facts *facts = sexp_device_describe(device);
  CHECK(strstr(facts->text, "compute_90 with 132 multiprocessors, cuBLAS ") == facts->text);
  CHECK(strstr(facts->text, ", NVRTC 13.0, patterns off"));
  CHECK(facts->free_bytes > 11 * (INT64_C(1) << 30) && facts->free_bytes < 12 * (INT64_C(1) << 30));
  sexp_device_close(device);
}

static void says_portable(void) {
  sexp_device_options options = PLAIN;
  options.portable = true;
  sexp_device *device = device_open(options);
  check_text(device, "compute_80 with 108 multiprocessors, portable, NVRTC 13.0, patterns on");
  sexp_device_close(device);
}

static void opens_the_second_again_and_again(void) {
  sexp_device_options options = PLAIN;
  options.ordinal = 1;
  sexp_failure why;
  CHECK(sexp_device_count(device_libraries(), &why) == 2 && !why.code[0]);
  for (int i = 0; i < 3; i++) sexp_device_close(device_open(options));
  sexp_device_close(NULL);
}

static void leaves_rounding(void) {
  fesetround(FE_DOWNWARD);
  sexp_device *device = device_open(PLAIN);
  CHECK(fegetround() == FE_DOWNWARD);
  sexp_device_close(device);
}

static void a_device_says_what_it_is(void **state) {
  (void)state;
  cudasim_good("", says_a100);
  cudasim_good("card=tests/cuda/h200.json", says_h200_without_patterns);
  cudasim_good("", says_portable);
  cudasim_good("count=2", opens_the_second_again_and_again);
  cudasim_good("", leaves_rounding);
}

/* ---- what it refuses ----------------------------------------------------------------------------- */

static void without_driver(void) {
  sexp_device_options options = PLAIN;
  options.libraries = "tests/cuda";
  device_refuse(options, "E-DEVICE-010",
                (const char *const[]){"CUDA driver is not found at tests/cuda", "libcuda.so.1", "No such file"});
  sexp_failure why;
  CHECK(sexp_device_count("tests/cuda", &why) == 0);
  CHECK(strcmp(why.code, "E-DEVICE-010") == 0 && strstr(why.message, "tests/cuda/libcuda.so.1"));
}

static void without_device(void) {
  device_refuse(PLAIN, "E-DEVICE-021",
                (const char *const[]){"the CUDA driver 13.0 at ", "libcuda.so.1 shows no device", "cuInit gives 100"});
  sexp_failure why;
  CHECK(sexp_device_count(device_libraries(), &why) == 0 && strcmp(why.code, "E-DEVICE-021") == 0);
}

static void without_that_device(void) {
  sexp_device_options options = PLAIN;
  options.ordinal = 2;
  device_refuse(options, "E-DEVICE-022", (const char *const[]){"there is no device 2", "the driver shows 2", "from 0"});
  options.ordinal = -1;
  device_refuse(options, "E-DEVICE-022", (const char *const[]){"there is no device -1", "", ""});
}

static void too_old(void) {
  device_refuse(PLAIN, "E-DEVICE-023",
                (const char *const[]){"device 0, NVIDIA A100", "has compute capability 7.0", "it takes 7.5 or later"});
}

static void unknown_to_nvrtc(void) {
  device_refuse(PLAIN, "E-DEVICE-024",
                (const char *const[]){"does not compile for compute_99", "NVRTC 13.0 at ", " 80 "});
}

static void driver_too_old(void) {
  device_refuse(PLAIN, "E-DEVICE-029",
                (const char *const[]){"the CUDA driver 12.8 at ", "is older than NVRTC 13.0 at ", "libnvrtc.so.13"});
}

static void no_memory_for_the_workspace(void) {
  device_refuse(PLAIN, "E-DEVICE-026", (const char *const[]){"4194304 bytes are asked for", "", "are free"});
}

static void a_refusal_says_what_was_found(void **state) {
  (void)state;
  cudasim_good("", without_driver);
  cudasim_good("count=0", without_device);
  cudasim_good("count=2", without_that_device);
  cudasim_good("device.capability=7.0", too_old);
  cudasim_good("device.capability=9.9", unknown_to_nvrtc);
  cudasim_good("driver.version=12080", driver_too_old);
  cudasim_good("memory.fail_at=1", no_memory_for_the_workspace);
}

int main(void) {
  if (!cudasim_has_nvrtc()) return 0;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_device_says_what_it_is),
      cmocka_unit_test(a_refusal_says_what_was_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
#include <string.h>

#include "../../libsexp/sexp.h"
#include "../../libsexp/sexp_device.h"

/* What a build without CUDA says. */
int main(void) {
  sexp_device *device = NULL;
  sexp_messages *messages = NULL;
  sexp_device_options options = SEXP_DEVICE_OPTIONS_DEFAULT;
  if (sexp_device_open(&device, &messages, &options) == SEXP_OK || sexp_messages_count(messages) != 1 ||
      strcmp(sexp_messages_get(messages, 0)->code, "E-DEVICE-020") != 0) {
    puts("0 passed, 1 failed");
    return 1;
  }
  sexp_messages_free(messages);
  puts("1 passed, 0 failed");
  return 0;
}
#endif
