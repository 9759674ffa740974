/* Launches of one elementwise text as one launch with a table of places and sizes.
 *
 *   group_5a1f(p, g, m; 3 places of w1, n)   group_5a1f(… of w2 …)   becomes: merged_07c2({w1 …, n, first block} {w2
 * …})
 *
 * Blocks find their entry by its first block. A launch joins an earlier one where it needs nothing of what is between,
 * nor writes what that needs. */
#include <inttypes.h>
#include <string.h>

#include "emit_parts.h"

enum { ENTRIES_MAX = 64, PARAMETER_BYTES = 4096, BETWEEN_MAX = 256 };

/* ---- what depends on what ------------------------------------------------------------------------- */

static const char *outside_name(const sx_buffer *buffer) {
  return buffer->kind == SX_BUFFER_EXTERNAL || buffer->kind == SX_BUFFER_OUTPUT ? buffer->name : NULL;
}

/* Whether two places may be one memory: an output may be bound to the input of its name. */
static bool may_overlap(const sx_plan *plan, sx_place a, sx_place b) {
  if (a.buffer == b.buffer) return true;
  if (a.buffer >= plan->buffers.n || b.buffer >= plan->buffers.n) return false;
  const sx_buffer *x = &plan->buffers.items[a.buffer], *y = &plan->buffers.items[b.buffer];
  if (x->kind == SX_BUFFER_TEMPORARY && y->kind == SX_BUFFER_TEMPORARY)
    return x->offset < y->offset + y->n_bytes && y->offset < x->offset + x->n_bytes;
  const char *x_name = outside_name(x), *y_name = outside_name(y);
  return x_name && y_name && !strcmp(x_name, y_name);
}

static bool are_independent(const sx_plan *plan, const sx_launch *a, const sx_launch *b) {
  for (uint32_t i = 0; i < a->n_arguments; i++)
    for (uint32_t k = 0; k < b->n_arguments; k++) {
      const sx_argument *x = &a->arguments[i], *y = &b->arguments[k];
      if (x->kind != SX_ARGUMENT_PLACE || y->kind != SX_ARGUMENT_PLACE || !(x->written || y->written)) continue;
      if (may_overlap(plan, x->place, y->place)) return false;
    }
  return true;
}

/* Works that become one, and those between them that stay behind. */
typedef struct gathered {
  size_t together[ENTRIES_MAX], n;
  size_t between[BETWEEN_MAX], n_between;
  uint64_t blocks;
} gathered;

static bool may_join(const sx_lowering *l, const gathered *g, const sx_launch *one) {
  for (size_t i = 0; i < g->n; i++)
    if (!are_independent(l->plan, &l->works.items[g->together[i]].launch, one)) return false;
  for (size_t i = 0; i < g->n_between; i++)
    if (!are_independent(l->plan, &l->works.items[g->between[i]].launch, one)) return false;
  return true;
}

/* Launches that can be one with that of work `first`, which come after it and are not taken yet. */
static gathered gather(const sx_lowering *l, size_t first, const bool *taken) {
  const sx_launch *begin = &l->works.items[first].launch;
  gathered g = {.together = {first}, .n = 1, .blocks = begin->grid[0]};
  size_t most = PARAMETER_BYTES / (8 * ((size_t)begin->n_arguments + 1));
  if (most > ENTRIES_MAX) most = ENTRIES_MAX;
  for (size_t at = first + 1; at < l->works.n && g.n < most && g.n_between < BETWEEN_MAX; at++) {
    const sx_work *one = &l->works.items[at];
    if (taken[at]) continue;
    if (one->kind != SX_WORK_LAUNCH) break;
    bool alike = one->launch.kernel == begin->kernel && g.blocks + one->launch.grid[0] <= INT32_MAX;
    if (!alike || !may_join(l, &g, &one->launch)) {
      g.between[g.n_between++] = at;
      continue;
    }
    g.together[g.n++] = at;
    g.blocks += one->launch.grid[0];
  }
  return g;
}

/* ---- the merged launch ---------------------------------------------------------------------------- */

static const char *text_of(const sx_lowering *l, const char *name) {
  for (size_t i = 0; i < l->kernels.n; i++)
    if (l->kernels.items[i].name == name) return l->kernels.items[i].text;
  return "";
}

/* The function of the kernel's text, for a kernel of another name. */
static const char *function_of(const sx_lowering *l, const char *name) {
  const char *text = text_of(l, name), *end = strstr(text, "extern \"C\"");
  sx_text function;
  sx_text_init(&function, l->arena);
  for (const char *at; (at = strstr(text, name)) && at < end; text = at + strlen(name)) {
    sx_text_add_bytes(&function, text, (size_t)(at - text));
    sx_text_add(&function, "KERNEL");
  }
  sx_text_add_bytes(&function, text, (size_t)(end - text));
  return sx_text_get(&function);
}

static const char *merged_text(const sx_lowering *l, const sx_launch *one, size_t n) {
  const char *index = strstr(text_of(l, one->kernel), "unsigned long long n") ? "unsigned long long" : "unsigned";
  sx_text text;
  sx_text_init(&text, l->arena);
  sx_text_add(&text, function_of(l, one->kernel));
  sx_text_addf(&text,
               "struct KERNEL_table {\n  struct {\n    void *p[%u];\n    long long n, first;\n  } entries[%zu];\n};\n",
               one->n_arguments - 1, n);
  sx_text_addf(
      &text,
      "extern \"C\" __global__ void __launch_bounds__(%d) KERNEL(const __grid_constant__ KERNEL_table table) {\n"
      "  int k = 0;\n",
      SX_EMIT_THREADS);
  for (size_t step = ENTRIES_MAX / 2; step; step /= 2)
    if (step < n)
      sx_text_addf(&text, "  if (k + %zu < %zu && table.entries[k + %zu].first <= blockIdx.x) k += %zu;\n", step, n,
                   step, step);
  sx_text_addf(&text,
               "  const unsigned block = blockIdx.x - (unsigned)table.entries[k].first;\n"
               "  KERNEL_at(table.entries[k].p, (%s)table.entries[k].n, (%s)block * %d + threadIdx.x);\n}\n",
               index, index, SX_EMIT_THREADS);
  return sx_text_get(&text);
}

static sx_work merge(sx_lowering *l, const gathered *g) {
  sx_work merged = l->works.items[g->together[0]];
  const sx_launch *first = &l->works.items[g->together[0]].launch;
  uint32_t n_places = first->n_arguments - 1, n_each = n_places + 2;
  merged.launch.kernel = sx_lowering_kernel(l, "merged", merged_text(l, first, g->n));
  merged.launch.arguments = SX_NEW_N(l->arena, sx_argument, g->n * n_each);
  merged.launch.n_arguments = (uint32_t)g->n * n_each;
  merged.launch.packed = true;
  merged.launch.merges = false;
  merged.launch.grid[0] = 0;
  merged.flops = merged.bytes = 0;
  for (size_t i = 0; i < g->n; i++) {
    const sx_work *one = &l->works.items[g->together[i]];
    sx_argument *to = &merged.launch.arguments[i * n_each];
    memcpy(to, one->launch.arguments, ((size_t)n_places + 1) * sizeof *to);
    to[n_places + 1] = (sx_argument){.kind = SX_ARGUMENT_I64, .bits = merged.launch.grid[0]};
    merged.launch.grid[0] += one->launch.grid[0];
    merged.flops += one->flops;
    merged.bytes += one->bytes;
  }
  return merged;
}

/* Groups' kernels that no launch names any more are not compiled. */
static void drop_unused(sx_lowering *l) {
  size_t kept = 0;
  for (size_t k = 0; k < l->kernels.n; k++) {
    bool used = strncmp(l->kernels.items[k].name, "group_", strlen("group_")) != 0;
    for (size_t i = 0; i < l->works.n && !used; i++)
      used = l->works.items[i].kind == SX_WORK_LAUNCH && l->works.items[i].launch.kernel == l->kernels.items[k].name;
    if (used) l->kernels.items[kept++] = l->kernels.items[k];
  }
  l->kernels.n = kept;
}

void sx_emit_merge(sx_lowering *l) {
  size_t n = l->works.n, kept = 0;
  bool *taken = SX_NEW_N(l->arena, bool, n + 1);
  sx_work *works = SX_NEW_N(l->arena, sx_work, n + 1);
  for (size_t at = 0; at < n; at++) {
    const sx_work *one = &l->works.items[at];
    if (taken[at]) continue;
    gathered g = {.n = 1};
    if (one->kind == SX_WORK_LAUNCH && one->launch.merges) g = gather(l, at, taken);
    for (size_t i = 1; i < g.n; i++) taken[g.together[i]] = true;
    works[kept++] = g.n > 1 ? merge(l, &g) : *one;
  }
  if (kept == n) return;
  l->works.items = works;
  l->works.n = kept;
  l->works.room = n + 1;
  drop_unused(l);
}
