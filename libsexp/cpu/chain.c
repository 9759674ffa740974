/* From the instructions of a chain to links: which value is in the accumulator, and which must be in memory.
 *
 *   a = x * 2   b = a + x   c = max(b, a)     becomes: load x, times 2, store a, plus x, max with a, store c
 *
 * A value is stored only if something but the next instruction uses it, or it is wanted outside the chain; and a
 * product or quotient of what is in memory anyway (a term) is not stored for its one use, but made there:
 *
 *   m = m * 0.9 + g * 0.1                             becomes: load g, times 0.1, m times 0.9 plus, store m */
#include "group.h"

#define NO_VALUE UINT32_MAX

typedef struct compiling {
  const sx_group *group;
  const sx_chain_kernels *chains;
  sx_group_step *step;
  uint32_t in_hand;             /* the value in the accumulator */
  uint32_t n_decided;           /* instructions of which it is known whether they are terms */
  uint32_t *uses;               /* per value: instructions of the chain that are yet to use it */
  uint32_t *locals;             /* per value: its place in a block, or NO_VALUE */
  uint32_t *listed;             /* per value: 1 + its number among the step's uses */
  const sx_instruction **terms; /* per value: what makes it where it is wanted, if no instruction of its own; or NULL */
  SX_VEC(uint32_t) free_locals;
  SX_VEC(sx_link) links;
  SX_VEC(sx_chain_use) step_uses;
  sx_arena *arena;
} compiling;

static const sx_group_value *value_of(const compiling *c, uint32_t value) { return &c->group->values[value]; }

/* One float for all elements that the chain walks. */
static bool is_spread(const compiling *c, uint32_t value) {
  const sx_group_value *one = value_of(c, value);
  if (one->place == SX_PLACE_SPLAT || one->place == SX_PLACE_ROW_SPLAT) return true;
  return one->scalar && !c->step->scalar;
}

/* In memory other than in registers, so that only a load can bring it there. */
static bool is_packed(const compiling *c, uint32_t value) {
  return c->chains->types->load[value_of(c, value)->dtype] && value_of(c, value)->place != SX_PLACE_LOCAL;
}

static sx_link *add_link(compiling *c, sx_handler *run) {
  SX_PUSH(c->arena, c->links, ((sx_link){.run = run}));
  return &c->links.items[c->links.n - 1];
}

static void note_use(compiling *c, uint32_t value, bool written) {
  const sx_group_value *one = value_of(c, value);
  if (one->place == SX_PLACE_LOCAL) return;
  if (!c->listed[value]) {
    SX_PUSH(c->arena, c->step_uses, ((sx_chain_use){.value = value}));
    c->listed[value] = (uint32_t)c->step_uses.n;
  }
  if (written) c->step_uses.items[c->listed[value] - 1].written = true;
}

static void set_operand(compiling *c, sx_link *link, int i, uint32_t value) {
  const sx_group_value *one = value_of(c, value);
  note_use(c, value, false);
  link->at[i] = one->place == SX_PLACE_LOCAL ? SX_GROUP_LOCALS + c->locals[value] : value;
  link->mask[i] = one->place == SX_PLACE_LOCAL || is_spread(c, value) ? 0 : -1;
}

static void add_with_operand(compiling *c, sx_handler *run, uint32_t value) {
  set_operand(c, add_link(c, run), 0, value);
}

static void take_in_hand(compiling *c, uint32_t value) {
  if (c->in_hand == value) return;
  sx_handler *run = is_packed(c, value) ? c->chains->types->load[value_of(c, value)->dtype] : c->chains->load;
  add_with_operand(c, is_spread(c, value) ? c->chains->spread : run, value);
  c->in_hand = value;
}

static uint32_t take_local(compiling *c) {
  return c->free_locals.n ? c->free_locals.items[--c->free_locals.n] : c->step->n_locals++;
}

static void store_local(compiling *c, uint32_t value) {
  c->locals[value] = take_local(c);
  add_with_operand(c, c->chains->store, value);
}

/* Loads a packed value into a place of its own for one instruction. */
static uint32_t unpack(compiling *c, uint32_t value) {
  uint32_t local = take_local(c);
  take_in_hand(c, value);
  add_link(c, c->chains->store)->at[0] = SX_GROUP_LOCALS + local;
  return local;
}

static uint32_t count_uses(const sx_instruction *one, uint32_t value) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < one->n_inputs; k++) n += one->inputs[k] == value;
  return n;
}

/* ---- terms --------------------------------------------------------------------------------------- */

/* As f32. */
static bool is_in_memory(const compiling *c, uint32_t value) {
  const sx_group_value *one = value_of(c, value);
  return one->dtype == SX_F32 && (one->place != SX_PLACE_LOCAL || c->locals[value] != NO_VALUE);
}

/* The term that the instruction can be, its vector in *x and its second operand in *y; SX_N_TERMS: none. */
static sx_term find_term(const compiling *c, const sx_instruction *one, uint32_t *x, uint32_t *y) {
  if ((one->op != SX_OP_MUL && one->op != SX_OP_DIV) || one->to != SX_F32) return SX_N_TERMS;
  *x = one->inputs[0], *y = one->inputs[1];
  if (!is_in_memory(c, *x) || !is_in_memory(c, *y)) return SX_N_TERMS;
  if (one->op == SX_OP_MUL && is_spread(c, *x)) *x = one->inputs[1], *y = one->inputs[0];
  if (is_spread(c, *x)) return SX_N_TERMS;
  if (is_spread(c, *y)) return one->op == SX_OP_MUL ? SX_TERM_SCALED : SX_TERM_QUOTIENT;
  return one->op == SX_OP_MUL ? SX_TERM_PRODUCT : SX_N_TERMS;
}

/* Whether the instruction can take the value as a term. */
static bool takes_term(const compiling *c, const sx_instruction *one, uint32_t value) {
  if (one->n_inputs != 2 || one->to != SX_F32 || !c->chains->terms[0][one->op][0]) return false;
  uint32_t other = one->inputs[one->inputs[0] == value];
  return other != value && !c->terms[other] && !is_spread(c, other);
}

/* Whether the instruction's operand is in the accumulator, which goes on to the next instruction. */
static bool is_in_line(const compiling *c, uint32_t i, uint32_t x, uint32_t y) {
  const sx_instruction *at = &c->step->instructions[i];
  if (i == 0 || !count_uses(at + 1, at->out)) return false;
  return at[-1].out == x || at[-1].out == y;
}

/* Its operands are read where it is used: nothing that is written before may lie there. */
static bool can_be_term(const compiling *c, uint32_t i) {
  const sx_group_step *step = c->step;
  const sx_instruction *one = &step->instructions[i];
  const sx_group_value *out = value_of(c, one->out);
  uint32_t x, y;
  if (out->place != SX_PLACE_LOCAL || out->sum || c->uses[one->out] != 1) return false;
  if (i + 1 == step->n_instructions || find_term(c, one, &x, &y) == SX_N_TERMS || is_in_line(c, i, x, y)) return false;
  for (uint32_t j = i + 1; j < step->n_instructions; j++) {
    const sx_instruction *next = &step->instructions[j];
    if (count_uses(next, one->out)) return takes_term(c, next, one->out);
    if (!next->folds && value_of(c, next->out)->place != SX_PLACE_LOCAL) return false;
  }
  return false;
}

/* The first instruction from i on that is no term, or their number. Decides which are as far as it goes, by what is in
 * memory now. */
static uint32_t pass_terms(compiling *c, uint32_t i) {
  for (; i < c->step->n_instructions; i++) {
    const sx_instruction *one = &c->step->instructions[i];
    if (i >= c->n_decided && can_be_term(c, i)) c->terms[one->out] = one;
    if (i >= c->n_decided) c->n_decided = i + 1;
    if (!c->terms[one->out]) break;
  }
  return i;
}

/* ---- instructions -------------------------------------------------------------------------------- */

/* Whether the instruction, the next one, takes the value from the accumulator and nowhere else. */
static bool takes_in_hand(const compiling *c, const sx_instruction *next, uint32_t value) {
  if (next->op == SX_OP_WHERE)
    return next->inputs[0] == value && next->inputs[1] != value && next->inputs[2] != value &&
           !is_packed(c, next->inputs[1]) && !is_packed(c, next->inputs[2]);
  if (next->n_inputs == 1) return next->inputs[0] == value;
  uint32_t other = next->inputs[next->inputs[0] == value];
  return other == value || !is_packed(c, other);
}

static void add_to_sum(compiling *c, uint32_t sum) {
  sx_link *link = add_link(c, c->chains->add);
  link->at[0] = SX_GROUP_SUMS + sum;
  link->mask[0] = -1;
  c->step->sums |= 1u << sum;
}

/* What the step reads first, and a sum of columns takes. */
static void sum_inputs(compiling *c) {
  for (uint32_t v = 0; v < c->group->n_inputs; v++) {
    const sx_group_value *one = value_of(c, v);
    if (!one->sum || &c->group->steps[one->first] != c->step) continue;
    take_in_hand(c, v);
    add_to_sum(c, one->sum - 1);
  }
}

static void put_result(compiling *c, uint32_t i) {
  const sx_instruction *one = &c->step->instructions[i];
  const sx_group_value *out = value_of(c, one->out);
  c->in_hand = one->out;
  if (out->sum) add_to_sum(c, out->sum - 1);
  if (out->place != SX_PLACE_LOCAL) {
    sx_handler *packed = c->chains->types->store[out->dtype];
    add_with_operand(c, packed ? packed : c->chains->store, one->out);
    note_use(c, one->out, true);
    return;
  }
  uint32_t after = pass_terms(c, i + 1);
  if (after < c->step->n_instructions) {
    const sx_instruction *next = &c->step->instructions[after];
    uint32_t n = count_uses(next, one->out);
    if (n && n == c->uses[one->out] && takes_in_hand(c, next, one->out)) return;
  }
  if (c->uses[one->out]) store_local(c, one->out);
}

static void compile_with_term(compiling *c, const sx_instruction *one, bool first) {
  uint32_t x = 0, y = 0;
  sx_term term = find_term(c, c->terms[one->inputs[!first]], &x, &y);
  take_in_hand(c, one->inputs[first]);
  sx_link *link = add_link(c, c->chains->terms[term][one->op][first]);
  set_operand(c, link, 0, x);
  set_operand(c, link, 1, y);
}

static void compile_binary(compiling *c, const sx_instruction *one) {
  bool integers = sx_lane_of(one->from) == SX_LANE_INTEGER;
  sx_handler *const *forms = integers ? c->chains->types->binary[one->op] : c->chains->binary[one->op];
  uint32_t a = one->inputs[0], b = one->inputs[1];
  if (c->terms[a] || c->terms[b]) {
    compile_with_term(c, one, c->terms[a] != NULL);
    return;
  }
  if (a == b) {
    take_in_hand(c, a);
    add_link(c, forms[SX_FORM_SELF]);
    return;
  }
  bool reversed = c->in_hand != a && (c->in_hand == b || is_spread(c, a));
  if (is_packed(c, a) != is_packed(c, b)) reversed = is_packed(c, b); /* bytes must be loaded, masks need not */
  uint32_t held = reversed ? b : a, other = reversed ? a : b;
  if (is_packed(c, other)) {
    uint32_t local = unpack(c, other);
    take_in_hand(c, held);
    add_link(c, forms[reversed ? SX_FORM_VECTOR_REVERSED : SX_FORM_VECTOR])->at[0] = SX_GROUP_LOCALS + local;
    SX_PUSH(c->arena, c->free_locals, local);
    return;
  }
  take_in_hand(c, held);
  sx_form form = is_spread(c, other) ? SX_FORM_SPREAD : SX_FORM_VECTOR;
  add_with_operand(c, forms[(int)form + (reversed ? 1 : 0)], other);
}

static void compile_where(compiling *c, const sx_instruction *one) {
  uint32_t unpacked[2] = {NO_VALUE, NO_VALUE};
  for (int k = 0; k < 2; k++)
    if (is_packed(c, one->inputs[1 + k])) unpacked[k] = unpack(c, one->inputs[1 + k]);
  take_in_hand(c, one->inputs[0]);
  bool x = is_spread(c, one->inputs[1]), y = is_spread(c, one->inputs[2]);
  add_link(c, c->chains->where[x][y]);
  for (int k = 0; k < 2; k++) {
    sx_link *link = &c->links.items[c->links.n - 1];
    if (unpacked[k] == NO_VALUE) {
      set_operand(c, link, k, one->inputs[1 + k]);
      continue;
    }
    link->at[k] = SX_GROUP_LOCALS + unpacked[k];
    SX_PUSH(c->arena, c->free_locals, unpacked[k]);
  }
}

/* NULL: the lanes hold the result already. */
static sx_handler *unary_handler(const sx_chain_kernels *chains, const sx_instruction *one) {
  sx_lane from = sx_lane_of(one->from);
  if (one->op == SX_OP_CAST) return chains->types->cast[from][sx_lane_of(one->to)];
  return from == SX_LANE_INTEGER ? chains->types->unary[one->op] : chains->unary[one->op];
}

bool sx_chain_takes(const sx_chain_kernels *chains, const sx_instruction *one) {
  sx_lane from = sx_lane_of(one->from);
  if (one->to == SX_U8) return false;
  if (one->op == SX_OP_CAST) return true;
  if (one->from == SX_U8) return false;
  if (one->op == SX_OP_WHERE) return true;
  if (one->op == SX_OP_AND || one->op == SX_OP_OR || one->op == SX_OP_NOT) return from == SX_LANE_MASK;
  if (one->folds) return one->from == SX_F32;
  if (from == SX_LANE_MASK) return false;
  if (one->n_inputs == 1) return unary_handler(chains, one) != NULL;
  return from == SX_LANE_INTEGER ? chains->types->binary[one->op][0] != NULL : chains->binary[one->op][0] != NULL;
}

/* Selections and what comes of bools are exact. */
static void round_result(compiling *c, const sx_instruction *one) {
  bool exact = one->op == SX_OP_WHERE || (one->op == SX_OP_CAST && one->from == SX_BOOL);
  if (c->chains->types->round[one->to] && !exact) add_link(c, c->chains->types->round[one->to]);
}

static void add_fold(compiling *c, const sx_instruction *one) {
  add_link(c, c->chains->folds[one->op])->at[0] = SX_GROUP_FOLDS + c->step->n_folds;
  c->step->folds[c->step->n_folds++] = one;
}

static void end_uses(compiling *c, const sx_instruction *one) {
  for (uint32_t k = 0; k < one->n_inputs; k++) {
    uint32_t input = one->inputs[k];
    if (--c->uses[input] == 0 && c->locals[input] != NO_VALUE) SX_PUSH(c->arena, c->free_locals, c->locals[input]);
  }
}

static void compile_instruction(compiling *c, uint32_t i) {
  const sx_instruction *one = &c->step->instructions[i];
  if (one->op == SX_OP_WHERE) {
    compile_where(c, one);
  } else if (one->n_inputs == 2) {
    compile_binary(c, one);
  } else {
    take_in_hand(c, one->inputs[0]);
    if (one->folds)
      add_fold(c, one);
    else if (unary_handler(c->chains, one))
      add_link(c, unary_handler(c->chains, one));
  }
  if (!one->folds) round_result(c, one);
  end_uses(c, one);
  for (uint32_t k = 0; k < one->n_inputs; k++)
    if (c->terms[one->inputs[k]]) end_uses(c, c->terms[one->inputs[k]]);
  if (!one->folds) put_result(c, i);
}

void sx_chain_compile(const sx_group *group, uint32_t step, sx_arena *arena) {
  compiling c = {.group = group, .chains = group->chains, .step = &group->steps[step], .arena = arena};
  c.in_hand = NO_VALUE;
  c.uses = SX_NEW_N(arena, uint32_t, group->n_values);
  c.locals = SX_NEW_N(arena, uint32_t, group->n_values);
  c.listed = SX_NEW_N(arena, uint32_t, group->n_values);
  c.terms = SX_NEW_N(arena, const sx_instruction *, group->n_values);
  c.step->folds = SX_NEW_N(arena, const sx_instruction *, c.step->n_instructions);
  for (uint32_t v = 0; v < group->n_values; v++) c.locals[v] = NO_VALUE;
  for (uint32_t i = 0; i < c.step->n_instructions; i++)
    for (uint32_t k = 0; k < c.step->instructions[i].n_inputs; k++) c.uses[c.step->instructions[i].inputs[k]]++;
  sum_inputs(&c);
  for (uint32_t i = pass_terms(&c, 0); i < c.step->n_instructions; i = pass_terms(&c, i + 1))
    compile_instruction(&c, i);
  add_link(&c, c.chains->end);
  c.step->links = c.links.items;
  c.step->uses = c.step_uses.items;
  c.step->n_uses = (uint32_t)c.step_uses.n;
}
