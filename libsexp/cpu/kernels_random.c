/* Draws, a block of four elements of the stream at a time. */
#include "../../kernels/draws.h"
#include "level.h"

enum { BLOCK = 4, GROUP = 8, LEAST_WORK = 1 << 12 };

typedef struct draw_job {
  float *out;
  int64_t n;
  uint64_t key;
  bool normal;
} draw_job;

/* Blocks begin to end - 1; the last may be cut by the end of the result. */
static void draw_blocks(void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const draw_job *job = context;
  for (int64_t block = begin; block < end; block += GROUP) {
    float values[GROUP][BLOCK];
    for (int64_t k = 0; k < GROUP; k++) {
      if (job->normal)
        sx_draw_normal_block(job->key, (uint64_t)(block + k), values[k]);
      else
        sx_draw_uniform_block(job->key, (uint64_t)(block + k), values[k]);
    }
    int64_t blocks = sx_min_i64(GROUP, end - block), n = sx_min_i64(blocks * BLOCK, job->n - block * BLOCK);
    memcpy(job->out + block * BLOCK, values, (size_t)n * 4);
  }
}

bool SX_AT_LEVEL(sx_fast_draw)(const sx_call *call) {
  int64_t n = sx_operand_count(&call->out);
  if (call->out.dtype != SX_F32) return false;
  draw_job job = {call->out.data, n, sx_call_stream(call), call->node->op == SX_OP_NORMAL};
  if (n > 0) sx_pool_run(call->pool, sx_ceil_div(n, BLOCK), LEAST_WORK / BLOCK, draw_blocks, &job);
  return true;
}
