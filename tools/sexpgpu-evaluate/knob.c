#include "knob.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/failure.h"

enum { DEPTH = 16 }; /* of lists */

/* As the experiment language writes a string. */
static void put_string(FILE *to, const char *text) {
  putc('"', to);
  for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
    if (*c == '"' || *c == '\\')
      fprintf(to, "\\%c", *c);
    else if (*c < 0x20 || *c == 0x7f)
      fprintf(to, "\\u{%x}", (unsigned)*c);
    else
      putc(*c, to);
  }
  putc('"', to);
}

static bool put(FILE *to, const json_t *value, int depth) {
  switch (json_typeof(value)) {
    case JSON_STRING:
      put_string(to, json_string_value(value));
      return true;
    case JSON_INTEGER:
      fprintf(to, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
      return true;
    case JSON_REAL:
      fprintf(to, "%.17g", json_real_value(value));
      return true;
    case JSON_TRUE:
    case JSON_FALSE:
      fputs(json_is_true(value) ? "true" : "false", to);
      return true;
    case JSON_ARRAY:
      if (!depth) return false;
      putc('(', to);
      for (size_t i = 0; i < json_array_size(value); i++) {
        if (i) putc(' ', to);
        if (!put(to, json_array_get(value, i), depth - 1)) return false;
      }
      putc(')', to);
      return true;
    default:
      return false;
  }
}

/* A text alone is given as it is, which also names a dtype, but for one that would be taken for quoted. */
static bool put_value(FILE *to, const json_t *value) {
  const char *text = json_string_value(value);
  if (!text || text[0] == '"') return put(to, value, DEPTH);
  fputs(text, to);
  return true;
}

int knob_set(char **set, const ckpt_knob *knob) {
  size_t n_bytes = 0;
  json_t *value = json_loads(knob->value, JSON_DECODE_ANY, NULL);
  FILE *to = open_memstream(set, &n_bytes);
  if (!to) {
    json_decref(value);
    return tool_no_memory();
  }
  fprintf(to, "%s=", knob->name);
  bool good = value && put_value(to, value), written = !ferror(to);
  written = fclose(to) == 0 && written;
  json_decref(value);
  if (!written) return tool_no_memory();
  if (good) return TOOL_DONE;
  return tool_fail(TOOL_INPUT, TOOL_E_EVALUATE_KNOB, "knob %s: the checkpoint records %s, which --set cannot give",
                   knob->name, knob->value);
}
