/* Lookups by index: GATHER, TAKE, ONEHOT. A bad id is reported once, by the thread of its first element. */
#include <inttypes.h>

#include "emit_parts.h"

enum { FOUR = 4 };

static const sx_node *node_of(const sx_lowering *l, sx_id id) { return sx_node_at(l->plan->graph, id); }

/* Reads the id at `index` of the node's ids, and whether it is below the limit. */
static void read_id(sx_emitter *e, sx_id ids, const char *index, int64_t limit) {
  sx_path path = sx_path_of(e->lowering->plan, ids);
  sx_emit_place(e, &path, index, "id_at");
  sx_emit_add(e, "  const int id = ids[id_at];\n  const bool fits = id >= 0 && id < %" PRId64 ";\n", limit);
}

/* Where the result has no element, ids are looked at all the same. */
static void check_ids(sx_lowering *l, uint32_t task, sx_id id, sx_id ids, int64_t limit) {
  int64_t n = sx_node_elements(node_of(l, ids));
  if (!n) return;
  sx_emitter e;
  sx_emit_begin(&e, l, task, id);
  sx_emit_input(&e, "ids", ids);
  sx_emit_fault(&e);
  sx_emit_each(&e, n);
  read_id(&e, ids, "i", limit);
  sx_emit_add(&e, "  if (!fits) sx_fault(fault, i, id);\n");
  sx_emit_end_each(&e, "check_ids", n);
}

/* Whether rows of the table are read four elements at once. */
static bool is_fourfold(const sx_view *table, int64_t n_row, const sx_path *rest) {
  return n_row % FOUR == 0 && sx_path_is_contiguous(rest) && table->strides[0] % FOUR == 0 && table->offset % FOUR == 0;
}

/* table [n rest...], ids [...] -> [ids... rest...] */
void sx_emit_gather(sx_lowering *l, uint32_t task, sx_id id) {
  const sx_node *node = node_of(l, id), *table = node_of(l, node->inputs[0]);
  const sx_view *view = &l->plan->views[node->inputs[0]];
  sx_path rest = sx_path_make(table->dims + 1, view->strides + 1, table->rank - 1);
  int64_t n = sx_node_elements(node), n_row = rest.n;
  if (!n) {
    check_ids(l, task, id, node->inputs[1], table->dims[0]);
    return;
  }
  bool fours = is_fourfold(view, n_row, &rest);
  const char *bits = fours ? sx_format(l->arena, "sx_four<%s>", sx_emit_bits(node->dtype)) : sx_emit_bits(node->dtype);
  sx_emitter e;
  sx_emit_begin(&e, l, task, id);
  sx_emit_pointer(&e, "out", sx_emit_bits(node->dtype), sx_place_of(l, id), true);
  sx_emit_pointer(&e, "table", sx_emit_bits(node->dtype), sx_place_of(l, node->inputs[0]), false);
  sx_emit_input(&e, "ids", node->inputs[1]);
  sx_emit_fault(&e);
  sx_path whole = sx_path_of(l->plan, node->inputs[0]);
  sx_emit_reach(&e, &whole);
  sx_emit_count(&e, n);
  e.bytes += 2 * (double)n * (double)sx_dtype_bytes(node->dtype);
  sx_emit_each(&e, fours ? n / FOUR : n);
  sx_emit_add(&e, "  const U at = i * %d, row = at / %" PRId64 ", k = at %% %" PRId64 ";\n", fours ? FOUR : 1, n_row,
              n_row);
  read_id(&e, node->inputs[1], "row", table->dims[0]);
  sx_emit_place(&e, &rest, "k", "rest");
  sx_emit_add(&e, "  %s x{};\n  if (fits) x = *(const %s *)(table + (J)id * %" PRId64 " + rest);\n", bits, bits,
              view->strides[0]);
  sx_emit_add(&e, "  else if (k == 0) sx_fault(fault, row, id);\n  *(%s *)(out + at) = x;\n", bits);
  sx_emit_end_each(&e, "gather", fours ? n / FOUR : n);
}

void sx_emit_take(sx_lowering *l, uint32_t task, sx_id id) {
  const sx_node *node = node_of(l, id), *x = node_of(l, node->inputs[0]);
  const sx_view *view = &l->plan->views[node->inputs[0]];
  int axis = (int)node->ints[0];
  int64_t n = sx_node_elements(node), strides[SX_RANK_MAX];
  if (!n) return;
  for (int k = 0; k < node->rank; k++) strides[k] = k == axis ? 0 : view->strides[k];
  sx_path others = sx_path_make(node->dims, strides, node->rank);
  sx_emitter e;
  sx_emit_begin(&e, l, task, id);
  sx_emit_pointer(&e, "out", sx_emit_bits(node->dtype), sx_place_of(l, id), true);
  sx_emit_pointer(&e, "from", sx_emit_bits(node->dtype), sx_place_of(l, node->inputs[0]), false);
  sx_emit_input(&e, "ids", node->inputs[1]);
  sx_emit_fault(&e);
  sx_path whole = sx_path_of(l->plan, node->inputs[0]);
  sx_emit_reach(&e, &whole);
  e.bytes += 2 * (double)n * (double)sx_dtype_bytes(node->dtype);
  sx_emit_each(&e, n);
  read_id(&e, node->inputs[1], "i", x->dims[axis]);
  sx_emit_place(&e, &others, "i", "at");
  sx_emit_add(&e, "  if (!fits) sx_fault(fault, i, id);\n");
  sx_emit_add(&e, "  out[i] = fits ? from[at + (J)id * %" PRId64 "] : (%s)0;\n", view->strides[axis],
              sx_emit_bits(node->dtype));
  sx_emit_end_each(&e, "take", n);
}

void sx_emit_one_hot(sx_lowering *l, uint32_t task, sx_id id) {
  const sx_node *node = node_of(l, id);
  int64_t length = node->dims[node->rank - 1], n = sx_node_elements(node);
  if (!n) {
    check_ids(l, task, id, node->inputs[0], length);
    return;
  }
  sx_emitter e;
  sx_emit_begin(&e, l, task, id);
  sx_emit_output(&e, "out", id);
  sx_emit_input(&e, "ids", node->inputs[0]);
  sx_emit_fault(&e);
  sx_emit_each(&e, n);
  sx_emit_add(&e, "  const U row = i / %" PRId64 ", k = i %% %" PRId64 ";\n", length, length);
  read_id(&e, node->inputs[0], "row", length);
  sx_emit_add(&e, "  if (!fits && k == 0) sx_fault(fault, row, id);\n");
  sx_emit_add(&e, "  out[i] = sx_made<%s>(%s(fits && k == (U)id));\n", sx_emit_type(node->dtype),
              sx_emit_register(node->dtype));
  sx_emit_end_each(&e, "one_hot", n);
}
