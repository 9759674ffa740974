/* Einsum as calls of cuBLAS: whatever the labels, sizes and strides, the calls are done here in plain C with the same
 * arguments, and give what the reference loop gives. Values are small integers, so that sums are exact in any order and
 * results compare bit for bit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../libsexp/cpu/operand.h"
#include "../../libsexp/cuda/product_map.h"
#include "../common/cmocka_all.h"
#include "../common/kernel_case.h"
#include "../common/plain_gemm.h"

static void fill_integers(sx_operand *operand, uint64_t seed) {
  int64_t index[SX_RANK_MAX] = {0}, n = sx_operand_count(operand);
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    int64_t at = sx_operand_at(operand, index);
    sx_store(operand->data, operand->dtype, at, (sx_value){.f = (float)(int)(seed >> 60) - 7.0f});
    sx_index_next(index, operand->dims, operand->rank);
  }
}

static void *take(int64_t n_bytes) {
  void *memory = malloc((size_t)n_bytes + 64);
  assert_non_null(memory);
  memset(memory, 0xa5, (size_t)n_bytes + 64);
  return memory;
}

/* What sx_lower_copy does on the device. */
static void copy(void *to, const void *from, const sx_product_copy *copy, int64_t n_element) {
  int64_t index[2 * SX_RANK_MAX] = {0};
  for (int64_t i = 0; i < copy->n; i++) {
    int64_t at = 0;
    for (int axis = 0; axis < copy->rank; axis++) at += index[axis] * copy->strides[axis];
    sx_move_element(to, i, from, at, n_element);
    sx_index_next(index, copy->dims, copy->rank);
  }
}

static void *operand(const sx_operand *from, const sx_product_copy *how) {
  if (!how->is) return from->data;
  void *to = take(how->n * sx_element_bytes(from->dtype));
  copy(to, from->data, how, sx_element_bytes(from->dtype));
  return to;
}

static void run(const sx_product_mapping *m, const kernel_case *c, void *out, sx_arena *arena) {
  void *sides[2] = {operand(&c->inputs[0], &m->a), operand(&c->inputs[1], &m->b)};
  int64_t n_element = sx_element_bytes(c->out.dtype);
  void *result = m->c.is ? take(m->c.n * n_element) : out;
  const sx_gemm_call *calls = sx_product_calls(m, arena);
  for (int64_t i = 0; i < m->n_calls; i++)
    plain_gemm(&calls[i], c->inputs[0].dtype, c->out.dtype, sides[m->exchanged], sides[!m->exchanged], result);
  if (m->c.is) {
    copy(out, result, &m->c, n_element);
    free(result);
  }
  if (m->a.is) free(sides[0]);
  if (m->b.is) free(sides[1]);
}

typedef struct counts {
  int n, n_maps, n_copies[3], n_batches, n_calls, n_exchanged;
} counts;

static void check_case(kernel_case *c, counts *seen) {
  for (int i = 0; i < 2; i++) fill_integers(&c->inputs[i], (uint64_t)(seen->n + i));
  c->node.op = SX_OP_EINSUM;
  c->node.dtype = c->out.dtype;
  c->node.rank = c->out.rank;
  c->node.dims = c->dims[CASE_INPUTS];
  sx_strided inputs[2];
  for (int i = 0; i < 2; i++)
    inputs[i] = (sx_strided){c->inputs[i].dtype, c->inputs[i].rank, c->inputs[i].dims, c->inputs[i].strides};
  sx_contract contract = sx_contract_of(&c->node, inputs), merged = sx_contract_merged(&contract);
  int64_t n = contract.batch.count * contract.rows.count * contract.columns.count;
  assert_int_equal(n, kernel_case_elements(c));
  seen->n++;
  if (n == 0 || contract.depth.count == 0) return;
  sx_product_mapping mapping;
  if (!sx_product_map(&mapping, &merged)) fail_msg("%s has no mapping", c->text);
  seen->n_maps++;
  seen->n_copies[0] += mapping.a.is;
  seen->n_copies[1] += mapping.b.is;
  seen->n_copies[2] += mapping.c.is;
  seen->n_batches += mapping.call.batch > 1;
  seen->n_calls += mapping.n_calls > 1;
  seen->n_exchanged += mapping.exchanged;
  int64_t n_bytes = kernel_case_bytes(c);
  void *expected = take(n_bytes), *out = take(n_bytes);
  sx_fault fault;
  sx_call call = kernel_case_call(c, expected, NULL, &fault, NULL);
  sx_reference[SX_OP_EINSUM](&call);
  sx_memory memory = sx_memory_default();
  sx_arena arena;
  sx_arena_init(&arena, &memory);
  run(&mapping, c, out, &arena);
  sx_arena_free(&arena);
  if (memcmp(out, expected, (size_t)n_bytes + 64)) fail_msg("%s differs", c->text);
  free(out);
  free(expected);
}

static void test_every_way(void **state) {
  (void)state;
  counts seen = {0};
  int n = getenv("QUICK") && *getenv("QUICK") ? 400 : 4000;
  for (int seed = 0; seed < n; seed++) {
    kernel_case c;
    kernel_case_make(&c, SX_OP_EINSUM, (uint64_t)seed, 13);
    check_case(&c, &seen);
    kernel_case_free(&c);
  }
  printf("%d einsums: %d mapped (%d exchanged, %d batched; %d %d %d copies of a, b, c)\n", seen.n, seen.n_maps,
         seen.n_exchanged, seen.n_batches, seen.n_copies[0], seen.n_copies[1], seen.n_copies[2]);
  assert_true(seen.n_maps > n / 2 && seen.n_exchanged > 10 && seen.n_maps - seen.n_exchanged > 10);
  assert_true(seen.n_batches > 10);
  for (int i = 0; i < 3; i++) assert_true(seen.n_copies[i] > 10);
}

/* Heads inside of rows, so large that two calls are cheaper than copies. */
static void test_several_calls(void **state) {
  (void)state;
  kernel_case c = {.n_inputs = 2, .labels = "bthd,bshd->bhts", .text = "heads"};
  const int64_t dims[] = {2, 260, 3, 64}, strides[] = {260 * 3 * 64, 3 * 64, 64, 1}, out[] = {2, 3, 260, 260};
  const int64_t out_strides[] = {3 * 260 * 260, 260 * 260, 260, 1};
  memcpy(c.dims[CASE_INPUTS], out, sizeof out);
  memcpy(c.strides[CASE_INPUTS], out_strides, sizeof out_strides);
  for (int i = 0; i < 2; i++) c.inputs[i] = (sx_operand){take(2 * 260 * 3 * 64 * 4), SX_F32, 4, dims, strides};
  c.out = (sx_operand){NULL, SX_F32, 4, c.dims[CASE_INPUTS], c.strides[CASE_INPUTS]};
  c.node.text = c.labels;
  counts seen = {0};
  check_case(&c, &seen);
  assert_int_equal(seen.n_calls, 1);
  assert_int_equal(seen.n_copies[0] + seen.n_copies[1] + seen.n_copies[2], 0);
  for (int i = 0; i < 2; i++) free(c.inputs[i].data);
}

/* ---- what common products become ----------------------------------------------------------------- */

static sx_product_mapping map_of(const char *labels, const int64_t dims[128], const int64_t *a_strides,
                                 const int64_t *b_strides) {
  static int64_t kept[3][SX_RANK_MAX], strides[2][SX_RANK_MAX];
  sx_node node = {.op = SX_OP_EINSUM, .dtype = SX_F32, .text = labels, .dims = kept[2]};
  sx_strided inputs[2];
  const char *text = labels;
  for (int i = 0; i < 3; i++) {
    int rank = (int)strcspn(text, ",-");
    for (int axis = 0; axis < rank; axis++) kept[i][axis] = dims[(unsigned char)text[axis]];
    if (i == 2) {
      node.rank = rank;
      break;
    }
    int64_t step = 1;
    for (int axis = rank - 1; axis >= 0; axis--) {
      strides[i][axis] = step;
      step *= kept[i][axis];
    }
    const int64_t *given = i == 0 ? a_strides : b_strides;
    inputs[i] = (sx_strided){SX_F32, rank, kept[i], given ? given : strides[i]};
    text += rank + (i == 0 ? 1 : 2);
  }
  sx_contract contract = sx_contract_of(&node, inputs);
  contract = sx_contract_merged(&contract);
  sx_product_mapping mapping;
  assert_true(sx_product_map(&mapping, &contract));
  return mapping;
}

static void test_matrices(void **state) {
  (void)state;
  int64_t dims[128] = {['m'] = 5, ['n'] = 7, ['k'] = 11, ['b'] = 3, ['t'] = 4};
  sx_product_mapping m = map_of("mk,kn->mn", dims, NULL, NULL);
  assert_true(m.exchanged && !m.call.a_transposed && !m.call.b_transposed);
  assert_int_equal(m.call.m, 7);
  assert_int_equal(m.call.n, 5);
  assert_int_equal(m.call.k, 11);
  assert_int_equal(m.call.a_leading, 7);
  assert_int_equal(m.call.b_leading, 11);
  assert_int_equal(m.call.c_leading, 7);
  m = map_of("km,nk->mn", dims, NULL, NULL);
  assert_true(m.call.a_transposed && m.call.b_transposed);
  m = map_of("mk,kn->nm", dims, NULL, NULL);
  assert_true(!m.exchanged);
  /* Leading axes are rows; batches are one call. */
  m = map_of("btk,kn->btn", dims, NULL, NULL);
  assert_int_equal(m.call.n, 12);
  assert_int_equal(m.call.batch, 1);
  m = map_of("bmk,bkn->bmn", dims, NULL, NULL);
  assert_int_equal(m.call.batch, 3);
  assert_int_equal(m.call.a_stride, 77);
  assert_int_equal(m.call.c_stride, 35);
  assert_int_equal(m.n_calls, 1);
}

/* Attention: heads lie inside of rows, which no single stride tells, and nothing is copied all the same. */
static void test_attention(void **state) {
  (void)state;
  int64_t dims[128] = {['b'] = 8, ['t'] = 256, ['s'] = 256, ['h'] = 12, ['d'] = 64};
  sx_product_mapping m = map_of("bthd,bshd->bhts", dims, NULL, NULL);
  assert_false(m.a.is || m.b.is || m.c.is);
  assert_int_equal(m.call.batch, 12);
  assert_int_equal(m.n_calls, 8);
  m = map_of("bhts,bshd->bthd", dims, NULL, NULL);
  assert_false(m.a.is || m.b.is || m.c.is);
  /* More calls than are taken: the smaller operands are copied. */
  dims['b'] = 64;
  dims['h'] = 64;
  m = map_of("bthd,bshd->bhts", dims, NULL, NULL);
  assert_true(m.a.is && m.b.is && !m.c.is);
  assert_int_equal(m.n_calls, 1);
  assert_int_equal(m.call.batch, 4096);
}

static void test_odd_strides(void **state) {
  (void)state;
  int64_t dims[128] = {['m'] = 50, ['n'] = 70, ['k'] = 110};
  const int64_t padded[] = {128, 1}, backwards[] = {-110, 1}, apart[] = {220, 2}, spread[] = {0, 1};
  assert_int_equal(map_of("mk,kn->mn", dims, padded, NULL).call.b_leading, 128);
  assert_false(map_of("mk,kn->mn", dims, padded, NULL).a.is);
  assert_true(map_of("mk,kn->mn", dims, backwards, NULL).a.is);
  assert_true(map_of("mk,kn->mn", dims, apart, NULL).a.is);
  assert_true(map_of("mk,kn->mn", dims, spread, NULL).a.is);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_way), cmocka_unit_test(test_several_calls),
                                     cmocka_unit_test(test_matrices), cmocka_unit_test(test_attention),
                                     cmocka_unit_test(test_odd_strides)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
