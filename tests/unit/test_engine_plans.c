/* What the engine's plans do together: random graphs of long rows, where pieces are written in concatenations, values
 * computed again, sums made beside groups and rows evaluated in registers, by every level, against the reference loops
 * alone; and their blocks, which none of that makes larger. */
#include <string.h>

#include "../../libsexp/cpu/columns.h"
#include "../../libsexp/ir/build.h"
#include "../../libsexp/pass/recompute.h"
#include "../common/cmocka_all.h"
#include "../common/interpret.h"
#include "../common/outside.h"
#include "../common/planned.h"
#include "../common/quick.h"
#include "../common/random_graph.h"

/* ---- graphs --------------------------------------------------------------------------------------- */

enum { MOST_ELEMENTS = 40000, MOST_OUTPUTS = 8, FIRST = 1 };

typedef struct maker {
  sx_graph *g;
  random_source random;
  int64_t rows, widths[4];
  sx_id inner[2]; /* from, to: of attention, which reads them itself */
} maker;

static int64_t below(maker *m, int64_t n) { return random_below(&m->random, n); }
static const sx_node *at(const maker *m, sx_id id) { return sx_node_at(m->g, id); }

static sx_id try_add(maker *m, const sx_spec *spec) {
  sx_id id = SX_NO_NODE;
  sx_problem why;
  size_t before = m->g->nodes.n;
  if (!sx_graph_try(m->g, spec, &id, &why)) return SX_NO_NODE;
  if (sx_node_elements(at(m, id)) <= MOST_ELEMENTS) return id;
  m->g->nodes.n = before;
  return SX_NO_NODE;
}

static sx_id with_ints(maker *m, sx_op op, sx_id a, const int64_t *ints, uint32_t n_ints) {
  return try_add(m, &(sx_spec){.op = op, .inputs = &a, .n_inputs = 1, .ints = ints, .n_ints = n_ints});
}

static sx_id of_two(maker *m, sx_op op, sx_id a, sx_id b) {
  return try_add(m, &(sx_spec){.op = op, .inputs = (sx_id[]){a, b}, .n_inputs = 2});
}

static sx_id any_node(maker *m) {
  int64_t n = (int64_t)m->g->nodes.n, latest = below(m, 3) ? 14 : 60;
  sx_id id = (sx_id)(n - 1 - below(m, latest < n ? latest : n));
  return id >= m->inner[0] && id < m->inner[1] ? m->inner[1] : id;
}

/* An f32 node, mostly. */
static sx_id any_float(maker *m) {
  sx_id id = any_node(m);
  for (int i = 0; i < 60 && (at(m, id)->dtype != SX_F32 || sx_node_elements(at(m, id)) < 64) && below(m, 20); i++)
    id = any_node(m);
  return id;
}

/* Another value of the dtype that equals a in shape but for the axis; a itself where none is found. */
static sx_id alike(maker *m, sx_id a, int64_t but_axis) {
  for (int i = 0; i < 40; i++) {
    sx_id id = any_node(m);
    bool fits = id != a && at(m, id)->dtype == at(m, a)->dtype && at(m, id)->rank == at(m, a)->rank;
    for (int k = 0; k < at(m, a)->rank && fits; k++) fits = k == but_axis || at(m, id)->dims[k] == at(m, a)->dims[k];
    if (fits) return id;
  }
  return a;
}

static sx_id add_external(maker *m, sx_dtype dtype, int rank, const int64_t *dims) {
  static const sx_op ops[] = {SX_OP_INPUT, SX_OP_PARAM, SX_OP_STATE};
  const char *name = sx_intern_text(m->g->names, sx_format(m->g->arena, "v%zu", m->g->nodes.n));
  return try_add(m, &(sx_spec){.op = ops[below(m, 3)], .dtype = dtype, .rank = rank, .dims = dims, .text = name});
}

/* From outside, with NaN in most rows or without; or drawn. */
static sx_id add_leaf(maker *m, int rank, const int64_t *dims) {
  static const sx_dtype dtypes[] = {SX_F16, SX_I32, SX_U8, SX_BOOL, SX_BF16};
  int64_t kind = below(m, 8), draw = m->g->n_draws;
  if (kind == 0) return add_external(m, SX_F32, rank, dims);
  if (kind == 1) return sx_cast(m->g, add_external(m, dtypes[below(m, 5)], rank, dims), SX_F32);
  if (kind < 4) {
    sx_id x = add_external(m, SX_F32, rank, dims), size = sx_unary(m->g, SX_OP_ABS, x);
    sx_id few = sx_binary(m->g, SX_OP_LT, size, sx_const_like(m->g, x, 4));
    return sx_where(m->g, few, x, sx_const_like(m->g, x, -0.75));
  }
  m->g->n_draws++;
  return try_add(
      m, &(sx_spec){.op = SX_OP_NORMAL, .dtype = SX_F32, .rank = rank, .dims = dims, .ints = &draw, .n_ints = 1});
}

static const sx_op unary[] = {SX_OP_NEG, SX_OP_ABS, SX_OP_TANH, SX_OP_FLOOR, SX_OP_EXP, SX_OP_SIN, SX_OP_SQRT};
static const sx_op binary[] = {SX_OP_ADD, SX_OP_SUB, SX_OP_MUL, SX_OP_MAX, SX_OP_ADD, SX_OP_MUL, SX_OP_DIV, SX_OP_POW};

static void add_element(maker *m) {
  sx_id a = any_float(m), b = alike(m, a, -1);
  int64_t kind = below(m, 9);
  if (kind < 3) try_add(m, &(sx_spec){.op = unary[below(m, below(m, 3) ? 4 : 7)], .inputs = &a, .n_inputs = 1});
  if (kind >= 3) b = of_two(m, kind == 8 ? SX_OP_LT : binary[below(m, below(m, 8) ? 6 : 8)], a, b);
  if (kind == 8 && b != SX_NO_NODE) sx_where(m->g, b, a, alike(m, a, -1));
}

static void add_cast(maker *m) {
  static const sx_dtype dtypes[] = {SX_BF16, SX_F16, SX_I32, SX_BOOL, SX_U8};
  sx_id a = sx_cast(m->g, any_float(m), dtypes[below(m, 5)]);
  if (below(m, 3)) sx_cast(m->g, a, SX_F32);
}

/* Of values that only it reads, more often than not. */
static void add_concat(maker *m) {
  sx_id a = any_float(m), inputs[4];
  if (!at(m, a)->rank) return;
  int64_t axis = below(m, 2) ? at(m, a)->rank - 1 : below(m, at(m, a)->rank);
  uint32_t n = 1 + (uint32_t)below(m, 4);
  for (uint32_t i = 0; i < n; i++) {
    inputs[i] = i ? alike(m, a, axis) : a;
    if (below(m, 5) == 0) continue;
    sx_id fresh = below(m, 2) ? try_add(m, &(sx_spec){.op = unary[below(m, 7)], .inputs = &inputs[i], .n_inputs = 1})
                              : of_two(m, binary[below(m, 7)], inputs[i], alike(m, inputs[i], -1));
    if (fresh != SX_NO_NODE) inputs[i] = fresh;
  }
  try_add(m, &(sx_spec){.op = SX_OP_CONCAT, .inputs = inputs, .n_inputs = n, .ints = &axis, .n_ints = 1});
}

/* Over leading or trailing axes; then beside what was reduced. */
static void add_reduction(maker *m) {
  static const sx_op ops[] = {SX_OP_SUM, SX_OP_SUM, SX_OP_REDUCEMAX, SX_OP_REDUCEMIN};
  sx_id a = any_float(m);
  int rank = at(m, a)->rank;
  bool columns = below(m, 2);
  if (!rank) return;
  if (below(m, 2)) {
    sx_id fresh = of_two(m, binary[below(m, 6)], a, alike(m, a, -1));
    if (fresh != SX_NO_NODE) a = fresh;
  }
  int n = rank > 1 && below(m, 8) ? 1 + (int)below(m, rank - 1) : rank;
  int64_t axes[SX_RANK_MAX], dims[SX_RANK_MAX];
  for (int i = 0; i < rank; i++) dims[i] = at(m, a)->dims[i];
  for (int i = 0; i < n; i++) axes[i] = columns ? i : rank - n + i;
  if (at(m, a)->dtype == SX_BOOL || at(m, a)->dtype == SX_U8) return;
  sx_op op = columns ? SX_OP_SUM : ops[below(m, 4)];
  for (int i = 0; i < n; i++)
    if (op != SX_OP_SUM && !dims[axes[i]]) return;
  sx_id sum = sx_reduce(m->g, op, a, axes, n, below(m, 3) > 0);
  if (at(m, sum)->rank == rank && below(m, 4)) of_two(m, binary[below(m, 6)], a, sx_broadcast(m->g, sum, rank, dims));
}

static void add_product(maker *m) {
  sx_id a = any_float(m), id;
  int64_t width = m->widths[below(m, 4)];
  if (at(m, a)->rank != 2 || at(m, a)->dtype != SX_F32 || at(m, a)->dims[1] * width > MOST_ELEMENTS) return;
  sx_id b = add_leaf(m, 2, (int64_t[]){at(m, a)->dims[1], width});
  sx_problem why;
  bool turned = below(m, 2);
  if (!sx_try_einsum(m->g, turned ? "ab,bc->ca" : "ab,bc->ac", (sx_id[]){a, b}, 2, SX_F32, &id, &why)) return;
  if (turned && below(m, 2)) sx_transpose(m->g, id, (int64_t[]){1, 0});
}

/* Sums of columns of what is computed for them or read, as gradients of biases are, among what else is to do. */
static void add_columns(maker *m) {
  sx_id a = any_float(m);
  const int64_t axis = 0;
  for (int i = 0; i < 30 && (at(m, a)->rank < 2 || at(m, a)->dims[0] < 8); i++) a = any_float(m);
  if (at(m, a)->rank < 2 || at(m, a)->dtype != SX_F32) return;
  if (below(m, 2)) a = of_two(m, binary[below(m, 6)], a, alike(m, a, -1));
  if (a == SX_NO_NODE) return;
  for (int64_t i = below(m, 3); i > 0; i--) add_element(m);
  sx_id sum = sx_reduce(m->g, SX_OP_SUM, a, &axis, 1, below(m, 2));
  if (below(m, 3) == 0) try_add(m, &(sx_spec){.op = unary[below(m, 7)], .inputs = &sum, .n_inputs = 1});
  if (below(m, 2)) of_two(m, binary[below(m, 6)], a, alike(m, a, -1));
}

/* Softmax of products, of two heads side by side or of one, and what it weighs. */
static void add_attention(maker *m) {
  const int64_t t = 64 + below(m, 6), d = 8 + 8 * below(m, 4), dims[3] = {8, t, d};
  sx_id q = add_leaf(m, 3, dims), k = add_leaf(m, 3, dims), v = add_leaf(m, 3, dims), id;
  sx_problem why;
  if (!sx_try_einsum(m->g, "btd,bsd->bts", (sx_id[]){q, k}, 2, SX_F32, &id, &why)) return;
  m->inner[0] = id;
  const int64_t wide[3] = {8, t, t}, axis = 2;
  sx_id most = sx_broadcast(m->g, sx_reduce(m->g, SX_OP_REDUCEMAX, id, &axis, 1, true), 3, wide);
  id = sx_unary(m->g, SX_OP_EXP, sx_binary(m->g, SX_OP_SUB, id, most));
  id = sx_binary(m->g, SX_OP_DIV, id, sx_broadcast(m->g, sx_reduce(m->g, SX_OP_SUM, id, &axis, 1, true), 3, wide));
  sx_try_einsum(m->g, below(m, 2) ? "bts,bsd->btd" : "bts,bsd->tbd", (sx_id[]){id, v}, 2, SX_F32, &id, &why);
  m->inner[1] = id;
}

static void add_view(maker *m) {
  sx_id a = any_float(m);
  const sx_node *node = at(m, a);
  int64_t ints[3 * SX_RANK_MAX], axis = node->rank ? below(m, node->rank) : 0;
  static const int64_t factors[] = {2, 3, 4, 8, 64, 128};
  int64_t factor = factors[below(m, 6)], n = sx_node_elements(node), kind = below(m, 6);
  if (!node->rank || !n) return;
  for (int i = 0; i < node->rank; i++) {
    bool cut = i == axis || below(m, 8) == 0;
    ints[3 * i] = cut && kind < 2 ? below(m, 1 + node->dims[i] / 3) : 0;
    ints[3 * i + 1] = kind == 0 ? node->dims[i] - (cut ? below(m, 1 + node->dims[i] / 3) : 0) : cut ? below(m, 4) : 0;
    ints[3 * i + 2] = kind == 0 ? 1 + (below(m, 12) == 0) : 0;
  }
  const uint32_t n_ints = 3 * (uint32_t)node->rank;
  if (kind == 0) with_ints(m, SX_OP_SLICE, a, ints, n_ints);
  if (kind == 1) try_add(m, &(sx_spec){.op = SX_OP_PAD, .inputs = &a, .n_inputs = 1, .ints = ints, .n_ints = n_ints});
  if (kind == 2 && node->rank == 2 && node->dims[1] % factor == 0)
    sx_reshape(m->g, a, 3, (int64_t[]){node->dims[0], node->dims[1] / factor, factor});
  if (kind == 3 && node->rank == 3) sx_reshape(m->g, a, 2, (int64_t[]){node->dims[0], n / node->dims[0]});
  if (kind == 4 && n % factor == 0) sx_reshape(m->g, a, 2, (int64_t[]){n / factor, factor});
  if (kind == 5 && node->rank > 1) {
    for (int i = 0; i < node->rank; i++) ints[i] = i;
    axis = below(m, node->rank - 1);
    ints[axis] = axis + 1;
    ints[axis + 1] = axis;
    sx_transpose(m->g, a, ints);
  }
}

static void add_any(maker *m) {
  int64_t kind = below(m, 29);
  sx_id a = any_float(m);
  if (kind < 8) add_element(m);
  if (kind == 8) add_cast(m);
  if (kind >= 9 && kind < 13) add_concat(m);
  if (kind >= 13 && kind < 17) add_reduction(m);
  if (kind == 17) add_product(m);
  if (kind == 18 && !m->inner[1] && below(m, 3) == 0) add_attention(m);
  if (kind >= 19 && kind < 23) add_view(m);
  if (kind == 23 && at(m, a)->rank)
    with_ints(m, SX_OP_CUMSUM, a, (int64_t[]){below(m, at(m, a)->rank), below(m, 2)}, 2);
  if (kind == 24) add_leaf(m, 2, (int64_t[]){m->rows, m->widths[below(m, 4)]});
  if (kind > 25) add_columns(m);
  if (kind == 25) sx_broadcast(m->g, add_leaf(m, 1, &m->widths[3]), 2, (int64_t[]){m->rows, m->widths[3]});
}

/* The name of an input like it, over which it may be written; else its own. */
static const char *output_name(maker *m, const sx_output *others, size_t n, sx_id id) {
  for (sx_id k = 0; k < id && below(m, 2); k++) {
    const sx_node *in = at(m, k);
    if (in->op != SX_OP_PARAM || in->dtype != at(m, id)->dtype || !sx_shape_equal(in, at(m, id))) continue;
    const char *name = sx_format(m->g->arena, "param/%s", in->text);
    bool taken = false;
    for (size_t i = 0; i < n; i++) taken |= !strcmp(others[i].name, name);
    if (!taken) return name;
  }
  return sx_format(m->g->arena, "o/%zu", n);
}

static planned *make_graph(uint64_t seed) {
  static const int64_t rows[] = {1, 2, 7, 8, 9, 16, 33, 40, 64, 70};
  static const int64_t widths[] = {1, 5, 48, 64, 128, 129, 130, 200, 256, 384, 0};
  planned *p = planned_empty();
  maker m = {.g = sx_graph_new(&p->arena, &p->names, "random"), .random = {seed}};
  m.rows = rows[below(&m, 10)];
  for (int i = 0; i < 4; i++) m.widths[i] = widths[below(&m, 60) ? below(&m, 10) : 10];
  for (int i = 0; i < 4; i++) add_leaf(&m, 2, (int64_t[]){m.rows, m.widths[i]});
  for (int64_t n = 12 + below(&m, 80); (int64_t)m.g->nodes.n < n;) add_any(&m);
  sx_output outputs[MOST_OUTPUTS];
  size_t n = 1 + (size_t)below(&m, MOST_OUTPUTS);
  for (size_t i = 0; i < n; i++) {
    sx_id id = i ? any_node(&m) : (sx_id)m.g->nodes.n - 1;
    outputs[i] = (sx_output){output_name(&m, outputs, i, id), id};
  }
  p->graph = sx_graph_extract(m.g, "random", outputs, n);
  return p;
}

/* ---- runs ----------------------------------------------------------------------------------------- */

typedef struct counts {
  int joined, sums, attention, recomputed;
} counts;

static void count(counts *n, const sx_plan *plan, sx_arena *arena) {
  sx_column_sums sums = sx_columns_find(plan, arena);
  n->joined += plan->joins;
  for (size_t t = 0; t < plan->tasks.n; t++) {
    n->sums += sums.made[t];
    n->attention += plan->tasks.items[t].kind == SX_TASK_ATTENTION;
  }
}

static void check_run(planned *p, const sx_plan *plan, sx_simd simd, int threads, void *const *expected,
                      uint64_t seed) {
  outside o = outside_of(plan, 1);
  sx_stopped why;
  outside_in_place(&o, plan, &p->arena);
  assert_true(outside_run(p, plan, simd, threads, &o, &why));
  const char *wrong = outside_differs(p->graph, expected, plan, &o);
  if (wrong) fail_msg("seed %d: %s differs: %s, %d threads", (int)seed, wrong, sx_simd_name(simd), threads);
  outside_free(&o);
}

static void check_seed(uint64_t seed, counts *n) {
  static const double budgets[] = {4, 60, 1000};
  planned *p = make_graph(seed);
  void **expected = interpret(p->graph, 7, 1);
  sx_plan_options options = {.fuse = true, .reuse = true, .layout = true, .wait = true, .columns = true, .tiles = true};
  options.attention = seed % 2 ? SX_ATTENTION_FASTER : SX_ATTENTION_ALWAYS;
  const sx_plan *apart = sx_plan_make(p->graph, &options, &p->arena);
  options.join = true;
  const sx_plan *plan = sx_plan_make(p->graph, &options, &p->arena);
  const sx_plan *again = sx_plan_recompute(p->graph, &options, budgets[seed % 3], &p->arena);
  assert_true(plan->block_bytes <= apart->block_bytes && again->block_bytes <= plan->block_bytes);
  count(n, plan, &p->arena);
  n->recomputed += again->graph != p->graph;
  for (sx_simd simd = SX_SIMD_REFERENCE; simd < SX_N_SIMD; simd++) {
    if (!sx_simd_available(simd)) continue;
    int threads = (seed + simd) % 2 ? 3 : 1;
    check_run(p, plan, simd, threads, expected, seed);
    if (again->graph != p->graph) check_run(p, again, simd, 4 - threads, expected, seed);
  }
  interpret_free(p->graph, expected);
  planned_free(p);
}

static void random_graphs_keep_their_bits_and_memory(void **state) {
  (void)state;
  uint64_t n_graphs = test_is_quick() ? 100 : 400;
  counts n = {0};
  for (uint64_t seed = FIRST; seed < FIRST + n_graphs; seed++) check_seed(seed, &n);
  print_message("%d joined, %d sums, %d tasks of attention, %d recomputed\n", n.joined, n.sums, n.attention,
                n.recomputed);
  assert_true(n.joined > 9 && n.sums > 9 && n.attention > 3 && n.recomputed > 9);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_graphs_keep_their_bits_and_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
