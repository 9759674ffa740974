/* Preparing attention by tiles: what is copied, which memory each tile has, how long tiles are. */
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
  p->right.place = take_floats(a, panels * SX_ATTENDING_PANEL * p->of->depth + PAST_PANELS);
  p->right.row = SX_ATTENDING_PANEL;
}

static void prepare_right(sx_attending *a, sx_attending_product *p) {
  const sx_attention_matrix *m = &p->of->right;
  int64_t dims[2] = {sx_attending_contracted(a, p->of), p->of->depth};
  sx_view view = {.strides = {m->row, m->column}};
  sx_node node = {.dtype = SX_F32, .rank = 2, .dims = dims};
  p->right = (sx_attending_operand){.buffer = a->plan->views[m->node].buffer, .offset = a->plan->views[m->node].offset};
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
  a->products = SX_NEW_N(arena, sx_attending_product, a->of->n_products);
  for (uint32_t i = 0; i < a->of->n_products; i++) {
    sx_attending_product *p = &a->products[i];
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

static void add_fetched(sx_attending *a, const sx_attention_matrix *m, int64_t n, int64_t depth) {
  const sx_view *view = &a->plan->views[m->node];
  bool known = m->column != 1;
  for (uint32_t i = 0; i < a->n_fetched; i++) known = known || a->fetched[i].of->node == m->node;
  if (!known) a->fetched[a->n_fetched++] = (sx_attending_fetched){m, view->buffer, view->offset, n, depth};
}

static void prepare_fetched(sx_attending *a, sx_arena *arena) {
  const sx_attention *of = a->of;
  a->fetched = SX_NEW_N(arena, sx_attending_fetched, 2 * (size_t)of->n_products);
  for (uint32_t i = 0; i < of->n_products; i++) {
    const sx_attention_product *p = &of->products[i];
    bool scores = p->kind == SX_ATTENTION_SCORES;
    if (scores) add_fetched(a, &p->left, of->rows, p->depth);
    add_fetched(a, &p->right, scores ? of->columns : sx_attending_contracted(a, p), p->depth);
  }
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
  prepare_fetched(a, arena);
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
