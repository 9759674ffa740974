/* (state name init f): a state tensor of the parameter that is being updated. */
#include <stdlib.h>
#include <string.h>

#include "model.h"

/* ---- the starting value: the needed part of the update graph as a graph of its own ---- */

/* Nodes met so far: open addressing over ids, so that the cost is that of the part alone. */
typedef struct id_map {
  sx_id *keys, *values; /* keys: id + 1, 0 where free */
  size_t n, room;
} id_map;

static size_t slot_of(const id_map *map, sx_id id) {
  size_t i = (size_t)(id * 2654435761u) & (map->room - 1);
  while (map->keys[i] && map->keys[i] != id + 1) i = (i + 1) & (map->room - 1);
  return i;
}

/* False: it was there. */
static bool map_add(id_map *map, sx_arena *arena, sx_id id) {
  if (map->n * 2 >= map->room) {
    size_t room = map->room ? map->room * 2 : 16;
    id_map larger = {SX_NEW_N(arena, sx_id, room), SX_NEW_N(arena, sx_id, room), map->n, room};
    for (size_t i = 0; i < map->room; i++)
      if (map->keys[i]) larger.keys[slot_of(&larger, map->keys[i] - 1)] = map->keys[i];
    *map = larger;
  }
  size_t slot = slot_of(map, id);
  if (map->keys[slot]) return false;
  map->keys[slot] = id + 1;
  map->n++;
  return true;
}

static int by_id(const void *a, const void *b) {
  sx_id x = *(const sx_id *)a, y = *(const sx_id *)b;
  return (x > y) - (x < y);
}

typedef SX_VEC(sx_id) id_list;

/* All nodes that `root` needs, ascending: inputs before those that use them. */
static id_list collect(const sx_graph *graph, sx_id root, id_map *map, sx_arena *arena) {
  id_list ids = {0};
  map_add(map, arena, root);
  SX_PUSH(arena, ids, root);
  for (size_t i = 0; i < ids.n; i++) {
    const sx_node *node = sx_node_at(graph, ids.items[i]);
    for (uint32_t k = 0; k < node->n_inputs; k++)
      if (map_add(map, arena, node->inputs[k])) SX_PUSH(arena, ids, node->inputs[k]);
  }
  qsort(ids.items, ids.n, sizeof *ids.items, by_id);
  return ids;
}

static bool may_start(const sx_call *call, const sx_node *node) {
  if (node->op != SX_OP_INPUT && node->op != SX_OP_STATE) return true;
  return sx_value_fail(call, &call->args[1], SX_E_PARAM_STATE,
                       "the starting value of a state may read parameters and draws, not %s", node->text);
}

static sx_graph *build_start(const sx_call *call, const char *name, sx_id root) {
  sx_evaluator *evaluator = call->evaluator;
  const sx_graph *update = evaluator->context.graph;
  sx_graph *graph = sx_graph_new(evaluator->arena, evaluator->names, sx_intern_text(evaluator->names, name));
  id_map map = {0};
  id_list ids = collect(update, root, &map, evaluator->arena);
  if (!sx_spend(evaluator, ids.n)) return NULL;
  for (size_t i = 0; i < ids.n; i++) {
    const sx_node *node = sx_node_at(update, ids.items[i]);
    if (!may_start(call, node)) return NULL;
    sx_id *inputs = SX_NEW_N(evaluator->arena, sx_id, node->n_inputs);
    for (uint32_t k = 0; k < node->n_inputs; k++) inputs[k] = map.values[slot_of(&map, node->inputs[k])];
    map.values[slot_of(&map, ids.items[i])] = sx_graph_copy(graph, node, inputs);
  }
  graph->n_draws = update->n_draws;
  sx_graph_output(graph, "value", map.values[slot_of(&map, root)]);
  return graph;
}

/* ---- declaring ---- */

static bool check_new(const sx_call *call, const char *path, sx_span span) {
  sx_evaluator *evaluator = call->evaluator;
  const sx_span *earlier = sx_name_map_get(&evaluator->state_names, path);
  if (earlier) {
    sx_diag *diag = sx_fail(evaluator, SX_E_PARAM_STATE, span, "state %s is declared twice", path);
    diag->second_span = *earlier;
    diag->second_label = "first declared here";
    return false;
  }
  sx_span *kept = SX_NEW(evaluator->arena, sx_span);
  *kept = span;
  sx_name_map_set(&evaluator->state_names, evaluator->arena, path, kept);
  return true;
}

bool sx_state_builtin(sx_call *call, sx_value *result) {
  sx_evaluator *evaluator = call->evaluator;
  sx_arena *arena = evaluator->arena;
  const char *name;
  sx_id start;
  sx_graph *graph = sx_call_graph(call);
  if (!graph) return false;
  if (evaluator->context.place != SX_PLACE_UPDATE)
    return sx_call_fail(call, SX_E_EVAL_PLACE, "a state belongs to an optimizer, the function of :optimizer");
  if (!sx_get_text(call, &call->args[0], "the name", &name)) return false;
  if (!sx_get_operand(call, &call->args[1], SX_F32, &start)) return false;
  if (!sx_get_function(call, &call->args[2], "the new value")) return false;
  const char *path =
      sx_intern_text(evaluator->names, sx_format(arena, "%s/%s", name, evaluator->context.parameter->param.path));
  if (!*name) return sx_expected(call, &call->args[0], "a name");
  if (!check_new(call, path, graph->span)) return false;
  const sx_node *node = sx_node_at(graph, start);
  sx_state state = {.path = path, .dtype = node->dtype, .rank = node->rank, .dims = node->dims, .span = graph->span};
  state.init = build_start(call, sx_format(arena, "init-state/%s", path), start);
  sx_value old, value, given;
  sx_spec spec = {.op = SX_OP_STATE, .dtype = state.dtype, .rank = state.rank, .dims = state.dims, .text = path};
  if (!state.init || !sx_add_node(call, &spec, &old)) return false;
  if (!sx_apply(evaluator, &call->args[2], &old, 1, &value)) return false;
  if (value.kind == SX_KIND_TENSOR && sx_value_node(&value)->dtype != state.dtype)
    return sx_value_fail(call, &call->args[2], SX_E_PARAM_STATE, "state %s starts as %s and becomes %s", path,
                         sx_dtype_name(state.dtype), sx_dtype_name(sx_value_node(&value)->dtype));
  if (!sx_give_value(evaluator, sx_call_graph(call), &value, state.dtype, state.rank, state.dims,
                     sx_format(arena, "the new value of state %s", path), &given))
    return false;
  sx_graph_output(graph, sx_format(arena, "state/%s", path), given.n);
  SX_PUSH(arena, evaluator->program->states, state);
  *result = given;
  return true;
}
