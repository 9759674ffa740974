/* Lowering of the three convolutions. */
#include "convolve.h"

#include <inttypes.h>

enum { OPERAND_ALIGNMENT = 16 /* as cuDNN is told */ };

/* ---- keys --------------------------------------------------------------------------------------- */

/* The nodes of image and kernel, whatever the role, and of what the operation reads and writes of them. */
typedef struct tensors {
  const sx_node *x, *w, *y;
} tensors;

static bool is_convolution(sx_role *role, sx_op op) {
  *role = op == SX_OP_CONV ? SX_ROLE_FORWARD : op == SX_OP_CONVDATA ? SX_ROLE_DATA : SX_ROLE_WEIGHT;
  return op == SX_OP_CONV || op == SX_OP_CONVDATA || op == SX_OP_CONVWEIGHT;
}

static tensors tensors_of(const sx_graph *graph, const sx_node *node, sx_role role) {
  const sx_node *first = sx_node_at(graph, node->inputs[0]), *second = sx_node_at(graph, node->inputs[1]);
  if (role == SX_ROLE_FORWARD) return (tensors){first, second, node};
  if (role == SX_ROLE_DATA) return (tensors){node, second, first};
  return (tensors){second, node, first};
}

bool sx_convolution_of(sx_convolution *made, const sx_plan *plan, uint32_t task) {
  const sx_task *at = &plan->tasks.items[task];
  if (at->kind != SX_TASK_NODE) return false;
  const sx_node *node = sx_node_at(plan->graph, at->nodes[0]);
  sx_role role;
  if (!is_convolution(&role, node->op) || (node->dtype != SX_F32 && node->dtype != SX_BF16)) return false;
  tensors t = tensors_of(plan->graph, node, role);
  *made = (sx_convolution){role,         t.x->dims[0], t.x->dims[1],  t.x->dims[2],  t.x->dims[3], t.w->dims[1],
                           t.w->dims[2], t.w->dims[0], node->ints[0], node->ints[1], node->dtype};
  return !sx_convolution_check(made) && sx_convolution_out_height(made) == t.y->dims[1] &&
         sx_convolution_out_width(made) == t.y->dims[2];
}

/* ---- lowering ----------------------------------------------------------------------------------- */

/* The operand where cuDNN can read it: where it lies, or copied to scratch. */
static sx_place lower_operand(sx_lowering *lowering, const sx_contraction *of, uint32_t input, int64_t *used) {
  sx_id id = sx_node_at(lowering->plan->graph, of->node)->inputs[input];
  const sx_node *node = sx_node_at(lowering->plan->graph, id);
  sx_place from = of->operands[input];
  if (sx_view_is_contiguous(&lowering->plan->views[id], node) && from.offset % OPERAND_ALIGNMENT == 0) return from;
  sx_strided tensor = sx_strided_of(lowering->plan, id);
  int64_t n_bytes = sx_node_elements(node) * (int64_t)sx_dtype_bytes(node->dtype);
  sx_place to = sx_lowering_scratch(lowering, *used, n_bytes);
  sx_lower_copy(lowering, of, &tensor, from, to);
  *used = to.offset + n_bytes;
  return to;
}

static const char *text_of(const sx_convolution *c, const char *engine, sx_arena *arena) {
  sx_text text;
  sx_text_init(&text, arena);
  sx_convolution_print(&text, c);
  sx_text_addf(&text, ", cuDNN %s", engine);
  return sx_text_get(&text);
}

static void lower_engine(sx_lowering *lowering, const sx_contraction *of, const sx_convolution *convolution,
                         const char *engine) {
  int64_t used = 0;
  sx_place first = lower_operand(lowering, of, 0, &used), second = lower_operand(lowering, of, 1, &used);
  sx_convolve *convolve = SX_NEW(lowering->arena, sx_convolve);
  *convolve = (sx_convolve){.convolution = *convolution, .engine = engine, .arena = lowering->arena};
  convolve->text = text_of(convolution, engine, lowering->arena);
  sx_place places[SX_N_ROLES][3] = {
      {first, second, of->result}, {of->result, second, first}, {second, of->result, first}};
  convolve->x = places[convolution->role][0];
  convolve->w = places[convolution->role][1];
  convolve->y = places[convolution->role][2];
  sx_work *work = sx_lowering_add(lowering, SX_WORK_CONVOLVE, of->task, of->node);
  work->convolve = convolve;
  const sx_contract *c = &of->contract;
  work->flops = 2.0 * (double)c->rows.count * (double)c->columns.count * (double)c->depth.count;
  const sx_convolution *k = convolution;
  double x = (double)(k->batch * k->height * k->width * k->channels),
         w = (double)(k->out * k->kh * k->kw * k->channels);
  double y = (double)(k->batch * sx_convolution_out_height(k) * sx_convolution_out_width(k) * k->out);
  work->bytes = (x + w + y) * (double)sx_dtype_bytes(k->dtype);
}

static const char *engine_of(const sx_lowering *lowering, const sx_convolution *convolution) {
  if (lowering->portable || !lowering->decided) return NULL;
  sx_text key;
  sx_text_init(&key, lowering->arena);
  sx_convolution_print(&key, convolution);
  return lowering->decided(lowering->options, "convolution", sx_text_get(&key));
}

bool sx_lower_convolution(sx_lowering *lowering, uint32_t task) {
  const sx_plan *plan = lowering->plan;
  sx_id id = plan->tasks.items[task].nodes[0];
  const sx_node *node = sx_node_at(plan->graph, id);
  sx_strided inputs[2] = {sx_strided_of(plan, node->inputs[0]), sx_strided_of(plan, node->inputs[1])};
  sx_contraction of = {.task = task,
                       .node = id,
                       .contract = sx_contract_of(node, inputs),
                       .operands = {sx_place_of(lowering, node->inputs[0]), sx_place_of(lowering, node->inputs[1])},
                       .result = sx_place_of(lowering, id)};
  sx_convolution convolution;
  const char *engine = sx_convolution_of(&convolution, plan, task) ? engine_of(lowering, &convolution) : NULL;
  if (!engine) return sx_lower_contraction(lowering, &of);
  lower_engine(lowering, &of, &convolution, engine);
  return true;
}
