/* Reads the text of a graph (grammar: print.c). Any bytes are safe: every node goes through sx_graph_try,
 * and what it infers must be what the line states. Stops at the first error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "infer.h"

enum { WORD_MAX = 64, INPUTS_MAX = 1 << 20 };

typedef struct parser {
  const char *at, *end, *line_start;
  uint32_t line;
  sx_graph *graph;
  sx_diags *diags;
  sx_text scratch; /* of the string read last */
  double real;     /* a real read last, as f64 and as f32: the dtype that decides comes later */
  float real_f32;
} parser;

static bool fail_at(parser *p, const char *at, sx_code code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static bool fail_at(parser *p, const char *at, sx_code code, const char *format, ...) {
  char message[500];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  sx_error(p->diags, code, (sx_span){0}, "line %u, column %u: %s", p->line, (unsigned)(at - p->line_start) + 1,
           message);
  return false;
}

/* ---- tokens ------------------------------------------------------------------------------------- */

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.';
}

static void skip_blanks(parser *p) {
  while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\r')) p->at++;
  if (p->at < p->end && *p->at == ';')
    while (p->at < p->end && *p->at != '\n') p->at++;
}

static const char *next_token(parser *p) {
  skip_blanks(p);
  return p->at;
}

static bool at_line_end(parser *p) {
  skip_blanks(p);
  return p->at == p->end || *p->at == '\n';
}

static void skip_empty_lines(parser *p) {
  while (at_line_end(p) && p->at < p->end) {
    p->line_start = ++p->at;
    p->line++;
  }
}

static bool end_line(parser *p) {
  if (at_line_end(p)) return true;
  return fail_at(p, p->at, SX_E_IR_SYNTAX, "expected the end of the line");
}

static bool next_is(parser *p, char c) {
  skip_blanks(p);
  return p->at < p->end && *p->at == c;
}

static bool take(parser *p, char c) {
  if (!next_is(p, c)) return false;
  p->at++;
  return true;
}

static bool expect(parser *p, char c) {
  if (take(p, c)) return true;
  return fail_at(p, p->at, SX_E_IR_SYNTAX, "expected '%c'", c);
}

/* Letters, digits and signs, ended by NUL. */
static bool read_word(parser *p, const char *expected, char word[WORD_MAX]) {
  skip_blanks(p);
  size_t n = 0;
  while (p->at + n < p->end && is_word(p->at[n])) n++;
  if (n == 0 || n >= WORD_MAX) return fail_at(p, p->at, SX_E_IR_SYNTAX, "expected %s", expected);
  memcpy(word, p->at, n);
  word[n] = 0;
  p->at += n;
  return true;
}

static bool read_integer(parser *p, int64_t low, int64_t high, int64_t *value) {
  skip_blanks(p);
  const char *at = p->at;
  bool negative = at < p->end && *at == '-';
  if (negative) at++;
  int64_t magnitude = 0;
  const char *digits = at;
  for (; at < p->end && *at >= '0' && *at <= '9'; at++) {
    int digit = *at - '0';
    if (magnitude > (INT64_MAX - digit) / 10)
      return fail_at(p, p->at, SX_E_IR_NUMBER, "an integer does not fit 64 bits");
    magnitude = magnitude * 10 + digit;
  }
  if (at == digits) return fail_at(p, p->at, SX_E_IR_SYNTAX, "expected an integer");
  *value = negative ? -magnitude : magnitude;
  if (*value < low || *value > high)
    return fail_at(p, p->at, SX_E_IR_NUMBER, "%lld is out of range", (long long)*value);
  p->at = at;
  return true;
}

static bool read_real(parser *p) {
  char word[WORD_MAX], *end;
  const char *at = next_token(p);
  if (!read_word(p, "a real", word)) return false;
  bool named = strcmp(word, "inf") == 0 || strcmp(word, "-inf") == 0 || strcmp(word, "nan") == 0;
  bool decimal = strspn(word, "0123456789+-.eE") == strlen(word);
  p->real = named || decimal ? strtod(word, &end) : 0;
  if (!(named || decimal) || *end) return fail_at(p, at, SX_E_IR_NUMBER, "\"%s\" is no real", word);
  p->real_f32 = strtof(word, NULL);
  return true;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One character of a string, at p->at, with its escapes. */
static bool read_character(parser *p) {
  char c = *p->at++;
  if (c == '\\' && p->end - p->at >= 3 && p->at[0] == 'x') {
    int value = hex_digit(p->at[1]) * 16 + hex_digit(p->at[2]);
    if (hex_digit(p->at[1]) < 0 || hex_digit(p->at[2]) < 0 || value == 0) return false;
    c = (char)value;
    p->at += 3;
  } else if (c == '\\') {
    if (p->at == p->end || (*p->at != '"' && *p->at != '\\')) return false;
    c = *p->at++;
  } else if (c == 0 || c == '\n') {
    return false;
  }
  sx_text_add_bytes(&p->scratch, &c, 1);
  return true;
}

/* The string is interned with the graph's names. */
static bool read_string(parser *p, const char **string) {
  if (!expect(p, '"')) return false;
  p->scratch.n = 0;
  while (p->at < p->end && *p->at != '"') {
    const char *at = p->at;
    if (!read_character(p)) return fail_at(p, at, SX_E_IR_SYNTAX, "a character that a string cannot hold");
  }
  *string = sx_intern_bytes(p->graph->names, sx_text_get(&p->scratch), p->scratch.n);
  return expect(p, '"');
}

static bool read_node_id(parser *p, sx_id *id) {
  int64_t value = 0;
  const char *at = next_token(p);
  if (!expect(p, '%') || !read_integer(p, 0, UINT32_MAX - 1, &value)) return false;
  *id = (sx_id)value;
  if (*id < p->graph->nodes.n) return true;
  return fail_at(p, at, SX_E_IR_NODE, "%%%u is not defined before here", *id);
}

/* ---- a node ------------------------------------------------------------------------------------- */

typedef SX_VEC(int64_t) integers;

static bool read_list(parser *p, integers *list) {
  if (!expect(p, '[')) return false;
  while (!next_is(p, ']')) {
    int64_t value = 0;
    if (list->n == INPUTS_MAX) return fail_at(p, p->at, SX_E_IR_NUMBER, "a list is too long");
    if (!read_integer(p, INT64_MIN, INT64_MAX, &value)) return false;
    SX_PUSH(p->graph->arena, *list, value);
  }
  return expect(p, ']');
}

/* The lists of an operation interleave in its integers: one of each an axis. */
static bool interleave(parser *p, const char *at, const integers *lists, uint32_t n_lists, integers *ints) {
  for (uint32_t k = 1; k < n_lists; k++)
    if (lists[k].n != lists[0].n) return fail_at(p, at, SX_E_IR_SYNTAX, "lists of attributes differ in length");
  for (size_t i = 0; n_lists && i < lists[0].n; i++)
    for (uint32_t k = 0; k < n_lists; k++) SX_PUSH(p->graph->arena, *ints, lists[k].items[i]);
  return true;
}

static bool read_attribute(parser *p, const sx_attribute *attribute, sx_spec *spec, integers *ints, integers *list) {
  if (attribute->kind == 'r') return read_real(p);
  if (attribute->kind == 't') return read_string(p, &spec->text);
  if (attribute->kind == 'I') return read_list(p, list);
  int64_t value = 0;
  if (!read_integer(p, INT64_MIN, INT64_MAX, &value)) return false;
  SX_PUSH(p->graph->arena, *ints, value);
  return true;
}

static bool read_attributes(parser *p, sx_spec *spec, integers *ints) {
  sx_attributes layout = sx_op_attributes(spec->op);
  integers lists[SX_ATTRIBUTES_MAX] = {{0}};
  uint32_t n_lists = 0, next = 0;
  const char *start = next_token(p);
  bool some = take(p, '{');
  while (some && next < layout.n) {
    char name[WORD_MAX];
    const char *at = next_token(p);
    if (!read_word(p, "an attribute", name)) return false;
    while (next < layout.n && layout.items[next].kind == 't' &&
           strncmp(name, layout.items[next].name, strlen(name)) != 0)
      next++;
    if (next == layout.n || strlen(name) != layout.items[next].length ||
        memcmp(name, layout.items[next].name, layout.items[next].length) != 0)
      return fail_at(p, at, SX_E_IR_NAME, "attribute \"%s\" is not the next of %s", name,
                     sx_op_describe(spec->op)->name);
    if (!read_attribute(p, &layout.items[next++], spec, ints, &lists[n_lists])) return false;
    if (layout.items[next - 1].kind == 'I') n_lists++;
    some = take(p, ',');
    if (!some && !expect(p, '}')) return false;
  }
  if (some) return fail_at(p, p->at, SX_E_IR_NAME, "more attributes than %s has", sx_op_describe(spec->op)->name);
  for (; next < layout.n; next++)
    if (layout.items[next].kind != 't')
      return fail_at(p, start, SX_E_IR_NAME, "attribute \"%.*s\" of %s is missing", (int)layout.items[next].length,
                     layout.items[next].name, sx_op_describe(spec->op)->name);
  return interleave(p, start, lists, layout.n_lists, ints);
}

static bool read_operation(parser *p, sx_op *op) {
  char name[WORD_MAX];
  const char *at = next_token(p);
  if (!read_word(p, "an operation", name)) return false;
  if (sx_op_parse(name, op)) return true;
  return fail_at(p, at, SX_E_IR_NAME, "\"%s\" is no operation", name);
}

static bool read_type(parser *p, sx_dtype *dtype, integers *dims) {
  char name[WORD_MAX];
  if (!expect(p, ':')) return false;
  const char *at = next_token(p);
  if (!read_word(p, "a dtype", name)) return false;
  if (!sx_dtype_parse(name, dtype)) return fail_at(p, at, SX_E_IR_NAME, "\"%s\" is no dtype", name);
  if (!read_list(p, dims)) return false;
  return dims->n <= SX_RANK_MAX || fail_at(p, at, SX_E_IR_NUMBER, "a shape has more than %d axes", SX_RANK_MAX);
}

static bool read_place(parser *p) {
  int64_t file = 0, begin = 0, end = 0;
  const char *path = "";
  if (take(p, '@') &&
      !(read_string(p, &path) && read_integer(p, 0, UINT32_MAX, &file) && expect(p, ':') &&
        read_integer(p, 0, UINT32_MAX, &begin) && expect(p, ':') && read_integer(p, 0, UINT32_MAX, &end)))
    return false;
  p->graph->span = (sx_span){(uint32_t)file, (uint32_t)begin, (uint32_t)end};
  p->graph->path = path;
  return true;
}

static bool add_node(parser *p, const char *at, const sx_spec *spec) {
  sx_problem why;
  sx_id id;
  if (!sx_graph_try(p->graph, spec, &id, &why))
    return fail_at(p, at, SX_E_IR_NODE, "%s %s", sx_op_describe(spec->op)->name, why.message);
  const sx_node *node = sx_node_at(p->graph, id);
  bool agrees = node->dtype == spec->dtype && node->rank == spec->rank;
  for (int i = 0; agrees && i < node->rank; i++) agrees = node->dims[i] == spec->dims[i];
  if (spec->op == SX_OP_UNIFORM || spec->op == SX_OP_NORMAL)
    if (!node->text && node->ints[0] >= p->graph->n_draws) p->graph->n_draws = node->ints[0] + 1;
  if (agrees) return true;
  return fail_at(p, at, SX_E_IR_NODE, "%s gives %s %s", sx_op_describe(spec->op)->name, sx_dtype_name(node->dtype),
                 sx_shape_text_of(node).text);
}

static bool read_node(parser *p) {
  sx_spec spec = {0};
  integers ints = {0}, dims = {0};
  SX_VEC(sx_id) inputs = {0};
  const char *at = p->at;
  int64_t number = 0;
  if (!expect(p, '%') || !read_integer(p, 0, UINT32_MAX, &number)) return false;
  if ((size_t)number != p->graph->nodes.n)
    return fail_at(p, at, SX_E_IR_NODE, "node %%%lld stands where %%%zu is next", (long long)number, p->graph->nodes.n);
  if (!expect(p, '=') || !read_operation(p, &spec.op)) return false;
  while (next_is(p, '%')) {
    sx_id input = 0;
    if (inputs.n == INPUTS_MAX) return fail_at(p, p->at, SX_E_IR_NUMBER, "too many operands");
    if (!read_node_id(p, &input)) return false;
    SX_PUSH(p->graph->arena, inputs, input);
  }
  p->real = 0;
  p->real_f32 = 0;
  if (!read_attributes(p, &spec, &ints) || !read_type(p, &spec.dtype, &dims) || !read_place(p)) return false;
  spec.inputs = inputs.items;
  spec.n_inputs = (uint32_t)inputs.n;
  spec.ints = ints.items;
  spec.n_ints = (uint32_t)ints.n;
  spec.dims = dims.items;
  spec.rank = (int)dims.n;
  spec.real = sx_dtype_is_float(spec.dtype) ? (double)p->real_f32 : p->real;
  return add_node(p, at, &spec) && end_line(p);
}

static bool read_output(parser *p) {
  const char *name = "";
  sx_id node = 0;
  if (!read_string(p, &name) || !read_node_id(p, &node)) return false;
  sx_graph_output(p->graph, name, node);
  return end_line(p);
}

static bool expect_word(parser *p, const char *wanted) {
  char word[WORD_MAX];
  const char *at = next_token(p);
  if (!read_word(p, wanted, word)) return false;
  return strcmp(word, wanted) == 0 || fail_at(p, at, SX_E_IR_SYNTAX, "expected %s", wanted);
}

static bool read_graph(parser *p) {
  const char *name = "";
  skip_empty_lines(p);
  if (!expect_word(p, "graph") || !read_string(p, &name) || !end_line(p)) return false;
  p->graph->name = name;
  for (skip_empty_lines(p); p->at < p->end; skip_empty_lines(p)) {
    if (*p->at == '%' ? !read_node(p) : !(expect_word(p, "output") && read_output(p))) return false;
  }
  return true;
}

sx_graph *sx_graph_parse(sx_arena *arena, sx_intern *names, const char *bytes, size_t n_bytes, sx_diags *diags) {
  parser p = {.at = bytes, .end = bytes + n_bytes, .line_start = bytes, .line = 1, .diags = diags};
  p.graph = sx_graph_new(arena, names, "");
  sx_text_init(&p.scratch, arena);
  if (!read_graph(&p)) return NULL;
  p.graph->span = (sx_span){0};
  p.graph->path = "";
  return p.graph;
}
