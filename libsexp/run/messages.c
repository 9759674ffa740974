#include "messages.h"

#include <string.h>

#include "../base/guard.h"
#include "../base/text.h"

struct sexp_messages {
  sx_memory memory;
  sx_arena arena;
  SX_VEC(sexp_message) list;
  bool no_memory; /* the last message is E-RUN-001 */
};

static const sexp_message no_memory_message = {
    .code = "E-RUN-001", .message = "out of memory", .text = "E-RUN-001: out of memory\n"};

/* Stands for messages that could not be made. Adding to it changes nothing. */
static const sexp_messages no_messages = {.no_memory = true};

size_t sexp_messages_count(const sexp_messages *messages) {
  return messages ? messages->list.n + messages->no_memory : 0;
}

const sexp_message *sexp_messages_get(const sexp_messages *messages, size_t i) {
  if (i >= sexp_messages_count(messages)) return NULL;
  return i < messages->list.n ? &messages->list.items[i] : &no_memory_message;
}

void sexp_messages_free(sexp_messages *messages) {
  if (!messages || messages == &no_messages) return;
  sx_arena_free(&messages->arena);
  messages->memory.release(messages->memory.context, messages);
}

const sexp_error_code *sexp_error_codes(size_t i) {
  static const sexp_error_code codes[] = {
#define SX_ERROR(area, number, name, title, hint, page) {"E-" #area "-" number, title, hint, page},
#include "../base/errors.def"
#undef SX_ERROR
  };
  return i < sizeof codes / sizeof *codes ? &codes[i] : NULL;
}

sexp_status sx_messages_no_memory(sexp_messages **messages) {
  if (!*messages)
    *messages = (sexp_messages *)&no_messages; /* shown, never written */
  else if (*messages != &no_messages)
    (*messages)->no_memory = true;
  return SEXP_NO_MEMORY;
}

static sexp_messages *make(const sx_memory *memory) {
  sexp_messages *messages = memory->allocate(memory->context, sizeof *messages);
  if (!messages) return NULL;
  *messages = (sexp_messages){.memory = *memory};
  messages->memory.escape = NULL;
  sx_arena_init(&messages->arena, &messages->memory);
  return messages;
}

/* ---- from diagnostics ---- */

typedef struct conversion {
  sexp_messages *messages;
  const sx_diags *diags;
  const sx_sources *sources;
} conversion;

static const char *copy(sx_arena *arena, const char *text) { return sx_arena_copy_text(arena, text, strlen(text)); }

static void convert_one(const conversion *to, const sx_diag *diag) {
  sx_arena *arena = &to->messages->arena;
  sexp_message message = {
      .code = copy(arena, sx_diag_code(diag)), .warning = diag->warning, .message = copy(arena, diag->message)};
  sx_text text;
  sx_text_init(&text, arena);
  sx_diag_print(&text, diag, to->sources);
  message.text = sx_text_get(&text);
  if (diag->span.file) {
    const sx_source *source = sx_sources_get(to->sources, diag->span.file);
    message.file = copy(arena, source->path);
    sx_source_place(source, diag->span.begin, &message.line, &message.column);
  }
  SX_PUSH(arena, to->messages->list, message);
}

/* What the limit left out is counted in the last message. */
static void say_more(const conversion *to) {
  const sx_diags *diags = to->diags;
  size_t more = (size_t)diags->n_errors + diags->n_warnings - diags->list.n;
  if (!more) return;
  sexp_message *last = &to->messages->list.items[to->messages->list.n - 1];
  last->text = sx_format(&to->messages->arena, "%s%zu more %s not shown\n", last->text, more, more == 1 ? "is" : "are");
}

static void convert(void *context) {
  const conversion *to = context;
  for (size_t i = 0; i < to->diags->list.n; i++) convert_one(to, &to->diags->list.items[i]);
  say_more(to);
}

sexp_status sx_messages_add(sexp_messages **messages, const sx_memory *memory, const sx_diags *diags,
                            const sx_sources *sources, sexp_status status) {
  if (!diags->list.n) return status;
  if (!*messages) *messages = make(memory);
  if (!*messages || *messages == &no_messages) return sx_messages_no_memory(messages);
  size_t n_before = (*messages)->list.n;
  conversion to = {*messages, diags, sources};
  if (sx_guard(&(*messages)->memory, convert, &to)) return status;
  (*messages)->list.n = n_before;
  return sx_messages_no_memory(messages);
}

sexp_status sx_status_of(const sx_diags *diags) {
  for (size_t i = 0; i < diags->list.n; i++) {
    const sx_diag *diag = &diags->list.items[i];
    if (diag->warning) continue;
    if (!strncmp(sx_diag_code(diag), "E-DEVICE-", 9)) return SEXP_DEVICE;
    return diag->storage ? SEXP_STORAGE : SEXP_INPUT;
  }
  return diags->n_errors ? SEXP_INPUT : SEXP_OK;
}
