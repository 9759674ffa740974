#include "evaluate64.h"

#include <math.h>
#include <string.h>

#include "../../libsexp/base/bug.h"

/* A node in evaluation: its operands' nodes and values, its own values. */
typedef struct frame {
  const sx_node *node;
  const sx_node *in[4];
  const double *x[4];
  double *out;
} frame;

/* ---- indices ------------------------------------------------------------------------------------ */

static void split(const sx_node *node, int64_t flat, int64_t *index) {
  for (int i = node->rank; i-- > 0;) {
    index[i] = node->dims[i] ? flat % node->dims[i] : 0;
    flat = node->dims[i] ? flat / node->dims[i] : 0;
  }
}

static int64_t join(const sx_node *node, const int64_t *index) {
  int64_t flat = 0;
  for (int i = 0; i < node->rank; i++) flat = flat * node->dims[i] + index[i];
  return flat;
}

/* ---- elements ----------------------------------------------------------------------------------- */

static double sign_of(double a) { return a > 0 ? 1 : a < 0 ? -1 : a; }
static double truncate_to(double a, double low, double high) { return a != a ? 0 : fmin(fmax(trunc(a), low), high); }

static double cast_to(sx_dtype dtype, double a) {
  if (sx_dtype_is_float(dtype)) return a;
  if (dtype == SX_BOOL) return a != 0;
  return dtype == SX_U8 ? truncate_to(a, 0, 255) : truncate_to(a, -2147483648.0, 2147483647.0);
}

static double unary(sx_op op, double a) {
  switch (op) {
    case SX_OP_NEG:
      return -a;
    case SX_OP_ABS:
      return fabs(a);
    case SX_OP_SIGN:
      return sign_of(a);
    case SX_OP_SQRT:
      return sqrt(a);
    case SX_OP_RSQRT:
      return 1 / sqrt(a);
    case SX_OP_EXP:
      return exp(a);
    case SX_OP_EXP2:
      return exp2(a);
    case SX_OP_EXPM1:
      return expm1(a);
    case SX_OP_LOG:
      return log(a);
    case SX_OP_LOG2:
      return log2(a);
    case SX_OP_LOG1P:
      return log1p(a);
    case SX_OP_SIN:
      return sin(a);
    case SX_OP_COS:
      return cos(a);
    case SX_OP_TAN:
      return tan(a);
    case SX_OP_TANH:
      return tanh(a);
    case SX_OP_ERF:
      return erf(a);
    case SX_OP_FLOOR:
      return floor(a);
    case SX_OP_CEIL:
      return ceil(a);
    case SX_OP_ROUND:
      return nearbyint(a);
    case SX_OP_NOT:
      return a == 0;
    default:
      SX_BUG("%s is no operation of one element", sx_op_describe(op)->name);
  }
}

static double binary(sx_op op, double a, double b) {
  switch (op) {
    case SX_OP_ADD:
      return a + b;
    case SX_OP_SUB:
      return a - b;
    case SX_OP_MUL:
      return a * b;
    case SX_OP_DIV:
      return a / b;
    case SX_OP_IDIV:
      return floor(a / b);
    case SX_OP_MOD:
      return a - b * floor(a / b);
    case SX_OP_MAX:
      return a > b ? a : b;
    case SX_OP_MIN:
      return a < b ? a : b;
    case SX_OP_POW:
      return pow(a, b);
    case SX_OP_ATAN2:
      return atan2(a, b);
    case SX_OP_EQ:
      return a == b;
    case SX_OP_NE:
      return a != b;
    case SX_OP_LT:
      return a < b;
    case SX_OP_LE:
      return a <= b;
    case SX_OP_GT:
      return a > b;
    case SX_OP_GE:
      return a >= b;
    case SX_OP_AND:
      return a != 0 && b != 0;
    case SX_OP_OR:
      return a != 0 || b != 0;
    default:
      SX_BUG("%s is no operation of two elements", sx_op_describe(op)->name);
  }
}

static double element(const frame *f, int64_t i) {
  double a = f->x[0][i];
  if (f->node->op == SX_OP_WHERE) return a != 0 ? f->x[1][i] : f->x[2][i];
  if (f->node->op == SX_OP_CAST) return cast_to(f->node->dtype, a);
  return f->node->n_inputs == 1 ? unary(f->node->op, a) : binary(f->node->op, a, f->x[1][i]);
}

static void elements(const frame *f, int64_t n) {
  for (int64_t i = 0; i < n; i++) f->out[i] = element(f, i);
}

/* ---- moves: where an element of the result comes from, or -1 -------------------------------------- */

static int64_t source_of_pad(const frame *f, const int64_t *index) {
  int64_t from[SX_RANK_MAX] = {0};
  for (int i = 0; i < f->node->rank; i++) {
    int64_t at = index[i] - f->node->ints[3 * i], step = f->node->ints[3 * i + 2] + 1;
    if (at < 0 || at % step != 0 || at / step >= f->in[0]->dims[i]) return -1;
    from[i] = at / step;
  }
  return join(f->in[0], from);
}

static int64_t source_of(const frame *f, const int64_t *index) {
  const int64_t *ints = f->node->ints;
  int64_t from[SX_RANK_MAX] = {0};
  if (f->node->op == SX_OP_PAD) return source_of_pad(f, index);
  for (int i = 0; i < f->in[0]->rank; i++) {
    if (f->node->op == SX_OP_TRANSPOSE)
      from[ints[i]] = index[i];
    else if (f->node->op == SX_OP_SLICE)
      from[i] = ints[3 * i] + index[i] * ints[3 * i + 2];
    else if (f->node->op == SX_OP_BROADCAST)
      from[i] = f->in[0]->dims[i] == 1 ? 0 : index[f->node->rank - f->in[0]->rank + i];
    else if (f->node->op == SX_OP_REVERSE)
      from[i] = i == ints[0] ? f->node->dims[i] - 1 - index[i] : index[i];
    else if (f->node->op == SX_OP_UNFOLD)
      from[i] = i == ints[0] ? index[i] * ints[2] + index[f->node->rank - 1] : index[i];
  }
  return join(f->in[0], from);
}

static void moves(const frame *f, int64_t n) {
  int64_t index[SX_RANK_MAX];
  for (int64_t i = 0; i < n; i++) {
    split(f->node, i, index);
    int64_t from = f->node->op == SX_OP_RESHAPE ? i : source_of(f, index);
    f->out[i] = from < 0 ? f->node->real : f->x[0][from];
  }
}

static void concat(const sx_graph *graph, const sx_node *node, double **values, double *out) {
  int64_t index[SX_RANK_MAX], start = 0, axis = node->ints[0];
  for (uint32_t k = 0; k < node->n_inputs; k++) {
    const sx_node *in = sx_node_at(graph, node->inputs[k]);
    for (int64_t i = 0; i < sx_node_elements(in); i++) {
      split(in, i, index);
      index[axis] += start;
      out[join(node, index)] = values[node->inputs[k]][i];
    }
    start += in->dims[axis];
  }
}

static void fold(const frame *f, int64_t n) {
  int64_t index[SX_RANK_MAX], axis = f->node->ints[0];
  for (int64_t i = 0; i < n; i++) f->out[i] = 0;
  for (int64_t i = 0; i < sx_node_elements(f->in[0]); i++) {
    split(f->in[0], i, index);
    index[axis] = index[axis] * f->node->ints[2] + index[f->in[0]->rank - 1];
    f->out[join(f->node, index)] += f->x[0][i];
  }
}

/* ---- reductions --------------------------------------------------------------------------------- */

static double combine(const sx_node *node, double total, double x) {
  switch (node->op) {
    case SX_OP_SUM:
      return total + x;
    case SX_OP_REDUCEMAX:
      return fmax(total, x);
    case SX_OP_REDUCEMIN:
      return fmin(total, x);
    case SX_OP_ANY:
      return total != 0 || x != 0;
    default:
      return total != 0 && x != 0;
  }
}

static bool is_reduced(const sx_node *node, int axis) {
  for (uint32_t k = 0; k < node->n_ints; k++)
    if (node->ints[k] == axis) return true;
  return false;
}

static void reduces(const frame *f, int64_t n) {
  int64_t index[SX_RANK_MAX], kept[SX_RANK_MAX];
  double start = f->node->op == SX_OP_REDUCEMAX ? -HUGE_VAL : f->node->op == SX_OP_REDUCEMIN ? HUGE_VAL : 0;
  bool arg = f->node->op == SX_OP_ARGMAX || f->node->op == SX_OP_ARGMIN;
  for (int64_t i = 0; i < n; i++) f->out[i] = arg ? 0 : f->node->op == SX_OP_ALL ? 1 : start;
  for (int64_t i = 0; i < sx_node_elements(f->in[0]); i++) {
    int rank = 0;
    split(f->in[0], i, index);
    for (int k = 0; k < f->in[0]->rank; k++)
      if (!is_reduced(f->node, k)) kept[rank++] = index[k];
    double *out = &f->out[join(f->node, kept)];
    if (!arg) {
      *out = combine(f->node, *out, f->x[0][i]);
      continue;
    }
    int64_t at = index[f->node->ints[0]];
    index[f->node->ints[0]] = (int64_t)*out;
    double best = f->x[0][join(f->in[0], index)];
    if (f->node->op == SX_OP_ARGMAX ? f->x[0][i] > best : f->x[0][i] < best) *out = (double)at;
  }
}

/* ---- products ----------------------------------------------------------------------------------- */

/* Walks all values of all labels. */
static void einsum(const frame *f, int64_t n) {
  const char *parts[3] = {f->node->text, strchr(f->node->text, ',') + 1, strstr(f->node->text, "->") + 2};
  const sx_node *nodes[3] = {f->in[0], f->in[1], f->node};
  int64_t sizes[128] = {0}, at[128] = {0}, total = 1;
  char labels[3 * SX_RANK_MAX];
  int n_labels = 0;
  for (int part = 0; part < 2; part++)
    for (int i = 0; i < nodes[part]->rank; i++) {
      unsigned char label = (unsigned char)parts[part][i];
      if (!memchr(labels, label, (size_t)n_labels)) labels[n_labels++] = (char)label;
      sizes[label] = nodes[part]->dims[i];
    }
  for (int i = 0; i < n_labels; i++) total *= sizes[(unsigned char)labels[i]];
  for (int64_t i = 0; i < n; i++) f->out[i] = 0;
  for (int64_t k = 0; k < total; k++) {
    int64_t rest = k, flat[3] = {0};
    for (int i = 0; i < n_labels; i++) {
      at[(unsigned char)labels[i]] = rest % sizes[(unsigned char)labels[i]];
      rest /= sizes[(unsigned char)labels[i]];
    }
    for (int part = 0; part < 3; part++)
      for (int i = 0; i < nodes[part]->rank; i++)
        flat[part] = flat[part] * nodes[part]->dims[i] + at[(unsigned char)parts[part][i]];
    f->out[flat[2]] += f->x[0][flat[0]] * f->x[1][flat[1]];
  }
}

/* The three convolutions are sums of the same terms y[n oh ow o] x[n h w c] w[o kh kw c]: each adds, for
 * every term, the product of its two operands to the third. */
static void convolution(const frame *f, int64_t n) {
  sx_op op = f->node->op;
  const sx_node *y = op == SX_OP_CONV ? f->node : f->in[0];
  const sx_node *x = op == SX_OP_CONV ? f->in[0] : op == SX_OP_CONVDATA ? f->node : f->in[1];
  const sx_node *w = op == SX_OP_CONVWEIGHT ? f->node : f->in[1];
  int64_t stride = f->node->ints[0], padding = f->node->ints[1];
  for (int64_t i = 0; i < n; i++) f->out[i] = 0;
  for (int64_t i = 0; i < sx_node_elements(y); i++)
    for (int64_t k = 0; k < w->dims[1] * w->dims[2] * w->dims[3]; k++) {
      int64_t p[4], c = k % w->dims[3], kw = k / w->dims[3] % w->dims[2], kh = k / w->dims[3] / w->dims[2];
      split(y, i, p);
      int64_t h = p[1] * stride + kh - padding, v = p[2] * stride + kw - padding;
      if (h < 0 || h >= x->dims[1] || v < 0 || v >= x->dims[2]) continue;
      int64_t at_x = join(x, (int64_t[]){p[0], h, v, c}), at_w = join(w, (int64_t[]){p[3], kh, kw, c});
      if (op == SX_OP_CONV) f->out[i] += f->x[0][at_x] * f->x[1][at_w];
      if (op == SX_OP_CONVDATA) f->out[at_x] += f->x[0][i] * f->x[1][at_w];
      if (op == SX_OP_CONVWEIGHT) f->out[at_w] += f->x[0][i] * f->x[1][at_x];
    }
}

/* ---- index operations --------------------------------------------------------------------------- */

static void indexing(const frame *f, int64_t n) {
  bool adds = f->node->op == SX_OP_SCATTER || f->node->op == SX_OP_PUT;
  bool rows = f->node->op == SX_OP_SCATTER || f->node->op == SX_OP_GATHER;
  const sx_node *ids = f->in[adds ? 0 : 1];          /* i32 */
  const sx_node *wide = adds ? f->node : f->in[0];   /* what ids point into */
  const sx_node *values = adds ? f->in[1] : f->node; /* what stands at the ids */
  for (int64_t i = 0; adds && i < n; i++) f->out[i] = 0;
  for (int64_t i = 0; i < sx_node_elements(values); i++) {
    int64_t index[SX_RANK_MAX] = {0}, at[SX_RANK_MAX] = {0};
    split(values, i, index);
    double id = f->x[adds ? 0 : 1][rows ? join(ids, index) : i];
    for (int k = 0; k < wide->rank; k++)
      at[k] = rows ? (k == 0 ? (int64_t)id : index[ids->rank + k - 1]) : k == f->node->ints[0] ? (int64_t)id : index[k];
    if (adds)
      f->out[join(wide, at)] += f->x[1][i];
    else
      f->out[i] = f->x[0][join(wide, at)];
  }
}

static void one_hot(const frame *f, int64_t n) {
  int64_t length = f->node->ints[0];
  for (int64_t i = 0; i < n; i++) f->out[i] = f->x[0][i / length] == (double)(i % length);
}

static void scan(const frame *f, int64_t n) {
  bool linear = f->node->op == SX_OP_SCANLINEAR;
  const double *segments = f->x[linear ? 2 : 1];
  int64_t axis = f->node->ints[0], direction = f->node->ints[1] ? 1 : -1, stride = 1;
  for (int k = (int)axis + 1; k < f->node->rank; k++) stride *= f->node->dims[k];
  for (int64_t j = 0; j < n; j++) {
    int64_t i = f->node->ints[1] ? n - 1 - j : j, index[SX_RANK_MAX];
    split(f->node, i, index);
    int64_t before = index[axis] + direction, from = i + direction * stride;
    bool starts = before < 0 || before >= f->node->dims[axis] || (segments && segments[i] != segments[from]);
    double carried = starts ? 0 : f->out[from];
    f->out[i] = linear ? f->x[0][i] * carried + f->x[1][i] : f->x[0][i] + carried;
  }
}

static void argsort(const frame *f, int64_t n) {
  int64_t axis = f->node->ints[0];
  for (int64_t i = 0; i < n; i++) {
    int64_t index[SX_RANK_MAX] = {0}, place = 0;
    split(f->node, i, index);
    int64_t own = index[axis];
    for (int64_t k = 0; k < f->node->dims[axis]; k++) {
      index[axis] = k;
      double x = f->x[0][join(f->node, index)], mine = f->x[0][i];
      bool less = f->node->ints[1] ? x > mine : x < mine;
      place += less || (x == mine && k < own);
    }
    index[axis] = place;
    f->out[join(f->node, index)] = (double)own;
  }
}

/* ---- a node ------------------------------------------------------------------------------------- */

static void leaf(const frame *f, int64_t n, fill64 *fill, void *context) {
  int64_t index[SX_RANK_MAX];
  if (f->node->op != SX_OP_CONST && f->node->op != SX_OP_IOTA) {
    fill(context, f->node->text, f->out, n);
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    split(f->node, i, index);
    f->out[i] = f->node->op == SX_OP_CONST ? f->node->real : (double)index[f->node->ints[0]];
  }
}

static void evaluate(const frame *f, int64_t n) {
  switch (f->node->op) {
    case SX_OP_FOLD:
      fold(f, n);
      return;
    case SX_OP_EINSUM:
      einsum(f, n);
      return;
    case SX_OP_ONEHOT:
      one_hot(f, n);
      return;
    case SX_OP_ARGSORT:
      argsort(f, n);
      return;
    default:
      break;
  }
  switch (sx_op_describe(f->node->op)->class) {
    case SX_CLASS_ELEMENT:
      elements(f, n);
      return;
    case SX_CLASS_MOVE:
      moves(f, n);
      return;
    case SX_CLASS_REDUCE:
      reduces(f, n);
      return;
    case SX_CLASS_CONTRACT:
      convolution(f, n);
      return;
    case SX_CLASS_INDEX:
      indexing(f, n);
      return;
    case SX_CLASS_SCAN:
      scan(f, n);
      return;
    default:
      SX_BUG("%s is not evaluated", sx_op_describe(f->node->op)->name);
  }
}

double **evaluate64(const sx_graph *graph, sx_arena *arena, fill64 *fill, void *context) {
  double **values = SX_NEW_N(arena, double *, graph->nodes.n);
  for (size_t i = 0; i < graph->nodes.n; i++) {
    const sx_node *node = &graph->nodes.items[i];
    int64_t n = sx_node_elements(node);
    frame f = {.node = node, .out = SX_NEW_N(arena, double, n + 1)};
    values[i] = f.out;
    if (node->op == SX_OP_CONCAT) {
      concat(graph, node, values, f.out);
      continue;
    }
    for (uint32_t k = 0; k < node->n_inputs && k < 4; k++) {
      f.in[k] = sx_node_at(graph, node->inputs[k]);
      f.x[k] = values[node->inputs[k]];
    }
    if (sx_op_describe(node->op)->class == SX_CLASS_LEAF)
      leaf(&f, n, fill, context);
    else
      evaluate(&f, n);
  }
  return values;
}
