/* Tokens of a source text. The text is valid UTF-8 without NUL (sx_lexer_check was true). */
#ifndef SX_READ_LEXER_H
#define SX_READ_LEXER_H

#include "datum.h"

typedef enum sx_token_kind {
  SX_TOKEN_END,
  SX_TOKEN_OPEN,  /* ( or [ */
  SX_TOKEN_CLOSE, /* ) or ] */
  SX_TOKEN_QUOTE, /* ' */
  SX_TOKEN_SKIP,  /* #; */
  SX_TOKEN_ATOM,  /* a whole datum; after an error in it, the integer 0 */
  SX_TOKEN_BROKEN /* the file ends inside a string or comment: reported; END follows */
} sx_token_kind;

typedef struct sx_token {
  sx_token_kind kind;
  sx_span span;
  bool square; /* OPEN, CLOSE */
  const sx_datum *datum;
} sx_token;

typedef struct sx_lexer {
  const sx_source *source;
  uint32_t file, at; /* at: the next byte */
  sx_intern *names;
  sx_arena *arena;
  sx_diags *diags;
} sx_lexer;

/* Whether the text is UTF-8 without NUL; reports the first byte that is not. */
bool sx_lexer_check(const sx_lexer *lexer);
/* The next token, comments and blanks skipped; errors are reported. */
sx_token sx_lexer_next(sx_lexer *lexer);

#endif
