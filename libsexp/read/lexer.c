/* Tokens: blanks, comments, brackets, strings and words. Words become numbers in number.c. */
#include "lexer.h"

#include <string.h>

#include "../base/text.h"
#include "number.h"
#include "utf8.h"

static sx_span span_from(const sx_lexer *lexer, uint32_t begin) { return (sx_span){lexer->file, begin, lexer->at}; }

static bool more(const sx_lexer *lexer) { return lexer->at < lexer->source->n_bytes; }

static char byte_at(const sx_lexer *lexer, uint32_t ahead) {
  uint32_t at = lexer->at + ahead;
  return at < lexer->source->n_bytes ? lexer->source->bytes[at] : 0;
}

bool sx_lexer_check(const sx_lexer *lexer) {
  const sx_source *source = lexer->source;
  uint32_t code_point = 0;
  for (uint32_t i = 0; i < source->n_bytes;) {
    size_t length = sx_utf8_decode(source->bytes + i, source->n_bytes - i, &code_point);
    if (length == 0 || code_point == 0) {
      sx_span span = {lexer->file, i, i + 1};
      if (length == 0)
        sx_error(lexer->diags, SX_E_READ_BYTES, span, "byte 0x%02x at offset %u is not UTF-8",
                 (unsigned)(unsigned char)source->bytes[i], i);
      else
        sx_error(lexer->diags, SX_E_READ_BYTES, span, "a NUL byte at offset %u", i)->hint = NULL;
      return false;
    }
    i += (uint32_t)length;
  }
  return true;
}

/* ---- blanks and comments ------------------------------------------------------------------------- */

static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Skips a block comment with the comments inside it. False: the file ends first. */
static bool skip_block(sx_lexer *lexer) {
  uint32_t begin = lexer->at, depth = 0;
  while (more(lexer)) {
    char c = byte_at(lexer, 0), next = byte_at(lexer, 1);
    bool opens = c == '#' && next == '|', closes = c == '|' && next == '#';
    lexer->at += opens || closes ? 2 : 1;
    depth = depth + opens - closes;
    if (closes && depth == 0) return true;
  }
  sx_diag *diag = sx_error(lexer->diags, SX_E_READ_UNCLOSED,
                           (sx_span){lexer->file, lexer->source->n_bytes - 1, lexer->source->n_bytes},
                           "the file ends inside a block comment");
  diag->second_span = (sx_span){lexer->file, begin, begin + 2};
  diag->second_label = "opened here";
  return false;
}

/* To the next token. False: a comment is not closed. */
static bool skip_blanks(sx_lexer *lexer) {
  if (lexer->at == 0 && strncmp(lexer->source->bytes, "\xef\xbb\xbf", 3) == 0) lexer->at = 3;
  while (more(lexer)) {
    char c = byte_at(lexer, 0);
    if (is_blank(c)) {
      lexer->at++;
    } else if (c == ';') {
      while (more(lexer) && byte_at(lexer, 0) != '\n') lexer->at++;
    } else if (c == '#' && byte_at(lexer, 1) == '|') {
      if (!skip_block(lexer)) return false;
    } else {
      break;
    }
  }
  return true;
}

/* ---- strings ------------------------------------------------------------------------------------- */

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The code point of u{...} at the lexer's place. False: it is none. */
static bool read_code_point(sx_lexer *lexer, uint32_t *value) {
  lexer->at++;
  if (byte_at(lexer, 0) != '{') return false;
  lexer->at++;
  uint32_t n = 0;
  *value = 0;
  for (int digit; n < 6 && (digit = hex_digit(byte_at(lexer, 0))) >= 0; n++, lexer->at++)
    *value = *value << 4 | (uint32_t)digit;
  for (; hex_digit(byte_at(lexer, 0)) >= 0; n++) lexer->at++;
  if (byte_at(lexer, 0) != '}') return false;
  lexer->at++;
  return n > 0 && n <= 6 && *value != 0 && *value <= 0x10ffff && !(*value >= 0xd800 && *value < 0xe000);
}

/* The escape after a backslash, added to the text or reported. */
static void read_escape(sx_lexer *lexer, sx_text *text) {
  uint32_t begin = lexer->at - 1, code_point = 0;
  char c = byte_at(lexer, 0), bytes[4];
  const char *plain = "n\nt\t\"\"\\\\", *found = NULL;
  for (const char *p = plain; *p; p += 2)
    if (*p == c) found = p + 1;
  if (found) {
    lexer->at++;
    sx_text_add_bytes(text, found, 1);
  } else if (c == 'u') {
    if (read_code_point(lexer, &code_point))
      sx_text_add_bytes(text, bytes, sx_utf8_encode(code_point, bytes));
    else
      sx_error(lexer->diags, SX_E_READ_STRING, span_from(lexer, begin),
               "\\u{...} takes 1 to 6 hexadecimal digits of a code point other than 0");
  } else if (more(lexer)) {
    lexer->at +=
        (uint32_t)sx_utf8_decode(lexer->source->bytes + lexer->at, lexer->source->n_bytes - lexer->at, &code_point);
    sx_error(lexer->diags, SX_E_READ_STRING, span_from(lexer, begin), "unknown escape in a string");
  }
}

static sx_token unclosed_string(sx_lexer *lexer, uint32_t begin) {
  sx_diag *diag = sx_error(lexer->diags, SX_E_READ_UNCLOSED,
                           (sx_span){lexer->file, lexer->source->n_bytes - 1, lexer->source->n_bytes},
                           "the file ends inside a string");
  diag->second_span = (sx_span){lexer->file, begin, begin + 1};
  diag->second_label = "opened here";
  return (sx_token){.kind = SX_TOKEN_BROKEN, .span = span_from(lexer, begin)};
}

static sx_token atom(sx_lexer *lexer, uint32_t begin, sx_datum datum) {
  sx_datum *made = SX_NEW(lexer->arena, sx_datum);
  *made = datum;
  made->span = span_from(lexer, begin);
  return (sx_token){.kind = SX_TOKEN_ATOM, .span = made->span, .datum = made};
}

static sx_token read_string(sx_lexer *lexer) {
  uint32_t begin = lexer->at++;
  sx_text text;
  sx_text_init(&text, lexer->arena);
  while (more(lexer)) {
    const char *from = lexer->source->bytes + lexer->at;
    size_t plain = strcspn(from, "\"\\");
    sx_text_add_bytes(&text, from, plain);
    lexer->at += (uint32_t)plain;
    if (!more(lexer)) break;
    if (lexer->source->bytes[lexer->at++] == '"')
      return atom(lexer, begin, (sx_datum){.kind = SX_DATUM_STRING, .text = sx_text_get(&text), .n = (uint32_t)text.n});
    read_escape(lexer, &text);
  }
  return unclosed_string(lexer, begin);
}

/* ---- words --------------------------------------------------------------------------------------- */

static bool ends_word(char c) { return is_blank(c) || (c && strchr("()[]\";", c)); }

/* Code points that look like blanks or nothing: a symbol that holds one cannot be told from another. */
static bool is_invisible(uint32_t c) {
  return c < 0x21 || (c >= 0x7f && c <= 0xa0) || c == 0xad || c == 0x1680 || (c >= 0x2000 && c <= 0x200f) ||
         (c >= 0x2028 && c <= 0x202f) || (c >= 0x205f && c <= 0x206f) || c == 0x3000 || c == 0xfeff;
}

/* Why the word of n bytes is no symbol, or NULL. */
static const char *refuse_word(const sx_lexer *lexer, const char *word, size_t n) {
  uint32_t code_point = 0;
  for (size_t i = 0; i < n; i += sx_utf8_decode(word + i, n - i, &code_point)) {
    unsigned char c = (unsigned char)word[i];
    if (c == ',') return "a comma; elements are separated by blanks alone";
    if (c < 0x80 && strchr("`{}\\|", c)) return sx_format(lexer->arena, "the character %c starts nothing here", c);
    sx_utf8_decode(word + i, n - i, &code_point);
    if (is_invisible(code_point))
      return sx_format(lexer->arena, "the invisible character U+%04X", (unsigned)code_point);
  }
  return NULL;
}

static sx_token refuse(sx_lexer *lexer, uint32_t begin, sx_code code, const char *why) {
  sx_error(lexer->diags, code, span_from(lexer, begin), "%s", why);
  return atom(lexer, begin, (sx_datum){.kind = SX_DATUM_INTEGER});
}

static sx_token read_name(sx_lexer *lexer, uint32_t begin, const char *word, size_t n) {
  bool keyword = word[0] == ':';
  if (word[0] == '#') return refuse(lexer, begin, SX_E_READ_TOKEN, "# starts only comments, #| and #;");
  if (keyword && (n == 1 || word[1] == ':'))
    return refuse(lexer, begin, SX_E_READ_TOKEN, "a keyword has a name after its one colon");
  const char *why = refuse_word(lexer, word, n);
  if (why) return refuse(lexer, begin, SX_E_READ_TOKEN, why);
  return atom(lexer, begin,
              (sx_datum){.kind = keyword ? SX_DATUM_KEYWORD : SX_DATUM_SYMBOL,
                         .text = sx_intern_bytes(lexer->names, word + keyword, n - keyword)});
}

static sx_token read_word(sx_lexer *lexer) {
  uint32_t begin = lexer->at;
  while (more(lexer) && !ends_word(byte_at(lexer, 0))) lexer->at++;
  const char *word = lexer->source->bytes + begin;
  size_t n = lexer->at - begin;
  sx_datum datum = {0};
  const char *why = NULL;
  if (n == 4 && memcmp(word, "true", 4) == 0)
    return atom(lexer, begin, (sx_datum){.kind = SX_DATUM_BOOLEAN, .boolean = true});
  if (n == 5 && memcmp(word, "false", 5) == 0)
    return atom(lexer, begin, (sx_datum){.kind = SX_DATUM_BOOLEAN, .boolean = false});
  if (!sx_number_starts(word, n) || memchr(word, ',', n)) return read_name(lexer, begin, word, n);
  if (!sx_number_parse(lexer->arena, word, n, &datum, &why)) return refuse(lexer, begin, SX_E_READ_NUMBER, why);
  return atom(lexer, begin, datum);
}

sx_token sx_lexer_next(sx_lexer *lexer) {
  if (!skip_blanks(lexer)) return (sx_token){.kind = SX_TOKEN_BROKEN, .span = span_from(lexer, lexer->at)};
  uint32_t begin = lexer->at;
  if (!more(lexer)) return (sx_token){.kind = SX_TOKEN_END, .span = span_from(lexer, begin)};
  char c = byte_at(lexer, 0);
  if (c == '"') return read_string(lexer);
  sx_token token = {.square = c == '[' || c == ']'};
  uint32_t length = 1;
  if (c == '(' || c == '[') {
    token.kind = SX_TOKEN_OPEN;
  } else if (c == ')' || c == ']') {
    token.kind = SX_TOKEN_CLOSE;
  } else if (c == '\'') {
    token.kind = SX_TOKEN_QUOTE;
  } else if (c == '#' && byte_at(lexer, 1) == ';') {
    token.kind = SX_TOKEN_SKIP;
    length = 2;
  } else {
    return read_word(lexer);
  }
  lexer->at += length;
  token.span = span_from(lexer, begin);
  return token;
}
