/* The JSON writer: text in a growing buffer, a small stack of open objects and arrays. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "ckpt_json.h"
#include "utf8.h"

typedef struct level {
  bool object;
  bool spread;  /* one item a line */
  bool has_key; /* a key waits for its value */
  bool is_empty;
} level;

struct ckpt_json {
  ckpt_json_style style;
  char *text;
  size_t n, room;
  bool failed; /* out of memory */
  int depth;
  level levels[CKPT_JSON_DEPTH];
};

ckpt_json *ckpt_json_new(ckpt_json_style style) {
  ckpt_json *json = calloc(1, sizeof *json);
  if (json) json->style = style;
  return json;
}

void ckpt_json_free(ckpt_json *json) {
  if (!json) return;
  free(json->text);
  free(json);
}

void ckpt_json_reset(ckpt_json *json) {
  json->n = 0;
  json->failed = false;
  json->depth = 0;
}

static void put(ckpt_json *json, const char *bytes, size_t n_bytes) {
  if (json->failed) return;
  if (json->room - json->n <= n_bytes) {
    size_t room = json->room ? json->room : 256;
    while (room - json->n <= n_bytes && room < SIZE_MAX / 2) room *= 2;
    char *grown = room - json->n > n_bytes ? realloc(json->text, room) : NULL;
    if (!grown) {
      json->failed = true;
      return;
    }
    json->text = grown;
    json->room = room;
  }
  memcpy(json->text + json->n, bytes, n_bytes);
  json->n += n_bytes;
  json->text[json->n] = 0;
}

static void put_text(ckpt_json *json, const char *text) { put(json, text, strlen(text)); }

const char *ckpt_json_text(ckpt_json *json, size_t *n_out) {
  put(json, "", 0);
  if (n_out) *n_out = json->failed ? 0 : json->n;
  return json->failed ? NULL : json->text;
}

static void require(bool holds) {
  if (!holds) abort();
}

static level *top(ckpt_json *json) { return json->depth ? &json->levels[json->depth - 1] : NULL; }

static void new_line(ckpt_json *json) {
  put(json, "\n", 1);
  for (int i = 0; i < json->depth; i++) put(json, "  ", 2);
}

/* What stands between the last item and the next. */
static void separate(ckpt_json *json, level *in, bool spread) {
  if (spread) in->spread = true;
  if (!in->is_empty) put(json, ",", 1);
  if (in->spread)
    new_line(json);
  else if (!in->is_empty)
    put(json, " ", 1);
  in->is_empty = false;
}

static void before_value(ckpt_json *json, bool container) {
  level *in = top(json);
  if (!in) return;
  require(in->object == in->has_key);
  if (in->object)
    in->has_key = false;
  else
    separate(json, in, container && json->style == CKPT_JSON_PRETTY);
}

static void after_value(ckpt_json *json) {
  if (json->depth == 0) put(json, "\n", 1);
}

static void begin(ckpt_json *json, bool object) {
  before_value(json, true);
  require(json->depth < CKPT_JSON_DEPTH);
  put(json, object ? "{" : "[", 1);
  bool spread = object && json->style == CKPT_JSON_PRETTY;
  json->levels[json->depth++] = (level){.object = object, .spread = spread, .is_empty = true};
}

static void end(ckpt_json *json, bool object) {
  level *in = top(json);
  require(in && in->object == object && !in->has_key);
  bool break_line = in->spread && !in->is_empty;
  json->depth--;
  if (break_line) new_line(json);
  put(json, object ? "}" : "]", 1);
  after_value(json);
}

void ckpt_json_begin_object(ckpt_json *json) { begin(json, true); }
void ckpt_json_end_object(ckpt_json *json) { end(json, true); }
void ckpt_json_begin_array(ckpt_json *json) { begin(json, false); }
void ckpt_json_end_array(ckpt_json *json) { end(json, false); }

static void put_escaped(ckpt_json *json, unsigned char byte) {
  static const char letters[] = "\bb\ff\nn\rr\tt\"\"\\\\";
  char text[8];
  for (size_t i = 0; i < sizeof letters - 1; i += 2) {
    if ((unsigned char)letters[i] != byte) continue;
    text[0] = '\\';
    text[1] = letters[i + 1];
    put(json, text, 2);
    return;
  }
  snprintf(text, sizeof text, "\\u%04x", byte);
  put(json, text, 6);
}

static bool is_plain(unsigned char byte) { return byte >= 0x20 && byte != '"' && byte != '\\'; }

static void put_quoted(ckpt_json *json, const char *text, size_t n_bytes) {
  const unsigned char *bytes = (const unsigned char *)text;
  put(json, "\"", 1);
  size_t plain = 0; /* bytes before i that are to be put as they are */
  for (size_t i = 0; i < n_bytes;) {
    size_t n = ck_utf8_length(bytes + i, n_bytes - i);
    if (n > 0 && is_plain(bytes[i])) {
      plain += n;
      i += n;
      continue;
    }
    put(json, text + i - plain, plain);
    plain = 0;
    if (n == 0)
      put_text(json, "\xef\xbf\xbd");
    else
      put_escaped(json, bytes[i]);
    i++;
  }
  put(json, text + n_bytes - plain, plain);
  put(json, "\"", 1);
}

void ckpt_json_key(ckpt_json *json, const char *key) {
  level *in = top(json);
  require(in && in->object && !in->has_key);
  separate(json, in, false);
  put_quoted(json, key, strlen(key));
  put(json, ": ", 2);
  in->has_key = true;
}

void ckpt_json_string_n(ckpt_json *json, const char *text, size_t n_bytes) {
  before_value(json, false);
  put_quoted(json, text, n_bytes);
  after_value(json);
}

void ckpt_json_string(ckpt_json *json, const char *text) {
  if (text)
    ckpt_json_string_n(json, text, strlen(text));
  else
    ckpt_json_null(json);
}

void ckpt_json_raw(ckpt_json *json, const char *text) {
  before_value(json, false);
  put_text(json, text);
  after_value(json);
}

void ckpt_json_null(ckpt_json *json) { ckpt_json_raw(json, "null"); }

void ckpt_json_bool(ckpt_json *json, bool value) { ckpt_json_raw(json, value ? "true" : "false"); }

void ckpt_json_integer(ckpt_json *json, int64_t value) {
  char text[32];
  snprintf(text, sizeof text, "%lld", (long long)value);
  ckpt_json_raw(json, text);
}

void ckpt_json_unsigned(ckpt_json *json, uint64_t value) {
  char text[32];
  snprintf(text, sizeof text, "%llu", (unsigned long long)value);
  if (value > INT64_MAX)
    ckpt_json_string(json, text);
  else
    ckpt_json_raw(json, text);
}

/* printf and strtod write and read the locale's point, of one or more bytes: it becomes '.'. */
static size_t plain_point(char *text) {
  size_t n = 0;
  for (const char *from = text; *from;) {
    if (strchr("+-0123456789e", *from)) {
      text[n++] = *from++;
      continue;
    }
    text[n++] = '.';
    while (*from && !strchr("+-0123456789e", *from)) from++;
  }
  text[n] = 0;
  return n;
}

static size_t special_text(char out[CKPT_REAL_TEXT], bool is_nan, bool negative) {
  return (size_t)snprintf(out, CKPT_REAL_TEXT, "%s", is_nan ? "nan" : negative ? "-inf" : "inf");
}

size_t ckpt_real32_text(char out[CKPT_REAL_TEXT], float value) {
  if (!isfinite(value)) return special_text(out, isnan(value), signbit(value));
  for (int digits = 1; digits <= 9; digits++) {
    snprintf(out, CKPT_REAL_TEXT, "%.*g", digits, (double)value);
    float back = strtof(out, NULL);
    if (memcmp(&back, &value, sizeof value) == 0) break;
  }
  return plain_point(out);
}

size_t ckpt_real64_text(char out[CKPT_REAL_TEXT], double value) {
  if (!isfinite(value)) return special_text(out, isnan(value), signbit(value));
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(out, CKPT_REAL_TEXT, "%.*g", digits, value);
    double back = strtod(out, NULL);
    if (memcmp(&back, &value, sizeof value) == 0) break;
  }
  return plain_point(out);
}

void ckpt_json_real32(ckpt_json *json, float value) {
  char text[CKPT_REAL_TEXT];
  ckpt_real32_text(text, value);
  ckpt_json_raw(json, isfinite(value) ? text : "null");
}

void ckpt_json_real64(ckpt_json *json, double value) {
  char text[CKPT_REAL_TEXT];
  ckpt_real64_text(text, value);
  ckpt_json_raw(json, isfinite(value) ? text : "null");
}

void ckpt_json_bits32(ckpt_json *json, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  char text[16];
  snprintf(text, sizeof text, "%08x", (unsigned)bits);
  ckpt_json_string(json, text);
}
