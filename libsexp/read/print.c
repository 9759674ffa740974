/* Canonical text of datums: one blank between items, the shortest decimal of a real, escapes only where
 * the reader needs them. */
#include <math.h>
#include <string.h>

#include "../base/bug.h"
#include "../base/text.h"
#include "datum.h"

static void print_real(sx_text *text, double value) {
  size_t start = text->n;
  sx_text_add_f64(text, value);
  bool whole = isfinite(value) && !strpbrk(text->bytes + start, ".e");
  if (whole) sx_text_add(text, ".0");
}

/* Bytes that the printed string writes as an escape. */
static void print_escape(sx_text *text, unsigned char c) {
  switch (c) {
    case '\n':
      sx_text_add(text, "\\n");
      break;
    case '\t':
      sx_text_add(text, "\\t");
      break;
    case '"':
      sx_text_add(text, "\\\"");
      break;
    case '\\':
      sx_text_add(text, "\\\\");
      break;
    default:
      sx_text_addf(text, "\\u{%x}", (unsigned)c);
      break;
  }
}

static void print_string(sx_text *text, const char *bytes, size_t n) {
  sx_text_add(text, "\"");
  size_t plain = 0;
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)bytes[i];
    if (c >= 0x20 && c != 0x7f && c != '"' && c != '\\') continue;
    sx_text_add_bytes(text, bytes + plain, i - plain);
    print_escape(text, c);
    plain = i + 1;
  }
  sx_text_add_bytes(text, bytes + plain, n - plain);
  sx_text_add(text, "\"");
}

static void print_atom(sx_text *text, const sx_datum *datum) {
  switch (datum->kind) {
    case SX_DATUM_INTEGER:
      sx_text_addf(text, "%lld", (long long)datum->integer);
      break;
    case SX_DATUM_REAL:
      print_real(text, datum->real);
      break;
    case SX_DATUM_BOOLEAN:
      sx_text_add(text, datum->boolean ? "true" : "false");
      break;
    case SX_DATUM_STRING:
      print_string(text, datum->text, datum->n);
      break;
    case SX_DATUM_KEYWORD:
      sx_text_add(text, ":");
      sx_text_add(text, datum->text);
      break;
    case SX_DATUM_SYMBOL:
      sx_text_add(text, datum->text);
      break;
    case SX_DATUM_LIST:
    case SX_DATUM_VECTOR:
    case SX_DATUM_QUOTE:
      SX_BUG("no atom");
  }
}

static bool is_compound(const sx_datum *datum) { return datum->kind >= SX_DATUM_LIST; }

void sx_datum_print(sx_text *text, const sx_datum *datum) {
  static const char *const opening[] = {"(", "[", "'"}, *const closing[] = {")", "]", ""};
  struct {
    const sx_datum *list;
    uint32_t next;
  } stack[SX_DEPTH_MAX + 1] = {{datum, 0}};
  int depth = 0;
  if (!is_compound(datum)) {
    print_atom(text, datum);
    return;
  }
  sx_text_add(text, opening[datum->kind - SX_DATUM_LIST]);
  while (depth >= 0) {
    const sx_datum *list = stack[depth].list;
    if (stack[depth].next == list->n) {
      sx_text_add(text, closing[list->kind - SX_DATUM_LIST]);
      depth--;
      continue;
    }
    if (stack[depth].next) sx_text_add(text, " ");
    const sx_datum *item = list->items[stack[depth].next++];
    if (!is_compound(item)) {
      print_atom(text, item);
      continue;
    }
    sx_text_add(text, opening[item->kind - SX_DATUM_LIST]);
    SX_ASSERT(depth < SX_DEPTH_MAX);
    stack[++depth].list = item;
    stack[depth].next = 0;
  }
}
