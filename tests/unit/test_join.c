/* Joined pieces: groups and products write where a concatenation has their results, with the bits of copying them. */
#include <stdio.h>
#include <string.h>

#include "../../libsexp/cpu/columns.h"
#include "../common/cmocka_all.h"
#include "../common/interpret.h"
#include "../common/outside.h"
#include "../common/planned.h"
#include "../common/quick.h"

static sx_plan *plan_of(planned *p, bool join, bool reuse) {
  sx_plan_options options = {.fuse = true, .reuse = reuse, .layout = true, .wait = true, .columns = true};
  options.join = join;
  return sx_plan_make(p->graph, &options, &p->arena);
}

static void check_run(planned *p, const sx_plan *plan, sx_simd simd, int threads, void *const *expected) {
  outside o = outside_of(plan, 1);
  sx_stopped why;
  assert_true(outside_run(p, plan, simd, threads, &o, &why));
  const char *wrong = outside_differs(p->graph, expected, plan, &o);
  if (wrong) fail_msg("%s differs: %s, %d threads", wrong, sx_simd_name(simd), threads);
  outside_free(&o);
}

/* Every level and 1 to 4 threads against the reference loops; how many concatenations have a task. */
static int check_graph(planned *p) {
  void **expected = interpret(p->graph, 7, 1);
  const sx_plan *joined = plan_of(p, true, true), *apart = plan_of(p, false, true), *kept = plan_of(p, true, false);
  assert_true(joined->block_bytes <= apart->block_bytes);
  for (sx_simd simd = SX_SIMD_REFERENCE; simd < SX_N_SIMD; simd++) {
    if (!sx_simd_available(simd)) continue;
    int most = simd == SX_SIMD_REFERENCE ? 1 : 4;
    for (int threads = 1; threads <= most; threads++) check_run(p, joined, simd, threads, expected);
    check_run(p, kept, simd, 2, expected);
  }
  interpret_free(p->graph, expected);
  int n_tasks = 0;
  for (size_t t = 0; t < joined->tasks.n; t++)
    n_tasks += sx_node_at(p->graph, joined->tasks.items[t].nodes[0])->op == SX_OP_CONCAT;
  return n_tasks;
}

static int check_text(const char *text) {
  planned *p = planned_text(text);
  int n_tasks = check_graph(p);
  planned_free(p);
  return n_tasks;
}

static const char *print(planned *p) {
  sx_text text;
  sx_text_init(&text, &p->arena);
  sx_plan_print(&text, plan_of(p, true, true));
  return sx_text_get(&text);
}

/* Rows that blocks do not divide, that begin at odd places, and are in two parts of one group's rows. */
static void groups_write_rows_of_it(void **state) {
  (void)state;
  static const int sizes[][4] = {{3, 5, 128, 131}, {2, 7, 200, 128}, {1, 60, 129, 1000}, {4, 64, 128, 128}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    int a = sizes[i][0], b = sizes[i][1], c = sizes[i][2], d = sizes[i][3];
    char text[2048];
    snprintf(
        text, sizeof text,
        "graph \"g\"\n%%0 = param {path \"x\"} : f32 [%d %d %d]\n%%1 = param {path \"y\"} : f32 [%d %d %d]\n"
        "%%2 = param {path \"b\"} : f32 [%d]\n%%3 = broadcast %%2 : f32 [%d %d %d]\n"
        "%%4 = const {value 0.0} : f32 [%d %d %d]\n%%5 = add %%0 %%3 : f32 [%d %d %d]\n"
        "%%6 = add %%1 %%4 : f32 [%d %d %d]\n%%7 = exp %%0 : f32 [%d %d %d]\n"
        "%%8 = concat %%5 %%6 %%7 {axis 2} : f32 [%d %d %d]\n%%9 = cumsum %%8 {axis 0, reverse 0} : f32 [%d %d %d]\n"
        "output \"c\" %%8\noutput \"s\" %%9\n",
        a, b, c, a, b, d, c, a, b, c, a, b, d, a, b, c, a, b, d, a, b, c, a, b, 2 * c + d, a, b, 2 * c + d);
    assert_int_equal(check_text(text), 0);
  }
}

/* Along a middle axis rows are longer; along the first one pieces are in one part, and of any operation and dtype. */
static void other_axes(void **state) {
  (void)state;
  assert_int_equal(check_text("graph \"g\"\n%0 = param {path \"x\"} : f32 [5 3 70]\n"
                              "%1 = param {path \"y\"} : f32 [5 7 70]\n%2 = neg %0 : f32 [5 3 70]\n"
                              "%3 = exp %1 : f32 [5 7 70]\n%4 = concat %3 %2 {axis 1} : f32 [5 10 70]\n"
                              "%5 = neg %4 : f32 [5 10 70]\noutput \"c\" %5\n"),
                   0);
  assert_int_equal(check_text("graph \"g\"\n%0 = param {path \"x\"} : bf16 [3 7]\n"
                              "%1 = param {path \"y\"} : bf16 [2 7]\n%2 = pow %0 %0 : bf16 [3 7]\n"
                              "%3 = neg %1 : bf16 [2 7]\n%4 = concat %2 %3 {axis 0} : bf16 [5 7]\n"
                              "%5 = cast %0 : bool [3 7]\n%6 = cast %1 : bool [2 7]\n"
                              "%7 = concat %5 %6 {axis 0} : bool [5 7]\noutput \"c\" %4\noutput \"b\" %7\n"),
                   0);
}

/* Heads that are merged, with reductions of rows beside; a row of the group is a part of a row of the piece. */
static void reshaped_pieces_and_rows(void **state) {
  (void)state;
  assert_int_equal(check_text("graph \"g\"\n%0 = param {path \"x\"} : f32 [9 4 64]\n"
                              "%1 = sum %0 {axes [2]} : f32 [9 4]\n%2 = reshape %1 : f32 [9 4 1]\n"
                              "%3 = broadcast %2 : f32 [9 4 64]\n%4 = sub %0 %3 : f32 [9 4 64]\n"
                              "%5 = reshape %4 : f32 [9 256]\n%6 = param {path \"y\"} : f32 [9 130]\n"
                              "%7 = abs %6 : f32 [9 130]\n%8 = concat %7 %5 {axis 1} : f32 [9 386]\n"
                              "%9 = reduce-max %8 {axes [1]} : f32 [9]\noutput \"c\" %8\noutput \"m\" %9\n"),
                   0);
}

/* Products of any strides, turned on the way or not. */
static void products_write_parts_of_it(void **state) {
  (void)state;
  static const int sizes[][4] = {{3, 5, 4, 6}, {37, 19, 53, 40}, {64, 130, 300, 128}, {1, 7, 9, 1}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    int a = sizes[i][0], b = sizes[i][1], c = sizes[i][2], d = sizes[i][3];
    char text[2048];
    snprintf(
        text, sizeof text,
        "graph \"g\"\n%%0 = param {path \"x\"} : f32 [%d %d]\n%%1 = param {path \"y\"} : f32 [%d %d]\n"
        "%%2 = param {path \"z\"} : f32 [%d %d]\n%%3 = einsum %%0 %%1 {labels \"ab,bc->ac\"} : f32 [%d %d]\n"
        "%%4 = einsum %%2 %%0 {labels \"bc,ab->ca\"} : f32 [%d %d]\n%%5 = transpose %%4 {perm [1 0]} : f32 [%d %d]\n"
        "%%6 = concat %%3 %%5 {axis 1} : f32 [%d %d]\noutput \"c\" %%6\n",
        a, b, b, c, b, d, a, c, d, a, a, d, a, c + d);
    assert_int_equal(check_text(text), 0);
  }
}

/* Copied: a leaf, what is read elsewhere, is an output, is joined twice, has short rows, comes of a group with an
 * operation that is called, or of an empty contraction. The rest of the concatenation is written in place. */
static void what_cannot_be_written_there_is_copied(void **state) {
  (void)state;
  assert_int_equal(
      check_text("graph \"g\"\n%0 = param {path \"x\"} : f32 [6 130]\n%1 = exp %0 : f32 [6 130]\n"
                 "%2 = neg %0 : f32 [6 130]\n%3 = abs %0 : f32 [6 130]\n%4 = sqrt %0 : f32 [6 130]\n"
                 "%5 = concat %1 %0 %2 {axis 1} : f32 [6 390]\n%6 = concat %3 %4 %2 {axis 1} : f32 [6 390]\n"
                 "%7 = concat %3 %3 {axis 0} : f32 [12 130]\n%8 = cumsum %4 {axis 1, reverse 0} : f32 [6 130]\n"
                 "output \"a\" %5\noutput \"b\" %6\noutput \"c\" %7\noutput \"d\" %8\noutput \"e\" %1\n"),
      3);
  assert_int_equal(check_text("graph \"g\"\n%0 = param {path \"x\"} : f32 [6 10]\n%1 = exp %0 : f32 [6 10]\n"
                              "%2 = param {path \"y\"} : f32 [6 200]\n%3 = pow %2 %2 : f32 [6 200]\n"
                              "%4 = param {path \"z\"} : f32 [6 140]\n%5 = neg %4 : f32 [6 140]\n"
                              "%6 = param {path \"p\"} : f32 [6 0]\n%7 = param {path \"q\"} : f32 [0 150]\n"
                              "%8 = einsum %6 %7 {labels \"ab,bc->ac\"} : f32 [6 150]\n"
                              "%9 = concat %1 %3 %5 %8 {axis 1} : f32 [6 500]\noutput \"c\" %9\n"),
                   1);
}

/* A piece is elsewhere in its buffer than what the group reads: it does not take the place of that, though it has as
 * many bytes and dies there. Of each row an element, last in the buffer; or all of it, turned. */
static void pieces_take_no_place(void **state) {
  (void)state;
  assert_int_equal(check_text("graph \"g\"\n%0 = param {path \"x\"} : f32 [8 48]\n%1 = abs %0 : f32 [8 48]\n"
                              "%2 = cumsum %1 {axis 0, reverse 1} : f32 [8 48]\n"
                              "%3 = reduce-max %2 {axes [1]} : f32 [8]\n%4 = param {path \"y\"} : f32 [376]\n"
                              "%5 = neg %4 : f32 [376]\n%6 = concat %5 %3 {axis 0} : f32 [384]\n"
                              "%7 = cumsum %6 {axis 0, reverse 0} : f32 [384]\noutput \"c\" %7\n"),
                   0);
  assert_int_equal(check_text("graph \"g\"\n%0 = param {path \"x\"} : f32 [5 3 128]\n"
                              "%1 = cumsum %0 {axis 1, reverse 0} : f32 [5 3 128]\n%2 = neg %1 : f32 [5 3 128]\n"
                              "%3 = transpose %2 {perm [1 0 2]} : f32 [3 5 128]\n"
                              "%4 = concat %3 {axis 0} : f32 [3 5 128]\n"
                              "%5 = cumsum %4 {axis 0, reverse 0} : f32 [3 5 128]\noutput \"c\" %5\n"),
                   0);
}

/* ---- sums of columns ----------------------------------------------------------------------------- */

/* Sums of the graph's plan that groups make. */
static int count_made(const char *text) {
  planned *p = planned_text(text);
  const sx_plan *plan = plan_of(p, true, true);
  sx_column_sums sums = sx_columns_find(plan, &p->arena);
  int n = 0;
  for (size_t t = 0; t < plan->tasks.n; t++) n += sums.made[t];
  check_graph(p);
  planned_free(p);
  return n;
}

/* A sum of what several tasks write comes after all of them: groups, or groups and the task that copies the rest. */
static void sums_of_what_is_joined(void **state) {
  (void)state;
  static const int sizes[][4] = {{3, 5, 128, 131}, {2, 32, 200, 128}, {4, 1025, 128, 130}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    int a = sizes[i][0], b = sizes[i][1], c = sizes[i][2], d = sizes[i][3];
    char text[2048];
    snprintf(text, sizeof text,
             "graph \"g\"\n%%0 = param {path \"x\"} : f32 [%d %d %d]\n"
             "%%1 = param {path \"y\"} : f32 [%d %d %d]\n%%2 = const {value 0.0} : f32 [%d %d %d]\n"
             "%%3 = add %%0 %%2 : f32 [%d %d %d]\n%%4 = exp %%1 : f32 [%d %d %d]\n"
             "%%5 = concat %%3 %%4 {axis 2} : f32 [%d %d %d]\n%%6 = sum %%5 {axes [0 1]} : f32 [%d]\n"
             "output \"s\" %%6\n",
             a, b, c, a, b, d, a, b, c, a, b, c, a, b, d, a, b, c + d, c + d);
    assert_int_equal(count_made(text), 0);
  }
  assert_int_equal(count_made("graph \"g\"\n%0 = param {path \"x\"} : f32 [40 128]\n%1 = exp %0 : f32 [40 128]\n"
                              "%2 = concat %1 %0 {axis 1} : f32 [40 256]\n%3 = sum %2 {axes [0]} : f32 [256]\n"
                              "output \"s\" %3\n"),
                   0);
}

/* Of a product's result, by the group that reads it; the sum comes before the group or after it. */
static void sums_of_what_a_group_reads(void **state) {
  (void)state;
  static const int sizes[][3] = {{9, 40, 128}, {40, 7, 200}, {1030, 3, 129}, {4100, 2, 130}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    int a = sizes[i][0], b = sizes[i][1], c = sizes[i][2];
    char text[2048];
    snprintf(text, sizeof text,
             "graph \"g\"\n%%0 = param {path \"x\"} : f32 [%d %d]\n%%1 = param {path \"w\"} : f32 [%d %d]\n"
             "%%2 = einsum %%0 %%1 {labels \"ab,bc->ac\"} : f32 [%d %d]\n%%3 = sum %%2 {axes [0]} : f32 [%d]\n"
             "%%4 = sum %%2 {axes [1]} : f32 [%d]\n%%5 = reshape %%4 : f32 [%d 1]\n"
             "%%6 = broadcast %%5 : f32 [%d %d]\n%%7 = sub %%2 %%6 : f32 [%d %d]\n%%8 = mul %%7 %%2 : f32 [%d %d]\n"
             "%%9 = sum %%8 {axes [0]} : f32 [%d]\noutput \"s\" %%3\noutput \"t\" %%9\noutput \"y\" %%7\n",
             a, b, b, c, a, c, c, a, a, a, c, a, c, a, c, c);
    assert_int_equal(count_made(text), 2);
  }
}

/* Groups that would be one launch with the group that makes the sum, before it and after it, are computed too. */
static void sums_beside_other_groups(void **state) {
  (void)state;
  assert_int_equal(
      count_made("graph \"g\"\n%0 = param {path \"x\"} : f32 [40 16]\n%1 = param {path \"w\"} : f32 [16 128]\n"
                 "%2 = einsum %0 %1 {labels \"ab,bc->ac\"} : f32 [40 128]\n"
                 "%3 = sum %2 {axes [0]} : f32 [128]\n%4 = param {path \"a\"} : f32 [100]\n"
                 "%5 = neg %4 : f32 [100]\n%6 = exp %2 : f32 [40 128]\n%7 = param {path \"b\"} : f32 [70]\n"
                 "%8 = neg %7 : f32 [70]\n%9 = param {path \"c\"} : f32 [7]\n%10 = abs %9 : f32 [7]\n"
                 "output \"s\" %3\noutput \"y\" %5\noutput \"e\" %6\noutput \"z\" %8\noutput \"v\" %10\n"),
      1);
}

/* What is read before the group is made where the plan has it; so is the sum of a value that the group has one of for
 * each row, or that it reads in an operation that is called. */
static void sums_that_stay(void **state) {
  (void)state;
  assert_int_equal(count_made("graph \"g\"\n%0 = param {path \"x\"} : f32 [40 128]\n"
                              "%1 = cumsum %0 {axis 0, reverse 0} : f32 [40 128]\n%2 = sum %1 {axes [0]} : f32 [128]\n"
                              "%3 = cumsum %2 {axis 0, reverse 0} : f32 [128]\n%4 = broadcast %3 : f32 [40 128]\n"
                              "%5 = add %1 %4 : f32 [40 128]\noutput \"y\" %5\n"),
                   0);
  assert_int_equal(count_made("graph \"g\"\n%0 = param {path \"x\"} : f32 [40 128]\n"
                              "%1 = cumsum %0 {axis 0, reverse 0} : f32 [40 128]\n%2 = sum %1 {axes [0]} : f32 [128]\n"
                              "%3 = pow %1 %0 : f32 [40 128]\noutput \"y\" %3\noutput \"s\" %2\n"),
                   0);
  assert_int_equal(
      count_made(
          "graph \"g\"\n%0 = param {path \"x\"} : f32 [10 128]\n%1 = cumsum %0 {axis 0, reverse 0} : f32 [10 128]\n"
          "%2 = sum %1 {axes [0]} : f32 [128]\n%3 = reshape %1 : f32 [1280 1]\n%4 = broadcast %3 : f32 [1280 64]\n"
          "%5 = param {path \"z\"} : f32 [1280 64]\n%6 = add %4 %5 : f32 [1280 64]\n"
          "%7 = sum %6 {axes [1]} : f32 [1280]\noutput \"y\" %7\noutput \"s\" %2\n"),
      0);
  /* of what the group computes in a call, and reads in other shapes */
  assert_int_equal(count_made("graph \"g\"\n%0 = param {path \"x\"} : f32 [64 128]\n%1 = pow %0 %0 : f32 [64 128]\n"
                              "%2 = reshape %1 : f32 [128 64]\n%3 = exp %2 : f32 [128 64]\n"
                              "%4 = sum %1 {axes [0]} : f32 [128]\noutput \"s\" %4\noutput \"y\" %3\n"),
                   0);
}

/* The plan says where pieces lie, and a buffer is alive from its first writer on. */
static void plans_tell_it(void **state) {
  (void)state;
  planned *p = planned_text(
      "graph \"g\"\n%0 = param {path \"x\"} : f32 [4 130]\n%1 = exp %0 : f32 [4 130]\n"
      "%2 = sum %1 {axes [0]} : f32 [130]\n%3 = broadcast %2 : f32 [4 130]\n%4 = cumsum %3 {axis 0, reverse 0} : f32 "
      "[4 130]\n"
      "%5 = neg %0 : f32 [4 130]\n%6 = mul %4 %4 : f32 [4 130]\n%7 = concat %5 %6 {axis 1} : f32 [4 260]\n"
      "%8 = cumsum %7 {axis 0, reverse 0} : f32 [4 260]\noutput \"y\" %8\n");
  const char *text = print(p);
  assert_non_null(strstr(text, " [4 130] in b"));
  assert_non_null(strstr(text, " at 130 strides [260 1]\n"));
  assert_non_null(strstr(text, "  %7 = concat %5 %6 joined in b"));
  const sx_plan *plan = plan_of(p, true, true);
  const sx_buffer *buffer = &plan->buffers.items[plan->views[7].buffer];
  assert_int_equal(buffer->node, 7);
  assert_true(buffer->first < buffer->whole && buffer->whole < buffer->last);
  assert_int_equal(check_graph(p), 0);
  planned_free(p);
}

/* A buffer that would have to wait for a late piece while much else is alive stays apart: the block does not grow. */
static void memory_does_not_grow(void **state) {
  (void)state;
  planned *p = planned_text(
      "graph \"g\"\n%0 = param {path \"x\"} : f32 [64 128]\n%1 = sum %0 {axes [1]} : f32 [64]\n"
      "%2 = reshape %1 : f32 [64 1]\n%3 = broadcast %2 : f32 [64 128]\n%4 = neg %3 : f32 [64 128]\n"
      "%5 = cumsum %0 {axis 0, reverse 0} : f32 [64 128]\n%6 = cumsum %5 {axis 1, reverse 0} : f32 [64 128]\n"
      "%7 = cumsum %6 {axis 0, reverse 1} : f32 [64 128]\n%8 = cumsum %7 {axis 1, reverse 1} : f32 [64 128]\n"
      "%9 = exp %8 : f32 [64 128]\n%10 = concat %4 %9 {axis 1} : f32 [64 256]\n"
      "%11 = cumsum %10 {axis 0, reverse 0} : f32 [64 256]\noutput \"y\" %11\n");
  check_graph(p);
  planned_free(p);
}

static void random_graphs_keep_their_bits(void **state) {
  (void)state;
  int n_joined = 0;
  for (uint64_t seed = 5000; seed < (test_is_quick() ? 5800 : 6500); seed++) {
    planned *p = planned_random(seed, 120);
    const sx_plan *plan = plan_of(p, true, true);
    n_joined += plan->joins;
    if (plan->joins) {
      void **expected = interpret(p->graph, 7, 1);
      check_run(p, plan, sx_simd_best(), 1 + (int)(seed % 4), expected);
      check_run(p, plan, SX_SIMD_REFERENCE, 1, expected);
      interpret_free(p->graph, expected);
    }
    planned_free(p);
  }
  print_message("%d graphs with joined pieces\n", n_joined);
  assert_true(n_joined > 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(groups_write_rows_of_it),
      cmocka_unit_test(other_axes),
      cmocka_unit_test(reshaped_pieces_and_rows),
      cmocka_unit_test(products_write_parts_of_it),
      cmocka_unit_test(what_cannot_be_written_there_is_copied),
      cmocka_unit_test(pieces_take_no_place),
      cmocka_unit_test(sums_of_what_is_joined),
      cmocka_unit_test(sums_of_what_a_group_reads),
      cmocka_unit_test(sums_beside_other_groups),
      cmocka_unit_test(sums_that_stay),
      cmocka_unit_test(plans_tell_it),
      cmocka_unit_test(memory_does_not_grow),
      cmocka_unit_test(random_graphs_keep_their_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
