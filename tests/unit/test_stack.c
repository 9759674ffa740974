/* Stacking: the sums over microbatches are those of the microbatches one by one, bit for bit where sums are exact and
 * within rounding elsewhere; refusals; candidates. Graphs by their text are in tests/pass/stack. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../kernels/math.h"
#include "../../libsexp/ir/build.h"
#include "../../libsexp/pass/stack.h"
#include "../common/cmocka_all.h"
#include "../common/example.h"
#include "../common/execute_reference.h"
#include "../common/graphs.h"
#include "../common/language.h"
#include "../common/random_graph.h"

/* ---- fields of microbatches ------------------------------------------------------------------------ */

/* How leaves are filled: fields of microbatch m, or of all of them one after the other (m of -1). */
typedef struct filling {
  uint64_t seed;
  int64_t m, degree;
  void (*values)(random_source *random, sx_dtype dtype, int64_t n, void *data);
} filling;

static bool is_quick(void) { return getenv("QUICK") && *getenv("QUICK"); }

static bool is_field(const sx_node *node) { return node->op == SX_OP_INPUT && !strncmp(node->text, "field/", 6); }

static void fill_part(const filling *f, const sx_node *node, int64_t m, int64_t n, void *data) {
  random_source random = {f->seed + 1000003 * (uint64_t)(m + 1)};
  for (const char *at = node->text; *at; at++) random.state = random.state * 31 + (unsigned char)*at;
  if (strcmp(node->text, "field/pick")) {
    f->values(&random, node->dtype, n, data);
    return;
  }
  memset(data, m == (int64_t)(f->seed % (uint64_t)f->degree), (size_t)n); /* one microbatch of them */
}

static void fill(void *context, const sx_node *node, void *values, int64_t n) {
  const filling *f = context;
  int64_t n_parts = is_field(node) && f->m < 0 ? f->degree : 1;
  int64_t part = n / n_parts;
  for (int64_t i = 0; i < n_parts; i++) {
    char *at = (char *)values + (size_t)(i * part) * sx_dtype_bytes(node->dtype);
    fill_part(f, node, is_field(node) ? (f->m < 0 ? i : f->m) : -1, part, at);
  }
}

/* Integers of -3 to 3 and bools: their sums and products are exact in every order. */
static void fill_small(random_source *random, sx_dtype dtype, int64_t n, void *data) {
  for (int64_t i = 0; i < n; i++) {
    int32_t integer = (int32_t)random_below(random, 7) - 3;
    float real = (float)integer;
    uint32_t bits;
    memcpy(&bits, &real, 4);
    if (dtype == SX_F32) ((float *)data)[i] = real;
    if (dtype == SX_BF16) ((uint16_t *)data)[i] = (uint16_t)(bits >> 16);
    if (dtype == SX_F16) ((uint16_t *)data)[i] = sx_f16_from_f32(real);
    if (dtype == SX_I32) ((int32_t *)data)[i] = integer;
    if (dtype == SX_U8 || dtype == SX_BOOL) ((uint8_t *)data)[i] = (uint8_t)random_below(random, 2);
  }
}

static void fill_ids_or_moderate(random_source *random, sx_dtype dtype, int64_t n, void *data) {
  for (int64_t i = 0; i < n; i++) {
    float real = (float)(random_below(random, 2001) - 1000) / 4000.0f;
    int64_t id = random_below(random, 10);
    if (dtype == SX_F32) ((float *)data)[i] = real;
    if (dtype == SX_I32) ((int32_t *)data)[i] = (int32_t)id;
    if (dtype == SX_U8) ((uint8_t *)data)[i] = (uint8_t)id;
  }
}

/* ---- comparing ------------------------------------------------------------------------------------- */

static double value_at(sx_dtype dtype, const void *values, int64_t i) {
  switch (dtype) {
    case SX_F32:
      return (double)((const float *)values)[i];
    case SX_BF16:
      return (double)sx_f32_from_bf16(((const uint16_t *)values)[i]);
    case SX_F16:
      return (double)sx_f32_from_f16(((const uint16_t *)values)[i]);
    default:
      return (double)((const int32_t *)values)[i];
  }
}

/* An output's sum over the microbatches one by one, in binary64, and the largest of the magnitudes that are added. */
typedef struct summed {
  double *values;
  double most;
} summed;

static summed sum_one_by_one(graphs *g, const sx_graph *loss, void ***one_by_one, int64_t degree, sx_id node) {
  const sx_node *at = sx_node_at(loss, node);
  int64_t n = sx_node_elements(at);
  summed sum = {SX_NEW_N(&g->arena, double, n + 1), 0};
  for (int64_t m = 0; m < degree; m++)
    for (int64_t i = 0; i < n; i++) {
      double value = value_at(at->dtype, one_by_one[m][node], i);
      sum.values[i] += value;
      if (fabs(value) > sum.most) sum.most = fabs(value);
    }
  return sum;
}

/* Whether the stacked output is the sum: equal (zeros of either sign, NaNs as one; i32 modulo 2^32), or with a
 * tolerance relative to the largest magnitude added. */
static bool is_sum(const sx_node *node, const void *values, const summed *sum, double tolerance, double *worst) {
  for (int64_t i = 0; i < sx_node_elements(node); i++) {
    double got = value_at(node->dtype, values, i), want = sum->values[i];
    if (node->dtype == SX_I32) want = (double)(int32_t)(uint32_t)(int64_t)want;
    if (got == want || (got != got && want != want)) continue;
    double off = fabs(got - want) / (sum->most > 0 ? sum->most : 1);
    if (!(off <= tolerance)) return false;
    if (off > *worst) *worst = off;
  }
  return true;
}

static bool is_kept(const char *name) { return strncmp(name, "probe/", 6) != 0; }

/* Fails where an output of the stacked graph is not the sum. */
static void check_sums(graphs *g, const char *name, const sx_graph *loss, sx_graph *stacked, filling f,
                       double tolerance, double *worst) {
  void ***one_by_one = SX_NEW_N(&g->arena, void **, f.degree);
  for (f.m = 0; f.m < f.degree; f.m++) one_by_one[f.m] = execute_reference(loss, &g->arena, fill, &f);
  f.m = -1;
  void **together = execute_reference(stacked, &g->arena, fill, &f);
  size_t k = 0;
  for (size_t i = 0; i < loss->outputs.n; i++) {
    if (!is_kept(loss->outputs.items[i].name)) continue;
    sx_output a = loss->outputs.items[i], b = stacked->outputs.items[k++];
    assert_string_equal(a.name, b.name);
    const sx_node *before = sx_node_at(loss, a.node), *after = sx_node_at(stacked, b.node);
    assert_true(sx_shape_equal(before, after));
    assert_int_equal(after->dtype, before->dtype == SX_I32 ? SX_I32 : SX_F32);
    summed sum = sum_one_by_one(g, loss, one_by_one, f.degree, a.node);
    if (is_sum(sx_node_at(stacked, b.node), together[b.node], &sum, tolerance, worst)) continue;
    fail_msg("%s: %s differs (seed %llu, degree %d)\n%sbecame\n%s", name, a.name, (unsigned long long)f.seed,
             (int)f.degree, graphs_print(g, loss), graphs_print(g, stacked));
  }
  assert_int_equal(k, stacked->outputs.n);
}

static sx_graph *stacked_of(graphs *g, const sx_graph *loss, int64_t degree) {
  sx_stack_refusal why = {0};
  sx_graph *stacked = NULL;
  if (!sx_stack(&stacked, loss, degree, &why)) return NULL;
  if (!sx_graph_verify(stacked, SX_STAGE_READY, &g->diags)) fail_msg("%s", graphs_error(g));
  assert_ptr_equal(stacked->name, loss->name);
  return stacked;
}

/* ---- random graphs --------------------------------------------------------------------------------- */

/* The graph with outputs that may be stacked: of floats and i32, each zero in all microbatches but the picked one, so
 * that sums are exact and the values that are added have the bits they have alone. A share of the inputs become fields.
 */
static sx_graph *picked(graphs *g, const sx_graph *random, uint64_t seed) {
  sx_graph *graph = sx_graph_like(random, "loss");
  sx_id *map = SX_NEW_N(&g->arena, sx_id, random->nodes.n);
  for (sx_id id = 0; id < random->nodes.n; id++) {
    sx_node node = *sx_node_at(random, id);
    if (node.op == SX_OP_INPUT && (id + seed) % 3)
      node.text = sx_intern_text(&g->names, sx_format(&g->arena, "field/%u", (unsigned)id));
    else if (node.op == SX_OP_INPUT)
      node.text = sx_intern_text(&g->names, sx_format(&g->arena, "counter/%u", (unsigned)id));
    map[id] = sx_graph_copy_mapped(graph, &node, map);
  }
  sx_id pick = sx_graph_add(graph, &(sx_spec){.op = SX_OP_INPUT, .dtype = SX_BOOL, .text = "field/pick"});
  for (size_t i = 0; i < random->outputs.n; i++) {
    sx_id y = map[random->outputs.items[i].node];
    const sx_node *node = sx_node_at(graph, y);
    if (node->dtype == SX_U8 || node->dtype == SX_BOOL) y = sx_cast(graph, y, SX_F32);
    node = sx_node_at(graph, y);
    int64_t *dims = node->dims;
    int rank = node->rank;
    sx_id zero = sx_const_like(graph, y, 0), where = sx_broadcast(graph, pick, rank, dims);
    sx_graph_output(graph, sx_format(&g->arena, "grad/%zu", i), sx_where(graph, where, y, zero));
  }
  return sx_pass_dce(graph, &g->diags);
}

/* Notes which operations depend on a field. */
static void note_varying(graphs *g, const sx_graph *loss, bool seen[SX_N_OPS]) {
  bool *varies = SX_NEW_N(&g->arena, bool, loss->nodes.n);
  for (sx_id id = 0; id < loss->nodes.n; id++) {
    const sx_node *node = sx_node_at(loss, id);
    varies[id] = is_field(node);
    for (uint32_t k = 0; k < node->n_inputs; k++) varies[id] |= varies[node->inputs[k]];
    seen[node->op] |= varies[id];
  }
}

static void values_keep_their_bits(void **state) {
  (void)state;
  bool seen[SX_N_OPS] = {false};
  int n_stacked = 0, n_refused = 0;
  uint64_t n_seeds = is_quick() ? 100 : 300;
  double worst = 0;
  for (uint64_t seed = 0; seed < n_seeds; seed++) {
    graphs g;
    graphs_init(&g);
    sx_graph *loss = picked(&g, random_graph(&g.arena, &g.names, seed, 20 + (int)(seed % 5) * 15), seed);
    int64_t degree = 2 + (int64_t)(seed % 3);
    sx_graph *stacked = stacked_of(&g, loss, degree);
    n_stacked += stacked != NULL;
    n_refused += !stacked;
    filling f = {.seed = seed, .degree = degree, .values = random_fill};
    if (stacked) note_varying(&g, loss, seen);
    if (stacked) check_sums(&g, "random", loss, stacked, f, 0, &worst);
    graphs_free(&g);
  }
  print_message("%d stacked, %d refused\n", n_stacked, n_refused);
  assert_true(n_stacked >= (int)n_seeds / 2 && n_refused >= 10);
  for (int op = 0; op < SX_N_OPS; op++) {
    sx_op_class class = sx_op_describe((sx_op)op)->class; /* elements have one rule */
    bool exempt = class == SX_CLASS_LEAF || class == SX_CLASS_META || class == SX_CLASS_RANDOM;
    exempt |= class == SX_CLASS_ELEMENT || op == SX_OP_CONVWEIGHT || is_quick(); /* its values are refused */
    if (!exempt && !seen[op]) fail_msg("no stacked %s", sx_op_describe((sx_op)op)->name);
  }
}

/* ---- sums ------------------------------------------------------------------------------------------- */

/* Leaves and nodes whose sums go every way: through moves and linear operations, into products and tables. */
static const char *const sum_graphs[] = {
    /* through moves and linear operations */
    "%0 = input {name \"field/x\"} : f32 [2 3]\n%1 = transpose %0 {perm [1 0]} : f32 [3 2]\n"
    "%2 = slice %1 {start [1 0], end [3 2], step [1 1]} : f32 [2 2]\n"
    "%3 = pad %2 {value 0, low [0 1], high [1 0], inner [1 0]} : f32 [4 3]\n%4 = reverse %3 {axis 1} : f32 [4 3]\n"
    "%5 = concat %4 %4 {axis 0} : f32 [8 3]\n%6 = reshape %5 : f32 [2 12]\n%7 = neg %6 : f32 [2 12]\n"
    "%8 = param {path \"w\"} : f32 [2 12]\n%9 = add %7 %8 : f32 [2 12]\n%10 = sub %8 %9 : f32 [2 12]\n"
    "%11 = mul %10 %8 : f32 [2 12]\n%12 = mul %8 %11 : f32 [2 12]\n%13 = const {value 4} : f32 [2 12]\n"
    "%14 = div %12 %13 : f32 [2 12]\n%15 = lt %8 %13 : bool [2 12]\n%16 = where %15 %14 %8 : f32 [2 12]\n"
    "%17 = broadcast %16 : f32 [3 2 12]\n%18 = unfold %17 {axis 2, size 3, step 2} : f32 [3 2 5 3]\n"
    "%19 = fold %18 {axis 2, size 3, step 2, length 12} : f32 [3 2 12]\n%20 = sum %19 {axes [0 2]} : f32 [2]\n"
    "output \"grad/a\" %16\noutput \"grad/b\" %17\noutput \"grad/c\" %18\noutput \"grad/d\" %19\noutput \"loss\" %20\n"
    "output \"metric/a\" %8\noutput \"probe/x\" %0\n",
    /* a pad that is not linear; i32; a value that is wanted besides its sum */
    "%0 = input {name \"field/x\"} : i32 [3]\n%1 = pad %0 {value 2, low [1], high [1], inner [0]} : i32 [5]\n"
    "%2 = param {path \"i\"} : i32 [5]\n%3 = sub %2 %1 : i32 [5]\n%4 = mul %3 %2 : i32 [5]\n%5 = abs %3 : i32 [5]\n"
    "%6 = pad %0 {value 3, low [0], high [2], inner [1]} : i32 [7]\n"
    "output \"grad/a\" %1\noutput \"grad/b\" %3\noutput \"grad/c\" %4\noutput \"grad/d\" %5\noutput \"grad/e\" %2\n"
    "output \"grad/f\" %6\n",
    /* products: both operands vary, one does; values of either kind */
    "%0 = input {name \"field/x\"} : f32 [5 3]\n%1 = param {path \"w\"} : f32 [3 4]\n"
    "%2 = einsum %0 %1 {labels \"zy,yx->xz\"} : f32 [4 5]\n%3 = einsum %2 %0 {labels \"ab,bc->ac\"} : f32 [4 3]\n"
    "%4 = einsum %1 %0 {labels \"ij,kl->\"} : f32 []\n%5 = abs %2 : f32 [4 5]\n"
    "%6 = einsum %1 %5 {labels \"ij,jk->ik\"} : f32 [3 5]\n%7 = abs %6 : f32 [3 5]\n"
    "%8 = einsum %0 %1 {labels \"ab,bc->ca\"} : f32 [4 5]\n%9 = einsum %1 %0 {labels \"bc,ab->a\"} : f32 [5]\n"
    "output \"grad/d\" %8\noutput \"grad/e\" %9\n"
    "output \"grad/a\" %3\noutput \"loss\" %4\noutput \"grad/b\" %6\noutput \"grad/c\" %7\n",
    /* narrow products and tables: sums are f32 */
    "%0 = input {name \"field/x\"} : bf16 [5 3]\n%1 = param {path \"w\"} : bf16 [3 4]\n"
    "%2 = einsum %0 %1 {labels \"ij,jk->ik\"} : bf16 [5 4]\n%3 = einsum %0 %2 {labels \"ij,ik->jk\"} : f32 [3 4]\n"
    "%4 = sum %2 {axes [0]} : bf16 [4]\n%5 = neg %1 : bf16 [3 4]\n%6 = iota {axis 0} : i32 [5]\n"
    "%7 = scatter-add %6 %0 {n 6} : bf16 [6 3]\n%8 = cast %2 : f32 [5 4]\n%9 = add %2 %2 : bf16 [5 4]\n"
    "%10 = einsum %0 %0 {labels \"ij,ik->jk\"} : bf16 [3 3]\noutput \"grad/h\" %10\n"
    "output \"grad/a\" %3\noutput \"grad/b\" %4\noutput \"grad/c\" %5\noutput \"grad/d\" %7\noutput \"grad/e\" %8\n"
    "output \"grad/f\" %9\noutput \"grad/g\" %0\n",
    /* tables: ids vary, ids stay, a table that varies under ids that stay, draws */
    "%0 = input {name \"field/i\"} : i32 [4 2]\n%1 = const {value 5} : i32 [4 2]\n%2 = mod %0 %1 : i32 [4 2]\n"
    "%3 = param {path \"t\"} : f32 [5 3]\n%4 = gather %3 %2 : f32 [4 2 3]\n%5 = scatter-add %2 %4 {n 5} : f32 [5 3]\n"
    "%6 = iota {axis 1} : i32 [2 2]\n%7 = gather %4 %6 : f32 [2 2 2 3]\n"
    "%8 = scatter-add %6 %7 {n 3} : f32 [3 2 3]\n%9 = abs %8 : f32 [3 2 3]\n%10 = param {path \"v\"} : f32 [4 2 3]\n"
    "%11 = scatter-add %2 %10 {n 6} : f32 [6 3]\n%12 = one-hot %2 {n 5} : f32 [4 2 5]\n"
    "%13 = input {name \"counter/step\"} : i32 []\n%14 = uniform %13 {draw 0, stream \"\"} : f32 [4 2 3]\n"
    "%15 = floor %14 : f32 [4 2 3]\n%16 = add %4 %15 : f32 [4 2 3]\n%17 = abs %16 : f32 [4 2 3]\n"
    "%18 = abs %7 : f32 [2 2 2 3]\n"
    "output \"grad/a\" %5\noutput \"grad/b\" %8\noutput \"grad/c\" %9\noutput \"grad/d\" %11\noutput \"grad/e\" %12\n"
    "output \"grad/f\" %17\noutput \"grad/g\" %18\n",
    /* convolutions, of images and of what stays */
    "%0 = input {name \"field/x\"} : f32 [2 5 4 2]\n%1 = param {path \"w\"} : f32 [3 2 2 2]\n"
    "%2 = conv2d %0 %1 {stride 2, padding 1} : f32 [2 3 3 3]\n%3 = abs %2 : f32 [2 3 3 3]\n"
    "%4 = conv2d-data %3 %1 {stride 2, padding 1, height 5, width 4} : f32 [2 5 4 2]\n"
    "%5 = conv2d-weight %3 %0 {stride 2, padding 1, height 2, width 2} : f32 [3 2 2 2]\n%6 = abs %4 : f32 [2 5 4 2]\n"
    "%7 = param {path \"y\"} : f32 [2 3 3 3]\n"
    "%8 = conv2d-weight %7 %0 {stride 2, padding 1, height 2, width 2} : f32 [3 2 2 2]\n"
    "output \"grad/a\" %2\noutput \"grad/b\" %6\noutput \"grad/c\" %5\noutput \"grad/d\" %8\noutput \"loss\" %4\n",
};
enum { N_SUM_GRAPHS = sizeof sum_graphs / sizeof *sum_graphs };

static void sums_of_small_integers_are_exact(void **state) {
  (void)state;
  double worst = 0;
  for (size_t i = 0; i < N_SUM_GRAPHS; i++) {
    for (int64_t degree = 2; degree <= 5; degree++) {
      graphs g;
      graphs_init(&g);
      sx_graph *loss = graphs_parse(&g, sx_format(&g.arena, "graph \"loss\"\n%s", sum_graphs[i]));
      if (!loss || !sx_graph_verify(loss, SX_STAGE_READY, &g.diags)) fail_msg("%zu: %s", i, graphs_error(&g));
      sx_graph *stacked = stacked_of(&g, loss, degree);
      assert_non_null(stacked);
      for (uint64_t seed = 0; seed < 5; seed++)
        check_sums(&g, "sums", loss, stacked, (filling){seed, 0, degree, fill_small}, 0, &worst);
      sx_graph *simplified = graphs_apply(&g, stacked, "simplify cse dce");
      assert_non_null(simplified);
      check_sums(&g, "simplified", loss, simplified, (filling){9, 0, degree, fill_small}, 0, &worst);
      graphs_free(&g);
    }
  }
}

/* ---- examples ----------------------------------------------------------------------------------------- */

/* As fill, of a buffer by its name. */
static void fill_buffer(void *context, const char *name, sx_dtype dtype, int64_t n, void *data) {
  sx_node leaf = {.op = strncmp(name, "param/", 6) ? SX_OP_INPUT : SX_OP_PARAM, .dtype = dtype, .text = name};
  fill(context, &leaf, data, n);
}

static void **execute_on_cpu(example *e, const sx_graph *graph, filling *f) {
  const sx_plan *plan = sx_plan_make(graph, &(sx_plan_options){.fuse = true, .reuse = true}, &e->arena);
  return execute_plan(plan, &e->arena, fill_buffer, f);
}

/* The largest difference of the stacked sums from those one by one in binary64, relative to the largest magnitude that
 * is added to the output. */
static double worst_difference(example *e, const sx_graph *stacked, int64_t degree) {
  filling f = {.seed = 3, .degree = degree, .values = fill_ids_or_moderate};
  void ***one_by_one = SX_NEW_N(&e->arena, void **, degree);
  for (f.m = 0; f.m < degree; f.m++) one_by_one[f.m] = execute_on_cpu(e, e->loss, &f);
  f.m = -1;
  void **together = execute_on_cpu(e, stacked, &f);
  double worst = 0;
  for (size_t i = 0; i < stacked->outputs.n; i++) {
    const sx_node *node = sx_node_at(stacked, stacked->outputs.items[i].node);
    double most = 0, off = 0;
    for (int64_t k = 0; k < sx_node_elements(node); k++) {
      double sum = 0;
      for (int64_t m = 0; m < degree; m++) {
        double value = (double)((float *)one_by_one[m][i])[k];
        sum += value;
        if (fabs(value) > most) most = fabs(value);
      }
      double difference = fabs(sum - (double)((float *)together[i])[k]);
      assert_true(difference == difference);
      if (difference > off) off = difference;
    }
    if (most > 0 && off / most > worst) worst = off / most;
  }
  return worst;
}

/* Sums over microbatches are f32 sums of as many terms as a gradient contracts, some thousands, whose rounding grows
 * with the square root of their number: 2^-18 of the largest is 32 roundings. */
static void examples_are_stacked(void **state) {
  (void)state;
  for (int i = 0; i < N_EXAMPLES; i++) {
    for (int64_t degree = 2; degree <= 4; degree++) {
      example *e = example_open(example_names[i]);
      sx_stack_refusal why = {0};
      sx_graph *stacked = NULL;
      if (!sx_stack(&stacked, e->loss, degree, &why)) fail_msg("%s: %s", example_names[i], why.text);
      sx_diags *diags = &e->program.diags;
      stacked = sx_pass_dce(sx_pass_cse(sx_pass_simplify(stacked, diags), diags), diags);
      assert_true(sx_graph_verify(stacked, SX_STAGE_READY, diags));
      assert_int_equal(stacked->outputs.n, e->loss->outputs.n);
      double worst = worst_difference(e, stacked, degree);
      print_message("%s of degree %d: %zu nodes for %zu, off by %.2g\n", example_names[i], (int)degree,
                    stacked->nodes.n, e->loss->nodes.n, worst);
      assert_true(worst <= 0x1p-18);
      example_free(e);
    }
  }
}

/* ---- layers ------------------------------------------------------------------------------------------- */

#define LAYERS                                                                   \
  "(defdata d :source (idx (image \"i\") (label \"l\")))\n"                      \
  "(defun weight (name s) (param name s :init (normal shape :std 0.1)))\n"       \
  "(defrun r :data d :batch 3 :microbatches 4 :steps 1 :optimizer (sgd :lr 1)\n" \
  ":loss (let ((x (/ (cast image f32) 10)) (y (cast label i32)))\n"

/* What examples have not: losses of layers and operations whose rules differ. */
static const char *const layer_losses[] = {
    /* recurrence, segments, sorting */
    "(let ((a (sigmoid (linear x (weight \"a\" [8 28])))) (h (linear-scan a (linear x (weight \"b\" [8 28])) :axis "
    "1))\n"
    "      (s (sort (sum h :axis 2) :axis 1)) (c (cumsum s :axis 1)))\n  (mean (* c (tanh s))))",
    /* batch statistics, average pooling, convolution of strides */
    "(let ((h (conv (reshape x [3 28 28 1]) (weight \"c\" [4 3 3 1]) :stride 2 :padding 1))\n"
    "      (n (batch-norm h (weight \"g\" [4]) (weight \"h\" [4]))))\n"
    "  (cross-entropy (linear (mean (avg-pool n) :axis [1 2]) (weight \"o\" [10 4])) y))",
    /* mixed precision, rotary attention, a mask that is the same for all */
    "(let ((w (lambda (name) (cast (weight name [28 28]) bf16))) (b (cast x bf16))\n"
    "      (q (split-heads (matmul b (w \"q\")) 2)) (k (split-heads (matmul b (w \"k\")) 2))\n"
    "      (z (attention (rotary q) (rotary k) (split-heads (matmul b (w \"v\")) 2) :causal true)))\n"
    "  (mean (* (cast (merge-heads z) f32) (rms-norm x (weight \"g\" [28])))))",
    /* a weight that is scaled, normalized and tied; one drawn upon */
    "(let ((w (weight \"w\" [28 28])) (u (/ w (sqrt (sum (* w w)))))\n"
    "      (h (matmul (gather (matmul x (* 0.5 u)) (iota [3])) (transpose u [1 0]))))\n"
    "  (mean (* h (where (< (uniform [28] :salt :step) 0.5) 0 2))))",
};
enum { N_LAYER_LOSSES = sizeof layer_losses / sizeof *layer_losses };

/* The bound is a few times that of the examples, since gradients cancel behind a batch norm; where products round to
 * bf16, twice their rounding. */
static void layers_are_stacked(void **state) {
  (void)state;
  for (int i = 0; i < N_LAYER_LOSSES; i++) {
    char text[2048];
    snprintf(text, sizeof text, LAYERS "%s))\n", layer_losses[i]);
    for (int64_t degree = 2; degree <= 4; degree++) {
      example *e = example_of_text(text);
      sx_stack_refusal why = {0};
      sx_graph *stacked = NULL;
      if (!sx_stack(&stacked, e->loss, degree, &why)) fail_msg("%d: %s", i, why.text);
      assert_true(sx_graph_verify(stacked, SX_STAGE_READY, &e->program.diags));
      double worst = worst_difference(e, stacked, degree);
      print_message("layers %d of degree %d: %zu nodes for %zu, off by %.2g\n", i, (int)degree, stacked->nodes.n,
                    e->loss->nodes.n, worst);
      assert_true(worst <= (strstr(text, "bf16") ? 0x1p-6 : 0x1p-16));
      example_free(e);
    }
  }
}

/* ---- refusals, generators, candidates ----------------------------------------------------------------- */

static void a_refusal_names_the_place(void **state) {
  (void)state;
  static const char text[] =
      "(defdata d :source (arrays \"d.safetensors\"))\n"
      "(defrun r :data d :batch 2 :microbatches 4 :steps 1 :optimizer (sgd :lr 1)\n"
      "  :loss (scope \"noise\" (let ((w (param \"w\" [4] :init (zeros shape))))\n"
      "    (mean (* x (+ w (normal [4] :salt :microbatch)))))))\n";
  language *l = language_of(text, NULL);
  if (!l->good) fail_msg("%s", language_error(l));
  sx_diags *diags = &l->program.diags;
  sx_graph *loss = sx_pass_dce(sx_pass_gradient(l->program.stages[0].loss, diags), diags), *stacked;
  sx_stack_refusal why = {0};
  assert_false(sx_stack(&stacked, loss, 2, &why));
  assert_string_equal(why.text, "input in noise: it reads :microbatch, which counts microbatches");
  assert_int_equal(sx_node_at(loss, why.node)->op, SX_OP_INPUT);
  assert_true(why.span.file && why.span.begin > 0);
  language_free(l);
}

/* What a graph refuses is of no account where only what is left out needs it. */
static void what_is_left_out_refuses_nothing(void **state) {
  (void)state;
  graphs g;
  graphs_init(&g);
  sx_graph *loss = graphs_parse(&g,
                                "graph \"loss\"\n%0 = input {name \"counter/microbatch\"} : i32 []\n"
                                "%1 = input {name \"field/x\"} : f32 []\noutput \"probe/m\" %0\noutput \"loss\" %1\n");
  sx_graph *stacked = stacked_of(&g, loss, 4);
  assert_non_null(stacked);
  assert_int_equal(stacked->outputs.n, 1);
  graphs_free(&g);
}

static void check_generator(const char *text, const char *refusal) {
  graphs g;
  graphs_init(&g);
  sx_graph *graph = graphs_parse(&g, sx_format(&g.arena, "graph \"trip\"\n%s", text));
  assert_non_null(graph);
  sx_stack_refusal why = {0};
  assert_int_equal(sx_stack_allows_generator(graph, &why), refusal == NULL);
  if (refusal) assert_string_equal(why.text, refusal);
  graphs_free(&g);
}

static void generators_refuse(void **state) {
  (void)state;
  check_generator("%0 = input {name \"counter/trip\"} : i32 []\noutput \"state/0\" %0\n", NULL);
  check_generator("%0 = input {name \"counter/step\"} : i32 []\noutput \"state/0\" %0\n", NULL);
  check_generator("%0 = input {name \"counter/records\"} : i32 []\noutput \"state/0\" %0\n",
                  "input: it reads :records, which counts microbatches");
  check_generator("%0 = input {name \"counter/stage-records\"} : i32 []\noutput \"state/0\" %0\n",
                  "input: it reads :stage-records, which counts microbatches");
  check_generator("%0 = const {value 1} : bf16 [2]\noutput \"state/0\" %0\n",
                  "const: a generator with bf16 values is not stacked");
  assert_true(sx_stack_allows_generator(NULL, NULL));
}

static void check_candidates(const int64_t *microbatches, size_t n_stages, const int64_t *wanted, int n_wanted) {
  int64_t degrees[SX_STACK_CANDIDATES];
  assert_int_equal(sx_stack_candidates(degrees, microbatches, n_stages), n_wanted);
  for (int i = 0; i < n_wanted; i++) assert_int_equal(degrees[i], wanted[i]);
}

static void candidates_divide(void **state) {
  (void)state;
  check_candidates((int64_t[]){1}, 1, (int64_t[]){1}, 1);
  check_candidates((int64_t[]){8}, 1, (int64_t[]){1, 2, 4, 8}, 4);
  check_candidates((int64_t[]){12}, 1, (int64_t[]){1, 2, 4, 12}, 4);
  check_candidates((int64_t[]){9}, 1, (int64_t[]){1, 9}, 2);
  check_candidates((int64_t[]){12, 8, 20}, 3, (int64_t[]){1, 2, 4}, 3);
  check_candidates((int64_t[]){6, 35}, 2, (int64_t[]){1}, 1);
  int64_t degrees[SX_STACK_CANDIDATES], many = (int64_t)3 << 20;
  assert_int_equal(sx_stack_candidates(degrees, &many, 1), 17);
  assert_int_equal(degrees[16], SX_STACK_MOST);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_keep_their_bits),
      cmocka_unit_test(sums_of_small_integers_are_exact),
      cmocka_unit_test(examples_are_stacked),
      cmocka_unit_test(layers_are_stacked),
      cmocka_unit_test(a_refusal_names_the_place),
      cmocka_unit_test(generators_refuse),
      cmocka_unit_test(what_is_left_out_refuses_nothing),
      cmocka_unit_test(candidates_divide),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
