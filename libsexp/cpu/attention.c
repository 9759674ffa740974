/* Attention by tiles of rows. A thread takes one batch element (a head), whole where results are summed over rows, else
 * some of its rows:
 *
 *   operands of the products that do not lie as their kernels read them best are copied, once a head
 *   for each block of 256 rows, the block of numerics 1
 *     for each tile of some rows: scores, then the group on these rows, then what is summed over columns
 *     what is summed over rows, over the block's
 *
 * Results of the group that are summed over rows are kept for a whole block; all else for a tile. */
#include "attention.h"

#include "elementwise.h"
#include "gemm.h"

enum {
  TILE_ROWS = 28,   /* two tiles of registers at AVX-512, and rows that stay in the cache while they are worked on */
  LINE_FLOATS = 16, /* of a line of the cache */
  SET_FLOATS = 1024 /* lines so far apart share a set of the cache */
};

/* An operand as the kernels of products read it. */
typedef struct operand {
  uint32_t buffer;
  int64_t offset; /* elements */
  bool copied;
  sx_walk walk;  /* of one batch element, for the copy */
  int64_t place; /* of the copy in the scratch, floats */
  int64_t row;   /* stride of what is read, whose columns lie side by side */
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
  product *products;
  uint32_t n_tiles;
  int64_t *tile_places; /* floats, of each tile in the scratch */
  bool *whole_blocks;   /* per tile: kept for a block of rows */
  bool over_rows;       /* a product is */
  int64_t pitch, tile_rows, block_rows;
  int64_t group_place, panel_place, block_place, n_floats; /* in the scratch */
};

/* What a thread works with. */
typedef struct working {
  const sx_attending *a;
  void *const *data;
  float *scratch;
  int64_t batch[SX_RANK_MAX];
  float **given;
} working;

/* ---- preparing ------------------------------------------------------------------------------------- */

/* Rows a little more than their length apart, where they would share sets of the cache. */
static int64_t pitch_of(int64_t columns) {
  int64_t pitch = (columns + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
  return pitch % (SET_FLOATS / 4) ? pitch : pitch + LINE_FLOATS;
}

static int64_t take_floats(sx_attending *a, int64_t n) {
  int64_t place = a->n_floats;
  a->n_floats += (n + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
  return place;
}

/* The right side as rows of what is contracted: [depth columns] of scores, [columns or rows, depth] of others. */
static void prepare_right(sx_attending *a, product *p) {
  const sx_attention_product *of = p->of;
  const sx_attention_matrix *m = &of->right;
  bool scores = of->kind == SX_ATTENTION_SCORES;
  int64_t contracted = of->kind == SX_ATTENTION_OVER_ROWS ? a->of->rows : a->of->columns;
  int64_t dims[2] = {scores ? of->depth : contracted, scores ? contracted : of->depth};
  sx_view view = {.strides = {scores ? m->column : m->row, scores ? m->row : m->column}};
  sx_node node = {.dtype = SX_F32, .rank = 2, .dims = dims};
  p->right = (operand){.buffer = a->plan->views[m->node].buffer, .offset = a->plan->views[m->node].offset};
  p->right.walk = sx_walk_make(&view, &node);
  p->right.copied = !sx_walk_is_contiguous(&p->right.walk);
  p->right.row = dims[1];
  if (p->right.copied) p->right.place = take_floats(a, dims[0] * dims[1]);
}

static uint32_t find_tile(const sx_id *tiles, uint32_t n, sx_id tile) {
  uint32_t i = 0;
  while (i < n && tiles[i] != tile) i++;
  return i;
}

static void prepare_products(sx_attending *a, sx_id *tiles, sx_arena *arena) {
  a->products = SX_NEW_N(arena, product, a->of->n_products);
  for (uint32_t i = 0; i < a->of->n_products; i++) {
    product *p = &a->products[i];
    p->of = &a->of->products[i];
    p->left_buffer = a->plan->views[p->of->left.node].buffer;
    p->left_offset = a->plan->views[p->of->left.node].offset;
    p->tile = find_tile(tiles, a->n_tiles, p->of->tile);
    if (p->tile == a->n_tiles) tiles[a->n_tiles++] = p->of->tile;
    if (p->of->kind == SX_ATTENTION_OVER_ROWS) a->over_rows = a->whole_blocks[p->tile] = true;
    prepare_right(a, p);
  }
}

static int64_t even_part(int64_t n, int64_t most) {
  int64_t parts = (n + most - 1) / most;
  return (n + parts - 1) / parts;
}

sx_attending *sx_attending_new(const sx_plan *plan, const sx_task *task, const sx_kernel_set *kernels,
                               sx_arena *arena) {
  sx_attending *a = SX_NEW(arena, sx_attending);
  *a = (sx_attending){.plan = plan, .of = task->attention, .kernels = kernels};
  sx_id *tiles = SX_NEW_N(arena, sx_id, a->of->n_products);
  a->whole_blocks = SX_NEW_N(arena, bool, a->of->n_products);
  a->tile_places = SX_NEW_N(arena, int64_t, a->of->n_products);
  a->pitch = pitch_of(a->of->columns);
  a->block_rows = a->of->rows < SX_GEMM_DEPTH ? a->of->rows : SX_GEMM_DEPTH;
  a->tile_rows = even_part(a->block_rows, TILE_ROWS);
  prepare_products(a, tiles, arena);
  a->group = sx_group_new_tiled(plan, &a->of->group, tiles, a->n_tiles, a->tile_rows, kernels, arena);
  for (uint32_t i = 0; i < a->n_tiles; i++)
    a->tile_places[i] = take_floats(a, a->pitch * (a->whole_blocks[i] ? a->block_rows : a->tile_rows));
  a->group_place = take_floats(a, sx_group_scratch(a->group) / 4);
  int64_t most = a->of->columns;
  for (uint32_t i = 0; i < a->of->n_products; i++)
    if (a->of->products[i].depth > most) most = a->of->products[i].depth;
  if (a->over_rows && a->of->rows > a->block_rows) a->block_place = take_floats(a, a->of->columns * most);
  a->panel_place = take_floats(a, sx_gemm_scratch_bytes(most, most) / 4);
  return a;
}

int64_t sx_attending_scratch(const sx_attending *a) { return a->n_floats * 4; }

/* ---- running --------------------------------------------------------------------------------------- */

static int64_t batch_offset(const working *w, const sx_attention_matrix *m) {
  int64_t at = 0;
  for (int i = 0; i < w->a->of->n_batch_axes; i++) at += w->batch[i] * m->batch[i];
  return at;
}

static const float *right_of(const working *w, const product *p) {
  if (p->right.copied) return w->scratch + p->right.place;
  return (const float *)w->data[p->right.buffer] + p->right.offset + batch_offset(w, &p->of->right);
}

static float *left_of(const working *w, const product *p) {
  return (float *)w->data[p->left_buffer] + p->left_offset + batch_offset(w, &p->of->left);
}

static void copy_operands(const working *w) {
  for (uint32_t i = 0; i < w->a->of->n_products; i++) {
    const product *p = &w->a->products[i];
    if (!p->right.copied) continue;
    const float *from = (const float *)w->data[p->right.buffer] + p->right.offset + batch_offset(w, &p->of->right);
    sx_walk_read(&p->right.walk, from, 0, p->right.walk.n, w->scratch + p->right.place);
  }
}

static void run_product(const working *w, const sx_gemm_plain *plain, const float *a, const float *b, float *c) {
  sx_gemm_part part = {.end_row = plain->m, .end_column = plain->n, .a = a, .b = b, .c = c};
  w->a->kernels->product(plain, &part, w->scratch + w->a->panel_place);
}

static void run_scores(const working *w, const product *p, int64_t first_row, int64_t n_rows) {
  const sx_attending *a = w->a;
  const sx_attention_matrix *left = &p->of->left;
  sx_gemm_plain plain = {.m = n_rows,
                         .n = a->of->columns,
                         .k = p->of->depth,
                         .a_row = left->row,
                         .a_depth = left->column,
                         .b_column = 1,
                         .b_depth = p->right.row,
                         .c_row = a->pitch,
                         .c_column = 1};
  run_product(w, &plain, left_of(w, p) + first_row * left->row, right_of(w, p), w->given[p->tile]);
}

static void run_over_columns(const working *w, const product *p, int64_t first_row, int64_t n_rows) {
  const sx_attending *a = w->a;
  const sx_attention_matrix *left = &p->of->left;
  sx_gemm_plain plain = {.m = n_rows,
                         .n = p->of->depth,
                         .k = a->of->columns,
                         .a_row = a->pitch,
                         .a_depth = 1,
                         .b_column = 1,
                         .b_depth = p->right.row,
                         .c_row = left->row,
                         .c_column = left->column};
  run_product(w, &plain, w->given[p->tile], right_of(w, p), left_of(w, p) + first_row * left->row);
}

/* Adds the sums of a block, rows of n, to those of the blocks before. */
static void add_block(float *sums, const sx_attention_matrix *m, const float *block, int64_t rows, int64_t n) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < n; j++) {
      float *sum = sums + i * m->row + j * m->column;
      *sum = *sum + block[i * n + j];
    }
}

/* The tile holds rows from first_row on, a block of them. */
static void run_over_rows(const working *w, const product *p, int64_t first_row, int64_t n_rows) {
  const sx_attending *a = w->a;
  const sx_attention_matrix *left = &p->of->left;
  float *sums = left_of(w, p), *block = w->scratch + a->block_place;
  int64_t columns = a->of->columns, depth = p->of->depth;
  sx_gemm_plain plain = {.m = columns,
                         .n = depth,
                         .k = n_rows,
                         .a_row = 1,
                         .a_depth = a->pitch,
                         .b_column = 1,
                         .b_depth = p->right.row,
                         .c_row = first_row ? depth : left->row,
                         .c_column = first_row ? 1 : left->column};
  run_product(w, &plain, w->scratch + a->tile_places[p->tile], right_of(w, p) + first_row * p->right.row,
              first_row ? block : sums);
  if (first_row) add_block(sums, left, block, columns, depth);
}

static void run_tile(const working *w, int64_t batch, int64_t block, int64_t first_row, int64_t n_rows) {
  const sx_attending *a = w->a;
  for (uint32_t i = 0; i < a->n_tiles; i++)
    w->given[i] = w->scratch + a->tile_places[i] + (a->whole_blocks[i] ? (first_row - block) * a->pitch : 0);
  for (uint32_t i = 0; i < a->of->n_scores; i++) run_scores(w, &a->products[i], first_row, n_rows);
  sx_group_tile tile = {.first_row = batch * a->of->rows + first_row,
                        .n_rows = n_rows,
                        .width = a->of->columns,
                        .given = w->given,
                        .pitch = a->pitch};
  sx_group_run_tile(a->group, w->data, w->scratch + a->group_place, &tile);
  for (uint32_t i = a->of->n_scores; i < a->of->n_products; i++)
    if (a->products[i].of->kind == SX_ATTENTION_OVER_COLUMNS) run_over_columns(w, &a->products[i], first_row, n_rows);
}

static void run_block(const working *w, int64_t batch, int64_t block) {
  const sx_attending *a = w->a;
  int64_t left = a->of->rows - block, end = block + (left < a->block_rows ? left : a->block_rows);
  for (int64_t row = block; row < end; row += a->tile_rows)
    run_tile(w, batch, block, row, end - row < a->tile_rows ? end - row : a->tile_rows);
  for (uint32_t i = a->of->n_scores; i < a->of->n_products; i++)
    if (a->products[i].of->kind == SX_ATTENTION_OVER_ROWS) run_over_rows(w, &a->products[i], block, end - block);
}

static void begin_batch(working *w, int64_t batch) {
  for (int axis = w->a->of->n_batch_axes - 1; axis >= 0; axis--) {
    w->batch[axis] = batch % w->a->of->batch[axis];
    batch /= w->a->of->batch[axis];
  }
  copy_operands(w);
}

static int64_t blocks_of(const sx_attending *a) { return (a->of->rows + a->block_rows - 1) / a->block_rows; }

typedef struct running {
  const sx_attending *a;
  void *const *data;
  char *scratch; /* of all threads */
} running;

/* Items are blocks of rows of batch elements; of whole elements where sums over rows go through all. */
static void run_items(void *context, int64_t begin, int64_t end, int thread) {
  const running *run = context;
  const sx_attending *a = run->a;
  int64_t n_blocks = blocks_of(a), last = -1;
  working w = {.a = a, .data = run->data};
  float *given[SX_ATTENTION_PRODUCTS];
  w.given = given;
  w.scratch = (float *)(void *)(run->scratch + thread * sx_attending_scratch(a));
  for (int64_t item = begin; item < end; item++) {
    int64_t batch = item / n_blocks;
    if (batch != last) begin_batch(&w, batch);
    last = batch;
    run_block(&w, batch, item % n_blocks * a->block_rows);
  }
}

void sx_attending_run(const sx_attending *a, void *const *data, void *scratch, sx_pool *pool) {
  running run = {a, data, scratch};
  int64_t n_blocks = blocks_of(a);
  sx_pool_run(pool, a->of->n_batches * n_blocks, a->over_rows ? n_blocks : 1, run_items, &run);
}
