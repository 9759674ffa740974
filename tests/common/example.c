#include "example.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../libsexp/cpu/executable.h"
#include "../../libsexp/pass/pass.h"
#include "cmocka_all.h"

const char *const example_names[N_EXAMPLES] = {"linear", "digits", "fashion", "king-james"};

enum { FILE_MAX = 1 << 16 };

static bool read_file(void *context, const char *path, const char **bytes, size_t *n_bytes, const char **why,
                      sx_arena *arena) {
  const char *given = context;
  *n_bytes = given ? strlen(given) : 0;
  *bytes = given;
  if (given) return true;
  char *text = SX_NEW_N(arena, char, FILE_MAX);
  FILE *file = fopen(path, "rb");
  *why = "no such file";
  if (!file) return false;
  *n_bytes = fread(text, 1, FILE_MAX, file);
  fclose(file);
  *bytes = text;
  return *n_bytes < FILE_MAX;
}

/* Images are [28 28] bytes, labels bytes; columns and windows are as they are declared. */
static void describe_field(const sx_data *data, uint32_t i, sx_field_type *field) {
  if (data->kind == SX_SOURCE_WINDOWS) {
    *field = (sx_field_type){data->window_field, data->window_dtype, 1, {data->window_length}};
    return;
  }
  const sx_source_field *source = &data->fields[i];
  *field = (sx_field_type){.name = source->name, .dtype = source->dtype};
  if (data->kind == SX_SOURCE_IDX) {
    field->dtype = SX_U8;
    field->rank = strcmp(source->name, "image") ? 0 : 2;
    field->dims[0] = field->dims[1] = 28;
  } else if (source->n_columns) {
    field->rank = 1;
    field->dims[0] = source->n_columns;
  }
}

static bool describe(void *context, const sx_data *data, sx_arena *arena, sx_field_type **fields, uint32_t *n_fields,
                     int64_t *n_records, sx_diags *diags) {
  (void)context;
  (void)diags;
  *n_records = 1000;
  *n_fields = data->kind == SX_SOURCE_WINDOWS ? 1 : data->n_fields;
  *fields = SX_NEW_N(arena, sx_field_type, *n_fields);
  for (uint32_t i = 0; i < *n_fields; i++) describe_field(data, i, &(*fields)[i]);
  return true;
}

static void print_line(void *context, const char *line) {
  (void)context;
  (void)line;
}

static sx_graph *make_ready(sx_graph *graph, sx_diags *diags) {
  static sx_pass *const passes[] = {sx_pass_gradient, sx_pass_simplify, sx_pass_cse, sx_pass_dce};
  for (size_t i = 0; graph && i < sizeof passes / sizeof *passes; i++) graph = passes[i](graph, diags);
  return graph;
}

static example *evaluate(const char *name, char *text) {
  static const sx_selection selection = {.eval_limit = 10000000};
  example *made = calloc(1, sizeof *made);
  assert_non_null(made);
  made->memory = sx_memory_default();
  sx_arena_init(&made->arena, &made->memory);
  sx_program *program = &made->program;
  program->arena = &made->arena;
  sx_intern_init(&program->names, &made->arena);
  sx_sources_init(&program->sources, &made->arena);
  sx_diags_init(&program->diags, &made->arena);
  sx_language_host host = {.context = text, .read_source = read_file, .describe_data = describe, .print = print_line};
  const char *path = sx_format(&made->arena, "examples/%s/%s.sexp", name, name);
  bool good = sx_language_evaluate(program, path, &selection, &host);
  if (good) made->loss = make_ready(program->stages[0].loss, &program->diags);
  if (made->loss) made->update = make_ready(program->update, &program->diags);
  if (!made->update) fail_msg("%s: %s", path, program->diags.list.n ? program->diags.list.items[0].message : "");
  return made;
}

example *example_open(const char *name) { return evaluate(name, NULL); }

example *example_of_text(const char *text) {
  char *copy = strdup(text);
  example *made = evaluate("text", copy);
  free(copy);
  return made;
}

void example_free(example *made) {
  sx_arena_free(&made->arena);
  free(made);
}

static size_t output_index(const sx_graph *graph, const char *name) {
  size_t i = 0;
  while (strcmp(graph->outputs.items[i].name, name)) i++;
  return i;
}

void **execute_plan(const sx_plan *plan, sx_arena *arena, fill_external *fill, void *context) {
  sx_pool *pool = sx_pool_new(2);
  sx_cpu cpu = {sx_kernels(sx_simd_best()), pool, arena->memory, NULL};
  sx_executable *executable = sx_executable_new(&cpu, plan, 7, arena);
  void **outputs = SX_NEW_N(arena, void *, plan->graph->outputs.n);
  assert_non_null(executable);
  for (uint32_t b = 0; b < plan->buffers.n; b++) {
    const sx_buffer *buffer = &plan->buffers.items[b];
    if (buffer->kind != SX_BUFFER_EXTERNAL && buffer->kind != SX_BUFFER_OUTPUT) continue;
    char *data = SX_NEW_N(arena, char, buffer->n_bytes + 64);
    data += (64 - (uintptr_t)data % 64) % 64;
    if (buffer->kind == SX_BUFFER_EXTERNAL)
      fill(context, buffer->name, buffer->dtype, buffer->n_bytes / (int64_t)sx_dtype_bytes(buffer->dtype), data);
    else
      outputs[output_index(plan->graph, buffer->name)] = data;
    sx_executable_bind(executable, b, data);
  }
  sx_stopped why;
  assert_true(sx_executable_execute(executable, &why));
  sx_executable_free(executable);
  sx_pool_free(pool);
  return outputs;
}
