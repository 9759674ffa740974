/* Terms of chains: products and quotients that are made where they are used have the bits of the reference loops, and
 * are made there only where what they read is still there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../libsexp/cpu/canonical.h"
#include "../../libsexp/cpu/executable.h"
#include "../../libsexp/cpu/group.h"
#include "../common/cmocka_all.h"
#include "../common/interpret.h"
#include "../common/planned.h"

enum { SEED = 3 };

/* ---- how many ------------------------------------------------------------------------------------ */

static bool has_term(const sx_chain_kernels *chains, sx_handler *run) {
  for (int term = 0; term < SX_N_TERMS; term++)
    for (sx_op op = 0; op < SX_N_OPS; op++)
      if (chains->terms[term][op][0] == run || chains->terms[term][op][1] == run) return true;
  return false;
}

/* Links of the graph's only group, a chain of one step; those that take a term in *n_terms. */
static int count_links(planned *p, int *n_terms) {
  const sx_plan *plan = planned_engine_plan(p, true, true);
  const sx_kernel_set *kernels = sx_kernels(sx_simd_best());
  assert_int_equal(plan->tasks.n, 1);
  const sx_group *group = sx_group_new(plan, &plan->tasks.items[0], kernels, &p->arena);
  assert_int_equal(group->n_steps, 1);
  int n = 0;
  *n_terms = 0;
  for (const sx_link *link = group->steps[0].links; link->run != kernels->chains->end; link++, n++)
    *n_terms += has_term(kernels->chains, link->run);
  return n;
}

static int count_terms(const char *text) {
  planned *p = planned_text(text);
  int n_terms;
  count_links(p, &n_terms);
  planned_free(p);
  return n_terms;
}

/* ---- bits ---------------------------------------------------------------------------------------- */

static void **memory_of(const sx_plan *plan, const bool *in_place) {
  void **data = calloc(plan->buffers.n, sizeof *data);
  for (uint32_t b = 0; b < plan->buffers.n; b++) {
    const sx_buffer *buffer = &plan->buffers.items[b];
    if (buffer->kind != SX_BUFFER_EXTERNAL && buffer->kind != SX_BUFFER_OUTPUT) continue;
    data[b] = aligned_alloc(64, (size_t)(buffer->n_bytes + 63) / 64 * 64 + 64);
    if (buffer->kind == SX_BUFFER_EXTERNAL)
      leaf_fill(buffer->name, SEED, buffer->dtype, buffer->n_bytes / (int64_t)sx_dtype_bytes(buffer->dtype), data[b]);
  }
  for (uint32_t b = 0; b < plan->buffers.n; b++)
    for (uint32_t from = 0; from < plan->buffers.n; from++) {
      const sx_buffer *out = &plan->buffers.items[b], *in = &plan->buffers.items[from];
      if (out->kind != SX_BUFFER_OUTPUT || in->kind != SX_BUFFER_EXTERNAL || strcmp(out->name, in->name)) continue;
      assert_true(in_place[b]);
      free(data[b]);
      data[b] = data[from];
    }
  return data;
}

static void free_memory(const sx_plan *plan, void **data) {
  for (uint32_t b = 0; b < plan->buffers.n; b++) {
    for (uint32_t other = b + 1; other < plan->buffers.n; other++)
      if (data[other] == data[b]) data[other] = NULL;
    free(data[b]);
  }
  free(data);
}

static void expect(planned *p, void *const *right, const sx_plan *plan, void *const *data, sx_simd simd) {
  for (size_t i = 0; i < p->graph->outputs.n; i++) {
    const sx_output *output = &p->graph->outputs.items[i];
    for (uint32_t b = 0; b < plan->buffers.n; b++) {
      const sx_buffer *buffer = &plan->buffers.items[b];
      if (buffer->kind != SX_BUFFER_OUTPUT || strcmp(buffer->name, output->name)) continue;
      sx_canonical_nans(data[b], SX_F32, buffer->n_bytes / 4);
      if (memcmp(right[output->node], data[b], (size_t)buffer->n_bytes))
        fail_msg("%s differs at %s", output->name, sx_simd_name(simd));
    }
  }
}

/* At every level and with several threads; outputs with the name of an input lie where it does. */
static void check_bits(const char *text) {
  planned *p = planned_text(text);
  void **right = interpret(p->graph, 7, SEED);
  const sx_plan *plan = planned_engine_plan(p, true, true);
  const bool *in_place = sx_plan_in_place(plan, &p->arena);
  for (sx_simd simd = SX_SIMD_SCALAR; simd < SX_N_SIMD; simd++) {
    if (!sx_simd_available(simd)) continue;
    sx_pool *pool = sx_pool_new(1 + (int)simd % 3);
    sx_cpu cpu = {sx_kernels(simd), pool, &p->memory, NULL};
    sx_executable *executable = sx_executable_new(&cpu, plan, 7, &p->arena);
    void **data = memory_of(plan, in_place);
    sx_stopped why;
    assert_non_null(executable);
    for (uint32_t b = 0; b < plan->buffers.n; b++)
      if (data[b]) sx_executable_bind(executable, b, data[b]);
    assert_true(sx_executable_execute(executable, &why));
    expect(p, right, plan, data, simd);
    free_memory(plan, data);
    sx_executable_free(executable);
    sx_pool_free(pool);
  }
  interpret_free(p->graph, right);
  planned_free(p);
}

/* ---- forms --------------------------------------------------------------------------------------- */

/* The term and what it is combined with, in both orders. */
static int write_form(char *to, size_t room, int id, const char *op, const char *term, const char *shape) {
  return snprintf(to, room,
                  "%%%d = %s %%0 %%3 : f32 %s\n%%%d = max %%1 %%0 : f32 %s\n%%%d = %s %%%d %%%d : f32 %s\n"
                  "%%%d = %s %%0 %%3 : f32 %s\n%%%d = min %%1 %%0 : f32 %s\n%%%d = %s %%%d %%%d : f32 %s\n"
                  "output \"%s\" %%%d\noutput \"%s reversed\" %%%d\n",
                  id, term, shape, id + 1, shape, id + 2, op, id + 1, id, shape, id + 3, term, shape, id + 4, shape,
                  id + 5, op, id + 3, id + 4, shape, op, id + 2, op, id + 5);
}

static const char *const operations[] = {"add", "sub", "mul", "div"};
enum { N_OPERATIONS = sizeof operations / sizeof *operations };

/* x and y of a shape, s of another that is broadcast to it, and both forms of one operation. */
static void check_forms(int rows, int columns, const char *second, const char *term, int n_expected) {
  char shape[32], text[2048];
  snprintf(shape, sizeof shape, "[%d %d]", rows, columns);
  for (int o = 0; o < N_OPERATIONS; o++) {
    int n = snprintf(text, sizeof text,
                     "graph \"g\"\n%%0 = param {path \"x\"} : f32 %s\n%%1 = param {path \"y\"} : f32 %s\n"
                     "%%2 = param {path \"s\"} : f32 %s\n%%3 = broadcast %%2 : f32 %s\n",
                     shape, shape, second, shape);
    write_form(text + n, sizeof text - (size_t)n, 4, operations[o], term, shape);
    check_bits(text);
    if (rows > 1 && columns >= 128) assert_int_equal(count_terms(text), n_expected);
  }
}

/* Terms of every kind, as either operand of every operation, of values that make infinities, zeros, NaN and
 * subnormals; rows that blocks divide and that they do not. */
static void every_form(void **state) {
  (void)state;
  static const int sizes[][2] = {{1, 1}, {3, 37}, {5, 128}, {4, 300}, {1, 9000}, {33, 1024}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    int rows = sizes[i][0], columns = sizes[i][1];
    char second[4][32];
    snprintf(second[0], sizeof *second, "[1 1]");
    snprintf(second[1], sizeof *second, "[%d 1]", rows);
    snprintf(second[2], sizeof *second, "[1 %d]", columns);
    snprintf(second[3], sizeof *second, "[%d %d]", rows, columns);
    for (int kind = 0; kind < 4; kind++) {
      check_forms(rows, columns, second[kind], "mul", 2);
      check_forms(rows, columns, second[kind], "div", kind < 2 ? 2 : 0);
    }
  }
}

#define X "%0 = param {path \"x\"} : f32 [700]\n%1 = param {path \"y\"} : f32 [700]\n"
#define S "%2 = param {path \"s\"} : f32 []\n%3 = broadcast %2 : f32 [700]\n"

/* The first output is written over x before the product of x is used. */
static void what_is_written_over_is_read_before(void **state) {
  (void)state;
  const char *text = "graph \"g\"\n" X S
                     "%4 = mul %0 %3 : f32 [700]\n%5 = neg %1 : f32 [700]\n%6 = max %5 %1 : f32 [700]\n"
                     "%7 = sub %6 %4 : f32 [700]\noutput \"param/x\" %5\noutput \"z\" %7\n";
  assert_int_equal(count_terms(text), 0);
  check_bits(text);
}

/* Of two uses; from the accumulator to the next instruction; with a term beside it; beside one float for all. */
static void others_have_links_of_their_own(void **state) {
  (void)state;
  static const struct {
    int n_terms;
    const char *text;
  } cases[] = {
      {0,
       "%4 = mul %0 %3 : f32 [700]\n%5 = neg %1 : f32 [700]\n%6 = sub %5 %4 : f32 [700]\n"
       "%7 = max %6 %4 : f32 [700]\noutput \"z\" %7\n"},
      {0,
       "%4 = neg %1 : f32 [700]\n%5 = mul %4 %3 : f32 [700]\n%6 = add %0 %5 : f32 [700]\n"
       "output \"n\" %4\noutput \"z\" %6\n"},
      {1, "%4 = mul %0 %3 : f32 [700]\n%5 = mul %1 %3 : f32 [700]\n%6 = add %4 %5 : f32 [700]\noutput \"z\" %6\n"},
      {1, "%4 = mul %0 %0 : f32 [700]\n%5 = mul %1 %3 : f32 [700]\n%6 = add %5 %4 : f32 [700]\noutput \"z\" %6\n"},
      {0, "%4 = div %0 %3 : f32 [700]\n%5 = sub %3 %4 : f32 [700]\noutput \"z\" %5\n"},
      {0, "%4 = div %3 %0 : f32 [700]\n%5 = neg %1 : f32 [700]\n%6 = sub %5 %4 : f32 [700]\noutput \"z\" %6\n"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[1024];
    snprintf(text, sizeof text, "graph \"g\"\n%s%s", X S, cases[i].text);
    assert_int_equal(count_terms(text), cases[i].n_terms);
    check_bits(text);
  }
}

/* What the chain itself keeps in a block's place, which is free for another value after the term and not before. */
static void terms_of_what_chains_keep(void **state) {
  (void)state;
  const char *text = "graph \"g\"\n" X S
                     "%4 = max %0 %1 : f32 [700]\n%5 = min %0 %1 : f32 [700]\n%6 = sub %1 %0 : f32 [700]\n"
                     "%7 = mul %4 %3 : f32 [700]\n%8 = mul %5 %4 : f32 [700]\n%9 = add %6 %0 : f32 [700]\n"
                     "%10 = add %9 %6 : f32 [700]\n%11 = sub %7 %10 : f32 [700]\n%12 = mul %11 %11 : f32 [700]\n"
                     "%13 = max %12 %11 : f32 [700]\n%14 = div %13 %8 : f32 [700]\n%15 = add %14 %11 : f32 [700]\n"
                     "%16 = sub %15 %12 : f32 [700]\noutput \"z\" %16\n";
  assert_int_equal(count_terms(text), 2);
  check_bits(text);
}

/* Nothing of an update is stored but its results: 6 vectors are loaded and 3 stored. */
static void an_update_stores_its_results(void **state) {
  (void)state;
  const char *text = "graph \"g\"\n" X
                     "%2 = state {path \"m\"} : f32 [700]\n%3 = state {path \"v\"} : f32 [700]\n"
                     "%4 = const {value 0.9} : f32 [700]\n%5 = const {value 0.1} : f32 [700]\n"
                     "%6 = const {value 0.999} : f32 [700]\n%7 = const {value 0.001} : f32 [700]\n"
                     "%8 = mul %2 %4 : f32 [700]\n%9 = mul %1 %5 : f32 [700]\n%10 = add %8 %9 : f32 [700]\n"
                     "%11 = mul %1 %1 : f32 [700]\n%12 = mul %3 %6 : f32 [700]\n%13 = mul %11 %7 : f32 [700]\n"
                     "%14 = add %12 %13 : f32 [700]\n%15 = div %10 %5 : f32 [700]\n%16 = div %14 %7 : f32 [700]\n"
                     "%17 = sqrt %16 : f32 [700]\n%18 = add %17 %7 : f32 [700]\n%19 = div %15 %18 : f32 [700]\n"
                     "%20 = mul %7 %19 : f32 [700]\n%21 = sub %0 %20 : f32 [700]\n"
                     "output \"param/x\" %21\noutput \"state/m\" %10\noutput \"state/v\" %14\n";
  planned *p = planned_text(text);
  int n_terms;
  assert_int_equal(count_links(p, &n_terms), 16);
  assert_int_equal(n_terms, 3);
  planned_free(p);
  check_bits(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_form), cmocka_unit_test(what_is_written_over_is_read_before),
      cmocka_unit_test(others_have_links_of_their_own), cmocka_unit_test(terms_of_what_chains_keep),
      cmocka_unit_test(an_update_stores_its_results)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
