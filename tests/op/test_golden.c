/* The bits of every primitive: SHA-256 over the canonical results of fixed calls, kept in
 * tests/golden/primitives.txt. They are the same for every compiler, optimization level, SIMD level and
 * number of threads; another digest is another numerics version.
 *
 *   test_golden            checks
 *   test_golden --update   writes the file anew, from the reference loops */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../libsexp/base/sha256.h"
#include "../../libsexp/cpu/operand.h"
#include "../common/cmocka_all.h"
#include "../common/kernel_case.h"

#define GOLDEN "tests/golden/primitives.txt"
enum { N_CALLS = 40, LARGEST = 40, DIGEST_TEXT = 72 };

static void compute(kernel_case *c, sx_simd simd, sx_call *call) {
  const sx_kernel_set *set = sx_kernels(simd);
  sx_op op = c->node.op;
  if (sx_op_describe(op)->class == SX_CLASS_ELEMENT && kernel_case_elements(c) > 0) {
    const void *inputs[3] = {NULL, NULL, NULL};
    for (uint32_t k = 0; k < c->n_inputs; k++) inputs[k] = c->inputs[k].data;
    set->element(op, c->inputs[op == SX_OP_WHERE].dtype, c->out.dtype, call->out.data, inputs, kernel_case_elements(c));
  } else if (!set->fast[op] || !set->fast[op](call)) {
    sx_reference[op](call);
  }
}

static void digest_of(sx_op op, sx_simd simd, sx_pool *pool, char text[DIGEST_TEXT]) {
  sx_sha256 *hash = sx_sha256_new();
  if (!hash) abort();
  for (uint64_t seed = 0; seed < N_CALLS; seed++) {
    kernel_case c;
    kernel_case_make_contiguous(&c, op, seed, LARGEST);
    int64_t scratch_bytes, bytes = kernel_case_bytes(&c);
    void *scratch = kernel_case_scratch(&c, simd, sx_pool_threads(pool), &scratch_bytes);
    char *result = calloc(1, (size_t)bytes + 1);
    sx_fault fault;
    sx_call call = kernel_case_call(&c, result, scratch, &fault, pool);
    compute(&c, simd, &call);
    canonicalize(result, c.out.dtype, kernel_case_elements(&c));
    sx_sha256_add_part(hash, result, (size_t)bytes);
    free(result);
    free(scratch);
    kernel_case_free(&c);
  }
  uint8_t digest[32];
  sx_sha256_end(hash, digest);
  sx_sha256_text(digest, text);
}

static bool find_golden(const char *name, char text[DIGEST_TEXT]) {
  FILE *file = fopen(GOLDEN, "r");
  char line[200], read_name[64], read_text[80];
  bool found = false;
  while (file && !found && fgets(line, sizeof line, file)) {
    if (sscanf(line, "%63s %79s", read_name, read_text) != 2 || strcmp(read_name, name) != 0) continue;
    snprintf(text, DIGEST_TEXT, "%.71s", read_text);
    found = true;
  }
  if (file) fclose(file);
  return found;
}

static void digests_are_the_golden_ones(void **state) {
  (void)state;
  sx_pool *pool = sx_pool_new(3);
  for (sx_op op = 0; op < SX_N_OPS; op++) {
    if (!kernel_case_has(op)) continue;
    const char *name = sx_op_describe(op)->name;
    char want[DIGEST_TEXT], got[DIGEST_TEXT];
    if (!find_golden(name, want)) fail_msg("%s: not in " GOLDEN, name);
    for (sx_simd simd = SX_SIMD_REFERENCE; simd < SX_N_SIMD; simd++) {
      if (!sx_simd_available(simd)) continue;
      digest_of(op, simd, simd == SX_SIMD_REFERENCE ? NULL : pool, got);
      if (strcmp(want, got) != 0) fail_msg("%s at %s: %s, the golden one is %s", name, sx_simd_name(simd), got, want);
    }
  }
  sx_pool_free(pool);
}

static int update(void) {
  FILE *file = fopen(GOLDEN, "w");
  if (!file) return 1;
  for (sx_op op = 0; op < SX_N_OPS; op++) {
    if (!kernel_case_has(op)) continue;
    char text[DIGEST_TEXT];
    digest_of(op, SX_SIMD_REFERENCE, NULL, text);
    fprintf(file, "%-16s %s\n", sx_op_describe(op)->name, text);
  }
  return fclose(file) != 0;
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "--update") == 0) return update();
  const struct CMUnitTest tests[] = {cmocka_unit_test(digests_are_the_golden_ones)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
