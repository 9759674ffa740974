/* Reference: draws, each element from the stream's key, salted by the inputs, and its own index. */
#include "../../kernels/draws.h"
#include "reference.h"

uint64_t sx_call_stream(const sx_call *call) {
  uint64_t key = call->stream_key;
  for (uint32_t k = 0; k < call->n_inputs; k++)
    key = sx_draw_salt_word(key, k, sx_load(call->inputs[k].data, call->inputs[k].dtype, 0).i);
  return key;
}

void sx_reference_draw(const sx_call *call) {
  bool normal = call->node->op == SX_OP_NORMAL;
  int64_t n = sx_operand_count(&call->out);
  uint64_t key = sx_call_stream(call);
  for (int64_t k = 0; k < n; k++) {
    float x = normal ? sx_draw_normal(key, (uint64_t)k) : sx_draw_uniform(key, (uint64_t)k);
    sx_store(call->out.data, call->out.dtype, k, (sx_value){.f = x});
  }
}
