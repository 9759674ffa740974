#include "language.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

/* ---- the host ---- */

static bool read_file(void *context, const char *path, const char **bytes, size_t *n_bytes, const char **why,
                      sx_arena *arena) {
  const language *made = context;
  (void)arena;
  for (size_t i = 0; i < made->n_files; i++) {
    if (strcmp(made->files[i].path, path) != 0) continue;
    *bytes = made->files[i].text;
    *n_bytes = strlen(*bytes);
    return true;
  }
  *why = "no such file";
  return false;
}

static bool describe(void *context, const sx_data *data, sx_arena *arena, sx_field_type **fields, uint32_t *n_fields,
                     int64_t *n_records, sx_diags *diags) {
  (void)context;
  if (data->path && strstr(data->path, "missing")) {
    sx_error(diags, SX_E_DATA_HOST, data->span, "%s: no such file", data->path);
    return false;
  }
  bool named = data->kind == SX_SOURCE_IDX || data->kind == SX_SOURCE_CSV;
  *n_records = data->record_lo >= 0 ? data->record_hi - data->record_lo : 10;
  *n_fields = named ? data->n_fields : data->kind == SX_SOURCE_WINDOWS ? 1 : 2;
  *fields = SX_NEW_N(arena, sx_field_type, *n_fields);
  for (uint32_t i = 0; named && i < *n_fields; i++)
    (*fields)[i] = (sx_field_type){.name = data->fields[i].name, .dtype = data->fields[i].dtype};
  if (named) return true;
  (*fields)[0] = (sx_field_type){.name = "x", .dtype = SX_F32, .rank = 1, .dims = {4}};
  if (*n_fields == 2) (*fields)[1] = (sx_field_type){.name = "y", .dtype = SX_I32};
  if (*n_fields == 1)
    (*fields)[0] = (sx_field_type){
        .name = data->window_field, .dtype = data->window_dtype, .rank = 1, .dims = {data->window_length}};
  return true;
}

static void print_line(void *context, const char *line) {
  language *made = context;
  sx_text_addf(&made->printed, "%s\n", line);
}

/* ---- evaluating ---- */

language *language_of_files(const language_file *files, size_t n_files, const sx_selection *selection) {
  static const sx_selection default_selection = {.eval_limit = 10000000};
  language *made = calloc(1, sizeof *made);
  if (!made) abort();
  made->memory = sx_memory_default();
  made->files = files;
  made->n_files = n_files;
  sx_arena_init(&made->arena, &made->memory);
  sx_program *program = &made->program;
  program->arena = &made->arena;
  sx_intern_init(&program->names, &made->arena);
  sx_sources_init(&program->sources, &made->arena);
  sx_diags_init(&program->diags, &made->arena);
  sx_text_init(&made->printed, &made->arena);
  sx_language_host host = {.context = made, .read_source = read_file, .describe_data = describe, .print = print_line};
  made->good = sx_language_evaluate(program, files[0].path, selection ? selection : &default_selection, &host);
  /* False exactly when there are errors, and every diagnostic has a text. */
  if (made->good != (program->diags.n_errors == 0)) abort();
  sx_text text;
  sx_text_init(&text, &made->arena);
  for (size_t i = 0; i < program->diags.list.n; i++)
    sx_diag_print(&text, &program->diags.list.items[i], &program->sources);
  return made;
}

language *language_of(const char *text, const sx_selection *selection) {
  language_file file = {"test.sexp", text};
  return language_of_files(&file, 1, selection);
}

void language_free(language *made) {
  sx_arena_free(&made->arena);
  free(made);
}

static void add_place(sx_text *text, const language *made, sx_span span) {
  uint32_t line, column;
  const sx_source *source = sx_sources_get(&made->program.sources, span.file);
  sx_source_place(source, span.begin, &line, &column);
  sx_text_addf(text, "%u:%u", (unsigned)line, (unsigned)column);
}

const char *language_error(language *made) {
  sx_text text;
  sx_text_init(&text, &made->arena);
  for (size_t i = 0; i < made->program.diags.list.n; i++) {
    const sx_diag *diag = &made->program.diags.list.items[i];
    if (diag->warning) continue;
    sx_text_addf(&text, "%s ", sx_code_describe(diag->code)->code);
    if (diag->span.file) add_place(&text, made, diag->span);
    if (diag->span.file) sx_text_add(&text, " ");
    sx_text_add(&text, diag->message);
    if (diag->hint) sx_text_addf(&text, " | %s", diag->hint);
    if (diag->second_span.file) sx_text_add(&text, " @ ");
    if (diag->second_span.file) add_place(&text, made, diag->second_span);
    break;
  }
  return sx_text_get(&text);
}

const char *language_codes(language *made) {
  sx_text text;
  sx_text_init(&text, &made->arena);
  for (size_t i = 0; i < made->program.diags.list.n; i++)
    sx_text_addf(&text, "%s%s", i ? " " : "", sx_code_describe(made->program.diags.list.items[i].code)->code);
  return sx_text_get(&text);
}

const char *language_graph(language *made, const sx_graph *graph) {
  sx_text text;
  sx_text_init(&text, &made->arena);
  sx_graph_print(&text, graph, false);
  return sx_text_get(&text);
}

/* ---- tables ---- */

static void check(const char *text, const language_case *row) {
  language *made = language_of(text, NULL);
  const char *error = language_error(made);
  bool wants_error = strncmp(row->wanted, "E-", 2) == 0;
  /* Of an error its code and what is given of the message. */
  const char *message = strlen(row->wanted) > 11 ? row->wanted + 11 : "";
  bool same = wants_error ? strncmp(error, row->wanted, 10) == 0 && strstr(error, message) != NULL
                          : !*error && strncmp(sx_text_get(&made->printed), row->wanted, strlen(row->wanted)) == 0 &&
                                sx_text_get(&made->printed)[strlen(row->wanted)] == '\n';
  if (!same) {
    print_error("%s\n  wanted %s\n  got    %s%s\n", row->expression, row->wanted, sx_text_get(&made->printed), error);
    fail();
  }
  language_free(made);
}

void language_check(const language_case *cases, size_t n) {
  char text[4000];
  for (size_t i = 0; i < n; i++) {
    snprintf(text, sizeof text,
             "(print %s)\n(defrun r :steps 1 :loss (sum (param \"p\" [1] :init 0)) :optimizer (lambda (p g) g))",
             cases[i].expression);
    check(text, &cases[i]);
  }
}

void language_check_tensors(const language_case *cases, size_t n) {
  char text[4000];
  for (size_t i = 0; i < n; i++) {
    snprintf(text, sizeof text,
             "(defrun r :steps 1 :optimizer (lambda (p g) g)\n"
             ":loss (let ((p (param \"p\" [2 3] :init 0)) (i (input :step))) (print %s) (sum p)))",
             cases[i].expression);
    check(text, &cases[i]);
  }
}
