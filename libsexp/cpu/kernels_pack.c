/* Packing of a side of a product into panels. Three ways: the panel's elements lie side by side (copy),
 * the contracted index runs through memory (transpose small squares), or neither (element by element).
 * Windows of an image are runs too, cut where the kernel goes on to its next place; a run that leaves the
 * image is read from zeros. */
#include "gemm.h"
#include "level.h"

enum { SQUARE = 8, SHORTEST_RUN = 3 };

void SX_AT_LEVEL(sx_gemm_places)(const sx_gemm_walk *walk, int64_t first, int64_t n, sx_gemm_place *places) {
  int64_t index[SX_RANK_MAX] = {0};
  sx_gemm_place at = {0, 0, 0};
  for (int axis = walk->n - 1; axis >= 0; axis--) {
    const sx_gemm_axis *a = &walk->axes[axis];
    index[axis] = first % a->dim;
    first /= a->dim;
    at.offset += index[axis] * a->stride;
    at.y += index[axis] * a->y;
    at.x += index[axis] * a->x;
  }
  for (int64_t k = 0; k < n; k++) {
    places[k] = at;
    for (int axis = walk->n - 1; axis >= 0; axis--) {
      const sx_gemm_axis *a = &walk->axes[axis];
      int64_t steps = ++index[axis] < a->dim ? 1 : 1 - a->dim;
      at.offset += steps * a->stride;
      at.y += steps * a->y;
      at.x += steps * a->x;
      if (steps == 1) break;
      index[axis] = 0;
    }
  }
}

/* A panel being packed: where its indices and the block's depths lead. */
typedef struct panel {
  const sx_gemm_side *side;
  const sx_gemm_place *rows, *depths;
  int n_rows, width;
  int64_t base;
  float *out;
} panel;

SX_INLINE bool is_inside(const sx_gemm_side *side, const sx_gemm_place *a, const sx_gemm_place *b) {
  uint64_t y = (uint64_t)(side->y0 + a->y + b->y), x = (uint64_t)(side->x0 + a->x + b->x);
  return y < (uint64_t)side->height && x < (uint64_t)side->width;
}

SX_INLINE float element(const panel *p, int64_t row, int64_t k) {
  const sx_gemm_place *a = &p->rows[row], *b = &p->depths[k];
  if (!is_inside(p->side, a, b)) return 0.0f;
  return sx_load(p->side->data, p->side->dtype, p->base + a->offset + b->offset).f;
}

static void pack_elements(const panel *p, int64_t first, int64_t end) {
  for (int64_t k = first; k < end; k++)
    for (int row = 0; row < p->width; row++) p->out[k * p->width + row] = row < p->n_rows ? element(p, row, k) : 0.0f;
}

/* Length of the run of places from first on that lie side by side at one place of the image. */
static int64_t run_length(const sx_gemm_place *places, int64_t first, int64_t n) {
  int64_t end = first + 1;
  while (end < n && places[end].offset == places[first].offset + (end - first) && places[end].y == places[first].y &&
         places[end].x == places[first].x)
    end++;
  return end - first;
}

/* Copies of a fixed size become registers; the last one overlaps the one before. */
SX_INLINE void copy_run(float *to, const float *from, int64_t n) {
  int64_t k = 0;
  if (n >= 8) {
    for (; k + 8 <= n; k += 8) memcpy(to + k, from + k, 32);
    memcpy(to + n - 8, from + n - 8, 32);
  } else if (n >= 4) {
    memcpy(to, from, 16);
    memcpy(to + n - 4, from + n - 4, 16);
  } else {
    for (; k < n; k++) to[k] = from[k];
  }
}

/* Panel elements side by side: for each depth, runs of the panel are copied or cleared. */
static void pack_rows(const panel *p, int64_t depth) {
  int64_t ends[SX_GEMM_PANEL];
  for (int64_t row = 0; row < p->n_rows; row = ends[row]) ends[row] = row + run_length(p->rows, row, p->n_rows);
  const float *data = p->side->data;
  bool whole = ends[0] == p->width && !sx_gemm_has_image(p->side);
  for (int64_t k = 0; k < depth; k++) {
    float *out = p->out + k * p->width;
    int64_t at = p->base + p->depths[k].offset;
    if (whole) {
      copy_run(out, data + at + p->rows[0].offset, p->width);
      continue;
    }
    for (int64_t row = 0; row < p->n_rows; row = ends[row]) {
      if (is_inside(p->side, &p->rows[row], &p->depths[k]))
        copy_run(out + row, data + at + p->rows[row].offset, ends[row] - row);
      else
        memset(out + row, 0, (size_t)(ends[row] - row) * 4);
    }
    for (int row = p->n_rows; row < p->width; row++) out[row] = 0.0f;
  }
}

static const float zeros[SX_GEMM_DEPTH];

#if defined(__AVX2__)
/* 4 columns of 8 rows become 4 rows. */
SX_INLINE void transpose_half(const float *const from[SQUARE], int64_t at, float *to, int64_t step) {
  __m256 x[4];
  SX_UNROLL for (int r = 0; r < 4; r++) x[r] =
      _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(from[r] + at)), _mm_loadu_ps(from[r + 4] + at), 1);
  __m256 low01 = _mm256_unpacklo_ps(x[0], x[1]), high01 = _mm256_unpackhi_ps(x[0], x[1]),
         low23 = _mm256_unpacklo_ps(x[2], x[3]), high23 = _mm256_unpackhi_ps(x[2], x[3]);
  _mm256_storeu_ps(to, _mm256_shuffle_ps(low01, low23, 0x44));
  _mm256_storeu_ps(to + step, _mm256_shuffle_ps(low01, low23, 0xee));
  _mm256_storeu_ps(to + 2 * step, _mm256_shuffle_ps(high01, high23, 0x44));
  _mm256_storeu_ps(to + 3 * step, _mm256_shuffle_ps(high01, high23, 0xee));
}
#endif

/* The columns of 8 rows of 8 become rows of the panel. */
SX_INLINE void transpose_square(const float *const from[SQUARE], int64_t at, float *to, int64_t step) {
#if defined(__AVX2__)
  transpose_half(from, at, to, step);
  transpose_half(from, at + 4, to + 4 * step, step);
#else
  for (int k = 0; k < SQUARE; k++)
    for (int row = 0; row < SQUARE; row++) to[k * step + row] = from[row][at + k];
#endif
}

/* The last square of a line of the panel may spill into the next line, so squares go from right to left and
 * lines are written in order. */
static void transpose_lines(const float *const *from, int64_t n, int64_t width, float *out) {
  for (int64_t k = 0; k + SQUARE <= n; k += SQUARE)
    for (int64_t row = (width - 1) / SQUARE * SQUARE; row >= 0; row -= SQUARE)
      transpose_square(from + row, k, out + k * width + row, width);
}

/* Where squares fill the lines: 8 rows at a time, so that a line of memory is used up at once. */
static void transpose_columns(const float *const *from, int64_t n, int64_t width, float *out) {
  for (int64_t row = 0; row < width; row += SQUARE)
    for (int64_t k = 0; k + SQUARE <= n; k += SQUARE) transpose_square(from + row, k, out + k * width + row, width);
}

/* n elements of `width` rows. */
static void transpose(const float *const *from, int64_t n, int64_t width, float *out) {
  if (width % SQUARE == 0)
    transpose_columns(from, n, width, out);
  else
    transpose_lines(from, n, width, out);
  for (int64_t k = n / SQUARE * SQUARE; k < n; k++)
    for (int64_t row = 0; row < width; row++) out[k * width + row] = from[row][k];
}

void SX_AT_LEVEL(sx_gemm_transpose)(const float *from, int64_t row, int64_t step, int64_t n, int64_t depth,
                                    int64_t width, float *out) {
  const float *rows[SX_GEMM_WIDEST + SQUARE];
  if (step != 1) {
    for (int64_t k = 0; k < depth; k++)
      for (int64_t j = 0; j < width; j++) out[k * width + j] = j < n ? from[j * row + k * step] : 0.0f;
    return;
  }
  for (int64_t k = 0; k < depth; k += SX_GEMM_DEPTH) { /* of no more elements than there are zeros */
    for (int64_t j = 0; j < width + SQUARE; j++) rows[j] = j < n ? from + j * row + k : zeros;
    transpose(rows, sx_min_i64(SX_GEMM_DEPTH, depth - k), width, out + k * width);
  }
}

/* Depths first to end - 1 are one run. */
static void pack_run(const panel *p, int64_t first, int64_t end) {
  const float *from[SX_GEMM_PANEL + SQUARE];
  const float *data = p->side->data;
  for (int row = 0; row < p->n_rows; row++) {
    bool inside = is_inside(p->side, &p->rows[row], &p->depths[first]);
    from[row] = inside ? data + p->base + p->rows[row].offset + p->depths[first].offset : zeros;
  }
  for (int row = p->n_rows; row < p->width + SQUARE; row++) from[row] = zeros;
  transpose(from, end - first, p->width, p->out + first * p->width);
}

static void pack_depths(const panel *p, int64_t depth) {
  for (int64_t k = 0, n; k < depth; k += n) {
    n = run_length(p->depths, k, depth);
    pack_run(p, k, k + n);
  }
}

/* Whether most of the places lie in runs. */
static bool has_runs(const sx_gemm_place *places, int64_t n) {
  int64_t n_runs = 0;
  for (int64_t k = 0; k < n; n_runs++) k += run_length(places, k, n);
  return n_runs * SHORTEST_RUN <= n;
}

void SX_AT_LEVEL(sx_gemm_pack)(const sx_gemm_side *side, int64_t batch, int64_t first, int64_t n, int64_t first_depth,
                               int64_t depth, int width, float *panels) {
  sx_gemm_place rows[SX_GEMM_PANEL], depths[SX_GEMM_DEPTH];
  SX_AT_LEVEL(sx_gemm_places)(&side->depth, first_depth, depth, depths);
  bool deep = has_runs(depths, depth);
  for (int64_t row = 0; row < n; row += width, panels += width * depth) {
    int n_rows = (int)sx_min_i64(width, n - row);
    SX_AT_LEVEL(sx_gemm_places)(&side->rows, first + row, n_rows, rows);
    panel p = {side, rows, depths, n_rows, width, side->base + batch, panels};
    if (side->dtype != SX_F32)
      pack_elements(&p, 0, depth);
    else if (has_runs(rows, n_rows))
      pack_rows(&p, depth);
    else if (deep)
      pack_depths(&p, depth);
    else
      pack_elements(&p, 0, depth);
  }
}

/* ---- rows that are read where they lie ------------------------------------------------ */

void SX_AT_LEVEL(sx_gemm_point)(const sx_gemm_side *side, int64_t batch, int64_t first, int64_t n, int64_t first_depth,
                                int64_t depth, int width, sx_gemm_runs *runs) {
  sx_gemm_place rows[SX_GEMM_PANEL], depths[SX_GEMM_DEPTH];
  SX_AT_LEVEL(sx_gemm_places)(&side->depth, first_depth, depth, depths);
  const float *data = side->data;
  for (int64_t row = 0; row < n; row += width, runs++) {
    int n_rows = (int)sx_min_i64(width, n - row);
    SX_AT_LEVEL(sx_gemm_places)(&side->rows, first + row, n_rows, rows);
    runs->n = 0;
    for (int64_t k = 0; k < depth; k += runs->length[runs->n++]) {
      SX_ASSERT(runs->n < SX_GEMM_RUNS);
      runs->length[runs->n] = run_length(depths, k, depth);
      for (int j = 0; j < n_rows; j++) {
        int64_t at = side->base + batch + rows[j].offset + depths[k].offset;
        runs->from[runs->n][j] = is_inside(side, &rows[j], &depths[k]) ? data + at : zeros;
      }
    }
  }
}

bool SX_AT_LEVEL(sx_gemm_can_point)(const sx_gemm_side *side, int64_t n, int64_t depth, int width) {
  enum { SETS = 64, LINE_FLOATS = 16, WAYS = 7 };
  sx_gemm_place rows[SX_GEMM_PANEL], depths[SX_GEMM_DEPTH];
  int64_t n_rows = sx_min_i64(width, n), n_runs = 0, sharing[SETS] = {0};
  if (side->dtype != SX_F32) return false;
  SX_AT_LEVEL(sx_gemm_places)(&side->depth, 0, depth, depths);
  /* A block may begin inside a run, which makes one more. */
  for (int64_t k = 0; k < depth; n_runs++) k += run_length(depths, k, depth);
  if (n_runs + 2 > SX_GEMM_RUNS || n_runs * SQUARE > depth) return false;
  SX_AT_LEVEL(sx_gemm_places)(&side->rows, 0, n_rows, rows);
  for (int64_t row = 0; row < n_rows; row++)
    if (++sharing[(uint64_t)rows[row].offset / LINE_FLOATS % SETS] > WAYS) return false;
  return true;
}
