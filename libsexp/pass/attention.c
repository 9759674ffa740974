/* Attention: products of which no [rows columns] result has to be in memory, found by the structure of the graph.
 *
 * Requires roles, roots and views. A family is all that hangs on scores, einsums whose result T is [batch.. R C]:
 *   - nodes of T's shape that chains can evaluate, reductions of rows, nodes of one element a row, and views that
 *     stretch those over rows again;
 *   - its ends, einsums of one such node T with another operand: T times [.. C d], or T transposed times [.. R d].
 * If nothing else reads a node of it and none is an output, the ends become tasks: one of those that need no other
 * end's result (the forward), one of the others (the backward). Each task evaluates the nodes that its ends need, so
 * some are evaluated twice, and none is stored. Bits do not change: every element of a product is one contraction, in
 * the order of numerics 1 whatever rows are computed together, and a row is evaluated whole.
 *
 *   s = einsum q k   p = softmax s   o = einsum p v        becomes: one task, reading q k v, storing o.
 *
 * Source: Dao et al., "FlashAttention: fast and memory-efficient exact attention with IO-awareness", 2022, without its
 * rescaling of sums, which changes bits. */
#include "attention.h"

#include <stdlib.h>

#include "../base/bug.h"
#include "../ir/infer.h"
#include "plan_parts.h"

/* What a node is in the family that is looked at. */
typedef enum standing { PART_NONE, PART_SCORES, PART_WIDE, PART_ROW, PART_VIEW, PART_END } standing;

enum { MOST_REGIONS = 2 };

typedef struct id_list {
  SX_VEC(sx_id) ids;
} id_list;

typedef struct finding {
  sx_planning *planning;
  const sx_graph *graph;
  uint32_t *starts; /* readers of a node: readers[starts[id]] to readers[starts[id + 1] - 1] */
  sx_id *readers;
  bool *is_output;
  uint8_t *parts;  /* per node */
  uint32_t *marks; /* per node: the last closure that it was in */
  uint32_t n_marks;
  const sx_node *shape; /* of the family: its first scores */
  SX_VEC(sx_id) found;  /* its nodes */
  uint32_t *looked;     /* per node: the last family for which it was looked at, above that */
  uint32_t n_looks;
  SX_VEC(sx_id) above;
} finding;

static const sx_node *at(const finding *f, sx_id id) { return sx_node_at(f->graph, id); }

/* ---- products -------------------------------------------------------------------------------------- */

static int64_t stride_of(const finding *f, sx_id id, const sx_labels *labels, int part, char label) {
  int axis = sx_labels_find(labels, part, label);
  return axis < 0 ? 0 : f->planning->plan->views[id].strides[axis];
}

/* The labels of `part`, all but the last two, are a batch: whether both other parts have them. */
static bool share_batch(const sx_labels *labels, int part) {
  for (int i = 0; i < labels->n[part] - 2; i++)
    for (int other = 0; other < 3; other++)
      if (sx_labels_find(labels, other, labels->parts[part][i]) < 0) return false;
  return true;
}

/* A label that the part has beside `known` and the batch of part `whole`; 0: none or several. */
static char other_label(const sx_labels *labels, int part, int whole, char known) {
  char other = 0;
  for (int i = 0; i < labels->n[part]; i++) {
    char label = labels->parts[part][i];
    int place = sx_labels_find(labels, whole, label);
    if (label == known || (place >= 0 && place < labels->n[whole] - 2)) continue;
    if (other) return 0;
    other = label;
  }
  return other;
}

static bool is_product(const finding *f, sx_id id, sx_labels *labels) {
  const sx_node *node = at(f, id);
  if (node->op != SX_OP_EINSUM || node->dtype != SX_F32 || !sx_labels_parse(node->text, labels)) return false;
  for (uint32_t k = 0; k < 2; k++)
    if (at(f, node->inputs[k])->dtype != SX_F32) return false;
  return f->planning->roles[id] == SX_ROLE_NODE;
}

static sx_attention_matrix matrix_of(const finding *f, sx_id id, const sx_labels *labels, int part, char row,
                                     char column, int whole) {
  sx_attention_matrix matrix = {
      .node = id, .row = stride_of(f, id, labels, part, row), .column = stride_of(f, id, labels, part, column)};
  for (int i = 0; i < labels->n[whole] - 2; i++)
    matrix.batch[i] = stride_of(f, id, labels, part, labels->parts[whole][i]);
  return matrix;
}

static int64_t dim_of(const finding *f, sx_id id, const sx_labels *labels, int part, char label) {
  return at(f, id)->dims[sx_labels_find(labels, part, label)];
}

/* Whether the node is an einsum like "bhqd,bhkd->bhqk", in either order of the operands. */
static bool read_scores(const finding *f, sx_id id, sx_attention_product *product) {
  sx_labels labels;
  const sx_node *node = at(f, id);
  if (!is_product(f, id, &labels) || labels.n[2] < 2 || !share_batch(&labels, 2)) return false;
  char row = labels.parts[2][labels.n[2] - 2], column = labels.parts[2][labels.n[2] - 1];
  int left = sx_labels_find(&labels, 1, row) >= 0, right = !left;
  if (sx_labels_find(&labels, left, column) >= 0 || sx_labels_find(&labels, right, row) >= 0) return false;
  char depth = other_label(&labels, left, 2, row);
  if (!depth || depth != other_label(&labels, right, 2, column)) return false;
  *product = (sx_attention_product){.kind = SX_ATTENTION_SCORES, .node = id, .tile = id};
  product->depth = dim_of(f, node->inputs[left], &labels, left, depth);
  product->left = matrix_of(f, node->inputs[left], &labels, left, row, depth, 2);
  product->right = matrix_of(f, node->inputs[right], &labels, right, column, depth, 2);
  return product->depth > 0;
}

/* Whether the einsum multiplies the tile, or its transpose, with another operand. */
static bool read_end(const finding *f, sx_id id, sx_id tile, sx_attention_product *product) {
  sx_labels labels;
  const sx_node *node = at(f, id);
  if (!is_product(f, id, &labels) || node->inputs[0] == node->inputs[1]) return false;
  int whole = node->inputs[1] == tile, other = !whole, n = labels.n[whole];
  if (!share_batch(&labels, whole)) return false;
  char row = labels.parts[whole][n - 2], column = labels.parts[whole][n - 1];
  bool over_columns = sx_labels_find(&labels, 2, column) < 0;
  char kept = over_columns ? row : column, contracted = over_columns ? column : row;
  if (sx_labels_find(&labels, 2, kept) < 0 || sx_labels_find(&labels, 2, contracted) >= 0) return false;
  char depth = other_label(&labels, other, whole, contracted);
  if (!depth || depth == kept || sx_labels_find(&labels, other, contracted) < 0) return false;
  if (depth != other_label(&labels, 2, whole, kept)) return false;
  *product = (sx_attention_product){
      .kind = over_columns ? SX_ATTENTION_OVER_COLUMNS : SX_ATTENTION_OVER_ROWS, .node = id, .tile = tile};
  product->depth = dim_of(f, id, &labels, 2, depth);
  product->left = matrix_of(f, id, &labels, 2, kept, depth, whole);
  product->row_axis = sx_labels_find(&labels, 2, kept);
  product->column_axis = sx_labels_find(&labels, 2, depth);
  for (int i = 0; i < n - 2; i++) product->batch_axes[i] = sx_labels_find(&labels, 2, labels.parts[whole][i]);
  product->right = matrix_of(f, node->inputs[other], &labels, other, contracted, depth, whole);
  return product->depth > 0;
}

/* ---- families -------------------------------------------------------------------------------------- */

static int64_t columns(const finding *f) { return f->shape->dims[f->shape->rank - 1]; }
static int64_t rows(const finding *f) { return f->shape->dims[f->shape->rank - 2]; }
static int64_t row_elements(const finding *f) { return sx_node_elements(f->shape) / columns(f); }

static bool is_wide(const finding *f, const sx_node *node) { return sx_shape_equal(node, f->shape); }

static bool is_one_a_row(const finding *f, sx_id id) {
  return f->parts[id] == PART_ROW || (f->parts[id] == PART_VIEW && !is_wide(f, at(f, id)));
}

static standing element_part(const finding *f, sx_id id, sx_id input) {
  const sx_node *node = at(f, id);
  if (!sx_chain_can(f->graph, id)) return PART_NONE;
  if (is_wide(f, node)) return PART_WIDE;
  return is_one_a_row(f, input) && sx_node_elements(node) == row_elements(f) ? PART_ROW : PART_NONE;
}

/* What the node, a reader of `input`, is in the family; NONE: it cannot be in one. */
static standing part_of(const finding *f, sx_id id, sx_id input) {
  const sx_node *node = at(f, id);
  sx_attention_product product;
  switch (node->op) {
    case SX_OP_SUM:
    case SX_OP_REDUCEMAX:
    case SX_OP_REDUCEMIN:
      return is_wide(f, at(f, input)) && sx_reduced_row(f->graph, id) == columns(f) ? PART_ROW : PART_NONE;
    case SX_OP_RESHAPE:
      return is_one_a_row(f, input) ? PART_VIEW : PART_NONE;
    case SX_OP_BROADCAST:
      return is_one_a_row(f, input) && is_wide(f, node) && sx_is_stretch(f->graph, id) ? PART_VIEW : PART_NONE;
    case SX_OP_EINSUM:
      return f->parts[input] == PART_WIDE && read_end(f, id, input, &product) ? PART_END : PART_NONE;
    default:
      break;
  }
  return sx_op_describe(node->op)->class == SX_CLASS_ELEMENT ? element_part(f, id, input) : PART_NONE;
}

static void add_found(finding *f, sx_id id, standing part) {
  f->parts[id] = (uint8_t)part;
  SX_PUSH(f->planning->arena, f->found, id);
}

/* Scores that a node of the family is computed from, through operations on elements alone, belong to it. */
static void add_scores_of(finding *f, sx_id id) {
  sx_attention_product product;
  f->above.n = 0;
  SX_PUSH(f->planning->arena, f->above, id);
  for (size_t i = 0; i < f->above.n; i++) {
    const sx_node *node = at(f, f->above.items[i]);
    for (uint32_t k = 0; k < node->n_inputs; k++) {
      sx_id input = node->inputs[k];
      if (f->parts[input] != PART_NONE || f->looked[input] == f->n_looks || !is_wide(f, at(f, input))) continue;
      f->looked[input] = f->n_looks;
      if (read_scores(f, input, &product))
        add_found(f, input, PART_SCORES);
      else if (sx_op_describe(at(f, input)->op)->class == SX_CLASS_ELEMENT)
        SX_PUSH(f->planning->arena, f->above, input);
    }
  }
}

/* Adds what reads the node; false: something that cannot be in a family does, such as scores, whose operands are read
 * from memory. */
static bool add_readers(finding *f, sx_id id) {
  if (f->parts[id] == PART_END) return true;
  if (f->is_output[id]) return false;
  for (uint32_t i = f->starts[id]; i < f->starts[id + 1]; i++) {
    sx_id reader = f->readers[i];
    standing part = part_of(f, reader, id);
    if (part == PART_NONE || f->parts[reader] == PART_SCORES || (f->parts[reader] == PART_END && part == PART_END))
      return false;
    if (f->parts[reader] != PART_NONE) continue;
    add_found(f, reader, part);
    if (part == PART_WIDE) add_scores_of(f, reader);
  }
  return true;
}

/* Fills parts and found. */
static bool find_family(finding *f, sx_id scores) {
  f->shape = at(f, scores);
  f->found.n = 0;
  f->n_looks++;
  add_found(f, scores, PART_SCORES);
  for (size_t i = 0; i < f->found.n; i++)
    if (!add_readers(f, f->found.items[i])) return false;
  return true;
}

static void leave_family(finding *f) {
  for (size_t i = 0; i < f->found.n; i++) f->parts[f->found.items[i]] = PART_NONE;
}

/* ---- regions --------------------------------------------------------------------------------------- */

/* What the end needs: nodes of the family, and inputs of those. */
typedef struct closure {
  SX_VEC(sx_id) nodes;
  SX_VEC(sx_id) inputs;
} closure;

static void add_needed(finding *f, closure *all, sx_id id) {
  if (f->marks[id] == f->n_marks) return;
  f->marks[id] = f->n_marks;
  if (f->parts[id] == PART_NONE || f->parts[id] == PART_END)
    SX_PUSH(f->planning->arena, all->inputs, id);
  else
    SX_PUSH(f->planning->arena, all->nodes, id);
}

static void close_over(finding *f, closure *all, sx_id end) {
  const sx_node *node = at(f, end);
  size_t i = all->nodes.n;
  for (uint32_t k = 0; k < node->n_inputs; k++) add_needed(f, all, node->inputs[k]);
  for (; i < all->nodes.n; i++) {
    const sx_node *one = at(f, all->nodes.items[i]);
    for (uint32_t k = 0; k < one->n_inputs; k++) add_needed(f, all, one->inputs[k]);
  }
}

/* Whether all that is read is there before anything computed from the node is. */
static bool comes_before(const finding *f, const closure *all, sx_id first) {
  for (size_t i = 0; i < all->inputs.n; i++) {
    sx_id root = f->planning->roots[all->inputs.items[i]];
    if (f->planning->roles[root] != SX_ROLE_LEAF && root >= first) return false;
  }
  return true;
}

static int by_id(const void *a, const void *b) {
  sx_id x = *(const sx_id *)a, y = *(const sx_id *)b;
  return (x > y) - (x < y);
}

/* The tile that an end reads. */
static sx_id tile_of(const finding *f, sx_id end) {
  const sx_node *node = at(f, end);
  return f->parts[node->inputs[0]] == PART_WIDE ? node->inputs[0] : node->inputs[1];
}

static void describe_shape(const finding *f, sx_attention *attention) {
  attention->n_batch_axes = f->shape->rank - 2;
  attention->n_batches = 1;
  for (int i = 0; i < attention->n_batch_axes; i++) {
    attention->batch[i] = f->shape->dims[i];
    attention->n_batches *= f->shape->dims[i];
  }
  attention->rows = rows(f);
  attention->columns = columns(f);
}

/* ---- what is done after a product ------------------------------------------------------------------ */

/* The operand of an operation that is no constant; UINT32_MAX: there is none, or two. */
static uint32_t varying_operand(const sx_graph *graph, const sx_node *node) {
  if (node->n_inputs != 2) return UINT32_MAX;
  bool first = sx_node_at(graph, node->inputs[0])->op == SX_OP_CONST;
  bool second = sx_node_at(graph, node->inputs[1])->op == SX_OP_CONST;
  return first == second ? UINT32_MAX : first;
}

bool sx_attention_product_view(const sx_graph *graph, const sx_attention_product *product, const sx_view *stored,
                               sx_view *view) {
  *view = *stored;
  for (sx_id id = product->left.node; id != product->node;) {
    const sx_node *node = sx_node_at(graph, id);
    bool moves = sx_op_describe(node->op)->class == SX_CLASS_MOVE;
    sx_view of = *view;
    if (moves && !sx_view_of_input(graph, id, &of, view)) return false;
    id = node->inputs[moves ? 0 : varying_operand(graph, node)];
  }
  return true;
}

/* Operations with constants that alone read the result, perhaps reshaped or transposed, until something else does. */
static void add_after(const finding *f, sx_attention_product *product) {
  sx_id id = product->node;
  while (!f->is_output[id] && f->starts[id + 1] - f->starts[id] == 1) {
    sx_id reader = f->readers[f->starts[id]];
    const sx_node *node = at(f, reader);
    if (f->planning->roles[reader] == SX_ROLE_VIEW && (node->op == SX_OP_RESHAPE || node->op == SX_OP_TRANSPOSE)) {
      id = reader;
      continue;
    }
    uint32_t varying = varying_operand(f->graph, node);
    bool done = (node->op == SX_OP_ADD || node->op == SX_OP_MUL) && node->dtype == SX_F32 && varying != UINT32_MAX;
    if (!done || f->parts[reader] != PART_NONE || product->n_after == SX_ATTENTION_AFTER) return;
    sx_attention_product with = *product;
    sx_view view;
    with.after[with.n_after++] =
        (sx_attention_after){reader, node->op == SX_OP_ADD, (float)at(f, node->inputs[!varying])->real};
    with.left.node = id = reader;
    if (!sx_attention_product_view(f->graph, &with, &f->planning->plan->views[reader], &view)) return;
    *product = with;
  }
}

static void describe_products(finding *f, sx_attention *attention, const closure *all, const id_list *ends) {
  sx_arena *arena = f->planning->arena;
  attention->products = SX_NEW_N(arena, sx_attention_product, all->nodes.n + ends->ids.n);
  for (size_t i = 0; i < all->nodes.n; i++)
    if (f->parts[all->nodes.items[i]] == PART_SCORES)
      read_scores(f, all->nodes.items[i], &attention->products[attention->n_products++]);
  attention->n_scores = attention->n_products;
  for (size_t i = 0; i < ends->ids.n; i++) {
    sx_id end = ends->ids.items[i];
    read_end(f, end, tile_of(f, end), &attention->products[attention->n_products]);
    add_after(f, &attention->products[attention->n_products++]);
  }
}

void sx_plan_attention_results(sx_planning *planning) {
  for (size_t r = 0; r < planning->regions.n; r++) {
    const sx_attention *attention = planning->regions.items[r].task.attention;
    for (uint32_t i = attention->n_scores; i < attention->n_products; i++) {
      sx_attention_product *product = &attention->products[i];
      sx_view view;
      if (!sx_attention_product_view(planning->graph, product, &planning->plan->views[product->left.node], &view))
        SX_BUG("what is done after %%%u has no view of it", product->node);
      product->left.row = view.strides[product->row_axis];
      product->left.column = view.strides[product->column_axis];
      for (int axis = 0; axis < attention->n_batch_axes; axis++)
        product->left.batch[axis] = view.strides[product->batch_axes[axis]];
    }
  }
}

static void describe_group(finding *f, sx_attention *attention, const closure *all, const id_list *ends) {
  sx_arena *arena = f->planning->arena;
  sx_task *group = &attention->group;
  *group = (sx_task){.kind = SX_TASK_ELEMENT, .row = attention->columns};
  group->nodes = SX_NEW_N(arena, sx_id, all->nodes.n);
  group->stored = SX_NEW_N(arena, bool, all->nodes.n);
  for (size_t i = 0; i < all->nodes.n; i++) {
    sx_id id = all->nodes.items[i];
    if (f->parts[id] != PART_WIDE && f->parts[id] != PART_ROW) continue;
    for (size_t e = 0; e < ends->ids.n; e++)
      if (tile_of(f, ends->ids.items[e]) == id) group->stored[group->n_nodes] = true;
    group->nodes[group->n_nodes++] = id;
  }
  sx_plan_rows(f->graph, group, arena);
}

/* The task's nodes: scores, what is between, ends with what is done after them; the last of each is stored. */
static void list_nodes(sx_task *task, sx_arena *arena) {
  const sx_attention *attention = task->attention;
  const sx_task *group = &attention->group;
  uint32_t most = group->n_nodes + attention->n_products * (1 + SX_ATTENTION_AFTER);
  task->nodes = SX_NEW_N(arena, sx_id, most);
  task->stored = SX_NEW_N(arena, bool, most);
  for (uint32_t i = 0; i < attention->n_products; i++) {
    const sx_attention_product *product = &attention->products[i];
    for (uint32_t k = 0; i == attention->n_scores && k < group->n_nodes; k++)
      task->nodes[task->n_nodes++] = group->nodes[k];
    task->nodes[task->n_nodes++] = product->node;
    for (uint32_t k = 0; k < product->n_after; k++) task->nodes[task->n_nodes++] = product->after[k].node;
    task->stored[task->n_nodes - 1] = i >= attention->n_scores;
  }
}

/* The first node that is stored. */
static sx_id first_result(const sx_attention *attention) {
  sx_id first = SX_NO_NODE;
  for (uint32_t i = attention->n_scores; i < attention->n_products; i++)
    if (attention->products[i].left.node < first) first = attention->products[i].left.node;
  return first;
}

static bool can_be_evaluated(const sx_attention *attention) {
  const sx_task *group = &attention->group;
  return group->row && group->n_nodes <= SX_GROUP_NODES && attention->n_products <= SX_ATTENTION_PRODUCTS;
}

static sx_region make_region(finding *f, closure *all, const id_list *ends) {
  sx_attention *attention = SX_NEW(f->planning->arena, sx_attention);
  qsort(all->nodes.items, all->nodes.n, sizeof *all->nodes.items, by_id);
  describe_shape(f, attention);
  describe_products(f, attention, all, ends);
  describe_group(f, attention, all, ends);
  if (can_be_evaluated(attention)) sx_plan_attention_skip(f->planning, attention);
  sx_region region = {
      .first = first_result(attention), .inputs = all->inputs.items, .n_inputs = (uint32_t)all->inputs.n};
  region.task = (sx_task){.kind = SX_TASK_ATTENTION, .attention = attention};
  list_nodes(&region.task, f->planning->arena);
  return region;
}

/* Whether the ends can be computed together; *all is what they need. */
static bool belong_together(finding *f, const id_list *ends, closure *all) {
  *all = (closure){0};
  f->n_marks++;
  for (size_t i = 0; i < ends->ids.n; i++) close_over(f, all, ends->ids.items[i]);
  return comes_before(f, all, ends->ids.items[0]);
}

/* The ends in the order of the graph, each with the first region that can have it; how many regions, 0: no such. */
static uint32_t share_ends(finding *f, id_list regions[MOST_REGIONS], closure needs[MOST_REGIONS]) {
  uint32_t n = 0;
  for (size_t i = 0; i < f->found.n; i++) {
    sx_id end = f->found.items[i];
    if (f->parts[end] != PART_END) continue;
    bool joined = false;
    for (uint32_t r = 0; r < n && !joined; r++) {
      id_list with = {0};
      closure all;
      for (size_t e = 0; e < regions[r].ids.n; e++) SX_PUSH(f->planning->arena, with.ids, regions[r].ids.items[e]);
      SX_PUSH(f->planning->arena, with.ids, end);
      joined = belong_together(f, &with, &all);
      if (!joined) continue;
      regions[r] = with;
      needs[r] = all;
    }
    if (joined) continue;
    if (n == MOST_REGIONS) return 0;
    SX_PUSH(f->planning->arena, regions[n].ids, end);
    if (!belong_together(f, &regions[n], &needs[n])) return 0;
    n++;
  }
  return n;
}

static void take_nodes(finding *f, const sx_region *region) {
  sx_planning *planning = f->planning;
  for (uint32_t i = 0; i < region->task.n_nodes; i++) {
    sx_id id = region->task.nodes[i];
    planning->roles[id] = SX_ROLE_ATTENTION;
    if (!region->task.stored[i]) continue;
    planning->stored[id] = true;
    planning->region_of[id] = (uint32_t)planning->regions.n;
  }
}

static void take_family(finding *f) {
  id_list ends[MOST_REGIONS] = {0};
  closure needs[MOST_REGIONS] = {0};
  sx_region regions[MOST_REGIONS];
  qsort(f->found.items, f->found.n, sizeof *f->found.items, by_id);
  uint32_t n = share_ends(f, ends, needs);
  bool pays = n == 1 || f->planning->options->attention == SX_ATTENTION_ALWAYS ||
              sx_node_elements(f->shape) >= SX_ATTENTION_BYTES / (int64_t)sizeof(float);
  for (uint32_t r = 0; r < n; r++) {
    regions[r] = make_region(f, &needs[r], &ends[r]);
    if (!can_be_evaluated(regions[r].task.attention)) return;
    if (!pays && !regions[r].task.attention->skip.allowed) return;
  }
  for (uint32_t r = 0; r < n; r++) {
    take_nodes(f, &regions[r]);
    SX_PUSH(f->planning->arena, f->planning->regions, regions[r]);
  }
}

/* ---- the graph ------------------------------------------------------------------------------------- */

static void find_readers(finding *f) {
  size_t n = f->graph->nodes.n;
  sx_arena *arena = f->planning->arena;
  f->starts = SX_NEW_N(arena, uint32_t, n + 2);
  for (sx_id id = 0; id < n; id++)
    for (uint32_t k = 0; k < at(f, id)->n_inputs; k++) f->starts[at(f, id)->inputs[k] + 2]++;
  for (size_t i = 2; i < n + 2; i++) f->starts[i] += f->starts[i - 1];
  f->readers = SX_NEW_N(arena, sx_id, f->starts[n + 1]);
  for (sx_id id = 0; id < n; id++)
    for (uint32_t k = 0; k < at(f, id)->n_inputs; k++) f->readers[f->starts[at(f, id)->inputs[k] + 1]++] = id;
  f->is_output = SX_NEW_N(arena, bool, n);
  for (size_t i = 0; i < f->graph->outputs.n; i++) f->is_output[f->graph->outputs.items[i].node] = true;
  f->parts = SX_NEW_N(arena, uint8_t, n);
  f->marks = SX_NEW_N(arena, uint32_t, n);
  f->looked = SX_NEW_N(arena, uint32_t, n);
}

static bool is_worth_it(const sx_node *scores) {
  int64_t n_columns = scores->dims[scores->rank - 1], n_rows = scores->dims[scores->rank - 2];
  if (n_columns < SX_ROW_LEAST || n_columns > SX_ROW_MOST || n_rows < SX_ATTENTION_ROWS) return false;
  return sx_node_elements(scores) / n_columns / n_rows >= SX_ATTENTION_BATCHES;
}

void sx_plan_attention(sx_planning *planning) {
  finding f = {.planning = planning, .graph = planning->graph};
  size_t n = planning->graph->nodes.n;
  for (sx_id id = 0; id < n; id++) planning->region_of[id] = UINT32_MAX;
  if (planning->options->attention == SX_ATTENTION_NEVER || !planning->options->fuse) return;
  for (sx_id id = 0; id < n; id++) {
    sx_attention_product product;
    if (at(&f, id)->op != SX_OP_EINSUM || !read_scores(&f, id, &product) || !is_worth_it(at(&f, id))) continue;
    if (!f.readers) find_readers(&f);
    if (find_family(&f, id)) take_family(&f);
    leave_family(&f);
  }
}
