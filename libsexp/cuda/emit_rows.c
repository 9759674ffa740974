/* Element groups with rows (rows.c): a warp a row, or a block whose warps each have a chunk of a long one.
 *
 *   m = max x   e = exp (x - m)   s = sum e   y = e / s     is three passes over a row: {m} {e s} {y}.
 *
 * Lane j of a warp takes elements j, j + 32, j + 64 ... of its chunk, which is the order of a sum. What a later pass
 * needs of an earlier one stays in registers where a row is short; else later passes evaluate it anew, and all results
 * are written in the last pass. A result may take the place of an input: either way an element of it is written after
 * its last reading, by the thread that reads it. Results of one element a row are written last. */
#include <inttypes.h>
#include <string.h>

#include "emit_parts.h"

enum {
  LANES = 32,
  CHUNK = 4096,
  STEPS_KEPT = 32,     /* of a warp over a row whose values stay in registers */
  REGISTERS_KEPT = 96, /* for them, a lane */
  UNROLLED_COST = 2500 /* of what is written out for all steps, about */
};

typedef struct rows {
  sx_emitter *e;
  const sx_members *members;
  int64_t row, n_rows, chunks, steps;
  bool keeps;
  uint32_t n_passes;
  bool *kept;      /* per member: stays in registers from its pass on */
  uint32_t *first; /* per wide member: the pass that reads or evaluates it first */
} rows;

static const sx_member *member(const rows *r, uint32_t i) { return &r->members->items[i]; }
static bool is_wide_node(const sx_member *one) { return !one->input && !one->narrow && !one->reduces; }

/* ---- what passes do ------------------------------------------------------------------------------- */

static int64_t cost(const sx_member *one) {
  switch (one->op) {
    case SX_OP_POW:
    case SX_OP_ATAN2:
    case SX_OP_MOD:
    case SX_OP_IDIV:
      return 80;
    case SX_OP_SIN:
    case SX_OP_COS:
    case SX_OP_TAN:
      return 60;
    case SX_OP_EXP:
    case SX_OP_EXP2:
    case SX_OP_EXPM1:
    case SX_OP_LOG:
    case SX_OP_LOG2:
    case SX_OP_LOG1P:
    case SX_OP_TANH:
    case SX_OP_ERF:
      return 30;
    default:
      return 1;
  }
}

static void note_use(rows *r, uint32_t input, uint32_t pass) {
  if (member(r, input)->narrow || member(r, input)->reduces || member(r, input)->literal) return;
  if (pass < r->first[input]) r->first[input] = pass;
}

static void plan_passes(rows *r) {
  const sx_members *m = r->members;
  int64_t n_kept = 0, work = 0;
  for (uint32_t i = 0; i < m->n; i++) {
    r->first[i] = m->items[i].input ? UINT32_MAX : m->items[i].phase;
    if (is_wide_node(&m->items[i]) || m->items[i].reduces)
      if (m->items[i].phase + 1 > r->n_passes) r->n_passes = m->items[i].phase + 1;
  }
  for (uint32_t i = m->n_inputs; i < m->n; i++) {
    if (m->items[i].narrow && !m->items[i].reduces) continue;
    for (uint32_t k = 0; k < m->items[i].n_inputs; k++) note_use(r, m->items[i].inputs[k], m->items[i].phase);
  }
  for (uint32_t i = m->n_inputs; i < m->n; i++) {
    const sx_member *one = &m->items[i];
    if (one->narrow && !one->reduces) continue;
    work += cost(one);
    for (uint32_t k = 0; k < one->n_inputs; k++) {
      const sx_member *input = member(r, one->inputs[k]);
      if (input->narrow || input->reduces || input->literal || r->first[one->inputs[k]] == one->phase) continue;
      if (!r->kept[one->inputs[k]]) n_kept++;
      r->kept[one->inputs[k]] = true;
    }
  }
  r->keeps = r->chunks == 1 && r->steps <= STEPS_KEPT && n_kept * r->steps <= REGISTERS_KEPT &&
             work * r->steps <= UNROLLED_COST;
}

/* Marks what evaluating the member takes. Inputs have lower numbers than what uses them. */
static void close_needs(const rows *r, bool *needed) {
  for (uint32_t i = r->members->n; i-- > r->members->n_inputs;) {
    const sx_member *one = member(r, i);
    if (!needed[i] || (one->narrow && !one->reduces)) continue;
    for (uint32_t k = 0; k < one->n_inputs; k++)
      if (!member(r, one->inputs[k])->reduces) needed[one->inputs[k]] = true;
  }
}

static bool *needs_of_pass(const rows *r, uint32_t pass) {
  bool *needed = SX_NEW_N(r->e->arena, bool, r->members->n);
  bool last = pass + 1 == r->n_passes;
  for (uint32_t i = 0; i < r->members->n; i++) {
    const sx_member *one = member(r, i);
    if (r->keeps)
      needed[i] = r->first[i] == pass && !(one->narrow && !one->reduces);
    else
      needed[i] = (one->reduces && one->phase == pass) || (last && is_wide_node(one) && one->stored);
  }
  if (!r->keeps) close_needs(r, needed);
  return needed;
}

/* ---- texts ---------------------------------------------------------------------------------------- */

static const char *fold_of(const sx_member *one) {
  return one->op == SX_OP_SUM ? "sx_sum_float" : one->op == SX_OP_REDUCEMAX ? "sx_max_float" : "sx_min_float";
}

/* Declares where rows of wide inputs begin and reads narrow ones. */
static void begin_row(rows *r) {
  for (uint32_t i = 0; i < r->members->n_inputs; i++) {
    const sx_member *one = member(r, i);
    if (one->literal) continue;
    const char *at = sx_format(r->e->arena, "at%u", i);
    sx_path outer, inner;
    if (one->narrow) {
      sx_emit_place(r->e, &one->path, "r", at);
      sx_emit_add(r->e, "  const %s %s = sx_get(p%u[%s]);\n", sx_emit_register(one->dtype), one->name, i, at);
    } else if (sx_path_split(&one->path, r->row, &outer, &inner)) {
      sx_emit_place(r->e, &outer, "r", sx_format(r->e->arena, "row%u", i));
    }
  }
}

static void read_wide(rows *r, uint32_t i) {
  const sx_member *one = member(r, i);
  const char *at = sx_format(r->e->arena, "at%u", i), *type = sx_emit_register(one->dtype);
  sx_path outer, inner;
  if (sx_path_split(&one->path, r->row, &outer, &inner)) {
    sx_emit_place(r->e, &inner, "(U)x", at);
    sx_emit_add(r->e, "  const %s %s = sx_get(p%u[row%u + %s]);\n", type, one->name, i, i, at);
  } else {
    sx_emit_place(r->e, &one->path, sx_format(r->e->arena, "r * %" PRId64 " + (U)x", r->row), at);
    sx_emit_add(r->e, "  const %s %s = sx_get(p%u[%s]);\n", type, one->name, i, at);
  }
}

static void write_stored(rows *r, uint32_t i) {
  const sx_member *one = member(r, i);
  sx_emit_add(r->e, "  p%u[(J)r * %" PRId64 " + x] = sx_made<%s>(%s);\n", i, r->row, sx_emit_type(one->dtype),
              one->name);
}

/* One element of the pass. */
static void add_step(rows *r, uint32_t pass, const bool *needed) {
  const sx_members *m = r->members;
  for (uint32_t i = 0; i < m->n; i++) {
    const sx_member *one = member(r, i);
    bool wide = !one->narrow && !one->reduces && !one->literal;
    if (wide && r->keeps && r->kept[i] && r->first[i] < pass)
      sx_emit_add(r->e, "  const %s %s = k%u[k];\n", sx_emit_register(one->dtype), one->name, i);
    if (!needed[i] || !(wide || one->reduces)) continue;
    if (one->reduces) {
      const char *value =
          member(r, one->inputs[0])->literal ? member(r, one->inputs[0])->literal : member(r, one->inputs[0])->name;
      sx_emit_add(r->e, "  s%u = %s::join(s%u, %s);\n", i, fold_of(one), i, value);
    } else if (one->input) {
      read_wide(r, i);
    } else {
      sx_emit_add(r->e, "  const %s %s = %s;\n", sx_emit_register(one->dtype), one->name,
                  sx_members_expression(m, i, r->e->arena));
    }
    if (wide && r->keeps && r->kept[i]) sx_emit_add(r->e, "  k%u[k] = %s;\n", i, one->name);
  }
  for (uint32_t i = m->n_inputs; i < m->n; i++)
    if (needed[i] && is_wide_node(member(r, i)) && member(r, i)->stored && (r->keeps || pass + 1 == r->n_passes))
      write_stored(r, i);
}

static void add_loop(rows *r, uint32_t pass, const bool *needed) {
  bool any = false;
  for (uint32_t i = r->members->n_inputs; i < r->members->n; i++)
    any = any || (needed[i] && (is_wide_node(member(r, i)) || member(r, i)->reduces));
  if (!any) return;
  if (r->keeps)
    sx_emit_add(r->e,
                "#pragma unroll\n  for (int k = 0; k < %" PRId64
                "; k++) {\n  const int x = 32 * k + lane;\n"
                "  if (32 * k + 32 <= %" PRId64 " || x < %" PRId64 ") {\n",
                r->steps, r->row, r->row);
  else
    sx_emit_add(r->e, "  for (int x = begin + lane; x < end; x += 32) {\n  {\n");
  add_step(r, pass, needed);
  sx_emit_add(r->e, "  }\n  }\n");
}

static void add_pass(rows *r, uint32_t pass) {
  const sx_members *m = r->members;
  const bool *needed = needs_of_pass(r, pass);
  for (uint32_t i = m->n_inputs; i < m->n; i++) {
    const sx_member *one = member(r, i);
    if (one->narrow && !one->reduces && one->phase == pass)
      sx_emit_add(r->e, "  const %s %s = %s;\n", sx_emit_register(one->dtype), one->name,
                  sx_members_expression(m, i, r->e->arena));
    if (one->reduces && one->phase == pass) sx_emit_add(r->e, "  float s%u = %s::none();\n", i, fold_of(one));
  }
  add_loop(r, pass, needed);
  for (uint32_t i = m->n_inputs; i < m->n; i++) {
    const sx_member *one = member(r, i);
    if (!one->reduces || one->phase != pass) continue;
    if (r->chunks == 1)
      sx_emit_add(r->e, "  const float %s = sx_warp_join<%s>(s%u);\n", one->name, fold_of(one), i);
    else
      sx_emit_add(r->e, "  const float %s = sx_block_join<%s>(sx_warp_join<%s>(s%u), part);\n", one->name, fold_of(one),
                  fold_of(one), i);
  }
}

/* Narrow nodes that only the end needs have phases past the last pass over the row. */
static void end_row(rows *r) {
  const sx_members *m = r->members;
  for (uint32_t i = m->n_inputs; i < m->n; i++) {
    const sx_member *one = member(r, i);
    if (one->narrow && !one->reduces && one->phase >= r->n_passes)
      sx_emit_add(r->e, "  const %s %s = %s;\n", sx_emit_register(one->dtype), one->name,
                  sx_members_expression(m, i, r->e->arena));
  }
  if (r->chunks > 1) sx_emit_add(r->e, "  __syncthreads();\n");
  sx_emit_add(r->e, "  if (%s == 0) {\n", r->chunks > 1 ? "threadIdx.x" : "lane");
  for (uint32_t i = m->n_inputs; i < m->n; i++) {
    const sx_member *one = member(r, i);
    if (one->narrow && one->stored)
      sx_emit_add(r->e, "  p%u[r] = sx_made<%s>(%s);\n", i, sx_emit_type(one->dtype), one->name);
  }
  sx_emit_add(r->e, "  }\n");
}

static void add_geometry(rows *r, uint32_t threads) {
  sx_emit_add(r->e, "  const int lane = threadIdx.x %% 32;\n");
  if (r->chunks > 1) {
    sx_emit_add(r->e, "  __shared__ float part[%" PRId64 "];\n  const U r = blockIdx.x;\n", r->chunks);
    sx_emit_add(r->e, "  const int begin = threadIdx.x / 32 * %d;\n", CHUNK);
    sx_emit_add(r->e, "  const int end = begin + %d < %" PRId64 " ? begin + %d : %" PRId64 ";\n", CHUNK, r->row, CHUNK,
                r->row);
    return;
  }
  sx_emit_add(r->e, "  const U r = (U)blockIdx.x * %u + threadIdx.x / 32;\n  if (r >= %" PRId64 ") return;\n",
              threads / LANES, r->n_rows);
  if (!r->keeps) sx_emit_add(r->e, "  const int begin = 0, end = %" PRId64 ";\n", r->row);
}

void sx_emit_rows(sx_lowering *lowering, uint32_t task, const sx_members *members) {
  sx_emitter e;
  sx_emit_begin(&e, lowering, task, lowering->plan->tasks.items[task].nodes[0]);
  e.overlaps = true;
  sx_members_parameters(&e, members);
  sx_emit_count(&e, members->n_elements);
  rows r = {.e = &e, .members = members, .row = members->row, .n_rows = members->n_elements / members->row};
  r.chunks = (r.row + CHUNK - 1) / CHUNK;
  r.steps = (r.row + LANES - 1) / LANES;
  r.kept = SX_NEW_N(e.arena, bool, members->n);
  r.first = SX_NEW_N(e.arena, uint32_t, members->n);
  plan_passes(&r);
  uint32_t threads = r.chunks > 1 ? (uint32_t)r.chunks * LANES : SX_EMIT_THREADS / 2;
  int64_t rows_of_block = r.chunks > 1 ? 1 : threads / LANES;
  add_geometry(&r, threads);
  for (uint32_t i = 0; i < members->n && r.keeps; i++)
    if (r.kept[i]) sx_emit_add(&e, "  %s k%u[%" PRId64 "];\n", sx_emit_register(members->items[i].dtype), i, r.steps);
  begin_row(&r);
  for (uint32_t pass = 0; pass < r.n_passes; pass++) add_pass(&r, pass);
  end_row(&r);
  sx_emit_end(&e, "rows", (int64_t[]){(r.n_rows + rows_of_block - 1) / rows_of_block, 1, 1}, threads);
}
