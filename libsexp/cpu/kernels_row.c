/* Products of few rows, or of few elements of the contracted index, whose columns and results lie side by side:
 * lines of columns are read from end to end, some of them at once, and sums wait in the result or in a buffer. */
#include "tile.h"

#if defined(__AVX512F__)
enum { LINES = 8 };
#else
enum { LINES = 4 };
#endif
enum { MOST_ROWS = 3, CHUNK = 1024, FEW_DEPTHS = 16 };

typedef struct lines {
  const float *a, *b;
  int64_t a_row, a_depth, b_depth, n;
  float *sums;
  int64_t row; /* stride of sums */
  bool fresh;  /* sums begin at 0, else as they are */
} lines;

/* sums[r j] = fma of n_lines elements. */
SX_INLINE void add_lines(const int rows, const int n_lines, const lines *l) {
  sx_floats factors[MOST_ROWS][LINES];
  SX_UNROLL for (int r = 0; r < rows; r++) SX_UNROLL for (int k = 0; k < n_lines; k++) factors[r][k] =
      sx_floats_spread_from(&l->a[r * l->a_row + k * l->a_depth]);
  const float *b = l->b;
  float *sums = l->sums;
  int64_t b_depth = l->b_depth, row = l->row, n = l->n, j = 0;
  bool fresh = l->fresh;
  for (; j + SX_LANES <= n; j += SX_LANES) {
    sx_floats sum[MOST_ROWS];
    SX_UNROLL for (int r = 0; r < rows; r++) sum[r] = fresh ? (sx_floats){0} : sx_floats_load(sums + r * row + j);
    SX_UNROLL for (int k = 0; k < n_lines; k++) {
      sx_floats line = sx_floats_load(b + k * b_depth + j);
      SX_UNROLL for (int r = 0; r < rows; r++) sx_floats_fma(&sum[r], factors[r][k], line);
    }
    SX_UNROLL for (int r = 0; r < rows; r++) sx_floats_store(sums + r * row + j, sum[r]);
  }
  if (j == n) return;
  sx_lanes some = sx_lanes_first(n - j);
  SX_UNROLL for (int r = 0; r < rows; r++) {
    sx_floats sum = fresh ? (sx_floats){0} : sx_lanes_load(some, sums + r * row + j);
    SX_UNROLL for (int k = 0; k < n_lines; k++)
        sx_floats_fma(&sum, factors[r][k], sx_lanes_load(some, b + k * b_depth + j));
    sx_lanes_store(some, sums + r * row + j, sum);
  }
}

typedef void lines_function(const lines *l);

#define FUNCTION(rows, n_lines) \
  static void lines_##rows##_##n_lines(const lines *l) { add_lines(rows, n_lines, l); }
#define FUNCTIONS(n_lines) FUNCTION(1, n_lines) FUNCTION(2, n_lines) FUNCTION(3, n_lines)
FUNCTIONS(1)
FUNCTIONS(2)
FUNCTIONS(4)
#if defined(__AVX512F__)
FUNCTIONS(8)
#endif
#define OF_LINES(n_lines) \
  { lines_1_##n_lines, lines_2_##n_lines, lines_3_##n_lines }
/* By the logarithm of the number of lines. */
static lines_function *const functions[][MOST_ROWS] = {
    OF_LINES(1),
    OF_LINES(2),
    OF_LINES(4),
#if defined(__AVX512F__)
    OF_LINES(8),
#endif
};

/* One block of the contracted index. */
static void add_block(lines l, int rows, int64_t depth) {
  int size = sizeof functions / sizeof *functions - 1;
  for (int64_t k = 0; k < depth; k += (int64_t)1 << size) {
    while ((int64_t)1 << size > depth - k) size--;
    functions[size][rows - 1](&l);
    l.fresh = false;
    l.a += l.a_depth * ((int64_t)1 << size);
    l.b += l.b_depth * ((int64_t)1 << size);
  }
}

static void add_buffer(float *c, int64_t c_row, const float *buffer, int rows, int64_t n) {
  for (int r = 0; r < rows; r++, c += c_row, buffer += CHUNK) {
    int64_t j = 0;
    for (; j + SX_LANES <= n; j += SX_LANES) sx_floats_store(c + j, sx_floats_load(c + j) + sx_floats_load(buffer + j));
    for (; j < n; j++) c[j] += buffer[j];
  }
}

bool SX_AT_LEVEL(sx_gemm_is_rows)(const sx_gemm_plain *p) {
  return p->b_column == 1 && p->c_column == 1 && (p->m <= MOST_ROWS || p->k <= FEW_DEPTHS);
}

/* One element of the contracted index: all that takes time is storing, row after row. */
static void run_outer(const sx_gemm_plain *p, const sx_gemm_part *part) {
  enum { STEP = 4 * SX_LANES };
  const float *b = (const float *)part->b + part->first_column;
  int64_t n = part->end_column - part->first_column;
  for (int64_t row = part->first_row; row < part->end_row; row++) {
    sx_floats factor = sx_floats_spread(((const float *)part->a)[row * p->a_row]);
    float *c = part->c + row * p->c_row + part->first_column;
    int64_t j = 0;
    for (; j + STEP <= n; j += STEP) SX_UNROLL for (int64_t v = j; v < j + STEP; v += SX_LANES) {
        sx_floats sum = {0};
        sx_floats_fma(&sum, factor, sx_floats_load(b + v));
        sx_floats_store(c + v, sum);
      }
    for (; j < n; j += SX_LANES) {
      sx_lanes some = sx_lanes_first(sx_min_i64(SX_LANES, n - j));
      sx_floats sum = {0};
      sx_floats_fma(&sum, factor, sx_lanes_load(some, b + j));
      sx_lanes_store(some, c + j, sum);
    }
  }
}

void SX_AT_LEVEL(sx_gemm_run_rows)(const sx_gemm_plain *p, const sx_gemm_part *part) {
  if (p->k == 1 && !part->adds) {
    run_outer(p, part);
    return;
  }
  float buffer[MOST_ROWS * CHUNK];
  for (int64_t column = part->first_column; column < part->end_column; column += CHUNK)
    for (int64_t row = part->first_row, rows; row < part->end_row; row += rows) {
      rows = sx_min_i64(MOST_ROWS, part->end_row - row);
      float *c = part->c + row * p->c_row + column;
      lines l = {.a_row = p->a_row, .a_depth = p->a_depth, .b_depth = p->b_depth, .fresh = true};
      l.n = sx_min_i64(CHUNK, part->end_column - column);
      for (int64_t k = 0; k < p->k; k += SX_GEMM_DEPTH) {
        l.a = (const float *)part->a + row * p->a_row + k * p->a_depth;
        l.b = (const float *)part->b + column + k * p->b_depth;
        bool adds = k || part->adds;
        l.sums = adds ? buffer : c; /* the first block's sums wait where they go */
        l.row = adds ? CHUNK : p->c_row;
        add_block(l, (int)rows, sx_min_i64(SX_GEMM_DEPTH, p->k - k));
        if (adds) add_buffer(c, p->c_row, buffer, (int)rows, l.n);
      }
    }
}
