/* What holds of a graph at each stage: a table of rules over nodes, then rules over the whole graph. */
#include <string.h>

#include "../base/hash.h"
#include "infer.h"

typedef struct verifier {
  const sx_graph *graph;
  sx_id id; /* of the node in question */
  const sx_node *node;
  const bool *reached; /* from the outputs */
  sx_problem why;
} verifier;

static bool operands_come_before(verifier *v) {
  for (uint32_t i = 0; i < v->node->n_inputs; i++)
    if (v->node->inputs[i] >= v->id) return sx_problem_set(&v->why, SX_E_RUN_GRAPH, "operand %u comes later", i);
  return true;
}

static bool type_is_inferred(verifier *v) {
  const sx_node *node = v->node;
  sx_inference inferred;
  sx_spec spec = {.op = node->op,
                  .dtype = node->dtype,
                  .rank = node->rank,
                  .dims = node->dims,
                  .inputs = node->inputs,
                  .n_inputs = node->n_inputs,
                  .ints = node->ints,
                  .n_ints = node->n_ints,
                  .real = node->real,
                  .text = node->text};
  if (!sx_infer(&inferred, v->graph, &spec, &v->why)) return false;
  bool equal = inferred.dtype == node->dtype && inferred.rank == node->rank;
  for (int i = 0; equal && i < node->rank; i++) equal = inferred.dims[i] == node->dims[i];
  if (equal) return true;
  return sx_problem_set(&v->why, SX_E_RUN_GRAPH, "its operands give %s %s", sx_dtype_name(inferred.dtype),
                        sx_shape_text_of_dims(inferred.dims, inferred.rank).text);
}

static bool text_is_interned(verifier *v) {
  const char *text = v->node->text;
  return !text || sx_intern_text(v->graph->names, text) == text ||
         sx_problem_set(&v->why, SX_E_RUN_GRAPH, "its text is not the graph's");
}

static bool is_not_meta(verifier *v) {
  return sx_op_describe(v->node->op)->class != SX_CLASS_META ||
         sx_problem_set(&v->why, SX_E_RUN_GRAPH, "it is to be expanded");
}

static bool is_reached(verifier *v) {
  sx_op op = v->node->op;
  return v->reached[v->id] || op == SX_OP_INPUT || op == SX_OP_PARAM || op == SX_OP_STATE ||
         sx_problem_set(&v->why, SX_E_RUN_GRAPH, "no output needs it");
}

static const struct {
  sx_stage from; /* holds at this stage and later */
  const char *name;
  bool (*holds)(verifier *verifier);
} rules[] = {
    {SX_STAGE_BUILT, "operands come before", operands_come_before},
    {SX_STAGE_BUILT, "the type is what is inferred", type_is_inferred},
    {SX_STAGE_BUILT, "texts are interned", text_is_interned},
    {SX_STAGE_EXPANDED, "no META operation is left", is_not_meta},
    {SX_STAGE_READY, "every node is needed", is_reached},
};

/* The rule that the node breaks, or NULL. Later rules may rely on earlier ones. */
static const char *broken_rule(verifier *v, sx_stage stage) {
  if ((unsigned)v->node->op >= SX_N_OPS) return "the operation exists";
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (stage >= rules[i].from && !rules[i].holds(v)) return rules[i].name;
  return NULL;
}

static bool verify_outputs(const sx_graph *graph, sx_diags *diags) {
  size_t room = 16;
  while (room < 2 * graph->outputs.n) room *= 2;
  const char **seen = SX_NEW_N(graph->arena, const char *, room);
  for (size_t i = 0; i < graph->outputs.n; i++) {
    sx_output output = graph->outputs.items[i];
    if (output.node >= graph->nodes.n) {
      sx_error(diags, SX_E_RUN_GRAPH, graph->span, "graph %s: output %s is no node", graph->name, output.name);
      return false;
    }
    size_t slot = (size_t)sx_hash_bytes(output.name, strlen(output.name)) & (room - 1);
    for (; seen[slot]; slot = (slot + 1) & (room - 1)) {
      if (strcmp(seen[slot], output.name) != 0) continue;
      sx_error(diags, SX_E_RUN_GRAPH, graph->span, "graph %s: two outputs are named %s", graph->name, output.name);
      return false;
    }
    seen[slot] = output.name;
  }
  return true;
}

/* Nodes that the outputs need; operands that come later are left to their rule. */
static bool *find_reached(const sx_graph *graph) {
  bool *reached = SX_NEW_N(graph->arena, bool, graph->nodes.n);
  for (size_t i = 0; i < graph->outputs.n; i++) reached[graph->outputs.items[i].node] = true;
  for (size_t i = graph->nodes.n; i-- > 0;) {
    const sx_node *node = &graph->nodes.items[i];
    for (uint32_t k = 0; reached[i] && k < node->n_inputs; k++)
      if (node->inputs[k] < i) reached[node->inputs[k]] = true;
  }
  return reached;
}

bool sx_graph_verify(const sx_graph *graph, sx_stage stage, sx_diags *diags) {
  uint32_t n_before = diags->n_errors;
  if (!verify_outputs(graph, diags)) return false;
  verifier v = {.graph = graph, .reached = find_reached(graph)};
  for (size_t i = 0; i < graph->nodes.n && diags->n_errors < SX_DIAG_LIMIT; i++) {
    v.id = (sx_id)i;
    v.node = &graph->nodes.items[i];
    v.why.message[0] = 0;
    const char *rule = broken_rule(&v, stage);
    if (rule)
      sx_error(diags, SX_E_RUN_GRAPH, v.node->span, "graph %s: %%%zu breaks the rule that %s: %s", graph->name, i, rule,
               v.why.message);
  }
  return diags->n_errors == n_before;
}
