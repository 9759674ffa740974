/* Passes change no bit: graphs of the test files, and random ones, before and after, on values that make
 * trouble. And a fold of constants is what the reference loop computes. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../kernels/math.h"
#include "../../libsexp/cpu/reference.h"
#include "../../libsexp/ir/build.h"
#include "../../libsexp/pass/fold_constant.h"
#include "../common/cmocka_all.h"
#include "../common/execute_reference.h"
#include "../common/graphs.h"

/* ---- pseudorandom numbers and values -------------------------------------------------------------- */

static uint64_t next(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state * 0x2545f4914f6cdd1du;
}

static uint32_t below(uint64_t *state, uint32_t n) { return (uint32_t)(next(state) >> 33) % n; }

static const float special[] = {0.0f,           -0.0f,  1.0f,    -1.0f,  0.5f,        -2.0f,
                                3.0f,           1e-40f, -1e-45f, 1e38f,  -3e38f,      INFINITY,
                                -INFINITY,      NAN,    0.1f,    -7.25f, 16777216.0f, 2147483648.0f,
                                -2147483648.0f, 255.5f, 1.5f,    2.5f,   65504.0f,    0x1p-24f};
enum { N_SPECIAL = sizeof special / sizeof *special };
static const int32_t special_i32[] = {0,   1,   -1,        2,         -2,      7,        -7,
                                      255, 256, INT32_MAX, INT32_MIN, 1 << 24, 16777217, 16842753};
enum { N_SPECIAL_I32 = sizeof special_i32 / sizeof *special_i32 };

static float random_float(uint64_t *state) {
  uint32_t kind = below(state, 4);
  if (kind == 0) return sx_from_bits_f32((uint32_t)next(state));
  if (kind == 1) return (float)((double)below(state, 1 << 20) / (1 << 18) - 2);
  return special[below(state, N_SPECIAL)];
}

static void store(sx_dtype dtype, void *values, int64_t i, float x, int32_t n) {
  uint16_t half = dtype == SX_BF16 ? sx_bf16_from_f32(x) : sx_f16_from_f32(x);
  switch (dtype) {
    case SX_F32:
      memcpy((char *)values + 4 * i, &x, 4);
      break;
    case SX_BF16:
    case SX_F16:
      memcpy((char *)values + 2 * i, &half, 2);
      break;
    case SX_I32:
      memcpy((char *)values + 4 * i, &n, 4);
      break;
    case SX_U8:
      ((uint8_t *)values)[i] = (uint8_t)n;
      break;
    default:
      ((uint8_t *)values)[i] = n & 1;
      break;
  }
}

/* Leaves named iN are ids below N, others any value; the same for a name whatever the order of leaves. */
static void fill(void *context, const sx_node *node, void *values, int64_t n) {
  uint64_t state = *(uint64_t *)context;
  for (const char *at = node->text; *at; at++) state = (state ^ (unsigned char)*at) * 0x100000001b3u;
  state |= 1;
  for (int i = 0; i < 8; i++) next(&state);
  bool ids = node->text[0] == 'i' && node->text[1] >= '1' && node->text[1] <= '9';
  for (int64_t i = 0; i < n; i++) {
    int32_t integer =
        ids ? (int32_t)below(&state, (uint32_t)(node->text[1] - '0')) : special_i32[below(&state, N_SPECIAL_I32)];
    store(node->dtype, values, i, random_float(&state), integer);
  }
}

/* ---- comparing ------------------------------------------------------------------------------------ */

/* Fails where an output differs between the two graphs. */
static void check_same(graphs *g, const char *name, const sx_graph *before, const sx_graph *after, uint64_t seed) {
  void **expected = execute_reference(before, &g->arena, fill, &seed);
  void **given = execute_reference(after, &g->arena, fill, &seed);
  assert_int_equal(before->outputs.n, after->outputs.n);
  for (size_t i = 0; i < before->outputs.n; i++) {
    sx_output a = before->outputs.items[i], b = after->outputs.items[i];
    const sx_node *x = sx_node_at(before, a.node), *y = sx_node_at(after, b.node);
    assert_string_equal(a.name, b.name);
    if (x->dtype == y->dtype && sx_shape_equal(x, y) &&
        same_bits(x->dtype, expected[a.node], given[b.node], sx_node_elements(x)))
      continue;
    fail_msg("%s: output %s differs (seed %llu)\n%sbecame\n%s", name, a.name, (unsigned long long)seed,
             graphs_print(g, before), graphs_print(g, after));
  }
}

static void check_graph(graphs *g, const char *name, sx_graph *graph, uint64_t seed, int n_fills) {
  sx_graph *before = graphs_apply(g, graph, "gradient dce");
  sx_graph *after = before ? graphs_apply(g, before, "simplify cse simplify cse dce") : NULL;
  if (!after) fail_msg("%s: %s", name, graphs_error(g));
  for (int i = 0; i < n_fills; i++) check_same(g, name, before, after, seed + (uint64_t)i);
}

/* ---- graphs of the test files --------------------------------------------------------------------- */

static void check_file(const char *path) {
  static char text[1 << 16];
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  size_t n = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[n] = 0;
  char *graph = strchr(text, '\n'), *end = strstr(text, "\ngives\n");
  assert_true(graph && end && end > graph);
  end[1] = 0;
  graphs g;
  graphs_init(&g);
  sx_graph *parsed = graphs_parse(&g, graph + 1);
  if (!parsed) fail_msg("%s: %s", path, graphs_error(&g));
  check_graph(&g, path, parsed, 7, 20);
  graphs_free(&g);
}

static void test_files(void **state) {
  (void)state;
  static const char *const folders[] = {"gradient", "simplify", "cse", "dce"};
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    char path[512];
    snprintf(path, sizeof path, "tests/pass/%s", folders[i]);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
      snprintf(path, sizeof path, "tests/pass/%s/%.200s", folders[i], entry->d_name);
      if (strstr(entry->d_name, ".txt")) check_file(path);
    }
    closedir(dir);
  }
}

/* ---- random graphs -------------------------------------------------------------------------------- */

typedef struct maker {
  sx_graph *graph;
  uint64_t state;
} maker;

/* A random node of the dtype and of shape [2 3], or SX_NO_NODE. */
static sx_id any_of(maker *m, sx_dtype dtype) {
  size_t n = m->graph->nodes.n;
  for (size_t tries = 0; tries < 20; tries++) {
    sx_id id = below(&m->state, (uint32_t)n);
    const sx_node *node = sx_node_at(m->graph, id);
    if (node->dtype == dtype && node->rank == 2 && node->dims[0] == 2 && node->dims[1] == 3) return id;
  }
  return SX_NO_NODE;
}

static double constant_value(maker *m, sx_dtype dtype) {
  if (sx_dtype_is_float(dtype)) return (double)special[below(&m->state, N_SPECIAL)];
  return special_i32[below(&m->state, N_SPECIAL_I32)];
}

static const int64_t shape[2] = {2, 3};

/* Moves that keep the shape [2 3] in one or two steps, so that they compose. */
static sx_id move_around(maker *m, sx_id a) {
  static const int64_t other[2] = {3, 2}, wide[3] = {1, 2, 3}, swap[2] = {1, 0};
  switch (below(&m->state, 7)) {
    case 0:
      return sx_reshape(m->graph, sx_reshape(m->graph, a, 2, other), 2, shape);
    case 1:
      return sx_transpose(m->graph, sx_transpose(m->graph, a, swap), swap);
    case 2:
      return sx_reshape(m->graph, sx_broadcast(m->graph, a, 3, wide), 2, shape);
    case 3:
      return sx_slice_axis(m->graph, sx_pad_axis(m->graph, a, 1, 2, 1, constant_value(m, SX_F32)), 1, 1, 4, 1);
    case 4:
      return sx_graph_add(
          m->graph,
          &(sx_spec){
              .op = SX_OP_REVERSE, .inputs = &a, .n_inputs = 1, .ints = (int64_t[]){below(&m->state, 2)}, .n_ints = 1});
    case 5:
      return sx_slice_axis(m->graph, sx_slice_axis(m->graph, sx_pad_axis(m->graph, a, 0, 3, 3, 0), 0, 1, 8, 2), 0, 1, 3,
                           1);
    default:
      return sx_graph_add(
          m->graph, &(sx_spec){.op = SX_OP_CONCAT, .inputs = &a, .n_inputs = 1, .ints = (int64_t[]){1}, .n_ints = 1});
  }
}

static void add_random(maker *m) {
  sx_dtype dtype = (sx_dtype)below(&m->state, SX_N_DTYPES);
  sx_op op = (sx_op)below(&m->state, SX_N_OPS);
  uint32_t choice = below(&m->state, 8);
  sx_id inputs[3] = {any_of(m, dtype), any_of(m, dtype), any_of(m, dtype)}, id;
  sx_problem why;
  if (inputs[0] == SX_NO_NODE || inputs[1] == SX_NO_NODE || inputs[2] == SX_NO_NODE) return;
  if (choice == 0) {
    sx_const(m->graph, dtype, 2, shape, constant_value(m, dtype));
  } else if (choice == 1) {
    move_around(m, inputs[0]);
  } else if (choice == 2) {
    sx_cast(m->graph, inputs[0], (sx_dtype)below(&m->state, SX_N_DTYPES));
  } else if (choice == 3) {
    sx_id condition = any_of(m, SX_BOOL);
    if (condition != SX_NO_NODE) sx_where(m->graph, condition, inputs[0], inputs[1]);
  } else if (sx_op_describe(op)->class == SX_CLASS_ELEMENT && op != SX_OP_CAST) {
    sx_spec spec = {.op = op, .inputs = inputs, .n_inputs = (uint32_t)sx_op_describe(op)->n_inputs};
    sx_graph_try(m->graph, &spec, &id, &why);
  }
}

static void test_random_graphs(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 4000; seed++) {
    graphs g;
    graphs_init(&g);
    maker m = {sx_graph_new(&g.arena, &g.names, "random"), seed * 0x9e3779b97f4a7c15u};
    for (int dtype = 0; dtype < SX_N_DTYPES; dtype++)
      sx_graph_add(m.graph, &(sx_spec){.op = SX_OP_INPUT,
                                       .dtype = (sx_dtype)dtype,
                                       .rank = 2,
                                       .dims = shape,
                                       .text = sx_dtype_name((sx_dtype)dtype)});
    for (int i = 0; i < 40; i++) add_random(&m);
    for (size_t i = 0; i < m.graph->nodes.n; i++)
      sx_graph_output(m.graph, sx_format(&g.arena, "y%d", (int)i), (sx_id)i);
    check_graph(&g, "random", m.graph, seed, 2);
    graphs_free(&g);
  }
}

/* ---- constants ------------------------------------------------------------------------------------ */

static sx_value as_value(sx_dtype dtype, double x) {
  return sx_dtype_is_float(dtype) ? (sx_value){.f = (float)x} : (sx_value){.i = (int32_t)x};
}

/* The operation on every pair of special values, as the reference loop stores it. */
static void check_fold(sx_op op, sx_dtype from, sx_dtype to) {
  bool is_float = sx_dtype_is_float(from);
  int n = is_float ? N_SPECIAL : N_SPECIAL_I32;
  for (int i = 0; i < n * n; i++) {
    double a = sx_dtype_round(from, is_float ? (double)special[i / n] : special_i32[i / n]);
    double b = sx_dtype_round(from, is_float ? (double)special[i % n] : special_i32[i % n]);
    double inputs[3] = {op == SX_OP_WHERE ? i % 2 : a, op == SX_OP_WHERE ? a : b, b};
    sx_value values[3] = {op == SX_OP_WHERE ? as_value(SX_BOOL, inputs[0]) : as_value(from, inputs[0]),
                          as_value(from, inputs[1]), as_value(from, inputs[2])};
    char expected[4] = {0}, given[4] = {0};
    sx_store(expected, to, 0, sx_reference_apply(op, from, to, values));
    sx_store(given, to, 0, as_value(to, sx_fold_constant(op, from, to, inputs)));
    if (!same_bits(to, expected, given, 1))
      fail_msg("%s of %s %g, %g to %s", sx_op_describe(op)->name, sx_dtype_name(from), a, b, sx_dtype_name(to));
  }
}

/* A node of the operation on operands of the dtype, or false where it takes none. */
static bool result_dtype(graphs *g, sx_op op, sx_dtype from, sx_dtype stated, sx_dtype *to) {
  sx_graph *graph = sx_graph_new(&g->arena, &g->names, "fold");
  sx_id a = sx_const(graph, from, 0, NULL, 0), condition = sx_const(graph, SX_BOOL, 0, NULL, 0), id;
  sx_problem why;
  sx_spec spec = {.op = op,
                  .dtype = stated,
                  .inputs = (sx_id[]){op == SX_OP_WHERE ? condition : a, a, a},
                  .n_inputs = (uint32_t)sx_op_describe(op)->n_inputs};
  if (!sx_graph_try(graph, &spec, &id, &why)) return false;
  *to = sx_node_at(graph, id)->dtype;
  return true;
}

static void test_folds_are_reference_values(void **state) {
  (void)state;
  graphs g;
  graphs_init(&g);
  int n_checked = 0;
  for (int op = 0; op < SX_N_OPS; op++) {
    if (sx_op_describe((sx_op)op)->class != SX_CLASS_ELEMENT) continue;
    for (int from = 0; from < SX_N_DTYPES; from++)
      for (int stated = 0; stated < (op == SX_OP_CAST ? SX_N_DTYPES : 1); stated++) {
        sx_dtype to;
        if (!result_dtype(&g, (sx_op)op, (sx_dtype)from, (sx_dtype)stated, &to)) continue;
        check_fold((sx_op)op, (sx_dtype)from, to);
        n_checked++;
      }
  }
  assert_in_range(n_checked, 150, 400);
  graphs_free(&g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_files),
      cmocka_unit_test(test_random_graphs),
      cmocka_unit_test(test_folds_are_reference_values),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
