#include "cudasim_blas.h"

#ifdef SX_CUDA
#include <math.h>
#include <string.h>

#define NAME_OF(function) #function

void blas_begin(blas *b) {
  b->stream = mathlib_begin();
  void *library = mathlib_library("libcublas.so.13");
#define ROW(function) *(void **)&b->p_##function = mathlib_function(library, NAME_OF(function));
  BLAS(ROW)
#undef ROW
  b->workspace = mathlib_take(BLAS_WORKSPACE_N_BYTES);
  FINE(b->p_cublasCreate(&b->handle));
  FINE(b->p_cublasSetStream(b->handle, b->stream));
  FINE(b->p_cublasSetWorkspace(b->handle, b->workspace, BLAS_WORKSPACE_N_BYTES));
  FINE(b->p_cublasSetMathMode(b->handle,
                              (cublasMath_t)(CUBLAS_PEDANTIC_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)));
}

void blas_end(blas *b) {
  FINE(b->p_cublasDestroy(b->handle));
  mathlib_give(b->workspace);
  mathlib_end(b->stream);
}

/* ---- numbers ------------------------------------------------------------------------------------ */

/* f16 of a sixteenth. */
static uint16_t half_of(float value) {
  int exponent;
  float fraction = frexpf(fabsf(value), &exponent);
  unsigned sign = value < 0 ? 0x8000 : 0;
  return (uint16_t)(value == 0 ? 0 : sign | (unsigned)(exponent + 14) << 10 | (unsigned)((fraction * 2 - 1) * 1024));
}

/* Values that the type has exactly, also as f32. */
static void fill(cudaDataType_t type, void *values, float *wide, size_t n, uint64_t seed) {
  for (size_t i = 0; i < n; i++) {
    float value = mathlib_uniform(&seed);
    uint32_t bits = mathlib_bits_of(value);
    wide[i] = type == CUDA_R_32F ? value : mathlib_of_bits(bits & 0xffff0000);
    if (type == CUDA_R_32F) ((float *)values)[i] = value;
    if (type == CUDA_R_16BF) ((uint16_t *)values)[i] = (uint16_t)(bits >> 16);
    if (type == CUDA_R_16F) { /* sixteenths from -1 to 1 */
      float sixteenth = (float)(int)(value * 16) / 16;
      ((uint16_t *)values)[i] = half_of(sixteenth);
      wide[i] = sixteenth;
    }
  }
}

static double value_of(cudaDataType_t type, const void *values, size_t at) {
  if (type == CUDA_R_32F) return (double)((const float *)values)[at];
  uint16_t half = ((const uint16_t *)values)[at];
  if (type == CUDA_R_16BF) return (double)mathlib_of_bits((uint32_t)half << 16);
  int exponent = half >> 10 & 31, fraction = half & 1023;
  double size = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
  return half >> 15 ? -size : size;
}

static size_t size_of(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : 2; }

typedef struct matrices {
  int lda, ldb, ldc, a_columns, b_columns;
  size_t n_a, n_b, n_c; /* of one matrix */
} matrices;

/* ---- products ------------------------------------------------------------------------------------ */

static matrices shape(const blas_product *p) {
  matrices s = {.lda = (p->ta ? p->k : p->m) + p->gap, .ldb = (p->tb ? p->n : p->k) + p->gap, .ldc = p->m + p->gap};
  if (s.lda < 1) s.lda = 1;
  if (s.ldb < 1) s.ldb = 1;
  s.a_columns = p->ta ? p->m : p->k;
  s.b_columns = p->tb ? p->k : p->n;
  s.n_a = (size_t)s.lda * (size_t)s.a_columns;
  s.n_b = (size_t)s.ldb * (size_t)s.b_columns;
  s.n_c = (size_t)s.ldc * (size_t)p->n;
  return s;
}

void *blas_upload(cudaDataType_t type, float **wide, size_t n, uint64_t seed, void **host) {
  n = n ? n : 1;
  void *values = malloc(n * 4), *device = mathlib_take(n * size_of(type));
  *wide = malloc(n * sizeof **wide);
  fill(type, values, *wide, n, seed);
  mathlib_write(device, values, n * size_of(type));
  if (host)
    *host = values;
  else
    free(values);
  return device;
}

blas_memory blas_take(const blas_product *p) {
  matrices s = shape(p);
  size_t n_batch = (size_t)p->n_batch;
  blas_memory m = {.n_c_bytes = s.n_c * n_batch * size_of(p->output)};
  m.a = blas_upload(p->input, &m.wide_a, s.n_a * n_batch, 1, NULL);
  m.b = blas_upload(p->input, &m.wide_b, s.n_b * n_batch, 2, NULL);
  m.c = blas_upload(p->output, &m.wide_c, s.n_c * n_batch, 3, &m.host_c);
  return m;
}

void blas_give(blas_memory *m) {
  mathlib_give(m->a);
  mathlib_give(m->b);
  mathlib_give(m->c);
  free(m->wide_a);
  free(m->wide_b);
  free(m->wide_c);
  free(m->host_c);
}

cublasStatus_t blas_multiply(blas *b, const blas_product *p, const blas_memory *m) {
  matrices s = shape(p);
  return b->p_cublasGemmStridedBatchedEx(
      b->handle, p->ta ? CUBLAS_OP_T : CUBLAS_OP_N, p->tb ? CUBLAS_OP_T : CUBLAS_OP_N, p->m, p->n, p->k, &p->alpha,
      m->a, p->input, s.lda, (long long)s.n_a, m->b, p->input, s.ldb, (long long)s.n_b, &p->beta, m->c, p->output,
      s.ldc, (long long)s.n_c, p->n_batch, p->input == CUDA_R_32F ? CUBLAS_COMPUTE_32F_PEDANTIC : CUBLAS_COMPUTE_32F,
      CUBLAS_GEMM_DEFAULT);
}

/* Against binary64: k + 2 roundings of sums of the sizes of the products, and one of the result to its type. */
void blas_compare(const blas_product *p, const blas_memory *m) {
  matrices s = shape(p);
  for (size_t batch = 0; batch < (size_t)p->n_batch; batch++)
    for (int j = 0; j < p->n; j++)
      for (int i = 0; i < p->m; i++) {
        double sum = 0, sizes = 0;
        for (int k = 0; k < p->k; k++) {
          double x = (double)m->wide_a[batch * s.n_a + (size_t)(p->ta ? k + i * s.lda : i + k * s.lda)];
          double y = (double)m->wide_b[batch * s.n_b + (size_t)(p->tb ? j + k * s.ldb : k + j * s.ldb)];
          sum += x * y;
          sizes += fabs(x * y);
        }
        size_t at = batch * s.n_c + (size_t)(i + j * s.ldc);
        double old = (double)p->beta * (double)m->wide_c[at], wanted = (double)p->alpha * sum + old;
        double bound = (p->k + 4) * 0x1p-24 * (fabs((double)p->alpha) * sizes + fabs(old));
        double unit = p->output == CUDA_R_32F ? 0x1p-24 : p->output == CUDA_R_16BF ? 0x1p-8 : 0x1p-11;
        bound += unit * fabs(wanted) + 0x1p-25;
        bool is_within_its_bound = fabs(value_of(p->output, m->host_c, at) - wanted) <= bound;
        if (!is_within_its_bound)
          fprintf(stderr, "%d %d: %.9g, not %.9g\n", i, j, value_of(p->output, m->host_c, at), wanted);
        CHECK(is_within_its_bound);
      }
}

void blas_compute_and_compare(blas *b, const blas_product *p) {
  blas_memory m = blas_take(p);
  FINE(blas_multiply(b, p, &m));
  mathlib_read(b->stream, m.host_c, m.c, m.n_c_bytes);
  blas_compare(p, &m);
  blas_give(&m);
}

#else
/* ISO C wants something in every file. */
extern const int cudasim_blas_is_not_built;
const int cudasim_blas_is_not_built = 1;
#endif
