/* Forward convolutions of images of few channels (conv.h). Lines of the image are packed with their padding, so that
 * every window is whole and one line of pixels lies evenly: a tile is some of those by channels of the result. */
#include "conv.h"
#include "fma.h"
#include "level.h"

enum {
  TILE_ROWS = SX_TILE_ROWS,
  TILE_VECTORS = 2,
  WIDTH = TILE_VECTORS * SX_LANES,
  GROUP = 4 /* rows that one pointer serves */
};

/* ---- the tile ------------------------------------------------------------------------------------ */

typedef struct tile_call {
  const float *a; /* a[line][row][term]: rows overlap */
  int64_t row, line, n_lines, n_terms;
  const float *b; /* the panel: b[line][term][WIDTH] */
  float *c;
  int64_t c_row;
  int64_t c_ahead; /* the next tile's rows, fetched meanwhile: from c on */
} tile_call;

SX_INLINE void tile(const int rows, const int vectors, const tile_call *t) {
  sx_floats sums[TILE_ROWS][TILE_VECTORS];
  const int64_t row = t->row, row2 = 2 * row, row3 = 3 * row, n_lines = t->n_lines, n_terms = t->n_terms;
  const int64_t c_row = t->c_row, fetched = (rows + n_lines - 1) / n_lines;
  SX_UNROLL for (int r = 0; r < rows; r++) SX_UNROLL for (int v = 0; v < vectors; v++) sums[r][v] = (sx_floats){0};
  const float *a = t->a, *b = t->b, *ahead = t->c + t->c_ahead, *end = ahead + rows * c_row;
  float *c = t->c;
  for (int64_t line = 0; line < n_lines; line++, a += t->line) {
    for (int64_t r = 0; r < fetched && ahead < end; r++, ahead += c_row) {
      __builtin_prefetch(ahead, 1);
      __builtin_prefetch(ahead + (vectors - 1) * SX_LANES, 1);
    }
    const float *from[(TILE_ROWS + GROUP - 1) / GROUP];
    SX_UNROLL for (int g = 0; g * GROUP < rows; g++) from[g] = a + g * GROUP * row;
    for (const float *stop = b + n_terms * WIDTH; b < stop; b += WIDTH) {
      sx_floats columns[TILE_VECTORS];
      SX_UNROLL for (int v = 0; v < vectors; v++) columns[v] = sx_floats_load(b + v * SX_LANES);
      SX_UNROLL for (int r = 0; r < rows; r++) {
        const int64_t at = r % GROUP == 0 ? 0 : r % GROUP == 1 ? row : r % GROUP == 2 ? row2 : row3;
        sx_floats x = sx_floats_spread(from[r / GROUP][at]);
        SX_UNROLL for (int v = 0; v < vectors; v++) sx_floats_fma(&sums[r][v], x, columns[v]);
      }
      SX_UNROLL for (int g = 0; g * GROUP < rows; g++) from[g]++;
    }
  }
  SX_UNROLL for (int r = 0; r < rows; r++) SX_UNROLL for (int v = 0; v < vectors; v++)
      sx_floats_store(c + r * c_row + v * SX_LANES, sums[r][v]);
}

typedef void tile_function(const tile_call *t);

#define TILE(rows, vectors) \
  static void tile_##rows##_##vectors(const tile_call *t) { tile(rows, vectors, t); }
#define TILES(rows) TILE(rows, 1) TILE(rows, 2)
SX_EACH_TILE_ROWS(TILES)
#define ROW(rows) {tile_##rows##_1, tile_##rows##_2},
static tile_function *const tiles[TILE_ROWS][TILE_VECTORS] = {SX_EACH_TILE_ROWS(ROW)};

/* ---- strips ---------------------------------------------------------------------------------------- */

typedef struct job {
  const sx_conv_pixels *p;
  const float *panels;
  float *scratch; /* of all threads */
  int64_t scratch_each, stride, padding;
  int64_t line, strip, n_strips; /* floats of a packed line; rows of pixels of a strip; strips of an image */
  int64_t step;                  /* packed lines from a row of pixels to the next */
} job;

/* Packed lines of the rows of pixels first to first + n - 1. */
static void pack_strip(const job *j, int64_t image, int64_t first, int64_t n, float *a) {
  const int64_t *kernel = j->p->kernel->dims;
  for (int64_t row = 0; row < n; row++)
    for (int64_t kh = row > 0 ? kernel[1] - j->step : 0; kh < kernel[1]; kh++) SX_AT_LEVEL(sx_conv_pack_windows)
  (j->p->source, kernel[2], j->stride, image, (first + row) * j->stride - j->padding + kh, -j->padding,
   j->p->call->out.dims[2], a + (row * j->step + kh) * j->line);
}

/* A row of pixels as tiles that differ by a row at most; all channels of one pass before the next. */
static void run_row(const job *j, const float *a, float *c) {
  const sx_operand *out = &j->p->call->out;
  const int64_t *kernel = j->p->kernel->dims;
  int64_t n_pixels = out->dims[2], n = out->dims[3], n_tiles = sx_ceil_div(n_pixels, TILE_ROWS);
  int64_t k = sx_count(kernel + 1, 3);
  tile_call t = {.row = sx_min_i64(j->stride, kernel[2]) * kernel[3],
                 .line = j->line,
                 .n_lines = kernel[1],
                 .n_terms = kernel[2] * kernel[3],
                 .c_row = n};
  for (int64_t tile = 0, first = 0; tile < n_tiles; tile++) {
    int64_t rows = n_pixels * (tile + 1) / n_tiles - first;
    t.a = a + first * t.row;
    t.c_ahead = rows * n;
    for (int64_t column = 0; column < n; column += WIDTH) {
      t.b = j->panels + column * k;
      t.c = c + first * n + column;
      tiles[rows - 1][sx_min_i64(WIDTH, n - column) / SX_LANES - 1](&t);
    }
    first += rows;
  }
}

static void run_strips(void *context, int64_t begin, int64_t end, int thread) {
  const job *j = context;
  const sx_operand *out = &j->p->call->out;
  float *a = j->scratch + thread * j->scratch_each;
  for (int64_t unit = begin; unit < end; unit++) {
    int64_t image = unit / j->n_strips, first = unit % j->n_strips * j->strip;
    int64_t n = sx_min_i64(j->strip, out->dims[1] - first);
    pack_strip(j, image, first, n, a);
    for (int64_t row = 0; row < n; row++)
      run_row(j, a + row * j->step * j->line,
              j->p->c + (image * out->dims[1] + first + row) * out->dims[2] * out->dims[3]);
  }
}

void SX_AT_LEVEL(sx_conv_lines_run)(const sx_conv_pixels *p, const float *panels, float *scratch) {
  const int64_t *kernel = p->kernel->dims, *out = p->call->out.dims;
  job j = {.p = p,
           .panels = panels,
           .scratch = scratch,
           .stride = p->call->node->ints[0],
           .padding = p->call->node->ints[1]};
  j.step = sx_min_i64(j.stride, kernel[1]);
  j.line = sx_conv_line(out[2], j.stride, kernel[2], kernel[3]);
  j.strip = sx_conv_strip(j.line, j.step, kernel[1], out[1]);
  j.n_strips = sx_ceil_div(out[1], j.strip);
  j.scratch_each = sx_conv_strip_floats(out, kernel, j.stride);
  int64_t work = j.strip * sx_count(out + 2, 2) * sx_count(kernel + 1, 3);
  sx_pool_run(p->call->pool, out[0] * j.n_strips, sx_ceil_div(SX_GEMM_SMALL, work), run_strips, &j);
}

bool SX_AT_LEVEL(sx_conv_lines_suit)(const sx_conv_pixels *p) {
  const int64_t *kernel = p->kernel->dims, *out = p->call->out.dims;
  return p->call->node->op == SX_OP_CONV && sx_conv_has_lines(out, kernel) && out[3] % SX_LANES == 0 &&
         out[2] * 2 >= TILE_ROWS && p->source->dtype == SX_F32 && p->source->strides[3] == 1;
}
