/* Products of f32 whose indices are single strides: matrices as they are stored, transposed or not, and the
 * heads of attention. Rows are read where they lie or are packed, a tile of them at a time; columns are read
 * where they lie where rows are few, else the first tile of rows leaves a packed copy for the others. */
#include "tile.h"

enum {
  TILE_ROWS = SX_TILE_ROWS,
  WIDTH = SX_TILE_COLUMNS,
  TURN_ROWS = SX_TURN_ROWS,
  AHEAD_DEPTH = 128, /* rows of fewer elements are few lines; fetching them ahead costs more than it gives */
  LATENCY = 4,       /* of a multiply-add; so many sums at least are kept going */
  DEPTH = SX_GEMM_DEPTH,
  BLOCK_COLUMNS = 512,
  LINE = 16,         /* floats of a line of the cache */
  NEAR_FLOATS = 128, /* farther apart, lines of the columns of a block meet in few sets of the cache */
  FEW_TILES = 2      /* of rows, that packed columns of any distance would not pay for */
};

/* ---- what is packed ------------------------------------------------------------------------------ */

static void pack_columns(const sx_gemm_plain *p, const float *b, int64_t n, int64_t depth, int64_t width,
                         float *panels) {
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

/* How columns are read. */
typedef enum columns_mode { DIRECT, COPIED, TURNED, PACKED } columns_mode;

typedef struct part_state {
  const sx_gemm_plain *p;
  const sx_gemm_part *part;
  columns_mode mode;
  bool pack_rows;
  int64_t n_rows, n_tiles, first_rows; /* first_rows: of the first tile */
  float *columns, *rows;               /* packed */
} part_state;

static columns_mode choose_columns(const sx_gemm_plain *p, int64_t n_rows) {
  if (p->b_column == 1) return p->b_depth <= NEAR_FLOATS || n_rows <= FEW_TILES * TILE_ROWS ? DIRECT : COPIED;
  return p->b_depth == 1 ? TURNED : PACKED;
}

static void start_part(part_state *s, const sx_gemm_plain *p, const sx_gemm_part *part, float *panels) {
  s->p = p;
  s->part = part;
  s->n_rows = part->end_row - part->first_row;
  s->mode = choose_columns(p, s->n_rows);
  int64_t n_panels = sx_ceil_div(sx_min_i64(BLOCK_COLUMNS, part->end_column - part->first_column), WIDTH);
  s->pack_rows = p->a_depth == 1 ? meets(p->a_row) && n_panels > 1 : n_panels > 2;
  s->rows = panels;
  s->columns = panels + TILE_ROWS * DEPTH + SX_GEMM_PANEL;
  s->n_tiles = sx_ceil_div(s->n_rows, TILE_ROWS);
  s->first_rows = s->n_rows / s->n_tiles;
  if (s->mode != TURNED || s->n_rows <= TURN_ROWS) return;
  s->first_rows = TURN_ROWS;
  s->n_tiles = 1 + sx_ceil_div(s->n_rows - TURN_ROWS, TILE_ROWS);
}

/* The row at which a tile begins; tiles but the first differ by a row at most. */
static int64_t tile_begin(const part_state *s, int64_t tile) {
  if (tile <= 1) return tile ? s->first_rows : 0;
  int64_t rest = s->n_rows - s->first_rows;
  return s->first_rows + rest * (tile - 1) / (s->n_tiles - 1);
}

static void pack_tile_rows(const sx_gemm_plain *p, const float *a, int64_t rows, int64_t depth, float *out) {
  if (p->a_row != 1 || rows > SX_LANES) {
    SX_AT_LEVEL(sx_gemm_transpose)(a, p->a_row, p->a_depth, rows, depth, rows, out);
    return;
  }
  sx_lanes some = sx_lanes_first(rows);
  for (int64_t k = 0; k < depth; k++) sx_floats_store(out + k * rows, sx_lanes_load(some, a + k * p->a_depth));
}

/* A tile of rows in a block of columns and of the contracted index. */
typedef struct row_tile {
  int64_t column, k, tile; /* where: column and k begin the block */
  int64_t row, n_rows, n_columns, depth;
  const float *a, *b;
  bool packs; /* its rows */
} row_tile;

static void describe(const part_state *s, row_tile *t) {
  const sx_gemm_plain *p = s->p;
  t->row = s->part->first_row + tile_begin(s, t->tile);
  t->n_rows = tile_begin(s, t->tile + 1) - tile_begin(s, t->tile);
  t->n_columns = sx_min_i64(BLOCK_COLUMNS, s->part->end_column - t->column);
  t->depth = sx_min_i64(DEPTH, p->k - t->k);
  t->a = (const float *)s->part->a + t->row * p->a_row + t->k * p->a_depth;
  t->b = (const float *)s->part->b + t->column * p->b_column + t->k * p->b_depth;
  t->packs = s->pack_rows || (s->mode == TURNED && t->tile == 0);
}

/* The tile after `t`; false: there is none. */
static bool following(const part_state *s, const row_tile *t, row_tile *next) {
  *next = (row_tile){.column = t->column, .k = t->k, .tile = t->tile + 1};
  if (next->tile == s->n_tiles) next->tile = 0, next->k += DEPTH;
  if (next->k >= s->p->k) next->k = 0, next->column += BLOCK_COLUMNS;
  if (next->column >= s->part->end_column) return false;
  describe(s, next);
  return true;
}

/* Fetches rows of the next tile. Where they run along the contracted index the last panels do, lest they be driven out
 * again; where they lie side by side a line is shared by two tiles, and the end of the next one is what is not there
 * yet. */
static void fetch_next_rows(const part_state *s, const row_tile *next, int64_t panel, int64_t n_panels, sx_fetch *f) {
  enum { LAST_PANELS = 4 };
  const sx_gemm_plain *p = s->p;
  bool deep = p->a_depth == 1;
  int64_t first = deep ? sx_max_i64(n_panels - LAST_PANELS, 0) : 0;
  if (panel != first || next->depth < AHEAD_DEPTH) return;
  f->line = deep ? next->a : next->a + (next->n_rows - 1) * p->a_row;
  f->at = 0;
  f->width = deep ? next->n_rows : 1;
  f->step = deep ? p->a_row : 0;
  f->row = (deep ? LINE : p->a_depth) - f->width * f->step;
  f->n = f->width * (deep ? sx_ceil_div(next->depth, LINE) : next->depth);
  f->n_each = sx_ceil_div(f->n, n_panels - first);
}

/* The first tile, which reads columns where they lie, fetches those of the next panel. */
static void fetch_next_columns(const part_state *s, const row_tile *t, int64_t panel, sx_fetch *f) {
  const sx_gemm_plain *p = s->p;
  bool wide = p->b_column == 1;
  int64_t first = (panel + 1) * WIDTH, n = sx_min_i64(WIDTH, t->n_columns - first);
  f->n = f->n_each = 0;
  if (t->tile > 0 || n <= 0 || t->depth < AHEAD_DEPTH || s->mode == DIRECT || s->mode == PACKED) return;
  f->line = t->b + first * p->b_column;
  f->at = 0;
  f->width = wide ? sx_ceil_div(n, LINE) : n;
  f->step = wide ? LINE : p->b_column;
  f->row = (wide ? p->b_depth : LINE) - f->width * f->step;
  f->n = f->n_each = f->width * (wide ? t->depth : sx_ceil_div(t->depth, LINE));
}

/* A panel whose columns are not packed yet and run along the contracted index. */
static void run_turned(const part_state *s, sx_tile_call *t, int64_t rows, float *packed) {
  if (t->n_columns % SX_TURN_COLUMNS == 0) {
    SX_AT_LEVEL(sx_tile_run_turned)(t, rows);
    return;
  }
  SX_AT_LEVEL(sx_gemm_transpose)(t->b, s->p->b_column, 1, t->n_columns, t->depth, WIDTH, packed);
  sx_tile_call last = *t;
  last.b = packed;
  last.b_depth = WIDTH;
  last.copy = NULL;
  last.padded = true;
  SX_AT_LEVEL(sx_tile_run)(&last, rows);
}

static void run_row_tile(const part_state *s, const row_tile *tile, const row_tile *next, sx_fetch *fetch) {
  const sx_gemm_plain *p = s->p;
  bool lie = s->mode == DIRECT || (tile->tile == 0 && s->mode != PACKED);
  int64_t n_panels = sx_ceil_div(tile->n_columns, WIDTH), rows = tile->n_rows;
  sx_tile_call t = {.c_row = p->c_row, .c_column = p->c_column, .depth = tile->depth, .fetch = fetch};
  t.first = tile->k == 0 && !s->part->adds;
  t.a = tile->packs ? s->rows : tile->a;
  t.a_row = tile->packs ? 1 : p->a_row;
  t.a_depth = tile->packs ? rows : p->a_depth;
  t.b_depth = lie ? p->b_depth : WIDTH;
  t.b_column = p->b_column;
  t.padded = !lie;
  if (tile->packs) pack_tile_rows(p, tile->a, rows, tile->depth, s->rows);
  for (int64_t panel = 0; panel < n_panels; panel++) {
    int64_t j = panel * WIDTH;
    float *packed = s->columns + j * t.depth;
    t.n_columns = sx_min_i64(WIDTH, tile->n_columns - j);
    t.c = s->part->c + tile->row * p->c_row + (tile->column + j) * p->c_column;
    t.b = lie ? tile->b + j * p->b_column : packed;
    t.copy = lie && s->mode != DIRECT && s->n_tiles > 1 ? packed : NULL;
    if (next) fetch_next_rows(s, next, panel, n_panels, &fetch[SX_FETCH_ROWS]);
    fetch_next_columns(s, tile, panel, &fetch[SX_FETCH_COLUMNS]);
    if (lie && s->mode == TURNED)
      run_turned(s, &t, rows, packed);
    else
      SX_AT_LEVEL(sx_tile_run)(&t, rows);
  }
}

void SX_AT_LEVEL(sx_gemm_run_plain)(const sx_gemm_plain *p, const sx_gemm_part *part, float *panels) {
  if (SX_AT_LEVEL(sx_gemm_is_rows)(p)) {
    SX_AT_LEVEL(sx_gemm_run_rows)(p, part);
    return;
  }
  if (SX_AT_LEVEL(sx_gemm_is_turned)(p, part)) {
    SX_AT_LEVEL(sx_gemm_run_turned)(p, part, panels);
    return;
  }
  part_state s;
  start_part(&s, p, part, panels);
  row_tile tile = {.column = part->first_column}, next;
  sx_fetch fetch[SX_N_FETCHES] = {{0}};
  describe(&s, &tile);
  for (bool more = true; more; tile = next) {
    if (s.mode == PACKED && tile.tile == 0) pack_columns(p, tile.b, tile.n_columns, tile.depth, WIDTH, s.columns);
    more = following(&s, &tile, &next);
    run_row_tile(&s, &tile, more ? &next : NULL, fetch);
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
  return sx_is_float(side->dtype) && !sx_gemm_has_image(side) && one_stride(&side->rows, row) &&
         one_stride(&side->depth, depth);
}

bool SX_AT_LEVEL(sx_gemm_plain_of)(const sx_gemm *gemm, sx_gemm_plain *p) {
  if (gemm->block_begin) return false;
  p->m = gemm->m;
  p->n = gemm->n;
  p->k = gemm->k;
  return is_plain_side(&gemm->row_side, &p->a_row, &p->a_depth) &&
         is_plain_side(&gemm->column_side, &p->b_column, &p->b_depth) && one_stride(&gemm->c_rows, &p->c_row) &&
         one_stride(&gemm->c_columns, &p->c_column);
}

/* What is done, in multiply-adds of a register; packing and storing weigh what they were measured to. */
static int64_t cost(const sx_gemm_plain *p) {
  int64_t vectors = sx_ceil_div(p->n, SX_LANES), sums = p->m * sx_min_i64(vectors, SX_TILE_VECTORS);
  int64_t multiply = p->m * vectors * p->k;
  if (sums < LATENCY) multiply = multiply * LATENCY / sums;
  int64_t pack = p->b_column == 1 ? 0 : p->n * p->k / 4;
  int64_t store = p->c_column == 1 ? p->m * vectors * 2 : p->m * p->n * 2;
  return multiply + pack + store * sx_ceil_div(p->k, DEPTH);
}

bool SX_AT_LEVEL(sx_gemm_plain_swaps)(const sx_gemm_plain *p) {
  sx_gemm_plain other = {p->n, p->m, p->k, p->b_column, p->b_depth, p->a_row, p->a_depth, p->c_column, p->c_row};
  return cost(&other) < cost(p);
}
