/* Convolutions of the device without one: what a decided engine that cannot be taken comes to. */
#include "../common/cuda.h"

#ifdef SX_CUDA
#include <stdarg.h>
#include <string.h>

#include "../../libsexp/cuda/convolve.h"
#include "../../libsexp/cuda/cuda.h"
#include "../common/cmocka_all.h"

/* ---- what is asked of the device ---- */

static sx_code failed_code;
static char failed_text[1024];

bool sx_cuda_fail(sx_cuda *cuda, sx_code code, const char *format, ...) {
  (void)cuda;
  va_list arguments;
  va_start(arguments, format);
  failed_code = code;
  vsnprintf(failed_text, sizeof failed_text, format, arguments);
  va_end(arguments);
  return false;
}

bool sx_cuda_check_cudnn(sx_cuda *cuda, cudnnStatus_t status, const char *call) {
  return status == CUDNN_STATUS_SUCCESS || sx_cuda_fail(cuda, SX_E_DEVICE_CUDNN, "%s", call);
}

CUdeviceptr sx_cuda_convolution_workspace(sx_cuda *cuda) {
  (void)cuda;
  return 0;
}

/* ---- refusals ---- */

static void test_engine_that_is_none(void **state) {
  (void)state;
  cuda_case c;
  cuda_begin(&c, "a100");
  static sx_cuda cuda;
  cuda.api = c.api;
  cuda.properties = c.device;
  sx_convolve convolve = {.convolution = cuda_seed_convolution(), .engine = "engine x", .arena = &c.arena};
  sx_work work = {.kind = SX_WORK_CONVOLVE, .convolve = &convolve};
  assert_false(sx_convolve_prepare(&cuda, &work));
  sx_convolve_release(&cuda, &work);
  sx_convolve_release(&cuda, &work);
  assert_int_equal(failed_code, SX_E_DEVICE_ENGINE);
  assert_non_null(strstr(failed_text, CUDA_SEED_KEY ": engine x cannot be taken: "));
  assert_non_null(strstr(failed_text, "the record names none of them: "));
  cuda_end(&c);
}

CUDNN_MAIN(cmocka_unit_test(test_engine_that_is_none))
#else
CUDNN_MAIN()
#endif
