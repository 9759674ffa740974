/* Reductions that are tasks of their own.
 *
 * A result folds its elements in chunks of 4096, by 32 lanes a chunk, and then its chunks by the same rule, so a long
 * one is several launches through the scratch. Where lanes are, depends on how elements lie:
 *
 *   rows      a warp a chunk; its lanes are the sum's. Elements of a result lie side by side.
 *   columns   a block of 32 warps a chunk of 32 results; warp j is lane j of each. Results lie side by side.
 *   threads   a thread a result, its lanes in registers. Short results.
 *
 * Other reductions than sums do not depend on the order and take the same ways. */
#include <inttypes.h>

#include "emit_parts.h"

enum { LANES = 32, CHUNK = 4096, SHORT = 64, MANY = 1024, COLUMNS_LEAST = 16 };

/* A stage: `n_in` elements at kept(r) + reduced(k) into each of n_out results. */
typedef struct stage {
  sx_path kept, reduced;
  sx_place from, to;
  const char *from_type, *to_type, *fold;
  bool by_columns;
} stage;

static void split_axes(const sx_plan *plan, sx_id id, sx_path *kept, sx_path *reduced) {
  const sx_node *node = sx_node_at(plan->graph, id), *in = sx_node_at(plan->graph, node->inputs[0]);
  const int64_t *strides = plan->views[node->inputs[0]].strides;
  int64_t dims[2][SX_RANK_MAX], steps[2][SX_RANK_MAX];
  int n[2] = {0, 0};
  for (int axis = 0; axis < in->rank; axis++) {
    int which = 0;
    for (uint32_t k = 0; k < node->n_ints; k++) which = which || node->ints[k] == axis;
    dims[which][n[which]] = in->dims[axis];
    steps[which][n[which]++] = strides[axis];
  }
  *kept = sx_path_make(dims[0], steps[0], n[0]);
  *reduced = sx_path_make(dims[1], steps[1], n[1]);
}

static int64_t innermost(const sx_path *path) {
  int64_t stride = path->strides[path->rank - 1];
  if (path->n <= 1) return INT64_MAX;
  return stride < 0 ? -stride : stride;
}

static void begin_stage(sx_emitter *e, const stage *s) {
  sx_emit_pointer(e, "p0", s->from_type, s->from, false);
  sx_emit_pointer(e, "out", s->to_type, s->to, true);
  sx_emit_reach(e, &s->kept);
  sx_emit_reach(e, &s->reduced);
  sx_emit_count(e, sx_path_reach(&s->kept) + sx_path_reach(&s->reduced));
  e->flops = (double)s->kept.n * (double)s->reduced.n;
  e->bytes = 4.0 * (double)sx_path_distinct(&s->kept) * (double)sx_path_distinct(&s->reduced) + 4.0 * (double)s->kept.n;
  sx_emit_add(e, "  typedef %s F;\n", s->fold);
}

static void by_threads(sx_emitter *e, const stage *s) {
  int64_t n = s->reduced.n, lanes = n < LANES ? n : LANES;
  begin_stage(e, s);
  sx_emit_each(e, s->kept.n);
  sx_emit_place(e, &s->kept, "i", "base");
  sx_emit_add(e, "  F::T lanes[%" PRId64 "];\n#pragma unroll\n  for (int k = 0; k < %" PRId64 "; k++) {\n", lanes, n);
  sx_emit_place(e, &s->reduced, "(U)k", "at");
  sx_emit_add(e, "  const F::T x = sx_get(p0[base + at]);\n");
  sx_emit_add(e, "  lanes[k %% 32] = k < 32 ? x : F::join(lanes[k %% 32], x);\n  }\n");
  sx_emit_add(e, "  out[i] = sx_made<%s>(sx_tree<F, %" PRId64 ">(lanes));\n", s->to_type, lanes);
  sx_emit_end_each(e, "fold_threads", s->kept.n);
}

/* Results of chunks lie [result chunk]. */
static void by_rows(sx_emitter *e, const stage *s) {
  int64_t chunks = (s->reduced.n + CHUNK - 1) / CHUNK, n = s->kept.n * chunks;
  begin_stage(e, s);
  sx_emit_count(e, n * LANES);
  sx_emit_add(e, "  const U w = (U)blockIdx.x * %d + threadIdx.x / 32;\n  const int lane = threadIdx.x %% 32;\n",
              SX_EMIT_THREADS / LANES);
  sx_emit_add(e, "  if (w >= %" PRId64 ") return;\n", n);
  sx_emit_add(e, "  const U r = w / %" PRId64 ", begin = w %% %" PRId64 " * %d;\n", chunks, chunks, CHUNK);
  sx_emit_add(e, "  const U end = begin + %d < %" PRId64 " ? begin + %d : %" PRId64 ";\n", CHUNK, s->reduced.n, CHUNK,
              s->reduced.n);
  sx_emit_place(e, &s->kept, "r", "base");
  sx_emit_add(e, "  F::T x = F::none();\n#pragma unroll 8\n  for (U k = begin + lane; k < end; k += 32) {\n");
  sx_emit_place(e, &s->reduced, "k", "at");
  sx_emit_add(e, "  x = F::join(x, sx_get(p0[base + at]));\n  }\n  x = sx_warp_join<F>(x);\n");
  sx_emit_add(e, "  if (lane == 0) out[w] = sx_made<%s>(x);\n", s->to_type);
  sx_emit_end(e, "fold_rows", (int64_t[]){(n * LANES + SX_EMIT_THREADS - 1) / SX_EMIT_THREADS, 1, 1}, SX_EMIT_THREADS);
}

/* Results of chunks lie [chunk result]. */
static void by_columns(sx_emitter *e, const stage *s) {
  int64_t chunks = (s->reduced.n + CHUNK - 1) / CHUNK, tiles = (s->kept.n + LANES - 1) / LANES;
  begin_stage(e, s);
  sx_emit_count(e, s->kept.n * chunks);
  sx_emit_add(e, "  __shared__ F::T lanes[32][33];\n");
  sx_emit_add(e,
              "  const U c = (U)blockIdx.x / %" PRId64 ", r = (U)blockIdx.x %% %" PRId64 " * 32 + threadIdx.x %% 32;\n",
              tiles, tiles);
  sx_emit_add(e, "  const U begin = c * %d, end = begin + %d < %" PRId64 " ? begin + %d : %" PRId64 ";\n", CHUNK, CHUNK,
              s->reduced.n, CHUNK, s->reduced.n);
  sx_emit_add(e, "  F::T x = F::none();\n  if (r < %" PRId64 ") {\n", s->kept.n);
  sx_emit_place(e, &s->kept, "r", "base");
  sx_emit_add(e, "#pragma unroll 8\n  for (U k = begin + threadIdx.x / 32; k < end; k += 32) {\n");
  sx_emit_place(e, &s->reduced, "k", "at");
  sx_emit_add(e, "  x = F::join(x, sx_get(p0[base + at]));\n  }\n  }\n  x = sx_columns_join<F>(x, lanes);\n");
  sx_emit_add(e, "  if (threadIdx.x < 32 && r < %" PRId64 ") out[c * %" PRId64 " + r] = sx_made<%s>(x);\n", s->kept.n,
              s->kept.n, s->to_type);
  sx_emit_end(e, "fold_columns", (int64_t[]){chunks * tiles, 1, 1}, LANES * LANES);
}

static void emit_stage(sx_lowering *l, uint32_t task, sx_id id, const stage *s) {
  sx_emitter e;
  sx_emit_begin(&e, l, task, id);
  bool is_short = s->reduced.n <= SHORT && (s->kept.n >= MANY || s->reduced.n <= LANES / 2);
  if (is_short)
    by_threads(&e, s);
  else if (s->by_columns)
    by_columns(&e, s);
  else
    by_rows(&e, s);
}

/* What a result is of no elements. */
static void emit_empty(sx_lowering *l, uint32_t task, sx_id id, double value) {
  const sx_node *node = sx_node_at(l->plan->graph, id);
  sx_emitter e;
  sx_emit_begin(&e, l, task, id);
  sx_emit_output(&e, "out", id);
  sx_emit_each(&e, sx_node_elements(node));
  sx_emit_add(&e, "  out[i] = sx_made<%s>(%s);\n", sx_emit_type(node->dtype),
              sx_emit_literal(e.arena, node->dtype, value));
  sx_emit_end_each(&e, "fill", sx_node_elements(node));
}

static void reduce(sx_lowering *l, uint32_t task, sx_id id, const char *fold, double empty) {
  const sx_node *node = sx_node_at(l->plan->graph, id), *in = sx_node_at(l->plan->graph, node->inputs[0]);
  const char *kept_type = sx_emit_register(in->dtype);
  stage s = {.from = sx_place_of(l, node->inputs[0]), .from_type = sx_emit_type(in->dtype), .fold = fold};
  split_axes(l->plan, id, &s.kept, &s.reduced);
  s.by_columns = s.kept.n >= COLUMNS_LEAST && innermost(&s.kept) < innermost(&s.reduced);
  int64_t n = s.kept.n, used = 0;
  if (!n) return;
  if (!s.reduced.n) {
    emit_empty(l, task, id, empty);
    return;
  }
  while (s.reduced.n > CHUNK) {
    int64_t chunks = (s.reduced.n + CHUNK - 1) / CHUNK;
    s.to = sx_lowering_scratch(l, used, n * chunks * 4);
    s.to_type = kept_type;
    emit_stage(l, task, id, &s);
    used = s.to.offset + n * chunks * 4;
    s.from = s.to;
    s.from_type = kept_type;
    s.kept = s.by_columns ? sx_path_row_major(n) : sx_path_make(&n, &chunks, 1);
    s.reduced = s.by_columns ? sx_path_make(&chunks, &n, 1) : sx_path_row_major(chunks);
  }
  s.to = sx_place_of(l, id);
  s.to_type = sx_emit_type(node->dtype);
  emit_stage(l, task, id, &s);
}

static bool is_float_input(const sx_lowering *l, sx_id id) {
  const sx_graph *graph = l->plan->graph;
  return sx_dtype_is_float(sx_node_at(graph, sx_node_at(graph, id)->inputs[0])->dtype);
}

void sx_emit_sum(sx_lowering *l, uint32_t task, sx_id id) {
  reduce(l, task, id, is_float_input(l, id) ? "sx_sum_float" : "sx_sum_int", 0);
}

/* The largest of nothing is refused where the graph is built. */
void sx_emit_extreme(sx_lowering *l, uint32_t task, sx_id id) {
  bool is_float = is_float_input(l, id), max = sx_node_at(l->plan->graph, id)->op == SX_OP_REDUCEMAX;
  const char *folds[2][2] = {{"sx_min_int", "sx_max_int"}, {"sx_min_float", "sx_max_float"}};
  reduce(l, task, id, folds[is_float][max], 0);
}

void sx_emit_any_all(sx_lowering *l, uint32_t task, sx_id id) {
  bool any = sx_node_at(l->plan->graph, id)->op == SX_OP_ANY;
  reduce(l, task, id, any ? "sx_any" : "sx_all", any ? 0 : 1);
}

/* ---- places of extremes --------------------------------------------------------------------------- */

void sx_emit_arg(sx_lowering *l, uint32_t task, sx_id id) {
  const sx_node *node = sx_node_at(l->plan->graph, id), *in = sx_node_at(l->plan->graph, node->inputs[0]);
  sx_path kept, reduced;
  split_axes(l->plan, id, &kept, &reduced);
  if (!kept.n) return;
  bool columns = kept.n >= MANY && innermost(&kept) < innermost(&reduced);
  sx_emitter e;
  sx_emit_begin(&e, l, task, id);
  sx_emit_input(&e, "p0", node->inputs[0]);
  sx_emit_output(&e, "out", id);
  sx_emit_count(&e, kept.n * LANES);
  sx_emit_add(&e, "  typedef sx_placed<%s> P;\n", sx_emit_register(in->dtype));
  int64_t threads = columns ? kept.n : kept.n * LANES;
  sx_emit_each(&e, threads);
  sx_emit_add(
      &e, columns ? "  const U r = i, first = 0, step = 1;\n" : "  const U r = i / 32, first = i %% 32, step = 32;\n");
  sx_emit_place(&e, &kept, "r", "base");
  sx_emit_add(&e, "  P best = {0, -1};\n  for (U k = first; k < %" PRId64 "; k += step) {\n", reduced.n);
  sx_emit_place(&e, &reduced, "k", "at");
  sx_emit_add(&e, "  const P one = {sx_get(p0[base + at]), (int)k};\n");
  sx_emit_add(&e, "  if (sx_beats<%d>(one, best)) best = one;\n  }\n", node->op == SX_OP_ARGMAX ? 1 : -1);
  if (columns)
    sx_emit_add(&e, "  out[r] = best.at;\n");
  else
    sx_emit_add(&e, "  best = sx_warp_extreme<%d>(best);\n  if (first == 0) out[r] = best.at;\n",
                node->op == SX_OP_ARGMAX ? 1 : -1);
  sx_emit_end_each(&e, "arg", threads);
}
