/* Which columns of an ATTENTION task can be left out, and what has to be checked for that.
 *
 * A mask that compares positions hides the columns c > r + diagonal of row r. What the group computes there is
 * followed through its nodes:
 *   - UNIFORM: one value in all hidden columns of a row, so that one of them tells them all;
 *   - ZEROES: 0 of either sign, if some uniform nodes are 0 and some scores finite;
 *   - VARIES: anything; of some a bound is known, a factor times 1 + the largest score there can be.
 *
 *   s = q k^T   x = where (r >= c) s -inf   m = max x   e = exp (x - m)   z = sum e   p = e / z
 *   x, e, p are uniform. If e is 0 in one hidden column, the sum of a row is that of the columns that are not
 *   hidden, unless that is -0, and so are the products with p, if the other operand is finite.
 *
 * Where what has to be 0 is not, as in a row of which all is hidden, nothing is left out. */
#include <math.h>

#include "attention.h"
#include "plan_parts.h"

typedef enum hidden_kind { HIDDEN_VARIES, HIDDEN_UNIFORM, HIDDEN_ZEROES } hidden_kind;

/* A node in hidden columns. */
typedef struct hidden {
  hidden_kind kind;
  uint64_t needs; /* ZEROES, UNIFORM: nodes of the group, by place, that have to be 0 there for this to be */
  double bound;   /* VARIES: the factor; 0: none is known */
  uint32_t from;  /* VARIES: the scores that the bound is of, by number */
} hidden;

typedef struct following {
  const sx_planning *planning;
  sx_attention *attention;
  hidden nodes[SX_GROUP_NODES]; /* per node of the group */
  uint32_t n_nodes;             /* that are known */
  bool masked;                  /* a mask was met: then the diagonal is known */
} following;

static const sx_node *at(const following *f, sx_id id) { return sx_node_at(f->planning->graph, id); }

/* ---- masks ----------------------------------------------------------------------------------------- */

/* offset + row r + column c; false: the value is not of that form. */
typedef struct affine {
  int64_t row, column, offset;
} affine;

static bool read_affine(const following *f, sx_id id, affine *value) {
  const sx_node *node = at(f, id), *root = at(f, f->planning->roots[id]);
  const sx_view *view = &f->planning->plan->views[id];
  if (node->rank < 2 || node->dtype != SX_I32) return false;
  *value = (affine){.offset = root->op == SX_OP_CONST ? (int64_t)root->real : view->offset};
  if (root->op == SX_OP_CONST) return true;
  if (root->op != SX_OP_IOTA) return false;
  for (int i = 0; i < node->rank - 2; i++)
    if (node->dims[i] != 1 && view->strides[i]) return false;
  value->row = view->strides[node->rank - 2];
  value->column = view->strides[node->rank - 1];
  return true;
}

/* What a comparison is in the columns c > r + *diagonal, the widest such part of the row; -1: not one value. */
static int read_comparison(const following *f, const sx_node *node, int64_t *diagonal) {
  affine a, b;
  bool swapped = node->op == SX_OP_LE || node->op == SX_OP_LT, equal = node->op == SX_OP_GE || node->op == SX_OP_LE;
  if (!read_affine(f, node->inputs[swapped], &a) || !read_affine(f, node->inputs[!swapped], &b)) return -1;
  int64_t row = a.row - b.row, column = a.column - b.column, offset = a.offset - b.offset - !equal;
  if (row == 1 && column == -1) { /* true where c <= r + offset */
    *diagonal = offset;
    return 0;
  }
  if (row == -1 && column == 1) { /* true where c >= r - offset */
    *diagonal = -offset - 1;
    return 1;
  }
  return -1;
}

static bool has_rows_and_columns(const following *f, const sx_node *node) {
  return node->rank >= 2 && node->dims[node->rank - 1] == f->attention->columns &&
         node->dims[node->rank - 2] == f->attention->rows;
}

enum { DEEPEST_MASK = 8 };

/* The same of any condition. AND is false where one of its operands is. */
static int read_mask(const following *f, sx_id id, int64_t *diagonal, int depth) {
  const sx_node *node = at(f, id);
  while (node->op == SX_OP_BROADCAST && has_rows_and_columns(f, node)) node = at(f, node->inputs[0]);
  if (!has_rows_and_columns(f, node)) return -1;
  switch (node->op) {
    case SX_OP_GE:
    case SX_OP_GT:
    case SX_OP_LE:
    case SX_OP_LT:
      return read_comparison(f, node, diagonal);
    case SX_OP_AND:
      for (int k = 0; k < 2 && depth < DEEPEST_MASK; k++)
        if (read_mask(f, node->inputs[k], diagonal, depth + 1) == 0) return 0;
      return -1;
    default:
      return -1;
  }
}

/* ---- nodes ----------------------------------------------------------------------------------------- */

static const hidden anything = {.kind = HIDDEN_VARIES};

static hidden bounded(double bound, uint32_t from) {
  return (hidden){.kind = HIDDEN_VARIES, .bound = isfinite(bound) ? bound : 0, .from = from};
}

static hidden find_hidden(const following *f, sx_id id) {
  const sx_node *node = at(f, id);
  for (uint32_t i = 0; i < f->n_nodes; i++)
    if (f->attention->group.nodes[i] == id) return f->nodes[i];
  for (uint32_t i = 0; i < f->attention->n_scores; i++)
    if (f->attention->products[i].node == id) return bounded(1, 1u << i);
  bool still = node->rank > 0 && f->planning->plan->views[id].strides[node->rank - 1] == 0;
  return still ? (hidden){.kind = HIDDEN_UNIFORM} : anything;
}

static bool is_constant(const following *f, sx_id id, double *value) {
  const sx_node *root = at(f, f->planning->roots[id]);
  *value = root->real;
  return root->op == SX_OP_CONST && root->dtype == SX_F32;
}

/* 0 in hidden columns, perhaps if some nodes are. */
static bool may_be_zero(const following *f, sx_id id, uint64_t *needs) {
  double value;
  hidden one = find_hidden(f, id);
  *needs |= one.needs;
  if (is_constant(f, id, &value)) return value == 0;
  return one.kind != HIDDEN_VARIES && one.needs;
}

/* As find_hidden, with the bound of a constant. */
static hidden find_bound(const following *f, sx_id id) {
  double value;
  return is_constant(f, id, &value) ? bounded(fabs(value) + 1, 0) : find_hidden(f, id);
}

static hidden follow_product(const following *f, const sx_node *node) {
  for (int k = 0; k < 2; k++) {
    double value;
    uint64_t needs = 0;
    hidden one = find_hidden(f, node->inputs[k]);
    if (one.kind != HIDDEN_VARIES || one.bound == 0) continue;
    if (is_constant(f, node->inputs[!k], &value)) return bounded(one.bound * (fabs(value) + 1), one.from);
    bool uniform = find_hidden(f, node->inputs[!k]).kind == HIDDEN_UNIFORM;
    if (!uniform || !may_be_zero(f, node->inputs[!k], &needs)) continue;
    if (one.bound > f->attention->skip.bound) f->attention->skip.bound = one.bound;
    f->attention->skip.bounded |= one.from;
    return (hidden){.kind = HIDDEN_ZEROES, .needs = needs};
  }
  return anything;
}

/* Whether a mask that is known is one comparison. */
static bool is_comparison(const following *f, sx_id id) {
  while (at(f, id)->op == SX_OP_BROADCAST) id = at(f, id)->inputs[0];
  return at(f, id)->op != SX_OP_AND;
}

static void take_mask(following *f, sx_id mask, int known, int64_t diagonal) {
  sx_attention_skip *skip = &f->attention->skip;
  if (f->masked && diagonal <= skip->diagonal) return;
  f->masked = true;
  skip->diagonal = diagonal;
  skip->mask = known == 0 && is_comparison(f, mask) ? mask : SX_NO_NODE;
}

static hidden follow_choice(following *f, const sx_node *node) {
  int64_t diagonal;
  int known = read_mask(f, node->inputs[0], &diagonal, 0);
  if (known >= 0) {
    take_mask(f, node->inputs[0], known, diagonal);
    return find_hidden(f, node->inputs[known ? 1 : 2]);
  }
  uint64_t needs = 0;
  if (may_be_zero(f, node->inputs[1], &needs) && may_be_zero(f, node->inputs[2], &needs))
    return (hidden){.kind = HIDDEN_ZEROES, .needs = needs};
  hidden x = find_bound(f, node->inputs[1]), y = find_bound(f, node->inputs[2]);
  return x.bound > 0 && y.bound > 0 ? bounded(x.bound > y.bound ? x.bound : y.bound, x.from | y.from) : anything;
}

static hidden follow_element(following *f, const sx_node *node) {
  bool uniform = true;
  for (uint32_t k = 0; k < node->n_inputs; k++)
    uniform = uniform && find_hidden(f, node->inputs[k]).kind == HIDDEN_UNIFORM;
  if (uniform) return (hidden){.kind = HIDDEN_UNIFORM};
  if (node->op == SX_OP_WHERE) return follow_choice(f, node);
  if (node->op == SX_OP_MUL) return follow_product(f, node);
  return node->op == SX_OP_NEG ? find_hidden(f, node->inputs[0]) : anything;
}

static bool is_wide(const following *f, const sx_node *node) {
  return sx_node_elements(node) == f->attention->n_batches * f->attention->rows * f->attention->columns;
}

/* What a reduction needs to be that of the other columns: a largest or least element, that a hidden one is among
 * them. False: no more is known of the hidden ones. */
static bool follow_reduction(following *f, const sx_node *node, uint64_t *needs) {
  hidden input = find_hidden(f, node->inputs[0]);
  if (node->op != SX_OP_SUM) return input.kind == HIDDEN_UNIFORM;
  *needs |= input.needs;
  return input.kind != HIDDEN_VARIES && input.needs;
}

/* Fills attention->skip but for its lists; gives the nodes that have to be 0. */
static bool follow(following *f, uint64_t *needs) {
  const sx_task *group = &f->attention->group;
  bool fine = true;
  for (uint32_t i = 0; i < group->n_nodes; i++, f->n_nodes++) {
    const sx_node *node = at(f, group->nodes[i]);
    f->nodes[i] = anything;
    if (sx_reduced_row(f->planning->graph, group->nodes[i]))
      fine = fine && follow_reduction(f, node, needs);
    else if (is_wide(f, node))
      f->nodes[i] = follow_element(f, node);
    if (f->nodes[i].kind == HIDDEN_UNIFORM) f->nodes[i].needs = (uint64_t)1 << i;
  }
  for (uint32_t i = f->attention->n_scores; i < f->attention->n_products; i++)
    fine = fine && may_be_zero(f, f->attention->products[i].tile, needs);
  return fine && f->masked;
}

void sx_plan_attention_skip(const sx_planning *planning, sx_attention *attention) {
  following f = {.planning = planning, .attention = attention};
  sx_attention_skip *skip = &attention->skip;
  sx_task *group = &attention->group;
  uint64_t needs = 0;
  *skip = (sx_attention_skip){0};
  if (!follow(&f, &needs)) {
    *skip = (sx_attention_skip){0};
    return;
  }
  skip->zeroes = SX_NEW_N(planning->arena, sx_id, group->n_nodes);
  skip->sums = SX_NEW_N(planning->arena, sx_id, group->n_nodes);
  for (uint32_t i = 0; i < group->n_nodes; i++) {
    bool sum = at(&f, group->nodes[i])->op == SX_OP_SUM;
    if (needs >> i & 1) skip->zeroes[skip->n_zeroes++] = group->nodes[i];
    if (sum) skip->sums[skip->n_sums++] = group->nodes[i];
    if (sum || needs >> i & 1) group->stored[i] = true;
  }
  skip->allowed = true;
}
