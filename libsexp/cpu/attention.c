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
#include "attention.h"

#include <math.h>
#include <string.h>

#include "../pass/plan_parts.h"
#include "chain.h"
#include "elementwise.h"
#include "gemm.h"
#include "operand.h"
#include "softmax.h"

enum {
  PANEL = SX_GEMM_WIDEST,
  PAST_PANELS = 7,
  TILE_ROWS = 28,    /* two tiles of registers at AVX-512, and rows that stay in the cache while they are worked on */
  CAUSAL_ROWS = 14,  /* one: fewer columns that only some of the rows see */
  FAR_FLOATS = 1024, /* between rows that products had better read from a copy */
  LINE_FLOATS = 16,  /* of a line of the cache */
  LANES = 32,        /* of a sum: softmax takes so many columns at once */
  SET_FLOATS = 1024  /* lines so far apart share a set of the cache */
};

static const double MOST_SCORES = 1e38; /* well below the largest f32 */

/* A right side as the kernels of products read it: of scores, panels [depth PANEL] of its columns; of others rows of
 * what is contracted. */
typedef struct operand {
  uint32_t buffer;
  int64_t offset; /* elements */
  bool copied;    /* of others than scores: or read where it lies */
  sx_walk walk;   /* of one batch element, for the copy */
  int64_t place;  /* of the copy in the scratch, floats */
  int64_t row;    /* stride of what is read, whose columns lie side by side */
} operand;

typedef struct product {
  const sx_attention_product *of;
  operand right;
  uint32_t left_buffer;
  int64_t left_offset;
  uint32_t tile; /* its place among those given to the group */
} product;

struct sx_attending {
  const sx_plan *plan;
  const sx_attention *of;
  const sx_kernel_set *kernels;
  sx_group *group;
  bool is_softmax; /* the group is, and is evaluated as that where columns are left out */
  sx_softmax softmax;
  uint32_t softmax_tiles[4]; /* of scores, weights, slopes, gradients, among the tiles */
  product *products;
  uint32_t n_tiles;
  int64_t *tile_places; /* floats, of each tile in the scratch */
  bool *whole_blocks;   /* per tile: kept for a block of rows */
  bool over_rows;       /* a product is */
  uint32_t *zeroes;     /* among the tiles: skip->zeroes */
  int64_t sum_place;    /* of skip->sums, one a row each */
  int64_t pitch, tile_rows, block_rows;
  int64_t group_place, panel_place, block_place, n_floats; /* in the scratch */
};

/* What a thread works with. */
typedef struct working {
  const sx_attending *a;
  void *const *data;
  float *scratch;
  int64_t batch_number, batch[SX_RANK_MAX];
  float *given[SX_ATTENTION_PRODUCTS + 2 * SX_GROUP_NODES];
  bool finite; /* the batch element's operands are, as far as leaving out columns needs it */
  bool whole;  /* nothing was left out of one of its blocks before */
} working;

/* Rows of a batch element. Scores and products go to column `limit`, a group that is no softmax to column `width`: what
 * is between are hidden columns, computed to see what hidden ones are. */
typedef struct span {
  int64_t first, n, limit, width;
} span;

/* ---- preparing ------------------------------------------------------------------------------------- */

/* Rows a little more than their length apart, where they would share sets of the cache. */
static int64_t pitch_of(int64_t columns) {
  int64_t pitch = (columns + LANES - 1) / LANES * LANES;
  return pitch % (SET_FLOATS / 4) ? pitch : pitch + LINE_FLOATS;
}

static int64_t take_floats(sx_attending *a, int64_t n) {
  int64_t place = a->n_floats;
  a->n_floats += (n + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
  return place;
}

static int64_t contracted(const sx_attending *a, const sx_attention_product *of) {
  return of->kind == SX_ATTENTION_OVER_ROWS ? a->of->rows : a->of->columns;
}

static void prepare_panels(sx_attending *a, product *p) {
  int64_t panels = (a->of->columns + PANEL - 1) / PANEL;
  p->right.place = take_floats(a, panels * PANEL * p->of->depth + PAST_PANELS);
  p->right.row = PANEL;
}

static void prepare_right(sx_attending *a, product *p) {
  const sx_attention_matrix *m = &p->of->right;
  int64_t dims[2] = {contracted(a, p->of), p->of->depth};
  sx_view view = {.strides = {m->row, m->column}};
  sx_node node = {.dtype = SX_F32, .rank = 2, .dims = dims};
  p->right = (operand){.buffer = a->plan->views[m->node].buffer, .offset = a->plan->views[m->node].offset};
  if (p->of->kind == SX_ATTENTION_SCORES) {
    prepare_panels(a, p);
    return;
  }
  p->right.walk = sx_walk_make(&view, &node);
  p->right.copied = m->column != 1 || m->row < dims[1] || m->row > FAR_FLOATS;
  p->right.row = p->right.copied ? dims[1] : m->row;
  if (p->right.copied) p->right.place = take_floats(a, dims[0] * dims[1]);
}

/* The place of a node among the tiles; it becomes one. */
static uint32_t tile_number(sx_attending *a, sx_id *tiles, sx_id tile) {
  uint32_t i = 0;
  while (i < a->n_tiles && tiles[i] != tile) i++;
  tiles[i] = tile;
  if (i == a->n_tiles) a->n_tiles++;
  return i;
}

static void prepare_products(sx_attending *a, sx_id *tiles, sx_arena *arena) {
  a->products = SX_NEW_N(arena, product, a->of->n_products);
  for (uint32_t i = 0; i < a->of->n_products; i++) {
    product *p = &a->products[i];
    p->of = &a->of->products[i];
    p->left_buffer = a->plan->views[p->of->left.node].buffer;
    p->left_offset = a->plan->views[p->of->left.node].offset;
    p->tile = tile_number(a, tiles, p->of->tile);
    if (p->of->kind == SX_ATTENTION_OVER_ROWS) a->over_rows = a->whole_blocks[p->tile] = true;
    prepare_right(a, p);
  }
}

static void prepare_softmax(sx_attending *a, sx_id *tiles) {
  const sx_softmax *softmax = &a->softmax;
  const sx_id nodes[4] = {softmax->scores, softmax->weights, softmax->slopes, softmax->gradients};
  for (int i = 0; i < (softmax->has_gradient ? 4 : 2); i++) a->softmax_tiles[i] = tile_number(a, tiles, nodes[i]);
}

static int64_t even_part(int64_t n, int64_t most) {
  int64_t parts = (n + most - 1) / most;
  return (n + parts - 1) / parts;
}

/* Tiles, then the sums, in the order in which they are given to the group. */
static void prepare_group(sx_attending *a, sx_id *given, sx_arena *arena) {
  const sx_attention_skip *skip = &a->of->skip;
  a->zeroes = SX_NEW_N(arena, uint32_t, skip->n_zeroes);
  for (uint32_t i = 0; i < skip->n_zeroes; i++) a->zeroes[i] = tile_number(a, given, skip->zeroes[i]);
  for (uint32_t i = 0; i < skip->n_sums; i++) given[a->n_tiles + i] = skip->sums[i];
  a->group =
      sx_group_new_tiled(a->plan, &a->of->group, given, a->n_tiles + skip->n_sums, a->tile_rows, a->kernels, arena);
  a->tile_places = SX_NEW_N(arena, int64_t, a->n_tiles);
  for (uint32_t i = 0; i < a->n_tiles; i++)
    a->tile_places[i] = take_floats(a, a->pitch * (a->whole_blocks[i] ? a->block_rows : a->tile_rows));
  a->sum_place = take_floats(a, skip->n_sums * a->tile_rows);
  a->group_place = take_floats(a, sx_group_scratch(a->group) / (int64_t)sizeof(float));
}

sx_attending *sx_attending_new(const sx_plan *plan, const sx_task *task, const sx_kernel_set *kernels,
                               sx_arena *arena) {
  sx_attending *a = SX_NEW(arena, sx_attending);
  *a = (sx_attending){.plan = plan, .of = task->attention, .kernels = kernels};
  const sx_attention *of = a->of;
  uint32_t most_given = of->n_products + of->skip.n_zeroes + of->skip.n_sums;
  sx_id *given = SX_NEW_N(arena, sx_id, most_given);
  a->whole_blocks = SX_NEW_N(arena, bool, most_given);
  a->pitch = pitch_of(of->columns);
  a->block_rows = of->rows < SX_GEMM_DEPTH ? of->rows : SX_GEMM_DEPTH;
  a->is_softmax = kernels->matrices->softmax && sx_softmax_find(plan, of, &a->softmax);
  a->tile_rows = even_part(a->block_rows, a->is_softmax ? CAUSAL_ROWS : TILE_ROWS);
  prepare_products(a, given, arena);
  if (a->is_softmax) prepare_softmax(a, given);
  prepare_group(a, given, arena);
  int64_t deepest = 0;
  for (uint32_t i = 0; i < of->n_products; i++)
    if (of->products[i].depth > deepest) deepest = of->products[i].depth;
  int64_t most = deepest > of->columns ? deepest : of->columns;
  if (a->over_rows && of->rows > a->block_rows) a->block_place = take_floats(a, of->columns * deepest);
  a->panel_place = take_floats(a, sx_gemm_scratch_bytes(most, most) / (int64_t)sizeof(float));
  return a;
}

int64_t sx_attending_scratch(const sx_attending *a) { return a->n_floats * (int64_t)sizeof(float); }

/* ---- operands -------------------------------------------------------------------------------------- */

static int64_t batch_offset(const working *w, const sx_attention_matrix *m) {
  int64_t at = 0;
  for (int i = 0; i < w->a->of->n_batch_axes; i++) at += w->batch[i] * m->batch[i];
  return at;
}

static const float *outer_right(const working *w, const product *p) {
  return (const float *)w->data[p->right.buffer] + p->right.offset + batch_offset(w, &p->of->right);
}

static const float *right_of(const working *w, const product *p) {
  return p->right.copied ? w->scratch + p->right.place : outer_right(w, p);
}

static float *left_of(const working *w, const product *p) {
  return (float *)w->data[p->left_buffer] + p->left_offset + batch_offset(w, &p->of->left);
}

/* The largest magnitude in rows, the elements of each side by side; infinite if something is no number. */
static double largest(const working *w, const float *from, int64_t rows, int64_t row, int64_t columns) {
  enum { INFINITE = 0x7f800000 };
  int32_t bits = w->a->kernels->matrices->largest(from, rows, row, columns);
  return bits < INFINITE ? (double)sx_from_bits_f32((uint32_t)bits) : (double)INFINITY;
}

/* More than the scores can be. */
static double most_scores(const working *w, const product *p) {
  const sx_attention *of = w->a->of;
  const sx_attention_matrix *left = &p->of->left, *right = &p->of->right;
  int64_t depth = p->of->depth;
  if (left->column != 1 || right->column != 1) return (double)INFINITY;
  double rows = largest(w, left_of(w, p), of->rows, left->row, depth);
  return rows * largest(w, outer_right(w, p), of->columns, right->row, depth) * (double)depth;
}

/* Whether what hidden columns would add is 0 if their factors are: see sx_attention_skip. */
static bool are_finite(const working *w) {
  const sx_attention *of = w->a->of;
  if (!of->skip.allowed) return false;
  for (uint32_t i = 0; i < of->n_products; i++) {
    const product *p = &w->a->products[i];
    if (p->of->kind != SX_ATTENTION_SCORES) {
      if (!isfinite(largest(w, right_of(w, p), contracted(w->a, p->of), p->right.row, p->of->depth))) return false;
    } else if (of->skip.bounded >> i & 1) {
      double most = of->skip.bound * (1 + most_scores(w, p));
      if (!(most < MOST_SCORES)) return false;
    }
  }
  return true;
}

static void copy_panels(const working *w, const product *p) {
  const sx_attention_matrix *m = &p->of->right;
  const float *from = outer_right(w, p);
  int64_t columns = w->a->of->columns, depth = p->of->depth;
  for (int64_t j = 0; j < columns; j += PANEL)
    w->a->kernels->matrices->transpose(from + j * m->row, m->row, m->column, columns - j < PANEL ? columns - j : PANEL,
                                       depth, PANEL, w->scratch + p->right.place + j * depth);
}

static void begin_batch(working *w, int64_t batch) {
  w->batch_number = batch;
  for (int axis = w->a->of->n_batch_axes - 1; axis >= 0; axis--) {
    w->batch[axis] = batch % w->a->of->batch[axis];
    batch /= w->a->of->batch[axis];
  }
  for (uint32_t i = 0; i < w->a->of->n_products; i++) {
    const product *p = &w->a->products[i];
    if (p->of->kind == SX_ATTENTION_SCORES)
      copy_panels(w, p);
    else if (p->right.copied)
      sx_walk_read(&p->right.walk, outer_right(w, p), 0, p->right.walk.n, w->scratch + p->right.place);
  }
  w->finite = are_finite(w);
  w->whole = false;
}

/* ---- products -------------------------------------------------------------------------------------- */

static void run_product(const working *w, const sx_gemm_plain *plain, const float *a, const float *b, float *c) {
  sx_gemm_part part = {.end_row = plain->m, .end_column = plain->n, .a = a, .b = b, .c = c};
  w->a->kernels->matrices->product(plain, &part, w->scratch + w->a->panel_place);
}

static void run_scores(const working *w, const product *p, const span *rows) {
  const sx_attention_matrix *left = &p->of->left;
  int64_t pitch = w->a->pitch, depth = p->of->depth;
  const float *from = left_of(w, p) + rows->first * left->row, *panels = w->scratch + p->right.place;
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

static void run_over_columns(const working *w, const product *p, const span *rows) {
  const sx_attention_matrix *left = &p->of->left;
  sx_gemm_plain plain = {.m = rows->n,
                         .n = p->of->depth,
                         .k = rows->limit,
                         .a_row = w->a->pitch,
                         .a_depth = 1,
                         .b_column = 1,
                         .b_depth = p->right.row,
                         .c_row = left->row,
                         .c_column = left->column};
  run_product(w, &plain, w->given[p->tile], right_of(w, p), left_of(w, p) + rows->first * left->row);
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
static void run_over_rows(const working *w, const product *p, int64_t block_row, int64_t row, int64_t block_end,
                          int64_t first, int64_t end) {
  const sx_attending *a = w->a;
  const sx_attention_matrix *left = &p->of->left;
  float *sums = left_of(w, p) + first * left->row, *block = w->scratch + a->block_place;
  bool adds = block_row > 0;
  int64_t depth = p->of->depth;
  sx_gemm_plain plain = {.m = end - first,
                         .n = depth,
                         .k = block_end - row,
                         .a_row = 1,
                         .a_depth = a->pitch,
                         .b_column = 1,
                         .b_depth = p->right.row,
                         .c_row = adds ? depth : left->row,
                         .c_column = adds ? 1 : left->column};
  const float *tile = w->scratch + a->tile_places[p->tile] + (row - block_row) * a->pitch + first;
  run_product(w, &plain, tile, right_of(w, p) + row * p->right.row, adds ? block : sums);
  if (adds) add_block(sums, left, block, end - first, depth);
}

/* A block of which the columns were left out has +0 there: the first one begins their sums; a later one only changes a
 * -0, which is there if a block before was whole. */
static void add_left_out(const working *w, const product *p, int64_t block_row, int64_t first, int64_t end) {
  const sx_attention_matrix *left = &p->of->left;
  float *sums = left_of(w, p);
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
static bool group_is_exact(const working *w, const span *rows) {
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

static bool product_is_exact(const working *w, const product *p, const span *rows) {
  const sx_attention_matrix *left = &p->of->left;
  const float *result = left_of(w, p) + rows->first * left->row;
  if (left->column == 1) return !w->a->kernels->matrices->has_minus_zero(result, rows->n, left->row, p->of->depth);
  for (int64_t i = 0; i < rows->n; i++)
    for (int64_t j = 0; j < p->of->depth; j++)
      if (is_minus_zero(result[i * left->row + j * left->column])) return false;
  return true;
}

static void give_memory(working *w, int64_t row_in_block) {
  const sx_attending *a = w->a;
  for (uint32_t i = 0; i < a->n_tiles; i++)
    w->given[i] = w->scratch + a->tile_places[i] + (a->whole_blocks[i] ? row_in_block * a->pitch : 0);
  for (uint32_t i = 0; i < a->of->skip.n_sums; i++)
    w->given[a->n_tiles + i] = w->scratch + a->sum_place + i * a->tile_rows;
}

static bool run_softmax(const working *w, const span *rows) {
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

static bool run_group(const working *w, const span *rows, bool skips) {
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

/* False: what is left out may change bits. */
static bool run_tile(working *w, int64_t block_row, const span *rows, bool skips) {
  const sx_attending *a = w->a;
  give_memory(w, rows->first - block_row);
  for (uint32_t i = 0; i < a->of->n_scores; i++) run_scores(w, &a->products[i], rows);
  if (!run_group(w, rows, skips)) return false;
  for (uint32_t i = a->of->n_scores; i < a->of->n_products; i++) {
    const product *p = &a->products[i];
    if (p->of->kind != SX_ATTENTION_OVER_COLUMNS) continue;
    run_over_columns(w, p, rows);
    if (rows->limit < a->of->columns && !product_is_exact(w, p, rows)) return false;
  }
  return true;
}

/* What is summed over the rows of a block. Columns of which only the tiles from one on see anything take these; what
 * is left out comes first in a sum that begins with +0, which it does not change. */
static void sum_block(const working *w, const product *p, int64_t block_row, int64_t block_end, bool skips) {
  int64_t first = 0, columns = w->a->of->columns;
  for (int64_t row = block_row; row < block_end && first < columns;) {
    span rows = next_span(w->a, row, block_end, skips);
    if (rows.limit > first) run_over_rows(w, p, block_row, row, block_end, first, rows.limit);
    if (rows.limit > first) first = rows.limit;
    row += rows.n;
  }
  add_left_out(w, p, block_row, first, columns);
}

static bool run_block(working *w, int64_t block_row, bool skips) {
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
  working w = {.a = run->a, .data = run->data, .batch_number = -1};
  w.scratch = (float *)(void *)(run->scratch + thread * sx_attending_scratch(run->a));
  for (int64_t item = begin; item < end; item++) {
    if (item / n_blocks != w.batch_number) begin_batch(&w, item / n_blocks);
    int64_t row = item % n_blocks * run->a->block_rows;
    if (w.finite && run_block(&w, row, true)) continue;
    run_block(&w, row, false);
    w.whole = true;
  }
}

void sx_attending_run(const sx_attending *a, void *const *data, void *scratch, sx_pool *pool) {
  running run = {a, data, scratch};
  int64_t n_blocks = blocks_of(a);
  sx_pool_run(pool, a->of->n_batches * n_blocks, a->over_rows ? n_blocks : 1, run_items, &run);
}
