/* Recomputation: the bits of every output stay, whatever the budget; blocks do not grow; what is computed again, and
 * when not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../libsexp/cpu/canonical.h"
#include "../../libsexp/pass/recompute.h"
#include "../../libsexp/pass/stack.h"
#include "../common/cmocka_all.h"
#include "../common/example.h"
#include "../common/interpret.h"
#include "../common/planned.h"
#include "../common/random_graph.h"

static const sx_plan_options fused = {.fuse = true, .reuse = true};
static const sx_plan_options engines = {.fuse = true,
                                        .reuse = true,
                                        .layout = true,
                                        .join = true,
                                        .wait = true,
                                        .columns = true,
                                        .tiles = true,
                                        .attention = SX_ATTENTION_ALWAYS};
static const double budgets[] = {0, 9, 10.99, 40, 1000, 1e9};
enum { N_BUDGETS = sizeof budgets / sizeof *budgets };

static void fill(void *context, const char *name, sx_dtype dtype, int64_t n, void *data) {
  leaf_fill(name, *(uint64_t *)context, dtype, n, data);
}

/* Moderate values, and ids of 0 to 7. */
static void fill_moderate(void *context, const char *name, sx_dtype dtype, int64_t n, void *data) {
  random_source random = {*(uint64_t *)context};
  for (; *name; name++) random.state = random.state * 31 + (unsigned char)*name;
  for (int64_t i = 0; i < n; i++) {
    int64_t value = random_below(&random, 2001);
    if (dtype == SX_F32) ((float *)data)[i] = (float)(value - 1000) / 4000;
    if (dtype == SX_U8) ((uint8_t *)data)[i] = (uint8_t)(value & 7);
    if (dtype == SX_I32) ((int32_t *)data)[i] = (int32_t)(value & 7);
  }
}

static void check_equal(const sx_graph *graph, void **expected, void **given, const char *what, double budget) {
  for (size_t i = 0; i < graph->outputs.n; i++) {
    const sx_node *node = sx_node_at(graph, graph->outputs.items[i].node);
    size_t n_bytes = (size_t)sx_node_elements(node) * sx_dtype_bytes(node->dtype);
    sx_canonical_nans(expected[i], node->dtype, sx_node_elements(node));
    sx_canonical_nans(given[i], node->dtype, sx_node_elements(node));
    if (memcmp(expected[i], given[i], n_bytes) != 0)
      fail_msg("%s: %s differs with a budget of %g", what, graph->outputs.items[i].name, budget);
  }
}

/* Plan and bits with every budget; returns how many nodes were computed again in all. */
static size_t check_budgets_of(const sx_graph *graph, const sx_plan_options *options, const char *what,
                               fill_external *fill_with, sx_arena *arena, bool prints) {
  uint64_t seed = 5;
  const sx_plan *before = sx_plan_make(graph, options, arena);
  void **expected = execute_plan(before, arena, fill_with, &seed);
  size_t n_again = 0;
  for (size_t b = 0; b < N_BUDGETS; b++) {
    sx_recomputed r = sx_recompute(graph, options, budgets[b], arena);
    sx_diags diags;
    sx_diags_init(&diags, arena);
    if (!sx_graph_verify(r.graph, SX_STAGE_READY, &diags)) fail_msg("%s", diags.list.items[0].message);
    assert_true(r.n_again ? r.again != NULL : r.graph == graph);
    sx_plan_options with = *options;
    with.again = r.again;
    const sx_plan *after = sx_plan_make(r.graph, &with, arena);
    if (r.n_again) check_equal(r.graph, expected, execute_plan(after, arena, fill_with, &seed), what, budgets[b]);
    const sx_plan *taken = sx_plan_recompute(graph, options, budgets[b], arena);
    assert_true(taken->block_bytes <= before->block_bytes);
    if (budgets[b] == 0) assert_true(taken->graph == graph);
    n_again += r.n_again;
    if (prints)
      print_message("%s, budget %g: %zu nodes again; block %lld to %lld, stored %lld to %lld\n", what, budgets[b],
                    r.n_again, (long long)before->block_bytes, (long long)after->block_bytes,
                    (long long)before->sum_bytes, (long long)after->sum_bytes);
  }
  return n_again;
}

/* As devices plan, and as the CPU engine does. */
static size_t check_budgets(const sx_graph *graph, const char *what, fill_external *fill_with, sx_arena *arena,
                            bool prints) {
  return check_budgets_of(graph, &fused, what, fill_with, arena, prints) +
         check_budgets_of(graph, &engines, what, fill_with, arena, false);
}

static void examples_keep_their_bits(void **state) {
  (void)state;
  for (int i = 0; i < N_EXAMPLES; i++) {
    example *e = example_open(example_names[i]);
    check_budgets(e->loss, example_names[i], fill_moderate, &e->arena, true);
    sx_graph *stacked;
    sx_stack_refusal why;
    assert_true(sx_stack(&stacked, e->loss, 2, &why));
    stacked =
        sx_pass_dce(sx_pass_cse(sx_pass_simplify(stacked, &e->program.diags), &e->program.diags), &e->program.diags);
    check_budgets(stacked, sx_format(&e->arena, "%s stacked", example_names[i]), fill_moderate, &e->arena, true);
    example_free(e);
  }
}

static size_t n_again_of(const char *text, double budget) {
  planned *p = planned_text(text);
  sx_recomputed r = sx_recompute(p->graph, &fused, budget, &p->arena);
  size_t n = r.n_again;
  planned_free(p);
  return n;
}

static size_t n_in_place(const sx_plan *plan, sx_arena *arena) {
  const bool *in_place = sx_plan_in_place(plan, arena);
  size_t n = 0;
  for (uint32_t b = 0; b < plan->buffers.n; b++) n += plan->buffers.items[b].kind == SX_BUFFER_OUTPUT && in_place[b];
  return n;
}

/* What is written in place stays so: its old value is not asked for again. */
static void updates_stay_in_place(void **state) {
  (void)state;
  for (int i = 0; i < N_EXAMPLES; i++) {
    example *e = example_open(example_names[i]);
    check_budgets(e->update, "update", fill_moderate, &e->arena, false);
    size_t before = n_in_place(sx_plan_make(e->update, &fused, &e->arena), &e->arena);
    for (size_t b = 0; b < N_BUDGETS; b++)
      assert_int_equal(n_in_place(sx_plan_recompute(e->update, &fused, budgets[b], &e->arena), &e->arena), before);
    example_free(e);
  }
}

/* %4 reads the old value of w again if it may. */
static void an_old_value_is_not_read_again(void **state) {
  (void)state;
  static const char text[] =
      "graph \"update\"\n%%0 = param {path \"w\"} : f32 [64 64]\n%%1 = exp %%0 : f32 [64 64]\n%%2 = neg %%1 : f32 [64 "
      "64]\n"
      "%%3 = einsum %%2 %%2 {labels \"ij,jk->ik\"} : f32 [64 64]\n%%4 = add %%3 %%1 : f32 [64 64]\n"
      "output \"param/%c\" %%4\n";
  char other[512], same[512];
  snprintf(other, sizeof other, text, 'v');
  snprintf(same, sizeof same, text, 'w');
  assert_int_equal(n_again_of(other, 1e9), 1);
  assert_int_equal(n_again_of(same, 1e9), 0);
}

static void random_graphs_keep_their_bits(void **state) {
  (void)state;
  const char *quick = getenv("QUICK");
  uint64_t n_seeds = quick && *quick ? 60 : 300;
  size_t n_again = 0;
  for (uint64_t seed = 0; seed < n_seeds; seed++) {
    planned *p = planned_random(seed, 30 + (int)(seed % 6) * 30);
    n_again += check_budgets(p->graph, "random", fill, &p->arena, false);
    planned_free(p);
  }
  print_message("%zu nodes of random graphs computed again\n", n_again);
  assert_true(n_again > n_seeds);
}

/* ---- what pays ------------------------------------------------------------------------------------------ */

/* The most budget that computes nothing again is `below`, and `n` nodes are with a little more. */
static void check_threshold(const char *text, double below, size_t n) {
  assert_int_equal(n_again_of(text, below), 0);
  assert_int_equal(n_again_of(text, below * 1.001), n);
}

#define HEAD                                                                                                         \
  "graph \"loss\"\n%0 = input {name \"field/x\"} : f32 [64 64]\n%1 = einsum %0 %0 {labels \"ij,jk->ik\"} : f32 [64 " \
  "64]\n"

/* exp is 70 operations; what is not written nor read is 8 bytes. */
static void arithmetic_is_weighed_against_bytes(void **state) {
  (void)state;
  check_threshold(HEAD
                  "%2 = exp %1 : f32 [64 64]\n%3 = neg %2 : f32 [64 64]\n"
                  "%4 = einsum %3 %3 {labels \"ij,jk->ik\"} : f32 [64 64]\n%5 = add %4 %2 : f32 [64 64]\n"
                  "%6 = mul %5 %1 : f32 [64 64]\noutput \"y\" %6\n",
                  70.0 / 8, 1);
}

static void a_value_that_is_stored_anyway_saves_its_reading(void **state) {
  (void)state;
  check_threshold(HEAD
                  "%2 = exp %1 : f32 [64 64]\n%3 = neg %2 : f32 [64 64]\n"
                  "%4 = einsum %3 %3 {labels \"ij,jk->ik\"} : f32 [64 64]\n%5 = add %4 %2 : f32 [64 64]\n"
                  "%6 = mul %5 %1 : f32 [64 64]\noutput \"y\" %6\noutput \"exp\" %2\n",
                  70.0 / 4, 1);
}

/* The reader reads what the chain begins with in the value's place: 4 bytes for 8, and both operations count. */
static void a_chain_goes_down_to_what_is_at_hand(void **state) {
  (void)state;
  check_threshold(HEAD
                  "%2 = exp %0 : f32 [64 64]\n%3 = abs %2 : f32 [64 64]\n%4 = neg %3 : f32 [64 64]\n"
                  "%5 = einsum %4 %4 {labels \"ij,jk->ik\"} : f32 [64 64]\n%6 = add %5 %3 : f32 [64 64]\n"
                  "%7 = mul %6 %1 : f32 [64 64]\noutput \"y\" %7\n",
                  71.0 / 4, 2);
}

/* %1 would die before the reader: it is read in the place of %2, and kept in its place. */
static void a_value_is_kept_in_the_place_of_another(void **state) {
  (void)state;
  check_threshold(HEAD
                  "%2 = exp %1 : f32 [64 64]\n%3 = neg %2 : f32 [64 64]\n"
                  "%4 = einsum %3 %3 {labels \"ij,jk->ik\"} : f32 [64 64]\n"
                  "%5 = add %4 %2 : f32 [64 64]\noutput \"y\" %5\n",
                  70.0 / 4, 1);
}

/* Through a RESHAPE the elements stay in their places; through a TRANSPOSE they are read. */
static void a_value_is_found_behind_reshapes(void **state) {
  (void)state;
  static const char text[] = HEAD
      "%2 = exp %1 : f32 [64 64]\n%3 = neg %2 : f32 [64 64]\n"
      "%4 = einsum %3 %3 {labels \"ij,jk->ik\"} : f32 [64 64]\n%5 = reshape %4 : f32 [4096]\n"
      "%6 = reshape %2 : f32 [4096]\n%7 = add %5 %6 : f32 [4096]\n%8 = reshape %1 : f32 [4096]\n"
      "%9 = mul %7 %8 : f32 [4096]\noutput \"y\" %9\n";
  check_threshold(text, 70.0 / 8, 1);
  assert_int_equal(n_again_of(HEAD "%2 = exp %1 : f32 [64 64]\n%3 = neg %2 : f32 [64 64]\n"
                                   "%4 = einsum %3 %3 {labels \"ij,jk->ik\"} : f32 [64 64]\n"
                                   "%5 = transpose %2 {perm [1 0]} : f32 [64 64]\n%6 = add %4 %5 : f32 [64 64]\n"
                                   "%7 = mul %6 %1 : f32 [64 64]\noutput \"y\" %7\n",
                              1e9),
                   0);
  assert_int_equal(n_again_of(HEAD "%2 = exp %1 : f32 [64 64]\n%3 = neg %2 : f32 [64 64]\n"
                                   "%4 = einsum %3 %3 {labels \"ij,jk->ik\"} : f32 [64 64]\n"
                                   "%5 = transpose %2 {perm [1 0]} : f32 [64 64]\n%6 = add %4 %5 : f32 [64 64]\n"
                                   "%7 = mul %6 %1 : f32 [64 64]\n%8 = add %7 %2 : f32 [64 64]\noutput \"y\" %8\n",
                              1e9),
                   0);
  planned *p = planned_text(text);
  check_budgets(p->graph, "reshapes", fill, &p->arena, false);
  planned_free(p);
}

/* In the plan: the clone is evaluated in the group of its reader and never stored, nor is what it stands for. */
static void a_clone_is_in_the_group_of_its_reader(void **state) {
  (void)state;
  planned *p = planned_text(HEAD
                            "%2 = exp %1 : f32 [64 64]\n%3 = neg %2 : f32 [64 64]\n"
                            "%4 = einsum %3 %3 {labels \"ij,jk->ik\"} : f32 [64 64]\n%5 = add %4 %2 : f32 [64 64]\n"
                            "%6 = mul %5 %1 : f32 [64 64]\n%7 = einsum %6 %1 {labels \"ij,jk->ik\"} : f32 [64 64]\n"
                            "output \"y\" %7\n");
  const sx_plan *before = sx_plan_make(p->graph, &fused, &p->arena);
  const sx_plan *after = sx_plan_recompute(p->graph, &fused, 9, &p->arena);
  sx_text text;
  sx_text_init(&text, &p->arena);
  sx_plan_print(&text, after);
  const char *tasks = strstr(sx_text_get(&text), "  0: ");
  assert_string_equal(tasks,
                      "  0: node  %1 = einsum %0 %0 -> b1\n"
                      "  1: element [64 64]  %2 = exp %1  %3 = neg %2 -> b2\n"
                      "  2: node  %4 = einsum %3 %3 -> b3\n"
                      "  3: element [64 64]  %5 = exp %1  %6 = add %4 %5  %7 = mul %6 %1 -> b4\n"
                      "  4: node  %8 = einsum %7 %1 -> b5\n");
  assert_int_equal(before->sum_bytes - after->sum_bytes, 4 * 64 * 64);
  planned_free(p);
}

/* The groups of %2 to %41 and of %42 to %83 have one level, and together no room for a reader of both. Cloned, %82 and
 * %40 leave it room beside one of them, which would then read of the other, and the other of it: neither could be
 * first. */
static void a_reader_joins_no_group_of_its_clones_level(void **state) {
  (void)state;
  static const char end[] =
      "%82 = abs %81 : f32 [64 64]\n%83 = exp %82 : f32 [64 64]\n%84 = add %41 %82 : f32 [64 64]\n"
      "%85 = mul %84 %81 : f32 [64 64]\n%86 = add %83 %40 : f32 [64 64]\n%87 = mul %86 %39 : f32 [64 64]\n"
      "output \"y\" %85\noutput \"z\" %87\n";
  planned *arena = planned_text(HEAD "output \"y\" %1\n");
  sx_text text;
  sx_text_init(&text, &arena->arena);
  sx_text_add(&text,
              "graph \"loss\"\n%0 = input {name \"field/x\"} : f32 [64 64]\n"
              "%1 = input {name \"field/z\"} : f32 [64 64]\n");
  for (int i = 2; i < 82; i++)
    sx_text_addf(&text, "%%%d = neg %%%d : f32 [64 64]\n", i, i == 2 ? 0 : i == 42 ? 1 : i - 1);
  sx_text_add(&text, end);
  planned *p = planned_text(sx_text_get(&text));
  assert_int_equal(n_again_of(sx_text_get(&text), 1e9), 5);
  check_budgets(p->graph, "a level", fill, &p->arena, false);
  planned_free(p);
  planned_free(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(examples_keep_their_bits),
      cmocka_unit_test(random_graphs_keep_their_bits),
      cmocka_unit_test(updates_stay_in_place),
      cmocka_unit_test(an_old_value_is_not_read_again),
      cmocka_unit_test(arithmetic_is_weighed_against_bytes),
      cmocka_unit_test(a_value_that_is_stored_anyway_saves_its_reading),
      cmocka_unit_test(a_chain_goes_down_to_what_is_at_hand),
      cmocka_unit_test(a_value_is_kept_in_the_place_of_another),
      cmocka_unit_test(a_value_is_found_behind_reshapes),
      cmocka_unit_test(a_clone_is_in_the_group_of_its_reader),
      cmocka_unit_test(a_reader_joins_no_group_of_its_clones_level),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
