/* Forward convolutions and data gradients (conv.h). Weights are packed once for all threads; each of them
 * takes some images, or slices of one, which stay in its cache while the panels of the weights pass. */
#include "conv.h"
#include "fma.h"
#include "level.h"

enum {
  TILE_ROWS = SX_FEW_TILE_ROWS,
  TILE_VECTORS = 2,
  WIDTH = TILE_VECTORS * SX_LANES,
  DEPTH = SX_GEMM_DEPTH,
  MOST_RUNS = 512,
  MOST_TERMS = 64,       /* of a run: what is fetched meanwhile is spread over runs */
  STAY_FLOATS = 1 << 17, /* of weights that stay in the second-level cache */
  LINE = 64,             /* bytes of the cache */
  UNIT_FLOATS = 1 << 16, /* of the source, that share the second-level cache with panels and the result */
  EVEN_UNITS = 8         /* a thread: then one more or less does not matter */
};

/* ---- the tile ------------------------------------------------------------------------------------ */

/* n terms from index k of the contracted index on, which lie side by side from `from` of each row's pixel on. */
typedef struct run {
  int64_t from, k, n;
  bool ends; /* a block of the contracted index */
} run;

typedef struct tile_call {
  const float *rows[TILE_ROWS];
  float *c[TILE_ROWS];
  const float *b; /* the panel: b[k][WIDTH] */
  const run *runs;
  int n_runs;
  const char *ahead;        /* fetched meanwhile, so many lines a run; */
  int64_t n_ahead, c_ahead; /* and c, so many rows a run */
} tile_call;

SX_INLINE void tile(const int rows, const int vectors, const tile_call *t) {
  sx_floats sums[TILE_ROWS][TILE_VECTORS];
  const float *from[TILE_ROWS];
  SX_UNROLL for (int r = 0; r < rows; r++) from[r] = t->rows[r];
  SX_UNROLL for (int r = 0; r < rows; r++) SX_UNROLL for (int v = 0; v < vectors; v++) sums[r][v] = (sx_floats){0};
  bool first = true;
  const char *ahead = t->ahead;
  float *const *c_ahead = t->c, *const *c_end = t->c + rows;
  for (const run *part = t->runs, *end = part + t->n_runs; part < end; part++) {
    for (int64_t line = 0; line < t->n_ahead; line++, ahead += LINE) __builtin_prefetch(ahead, 0, 2);
    for (int64_t row = 0; row < t->c_ahead && c_ahead < c_end; row++, c_ahead++) {
      __builtin_prefetch(*c_ahead, 1);
      __builtin_prefetch(*c_ahead + (vectors - 1) * SX_LANES, 1);
    }
    const float *b = t->b + part->k * WIDTH;
    for (int64_t at = part->from, stop = at + part->n; at < stop; at++, b += WIDTH) {
      sx_floats columns[TILE_VECTORS];
      SX_UNROLL for (int v = 0; v < vectors; v++) columns[v] = sx_floats_load(b + v * SX_LANES);
      SX_UNROLL for (int r = 0; r < rows; r++) {
        sx_floats row = sx_floats_spread(from[r][at]);
        SX_UNROLL for (int v = 0; v < vectors; v++) sx_floats_fma(&sums[r][v], row, columns[v]);
      }
    }
    if (!part->ends) continue;
    SX_UNROLL for (int r = 0; r < rows; r++) SX_UNROLL for (int v = 0; v < vectors; v++) {
      float *c = t->c[r] + v * SX_LANES;
      if (!first) sums[r][v] = sx_floats_load(c) + sums[r][v];
      sx_floats_store(c, sums[r][v]);
      sums[r][v] = (sx_floats){0};
    }
    first = false;
  }
}

typedef void tile_function(const tile_call *t);

#define TILE(rows, vectors) \
  static void tile_##rows##_##vectors(const tile_call *t) { tile(rows, vectors, t); }
#define TILES(rows) TILE(rows, 1) TILE(rows, 2)
SX_EACH_FEW_TILE_ROWS(TILES)
#define ROW(rows) {tile_##rows##_1, tile_##rows##_2},
static tile_function *const tiles[TILE_ROWS][TILE_VECTORS] = {SX_EACH_FEW_TILE_ROWS(ROW)};

/* ---- classes -------------------------------------------------------------------------------------- */

/* The pixels of an axis from `first` on that see the same places of the kernel inside of the source. */
static sx_conv_axis next_class(const sx_conv_axis *axis, int64_t first, int64_t end) {
  int64_t low = 0, high = 0, n = 0;
  for (int64_t i = first; i < end; i++, n++) {
    int64_t at = axis->from + axis->step * i, lo = 0, hi = axis->n_places;
    while (lo < hi && (uint64_t)(at + axis->place_step * lo) >= (uint64_t)axis->length) lo++;
    while (hi > lo && (uint64_t)(at + axis->place_step * (hi - 1)) >= (uint64_t)axis->length) hi--;
    if (lo == hi) lo = hi = 0;
    if (n > 0 && (lo != low || hi != high)) break;
    low = lo;
    high = hi;
  }
  sx_conv_axis some = *axis;
  some.n = n;
  some.c_first += some.c_step * first;
  some.from += some.step * first + some.place_step * low;
  some.place_first += some.place_apart * low;
  some.n_places = high - low;
  return some;
}

/* What is computed at once: pixels of a class of some images. */
typedef struct work {
  const sx_conv_pixels *p;
  const float *panels;
  int64_t k, images_a_unit, slices; /* units: every so many images; each image in so many slices */
  int64_t n_groups;
  sx_conv_axis y, x;
  int64_t first_image, end_image;
  bool whole;                    /* no term is left out */
  const char *ahead, *end_ahead; /* of the source, for the next unit */
  int64_t n_ahead;               /* lines a tile */
  int n_runs;
  run runs[MOST_RUNS];
} work;

/* Appends terms, cut where blocks end; short runs of one block that follow one another become one. */
static void append(work *w, int64_t from, int64_t k, int64_t n) {
  while (n > 0) {
    int64_t some = sx_min_i64(sx_min_i64(n, MOST_TERMS), DEPTH - k % DEPTH);
    run *last = w->n_runs > 0 ? &w->runs[w->n_runs - 1] : NULL;
    bool same_block = last && last->k / DEPTH == k / DEPTH;
    if (same_block && last->k + last->n == k && last->from + last->n == from && last->n + some <= MOST_TERMS) {
      last->n += some;
    } else {
      if (last) last->ends = !same_block;
      SX_ASSERT(w->n_runs < MOST_RUNS);
      w->runs[w->n_runs++] = (run){from, k, some, false};
    }
    from += some;
    k += some;
    n -= some;
  }
}

static void make_runs(work *w) {
  const sx_operand *source = w->p->source, *kernel = w->p->kernel;
  int64_t depth = source->dims[3];
  w->n_runs = 0;
  for (int64_t row = 0; row < w->y.n_places; row++)
    for (int64_t column = 0; column < w->x.n_places; column++) {
      int64_t place =
          (w->y.place_first + w->y.place_apart * row) * kernel->dims[2] + w->x.place_first + w->x.place_apart * column;
      int64_t from = w->y.place_step * row * source->strides[1] + w->x.place_step * column * source->strides[2];
      append(w, from, place * depth, depth);
    }
  if (w->n_runs == 0) w->runs[w->n_runs++] = (run){0, 0, 0, true};
  w->runs[w->n_runs - 1].ends = true;
  w->whole = w->y.n_places == kernel->dims[1] && w->x.n_places == kernel->dims[2];
}

/* ---- pixels of a class ------------------------------------------------------------------------------ */

/* A pixel, as indices in the class. */
typedef struct pixel {
  int64_t image, y, x;
} pixel;

static void point(const work *w, pixel *at, int64_t rows, int64_t column, tile_call *t) {
  const sx_operand *source = w->p->source, *out = &w->p->call->out;
  int64_t step = w->x.step * source->strides[2], c_step = w->x.c_step * out->strides[2];
  for (int64_t r = 0; r < rows;) {
    const float *from = (const float *)source->data + at->image * source->strides[0] +
                        (w->y.from + w->y.step * at->y) * source->strides[1] +
                        (w->x.from + w->x.step * at->x) * source->strides[2];
    float *c = w->p->c + at->image * out->strides[0] + (w->y.c_first + w->y.c_step * at->y) * out->strides[1] +
               (w->x.c_first + w->x.c_step * at->x) * out->strides[2] + column;
    for (; r < rows && at->x < w->x.n; r++, at->x++, from += step, c += c_step) {
      t->rows[r] = from;
      t->c[r] = c;
    }
    if (at->x < w->x.n) continue;
    at->x = 0;
    if (++at->y < w->y.n) continue;
    at->y = 0;
    at->image++;
  }
}

/* Where left-out terms may decide the sign of a zero, the full order does. */
static void repair(const work *w, float *c, int64_t n, int64_t index) {
  const sx_call *call = w->p->call;
  for (int64_t j = 0; j < n; j++) {
    if (sx_bits_f32(c[j]) != 0x80000000u) continue;
    int64_t at[4], rest = index + j;
    for (int axis = 3; axis >= 0; axis--) {
      at[axis] = rest % call->out.dims[axis];
      rest /= call->out.dims[axis];
    }
    c[j] = w->p->reference(call, at);
  }
}

typedef uint32_t words __attribute__((vector_size(SX_LANES * 4), aligned(4), may_alias));

/* Whether any of the rows' vectors holds -0. */
static bool has_negative_zero(float *const *c, int64_t rows, int64_t vectors) {
  words sign = {0}, found = {0};
  sign |= 0x80000000u;
  for (int64_t v = 0; v < vectors; v++)
    for (int64_t r = 0; r < rows; r++) found |= (words)(*(const words *)(c[r] + v * SX_LANES) == sign);
  uint32_t any = 0;
  for (int lane = 0; lane < SX_LANES; lane++) any |= found[lane];
  return any;
}

/* A panel whose last register is a part of one. */
static void run_part(const work *w, tile_call *t, int64_t rows, int64_t n_columns) {
  float buffer[TILE_ROWS][WIDTH];
  float *c[TILE_ROWS];
  int64_t vectors = sx_ceil_div(n_columns, SX_LANES);
  for (int64_t r = 0; r < rows; r++) {
    c[r] = t->c[r];
    t->c[r] = buffer[r];
  }
  tiles[rows - 1][vectors - 1](t);
  bool zeros = !w->whole && has_negative_zero(t->c, rows, vectors);
  for (int64_t r = 0; r < rows; r++) {
    memcpy(c[r], buffer[r], (size_t)n_columns * 4);
    if (zeros) repair(w, c[r], n_columns, c[r] - w->p->c);
  }
}

static void run_tile(const work *w, tile_call *t, int64_t rows, int64_t n_columns) {
  if (n_columns % SX_LANES != 0) {
    run_part(w, t, rows, n_columns);
    return;
  }
  tiles[rows - 1][n_columns / SX_LANES - 1](t);
  if (w->whole || !has_negative_zero(t->c, rows, n_columns / SX_LANES)) return;
  for (int64_t r = 0; r < rows; r++) repair(w, t->c[r], n_columns, t->c[r] - w->p->c);
}

static void fetch_ahead(work *w, tile_call *t) {
  t->n_ahead = w->ahead < w->end_ahead ? sx_ceil_div(w->n_ahead, t->n_runs) : 0;
  t->ahead = w->ahead;
  w->ahead += t->n_ahead * t->n_runs * LINE;
}

/* Panels of the weights that the cache holds pass a tile of pixels at once; else each passes all tiles. */
static void run_class(work *w) {
  int64_t n = w->p->call->out.dims[3], n_pixels = (w->end_image - w->first_image) * w->y.n * w->x.n;
  int64_t n_tiles = sx_ceil_div(n_pixels, TILE_ROWS), at_once = n * w->k <= STAY_FLOATS ? n : WIDTH;
  make_runs(w);
  tile_call t = {.runs = w->runs, .n_runs = w->n_runs, .c_ahead = sx_ceil_div(TILE_ROWS, w->n_runs)};
  for (int64_t first = 0; first < n; first += at_once) {
    pixel at = {w->first_image, 0, 0};
    for (int64_t tile = 0; tile < n_tiles; tile++) { /* they differ by a row at most */
      int64_t rows = n_pixels * (tile + 1) / n_tiles - n_pixels * tile / n_tiles;
      point(w, &at, rows, first, &t);
      for (int64_t column = first; column < sx_min_i64(first + at_once, n); column += WIDTH) {
        t.b = w->panels + column * w->k;
        fetch_ahead(w, &t);
        run_tile(w, &t, rows, sx_min_i64(WIDTH, n - column));
        for (int64_t r = 0; r < rows; r++) t.c[r] += WIDTH;
      }
    }
  }
}

static void run_phase(work *w, const sx_conv_phase *phase, int64_t slice) {
  int64_t end = phase->y.n * (slice + 1) / w->slices;
  for (int64_t y = phase->y.n * slice / w->slices; y < end; y += w->y.n) {
    w->y = next_class(&phase->y, y, end);
    for (int64_t x = 0; x < phase->x.n; x += w->x.n) {
      w->x = next_class(&phase->x, x, phase->x.n);
      run_class(w);
    }
  }
}

/* What follows in the source, as much as this unit reads, is fetched while its tiles are computed: so many lines a
 * tile. Behind the last unit that is of no use, and never read. */
static void look_ahead(work *w, int64_t slice) {
  const sx_operand *source = w->p->source, *out = &w->p->call->out;
  int64_t n = w->end_image - w->first_image, image = source->strides[0] * 4;
  int64_t bytes = sx_max_i64(0, n * image) / w->slices;
  int64_t n_tiles =
      sx_ceil_div(n * out->dims[1] * out->dims[2], TILE_ROWS * w->slices) * sx_ceil_div(out->dims[3], WIDTH);
  w->ahead = (const char *)source->data + w->first_image * image + bytes * (slice + 1);
  w->end_ahead = w->ahead + bytes;
  w->n_ahead = sx_ceil_div(bytes / LINE, n_tiles);
}

static void run_units(void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const work *shared = context;
  work mine = {
      .p = shared->p, .panels = shared->panels, .k = shared->k, .slices = shared->slices, .n_groups = shared->n_groups};
  const sx_call *call = shared->p->call;
  int64_t n_images = call->out.dims[0];
  for (int64_t unit = begin; unit < end; unit++) {
    int64_t group = unit / shared->slices;
    mine.first_image = n_images * group / shared->n_groups;
    mine.end_image = n_images * (group + 1) / shared->n_groups;
    look_ahead(&mine, unit % shared->slices);
    for (int64_t y = 0; y < sx_min_i64(shared->p->n_phases, call->out.dims[1]); y++)
      for (int64_t x = 0; x < sx_min_i64(shared->p->n_phases, call->out.dims[2]); x++) {
        sx_conv_phase phase = shared->p->phase(call, y, x);
        run_phase(&mine, &phase, unit % shared->slices);
      }
  }
}

/* ---- weights and units ------------------------------------------------------------------------------- */

typedef struct pack_job {
  const sx_gemm_side *weights;
  int64_t n, k, n_blocks;
  float *panels;
} pack_job;

static void pack_units(void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const pack_job *job = context;
  for (int64_t unit = begin; unit < end; unit++) {
    int64_t column = unit / job->n_blocks * WIDTH, k = unit % job->n_blocks * DEPTH;
    SX_AT_LEVEL(sx_gemm_pack)
    (job->weights, 0, column, sx_min_i64(WIDTH, job->n - column), k, sx_min_i64(DEPTH, job->k - k), WIDTH,
     job->panels + column * job->k + k * WIDTH);
  }
}

/* As many images a unit as the cache holds; slices of one that it does not hold; units that threads share evenly. */
static void choose_units(work *w, int n_threads) {
  const sx_operand *source = w->p->source;
  int64_t n_images = source->dims[0];
  int64_t image = sx_max_i64(1, sx_count(source->dims + 1, 3)); /* it may be padding alone */
  int64_t n_groups = image >= UNIT_FLOATS ? n_images : sx_ceil_div(n_images, UNIT_FLOATS / image);
  n_groups = sx_min_i64(n_images, sx_ceil_div(n_groups, n_threads) * n_threads);
  w->n_groups = n_groups;
  w->slices = sx_ceil_div(image, 4 * UNIT_FLOATS);
  if (n_groups % n_threads != 0 && n_groups < EVEN_UNITS * n_threads) w->slices *= n_threads;
}

void SX_AT_LEVEL(sx_conv_pixels_run)(const sx_conv_pixels *p, void *scratch) {
  sx_pool *pool = p->call->pool;
  work w = {.p = p, .panels = scratch};
  w.k = sx_count(p->kernel->dims + 1, 2) * p->source->dims[3];
  pack_job pack = {&p->weights, p->call->out.dims[3], w.k, sx_ceil_div(w.k, DEPTH), scratch};
  sx_pool_run(pool, sx_ceil_div(pack.n, WIDTH) * pack.n_blocks, 1, pack_units, &pack);
  if (SX_AT_LEVEL(sx_conv_lines_suit)(p)) {
    SX_AT_LEVEL(sx_conv_lines_run)(p, w.panels, (float *)scratch + sx_conv_pixels_bytes(pack.n, w.k) / 4);
    return;
  }
  choose_units(&w, sx_pool_threads(pool));
  sx_pool_run(pool, w.n_groups * w.slices, 1, run_units, &w);
}

/* ---- which convolutions -------------------------------------------------------------------------------- */

static bool line_is_finite(const float *x, int64_t n) {
  enum { EXPONENT = 0x7f800000 };
  words exponent = {0}, found = {0};
  exponent |= EXPONENT;
  int64_t j = 0;
  for (; j + SX_LANES <= n; j += SX_LANES) found |= (words)((*(const words *)(x + j) & exponent) == exponent);
  uint32_t any = 0;
  for (; j < n; j++) any |= (uint32_t)((sx_bits_f32(x[j]) & EXPONENT) == EXPONENT);
  for (int lane = 0; lane < SX_LANES; lane++) any |= found[lane];
  return !any;
}

bool SX_AT_LEVEL(sx_conv_is_finite)(const sx_operand *x) {
  int64_t index[SX_RANK_MAX] = {0}, n = sx_operand_count(x), line = 1;
  int outer = x->rank; /* axes outside of the elements that lie side by side */
  for (; outer > 0 && x->dtype == SX_F32 && x->strides[outer - 1] == line; outer--) line *= x->dims[outer - 1];
  for (int64_t k = 0; k < n; k += line) {
    float value = sx_operand_load(x, index).f;
    bool finite =
        line > 1 ? line_is_finite((const float *)x->data + sx_operand_at(x, index), line) : value - value == 0.0f;
    if (!finite) return false;
    sx_index_next(index, x->dims, outer);
  }
  return true;
}

bool SX_AT_LEVEL(sx_conv_pixels_suit)(const sx_conv_pixels *p) {
  int64_t n = p->call->out.dims[3], n_places = sx_count(p->kernel->dims + 1, 2), k = n_places * p->source->dims[3];
  bool full = n * 4 >= sx_ceil_div(n, SX_LANES) * SX_LANES * 3;
  bool short_list = n_places + k / MOST_TERMS + k / DEPTH + 2 <= MOST_RUNS;
  return full && short_list && p->source->dtype == SX_F32 && (p->source->strides[3] == 1 || p->source->dims[3] == 1);
}
