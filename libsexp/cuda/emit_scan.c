/* Scans: a thread a line, in order. The carried value stays in f32 for short floats. */
#include <inttypes.h>

#include "emit_parts.h"

/* Declares where the line of an operand begins. Gives the stride along the axis. */
static int64_t find_line(sx_emitter *e, sx_id id, int axis, const char *name) {
  const sx_node *node = sx_node_at(e->lowering->plan->graph, id);
  const int64_t *strides = e->lowering->plan->views[id].strides;
  sx_path path, along;
  sx_path_lines(node->dims, strides, node->rank, axis, &path, &along);
  sx_emit_place(e, &path, "i", sx_format(e->arena, "%s_line", name));
  return strides[axis];
}

static const char *step_of(const sx_node *node) {
  if (node->op == SX_OP_SCANLINEAR) return "__fmaf_rn(x0, carried, x1)";
  return sx_dtype_is_float(node->dtype) ? "carried + x0" : "sx_wrap_add(carried, x0)";
}

void sx_emit_scan(sx_lowering *l, uint32_t task, sx_id id) {
  const sx_node *node = sx_node_at(l->plan->graph, id);
  int axis = (int)node->ints[0];
  uint32_t n_values = node->op == SX_OP_SCANLINEAR ? 2 : 1;
  bool segments = node->n_inputs > n_values;
  int64_t n = sx_node_elements(node), length = node->dims[axis];
  if (!n) return;
  const char *type = sx_emit_register(node->dtype);
  sx_emitter e;
  sx_emit_begin(&e, l, task, id);
  sx_emit_output(&e, "out", id);
  for (uint32_t k = 0; k < node->n_inputs; k++) sx_emit_input(&e, sx_format(e.arena, "p%u", k), node->inputs[k]);
  e.flops = (double)n * (double)n_values;
  sx_emit_each(&e, n / length);
  int64_t out_step = find_line(&e, id, axis, "out"), steps[3] = {0};
  for (uint32_t k = 0; k < node->n_inputs; k++)
    steps[k] = find_line(&e, node->inputs[k], axis, sx_format(e.arena, "p%u", k));
  sx_emit_add(&e, "  %s carried = 0;\n", type);
  if (segments) sx_emit_add(&e, "  int last = 0;\n");
  sx_emit_add(&e, "#pragma unroll 8\n  for (J k = 0; k < %" PRId64 "; k++) {\n", length);
  if (node->ints[1])
    sx_emit_add(&e, "  const J t = %" PRId64 " - k;\n", length - 1);
  else
    sx_emit_add(&e, "  const J t = k;\n");
  for (uint32_t k = 0; k < node->n_inputs; k++)
    sx_emit_add(&e, "  const %s x%u = sx_get(p%u[p%u_line + t * (J)%" PRId64 "]);\n", k < n_values ? type : "int", k, k,
                k, steps[k]);
  sx_emit_add(&e, "  carried = k == 0%s ? x%u : %s;\n", segments ? sx_format(e.arena, " || x%u != last", n_values) : "",
              n_values - 1, step_of(node));
  if (segments) sx_emit_add(&e, "  last = x%u;\n", n_values);
  sx_emit_add(&e, "  out[out_line + t * (J)%" PRId64 "] = sx_made<%s>(carried);\n  }\n", out_step,
              sx_emit_type(node->dtype));
  sx_emit_end_each(&e, node->op == SX_OP_SCANLINEAR ? "linear_scan" : "cumsum", n / length);
}
