/* One instruction of PTX to a sim_op: most by their row in ptx_lanes.def, the rest by the functions of FAMILIES. */
#include <stdlib.h>

#include "ptx_parse.h"

/* ---- operands ---- */

typedef enum raw_kind { RAW_REGISTER, RAW_VALUE, RAW_FLOAT, RAW_NAME, RAW_VECTOR, RAW_SINK } raw_kind;

typedef struct raw_operand {
  raw_kind kind;
  uint8_t width; /* of a register, or of 0f and 0d */
  bool is_address, is_negated;
  sim_operand operand, second; /* second: of d|p */
  uint64_t value;              /* or the offset behind a register or a name */
  sim_word name;
  uint32_t n;
  sim_operand list[SIM_MOST_VECTOR];
} raw_operand;

enum { MOST_OPERANDS = 8 };

typedef struct instruction {
  sim_reader *r;
  sim_word opcode;
  sim_word parts[16]; /* between the opcode's dots */
  size_t n_parts, n;
  raw_operand operands[MOST_OPERANDS];
} instruction;

static const char *const SPECIALS[SIM_N_SPECIALS] = {
    [SIM_TID_X] = "%tid.x",
    [SIM_TID_Y] = "%tid.y",
    [SIM_TID_Z] = "%tid.z",
    [SIM_NTID_X] = "%ntid.x",
    [SIM_NTID_Y] = "%ntid.y",
    [SIM_NTID_Z] = "%ntid.z",
    [SIM_CTAID_X] = "%ctaid.x",
    [SIM_CTAID_Y] = "%ctaid.y",
    [SIM_CTAID_Z] = "%ctaid.z",
    [SIM_NCTAID_X] = "%nctaid.x",
    [SIM_NCTAID_Y] = "%nctaid.y",
    [SIM_NCTAID_Z] = "%nctaid.z",
    [SIM_LANE] = "%laneid",
    [SIM_WARP] = "%warpid",
    [SIM_N_WARPS] = "%nwarpid",
    [SIM_MASK_EQ] = "%lanemask_eq",
    [SIM_MASK_LT] = "%lanemask_lt",
    [SIM_MASK_LE] = "%lanemask_le",
    [SIM_MASK_GT] = "%lanemask_gt",
    [SIM_MASK_GE] = "%lanemask_ge",
    [SIM_SHARED_SIZE] = "%dynamic_smem_size",
    [SIM_TOTAL_SHARED_SIZE] = "%total_smem_size",
};

static bool find_special(sim_reader *r, sim_word name, sim_operand *operand) {
  for (size_t i = 0; i < SIM_N_SPECIALS; i++)
    if (sim_word_is(name, SPECIALS[i])) {
      if (r->kernel->specials[i] == SIM_NONE) r->kernel->specials[i] = sim_new_register(r, 4);
      *operand = r->kernel->specials[i];
      return true;
    }
  return false;
}

/* A register, or `_`, whose operand is SIM_NONE. False: none of that name. */
static bool find_register(sim_reader *r, raw_operand *raw, sim_word name) {
  raw->kind = RAW_REGISTER;
  raw->operand = SIM_NONE;
  if (sim_word_is(name, "_")) {
    raw->kind = RAW_SINK;
    return true;
  }
  const sim_declared *declared = sim_find_register(r, name, &raw->operand);
  raw->width = declared ? declared->width : 4;
  return declared || find_special(r, name, &raw->operand);
}

static void take_register(sim_reader *r, raw_operand *raw) {
  sim_word name = sim_take_word(r);
  if (!find_register(r, raw, name)) sim_parse_refuse(r, "no register %.*s", (int)name.n, name.at);
}

static void take_number(sim_reader *r, raw_operand *raw) {
  raw->kind = RAW_VALUE;
  bool is_f32 = r->at[0] == '0' && (r->at[1] | 32) == 'f', is_f64 = r->at[0] == '0' && (r->at[1] | 32) == 'd';
  if (!is_f32 && !is_f64) {
    raw->value = sim_take_integer(r);
    return;
  }
  char *end;
  raw->kind = RAW_FLOAT;
  raw->width = is_f32 ? 4 : 8;
  raw->value = strtoull(r->at + 2, &end, 16);
  if (end != r->at + 2 + 2 * raw->width) sim_parse_refuse(r, "not a number: \"%.20s\"", r->at);
  r->at = end;
}

/* Numbers are as wide as the registers beside them. */
static void take_vector(sim_reader *r, raw_operand *raw) {
  raw_operand elements[SIM_MOST_VECTOR] = {0};
  raw->kind = RAW_VECTOR;
  do {
    if (raw->n == SIM_MOST_VECTOR) sim_parse_refuse(r, "a vector of more than %d", SIM_MOST_VECTOR);
    raw_operand *element = &elements[raw->n++];
    char c = sim_peek(r);
    if (c == '-' || (c >= '0' && c <= '9'))
      take_number(r, element);
    else
      take_register(r, element);
    if (element->kind == RAW_REGISTER && raw->width && element->width != raw->width)
      sim_parse_refuse(r, "a vector of several widths");
    if (element->kind == RAW_REGISTER) raw->width = element->width;
  } while (sim_take(r, ','));
  sim_expect(r, '}');
  if (raw->width == 0) sim_parse_refuse(r, "a vector without a register");
  for (uint32_t i = 0; i < raw->n; i++) {
    bool is_register = elements[i].kind == RAW_REGISTER || elements[i].kind == RAW_SINK;
    raw->list[i] = is_register ? elements[i].operand : sim_constant_operand(r, elements[i].value, raw->width);
  }
}

/* Behind a register or a name: + or - and a number. */
static void take_offset(sim_reader *r, raw_operand *raw) {
  if (sim_take(r, '+'))
    raw->value = sim_take_integer(r);
  else if (sim_peek(r) == '-')
    raw->value = sim_take_integer(r);
}

static void take_operand(sim_reader *r, raw_operand *raw) {
  *raw = (raw_operand){.second = SIM_NONE};
  raw->is_negated = sim_take(r, '!');
  if (sim_take(r, '[')) raw->is_address = true;
  char c = sim_peek(r);
  if (sim_take(r, '{')) {
    take_vector(r, raw);
  } else if (c == '-' || (c >= '0' && c <= '9')) {
    take_number(r, raw);
  } else {
    raw->name = sim_take_word(r);
    if (!find_register(r, raw, raw->name)) {
      if (c == '%') sim_parse_refuse(r, "no register %.*s", (int)raw->name.n, raw->name.at);
      raw->kind = RAW_NAME;
    }
    take_offset(r, raw);
  }
  if (raw->is_address) sim_expect(r, ']');
  if (sim_take(r, '|')) {
    raw_operand second = {0};
    take_register(r, &second);
    raw->second = second.operand;
  }
}

static void take_operands(instruction *in) {
  while (sim_peek(in->r) != ';') {
    if (in->n == MOST_OPERANDS) sim_parse_refuse(in->r, "more than %d operands", MOST_OPERANDS);
    take_operand(in->r, &in->operands[in->n++]);
    if (!sim_take(in->r, ',')) break;
  }
  sim_expect(in->r, ';');
}

_Noreturn static void unknown(instruction *in) {
  sim_parse_refuse(in->r, "instruction %.*s with %zu operands is not known", (int)in->opcode.n, in->opcode.at, in->n);
}

/* An operand that is read, of so many bytes. */
static sim_operand source(instruction *in, size_t i, uint8_t width) {
  sim_reader *r = in->r;
  if (i >= in->n) unknown(in);
  raw_operand *raw = &in->operands[i];
  if (raw->is_address) unknown(in);
  switch (raw->kind) {
    case RAW_REGISTER: {
      if (raw->width != width || raw->value)
        sim_parse_refuse(r, "%.*s: operand %zu has %d bytes where %d belong", (int)in->opcode.n, in->opcode.at, i,
                         raw->width, width);
      if (!raw->is_negated) return raw->operand;
      sim_op *op = sim_add_op(r, SIM_LANES); /* !%p */
      op->function = sim_lane_find("not.pred", 8)->function;
      op->width = 4;
      op->a = op->b = op->c = op->e = raw->operand;
      sim_operand negated = sim_new_register(r, 4);
      ((sim_op *)r->ops.items)[r->ops.n - 1].d = negated;
      return negated;
    }
    case RAW_FLOAT:
      if (raw->width != width) sim_parse_refuse(r, "operand %zu has %d bytes where %d belong", i, raw->width, width);
      return sim_constant_operand(r, raw->value, width);
    case RAW_VALUE:
      return sim_constant_operand(r, raw->value, width);
    case RAW_NAME: {
      uint64_t offset;
      if (sim_word_is(raw->name, "WARP_SZ")) return sim_constant_operand(r, SIM_N_LANES, width);
      if (sim_find_param(r, raw->name, &offset)) return sim_constant_operand(r, offset + raw->value, width);
      sim_variable *variable = sim_find_variable(r, raw->name);
      if (variable) return sim_variable_operand(r, variable, raw->value, width);
      sim_parse_refuse(r, "no name %.*s", (int)raw->name.n, raw->name.at);
    }
    default:
      unknown(in);
  }
}

/* The register that is written. */
static sim_operand destination(instruction *in, size_t i, uint8_t width) {
  if (i >= in->n || in->operands[i].is_address || in->operands[i].is_negated) unknown(in);
  raw_operand *raw = &in->operands[i];
  if (raw->kind == RAW_SINK) return sim_new_register(in->r, width);
  if (raw->kind != RAW_REGISTER) unknown(in);
  if (raw->width != width)
    sim_parse_refuse(in->r, "%.*s: its result has %d bytes where %d belong", (int)in->opcode.n, in->opcode.at,
                     raw->width, width);
  return raw->operand;
}

/* ---- instructions of ptx_lanes.def ---- */

static sim_op *add_lanes(instruction *in, const sim_lane_row *row) {
  sim_operand operands[5] = {0};
  size_t n = 0;
  for (; n < 5 && row->widths[n]; n++)
    operands[n] = n ? source(in, n, row->widths[n]) : destination(in, 0, row->widths[0]);
  sim_op *op = sim_add_op(in->r, SIM_LANES);
  op->function = row->function;
  op->width = row->widths[0];
  op->d = operands[0];
  op->a = operands[1];
  op->b = n > 2 ? operands[2] : operands[1];
  op->c = n > 3 ? operands[3] : operands[1];
  op->e = n > 4 ? operands[4] : operands[1];
  return op;
}

static bool fits(const instruction *in, const sim_lane_row *row) {
  size_t n = 0;
  while (n < 5 && row->widths[n]) n++;
  if (in->n != n) return false;
  for (size_t i = 0; i < n; i++)
    if (in->operands[i].kind == RAW_VECTOR || in->operands[i].second != SIM_NONE ||
        (in->operands[i].kind == RAW_REGISTER && in->operands[i].width != row->widths[i]))
      return false;
  return true;
}

/* ---- parts of opcodes ---- */

static void split(instruction *in) {
  const char *at = in->opcode.at, *end = at + in->opcode.n;
  while (at <= end && in->n_parts < sizeof in->parts / sizeof *in->parts) {
    const char *dot = at;
    while (dot < end && *dot != '.') dot++;
    in->parts[in->n_parts++] = (sim_word){at, (size_t)(dot - at)};
    at = dot + 1;
  }
}

static bool type_of(sim_word word, sim_type *type) {
  static const struct {
    const char *text;
    sim_type type;
  } rows[] = {
      {"u8", {SIM_UNSIGNED, 1}}, {"u16", {SIM_UNSIGNED, 2}}, {"u32", {SIM_UNSIGNED, 4}}, {"u64", {SIM_UNSIGNED, 8}},
      {"s8", {SIM_SIGNED, 1}},   {"s16", {SIM_SIGNED, 2}},   {"s32", {SIM_SIGNED, 4}},   {"s64", {SIM_SIGNED, 8}},
      {"b8", {SIM_UNSIGNED, 1}}, {"b16", {SIM_UNSIGNED, 2}}, {"b32", {SIM_UNSIGNED, 4}}, {"b64", {SIM_UNSIGNED, 8}},
      {"f16", {SIM_FLOAT, 2}},   {"f32", {SIM_FLOAT, 4}},    {"f64", {SIM_FLOAT, 8}},    {"bf16", {SIM_BFLOAT, 2}}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (sim_word_is(word, rows[i].text)) {
      *type = rows[i].type;
      return true;
    }
  return false;
}

static bool space_of(sim_word word, uint8_t *space) {
  static const char *const names[] = {NULL, "global", "shared", "local", "param", "const"};
  if (sim_word_is(word, "shared::cta")) word.n = 6;
  for (uint8_t i = 1; i < sizeof names / sizeof *names; i++)
    if (sim_word_is(word, names[i])) {
      *space = i;
      return true;
    }
  return false;
}

static bool is_one_of(sim_word word, const char *const *texts) {
  for (; *texts; texts++)
    if (sim_word_is(word, *texts)) return true;
  return false;
}

static bool mode_of(sim_word word, uint8_t *mode) {
  static const struct {
    const char *text;
    sim_mode mode;
  } rows[] = {{"add", SIM_ADD},         {"min", SIM_MIN},       {"max", SIM_MAX},       {"and", SIM_AND},
              {"or", SIM_OR},           {"xor", SIM_XOR},       {"exch", SIM_EXCHANGE}, {"cas", SIM_COMPARE},
              {"inc", SIM_INCREMENT},   {"dec", SIM_DECREMENT}, {"up", SIM_UP_LANES},   {"down", SIM_DOWN_LANES},
              {"bfly", SIM_BUTTERFLY},  {"idx", SIM_INDEX},     {"any", SIM_ANY_OF},    {"all", SIM_ALL_OF},
              {"uni", SIM_SAME_IN_ALL}, {"ballot", SIM_BALLOT}, {"popc", SIM_COUNT}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (sim_word_is(word, rows[i].text)) {
      *mode = (uint8_t)rows[i].mode;
      return true;
    }
  return false;
}

/* ---- memory ---- */

/* Scopes, orders and caches: one thread after another runs them all alike. */
static const char *const IGNORED[] = {"volatile",
                                      "relaxed",
                                      "acquire",
                                      "release",
                                      "acq_rel",
                                      "weak",
                                      "cta",
                                      "gpu",
                                      "sys",
                                      "nc",
                                      "ca",
                                      "cg",
                                      "cs",
                                      "lu",
                                      "cv",
                                      "wb",
                                      "wt",
                                      "L1::evict_normal",
                                      "L1::evict_unchanged",
                                      "L1::evict_first",
                                      "L1::evict_last",
                                      "L1::no_allocate",
                                      "L2::64B",
                                      "L2::128B",
                                      "L2::256B",
                                      "aligned",
                                      "sync",
                                      NULL};

/* Where an address operand points: a register or a constant, and an offset. */
static void set_address(instruction *in, sim_op *op, size_t i) {
  sim_reader *r = in->r;
  raw_operand *raw = &in->operands[i];
  uint64_t offset;
  op->offset = raw->value;
  op->address_size = 8;
  if (!raw->is_address) unknown(in);
  if (raw->kind == RAW_REGISTER) {
    if (raw->width < 4) unknown(in);
    op->a = raw->operand;
    op->address_size = raw->width;
  } else if (raw->kind == RAW_VALUE) {
    op->a = sim_constant_operand(r, 0, 8);
  } else if (raw->kind == RAW_NAME && sim_find_param(r, raw->name, &offset)) {
    if (op->space != SIM_PARAM) sim_parse_refuse(r, "%.*s is a parameter", (int)raw->name.n, raw->name.at);
    op->a = sim_constant_operand(r, offset, 8);
  } else if (raw->kind == RAW_NAME) {
    sim_variable *variable = sim_find_variable(r, raw->name);
    if (!variable || variable->space != op->space)
      sim_parse_refuse(r, "no variable %.*s there", (int)raw->name.n, raw->name.at);
    op->a = sim_variable_operand(r, variable, 0, 8);
  } else {
    unknown(in);
  }
}

static uint32_t next_memo(sim_reader *r, const sim_op *op) {
  bool may_share = op->space == SIM_SHARED || op->space == SIM_GENERIC;
  if (may_share && op->type.size < r->kernel->granule) r->kernel->granule = op->type.size;
  return r->kernel->n_memos++;
}

/* The registers of a load or a store: each as wide as its memory, or wider. */
static void set_values(instruction *in, sim_op *op, size_t i) {
  raw_operand *raw = &in->operands[i];
  if (op->n > 1 ? raw->kind != RAW_VECTOR || raw->n != op->n : raw->kind == RAW_VECTOR) unknown(in);
  if (raw->kind == RAW_VALUE || raw->kind == RAW_FLOAT) {
    op->width = op->type.size < 2 ? 2 : op->type.size;
    op->list[0] = source(in, i, op->width);
    return;
  }
  if (raw->kind == RAW_SINK) raw->width = op->type.size < 2 ? 2 : op->type.size;
  if (raw->width < op->type.size || (op->type.kind == SIM_FLOAT && raw->width != op->type.size)) unknown(in);
  op->width = raw->width;
  for (uint32_t j = 0; j < op->n; j++) {
    op->list[j] = raw->kind == RAW_VECTOR ? raw->list[j] : raw->operand;
    if (op->list[j] == SIM_NONE) op->list[j] = sim_new_register(in->r, op->width);
  }
}

static void decode_memory(instruction *in) {
  bool loads = sim_word_is(in->parts[0], "ld") || sim_word_is(in->parts[0], "ldu");
  sim_op *op = sim_add_op(in->r, loads ? SIM_LOAD : SIM_STORE);
  op->n = 1;
  for (size_t i = 1; i < in->n_parts; i++) {
    sim_word part = in->parts[i];
    if (sim_word_is(part, "v2"))
      op->n = 2;
    else if (sim_word_is(part, "v4"))
      op->n = 4;
    else if (!space_of(part, &op->space) && !type_of(part, &op->type) && !is_one_of(part, IGNORED))
      unknown(in);
  }
  if (in->n != 2 || op->type.size == 0 || op->n * op->type.size > 16) unknown(in);
  sim_op decoded = *op; /* constants and registers do not move ops, but keep to one place that is filled */
  set_address(in, &decoded, loads);
  set_values(in, &decoded, !loads);
  decoded.of.memo = next_memo(in->r, &decoded);
  ((sim_op *)in->r->ops.items)[in->r->ops.n - 1] = decoded;
}

/* atom d, [a], b {, c} and red [a], b. */
static void decode_atomic(instruction *in) {
  bool has_result = sim_word_is(in->parts[0], "atom");
  sim_op op = {.mode = SIM_NO_MODE};
  for (size_t i = 1; i < in->n_parts; i++) {
    sim_word part = in->parts[i];
    if (!space_of(part, &op.space) && !mode_of(part, &op.mode) && !type_of(part, &op.type) && !is_one_of(part, IGNORED))
      unknown(in);
  }
  if (op.type.kind >= SIM_FLOAT)
    sim_parse_refuse(in->r, "%.*s: no order of its sum is fixed", (int)in->opcode.n, in->opcode.at);
  size_t at = has_result ? 1 : 0, n = at + 2 + (op.mode == SIM_COMPARE);
  if (op.type.size < 4 || op.mode > SIM_DECREMENT || in->n != n) unknown(in);
  sim_operand d = has_result ? destination(in, 0, op.type.size) : SIM_NONE;
  sim_operand b = source(in, at + 1, op.type.size);
  sim_operand c = op.mode == SIM_COMPARE ? source(in, at + 2, op.type.size) : b;
  set_address(in, &op, at);
  sim_op *added = sim_add_op(in->r, SIM_ATOMIC);
  op.code = added->code, op.guard = added->guard, op.is_negated = added->is_negated, op.line = added->line;
  op.d = d, op.b = b, op.c = c, op.n = 1, op.width = op.type.size;
  op.of.memo = next_memo(in->r, &op);
  *added = op;
}

/* To a generic address or from one: a move, or the window of the space. */
static void decode_cvta(instruction *in) {
  bool to = sim_word_is(in->parts[1], "to");
  uint8_t space = SIM_GENERIC;
  if (in->n_parts != (to ? 4u : 3u) || !space_of(in->parts[to ? 2 : 1], &space) ||
      !sim_word_is(in->parts[in->n_parts - 1], "u64"))
    unknown(in);
  uint64_t window = space == SIM_SHARED  ? SIM_SHARED_WINDOW
                    : space == SIM_LOCAL ? SIM_LOCAL_WINDOW
                    : space == SIM_PARAM ? SIM_PARAM_WINDOW
                                         : 0;
  sim_operand a = source(in, 1, 8), b = sim_constant_operand(in->r, to ? 0 - window : window, 8);
  sim_operand d = destination(in, 0, 8);
  sim_op *op = sim_add_op(in->r, SIM_LANES);
  op->function = sim_lane_find(window ? "add.s64" : "mov.b64", 7)->function;
  op->width = 8;
  op->d = d;
  op->a = op->c = op->e = a;
  op->b = b;
}

/* ---- moves and conversions ---- */

/* mov of {a, b} to a wider register or back. */
static void decode_move(instruction *in) {
  if (in->n != 2 || in->n_parts != 2) unknown(in);
  bool packs = in->operands[1].kind == RAW_VECTOR;
  raw_operand *vector = &in->operands[packs];
  sim_type type;
  if (vector->kind != RAW_VECTOR || !type_of(in->parts[1], &type) || vector->n * vector->width != type.size)
    unknown(in);
  if (packs)
    for (uint32_t i = 0; i < vector->n; i++)
      if (vector->list[i] == SIM_NONE) unknown(in);
  sim_operand whole = packs ? destination(in, 0, type.size) : source(in, 1, type.size);
  sim_op *op = sim_add_op(in->r, packs ? SIM_PACK : SIM_UNPACK);
  op->n = (uint8_t)vector->n;
  op->width = vector->width;
  op->type = type;
  op->a = op->d = whole;
  memcpy(op->list, vector->list, sizeof op->list);
}

static void decode_convert(instruction *in) {
  static const char *const roundings[] = {"rn", "rz", "rm", "rp"}, *const integral[] = {"rni", "rzi", "rmi", "rpi"};
  sim_conversion c = {0};
  bool rounds = false;
  if (in->n_parts < 3 || in->n != 2 || !type_of(in->parts[in->n_parts - 2], &c.to) ||
      !type_of(in->parts[in->n_parts - 1], &c.from))
    unknown(in);
  for (size_t i = 1; i < in->n_parts - 2; i++) {
    bool known = sim_word_is(in->parts[i], "sat");
    c.saturates |= known;
    for (uint8_t j = 0; j < 4; j++) {
      bool whole = sim_word_is(in->parts[i], integral[j]);
      if (!whole && !sim_word_is(in->parts[i], roundings[j])) continue;
      c.rounding = j;
      c.to_integer = whole;
      known = rounds = true;
    }
    if (!known) unknown(in);
  }
  bool from_float = c.from.kind >= SIM_FLOAT, is_float = c.to.kind >= SIM_FLOAT;
  if (from_float && !is_float && !c.to_integer) unknown(in);
  if (is_float && !rounds && !c.saturates && (!from_float || c.to.size < c.from.size)) unknown(in);
  raw_operand *to = &in->operands[0], *from = &in->operands[1];
  if (from->kind != RAW_REGISTER || from->width < c.from.size || to->width < c.to.size) unknown(in);
  sim_operand a = source(in, 1, from->width), d = destination(in, 0, to->width);
  sim_op *op = sim_add_op(in->r, SIM_CONVERT);
  op->d = d;
  op->a = a;
  op->width = to->width;
  op->n = from->width; /* as wide as the register that is read */
  op->of.conversion = c;
}

/* setp.lt.and.s32 p, a, b, q: the comparison, then the predicate. */
static void decode_compare(instruction *in) {
  sim_word bool_part = in->n_parts == 4 ? in->parts[2] : (sim_word){"", 0};
  char text[32];
  size_t n_head = (size_t)(bool_part.at - in->opcode.at);
  if (in->n != 4 || bool_part.n == 0 || bool_part.n > 3 || in->opcode.n >= sizeof text) unknown(in);
  memcpy(text, in->opcode.at, n_head);
  memcpy(text + n_head, in->parts[3].at, in->parts[3].n);
  const sim_lane_row *compare = sim_lane_find(text, n_head + in->parts[3].n);
  memcpy(text, bool_part.at, bool_part.n);
  memcpy(text + bool_part.n, ".pred", 5);
  const sim_lane_row *combine = sim_lane_find(text, bool_part.n + 5);
  if (!compare || !combine) unknown(in);
  sim_operand d = destination(in, 0, 4), q = source(in, 3, 4), compared = sim_new_register(in->r, 4);
  sim_op *op = add_lanes(in, compare);
  op->d = compared;
  op = sim_add_op(in->r, SIM_LANES);
  op->function = combine->function;
  op->width = 4;
  op->d = d;
  op->a = op->c = op->e = compared;
  op->b = q;
}

/* ---- control ---- */

static void decode_branch(instruction *in) {
  if (in->n != 1 || in->operands[0].kind != RAW_NAME) unknown(in);
  sim_add_op(in->r, SIM_BRANCH);
  sim_add_fixup(in->r, in->operands[0].name, (uint32_t)in->r->ops.n - 1, false, false);
}

static void decode_branch_table(instruction *in) {
  if (in->n_parts < 2 || !sim_word_is(in->parts[1], "idx") || in->n != 2 || in->operands[1].kind != RAW_NAME)
    unknown(in);
  sim_operand a = source(in, 0, 4);
  sim_add_op(in->r, SIM_BRANCH_TABLE)->a = a;
  sim_add_fixup(in->r, in->operands[1].name, (uint32_t)in->r->ops.n - 1, true, false);
}

static void decode_exit(instruction *in) {
  if (in->n) unknown(in);
  sim_add_op(in->r, SIM_EXIT);
}

static void decode_trap(instruction *in) {
  if (in->n) unknown(in);
  sim_add_op(in->r, SIM_TRAP);
}

static void decode_nothing(instruction *in) { sim_add_op(in->r, SIM_NOTHING); }

static void decode_call(instruction *in) {
  sim_parse_refuse(in->r, "a call: everything a kernel calls must be inlined");
}

/* bar.sync a; bar.warp.sync mask; bar.red.op d, a, p; barrier.sync likewise. */
static void decode_barrier(instruction *in) {
  size_t at = 1;
  while (at < in->n_parts && (sim_word_is(in->parts[at], "cta") || sim_word_is(in->parts[at], "aligned"))) at++;
  if (at == in->n_parts) unknown(in);
  if (sim_word_is(in->parts[at], "warp")) {
    sim_operand mask = source(in, 0, 4);
    sim_add_op(in->r, SIM_WARP_BARRIER)->e = mask;
  } else if (sim_word_is(in->parts[at], "sync")) {
    if (in->n != 1) sim_parse_refuse(in->r, "a barrier of a part of the block");
    sim_add_op(in->r, SIM_BARRIER)->mode = SIM_NO_MODE;
  } else if (sim_word_is(in->parts[at], "red")) {
    uint8_t mode = SIM_NO_MODE;
    if (++at == in->n_parts || !mode_of(in->parts[at], &mode)) unknown(in);
    if (in->n != 3) sim_parse_refuse(in->r, "a barrier of a part of the block");
    sim_operand a = source(in, 2, 4), d = destination(in, 0, 4);
    sim_op *op = sim_add_op(in->r, SIM_BARRIER);
    op->mode = mode == SIM_AND ? SIM_ALL_OF : mode == SIM_OR ? SIM_ANY_OF : mode;
    if (op->mode != SIM_ALL_OF && op->mode != SIM_ANY_OF && op->mode != SIM_COUNT) unknown(in);
    op->a = a;
    op->d = d;
    op->width = 4;
  } else {
    unknown(in);
  }
}

/* ---- a warp's exchanges ---- */

static void set_exchange(instruction *in, sim_code code, uint8_t mode, const sim_operand operands[5]) {
  sim_op *op = sim_add_op(in->r, code);
  op->mode = mode;
  op->width = 4;
  op->d = operands[0];
  op->a = operands[1];
  op->b = operands[2];
  op->c = operands[3];
  op->e = operands[4];
}

/* shfl.sync.mode.b32 d{|p}, a, b, c, mask. */
static void decode_shuffle(instruction *in) {
  uint8_t mode = SIM_NO_MODE;
  if (in->n_parts != 4 || !sim_word_is(in->parts[1], "sync") || !mode_of(in->parts[2], &mode) || mode < SIM_UP_LANES ||
      mode > SIM_INDEX || !sim_word_is(in->parts[3], "b32") || in->n != 5)
    unknown(in);
  const sim_operand operands[5] = {destination(in, 0, 4), source(in, 1, 4), source(in, 2, 4), source(in, 3, 4),
                                   source(in, 4, 4)};
  set_exchange(in, SIM_SHUFFLE, mode, operands);
  ((sim_op *)in->r->ops.items)[in->r->ops.n - 1].list[0] = in->operands[0].second;
}

/* vote.sync.mode d, p, mask; match.any.sync.b32 d, a, mask; redux.sync.op.type d, a, mask. */
static void decode_vote(instruction *in) {
  uint8_t mode = SIM_NO_MODE;
  sim_type type = {0};
  bool is_match = sim_word_is(in->parts[0], "match"), is_redux = sim_word_is(in->parts[0], "redux");
  for (size_t i = 1; i < in->n_parts; i++)
    if (!mode_of(in->parts[i], &mode) && !type_of(in->parts[i], &type) && !sim_word_is(in->parts[i], "sync") &&
        !sim_word_is(in->parts[i], "pred"))
      unknown(in);
  bool known = is_match ? mode == SIM_ANY_OF : is_redux ? mode <= SIM_XOR : mode >= SIM_ANY_OF && mode <= SIM_BALLOT;
  if (!known || in->n != 3 || in->operands[0].second != SIM_NONE || type.kind >= SIM_FLOAT) unknown(in);
  uint8_t width = is_match && type.size == 8 ? 8 : 4;
  const sim_operand operands[5] = {destination(in, 0, 4), source(in, 1, width), 0, 0, source(in, 2, 4)};
  set_exchange(in, is_match ? SIM_MATCH : is_redux ? SIM_REDUCE : SIM_VOTE, mode, operands);
  sim_op *op = (sim_op *)in->r->ops.items + in->r->ops.n - 1;
  op->type = type;
  op->n = width;
}

static void decode_active(instruction *in) {
  sim_operand d = destination(in, 0, 4);
  sim_op *op = sim_add_op(in->r, SIM_ACTIVE);
  op->d = d;
  op->width = 4;
}

/* ---- all ---- */

static const struct {
  const char *name;
  void (*decode)(instruction *in);
} FAMILIES[] = {
    {"ld", decode_memory},       {"ldu", decode_memory},       {"st", decode_memory},
    {"atom", decode_atomic},     {"red", decode_atomic},       {"cvta", decode_cvta},
    {"mov", decode_move},        {"cvt", decode_convert},      {"setp", decode_compare},
    {"bra", decode_branch},      {"brx", decode_branch_table}, {"ret", decode_exit},
    {"exit", decode_exit},       {"trap", decode_trap},        {"bar", decode_barrier},
    {"barrier", decode_barrier}, {"shfl", decode_shuffle},     {"vote", decode_vote},
    {"match", decode_vote},      {"redux", decode_vote},       {"activemask", decode_active},
    {"membar", decode_nothing},  {"fence", decode_nothing},    {"call", decode_call},
};

void sim_decode(sim_reader *r, sim_word opcode) {
  instruction in = {.r = r, .opcode = opcode};
  if (sim_word_is(opcode, "call") || sim_word_is(opcode, "call.uni")) decode_call(&in);
  take_operands(&in);
  const sim_lane_row *row = sim_lane_find(opcode.at, opcode.n);
  if (row && fits(&in, row)) {
    add_lanes(&in, row);
    return;
  }
  split(&in);
  for (size_t i = 0; i < sizeof FAMILIES / sizeof *FAMILIES; i++)
    if (sim_word_is(in.parts[0], FAMILIES[i].name)) {
      FAMILIES[i].decode(&in);
      return;
    }
  unknown(&in);
}
