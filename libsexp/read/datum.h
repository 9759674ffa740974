/* Datums: what the reader gives and the evaluator walks. Immutable, owned by the program's arena. */
#ifndef SX_READ_DATUM_H
#define SX_READ_DATUM_H

#include <stdbool.h>
#include <stdint.h>

#include "../base/diag.h"
#include "../base/intern.h"

enum { SX_DEPTH_MAX = 512 };

typedef enum sx_datum_kind {
  SX_DATUM_INTEGER,
  SX_DATUM_REAL,
  SX_DATUM_BOOLEAN,
  SX_DATUM_STRING,  /* text, n_bytes (may not hold NUL) */
  SX_DATUM_SYMBOL,  /* text, interned */
  SX_DATUM_KEYWORD, /* text, interned, without the colon */
  SX_DATUM_LIST,    /* (a b c): items, n */
  SX_DATUM_VECTOR,  /* [a b c]: items, n; evaluates its elements to a list */
  SX_DATUM_QUOTE    /* 'a: items[0] */
} sx_datum_kind;

typedef struct sx_datum {
  sx_datum_kind kind;
  sx_span span;
  union {
    int64_t integer;
    double real;
    bool boolean;
    const char *text;
    const struct sx_datum **items;
  };
  uint32_t n; /* items of a list, vector, quote; bytes of a string */
} sx_datum;

/* The source texts of a program. File numbers start at 1. */
typedef struct sx_source {
  const char *path;  /* as it was named, joined to the folder of the file that named it */
  const char *bytes; /* NUL-terminated */
  uint32_t n_bytes;
  uint32_t *line_starts; /* byte offset of each line */
  uint32_t n_lines;
  bool prelude; /* embedded in the library */
} sx_source;

typedef struct sx_sources {
  sx_arena *arena;
  SX_VEC(sx_source) files; /* files.items[file - 1] */
} sx_sources;

void sx_sources_init(sx_sources *sources, sx_arena *arena);
/* Adds a text (copied) and gives its file number. n_bytes is at most 64 MiB. */
uint32_t sx_sources_add(sx_sources *sources, const char *path, const char *bytes, size_t n_bytes, bool prelude);
const sx_source *sx_sources_get(const sx_sources *sources, uint32_t file);
/* Line and column, both from 1; the column counts code points. */
void sx_source_place(const sx_source *source, uint32_t offset, uint32_t *line, uint32_t *column);

/* Reads all datums of a file; errors go to diags (up to the limit; reading goes on after one).
 * The items of the result are valid datums also when there were errors. */
typedef struct sx_datums {
  const sx_datum **items;
  uint32_t n;
} sx_datums;
sx_datums sx_read(const sx_sources *sources, uint32_t file, sx_intern *names, sx_arena *arena, sx_diags *diags);

/* Canonical text of a datum: reads back to an equal datum. */
struct sx_text;
void sx_datum_print(struct sx_text *text, const sx_datum *datum);

/* A diagnostic as a person sees it: place, code, message, source line, caret under the span, second
 * span, call chain, hint. Several lines, each ended by a newline. */
void sx_diag_print(struct sx_text *text, const sx_diag *diag, const sx_sources *sources);

#endif
