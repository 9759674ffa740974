/* Every gradient rule against central differences, in binary64, and the gradients of the gradients. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../../libsexp/ir/build.h"
#include "../../libsexp/pass/gradient.h"
#include "../common/cmocka_all.h"
#include "../common/evaluate64.h"
#include "../common/graphs.h"

enum { PARAMS_MAX = 8, OUTPUT_NAME = 32 };

/* Nodes of a graph with the output "y". Values of a parameter follow the first letter of its path: p positive,
 * u inside (-0.9, 0.9), x away from 0, s ascending i32 segments, iN i32 ids below N. */
typedef struct gradient_case {
  const char *name, *nodes;
} gradient_case;

#define A3 "%0 = param {path \"x/a\"} : f32 [3]\n"
#define P3 "%0 = param {path \"p/a\"} : f32 [3]\n"
#define U3 "%0 = param {path \"u/a\"} : f32 [3]\n"
#define B3 "%1 = param {path \"x/b\"} : f32 [3]\n"
#define A23 "%0 = param {path \"x/a\"} : f32 [2 3]\n"
#define A24 "%0 = param {path \"x/a\"} : f32 [2 4]\n"
#define Y1 "output \"y\" %1\n"
#define Y2 "output \"y\" %2\n"
#define Y3 "output \"y\" %3\n"
#define UNARY(leaf, op) leaf "%1 = " op " %0 : f32 [3]\n" Y1
#define BINARY(leaf, op) leaf B3 "%2 = " op " %0 %1 : f32 [3]\n" Y2

static const gradient_case cases[] = {
    {"add", BINARY(A3, "add")},
    {"add to itself", A3 "%1 = add %0 %0 : f32 [3]\n" Y1},
    {"sub", BINARY(A3, "sub")},
    {"mul", BINARY(A3, "mul")},
    {"square", A3 "%1 = mul %0 %0 : f32 [3]\n" Y1},
    {"div", BINARY(A3, "div")},
    {"mod", BINARY(A3, "mod")},
    {"max", BINARY(A3, "max")},
    {"min", BINARY(A3, "min")},
    {"pow", BINARY(P3, "pow")},
    {"atan2", BINARY(A3, "atan2")},
    {"neg", UNARY(A3, "neg")},
    {"abs", UNARY(A3, "abs")},
    {"sqrt", UNARY(P3, "sqrt")},
    {"rsqrt", UNARY(P3, "rsqrt")},
    {"exp", UNARY(A3, "exp")},
    {"exp2", UNARY(A3, "exp2")},
    {"expm1", UNARY(A3, "expm1")},
    {"log", UNARY(P3, "log")},
    {"log2", UNARY(P3, "log2")},
    {"log1p", UNARY(U3, "log1p")},
    {"sin", UNARY(A3, "sin")},
    {"cos", UNARY(A3, "cos")},
    {"tan", UNARY(U3, "tan")},
    {"tanh", UNARY(A3, "tanh")},
    {"erf", UNARY(A3, "erf")},
    {"where", A3 B3 "%2 = lt %0 %1 : bool [3]\n%3 = where %2 %0 %1 : f32 [3]\n" Y3},
    {"cast", A3 "%1 = cast %0 : bf16 [3]\n%2 = cast %1 : f32 [3]\n%3 = mul %2 %2 : f32 [3]\n" Y3},
    {"reshape", A23 "%1 = reshape %0 : f32 [3 2]\n%2 = mul %1 %1 : f32 [3 2]\n" Y2},
    {"transpose", "%0 = param {path \"x/a\"} : f32 [2 3 4]\n%1 = transpose %0 {perm [2 0 1]} : f32 [4 2 3]\n" Y1},
    {"broadcast", "%0 = param {path \"x/a\"} : f32 [3 1]\n%1 = broadcast %0 : f32 [2 3 4]\n" Y1},
    {"slice", A24 "%1 = slice %0 {start [0 1], end [1 4], step [1 2]} : f32 [1 2]\n" Y1},
    {"slice of nothing", A24 "%1 = slice %0 {start [0 2], end [2 2], step [1 1]} : f32 [2 0]\n" Y1},
    {"pad", A23 "%1 = pad %0 {value 0.5, low [1 0], high [0 2], inner [0 1]} : f32 [3 7]\n" Y1},
    {"concat", A23 "%1 = param {path \"x/b\"} : f32 [2 1]\n%2 = concat %0 %1 %0 {axis 1} : f32 [2 7]\n" Y2},
    {"reverse", A23 "%1 = reverse %0 {axis 1} : f32 [2 3]\n%2 = mul %0 %1 : f32 [2 3]\n" Y2},
    {"unfold", A24 "%1 = unfold %0 {axis 1, size 2, step 1} : f32 [2 3 2]\n" Y1},
    {"fold",
     "%0 = param {path \"x/a\"} : f32 [2 3 2]\n%1 = fold %0 {axis 1, size 2, step 1, length 4} : f32 [2 4]\n" Y1},
    {"fold with a rest",
     "%0 = param {path \"x/a\"} : f32 [3 2 2]\n%1 = fold %0 {axis 0, size 2, step 2, length 7} : f32 [7 2]\n" Y1},
    {"sum", "%0 = param {path \"x/a\"} : f32 [2 3 4]\n%1 = sum %0 {axes [0 2]} : f32 [3]\n" Y1},
    {"reduce-max", A24 "%1 = reduce-max %0 {axes [1]} : f32 [2]\n" Y1},
    {"reduce-min", A24 "%1 = reduce-min %0 {axes [0 1]} : f32 []\n" Y1},
    {"einsum", A23 "%1 = param {path \"x/b\"} : f32 [3 4]\n%2 = einsum %0 %1 {labels \"ab,bc->ac\"} : f32 [2 4]\n" Y2},
    {"einsum of one with itself", A23 "%1 = einsum %0 %0 {labels \"ab,cb->ac\"} : f32 [2 2]\n" Y1},
    {"einsum with sums", A23 "%1 = param {path \"x/b\"} : f32 [2 5 4]\n"
                             "%2 = einsum %0 %1 {labels \"ab,acd->da\"} : f32 [4 2]\n" Y2},
    {"einsum outer", A3 B3 "%2 = einsum %0 %1 {labels \"a,b->ba\"} : f32 [3 3]\n" Y2},
    {"einsum batch",
     "%0 = param {path \"x/a\"} : f32 [2 3 4]\n%1 = param {path \"x/b\"} : f32 [2 4 2]\n"
     "%2 = einsum %0 %1 {labels \"nab,nbc->cna\"} : f32 [2 2 3]\n" Y2},
    {"einsum mixed", A23 "%1 = cast %0 : bf16 [2 3]\n%2 = einsum %1 %1 {labels \"ab,cb->ac\"} : f32 [2 2]\n" Y2},
    {"conv2d",
     "%0 = param {path \"x/a\"} : f32 [2 5 4 2]\n%1 = param {path \"x/w\"} : f32 [3 3 2 2]\n"
     "%2 = conv2d %0 %1 {stride 2, padding 1} : f32 [2 3 3 3]\n" Y2},
    {"conv2d with a rest",
     "%0 = param {path \"x/a\"} : f32 [1 6 6 1]\n%1 = param {path \"x/w\"} : f32 [2 3 3 1]\n"
     "%2 = conv2d %0 %1 {stride 2, padding 0} : f32 [1 2 2 2]\n" Y2},
    {"conv2d-data",
     "%0 = param {path \"x/a\"} : f32 [1 3 3 2]\n%1 = param {path \"x/w\"} : f32 [2 3 2 2]\n"
     "%2 = conv2d-data %0 %1 {stride 2, padding 1, height 5, width 4} : f32 [1 5 4 2]\n" Y2},
    {"conv2d-weight",
     "%0 = param {path \"x/a\"} : f32 [2 3 3 2]\n%1 = param {path \"x/x\"} : f32 [2 5 4 2]\n"
     "%2 = conv2d-weight %0 %1 {stride 2, padding 1, height 3, width 2} : f32 [2 3 2 2]\n" Y2},
    {"gather",
     "%0 = param {path \"x/a\"} : f32 [4 3]\n%1 = param {path \"i4\"} : i32 [2 3]\n"
     "%2 = gather %0 %1 : f32 [2 3 3]\n" Y2},
    {"scatter-add",
     "%0 = param {path \"i4\"} : i32 [5]\n%1 = param {path \"x/a\"} : f32 [5 2]\n"
     "%2 = scatter-add %0 %1 {n 4} : f32 [4 2]\n%3 = mul %2 %2 : f32 [4 2]\n" Y3},
    {"take-along", A24 "%1 = param {path \"i4\"} : i32 [2 3]\n%2 = take-along %0 %1 {axis 1} : f32 [2 3]\n" Y2},
    {"put-along",
     "%0 = param {path \"i4\"} : i32 [2 3]\n%1 = param {path \"x/a\"} : f32 [2 3]\n"
     "%2 = put-along %0 %1 {axis 1, n 4} : f32 [2 4]\n" Y2},
    {"cumsum", A24 "%1 = cumsum %0 {axis 1, reverse 0} : f32 [2 4]\n%2 = mul %1 %0 : f32 [2 4]\n" Y2},
    {"cumsum backwards", A24 "%1 = cumsum %0 {axis 0, reverse 1} : f32 [2 4]\n" Y1},
    {"cumsum of segments",
     A24 "%1 = param {path \"s\"} : i32 [2 4]\n%2 = cumsum %0 %1 {axis 1, reverse 0} : f32 [2 4]\n" Y2},
    {"linear-scan", A24 "%1 = param {path \"x/b\"} : f32 [2 4]\n"
                        "%2 = linear-scan %0 %1 {axis 1, reverse 0} : f32 [2 4]\n" Y2},
    {"linear-scan backwards", A24 "%1 = param {path \"x/b\"} : f32 [2 4]\n"
                                  "%2 = linear-scan %0 %1 {axis 1, reverse 1} : f32 [2 4]\n" Y2},
    {"linear-scan of segments", A24 "%1 = param {path \"x/b\"} : f32 [2 4]\n%2 = param {path \"s\"} : i32 [2 4]\n"
                                    "%3 = linear-scan %0 %1 %2 {axis 1, reverse 0} : f32 [2 4]\n" Y3},
    {"linear-scan of segments backwards",
     A24 "%1 = param {path \"x/b\"} : f32 [2 4]\n%2 = param {path \"s\"} : i32 [2 4]\n"
         "%3 = linear-scan %0 %1 %2 {axis 1, reverse 1} : f32 [2 4]\n" Y3},
    {"linear-scan of one",
     "%0 = param {path \"x/a\"} : f32 [3 1]\n%1 = param {path \"x/b\"} : f32 [3 1]\n"
     "%2 = linear-scan %0 %1 {axis 1, reverse 0} : f32 [3 1]\n" Y2},
    {"linear-scan of none",
     "%0 = param {path \"x/a\"} : f32 [3 0]\n%1 = param {path \"x/b\"} : f32 [3 0]\n"
     "%2 = linear-scan %0 %1 {axis 1, reverse 0} : f32 [3 0]\n" Y2},
    {"softmax", A24 "%1 = exp %0 : f32 [2 4]\n%2 = sum %1 {axes [1]} : f32 [2]\n%3 = reshape %2 : f32 [2 1]\n"
                    "%4 = broadcast %3 : f32 [2 4]\n%5 = div %1 %4 : f32 [2 4]\noutput \"y\" %5\n"},
};
enum { N_CASES = sizeof cases / sizeof *cases };

/* ---- values of leaves ---------------------------------------------------------------------------- */

/* Leaves take pseudorandom values by name and element, and one of them may be moved. */
typedef struct point {
  const char *moved; /* name of a leaf, or NULL */
  int64_t element;
  double by;
} point;

static double unit(const char *name, int64_t i) {
  uint64_t h = 0x9e3779b97f4a7c15u * (uint64_t)(i + 1);
  for (const char *at = name; *at; at++) h = (h ^ (unsigned char)*at) * 0x100000001b3u;
  h = (h ^ (h >> 29)) * 0xbf58476d1ce4e5b9u;
  return (double)((h ^ (h >> 32)) >> 11 & 0xfffff) / 0x100000;
}

static double leaf_value(const char *name, int64_t i, int64_t n) {
  double u = unit(name, i);
  switch (name[0]) {
    case 'p':
      return 0.4 + 1.7 * u;
    case 'u':
      return -0.9 + 1.8 * u;
    case 's':
      return (double)(i * 7 / (3 * n) + i / 3);
    case 'i':
      return floor(u * (name[1] - '0'));
    default:
      return u < 0.5 ? -0.35 - 2.5 * u : 0.35 + 2.5 * (u - 0.5);
  }
}

static void fill(void *context, const char *name, double *values, int64_t n) {
  const point *p = context;
  for (int64_t i = 0; i < n; i++) values[i] = leaf_value(name, i, n);
  if (p->moved && strcmp(name, p->moved) == 0) values[p->element] += p->by;
}

/* ---- a case as a graph ---------------------------------------------------------------------------- */

/* Outputs: "loss", "loss/PATH" its gradients; "second", "second/PATH" those of the first gradients' sum. */
typedef struct subject {
  graphs g;
  sx_graph *graph;
  const sx_node *params[PARAMS_MAX]; /* floats */
  sx_id ids[PARAMS_MAX];
  int n_params;
} subject;

static sx_id sum_all(sx_graph *graph, sx_id a) {
  int64_t axes[SX_RANK_MAX];
  for (int i = 0; i < SX_RANK_MAX; i++) axes[i] = i;
  return sx_reduce(graph, SX_OP_SUM, a, axes, sx_node_at(graph, a)->rank, false);
}

/* The sum of a's products with an input of its own. */
static sx_id weighted_sum(sx_graph *graph, sx_id a, const char *name) {
  const sx_node *node = sx_node_at(graph, a);
  sx_id weights = sx_graph_add(
      graph, &(sx_spec){.op = SX_OP_INPUT, .dtype = node->dtype, .rank = node->rank, .dims = node->dims, .text = name});
  return sum_all(graph, sx_binary(graph, SX_OP_MUL, a, weights));
}

static const char *join(subject *s, const char *a, const char *b) { return sx_format(&s->g.arena, "%s/%s", a, b); }

static sx_id gradient_output(subject *s, const char *of, sx_id y, int param) {
  sx_id gradient = sx_binary(s->graph, SX_OP_GRAD, y, s->ids[param]);
  sx_graph_output(s->graph, join(s, of, s->params[param]->text), gradient);
  return gradient;
}

static void begin(subject *s, const char *nodes) {
  graphs_init(&s->g);
  s->n_params = 0;
  s->graph = graphs_parse(&s->g, sx_format(&s->g.arena, "graph \"t\"\n%s", nodes));
  if (!s->graph) fail_msg("%s", graphs_error(&s->g));
  for (size_t i = 0; i < s->graph->nodes.n; i++) {
    const sx_node *node = &s->graph->nodes.items[i];
    if (node->op != SX_OP_PARAM || !sx_dtype_is_float(node->dtype)) continue;
    s->ids[s->n_params] = (sx_id)i;
    s->params[s->n_params++] = node;
  }
}

static void build(subject *s, const char *nodes) {
  begin(s, nodes);
  sx_id loss = weighted_sum(s->graph, sx_graph_find_output(s->graph, "y"), "x/weights"), total = SX_NO_NODE;
  sx_graph_output(s->graph, "loss", loss);
  for (int i = 0; i < s->n_params; i++) {
    sx_id gradient = gradient_output(s, "loss", loss, i);
    sx_id part = weighted_sum(s->graph, gradient, join(s, "x/again", s->params[i]->text));
    total = total == SX_NO_NODE ? part : sx_binary(s->graph, SX_OP_ADD, total, part);
  }
  sx_graph_output(s->graph, "second", total);
  for (int i = 0; i < s->n_params; i++) gradient_output(s, "second", total, i);
  s->graph = graphs_apply(&s->g, s->graph, "gradient dce");
  if (!s->graph) fail_msg("%s", graphs_error(&s->g));
}

static double *value_of(subject *s, const char *output, const point *at) {
  double **values = evaluate64(s->graph, &s->g.arena, fill, (void *)(uintptr_t)at);
  return values[sx_graph_find_output(s->graph, output)];
}

/* Every element of every gradient of the output against its central difference. */
static void check_gradients(subject *s, const char *name, const char *of) {
  const double step = 1e-5;
  for (int k = 0; k < s->n_params; k++) {
    const char *path = s->params[k]->text;
    const double *gradient = value_of(s, join(s, of, path), &(point){0});
    for (int64_t i = 0; i < sx_node_elements(s->params[k]); i++) {
      double above = *value_of(s, of, &(point){path, i, step}), below = *value_of(s, of, &(point){path, i, -step});
      double expected = (above - below) / (2 * step);
      if (!(fabs(gradient[i] - expected) <= 2e-6 * (1 + fabs(expected))))
        fail_msg("%s: d %s / d %s[%d] is %.9g, expected %.9g", name, of, path, (int)i, gradient[i], expected);
    }
  }
}

static void test_first_and_second_order(void **state) {
  (void)state;
  for (int i = 0; i < N_CASES; i++) {
    subject s;
    build(&s, cases[i].nodes);
    check_gradients(&s, cases[i].name, "loss");
    check_gradients(&s, cases[i].name, "second");
    graphs_free(&s.g);
  }
}

/* ---- choices where there is no derivative --------------------------------------------------------- */

/* The gradient of sum(y) with respect to each constant-valued parameter "V/NAME" is that number. */
typedef struct chosen {
  const char *name, *nodes;
  double expected[2];
} chosen;

#define S "%0 = param {path \"x/a\"} : f32 []\n%1 = param {path \"x/b\"} : f32 []\n"
#define AT(a, b)                                                                      \
  "%2 = const {value 0} : f32 []\n%3 = mul %0 %2 : f32 []\n%4 = mul %1 %2 : f32 []\n" \
  "%5 = const {value " a "} : f32 []\n%6 = const {value " b                           \
  "} : f32 []\n"                                                                      \
  "%7 = add %3 %5 : f32 []\n%8 = add %4 %6 : f32 []\n"
#define T2(op) "%9 = " op " %7 %8 : f32 []\noutput \"y\" %9\noutput \"a\" %7\noutput \"b\" %8\n"
#define T1(op) "%9 = " op " %7 : f32 []\noutput \"y\" %9\noutput \"a\" %7\noutput \"b\" %8\n"

static const chosen choices[] = {
    {"max of equal", S AT("2", "2") T2("max"), {0.5, 0.5}},
    {"min of equal", S AT("2", "2") T2("min"), {0.5, 0.5}},
    {"max of zeros", S AT("0", "-0") T2("max"), {0.5, 0.5}},
    {"abs of zero", S AT("0", "1") T1("abs"), {0, 0}},
    {"pow with exponent zero", S AT("0", "0") T2("pow"), {0, 0}},
    {"pow of zero", S AT("0", "3") T2("pow"), {0, 0}},
    {"pow of a negative", S AT("-2", "3") T2("pow"), {12, (double)NAN}},
    {"pow of zero to one", S AT("0", "1") T2("pow"), {1, 0}},
    {"div", S AT("3", "2") T2("div"), {0.5, -0.75}},
    {"mod", S AT("7", "2") T2("mod"), {1, -3}},
    {"idiv", S AT("7", "2") T2("idiv"), {0, 0}},
    {"sign", S AT("7", "2") T1("sign"), {0, 0}},
    {"stop-gradient", S AT("7", "2") T1("stop-gradient"), {0, 0}},
};

static void test_choices(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
    subject s;
    begin(&s, choices[i].nodes);
    const char *names[2] = {"a", "b"};
    sx_id y = sx_graph_find_output(s.graph, "y");
    for (int k = 0; k < 2; k++)
      sx_graph_output(s.graph, join(&s, "grad", names[k]),
                      sx_binary(s.graph, SX_OP_GRAD, y, sx_graph_find_output(s.graph, names[k])));
    s.graph = graphs_apply(&s.g, s.graph, "gradient dce");
    assert_non_null(s.graph);
    for (int k = 0; k < 2; k++) {
      double given = *value_of(&s, join(&s, "grad", names[k]), &(point){0}), expected = choices[i].expected[k];
      if (!(given == expected || (isnan(given) && isnan(expected))))
        fail_msg("%s: d / d %s is %g, expected %g", choices[i].name, names[k], given, expected);
    }
    graphs_free(&s.g);
  }
}

static void test_extremes_split_evenly(void **state) {
  (void)state;
  subject s;
  begin(&s,
        "%0 = param {path \"x/a\"} : f32 [4]\n%1 = sign %0 : f32 [4]\n%2 = stop-gradient %1 : f32 [4]\n"
        "%3 = abs %2 : f32 [4]\n%4 = reduce-max %3 {axes [0]} : f32 []\noutput \"y\" %4\n"
        "%5 = grad %4 %3 : f32 [4]\noutput \"g\" %5\n");
  s.graph = graphs_apply(&s.g, s.graph, "gradient dce");
  assert_non_null(s.graph);
  const double *g = value_of(&s, "g", &(point){0});
  for (int i = 0; i < 4; i++) assert_true(g[i] == 0.25);
  graphs_free(&s.g);
}

/* ---- the pass ------------------------------------------------------------------------------------- */

static void test_one_sweep_serves_all(void **state) {
  (void)state;
  subject s;
  begin(&s, A3 B3
        "%2 = mul %0 %1 : f32 [3]\n%3 = exp %2 : f32 [3]\n%4 = sum %3 {axes [0]} : f32 []\n"
        "%5 = grad %4 %0 : f32 [3]\n%6 = grad %4 %1 : f32 [3]\n%7 = grad %4 %2 : f32 [3]\n"
        "output \"a\" %5\noutput \"b\" %6\noutput \"m\" %7\n");
  s.graph = graphs_apply(&s.g, s.graph, "gradient dce");
  int n_products = 0;
  for (size_t i = 0; i < s.graph->nodes.n; i++) n_products += s.graph->nodes.items[i].op == SX_OP_MUL;
  assert_int_equal(n_products, 4); /* a b; g y; g b; g a */
  graphs_free(&s.g);
}

/* Two gradients of one value are different variables: the second order sees them apart. */
static void test_equal_gradients_stay_apart(void **state) {
  (void)state;
  subject s;
  begin(&s,
        "%0 = param {path \"x/a\"} : f32 []\n%1 = param {path \"x/b\"} : f32 []\n%2 = add %0 %1 : f32 []\n"
        "%3 = mul %2 %2 : f32 []\n%4 = grad %3 %0 : f32 []\n%5 = grad %3 %1 : f32 []\n"
        "%6 = mul %4 %5 : f32 []\n%7 = mul %6 %4 : f32 []\n%8 = grad %7 %5 : f32 []\noutput \"g\" %8\n"
        "%9 = mul %4 %4 : f32 []\noutput \"expected\" %9\n");
  s.graph = graphs_apply(&s.g, s.graph, "gradient dce");
  assert_non_null(s.graph);
  assert_true(*value_of(&s, "g", &(point){0}) == *value_of(&s, "expected", &(point){0}));
  graphs_free(&s.g);
}

static void test_unreached_is_zero(void **state) {
  (void)state;
  subject s;
  begin(&s, A3 B3
        "%2 = sum %0 {axes [0]} : f32 []\n%3 = grad %2 %1 : f32 [3]\n%4 = exp %0 : f32 [3]\n"
        "%5 = grad %2 %4 : f32 [3]\noutput \"b\" %3\noutput \"later\" %5\n");
  s.graph = graphs_apply(&s.g, s.graph, "gradient dce");
  assert_non_null(s.graph);
  for (size_t i = 0; i < s.graph->nodes.n; i++) assert_int_equal(s.graph->nodes.items[i].op, SX_OP_CONST);
  graphs_free(&s.g);
}

static void test_integers_stop_the_flow(void **state) {
  (void)state;
  subject s;
  begin(&s, A3
        "%1 = cast %0 : i32 [3]\n%2 = cast %1 : f32 [3]\n%3 = sum %2 {axes [0]} : f32 []\n"
        "%4 = grad %3 %0 : f32 [3]\noutput \"g\" %4\n");
  s.graph = graphs_apply(&s.g, s.graph, "gradient dce");
  assert_non_null(s.graph);
  assert_int_equal(s.graph->nodes.n, 1);
  assert_int_equal(s.graph->nodes.items[0].op, SX_OP_CONST);
  graphs_free(&s.g);
}

static void test_an_operation_without_a_rule(void **state) {
  (void)state;
  sx_gradient_rule *rules[SX_N_OPS];
  memcpy(rules, sx_gradient_rules, sizeof rules);
  rules[SX_OP_TANH] = NULL;
  subject s;
  begin(&s, A3
        "%1 = tanh %0 : f32 [3]\n%2 = sum %1 {axes [0]} : f32 []\n%3 = grad %2 %0 : f32 [3]\n"
        "output \"g\" %3\n");
  assert_null(sx_gradient_expand(s.graph, rules, &s.g.diags));
  assert_string_equal(graphs_error(&s.g), "E-GRAD-001 tanh has no gradient");
  graphs_free(&s.g);
}

/* What the gradient does not come by needs no rule. */
static void test_a_missing_rule_aside(void **state) {
  (void)state;
  sx_gradient_rule *rules[SX_N_OPS];
  memcpy(rules, sx_gradient_rules, sizeof rules);
  rules[SX_OP_TANH] = NULL;
  subject s;
  begin(&s, A3 B3
        "%2 = tanh %1 : f32 [3]\n%3 = mul %0 %2 : f32 [3]\n%4 = sum %3 {axes [0]} : f32 []\n"
        "%5 = grad %4 %0 : f32 [3]\noutput \"g\" %5\n");
  assert_non_null(sx_gradient_expand(s.graph, rules, &s.g.diags));
  graphs_free(&s.g);
}

/* ---- completeness --------------------------------------------------------------------------------- */

static bool case_has(const char *nodes, const char *op) {
  char word[OUTPUT_NAME];
  snprintf(word, sizeof word, "= %s %%", op);
  return strstr(nodes, word) != NULL;
}

static void test_every_rule_has_a_case_and_a_file(void **state) {
  (void)state;
  for (int op = 0; op < SX_N_OPS; op++) {
    sx_gradient_rule *rule = sx_gradient_rules[op];
    if (rule == sx_gradient_zero || op == SX_OP_GRAD) continue;
    const char *name = sx_op_describe((sx_op)op)->name;
    if (!rule) fail_msg("%s has no row", name);
    bool found = false;
    for (int i = 0; i < N_CASES; i++) found = found || case_has(cases[i].nodes, name);
    if (!found) fail_msg("no case of %s", name);
    char path[128];
    snprintf(path, sizeof path, "tests/pass/gradient/%s.txt", name);
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("no file %s", path);
    fclose(file);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_first_and_second_order),     cmocka_unit_test(test_choices),
      cmocka_unit_test(test_extremes_split_evenly),      cmocka_unit_test(test_one_sweep_serves_all),
      cmocka_unit_test(test_equal_gradients_stay_apart), cmocka_unit_test(test_unreached_is_zero),
      cmocka_unit_test(test_integers_stop_the_flow),     cmocka_unit_test(test_an_operation_without_a_rule),
      cmocka_unit_test(test_a_missing_rule_aside),       cmocka_unit_test(test_every_rule_has_a_case_and_a_file),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
