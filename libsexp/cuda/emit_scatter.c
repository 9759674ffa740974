/* Additions at indices: SCATTER and PUT, one form of both. Of each line, m sources with an id and `row` values each are
 * added to n targets, in ascending order of source, from +0.
 *
 * Few sources: a thread for each element of the result looks at all of them. Else the pairs (id, source) of a line are
 * sorted, so that the sources of a target lie side by side in their order; starts[t] is where those of t begin. Nothing
 * depends on the order in which threads run. */
#include <inttypes.h>

#include "emit_parts.h"

enum { FEW = 32, FOUR = 4 };

typedef struct additions {
  sx_lowering *l;
  uint32_t task;
  sx_id id, ids, values;
  int64_t lines, m, n, row;
  /* Places by line and within it: of ids by source, of values by source and element, of the result by target and
   * element; and the number of an id among all, for the report of a bad one. */
  sx_path ids_line, ids_in, values_line, values_in, out_line, out_in, number_line, number_in;
} additions;

static const sx_node *node_of(const sx_lowering *l, sx_id id) { return sx_node_at(l->plan->graph, id); }

static const char *sum_type(const additions *a) { return sx_emit_register(node_of(a->l, a->id)->dtype); }

static const char *added(const additions *a) {
  return sx_dtype_is_float(node_of(a->l, a->id)->dtype) ? "sum + x" : "sx_wrap_add(sum, x)";
}

static void add_reach(sx_emitter *e, const additions *a) {
  sx_path out = sx_path_of(a->l->plan, a->id);
  sx_emit_reach(e, &out);
  sx_emit_count(e, a->lines * a->m);
  sx_emit_count(e, a->m * a->row);
  sx_emit_count(e, a->lines * (a->n + 1));
}

/* `id`, of source j of the line. */
static void read_id(sx_emitter *e, const additions *a) {
  sx_emit_place(e, &a->ids_in, "j", "id_at");
  sx_emit_add(e, "  const int id = ids[id_line + id_at];\n");
}

static void report(sx_emitter *e, const additions *a) {
  sx_emit_place(e, &a->number_line, "line", "number_line");
  sx_emit_place(e, &a->number_in, "j", "number_in");
  sx_emit_add(e, "  sx_fault(fault, number_line + number_in, id);\n");
}

/* Fills the keys: id and source, bad ids above all others. */
static void emit_keys(const additions *a, sx_place keys) {
  sx_emitter e;
  sx_emit_begin(&e, a->l, a->task, a->id);
  if (keys.buffer != SX_PLACE_NONE) sx_emit_pointer(&e, "keys", "unsigned long long", keys, true);
  sx_emit_input(&e, "ids", a->ids);
  sx_emit_fault(&e);
  add_reach(&e, a);
  sx_emit_each(&e, a->lines * a->m);
  sx_emit_add(&e, "  const U line = i / %" PRId64 ", j = i %% %" PRId64 ";\n", a->m, a->m);
  sx_emit_place(&e, &a->ids_line, "line", "id_line");
  read_id(&e, a);
  sx_emit_add(&e, "  const bool fits = id >= 0 && id < %" PRId64 ";\n  if (!fits) {\n", a->n);
  report(&e, a);
  sx_emit_add(&e, "  }\n");
  if (keys.buffer != SX_PLACE_NONE)
    sx_emit_add(&e, "  keys[i] = (unsigned long long)(fits ? (unsigned)id : 0xffffffffu) << 32 | (unsigned)j;\n");
  sx_emit_end_each(&e, "scatter_keys", a->lines * a->m);
}

/* starts[line][t]: how many keys of the line have an id below t; t from 0 to n. */
static void emit_starts(const additions *a, sx_place keys, sx_place starts) {
  sx_emitter e;
  sx_emit_begin(&e, a->l, a->task, a->id);
  sx_emit_pointer(&e, "starts", "unsigned", starts, true);
  sx_emit_pointer(&e, "keys", "unsigned long long", keys, false);
  add_reach(&e, a);
  sx_emit_each(&e, a->lines * (a->n + 1));
  sx_emit_add(&e, "  const U line = i / %" PRId64 ", t = i %% %" PRId64 ";\n", a->n + 1, a->n + 1);
  sx_emit_add(&e,
              "  starts[i] = sx_count_below(keys + line * %" PRId64 ", %" PRId64 ", (unsigned long long)t << 32);\n",
              a->m, a->m);
  sx_emit_end_each(&e, "scatter_starts", a->lines * (a->n + 1));
}

/* `line`, `t` and `k` of the thread's element, the first of `width`. */
static void find_target(sx_emitter *e, const additions *a, int width) {
  int64_t n_line = a->n * a->row;
  sx_emit_each(e, a->lines * n_line / width);
  sx_emit_add(e, "  const U at = i * %d, line = at / %" PRId64 ", within = at %% %" PRId64 ";\n", width, n_line,
              n_line);
  sx_emit_add(e, "  const U t = within / %" PRId64 ", k = within %% %" PRId64 ";\n", a->row, a->row);
  sx_emit_place(e, &a->out_line, "line", "out_line");
  sx_emit_place(e, &a->out_in, "within", "out_in");
  sx_emit_place(e, &a->values_line, "line", "value_line");
}

static void read_value(sx_emitter *e, const additions *a) {
  sx_emit_place(e, &a->values_in, sx_format(e->arena, "j * %" PRId64 " + k", a->row), "value_at");
}

static void emit_sums(const additions *a, sx_place keys, sx_place starts) {
  const sx_node *node = node_of(a->l, a->id);
  const sx_view *view = &a->l->plan->views[a->values];
  const char *type = sx_emit_type(node->dtype);
  bool fours = a->lines == 1 && a->row % FOUR == 0 && sx_path_is_contiguous(&a->values_in) && view->offset % FOUR == 0;
  sx_emitter e;
  sx_emit_begin(&e, a->l, a->task, a->id);
  sx_emit_output(&e, "out", a->id);
  sx_emit_input(&e, "values", a->values);
  sx_emit_pointer(&e, "keys", "unsigned long long", keys, false);
  sx_emit_pointer(&e, "starts", "unsigned", starts, false);
  add_reach(&e, a);
  find_target(&e, a, fours ? FOUR : 1);
  sx_emit_add(&e, "  const U first = line * %" PRId64 " + t, begin = starts[first], end = starts[first + 1];\n",
              a->n + 1);
  sx_emit_add(&e, "  %s sums[%d] = {0};\n  for (U s = begin; s < end; s++) {\n", sum_type(a), fours ? FOUR : 1);
  sx_emit_add(&e, "  const U j = (unsigned)keys[line * %" PRId64 " + s];\n", a->m);
  read_value(&e, a);
  if (fours) sx_emit_add(&e, "  const sx_four<%s> four = *(const sx_four<%s> *)(values + value_at);\n", type, type);
  sx_emit_add(&e, "#pragma unroll\n  for (int c = 0; c < %d; c++) {\n  const %s sum = sums[c], x = sx_get(%s);\n",
              fours ? FOUR : 1, sum_type(a), fours ? "four.at[c]" : "values[value_line + value_at]");
  sx_emit_add(&e, "  sums[c] = %s;\n  }\n  }\n", added(a));
  if (fours)
    sx_emit_add(
        &e,
        "  sx_four<%s> made;\n#pragma unroll\n  for (int c = 0; c < 4; c++) made.at[c] = sx_made<%s>(sums[c]);\n"
        "  *(sx_four<%s> *)(out + at) = made;\n",
        type, type, type);
  else
    sx_emit_add(&e, "  out[out_line + out_in] = sx_made<%s>(sums[0]);\n", type);
  sx_emit_end_each(&e, "scatter_sums", a->lines * a->n * a->row / (fours ? FOUR : 1));
}

/* Every element of the result looks at all ids of its line. */
static void emit_by_looking(const additions *a) {
  sx_emitter e;
  sx_emit_begin(&e, a->l, a->task, a->id);
  sx_emit_output(&e, "out", a->id);
  sx_emit_input(&e, "values", a->values);
  sx_emit_input(&e, "ids", a->ids);
  sx_emit_fault(&e);
  add_reach(&e, a);
  find_target(&e, a, 1);
  sx_emit_place(&e, &a->ids_line, "line", "id_line");
  sx_emit_add(&e, "  %s sum = 0;\n#pragma unroll 4\n  for (U j = 0; j < %" PRId64 "; j++) {\n", sum_type(a), a->m);
  read_id(&e, a);
  sx_emit_add(&e, "  if (within == 0 && (id < 0 || id >= %" PRId64 ")) {\n", a->n);
  report(&e, a);
  sx_emit_add(&e, "  }\n  if (id >= 0 && (U)id == t) {\n");
  read_value(&e, a);
  sx_emit_add(&e, "  const %s x = sx_get(values[value_line + value_at]);\n  sum = %s;\n  }\n  }\n", sum_type(a),
              added(a));
  sx_emit_add(&e, "  out[out_line + out_in] = sx_made<%s>(sum);\n", sx_emit_type(node_of(a->l, a->id)->dtype));
  sx_emit_end_each(&e, "scatter", a->lines * a->n * a->row);
}

static void emit_additions(const additions *a) {
  if (a->lines * a->n * a->row == 0) {
    if (a->lines * a->m > 0) emit_keys(a, (sx_place){SX_PLACE_NONE, 0});
    return;
  }
  if (a->m <= FEW || a->m > UINT32_MAX - 1) {
    emit_by_looking(a);
    return;
  }
  int64_t key_bytes = a->lines * a->m * 8;
  sx_place keys = sx_lowering_scratch(a->l, 0, key_bytes);
  sx_place other = sx_lowering_scratch(a->l, key_bytes, key_bytes);
  sx_place starts = sx_lowering_scratch(a->l, other.offset + key_bytes, a->lines * (a->n + 1) * 4);
  emit_keys(a, keys);
  keys = sx_emit_sort(a->l, a->task, a->id, keys, other, a->lines, a->m);
  emit_starts(a, keys, starts);
  emit_sums(a, keys, starts);
}

/* ids [...], values [ids... rest...] -> [n rest...] */
void sx_emit_scatter(sx_lowering *l, uint32_t task, sx_id id) {
  const sx_node *node = node_of(l, id), *ids = node_of(l, node->inputs[0]);
  sx_path one = sx_path_row_major(1);
  additions a = {.l = l, .task = task, .id = id, .ids = node->inputs[0], .values = node->inputs[1], .lines = 1};
  a.m = sx_node_elements(ids);
  a.n = node->dims[0];
  a.row = 1;
  for (int axis = 1; axis < node->rank; axis++) a.row *= node->dims[axis];
  a.ids_line = a.values_line = a.out_line = a.number_line = one;
  a.ids_in = sx_path_of(l->plan, a.ids);
  a.values_in = sx_path_of(l->plan, a.values);
  a.out_in = sx_path_row_major(sx_node_elements(node));
  a.number_in = sx_path_row_major(a.m);
  emit_additions(&a);
}

void sx_emit_put(sx_lowering *l, uint32_t task, sx_id id) {
  const sx_node *node = node_of(l, id), *ids = node_of(l, node->inputs[0]);
  int axis = (int)node->ints[0];
  int64_t strides[SX_RANK_MAX], stride = 1;
  for (int k = ids->rank - 1; k >= 0; k--) {
    strides[k] = stride;
    stride *= ids->dims[k];
  }
  additions a = {.l = l, .task = task, .id = id, .ids = node->inputs[0], .values = node->inputs[1], .row = 1};
  a.m = ids->dims[axis];
  a.n = node->dims[axis];
  sx_path_lines(ids->dims, l->plan->views[a.ids].strides, ids->rank, axis, &a.ids_line, &a.ids_in);
  sx_path_lines(ids->dims, l->plan->views[a.values].strides, ids->rank, axis, &a.values_line, &a.values_in);
  sx_path_lines(ids->dims, strides, ids->rank, axis, &a.number_line, &a.number_in);
  sx_path_lines(node->dims, l->plan->views[id].strides, node->rank, axis, &a.out_line, &a.out_in);
  a.lines = a.out_line.n;
  emit_additions(&a);
}
