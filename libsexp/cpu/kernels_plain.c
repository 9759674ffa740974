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

/* What each panel fetches of the next tile's rows. Where rows lie side by side a line is shared
 * by two tiles; the end of the next one is what is not there yet. */
static void plan_ahead(const part_state *s, sx_tile_call *t, const float *next, int64_t n_panels) {
  const sx_gemm_plain *p = s->p;
  bool deep = p->a_depth == 1;
  t->n_ahead =
      next && t->depth >= AHEAD_DEPTH ? sx_ceil_div(deep ? sx_ceil_div(t->depth, LINE) : t->depth, n_panels) : 0;
  t->ahead = !next || deep ? next : next + (TILE_ROWS - 1) * p->a_row;
  t->ahead_step = deep ? LINE : p->a_depth;
  t->n_ahead_rows = deep ? TILE_ROWS : 1;
  t->ahead_row = p->a_row;
}

static void read_packed_rows(const part_state *s, sx_tile_call *t, int64_t rows) {
  t->a = s->rows;
  t->a_row = 1;
  t->a_depth = rows;
}

static void run_row_tile(const part_state *s, sx_tile_call *t, const float *b, int64_t column, int64_t n_columns,
                         int64_t k, int64_t tile) {
  const sx_gemm_plain *p = s->p;
  int64_t begin = tile_begin(s, tile), rows = tile_begin(s, tile + 1) - begin, row = s->part->first_row + begin;
  const float *a = (const float *)s->part->a + row * p->a_row + k * p->a_depth;
  const float *next = tile + 1 < s->n_tiles ? a + rows * p->a_row : NULL;
  t->a = a;
  t->a_row = p->a_row;
  t->a_depth = p->a_depth;
  bool copied = s->pack_rows && p->a_row == 1 && n_columns > SX_LANES && !(s->mode == TURNED && tile == 0);
  t->row_copy = copied ? s->rows : NULL;
  if (!copied && (s->pack_rows || (s->mode == TURNED && tile == 0))) {
    pack_tile_rows(p, a, rows, t->depth, s->rows);
    read_packed_rows(s, t, rows);
  }
  int64_t n_panels = sx_ceil_div(n_columns, WIDTH);
  bool lie = s->mode == DIRECT || (tile == 0 && s->mode != PACKED);
  t->b_depth = lie ? p->b_depth : WIDTH;
  t->b_column = p->b_column;
  plan_ahead(s, t, next, n_panels);
  for (int64_t panel = 0; panel < n_panels; panel++, t->ahead += t->n_ahead * t->ahead_step) {
    int64_t j = panel * WIDTH;
    float *packed = s->columns + j * t->depth;
    t->n_columns = sx_min_i64(WIDTH, n_columns - j);
    t->c = s->part->c + row * p->c_row + (column + j) * p->c_column;
    t->b = lie ? b + j * p->b_column : packed;
    t->copy = lie && s->mode != DIRECT && s->n_tiles > 1 ? packed : NULL;
    t->padded = !lie;
    if (lie && s->mode == TURNED) {
      if (t->n_columns % SX_TURN_COLUMNS == 0) {
        SX_AT_LEVEL(sx_tile_run_turned)(t, rows);
        continue;
      }
      SX_AT_LEVEL(sx_gemm_transpose)(t->b, p->b_column, 1, t->n_columns, t->depth, WIDTH, packed);
      sx_tile_call last = *t;
      last.b = packed;
      last.b_depth = WIDTH;
      last.copy = NULL;
      last.padded = true;
      SX_AT_LEVEL(sx_tile_run)(&last, rows);
      continue;
    }
    SX_AT_LEVEL(sx_tile_run)(t, rows);
    if (t->row_copy) read_packed_rows(s, t, rows);
    t->row_copy = NULL;
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
  sx_tile_call t = {.c_row = p->c_row, .c_column = p->c_column};
  for (int64_t column = part->first_column; column < part->end_column; column += BLOCK_COLUMNS) {
    int64_t n_columns = sx_min_i64(BLOCK_COLUMNS, part->end_column - column);
    for (int64_t k = 0; k < p->k; k += DEPTH) {
      t.depth = sx_min_i64(DEPTH, p->k - k);
      t.first = k == 0 && !part->adds;
      const float *b = (const float *)part->b + column * p->b_column + k * p->b_depth;
      if (s.mode == PACKED) pack_columns(p, b, n_columns, t.depth, WIDTH, s.columns);
      for (int64_t tile = 0; tile < s.n_tiles; tile++) run_row_tile(&s, &t, b, column, n_columns, k, tile);
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
