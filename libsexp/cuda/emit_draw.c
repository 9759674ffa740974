/* Draws: a thread a block of four elements of the stream. */
#include "../ir/draw_key.h"
#include "emit_parts.h"

enum { FOUR = 4 };

void sx_emit_draw(sx_lowering *l, uint32_t task, sx_id id) {
  const sx_node *node = sx_node_at(l->plan->graph, id);
  int64_t n = sx_node_elements(node);
  uint64_t key;
  if (!n) return;
  if (!sx_draw_key(l->plan->graph, id, l->draw_seed, &key)) sx_memory_fail(l->arena->memory);
  sx_emitter e;
  sx_emit_begin(&e, l, task, id);
  sx_emit_output(&e, "out", id);
  for (uint32_t k = 0; k < node->n_inputs; k++) sx_emit_input(&e, sx_format(e.arena, "salt%u", k), node->inputs[k]);
  sx_emit_i64(&e, "stream", (int64_t)key);
  sx_emit_i64(&e, "n", n);
  e.flops = 100.0 * (double)n;
  sx_emit_add(&e, "  const unsigned long long block = (unsigned long long)blockIdx.x * %d + threadIdx.x;\n",
              SX_EMIT_THREADS);
  sx_emit_add(&e, "  const long long i = 4 * block;\n  if (i >= n) return;\n");
  sx_emit_add(&e, "  unsigned long long key = (unsigned long long)stream;\n");
  for (uint32_t k = 0; k < node->n_inputs; k++)
    sx_emit_add(&e, "  key = sx_draw_salt_word(key, %u, salt%u[0]);\n", k, k);
  sx_emit_add(&e, "  sx_four<float> four;\n  %s(key, block, four.at);\n",
              node->op == SX_OP_NORMAL ? "sx_draw_normal_block" : "sx_draw_uniform_block");
  sx_emit_add(&e, "  if (n - i >= 4) *(sx_four<float> *)(out + i) = four;\n");
  sx_emit_add(&e, "  else sx_write_some(out + i, four, n - i);\n");
  sx_emit_end_each(&e, node->op == SX_OP_NORMAL ? "normal" : "uniform", (n + FOUR - 1) / FOUR);
}
