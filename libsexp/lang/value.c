/* Values: text and comparison. */
#include "value.h"

#include <inttypes.h>
#include <string.h>

#include "body.h"
#include "call.h"

const char *sx_kind_phrase(sx_kind kind) {
  static const char *const phrases[] = {
      [SX_KIND_NONE] = "nothing",       [SX_KIND_INTEGER] = "an integer", [SX_KIND_REAL] = "a real",
      [SX_KIND_BOOLEAN] = "a boolean",  [SX_KIND_STRING] = "a string",    [SX_KIND_SYMBOL] = "a symbol",
      [SX_KIND_KEYWORD] = "a keyword",  [SX_KIND_LIST] = "a list",        [SX_KIND_FUNCTION] = "a function",
      [SX_KIND_BUILTIN] = "a function", [SX_KIND_DTYPE] = "a dtype",      [SX_KIND_TENSOR] = "a tensor",
      [SX_KIND_WEIGHTS] = "weights",
  };
  return phrases[kind];
}

/* A real always shows that it is one. */
static void add_real(sx_text *text, double real) {
  size_t before = text->n;
  sx_text_add_f64(text, real);
  const char *written = sx_text_get(text) + before;
  if (!strpbrk(written, ".en")) sx_text_add(text, ".0");
}

static void add_quoted(sx_text *text, const char *string) {
  sx_text_add(text, "\"");
  for (const char *c = string; *c; c++) {
    if (*c == '\n')
      sx_text_add(text, "\\n");
    else if (*c == '\t')
      sx_text_add(text, "\\t");
    else if (*c == '"' || *c == '\\')
      sx_text_addf(text, "\\%c", *c);
    else
      sx_text_add_bytes(text, c, 1);
  }
  sx_text_add(text, "\"");
}

static void add_tensor(sx_text *text, const sx_value *value) {
  const sx_node *node = sx_node_at(value->graph, value->n);
  sx_text_addf(text, "%s ", sx_dtype_name(node->dtype));
  sx_text_add_shape(text, node->dims, node->rank);
}

/* `limit`: characters after which lists are cut; `depth`: nesting left. */
static void add_value(sx_text *text, const sx_value *value, bool quoted, size_t limit, int depth);

static void add_list(sx_text *text, const sx_value *value, size_t limit, int depth) {
  sx_text_add(text, "[");
  for (uint32_t i = 0; i < value->n; i++) {
    if (i) sx_text_add(text, " ");
    if (!depth || text->n > limit) {
      sx_text_add(text, "...");
      break;
    }
    add_value(text, &value->items[i], true, limit, depth - 1);
  }
  sx_text_add(text, "]");
}

static void add_value(sx_text *text, const sx_value *value, bool quoted, size_t limit, int depth) {
  switch ((sx_kind)value->kind) {
    case SX_KIND_NONE:
      sx_text_add(text, "nothing");
      break;
    case SX_KIND_INTEGER:
      sx_text_addf(text, "%" PRId64, value->integer);
      break;
    case SX_KIND_REAL:
      add_real(text, value->real);
      break;
    case SX_KIND_BOOLEAN:
      sx_text_add(text, value->boolean ? "true" : "false");
      break;
    case SX_KIND_STRING:
      if (quoted)
        add_quoted(text, value->text);
      else
        sx_text_add(text, value->text);
      break;
    case SX_KIND_SYMBOL:
      sx_text_add(text, value->text);
      break;
    case SX_KIND_KEYWORD:
      sx_text_addf(text, ":%s", value->text);
      break;
    case SX_KIND_LIST:
      add_list(text, value, limit, depth);
      break;
    case SX_KIND_FUNCTION:
      sx_text_addf(text, "function %s", value->function->body->name);
      break;
    case SX_KIND_BUILTIN:
      sx_text_addf(text, "function %s", value->builtin->name);
      break;
    case SX_KIND_DTYPE:
      sx_text_add(text, sx_dtype_name(value->dtype));
      break;
    case SX_KIND_TENSOR:
      add_tensor(text, value);
      break;
    case SX_KIND_WEIGHTS:
      sx_text_addf(text, "weights %s", value->weights->file);
      break;
  }
}

/* Lists may share their parts, so what they print can be exponentially long. */
enum { PRINT_DEPTH = 100, PRINT_BYTES = 1 << 20 };

void sx_value_print(sx_text *text, const sx_value *value) {
  add_value(text, value, true, text->n + PRINT_BYTES, PRINT_DEPTH);
}

void sx_value_display(sx_text *text, const sx_value *value) {
  add_value(text, value, false, text->n + PRINT_BYTES, PRINT_DEPTH);
}

const char *sx_value_show(sx_arena *arena, const sx_value *value) {
  enum { ROOM = 60 };
  sx_text text;
  sx_text_init(&text, arena);
  add_value(&text, value, true, ROOM, 3);
  if (text.n > ROOM + 20) {
    size_t cut = ROOM; /* not inside a character */
    while (cut && ((unsigned char)text.bytes[cut] & 0xc0) == 0x80) cut--;
    text.n = cut;
    sx_text_add(&text, "...");
  }
  return sx_text_get(&text);
}

static int order_of_reals(double a, double b) { return a < b ? -1 : a > b ? 1 : a == b ? 0 : 2; }

/* An integer against a real, without rounding the integer. */
static int order_mixed(int64_t a, double b) {
  if (b != b) return 2;
  if (b >= 0x1p63) return -1;
  if (b < -0x1p63) return 1;
  int64_t whole = (int64_t)b; /* towards zero */
  if (a != whole) return a < whole ? -1 : 1;
  return order_of_reals(0.0, b - (double)whole);
}

int sx_number_compare(const sx_value *a, const sx_value *b) {
  bool a_integer = a->kind == SX_KIND_INTEGER, b_integer = b->kind == SX_KIND_INTEGER;
  if (a_integer && b_integer) return a->integer < b->integer ? -1 : a->integer > b->integer;
  if (a_integer) return order_mixed(a->integer, b->real);
  if (b_integer) {
    int order = order_mixed(b->integer, a->real);
    return order == 2 ? 2 : -order;
  }
  return order_of_reals(a->real, b->real);
}

static bool equal_texts(const char *a, const char *b, sx_effort *effort) {
  enum { BYTES = 16 }; /* as one item */
  size_t n = strlen(a);
  effort->work -= (int64_t)(n / BYTES);
  return strncmp(a, b, n) == 0 && !b[n];
}

static bool equal_items(const sx_value *a, const sx_value *b, size_t n, sx_effort *effort) {
  if (a == b) return true;
  if (--effort->depth < 0 || effort->work < 0) return false;
  effort->work -= (int64_t)n;
  for (size_t i = 0; i < n; i++)
    if (!sx_value_equal(&a[i], &b[i], effort)) return false;
  effort->depth++;
  return true;
}

static bool equal_functions(const sx_function *a, const sx_function *b, sx_effort *effort) {
  if (a == b) return true;
  effort->work -= (int64_t)(a->body->form->span.end - a->body->form->span.begin);
  if (!sx_datum_equal(a->body->form, b->body->form) || a->body->captures.n != b->body->captures.n) return false;
  return equal_items(a->captures, b->captures, a->body->captures.n, effort);
}

static bool equal_weights(const sx_weights *a, const sx_weights *b) {
  bool same_tensor = a->tensor && b->tensor ? strcmp(a->tensor, b->tensor) == 0 : a->tensor == b->tensor;
  bool same_dtype = a->has_dtype == b->has_dtype && a->dtype == b->dtype;
  return same_tensor && same_dtype && strcmp(a->file, b->file) == 0;
}

bool sx_value_equal(const sx_value *a, const sx_value *b, sx_effort *effort) {
  if (sx_is_number(a) && sx_is_number(b)) return sx_number_compare(a, b) == 0;
  if (a->kind != b->kind) return false;
  switch ((sx_kind)a->kind) {
    case SX_KIND_BOOLEAN:
      return a->boolean == b->boolean;
    case SX_KIND_STRING:
    case SX_KIND_SYMBOL:
    case SX_KIND_KEYWORD:
      return equal_texts(a->text, b->text, effort);
    case SX_KIND_LIST:
      return a->n == b->n && equal_items(a->items, b->items, a->n, effort);
    case SX_KIND_FUNCTION:
      return equal_functions(a->function, b->function, effort);
    case SX_KIND_BUILTIN:
      return a->builtin == b->builtin;
    case SX_KIND_DTYPE:
      return a->dtype == b->dtype;
    case SX_KIND_TENSOR:
      return a->graph == b->graph && a->n == b->n;
    case SX_KIND_WEIGHTS:
      return equal_weights(a->weights, b->weights);
    default:
      return true;
  }
}

static bool same_bits(double a, double b) {
  uint64_t bits[2];
  memcpy(&bits[0], &a, sizeof a);
  memcpy(&bits[1], &b, sizeof b);
  return bits[0] == bits[1];
}

bool sx_datum_equal(const sx_datum *a, const sx_datum *b) {
  if (a == b) return true;
  if (a->kind != b->kind || a->n != b->n) return false;
  switch (a->kind) {
    case SX_DATUM_INTEGER:
      return a->integer == b->integer;
    case SX_DATUM_REAL:
      return same_bits(a->real, b->real);
    case SX_DATUM_BOOLEAN:
      return a->boolean == b->boolean;
    case SX_DATUM_STRING:
    case SX_DATUM_SYMBOL:
    case SX_DATUM_KEYWORD:
      return strcmp(a->text, b->text) == 0;
    default:
      break;
  }
  for (uint32_t i = 0; i < a->n; i++)
    if (!sx_datum_equal(a->items[i], b->items[i])) return false;
  return true;
}
