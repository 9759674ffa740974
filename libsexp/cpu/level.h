/* What the fast kernels are written in: one source compiled once per SIMD level, with -DSX_LEVEL=scalar,
 * avx2 or avx512 and the level's machine flags; every shared symbol carries the level's name.
 *
 * Loops over SX_BLOCK elements have a constant count, so that both compilers vectorize them at -O2 without
 * run-time checks; SX_VECTOR_LOOP says that elements of different iterations are not the same memory. */
#ifndef SX_CPU_LEVEL_H
#define SX_CPU_LEVEL_H

#include "operand.h"

#ifndef SX_LEVEL
#error "compile with -DSX_LEVEL=scalar, avx2 or avx512"
#endif
#define SX_JOIN_EXPANDED(name, level) name##_##level
#define SX_JOIN(name, level) SX_JOIN_EXPANDED(name, level)
#define SX_AT_LEVEL(name) SX_JOIN(name, SX_LEVEL)

#if defined(__AVX512F__)
enum { SX_LANES = 16 };
#elif defined(__AVX2__)
enum { SX_LANES = 8 };
#else
enum { SX_LANES = 4 };
#endif

#if defined(__AVX2__) || defined(__SSE2__)
#include <immintrin.h>
#endif

/* One register of f32; memory of any alignment may be read and written through it. */
typedef float sx_floats __attribute__((vector_size(SX_LANES * 4), aligned(4), may_alias));

#define SX_INLINE static inline __attribute__((always_inline))

SX_INLINE sx_floats sx_floats_spread(float x) {
#if defined(__AVX512F__)
  return (sx_floats)_mm512_set1_ps(x);
#elif defined(__AVX2__)
  return (sx_floats)_mm256_set1_ps(x);
#else
  return (sx_floats){x, x, x, x};
#endif
}

/* The element there, spread, where there is a spread for every multiply-add or two. vpbroadcastd is a load and nothing
 * else, where vbroadcastss to a register that is wide or above 15 takes (Zen 4) an operation too. */
SX_INLINE sx_floats sx_floats_spread_from(const float *from) {
#if defined(__AVX512F__)
  sx_floats x;
  __asm__("vpbroadcastd %1, %0" : "=v"(x) : "m"(*from));
  return x;
#else
  return sx_floats_spread(*from);
#endif
}

SX_INLINE sx_floats sx_floats_load(const float *from) { return *(const sx_floats *)from; }
SX_INLINE void sx_floats_store(float *to, sx_floats x) { *(sx_floats *)to = x; }

enum { SX_BLOCK = 32 };

#if defined(__clang__)
#define SX_VECTOR_LOOP _Pragma("clang loop vectorize(assume_safety) unroll(disable)")
#define SX_UNROLL _Pragma("clang loop unroll(full)")
#else
#define SX_VECTOR_LOOP _Pragma("GCC ivdep")
#define SX_UNROLL _Pragma("GCC unroll 32")
#endif

SX_INLINE int64_t sx_min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
SX_INLINE int64_t sx_max_i64(int64_t a, int64_t b) { return a > b ? a : b; }
SX_INLINE int64_t sx_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* ---- shared between the kernel files of a level --------------------------- */

/* sx_kernel_set.element of this level. */
void SX_AT_LEVEL(sx_element)(sx_op op, sx_dtype from, sx_dtype to, void *out, const void *const *inputs, int64_t n);

/* n contiguous elements of a float dtype to f32 and back; in place where both are f32. */
void SX_AT_LEVEL(sx_widen)(float *to, const void *from, sx_dtype dtype, int64_t n);
void SX_AT_LEVEL(sx_narrow)(void *to, sx_dtype dtype, const float *from, int64_t n);

struct sx_gemm;
struct sx_gemm_side;
struct sx_gemm_walk;
struct sx_gemm_place;
struct sx_gemm_runs;
struct sx_gemm_plain;
struct sx_gemm_part;

void SX_AT_LEVEL(sx_gemm_run)(const struct sx_gemm *gemm, sx_pool *pool, void *scratch);
/* Swaps rows and columns where that fills registers better or stores side by side. */
void SX_AT_LEVEL(sx_gemm_orient)(struct sx_gemm *gemm);
/* Where the f32 result of a product goes (a short one into the scratch), and the scratch that is left. */
typedef struct sx_product {
  float *c;
  void *panels;
} sx_product;
sx_product SX_AT_LEVEL(sx_product_begin)(const sx_call *call);
/* Narrows the result where it is a short float. */
void SX_AT_LEVEL(sx_product_end)(const sx_call *call);
/* All three steps for one product. */
void SX_AT_LEVEL(sx_gemm_compute)(const sx_call *call, struct sx_gemm *gemm);
/* Packs indices first to first + n - 1 of a side, panels of `width` of them: panel[k][index], 0 beyond n.
 * Writes up to 7 elements beyond the last panel. */
void SX_AT_LEVEL(sx_gemm_pack)(const struct sx_gemm_side *side, int64_t batch, int64_t first, int64_t n,
                               int64_t first_depth, int64_t depth, int width, float *panels);
/* As sx_gemm_pack, but says where the rows lie: one list a panel. Only where sx_gemm_can_point: the contracted
 * index runs through memory in long runs, at places that share the cache. */
void SX_AT_LEVEL(sx_gemm_point)(const struct sx_gemm_side *side, int64_t batch, int64_t first, int64_t n,
                                int64_t first_depth, int64_t depth, int width, struct sx_gemm_runs *runs);
bool SX_AT_LEVEL(sx_gemm_can_point)(const struct sx_gemm_side *side, int64_t n, int64_t depth, int width);
/* n rows of `depth` elements at strides become out[k][width], 0 beyond n. Writes up to 7 elements beyond. */
void SX_AT_LEVEL(sx_gemm_transpose)(const float *from, int64_t row, int64_t step, int64_t n, int64_t depth,
                                    int64_t width, float *out);
/* Whether operands are floats without an image and every index is a single stride; then *plain is filled. */
bool SX_AT_LEVEL(sx_gemm_plain_of)(const struct sx_gemm *gemm, struct sx_gemm_plain *plain);
/* Whether it costs less with rows and columns exchanged. */
bool SX_AT_LEVEL(sx_gemm_plain_swaps)(const struct sx_gemm_plain *plain);
/* Computes a part of it. panels: sx_gemm_scratch_bytes. */
void SX_AT_LEVEL(sx_gemm_run_plain)(const struct sx_gemm_plain *plain, const struct sx_gemm_part *part, float *panels);
/* The same where an operand is a short float. */
void SX_AT_LEVEL(sx_gemm_run_short)(const struct sx_gemm_plain *plain, sx_dtype a, sx_dtype b,
                                    const struct sx_gemm_part *part, float *scratch);
/* Steps first to first + n - 1 of a walk in row-major order. */
void SX_AT_LEVEL(sx_gemm_places)(const struct sx_gemm_walk *walk, int64_t first, int64_t n,
                                 struct sx_gemm_place *places);

struct sx_conv_pixels;
/* Whether a convolution is computed with pixels as rows (conv.h); its weights must be finite where terms are left out.
 */
bool SX_AT_LEVEL(sx_conv_pixels_suit)(const struct sx_conv_pixels *pixels);
/* scratch: sx_conv_pixels_bytes */
void SX_AT_LEVEL(sx_conv_pixels_run)(const struct sx_conv_pixels *pixels, void *scratch);
bool SX_AT_LEVEL(sx_conv_is_finite)(const sx_operand *x);
/* The same for few channels; scratch: sx_conv_strip_floats a thread. */
bool SX_AT_LEVEL(sx_conv_lines_suit)(const struct sx_conv_pixels *pixels);
void SX_AT_LEVEL(sx_conv_lines_run)(const struct sx_conv_pixels *pixels, const float *panels, float *scratch);
/* Packs the windows of line y of an image that begin at columns left, left + stride, ..., n of them (sx_conv_line). */
void SX_AT_LEVEL(sx_conv_pack_windows)(const sx_operand *x, int64_t kw, int64_t stride, int64_t image, int64_t y,
                                       int64_t left, int64_t n, float *to);
struct sx_conv_weight;
bool SX_AT_LEVEL(sx_conv_weight_suits)(const struct sx_conv_weight *weight);
/* scratch: sx_conv_weight_bytes a thread */
void SX_AT_LEVEL(sx_conv_weight_run)(const struct sx_conv_weight *weight, void *scratch);

/* The largest magnitude of [rows columns], rows `row` apart, as bits, which are in the order of magnitudes: infinity's
 * and more if something is infinite or no number. */
int32_t SX_AT_LEVEL(sx_largest)(const float *from, int64_t rows, int64_t row, int64_t columns);
/* Whether one of them is -0. */
bool SX_AT_LEVEL(sx_has_minus_zero)(const float *from, int64_t rows, int64_t row, int64_t columns);
void SX_AT_LEVEL(sx_apply)(float *to, int64_t rows, int64_t row, int64_t columns, bool adds, float value);
struct sx_softmax_tile;
bool SX_AT_LEVEL(sx_softmax_run)(const struct sx_softmax_tile *tile);

/* The fast kernels, one a family. */
sx_fast_kernel SX_AT_LEVEL(sx_fast_pad), SX_AT_LEVEL(sx_fast_concat);
sx_fast_kernel SX_AT_LEVEL(sx_fast_sum), SX_AT_LEVEL(sx_fast_extreme), SX_AT_LEVEL(sx_fast_arg_extreme);
sx_fast_kernel SX_AT_LEVEL(sx_fast_fold);
sx_fast_kernel SX_AT_LEVEL(sx_fast_einsum), SX_AT_LEVEL(sx_fast_conv), SX_AT_LEVEL(sx_fast_conv_data),
    SX_AT_LEVEL(sx_fast_conv_weight);
sx_fast_kernel SX_AT_LEVEL(sx_fast_gather), SX_AT_LEVEL(sx_fast_scatter), SX_AT_LEVEL(sx_fast_take),
    SX_AT_LEVEL(sx_fast_put), SX_AT_LEVEL(sx_fast_one_hot), SX_AT_LEVEL(sx_fast_argsort);
sx_fast_kernel SX_AT_LEVEL(sx_fast_scan), SX_AT_LEVEL(sx_fast_draw);

#endif
