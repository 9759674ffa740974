/* Convolutions of the device without one: what a decided engine that cannot be taken comes to. */
#include "../common/cuda.h"

#ifdef SX_CUDA
#include <string.h>

#include "../../libsexp/cuda/convolve.h"
#include "../../libsexp/cuda/cuda.h"
#include "../common/cmocka_all.h"

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
  assert_true(cuda.failure.failed && cuda.failure.code == SX_E_DEVICE_ENGINE);
  assert_non_null(strstr(cuda.failure.text, CUDA_SEED_KEY ": engine x cannot be taken: "));
  assert_non_null(strstr(cuda.failure.text, "the record names none of them: "));
  cuda_end(&c);
}

CUDNN_MAIN(cmocka_unit_test(test_engine_that_is_none))
#else
CUDNN_MAIN()
#endif
