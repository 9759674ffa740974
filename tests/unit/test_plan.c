/* Plans: views, groups, order, as text of small graphs and as rules that hold for random ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../libsexp/ir/build.h"
#include "../../libsexp/pass/plan_parts.h"
#include "../common/cmocka_all.h"
#include "../common/planned.h"
#include "../common/random_graph.h"

static void check_plan(const char *graph, bool fuse, bool reuse, const char *expected) {
  planned *p = planned_text(graph);
  assert_string_equal(planned_print(p, fuse, reuse), expected);
  planned_free(p);
}

static void a_chain_is_one_group(void **state) {
  (void)state;
  check_plan(
      "graph \"g\"\n"
      "%0 = input {name \"field/x\"} : f32 [100]\n"
      "%1 = exp %0 : f32 [100]\n"
      "%2 = mul %1 %0 : f32 [100]\n"
      "%3 = tanh %2 : f32 [100]\n"
      "output \"y\" %3\n",
      true, true,
      "plan \"g\": 1 tasks, block 0 bytes (bound 0, without reuse 0)\n"
      "  b0 external f32 400 bytes field/x\n"
      "  b1 output f32 400 bytes y\n"
      "  0: element [100]  %1 = exp %0  %2 = mul %1 %0  %3 = tanh %2 -> b1\n");
}

static void without_fusion_a_node_is_a_task(void **state) {
  (void)state;
  check_plan(
      "graph \"g\"\n"
      "%0 = input {name \"field/x\"} : f32 [100]\n"
      "%1 = exp %0 : f32 [100]\n"
      "%2 = mul %1 %0 : f32 [100]\n"
      "output \"y\" %2\n",
      false, false,
      "plan \"g\": 2 tasks, block 448 bytes (bound 448, without reuse 448)\n"
      "  b0 external f32 400 bytes field/x\n"
      "  b1 temporary f32 400 bytes at 0, tasks 0 to 1\n"
      "  b2 output f32 400 bytes y\n"
      "  0: element [100]  %1 = exp %0 -> b1\n"
      "  1: element [100]  %2 = mul %1 %0 -> b2\n");
}

/* %3 needs the sum of %1, so it cannot be in the group that computes %1. */
static void a_group_waits_for_nothing_outside(void **state) {
  (void)state;
  check_plan(
      "graph \"g\"\n"
      "%0 = param {path \"w\"} : f32 [4 5]\n"
      "%1 = exp %0 : f32 [4 5]\n"
      "%2 = sum %1 {axes [1]} : f32 [4]\n"
      "%3 = reshape %2 : f32 [4 1]\n"
      "%4 = broadcast %3 : f32 [4 5]\n"
      "%5 = div %1 %4 : f32 [4 5]\n"
      "%6 = neg %1 : f32 [4 5]\n"
      "output \"softmax\" %5\n"
      "output \"negative\" %6\n",
      true, true,
      "plan \"g\": 3 tasks, block 192 bytes (bound 192, without reuse 192)\n"
      "  b0 external f32 80 bytes param/w\n"
      "  b1 temporary f32 80 bytes at 0, tasks 0 to 2\n"
      "  b2 temporary f32 16 bytes at 128, tasks 1 to 2\n"
      "  b3 output f32 80 bytes softmax\n"
      "  b4 output f32 80 bytes negative\n"
      "  %3 [4 1] in b2 at 0 strides [1 1]\n"
      "  %4 [4 5] in b2 at 0 strides [1 0]\n"
      "  0: element [4 5]  %1 = exp %0 -> b1  %6 = neg %1 -> b4\n"
      "  1: node  %2 = sum %1 -> b2\n"
      "  2: element [4 5]  %5 = div %1 %4 -> b3\n");
}

static void groups_of_one_reader_join(void **state) {
  (void)state;
  check_plan(
      "graph \"g\"\n"
      "%0 = input {name \"a\"} : f32 [8]\n"
      "%1 = input {name \"b\"} : f32 [8]\n"
      "%2 = exp %0 : f32 [8]\n"
      "%3 = log %1 : f32 [8]\n"
      "%4 = add %2 %3 : f32 [8]\n"
      "output \"y\" %4\n",
      true, true,
      "plan \"g\": 1 tasks, block 0 bytes (bound 0, without reuse 0)\n"
      "  b0 external f32 32 bytes a\n"
      "  b1 external f32 32 bytes b\n"
      "  b2 output f32 32 bytes y\n"
      "  0: element [8]  %2 = exp %0  %3 = log %1  %4 = add %2 %3 -> b2\n");
}

/* %2 reshapes what the group computes; %5 is read through a transposition, from outside. */
static void a_reshape_stays_in_the_group(void **state) {
  (void)state;
  check_plan(
      "graph \"g\"\n"
      "%0 = param {path \"a\"} : f32 [4 6]\n"
      "%1 = exp %0 : f32 [4 6]\n"
      "%2 = reshape %1 : f32 [2 12]\n"
      "%3 = neg %2 : f32 [2 12]\n"
      "%4 = reshape %3 : f32 [6 4]\n"
      "%5 = transpose %1 {perm [1 0]} : f32 [6 4]\n"
      "%6 = mul %4 %4 : f32 [6 4]\n"
      "%7 = add %6 %5 : f32 [6 4]\n"
      "output \"y\" %7\n",
      true, true,
      "plan \"g\": 2 tasks, block 256 bytes (bound 256, without reuse 256)\n"
      "  b0 external f32 96 bytes param/a\n"
      "  b1 temporary f32 96 bytes at 0, tasks 0 to 1\n"
      "  b2 temporary f32 96 bytes at 128, tasks 0 to 1\n"
      "  b3 output f32 96 bytes y\n"
      "  %2 [2 12] in b1 at 0 strides [12 1]\n"
      "  %5 [6 4] in b1 at 0 strides [1 6]\n"
      "  0: element [4 6]  %1 = exp %0 -> b1  %3 = neg %2  %6 = mul %4 %4 -> b2\n"
      "  1: element [6 4]  %7 = add %6 %5 -> b3\n");
}

/* %2 is made of a parameter alone, and read late: it moves to its reader. */
static void a_value_of_parameters_moves_to_its_reader(void **state) {
  (void)state;
  check_plan(
      "graph \"g\"\n"
      "%0 = param {path \"a\"} : f32 [8]\n"
      "%1 = param {path \"b\"} : f32 [8 8]\n"
      "%2 = exp %0 : f32 [8]\n"
      "%3 = sum %1 {axes [0]} : f32 [8]\n"
      "%4 = add %2 %3 : f32 [8]\n"
      "output \"y\" %4\n",
      true, true,
      "plan \"g\": 2 tasks, block 64 bytes (bound 64, without reuse 64)\n"
      "  b0 external f32 32 bytes param/a\n"
      "  b1 external f32 256 bytes param/b\n"
      "  b2 temporary f32 32 bytes at 0, tasks 0 to 1\n"
      "  b3 output f32 32 bytes y\n"
      "  0: node  %3 = sum %1 -> b2\n"
      "  1: element [8]  %2 = exp %0  %4 = add %2 %3 -> b3\n");
}

/* A mask of a computed value is a quarter of its size: it is made early. */
static void a_small_value_waits_for_its_reader(void **state) {
  (void)state;
  check_plan(
      "graph \"g\"\n"
      "%0 = param {path \"a\"} : f32 [64 64]\n"
      "%1 = einsum %0 %0 {labels \"ij,jk->ik\"} : f32 [64 64]\n"
      "%2 = const {value 0.0} : f32 [64 64]\n"
      "%3 = gt %1 %2 : bool [64 64]\n"
      "%4 = max %1 %2 : f32 [64 64]\n"
      "%5 = einsum %4 %0 {labels \"ij,jk->ik\"} : f32 [64 64]\n"
      "%6 = where %3 %5 %2 : f32 [64 64]\n"
      "output \"y\" %6\n",
      true, true,
      "plan \"g\": 4 tasks, block 36864 bytes (bound 36864, without reuse 53248)\n"
      "  b0 external f32 16384 bytes param/a\n"
      "  b1 temporary f32 16384 bytes at 0, tasks 0 to 1\n"
      "  b2 const f32 4 bytes 0\n"
      "  b3 temporary bool 4096 bytes at 16384, tasks 1 to 3\n"
      "  b4 temporary f32 16384 bytes at 0, tasks 1 to 2\n"
      "  b5 temporary f32 16384 bytes at 20480, tasks 2 to 3\n"
      "  b6 output f32 16384 bytes y\n"
      "  0: node  %1 = einsum %0 %0 -> b1\n"
      "  1: element [64 64]  %3 = gt %1 %2 -> b3  %4 = max %1 %2 -> b4\n"
      "  2: node  %5 = einsum %4 %0 -> b5\n"
      "  3: element [64 64]  %6 = where %3 %5 %2 -> b6\n");
}

/* The largest, the sum and the quotient walk rows of 64 together; what is wanted of them outside is stored. */
static void reductions_of_rows_join(void **state) {
  (void)state;
  check_plan(
      "graph \"g\"\n"
      "%0 = param {path \"w\"} : f32 [8 64]\n"
      "%1 = reduce-max %0 {axes [1]} : f32 [8]\n"
      "%2 = reshape %1 : f32 [8 1]\n"
      "%3 = broadcast %2 : f32 [8 64]\n"
      "%4 = sub %0 %3 : f32 [8 64]\n"
      "%5 = exp %4 : f32 [8 64]\n"
      "%6 = sum %5 {axes [1]} : f32 [8]\n"
      "%7 = log %6 : f32 [8]\n"
      "%8 = reshape %6 : f32 [8 1]\n"
      "%9 = broadcast %8 : f32 [8 64]\n"
      "%10 = div %5 %9 : f32 [8 64]\n"
      "output \"softmax\" %10\n"
      "output \"all\" %7\n",
      true, true,
      "plan \"g\": 1 tasks, block 0 bytes (bound 0, without reuse 0)\n"
      "  b0 external f32 2048 bytes param/w\n"
      "  b1 output f32 32 bytes all\n"
      "  b2 output f32 2048 bytes softmax\n"
      "  0: element [8] rows of 64  %1 = reduce-max %0  %4 = sub %0 %3  %5 = exp %4  %6 = sum %5  %7 = log %6 -> b1"
      "  %10 = div %5 %9 -> b2\n");
}

static void movement_is_views(void **state) {
  (void)state;
  check_plan(
      "graph \"g\"\n"
      "%0 = param {path \"w\"} : f32 [4 6]\n"
      "%1 = transpose %0 {perm [1 0]} : f32 [6 4]\n"
      "%2 = slice %1 {start [1 0], end [6 4], step [2 1]} : f32 [3 4]\n"
      "%3 = reverse %2 {axis 0} : f32 [3 4]\n"
      "%4 = broadcast %3 : f32 [2 3 4]\n"
      "%5 = reshape %4 : f32 [2 3 2 2]\n"
      "%6 = unfold %0 {axis 1, size 3, step 2} : f32 [4 2 3]\n"
      "%7 = reshape %1 : f32 [24]\n"
      "%8 = sum %5 {axes [0 1 2 3]} : f32 []\n"
      "%9 = sum %6 {axes [0 1 2]} : f32 []\n"
      "%10 = sum %7 {axes [0]} : f32 []\n"
      "output \"a\" %8\n"
      "output \"b\" %9\n"
      "output \"c\" %10\n",
      true, true,
      "plan \"g\": 4 tasks, block 128 bytes (bound 128, without reuse 128)\n"
      "  b0 external f32 96 bytes param/w\n"
      "  b1 temporary f32 96 bytes at 0, tasks 0 to 3\n"
      "  b2 output f32 4 bytes a\n"
      "  b3 output f32 4 bytes b\n"
      "  b4 output f32 4 bytes c\n"
      "  %1 [6 4] in b0 at 0 strides [1 6]\n"
      "  %2 [3 4] in b0 at 1 strides [2 6]\n"
      "  %3 [3 4] in b0 at 5 strides [-2 6]\n"
      "  %4 [2 3 4] in b0 at 5 strides [0 -2 6]\n"
      "  %5 [2 3 2 2] in b0 at 5 strides [0 -2 12 6]\n"
      "  %6 [4 2 3] in b0 at 0 strides [6 2 1]\n"
      "  0: copy  %1 as %7 -> b1\n"
      "  1: node  %8 = sum %5 -> b2\n"
      "  2: node  %9 = sum %6 -> b3\n"
      "  3: node  %10 = sum %7 -> b4\n");
}

static void outputs_are_written_in_place_where_they_can(void **state) {
  (void)state;
  check_plan(
      "graph \"g\"\n"
      "%0 = param {path \"w\"} : f32 [2 3]\n"
      "%1 = exp %0 : f32 [2 3]\n"
      "%2 = reshape %1 : f32 [6]\n"
      "%3 = const {value 1.5} : f32 [2]\n"
      "%4 = iota {axis 1} : i32 [2 3]\n"
      "output \"whole\" %2\n"
      "output \"again\" %1\n"
      "output \"w\" %0\n"
      "output \"const\" %3\n"
      "output \"iota\" %4\n",
      true, true,
      "plan \"g\": 5 tasks, block 0 bytes (bound 0, without reuse 0)\n"
      "  b0 external f32 24 bytes param/w\n"
      "  b1 output f32 24 bytes whole\n"
      "  b2 const f32 4 bytes 1.5\n"
      "  b3 iota i32 12 bytes\n"
      "  b4 output f32 24 bytes again\n"
      "  b5 output f32 24 bytes w\n"
      "  b6 output f32 8 bytes const\n"
      "  b7 output i32 24 bytes iota\n"
      "  %2 [6] in b1 at 0 strides [1]\n"
      "  0: copy  %0 as %0 -> b5\n"
      "  1: element [2 3]  %1 = exp %0 -> b1\n"
      "  2: copy  %1 as %1 -> b4\n"
      "  3: copy  %3 as %3 -> b6\n"
      "  4: copy  %4 as %4 -> b7\n");
}

static bool in_place(const char *text, const char *name) {
  planned *p = planned_text(text);
  const sx_plan *plan = planned_engine_plan(p, true, true);
  const bool *in_places = sx_plan_in_place(plan, &p->arena);
  bool found = false, result = false;
  for (size_t b = 0; b < plan->buffers.n; b++) {
    if (plan->buffers.items[b].kind != SX_BUFFER_OUTPUT || strcmp(plan->buffers.items[b].name, name)) continue;
    found = true;
    result = in_places[b];
  }
  assert_true(found);
  planned_free(p);
  return result;
}

static void outputs_take_the_place_of_what_is_read_no_more(void **state) {
  (void)state;
  const char *momentum =
      "graph \"g\"\n"
      "%0 = param {path \"w\"} : f32 [8]\n"
      "%1 = input {name \"g\"} : f32 [8]\n"
      "%2 = state {path \"v\"} : f32 [8]\n"
      "%3 = add %2 %1 : f32 [8]\n"
      "%4 = sub %0 %3 : f32 [8]\n"
      "output \"param/w\" %4\noutput \"state/v\" %3\n";
  assert_true(in_place(momentum, "param/w"));
  assert_true(in_place(momentum, "state/v"));
  const char *swapped =
      "graph \"g\"\n"
      "%0 = param {path \"a\"} : f32 [8]\n"
      "%1 = param {path \"b\"} : f32 [8]\n"
      "%2 = neg %0 : f32 [8]\n"
      "%3 = neg %1 : f32 [8]\n"
      "output \"param/a\" %3\noutput \"param/b\" %2\n";
  assert_false(in_place(swapped, "param/a") && in_place(swapped, "param/b"));
  const char *other_places =
      "graph \"g\"\n"
      "%0 = param {path \"w\"} : f32 [8 8]\n"
      "%1 = transpose %0 {perm [1 0]} : f32 [8 8]\n"
      "%2 = sub %0 %1 : f32 [8 8]\n"
      "output \"param/w\" %2\n";
  assert_false(in_place(other_places, "param/w"));
  const char *read_later =
      "graph \"g\"\n"
      "%0 = param {path \"w\"} : f32 [8 8]\n"
      "%1 = neg %0 : f32 [8 8]\n"
      "%2 = cumsum %1 {axis 0, reverse 0} : f32 [8 8]\n"
      "%3 = mul %2 %0 : f32 [8 8]\n"
      "output \"param/w\" %1\noutput \"y\" %3\n";
  assert_false(in_place(read_later, "param/w"));
  const char *may_stop =
      "graph \"g\"\n"
      "%0 = param {path \"w\"} : f32 [8]\n"
      "%1 = neg %0 : f32 [8]\n"
      "%2 = param {path \"t\"} : f32 [8]\n"
      "%3 = input {name \"i\"} : i32 [2]\n"
      "%4 = gather %2 %3 : f32 [2]\n"
      "output \"param/w\" %1\noutput \"y\" %4\n";
  assert_false(in_place(may_stop, "param/w"));
  const char *joined_elsewhere =
      "graph \"g\"\n"
      "%0 = param {path \"w\"} : f32 [2 3 128]\n"
      "%1 = neg %0 : f32 [2 3 128]\n"
      "%2 = transpose %1 {perm [1 0 2]} : f32 [3 2 128]\n"
      "%3 = concat %2 {axis 0} : f32 [3 2 128]\n"
      "output \"param/w\" %3\n";
  assert_false(in_place(joined_elsewhere, "param/w"));
}

/* Both sums before both exps would need two large buffers at once. */
static void order_keeps_memory_low(void **state) {
  (void)state;
  planned *p = planned_text(
      "graph \"g\"\n"
      "%0 = param {path \"a\"} : f32 [1000]\n"
      "%1 = param {path \"b\"} : f32 [1000]\n"
      "%2 = cumsum %0 {axis 0, reverse 0} : f32 [1000]\n"
      "%3 = cumsum %1 {axis 0, reverse 0} : f32 [1000]\n"
      "%4 = sum %2 {axes [0]} : f32 []\n"
      "%5 = sum %3 {axes [0]} : f32 []\n"
      "%6 = add %4 %5 : f32 []\n"
      "output \"y\" %6\n");
  assert_int_equal(planned_plan(p, true, true)->bound_bytes, 4032 + 64 + 64);
  planned_free(p);
}

/* A sum of columns comes right after its group where that can make it: of fewer than 8 rows no group does, and its
 * result, which is not small, is made when it is wanted. */
static void sums_come_after_their_groups(void **state) {
  (void)state;
  for (int rows = 7; rows <= 8; rows++) {
    char text[1024];
    snprintf(
        text, sizeof text,
        "graph \"g\"\n%%0 = param {path \"x\"} : f32 [%d 256]\n%%1 = exp %%0 : f32 [%d 256]\n"
        "%%2 = cumsum %%1 {axis 1, reverse 0} : f32 [%d 256]\n%%3 = cumsum %%2 {axis 1, reverse 0} : f32 [%d 256]\n"
        "%%4 = cumsum %%3 {axis 1, reverse 0} : f32 [%d 256]\n%%5 = sum %%1 {axes [0]} : f32 [256]\n"
        "%%6 = broadcast %%5 : f32 [%d 256]\n%%7 = add %%4 %%6 : f32 [%d 256]\n%%8 = add %%7 %%1 : f32 [%d 256]\n"
        "output \"y\" %%8\n",
        rows, rows, rows, rows, rows, rows, rows, rows);
    planned *p = planned_text(text);
    const sx_plan *plan = planned_engine_plan(p, true, true);
    assert_int_equal(plan->tasks.items[rows < 8 ? 4 : 1].nodes[0], 5);
    assert_int_equal(plan->block_bytes, 3 * rows * 1024 + (rows < 8 ? 0 : 1024));
    planned_free(p);
  }
}

/* An update: what is wanted outside waits for who reads it, so that it is not read back; unless something reads it
 * before, or keeping what it needs would cost memory. */
static void groups_wait_for_their_readers(void **state) {
  (void)state;
  planned *p = planned_text(
      "graph \"g\"\n"
      "%0 = param {path \"w\"} : f32 [40]\n%1 = input {name \"g\"} : f32 [40]\n"
      "%2 = state {path \"m\"} : f32 [40]\n%3 = param {path \"c\"} : f32 []\n"
      "%4 = exp %3 : f32 []\n%5 = broadcast %4 : f32 [40]\n"
      "%6 = add %2 %1 : f32 [40]\n%7 = mul %6 %5 : f32 [40]\n%8 = sub %0 %7 : f32 [40]\n"
      "%9 = param {path \"v\"} : f32 [40000]\n%10 = neg %9 : f32 [40000]\n%11 = cumsum %10 {axis 0, reverse 0} : f32 "
      "[40000]\n"
      "%12 = broadcast %4 : f32 [40000]\n%13 = mul %10 %12 : f32 [40000]\n%14 = add %13 %11 : f32 [40000]\n"
      "output \"m\" %6\noutput \"w\" %8\noutput \"n\" %10\noutput \"v\" %14\n");
  sx_text text;
  sx_text_init(&text, &p->arena);
  sx_plan_print(&text, planned_engine_plan(p, true, true));
  const char *plan = sx_text_get(&text);
  assert_non_null(strstr(plan, "element [40]  %6 = add %2 %1 -> b5  %7 = mul %6 %5  %8 = sub %0 %7 -> b6\n"));
  assert_non_null(strstr(plan, "element [40000]  %10 = neg %9 -> b"));
  assert_non_null(strstr(plan, "element [40000]  %13 = mul %10 %12 -> b"));
  planned_free(p);
}

/* ---- random graphs ------------------------------------------------------------------------------- */

static bool is_written(const sx_plan *plan, const sx_task *task, uint32_t i) {
  (void)plan;
  return task->kind == SX_TASK_ELEMENT ? task->stored[i] : i == 0;
}

static uint32_t written_buffer(const sx_plan *plan, const sx_task *task, uint32_t i) {
  return task->kind == SX_TASK_COPY ? task->target : plan->views[task->nodes[i]].buffer;
}

static bool is_outside(sx_buffer_kind kind) {
  return kind == SX_BUFFER_EXTERNAL || kind == SX_BUFFER_CONST || kind == SX_BUFFER_IOTA;
}

static bool is_in(const sx_task *task, uint32_t n, sx_id id) {
  for (uint32_t i = 0; task->kind == SX_TASK_ELEMENT && i < n; i++)
    if (task->nodes[i] == id) return true;
  return false;
}

static int64_t bytes_of(const sx_plan *plan, sx_id id) {
  const sx_node *node = sx_node_at(plan->graph, id);
  return sx_node_elements(node) * (int64_t)sx_dtype_bytes(node->dtype);
}

/* A concatenation's task copies the pieces that are not computed where they go. */
static int64_t written_bytes(const sx_plan *plan, const sx_task *task, uint32_t i) {
  const sx_node *node = sx_node_at(plan->graph, task->nodes[i]);
  int64_t n_bytes = bytes_of(plan, task->nodes[i]);
  for (uint32_t k = 0; task->kind == SX_TASK_NODE && node->op == SX_OP_CONCAT && k < node->n_inputs; k++)
    if (plan->views[node->inputs[k]].buffer == task->target) n_bytes -= bytes_of(plan, node->inputs[k]);
  return n_bytes;
}

/* An input is readable: in the group and computed before, or its buffer was written by earlier tasks. written: bytes.
 */
static void check_input(const sx_plan *plan, const sx_task *task, uint32_t position, sx_id input,
                        const int64_t *written) {
  for (sx_id id = input;; id = sx_node_at(plan->graph, id)->inputs[0]) {
    if (is_in(task, position, id)) return;
    if (sx_node_at(plan->graph, id)->op != SX_OP_RESHAPE && !sx_is_stretch(plan->graph, id)) break;
  }
  uint32_t buffer = plan->views[input].buffer;
  assert_true(buffer < plan->buffers.n);
  if (task->kind == SX_TASK_NODE && buffer == task->target) return; /* a piece that is in its place */
  assert_true(is_outside(plan->buffers.items[buffer].kind) || written[buffer] == plan->buffers.items[buffer].n_bytes);
}

/* The first and last element of a view lie in its buffer. */
static void check_view(const sx_plan *plan, sx_id id) {
  const sx_view *view = &plan->views[id];
  const sx_node *node = sx_node_at(plan->graph, id);
  if (view->buffer == UINT32_MAX || sx_node_elements(node) == 0) return;
  int64_t low = view->offset, high = view->offset;
  for (int i = 0; i < node->rank; i++) {
    int64_t span = (node->dims[i] - 1) * view->strides[i];
    *(span < 0 ? &low : &high) += span;
  }
  const sx_buffer *buffer = &plan->buffers.items[view->buffer];
  assert_true(low >= 0);
  assert_true((high + 1) * (int64_t)sx_dtype_bytes(node->dtype) <= buffer->n_bytes);
  assert_int_equal(buffer->dtype, node->dtype);
}

static void check_rules(const sx_plan *plan, bool fuse) {
  int64_t *written = calloc(plan->buffers.n, sizeof *written);
  uint32_t *computed = calloc(plan->graph->nodes.n, sizeof *computed);
  for (size_t t = 0; t < plan->tasks.n; t++) {
    const sx_task *task = &plan->tasks.items[t];
    assert_true(fuse || task->kind == SX_TASK_COPY || task->n_nodes == 1);
    if (task->kind == SX_TASK_COPY) check_input(plan, task, 0, task->nodes[1], written);
    for (uint32_t i = 0; i < task->n_nodes && task->kind != SX_TASK_COPY; i++) {
      const sx_node *node = sx_node_at(plan->graph, task->nodes[i]);
      computed[task->nodes[i]]++;
      if (!task->row) {
        assert_int_equal(sx_node_elements(node), sx_node_elements(sx_node_at(plan->graph, task->nodes[0])));
        assert_true(i == 0 || task->nodes[i - 1] < task->nodes[i]);
      }
      for (uint32_t k = 0; k < node->n_inputs; k++) check_input(plan, task, i, node->inputs[k], written);
    }
    for (uint32_t i = 0; i < task->n_nodes; i++)
      if (is_written(plan, task, i)) {
        uint32_t buffer = written_buffer(plan, task, i);
        written[buffer] += written_bytes(plan, task, i);
        assert_true(written[buffer] <= plan->buffers.items[buffer].n_bytes);
      }
  }
  for (size_t b = 0; b < plan->buffers.n; b++) {
    const sx_buffer *buffer = &plan->buffers.items[b];
    assert_int_equal(written[b], is_outside(buffer->kind) ? 0 : buffer->n_bytes);
  }
  for (sx_id id = 0; id < plan->graph->nodes.n; id++) {
    sx_op_class class = sx_op_describe(sx_node_at(plan->graph, id)->op)->class;
    bool moves = class == SX_CLASS_LEAF || class == SX_CLASS_MOVE;
    assert_true(moves ? computed[id] <= 1 : computed[id] == 1);
    check_view(plan, id);
  }
  free(written);
  free(computed);
}

/* Two groups too large to be one read both %6 and %7, the first one %6 before the second does, and %7 after it: if each
 * waited for who reads it first, neither group could be evaluated before the other. */
static void what_two_groups_read_does_not_wait(void **state) {
  (void)state;
  char text[8192], *end = text;
  end += sprintf(end,
                 "graph \"g\"\n%%0 = param {path \"a\"} : f32 [40]\n%%1 = param {path \"b\"} : f32 [40]\n"
                 "%%2 = param {path \"c\"} : f32 [40]\n%%3 = param {path \"d\"} : f32 []\n%%4 = exp %%3 : f32 []\n"
                 "%%5 = broadcast %%4 : f32 [40]\n%%6 = neg %%0 : f32 [40]\n%%7 = neg %%1 : f32 [40]\n"
                 "%%8 = mul %%2 %%5 : f32 [40]\n%%9 = add %%8 %%6 : f32 [40]\n");
  int id = 10;
  for (; id < 8 + SX_GROUP_NODES - 3; id++) end += sprintf(end, "%%%d = exp %%%d : f32 [40]\n", id, id - 1);
  int first = id - 1, other = id;
  end +=
      sprintf(end, "%%%d = param {path \"e\"} : f32 [40]\n%%%d = mul %%%d %%5 : f32 [40]\n", other, other + 1, other);
  for (id = other + 2; id < other + 4; id++) end += sprintf(end, "%%%d = exp %%%d : f32 [40]\n", id, id - 1);
  end += sprintf(end, "%%%d = add %%%d %%7 : f32 [40]\n%%%d = add %%%d %%7 : f32 [40]\n", id, id - 1, id + 1, first);
  end += sprintf(end, "%%%d = sub %%%d %%6 : f32 [40]\n", id + 2, id);
  sprintf(end, "output \"m\" %%6\noutput \"n\" %%7\noutput \"x\" %%%d\noutput \"y\" %%%d\n", id + 1, id + 2);
  planned *p = planned_text(text);
  const sx_plan *plan = planned_engine_plan(p, true, true);
  assert_int_equal(plan->tasks.n, 5);
  check_rules(plan, true);
  planned_free(p);
}

static void rules_hold_for_random_graphs(void **state) {
  (void)state;
  size_t n_tasks[2] = {0, 0};
  for (uint64_t seed = 0; seed < 400; seed++) {
    planned *p = planned_random(seed, 20 + (int)(seed % 10) * 30);
    for (int fuse = 0; fuse < 2; fuse++) {
      sx_plan *plan = planned_plan(p, fuse, seed % 2);
      check_rules(plan, fuse);
      check_rules(planned_engine_plan(p, fuse, seed % 2), fuse);
      n_tasks[fuse] += plan->tasks.n;
    }
    planned_free(p);
  }
  print_message("%zu tasks, fused %zu\n", n_tasks[0], n_tasks[1]);
  assert_true(n_tasks[1] * 10 < n_tasks[0] * 9);
}

static void plans_repeat(void **state) {
  (void)state;
  for (uint64_t seed = 1000; seed < 1020; seed++) {
    planned *a = planned_random(seed, 150), *b = planned_random(seed, 150);
    assert_string_equal(planned_print(a, true, true), planned_print(b, true, true));
    planned_free(a);
    planned_free(b);
  }
}

/* ---- cost ---------------------------------------------------------------------------------------- */

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* n layers forward and back, about 20 nodes each. */
static sx_graph *deep_graph(planned *p, int n_layers) {
  sx_graph *g = sx_graph_new(&p->arena, &p->names, "deep");
  const int64_t dims[2] = {16, 16}, axis = 0;
  sx_id x = sx_graph_add(g, &(sx_spec){.op = SX_OP_INPUT, .dtype = SX_F32, .rank = 2, .dims = dims, .text = "x"});
  sx_id *kept = calloc((size_t)n_layers, sizeof *kept);
  for (int i = 0; i < n_layers; i++) {
    sx_spec w = {.op = SX_OP_PARAM, .dtype = SX_F32, .rank = 2, .dims = dims};
    w.text = sx_format(&p->arena, "w%d", i);
    sx_id product[2] = {x, sx_graph_add(g, &w)};
    kept[i] = x;
    sx_id y = sx_graph_add(
        g, &(sx_spec){.op = SX_OP_EINSUM, .dtype = SX_F32, .inputs = product, .n_inputs = 2, .text = "ij,jk->ik"});
    sx_id mean = sx_broadcast(g, sx_reduce(g, SX_OP_SUM, y, &axis, 1, true), 2, dims);
    sx_id t = sx_unary(g, SX_OP_TANH, sx_binary(g, SX_OP_SUB, y, mean));
    x = sx_binary(g, SX_OP_ADD, x, sx_binary(g, SX_OP_MUL, t, sx_binary(g, SX_OP_ADD, t, sx_const_like(g, t, 1.0))));
  }
  for (int i = n_layers; i-- > 0;) {
    sx_id back[2] = {kept[i], x};
    sx_id dw = sx_graph_add(
        g, &(sx_spec){.op = SX_OP_EINSUM, .dtype = SX_F32, .inputs = back, .n_inputs = 2, .text = "ij,ik->jk"});
    sx_graph_output(g, sx_format(&p->arena, "grad/%d", i), dw);
    x = sx_binary(g, SX_OP_MUL, x, sx_unary(g, SX_OP_EXP, sx_binary(g, SX_OP_ADD, kept[i], x)));
  }
  sx_graph_output(g, "end", x);
  free(kept);
  return g;
}

static double plan_seconds(int n_layers, size_t *n_nodes) {
  double best = 1e9;
  for (int i = 0; i < 3; i++) {
    planned *p = planned_random(1, 10);
    p->graph = deep_graph(p, n_layers);
    *n_nodes = p->graph->nodes.n;
    double begin = seconds();
    planned_plan(p, true, true);
    double took = seconds() - begin;
    if (took < best) best = took;
    planned_free(p);
  }
  return best;
}

static void cost_is_linear(void **state) {
  (void)state;
  size_t few, many;
  double short_time = plan_seconds(1000, &few), long_time = plan_seconds(8000, &many);
  print_message("%zu nodes planned in %.1f ms, %zu in %.1f ms\n", few, 1e3 * short_time, many, 1e3 * long_time);
  assert_true(long_time < 3.0 * 8.0 * short_time);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_chain_is_one_group),
      cmocka_unit_test(without_fusion_a_node_is_a_task),
      cmocka_unit_test(a_group_waits_for_nothing_outside),
      cmocka_unit_test(groups_of_one_reader_join),
      cmocka_unit_test(a_reshape_stays_in_the_group),
      cmocka_unit_test(a_value_of_parameters_moves_to_its_reader),
      cmocka_unit_test(a_small_value_waits_for_its_reader),
      cmocka_unit_test(reductions_of_rows_join),
      cmocka_unit_test(movement_is_views),
      cmocka_unit_test(outputs_are_written_in_place_where_they_can),
      cmocka_unit_test(outputs_take_the_place_of_what_is_read_no_more),
      cmocka_unit_test(order_keeps_memory_low),
      cmocka_unit_test(sums_come_after_their_groups),
      cmocka_unit_test(groups_wait_for_their_readers),
      cmocka_unit_test(what_two_groups_read_does_not_wait),
      cmocka_unit_test(rules_hold_for_random_graphs),
      cmocka_unit_test(plans_repeat),
      cmocka_unit_test(cost_is_linear),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
