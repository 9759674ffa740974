/* Plain products of short floats: a block of each operand is widened, then multiplied as f32. Blocks are those
 * of the contracted index, so every element's order is that of the definition. */
#include "tile.h"

enum { DEPTH = SX_GEMM_DEPTH, BLOCK_ROWS = SX_GEMM_ROWS, BLOCK_COLUMNS = 512 };

/* A block of an operand in f32: where it begins and its strides. */
typedef struct staged {
  const float *data;
  int64_t row, depth;
} staged;

/* n rows of `depth` elements of an operand from index `row`, `k` on. Runs of either index are widened at once;
 * where neither is one, element by element. */
static staged stage(const void *from, sx_dtype dtype, int64_t row_stride, int64_t depth_stride, int64_t row, int64_t n,
                    int64_t k, int64_t depth, float *to) {
  int64_t bytes = sx_element_bytes(dtype), at = row * row_stride + k * depth_stride;
  const char *first = (const char *)from + at * bytes;
  if (dtype == SX_F32) return (staged){(const float *)(const void *)first, row_stride, depth_stride};
  if (depth_stride == 1) {
    for (int64_t i = 0; i < n; i++) SX_AT_LEVEL(sx_widen)(to + i * DEPTH, first + i * row_stride * bytes, dtype, depth);
    return (staged){to, DEPTH, 1};
  }
  for (int64_t j = 0; j < depth; j++) {
    const char *line = first + j * depth_stride * bytes;
    if (row_stride == 1)
      SX_AT_LEVEL(sx_widen)(to + j * n, line, dtype, n);
    else
      for (int64_t i = 0; i < n; i++) to[j * n + i] = sx_load(line, dtype, i * row_stride).f;
  }
  return (staged){to, 1, n};
}

void SX_AT_LEVEL(sx_gemm_run_short)(const sx_gemm_plain *p, sx_dtype a, sx_dtype b, const sx_gemm_part *part,
                                    float *scratch) {
  float *rows = scratch, *columns = rows + sx_min_i64(p->m, BLOCK_ROWS) * DEPTH;
  float *panels = columns + sx_min_i64(p->n, BLOCK_COLUMNS) * DEPTH;
  for (int64_t column = part->first_column; column < part->end_column; column += BLOCK_COLUMNS) {
    int64_t n = sx_min_i64(BLOCK_COLUMNS, part->end_column - column);
    for (int64_t k = 0; k < p->k; k += DEPTH) {
      int64_t depth = sx_min_i64(DEPTH, p->k - k);
      staged right = stage(part->b, b, p->b_column, p->b_depth, column, n, k, depth, columns);
      for (int64_t row = part->first_row; row < part->end_row; row += BLOCK_ROWS) {
        int64_t m = sx_min_i64(BLOCK_ROWS, part->end_row - row);
        staged left = stage(part->a, a, p->a_row, p->a_depth, row, m, k, depth, rows);
        sx_gemm_plain block = {m, n, depth, left.row, left.depth, right.row, right.depth, p->c_row, p->c_column};
        sx_gemm_part whole = {.end_row = m, .end_column = n, .a = left.data, .b = right.data, .adds = k > 0};
        whole.c = part->c + row * p->c_row + column * p->c_column;
        SX_AT_LEVEL(sx_gemm_run_plain)(&block, &whole, panels);
      }
    }
  }
}
