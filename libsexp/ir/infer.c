/* Inference of a node: counts of operands and attributes, dtype rules, limits of sizes. The rules of each
 * operation are those that its row of ops.def names; shape rules are in infer_shape.c, infer_product.c. */
#include "infer.h"

#include <stdarg.h>
#include <stdio.h>

bool sx_problem_set(sx_problem *why, sx_code code, const char *format, ...) {
  why->code = code;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(why->message, sizeof why->message, format, arguments);
  va_end(arguments);
  return false;
}

sx_shape_text sx_shape_text_of_dims(const int64_t *dims, int rank) {
  sx_shape_text shape = {"["};
  size_t n = 1;
  for (int i = 0; i < rank; i++)
    n += (size_t)snprintf(shape.text + n, sizeof shape.text - n, i ? " %lld" : "%lld", (long long)dims[i]);
  snprintf(shape.text + n, sizeof shape.text - n, "]");
  return shape;
}

sx_shape_text sx_shape_text_of(const sx_node *node) { return sx_shape_text_of_dims(node->dims, node->rank); }

bool sx_shape_elements(const int64_t *dims, int rank, int64_t *n) {
  int64_t limit = (int64_t)1 << 59, product = 1; /* 8 bytes an element, whatever the dtype */
  bool empty = false;
  for (int i = 0; i < rank; i++) {
    if (dims[i] < 0) return false;
    empty = empty || dims[i] == 0;
    if (dims[i] > 0 && product > limit / dims[i]) return false;
    if (dims[i] > 0) product *= dims[i];
  }
  *n = empty ? 0 : product;
  return product < limit;
}

bool sx_infer_axis(sx_inference *f, const sx_node *node, int64_t axis) {
  if (axis >= 0 && axis < node->rank) return true;
  return sx_problem_set(f->why, SX_E_SHAPE_AXIS, "axis %lld does not exist in shape %s", (long long)axis,
                        sx_shape_text_of(node).text);
}

bool sx_infer_no_rank(sx_inference *f, const char *expected, const sx_node *got) {
  return sx_problem_set(f->why, SX_E_SHAPE_RANK, "takes %s, got shape %s", expected, sx_shape_text_of(got).text);
}

/* ---- dtype rules: the dtype of the result, or why the operands are not taken --------------------- */

typedef enum kind { ANY, NUMBERS, FLOATS, BOOLS, IDS } kind;

static const struct {
  const char *name;
  bool takes[SX_N_DTYPES]; /* f32 bf16 f16 i32 u8 bool */
} kinds[] = {
    [ANY] = {"any dtype", {true, true, true, true, true, true}},
    [NUMBERS] = {"numbers (f32 bf16 f16 i32)", {true, true, true, true, false, false}},
    [FLOATS] = {"floats (f32 bf16 f16)", {true, true, true, false, false, false}},
    [BOOLS] = {"bools", {false, false, false, false, false, true}},
    [IDS] = {"i32", {false, false, false, true, false, false}},
};

static bool takes(sx_inference *f, uint32_t input, kind wanted) {
  sx_dtype dtype = sx_inference_input(f, input)->dtype;
  if (kinds[wanted].takes[dtype]) return true;
  return sx_problem_set(f->why, SX_E_TYPE_OPERAND, "takes %s, got %s; cast it", kinds[wanted].name,
                        sx_dtype_name(dtype));
}

/* Inputs from first up to end are of one dtype that is taken, which is the result's. */
static bool takes_equal(sx_inference *f, uint32_t first, uint32_t end, kind wanted) {
  for (uint32_t i = first; i < end; i++) {
    if (!takes(f, i, wanted)) return false;
    sx_dtype dtype = sx_inference_input(f, i)->dtype;
    if (i == first) f->dtype = dtype;
    if (dtype != f->dtype)
      return sx_problem_set(f->why, SX_E_TYPE_DIFFER, "dtypes differ, %s and %s; cast one of them",
                            sx_dtype_name(f->dtype), sx_dtype_name(dtype));
  }
  return true;
}

static bool holds_value(sx_inference *f) {
  double value = f->spec->real;
  if (sx_dtype_round(f->dtype, value) == value || (value != value && sx_dtype_is_float(f->dtype))) return true;
  return sx_problem_set(f->why, SX_E_TYPE_VALUE, "%s does not hold the value %.9g", sx_dtype_name(f->dtype), value);
}

static bool gives(sx_inference *f, sx_dtype dtype) {
  f->dtype = dtype;
  return true;
}

typedef bool dtype_rule(sx_inference *f);

static bool dtype_GIVEN(sx_inference *f) { return gives(f, f->spec->dtype); }
static bool dtype_CONST(sx_inference *f) { return dtype_GIVEN(f) && holds_value(f); }
static bool dtype_SAME(sx_inference *f) { return takes_equal(f, 0, f->spec->n_inputs, ANY); }
static bool dtype_PAD(sx_inference *f) { return dtype_SAME(f) && holds_value(f); }
static bool dtype_NUMBER(sx_inference *f) { return takes_equal(f, 0, f->spec->n_inputs, NUMBERS); }
static bool dtype_FLOAT(sx_inference *f) { return takes_equal(f, 0, f->spec->n_inputs, FLOATS); }
static bool dtype_COMPARE(sx_inference *f) { return dtype_SAME(f) && gives(f, SX_BOOL); }
static bool dtype_BOOL(sx_inference *f) { return takes_equal(f, 0, f->spec->n_inputs, BOOLS); }
static bool dtype_WHERE(sx_inference *f) { return takes(f, 0, BOOLS) && takes_equal(f, 1, 3, ANY); }
static bool dtype_I32(sx_inference *f) { return gives(f, SX_I32); }
static bool dtype_INDEX(sx_inference *f) { return takes(f, 0, NUMBERS) && gives(f, SX_I32); }
static bool dtype_ONEHOT(sx_inference *f) { return takes(f, 0, IDS) && dtype_GIVEN(f); }
static bool dtype_TABLE(sx_inference *f) { return takes(f, 1, IDS) && takes_equal(f, 0, 1, ANY); }
static bool dtype_SCATTER(sx_inference *f) { return takes(f, 0, IDS) && takes_equal(f, 1, 2, NUMBERS); }

static bool dtype_PRODUCT(sx_inference *f) {
  if (!dtype_FLOAT(f)) return false;
  if (sx_dtype_is_float(f->spec->dtype)) return dtype_GIVEN(f);
  return sx_problem_set(f->why, SX_E_TYPE_OPERAND, "gives a float, not %s", sx_dtype_name(f->spec->dtype));
}

static bool takes_segments(sx_inference *f, uint32_t operands) {
  uint32_t n = f->spec->n_inputs;
  if (n != operands && n != operands + 1)
    return sx_problem_set(f->why, SX_E_TYPE_OPERANDS, "takes %u operands and segments, got %u", operands, n);
  return n == operands || takes(f, operands, IDS);
}

static bool dtype_SCAN(sx_inference *f) { return takes_segments(f, 1) && takes_equal(f, 0, 1, NUMBERS); }
static bool dtype_LINEAR(sx_inference *f) { return takes_segments(f, 2) && takes_equal(f, 0, 2, FLOATS); }

static bool dtype_DRAW(sx_inference *f) {
  for (uint32_t i = 0; i < f->spec->n_inputs; i++)
    if (!takes(f, i, IDS)) return false;
  return gives(f, SX_F32);
}

static bool dtype_GRAD(sx_inference *f) {
  const sx_node *y = sx_inference_input(f, 0), *x = sx_inference_input(f, 1);
  if (y->rank != 0 || !sx_dtype_is_float(y->dtype))
    return sx_problem_set(f->why, SX_E_GRAD_SCALAR, "takes the gradient of a float scalar, got %s %s",
                          sx_dtype_name(y->dtype), sx_shape_text_of(y).text);
  if (!sx_dtype_is_float(x->dtype))
    return sx_problem_set(f->why, SX_E_GRAD_TARGET, "takes gradients with respect to floats, got %s",
                          sx_dtype_name(x->dtype));
  return gives(f, x->dtype);
}

static const struct {
  dtype_rule *dtype;
  sx_shape_rule *shape;
} rules[SX_N_OPS] = {
#define SX_OP(id, name, n_inputs, class, dtype, shape, gradient, attributes, text) \
  [SX_OP_##id] = {dtype_##dtype, sx_shape_##shape},
#include "ops.def"
#undef SX_OP
};

/* ---- a node ------------------------------------------------------------------------------------- */

static bool check_counts(const sx_graph *graph, const sx_spec *spec, sx_problem *why) {
  int expected = sx_op_describe(spec->op)->n_inputs;
  if (expected >= 0 && spec->n_inputs != (uint32_t)expected)
    return sx_problem_set(why, SX_E_TYPE_OPERANDS, "takes %d operand%s, got %u", expected, expected == 1 ? "" : "s",
                          spec->n_inputs);
  for (uint32_t i = 0; i < spec->n_inputs; i++)
    if (spec->inputs[i] >= graph->nodes.n)
      return sx_problem_set(why, SX_E_TYPE_OPERANDS, "operand %u, %%%u, does not exist", i, spec->inputs[i]);
  return true;
}

static bool check_attributes(const sx_spec *spec, sx_problem *why) {
  sx_attributes layout = sx_op_attributes(spec->op);
  bool lists =
      layout.n_lists && spec->n_ints >= layout.n_fixed && (spec->n_ints - layout.n_fixed) % layout.n_lists == 0;
  if (!lists && spec->n_ints != layout.n_fixed)
    return sx_problem_set(why, SX_E_TYPE_OPERANDS, "takes other integers, got %u", spec->n_ints);
  if (!layout.has_real && spec->real != 0) return sx_problem_set(why, SX_E_TYPE_OPERANDS, "takes no real");
  if (!layout.has_text && spec->text) return sx_problem_set(why, SX_E_TYPE_OPERANDS, "takes no text");
  if (layout.has_text && !spec->text && sx_op_describe(spec->op)->class != SX_CLASS_RANDOM)
    return sx_problem_set(why, SX_E_TYPE_OPERANDS, "takes a text");
  return true;
}

static bool check_size(sx_inference *f) {
  int64_t n;
  if (sx_shape_elements(f->dims, f->rank, &n)) return true;
  return sx_problem_set(f->why, SX_E_SHAPE_SIZE, "a result of shape %s is not possible",
                        sx_shape_text_of_dims(f->dims, f->rank).text);
}

bool sx_infer(sx_inference *inference, const sx_graph *graph, const sx_spec *spec, sx_problem *why) {
  *inference = (sx_inference){.graph = graph, .spec = spec, .why = why};
  return check_counts(graph, spec, why) && check_attributes(spec, why) && rules[spec->op].dtype(inference) &&
         rules[spec->op].shape(inference) && check_size(inference);
}
