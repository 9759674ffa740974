#include "plain_gemm.h"

#include "../../libsexp/cpu/operand.h"
#include "cmocka_all.h"

/* Column-major: what cuBLAS says of leading dimensions. */
static void check(const sx_gemm_call *call) {
  assert_true(call->m > 0 && call->n > 0 && call->k > 0 && call->batch > 0);
  assert_true(call->a_leading >= (call->a_transposed ? call->k : call->m));
  assert_true(call->b_leading >= (call->b_transposed ? call->n : call->k));
  assert_true(call->c_leading >= call->m);
}

void plain_gemm(const sx_gemm_call *call, sx_dtype from, sx_dtype to, const void *a, const void *b, void *c) {
  check(call);
  int64_t a_row = call->a_transposed ? call->a_leading : 1, a_depth = call->a_transposed ? 1 : call->a_leading;
  int64_t b_depth = call->b_transposed ? call->b_leading : 1, b_column = call->b_transposed ? 1 : call->b_leading;
  for (int64_t batch = 0; batch < call->batch; batch++)
    for (int64_t j = 0; j < call->n; j++)
      for (int64_t i = 0; i < call->m; i++) {
        int64_t a_at = call->a + batch * call->a_stride + i * a_row;
        int64_t b_at = call->b + batch * call->b_stride + j * b_column;
        float sum = 0.0f;
        for (int64_t k = 0; k < call->k; k++)
          sum += sx_load(a, from, a_at + k * a_depth).f * sx_load(b, from, b_at + k * b_depth).f;
        int64_t c_at = call->c + batch * call->c_stride + j * call->c_leading + i;
        sx_store(c, to, c_at, (sx_value){.f = sum});
      }
}
