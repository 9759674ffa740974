/* Recomputation that keeps other values than the plan would: what a group stores for its readers, what lives longer,
 * and that there is room for it. */
#include <stdio.h>
#include <string.h>

#include "../../libsexp/pass/lives.h"
#include "../../libsexp/pass/recompute.h"
#include "../common/cmocka_all.h"
#include "../common/planned.h"

static const sx_plan_options fused = {.fuse = true, .reuse = true};

static const char *tasks_of(planned *p, const sx_plan *plan) {
  sx_text text;
  sx_text_init(&text, &p->arena);
  sx_plan_print(&text, plan);
  return strstr(sx_text_get(&text), "  0: ");
}

static void check_tasks(const char *text, double budget, const char *expected) {
  planned *p = planned_text(text);
  assert_string_equal(tasks_of(p, sx_plan_recompute(p->graph, &fused, budget, &p->arena)), expected);
  planned_free(p);
}

static size_t n_again_with(const char *text, const sx_plan_options *options, double budget) {
  planned *p = planned_text(text);
  size_t n = sx_recompute(p->graph, options, budget, &p->arena).n_again;
  planned_free(p);
  return n;
}

static size_t n_again_of(const char *text, double budget) { return n_again_with(text, &fused, budget); }

/* ---- what is chosen ------------------------------------------------------------------------------------- */

#define PRODUCT(id, a, b) "%" #id " = einsum %" #a " %" #b " {labels \"ij,jk->ik\"} : f32 [64 64]\n"
#define VALUE(id, rest) "%" #id " = " rest " : f32 [64 64]\n"
#define GIVEN "graph \"loss\"\n%0 = input {name \"field/x\"} : f32 [64 64]\n"
#define HEAD GIVEN "%1 = param {path \"b\"} : f32 [64]\n" VALUE(2, "broadcast %1") PRODUCT(3, 0, 0)

/* As a gated activation: x = %4, t = %5, and 1 + t, x (1 + t), 1 - t t from them. */
#define GATED                                                                                                      \
  HEAD VALUE(4, "add %3 %2") VALUE(5, "tanh %4") VALUE(6, "const {value 1}") VALUE(7, "add %6 %5")                 \
      VALUE(8, "mul %4 %7") VALUE(9, "mul %5 %5") VALUE(10, "sub %6 %9") PRODUCT(11, 8, 8) VALUE(12, "mul %11 %7") \
          VALUE(13, "mul %11 %10") VALUE(14, "mul %13 %4") VALUE(15, "add %12 %14")                                \
              PRODUCT(16, 15, 15) "output \"y\" %16\n"

/* The product is read again for x: an operation, and 4 bytes for 8, but for the 256 of b. Then t for 1 + t and 1 - t t:
 * three operations, and 8 bytes for 16. Then nothing for t: its 120 for 8 bytes. */
static void one_value_is_kept_for_three(void **state) {
  (void)state;
  check_tasks(GATED, 1,
              "  0: node  %3 = einsum %0 %0 -> b2\n"
              "  1: element [64 64]  %4 = add %3 %2  %5 = tanh %4 -> b3  %7 = add %6 %5  %8 = mul %4 %7 -> b5\n"
              "  2: node  %9 = einsum %8 %8 -> b6\n"
              "  3: element [64 64]  %10 = add %3 %2  %11 = add %6 %5  %12 = mul %5 %5  %13 = sub %6 %12"
              "  %14 = mul %9 %11  %15 = mul %9 %13  %16 = mul %15 %10  %17 = add %14 %16 -> b7\n"
              "  4: node  %18 = einsum %17 %17 -> b8\n");
  static const double budgets[] = {4096.0 / (4 * 4096 - 256), 3.0 / 8, 120.0 / 8};
  static const size_t n_again[] = {0, 1, 4, 5};
  for (int i = 0; i < 3; i++) {
    assert_int_equal(n_again_of(GATED, budgets[i]), n_again[i]);
    assert_int_equal(n_again_of(GATED, budgets[i] * 1.001), n_again[i + 1]);
  }
}

#define ROWS(id, rest) "%" #id " = " rest " : f32 [64]\n"
/* x = %4, less its row's mean: %10, read again by a group. */
#define CENTERED                                                                                            \
  HEAD VALUE(4, "tanh %3") ROWS(5, "sum %4 {axes [1]}") ROWS(6, "const {value 0.015625}")                   \
      ROWS(7, "mul %5 %6") "%8 = reshape %7 : f32 [64 1]\n" VALUE(9, "broadcast %8") VALUE(10, "sub %4 %9") \
          VALUE(11, "mul %10 %2") PRODUCT(12, 11, 11) VALUE(13, "add %4 %12") PRODUCT(14, 13, 13)           \
              VALUE(15, "mul %14 %10")

/* It is computed again from x, which goes on, and the mean, 4 bytes a row. */
static void a_value_of_each_row_is_kept(void **state) {
  (void)state;
  check_tasks(CENTERED VALUE(16, "add %15 %13") PRODUCT(17, 16, 16) "output \"y\" %17\n", 1,
              "  0: node  %3 = einsum %0 %0 -> b2\n"
              "  1: element [64 64] rows of 64  %4 = tanh %3 -> b3  %5 = sum %4  %7 = mul %5 %6 -> b5"
              "  %10 = sub %4 %9  %11 = mul %10 %2 -> b6\n"
              "  2: node  %12 = einsum %11 %11 -> b7\n"
              "  3: element [64 64]  %13 = add %4 %12 -> b8\n"
              "  4: node  %14 = einsum %13 %13 -> b9\n"
              "  5: element [64 64]  %15 = sub %4 %9  %16 = mul %14 %15  %17 = add %16 %13 -> b10\n"
              "  6: node  %18 = einsum %17 %17 -> b11\n");
}

/* Where two phases of the reader's rows read it, it would pass from one to the other through the cache; both times in
 * one phase it would not. */
static void phases_are_weighed(void **state) {
  (void)state;
  static const char two[] = CENTERED ROWS(16, "sum %15 {axes [1]}") "%17 = reshape %16 : f32 [64 1]\n" VALUE(
      18, "broadcast %17") VALUE(19, "mul %18 %10") VALUE(20, "add %19 %13") PRODUCT(21, 20, 20) "output \"y\" %21\n";
  static const char one[] = CENTERED VALUE(16, "add %15 %10") ROWS(17, "sum %16 {axes [1]}") "%18 = reshape %17 : "
      "f32 [64 1]\n" VALUE(19, "broadcast %18") VALUE(20, "add %19 %13") PRODUCT(21, 20, 20) "output \"y\" %21\n";
  sx_plan_options tiles = fused;
  tiles.tiles = true;
  assert_int_equal(n_again_with(two, &fused, 4), 1);
  assert_int_equal(n_again_with(two, &tiles, 4), 0);
  assert_int_equal(n_again_with(one, &tiles, 4), 1);
}

/* ---- what there is room for ----------------------------------------------------------------------------- */

/* Holds more than all else, at another time. */
#define LARGE(x, y, z)                            \
  "%" #x                                          \
  " = input {name \"field/z\"} : f32 [256 256]\n" \
  "%" #y " = einsum %" #x " %" #x                 \
  " {labels \"ij,jk->ik\"} : f32 [256 256]\n"     \
  "%" #z " = einsum %" #y " %" #x " {labels \"ij,jk->ik\"} : f32 [256 256]\noutput \"z\" %" #z "\n"

/* %6 and %7 are computed from three products that nothing else reads later: 12 bytes for 16, but kept in place of 8. */
#define CROSSED                                                                                            \
  HEAD PRODUCT(4, 0, 3) PRODUCT(5, 3, 2) VALUE(6, "add %3 %4") VALUE(7, "mul %4 %5") VALUE(8, "add %6 %7") \
      PRODUCT(9, 8, 8) VALUE(10, "mul %9 %6") VALUE(11, "add %10 %7") PRODUCT(12, 11, 11)

/* Where the plan holds more at another time there is room for the third. */
static void what_is_kept_needs_room(void **state) {
  (void)state;
  assert_int_equal(n_again_of(CROSSED "output \"y\" %12\n", 1e9), 0);
  assert_int_equal(n_again_of(CROSSED LARGE(13, 14, 15) "output \"y\" %12\n", 1e9), 2);
  /* What is refused takes no room from those that come later. */
  assert_int_equal(n_again_of(CROSSED VALUE(13, "exp %12") VALUE(14, "neg %13") PRODUCT(15, 14, 14)
                                  VALUE(16, "add %15 %13") "output \"y\" %16\n",
                              1e9),
                   1);
}

/* %3 of 1 byte an element would do for %4 of 4, which a product reads before; but while it does there is no room. */
#define CONDITION                                                                                               \
  GIVEN PRODUCT(1, 0, 0)                                                                                        \
      VALUE(2, "const {value 0}") "%3 = lt %1 %2 : bool [64 64]\n%4 = cast %3 : f32 [64 64]\n" PRODUCT(5, 4, 4) \
          VALUE(6, "add %5 %4")

static void what_was_read_before_gives_no_room(void **state) {
  (void)state;
  assert_int_equal(n_again_of(CONDITION "output \"y\" %6\n", 1e9), 0);
  assert_int_equal(n_again_of(CONDITION LARGE(7, 8, 9) "output \"y\" %6\n", 1e9), 1);
}

/* %2 lies in the place of %1. If %1 is kept, %2 is not, and the task that would write it holds no more; it is where the
 * plan holds most. */
static void a_place_is_left_as_it_was(void **state) {
  (void)state;
  static const char text[] = GIVEN PRODUCT(1, 0, 0) VALUE(2, "exp %1")
      VALUE(3, "neg %2") "%4 = einsum %3 %3 {labels \"ij,ij->i\"} : f32 [64]\n%5 = reshape %4 : f32 [64 1]\n" VALUE(
          6, "broadcast %5") VALUE(7, "add %2 %6") "output \"y\" %7\n";
  assert_int_equal(n_again_of(text, 1e9), 1);
}

/* ---- lives ---------------------------------------------------------------------------------------------- */

/* The room that a plan leaves: none at its peak, and none is less than that; what is given is there. */
static void room_is_counted_as_the_plan_does(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 200; seed++) {
    planned *p = planned_random(seed, 30 + (int)(seed % 5) * 40);
    for (int engine = 0; engine < 2; engine++) {
      const sx_plan *plan = engine ? planned_engine_plan(p, true, true) : planned_plan(p, true, true);
      sx_lives *lives = sx_lives_make(plan, &p->arena);
      uint32_t n = (uint32_t)plan->tasks.n;
      if (!n) continue;
      assert_true(sx_lives_give(lives, 0, n - 1, 0));
      assert_false(sx_lives_give(lives, 0, n - 1, -64));
      assert_true(sx_lives_give(lives, 0, n - 1, 64));
      assert_false(sx_lives_give(lives, (uint32_t)(seed % n), n - 1, -plan->bound_bytes - 64));
      assert_true(sx_lives_give(lives, (uint32_t)(seed % n), n - 1, plan->bound_bytes + 64));
      assert_true(sx_lives_give(lives, 1, 0, -64)); /* no task */
    }
    planned_free(p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_value_is_kept_for_three),
      cmocka_unit_test(a_value_of_each_row_is_kept),
      cmocka_unit_test(phases_are_weighed),
      cmocka_unit_test(what_is_kept_needs_room),
      cmocka_unit_test(what_was_read_before_gives_no_room),
      cmocka_unit_test(a_place_is_left_as_it_was),
      cmocka_unit_test(room_is_counted_as_the_plan_does),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
