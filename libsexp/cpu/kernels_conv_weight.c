/* Weight gradients (conv.h): tiles of the result add a block of pixels after another. Lanes are read where they
 * lie; rows are packed, a block at a time. Pixels that a place of the kernel sees in the padding are left out. */
#include "conv.h"
#include "fma.h"
#include "level.h"
#include "reference.h"

enum {
  TILE_ROWS = SX_TILE_ROWS,
  TILE_VECTORS = 2,
  WIDTH = TILE_VECTORS * SX_LANES,
  DEPTH = SX_GEMM_DEPTH,
  LINE = 64,                                 /* bytes of the cache */
  TILE_FLOATS = TILE_ROWS * DEPTH + SX_LANES /* packed rows of a block; the last pixel is copied as a register */
};

_Static_assert((int)TILE_ROWS <= (int)SX_CONV_ROWS, "scratch is enough for the tile");

/* ---- the tile ------------------------------------------------------------------------------------ */

/* n pixels, whose packed rows begin at `a` and whose lanes at `from`. */
typedef struct run {
  int64_t a, from, n;
} run;

typedef struct tile_call {
  const float *a, *b;
  int64_t a_step, b_step; /* of a pixel */
  const run *runs;
  int n_runs;
  float *c;
  int64_t c_row;
  bool first;        /* of the blocks: store, else add */
  const char *ahead; /* fetched meanwhile: so many pairs of lines a run, a step apart */
  int64_t n_ahead, ahead_step;
} tile_call;

SX_INLINE void tile(const int rows, const int vectors, const tile_call *t) {
  sx_floats sums[TILE_ROWS][TILE_VECTORS];
  int64_t a_step = t->a_step, b_step = t->b_step;
  SX_UNROLL for (int r = 0; r < rows; r++) SX_UNROLL for (int v = 0; v < vectors; v++) {
    sums[r][v] = (sx_floats){0};
    __builtin_prefetch(t->c + r * t->c_row + v * SX_LANES, 1);
  }
  const char *ahead = t->ahead;
  for (const run *part = t->runs, *end = part + t->n_runs; part < end; part++) {
    for (int64_t k = 0; k < t->n_ahead; k++, ahead += t->ahead_step) {
      __builtin_prefetch(ahead, 0, 2);
      __builtin_prefetch(ahead + LINE, 0, 2);
    }
    const float *a = t->a + part->a, *b = t->b + part->from;
    for (const float *stop = a + part->n * a_step; a < stop; a += a_step, b += b_step) {
      sx_floats columns[TILE_VECTORS];
      SX_UNROLL for (int v = 0; v < vectors; v++) columns[v] = sx_floats_load(b + v * SX_LANES);
      SX_UNROLL for (int r = 0; r < rows; r++) {
        sx_floats row = sx_floats_spread(a[r]);
        SX_UNROLL for (int v = 0; v < vectors; v++) sx_floats_fma(&sums[r][v], row, columns[v]);
      }
    }
  }
  SX_UNROLL for (int r = 0; r < rows; r++) SX_UNROLL for (int v = 0; v < vectors; v++) {
    float *c = t->c + r * t->c_row + v * SX_LANES;
    if (!t->first) sums[r][v] = sx_floats_load(c) + sums[r][v];
    sx_floats_store(c, sums[r][v]);
  }
}

typedef void tile_function(const tile_call *t);

#define TILE(rows, vectors) \
  static void tile_##rows##_##vectors(const tile_call *t) { tile(rows, vectors, t); }
#define TILES(rows) TILE(rows, 1) TILE(rows, 2)
SX_EACH_TILE_ROWS(TILES)
#define ROW(rows) {tile_##rows##_1, tile_##rows##_2},
static tile_function *const tiles[TILE_ROWS][TILE_VECTORS] = {SX_EACH_TILE_ROWS(ROW)};

/* ---- geometry ------------------------------------------------------------------------------------ */

typedef struct geometry {
  const sx_operand *dy, *x;
  const int64_t *w; /* [o kh kw c] */
  int64_t stride, padding, n_pixels;
} geometry;

static geometry geometry_of(const sx_call *call) {
  const sx_operand *dy = &call->inputs[0];
  return (geometry){
      dy, &call->inputs[1], call->out.dims, call->node->ints[0], call->node->ints[1], sx_count(dy->dims, 3)};
}

/* The pixels first to end - 1 of an axis that see place `place` inside of the image. */
static void inside(const geometry *g, int axis, int64_t place, int64_t *first, int64_t *end) {
  int64_t before = g->padding - place, behind = g->x->dims[axis] + before;
  *first = before > 0 ? sx_ceil_div(before, g->stride) : 0;
  *end = behind > 0 ? sx_min_i64(sx_ceil_div(behind, g->stride), g->dy->dims[axis]) : 0;
}

/* A row of pixels, or what a block holds of it. */
typedef struct row {
  int64_t image, y, x, n;
} row;

static row row_at(const geometry *g, int64_t pixel, int64_t end) {
  int64_t height = g->dy->dims[1], width = g->dy->dims[2];
  row some = {pixel / (height * width), pixel / width % height, pixel % width, 0};
  some.n = sx_min_i64(width - some.x, end - pixel);
  return some;
}

static int64_t image_at(const geometry *g, int64_t image, int64_t y, int64_t x) {
  return image * g->x->strides[0] + y * g->x->strides[1] + x * g->x->strides[2];
}

/* The pixels begin to end - 1 that a place sees inside of the image, as runs through the image. */
static int list_runs(const geometry *g, int64_t kh, int64_t kw, int64_t begin, int64_t end, run *runs) {
  int64_t top, bottom, left, right, step = g->stride * g->x->strides[2];
  int n = 0;
  inside(g, 1, kh, &top, &bottom);
  inside(g, 2, kw, &left, &right);
  row some;
  for (int64_t pixel = begin; pixel < end; pixel += some.n) {
    some = row_at(g, pixel, end);
    int64_t first = sx_max_i64(some.x, left), last = sx_min_i64(some.x + some.n, right);
    if (some.y < top || some.y >= bottom || first >= last) continue;
    run next = {(pixel - begin + first - some.x) * TILE_ROWS,
                image_at(g, some.image, some.y * g->stride + kh - g->padding, first * g->stride + kw - g->padding),
                last - first};
    run *before = n > 0 ? &runs[n - 1] : NULL;
    if (before && before->a + before->n * TILE_ROWS == next.a && before->from + before->n * step == next.from)
      before->n += next.n;
    else
      runs[n++] = next;
  }
  return n;
}

/* ---- rows ------------------------------------------------------------------------------------------ */

typedef struct job {
  geometry g;
  const sx_conv_weight *p;
  char *scratch;
  int64_t scratch_bytes;         /* of each thread */
  int64_t row_cuts, column_cuts; /* parts of the result that threads take */
  int64_t n_rows, n_panels;
  bool windows; /* rows are elements of a window, counted in tiles */
} job;

/* Rows first to end - 1 in tiles that differ by a row at most. */
typedef struct row_range {
  int64_t first, end, n_tiles;
} row_range;

static int64_t tile_begin(const row_range *r, int64_t tile) {
  return r->first + (r->end - r->first) * tile / r->n_tiles;
}

/* Channels of dy: a[tile][pixel][TILE_ROWS]. Whole registers are copied: what they hold beyond the tile is
 * written over by the next pixel or never read. */
static void pack_channels(const geometry *g, const row_range *r, int64_t begin, int64_t end, float *a) {
  int64_t step = g->dy->strides[2];
  for (int64_t pixel = begin; pixel < end; pixel++) {
    const float *from = (const float *)g->dy->data + pixel * step;
    for (int64_t tile = 0; tile < r->n_tiles; tile++) {
      int64_t first = tile_begin(r, tile), n = tile_begin(r, tile + 1) - first;
      float *to = a + tile * TILE_FLOATS + (pixel - begin) * TILE_ROWS;
      if (first + SX_LANES <= g->w[0])
        sx_floats_store(to, sx_floats_load(from + first));
      else
        for (int64_t j = 0; j < n; j++) to[j] = from[first + j];
    }
  }
}

/* Columns left to left + n - 1 of a line of the image, 0 in the padding. */
static void pack_line(const sx_operand *x, int64_t image, int64_t y, int64_t left, int64_t n, float *a) {
  int64_t channels = x->dims[3], first = sx_min_i64(sx_max_i64(0, -left), n), end = sx_min_i64(x->dims[2] - left, n);
  if (y < 0 || y >= x->dims[1] || end <= first) first = end = n;
  memset(a, 0, (size_t)(first * channels) * 4);
  memset(a + end * channels, 0, (size_t)((n - end) * channels) * 4);
  if (first == end) return;
  const float *from =
      (const float *)x->data + image * x->strides[0] + y * x->strides[1] + (left + first) * x->strides[2];
  int64_t together = x->strides[2] == channels ? end - first : 1;
  for (int64_t column = first; column < end; column += together, from += x->strides[2])
    memcpy(a + column * channels, from, (size_t)(together * channels) * 4);
}

void SX_AT_LEVEL(sx_conv_pack_windows)(const sx_operand *x, int64_t kw, int64_t stride, int64_t image, int64_t y,
                                       int64_t left, int64_t n, float *to) {
  int64_t together = stride > kw ? 1 : n, line = sx_conv_line(together, stride, kw, x->dims[3]);
  for (int64_t k = 0; k < n; k += together, to += line)
    pack_line(x, image, y, left + k * stride, line / x->dims[3], to);
}

static int64_t window_step(const geometry *g) { return sx_min_i64(g->stride, g->w[2]); }

static int64_t window_line(const geometry *g, int64_t n) { return sx_conv_line(n, g->stride, g->w[2], g->w[3]); }

/* What a block of pixels has of rows, a run each; and how many elements their packed lines take together. */
static int list_windows(const geometry *g, int64_t begin, int64_t end, run *runs, int64_t *length) {
  int n = 0;
  *length = 0;
  for (int64_t pixel = begin; pixel < end; pixel += runs[n++].n) {
    runs[n] = (run){*length, pixel * g->dy->strides[2], row_at(g, pixel, end).n};
    *length += window_line(g, runs[n].n);
  }
  return n;
}

/* Line kh of the windows of a block, for each kh: a[kh][length]. */
static void pack_windows(const geometry *g, int64_t begin, int64_t end, int64_t length, float *a) {
  for (int64_t kh = 0; kh < g->w[1]; kh++) {
    float *to = a + kh * length;
    row some;
    for (int64_t pixel = begin; pixel < end; pixel += some.n, to += window_line(g, some.n)) {
      some = row_at(g, pixel, end);
      SX_AT_LEVEL(sx_conv_pack_windows)
      (g->x, g->w[2], g->stride, some.image, some.y * g->stride - g->padding + kh, some.x * g->stride - g->padding,
       some.n, to);
    }
  }
}

/* ---- a part of the result ---------------------------------------------------------------------------- */

typedef struct part {
  row_range rows;
  int64_t first_panel, end_panel;
} part;

/* What the next block needs is fetched while tiles of this one are computed: so many pairs of lines a tile. */
typedef struct ahead {
  const char *at, *end;
  int64_t n;
} ahead;

/* The image's share of the block of pixels from `begin` on, where all share it evenly. */
static ahead next_block(const geometry *g, const part *some, int64_t begin) {
  const sx_operand *x = g->x;
  int64_t n_tiles = some->rows.n_tiles * (some->end_panel - some->first_panel), bytes = x->dims[0] * x->strides[0] * 4;
  double share = (double)bytes / (double)g->n_pixels;
  int64_t from = (int64_t)(share * (double)begin), end = (int64_t)(share * (double)(begin + DEPTH));
  if (begin >= g->n_pixels || bytes < 0) return (ahead){0};
  if (end > bytes) end = bytes;
  const char *data = x->data;
  return (ahead){data + from, data + end, (end - from) / (2 * LINE) / n_tiles + 1};
}

static int64_t panels_a_place(const job *j) { return sx_ceil_div(j->g.w[3], WIDTH); }

/* One block of pixels: place by place, so that its runs are listed once. */
static void add_channels(const job *j, const part *some, int64_t begin, const float *a) {
  const geometry *g = &j->g;
  ahead next = next_block(g, some, begin + DEPTH);
  int64_t end = sx_min_i64(begin + DEPTH, g->n_pixels), each = panels_a_place(j), c_row = sx_count(g->w + 1, 3);
  run runs[DEPTH];
  for (int64_t panel = some->first_panel; panel < some->end_panel;) {
    int64_t place = panel / each, stop = sx_min_i64((place + 1) * each, some->end_panel);
    tile_call t = {.a_step = TILE_ROWS,
                   .b_step = g->stride * g->x->strides[2],
                   .runs = runs,
                   .n_runs = list_runs(g, place / g->w[2], place % g->w[2], begin, end, runs),
                   .c_row = c_row,
                   .first = begin == 0,
                   .ahead_step = 2 * LINE};
    for (int64_t tile = 0; tile < some->rows.n_tiles && (t.first || t.n_runs > 0); tile++) {
      int64_t first = tile_begin(&some->rows, tile), n = tile_begin(&some->rows, tile + 1) - first;
      t.a = a + tile * TILE_FLOATS;
      for (int64_t at = panel; at < stop; at++) {
        int64_t column = at % each * WIDTH, columns = sx_min_i64(WIDTH, g->w[3] - column);
        t.b = (const float *)g->x->data + column;
        t.c = j->p->c + first * c_row + place * g->w[3] + column;
        t.ahead = next.at;
        t.n_ahead = next.at < next.end && t.n_runs > 0 ? sx_ceil_div(next.n, t.n_runs) : 0;
        next.at += t.n_ahead * t.n_runs * 2 * LINE;
        tiles[n - 1][columns / SX_LANES - 1](&t);
      }
    }
    panel = stop;
  }
}

/* Rows of a window's elements: tiles of each of its lines, even ones. */
static int64_t line_tiles(const geometry *g) { return sx_ceil_div(g->w[2] * g->w[3], TILE_ROWS); }

static int64_t tile_element(const geometry *g, int64_t tile) {
  int64_t each = line_tiles(g), line = g->w[2] * g->w[3];
  return tile / each * line + line * (tile % each) / each;
}

/* One block of pixels: c [elements of a window, channels of dy]. The next block's lanes are fetched meanwhile. */
static void add_windows(const job *j, const part *some, int64_t begin, float *a, float *c) {
  const geometry *g = &j->g;
  int64_t end = sx_min_i64(begin + DEPTH, g->n_pixels), out = g->w[0], step = g->dy->strides[2], length;
  int64_t n_tiles = some->rows.end - some->rows.first, left = sx_min_i64(DEPTH, g->n_pixels - end);
  run runs[DEPTH];
  tile_call t = {.a_step = window_step(g) * g->w[3], .b_step = step, .runs = runs, .c_row = out, .first = begin == 0};
  t.n_runs = list_windows(g, begin, end, runs, &length);
  t.ahead_step = step * 4;
  pack_windows(g, begin, end, length, a);
  for (int64_t panel = some->first_panel; panel < some->end_panel; panel++) {
    t.b = (const float *)g->dy->data + panel * WIDTH;
    t.ahead = (const char *)(t.b + end * step);
    t.n_ahead = left / n_tiles / t.n_runs;
    for (int64_t tile = some->rows.first; tile < some->rows.end; tile++) {
      int64_t first = tile_element(g, tile), n = tile_element(g, tile + 1) - first, line = g->w[2] * g->w[3];
      t.a = a + first / line * length + first % line;
      t.c = c + first * out + panel * WIDTH;
      tiles[n - 1][sx_min_i64(WIDTH, out - panel * WIDTH) / SX_LANES - 1](&t);
      t.ahead += t.n_ahead * t.n_runs * t.ahead_step;
    }
  }
}

static void store_windows(const job *j, const part *some, const float *c) {
  int64_t out = j->g.w[0], end = sx_min_i64(some->end_panel * WIDTH, out), n = sx_count(j->g.w + 1, 3);
  int64_t first = tile_element(&j->g, some->rows.first), last = tile_element(&j->g, some->rows.end);
  for (int64_t o = some->first_panel * WIDTH; o < end; o++)
    for (int64_t at = first; at < last; at++) j->p->c[o * n + at] = c[at * out + o];
}

/* Where left-out pixels may decide the sign of a zero, the full order does. */
static void repair(const job *j, const part *some) {
  const geometry *g = &j->g;
  int64_t each = panels_a_place(j), places = g->w[1] * g->w[2];
  for (int64_t o = some->rows.first; o < some->rows.end; o++)
    for (int64_t panel = some->first_panel; panel < some->end_panel; panel++) {
      int64_t place = panel / each, column = panel % each * WIDTH;
      float *c = j->p->c + (o * places + place) * g->w[3];
      for (int64_t k = column; k < sx_min_i64(column + WIDTH, g->w[3]); k++)
        if (sx_bits_f32(c[k]) == 0x80000000u)
          c[k] = sx_reference_conv_weight_at(j->p->call, (int64_t[]){o, place / g->w[2], place % g->w[2], k});
    }
}

static int64_t cut(int64_t n, int64_t cuts, int64_t index) { return n * index / cuts; }

static void run_channels(const job *j, const part *some, float *a) {
  for (int64_t pixel = 0; pixel < j->g.n_pixels; pixel += DEPTH) {
    pack_channels(&j->g, &some->rows, pixel, sx_min_i64(pixel + DEPTH, j->g.n_pixels), a);
    add_channels(j, some, pixel, a);
  }
  if (j->g.padding > 0) repair(j, some);
}

static void run_windows(const job *j, const part *some, float *a) {
  float *c = a + sx_count(j->g.w + 1, 3) * DEPTH;
  for (int64_t pixel = 0; pixel < j->g.n_pixels; pixel += DEPTH) add_windows(j, some, pixel, a, c);
  store_windows(j, some, c);
}

static void run_parts(void *context, int64_t begin, int64_t end, int thread) {
  const job *j = context;
  float *a = (float *)(void *)(j->scratch + thread * j->scratch_bytes);
  for (int64_t unit = begin; unit < end; unit++) {
    int64_t row_cut = unit / j->column_cuts, column_cut = unit % j->column_cuts;
    part some = {{cut(j->n_rows, j->row_cuts, row_cut), cut(j->n_rows, j->row_cuts, row_cut + 1), 0},
                 cut(j->n_panels, j->column_cuts, column_cut),
                 cut(j->n_panels, j->column_cuts, column_cut + 1)};
    some.rows.n_tiles = sx_ceil_div(some.rows.end - some.rows.first, TILE_ROWS);
    if (j->windows)
      run_windows(j, &some, a);
    else
      run_channels(j, &some, a);
  }
}

/* Where the image's channels do not fill registers: then dy's do. */
static bool has_windows(const geometry *g) { return g->w[3] % SX_LANES != 0; }

/* All threads have work and the most of any is least: where cuts are alike, more of rows, since each part packs its
 * own. */
static void choose_cuts(job *j, int n_threads) {
  int64_t most_rows = j->windows ? j->n_rows : sx_ceil_div(j->n_rows, TILE_ROWS), least = INT64_MAX;
  for (int64_t rows = 1; rows <= sx_min_i64(n_threads, most_rows); rows++) {
    int64_t columns = sx_min_i64(n_threads / rows, j->n_panels);
    int64_t most = sx_ceil_div(j->n_rows, rows) * sx_ceil_div(j->n_panels, columns);
    if (most > least) continue;
    least = most;
    j->row_cuts = rows;
    j->column_cuts = columns;
  }
}

void SX_AT_LEVEL(sx_conv_weight_run)(const sx_conv_weight *p, void *scratch) {
  job j = {.g = geometry_of(p->call), .p = p, .scratch = scratch};
  j.scratch_bytes = sx_conv_weight_bytes(j.g.w);
  j.windows = has_windows(&j.g);
  j.n_rows = j.windows ? j.g.w[1] * line_tiles(&j.g) : j.g.w[0];
  j.n_panels = j.windows ? sx_ceil_div(j.g.w[0], WIDTH) : j.g.w[1] * j.g.w[2] * panels_a_place(&j);
  choose_cuts(&j, sx_pool_threads(p->call->pool));
  sx_pool_run(p->call->pool, j.row_cuts * j.column_cuts, 1, run_parts, &j);
}

/* ---- which gradients ----------------------------------------------------------------------------------- */

/* Whether dy is finite where a place of the kernel sees padding. */
static bool border_is_finite(const geometry *g) {
  int64_t top, bottom, left, right, none;
  inside(g, 1, 0, &top, &none);
  inside(g, 1, g->w[1] - 1, &none, &bottom);
  inside(g, 2, 0, &left, &none);
  inside(g, 2, g->w[2] - 1, &none, &right);
  const sx_operand *dy = g->dy;
  for (int64_t image = 0; image < dy->dims[0]; image++)
    for (int64_t y = 0; y < dy->dims[1]; y++)
      for (int64_t x = 0; x < dy->dims[2]; x++) {
        if (y >= top && y < bottom && x >= left && x < right) {
          x = right - 1;
          continue;
        }
        sx_operand pixel = {(float *)dy->data + image * dy->strides[0] + y * dy->strides[1] + x * dy->strides[2],
                            SX_F32, 1, dy->dims + 3, dy->strides + 3};
        if (!SX_AT_LEVEL(sx_conv_is_finite)(&pixel)) return false;
      }
  return true;
}

static bool are_lines(const sx_operand *x) { return x->dtype == SX_F32 && x->strides[3] == 1; }

/* Pixels of dy one step apart, over rows and images. */
static bool is_even(const sx_operand *dy) {
  return are_lines(dy) && dy->strides[1] == dy->dims[2] * dy->strides[2] &&
         dy->strides[0] == dy->dims[1] * dy->strides[1];
}

bool SX_AT_LEVEL(sx_conv_weight_suits)(const sx_conv_weight *p) {
  geometry g = geometry_of(p->call);
  if (!is_even(g.dy) || !are_lines(g.x)) return false;
  if (has_windows(&g)) return g.w[0] % SX_LANES == 0 && sx_count(g.w + 1, 3) <= SX_CONV_WINDOW;
  return g.padding == 0 || border_is_finite(&g);
}
