/* The simulated cuBLAS: settings, and what is refused. */
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/cudasim_blas.h"

#ifdef SX_CUDA
/* ---- settings ----------------------------------------------------------------------------------- */

static const blas_product SMALL = {false, false, 8, 8, 300, 1, CUDA_R_32F, CUDA_R_32F, 1, 0, 0};

static void read_versions(void *context) {
  (void)context;
  blas b;
  int number = 0, major = 0, minor = 0, patch = 0;
  blas_begin(&b);
  FINE(b.p_cublasGetVersion(b.handle, &number));
  FINE(b.p_cublasGetProperty(MAJOR_VERSION, &major));
  FINE(b.p_cublasGetProperty(MINOR_VERSION, &minor));
  FINE(b.p_cublasGetProperty(PATCH_LEVEL, &patch));
  fprintf(stderr, "version %d %d.%d.%d\n", number, major, minor, patch);
  blas_end(&b);
}

static void fail_second(void *context) {
  (void)context;
  blas b;
  blas_begin(&b);
  blas_memory m = blas_take(&SMALL);
  for (int i = 1; i <= 3; i++)
    fprintf(stderr, "call %d gives %s\n", i, b.p_cublasGetStatusString(blas_multiply(&b, &SMALL, &m)));
  mathlib_read(b.stream, m.host_c, m.c, m.n_c_bytes);
  blas_compare(&SMALL, &m);
  blas_give(&m);
  blas_end(&b);
}

static void repeat(void *context) {
  float *all = context;
  blas b;
  blas_begin(&b);
  blas_memory m = blas_take(&SMALL);
  for (int i = 0; i < 4; i++) {
    FINE(blas_multiply(&b, &SMALL, &m));
    mathlib_read(b.stream, all + 64 * i, m.c, m.n_c_bytes);
  }
  blas_give(&m);
  blas_end(&b);
}

static void use_pool(void *context) {
  (void)context;
  blas b;
  blas_begin(&b);
  FINE(b.p_cublasSetStream(b.handle, b.stream));
  blas_compute_and_compare(&b, &SMALL);
  blas_end(&b);
}

static void measure(void *context) {
  float *ms = context;
  static const blas_product big = {false, false, 256, 256, 256, 1, CUDA_R_32F, CUDA_R_32F, 1, 0, 0};
  CUevent from, to;
  blas b;
  blas_begin(&b);
  blas_memory m = blas_take(&big);
  CHECK(!cu.cuEventCreate(&from, CU_EVENT_DEFAULT) && !cu.cuEventCreate(&to, CU_EVENT_DEFAULT));
  CHECK(!cu.cuEventRecord(from, b.stream));
  for (int i = 0; i < 4; i++) FINE(blas_multiply(&b, &big, &m));
  CHECK(!cu.cuEventRecord(to, b.stream));
  CHECK(!cu.cuStreamSynchronize(b.stream));
  CHECK(!cu.cuEventElapsedTime(ms, from, to));
  CHECK(!cu.cuEventDestroy(from) && !cu.cuEventDestroy(to));
  blas_give(&m);
  blas_end(&b);
}

static void settings_are_obeyed(void **state) {
  (void)state;
  static outcome ended;
  mathlib_run(&ended, "a100", "cublas.version=120304", read_versions, NULL);
  mathlib_expect_ok(&ended);
  assert_non_null(strstr(ended.text, "version 120304 12.3.4"));
  mathlib_run(&ended, "a100", "cublas.fail=13@2", fail_second, NULL);
  mathlib_expect_ok(&ended);
  assert_non_null(strstr(ended.text, "call 1 gives the function completed"));
  assert_non_null(strstr(ended.text, "call 2 gives a program of the device failed"));
  assert_non_null(strstr(ended.text, "call 3 gives the function completed"));
  mathlib_run(&ended, "a100", "cublas.default_workspace=allow", use_pool, NULL);
  mathlib_expect_ok(&ended);
  mathlib_run(&ended, "a100", "cublas.best=1", read_versions, NULL);
  mathlib_expect_violation(&ended, "setting cublas.best=1: there is none of this name");
  mathlib_run(&ended, "a100", "speed.cublas.fastest=2", read_versions, NULL);
  mathlib_expect_violation(&ended, "setting speed.cublas.fastest=2: there is no such engine");
}

#define ALL_ENGINES "serial,blocks32,lanes4,lanes2,halves,split_blocks,split_lanes,split_tree"

static void an_engine_can_differ_from_call_to_call(void **state) {
  (void)state;
  static outcome ended;
  float *all = mathlib_share(4 * 64 * sizeof *all);
  mathlib_run(&ended, "a100", "", repeat, all);
  mathlib_expect_ok(&ended);
  for (int i = 1; i < 4; i++) assert_memory_equal(all, all + 64 * i, 64 * sizeof *all);
  mathlib_run(&ended, "a100", "cublas.nondeterministic=" ALL_ENGINES, repeat, all);
  mathlib_expect_ok(&ended);
  for (int i = 1; i < 4; i++) assert_memory_not_equal(all, all + 64 * i, 64 * sizeof *all);
}

static void an_engine_has_a_speed(void **state) {
  (void)state;
  static outcome ended;
  float *ms = mathlib_share(2 * sizeof *ms);
  mathlib_run(&ended, "a100", "", measure, ms);
  mathlib_expect_ok(&ended);
  mathlib_run(&ended, "a100",
              "speed.cublas.serial=0.01\nspeed.cublas.blocks32=0.01\nspeed.cublas.lanes4=0.01\n"
              "speed.cublas.lanes2=0.01\nspeed.cublas.halves=0.01\nspeed.cublas.split_blocks=0.01\n"
              "speed.cublas.split_lanes=0.01\nspeed.cublas.split_tree=0.01",
              measure, ms + 1);
  mathlib_expect_ok(&ended);
  printf("%g ms, and %g ms at a hundredth of the speed\n", (double)ms[0], (double)ms[1]);
  assert_true(ms[0] > 0 && ms[1] > 4 * ms[0]);
}

/* ---- violations --------------------------------------------------------------------------------- */

/* A call that is wrong in one way, of many. */
typedef struct wrong {
  const char *words;
  void (*call)(blas *b, const blas_memory *m);
} wrong;

static const float ONE = 1, ZERO = 0;

static void gemm(blas *b, const blas_memory *m, int lda, cublasComputeType_t compute, cublasGemmAlgo_t algo) {
  b->p_cublasGemmEx(b->handle, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 300, &ONE, m->a, CUDA_R_32F, lda, m->b, CUDA_R_32F, 300,
                    &ZERO, m->c, CUDA_R_32F, 8, compute, algo);
}
static void sgemm(blas *b, const void *a, const void *c, void *d, const float *alpha, int ldc) {
  b->p_cublasSgemm(b->handle, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 300, alpha, a, 8, c, 300, &ZERO, d, ldc);
}

static void stale_workspace(blas *b, const blas_memory *m) {
  FINE(b->p_cublasSetStream(b->handle, b->stream));
  sgemm(b, m->a, m->b, m->c, &ONE, 8);
}
static void autotune(blas *b, const blas_memory *m) {
  gemm(b, m, 8, CUBLAS_COMPUTE_32F_PEDANTIC, CUBLAS_GEMM_AUTOTUNE);
}
static void numbered(blas *b, const blas_memory *m) { gemm(b, m, 8, CUBLAS_COMPUTE_32F_PEDANTIC, CUBLAS_GEMM_ALGO3); }
static void tf32(blas *b, const blas_memory *m) { gemm(b, m, 8, CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_GEMM_DEFAULT); }
static void not_pedantic(blas *b, const blas_memory *m) {
  FINE(b->p_cublasSetMathMode(b->handle, CUBLAS_DEFAULT_MATH));
  gemm(b, m, 8, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}
static void reduced(blas *b, const blas_memory *m) {
  FINE(b->p_cublasSetMathMode(b->handle, CUBLAS_DEFAULT_MATH));
  b->p_cublasGemmEx(b->handle, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 300, &ONE, m->a, CUDA_R_16BF, 8, m->b, CUDA_R_16BF, 300,
                    &ZERO, m->c, CUDA_R_16BF, 8, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}
static void narrow_a(blas *b, const blas_memory *m) { gemm(b, m, 7, CUBLAS_COMPUTE_32F_PEDANTIC, CUBLAS_GEMM_DEFAULT); }
static void narrow_c(blas *b, const blas_memory *m) { sgemm(b, m->a, m->b, m->c, &ONE, 7); }
static void atomics(blas *b, const blas_memory *m) {
  (void)m;
  b->p_cublasSetAtomicsMode(b->handle, CUBLAS_ATOMICS_ALLOWED);
}
static void fast_math(blas *b, const blas_memory *m) {
  (void)m;
  b->p_cublasSetMathMode(b->handle, CUBLAS_TF32_TENSOR_OP_MATH);
}
static void device_alpha(blas *b, const blas_memory *m) { sgemm(b, m->a, m->b, m->c, m->a, 8); }
static void host_operand(blas *b, const blas_memory *m) { sgemm(b, m->wide_a, m->b, m->c, &ONE, 8); }
static void past_the_end(blas *b, const blas_memory *m) { sgemm(b, m->a, m->b, m->c, &ONE, 9); }
static void in_place(blas *b, const blas_memory *m) { sgemm(b, m->a, m->b, m->a, &ONE, 8); }
static void crooked(blas *b, const blas_memory *m) { sgemm(b, m->a, m->b, (char *)m->c + 2, &ONE, 8); }
static void crowded_batch(blas *b, const blas_memory *m) {
  b->p_cublasSgemmStridedBatched(b->handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &ONE, m->a, 4, 16, m->b, 4, 16, &ZERO,
                                 m->c, 4, 8, 2);
}
static void crooked_workspace(blas *b, const blas_memory *m) {
  (void)m;
  b->p_cublasSetWorkspace(b->handle, (char *)b->workspace + 16, 1024);
}
static void foreign_workspace(blas *b, const blas_memory *m) {
  (void)m;
  static _Alignas(256) char host[1024];
  b->p_cublasSetWorkspace(b->handle, host, sizeof host);
}
static void freed_workspace(blas *b, const blas_memory *m) {
  (void)m;
  b->p_cublasSetWorkspace(b->handle, b->workspace, BLAS_WORKSPACE_N_BYTES + 1);
}
static void no_handle(blas *b, const blas_memory *m) {
  (void)m;
  int number;
  b->p_cublasGetVersion((cublasHandle_t)b->workspace, &number);
}
static void lost_handle(blas *b, const blas_memory *m) {
  (void)m;
  cublasHandle_t other;
  FINE(b->p_cublasCreate(&other));
}
static void dead_stream(blas *b, const blas_memory *m) {
  (void)m;
  CUstream stream;
  CHECK(!cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) && !cu.cuStreamDestroy(stream));
  b->p_cublasSetStream(b->handle, stream);
}

static const wrong WRONG[] = {
    {"the handle has the default workspace: set one after every change of its stream", stale_workspace},
    {"CUBLAS_GEMM_AUTOTUNE chooses by time", autotune},
    {"the algorithm is not CUBLAS_GEMM_DEFAULT", numbered},
    {"the compute type is neither", tf32},
    {"a product of f32 has to be pedantic", not_pedantic},
    {"without CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION", reduced},
    {"lda is less than the rows of A", narrow_a},
    {"ldc is less than the rows of C", narrow_c},
    {"atomics are allowed", atomics},
    {"the mode allows other arithmetic than f32's", fast_math},
    {"alpha or beta is in device memory", device_alpha},
    {"cublasSgemm_v2", host_operand},
    {"cublasSgemm_v2", past_the_end},
    {"the result overlaps an operand", in_place},
    {"a matrix is not aligned to its elements", crooked},
    {"matrices of the batch overlap in the result", crowded_batch},
    {"the workspace is not aligned to 256 bytes", crooked_workspace},
    {"the workspace is not one allocation of device memory", foreign_workspace},
    {"the workspace is not one allocation of device memory", freed_workspace},
    {"the handle is not one, or was destroyed", no_handle},
    {"cuBLAS: 1 of kind handle not destroyed at the end", lost_handle},
    {"the stream is not one, or was destroyed", dead_stream},
};

static void do_wrong(void *context) {
  const wrong *w = context;
  blas b;
  blas_begin(&b);
  blas_memory m = blas_take(&SMALL);
  w->call(&b, &m);
  FINE(b.p_cublasSetStream(b.handle, b.stream)); /* other calls go on */
  blas_give(&m);
  blas_end(&b);
}

static void what_is_wrong_is_a_violation(void **state) {
  (void)state;
  static outcome ended;
  for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
    mathlib_run(&ended, "a100", "", do_wrong, (void *)(uintptr_t)&WRONG[i]);
    mathlib_expect_violation(&ended, WRONG[i].words);
    if (strchr(strstr(ended.text, "cudasim:"), '\n') != strrchr(ended.text, '\n'))
      fail_msg("more than one line: %s", ended.text);
  }
}
#endif

MATHLIB_MAIN(true, cmocka_unit_test(settings_are_obeyed), cmocka_unit_test(an_engine_can_differ_from_call_to_call),
             cmocka_unit_test(an_engine_has_a_speed), cmocka_unit_test(what_is_wrong_is_a_violation))
