/* matmul and einsum: every result against a walk over all values of all letters, and every problem. */
#include <math.h>
#include <string.h>

#include "../../libsexp/ir/build.h"
#include "../common/cmocka_all.h"
#include "../common/evaluate64.h"
#include "../common/graphs.h"

enum { OPERANDS_MAX = 4 };

/* Shapes end with -1. `same` is an equation for the direct walk: every letter spelled out, sizes that a letter
 * has where they are not 1. */
typedef struct einsum_row {
  const char *equation;
  int64_t shapes[OPERANDS_MAX][6];
  uint32_t n_inputs;
  const char *same, *expected; /* shape, or the problem */
} einsum_row;

static const einsum_row einsums[] = {
    {"ij,jk->ik", {{2, 3, -1}, {3, 4, -1}}, 2, "ij,jk->ik", "[2 4]"},
    {"ij,jk", {{2, 3, -1}, {3, 4, -1}}, 2, "ij,jk->ik", "[2 4]"},
    {" i j , j k -> k i ", {{2, 3, -1}, {3, 4, -1}}, 2, "ij,jk->ki", "[4 2]"},
    {"ba,ac", {{2, 3, -1}, {3, 4, -1}}, 2, "ba,ac->bc", "[2 4]"},
    {"ca,ab", {{2, 3, -1}, {3, 4, -1}}, 2, "ca,ab->bc", "[4 2]"},
    {"bqd,bkd->bqk", {{2, 3, 4, -1}, {2, 5, 4, -1}}, 2, "bqd,bkd->bqk", "[2 3 5]"},
    {"abc,cbd->ad", {{3, 4, 5, -1}, {5, 4, 2, -1}}, 2, "abc,cbd->ad", "[3 2]"},
    {"ij,kl->", {{2, 3, -1}, {3, 4, -1}}, 2, "ij,kl->", "[]"},
    {"i,j->ij", {{2, -1}, {3, -1}}, 2, "i,j->ij", "[2 3]"},
    {"ii->i", {{3, 3, -1}}, 1, "ii->i", "[3]"},
    {"ii", {{3, 3, -1}}, 1, "ii->", "[]"},
    {"iji->j", {{3, 2, 3, -1}}, 1, "iji->j", "[2]"},
    {"iii->i", {{3, 3, 3, -1}}, 1, "iii->i", "[3]"},
    {"ijij->ji", {{2, 3, 2, 3, -1}}, 1, "ijij->ji", "[3 2]"},
    {"ii->i", {{0, 0, -1}}, 1, "ii->i", "[0]"},
    {"ij->ji", {{2, 3, -1}}, 1, "ij->ji", "[3 2]"},
    {"ij->j", {{2, 3, -1}}, 1, "ij->j", "[3]"},
    {"ij->", {{2, 3, -1}}, 1, "ij->", "[]"},
    {"->", {{-1}}, 1, "->", "[]"},
    {"ii,ij->j", {{3, 3, -1}, {3, 2, -1}}, 2, "ii,ij->j", "[2]"},
    {"ij,jk,kl->il", {{2, 3, -1}, {3, 4, -1}, {4, 2, -1}}, 3, "ij,jk,kl->il", "[2 2]"},
    {"i,i,i->i", {{3, -1}, {3, -1}, {3, -1}}, 3, "i,i,i->i", "[3]"},
    {"i,ij,j", {{3, -1}, {3, 2, -1}, {2, -1}}, 3, "i,ij,j->", "[]"},
    {"ab,c,bd,d->cad", {{2, 3, -1}, {4, -1}, {3, 2, -1}, {2, -1}}, 4, "ab,c,bd,d->cad", "[4 2 2]"},
    {"...ij,...jk->...ik", {{2, 3, 4, -1}, {2, 4, 5, -1}}, 2, "zij,zjk->zik", "[2 3 5]"},
    {"...ij,jk->...ik", {{2, 3, 4, -1}, {4, 5, -1}}, 2, "zij,jk->zik", "[2 3 5]"},
    {"...ij,...jk", {{2, 1, 3, 4, -1}, {6, 4, 5, -1}}, 2, "yzij,zjk->yzik", "[2 6 3 5]"},
    {"i...,...->i...", {{2, 3, -1}, {3, -1}}, 2, "iz,z->iz", "[2 3]"},
    {"...,...,...->...", {{3, -1}, {2, 1, -1}, {2, 3, -1}}, 3, "z,yz,yz->yz", "[2 3]"},
    {"...ii->...i", {{2, 3, 3, -1}}, 1, "zii->zi", "[2 3]"},
    {"...i->i", {{2, 3, -1}}, 1, "zi->i", "[3]"},
    {"...", {{2, 3, -1}}, 1, "yz->yz", "[2 3]"},
    {"ij,jk->ik", {{32, 128, -1}, {64, 10, -1}}, 2, NULL, "E-SHAPE-003 sizes of j differ, [32 128] by [64 10]"},
    {"ij,jk->ik", {{2, 1, -1}, {3, 4, -1}}, 2, NULL, "E-SHAPE-003 sizes of j differ, [2 1] by [3 4]"},
    {"ii->i", {{2, 3, -1}}, 1, NULL, "E-SHAPE-003 sizes of i differ in shape [2 3]"},
    {"...i,...i->...", {{2, 3, -1}, {4, 3, -1}}, 2, NULL, "E-SHAPE-001 sizes of ... differ, [2 3] by [4 3]"},
    {"ij,jk->ik", {{2, 3, -1}}, 1, NULL, "E-TYPE-004 \"ij,jk->ik\" has 2 operands, got 1"},
    {"ij,jk->ik", {{2, 3, 1, -1}, {3, 4, -1}}, 2, NULL, "E-SHAPE-004 operand 1 has 2 letters and shape [2 3 1]"},
    {"ij...,jk->ik", {{2, -1}, {3, 4, -1}}, 2, NULL, "E-SHAPE-004 operand 1 has 2 letters and shape [2]"},
    {"ij,jk->iz", {{2, 3, -1}, {3, 4, -1}}, 2, NULL, "E-SHAPE-010 \"ij,jk->iz\" is no equation like \"ij,jk->ik\""},
    {"ij,jk->ii", {{2, 3, -1}, {3, 4, -1}}, 2, NULL, "E-SHAPE-010 \"ij,jk->ii\" is no equation like \"ij,jk->ik\""},
    {"ij,jk->ik->", {{2, 3, -1}, {3, 4, -1}}, 2, NULL, "E-SHAPE-010 \"ij,jk->ik->\" is no equation like \"ij,jk->ik\""},
    {"i1,1k->ik", {{2, 3, -1}, {3, 4, -1}}, 2, NULL, "E-SHAPE-010 \"i1,1k->ik\" is no equation like \"ij,jk->ik\""},
    {"i.,.k->ik", {{2, 3, -1}, {3, 4, -1}}, 2, NULL, "E-SHAPE-010 \"i.,.k->ik\" is no equation like \"ij,jk->ik\""},
    {"......->", {{2, 3, -1}}, 1, NULL, "E-SHAPE-010 \"......->\" is no equation like \"ij,jk->ik\""},
    {"abcde,fghij->abcdefghij",
     {{1, 1, 1, 1, 1, -1}, {1, 1, 1, 1, 1, -1}},
     2,
     NULL,
     "E-SHAPE-004 the result of \"abcde,fghij->abcdefghij\" has more than 8 axes"},
    {"abcde,fghij,abcdefghij->",
     {{1, 1, 1, 1, 1, -1}, {1, 1, 1, 1, 1, -1}, {1, -1}},
     3,
     NULL,
     "E-SHAPE-004 operand 3 has 10 letters and shape [1]"},
    {"abcde,fghi,abcde,fghi->",
     {{1, 1, 1, 1, 1, -1}, {1, 1, 1, 1, -1}, {1, 1, 1, 1, 1, -1}, {1, 1, 1, 1, -1}},
     4,
     NULL,
     "E-SHAPE-004 the product of operands up to 2 has more than 8 axes"},
};

static int rank_of(const int64_t *dims) {
  int rank = 0;
  while (dims[rank] >= 0) rank++;
  return rank;
}

static void fill(void *context, const char *name, double *values, int64_t n) {
  (void)context;
  for (int64_t i = 0; i < n; i++) values[i] = (double)((i * 7 + name[0] * 3 + i * i) % 11 - 5);
}

/* The product straight from the equation `same`: a sum over all values of all its letters. */
static double *walk(const einsum_row *r, double *const *operands, sx_arena *arena, int64_t n_out) {
  const char *parts[OPERANDS_MAX + 1] = {r->same};
  int64_t sizes[128] = {0}, at[128] = {0}, total = 1;
  double *out = SX_NEW_N(arena, double, n_out + 1);
  for (uint32_t k = 1; k < r->n_inputs; k++) parts[k] = strchr(parts[k - 1], ',') + 1;
  parts[r->n_inputs] = strstr(r->same, "->") + 2;
  for (uint32_t k = 0; k < r->n_inputs; k++)
    for (int i = 0; i < rank_of(r->shapes[k]); i++)
      if (r->shapes[k][i] > sizes[(int)parts[k][i]] || sizes[(int)parts[k][i]] == 0)
        sizes[(int)parts[k][i]] = r->shapes[k][i];
  for (int c = 'a'; c <= 'z'; c++) total *= strchr(r->same, c) ? sizes[c] : 1;
  for (int64_t step = 0; step < total; step++) {
    int64_t rest = step, to = 0;
    double product = 1;
    for (int c = 'a'; c <= 'z'; c++) {
      if (!strchr(r->same, c)) continue;
      at[c] = rest % sizes[c];
      rest /= sizes[c];
    }
    for (uint32_t k = 0; k < r->n_inputs; k++) {
      int64_t from = 0, rank = rank_of(r->shapes[k]);
      for (int i = 0; i < rank; i++)
        from = from * r->shapes[k][i] + (r->shapes[k][i] == 1 ? 0 : at[(int)parts[k][i + (int)strspn(parts[k], " ")]]);
      product *= operands[k][from];
    }
    for (const char *c = parts[r->n_inputs]; *c; c++) to = to * sizes[(int)*c] + at[(int)*c];
    out[to] += product;
  }
  return out;
}

/* The shape of an einsum, checked by value, or its problem. */
static const char *run_einsum(graphs *g, const einsum_row *r, sx_dtype dtype) {
  sx_graph *graph = sx_graph_new(&g->arena, &g->names, "t");
  sx_id inputs[OPERANDS_MAX], id;
  sx_problem why;
  static const char *const names[OPERANDS_MAX] = {"a", "b", "c", "d"};
  for (uint32_t k = 0; k < r->n_inputs; k++)
    inputs[k] = sx_graph_add(
        graph,
        &(sx_spec){
            .op = SX_OP_INPUT, .dtype = dtype, .rank = rank_of(r->shapes[k]), .dims = r->shapes[k], .text = names[k]});
  if (!sx_try_einsum(graph, r->equation, inputs, r->n_inputs, SX_F32, &id, &why))
    return sx_format(&g->arena, "%s %s", sx_code_describe(why.code)->code, why.message);
  double **values = evaluate64(graph, &g->arena, fill, NULL), *operands[OPERANDS_MAX];
  for (uint32_t k = 0; k < r->n_inputs; k++) operands[k] = values[inputs[k]];
  const sx_node *node = sx_node_at(graph, id);
  int64_t n = sx_node_elements(node);
  double *expected = walk(r, operands, &g->arena, n);
  assert_int_equal(node->dtype, SX_F32);
  for (int64_t i = 0; i < n; i++)
    if (values[id][i] != expected[i])
      fail_msg("%s: element %d is %g, not %g", r->equation, (int)i, values[id][i], expected[i]);
  sx_text text;
  sx_text_init(&text, &g->arena);
  sx_text_add_shape(&text, node->dims, node->rank);
  return sx_text_get(&text);
}

static void test_einsum(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof einsums / sizeof *einsums; i++)
    for (int dtype = SX_F32; dtype <= SX_F16; dtype++) {
      graphs g;
      graphs_init(&g);
      const char *given = run_einsum(&g, &einsums[i], (sx_dtype)dtype);
      if (strcmp(given, einsums[i].expected) != 0)
        fail_msg("%s: expected %s, given %s", einsums[i].equation, einsums[i].expected, given);
      graphs_free(&g);
    }
}

static void test_dtypes_of_einsum(void **state) {
  (void)state;
  graphs g;
  graphs_init(&g);
  sx_graph *graph = graphs_parse(&g,
                                 "graph \"t\"\n%0 = input {name \"a\"} : i32 [2]\n%1 = input {name \"b\"} : f32 [2]\n"
                                 "%2 = input {name \"c\"} : bf16 [2]\n");
  sx_id id;
  sx_problem why;
  assert_false(sx_try_einsum(graph, "i,i", (sx_id[]){0, 0}, 2, SX_F32, &id, &why));
  assert_string_equal(why.message, "takes and gives floats (f32 bf16 f16), got i32");
  assert_int_equal(why.code, SX_E_TYPE_OPERAND);
  assert_false(sx_try_einsum(graph, "i,i", (sx_id[]){1, 2}, 2, SX_F32, &id, &why));
  assert_int_equal(why.code, SX_E_TYPE_DIFFER);
  assert_false(sx_try_einsum(graph, "i,i", (sx_id[]){1, 1}, 2, SX_I32, &id, &why));
  assert_int_equal(why.code, SX_E_TYPE_OPERAND);
  assert_true(sx_try_einsum(graph, "i,i->", (sx_id[]){2, 2}, 2, SX_BF16, &id, &why));
  assert_int_equal(sx_node_at(graph, id)->dtype, SX_BF16);
  assert_true(sx_try_einsum(graph, "i,i,i->", (sx_id[]){2, 2, 2}, 3, SX_BF16, &id, &why));
  assert_int_equal(sx_node_at(graph, id)->dtype, SX_BF16);
  graphs_free(&g);
}

/* Letters of an equation survive into the node. */
static void test_labels_are_kept(void **state) {
  (void)state;
  graphs g;
  graphs_init(&g);
  sx_graph *graph =
      graphs_parse(&g, "graph \"t\"\n%0 = input {name \"a\"} : f32 [2 3 4]\n%1 = input {name \"b\"} : f32 [2 5 4]\n");
  sx_id id;
  sx_problem why;
  assert_true(sx_try_einsum(graph, "bqd, bkd -> bqk", (sx_id[]){0, 1}, 2, SX_F32, &id, &why));
  assert_int_equal(graph->nodes.n, 3);
  assert_string_equal(sx_node_at(graph, id)->text, "bqd,bkd->bqk");
  graphs_free(&g);
}

typedef struct matmul_row {
  int64_t a[6], b[6];
  const char *same, *expected;
} matmul_row;

static const matmul_row matmuls[] = {
    {{3, -1}, {3, -1}, "k,k->", "[]"},
    {{2, 3, -1}, {3, -1}, "ik,k->i", "[2]"},
    {{3, -1}, {3, 2, -1}, "k,kj->j", "[2]"},
    {{2, 3, -1}, {3, 4, -1}, "ik,kj->ij", "[2 4]"},
    {{5, 2, 3, -1}, {3, 4, -1}, "aik,kj->aij", "[5 2 4]"},
    {{2, 3, -1}, {5, 3, 4, -1}, "ik,akj->aij", "[5 2 4]"},
    {{5, 2, 3, -1}, {5, 3, 4, -1}, "aik,akj->aij", "[5 2 4]"},
    {{2, 1, 5, 3, -1}, {4, 3, 2, -1}, "baik,akj->baij", "[2 4 5 2]"},
    {{1, 2, 3, -1}, {1, 3, 4, -1}, "aik,akj->aij", "[1 2 4]"},
    {{3, 1, 2, 3, -1}, {1, 4, 3, 2, -1}, "baik,bakj->baij", "[3 4 2 2]"},
    {{5, 2, 3, -1}, {3, -1}, "aik,k->ai", "[5 2]"},
    {{3, -1}, {5, 3, 2, -1}, "k,akj->aj", "[5 2]"},
    {{2, 0, -1}, {0, 3, -1}, "ik,kj->ij", "[2 3]"},
    {{32, 128, -1}, {64, 10, -1}, NULL, "E-SHAPE-003 inner sizes differ, [32 128] by [64 10]"},
    {{3, -1}, {4, -1}, NULL, "E-SHAPE-003 inner sizes differ, [3] by [4]"},
    {{2, 3, -1}, {2, -1}, NULL, "E-SHAPE-003 inner sizes differ, [2 3] by [2]"},
    {{-1}, {3, -1}, NULL, "E-SHAPE-004 takes vectors, matrices or batches of them, got [] by [3]"},
    {{2, 2, 3, -1}, {4, 3, 2, -1}, NULL, "E-SHAPE-001 batches of [2 2 3] and [4 3 2] do not broadcast together"},
};

static void test_matmul(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof matmuls / sizeof *matmuls; i++) {
    const matmul_row *r = &matmuls[i];
    graphs g;
    graphs_init(&g);
    sx_graph *graph = sx_graph_new(&g.arena, &g.names, "t");
    sx_id a = sx_graph_add(graph, &(sx_spec){.op = SX_OP_INPUT, .rank = rank_of(r->a), .dims = r->a, .text = "a"});
    sx_id b = sx_graph_add(graph, &(sx_spec){.op = SX_OP_INPUT, .rank = rank_of(r->b), .dims = r->b, .text = "b"}), id;
    sx_problem why;
    sx_text text;
    sx_text_init(&text, &g.arena);
    if (sx_try_matmul(graph, a, b, SX_F32, &id, &why)) {
      einsum_row as_einsum = {.n_inputs = 2, .same = r->same, .equation = r->same};
      memcpy(as_einsum.shapes[0], r->a, sizeof r->a);
      memcpy(as_einsum.shapes[1], r->b, sizeof r->b);
      double **values = evaluate64(graph, &g.arena, fill, NULL);
      int64_t n = sx_node_elements(sx_node_at(graph, id));
      double *expected = walk(&as_einsum, (double *[]){values[a], values[b]}, &g.arena, n);
      for (int64_t k = 0; k < n; k++) assert_true(values[id][k] == expected[k]);
      sx_text_add_shape(&text, sx_node_at(graph, id)->dims, sx_node_at(graph, id)->rank);
    } else {
      sx_text_addf(&text, "%s %s", sx_code_describe(why.code)->code, why.message);
    }
    assert_string_equal(sx_text_get(&text), r->expected);
    graphs_free(&g);
  }
}

/* A batch axis of 1 is not copied n times. */
static void test_nothing_is_materialized(void **state) {
  (void)state;
  graphs g;
  graphs_init(&g);
  sx_graph *graph =
      graphs_parse(&g, "graph \"t\"\n%0 = input {name \"a\"} : f32 [2 1 5 7]\n%1 = input {name \"b\"} : f32 [3 7 4]\n");
  sx_id id;
  sx_problem why;
  assert_true(sx_try_matmul(graph, 0, 1, SX_F32, &id, &why));
  for (size_t i = 0; i < graph->nodes.n; i++) assert_int_not_equal(graph->nodes.items[i].op, SX_OP_BROADCAST);
  graphs_free(&g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_einsum),
      cmocka_unit_test(test_dtypes_of_einsum),
      cmocka_unit_test(test_labels_are_kept),
      cmocka_unit_test(test_matmul),
      cmocka_unit_test(test_nothing_is_materialized),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
