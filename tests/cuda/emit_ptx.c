/* The PTX of all kernels of graphs, for test_ptx.py: as the product lowers them; of products and
 * convolutions those of a portable run.
 *
 *   emit_ptx ARCHITECTURE [contracted] < graphs        texts as sexpgpu-explain --ir prints them
 *   emit_ptx ARCHITECTURE random FIRST N               random graphs over every operation */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../libsexp/cuda/convolve.h"
#include "../cudasim/emit_case.h"
#include "../cudasim/ptx_case.h"

enum { GRAPHS = 256, TEXT = 1 << 24 };
static emit_case cases[GRAPHS];
static char text[TEXT];

static void lower(emit_case *c, const char *name, planned *graph, bool fuse, bool merge) {
  emit_lower(c, name, graph, fuse, true, merge);
  c->lowering.portable = true;
  for (uint32_t task = 0; task < c->plan->tasks.n; task++) {
    const sx_task *at = &c->plan->tasks.items[task];
    sx_op op = sx_node_at(c->plan->graph, at->nodes[0])->op;
    if (at->kind != SX_TASK_NODE || sx_op_describe(op)->class != SX_CLASS_CONTRACT) continue;
    if (op == SX_OP_EINSUM)
      sx_lower_product(&c->lowering, task);
    else
      sx_lower_convolution(&c->lowering, task);
  }
}

/* Graphs of the text, each from a line that begins with `graph` to the next. */
static size_t read_graphs(void) {
  size_t n = 0, n_bytes = fread(text, 1, sizeof text - 1, stdin);
  text[n_bytes] = 0;
  for (char *at = strstr(text, "graph \""); at && n < GRAPHS;) {
    char *next = strstr(at, "\ngraph \"");
    if (next) *next = 0;
    lower(&cases[n++], "graph", planned_text(at), true, true);
    at = next ? next + 1 : NULL;
  }
  return n;
}

static size_t random_graphs(uint64_t first, size_t n) {
  for (size_t i = 0; i < n && i < GRAPHS; i++)
    lower(&cases[i], "random", planned_random(first + i, 120), i % 4 != 3, true);
  return n;
}

int main(int argc, char **argv) {
  if (argc < 2 || !ptx_ready()) return argc < 2;
  bool is_random = argc == 5 && !strcmp(argv[2], "random");
  size_t n = is_random ? random_graphs(strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10)) : read_graphs();
  char *unit = emit_unit(cases, n);
  bool contracted = argc == 3 && !strcmp(argv[2], "contracted");
  char *ptx = (contracted ? ptx_compile_contracted : ptx_compile)(unit, atoi(argv[1]));
  fputs(ptx, stdout);
  free(ptx);
  free(unit);
  for (size_t i = 0; i < n; i++) emit_free(&cases[i]);
  return 0;
}
