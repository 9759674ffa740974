/* Element groups without rows: a thread evaluates the whole group for four neighbours, or, where a group reads and
 * writes so much that four of all of it do not fit the registers, for one.
 *
 *   four elements of every input are read, those that lie side by side as one;
 *   the group is evaluated four times, in registers;
 *   the stored nodes are written, four as one.
 *
 * The last thread does the same with what is left. All is read before anything is written, so a result may take the
 * place of an input of the same elements. */
#include <inttypes.h>

#include "emit_parts.h"

enum { FOUR = 4, STREAMS_MOST = 16 };

/* How four neighbours of an input are found. */
typedef enum reading {
  READ_FOUR,  /* side by side and aligned */
  READ_ONCE,  /* one element for all four */
  READ_SPLAT, /* one element for all of the group */
  READ_EACH
} reading;

static bool is_aligned(const sx_lowering *l, const sx_member *one) {
  return l->plan->views[one->node].offset % FOUR == 0;
}

static reading reading_of(const sx_lowering *l, const sx_member *one, int width) {
  const sx_path *path = &one->path;
  int last = path->rank - 1;
  if (sx_path_is_splat(path)) return READ_SPLAT;
  if (width == 1) return READ_EACH;
  if (sx_path_is_contiguous(path)) return is_aligned(l, one) ? READ_FOUR : READ_EACH;
  if (path->dims[last] % FOUR) return READ_EACH;
  if (path->strides[last] == 0) return READ_ONCE;
  if (path->strides[last] != 1 || !is_aligned(l, one)) return READ_EACH;
  for (int i = 0; i < last; i++)
    if (path->strides[i] % FOUR) return READ_EACH;
  return READ_FOUR;
}

static void read_four(sx_emitter *e, const sx_member *one, uint32_t i) {
  const char *type = sx_emit_type(one->dtype), *at = sx_format(e->arena, "at%u", i);
  sx_emit_place(e, &one->path, "i", at);
  sx_emit_add(e, "  sx_four<%s> a%u;\n", type, i);
  sx_emit_add(e, "  if (n - i >= 4) a%u = *(const sx_four<%s> *)(p%u + %s);\n", i, type, i, at);
  sx_emit_add(e, "  else sx_read_some(a%u, p%u + %s, n - i);\n", i, i, at);
}

static void read_before(sx_emitter *e, const sx_member *one, uint32_t i, reading how) {
  const char *type = sx_emit_register(one->dtype);
  if (how == READ_FOUR) read_four(e, one, i);
  if (how == READ_SPLAT) sx_emit_add(e, "  const %s v%u = sx_get(p%u[0]);\n", type, i, i);
  if (how != READ_ONCE) return;
  const char *at = sx_format(e->arena, "at%u", i);
  sx_emit_place(e, &one->path, "i", at);
  sx_emit_add(e, "  const %s v%u = sx_get(p%u[%s]);\n", type, i, i, at);
}

static void read_within(sx_emitter *e, const sx_member *one, uint32_t i, reading how) {
  const char *type = sx_emit_register(one->dtype);
  if (how == READ_FOUR) sx_emit_add(e, "  const %s v%u = sx_get(a%u.at[x]);\n", type, i, i);
  if (how != READ_EACH) return;
  const char *at = sx_format(e->arena, "at%u", i);
  sx_emit_place(e, &one->path, "(x < n - i ? i + x : i)", at);
  sx_emit_add(e, "  const %s v%u = sx_get(p%u[%s]);\n", type, i, i, at);
}

static void write_some(sx_emitter *e, const sx_member *one, uint32_t i, int width) {
  const char *type = sx_emit_type(one->dtype);
  if (width == 1) {
    sx_emit_add(e, "  p%u[i] = b%u.at[0];\n", i, i);
    return;
  }
  sx_emit_add(e, "  if (n - i >= 4) *(sx_four<%s> *)(p%u + i) = b%u;\n", type, i, i);
  sx_emit_add(e, "  else sx_write_some(p%u + i, b%u, n - i);\n", i, i);
}

/* The text works for any number of elements, places and n being arguments. */
static bool is_any_size(const sx_lowering *l, const sx_members *members) {
  for (uint32_t i = 0; i < members->n_inputs; i++) {
    const sx_member *one = &members->items[i];
    if (one->literal || sx_path_is_splat(&one->path)) continue;
    if (!sx_path_is_contiguous(&one->path) || !is_aligned(l, one)) return false;
  }
  return true;
}

/* Neighbours that a thread evaluates. */
static int width_of(const sx_members *members) {
  int streams = 0;
  for (uint32_t i = 0; i < members->n; i++) {
    const sx_member *one = &members->items[i];
    streams += one->input ? !one->literal && !sx_path_is_splat(&one->path) : one->stored;
  }
  return streams > STREAMS_MOST ? 1 : FOUR;
}

static void add_body(sx_emitter *e, const sx_members *members, int width) {
  reading *how = SX_NEW_N(e->arena, reading, members->n_inputs + 1);
  for (uint32_t i = 0; i < members->n_inputs; i++) {
    how[i] = reading_of(e->lowering, &members->items[i], width);
    if (!members->items[i].literal) read_before(e, &members->items[i], i, how[i]);
  }
  for (uint32_t i = members->n_inputs; i < members->n; i++)
    if (members->items[i].stored) sx_emit_add(e, "  sx_four<%s> b%u;\n", sx_emit_type(members->items[i].dtype), i);
  sx_emit_add(e, "#pragma unroll\n  for (int x = 0; x < %d; x++) {\n", width);
  for (uint32_t i = 0; i < members->n; i++) {
    const sx_member *one = &members->items[i];
    if (one->literal) continue;
    if (one->input) {
      read_within(e, one, i, how[i]);
      continue;
    }
    sx_emit_add(e, "  const %s v%u = %s;\n", sx_emit_register(one->dtype), i,
                sx_members_expression(members, i, e->arena));
    if (one->stored) sx_emit_add(e, "  b%u.at[x] = sx_made<%s>(v%u);\n", i, sx_emit_type(one->dtype), i);
  }
  sx_emit_add(e, "  }\n");
  for (uint32_t i = members->n_inputs; i < members->n; i++)
    if (members->items[i].stored) write_some(e, &members->items[i], i, width);
}

/* The body as a function of a table of places, so that one launch can serve several groups (emit_merge.c). */
static void make_mergeable(sx_emitter *e, const sx_members *members, int64_t n, int width) {
  const char *index = e->wide ? "unsigned long long" : "unsigned";
  sx_text_addf(&e->outside, "static __device__ __forceinline__ void KERNEL_at(void *const *p, %s n, %s thread) {\n",
               index, index);
  sx_text_addf(&e->outside, "  typedef %s U;\n  typedef %s J;\n", index, e->wide ? "long long" : "int");
  sx_text_addf(&e->outside, "  const U i = thread * %d;\n  if (i >= n) return;\n", width);
  uint32_t place = 0;
  sx_text table;
  sx_text_init(&table, e->arena);
  for (uint32_t i = 0; i < members->n; i++) {
    const sx_member *one = &members->items[i];
    if (one->input ? one->literal != NULL : !one->stored) continue;
    const char *type = sx_format(e->arena, "%s%s *", one->input ? "const " : "", sx_emit_type(one->dtype));
    sx_text_addf(&e->outside, "  %sp%u = (%s)p[%u];\n", type, i, type, place++);
    sx_text_addf(&table, "%s(void *)p%u", place > 1 ? ", " : "", i);
  }
  sx_text_addf(&e->outside, "%s}\n\n", sx_text_get(&e->body));
  sx_text_init(&e->body, e->arena);
  sx_emit_add(e, "  void *const p[] = {%s};\n", sx_text_get(&table));
  sx_emit_add(e, "  KERNEL_at(p, (U)n, (U)blockIdx.x * %d + threadIdx.x);\n", SX_EMIT_THREADS);
  sx_emit_i64(e, "n", n);
}

void sx_emit_group(sx_lowering *lowering, uint32_t task) {
  const sx_task *one = &lowering->plan->tasks.items[task];
  sx_members members = sx_members_of(lowering->plan, one, lowering->arena);
  int64_t n = members.n_elements, width = width_of(&members), threads = (n + width - 1) / width;
  if (!n) return;
  if (members.row) {
    sx_emit_rows(lowering, task, &members);
    return;
  }
  sx_emitter e;
  sx_emit_begin(&e, lowering, task, one->nodes[0]);
  e.overlaps = true;
  sx_members_parameters(&e, &members);
  sx_emit_count(&e, n);
  bool merges = is_any_size(lowering, &members);
  if (!merges) {
    sx_emit_add(&e, "  const U n = %" PRId64 ";\n", n);
    sx_emit_add(&e, "  const U i = ((U)blockIdx.x * %d + threadIdx.x) * %d;\n  if (i >= n) return;\n", SX_EMIT_THREADS,
                (int)width);
  }
  add_body(&e, &members, (int)width);
  if (merges) make_mergeable(&e, &members, n, (int)width);
  sx_emit_end_each(&e, "group", threads)->launch.merges = merges;
}
