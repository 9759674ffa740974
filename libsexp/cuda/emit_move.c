/* Movements: elements as bits of 1, 2 or 4 bytes, from where a view sees them to where they are wanted. */
#include <inttypes.h>

#include "emit_parts.h"

enum { FOUR = 4, TILE = 32, TILE_LEAST = 8 };

/* ---- copies --------------------------------------------------------------------------------------- */

/* A loop of stride 1 that is not the last one, where a square of it and the last is worth going through shared memory;
 * -1: there is none. */
static int crossed_loop(const sx_path *from) {
  int last = from->rank - 1;
  if (from->strides[last] == 1 || from->strides[last] == 0 || from->dims[last] < TILE_LEAST) return -1;
  for (int i = 0; i < last; i++)
    if (from->strides[i] == 1 && from->dims[i] >= TILE_LEAST) return i;
  return -1;
}

/* `from` as square tiles over loops `a`, the last, and `b`, along which memory runs; `to` is in order. */
static void copy_tiles(sx_emitter *e, const sx_path *from, int b, const char *bits) {
  int a = from->rank - 1, n_outer = 0;
  int64_t dims[SX_RANK_MAX], strides[SX_RANK_MAX], to_strides[SX_RANK_MAX], to_stride_b = 1;
  int64_t stride = 1, all_strides[SX_RANK_MAX];
  for (int i = a; i >= 0; i--) {
    all_strides[i] = stride;
    stride *= from->dims[i];
  }
  to_stride_b = all_strides[b];
  for (int i = 0; i < a; i++) {
    if (i == b) continue;
    dims[n_outer] = from->dims[i];
    strides[n_outer] = from->strides[i];
    to_strides[n_outer++] = all_strides[i];
  }
  sx_path outer = sx_path_make(dims, strides, n_outer), to_outer = sx_path_make(dims, to_strides, n_outer);
  int64_t tiles_a = (from->dims[a] + TILE - 1) / TILE, tiles_b = (from->dims[b] + TILE - 1) / TILE;
  sx_emit_add(e, "  __shared__ %s tile[32][33];\n  U rest = blockIdx.x;\n", bits);
  sx_emit_add(e, "  const int x = threadIdx.x %% 32, y = threadIdx.x / 32;\n");
  sx_emit_add(e, "  const J a0 = (J)(rest %% %" PRId64 ") * 32;\n  rest /= %" PRId64 ";\n", tiles_a, tiles_a);
  sx_emit_add(e, "  const J b0 = (J)(rest %% %" PRId64 ") * 32;\n  rest /= %" PRId64 ";\n", tiles_b, tiles_b);
  sx_emit_place(e, &outer, "rest", "from_base");
  sx_emit_place(e, &to_outer, "rest", "to_base");
  sx_emit_add(e, "#pragma unroll\n  for (int k = y; k < 32; k += 8)\n");
  sx_emit_add(e, "    if (a0 + k < %" PRId64 " && b0 + x < %" PRId64 ")", from->dims[a], from->dims[b]);
  sx_emit_add(e, " tile[k][x] = from[from_base + (a0 + k) * (J)%" PRId64 " + b0 + x];\n", from->strides[a]);
  sx_emit_add(e, "  __syncthreads();\n#pragma unroll\n  for (int k = y; k < 32; k += 8)\n");
  sx_emit_add(e, "    if (a0 + x < %" PRId64 " && b0 + k < %" PRId64 ")", from->dims[a], from->dims[b]);
  sx_emit_add(e, " to[to_base + (b0 + k) * (J)%" PRId64 " + a0 + x] = tile[x][k];\n", to_stride_b);
  int64_t blocks = tiles_a * tiles_b * outer.n;
  sx_emit_end(e, "transpose", (int64_t[]){blocks, 1, 1}, SX_EMIT_THREADS);
}

static void copy_fours(sx_emitter *e, int64_t n, const char *bits) {
  sx_emit_i64(e, "n", n);
  sx_emit_add(e, "  const U i = ((U)blockIdx.x * %d + threadIdx.x) * 4;\n", SX_EMIT_THREADS);
  sx_emit_add(e, "  if (i + 4 <= (U)n) *(sx_four<%s> *)(to + i) = *(const sx_four<%s> *)(from + i);\n", bits, bits);
  sx_emit_add(e, "  else for (U k = i; k < (U)n; k++) to[k] = from[k];\n");
  sx_emit_end_each(e, "copy", (n + FOUR - 1) / FOUR);
}

/* Whether four neighbours of every loop's last axis lie side by side, at multiples of four. */
static bool is_fourfold(const sx_path *path) {
  int last = path->rank - 1;
  if (path->strides[last] != 1 || path->dims[last] % FOUR) return false;
  for (int i = 0; i < last; i++)
    if (path->strides[i] % FOUR) return false;
  return true;
}

/* `of`: elements that are moved as one. */
static void move_each(sx_emitter *e, const sx_path *from, const sx_path *into, const char *bits, int of) {
  sx_emit_each(e, from->n / of);
  sx_emit_add(e, "  const U at = i * %d;\n", of);
  sx_emit_place(e, from, "at", "a");
  sx_emit_place(e, into, "at", "b");
  if (of == FOUR)
    sx_emit_add(e, "  *(sx_four<%s> *)(to + b) = *(const sx_four<%s> *)(from + a);\n", bits, bits);
  else
    sx_emit_add(e, "  to[b] = from[a];\n");
  sx_emit_end_each(e, "move", from->n / of);
}

void sx_emit_copy(sx_lowering *l, uint32_t task, sx_id id, sx_id source, sx_place to, const int64_t *to_strides) {
  const sx_node *node = sx_node_at(l->plan->graph, source);
  const sx_view *view = &l->plan->views[source];
  sx_path from = sx_path_of(l->plan, source), into = sx_path_make(node->dims, to_strides, node->rank);
  int64_t n_bytes = (int64_t)sx_dtype_bytes(node->dtype);
  const char *bits = sx_emit_bits(node->dtype);
  if (!from.n) return;
  sx_emitter e;
  sx_emit_begin(&e, l, task, id);
  sx_emit_pointer(&e, "to", bits, to, true);
  sx_emit_pointer(&e, "from", bits, sx_place_of(l, source), false);
  sx_emit_reach(&e, &from);
  sx_emit_reach(&e, &into);
  e.bytes = (double)n_bytes * (double)(from.n + sx_path_distinct(&from));
  bool in_order = sx_path_is_contiguous(&into), aligned = view->offset % FOUR == 0 && to.offset % (FOUR * n_bytes) == 0;
  if (in_order && sx_path_is_contiguous(&from) && aligned) {
    copy_fours(&e, from.n, bits);
  } else if (in_order && crossed_loop(&from) >= 0) {
    copy_tiles(&e, &from, crossed_loop(&from), bits);
  } else {
    move_each(&e, &from, &into, bits, aligned && is_fourfold(&from) && is_fourfold(&into) ? FOUR : 1);
  }
}

void sx_emit_reshape(sx_lowering *l, uint32_t task, sx_id id) {
  sx_id input = sx_node_at(l->plan->graph, id)->inputs[0];
  int64_t strides[SX_RANK_MAX];
  const sx_node *from = sx_node_at(l->plan->graph, input);
  sx_row_major(strides, from->dims, from->rank);
  sx_emit_copy(l, task, id, input, sx_place_of(l, id), strides);
}

/* Each input is copied to its part of the result. */
void sx_emit_concat(sx_lowering *l, uint32_t task, sx_id id) {
  const sx_node *node = sx_node_at(l->plan->graph, id);
  int64_t axis = node->ints[0], strides[SX_RANK_MAX], n_bytes = (int64_t)sx_dtype_bytes(node->dtype);
  sx_row_major(strides, node->dims, node->rank);
  sx_place to = sx_place_of(l, id);
  for (uint32_t k = 0; k < node->n_inputs; k++) {
    sx_emit_copy(l, task, id, node->inputs[k], to, strides);
    to.offset += sx_node_at(l->plan->graph, node->inputs[k])->dims[axis] * strides[axis] * n_bytes;
  }
}

/* ---- PAD, FOLD ------------------------------------------------------------------------------------ */

void sx_emit_pad(sx_lowering *l, uint32_t task, sx_id id) {
  const sx_node *node = sx_node_at(l->plan->graph, id), *in = sx_node_at(l->plan->graph, node->inputs[0]);
  const int64_t *strides = l->plan->views[node->inputs[0]].strides;
  if (!sx_node_elements(node)) return;
  sx_emitter e;
  sx_emit_begin(&e, l, task, id);
  sx_emit_output(&e, "out", id);
  sx_emit_input(&e, "p0", node->inputs[0]);
  sx_emit_each(&e, sx_node_elements(node));
  sx_emit_add(&e, "  bool inside = true;\n  J at = 0;\n  U q = i;\n");
  for (int axis = node->rank - 1; axis >= 0; axis--) {
    int64_t step = node->ints[3 * axis + 2] + 1;
    sx_emit_add(&e, "  {\n    const J x = (J)(q %% %" PRId64 ") - (%" PRId64 ");\n    q /= %" PRId64 ";\n",
                node->dims[axis], node->ints[3 * axis], node->dims[axis]);
    sx_emit_add(&e, "    inside = inside && x >= 0 && x %% %" PRId64 " == 0 && x / %" PRId64 " < %" PRId64 ";\n", step,
                step, in->dims[axis]);
    sx_emit_add(&e, "    at += x / %" PRId64 " * %" PRId64 ";\n  }\n", step, strides[axis]);
  }
  sx_emit_add(&e, "  const %s padding = sx_made<%s>(%s);\n", sx_emit_type(node->dtype), sx_emit_type(node->dtype),
              sx_emit_literal(e.arena, node->dtype, node->real));
  sx_emit_add(&e, "  out[i] = inside ? p0[at] : padding;\n");
  sx_emit_end_each(&e, "pad", sx_node_elements(node));
}

/* The index of each axis of the node's own shape, from the last: d0, d1, ... */
static void add_digits(sx_emitter *e, const sx_node *node) {
  sx_emit_add(e, "  U q = i;\n");
  for (int axis = node->rank - 1; axis >= 0; axis--) {
    sx_emit_add(e, "  const J d%d = (J)(q %% %" PRId64 ");\n", axis, node->dims[axis]);
    if (axis) sx_emit_add(e, "  q /= %" PRId64 ";\n", node->dims[axis]);
  }
}

/* Windows that hold index d of the axis are those from (d - size) / step + 1 to d / step. */
void sx_emit_fold(sx_lowering *l, uint32_t task, sx_id id) {
  const sx_node *node = sx_node_at(l->plan->graph, id), *in = sx_node_at(l->plan->graph, node->inputs[0]);
  const int64_t *strides = l->plan->views[node->inputs[0]].strides;
  int axis = (int)node->ints[0];
  int64_t size = node->ints[1], step = node->ints[2], last = strides[in->rank - 1];
  if (!sx_node_elements(node)) return;
  bool is_float = sx_dtype_is_float(node->dtype);
  sx_emitter e;
  sx_emit_begin(&e, l, task, id);
  sx_emit_output(&e, "out", id);
  sx_emit_input(&e, "p0", node->inputs[0]);
  sx_emit_each(&e, sx_node_elements(node));
  add_digits(&e, node);
  sx_emit_add(&e, "  J base = 0;\n");
  for (int k = 0; k < node->rank; k++)
    if (k != axis) sx_emit_add(&e, "  base += d%d * %" PRId64 ";\n", k, strides[k]);
  sx_emit_add(&e, "  const J d = d%d;\n  J w = d < %" PRId64 " ? 0 : (d - %" PRId64 ") / %" PRId64 " + 1;\n", axis,
              size, size, step);
  sx_emit_add(&e, "  %s sum = 0;\n", is_float ? "float" : "int");
  sx_emit_add(&e, "  for (; w <= d / %" PRId64 " && w < %" PRId64 "; w++) {\n", step, in->dims[axis]);
  sx_emit_add(&e,
              "    const %s x = sx_get(p0[base + w * (J)%" PRId64 " + (d - w * (J)%" PRId64 ") * (J)%" PRId64 "]);\n",
              is_float ? "float" : "int", strides[axis], step, last);
  sx_emit_add(&e, "    sum = %s;\n  }\n", is_float ? "sum + x" : "sx_wrap_add(sum, x)");
  sx_emit_add(&e, "  out[i] = sx_made<%s>(sum);\n", sx_emit_type(node->dtype));
  sx_emit_end_each(&e, "unwindow", sx_node_elements(node));
}
