/* Graphs: tables of dtypes and operations, adding and copying nodes, outputs, extraction. */
#include "ir.h"

#include <string.h>

#include "../../kernels/math.h"
#include "../base/bug.h"
#include "infer.h"

static const struct {
  const char *name;
  size_t n_bytes;
  bool is_float;
} dtypes[SX_N_DTYPES] = {[SX_F32] = {"f32", 4, true},  [SX_BF16] = {"bf16", 2, true}, [SX_F16] = {"f16", 2, true},
                         [SX_I32] = {"i32", 4, false}, [SX_U8] = {"u8", 1, false},    [SX_BOOL] = {"bool", 1, false}};

const char *sx_dtype_name(sx_dtype dtype) { return dtypes[dtype].name; }
size_t sx_dtype_bytes(sx_dtype dtype) { return dtypes[dtype].n_bytes; }
bool sx_dtype_is_float(sx_dtype dtype) { return dtypes[dtype].is_float; }

bool sx_dtype_parse(const char *name, sx_dtype *dtype) {
  for (int i = 0; i < SX_N_DTYPES; i++) {
    if (strcmp(dtypes[i].name, name) != 0) continue;
    *dtype = (sx_dtype)i;
    return true;
  }
  return false;
}

/* The f32 below in magnitude or equal, its last bit set where it is not equal: rounding that once more,
 * to a narrower format, rounds the value itself. */
static float round_to_odd(double value) {
  float nearest = (float)value;
  if (value != value || (double)nearest == value) return nearest;
  uint32_t bits = sx_bits_f32(nearest);
  if (sx_abs_f64((double)nearest) > sx_abs_f64(value)) bits--;
  return sx_from_bits_f32(bits | 1u);
}

double sx_dtype_round(sx_dtype dtype, double value) {
  switch (dtype) {
    case SX_F32:
      return (double)sx_canonical_f32((float)value);
    case SX_BF16:
      return (double)sx_f32_from_bf16(sx_bf16_from_f32(round_to_odd(value)));
    case SX_F16:
      return (double)sx_f32_from_f16(sx_f16_from_f32(round_to_odd(value)));
    case SX_I32:
      return value != value           ? 0
             : value >= 2147483647.0  ? 2147483647.0
             : value <= -2147483648.0 ? -2147483648.0
                                      : (double)(int32_t)value;
    case SX_U8:
      return !(value > 0) ? 0 : value >= 255 ? 255 : (double)(uint8_t)value;
    case SX_BOOL:
      return value != 0 ? 1 : 0;
    default:
      SX_BUG("no dtype %d", (int)dtype);
  }
}

static const sx_op_info ops[SX_N_OPS] = {
#define SX_OP(id, name, n_inputs, class, dtype, shape, gradient, attributes, text) \
  [SX_OP_##id] = {name, n_inputs, SX_CLASS_##class, attributes, text},
#include "ops.def"
#undef SX_OP
};

const sx_op_info *sx_op_describe(sx_op op) { return &ops[op]; }

bool sx_op_parse(const char *name, sx_op *op) {
  for (int i = 0; i < SX_N_OPS; i++) {
    if (strcmp(ops[i].name, name) != 0) continue;
    *op = (sx_op)i;
    return true;
  }
  return false;
}

sx_attributes sx_op_attributes(sx_op op) {
  sx_attributes layout = {0};
  bool in_list = false;
  for (const char *at = ops[op].attributes; *at;) {
    const char *name = at[1] == ':' ? at + 2 : at;
    char kind = at[1] == ':' ? at[0] : 'I';
    size_t length = strcspn(name, ",");
    sx_attribute attribute = {kind, name, length};
    in_list = in_list || kind == 'I';
    if (kind == 'i') layout.n_fixed++;
    if (kind == 'I') layout.n_lists++;
    if (kind == 'r') layout.has_real = true;
    if (kind == 't') layout.has_text = true;
    SX_ASSERT(layout.n < SX_ATTRIBUTES_MAX && (!in_list || kind == 'I'));
    layout.items[layout.n++] = attribute;
    at = name + length + (name[length] == ',');
  }
  return layout;
}

sx_graph *sx_graph_new(sx_arena *arena, sx_intern *names, const char *name) {
  sx_graph *graph = SX_NEW(arena, sx_graph);
  *graph = (sx_graph){.arena = arena, .names = names, .name = sx_intern_text(names, name), .path = ""};
  return graph;
}

int64_t sx_node_elements(const sx_node *node) {
  int64_t n = 1;
  for (int i = 0; i < node->rank; i++) n *= node->dims[i];
  return n;
}

bool sx_shape_equal(const sx_node *a, const sx_node *b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i]) return false;
  return true;
}

void sx_row_major(int64_t *strides, const int64_t *dims, int rank) {
  int64_t stride = 1;
  for (int axis = rank - 1; axis >= 0; axis--) {
    strides[axis] = stride;
    stride *= dims[axis];
  }
}

static sx_id push(sx_graph *graph, sx_node node) {
  if (graph->nodes.n >= SX_NO_NODE - 1) sx_memory_fail(graph->arena->memory);
  SX_PUSH(graph->arena, graph->nodes, node);
  return (sx_id)(graph->nodes.n - 1);
}

static void *copy(sx_arena *arena, const void *items, size_t n, size_t item_bytes) {
  if (n == 0) return NULL;
  return memcpy(sx_arena_take(arena, n, item_bytes), items, n * item_bytes);
}

bool sx_graph_try(sx_graph *graph, const sx_spec *spec, sx_id *id, sx_problem *why) {
  sx_inference inferred;
  if (!sx_infer(&inferred, graph, spec, why)) return false;
  *id = push(graph, (sx_node){.op = spec->op,
                              .dtype = inferred.dtype,
                              .rank = inferred.rank,
                              .n_inputs = spec->n_inputs,
                              .n_ints = spec->n_ints,
                              .dims = copy(graph->arena, inferred.dims, (size_t)inferred.rank, sizeof(int64_t)),
                              .inputs = copy(graph->arena, spec->inputs, spec->n_inputs, sizeof(sx_id)),
                              .ints = copy(graph->arena, spec->ints, spec->n_ints, sizeof(int64_t)),
                              .real = spec->real == spec->real ? spec->real : sx_dtype_round(SX_F32, spec->real),
                              .text = spec->text ? sx_intern_text(graph->names, spec->text) : NULL,
                              .span = graph->span,
                              .path = graph->path});
  return true;
}

sx_id sx_graph_add(sx_graph *graph, const sx_spec *spec) {
  sx_problem why;
  sx_id id;
  if (!sx_graph_try(graph, spec, &id, &why)) SX_BUG("%s: %s", sx_op_describe(spec->op)->name, why.message);
  return id;
}

sx_id sx_graph_copy(sx_graph *graph, const sx_node *node, const sx_id *inputs) {
  sx_node copied = *node;
  copied.inputs = copy(graph->arena, inputs, node->n_inputs, sizeof(sx_id));
  return push(graph, copied);
}

void sx_graph_output(sx_graph *graph, const char *name, sx_id node) {
  SX_ASSERT(node < graph->nodes.n);
  sx_output output = {sx_intern_text(graph->names, name), node};
  SX_PUSH(graph->arena, graph->outputs, output);
}

sx_id sx_graph_find_output(const sx_graph *graph, const char *name) {
  for (size_t i = 0; i < graph->outputs.n; i++)
    if (strcmp(graph->outputs.items[i].name, name) == 0) return graph->outputs.items[i].node;
  return SX_NO_NODE;
}

sx_graph *sx_graph_like(const sx_graph *graph, const char *name) {
  sx_graph *like = sx_graph_new(graph->arena, graph->names, name);
  like->n_draws = graph->n_draws;
  like->nodes.room = graph->nodes.n;
  like->nodes.items = sx_arena_take_raw(graph->arena, like->nodes.room, sizeof(sx_node));
  return like;
}

sx_graph *sx_graph_extract(const sx_graph *graph, const char *name, const sx_output *outputs, size_t n_outputs) {
  size_t n = graph->nodes.n;
  bool *needed = SX_NEW_N(graph->arena, bool, n);
  sx_id *map = SX_NEW_N(graph->arena, sx_id, n);
  for (size_t i = 0; i < n_outputs; i++) needed[outputs[i].node] = true;
  for (size_t i = n; i-- > 0;) {
    const sx_node *node = &graph->nodes.items[i];
    for (uint32_t k = 0; needed[i] && k < node->n_inputs; k++) needed[node->inputs[k]] = true;
  }
  sx_graph *extracted = sx_graph_like(graph, name);
  for (size_t i = 0; i < n; i++)
    if (needed[i]) map[i] = sx_graph_copy_mapped(extracted, &graph->nodes.items[i], map);
  for (size_t i = 0; i < n_outputs; i++) sx_graph_output(extracted, outputs[i].name, map[outputs[i].node]);
  return extracted;
}

sx_id sx_graph_copy_mapped(sx_graph *graph, const sx_node *node, const sx_id *map) {
  sx_node copied = *node;
  copied.inputs = copy(graph->arena, node->inputs, node->n_inputs, sizeof(sx_id));
  for (uint32_t k = 0; k < node->n_inputs; k++) copied.inputs[k] = map[node->inputs[k]];
  return push(graph, copied);
}
