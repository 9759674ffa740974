/* Datums from tokens, with an explicit stack of what is open: the C stack does not grow with the input.
 *
 * Errors are reported and reading goes on: a wrong closing bracket closes the innermost list of its kind
 * (or the innermost, where none is of its kind), a bad atom reads as 0. Reading stops at the limit of
 * diagnostics, at lists nested too deeply and where the file ends inside a string or comment, so that
 * a million brackets are one error. */
#include <string.h>

#include "../base/text.h"
#include "lexer.h"

typedef enum open_kind { OPEN_LIST, OPEN_VECTOR, OPEN_QUOTE, OPEN_SKIP } open_kind;

typedef struct open_item {
  open_kind kind;
  sx_span span;  /* of the bracket or prefix */
  size_t n_kept; /* finished datums before the first item */
} open_item;

typedef struct reader {
  sx_lexer lexer;
  open_item open[SX_DEPTH_MAX];
  uint32_t depth;
  SX_VEC(const sx_datum *) done; /* finished datums of the open lists, outermost first */
  uint32_t last_end;             /* of the last token */
  sx_span margin;                /* first ( at the margin inside the outermost open list; file 0: none */
} reader;

static sx_arena *arena_of(reader *state) { return state->lexer.arena; }

static bool is_prefix(open_kind kind) { return kind == OPEN_QUOTE || kind == OPEN_SKIP; }

static const sx_datum *make_compound(reader *state, sx_datum_kind kind, size_t first, sx_span span) {
  sx_datum *datum = SX_NEW(arena_of(state), sx_datum);
  size_t n = state->done.n - first;
  datum->kind = kind;
  datum->span = span;
  datum->n = (uint32_t)n;
  datum->items = SX_NEW_N(arena_of(state), const sx_datum *, n);
  if (n) memcpy(datum->items, state->done.items + first, n * sizeof *datum->items);
  state->done.n = first;
  return datum;
}

/* A datum is finished: it goes to the innermost list, through the prefixes before it. */
static void finish(reader *state, const sx_datum *datum) {
  SX_PUSH(arena_of(state), state->done, datum);
  while (state->depth && is_prefix(state->open[state->depth - 1].kind)) {
    open_item top = state->open[--state->depth];
    if (top.kind == OPEN_SKIP) {
      state->done.n = top.n_kept;
      return;
    }
    sx_span span = {top.span.file, top.span.begin, datum->span.end};
    datum = make_compound(state, SX_DATUM_QUOTE, top.n_kept, span);
    SX_PUSH(arena_of(state), state->done, datum);
  }
}

/* False: nested too deeply. */
static bool open_list(reader *state, open_kind kind, sx_span span) {
  if (state->depth == SX_DEPTH_MAX) {
    sx_diag *diag =
        sx_error(state->lexer.diags, SX_E_READ_DEPTH, span, "lists are nested more than %d deep", SX_DEPTH_MAX);
    diag->second_span = state->open[0].span;
    diag->second_label = "the outermost is opened here";
    return false;
  }
  uint32_t begin = span.begin;
  if (state->depth == 0)
    state->margin = (sx_span){0, 0, 0};
  else if (kind == OPEN_LIST && state->margin.file == 0 && begin > 0 && state->lexer.source->bytes[begin - 1] == '\n')
    state->margin = span;
  state->open[state->depth++] = (open_item){kind, span, state->done.n};
  return true;
}

/* Drops the prefixes on top, which are followed by no datum. */
static void refuse_prefixes(reader *state) {
  while (state->depth && is_prefix(state->open[state->depth - 1].kind)) {
    open_item top = state->open[--state->depth];
    sx_error(state->lexer.diags, SX_E_READ_TOKEN, top.span, "%s is followed by no datum",
             top.kind == OPEN_QUOTE ? "'" : "#;");
  }
}

static void close_innermost(reader *state, sx_span closing) {
  open_item top = state->open[--state->depth];
  sx_span span = {top.span.file, top.span.begin, closing.end};
  sx_datum_kind kind = top.kind == OPEN_VECTOR ? SX_DATUM_VECTOR : SX_DATUM_LIST;
  finish(state, make_compound(state, kind, top.n_kept, span));
}

static void refuse_close(reader *state, const sx_token *token, const open_item *top) {
  sx_diag *diag =
      sx_error(state->lexer.diags, SX_E_READ_UNEXPECTED_CLOSE, token->span, "%s closes %s", token->square ? "]" : ")",
               !top                       ? "nothing"
               : top->kind == OPEN_VECTOR ? "a ["
                                          : "a (");
  if (!top) return;
  diag->second_span = top->span;
  diag->second_label = "opened here";
}

static void close_list(reader *state, const sx_token *token) {
  refuse_prefixes(state);
  if (state->depth == 0) {
    refuse_close(state, token, NULL);
    return;
  }
  open_kind kind = token->square ? OPEN_VECTOR : OPEN_LIST;
  uint32_t match = state->depth;
  while (match && state->open[match - 1].kind != kind) match--;
  if (match != state->depth) {
    refuse_close(state, token, &state->open[state->depth - 1]);
    while (match && state->depth > match) {
      refuse_prefixes(state);
      if (state->depth > match) close_innermost(state, token->span);
    }
  }
  close_innermost(state, token->span);
}

static void refuse_end(reader *state) {
  refuse_prefixes(state);
  if (state->depth == 0) return;
  uint32_t end = state->last_end, line = 0, column = 0;
  sx_diag *diag = sx_error(state->lexer.diags, SX_E_READ_UNCLOSED, (sx_span){state->lexer.file, end - 1, end},
                           state->depth == 1 ? "the file ends inside a list" : "the file ends inside %u lists",
                           (unsigned)state->depth);
  diag->second_span = state->open[0].span;
  diag->second_label = state->depth == 1 ? "opened here" : "the outermost is opened here";
  if (state->margin.file == 0) return;
  sx_source_place(state->lexer.source, state->margin.begin, &line, &column);
  diag->hint =
      sx_format(arena_of(state), "line %u starts at the margin; is a bracket missing before it?", (unsigned)line);
}

/* One token; false: reading ends. */
static bool take(reader *state, const sx_token *token) {
  switch (token->kind) {
    case SX_TOKEN_OPEN:
      return open_list(state, token->square ? OPEN_VECTOR : OPEN_LIST, token->span);
    case SX_TOKEN_QUOTE:
      return open_list(state, OPEN_QUOTE, token->span);
    case SX_TOKEN_SKIP:
      return open_list(state, OPEN_SKIP, token->span);
    case SX_TOKEN_CLOSE:
      close_list(state, token);
      break;
    case SX_TOKEN_ATOM:
      finish(state, token->datum);
      break;
    case SX_TOKEN_END:
      refuse_end(state);
      return false;
    case SX_TOKEN_BROKEN:
      return false;
  }
  return state->lexer.diags->n_errors < SX_DIAG_LIMIT;
}

sx_datums sx_read(const sx_sources *sources, uint32_t file, sx_intern *names, sx_arena *arena, sx_diags *diags) {
  reader *state = SX_NEW(arena, reader);
  state->lexer = (sx_lexer){sx_sources_get(sources, file), file, 0, names, arena, diags};
  if (!sx_lexer_check(&state->lexer)) return (sx_datums){NULL, 0};
  for (;;) {
    sx_token token = sx_lexer_next(&state->lexer);
    if (!take(state, &token)) break;
    state->last_end = token.span.end;
  }
  size_t n = state->depth ? state->open[0].n_kept : state->done.n;
  return (sx_datums){state->done.items, (uint32_t)n};
}
