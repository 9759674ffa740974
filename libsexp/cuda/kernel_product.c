/* Texts of the kernels: sizes and strides are constants in them, indices are of 32 bits where everything fits. */
#include "kernel_product.h"

#include <inttypes.h>

#include "emit.h"

enum { DEPTH = 16, ENOUGH_GROUPS = 128, MOST_PARTS_BYTES = 16 << 20 };

/* ---- which kernel ------------------------------------------------------------------------------- */

/* What an element of a tile costs, in those of the widest: smaller ones read more for each product. */
typedef struct tile_row {
  sx_tile tile;
  int weight;
} tile_row;

static const tile_row TILES[] = {
    {{64, 64, 4, 4}, 4},  {{16, 16, 1, 1}, 12}, {{64, 4, 1, 1}, 20}, {{4, 64, 1, 1}, 20},
    {{256, 1, 1, 1}, 24}, {{1, 256, 1, 1}, 24}, {{1, 1, 1, 1}, 32},
};
enum { N_TILES = sizeof TILES / sizeof *TILES };

static int64_t ceil_div(int64_t n, int64_t by) { return (n + by - 1) / by; }

static bool is_single(const sx_tile *tile) { return tile->rows == 1 && tile->columns == 1; }

static int64_t groups_of(const sx_contract *c, const sx_tile *tile) {
  if (is_single(tile)) return ceil_div(c->batch.count * c->rows.count * c->columns.count, SX_CONTRACT_THREADS);
  return c->batch.count * ceil_div(c->rows.count, tile->rows) * ceil_div(c->columns.count, tile->columns);
}

static const sx_tile *choose_tile(const sx_contract *c) {
  double least = 0;
  int best = -1;
  for (int i = 0; i < N_TILES; i++) {
    const sx_tile *tile = &TILES[i].tile;
    int64_t groups = groups_of(c, tile), elements = is_single(tile) ? SX_CONTRACT_THREADS : tile->rows * tile->columns;
    double cost = (double)(groups < ENOUGH_GROUPS ? ENOUGH_GROUPS : groups) * (double)elements * TILES[i].weight;
    if (best >= 0 && cost >= least) continue;
    least = cost;
    best = i;
  }
  return &TILES[best].tile;
}

static bool walks_by_ones(const sx_contract_walk *walk) { return walk->n > 0 && walk->axes[walk->n - 1].c == 1; }

static void exchange_walk(sx_contract_walk *walk) {
  for (int i = 0; i < walk->n; i++) {
    int64_t a = walk->axes[i].a;
    walk->axes[i].a = walk->axes[i].b;
    walk->axes[i].b = a;
  }
}

/* fma(a, b, c) is fma(b, a, c): the result's transpose has the same bits. */
static sx_contract exchanged(const sx_contract *c) {
  sx_contract to = *c;
  to.rows = c->columns;
  to.columns = c->rows;
  to.a = c->b;
  to.b = c->a;
  exchange_walk(&to.batch);
  exchange_walk(&to.rows);
  exchange_walk(&to.columns);
  exchange_walk(&to.depth);
  return to;
}

sx_contract_kernel sx_contract_kernel_with(const sx_contract *contract, const sx_tile *tile, bool in_parts) {
  sx_contract_kernel kernel = {.contract = sx_contract_merged(contract), .tile = *tile, .parts = 1};
  if (walks_by_ones(&kernel.contract.rows)) {
    kernel.contract = exchanged(&kernel.contract);
    kernel.exchanged = true;
  }
  const sx_contract *c = &kernel.contract;
  kernel.n_groups = groups_of(c, tile);
  int64_t parts = ceil_div(c->depth.count, SX_CONTRACT_BLOCK);
  if (!in_parts || parts == 1) return kernel;
  int64_t elements = c->batch.count * c->rows.count * c->columns.count;
  kernel.parts = parts;
  kernel.scratch_bytes = elements * parts * 4;
  kernel.n_groups = is_single(tile) ? ceil_div(elements * parts, SX_CONTRACT_THREADS) : kernel.n_groups * parts;
  return kernel;
}

const sx_tile *sx_contract_tile(size_t i) { return i < N_TILES ? &TILES[i].tile : NULL; }

sx_contract_kernel sx_contract_kernel_of(const sx_contract *contract) {
  sx_contract_kernel whole = sx_contract_kernel_with(contract, &TILES[0].tile, false);
  const sx_contract *c = &whole.contract;
  const sx_tile *tile = choose_tile(c);
  int64_t parts = ceil_div(c->depth.count, SX_CONTRACT_BLOCK);
  int64_t elements = c->batch.count * c->rows.count * c->columns.count;
  bool in_parts = groups_of(c, tile) < ENOUGH_GROUPS && elements <= MOST_PARTS_BYTES / 4 / parts;
  return sx_contract_kernel_with(contract, tile, in_parts);
}

/* ---- index functions ---------------------------------------------------------------------------- */

typedef enum side { SIDE_A, SIDE_B, SIDE_C } side;

static int64_t stride_of(const sx_contract_axis *axis, side of) {
  return of == SIDE_A ? axis->a : of == SIDE_B ? axis->b : axis->c;
}

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

/* A bound of all offsets that a walk adds, and of its indices. */
static int64_t bound_of(const sx_contract_walk *walk, side of) {
  int64_t bound = walk->count;
  for (int i = 0; i < walk->n; i++) bound += (walk->axes[i].dim - 1) * magnitude(stride_of(&walk->axes[i], of));
  return bound;
}

static int64_t image_bound(const sx_contract_image *image) {
  return image->height * magnitude(image->row) + image->width * magnitude(image->column);
}

static bool fits_32_bits(const sx_contract_kernel *kernel) {
  const sx_contract *c = &kernel->contract;
  const int64_t most = INT64_C(1) << 30;
  int64_t elements = c->batch.count * c->rows.count * c->columns.count;
  if (elements > most / kernel->parts || kernel->n_groups > most / SX_CONTRACT_THREADS) return false;
  for (side of = SIDE_A; of <= SIDE_C; of++) {
    int64_t bound = bound_of(&c->batch, of) + bound_of(&c->rows, of) + bound_of(&c->columns, of) +
                    bound_of(&c->depth, of) + image_bound(&c->a) + image_bound(&c->b);
    if (bound > most) return false;
  }
  return true;
}

/* Adds to `at` (and y, x) what index `i` of the walk adds; i is used up. */
static void add_walk(sx_text *text, const sx_contract_walk *walk, side of, bool image) {
  for (int i = walk->n - 1; i >= 0; i--) {
    const sx_contract_axis *axis = &walk->axes[i];
    int64_t stride = stride_of(axis, of);
    sx_text_addf(text, "    q = i");
    if (i > 0) sx_text_addf(text, " %% %" PRId64, axis->dim);
    sx_text_addf(text, ", at += q * (%" PRId64 ")", stride);
    if (image && axis->y) sx_text_addf(text, ", p.y += q * (%" PRId64 ")", axis->y);
    if (image && axis->x) sx_text_addf(text, ", p.x += q * (%" PRId64 ")", axis->x);
    if (i > 0) sx_text_addf(text, ", i /= %" PRId64, axis->dim);
    sx_text_add(text, ";\n");
  }
}

/* NAME_outer(batch, row or column) and NAME_depth(k) give where in A or B they lead, NAME_read the element of both. */
static void add_side(sx_text *text, const sx_contract *c, side of) {
  const char *name = of == SIDE_A ? "a" : "b";
  const sx_contract_image *image = of == SIDE_A ? &c->a : &c->b;
  sx_text_addf(text, "  auto %s_outer = [](index batch, index outer) -> place {\n", name);
  sx_text_addf(text, "    place p = {0, %" PRId64 ", %" PRId64 "};\n    index at = 0, q, i = batch;\n", image->y,
               image->x);
  add_walk(text, &c->batch, of, image->is);
  sx_text_add(text, "    i = outer;\n");
  add_walk(text, of == SIDE_A ? &c->rows : &c->columns, of, image->is);
  sx_text_add(text, "    (void)i, (void)q;\n    p.at = at;\n    return p;\n  };\n");
  sx_text_addf(text, "  auto %s_depth = [](index i) -> place {\n    place p = {0, 0, 0};\n    index at = 0, q;\n",
               name);
  add_walk(text, &c->depth, of, image->is);
  sx_text_add(text, "    (void)i, (void)q;\n    p.at = at;\n    return p;\n  };\n");
  sx_text_addf(text, "  auto %s_read = [=](place p, place k) -> float {\n", name);
  if (!image->is) {
    sx_text_addf(text, "    return sx_get(%s[p.at + k.at]);\n  };\n", name);
    return;
  }
  sx_text_addf(text,
               "    index y = p.y + k.y, x = p.x + k.x;\n"
               "    if (y < 0 || x < 0 || y %% %" PRId64 " || x %% %" PRId64 ") return 0.0f;\n",
               image->divide, image->divide);
  sx_text_addf(text,
               "    y /= %" PRId64 ", x /= %" PRId64
               ";\n"
               "    if (y >= %" PRId64 " || x >= %" PRId64
               ") return 0.0f;\n"
               "    return sx_get(%s[p.at + k.at + y * (%" PRId64 ") + x * (%" PRId64 ")]);\n  };\n",
               image->divide, image->divide, image->height, image->width, name, image->row, image->column);
}

static void add_result(sx_text *text, const sx_contract *c) {
  sx_text_add(text,
              "  auto c_at = [](index batch, index row, index column) -> index {\n    index at = 0, q, i = batch;\n");
  add_walk(text, &c->batch, SIDE_C, false);
  sx_text_add(text, "    i = row;\n");
  add_walk(text, &c->rows, SIDE_C, false);
  sx_text_add(text, "    i = column;\n");
  add_walk(text, &c->columns, SIDE_C, false);
  sx_text_add(text, "    (void)i, (void)q;\n    return at;\n  };\n");
}

/* ---- the product -------------------------------------------------------------------------------- */

static void add_constant(sx_text *text, const char *name, int64_t value) {
  sx_text_addf(text, "  constexpr index %s = %" PRId64 ";\n", name, value);
}

/* Where a partial result or a result goes. */
static void add_store(sx_text *text, const sx_contract_kernel *kernel) {
  sx_text_add(text, "  auto store = [=](index batch, index part, index row, index column, float value) {\n");
  if (kernel->parts > 1)
    sx_text_add(text, "    c[((part * BATCHES + batch) * ROWS + row) * COLUMNS + column] = value;\n  };\n");
  else
    sx_text_addf(text, "    (void)part;\n    c[c_at(batch, row, column)] = sx_made<%s>(value);\n  };\n",
                 sx_emit_type(kernel->contract.to));
}

static void add_beginning(sx_text *text, const sx_contract_kernel *kernel) {
  const sx_contract *c = &kernel->contract;
  const char *from = sx_emit_type(c->from), *to = kernel->parts > 1 ? "float" : sx_emit_type(c->to);
  sx_text_addf(text,
               "extern \"C\" __global__ void __launch_bounds__(%d)\nKERNEL(const %s *__restrict__ a, const %s "
               "*__restrict__ b, %s *__restrict__ c) {\n",
               SX_CONTRACT_THREADS, from, from, to);
  sx_text_addf(text, "  typedef %s index;\n  struct place { index at, y, x; };\n",
               fits_32_bits(kernel) ? "int" : "long long");
  add_constant(text, "BATCHES", c->batch.count);
  add_constant(text, "ROWS", c->rows.count);
  add_constant(text, "COLUMNS", c->columns.count);
  add_constant(text, "DEPTH", c->depth.count);
  add_constant(text, "PARTS", kernel->parts);
  add_constant(text, "BLOCKS", ceil_div(c->depth.count, SX_CONTRACT_BLOCK));
  add_side(text, c, SIDE_A);
  add_side(text, c, SIDE_B);
  if (kernel->parts == 1) add_result(text, c);
  add_store(text, kernel);
}

/* One thread an element, or a part of one. */
static const char SINGLE[] =
    "  index at = (index)blockIdx.x * 256 + threadIdx.x;\n"
    "  if (at >= PARTS * BATCHES * ROWS * COLUMNS) return;\n"
    "  const index column = at % COLUMNS, row = at / COLUMNS % ROWS;\n"
    "  at /= ROWS * COLUMNS;\n"
    "  const index batch = at % BATCHES, part = at / BATCHES;\n"
    "  const index first = PARTS > 1 ? part : 0, last = PARTS > 1 ? part + 1 : BLOCKS;\n"
    "  const place from_a = a_outer(batch, row), from_b = b_outer(batch, column);\n"
    "  float total = 0.0f;\n"
    "  for (index block = first; block < last; block++) {\n"
    "    const index end = block * 256 + 256 < DEPTH ? block * 256 + 256 : DEPTH;\n"
    "    float sum = 0.0f;\n"
    "    for (index k = block * 256; k < end; k++) sum = __fmaf_rn(a_read(from_a, a_depth(k)), b_read(from_b, "
    "b_depth(k)), sum);\n"
    "    total = block == first ? sum : __fadd_rn(total, sum);\n"
    "  }\n"
    "  store(batch, part, row, column, total);\n"
    "}\n";

/* A tile: elements of a thread lie a tile's part apart, so that neighbouring threads write neighbours. */
static const char TILED[] =
    "  constexpr index ROW_TILES = (ROWS + TM - 1) / TM, COLUMN_TILES = (COLUMNS + TN - 1) / TN;\n"
    "  constexpr int LOADS_A = (TM * TK + 255) / 256, LOADS_B = (TN * TK + 255) / 256;\n"
    "  constexpr int ACROSS = TN / RN, DOWN = TM / RM;\n"
    "  __shared__ float as[TK][TM + 1], bs[TK][TN + 1];\n"
    "  const int t = threadIdx.x, across = t % ACROSS, down = t / ACROSS;\n"
    "  index tile = blockIdx.x;\n"
    "  const index column0 = tile % COLUMN_TILES * TN;\n"
    "  tile /= COLUMN_TILES;\n"
    "  const index row0 = tile % ROW_TILES * TM;\n"
    "  tile /= ROW_TILES;\n"
    "  const index batch = tile % BATCHES, part = tile / BATCHES;\n"
    "  const index first = PARTS > 1 ? part : 0, last = PARTS > 1 ? part + 1 : BLOCKS;\n"
    "  place from_a[LOADS_A], from_b[LOADS_B];\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < LOADS_A; i++) {\n"
    "    const int e = t + 256 * i;\n"
    "    const index row = row0 + (A_DEEP ? e / TK : e % TM);\n"
    "    from_a[i] = a_outer(batch, row < ROWS ? row : 0);\n"
    "  }\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < LOADS_B; i++) {\n"
    "    const int e = t + 256 * i;\n"
    "    const index column = column0 + (B_DEEP ? e / TK : e % TN);\n"
    "    from_b[i] = b_outer(batch, column < COLUMNS ? column : 0);\n"
    "  }\n"
    "  float totals[RM][RN];\n"
    "  for (index block = first; block < last; block++) {\n"
    "    const index end = block * 256 + 256 < DEPTH ? block * 256 + 256 : DEPTH;\n"
    "    float sums[RM][RN];\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < RM; i++)\n"
    "#pragma unroll\n"
    "      for (int j = 0; j < RN; j++) sums[i][j] = 0.0f;\n"
    "    for (index k0 = block * 256; k0 < end; k0 += TK) {\n"
    "      __syncthreads();\n"
    "#pragma unroll\n"
    "      for (int i = 0; i < LOADS_A; i++) {\n"
    "        const int e = t + 256 * i, d = A_DEEP ? e % TK : e / TM;\n"
    "        if (e < TM * TK && k0 + d < end) as[d][A_DEEP ? e / TK : e % TM] = a_read(from_a[i], a_depth(k0 + d));\n"
    "      }\n"
    "#pragma unroll\n"
    "      for (int i = 0; i < LOADS_B; i++) {\n"
    "        const int e = t + 256 * i, d = B_DEEP ? e % TK : e / TN;\n"
    "        if (e < TN * TK && k0 + d < end) bs[d][B_DEEP ? e / TK : e % TN] = b_read(from_b[i], b_depth(k0 + d));\n"
    "      }\n"
    "      __syncthreads();\n"
    "      auto step = [&](int d) {\n"
    "#pragma unroll\n"
    "        for (int i = 0; i < RM; i++)\n"
    "#pragma unroll\n"
    "          for (int j = 0; j < RN; j++)\n"
    "            sums[i][j] = __fmaf_rn(as[d][down + i * DOWN], bs[d][across + j * ACROSS], sums[i][j]);\n"
    "      };\n"
    "      if (end - k0 >= TK) {\n"
    "#pragma unroll\n"
    "        for (int d = 0; d < TK; d++) step(d);\n"
    "      } else {\n"
    "#pragma unroll 1\n"
    "        for (int d = 0; d < end - k0; d++) step(d);\n"
    "      }\n"
    "    }\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < RM; i++)\n"
    "#pragma unroll\n"
    "      for (int j = 0; j < RN; j++) totals[i][j] = block == first ? sums[i][j] : __fadd_rn(totals[i][j], "
    "sums[i][j]);\n"
    "  }\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < RM; i++)\n"
    "#pragma unroll\n"
    "    for (int j = 0; j < RN; j++) {\n"
    "      const index row = row0 + down + i * DOWN, column = column0 + across + j * ACROSS;\n"
    "      if (row < ROWS && column < COLUMNS) store(batch, part, row, column, totals[i][j]);\n"
    "    }\n"
    "}\n";

/* Whether neighbours in memory are neighbours along the contracted index. */
static bool is_deep(const sx_contract *c, side of) {
  const sx_contract_walk *depth = &c->depth;
  if (depth->n == 0) return false;
  const sx_contract_axis *inner = &depth->axes[depth->n - 1];
  return stride_of(inner, of) == 1 && inner->dim >= DEPTH / 2;
}

const char *sx_contract_kernel_text(const sx_contract_kernel *kernel, sx_arena *arena) {
  sx_text text;
  sx_text_init(&text, arena);
  add_beginning(&text, kernel);
  if (is_single(&kernel->tile)) {
    sx_text_add(&text, SINGLE);
    return sx_text_get(&text);
  }
  sx_text_addf(&text, "  constexpr int TM = %d, TN = %d, RM = %d, RN = %d, TK = %d;\n", kernel->tile.rows,
               kernel->tile.columns, kernel->tile.thread_rows, kernel->tile.thread_columns, DEPTH);
  sx_text_addf(&text, "  constexpr bool A_DEEP = %d, B_DEEP = %d;\n", is_deep(&kernel->contract, SIDE_A),
               is_deep(&kernel->contract, SIDE_B));
  sx_text_add(&text, TILED);
  return sx_text_get(&text);
}

/* ---- sums of partial results, copies ------------------------------------------------------------ */

const char *sx_contract_sum_text(const sx_contract *contract, int64_t parts, sx_arena *arena) {
  sx_text text;
  sx_text_init(&text, arena);
  sx_contract_kernel kernel = {.contract = *contract, .parts = parts};
  sx_text_addf(&text,
               "extern \"C\" __global__ void __launch_bounds__(256)\nKERNEL(const float *__restrict__ from, %s "
               "*__restrict__ to) {\n",
               sx_emit_type(contract->to));
  sx_text_addf(&text, "  typedef %s index;\n", fits_32_bits(&kernel) ? "int" : "long long");
  add_constant(&text, "BATCHES", contract->batch.count);
  add_constant(&text, "ROWS", contract->rows.count);
  add_constant(&text, "COLUMNS", contract->columns.count);
  add_constant(&text, "PARTS", parts);
  add_result(&text, contract);
  sx_text_addf(&text,
               "  constexpr index N = BATCHES * ROWS * COLUMNS;\n"
               "  const index at = (index)blockIdx.x * 256 + threadIdx.x;\n"
               "  if (at >= N) return;\n"
               "  float total = from[at];\n"
               "  for (index part = 1; part < PARTS; part++) total = __fadd_rn(total, from[part * N + at]);\n"
               "  to[c_at(at / (ROWS * COLUMNS), at / COLUMNS %% ROWS, at %% COLUMNS)] = sx_made<%s>(total);\n}\n",
               sx_emit_type(contract->to));
  return sx_text_get(&text);
}

const char *sx_contract_copy_text(const sx_strided *tensor, sx_arena *arena) {
  sx_contract_walk walk = {.count = 1};
  for (int axis = 0; axis < tensor->rank; axis++) {
    walk.axes[walk.n++] = (sx_contract_axis){.dim = tensor->dims[axis], .a = tensor->strides[axis]};
    walk.count *= tensor->dims[axis];
  }
  const char *type = sx_emit_type(tensor->dtype);
  bool fits = bound_of(&walk, SIDE_A) <= INT64_C(1) << 30;
  sx_text text;
  sx_text_init(&text, arena);
  sx_text_addf(&text,
               "extern \"C\" __global__ void __launch_bounds__(256)\nKERNEL(const %s *__restrict__ from, %s "
               "*__restrict__ to) {\n",
               type, type);
  sx_text_addf(&text, "  typedef %s index;\n", fits ? "int" : "long long");
  add_constant(&text, "N", walk.count);
  sx_text_add(&text,
              "  const index to_at = (index)blockIdx.x * 256 + threadIdx.x;\n"
              "  if (to_at >= N) return;\n"
              "  index at = 0, q, i = to_at;\n");
  add_walk(&text, &walk, SIDE_A, false);
  sx_text_add(&text, "  (void)i, (void)q;\n  to[to_at] = from[at];\n}\n");
  return sx_text_get(&text);
}
