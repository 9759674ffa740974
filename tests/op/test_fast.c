/* Every fast kernel equals the reference loop, bit for bit, at every SIMD level of the machine and with
 * 1, 2, 3 and 7 threads, on random calls (see kernel_case.h), or declines and writes nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../libsexp/cpu/operand.h"
#include "../common/cmocka_all.h"
#include "../common/kernel_case.h"
#include "../common/quick.h"

static const int thread_counts[] = {1, 2, 3, 7};
enum { N_POOLS = 4, GUARD = 64, ELEMENT_LIMIT = 1 << 21, FEWEST_CASES = 20 };
static sx_pool *pools[N_POOLS];

static int start_pools(void **state) {
  (void)state;
  for (int k = 0; k < N_POOLS; k++) pools[k] = sx_pool_new(thread_counts[k]);
  return 0;
}

static int stop_pools(void **state) {
  (void)state;
  for (int k = 0; k < N_POOLS; k++) sx_pool_free(pools[k]);
  return 0;
}

/* Results with a guard behind them, filled with a pattern that no kernel writes by chance. */
static char *new_result(int64_t bytes) {
  char *memory = NULL;
  if (posix_memalign((void **)&memory, 64, (size_t)bytes + 2 * GUARD)) abort();
  memset(memory, 0xa5, (size_t)bytes + 2 * GUARD);
  return memory;
}

static void check_guard(const kernel_case *c, const char *result, int64_t bytes, const char *level) {
  for (int k = 0; k < GUARD; k++)
    if ((unsigned char)result[bytes + k] != 0xa5) fail_msg("%s at %s: writes beyond its result", c->text, level);
}

static void check_equal(const kernel_case *c, const char *want, const char *got, const char *level, int n_threads) {
  int64_t bytes = kernel_case_bytes(c), each = sx_element_bytes(c->out.dtype);
  if (memcmp(want, got, (size_t)bytes) == 0) return;
  int64_t at = 0;
  while (want[at] == got[at]) at++;
  at /= each;
  uint32_t a = 0, b = 0;
  memcpy(&a, want + at * each, (size_t)each);
  memcpy(&b, got + at * each, (size_t)each);
  fail_msg("%s at %s, %d threads: element %lld of %lld is %08x, the reference says %08x", c->text, level, n_threads,
           (long long)at, (long long)kernel_case_elements(c), b, a);
}

/* Runs the fast kernel of a level; true: it took the call. */
static bool check_level(kernel_case *c, sx_simd simd, int pool, const char *want, int64_t want_fault) {
  const sx_kernel_set *set = sx_kernels(simd);
  int64_t bytes = kernel_case_bytes(c), scratch_bytes;
  void *scratch = kernel_case_scratch(c, simd, thread_counts[pool], &scratch_bytes);
  memset((char *)scratch + scratch_bytes, 0xa5, GUARD);
  char *result = new_result(bytes);
  sx_fault fault;
  sx_call call = kernel_case_call(c, result, scratch, &fault, pools[pool]);
  bool taken = set->fast[c->node.op](&call);
  check_guard(c, result, bytes, sx_simd_name(simd));
  for (int k = 0; k < GUARD; k++)
    if (((unsigned char *)scratch)[scratch_bytes + k] != 0xa5)
      fail_msg("%s at %s: writes beyond its scratch", c->text, sx_simd_name(simd));
  if (taken) {
    canonicalize(result, c->out.dtype, kernel_case_elements(c));
    check_equal(c, want, result, sx_simd_name(simd), thread_counts[pool]);
    if (atomic_load(&fault.at) != want_fault) fail_msg("%s at %s: another fault", c->text, sx_simd_name(simd));
  } else {
    for (int64_t k = 0; k < bytes; k++)
      if ((unsigned char)result[k] != 0xa5) fail_msg("%s at %s: declined, but wrote", c->text, sx_simd_name(simd));
  }
  free(result);
  free(scratch);
  return taken;
}

static bool check_case(kernel_case *c, uint64_t turn) {
  int64_t bytes = kernel_case_bytes(c), scratch_bytes;
  void *scratch = kernel_case_scratch(c, SX_SIMD_REFERENCE, 1, &scratch_bytes);
  char *want = new_result(bytes);
  sx_fault fault;
  sx_call call = kernel_case_call(c, want, scratch, &fault, NULL);
  sx_reference[c->node.op](&call);
  check_guard(c, want, bytes, "reference");
  canonicalize(want, c->out.dtype, kernel_case_elements(c));
  bool taken = true;
  for (sx_simd simd = SX_SIMD_SCALAR; simd < SX_N_SIMD; simd++)
    if (sx_simd_available(simd)) taken = check_level(c, simd, (int)(turn % N_POOLS), want, atomic_load(&fault.at));
  free(want);
  free(scratch);
  return taken;
}

static bool has_fast(sx_op op) { return sx_kernels(SX_SIMD_SCALAR)->fast[op] != NULL; }

/* n cases of every operation that has a fast kernel; many of them must be taken. */
static void check_all(uint64_t first_seed, uint64_t n, int64_t largest) {
  const char *only = getenv("TEST_OP");
  for (sx_op op = 0; op < SX_N_OPS; op++) {
    if (!has_fast(op) || (only && strcmp(only, sx_op_describe(op)->name) != 0)) continue;
    uint64_t n_taken = 0, n_cases = 0;
    for (uint64_t seed = first_seed; seed < first_seed + n; seed++) {
      kernel_case c;
      kernel_case_make(&c, op, seed, largest);
      if (kernel_case_elements(&c) <= ELEMENT_LIMIT) {
        n_cases++;
        n_taken += check_case(&c, seed);
      }
      kernel_case_free(&c);
    }
    if (n_cases >= FEWEST_CASES && n_taken * 4 < n_cases)
      fail_msg("%s: only %llu of %llu calls taken", sx_op_describe(op)->name, (unsigned long long)n_taken,
               (unsigned long long)n_cases);
  }
}

static uint64_t scaled(uint64_t n) { return test_is_quick() ? (n + 9) / 10 : n; }

static void small_calls(void **state) {
  (void)state;
  check_all(1, scaled(1000), 5);
}

static void middle_calls(void **state) {
  (void)state;
  check_all(100000, scaled(400), 40);
}

static void large_calls(void **state) {
  (void)state;
  check_all(200000, scaled(30), 150);
}

/* sx_element of every level against the scalar definition, over lengths and starts. */
static void element_tiles(void **state) {
  (void)state;
  for (sx_op op = 0; op < SX_N_OPS; op++) {
    if (sx_op_describe(op)->class != SX_CLASS_ELEMENT) continue;
    for (uint64_t seed = 0; seed < scaled(300); seed++) {
      kernel_case c;
      kernel_case_make(&c, op, seed, 60);
      int64_t n = kernel_case_elements(&c), bytes = kernel_case_bytes(&c);
      const void *inputs[3] = {NULL, NULL, NULL};
      char *copies[3] = {NULL, NULL, NULL};
      int64_t start = (int64_t)(seed % 5);
      sx_dtype from = c.inputs[op == SX_OP_WHERE].dtype;
      for (uint32_t k = 0; k < c.n_inputs; k++) { /* contiguous copies at odd starts */
        int64_t each = sx_element_bytes(c.inputs[k].dtype), index[SX_RANK_MAX] = {0};
        copies[k] = new_result((n + start) * each);
        for (int64_t j = 0; j < n; j++) {
          sx_move_element(copies[k], start + j, c.inputs[k].data, sx_operand_at(&c.inputs[k], index), each);
          sx_index_next(index, c.inputs[k].dims, c.inputs[k].rank);
        }
        inputs[k] = copies[k] + start * each;
      }
      char *want = new_result(bytes);
      sx_kernels(SX_SIMD_REFERENCE)->element(op, from, c.out.dtype, want, inputs, n);
      canonicalize(want, c.out.dtype, n);
      for (sx_simd simd = SX_SIMD_SCALAR; simd < SX_N_SIMD; simd++) {
        if (!sx_simd_available(simd)) continue;
        char *got = new_result(bytes);
        sx_kernels(simd)->element(op, from, c.out.dtype, got, inputs, n);
        check_guard(&c, got, bytes, sx_simd_name(simd));
        canonicalize(got, c.out.dtype, n);
        check_equal(&c, want, got, sx_simd_name(simd), 1);
        free(got);
      }
      if (c.n_inputs > 0 && from == c.out.dtype && op != SX_OP_WHERE) { /* over its own first input */
        sx_kernels(sx_simd_best())->element(op, from, c.out.dtype, (void *)(uintptr_t)inputs[0], inputs, n);
        canonicalize((void *)(uintptr_t)inputs[0], c.out.dtype, n);
        check_equal(&c, want, inputs[0], "in place", 1);
      }
      for (int k = 0; k < 3; k++) free(copies[k]);
      free(want);
      kernel_case_free(&c);
    }
  }
}

/* The strided reference of an element node equals the contiguous one element by element: both are used. */
static void every_operation_has_a_reference_and_a_case(void **state) {
  (void)state;
  int n = 0;
  for (sx_op op = 0; op < SX_N_OPS; op++) {
    bool computes = kernel_case_has(op);
    sx_op_class class = sx_op_describe(op)->class;
    bool input = op == SX_OP_INPUT || op == SX_OP_PARAM || op == SX_OP_STATE;
    assert_int_equal(computes, class != SX_CLASS_META && !input);
    assert_int_equal(sx_reference[op] != NULL, computes);
    if (!computes) continue;
    n++;
    for (uint64_t seed = 0; seed < 20; seed++) {
      kernel_case c;
      kernel_case_make(&c, op, seed, 6);
      int64_t scratch_bytes;
      void *scratch = kernel_case_scratch(&c, SX_SIMD_REFERENCE, 1, &scratch_bytes);
      char *result = new_result(kernel_case_bytes(&c));
      sx_fault fault;
      sx_call call = kernel_case_call(&c, result, scratch, &fault, NULL);
      sx_reference[op](&call);
      check_guard(&c, result, kernel_case_bytes(&c), "reference");
      free(result);
      free(scratch);
      kernel_case_free(&c);
    }
  }
  print_message("%d operations\n", n);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_operation_has_a_reference_and_a_case),
      cmocka_unit_test(element_tiles),
      cmocka_unit_test(small_calls),
      cmocka_unit_test(middle_calls),
      cmocka_unit_test(large_calls),
  };
  return cmocka_run_group_tests(tests, start_pools, stop_pools);
}
