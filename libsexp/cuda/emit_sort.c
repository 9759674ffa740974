/* Sorting keys of 64 bits, no two of which are equal: tiles in shared memory, then merges of runs, in which each key
 * finds its place by counting the keys of the other run that are below it. ARGSORT sorts (number, index). */
#include <inttypes.h>

#include "emit_parts.h"

enum { TILE = 1024, TILE_LEAST = 64 };

static void emit_tiles(sx_lowering *l, uint32_t task, sx_id id, sx_place keys, int64_t lines, int64_t n, int64_t tile) {
  int64_t tiles = (n + tile - 1) / tile;
  sx_emitter e;
  sx_emit_begin(&e, l, task, id);
  sx_emit_pointer(&e, "keys", "unsigned long long", keys, true);
  sx_emit_i64(&e, "n", n);
  sx_emit_count(&e, lines * n);
  e.bytes = 16.0 * (double)lines * (double)n;
  sx_emit_add(&e, "  __shared__ unsigned long long tile[%" PRId64 "];\n", tile);
  sx_emit_add(&e, "  const unsigned tiles = (unsigned)((n + %" PRId64 ") / %" PRId64 ");\n", tile - 1, tile);
  sx_emit_add(&e,
              "  const long long line = blockIdx.x / tiles, first = (long long)(blockIdx.x %% tiles) * %" PRId64 ";\n",
              tile);
  sx_emit_add(&e, "  sx_sort_tile<%" PRId64 ">(keys + line * n + first, n - first, tile);\n", tile);
  sx_emit_end(&e, "sort_tiles", (int64_t[]){lines * tiles, 1, 1}, (uint32_t)tile / 2);
}

static void emit_merge(sx_lowering *l, uint32_t task, sx_id id, sx_place from, sx_place to, int64_t lines, int64_t n,
                       int64_t run) {
  sx_emitter e;
  sx_emit_begin(&e, l, task, id);
  sx_emit_pointer(&e, "to", "unsigned long long", to, true);
  sx_emit_pointer(&e, "from", "unsigned long long", from, false);
  sx_emit_i64(&e, "lines", lines);
  sx_emit_i64(&e, "n", n);
  sx_emit_i64(&e, "run", run);
  e.bytes = 16.0 * (double)lines * (double)n;
  sx_emit_add(&e, "  const long long i = (long long)blockIdx.x * %d + threadIdx.x;\n", SX_EMIT_THREADS);
  sx_emit_add(&e, "  if (i >= lines * n) return;\n  const long long line = i / n, at = i %% n;\n");
  sx_emit_add(&e, "  to[line * n + sx_merged_place(from + line * n, n, run, at)] = from[i];\n");
  sx_emit_end_each(&e, "sort_merge", lines * n);
}

sx_place sx_emit_sort(sx_lowering *l, uint32_t task, sx_id id, sx_place keys, sx_place other, int64_t lines,
                      int64_t n) {
  int64_t tile = TILE_LEAST;
  while (tile < n && tile < TILE) tile *= 2;
  emit_tiles(l, task, id, keys, lines, n, tile);
  for (int64_t run = tile; run < n; run *= 2) {
    emit_merge(l, task, id, keys, other, lines, n, run);
    sx_place swap = keys;
    keys = other;
    other = swap;
  }
  return keys;
}

/* ---- ARGSORT -------------------------------------------------------------------------------------- */

typedef struct lines {
  sx_path line, in; /* places by line, and along it */
} lines;

static lines split(const sx_plan *plan, sx_id id, int axis) {
  const sx_node *node = sx_node_at(plan->graph, id);
  lines found;
  sx_path_lines(node->dims, plan->views[id].strides, node->rank, axis, &found.line, &found.in);
  return found;
}

static void emit_keys(sx_lowering *l, uint32_t task, sx_id id, sx_place keys) {
  const sx_node *node = sx_node_at(l->plan->graph, id), *in = sx_node_at(l->plan->graph, node->inputs[0]);
  lines x = split(l->plan, node->inputs[0], (int)node->ints[0]);
  int64_t all = x.line.n * x.in.n;
  sx_emitter e;
  sx_emit_begin(&e, l, task, id);
  sx_emit_pointer(&e, "keys", "unsigned long long", keys, true);
  sx_emit_input(&e, "p0", node->inputs[0]);
  sx_emit_each(&e, all);
  sx_emit_add(&e, "  const U line = i / %" PRId64 ", k = i %% %" PRId64 ";\n", x.in.n, x.in.n);
  sx_emit_place(&e, &x.line, "line", "base");
  sx_emit_place(&e, &x.in, "k", "at");
  sx_emit_add(&e, "  const unsigned key = sx_sort_key<%d>(sx_get(p0[base + at]));\n", node->ints[1] != 0);
  sx_emit_add(&e, "  keys[i] = (unsigned long long)key << 32 | (unsigned)k;\n");
  sx_emit_end_each(&e, sx_dtype_is_float(in->dtype) ? "sort_keys" : "sort_int_keys", all);
}

void sx_emit_argsort(sx_lowering *l, uint32_t task, sx_id id) {
  const sx_node *node = sx_node_at(l->plan->graph, id);
  lines out = split(l->plan, id, (int)node->ints[0]);
  int64_t all = out.line.n * out.in.n;
  if (!all) return;
  sx_place keys = sx_lowering_scratch(l, 0, all * 8), other = sx_lowering_scratch(l, all * 8, all * 8);
  emit_keys(l, task, id, keys);
  keys = sx_emit_sort(l, task, id, keys, other, out.line.n, out.in.n);
  sx_emitter e;
  sx_emit_begin(&e, l, task, id);
  sx_emit_output(&e, "out", id);
  sx_emit_pointer(&e, "keys", "unsigned long long", keys, false);
  sx_emit_each(&e, all);
  sx_emit_add(&e, "  const U line = i / %" PRId64 ", k = i %% %" PRId64 ";\n", out.in.n, out.in.n);
  sx_emit_place(&e, &out.line, "line", "base");
  sx_emit_place(&e, &out.in, "k", "at");
  sx_emit_add(&e, "  out[base + at] = (int)(unsigned)keys[i];\n");
  sx_emit_end_each(&e, "sort_places", all);
}
