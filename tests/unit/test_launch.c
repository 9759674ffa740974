/* Launches: which element groups are run as one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../libsexp/cpu/canonical.h"
#include "../../libsexp/cpu/group.h"
#include "../../libsexp/cpu/launch.h"
#include "../../libsexp/pass/plan_parts.h"
#include "../common/cmocka_all.h"
#include "../common/interpret.h"
#include "../common/planned.h"
#include "../common/random_graph.h"

static void check_counts(const char *graph, const uint32_t *expected, size_t n) {
  planned *p = planned_text(graph);
  const sx_plan *plan = planned_plan(p, true, true);
  const uint32_t *counts = sx_launches(plan, &p->arena);
  assert_int_equal(plan->tasks.n, n);
  for (size_t t = 0; t < n; t++) assert_int_equal(counts[t], expected[t]);
  planned_free(p);
}

static void updates_are_one_launch(void **state) {
  (void)state;
  check_counts(
      "graph \"g\"\n"
      "%0 = param {path \"a\"} : f32 [70]\n%1 = param {path \"b\"} : f32 [900]\n%2 = param {path \"c\"} : f32 [5]\n"
      "%3 = exp %0 : f32 [70]\n%4 = exp %1 : f32 [900]\n%5 = exp %2 : f32 [5]\n"
      "output \"param/a\" %3\noutput \"param/b\" %4\noutput \"param/c\" %5\n",
      (uint32_t[]){3, 0, 0}, 3);
}

static void who_reads_waits(void **state) {
  (void)state;
  check_counts(
      "graph \"g\"\n"
      "%0 = param {path \"a\"} : f32 [70]\n%1 = param {path \"b\"} : f32 [3 5]\n"
      "%2 = exp %1 : f32 [3 5]\n%3 = slice %2 {start [0 0], end [1 1], step [1 1]} : f32 [1 1]\n"
      "%4 = reshape %3 : f32 [1]\n%5 = broadcast %4 : f32 [70]\n%6 = mul %0 %5 : f32 [70]\n"
      "output \"param/a\" %6\n",
      (uint32_t[]){1, 1}, 2);
}

/* The second group reads what the first one may write over, the third writes what the second reads. */
static void an_output_may_be_its_input(void **state) {
  (void)state;
  check_counts(
      "graph \"g\"\n"
      "%0 = param {path \"a\"} : f32 [70]\n%1 = param {path \"b\"} : f32 [7]\n"
      "%2 = slice %0 {start [7], end [14], step [1]} : f32 [7]\n"
      "%3 = exp %0 : f32 [70]\n%4 = add %1 %2 : f32 [7]\n"
      "output \"param/a\" %3\noutput \"param/b\" %4\n",
      (uint32_t[]){1, 1}, 2);
}

typedef struct place {
  const char *name;
  int64_t begin, end;
} place;

static place place_of(const sx_plan *plan, uint32_t b) {
  const sx_buffer *buffer = &plan->buffers.items[b];
  if (buffer->kind == SX_BUFFER_TEMPORARY) return (place){"", buffer->offset, buffer->offset + buffer->n_bytes};
  bool named = buffer->kind == SX_BUFFER_EXTERNAL || buffer->kind == SX_BUFFER_OUTPUT;
  return (place){named ? buffer->name : "known", 0, named ? 1 : 0};
}

static bool meet(place a, place b) { return !strcmp(a.name, b.name) && a.begin < b.end && b.begin < a.end; }

/* Whether the task touches the place: writes it or, if asked, reads it. */
static bool touches(const sx_plan *plan, uint32_t t, place p, bool reads) {
  const sx_task *task = &plan->tasks.items[t];
  for (uint32_t i = 0; i < task->n_nodes; i++) {
    const sx_node *node = sx_node_at(plan->graph, task->nodes[i]);
    if (task->stored[i] && meet(p, place_of(plan, plan->views[task->nodes[i]].buffer))) return true;
    for (uint32_t k = 0; k < node->n_inputs && reads; k++) {
      uint32_t buffer = plan->views[node->inputs[k]].buffer;
      if (buffer != UINT32_MAX && meet(p, place_of(plan, buffer))) return true;
    }
  }
  return false;
}

static void check_apart(const sx_plan *plan, uint32_t writer, uint32_t other) {
  const sx_task *task = &plan->tasks.items[writer];
  for (uint32_t i = 0; i < task->n_nodes; i++)
    if (task->stored[i]) assert_false(touches(plan, other, place_of(plan, plan->views[task->nodes[i]].buffer), true));
}

static void tasks_of_a_launch_are_apart(void **state) {
  (void)state;
  int n_joined = 0;
  for (uint64_t seed = 0; seed < 300; seed++) {
    planned *p = planned_random(seed, 20 + (int)(seed % 8) * 40);
    const sx_plan *plan = planned_engine_plan(p, seed % 3 > 0, true);
    const uint32_t *counts = sx_launches(plan, &p->arena);
    for (uint32_t t = 0; t < plan->tasks.n; t += counts[t]) {
      assert_in_range(counts[t], 1, plan->tasks.n - t);
      n_joined += counts[t] > 1;
      for (uint32_t k = 0; k < counts[t] && counts[t] > 1; k++) {
        assert_int_equal(plan->tasks.items[t + k].kind, SX_TASK_ELEMENT);
        for (uint32_t other = 0; other < counts[t]; other++)
          if (other != k) check_apart(plan, t + k, t + other);
      }
    }
    planned_free(p);
  }
  assert_true(n_joined > 100);
}

static sx_columns columns_in(planned *p, const sx_plan *plan, uint32_t task) {
  const sx_columns *columns = sx_columns_find(plan, &p->arena).of_tasks[task];
  return columns ? *columns : (sx_columns){0};
}

/* A gradient of a bias and one of a scale; what only the second reads is not stored. */
static void sums_of_columns_join_their_group(void **state) {
  (void)state;
  planned *p = planned_text(
      "graph \"g\"\n%0 = param {path \"x\"} : f32 [40 200]\n%1 = exp %0 : f32 [40 200]\n"
      "%2 = mul %1 %0 : f32 [40 200]\n%3 = sum %1 {axes [0]} : f32 [200]\n%4 = sum %2 {axes [0]} : f32 [200]\n"
      "output \"y\" %1\noutput \"b\" %3\noutput \"g\" %4\n");
  const sx_plan *plan = planned_engine_plan(p, true, true);
  sx_columns columns = columns_in(p, plan, 0);
  assert_int_equal(plan->tasks.n, 3);
  assert_int_equal(columns.n, 2);
  assert_int_equal(columns.n_rows, 40);
  assert_int_equal(columns.row, 200);
  for (uint32_t i = 0; i < 2; i++) assert_int_equal(columns.read[i], columns.summed[i] == 1);
  const sx_plan *plain = planned_plan(p, true, true);
  assert_int_equal(columns_in(p, plain, 0).n, 0);
  planned_free(p);
}

static sx_columns columns_of(planned *p, uint32_t task, bool engine) {
  const sx_plan *plan = engine ? planned_engine_plan(p, true, true) : planned_plan(p, true, true);
  return columns_in(p, plan, task);
}

/* In the graph a product comes between the group and its sum. 64 elements are a short row; with a bias along it rows do
 * not go together. */
static void sums_of_columns_come_after_their_group(void **state) {
  (void)state;
  static const char text[] =
      "graph \"g\"\n%%0 = param {path \"x\"} : f32 [8192 64]\n%%1 = param {path \"w\"} : f32 %s\n%%2 = %s : f32 "
      "[8192 64]\n"
      "%%3 = mul %%0 %%2 : f32 [8192 64]\n%%4 = einsum %%3 %%0 {labels \"ka,kb->ab\"} : f32 [64 64]\n"
      "%%5 = sum %%3 {axes [0]} : f32 [64]\noutput \"w\" %%4\noutput \"b\" %%5\n";
  char one[512], row[512];
  snprintf(one, sizeof one, text, "[8192 64]", "exp %1");
  snprintf(row, sizeof row, text, "[64]", "broadcast %1");
  planned *p = planned_text(one);
  sx_columns columns = columns_of(p, 0, true);
  assert_int_equal(columns.n, 1);
  assert_int_equal(columns.width, 64);
  assert_int_equal(columns.row, 2048);
  assert_int_equal(columns.n_rows, 256);
  assert_true(columns.read[0]);
  assert_int_equal(columns_of(p, 0, false).n, 0);
  planned_free(p);
  p = planned_text(row);
  assert_int_equal(columns_of(p, 0, true).n, 0);
  planned_free(p);
}

/* Short floats, integers and bools do not end a chain. */
static void a_mixed_group_is_one_step(void **state) {
  (void)state;
  planned *p = planned_text(
      "graph \"g\"\n"
      "%0 = param {path \"x\"} : bf16 [300]\n%1 = cast %0 : f32 [300]\n%2 = exp %1 : f32 [300]\n"
      "%3 = cast %2 : f16 [300]\n%4 = add %3 %3 : f16 [300]\n%5 = param {path \"i\"} : i32 [300]\n"
      "%6 = add %5 %5 : i32 [300]\n%7 = lt %6 %5 : bool [300]\n%8 = where %7 %3 %4 : f16 [300]\n"
      "output \"y\" %8\n");
  const sx_plan *plan = planned_plan(p, true, true);
  assert_int_equal(plan->tasks.n, 1);
  const sx_group *group = sx_group_new(plan, &plan->tasks.items[0], sx_kernels(SX_SIMD_SCALAR), &p->arena);
  assert_int_equal(group->n_steps, 1);
  assert_true(group->steps[0].chained);
  planned_free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(updates_are_one_launch),
      cmocka_unit_test(who_reads_waits),
      cmocka_unit_test(an_output_may_be_its_input),
      cmocka_unit_test(tasks_of_a_launch_are_apart),
      cmocka_unit_test(a_mixed_group_is_one_step),
      cmocka_unit_test(sums_of_columns_join_their_group),
      cmocka_unit_test(sums_of_columns_come_after_their_group),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
