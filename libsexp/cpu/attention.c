/* Attention by tiles of rows. A thread takes one batch element (a head), whole where results are summed over rows, else
 * some of its rows:
 *
 *   operands of the products that do not lie as their kernels read them best are copied, once a head
 *   for each block of 256 rows, the block of numerics 1
 *     for each tile of some rows: scores, then the group on these rows, then what is summed over columns
 *     what is summed over rows, over the block's
 *
 * Results of the group that are summed over rows are kept for a whole block; all else for a tile.
 *
 * Columns that a mask hides in all rows of a tile are left out, where the plan says how to see that they add nothing;
 * if they might, the block is computed anew with all of them. A group that is a softmax, or one and its gradient, is
 * then evaluated as that, to each row's last column that is seen (softmax.h). */
#include <string.h>

#include "attending.h"
#include "chain.h"
#include "operand.h"

enum { PANEL = SX_ATTENDING_PANEL };

/* Rows of a batch element. Scores and products go to column `limit`, a group that is no softmax to column `width`: what
 * is between are hidden columns, computed to see what hidden ones are. */
typedef struct span {
  int64_t first, n, limit, width;
} span;

/* ---- products -------------------------------------------------------------------------------------- */

static void run_product(const sx_attending_work *w, const sx_gemm_plain *plain, const float *a, const float *b,
                        float *c) {
  sx_gemm_part part = {.end_row = plain->m, .end_column = plain->n, .a = a, .b = b, .c = c};
  w->a->kernels->matrices->product(plain, &part, w->scratch + w->a->panel_place);
}

static void run_scores(const sx_attending_work *w, const sx_attending_product *p, const span *rows) {
  const sx_attention_matrix *left = &p->of->left;
  int64_t pitch = w->a->pitch, depth = p->of->depth;
  const float *from = w->at[p->left] + rows->first * left->row, *panels = w->scratch + p->operand.place;
  float *tile = w->given[p->tile];
  for (int64_t j = 0; j < rows->limit; j += PANEL) {
    int64_t n = rows->limit - j < PANEL ? rows->limit - j : PANEL;
    sx_gemm_plain plain = {.m = rows->n,
                           .n = n,
                           .k = depth,
                           .a_row = left->row,
                           .a_depth = left->column,
                           .b_column = 1,
                           .b_depth = PANEL,
                           .c_row = pitch,
                           .c_column = 1};
    run_product(w, &plain, from, panels + j * depth, tile + j);
  }
  for (int64_t i = 0; i < rows->n && rows->width > rows->limit; i++)
    memset(tile + i * pitch + rows->limit, 0, (size_t)(rows->width - rows->limit) * sizeof *tile);
}

static void run_over_columns(const sx_attending_work *w, const sx_attending_product *p, const span *rows) {
  const sx_attention_matrix *left = &p->of->left;
  sx_gemm_plain plain = {.m = rows->n,
                         .n = p->of->depth,
                         .k = rows->limit,
                         .a_row = w->a->pitch,
                         .a_depth = 1,
                         .b_column = 1,
                         .b_depth = p->operand.row,
                         .c_row = left->row,
                         .c_column = left->column};
  run_product(w, &plain, w->given[p->tile], sx_attending_right(w, p), w->at[p->left] + rows->first * left->row);
}

/* Adds the sums of a block, rows of n, to those of the blocks before. */
static void add_block(float *sums, const sx_attention_matrix *m, const float *block, int64_t rows, int64_t n) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < n; j++) {
      float *sum = sums + i * m->row + j * m->column;
      *sum = *sum + block[i * n + j];
    }
}

/* Columns first to end - 1 of the tile, over its rows from `row` to block_end - 1; the tile begins at block_row. */
static void run_over_rows(const sx_attending_work *w, const sx_attending_product *p, int64_t block_row, int64_t row,
                          int64_t block_end, int64_t first, int64_t end) {
  const sx_attending *a = w->a;
  const sx_attention_matrix *left = &p->of->left;
  float *sums = w->at[p->left] + first * left->row, *block = w->scratch + a->block_place;
  bool adds = block_row > 0;
  int64_t depth = p->of->depth;
  sx_gemm_plain plain = {.m = end - first,
                         .n = depth,
                         .k = block_end - row,
                         .a_row = 1,
                         .a_depth = a->pitch,
                         .b_column = 1,
                         .b_depth = p->operand.row,
                         .c_row = adds ? depth : left->row,
                         .c_column = adds ? 1 : left->column};
  const float *tile = w->scratch + a->tile_places[p->tile] + (row - block_row) * a->pitch + first;
  run_product(w, &plain, tile, sx_attending_right(w, p) + row * p->operand.row, adds ? block : sums);
  if (adds) add_block(sums, left, block, end - first, depth);
}

/* A block of which the columns were left out has +0 there: the first one begins their sums; a later one only changes a
 * -0, which is there if a block before was whole. */
static void add_left_out(const sx_attending_work *w, const sx_attending_product *p, int64_t block_row, int64_t first,
                         int64_t end) {
  const sx_attention_matrix *left = &p->of->left;
  float *sums = w->at[p->left];
  if (block_row > 0 && !w->whole) return;
  for (int64_t i = first; i < end; i++)
    for (int64_t j = 0; j < p->of->depth; j++) {
      float *sum = sums + i * left->row + j * left->column;
      *sum = block_row > 0 ? *sum + 0.0f : 0.0f;
    }
}

/* ---- blocks ---------------------------------------------------------------------------------------- */

/* The next tile of the block. */
static span next_span(const sx_attending *a, int64_t first, int64_t block_end, bool skips) {
  const sx_attention *of = a->of;
  int64_t left = block_end - first, n = left < a->tile_rows ? left : a->tile_rows, block = a->kernels->chains->block;
  span rows = {first, n, of->columns, of->columns};
  int64_t limit = first + n + of->skip.diagonal;
  if (!skips || limit >= of->columns) return rows;
  rows.limit = limit < 1 ? 1 : limit;
  int64_t width = (rows.limit + block) / block * block; /* one hidden column at least */
  if (a->is_softmax) width = rows.limit;
  if (width < rows.width) rows.width = width;
  return rows;
}

static bool is_zero(float x) { return x == 0; }
static bool is_minus_zero(float x) { return sx_bits_f32(x) == 0x80000000u; }

/* Whether hidden columns of the group add nothing. */
static bool group_is_exact(const sx_attending_work *w, const span *rows) {
  const sx_attending *a = w->a;
  const sx_attention_skip *skip = &a->of->skip;
  for (uint32_t i = 0; i < skip->n_zeroes; i++)
    for (int64_t row = 0; row < rows->n; row++)
      if (!is_zero(w->given[a->zeroes[i]][row * a->pitch + rows->width - 1])) return false;
  for (uint32_t i = 0; i < skip->n_sums; i++)
    for (int64_t row = 0; row < rows->n; row++)
      if (is_zero(w->given[a->n_tiles + i][row])) return false;
  return true;
}

static bool product_is_exact(const sx_attending_work *w, const sx_attending_product *p, const span *rows) {
  const sx_attention_matrix *left = &p->of->left;
  const float *result = w->at[p->left] + rows->first * left->row;
  if (left->column == 1) return !w->a->kernels->matrices->has_minus_zero(result, rows->n, left->row, p->of->depth);
  for (int64_t i = 0; i < rows->n; i++)
    for (int64_t j = 0; j < p->of->depth; j++)
      if (is_minus_zero(result[i * left->row + j * left->column])) return false;
  return true;
}

static void give_memory(sx_attending_work *w, int64_t row_in_block) {
  const sx_attending *a = w->a;
  for (uint32_t i = 0; i < a->n_tiles; i++)
    w->given[i] = w->scratch + a->tile_places[i] + (a->whole_blocks[i] ? row_in_block * a->pitch : 0);
  for (uint32_t i = 0; i < a->of->skip.n_sums; i++)
    w->given[a->n_tiles + i] = w->scratch + a->sum_place + i * a->tile_rows;
}

static bool run_softmax(const sx_attending_work *w, const span *rows) {
  const sx_attending *a = w->a;
  const uint32_t *tiles = a->softmax_tiles;
  sx_softmax_tile tile = {.scores = w->given[tiles[0]],
                          .weights = w->given[tiles[1]],
                          .pitch = a->pitch,
                          .n_rows = rows->n,
                          .n_seen = rows->first + a->of->skip.diagonal + 1,
                          .limit = rows->limit,
                          .n_columns = a->of->columns,
                          .hidden = a->softmax.hidden};
  if (a->softmax.has_gradient) {
    tile.slopes = w->given[tiles[2]];
    tile.gradients = w->given[tiles[3]];
  }
  return a->kernels->matrices->softmax(&tile);
}

static bool run_group(const sx_attending_work *w, const span *rows, bool skips) {
  const sx_attending *a = w->a;
  if (skips && a->is_softmax) return run_softmax(w, rows);
  sx_group_tile tile = {.first_row = w->batch_number * a->of->rows + rows->first,
                        .n_rows = rows->n,
                        .width = rows->width,
                        .given = w->given,
                        .pitch = a->pitch};
  sx_group_run_tile(a->group, w->data, w->scratch + a->group_place, &tile);
  return rows->limit >= a->of->columns || group_is_exact(w, rows);
}

/* What is done after the product, on rows of its result that are whole. */
static void finish(const sx_attending_work *w, const sx_attending_product *p, int64_t first, int64_t n) {
  const sx_attention_matrix *left = &p->of->left;
  const sx_matrix_kernels *matrices = w->a->kernels->matrices;
  float *result = w->at[p->left] + first * left->row;
  for (uint32_t k = 0; k < p->of->n_after; k++) {
    const sx_attention_after *after = &p->of->after[k];
    if (left->column == 1)
      matrices->apply(result, n, left->row, p->of->depth, after->adds, after->value);
    else
      for (int64_t i = 0; i < n; i++)
        matrices->apply(result + i * left->row, p->of->depth, left->column, 1, after->adds, after->value);
  }
}

/* False: what is left out may change bits. */
static bool run_tile(sx_attending_work *w, int64_t block_row, const span *rows, bool skips) {
  const sx_attending *a = w->a;
  give_memory(w, rows->first - block_row);
  sx_attending_fetch(w, rows->first, rows->n, 0);
  for (uint32_t i = 0; i < a->of->n_scores; i++) run_scores(w, &a->products[i], rows);
  sx_attending_fetch(w, rows->first, rows->n, 1);
  if (!run_group(w, rows, skips)) return false;
  sx_attending_fetch(w, rows->first, rows->n, 2);
  for (uint32_t i = a->of->n_scores; i < a->of->n_products; i++) {
    const sx_attending_product *p = &a->products[i];
    if (p->of->kind != SX_ATTENTION_OVER_COLUMNS) continue;
    run_over_columns(w, p, rows);
    if (rows->limit < a->of->columns && !product_is_exact(w, p, rows)) return false;
    finish(w, p, rows->first, rows->n);
  }
  return true;
}

/* What is summed over the rows of a block. Columns of which only the tiles from one on see anything take these; what
 * is left out comes first in a sum that begins with +0, which it does not change. */
static void sum_block(const sx_attending_work *w, const sx_attending_product *p, int64_t block_row, int64_t block_end,
                      bool skips) {
  int64_t first = 0, columns = w->a->of->columns;
  for (int64_t row = block_row; row < block_end && first < columns;) {
    span rows = next_span(w->a, row, block_end, skips);
    if (rows.limit > first) run_over_rows(w, p, block_row, row, block_end, first, rows.limit);
    if (rows.limit > first) first = rows.limit;
    row += rows.n;
  }
  add_left_out(w, p, block_row, first, columns);
}

static bool run_block(sx_attending_work *w, int64_t block_row, bool skips) {
  const sx_attending *a = w->a;
  int64_t left = a->of->rows - block_row, block_end = block_row + (left < a->block_rows ? left : a->block_rows);
  for (int64_t row = block_row; row < block_end;) {
    span rows = next_span(a, row, block_end, skips);
    if (!run_tile(w, block_row, &rows, skips)) return false;
    row += rows.n;
  }
  for (uint32_t i = a->of->n_scores; i < a->of->n_products; i++)
    if (a->products[i].of->kind == SX_ATTENTION_OVER_ROWS) sum_block(w, &a->products[i], block_row, block_end, skips);
  return true;
}

/* All blocks of the batch element are summed. */
static void finish_sums(const sx_attending_work *w) {
  for (uint32_t i = w->a->of->n_scores; i < w->a->of->n_products; i++)
    if (w->a->products[i].of->kind == SX_ATTENTION_OVER_ROWS) finish(w, &w->a->products[i], 0, w->a->of->columns);
}

/* ---- threads --------------------------------------------------------------------------------------- */

typedef struct running {
  const sx_attending *a;
  void *const *data;
  char *scratch; /* of all threads */
} running;

static int64_t blocks_of(const sx_attending *a) { return (a->of->rows + a->block_rows - 1) / a->block_rows; }

/* Items are blocks of rows of batch elements; of whole elements where sums over rows go through all. */
static void run_items(void *context, int64_t begin, int64_t end, int thread) {
  const running *run = context;
  int64_t n_blocks = blocks_of(run->a);
  sx_attending_work w = {.a = run->a, .data = run->data, .batch_number = -1};
  w.scratch = (float *)(void *)(run->scratch + thread * sx_attending_scratch(run->a));
  for (int64_t item = begin; item < end; item++) {
    if (item / n_blocks != w.batch_number) sx_attending_begin(&w, item / n_blocks, end / n_blocks);
    int64_t row = item % n_blocks * run->a->block_rows;
    if (!w.finite || !run_block(&w, row, true)) {
      run_block(&w, row, false);
      w.whole = true;
    }
    if (item % n_blocks == n_blocks - 1) finish_sums(&w);
  }
}

void sx_attending_run(const sx_attending *a, void *const *data, void *scratch, sx_pool *pool) {
  running run = {a, data, scratch};
  int64_t n_blocks = blocks_of(a);
  sx_pool_run(pool, a->of->n_batches * n_blocks, a->over_rows ? n_blocks : 1, run_items, &run);
}
