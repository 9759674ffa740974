/* The product: panels of both sides are packed, a tile of the result is kept in registers while it runs
 * through one block of the contracted index, and is then stored (first block) or added (the others).
 *
 * Blocks as in Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008. Threads
 * take rectangles of the result; every element's order is the same in any of them. */
#include "fma.h"
#include "gemm.h"

#if defined(__AVX512F__)
enum { BLOCK_ROWS = 168, BLOCK_COLUMNS = 512, ROW_PANEL_STAYS = 1 };
#elif defined(__AVX2__)
enum { BLOCK_ROWS = 144, BLOCK_COLUMNS = 2048, ROW_PANEL_STAYS = 0 };
#else
enum { BLOCK_ROWS = 96, BLOCK_COLUMNS = 1024, ROW_PANEL_STAYS = 0 };
#endif
enum {
  TILE_ROWS = SX_TILE_ROWS,
  TILE_VECTORS = 2,
  TILE_COLUMNS = TILE_VECTORS * SX_LANES,
  DEPTH = SX_GEMM_DEPTH,
  LATE = 64,
  POINT_COLUMNS = 256 /* above, packed rows are used often enough to be worth it */
};

_Static_assert(sizeof(sx_gemm_runs) <= TILE_ROWS * DEPTH * sizeof(float), "a list of runs replaces a panel of rows");

/* ---- the tile --------------------------------------------------------------- */

typedef struct tile_store {
  float *c;
  const int64_t *rows, *columns; /* offsets of the tile's rows and columns in c */
  int n_rows, n_columns;
  bool contiguous; /* the columns lie side by side and fill whole registers */
  bool first;      /* of the blocks: store, else add */
} tile_store;

SX_INLINE void store_tile(const int rows, const int vectors, sx_floats sums[TILE_ROWS][TILE_VECTORS],
                          const tile_store *to) {
  if (to->contiguous) {
    SX_UNROLL for (int r = 0; r < rows; r++) SX_UNROLL for (int v = 0; v < vectors; v++) {
      float *c = to->c + to->rows[r] + to->columns[0] + v * SX_LANES;
      if (!to->first) sums[r][v] = sx_floats_load(c) + sums[r][v];
      sx_floats_store(c, sums[r][v]);
    }
    return;
  }
  float buffer[TILE_ROWS][TILE_COLUMNS];
  SX_UNROLL for (int r = 0; r < rows; r++) SX_UNROLL for (int v = 0; v < vectors; v++)
      sx_floats_store(&buffer[r][v * SX_LANES], sums[r][v]);
  for (int r = 0; r < rows; r++)
    for (int j = 0; j < to->n_columns; j++) {
      float *c = to->c + to->rows[r] + to->columns[j];
      *c = to->first ? buffer[r][j] : *c + buffer[r][j];
    }
}

/* Where the tile's rows come from: packed a[k][TILE_ROWS], or runs. */
typedef struct tile_rows {
  const float *packed;
  const sx_gemm_runs *runs;
} tile_rows;

SX_INLINE void multiply(const int rows, const int vectors, sx_floats sums[TILE_ROWS][TILE_VECTORS], const float *a,
                        const float *const *from, int64_t at, const float *b) {
  sx_floats columns[TILE_VECTORS];
  SX_UNROLL for (int v = 0; v < vectors; v++) columns[v] = sx_floats_load(b + v * SX_LANES);
  SX_UNROLL for (int r = 0; r < rows; r++) {
    sx_floats row = sx_floats_spread(from ? from[r][at] : a[r]);
    SX_UNROLL for (int v = 0; v < vectors; v++) sx_floats_fma(&sums[r][v], row, columns[v]);
  }
}

/* The tile of the result comes near while the last elements are multiplied; sooner it would be driven out. */
SX_INLINE void fetch_result(const int rows, const int vectors, const tile_store *to) {
  for (int r = 0; r < rows; r++) {
    const float *c = to->c + to->rows[r];
    __builtin_prefetch(c + to->columns[0], 1);
    if (vectors > 1) __builtin_prefetch(c + to->columns[0] + SX_LANES, 1);
    __builtin_prefetch(c + to->columns[to->n_columns - 1], 1);
  }
}

/* sums[r][v] = fma over the block, of rows and of columns b[k][TILE_COLUMNS]. */
SX_INLINE void tile(const int rows, const int vectors, int64_t depth, tile_rows a, const float *b,
                    const tile_store *to) {
  sx_floats sums[TILE_ROWS][TILE_VECTORS];
  SX_UNROLL for (int r = 0; r < rows; r++) SX_UNROLL for (int v = 0; v < vectors; v++) sums[r][v] = (sx_floats){0};
  if (a.packed) {
    int64_t early = sx_max_i64(depth - LATE, 0), k = 0;
    for (; k < early; k++, b += TILE_COLUMNS) multiply(rows, vectors, sums, a.packed + k * TILE_ROWS, NULL, 0, b);
    fetch_result(rows, vectors, to);
    for (; k < depth; k++, b += TILE_COLUMNS) multiply(rows, vectors, sums, a.packed + k * TILE_ROWS, NULL, 0, b);
  } else {
    for (int run = 0; run < a.runs->n; run++) {
      if (run == a.runs->n - 1) fetch_result(rows, vectors, to);
      for (int64_t k = 0; k < a.runs->length[run]; k++, b += TILE_COLUMNS)
        multiply(rows, vectors, sums, NULL, a.runs->from[run], k, b);
    }
  }
  store_tile(rows, vectors, sums, to);
}

typedef void tile_function(int64_t depth, tile_rows a, const float *b, const tile_store *to);

#define TILE(rows, vectors)                                                                               \
  static void tile_##rows##_##vectors(int64_t depth, tile_rows a, const float *b, const tile_store *to) { \
    tile(rows, vectors, depth, a, b, to);                                                                 \
  }
#define TILES(rows) TILE(rows, 1) TILE(rows, 2)
SX_EACH_TILE_ROWS(TILES)
#define ROW(rows) {tile_##rows##_1, tile_##rows##_2},
static tile_function *const tiles[TILE_ROWS][TILE_VECTORS] = {SX_EACH_TILE_ROWS(ROW)};
#undef ROW

/* ---- blocks ------------------------------------------------------------------ */

typedef struct rectangle {
  int64_t first_row, end_row, first_column, end_column;
} rectangle;

/* One thread's state: its panels, and where its block's rows and columns lie in c. */
typedef struct worker {
  const sx_gemm *gemm;
  int64_t batch_row, batch_column, batch_c; /* offsets of the batch */
  float *row_panels, *column_panels;
  sx_gemm_runs *runs; /* in place of row panels where rows are read where they lie; else NULL */
  int64_t rows[BLOCK_ROWS], columns[BLOCK_COLUMNS + TILE_COLUMNS];
} worker;

static void panel_offsets(const sx_gemm_walk *walk, int64_t base, int64_t first, int64_t count, int64_t *offsets) {
  sx_gemm_place places[SX_GEMM_PANEL];
  for (int64_t k = 0; k < count; k += SX_GEMM_PANEL) {
    int64_t n = sx_min_i64(SX_GEMM_PANEL, count - k);
    SX_AT_LEVEL(sx_gemm_places)(walk, first + k, n, places);
    for (int64_t j = 0; j < n; j++) offsets[k + j] = base + places[j].offset;
  }
}

static bool lie_side_by_side(const int64_t *offsets, int n) {
  for (int j = 1; j < n; j++)
    if (offsets[j] != offsets[0] + j) return false;
  return true;
}

static void run_tile(const worker *work, int64_t row, int64_t n_rows, int64_t column, int64_t n_columns, int64_t depth,
                     bool first) {
  int rows = (int)sx_min_i64(TILE_ROWS, n_rows - row), columns = (int)sx_min_i64(TILE_COLUMNS, n_columns - column);
  int vectors = (columns + SX_LANES - 1) / SX_LANES;
  tile_store to = {
      .c = work->gemm->c,
      .rows = work->rows + row,
      .columns = work->columns + column,
      .n_rows = rows,
      .n_columns = columns,
      .contiguous = columns % SX_LANES == 0 && lie_side_by_side(work->columns + column, columns),
      .first = first,
  };
  tile_rows a = {.packed = work->row_panels + row * depth};
  if (work->runs) a = (tile_rows){NULL, work->runs + row / TILE_ROWS};
  tiles[rows - 1][vectors - 1](depth, a, work->column_panels + column * depth, &to);
}

static void run_tiles(const worker *work, int64_t n_rows, int64_t n_columns, int64_t depth, bool first) {
  if (ROW_PANEL_STAYS) {
    for (int64_t row = 0; row < n_rows; row += TILE_ROWS)
      for (int64_t column = 0; column < n_columns; column += TILE_COLUMNS)
        run_tile(work, row, n_rows, column, n_columns, depth, first);
  } else {
    for (int64_t column = 0; column < n_columns; column += TILE_COLUMNS)
      for (int64_t row = 0; row < n_rows; row += TILE_ROWS)
        run_tile(work, row, n_rows, column, n_columns, depth, first);
  }
}

static int64_t block_begin(const sx_gemm *gemm, int64_t j) {
  return gemm->block_begin ? gemm->block_begin(gemm->context, j) : sx_min_i64(j * DEPTH, gemm->k);
}

static void run_rectangle(worker *work, rectangle part) {
  const sx_gemm *gemm = work->gemm;
  for (int64_t column = part.first_column; column < part.end_column; column += BLOCK_COLUMNS) {
    int64_t n_columns = sx_min_i64(BLOCK_COLUMNS, part.end_column - column);
    panel_offsets(&gemm->c_columns, 0, column, n_columns, work->columns);
    bool first = true;
    for (int64_t j = 0; j < gemm->n_blocks; j++) {
      int64_t begin = block_begin(gemm, j), depth = block_begin(gemm, j + 1) - begin;
      if (depth == 0) continue;
      SX_AT_LEVEL(sx_gemm_pack)
      (&gemm->column_side, work->batch_column, column, n_columns, begin, depth, TILE_COLUMNS, work->column_panels);
      for (int64_t row = part.first_row; row < part.end_row; row += BLOCK_ROWS) {
        int64_t n_rows = sx_min_i64(BLOCK_ROWS, part.end_row - row);
        panel_offsets(&gemm->c_rows, work->batch_c, row, n_rows, work->rows);
        if (work->runs) SX_AT_LEVEL(sx_gemm_point)
        (&gemm->row_side, work->batch_row, row, n_rows, begin, depth, TILE_ROWS, work->runs);
        else SX_AT_LEVEL(sx_gemm_pack)(&gemm->row_side, work->batch_row, row, n_rows, begin, depth, TILE_ROWS,
                                       work->row_panels);
        run_tiles(work, n_rows, n_columns, depth, first);
      }
      first = false;
    }
  }
}

/* ---- threads ------------------------------------------------------------------ */

typedef struct job {
  const sx_gemm *gemm;
  int64_t row_cuts, column_cuts; /* every batch is cut into so many rectangles */
  char *scratch;
  int64_t scratch_bytes;      /* of each thread */
  bool point;                 /* rows are read where they lie */
  const sx_gemm_plain *plain; /* NULL: both sides are packed */
} job;

static int64_t cut(int64_t n, int64_t tile, int64_t cuts, int64_t index) {
  int64_t n_tiles = sx_ceil_div(n, tile);
  return sx_min_i64(n, n_tiles * index / cuts * tile);
}

static const void *batch_begin(const sx_gemm_side *side, int64_t batch) {
  return (const char *)side->data + (side->base + batch) * sx_element_bytes(side->dtype);
}

static void run_plain(worker *work, const sx_gemm_plain *plain, rectangle part) {
  const sx_gemm *gemm = work->gemm;
  sx_gemm_part whole = {
      .first_row = part.first_row,
      .end_row = part.end_row,
      .first_column = part.first_column,
      .end_column = part.end_column,
      .a = batch_begin(&gemm->row_side, work->batch_row),
      .b = batch_begin(&gemm->column_side, work->batch_column),
      .c = gemm->c + work->batch_c,
  };
  sx_dtype a = gemm->row_side.dtype, b = gemm->column_side.dtype;
  if (a == SX_F32 && b == SX_F32)
    SX_AT_LEVEL(sx_gemm_run_plain)(plain, &whole, work->row_panels);
  else
    SX_AT_LEVEL(sx_gemm_run_short)(plain, a, b, &whole, work->row_panels);
}

static int64_t batch_offset(const sx_gemm_walk *walk, int64_t batch) {
  if (batch == 0) return 0;
  sx_gemm_place place;
  SX_AT_LEVEL(sx_gemm_places)(walk, batch, 1, &place);
  return place.offset;
}

static void run_units(void *context, int64_t begin, int64_t end, int thread) {
  const job *work = context;
  const sx_gemm *gemm = work->gemm;
  worker mine; /* its offsets are set where they are used */
  mine.gemm = gemm;
  mine.row_panels = (float *)(void *)(work->scratch + thread * work->scratch_bytes);
  mine.runs = work->point ? (sx_gemm_runs *)(void *)mine.row_panels : NULL;
  mine.column_panels = mine.row_panels + (sx_min_i64(gemm->m, BLOCK_ROWS) + SX_GEMM_PANEL) * DEPTH;
  for (int64_t unit = begin; unit < end; unit++) {
    int64_t batch = unit / (work->row_cuts * work->column_cuts), cell = unit % (work->row_cuts * work->column_cuts);
    int64_t row_cut = cell / work->column_cuts, column_cut = cell % work->column_cuts;
    mine.batch_row = batch_offset(&gemm->batch_rows, batch);
    mine.batch_column = batch_offset(&gemm->batch_columns, batch);
    mine.batch_c = batch_offset(&gemm->batch_c, batch);
    rectangle part = {cut(gemm->m, TILE_ROWS, work->row_cuts, row_cut),
                      cut(gemm->m, TILE_ROWS, work->row_cuts, row_cut + 1),
                      cut(gemm->n, TILE_COLUMNS, work->column_cuts, column_cut),
                      cut(gemm->n, TILE_COLUMNS, work->column_cuts, column_cut + 1)};
    if (work->plain)
      run_plain(&mine, work->plain, part);
    else
      run_rectangle(&mine, part);
  }
}

/* Threads take whole products where those come out about even or each is small. */
static bool batches_suffice(const sx_gemm *gemm, int n_threads) {
  bool small = (double)gemm->m * (double)gemm->n * (double)gemm->k < SX_GEMM_SMALL;
  bool even = gemm->n_batches % n_threads == 0 || gemm->n_batches >= 4 * n_threads;
  return gemm->n_batches >= n_threads && (small || even);
}

/* Cuts each batch so that all threads have work and pack as little as possible. */
static void choose_cuts(job *work, int n_threads) {
  const sx_gemm *gemm = work->gemm;
  work->row_cuts = work->column_cuts = 1;
  if (batches_suffice(gemm, n_threads)) return;
  int64_t row_tiles = sx_ceil_div(gemm->m, TILE_ROWS), column_tiles = sx_ceil_div(gemm->n, TILE_COLUMNS);
  int64_t best = INT64_MAX;
  for (int64_t rows = 1; rows <= n_threads; rows++) {
    int64_t columns = n_threads / rows;
    if (rows > row_tiles || columns > column_tiles) continue;
    int64_t tiles_each = sx_ceil_div(row_tiles, rows) * sx_ceil_div(column_tiles, columns);
    int64_t packed_each = gemm->m / rows + gemm->n / columns;
    int64_t cost = tiles_each * TILE_ROWS * TILE_COLUMNS + packed_each * 8;
    if (cost >= best) continue;
    best = cost;
    work->row_cuts = rows;
    work->column_cuts = columns;
  }
}

void SX_AT_LEVEL(sx_gemm_run)(const sx_gemm *gemm, sx_pool *pool, void *scratch) {
  job work = {.gemm = gemm, .scratch = scratch, .scratch_bytes = sx_gemm_scratch_bytes(gemm->m, gemm->n)};
  int n_threads = sx_pool_threads(pool);
  sx_gemm_plain plain;
  if (SX_AT_LEVEL(sx_gemm_plain_of)(gemm, &plain)) work.plain = &plain;
  work.point = !work.plain && gemm->n <= POINT_COLUMNS &&
               SX_AT_LEVEL(sx_gemm_can_point)(&gemm->row_side, gemm->m, sx_min_i64(gemm->k, DEPTH), TILE_ROWS);
  choose_cuts(&work, n_threads);
  int64_t n_units = gemm->n_batches * work.row_cuts * work.column_cuts;
  double n_products = (double)gemm->n_batches * (double)gemm->m * (double)gemm->n * (double)gemm->k;
  bool small = n_products < SX_GEMM_SMALL;
  if (n_threads == 1 || n_units == 1 || small)
    run_units(&work, 0, n_units, 0);
  else
    sx_pool_run(pool, n_units, 1, run_units, &work);
}
