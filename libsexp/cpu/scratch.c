/* How much scratch a node's kernels may use: enough for the reference loop and for every level. */
#include "conv.h"
#include "operand.h"
#include "sum_table.h"

enum { SORT_BYTES = 16 };

static int64_t round_up(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/* f32 sums of a result in a short float. */
static int64_t wide_bytes(const sx_node *node) {
  bool is_short = node->dtype == SX_BF16 || node->dtype == SX_F16;
  return is_short ? round_up(sx_node_elements(node) * 4) : 0;
}

/* Packed panels: a kernel's rows and columns are both at most the result's elements. */
static int64_t product_bytes(const sx_node *node, int n_threads) {
  int64_t n = sx_node_elements(node);
  return wide_bytes(node) + n_threads * sx_gemm_scratch_bytes(n, n);
}

/* As a product, or with the weights packed whole: their channels of the result, and all places and channels
 * that are contracted. */
static int64_t convolution_bytes(const sx_graph *graph, const sx_node *node, int n_threads) {
  const int64_t *w = sx_node_at(graph, node->inputs[1])->dims; /* of a weight gradient: the image */
  int64_t places = w[1] * w[2];
  int64_t packed = node->op == SX_OP_CONV       ? sx_conv_pixels_bytes(w[0], places * w[3])
                   : node->op == SX_OP_CONVDATA ? sx_conv_pixels_bytes(w[3], places * w[0])
                                                : n_threads * sx_conv_weight_bytes(node->dims);
  if (node->op == SX_OP_CONV && sx_conv_has_lines(node->dims, w))
    packed += n_threads * sx_conv_strip_floats(node->dims, w, node->ints[0]) * 4;
  int64_t product = product_bytes(node, n_threads), wide = 0;
  for (uint32_t i = 0; i < node->n_inputs; i++) {
    const sx_node *input = sx_node_at(graph, node->inputs[i]);
    if (input->dtype != SX_F32) wide += sx_conv_wide_bytes(sx_node_elements(input));
  }
  return wide + (product > wide_bytes(node) + packed ? product : wide_bytes(node) + packed);
}

/* Results of the chunks of one line, or the table of a strip of columns. */
static int64_t sum_bytes(const sx_graph *graph, const sx_node *node) {
  const sx_node *in = sx_node_at(graph, node->inputs[0]);
  int64_t n = 1;
  for (uint32_t k = 0; k < node->n_ints; k++) n *= in->dims[node->ints[k]];
  int64_t line = round_up((n / SX_SUM_CHUNK + 1) * 4), n_out = sx_node_elements(node);
  int64_t table = sx_sum_table_bytes(n_out < SX_SUM_COLUMNS ? n_out : SX_SUM_COLUMNS);
  return line > table ? line : table;
}

int64_t sx_kernel_scratch(const sx_kernel_set *set, const sx_graph *graph, sx_id id, int n_threads) {
  const sx_node *node = sx_node_at(graph, id);
  switch (node->op) {
    case SX_OP_SCATTER:
    case SX_OP_PUT:
      return wide_bytes(node);
    case SX_OP_EINSUM:
      return set->simd == SX_SIMD_REFERENCE ? 0 : product_bytes(node, n_threads);
    case SX_OP_CONV:
    case SX_OP_CONVDATA:
    case SX_OP_CONVWEIGHT:
      return set->simd == SX_SIMD_REFERENCE ? 0 : convolution_bytes(graph, node, n_threads);
    case SX_OP_SUM:
      return n_threads * sum_bytes(graph, node);
    case SX_OP_ARGSORT:
      return n_threads * round_up(node->dims[node->ints[0]] * SORT_BYTES);
    default:
      return 0;
  }
}
