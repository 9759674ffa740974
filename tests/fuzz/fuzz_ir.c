/* Parses any bytes as the text of a graph. What parses prints, parses again and prints the same; where the
 * verifier accepts it, every pass gives a graph of its stage, and small graphs compute the same bits
 * before and after the passes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../common/execute_reference.h"
#include "../common/graphs.h"

enum { NODES_MAX = 300, ELEMENTS_MAX = 1 << 14, WORK_MAX = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool holds) {
  if (!holds) abort();
}

static void expect_same_text(graphs *g, const sx_graph *graph, bool places) {
  sx_text first, second;
  sx_text_init(&first, &g->arena);
  sx_text_init(&second, &g->arena);
  sx_graph_print(&first, graph, places);
  sx_graph *again = sx_graph_parse(&g->arena, &g->names, sx_text_get(&first), first.n, &g->diags);
  expect(again != NULL);
  sx_graph_print(&second, again, places);
  expect(strcmp(sx_text_get(&first), sx_text_get(&second)) == 0);
}

/* Whether executing is cheap: few elements, and few steps of products. */
static bool is_small(const sx_graph *graph) {
  int64_t elements = 0;
  if (graph->nodes.n > NODES_MAX) return false;
  for (size_t i = 0; i < graph->nodes.n; i++) {
    const sx_node *node = &graph->nodes.items[i];
    int64_t n = sx_node_elements(node), work = n + 1;
    for (uint32_t k = 0; k < node->n_inputs; k++) {
      int64_t m = sx_node_elements(sx_node_at(graph, node->inputs[k]));
      if (m > ELEMENTS_MAX) return false;
      if (sx_op_describe(node->op)->class == SX_CLASS_CONTRACT) work *= m + 1;
      if (work > WORK_MAX) return false;
    }
    if (node->op == SX_OP_ARGSORT) work *= n;
    if (n > ELEMENTS_MAX || work > WORK_MAX) return false;
    elements += n;
  }
  return elements <= ELEMENTS_MAX;
}

/* Values that differ by name and element, among them zeros, infinities and NaN. */
static void fill(void *context, const sx_node *node, void *values, int64_t n) {
  (void)context;
  static const float floats[] = {0.0f, -0.0f, 1.0f, -1.5f, 1e-40f, 3e38f, HUGE_VALF, -HUGE_VALF, 0.1f, 2.0f};
  unsigned at = 0;
  for (const char *c = node->text; *c; c++) at = at * 31 + (unsigned char)*c;
  for (int64_t i = 0; i < n; i++, at++) {
    float x = floats[at % (sizeof floats / sizeof *floats)];
    int32_t integer = (int32_t)(at % 5);
    if (sx_dtype_bytes(node->dtype) == 4)
      memcpy((char *)values + 4 * i, node->dtype == SX_F32 ? (void *)&x : (void *)&integer, 4);
    else if (sx_dtype_bytes(node->dtype) == 2)
      ((uint16_t *)values)[i] = (uint16_t)(at * 0x9e37);
    else
      ((uint8_t *)values)[i] = (uint8_t)(node->dtype == SX_BOOL ? integer & 1 : integer);
  }
}

static void expect_same_bits(graphs *g, const sx_graph *before, const sx_graph *after) {
  if (!is_small(before) || !is_small(after)) return;
  void **expected = execute_reference(before, &g->arena, fill, NULL);
  void **given = execute_reference(after, &g->arena, fill, NULL);
  for (size_t i = 0; i < before->outputs.n; i++) {
    sx_id a = before->outputs.items[i].node, b = after->outputs.items[i].node;
    const sx_node *x = sx_node_at(before, a);
    expect(x->dtype == sx_node_at(after, b)->dtype && sx_shape_equal(x, sx_node_at(after, b)));
    expect(same_bits(x->dtype, expected[a], given[b], sx_node_elements(x)));
  }
}

static void run_passes(graphs *g, sx_graph *graph) {
  if (graph->nodes.n > NODES_MAX) return;
  sx_graph *before = graphs_apply(g, graph, "gradient dce");
  expect(before != NULL);
  sx_graph *after = graphs_apply(g, before, "simplify cse dce");
  expect(after != NULL);
  expect_same_text(g, after, true);
  expect_same_bits(g, before, after);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  graphs g;
  graphs_init(&g);
  sx_graph *graph = sx_graph_parse(&g.arena, &g.names, (const char *)data, size, &g.diags);
  expect((graph == NULL) == (g.diags.n_errors > 0));
  if (graph) {
    expect_same_text(&g, graph, false);
    expect_same_text(&g, graph, true);
    if (sx_graph_verify(graph, SX_STAGE_BUILT, &g.diags)) run_passes(&g, graph);
  }
  graphs_free(&g);
  return 0;
}
