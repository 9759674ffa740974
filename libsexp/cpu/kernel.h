/* The interface of CPU kernels: one call computes one node from strided operands.
 *
 * sx_reference[op] is the definition of the operation, a plain loop written from the numerics page; it
 * takes any strides. A fast kernel equals it bit for bit, or declines a call (returns false). */
#ifndef SX_CPU_KERNEL_H
#define SX_CPU_KERNEL_H

#include "../ir/ir.h"
#include "threads.h"

typedef struct sx_operand {
  void *data; /* first element; the view's offset is added */
  sx_dtype dtype;
  int rank;
  const int64_t *dims;
  const int64_t *strides; /* elements */
} sx_operand;

/* What stops a step: an id out of range. The lowest element index wins, whatever the threads. */
typedef struct sx_fault {
  _Atomic int64_t at;   /* flat index into ids of the first bad one; INT64_MAX: none */
  int64_t value, limit; /* filled after the call by who reports: ids[at], n */
} sx_fault;

typedef struct sx_call {
  const sx_node *node;
  sx_operand out; /* contiguous, of EINSUM dense, its axes in any order */
  const sx_operand *inputs;
  uint32_t n_inputs;
  uint64_t stream_key; /* RANDOM: key of the draw before its salts */
  sx_fault *fault;
  void *scratch; /* 64-aligned; scratch_bytes of sx_kernel_scratch */
  sx_pool *pool;
} sx_call;

typedef void sx_kernel(const sx_call *call);
typedef bool sx_fast_kernel(const sx_call *call); /* false: declined, nothing written */

extern sx_kernel *const sx_reference[SX_N_OPS]; /* NULL for LEAF without computation, META */

typedef enum sx_simd { SX_SIMD_REFERENCE, SX_SIMD_SCALAR, SX_SIMD_AVX2, SX_SIMD_AVX512, SX_N_SIMD } sx_simd;
const char *sx_simd_name(sx_simd simd);
sx_simd sx_simd_best(void); /* of this machine and build */
bool sx_simd_available(sx_simd simd);

struct sx_chain_kernels;
struct sx_gemm_plain;
struct sx_gemm_part;
struct sx_softmax_tile;

/* On f32 matrices. */
typedef struct sx_matrix_kernels {
  /* A part of a product (gemm.h). panels: sx_gemm_scratch_bytes. */
  void (*product)(const struct sx_gemm_plain *plain, const struct sx_gemm_part *part, float *panels);
  /* n rows of `depth` floats at strides become out[k][width], 0 beyond n; width: SX_GEMM_WIDEST at most. Writes up to
   * 7 floats beyond. */
  void (*transpose)(const float *from, int64_t row, int64_t step, int64_t n, int64_t depth, int64_t width, float *out);
  /* The largest magnitude of [rows columns], rows `row` apart, as bits, which are in the order of magnitudes:
   * infinity's and more if something is infinite or no number. */
  int32_t (*largest)(const float *from, int64_t rows, int64_t row, int64_t columns);
  bool (*has_minus_zero)(const float *from, int64_t rows, int64_t row, int64_t columns);
  /* Adds the value to each element of [rows columns], rows `row` apart, or multiplies by it. */
  void (*apply)(float *to, int64_t rows, int64_t row, int64_t columns, bool adds, float value);
  /* Softmax of a tile of rows (softmax.h). False: this way may have other bits than the group; then nothing is valid.
   * NULL: there is no such way. */
  bool (*softmax)(const struct sx_softmax_tile *tile);
} sx_matrix_kernels;

/* Kernels of one SIMD level. */
typedef struct sx_kernel_set {
  sx_simd simd;
  sx_fast_kernel *fast[SX_N_OPS];
  /* One operation over n contiguous elements of tiles (ELEMENT class): out and inputs do not overlap
   * unless equal. dtype is that of input 0 (WHERE: of input 1), to that of the result. */
  void (*element)(sx_op op, sx_dtype from, sx_dtype to, void *out, const void *const *inputs, int64_t n);
  const struct sx_chain_kernels *chains;    /* operations in registers (chain.h) */
  const struct sx_matrix_kernels *matrices; /* for attention */
} sx_kernel_set;

const sx_kernel_set *sx_kernels(sx_simd simd); /* available ones; REFERENCE: no fast kernels */

/* Bytes of scratch that any kernel of the set may use for the node with this many threads. */
int64_t sx_kernel_scratch(const sx_kernel_set *set, const sx_graph *graph, sx_id node, int n_threads);

#endif
