/* Tiles of a product in registers, one function for each number of rows and of registers a row. */
#include "tile.h"

enum { ROWS = SX_TILE_ROWS, VECTORS = SX_TILE_VECTORS, COLUMNS = SX_TILE_COLUMNS };

/* How columns are read: registers that may be read whole; the last one in part; that, and copied. */
typedef enum tile_kind { WHOLE, TAIL, COPY, N_KINDS } tile_kind;

SX_INLINE void clear(const int rows, const int vectors, sx_floats sums[ROWS][VECTORS]) {
  SX_UNROLL for (int r = 0; r < rows; r++) SX_UNROLL for (int v = 0; v < vectors; v++) sums[r][v] = (sx_floats){0};
}

static void scatter(const sx_tile_call *t, int rows, const float *sums) {
  for (int64_t j = 0; j < t->n_columns; j++)
    for (int r = 0; r < rows; r++) {
      float *c = t->c + r * t->c_row + j * t->c_column, sum = sums[r * COLUMNS + j];
      *c = t->first ? sum : *c + sum;
    }
}

SX_INLINE void store_tile(const int rows, const int vectors, sx_floats sums[ROWS][VECTORS], const sx_tile_call *t) {
  int64_t n_last = t->n_columns - (vectors - 1) * SX_LANES;
  sx_lanes last = sx_lanes_first(n_last);
  if (t->c_column != 1) {
    float buffer[ROWS * COLUMNS];
    SX_UNROLL for (int r = 0; r < rows; r++) SX_UNROLL for (int v = 0; v < vectors; v++)
        sx_floats_store(buffer + r * COLUMNS + v * SX_LANES, sums[r][v]);
    scatter(t, rows, buffer);
    return;
  }
  SX_UNROLL for (int r = 0; r < rows; r++) SX_UNROLL for (int v = 0; v < vectors; v++) {
    float *c = t->c + r * t->c_row + v * SX_LANES;
    if (v < vectors - 1 || n_last == SX_LANES) {
      if (!t->first) sums[r][v] = sx_floats_load(c) + sums[r][v];
      sx_floats_store(c, sums[r][v]);
    } else {
      if (!t->first) sums[r][v] = sx_lanes_load(last, c) + sums[r][v];
      sx_lanes_store(last, c, sums[r][v]);
    }
  }
}

/* Fetches the tile of the result. */
SX_INLINE void fetch_result(const sx_tile_call *t, const int rows, const int vectors) {
  const float *c = t->c;
  int64_t last = (t->n_columns - 1) * t->c_column;
  for (int r = 0; r < rows; r++, c += t->c_row) {
    __builtin_prefetch(c, 1);
    if (vectors > 1) __builtin_prefetch(c + SX_LANES * t->c_column, 1);
    __builtin_prefetch(c + last, 1);
  }
}

static void fetch_ahead(const sx_tile_call *t) {
  for (int64_t r = 0; r < t->n_ahead_rows; r++) {
    const float *line = t->ahead + r * t->ahead_row;
    for (int64_t k = 0; k < t->n_ahead; k++, line += t->ahead_step) __builtin_prefetch(line, 0);
  }
}

typedef struct tile_reader {
  const float *from[ROWS];
  const float *b;
  float *copy, *row_copy;
  int64_t at, a_depth, b_depth;
  sx_lanes last, rows;
} tile_reader;

SX_INLINE void multiply_some(const int rows, const int vectors, const tile_kind kind, const bool copies_rows,
                             tile_reader *reader, sx_floats sums[ROWS][VECTORS], int64_t n) {
  enum { SOON = 12 }; /* steps of the contracted index whose columns are fetched before they are needed */
  const float *b = reader->b;
  float *copy = reader->copy, *row_copy = reader->row_copy;
  int64_t at = reader->at, a_depth = reader->a_depth, b_depth = reader->b_depth;
  for (int64_t k = 0; k < n; k++, at += a_depth, b += b_depth) {
    sx_floats columns[VECTORS];
    SX_UNROLL for (int v = 0; v < vectors; v++) columns[v] = kind == WHOLE || v < vectors - 1
                                                                 ? sx_floats_load(b + v * SX_LANES)
                                                                 : sx_lanes_load(reader->last, b + v * SX_LANES);
    if (kind == COPY) {
      __builtin_prefetch(b + SOON * b_depth, 0);
      if (vectors > 1) __builtin_prefetch(b + SOON * b_depth + SX_LANES, 0);
      SX_UNROLL for (int v = 0; v < vectors; v++) sx_floats_store(copy + v * SX_LANES, columns[v]);
      copy += COLUMNS;
    }
    if (copies_rows && row_copy) {
      __builtin_prefetch(reader->from[0] + at + SOON * a_depth, 0);
      sx_floats_store(row_copy, sx_lanes_load(reader->rows, reader->from[0] + at));
      row_copy += rows;
    }
    SX_UNROLL for (int r = 0; r < rows; r++) {
      sx_floats row = sx_floats_spread(reader->from[r][at]);
      SX_UNROLL for (int v = 0; v < vectors; v++) sx_floats_fma(&sums[r][v], row, columns[v]);
    }
  }
  reader->at = at;
  reader->b = b;
  reader->copy = copy;
  reader->row_copy = row_copy;
}

/* sums[r][v] = fma of n elements of the contracted index. Tiles of 11 rows and less leave vector registers free, into
 * which gcc then moves addresses, at the cost of multiplications: without those of the copy there are fewer. */
SX_INLINE void multiply(const int rows, const int vectors, const tile_kind kind, tile_reader *reader,
                        sx_floats sums[ROWS][VECTORS], int64_t n) {
  enum { MANY_ROWS = 12 };
  if (rows >= MANY_ROWS || reader->row_copy)
    multiply_some(rows, vectors, kind, true, reader, sums, n);
  else
    multiply_some(rows, vectors, kind, false, reader, sums, n);
}

SX_INLINE void tile(const int rows, const int vectors, const tile_kind kind, const sx_tile_call *t) {
  enum { LATE = 64 }; /* steps before the end at which the result is fetched: sooner it would be driven out again */
  sx_floats sums[ROWS][VECTORS];
  tile_reader reader = {.b = t->b, .copy = t->copy, .a_depth = t->a_depth, .b_depth = t->b_depth};
  SX_UNROLL for (int r = 0; r < rows; r++) reader.from[r] = t->a + r * t->a_row;
  reader.row_copy = t->row_copy;
  reader.rows = sx_lanes_first(sx_min_i64(rows, SX_LANES));
  reader.last = sx_lanes_first(t->n_columns - (vectors - 1) * SX_LANES);
  clear(rows, vectors, sums);
  int64_t early = sx_max_i64(t->depth - LATE, 0);
  if (t->n_ahead) fetch_ahead(t);
  multiply(rows, vectors, kind, &reader, sums, early);
  if (early) fetch_result(t, rows, vectors);
  multiply(rows, vectors, kind, &reader, sums, t->depth - early);
  store_tile(rows, vectors, sums, t);
}

/* ---- tables ---------------------------------------------------------------------------------------- */

typedef void tile_function(const sx_tile_call *t);

#define TILE(rows, vectors)                                                                      \
  static void whole_##rows##_##vectors(const sx_tile_call *t) { tile(rows, vectors, WHOLE, t); } \
  static void tail_##rows##_##vectors(const sx_tile_call *t) { tile(rows, vectors, TAIL, t); }   \
  static void copy_##rows##_##vectors(const sx_tile_call *t) { tile(rows, vectors, COPY, t); }
#define TILES(rows) TILE(rows, 1) TILE(rows, 2)
SX_EACH_TILE_ROWS(TILES)

#define KINDS(rows, vectors) \
  { whole_##rows##_##vectors, tail_##rows##_##vectors, copy_##rows##_##vectors }
#define ROW(rows) {KINDS(rows, 1), KINDS(rows, 2)},
static tile_function *const tiles[ROWS][VECTORS][N_KINDS] = {SX_EACH_TILE_ROWS(ROW)};

void SX_AT_LEVEL(sx_tile_run)(const sx_tile_call *t, int64_t rows) {
  int64_t vectors = sx_ceil_div(t->n_columns, SX_LANES);
#if defined(__AVX512VL__)
  if (vectors == 1) {
    SX_AT_LEVEL(sx_tile_run_narrow)(t, rows);
    return;
  }
#endif
  tile_kind kind = t->copy ? COPY : !t->padded && t->n_columns % SX_LANES != 0 ? TAIL : WHOLE;
  tiles[rows - 1][vectors - 1][kind](t);
}
