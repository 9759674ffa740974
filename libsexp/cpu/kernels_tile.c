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

/* Where the elements of a step of the contracted index lie: rows `row` bytes apart from `a` on. */
typedef struct tile_reader {
  const char *a, *far;                    /* far: of row FAR */
  int64_t row, row3, row5, row7, a_depth; /* bytes */
  const float *b;
  float *copy;
  int64_t b_depth;
  sx_lanes last;
} tile_reader;

enum { FAR = 9 }; /* rows that are reached from one address by sums of a few strides */

/* Sums of strides are kept from being computed once, before the loop: they would fill all registers, and vector
 * registers too. As they are, addresses of 14 rows are 6 registers. */
SX_INLINE void keep_strides(tile_reader *reader) {
#if defined(__AVX512F__)
  __asm__("" : "+r"(reader->row), "+r"(reader->row3), "+r"(reader->row5), "+r"(reader->row7));
#else
  (void)reader;
#endif
}

SX_INLINE float element(const tile_reader *reader, const int r) {
  const char *base = r < FAR ? reader->a : reader->far;
  const int j = r < FAR ? r : r - FAR;
  int64_t at = j == 0   ? 0
               : j == 3 ? reader->row3
               : j == 5 ? reader->row5
               : j == 6 ? 2 * reader->row3
               : j == 7 ? reader->row7
                        : j * reader->row;
  float x;
  memcpy(&x, base + at, sizeof x);
  return x;
}

/* sums[r][v] = fma of n elements of the contracted index. */
SX_INLINE void multiply(const int rows, const int vectors, const tile_kind kind, tile_reader *from,
                        sx_floats sums[ROWS][VECTORS], int64_t n) {
  enum { SOON = 12 }; /* steps of the contracted index whose columns are fetched before they are needed */
  tile_reader reader = *from;
  for (; n > 0; n--) {
    keep_strides(&reader);
    sx_floats columns[VECTORS];
    SX_UNROLL for (int v = 0; v < vectors; v++) columns[v] = kind == WHOLE || v < vectors - 1
                                                                 ? sx_floats_load(reader.b + v * SX_LANES)
                                                                 : sx_lanes_load(reader.last, reader.b + v * SX_LANES);
    if (kind == COPY) {
      __builtin_prefetch(reader.b + SOON * reader.b_depth, 0);
      if (vectors > 1) __builtin_prefetch(reader.b + SOON * reader.b_depth + SX_LANES, 0);
      SX_UNROLL for (int v = 0; v < vectors; v++) sx_floats_store(reader.copy + v * SX_LANES, columns[v]);
      reader.copy += COLUMNS;
    }
    SX_UNROLL for (int r = 0; r < rows; r++) {
      sx_floats row = sx_floats_spread(element(&reader, r));
      SX_UNROLL for (int v = 0; v < vectors; v++) sx_floats_fma(&sums[r][v], row, columns[v]);
    }
    reader.a += reader.a_depth;
    reader.far += reader.a_depth;
    reader.b += reader.b_depth;
  }
  *from = reader;
}

SX_INLINE void tile(const int rows, const int vectors, const tile_kind kind, const sx_tile_call *t) {
  /* LATE: chunks before the end at which the result is fetched; sooner it would be driven out again. */
  enum { CHUNK = 32, LATE = 2 };
  sx_floats sums[ROWS][VECTORS];
  tile_reader reader = {.a = (const char *)t->a, .row = 4 * t->a_row, .a_depth = 4 * t->a_depth, .b = t->b};
  reader.row3 = 3 * reader.row;
  reader.row5 = 5 * reader.row;
  reader.row7 = 7 * reader.row;
  reader.far = reader.a + FAR * reader.row;
  reader.b_depth = t->b_depth;
  reader.copy = t->copy;
  reader.last = sx_lanes_first(t->n_columns - (vectors - 1) * SX_LANES);
  clear(rows, vectors, sums);
  int64_t n_chunks = sx_ceil_div(t->depth, CHUNK), n_rows = 0, n_columns = 0;
  if (t->fetch) n_rows = sx_ceil_div(t->fetch[SX_FETCH_ROWS].n_each, n_chunks);
  if (t->fetch) n_columns = sx_ceil_div(t->fetch[SX_FETCH_COLUMNS].n_each, n_chunks);
  for (int64_t chunk = n_chunks; chunk > 0; chunk--) {
    if (chunk == LATE) fetch_result(t, rows, vectors);
    if (n_rows) sx_fetch_some(&t->fetch[SX_FETCH_ROWS], 1, n_rows);
    if (n_columns) sx_fetch_some(&t->fetch[SX_FETCH_COLUMNS], 2, n_columns);
    multiply(rows, vectors, kind, &reader, sums, chunk > 1 ? CHUNK : t->depth - (n_chunks - 1) * CHUNK);
  }
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
