/* Execution: one set of bits for one graph, whatever is fused, reused, threaded or vectorized; faults, draws,
 * observation, memory. */
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "../../libsexp/cpu/executable.h"
#include "../../libsexp/ir/draw_key.h"
#include "../common/cmocka_all.h"
#include "../common/interpret.h"
#include "../common/outside.h"
#include "../common/planned.h"
#include "../common/quick.h"
#include "../common/random_graph.h"

/* How a graph is executed. */
typedef struct way {
  bool fuse, reuse;
  sx_simd simd;
  int threads;
} way;

static const sx_plan *plan_in(planned *p, way w) { return planned_engine_plan(p, w.fuse, w.reuse); }

static bool run_in(planned *p, const sx_plan *plan, way w, outside *o, sx_stopped *why) {
  return outside_run(p, plan, w.simd, w.threads, o, why);
}

static void check_equal(planned *p, void *const *expected, const sx_plan *plan, outside *got, way w, uint64_t seed) {
  const char *wrong = outside_differs(p->graph, expected, plan, got);
  if (!wrong) return;
  sx_text text;
  sx_text_init(&text, &p->arena);
  sx_graph_print(&text, p->graph, false);
  sx_plan_print(&text, plan);
  print_error("%s", sx_text_get(&text));
  fail_msg("seed %llu: %s differs: fuse %d, reuse %d, %s, %d threads", (unsigned long long)seed, wrong, w.fuse, w.reuse,
           sx_simd_name(w.simd), w.threads);
}

/* One graph in every way of the list against the reference loops. */
static void check_ways(planned *p, const way *ways, size_t n_ways, uint64_t seed) {
  sx_stopped why;
  void **expected = interpret(p->graph, 7, seed);
  for (size_t i = 0; i < n_ways; i++) {
    if (!sx_simd_available(ways[i].simd)) continue;
    const sx_plan *plan = plan_in(p, ways[i]);
    outside got = outside_of(plan, seed);
    assert_true(run_in(p, plan, ways[i], &got, &why));
    check_equal(p, expected, plan, &got, ways[i], seed);
    outside_free(&got);
  }
  interpret_free(p->graph, expected);
}

static void bits_do_not_depend_on_how(void **state) {
  (void)state;
  static const int threads[] = {1, 2, 3, 7};
  uint64_t n_graphs = test_is_quick() ? 200 : 500;
  for (uint64_t seed = 0; seed < n_graphs; seed++) {
    planned *p = planned_random(seed, 20 + (int)(seed % 8) * 40);
    way ways[SX_N_SIMD + 4];
    size_t n = 0;
    for (sx_simd simd = SX_SIMD_REFERENCE; simd < SX_N_SIMD; simd++)
      ways[n++] = (way){true, true, simd, threads[(seed + simd) % 4]};
    ways[n++] = (way){false, false, SX_SIMD_REFERENCE, threads[seed % 4]};
    ways[n++] = (way){true, false, sx_simd_best(), threads[seed % 4]};
    ways[n++] = (way){false, true, sx_simd_best(), threads[(seed + 1) % 4]};
    ways[n++] = (way){false, false, SX_SIMD_SCALAR, threads[(seed + 2) % 4]};
    check_ways(p, ways, n, seed);
    planned_free(p);
  }
}

static const way all_ways[] = {
    {true, true, SX_SIMD_SCALAR, 1}, {true, true, SX_SIMD_AVX2, 2},  {true, true, SX_SIMD_AVX512, 3},
    {true, true, SX_SIMD_SCALAR, 7}, {true, false, SX_SIMD_AVX2, 3}, {false, true, SX_SIMD_AVX2, 2},
};
enum { N_WAYS = sizeof all_ways / sizeof *all_ways };

static void check_text(const char *text) {
  planned *p = planned_text(text);
  check_ways(p, all_ways, N_WAYS, 1);
  planned_free(p);
}

/* Every way in which a tile meets a broadcast: a row, a column, a scalar, a middle axis, short and long rows,
 * rows longer than a tile. */
static void broadcasts_of_every_kind(void **state) {
  (void)state;
  static const int sizes[][3] = {{7, 5, 10},   {3, 2, 1500}, {1, 1, 5000}, {50, 1, 33},
                                 {2, 1030, 3}, {4, 3, 1024}, {400, 3, 2}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    int a = sizes[i][0], b = sizes[i][1], c = sizes[i][2];
    char text[4096];
    snprintf(text, sizeof text,
             "graph \"g\"\n"
             "%%0 = param {path \"x\"} : f32 [%d %d %d]\n"
             "%%1 = param {path \"row\"} : f32 [%d]\n"
             "%%2 = param {path \"column\"} : f32 [%d 1 1]\n"
             "%%3 = param {path \"middle\"} : f32 [%d 1]\n"
             "%%4 = param {path \"scalar\"} : f32 []\n"
             "%%5 = param {path \"back\"} : f32 [%d %d %d]\n"
             "%%6 = broadcast %%1 : f32 [%d %d %d]\n"
             "%%7 = broadcast %%2 : f32 [%d %d %d]\n"
             "%%8 = broadcast %%3 : f32 [%d %d %d]\n"
             "%%9 = broadcast %%4 : f32 [%d %d %d]\n"
             "%%10 = transpose %%5 {perm [2 1 0]} : f32 [%d %d %d]\n"
             "%%11 = add %%0 %%6 : f32 [%d %d %d]\n"
             "%%12 = mul %%11 %%7 : f32 [%d %d %d]\n"
             "%%13 = max %%12 %%8 : f32 [%d %d %d]\n"
             "%%14 = sub %%13 %%9 : f32 [%d %d %d]\n"
             "%%15 = add %%14 %%10 : f32 [%d %d %d]\n"
             "%%16 = mul %%15 %%6 : f32 [%d %d %d]\n"
             "output \"y\" %%16\noutput \"z\" %%13\n",
             a, b, c, c, a, b, c, b, a, a, b, c, a, b, c, a, b, c, a, b, c, a, b, c, a, b, c, a, b, c, a, b, c, a, b, c,
             a, b, c, a, b, c);
    check_text(text);
  }
}

/* Rows shorter, as long and longer than the blocks and chunks of a reduction: a softmax, a layer norm without its
 * scale, least elements, masks, short floats on the way. Infinities and NaN are taken out: a row with one hides the
 * rest. */
static void rows_of_every_length(void **state) {
  (void)state;
  static const int lengths[] = {48, 63, 64, 65, 100, 127, 128, 129, 256, 300, 4095, 4096, 4097, 8192, 12300};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    int n = lengths[i], rows = 8 + (int)i % 3;
    char text[4096], shape[32];
    snprintf(shape, sizeof shape, "[%d %d]", rows, n);
    snprintf(text, sizeof text,
             "graph \"g\"\n"
             "%%0 = param {path \"x\"} : f32 %s\n"
             "%%1 = abs %%0 : f32 %s\n"
             "%%2 = const {value 100.0} : f32 %s\n"
             "%%3 = lt %%1 %%2 : bool %s\n"
             "%%4 = where %%3 %%0 %%2 : f32 %s\n"
             "%%5 = reduce-max %%4 {axes [1]} : f32 [%d]\n"
             "%%6 = reshape %%5 : f32 [%d 1]\n"
             "%%7 = broadcast %%6 : f32 %s\n"
             "%%8 = sub %%4 %%7 : f32 %s\n"
             "%%9 = exp %%8 : f32 %s\n"
             "%%10 = sum %%9 {axes [1]} : f32 [%d]\n"
             "%%11 = reshape %%10 : f32 [%d 1]\n"
             "%%12 = broadcast %%11 : f32 %s\n"
             "%%13 = div %%9 %%12 : f32 %s\n"
             "%%14 = sum %%4 {axes [1]} : f32 [%d]\n"
             "%%15 = const {value 7.0} : f32 [%d]\n"
             "%%16 = div %%14 %%15 : f32 [%d]\n"
             "%%17 = reshape %%16 : f32 [%d 1]\n"
             "%%18 = broadcast %%17 : f32 %s\n"
             "%%19 = sub %%4 %%18 : f32 %s\n"
             "%%20 = mul %%19 %%19 : f32 %s\n"
             "%%21 = sum %%20 {axes [1]} : f32 [%d]\n"
             "%%22 = rsqrt %%21 : f32 [%d]\n"
             "%%23 = reshape %%22 : f32 [%d 1]\n"
             "%%24 = broadcast %%23 : f32 %s\n"
             "%%25 = mul %%19 %%24 : f32 %s\n"
             "%%26 = lt %%25 %%13 : bool %s\n"
             "%%27 = where %%26 %%25 %%18 : f32 %s\n"
             "%%28 = reduce-min %%27 {axes [1]} : f32 [%d]\n"
             "%%29 = cast %%27 : bf16 %s\n"
             "%%30 = cast %%29 : f32 %s\n"
             "%%31 = sum %%30 {axes [1]} : f32 [%d]\n"
             "output \"softmax\" %%13\noutput \"norm\" %%25\noutput \"mask\" %%26\noutput \"least\" %%28\n"
             "output \"sum\" %%31\noutput \"mean\" %%16\n",
             shape, shape, shape, shape, shape, rows, rows, shape, shape, shape, rows, rows, shape, shape, rows, rows,
             rows, rows, shape, shape, shape, rows, rows, rows, shape, shape, shape, shape, rows, shape, shape, rows);
    check_text(text);
  }
}

/* Narrow, as wide as a strip and wider, with more rows than lanes and than a chunk. */
static void columns_of_every_width(void **state) {
  (void)state;
  static const int sizes[][3] = {{2, 31, 70}, {1, 33, 1},     {3, 70, 1030}, {1, 40, 2100},
                                 {5, 64, 64}, {1, 8300, 130}, {2, 4096, 9},  {1, 1, 1024}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    int a = sizes[i][0], b = sizes[i][1], c = sizes[i][2];
    char text[1024];
    snprintf(text, sizeof text,
             "graph \"g\"\n%%0 = param {path \"x\"} : f32 [%d %d %d]\n"
             "%%1 = sum %%0 {axes [1]} : f32 [%d %d]\n%%2 = sum %%0 {axes [0 1]} : f32 [%d]\n"
             "%%3 = cast %%0 : bf16 [%d %d %d]\n%%4 = sum %%3 {axes [0 1]} : bf16 [%d]\n"
             "output \"a\" %%1\noutput \"b\" %%2\noutput \"c\" %%4\n",
             a, b, c, a, c, c, a, b, c, c);
    check_text(text);
  }
}

/* Sums of columns that are made with their group: of what is stored and of what is not, beside reductions of rows, of
 * fewer rows than lanes, and of rows that blocks do not divide. */
static void columns_of_what_a_group_computes(void **state) {
  (void)state;
  static const int sizes[][3] = {{1, 8, 128},    {3, 11, 130},   {1, 64, 300},  {2, 100, 1000},
                                 {2, 2048, 129}, {1, 4097, 128}, {5, 1700, 130}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    int a = sizes[i][0], b = sizes[i][1], c = sizes[i][2];
    char text[4096], wide[32];
    snprintf(wide, sizeof wide, "[%d %d %d]", a, b, c);
    snprintf(text, sizeof text,
             "graph \"g\"\n%%0 = param {path \"x\"} : f32 %s\n%%1 = param {path \"b\"} : f32 [%d]\n"
             "%%2 = broadcast %%1 : f32 %s\n%%3 = abs %%0 : f32 %s\n%%4 = const {value 100.0} : f32 %s\n"
             "%%5 = lt %%3 %%4 : bool %s\n%%6 = const {value -0.0} : f32 %s\n%%7 = where %%5 %%0 %%6 : f32 %s\n"
             "%%8 = add %%7 %%2 : f32 %s\n%%9 = sum %%7 {axes [0 1]} : f32 [%d]\n"
             "%%10 = sum %%8 {axes [0 1]} : f32 [%d]\n%%11 = sum %%7 {axes [2]} : f32 [%d %d]\n"
             "%%12 = reshape %%11 : f32 [%d %d 1]\n%%13 = broadcast %%12 : f32 %s\n%%14 = sub %%8 %%13 : f32 %s\n"
             "%%15 = mul %%14 %%7 : f32 %s\n%%16 = sum %%15 {axes [0 1]} : f32 [%d]\n"
             "output \"a\" %%9\noutput \"b\" %%10\noutput \"c\" %%16\noutput \"d\" %%14\n",
             wide, c, wide, wide, wide, wide, wide, wide, wide, c, c, a, b, a, b, wide, wide, wide, c);
    check_text(text);
  }
}

/* Short rows, which a group without rows evaluates several at once: as many as a chunk, parts of chunks, more chunks
 * than lanes, and some that do not go together. One sum's values are stored, the other's are not. */
static void columns_of_short_rows(void **state) {
  (void)state;
  static const int sizes[][2] = {{2048, 32},  {4096, 48},  {8352, 64}, {4100, 256},
                                 {1100, 300}, {139328, 4}, {12289, 16}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    int n = sizes[i][0], width = sizes[i][1];
    char text[1024];
    snprintf(text, sizeof text,
             "graph \"g\"\n%%0 = param {path \"x\"} : f32 [%d %d]\n%%1 = const {value 1.0} : f32 [%d %d]\n"
             "%%2 = lt %%0 %%1 : bool [%d %d]\n%%3 = const {value -0.0} : f32 [%d %d]\n"
             "%%4 = where %%2 %%0 %%3 : f32 [%d %d]\n%%5 = mul %%4 %%0 : f32 [%d %d]\n"
             "%%6 = sum %%4 {axes [0]} : f32 [%d]\n%%7 = sum %%5 {axes [0]} : f32 [%d]\n"
             "output \"y\" %%4\noutput \"a\" %%6\noutput \"b\" %%7\n",
             n, width, n, width, n, width, n, width, n, width, n, width, width, width);
    check_text(text);
  }
}

/* A group that could be of the launch before it goes alone; what is read once beside its sum is stored. */
static void columns_after_another_group(void **state) {
  (void)state;
  check_text(
      "graph \"g\"\n%0 = param {path \"a\"} : f32 [700]\n%1 = exp %0 : f32 [700]\n"
      "%2 = param {path \"x\"} : f32 [40 200]\n%3 = exp %2 : f32 [40 200]\n%4 = sum %3 {axes [0]} : f32 [200]\n"
      "output \"e\" %1\noutput \"y\" %3\noutput \"b\" %4\n");
  check_text(
      "graph \"g\"\n%0 = param {path \"x\"} : f32 [40 200]\n%1 = exp %0 : f32 [40 200]\n"
      "%2 = sum %1 {axes [0]} : f32 [200]\n%3 = cumsum %1 {axis 1, reverse 0} : f32 [40 200]\n"
      "output \"b\" %2\noutput \"c\" %3\n");
}

/* A sum over rows of what a group has one of for each of its rows: reshaped, these are as many as columns. */
static void columns_of_what_a_row_has_one_of(void **state) {
  (void)state;
  check_text(
      "graph \"g\"\n%0 = param {path \"x\"} : f32 [8 128 128]\n%1 = sum %0 {axes [2]} : f32 [8 128]\n"
      "%2 = abs %1 : f32 [8 128]\n%3 = reshape %2 : f32 [8 128 1]\n%4 = broadcast %3 : f32 [8 128 128]\n"
      "%5 = add %0 %4 : f32 [8 128 128]\n%6 = sum %2 {axes [0]} : f32 [128]\n"
      "output \"y\" %5\noutput \"s\" %6\n");
}

static void long_groups_and_many_tiles(void **state) {
  (void)state;
  check_text(
      "graph \"g\"\n"
      "%0 = param {path \"x\"} : f32 [100003]\n"
      "%1 = const {value 0.5} : f32 [100003]\n"
      "%2 = mul %0 %1 : f32 [100003]\n"
      "%3 = tanh %2 : f32 [100003]\n"
      "%4 = lt %3 %2 : bool [100003]\n"
      "%5 = cast %3 : bf16 [100003]\n"
      "%6 = cast %5 : f32 [100003]\n"
      "%7 = where %4 %6 %0 : f32 [100003]\n"
      "%8 = iota {axis 0} : i32 [100003]\n"
      "%9 = cast %8 : f32 [100003]\n"
      "%10 = mul %7 %9 : f32 [100003]\n"
      "%11 = sum %10 {axes [0]} : f32 []\n"
      "%12 = cast %7 : f16 [100003]\n"
      "output \"sum\" %11\noutput \"mask\" %4\noutput \"half\" %12\n");
}

/* Chains of short floats, integers and bools: packed operands on either side and in selections, casts every way. */
static void chains_of_every_dtype(void **state) {
  (void)state;
  static const int sizes[] = {1, 31, 128, 333, 5000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    char text[4096], *end = text;
    static const char *const nodes[] = {
        "param {path \"x\"} : f32",
        "cast %0 : bf16",
        "cast %0 : f16",
        "param {path \"y\"} : bf16",
        "param {path \"z\"} : f16",
        "sub %1 %3 : bf16",
        "sub %3 %5 : bf16",
        "mul %2 %4 : f16",
        "add %4 %7 : f16",
        "lt %6 %3 : bool",
        "ge %8 %4 : bool",
        "where %9 %3 %6 : bf16",
        "where %10 %4 %8 : f16",
        "cast %11 : f16",
        "add %12 %13 : f16",
        "param {path \"i\"} : i32",
        "param {path \"j\"} : i32",
        "mul %15 %16 : i32",
        "sub %16 %17 : i32",
        "max %18 %15 : i32",
        "min %19 %16 : i32",
        "abs %20 : i32",
        "neg %21 : i32",
        "gt %22 %16 : bool",
        "or %23 %10 : bool",
        "where %24 %9 %23 : bool",
        "cast %22 : f16",
        "add %26 %14 : f16",
        "cast %27 : i32",
        "cast %25 : i32",
        "add %28 %29 : i32",
        "cast %25 : bf16",
        "tanh %31 : bf16",
        "param {path \"b\"} : u8",
        "cast %33 : bf16",
        "mul %34 %32 : bf16",
        "cast %33 : i32",
        "cast %36 : bool",
        "not %37 : bool",
        "where %38 %30 %36 : i32",
        "exp %27 : f16",
    };
    end += sprintf(end, "graph \"g\"\n");
    for (size_t k = 0; k < sizeof nodes / sizeof *nodes; k++)
      end += sprintf(end, "%%%zu = %s [%d]\n", k, nodes[k], sizes[i]);
    sprintf(end,
            "output \"a\" %%6\noutput \"b\" %%14\noutput \"c\" %%35\noutput \"d\" %%39\noutput \"e\" %%40\n"
            "output \"f\" %%25\n");
    check_text(text);
  }
}

static void copies_of_views(void **state) {
  (void)state;
  check_text(
      "graph \"g\"\n"
      "%0 = param {path \"x\"} : f32 [37 65 18]\n"
      "%1 = transpose %0 {perm [2 0 1]} : f32 [18 37 65]\n"
      "%2 = transpose %0 {perm [2 1 0]} : f32 [18 65 37]\n"
      "%3 = reverse %1 {axis 2} : f32 [18 37 65]\n"
      "%4 = reshape %3 : f32 [43290]\n"
      "%5 = cast %0 : bf16 [37 65 18]\n"
      "%6 = transpose %5 {perm [1 2 0]} : bf16 [65 18 37]\n"
      "%7 = reshape %6 : bf16 [1170 37]\n"
      "%8 = transpose %7 {perm [1 0]} : bf16 [37 1170]\n"
      "%9 = slice %8 {start [1 3], end [36 1100], step [2 7]} : bf16 [18 157]\n"
      "output \"a\" %1\noutput \"b\" %2\noutput \"c\" %4\noutput \"d\" %8\noutput \"e\" %9\n");
}

/* Products of which only a transposition is read lie as it does: two matrices, heads that are merged, nothing but
 * batches, short floats, an empty contraction; one that is read both ways does not. */
static const char transposed_products[] =
    "graph \"g\"\n"
    "%0 = param {path \"x\"} : f32 [37 19]\n%1 = param {path \"dy\"} : f32 [37 53]\n"
    "%2 = einsum %0 %1 {labels \"ba,bc->ac\"} : f32 [19 53]\n"
    "%3 = transpose %2 {perm [1 0]} : f32 [53 19]\n"
    "%4 = param {path \"p\"} : f32 [2 3 21 17]\n%5 = param {path \"v\"} : f32 [2 3 17 33]\n"
    "%6 = einsum %4 %5 {labels \"bhqk,bhkd->bhqd\"} : f32 [2 3 21 33]\n"
    "%7 = transpose %6 {perm [0 2 1 3]} : f32 [2 21 3 33]\n%8 = reshape %7 : f32 [2 21 99]\n"
    "%9 = exp %8 : f32 [2 21 99]\n"
    "%10 = einsum %0 %0 {labels \"ab,ab->ab\"} : f32 [37 19]\n%11 = transpose %10 {perm [1 0]} : f32 [19 37]\n"
    "%12 = cast %0 : bf16 [37 19]\n%13 = cast %1 : bf16 [37 53]\n"
    "%14 = einsum %12 %13 {labels \"ba,bc->ca\"} : bf16 [53 19]\n"
    "%15 = transpose %14 {perm [1 0]} : bf16 [19 53]\n"
    "%16 = param {path \"none\"} : f32 [5 0]\n%17 = param {path \"nothing\"} : f32 [0 7]\n"
    "%18 = einsum %16 %17 {labels \"ab,bc->ac\"} : f32 [5 7]\n%19 = transpose %18 {perm [1 0]} : f32 [7 5]\n"
    "%20 = einsum %1 %0 {labels \"ba,bc->ac\"} : f32 [53 19]\n%21 = transpose %20 {perm [1 0]} : f32 [19 53]\n"
    "%22 = add %20 %3 : f32 [53 19]\n"
    "output \"a\" %3\noutput \"b\" %9\noutput \"c\" %11\noutput \"d\" %15\noutput \"e\" %19\n"
    "output \"f\" %21\noutput \"g\" %22\n";

static void products_lie_as_they_are_read(void **state) {
  (void)state;
  check_text(transposed_products);
  planned *p = planned_text(transposed_products);
  const sx_plan *plan = plan_in(p, (way){.fuse = true, .reuse = true});
  int n_copies = 0;
  for (size_t t = 0; t < plan->tasks.n; t++) n_copies += plan->tasks.items[t].kind == SX_TASK_COPY;
  assert_int_equal(n_copies, 1); /* of %21 */
  planned_free(p);
}

static void a_product_and_its_transposition(void **state) {
  (void)state;
  check_text(
      "graph \"g\"\n%0 = param {path \"x\"} : f32 [20 30]\n%1 = param {path \"y\"} : f32 [20 40]\n"
      "%2 = einsum %0 %1 {labels \"ab,ac->bc\"} : f32 [30 40]\n%3 = transpose %2 {perm [1 0]} : f32 [40 30]\n"
      "output \"p\" %2\noutput \"t\" %3\n");
}

/* Large enough to be written past the cache; rows that blocks do not divide. */
static void a_large_transposition(void **state) {
  (void)state;
  check_text(
      "graph \"g\"\n"
      "%0 = param {path \"x\"} : f32 [1021 1100]\n"
      "%1 = transpose %0 {perm [1 0]} : f32 [1100 1021]\n"
      "%2 = slice %0 {start [0 3], end [1020 1100], step [1 1]} : f32 [1020 1097]\n"
      "%3 = transpose %2 {perm [1 0]} : f32 [1097 1020]\n"
      "output \"a\" %1\noutput \"b\" %3\n");
}

/* Groups of one launch, more and less work than a thread is worth. */
static void updates_of_many_sizes(void **state) {
  (void)state;
  check_text(
      "graph \"g\"\n"
      "%0 = param {path \"a\"} : f32 [40001]\n%1 = param {path \"b\"} : f32 [3]\n"
      "%2 = param {path \"c\"} : f32 [90 130]\n%3 = param {path \"d\"} : f32 [50000]\n"
      "%4 = tanh %0 : f32 [40001]\n%5 = exp %1 : f32 [3]\n"
      "%6 = sum %2 {axes [1]} : f32 [90]\n%7 = reshape %6 : f32 [90 1]\n%8 = broadcast %7 : f32 [90 130]\n"
      "%9 = div %2 %8 : f32 [90 130]\n%10 = sqrt %3 : f32 [50000]\n%11 = cast %10 : bf16 [50000]\n"
      "output \"a\" %4\noutput \"b\" %5\noutput \"c\" %9\noutput \"d\" %10\noutput \"e\" %11\n");
}

static void empty_shapes(void **state) {
  (void)state;
  check_text(
      "graph \"g\"\n"
      "%0 = param {path \"x\"} : f32 [3 0 2]\n"
      "%1 = exp %0 : f32 [3 0 2]\n"
      "%2 = transpose %1 {perm [2 1 0]} : f32 [2 0 3]\n"
      "%3 = reshape %2 : f32 [0]\n"
      "%4 = sum %1 {axes [1]} : f32 [3 2]\n"
      "%5 = neg %4 : f32 [3 2]\n"
      "output \"a\" %3\noutput \"b\" %5\noutput \"c\" %2\n");
}

/* ---- faults -------------------------------------------------------------------------------------- */

static const char faulty[] =
    "graph \"g\"\n"
    "%0 = input {name \"field/table\"} : f32 [5 3]\n"
    "%1 = input {name \"field/ids\"} : i32 [40 50]\n"
    "%2 = transpose %1 {perm [1 0]} : i32 [50 40]\n"
    "%3 = gather %0 %2 : f32 [50 40 3]\n"
    "%4 = one-hot %1 {n 7} : f32 [40 50 7]\n"
    "%5 = sum %3 {axes [0 1 2]} : f32 []\n"
    "output \"y\" %5\noutput \"hot\" %4\n";

static void check_fault(way w, sx_stopped expected, const int32_t *ids) {
  planned *p = planned_text(faulty);
  const sx_plan *plan = plan_in(p, w);
  outside o = outside_of(plan, 3);
  sx_stopped why = {0};
  for (uint32_t b = 0; b < o.n; b++)
    if (plan->buffers.items[b].kind == SX_BUFFER_EXTERNAL && plan->buffers.items[b].dtype == SX_I32)
      memcpy(o.data[b], ids, 2000 * sizeof *ids);
  assert_int_equal(run_in(p, plan, w, &o, &why), expected.node == SX_NO_NODE);
  if (expected.node != SX_NO_NODE) {
    assert_int_equal(why.node, expected.node);
    assert_int_equal(why.at, expected.at);
    assert_int_equal(why.value, expected.value);
    assert_int_equal(why.limit, expected.limit);
  }
  outside_free(&o);
  planned_free(p);
}

/* The lowest flat index among the ids as the node sees them: here through a transposition. */
static void an_id_out_of_range_stops(void **state) {
  (void)state;
  int32_t ids[2000] = {0};
  for (size_t i = 0; i < N_WAYS; i++) check_fault(all_ways[i], (sx_stopped){.node = SX_NO_NODE}, ids);
  ids[30 * 50 + 7] = -2; /* [7 30] seen by the gather: 7 * 40 + 30 */
  ids[2 * 50 + 9] = 5;
  for (size_t i = 0; i < N_WAYS; i++) check_fault(all_ways[i], (sx_stopped){NULL, 3, 7 * 40 + 30, -2, 5}, ids);
}

/* ---- draws --------------------------------------------------------------------------------------- */

static uint64_t key_of(const char *graph, const char *draw, int64_t seed) {
  char text[256];
  snprintf(text, sizeof text, "graph \"%s\"\n%%0 = uniform {%s} : f32 [4]\noutput \"y\" %%0\n", graph, draw);
  planned *p = planned_text(text);
  uint64_t key = 0;
  assert_true(sx_draw_key(p->graph, 0, seed, &key));
  planned_free(p);
  return key;
}

static void keys_are_hashes_of_names(void **state) {
  (void)state;
  assert_int_equal(key_of("loss", "draw 0", 7), 0xc9764ba911bc3d4c);
  assert_int_equal(key_of("loss", "draw 12", 7), 0xde24db1da48789b7);
  assert_int_equal(key_of("init/fc1/w", "draw 0", 7), 0x095fc86e654e21aa);
  assert_int_equal(key_of("init/fc1/w", "draw 1", 7), 0xb35142882eb34546);
  assert_int_equal(key_of("init-state/adam/w", "draw 0", -1), 0x430a75b8700df2e4);
  assert_int_equal(key_of("loss", "draw 0, stream \"noise\"", 7), 0xbfb2e780f4cca071);
  assert_int_equal(key_of("loss", "draw 2, stream \"noise\"", 7), 0xdfe3073ed38ca15c);
}

/* ---- observation --------------------------------------------------------------------------------- */

typedef struct seen {
  sx_id nodes[16];
  uint32_t first_bits[16];
  int64_t n_bytes[16];
  size_t n;
} seen;

static void look(void *context, sx_id node, const void *data, int64_t n_bytes) {
  seen *s = context;
  s->nodes[s->n] = node;
  memcpy(&s->first_bits[s->n], data, 4);
  s->n_bytes[s->n++] = n_bytes;
}

static void every_value_can_be_observed(void **state) {
  (void)state;
  planned *p = planned_text(
      "graph \"g\"\n"
      "%0 = input {name \"a\"} : f32 [2 3]\n"
      "%1 = const {value 2.0} : f32 [2 3]\n"
      "%2 = mul %0 %1 : f32 [2 3]\n"
      "%3 = transpose %2 {perm [1 0]} : f32 [3 2]\n"
      "%4 = slice %3 {start [1 1], end [3 2], step [1 1]} : f32 [2 1]\n"
      "output \"y\" %4\n");
  const sx_plan *plan = planned_plan(p, false, false);
  sx_cpu cpu = {sx_kernels(sx_simd_best()), NULL, &p->memory, NULL};
  sx_executable *e = sx_executable_new(&cpu, plan, 0, &p->arena);
  const uint32_t nan = 0xffc12345u;
  float a[6] = {1, 2, 3, 4, 0, 6}, y[2];
  memcpy(&a[4], &nan, 4);
  seen s = {.n = 0};
  for (uint32_t b = 0; b < plan->buffers.n; b++) {
    if (plan->buffers.items[b].kind == SX_BUFFER_EXTERNAL) sx_executable_bind(e, b, a);
    if (plan->buffers.items[b].kind == SX_BUFFER_OUTPUT) sx_executable_bind(e, b, y);
  }
  sx_stopped why;
  assert_true(sx_executable_observe(e, look, &s));
  assert_true(sx_executable_execute(e, &why));
  assert_int_equal(s.n, 4);
  static const sx_id nodes[] = {0, 2, 3, 4};
  static const int64_t n_bytes[] = {24, 24, 24, 8};
  static const uint32_t bits[] = {0x3f800000u, 0x40000000u, 0x40000000u, 0x7fc00000u};
  for (size_t i = 0; i < 4; i++) {
    assert_int_equal(s.nodes[i], nodes[i]);
    assert_int_equal(s.n_bytes[i], n_bytes[i]);
    assert_int_equal(s.first_bits[i], bits[i]);
  }
  assert_true(sx_executable_observe(e, NULL, NULL));
  assert_true(sx_executable_execute(e, &why));
  assert_int_equal(s.n, 4);
  sx_executable_free(e);
  planned_free(p);
}

/* ---- memory -------------------------------------------------------------------------------------- */

static void *no_memory(void *context, size_t n_bytes) {
  (void)context;
  (void)n_bytes;
  return NULL;
}

static void no_memory_is_null(void **state) {
  (void)state;
  planned *p = planned_text(faulty);
  sx_memory none = p->memory;
  none.allocate = no_memory;
  sx_cpu cpu = {sx_kernels(SX_SIMD_SCALAR), NULL, &none, NULL};
  assert_null(sx_executable_new(&cpu, planned_plan(p, true, true), 0, &p->arena));
  planned_free(p);
}

static int n_allocations;
static void *counted(void *context, size_t n_bytes) {
  (void)context;
  n_allocations++;
  return malloc(n_bytes);
}

/* An execution allocates nothing, and can be repeated with other data bound. */
static void executing_allocates_nothing(void **state) {
  (void)state;
  planned *p = planned_random(77, 150);
  p->memory.allocate = counted;
  const sx_plan *plan = planned_plan(p, true, true);
  sx_cpu cpu = {sx_kernels(sx_simd_best()), NULL, &p->memory, NULL};
  sx_executable *e = sx_executable_new(&cpu, plan, 7, &p->arena);
  outside first = outside_of(plan, 1), second = outside_of(plan, 1);
  int before = n_allocations;
  for (int round = 0; round < 2; round++) {
    outside *o = round ? &second : &first;
    for (uint32_t b = 0; b < o->n; b++)
      if (o->data[b]) sx_executable_bind(e, b, o->data[b]);
    sx_stopped why;
    assert_true(sx_executable_execute(e, &why));
  }
  assert_int_equal(n_allocations, before);
  for (size_t b = 0; b < plan->buffers.n; b++)
    if (plan->buffers.items[b].kind == SX_BUFFER_OUTPUT)
      assert_memory_equal(first.data[b], second.data[b], (size_t)plan->buffers.items[b].n_bytes);
  sx_executable_free(e);
  outside_free(&first);
  outside_free(&second);
  planned_free(p);
}

/* Several in one workspace, made before it is taken and after, executed in turn: each as it is alone. */
static void executables_share_a_workspace(void **state) {
  (void)state;
  enum { N = 4 };
  planned *p[N];
  sx_workspace workspace = {0};
  sx_executable *made[N];
  for (int i = 0; i < N; i++) {
    p[i] = planned_random(100 + (uint64_t)i, 120);
    sx_cpu cpu = {sx_kernels(sx_simd_best()), NULL, &p[i]->memory, &workspace};
    if (i == N - 1) { /* it may need more than there is */
      assert_true(sx_workspace_take(&workspace, &p[0]->memory));
      workspace.n_bytes = 64;
    }
    made[i] = sx_executable_new(&cpu, planned_plan(p[i], true, true), 7, &p[i]->arena);
    assert_non_null(made[i]);
  }
  assert_int_equal(workspace.n_bytes, 64); /* what is taken stays as it is */
  for (int round = 0; round < 2 * N; round++) {
    int i = round % N;
    const sx_plan *plan = planned_plan(p[i], true, true);
    outside alone = outside_of(plan, 1), shared = outside_of(plan, 1);
    sx_stopped why;
    assert_true(run_in(p[i], plan, (way){true, true, sx_simd_best(), 1}, &alone, &why));
    for (uint32_t b = 0; b < shared.n; b++)
      if (shared.data[b]) sx_executable_bind(made[i], b, shared.data[b]);
    assert_true(sx_executable_execute(made[i], &why));
    for (size_t b = 0; b < plan->buffers.n; b++)
      if (plan->buffers.items[b].kind == SX_BUFFER_OUTPUT)
        assert_memory_equal(alone.data[b], shared.data[b], (size_t)plan->buffers.items[b].n_bytes);
    outside_free(&alone);
    outside_free(&shared);
  }
  for (int i = 0; i < N; i++) sx_executable_free(made[i]);
  sx_workspace_give(&workspace, &p[0]->memory);
  for (int i = 0; i < N; i++) planned_free(p[i]);
}

/* Subnormals and roundings are those of numerics 1, whatever the caller's processor modes. */
static void modes_of_the_caller_change_nothing(void **state) {
  (void)state;
  planned *p = planned_text(
      "graph \"g\"\n"
      "%0 = param {path \"x\"} : f32 [100 100]\n"
      "%1 = const {value 3} : f32 [100 100]\n"
      "%2 = div %0 %1 : f32 [100 100]\n"
      "%3 = exp %2 : f32 [100 100]\n"
      "%4 = const {value 1e-38} : f32 [100 100]\n"
      "%5 = mul %2 %4 : f32 [100 100]\n"
      "%6 = einsum %5 %3 {labels \"ij,jk->ik\"} : f32 [100 100]\n"
      "output \"a\" %3\noutput \"b\" %5\noutput \"c\" %6\n");
  fenv_t before;
  fegetenv(&before);
  void **expected = interpret(p->graph, 7, 1);
  for (size_t i = 0; i < N_WAYS; i++) {
    if (!sx_simd_available(all_ways[i].simd)) continue;
    const sx_plan *plan = plan_in(p, all_ways[i]);
    outside got = outside_of(plan, 1);
    sx_stopped why;
    fesetround(FE_UPWARD);
#if defined(__SSE2__)
    _mm_setcsr(_mm_getcsr() | 0x8040); /* results and operands that are subnormal become 0 */
#endif
    assert_true(run_in(p, plan, all_ways[i], &got, &why));
    assert_int_equal(fegetround(), FE_UPWARD);
    fesetenv(&before);
    check_equal(p, expected, plan, &got, all_ways[i], 4);
    outside_free(&got);
  }
  interpret_free(p->graph, expected);
  planned_free(p);
}

static void levels_have_names(void **state) {
  (void)state;
  assert_string_equal(sx_simd_name(SX_SIMD_REFERENCE), "reference");
  assert_string_equal(sx_simd_name(SX_SIMD_AVX512), "avx512");
  assert_true(sx_simd_available(SX_SIMD_REFERENCE) && sx_simd_available(SX_SIMD_SCALAR));
  assert_true(sx_simd_available(sx_simd_best()) && sx_simd_best() != SX_SIMD_REFERENCE);
  for (sx_simd simd = SX_SIMD_REFERENCE; simd < SX_N_SIMD; simd++)
    if (sx_simd_available(simd)) assert_int_equal(sx_kernels(simd)->simd, simd);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(levels_have_names),
      cmocka_unit_test(broadcasts_of_every_kind),
      cmocka_unit_test(rows_of_every_length),
      cmocka_unit_test(columns_of_every_width),
      cmocka_unit_test(columns_of_what_a_group_computes),
      cmocka_unit_test(columns_of_what_a_row_has_one_of),
      cmocka_unit_test(columns_of_short_rows),
      cmocka_unit_test(columns_after_another_group),
      cmocka_unit_test(long_groups_and_many_tiles),
      cmocka_unit_test(chains_of_every_dtype),
      cmocka_unit_test(copies_of_views),
      cmocka_unit_test(a_product_and_its_transposition),
      cmocka_unit_test(a_large_transposition),
      cmocka_unit_test(products_lie_as_they_are_read),
      cmocka_unit_test(updates_of_many_sizes),
      cmocka_unit_test(empty_shapes),
      cmocka_unit_test(bits_do_not_depend_on_how),
      cmocka_unit_test(an_id_out_of_range_stops),
      cmocka_unit_test(keys_are_hashes_of_names),
      cmocka_unit_test(every_value_can_be_observed),
      cmocka_unit_test(no_memory_is_null),
      cmocka_unit_test(executing_allocates_nothing),
      cmocka_unit_test(executables_share_a_workspace),
      cmocka_unit_test(modes_of_the_caller_change_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
