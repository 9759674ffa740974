/* The list of work of a plan while it is lowered. */
#include "work.h"

#include <stdio.h>
#include <string.h>

#include "../base/sha256.h"

sx_place sx_place_of(const sx_lowering *lowering, sx_id node) {
  const sx_view *view = &lowering->plan->views[node];
  int64_t n_bytes = (int64_t)sx_dtype_bytes(sx_node_at(lowering->plan->graph, node)->dtype);
  return (sx_place){view->buffer, view->offset * n_bytes};
}

static void print_digest(char digits[17], const char *text, sx_memory *memory) {
  uint8_t digest[32];
  sx_sha256 *hash = sx_sha256_new();
  if (!hash) sx_memory_fail(memory);
  sx_sha256_add(hash, text, strlen(text));
  sx_sha256_end(hash, digest);
  for (int i = 0; i < 8; i++) snprintf(digits + 2 * i, 3, "%02x", digest[i]);
}

static const char *put_name(sx_arena *arena, const char *text, const char *name) {
  sx_text named;
  sx_text_init(&named, arena);
  for (const char *at; (at = strstr(text, "KERNEL")); text = at + strlen("KERNEL")) {
    sx_text_add_bytes(&named, text, (size_t)(at - text));
    sx_text_add(&named, name);
  }
  sx_text_add(&named, text);
  return sx_text_get(&named);
}

const char *sx_lowering_kernel(sx_lowering *lowering, const char *prefix, const char *text) {
  char digits[17];
  print_digest(digits, text, lowering->arena->memory);
  const char *name = sx_format(lowering->arena, "%s_%s", prefix, digits);
  for (size_t i = 0; i < lowering->kernels.n; i++)
    if (!strcmp(lowering->kernels.items[i].name, name)) return lowering->kernels.items[i].name;
  sx_kernel_source source = {name, put_name(lowering->arena, text, name)};
  SX_PUSH(lowering->arena, lowering->kernels, source);
  return name;
}

sx_work *sx_lowering_add(sx_lowering *lowering, sx_work_kind kind, uint32_t task, sx_id node) {
  SX_PUSH(lowering->arena, lowering->works, ((sx_work){.kind = kind, .task = task, .node = node}));
  return &lowering->works.items[lowering->works.n - 1];
}

uint64_t sx_lowering_fault(sx_lowering *lowering, sx_id node) {
  SX_PUSH(lowering->arena, lowering->faults, node);
  return lowering->faults.n - 1;
}

sx_place sx_lowering_scratch(sx_lowering *lowering, int64_t before, int64_t n_bytes) {
  int64_t begin = (before + 255) / 256 * 256;
  if (begin + n_bytes > lowering->scratch_bytes) lowering->scratch_bytes = begin + n_bytes;
  return (sx_place){SX_PLACE_SCRATCH, begin};
}
