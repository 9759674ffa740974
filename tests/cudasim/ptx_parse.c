/* Reads a module: its variables, kernels and their registers, labels and instructions (ptx_decode.c). */
#include "ptx_parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- memory, refusal ---- */

void *sim_list_add(sim_list *list, size_t size) {
  if (list->n == list->room) {
    list->room = list->room ? 2 * list->room : 16;
    list->items = realloc(list->items, list->room * size);
    if (!list->items) abort();
  }
  void *item = (char *)list->items + list->n++ * size;
  memset(item, 0, size);
  return item;
}

static void *list_keep(sim_list *list, size_t size) { /* a copy of the items, at least one */
  void *items = calloc(list->n ? list->n : 1, size);
  if (!items) abort();
  if (list->n) memcpy(items, list->items, list->n * size);
  list->n = 0;
  return items;
}

void sim_parse_refuse(sim_reader *r, const char *format, ...) {
  int n = snprintf(r->problem, r->n_problem, "PTX line %u%s%s: ", r->line, r->kernel ? ", kernel " : "",
                   r->kernel ? r->kernel->name : "");
  if (n > 0 && (size_t)n < r->n_problem) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->problem + n, r->n_problem - (size_t)n, format, arguments);
    va_end(arguments);
  }
  longjmp(r->failed, 1);
}

/* ---- words ---- */

char sim_peek(sim_reader *r) {
  for (;; r->at++) {
    char c = *r->at;
    if (c == '\n') {
      r->line++;
    } else if (c == '/' && r->at[1] == '/') {
      while (r->at[1] && r->at[1] != '\n') r->at++;
    } else if (c == '/' && r->at[1] == '*') {
      for (r->at += 2; *r->at && !(*r->at == '*' && r->at[1] == '/'); r->at++) r->line += *r->at == '\n';
      if (!*r->at) return 0;
      r->at++;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      return c;
    }
  }
}

bool sim_take(sim_reader *r, char c) {
  if (sim_peek(r) != c) return false;
  r->at++;
  return true;
}

void sim_expect(sim_reader *r, char c) {
  if (!sim_take(r, c)) sim_parse_refuse(r, "'%c' expected before \"%.20s\"", c, r->at);
}

static bool is_word(const char *at) {
  char c = *at;
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
         c == '%' || c == '.';
}

sim_word sim_take_word(sim_reader *r) {
  sim_peek(r);
  sim_word word = {r->at, 0};
  for (;;) {
    if (is_word(r->at))
      r->at++;
    else if (r->at[0] == ':' && r->at[1] == ':')
      r->at += 2;
    else
      break;
  }
  word.n = (size_t)(r->at - word.at);
  if (word.n == 0) sim_parse_refuse(r, "a word expected before \"%.20s\"", r->at);
  return word;
}

uint64_t sim_take_integer(sim_reader *r) {
  bool is_negative = sim_take(r, '-');
  sim_peek(r);
  char *end;
  uint64_t value = strtoull(r->at, &end, 0);
  if (end == r->at) sim_parse_refuse(r, "a number expected before \"%.20s\"", r->at);
  if (*end == 'U') end++;
  r->at = end;
  return is_negative ? 0 - value : value;
}

bool sim_word_is(sim_word word, const char *text) { return strncmp(word.at, text, word.n) == 0 && text[word.n] == 0; }

bool sim_words_equal(sim_word a, sim_word b) { return a.n == b.n && memcmp(a.at, b.at, a.n) == 0; }

void sim_skip_past(sim_reader *r, char c) {
  while (sim_peek(r) != c) {
    if (!*r->at) sim_parse_refuse(r, "'%c' expected before the end", c);
    r->at++;
  }
  r->at++;
}

static size_t bucket_of(const void *bytes, size_t n) {
  uint32_t h = 2166136261u;
  for (size_t i = 0; i < n; i++) h = (h ^ ((const uint8_t *)bytes)[i]) * 16777619u;
  return (h ^ h >> 16) % SIM_N_BUCKETS;
}

/* ---- types of declarations ---- */

/* Bytes of .b8, .u32, .f64 and so on; 4 for .pred; 0: no type. */
static uint8_t type_size(sim_word word) {
  static const struct {
    const char *text;
    uint8_t size;
  } rows[] = {{".b8", 1},  {".u8", 1},  {".s8", 1},  {".b16", 2}, {".u16", 2}, {".s16", 2}, {".f16", 2}, {".b32", 4},
              {".u32", 4}, {".s32", 4}, {".f32", 4}, {".b64", 8}, {".u64", 8}, {".s64", 8}, {".f64", 8}, {".pred", 4}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (sim_word_is(word, rows[i].text)) return rows[i].size;
  return 0;
}

/* ---- registers and constants ---- */

static uint32_t units_of(uint8_t width) { return width * SIM_N_LANES / 64u; }

sim_operand sim_new_register(sim_reader *r, uint8_t width) {
  sim_operand operand = r->kernel->n_units;
  r->kernel->n_units += units_of(width);
  return operand;
}

static sim_operand add_constant(sim_reader *r, uint64_t bits, uint8_t width, bool is_dynamic) {
  if (width < 8) bits &= ((uint64_t)1 << 8 * width) - 1;
  uint32_t *bucket = &r->constant_buckets[bucket_of(&bits, sizeof bits)];
  sim_constant *known = r->constants.items;
  for (uint32_t i = *bucket; i; i = known[i - 1].next)
    if (known[i - 1].bits == bits && known[i - 1].width == width && known[i - 1].is_dynamic == is_dynamic)
      return known[i - 1].operand;
  sim_constant *constant = sim_list_add(&r->constants, sizeof *constant);
  *constant = (sim_constant){bits, r->kernel->n_constants | SIM_CONSTANT, *bucket, width, is_dynamic};
  *bucket = (uint32_t)r->constants.n;
  r->kernel->n_constants += units_of(width);
  return constant->operand;
}

sim_operand sim_constant_operand(sim_reader *r, uint64_t bits, uint8_t width) {
  return add_constant(r, bits, width, false);
}

static void keep_constants(sim_reader *r) {
  sim_kernel *kernel = r->kernel;
  kernel->constants = aligned_alloc(64, 64 * (size_t)(kernel->n_constants + 1));
  if (!kernel->constants) abort();
  const sim_constant *constants = r->constants.items;
  for (size_t i = 0; i < r->constants.n; i++) {
    uint8_t *to = kernel->constants + 64 * (size_t)(constants[i].operand & ~SIM_CONSTANT);
    for (size_t lane = 0; lane < SIM_N_LANES; lane++)
      memcpy(to + lane * constants[i].width, &constants[i].bits, constants[i].width);
  }
}

/* .reg was taken. */
static void read_registers(sim_reader *r) {
  uint8_t width = type_size(sim_take_word(r));
  if (width == 0) sim_parse_refuse(r, "registers of an unknown type");
  width = width == 1 ? 2 : width;
  do {
    sim_declared *declared = sim_list_add(&r->declared, sizeof *declared);
    declared->name = sim_take_word(r);
    declared->width = width;
    declared->units = units_of(width);
    declared->first = r->kernel->n_units;
    if (sim_take(r, '<')) {
      declared->n = (uint32_t)sim_take_integer(r);
      if (declared->n == 0 || declared->n > 1000000) sim_parse_refuse(r, "%u registers are declared", declared->n);
      sim_expect(r, '>');
    }
    r->kernel->n_units += declared->units * (declared->n ? declared->n : 1);
  } while (sim_take(r, ','));
  sim_expect(r, ';');
}

const sim_declared *sim_find_register(sim_reader *r, sim_word name, sim_operand *operand) {
  size_t n_digits = 0;
  while (n_digits < name.n && name.at[name.n - 1 - n_digits] >= '0' && name.at[name.n - 1 - n_digits] <= '9')
    n_digits++;
  sim_word stem = {name.at, name.n - n_digits};
  uint32_t number = 0;
  for (size_t i = stem.n; i < name.n; i++) number = number * 10 + (uint32_t)(name.at[i] - '0');
  const sim_declared *declared = r->declared.items;
  for (size_t i = r->declared.n; i-- > 0;) { /* the innermost first */
    const sim_declared *d = &declared[i];
    if (d->n ? n_digits == 0 || number >= d->n || !sim_words_equal(stem, d->name) : !sim_words_equal(name, d->name))
      continue;
    *operand = d->first + (d->n ? number * d->units : 0);
    return d;
  }
  return NULL;
}

/* ---- variables ---- */

sim_variable *sim_find_variable(sim_reader *r, sim_word name) {
  sim_variable *variables = r->variables.items;
  for (size_t i = r->variables.n; i-- > 0;)
    if (variables[i].n_name == name.n && memcmp(variables[i].name, name.at, name.n) == 0) return &variables[i];
  return NULL;
}

static uint64_t align_up(uint64_t n, uint64_t alignment) { return (n + alignment - 1) / alignment * alignment; }

sim_operand sim_variable_operand(sim_reader *r, sim_variable *variable, uint64_t offset, uint8_t width) {
  if (variable->is_dynamic) return add_constant(r, offset, width, true); /* complete when all others have a place */
  if (variable->space == SIM_SHARED && !variable->is_placed) {
    variable->is_placed = true;
    variable->address = align_up(r->kernel->shared_n_bytes, variable->alignment);
    r->kernel->shared_n_bytes = (uint32_t)(variable->address + variable->n_bytes);
  }
  return add_constant(r, variable->address + offset, width, false);
}

static uint64_t take_bits(sim_reader *r, uint8_t size) {
  char c = sim_peek(r);
  if (c == '0' && (r->at[1] == 'f' || r->at[1] == 'd' || r->at[1] == 'F' || r->at[1] == 'D') && size >= 4) {
    char *end;
    uint64_t bits = strtoull(r->at + 2, &end, 16);
    r->at = end;
    return bits;
  }
  if (c != '-' && (c < '0' || c > '9')) sim_parse_refuse(r, "a variable that starts as something other than numbers");
  return sim_take_integer(r);
}

static void read_values(sim_reader *r, sim_variable *variable, uint8_t size) {
  bool is_list = sim_take(r, '{');
  size_t n = 0;
  do {
    uint64_t bits = take_bits(r, size);
    if (++n * size > variable->n_bytes) sim_parse_refuse(r, "more values than the variable has");
    memcpy(variable->owned + (n - 1) * size, &bits, size);
  } while (is_list && sim_take(r, ','));
  if (is_list) sim_expect(r, '}');
}

/* .global, .const, .shared or .local was taken; the word after .align when there is one. */
static void read_variable(sim_reader *r, sim_space space, bool is_extern) {
  sim_variable *variable = sim_list_add(&r->variables, sizeof *variable);
  sim_word word = sim_take_word(r);
  variable->space = (uint8_t)space;
  if (sim_word_is(word, ".align")) {
    variable->alignment = sim_take_integer(r);
    word = sim_take_word(r);
  }
  uint8_t size = type_size(word);
  if (size == 0) sim_parse_refuse(r, "a variable of type %.*s", (int)word.n, word.at);
  if (variable->alignment == 0) variable->alignment = size;
  if (variable->alignment > 64) sim_parse_refuse(r, "an alignment of %zu", variable->alignment);
  word = sim_take_word(r);
  variable->name = word.at;
  variable->n_name = word.n;
  variable->n_bytes = size;
  if (sim_take(r, '[')) {
    variable->is_dynamic = sim_peek(r) == ']';
    if (!variable->is_dynamic) variable->n_bytes = (size_t)sim_take_integer(r) * size;
    sim_expect(r, ']');
  }
  if (variable->is_dynamic != is_extern || (is_extern && space != SIM_SHARED) || variable->n_bytes > 1u << 30)
    sim_parse_refuse(r, "%.*s is external, or of no size or of too many bytes", (int)word.n, word.at);
  if (space == SIM_GLOBAL || space == SIM_CONST) {
    variable->owned = aligned_alloc(64, align_up(variable->n_bytes + 1, 64));
    if (!variable->owned) abort();
    memset(variable->owned, 0, variable->n_bytes);
    variable->address = (uint64_t)(uintptr_t)variable->owned;
  } else if (space == SIM_LOCAL) {
    variable->address = align_up(r->kernel->local_n_bytes, variable->alignment);
    r->kernel->local_n_bytes = (uint32_t)(variable->address + variable->n_bytes);
  }
  if (sim_take(r, '=')) {
    if (!variable->owned) sim_parse_refuse(r, "%.*s has values", (int)word.n, word.at);
    read_values(r, variable, size);
  }
  sim_expect(r, ';');
}

/* ---- instructions ---- */

sim_op *sim_add_op(sim_reader *r, sim_code code) {
  r->kernel->has_barrier |= code == SIM_BARRIER;
  sim_op *op = sim_list_add(&r->ops, sizeof *op);
  *op = (sim_op){.code = (uint8_t)code, .guard = SIM_NONE, .d = SIM_NONE, .line = r->line};
  if (r->guard.n) {
    if (!sim_find_register(r, r->guard, &op->guard))
      sim_parse_refuse(r, "no predicate %.*s", (int)r->guard.n, r->guard.at);
    op->is_negated = r->guard_is_negated;
  }
  return op;
}

void sim_add_fixup(sim_reader *r, sim_word name, uint32_t at, bool is_table, bool is_entry) {
  sim_fixup *fixup = sim_list_add(&r->fixups, sizeof *fixup);
  *fixup = (sim_fixup){name, at, r->line, is_table, is_entry};
}

static const sim_label *find_label(sim_reader *r, sim_word name) {
  const sim_label *labels = r->labels.items;
  for (uint32_t i = r->label_buckets[bucket_of(name.at, name.n)]; i; i = labels[i - 1].next)
    if (sim_words_equal(labels[i - 1].name, name)) return &labels[i - 1];
  return NULL;
}

static void read_branch_targets(sim_reader *r, sim_label *label) {
  label->op = (uint32_t)r->targets.n;
  do {
    label->n_entries++;
    sim_add_fixup(r, sim_take_word(r), (uint32_t)r->targets.n, false, true);
    sim_list_add(&r->targets, sizeof(uint32_t));
  } while (sim_take(r, ','));
  sim_expect(r, ';');
}

/* Its colon was taken. */
static void read_label(sim_reader *r, sim_word name) {
  if (find_label(r, name)) sim_parse_refuse(r, "label %.*s twice", (int)name.n, name.at);
  uint32_t *bucket = &r->label_buckets[bucket_of(name.at, name.n)];
  sim_label *label = sim_list_add(&r->labels, sizeof *label);
  *label = (sim_label){.name = name, .op = (uint32_t)r->ops.n, .next = *bucket};
  *bucket = (uint32_t)r->labels.n;
  if (sim_peek(r) == '.' && strncmp(r->at, ".branchtargets", 14) == 0) {
    sim_take_word(r);
    read_branch_targets(r, label);
  }
}

static void set_targets(sim_reader *r) {
  const sim_fixup *fixups = r->fixups.items;
  for (size_t i = 0; i < r->fixups.n; i++) {
    const sim_fixup *fixup = &fixups[i];
    const sim_label *label = find_label(r, fixup->name);
    r->line = fixup->line;
    if (!label || fixup->is_table != (label->n_entries > 0))
      sim_parse_refuse(r, "no label %.*s to branch to", (int)fixup->name.n, fixup->name.at);
    if (fixup->is_entry) {
      ((uint32_t *)r->targets.items)[fixup->at] = label->op;
    } else {
      sim_op *op = (sim_op *)r->ops.items + fixup->at;
      op->of.target = label->op;
      op->n_targets = label->n_entries;
    }
  }
}

/* ---- kernels ---- */

bool sim_find_param(sim_reader *r, sim_word name, uint64_t *offset) {
  const sim_word *names = r->param_names.items;
  for (size_t i = 0; i < r->param_names.n; i++)
    if (sim_words_equal(names[i], name)) {
      *offset = ((sim_param *)r->params.items)[i].offset;
      return true;
    }
  return false;
}

static void read_param(sim_reader *r) {
  uint64_t alignment = 0;
  sim_word word = sim_take_word(r);
  if (!sim_word_is(word, ".param")) sim_parse_refuse(r, ".param expected, not %.*s", (int)word.n, word.at);
  uint8_t size = 0;
  for (word = sim_take_word(r); word.at[0] == '.'; word = sim_take_word(r)) {
    if (sim_word_is(word, ".align")) {
      uint64_t n = sim_take_integer(r);
      if (size == 0) alignment = n; /* behind the type it is that of what a .ptr points to */
    } else if (type_size(word)) {
      size = type_size(word);
    }
  }
  if (size == 0) sim_parse_refuse(r, "a parameter of no known type");
  sim_param *param = sim_list_add(&r->params, sizeof *param);
  *(sim_word *)sim_list_add(&r->param_names, sizeof(sim_word)) = word;
  param->n_bytes = size;
  if (sim_take(r, '[')) {
    param->n_bytes = (size_t)sim_take_integer(r) * size;
    sim_expect(r, ']');
    if (param->n_bytes > 32764) sim_parse_refuse(r, "a parameter of %zu bytes", param->n_bytes);
  }
  param->offset = (size_t)align_up(r->kernel->params_n_bytes, alignment ? alignment : size);
  r->kernel->params_n_bytes = param->offset + param->n_bytes;
}

/* .maxntid and its like, up to the brace. */
static void read_bounds(sim_reader *r) {
  while (sim_peek(r) == '.') {
    sim_word word = sim_take_word(r);
    bool is_most = sim_word_is(word, ".maxntid") || sim_word_is(word, ".reqntid");
    if (!is_most && !sim_word_is(word, ".minnctapersm") && !sim_word_is(word, ".maxnreg"))
      sim_parse_refuse(r, "a kernel that is %.*s", (int)word.n, word.at);
    uint64_t product = 1;
    do product *= sim_take_integer(r);
    while (sim_take(r, ','));
    if (is_most) r->kernel->max_threads = (uint32_t)product;
  }
}

static void read_directive(sim_reader *r, sim_word word) {
  if (sim_word_is(word, ".reg"))
    read_registers(r);
  else if (sim_word_is(word, ".shared"))
    read_variable(r, SIM_SHARED, false);
  else if (sim_word_is(word, ".local"))
    read_variable(r, SIM_LOCAL, false);
  else if (sim_word_is(word, ".pragma") || sim_word_is(word, ".noreturn"))
    sim_skip_past(r, ';');
  else
    sim_parse_refuse(r, "%.*s inside a kernel", (int)word.n, word.at);
}

static void read_statement(sim_reader *r) {
  r->guard.n = 0;
  if (sim_take(r, '@')) {
    r->guard_is_negated = sim_take(r, '!');
    r->guard = sim_take_word(r);
  }
  sim_word word = sim_take_word(r);
  if (word.at[0] == '.')
    read_directive(r, word);
  else if (sim_take(r, ':'))
    read_label(r, word);
  else
    sim_decode(r, word);
}

/* To the brace that closes it; names in inner braces end with them. */
static void read_body(sim_reader *r) {
  enum { DEEPEST = 16 };
  size_t n_declared[DEEPEST], depth = 0;
  sim_expect(r, '{');
  for (;;) {
    if (sim_take(r, '{')) {
      if (depth == DEEPEST) sim_parse_refuse(r, "more than %d braces in one another", DEEPEST);
      n_declared[depth++] = r->declared.n;
    } else if (sim_take(r, '}')) {
      if (depth == 0) return;
      r->declared.n = n_declared[--depth];
    } else {
      read_statement(r);
    }
  }
}

static void set_dynamic(sim_reader *r) {
  sim_kernel *kernel = r->kernel;
  kernel->dynamic_offset = (uint32_t)align_up(kernel->shared_n_bytes, 16);
  sim_constant *constants = r->constants.items;
  for (size_t i = 0; i < r->constants.n; i++)
    if (constants[i].is_dynamic) constants[i].bits += kernel->dynamic_offset;
}

static void read_kernel(sim_reader *r) {
  sim_kernel *kernel = sim_list_add(&r->kernels, sizeof *kernel);
  sim_word name = sim_take_word(r);
  r->kernel = kernel;
  kernel->module = r->module;
  kernel->granule = 8;
  kernel->name = strndup(name.at, name.n);
  if (!kernel->name) abort();
  for (size_t i = 0; i < SIM_N_SPECIALS; i++) kernel->specials[i] = SIM_NONE;
  r->ops.n = r->targets.n = r->params.n = r->param_names.n = r->declared.n = r->labels.n = r->fixups.n =
      r->constants.n = 0;
  memset(r->label_buckets, 0, sizeof r->label_buckets);
  memset(r->constant_buckets, 0, sizeof r->constant_buckets);
  sim_expect(r, '(');
  if (sim_peek(r) != ')') do
      read_param(r);
    while (sim_take(r, ','));
  sim_expect(r, ')');
  read_bounds(r);
  read_body(r);
  r->guard.n = 0;
  sim_add_op(r, SIM_EXIT);
  set_targets(r);
  set_dynamic(r);
  keep_constants(r);
  kernel->n_ops = (uint32_t)r->ops.n;
  kernel->n_targets = (uint32_t)r->targets.n;
  kernel->n_params = r->params.n;
  kernel->ops = list_keep(&r->ops, sizeof(sim_op));
  kernel->targets = list_keep(&r->targets, sizeof(uint32_t));
  kernel->params = list_keep(&r->params, sizeof(sim_param));
  r->variables.n = r->n_module_variables;
  for (size_t i = 0; i < r->variables.n; i++) ((sim_variable *)r->variables.items)[i].is_placed = false;
  r->kernel = NULL;
}

/* ---- modules ---- */

static void read_module_item(sim_reader *r, sim_word word) {
  bool is_extern = false;
  while (sim_word_is(word, ".visible") || sim_word_is(word, ".weak") || sim_word_is(word, ".extern")) {
    is_extern |= sim_word_is(word, ".extern");
    word = sim_take_word(r);
  }
  if (sim_word_is(word, ".entry"))
    read_kernel(r);
  else if (sim_word_is(word, ".global"))
    read_variable(r, SIM_GLOBAL, is_extern);
  else if (sim_word_is(word, ".const"))
    read_variable(r, SIM_CONST, is_extern);
  else if (sim_word_is(word, ".shared"))
    read_variable(r, SIM_SHARED, is_extern);
  else if (sim_word_is(word, ".func"))
    sim_parse_refuse(r, "a function: everything a kernel calls must be inlined");
  else
    sim_parse_refuse(r, "%.*s is not known", (int)word.n, word.at);
  r->n_module_variables = r->variables.n;
}

static void read_module(sim_reader *r) {
  bool has_version = false;
  while (sim_peek(r)) {
    sim_word word = sim_take_word(r);
    if (sim_word_is(word, ".version") || sim_word_is(word, ".target") || sim_word_is(word, ".address_size")) {
      has_version |= sim_word_is(word, ".version");
      sim_word value = sim_take_word(r);
      while (sim_take(r, ',')) sim_take_word(r);
      if (sim_word_is(word, ".address_size") && !sim_word_is(value, "64"))
        sim_parse_refuse(r, "addresses of other than 64 bits");
    } else {
      if (!has_version) sim_parse_refuse(r, ".version expected first");
      read_module_item(r, word);
    }
  }
  if (!has_version) sim_parse_refuse(r, "no .version: this is not PTX");
}

static bool read_all(sim_reader *r) {
  if (setjmp(r->failed)) return false;
  read_module(r);
  return true;
}

static void free_reader(sim_reader *r) {
  sim_list *lists[] = {&r->variables, &r->kernels, &r->ops,    &r->targets,   &r->params,
                       &r->declared,  &r->labels,  &r->fixups, &r->constants, &r->param_names};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) free(lists[i]->items);
}

sim_module *sim_module_parse(const char *ptx, char *problem, size_t n_problem) {
  sim_reader *r = calloc(1, sizeof *r);
  sim_module *module = calloc(1, sizeof *module);
  if (!r || !module || !(module->text = strdup(ptx))) abort();
  *r = (sim_reader){.at = module->text, .line = 1, .module = module, .problem = problem, .n_problem = n_problem};
  bool is_read = read_all(r);
  module->n_variables = r->variables.n;
  module->variables = list_keep(&r->variables, sizeof(sim_variable));
  module->n_kernels = r->kernels.n;
  module->kernels = list_keep(&r->kernels, sizeof(sim_kernel));
  free_reader(r);
  free(r);
  if (is_read) return module;
  sim_module_free(module);
  return NULL;
}

void sim_module_free(sim_module *module) {
  if (!module) return;
  for (size_t i = 0; i < module->n_kernels; i++) {
    sim_kernel *kernel = &module->kernels[i];
    free(kernel->name);
    free(kernel->ops);
    free(kernel->targets);
    free(kernel->constants);
    free(kernel->params);
  }
  for (size_t i = 0; i < module->n_variables; i++) free(module->variables[i].owned);
  free(module->kernels);
  free(module->variables);
  free(module->text);
  free(module);
}
