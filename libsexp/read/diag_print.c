/* Diagnostics as a person reads them:
 *
 *   digits.sexp:14:4: E-SHAPE-003: matmul: inner sizes differ, [32 128] by [64 10]
 *      14 |   (matmul h w2)
 *         |    ^^^^^^
 *     the left operand comes from here, [32 128]
 *      12 |   (let ((h (relu (dense image 784 128)))
 *         |            ^^^^
 *     called from (classify image), digits.sexp:22:27
 *     hint: w2 is [64 10]; did you mean [128 10]? */
#include <string.h>

#include "../base/text.h"
#include "datum.h"
#include "utf8.h"

enum {
  LINE_COLUMNS = 120, /* of a source line that are shown */
  LEAD_COLUMNS = 60,  /* of them before the span, where the line is cut */
  CALL_COLUMNS = 60,  /* of a call in the chain */
  TAB_COLUMNS = 8,
  FIRST_FRAMES = 8,
  LAST_FRAMES = 4
};

/* ---- source lines -------------------------------------------------------------------------------- */

/* The code point at a byte of a line; what a terminal should not get shows as U+FFFD. */
static uint32_t shown_at(const char *bytes, uint32_t n, uint32_t *length) {
  uint32_t code_point = 0;
  *length = (uint32_t)sx_utf8_decode(bytes, n, &code_point);
  if (*length == 0) {
    *length = 1;
    return 0xfffd;
  }
  bool control = (code_point < 0x20 && code_point != '\t') || (code_point >= 0x7f && code_point < 0xa0);
  bool direction = (code_point >= 0x202a && code_point <= 0x202e) || (code_point >= 0x2066 && code_point <= 0x2069);
  return control || direction ? 0xfffd : code_point;
}

static int columns_of(uint32_t code_point, int column) {
  return code_point == '\t' ? TAB_COLUMNS - column % TAB_COLUMNS : sx_utf8_width(code_point);
}

/* The byte n code points before `at`, or the start. */
static uint32_t back(const sx_source *source, uint32_t start, uint32_t at, int n) {
  while (at > start && n > 0) n -= ((unsigned char)source->bytes[--at] & 0xc0) != 0x80;
  return at;
}

/* First byte shown: the line's own, or where the span would be too far to the right one before it. */
static uint32_t first_shown(const sx_source *source, uint32_t start, uint32_t begin) {
  return back(source, start, begin, LINE_COLUMNS - 20) == start ? start : back(source, start, begin, LEAD_COLUMNS);
}

static uint32_t end_of_line(const sx_source *source, uint32_t start) {
  const char *newline = memchr(source->bytes + start, '\n', source->n_bytes - start);
  uint32_t end = newline ? (uint32_t)(newline - source->bytes) : source->n_bytes;
  while (end > start && strchr(" \t\r", source->bytes[end - 1]) && source->bytes[end - 1]) end--;
  return end;
}

static void add_repeated(sx_text *text, const char *what, int n) {
  for (int i = 0; i < n; i++) sx_text_add(text, what);
}

/* The shown part of a line from byte `from`, with the carets of its second line in *carets. */
static void add_line(sx_text *text, sx_text *carets, const sx_source *source, uint32_t from, uint32_t end,
                     sx_span span) {
  int column = 0;
  char bytes[4];
  for (uint32_t at = from, length; at < end && column < LINE_COLUMNS; at += length) {
    uint32_t code_point = shown_at(source->bytes + at, end - at, &length);
    int columns = columns_of(code_point, column);
    bool marked = at + length > span.begin && at < span.end;
    if (code_point == '\t')
      add_repeated(text, " ", columns);
    else
      sx_text_add_bytes(text, bytes, sx_utf8_encode(code_point, bytes));
    if (at < span.end) add_repeated(carets, marked ? "^" : " ", columns);
    column += columns;
    if (column >= LINE_COLUMNS && at + length < end) sx_text_add(text, "...");
  }
}

/* The line of a span's beginning, numbered, and carets under the part of the span on it. */
static void add_excerpt(sx_text *text, const sx_source *source, sx_span span) {
  uint32_t line, column;
  sx_source_place(source, span.begin, &line, &column);
  uint32_t start = source->line_starts[line - 1], end = end_of_line(source, start);
  if (start == 0 && strncmp(source->bytes, "\xef\xbb\xbf", 3) == 0) start = 3;
  uint32_t from = first_shown(source, start, span.begin < end ? span.begin : end);
  const char *cut = from > start ? "..." : "";
  sx_text carets;
  sx_text_init(&carets, text->arena);
  sx_text_addf(text, "%5u | %s", (unsigned)line, cut);
  add_line(text, &carets, source, from, end, span);
  bool marked = strchr(sx_text_get(&carets), '^') != NULL;
  sx_text_addf(text, "\n      | %*s%s%s\n", (int)strlen(cut), "", sx_text_get(&carets), marked ? "" : "^");
}

/* ---- the parts of a diagnostic ------------------------------------------------------------------- */

static void add_place(sx_text *text, const sx_source *source, uint32_t offset) {
  uint32_t line, column;
  sx_source_place(source, offset, &line, &column);
  sx_text_addf(text, "%s:%u:%u", source->path, (unsigned)line, (unsigned)column);
}

static void add_second_span(sx_text *text, const sx_diag *diag, const sx_sources *sources) {
  const sx_source *source = sx_sources_get(sources, diag->second_span.file);
  sx_text_addf(text, "  %s", diag->second_label ? diag->second_label : "see also");
  if (diag->second_span.file != diag->span.file) {
    sx_text_add(text, ", ");
    add_place(text, source, diag->second_span.begin);
  }
  sx_text_add(text, "\n");
  add_excerpt(text, source, diag->second_span);
}

static uint32_t comment_bytes(const sx_source *source, uint32_t begin, uint32_t end) {
  uint32_t at = begin;
  while (at < end && source->bytes[at] != '\n') at++;
  return at - begin;
}

/* The source of a call on one line: comments left out, blanks as one, cut where it is long. */
static void add_call(sx_text *text, const sx_source *source, sx_span span) {
  bool string = false, escaped = false, blank = false;
  int column = 0;
  for (uint32_t at = span.begin, length; at < span.end; at += length) {
    char c = source->bytes[at], bytes[4];
    uint32_t code_point = shown_at(source->bytes + at, span.end - at, &length);
    bool comment = c == ';' && !string;
    if (comment) length = comment_bytes(source, at, span.end);
    if (comment || c == ' ' || (c >= '\t' && c <= '\r')) {
      blank = column > 0;
      continue;
    }
    if (column + blank >= CALL_COLUMNS) {
      sx_text_add(text, " ...");
      return;
    }
    if (c == '"' && !escaped) string = !string;
    escaped = string && c == '\\' && !escaped;
    if (blank) sx_text_add(text, " ");
    sx_text_add_bytes(text, bytes, sx_utf8_encode(code_point, bytes));
    column += 1 + blank;
    blank = false;
  }
}

static void add_frames(sx_text *text, const sx_frame *frames, const sx_sources *sources) {
  int n = 0, i = 0;
  for (const sx_frame *frame = frames; frame; frame = frame->outer) n++;
  bool cut = n > FIRST_FRAMES + LAST_FRAMES + 1;
  for (const sx_frame *frame = frames; frame; frame = frame->outer, i++) {
    if (cut && i == FIRST_FRAMES) sx_text_addf(text, "  ... %d more calls ...\n", n - FIRST_FRAMES - LAST_FRAMES);
    if ((cut && i >= FIRST_FRAMES && i < n - LAST_FRAMES) || frame->call.file == 0) continue;
    const sx_source *source = sx_sources_get(sources, frame->call.file);
    sx_text_add(text, "  called from ");
    add_call(text, source, frame->call);
    sx_text_add(text, ", ");
    add_place(text, source, frame->call.begin);
    sx_text_add(text, "\n");
  }
}

void sx_diag_print(sx_text *text, const sx_diag *diag, const sx_sources *sources) {
  const sx_source *source = diag->span.file ? sx_sources_get(sources, diag->span.file) : NULL;
  if (source) {
    add_place(text, source, diag->span.begin);
    sx_text_add(text, ": ");
  }
  sx_text_addf(text, "%s%s: %s\n", diag->warning ? "warning: " : "", sx_diag_code(diag), diag->message);
  if (source) add_excerpt(text, source, diag->span);
  if (diag->second_span.file) add_second_span(text, diag, sources);
  add_frames(text, diag->frames, sources);
  if (diag->hint) sx_text_addf(text, "  hint: %s\n", diag->hint);
}
