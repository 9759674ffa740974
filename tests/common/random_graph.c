#include "random_graph.h"

#include <string.h>

#include "../../libsexp/ir/build.h"

enum { MOST_ELEMENTS = 6000, INPUTS = 7, MOST_OUTPUTS = 24 };

uint64_t random_next(random_source *random) {
  uint64_t x = random->state += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

int64_t random_below(random_source *random, int64_t n) { return (int64_t)(random_next(random) % (uint64_t)n); }

static float random_float(random_source *random) {
  static const float special[] = {0.0f, -0.0f, 1.0f, -1.0f, 0.5f, 2.0f, 1e-40f, -1e-42f, 3e38f, 1e-20f};
  int64_t kind = random_below(random, 40);
  if (kind < 10) return special[kind];
  if (kind == 10) return __builtin_inff();
  if (kind == 11) return __builtin_nanf("");
  return (float)(random_below(random, 2000001) - 1000000) / 250000.0f;
}

void random_fill(random_source *random, sx_dtype dtype, int64_t n, void *data) {
  for (int64_t i = 0; i < n; i++) {
    float real = random_float(random);
    uint32_t bits;
    memcpy(&bits, &real, 4);
    switch (dtype) {
      case SX_F32:
        ((float *)data)[i] = real;
        break;
      case SX_BF16:
        ((uint16_t *)data)[i] = (uint16_t)(bits >> 16);
        break;
      case SX_F16:
        ((uint16_t *)data)[i] = (uint16_t)(bits >> 15 & 0xbbff);
        break;
      case SX_I32:
        ((int32_t *)data)[i] = (int32_t)random_below(random, 14) - 4;
        break;
      case SX_U8:
        ((uint8_t *)data)[i] = (uint8_t)random_below(random, 256);
        break;
      default:
        ((uint8_t *)data)[i] = (uint8_t)random_below(random, 2);
        break;
    }
  }
}

typedef struct growth {
  sx_graph *graph;
  random_source random;
} growth;

static int64_t below(growth *g, int64_t n) { return random_below(&g->random, n); }
static const sx_node *at(growth *g, sx_id id) { return sx_node_at(g->graph, id); }

/* Any node, one of the latest more often. */
static sx_id any_node(growth *g) {
  int64_t n = (int64_t)g->graph->nodes.n;
  return (sx_id)(n - 1 - (below(g, 4) && n > 12 ? below(g, 12) : below(g, n)));
}

static sx_id node_of(growth *g, sx_dtype dtype) {
  for (int i = 0; i < 40; i++) {
    sx_id id = any_node(g);
    if (at(g, id)->dtype == dtype) return id;
  }
  sx_id id = 0;
  while (at(g, id)->dtype != dtype) id++;
  return id;
}

static sx_id try_add(growth *g, const sx_spec *spec) {
  sx_id id = SX_NO_NODE;
  sx_problem why;
  size_t before = g->graph->nodes.n;
  if (!sx_graph_try(g->graph, spec, &id, &why)) return SX_NO_NODE;
  if (sx_node_elements(at(g, id)) <= MOST_ELEMENTS) return id;
  g->graph->nodes.n = before;
  return SX_NO_NODE;
}

static sx_id with_ints(growth *g, sx_op op, sx_id a, const int64_t *ints, uint32_t n_ints) {
  return try_add(g, &(sx_spec){.op = op, .inputs = &a, .n_inputs = 1, .ints = ints, .n_ints = n_ints});
}

static void random_shape(growth *g, int64_t *dims, int *rank) {
  static const int64_t sizes[] = {1, 2, 3, 4, 5, 8, 11, 17, 33, 70, 300, 1030, 2100};
  *rank = (int)below(g, 5);
  int64_t n = 1;
  for (int i = 0; i < *rank; i++) {
    int64_t size = sizes[below(g, n > 100 ? 4 : 13)];
    if (below(g, 200) == 0) size = 0;
    dims[i] = n * size > MOST_ELEMENTS / 2 ? 1 : size;
    n *= dims[i] ? dims[i] : 1;
  }
}

static sx_id any_input(growth *g, sx_dtype dtype) {
  static const sx_op ops[] = {SX_OP_INPUT, SX_OP_PARAM, SX_OP_STATE};
  int64_t dims[SX_RANK_MAX];
  int rank;
  random_shape(g, dims, &rank);
  const char *name = sx_format(g->graph->arena, "value/%zu", g->graph->nodes.n);
  sx_spec spec = {.op = ops[below(g, 3)], .dtype = dtype, .rank = rank, .dims = dims};
  spec.text = sx_intern_text(g->graph->names, name);
  return try_add(g, &spec);
}

/* An i32 node with values 0 to n - 1, made of another. */
static sx_id ids_below(growth *g, sx_id a, int64_t n) {
  if (n < 1) return SX_NO_NODE;
  return sx_binary(g->graph, SX_OP_MOD, a, sx_const_like(g->graph, a, (double)n));
}

static void add_element(growth *g) {
  static const sx_dtype dtypes[] = {SX_F32, SX_F32, SX_F32, SX_F32, SX_BF16, SX_F16, SX_I32, SX_BOOL};
  sx_op op = SX_OP_ADD + (sx_op)below(g, SX_OP_CAST - SX_OP_ADD);
  sx_dtype dtype = op == SX_OP_AND || op == SX_OP_OR || op == SX_OP_NOT ? SX_BOOL : dtypes[below(g, 8)];
  sx_id inputs[3], id;
  sx_problem why;
  uint32_t n = (uint32_t)sx_op_describe(op)->n_inputs;
  for (uint32_t i = 0; i < n; i++) inputs[i] = node_of(g, op == SX_OP_WHERE && i == 0 ? SX_BOOL : dtype);
  /* One shape most of the time, so that groups grow. */
  for (uint32_t i = 1; i < n; i++) {
    for (int k = 0; k < 30 && below(g, 8); k++) {
      sx_id other = node_of(g, at(g, inputs[i])->dtype);
      if (!sx_shape_equal(at(g, other), at(g, inputs[0]))) continue;
      inputs[i] = other;
      break;
    }
  }
  size_t before = g->graph->nodes.n;
  if (sx_try_element(g->graph, op, inputs, n, &id, &why) && sx_node_elements(at(g, id)) > MOST_ELEMENTS)
    g->graph->nodes.n = before;
}

/* A value worked on in another shape and brought back. */
static sx_id flat_and_back(growth *g, sx_id a) {
  int64_t n = sx_node_elements(at(g, a));
  sx_id flat = sx_unary(g->graph, SX_OP_ABS, sx_reshape(g->graph, a, 1, &n));
  return sx_reshape(g->graph, flat, at(g, a)->rank, at(g, a)->dims);
}

/* Some element nodes on each other and on what has their shape, for groups of several nodes. */
static void add_chain(growth *g) {
  static const sx_op ops[] = {SX_OP_ADD, SX_OP_MUL,  SX_OP_SUB, SX_OP_MAX,  SX_OP_EXP,
                              SX_OP_NEG, SX_OP_SQRT, SX_OP_LT,  SX_OP_WHERE};
  sx_id values[16], n = 0, masks[16], n_masks = 0;
  values[n++] = node_of(g, SX_F32);
  for (int i = 0; i < 20 && n < 5; i++) {
    sx_id other = node_of(g, SX_F32);
    if (sx_shape_equal(at(g, other), at(g, values[0]))) values[n++] = other;
  }
  for (int64_t left = 2 + below(g, 9); left > 0; left--) {
    sx_op op = ops[below(g, 9)];
    if (op == SX_OP_WHERE && !n_masks) continue;
    if (below(g, 6) == 0) values[n - 1] = flat_and_back(g, values[n - 1]);
    sx_id inputs[3], id, k = op == SX_OP_WHERE;
    if (k) inputs[0] = masks[below(g, n_masks)];
    for (; k < (sx_id)sx_op_describe(op)->n_inputs; k++) inputs[k] = values[below(g, 2) ? n - 1 : below(g, n)];
    id = try_add(g, &(sx_spec){.op = op, .inputs = inputs, .n_inputs = k});
    if (id == SX_NO_NODE) return;
    if (op == SX_OP_LT)
      masks[n_masks++] = id;
    else
      values[n++] = id;
  }
}

/* A reduction of rows, what is computed of its results, and both brought together again, some times over. */
static void add_rows(growth *g) {
  static const int64_t sizes[] = {48, 63, 64, 100, 128, 129, 300, 4096, 4100, 9000};
  static const sx_op reductions[] = {SX_OP_SUM, SX_OP_SUM, SX_OP_REDUCEMAX, SX_OP_REDUCEMIN};
  static const sx_op both[] = {SX_OP_SUB, SX_OP_MUL, SX_OP_DIV, SX_OP_MAX, SX_OP_LT};
  static const sx_op one[] = {SX_OP_SQRT, SX_OP_ABS, SX_OP_EXP, SX_OP_NEG};
  int64_t dims[2] = {8 + below(g, 5), sizes[below(g, 10)]}, column[2] = {dims[0], 1}, axis = 1, size = dims[1];
  sx_id x = SX_NO_NODE, bias;
  for (int i = 0; i < 10 && x == SX_NO_NODE; i++) { /* of what there is, or from outside */
    sx_id other = node_of(g, SX_F32);
    if (at(g, other)->rank == 2 && at(g, other)->dims[0] >= 8 && at(g, other)->dims[1] >= 48) x = other;
  }
  if (x == SX_NO_NODE || below(g, 3) == 0) {
    const char *name = sx_format(g->graph->arena, "value/%zu", g->graph->nodes.n);
    x = sx_graph_add(g->graph, &(sx_spec){.op = SX_OP_INPUT,
                                          .dtype = SX_F32,
                                          .rank = 2,
                                          .dims = dims,
                                          .text = sx_intern_text(g->graph->names, name)});
    name = sx_format(g->graph->arena, "value/%zu", g->graph->nodes.n);
    bias = sx_graph_add(g->graph, &(sx_spec){.op = SX_OP_PARAM,
                                             .dtype = SX_F32,
                                             .rank = 1,
                                             .dims = &size,
                                             .text = sx_intern_text(g->graph->names, name)});
    bias = sx_graph_add(g->graph,
                        &(sx_spec){.op = SX_OP_BROADCAST, .rank = 2, .dims = dims, .inputs = &bias, .n_inputs = 1});
    if (below(g, 2)) x = sx_binary(g->graph, SX_OP_ADD, x, bias);
  }
  if (below(g, 4)) { /* without what makes all of a row NaN */
    sx_id limit = sx_const_like(g->graph, x, 100);
    x = sx_where(g->graph, sx_binary(g->graph, SX_OP_LT, sx_unary(g->graph, SX_OP_ABS, x), limit), x, limit);
  }
  for (int i = 0; i < 2; i++) dims[i] = at(g, x)->dims[i];
  column[0] = dims[0];
  for (int64_t left = 1 + below(g, 4); left > 0; left--) {
    sx_id r = with_ints(g, reductions[below(g, 4)], x, &axis, 1);
    if (r == SX_NO_NODE) return;
    if (below(g, 2)) r = sx_unary(g->graph, one[below(g, 4)], r);
    r = sx_reshape(g->graph, r, 2, column);
    if (below(g, 2)) r = sx_unary(g->graph, one[below(g, 4)], r);
    sx_id wide =
        sx_graph_add(g->graph, &(sx_spec){.op = SX_OP_BROADCAST, .rank = 2, .dims = dims, .inputs = &r, .n_inputs = 1});
    sx_op op = both[below(g, 5)];
    sx_id y = below(g, 2) ? sx_binary(g->graph, op, x, wide) : sx_binary(g->graph, op, wide, x);
    if (op == SX_OP_LT) y = sx_where(g->graph, y, below(g, 2) ? x : wide, below(g, 2) ? wide : x);
    if (below(g, 3) == 0) y = sx_cast(g->graph, sx_cast(g->graph, y, below(g, 2) ? SX_BF16 : SX_F16), SX_F32);
    x = below(g, 3) ? y : sx_unary(g->graph, one[below(g, 4)], x);
  }
}

static void add_cast(growth *g) {
  static const sx_dtype dtypes[] = {SX_F32, SX_F32, SX_BF16, SX_F16, SX_I32, SX_U8, SX_BOOL};
  sx_id a = any_node(g);
  try_add(g, &(sx_spec){.op = SX_OP_CAST, .dtype = dtypes[below(g, 7)], .inputs = &a, .n_inputs = 1});
}

static void add_reshape(growth *g) {
  sx_id a = any_node(g);
  int64_t dims[SX_RANK_MAX], n = sx_node_elements(at(g, a));
  int rank = 0;
  for (int i = 0; i < 20 && n > 1 && rank < 5; i++) {
    int64_t f = 2 + below(g, 12);
    if (n % f) continue;
    dims[rank++] = f;
    n /= f;
    if (below(g, 3) == 0) break;
  }
  if (n != 1 || below(g, 4) == 0) dims[rank++] = n;
  try_add(g, &(sx_spec){.op = SX_OP_RESHAPE, .rank = rank, .dims = dims, .inputs = &a, .n_inputs = 1});
}

static void add_transpose(growth *g) {
  sx_id a = any_node(g);
  int64_t perm[SX_RANK_MAX];
  int rank = at(g, a)->rank;
  for (int i = 0; i < rank; i++) perm[i] = i;
  for (int i = rank - 1; i > 0; i--) {
    int64_t k = below(g, i + 1), swap = perm[i];
    perm[i] = perm[k];
    perm[k] = swap;
  }
  with_ints(g, SX_OP_TRANSPOSE, a, perm, (uint32_t)rank);
}

static void add_broadcast(growth *g) {
  sx_id a = any_node(g);
  const sx_node *node = at(g, a);
  int64_t dims[SX_RANK_MAX];
  int added = node->rank < 5 ? (int)below(g, 3) : 0;
  for (int i = 0; i < added; i++) dims[i] = 1 + below(g, 6);
  for (int i = 0; i < node->rank; i++) dims[added + i] = node->dims[i] == 1 ? 1 + below(g, 40) : node->dims[i];
  try_add(g, &(sx_spec){.op = SX_OP_BROADCAST, .rank = added + node->rank, .dims = dims, .inputs = &a, .n_inputs = 1});
}

static void add_slice(growth *g) {
  sx_id a = any_node(g);
  const sx_node *node = at(g, a);
  int64_t ints[3 * SX_RANK_MAX];
  for (int i = 0; i < node->rank; i++) {
    ints[3 * i] = below(g, 2) ? 0 : below(g, node->dims[i] + 1);
    ints[3 * i + 1] = below(g, 2) ? node->dims[i] : ints[3 * i] + below(g, node->dims[i] - ints[3 * i] + 1);
    ints[3 * i + 2] = 1 + (below(g, 3) ? 0 : below(g, 4));
  }
  with_ints(g, SX_OP_SLICE, a, ints, 3 * (uint32_t)node->rank);
}

static void add_pad(growth *g) {
  sx_id a = any_node(g);
  const sx_node *node = at(g, a);
  int64_t ints[3 * SX_RANK_MAX];
  for (int i = 0; i < 3 * node->rank; i++) ints[i] = below(g, 2) ? 0 : below(g, 3);
  sx_spec spec = {.op = SX_OP_PAD, .inputs = &a, .n_inputs = 1, .ints = ints, .n_ints = 3 * (uint32_t)node->rank};
  spec.real = (double)below(g, 2);
  try_add(g, &spec);
}

static void add_concat(growth *g) {
  sx_id a = any_node(g);
  if (!at(g, a)->rank) return;
  int64_t axis = below(g, at(g, a)->rank);
  sx_id inputs[3] = {a, a, node_of(g, at(g, a)->dtype)};
  uint32_t n = 1 + (uint32_t)below(g, 3);
  try_add(g, &(sx_spec){.op = SX_OP_CONCAT, .inputs = inputs, .n_inputs = n, .ints = &axis, .n_ints = 1});
}

static void add_window(growth *g) {
  sx_id a = any_node(g);
  if (!at(g, a)->rank) return;
  int64_t axis = below(g, at(g, a)->rank), length = at(g, a)->dims[axis];
  int64_t ints[4] = {axis, 1 + below(g, 4), 1 + below(g, 3), length};
  sx_id windows = with_ints(g, SX_OP_UNFOLD, a, ints, 3);
  if (windows != SX_NO_NODE && below(g, 2)) with_ints(g, SX_OP_FOLD, windows, ints, 4);
}

static void add_along(growth *g, sx_op op, sx_id a) {
  if (!at(g, a)->rank) return;
  int64_t axis = below(g, at(g, a)->rank);
  with_ints(g, op, a, &axis, 1);
}

static void add_reduction(growth *g) {
  static const sx_op ops[] = {SX_OP_SUM, SX_OP_SUM, SX_OP_REDUCEMAX, SX_OP_REDUCEMIN, SX_OP_ANY, SX_OP_ALL};
  sx_op op = ops[below(g, 6)];
  sx_id a = node_of(g, op == SX_OP_ANY || op == SX_OP_ALL ? SX_BOOL : below(g, 4) ? SX_F32 : SX_I32);
  int64_t axes[SX_RANK_MAX];
  uint32_t n = 0;
  for (int i = 0; i < at(g, a)->rank; i++)
    if (below(g, 2)) axes[n++] = i;
  with_ints(g, op, a, axes, n);
}

static void add_product(growth *g) {
  static const char *const equations[] = {"ij,kj->ik", "ij,ij->i", "ij,ij->ij", "ij,kj->", "ij,kl->il", "ij,jk->ki"};
  sx_dtype dtype = below(g, 4) ? SX_F32 : SX_BF16;
  sx_id inputs[2] = {node_of(g, dtype), node_of(g, dtype)};
  if (below(g, 3)) inputs[1] = inputs[0];
  size_t before = g->graph->nodes.n;
  sx_id id;
  sx_problem why;
  bool made = below(g, 2) ? sx_try_einsum(g->graph, equations[below(g, 6)], inputs, 2, SX_F32, &id, &why)
                          : sx_try_matmul(g->graph, inputs[0], inputs[1], SX_F32, &id, &why);
  if (!made || sx_node_elements(at(g, id)) > MOST_ELEMENTS) g->graph->nodes.n = before;
}

/* A convolution and its two gradients. */
static void add_convolution(growth *g) {
  int64_t x_dims[] = {1 + below(g, 2), 3 + below(g, 5), 3 + below(g, 5), 1 + below(g, 3)};
  int64_t w_dims[] = {1 + below(g, 3), 1 + below(g, 3), 1 + below(g, 3), x_dims[3]};
  int64_t ints[] = {1 + below(g, 2), below(g, 2), x_dims[1], x_dims[2]};
  sx_spec input = {.op = SX_OP_INPUT, .dtype = SX_F32, .rank = 4, .dims = x_dims};
  input.text = sx_intern_text(g->graph->names, sx_format(g->graph->arena, "field/x%zu", g->graph->nodes.n));
  sx_id x = try_add(g, &input);
  input.dims = w_dims;
  input.text = sx_intern_text(g->graph->names, sx_format(g->graph->arena, "field/w%zu", g->graph->nodes.n));
  sx_id inputs[2] = {x, try_add(g, &input)};
  sx_id y = try_add(g, &(sx_spec){.op = SX_OP_CONV, .inputs = inputs, .n_inputs = 2, .ints = ints, .n_ints = 2});
  if (y == SX_NO_NODE) return;
  sx_id data[2] = {y, inputs[1]}, weight[2] = {y, x};
  try_add(g, &(sx_spec){.op = SX_OP_CONVDATA, .inputs = data, .n_inputs = 2, .ints = ints, .n_ints = 4});
  ints[2] = w_dims[1];
  ints[3] = w_dims[2];
  try_add(g, &(sx_spec){.op = SX_OP_CONVWEIGHT, .inputs = weight, .n_inputs = 2, .ints = ints, .n_ints = 4});
}

static void add_lookup(growth *g) {
  sx_id table = node_of(g, below(g, 3) ? SX_F32 : SX_BF16), ids = node_of(g, SX_I32);
  if (!at(g, table)->rank) return;
  ids = ids_below(g, ids, at(g, table)->dims[0]);
  if (ids == SX_NO_NODE) return;
  sx_id inputs[2] = {table, ids};
  sx_id rows = try_add(g, &(sx_spec){.op = SX_OP_GATHER, .inputs = inputs, .n_inputs = 2});
  if (rows == SX_NO_NODE) return;
  int64_t n = at(g, table)->dims[0];
  sx_id back[2] = {ids, rows};
  try_add(g, &(sx_spec){.op = SX_OP_SCATTER, .inputs = back, .n_inputs = 2, .ints = &n, .n_ints = 1});
  sx_spec one_hot = {.op = SX_OP_ONEHOT, .dtype = SX_F32, .inputs = &ids, .n_inputs = 1, .ints = &n, .n_ints = 1};
  if (below(g, 2)) try_add(g, &one_hot);
}

/* argsort, take-along by its result, put-along back. */
static void add_sort(growth *g) {
  sx_id x = node_of(g, SX_F32);
  if (!at(g, x)->rank) return;
  int64_t ints[2] = {below(g, at(g, x)->rank), below(g, 2)};
  sx_id ids = with_ints(g, SX_OP_ARGSORT, x, ints, 2);
  if (ids == SX_NO_NODE) return;
  sx_id take[2] = {x, ids}, put[2] = {ids, x};
  try_add(g, &(sx_spec){.op = SX_OP_TAKE, .inputs = take, .n_inputs = 2, .ints = ints, .n_ints = 1});
  ints[1] = at(g, x)->dims[ints[0]] + 1;
  try_add(g, &(sx_spec){.op = SX_OP_PUT, .inputs = put, .n_inputs = 2, .ints = ints, .n_ints = 2});
}

static void add_scan(growth *g) {
  sx_id a = node_of(g, SX_F32);
  if (!at(g, a)->rank) return;
  int64_t ints[2] = {below(g, at(g, a)->rank), below(g, 2)};
  sx_id inputs[2] = {a, sx_unary(g->graph, SX_OP_NEG, a)};
  bool linear = below(g, 2);
  sx_spec spec = {.op = linear ? SX_OP_SCANLINEAR : SX_OP_CUMSUM, .inputs = inputs, .n_inputs = linear ? 2 : 1};
  spec.ints = ints;
  spec.n_ints = 2;
  try_add(g, &spec);
}

static void add_draw(growth *g) {
  int64_t dims[SX_RANK_MAX], draw = g->graph->n_draws++;
  int rank;
  random_shape(g, dims, &rank);
  sx_id salt = node_of(g, SX_I32);
  sx_spec spec = {.op = below(g, 2) ? SX_OP_UNIFORM : SX_OP_NORMAL, .dtype = SX_F32, .rank = rank, .dims = dims};
  spec.inputs = &salt;
  spec.n_inputs = at(g, salt)->rank == 0;
  spec.ints = &draw;
  spec.n_ints = 1;
  try_add(g, &spec);
}

static void add_leaf(growth *g) {
  static const sx_dtype dtypes[] = {SX_F32, SX_F32, SX_F32, SX_BF16, SX_F16, SX_I32, SX_BOOL, SX_U8};
  int64_t dims[SX_RANK_MAX], axis = 0;
  int rank;
  random_shape(g, dims, &rank);
  switch (below(g, 4)) {
    case 0: {
      sx_dtype dtype = dtypes[below(g, 8)];
      sx_const(g->graph, dtype, rank, dims, (double)below(g, 2));
      break;
    }
    case 1:
      if (rank) axis = below(g, rank);
      try_add(g, &(sx_spec){.op = SX_OP_IOTA, .dtype = SX_I32, .rank = rank, .dims = dims, .ints = &axis, .n_ints = 1});
      break;
    default:
      any_input(g, dtypes[below(g, 8)]);
      break;
  }
}

static void add_any(growth *g) {
  switch (below(g, 32)) {
    case 20:
    case 21:
    case 22:
    case 23:
      add_chain(g);
      break;
    case 0:
      add_leaf(g);
      break;
    case 1:
      add_cast(g);
      break;
    case 2:
      add_reshape(g);
      break;
    case 3:
      add_transpose(g);
      break;
    case 4:
    case 5:
      add_broadcast(g);
      break;
    case 6:
      add_slice(g);
      break;
    case 7:
      add_pad(g);
      break;
    case 8:
      add_concat(g);
      break;
    case 9:
      add_window(g);
      break;
    case 10:
      add_along(g, SX_OP_REVERSE, any_node(g));
      break;
    case 11:
    case 12:
      add_reduction(g);
      break;
    case 13:
      add_product(g);
      break;
    case 14:
      add_convolution(g);
      break;
    case 15:
      add_lookup(g);
      break;
    case 16:
      add_sort(g);
      break;
    case 17:
      add_scan(g);
      break;
    case 18:
      add_draw(g);
      break;
    case 19:
      add_along(g, SX_OP_ARGMAX, node_of(g, SX_F32));
      break;
    case 24:
      add_along(g, SX_OP_ARGMIN, node_of(g, SX_F32));
      break;
    case 25:
      add_rows(g);
      break;
    default:
      add_element(g);
      break;
  }
}

sx_graph *random_graph(sx_arena *arena, sx_intern *names, uint64_t seed, int n_nodes) {
  static const sx_dtype first[INPUTS] = {SX_F32, SX_F32, SX_F32, SX_BF16, SX_F16, SX_I32, SX_BOOL};
  growth g = {.graph = sx_graph_new(arena, names, "random"), .random = {seed}};
  for (int i = 0; i < INPUTS; i++) any_input(&g, first[i]);
  while ((int)g.graph->nodes.n < n_nodes) add_any(&g);
  sx_output outputs[MOST_OUTPUTS];
  size_t n = 1 + (size_t)below(&g, MOST_OUTPUTS);
  for (size_t i = 0; i < n; i++) {
    sx_id id = i ? any_node(&g) : (sx_id)g.graph->nodes.n - 1;
    outputs[i] = (sx_output){sx_format(arena, "output/%zu", i), id};
  }
  return sx_graph_extract(g.graph, "random", outputs, n);
}
