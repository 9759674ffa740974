/* Preparing attention by tiles: what is copied, which memory each tile has, how long tiles are. */
#include <string.h>

#include "attending.h"
#include "chain.h"

enum {
  PAST_PANELS = 7,
  TILE_ROWS = 28,    /* two tiles of registers at AVX-512, and rows that stay in the cache while they are worked on */
  CAUSAL_ROWS = 14,  /* one: fewer columns that only some of the rows see */
  FAR_FLOATS = 1024, /* between rows that products had better read from a copy */
  LINE_FLOATS = 16,  /* of a line of the cache */
  LANES = 32,        /* of a sum: softmax takes so many columns at once */
  SET_FLOATS = 1024  /* lines so far apart share a set of the cache */
};

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

static void prepare_panels(sx_attending *a, sx_attending_product *p) {
  int64_t panels = (a->of->columns + SX_ATTENDING_PANEL - 1) / SX_ATTENDING_PANEL;
  p->operand.place = take_floats(a, panels * SX_ATTENDING_PANEL * p->of->depth + PAST_PANELS);
  p->operand.row = SX_ATTENDING_PANEL;
  a->matrices[p->right].copy = p->operand.place;
  a->matrices[p->right].n_copied = panels * SX_ATTENDING_PANEL * p->of->depth;
}

static void prepare_right(sx_attending *a, sx_attending_product *p) {
  const sx_attention_matrix *m = &p->of->right;
  int64_t dims[2] = {sx_attending_contracted(a, p->of), p->of->depth};
  sx_view view = {.strides = {m->row, m->column}};
  sx_node node = {.dtype = SX_F32, .rank = 2, .dims = dims};
  if (p->of->kind == SX_ATTENTION_SCORES) {
    prepare_panels(a, p);
    return;
  }
  p->operand.walk = sx_walk_make(&view, &node);
  p->operand.copied = m->column != 1 || m->row < dims[1] || m->row > FAR_FLOATS;
  p->operand.row = p->operand.copied ? dims[1] : m->row;
  if (!p->operand.copied) return;
  p->operand.place = take_floats(a, dims[0] * dims[1]);
  a->matrices[p->right].copy = p->operand.place;
  a->matrices[p->right].n_copied = dims[0] * dims[1];
}

static bool are_same(const sx_attention_matrix *a, const sx_attention_matrix *b) {
  return a->node == b->node && a->row == b->row && a->column == b->column &&
         memcmp(a->batch, b->batch, sizeof a->batch) == 0;
}

/* The number of a matrix; it becomes one. */
static uint32_t matrix_number(sx_attending *a, const sx_attention_matrix *m, int64_t n, int64_t depth, bool written) {
  const sx_view *view = &a->plan->views[m->node];
  uint32_t i = 0;
  while (i < a->n_matrices && !are_same(a->matrices[i].of, m)) i++;
  if (i < a->n_matrices) return i;
  a->matrices[a->n_matrices++] = (sx_attending_matrix){
      .of = m, .buffer = view->buffer, .offset = view->offset, .n = n, .depth = depth, .written = written};
  return i;
}

static void add_matrices(sx_attending *a, sx_attending_product *p) {
  const sx_attention_product *of = p->of;
  bool scores = of->kind == SX_ATTENTION_SCORES;
  int64_t right = scores ? a->of->columns : sx_attending_contracted(a, of);
  int64_t left = of->kind == SX_ATTENTION_OVER_ROWS ? a->of->columns : a->of->rows;
  p->left = matrix_number(a, &of->left, left, of->depth, !scores);
  p->right = matrix_number(a, &of->right, right, of->depth, false);
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
  a->products = SX_NEW_N(arena, sx_attending_product, a->of->n_products);
  a->matrices = SX_NEW_N(arena, sx_attending_matrix, 2 * (size_t)a->of->n_products);
  for (uint32_t i = 0; i < a->of->n_products; i++) {
    sx_attending_product *p = &a->products[i];
    p->of = &a->of->products[i];
    add_matrices(a, p);
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
