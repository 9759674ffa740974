/* Products of f32 whose indices are single strides: matrices as they are stored, transposed or not, and the
 * heads of attention. Rows are read where they lie, so are columns that lie side by side where rows are few;
 * the others are packed, a block of them at a time. */
#include "fma.h"
#include "gemm.h"

#if defined(__AVX512F__)
enum { TILE_ROWS = 14 };
#elif defined(__AVX2__)
enum { TILE_ROWS = 6 };
#else
enum { TILE_ROWS = 4 };
#endif
enum {
  TILE_VECTORS = 2,
  FEW_ROWS = 3, /* so few rows need more registers along the columns to hide the latency of an fma */
  FEW_ROWS_VECTORS = 4,
  LATENCY = 4, /* of a multiply-add; so many sums at least are kept going */
  DEPTH = SX_GEMM_DEPTH,
  BLOCK_COLUMNS = 512,
  NEAR_FLOATS = 1 << 10, /* farther apart, lines of the columns of a block meet in few sets of the cache */
  FEW_TILES = 2,         /* of rows, that packed columns of any distance would not pay for */
  MANY_ROWS = 256        /* of which packing columns costs nothing that can be seen */
};

/* ---- the last register of a line, which may be a part of one --------------------------------- */

#if defined(__AVX512F__)
typedef __mmask16 lanes;
SX_INLINE lanes first_lanes(int64_t n) { return (lanes)((1u << n) - 1); }
SX_INLINE sx_floats load_lanes(lanes some, const float *from) { return (sx_floats)_mm512_maskz_loadu_ps(some, from); }
SX_INLINE void store_lanes(lanes some, float *to, sx_floats x) { _mm512_mask_storeu_ps(to, some, (__m512)x); }
#elif defined(__AVX2__)
typedef __m256i lanes;
SX_INLINE lanes first_lanes(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
SX_INLINE sx_floats load_lanes(lanes some, const float *from) { return (sx_floats)_mm256_maskload_ps(from, some); }
SX_INLINE void store_lanes(lanes some, float *to, sx_floats x) { _mm256_maskstore_ps(to, some, (__m256)x); }
#else
typedef int64_t lanes;
SX_INLINE lanes first_lanes(int64_t n) { return n; }
SX_INLINE sx_floats load_lanes(lanes some, const float *from) {
  sx_floats x = {0};
  for (int64_t j = 0; j < some; j++) x[j] = from[j];
  return x;
}
SX_INLINE void store_lanes(lanes some, float *to, sx_floats x) {
  for (int64_t j = 0; j < some; j++) to[j] = x[j];
}
#endif

/* ---- the tile ---------------------------------------------------------------------------------- */

typedef struct tile_call {
  const float *a, *b;
  int64_t a_row, a_depth, b_depth, depth; /* strides; the block's length */
  float *c;
  int64_t c_row, c_column;
  int64_t n_columns;
  bool first;  /* of the blocks: store, else add */
  bool padded; /* every register of b may be read whole */
} tile_call;

SX_INLINE void store_tile(const int rows, const int vectors, sx_floats sums[TILE_ROWS][FEW_ROWS_VECTORS],
                          const tile_call *t) {
  int64_t n_last = t->n_columns - (vectors - 1) * SX_LANES;
  lanes last = first_lanes(n_last);
  if (t->c_column == 1) {
    SX_UNROLL for (int r = 0; r < rows; r++) SX_UNROLL for (int v = 0; v < vectors; v++) {
      float *c = t->c + r * t->c_row + v * SX_LANES;
      if (v < vectors - 1 || n_last == SX_LANES) {
        if (!t->first) sums[r][v] = sx_floats_load(c) + sums[r][v];
        sx_floats_store(c, sums[r][v]);
      } else {
        if (!t->first) sums[r][v] = load_lanes(last, c) + sums[r][v];
        store_lanes(last, c, sums[r][v]);
      }
    }
    return;
  }
  float buffer[TILE_ROWS][FEW_ROWS_VECTORS * SX_LANES];
  SX_UNROLL for (int r = 0; r < rows; r++) SX_UNROLL for (int v = 0; v < vectors; v++)
      sx_floats_store(&buffer[r][v * SX_LANES], sums[r][v]);
  for (int64_t j = 0; j < t->n_columns; j++)
    for (int r = 0; r < rows; r++) {
      float *c = t->c + r * t->c_row + j * t->c_column;
      *c = t->first ? buffer[r][j] : *c + buffer[r][j];
    }
}

/* sums[r][v] = fma over the block. */
SX_INLINE void tile(const int rows, const int vectors, const bool whole, const tile_call *t) {
  sx_floats sums[TILE_ROWS][FEW_ROWS_VECTORS];
  const float *from[TILE_ROWS];
  const float *b = t->b;
  int64_t n = t->depth, a_depth = t->a_depth, b_depth = t->b_depth, at = 0;
  lanes last = first_lanes(t->n_columns - (vectors - 1) * SX_LANES);
  SX_UNROLL for (int r = 0; r < rows; r++) from[r] = t->a + r * t->a_row;
  SX_UNROLL for (int r = 0; r < rows; r++) SX_UNROLL for (int v = 0; v < vectors; v++) sums[r][v] = (sx_floats){0};
  for (int64_t k = 0; k < n; k++, at += a_depth, b += b_depth) {
    sx_floats columns[FEW_ROWS_VECTORS];
    SX_UNROLL for (int v = 0; v < vectors; v++) columns[v] =
        whole || v < vectors - 1 ? sx_floats_load(b + v * SX_LANES) : load_lanes(last, b + v * SX_LANES);
    SX_UNROLL for (int r = 0; r < rows; r++) {
      sx_floats row = sx_floats_spread(from[r][at]);
      SX_UNROLL for (int v = 0; v < vectors; v++) sx_floats_fma(&sums[r][v], row, columns[v]);
    }
  }
  store_tile(rows, vectors, sums, t);
}

typedef void tile_function(const tile_call *t);

#define TILE(rows, vectors)                                                                 \
  static void tile_##rows##_##vectors(const tile_call *t) { tile(rows, vectors, true, t); } \
  static void tail_##rows##_##vectors(const tile_call *t) { tile(rows, vectors, false, t); }
#define TILES(rows) TILE(rows, 1) TILE(rows, 2)
#define WIDE_TILES(rows) TILE(rows, 3) TILE(rows, 4)
TILES(1)
TILES(2)
TILES(3)
TILES(4)
WIDE_TILES(1)
WIDE_TILES(2)
WIDE_TILES(3)
#if defined(__AVX2__)
TILES(5)
TILES(6)
#endif
#if defined(__AVX512F__)
TILES(7)
TILES(8)
TILES(9)
TILES(10)
TILES(11)
TILES(12)
TILES(13)
TILES(14)
#endif

#define PAIR(rows, vectors) \
  { tile_##rows##_##vectors, tail_##rows##_##vectors }
#define ROW(rows) \
  { PAIR(rows, 1), PAIR(rows, 2) }
#define WIDE_ROW(rows) \
  { PAIR(rows, 1), PAIR(rows, 2), PAIR(rows, 3), PAIR(rows, 4) }
static tile_function *const tiles[TILE_ROWS][FEW_ROWS_VECTORS][2] = {
    WIDE_ROW(1), WIDE_ROW(2), WIDE_ROW(3), ROW(4),
#if defined(__AVX2__)
    ROW(5),      ROW(6),
#endif
#if defined(__AVX512F__)
    ROW(7),      ROW(8),      ROW(9),      ROW(10), ROW(11), ROW(12), ROW(13), ROW(14),
#endif
};

static void run_tile(tile_call *t, int64_t rows) {
  int64_t vectors = sx_ceil_div(t->n_columns, SX_LANES);
  bool tail = !t->padded && t->n_columns % SX_LANES != 0;
  tiles[rows - 1][vectors - 1][tail](t);
}

/* ---- what is packed ------------------------------------------------------------------------------ */

/* Columns that lie side by side: some panels at a time, so that memory is read in runs. */
static void copy_columns(const sx_gemm_plain *p, const float *b, int64_t n, int64_t depth, int64_t width,
                         float *panels) {
  enum { PANELS = 4 };
  for (int64_t first = 0; first < n; first += PANELS * width)
    for (int64_t k = 0; k < depth; k++) {
      const float *from = b + k * p->b_depth;
      for (int64_t column = first; column < sx_min_i64(first + PANELS * width, n); column += width) {
        float *to = panels + column * depth + k * width;
        int64_t count = sx_min_i64(width, n - column), j = 0;
        for (; j + SX_LANES <= count; j += SX_LANES) sx_floats_store(to + j, sx_floats_load(from + column + j));
        for (; j < width; j++) to[j] = j < count ? from[column + j] : 0.0f;
      }
    }
}

static void pack_columns(const sx_gemm_plain *p, const float *b, int64_t n, int64_t depth, int64_t width,
                         float *panels) {
  if (p->b_column == 1) {
    copy_columns(p, b, n, depth, width, panels);
    return;
  }
  for (int64_t column = 0; column < n; column += width) SX_AT_LEVEL(sx_gemm_transpose)
  (b + column * p->b_column, p->b_column, p->b_depth, sx_min_i64(width, n - column), depth, width,
   panels + column * depth);
}

/* Whether rows so far apart share a few sets of the cache. */
static bool meets(int64_t stride) {
  enum { SET_FLOATS = 1024, LINE_FLOATS = 16, WAYS = 7 };
  int64_t far = stride < 0 ? -stride : stride, step = far % SET_FLOATS;
  return (int)TILE_ROWS > (int)WAYS && far >= LINE_FLOATS && (step < LINE_FLOATS || SET_FLOATS - step < LINE_FLOATS);
}

/* ---- a part of the result -------------------------------------------------------------------------- */

static int64_t panel_width(const sx_gemm_plain *p) {
  return (p->m <= FEW_ROWS ? FEW_ROWS_VECTORS : TILE_VECTORS) * SX_LANES;
}

void SX_AT_LEVEL(sx_gemm_run_plain)(const sx_gemm_plain *p, const sx_gemm_part *part, float *panels) {
  int64_t width = panel_width(p), n_rows = part->end_row - part->first_row;
  bool near = n_rows <= MANY_ROWS && p->b_depth <= NEAR_FLOATS;
  bool direct = p->b_column == 1 && (near || n_rows <= FEW_TILES * TILE_ROWS);
  int64_t n_tiles = sx_ceil_div(n_rows, TILE_ROWS);
  tile_call t = {
      .c_row = p->c_row, .c_column = p->c_column, .padded = !direct, .a_row = p->a_row, .a_depth = p->a_depth};
  for (int64_t column = part->first_column; column < part->end_column; column += BLOCK_COLUMNS) {
    int64_t n_columns = sx_min_i64(BLOCK_COLUMNS, part->end_column - column);
    for (int64_t k = 0; k < p->k; k += DEPTH) {
      t.depth = sx_min_i64(DEPTH, p->k - k);
      t.first = k == 0;
      t.b_depth = direct ? p->b_depth : width;
      const float *b = part->b + column * p->b_column + k * p->b_depth;
      if (!direct) pack_columns(p, b, n_columns, t.depth, width, panels);
      for (int64_t tile = 0; tile < n_tiles; tile++) { /* tiles differ by a row at most */
        int64_t row = part->first_row + n_rows * tile / n_tiles;
        int64_t rows = part->first_row + n_rows * (tile + 1) / n_tiles - row;
        t.a = part->a + row * p->a_row + k * p->a_depth;
        for (int64_t j = 0; j < n_columns; j += width) {
          t.b = direct ? b + j : panels + j * t.depth;
          t.c = part->c + row * p->c_row + (column + j) * p->c_column;
          t.n_columns = sx_min_i64(width, n_columns - j);
          run_tile(&t, rows);
        }
      }
    }
  }
}

/* ---- which products ---------------------------------------------------------------------------------- */

/* The walk as one stride; false: it takes several. */
static bool one_stride(const sx_gemm_walk *walk, int64_t *stride) {
  int64_t dim = 1;
  *stride = 0;
  for (int axis = walk->n - 1; axis >= 0; axis--) {
    const sx_gemm_axis *a = &walk->axes[axis];
    if (a->dim == 1) continue;
    if (dim == 1)
      *stride = a->stride;
    else if (a->stride != *stride * dim)
      return false;
    dim *= a->dim;
  }
  return true;
}

static bool is_plain_side(const sx_gemm_side *side, int64_t *row, int64_t *depth) {
  return side->dtype == SX_F32 && !sx_gemm_has_image(side) && one_stride(&side->rows, row) &&
         one_stride(&side->depth, depth);
}

bool SX_AT_LEVEL(sx_gemm_plain_of)(const sx_gemm *gemm, sx_gemm_plain *p) {
  if (gemm->block_begin) return false;
  p->m = gemm->m;
  p->n = gemm->n;
  p->k = gemm->k;
  return is_plain_side(&gemm->row_side, &p->a_row, &p->a_depth) &&
         is_plain_side(&gemm->column_side, &p->b_column, &p->b_depth) && one_stride(&gemm->c_rows, &p->c_row) &&
         one_stride(&gemm->c_columns, &p->c_column) && !(p->a_depth == 1 && meets(p->a_row));
}

/* What is done, in multiply-adds of a register; packing and storing weigh what they were measured to. */
static int64_t cost(const sx_gemm_plain *p) {
  int64_t vectors = sx_ceil_div(p->n, SX_LANES), sums = p->m * sx_min_i64(vectors, panel_width(p) / SX_LANES);
  int64_t multiply = p->m * vectors * p->k;
  if (sums < LATENCY) multiply = multiply * LATENCY / sums;
  int64_t pack = p->b_column == 1 ? 0 : p->n * p->k / 4;
  int64_t store = p->c_column == 1 ? p->m * vectors * 2 : p->m * p->n * 2;
  return multiply + pack + store * sx_ceil_div(p->k, DEPTH);
}

bool SX_AT_LEVEL(sx_gemm_plain_swaps)(const sx_gemm_plain *p) {
  sx_gemm_plain other = {p->n, p->m, p->k, p->b_column, p->b_depth, p->a_row, p->a_depth, p->c_column, p->c_row};
  if (other.a_depth == 1 && meets(other.a_row)) return false;
  return cost(&other) < cost(p);
}
