/* Attention as tasks by tiles of rows: which graphs have them, and that every bit is that of the plan without. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../libsexp/cpu/canonical.h"
#include "../../libsexp/cpu/executable.h"
#include "../../libsexp/cpu/softmax.h"
#include "../../libsexp/pass/attention.h"
#include "../common/attention_graph.h"
#include "../common/cmocka_all.h"
#include "../common/planned.h"
#include "../common/random_graph.h"

static const sx_plan *plan_of(planned *p, sx_attention_use attention) {
  sx_plan_options options = {.fuse = true, .reuse = true, .layout = true, .attention = attention};
  options.join = attention != SX_ATTENTION_NEVER;
  return sx_plan_make(p->graph, &options, &p->arena);
}

static size_t count_tasks(const sx_plan *plan, sx_task_kind kind) {
  size_t n = 0;
  for (size_t t = 0; t < plan->tasks.n; t++) n += plan->tasks.items[t].kind == kind;
  return n;
}

/* ---- values ---------------------------------------------------------------------------------------- */

typedef enum values {
  VALUES_PLAIN,
  VALUES_SPECIAL,
  VALUES_ZERO,
  VALUES_TINY,
  VALUES_HUGE,
  VALUES_SHARP,
  N_VALUES
} values;

static float plain_value(random_source *random) { return (float)random_below(random, 2001) / 1000.0f - 1.0f; }

static float value_of(random_source *random, values kind) {
  static const float special[] = {INFINITY, -INFINITY, NAN, -0.0f, 0.0f, 1e-40f, -1e-45f, 3e38f, 1e-30f};
  switch (kind) {
    case VALUES_SPECIAL:
      return random_below(random, 400) ? plain_value(random) : special[random_below(random, 9)];
    case VALUES_ZERO:
      return random_below(random, 3) ? 0.0f : random_below(random, 2) ? -0.0f : plain_value(random);
    case VALUES_TINY:
      return plain_value(random) * 1e-38f * (random_below(random, 2) ? 1.0f : 1e-6f);
    case VALUES_HUGE:
    case VALUES_SHARP:
      return plain_value(random) * 1e19f;
    default:
      return plain_value(random);
  }
}

/* Of a mask: rows in which nothing is seen among them. Of what is large: v and g, or q and k, whose product overflows
 * here and there. */
static void fill(const sx_buffer *buffer, values kind, uint64_t seed, void *data) {
  random_source random = {seed + (uint64_t)buffer->name[0] * 1000003};
  char large[2][2] = {{kind == VALUES_SHARP ? 'q' : 'v'}, {kind == VALUES_SHARP ? 'k' : 'g'}};
  bool chosen = !strcmp(buffer->name, large[0]) || !strcmp(buffer->name, large[1]);
  if ((kind == VALUES_HUGE || kind == VALUES_SHARP) && !chosen) kind = VALUES_PLAIN;
  for (int64_t i = 0; buffer->dtype == SX_F32 && i < buffer->n_bytes / 4; i++)
    ((float *)data)[i] = value_of(&random, kind);
  for (int64_t i = 0; buffer->dtype == SX_BOOL && i < buffer->n_bytes; i++)
    ((uint8_t *)data)[i] = i / 97 % 5 != 2 && random_below(&random, 4) != 0;
}

typedef struct outside {
  void **data;
  size_t n;
} outside;

static outside outside_of(const sx_plan *plan, values kind, uint64_t seed) {
  outside o = {calloc(plan->buffers.n, sizeof(void *)), plan->buffers.n};
  for (size_t b = 0; b < o.n; b++) {
    const sx_buffer *buffer = &plan->buffers.items[b];
    if (buffer->kind != SX_BUFFER_EXTERNAL && buffer->kind != SX_BUFFER_OUTPUT) continue;
    o.data[b] = aligned_alloc(64, (size_t)(buffer->n_bytes + 63) / 64 * 64 + 64);
    memset(o.data[b], 0xa5, (size_t)buffer->n_bytes);
    if (buffer->kind == SX_BUFFER_EXTERNAL) fill(buffer, kind, seed, o.data[b]);
  }
  return o;
}

static void outside_free(outside *o) {
  for (size_t b = 0; b < o->n; b++) free(o->data[b]);
  free(o->data);
}

/* Twice: what a first execution leaves in the scratch changes nothing. */
static void run(planned *p, const sx_plan *plan, sx_simd simd, int threads, outside *o) {
  sx_stopped why;
  sx_pool *pool = sx_pool_new(threads);
  sx_cpu cpu = {.kernels = sx_kernels(simd), .pool = pool, .memory = &p->memory};
  sx_executable *e = sx_executable_new(&cpu, plan, 7, &p->arena);
  assert_non_null(e);
  for (uint32_t b = 0; b < o->n; b++)
    if (o->data[b]) sx_executable_bind(e, b, o->data[b]);
  for (int i = 0; i < 2; i++) assert_true(sx_executable_execute(e, &why));
  for (size_t b = 0; b < o->n; b++)
    if (plan->buffers.items[b].kind == SX_BUFFER_OUTPUT)
      sx_canonical_nans(o->data[b], SX_F32, plan->buffers.items[b].n_bytes / 4);
  sx_executable_free(e);
  sx_pool_free(pool);
}

static const void *output_of(const sx_plan *plan, const outside *o, const char *name) {
  for (size_t b = 0; b < o->n; b++)
    if (plan->buffers.items[b].kind == SX_BUFFER_OUTPUT && !strcmp(plan->buffers.items[b].name, name))
      return o->data[b];
  fail_msg("no output %s", name);
  return NULL;
}

/* Multiply-adds of a product that levels without the instruction take too long for. */
enum { SLOW_PRODUCT = 700000 };

static void check_values(planned *p, const attention_shape *c, values kind, uint64_t seed) {
  const sx_plan *without = plan_of(p, SX_ATTENTION_NEVER), *with = plan_of(p, SX_ATTENTION_ALWAYS);
  outside expected = outside_of(without, kind, seed);
  run(p, without, sx_simd_best(), 1, &expected);
  for (sx_simd simd = SX_SIMD_REFERENCE; simd < SX_N_SIMD; simd++) {
    bool slow = simd <= SX_SIMD_SCALAR && (int64_t)c->b * c->h * c->t * c->s * c->d > SLOW_PRODUCT;
    if (!sx_simd_available(simd) || slow) continue;
    int threads = 1 + (int)((seed + simd) % 4);
    outside got = outside_of(with, kind, seed);
    run(p, with, simd, threads, &got);
    for (size_t i = 0; i < p->graph->outputs.n; i++) {
      const sx_output *output = &p->graph->outputs.items[i];
      int64_t n_bytes = sx_node_elements(sx_node_at(p->graph, output->node)) * 4;
      if (memcmp(output_of(without, &expected, output->name), output_of(with, &got, output->name), (size_t)n_bytes))
        fail_msg("[%d %d %d %d %d] mask %d, values %d, seed %d: %s differs, %s, %d threads", c->b, c->h, c->t, c->s,
                 c->d, (int)c->mask, (int)kind, (int)seed, output->name, sx_simd_name(simd), threads);
    }
    outside_free(&got);
  }
  outside_free(&expected);
}

/* ---- tests ----------------------------------------------------------------------------------------- */

static void check_shape(const attention_shape *c, uint64_t seed) {
  planned *p = planned_attention(c, NULL);
  assert_int_equal(count_tasks(plan_of(p, SX_ATTENTION_ALWAYS), SX_TASK_ATTENTION), c->backward && !c->direct ? 2 : 1);
  assert_int_equal(count_tasks(plan_of(p, SX_ATTENTION_NEVER), SX_TASK_ATTENTION), 0);
  for (values kind = 0; kind < N_VALUES; kind++) check_values(p, c, kind, seed);
  planned_free(p);
}

static const attention_shape shapes_tested[] = {
    {2, 4, 64, 64, 16, MASK_CAUSAL, false, false, true, true, false, false},
    {1, 8, 50, 50, 7, MASK_CAUSAL, true, false, true, false, false, false},
    {3, 3, 17, 49, 5, MASK_NONE, false, true, true, true, false, false},
    {2, 5, 131, 131, 8, MASK_CAUSAL, false, true, true, true, false, false},
    {4, 2, 57, 200, 9, MASK_ANY, true, true, true, true, false, false},
    {8, 1, 33, 97, 3, MASK_ANY, false, false, true, false, false, false},
    {2, 4, 257, 257, 4, MASK_CAUSAL, false, false, true, true, false, false},
    {1, 8, 300, 280, 5, MASK_STRICT, false, false, true, true, false, false},
    {1, 9, 530, 60, 3, MASK_NONE, true, false, true, true, false, false},
    {1, 8, 257, 48, 60, MASK_NONE, false, false, true, true, false, false},
    {2, 4, 40, 512, 33, MASK_CAUSAL, false, false, true, false, false, false},
    {2, 4, 100, 64, 270, MASK_CAUSAL, false, false, false, true, false, false},
    {8, 2, 128, 128, 32, MASK_STRICT, false, false, false, false, false, false},
    {2, 4, 64, 64, 16, MASK_CAUSAL, false, false, true, true, true, false},
    {2, 4, 70, 70, 30, MASK_CAUSAL, false, true, true, true, true, false},
    {1, 8, 90, 90, 3, MASK_STRICT, false, false, true, true, true, false},
    {2, 4, 64, 64, 16, MASK_CAUSAL, false, false, true, true, false, true},
    {1, 8, 300, 300, 5, MASK_STRICT, false, false, true, true, false, true},
    {2, 4, 257, 257, 4, MASK_CAUSAL, false, false, true, false, false, true},
    {1, 8, 50, 50, 7, MASK_NONE, false, true, true, false, true, true},
};

static void bits_are_those_of_the_composition(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof shapes_tested / sizeof *shapes_tested; i++) check_shape(&shapes_tested[i], i);
}

/* Nothing of the size of the scores is in memory. */
/* Gradients are scaled by the task that computes them, and written where they are joined. */
static void results_are_joined(void **state) {
  (void)state;
  planned *p =
      planned_attention(&(attention_shape){2, 4, 64, 64, 16, MASK_CAUSAL, false, false, true, true, false, true}, NULL);
  const sx_plan *plan = plan_of(p, SX_ATTENTION_ALWAYS);
  const sx_task *task = &plan->tasks.items[plan->tasks.n - 1];
  uint32_t n_after = 0;
  assert_int_equal(task->kind, SX_TASK_ATTENTION);
  for (uint32_t i = 0; i < task->attention->n_products; i++) n_after += task->attention->products[i].n_after;
  assert_int_equal(n_after, 5);
  for (uint32_t i = task->attention->n_scores; i < task->attention->n_products; i++) {
    const sx_attention_matrix *left = &task->attention->products[i].left;
    assert_int_equal(left->row, 3 * 64);
    assert_int_equal(left->column, 1);
    assert_int_equal(plan->buffers.items[plan->views[left->node].buffer].n_bytes, 2 * 64 * 3 * 64 * 4);
  }
  planned_free(p);
}

static void no_scores_are_in_memory(void **state) {
  (void)state;
  planned *p = planned_attention(&shapes_tested[3], NULL);
  const sx_plan *plan = plan_of(p, SX_ATTENTION_ALWAYS);
  int64_t scores = (int64_t)2 * 5 * 131 * 131 * 4;
  for (size_t b = 0; b < plan->buffers.n; b++)
    if (plan->buffers.items[b].kind == SX_BUFFER_TEMPORARY) assert_true(plan->buffers.items[b].n_bytes < scores / 2);
  planned_free(p);
}

static void check_used(const attention_shape *c, bool used) {
  planned *p = planned_attention(c, NULL);
  assert_int_equal(count_tasks(plan_of(p, SX_ATTENTION_FASTER), SX_TASK_ATTENTION), used ? 1 + c->backward : 0);
  planned_free(p);
}

/* Without columns to leave out a backward computes anew only what is too large for caches. */
static void tasks_are_made_where_they_pay(void **state) {
  (void)state;
  attention_shape c = {2, 4, 256, 256, 16, MASK_CAUSAL, false, true, true, true, false, false};
  check_used(&c, true);
  c.mask = MASK_ANY;
  check_used(&c, false);
  c.mask = MASK_NONE;
  check_used(&c, false);
  c.backward = false;
  check_used(&c, true);
  c.backward = true;
  c.t = c.s = 1536;
  check_used(&c, true);
}

static void check_refused(const attention_shape *c, const char *more) {
  planned *p = planned_attention(c, more);
  assert_int_equal(count_tasks(plan_of(p, SX_ATTENTION_ALWAYS), SX_TASK_ATTENTION), 0);
  planned_free(p);
}

/* Where something else wants the probabilities, heads are few, rows are few, or rows are short. */
static void other_graphs_have_no_such_tasks(void **state) {
  (void)state;
  const attention_shape fine = shapes_tested[0];
  attention_shape few_heads = fine, few_rows = fine, short_rows = fine;
  few_heads.b = 1;
  few_rows.t = 15;
  short_rows.s = 47;
  check_refused(&fine, "output \"p\" %%%d\n");
  check_refused(&few_heads, NULL);
  check_refused(&few_rows, NULL);
  check_refused(&short_rows, NULL);
}

/* Scores are read from memory: where they multiply what is between others, that has to be there. */
static void scores_of_what_is_inside_are_refused(void **state) {
  (void)state;
  planned *p = planned_text(
      "graph \"g\"\n%0 = input {name \"q\"} : f32 [8 64 64]\n%1 = input {name \"k\"} : f32 [8 64 64]\n"
      "%2 = einsum %0 %1 {labels \"bqd,bkd->bqk\"} : f32 [8 64 64]\n%3 = reduce-max %2 {axes [2]} : f32 [8 64]\n"
      "%4 = reshape %3 : f32 [8 64 1]\n%5 = broadcast %4 : f32 [8 64 64]\n%6 = sub %2 %5 : f32 [8 64 64]\n"
      "%7 = einsum %6 %0 {labels \"bqk,bkd->bqd\"} : f32 [8 64 64]\n%8 = add %2 %7 : f32 [8 64 64]\n"
      "%9 = einsum %8 %1 {labels \"bqk,bkd->bqd\"} : f32 [8 64 64]\noutput \"o\" %9\n");
  assert_int_equal(count_tasks(plan_of(p, SX_ATTENTION_ALWAYS), SX_TASK_ATTENTION), 0);
  check_values(p, &(attention_shape){8, 1, 64, 64, 64, MASK_NONE, false, false, false, false, false, false},
               VALUES_PLAIN, 1);
  planned_free(p);
}

/* More scores than a set of them has bits. */
static void families_of_many_products_are_refused(void **state) {
  (void)state;
  enum { SCORES = 40 };
  char text[8192], *end = text;
  end +=
      sprintf(end, "graph \"g\"\n%%0 = input {name \"q\"} : f32 [8 16 4]\n%%1 = input {name \"k\"} : f32 [8 48 4]\n");
  for (int i = 0; i < SCORES; i++)
    end += sprintf(end, "%%%d = einsum %%0 %%1 {labels \"bqd,bkd->bqk\"} : f32 [8 16 48]\n", 2 + i);
  int x = 2, id = 2 + SCORES;
  for (int i = 1; i < SCORES; i++, x = id++)
    end += sprintf(end, "%%%d = add %%%d %%%d : f32 [8 16 48]\n", id, 2 + i, x);
  end += sprintf(end, "%%%d = reduce-max %%%d {axes [2]} : f32 [8 16]\n%%%d = reshape %%%d : f32 [8 16 1]\n", id, x,
                 id + 1, id);
  end += sprintf(end, "%%%d = broadcast %%%d : f32 [8 16 48]\n%%%d = sub %%%d %%%d : f32 [8 16 48]\n", id + 2, id + 1,
                 id + 3, x, id + 2);
  sprintf(end, "%%%d = einsum %%%d %%1 {labels \"bqk,bkd->bqd\"} : f32 [8 16 4]\noutput \"o\" %%%d\n", id + 4, id + 3,
          id + 4);
  planned *p = planned_text(text);
  assert_int_equal(count_tasks(plan_of(p, SX_ATTENTION_ALWAYS), SX_TASK_ATTENTION), 0);
  planned_free(p);
}

/* Columns that add -0 in a block of rows of which nothing is left out, and that the next block leaves out. */
static void left_out_columns_have_sums_of_blocks_before(void **state) {
  (void)state;
  planned *p = planned_text(
      "graph \"g\"\n%0 = const {value 1} : f32 [8 600 4]\n%1 = iota {axis 1} : i32 [8 512 4]\n"
      "%2 = const {value 256} : i32 [8 512 4]\n%3 = lt %1 %2 : bool [8 512 4]\n%4 = const {value 0} : f32 [8 512 4]\n"
      "%5 = const {value 30} : f32 [8 512 4]\n%6 = where %3 %4 %5 : f32 [8 512 4]\n"
      "%7 = einsum %6 %0 {labels \"bqd,bkd->bqk\"} : f32 [8 512 600]\n%8 = iota {axis 0} : i32 [512 600]\n"
      "%9 = iota {axis 1} : i32 [512 600]\n%10 = ge %8 %9 : bool [512 600]\n%11 = broadcast %10 : bool [8 512 600]\n"
      "%12 = const {value -30} : f32 [8 512 600]\n%13 = where %11 %7 %12 : f32 [8 512 600]\n"
      "%14 = reduce-max %13 {axes [2]} : f32 [8 512]\n%15 = reshape %14 : f32 [8 512 1]\n"
      "%16 = broadcast %15 : f32 [8 512 600]\n%17 = sub %13 %16 : f32 [8 512 600]\n%18 = exp %17 : f32 [8 512 600]\n"
      "%19 = sum %18 {axes [2]} : f32 [8 512]\n%20 = reshape %19 : f32 [8 512 1]\n"
      "%21 = broadcast %20 : f32 [8 512 600]\n%22 = div %18 %21 : f32 [8 512 600]\n"
      "%23 = const {value -1e-40} : f32 [8 512 4]\n%24 = einsum %22 %23 {labels \"bqk,bqd->bkd\"} : f32 [8 600 4]\n"
      "output \"dv\" %24\n");
  assert_int_equal(count_tasks(plan_of(p, SX_ATTENTION_ALWAYS), SX_TASK_ATTENTION), 1);
  check_values(p, &(attention_shape){8, 1, 512, 600, 4, MASK_CAUSAL, false, false, false, false, false, false},
               VALUES_PLAIN, 1);
  planned_free(p);
}

/* Scores, the mask that shows columns up to the row's, and what is far below scores. */
#define SCORES                                                                                           \
  "graph \"g\"\n%0 = input {name \"q\"} : f32 [8 64 4]\n%1 = input {name \"k\"} : f32 [8 64 4]\n"        \
  "%2 = einsum %0 %1 {labels \"bqd,bkd->bqk\"} : f32 [8 64 64]\n%3 = iota {axis 0} : i32 [64 64]\n"      \
  "%4 = iota {axis 1} : i32 [64 64]\n%5 = ge %3 %4 : bool [64 64]\n%6 = broadcast %5 : bool [8 64 64]\n" \
  "%7 = const {value -1e30} : f32 [8 64 64]\n"

static void check_text(const char *text) {
  planned *p = planned_text(text);
  assert_int_equal(count_tasks(plan_of(p, SX_ATTENTION_ALWAYS), SX_TASK_ATTENTION), 1);
  check_values(p, &(attention_shape){8, 1, 64, 64, 4, MASK_CAUSAL, false, false, false, false, false, false},
               VALUES_PLAIN, 1);
  planned_free(p);
}

/* The column that one mask hides and the other shows is not left out. */
static void the_widest_mask_counts(void **state) {
  (void)state;
  check_text(SCORES
             "%8 = gt %3 %4 : bool [64 64]\n%9 = broadcast %8 : bool [8 64 64]\n"
             "%10 = where %9 %2 %7 : f32 [8 64 64]\n%11 = exp %10 : f32 [8 64 64]\n"
             "%12 = input {name \"g\"} : f32 [8 64 4]\n"
             "%13 = einsum %12 %1 {labels \"bqd,bkd->bqk\"} : f32 [8 64 64]\n"
             "%14 = const {value 0} : f32 [8 64 64]\n%15 = where %6 %13 %14 : f32 [8 64 64]\n"
             "%16 = add %11 %15 : f32 [8 64 64]\n%17 = reduce-max %10 {axes [2]} : f32 [8 64]\n"
             "%18 = tanh %17 : f32 [8 64]\n%19 = reshape %18 : f32 [8 64 1]\n%20 = broadcast %19 : f32 [8 64 64]\n"
             "%21 = mul %16 %20 : f32 [8 64 64]\n%22 = einsum %21 %0 {labels \"bqk,bkd->bqd\"} : f32 [8 64 4]\n"
             "output \"o\" %22\n");
}

/* Sums of a row: -0 of the columns near the diagonal, +0 of all. */
static void sums_that_are_zero_take_all_columns(void **state) {
  (void)state;
  check_text(SCORES
             "%8 = where %6 %2 %7 : f32 [8 64 64]\n%9 = exp %8 : f32 [8 64 64]\n"
             "%10 = exp %0 : f32 [8 64 4]\n%11 = iota {axis 1} : i32 [8 64 4]\n"
             "%12 = const {value 48} : i32 [8 64 4]\n%13 = lt %11 %12 : bool [8 64 4]\n"
             "%14 = const {value 0} : f32 [8 64 4]\n%15 = const {value -1} : f32 [8 64 4]\n"
             "%16 = where %13 %14 %15 : f32 [8 64 4]\n"
             "%17 = einsum %10 %16 {labels \"bqd,bkd->bqk\"} : f32 [8 64 64]\n%18 = neg %17 : f32 [8 64 64]\n"
             "%19 = mul %9 %18 : f32 [8 64 64]\n%20 = sum %19 {axes [2]} : f32 [8 64]\n"
             "%21 = const {value 1} : f32 [8 64]\n%22 = div %21 %20 : f32 [8 64]\n%23 = tanh %22 : f32 [8 64]\n"
             "%24 = reshape %23 : f32 [8 64 1]\n%25 = broadcast %24 : f32 [8 64 64]\n"
             "%26 = mul %9 %25 : f32 [8 64 64]\n%27 = einsum %26 %0 {labels \"bqk,bkd->bqd\"} : f32 [8 64 4]\n"
             "output \"o\" %27\n");
}

/* ---- softmax --------------------------------------------------------------------------------------- */

/* Causal attention and its gradients, with two more masks. */
static const char causal[] =
    "graph \"g\"\n%0 = input {name \"q\"} : f32 [8 64 4]\n%1 = input {name \"k\"} : f32 [8 64 4]\n"
    "%2 = input {name \"v\"} : f32 [8 64 4]\n%3 = input {name \"g\"} : f32 [8 64 4]\n"
    "%4 = einsum %0 %1 {labels \"bqd,bkd->bqk\"} : f32 [8 64 64]\n%5 = iota {axis 0} : i32 [64 64]\n"
    "%6 = iota {axis 1} : i32 [64 64]\n%7 = ge %5 %6 : bool [64 64]\n%8 = broadcast %7 : bool [8 64 64]\n"
    "%9 = gt %5 %6 : bool [64 64]\n%10 = broadcast %9 : bool [8 64 64]\n"
    "%11 = input {name \"seen\"} : bool [8 64 64]\n%12 = and %8 %11 : bool [8 64 64]\n"
    "%13 = const {value -inf} : f32 [8 64 64]\n%14 = where %8 %4 %13 : f32 [8 64 64]\n"
    "%15 = reduce-max %14 {axes [2]} : f32 [8 64]\n%16 = reshape %15 : f32 [8 64 1]\n"
    "%17 = broadcast %16 : f32 [8 64 64]\n%18 = sub %14 %17 : f32 [8 64 64]\n%19 = exp %18 : f32 [8 64 64]\n"
    "%20 = sum %19 {axes [2]} : f32 [8 64]\n%21 = reshape %20 : f32 [8 64 1]\n"
    "%22 = broadcast %21 : f32 [8 64 64]\n%23 = div %19 %22 : f32 [8 64 64]\n"
    "%24 = einsum %3 %2 {labels \"bqd,bkd->bqk\"} : f32 [8 64 64]\n"
    "%25 = einsum %23 %3 {labels \"bqk,bqd->bkd\"} : f32 [8 64 4]\n%26 = div %24 %22 : f32 [8 64 64]\n"
    "%27 = div %23 %22 : f32 [8 64 64]\n%28 = neg %24 : f32 [8 64 64]\n%29 = mul %28 %27 : f32 [8 64 64]\n"
    "%30 = sum %29 {axes [2]} : f32 [8 64]\n%31 = reshape %30 : f32 [8 64 1]\n"
    "%32 = broadcast %31 : f32 [8 64 64]\n%33 = add %26 %32 : f32 [8 64 64]\n%34 = mul %33 %19 : f32 [8 64 64]\n"
    "%35 = const {value 0} : f32 [8 64 64]\n%36 = where %8 %34 %35 : f32 [8 64 64]\n"
    "%37 = einsum %36 %1 {labels \"bqk,bkd->bqd\"} : f32 [8 64 4]\n"
    "%38 = einsum %0 %36 {labels \"bqd,bqk->bkd\"} : f32 [8 64 4]\n%39 = where %10 %35 %13 : f32 [8 64 64]\n"
    "%40 = where %12 %35 %13 : f32 [8 64 64]\noutput \"strict\" %39\noutput \"both\" %40\n"
    "output \"dv\" %25\noutput \"dq\" %37\noutput \"dk\" %38\n";

typedef struct change {
  const char *from, *to; /* in the text of the graph */
  bool is_softmax;
} change;

static const change changes[] = {
    {"graph", "graph", true},
    {"mul %28 %27", "mul %27 %28", true},
    {"add %26 %32", "add %32 %26", true},
    {"mul %33 %19", "mul %19 %33", true},
    {"value -inf", "value -200", true},
    {"value -inf", "value -2", true}, /* but what is hidden is not 0 */
    {"ge %5 %6", "gt %5 %6", true},   /* and nothing is seen in a row */
    {"ge %5 %6", "le %6 %5", true},
    {"ge %5 %6", "le %5 %6", false},
    {"{value 0}", "{value -0}", false},
    {"{value 0}", "{value 1}", false},
    {"where %8 %4", "where %10 %4", false},
    {"where %8 %34", "where %10 %34", false},
    {"where %8 %4", "where %12 %4", false},
    {"where %8", "where %12", false},
    {"where %8", "where %10", true},
    {"sub %14 %17", "sub %17 %14", false},
    {"sub %14 %17", "sub %4 %17", false},
    {"exp %18", "exp2 %18", false},
    {"reduce-max %14", "reduce-min %14", false},
    {"reduce-max %14", "reduce-max %4", false},
    {"sum %19", "sum %18", false},
    {"div %24 %22", "div %24 %17", false},
    {"div %24 %22", "div %4 %22", false},
    {"div %23 %22", "div %19 %22", false},
    {"div %23 %22", "div %23 %17", false},
    {"neg %24", "neg %4", false},
    {"neg %24", "abs %24", false},
    {"mul %33 %19", "mul %33 %23", false},
    {"add %26 %32", "sub %26 %32", false},
    {"einsum %0 %36", "einsum %0 %34", false},
};

/* The graph with all that is `from` as `to`. */
static planned *planned_changed(const change *one) {
  char text[sizeof causal + 64];
  size_t n = 0, length = strlen(one->from);
  for (const char *at = causal; *at;) {
    bool is_here = !strncmp(at, one->from, length);
    n +=
        (size_t)snprintf(text + n, sizeof text - n, "%.*s", is_here ? (int)strlen(one->to) : 1, is_here ? one->to : at);
    at += is_here ? length : 1;
  }
  return planned_text(text);
}

/* What only looks like a softmax is none, and whatever it is the bits are those of the composition. */
static void softmax_is_found(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    planned *p = planned_changed(&changes[i]);
    const sx_plan *plan = plan_of(p, SX_ATTENTION_ALWAYS);
    bool found = false;
    for (size_t t = 0; t < plan->tasks.n; t++) {
      sx_softmax softmax;
      const sx_attention *attention = plan->tasks.items[t].attention;
      if (plan->tasks.items[t].kind == SX_TASK_ATTENTION) found = found || sx_softmax_find(plan, attention, &softmax);
    }
    if (found != changes[i].is_softmax) fail_msg("%s is %s", changes[i].to, found ? "a softmax" : "none");
    for (values kind = 0; kind < (found ? N_VALUES : 1); kind++)
      check_values(p, &(attention_shape){8, 1, 64, 64, 4, MASK_CAUSAL, false, false, true, true, false, false}, kind,
                   i);
    planned_free(p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bits_are_those_of_the_composition),
      cmocka_unit_test(results_are_joined),
      cmocka_unit_test(no_scores_are_in_memory),
      cmocka_unit_test(tasks_are_made_where_they_pay),
      cmocka_unit_test(other_graphs_have_no_such_tasks),
      cmocka_unit_test(scores_of_what_is_inside_are_refused),
      cmocka_unit_test(families_of_many_products_are_refused),
      cmocka_unit_test(left_out_columns_have_sums_of_blocks_before),
      cmocka_unit_test(the_widest_mask_counts),
      cmocka_unit_test(sums_that_are_zero_take_all_columns),
      cmocka_unit_test(softmax_is_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
