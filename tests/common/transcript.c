#include "transcript.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

float value_of(const sexp_step *step, const char *name) {
  for (size_t i = 0; i < step->n_values; i++)
    if (!strcmp(step->values[i].name, name)) return step->values[i].value;
  return (float)NAN;
}

const sexp_tensor *tensor_of(const sexp_run *run, const char *path) {
  const sexp_tensor *tensors;
  size_t n = sexp_run_tensors(run, &tensors);
  for (size_t i = 0; i < n; i++)
    if (!strcmp(tensors[i].path, path)) return &tensors[i];
  return NULL;
}

static uint64_t hash(const void *bytes, size_t n) {
  uint64_t h = 0xcbf29ce484222325u;
  for (size_t i = 0; i < n; i++) h = (h ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
  return h;
}

static void print_step(FILE *to, const sexp_step *step) {
  fprintf(to, "step %" PRId64 " %s%s\n", step->step, step->stage, step->checkpoint ? " checkpoint" : "");
  for (size_t i = 0; i < step->n_values; i++) {
    uint32_t bits;
    memcpy(&bits, &step->values[i].value, sizeof bits);
    fprintf(to, "  %s %08" PRIx32 " %g\n", step->values[i].name, bits, (double)step->values[i].value);
  }
  for (size_t i = 0; i < step->n_digests; i++) fprintf(to, "  %s %s\n", step->digests[i].name, step->digests[i].digest);
}

static void print_tensors(FILE *to, const sexp_run *run) {
  const sexp_tensor *tensors;
  size_t n = sexp_run_tensors(run, &tensors);
  for (size_t i = 0; i < n; i++)
    fprintf(to, "%s %s %016" PRIx64 "\n", tensors[i].state ? "state" : "parameter", tensors[i].path,
            hash(tensors[i].bytes, tensors[i].n_bytes));
}

static void run_all(FILE *to, sexp_program *program, sexp_messages **messages, const sexp_run_options *options,
                    const sexp_host *host) {
  sexp_run *run = NULL;
  sexp_step step;
  sexp_status status = sexp_run_new(&run, messages, program, options, host);
  if (status == SEXP_OK) {
    while ((status = sexp_run_step(run, &step, messages)) == SEXP_OK) print_step(to, &step);
    print_tensors(to, run);
  }
  fprintf(to, "status %d\n", (int)status);
  sexp_run_free(run);
}

char *transcript_of(memory_host *files, const char *path, const sexp_options *options,
                    const sexp_run_options *run_options) {
  char *text = NULL;
  size_t n = 0;
  FILE *to = open_memstream(&text, &n);
  assert(to);
  sexp_host host = memory_host_callbacks(files);
  sexp_program *program = NULL;
  sexp_messages *messages = NULL;
  sexp_status status = sexp_compile(&program, &messages, path, options, &host);
  if (status == SEXP_OK) run_all(to, program, &messages, run_options, &host);
  sexp_program_free(program);
  for (size_t i = 0; i < sexp_messages_count(messages); i++) fputs(sexp_messages_get(messages, i)->text, to);
  sexp_messages_free(messages);
  if (files->n_open) fprintf(to, "%d files are still open\n", files->n_open);
  fclose(to);
  return text;
}

bool transcript_same(char difference[TRANSCRIPT_DIFFERENCE], const char *expected, const char *got) {
  size_t line = 0, i = 0;
  difference[0] = 0;
  if (!strcmp(expected, got)) return true;
  for (; expected[i] == got[i]; i++)
    if (expected[i] == '\n') line = i + 1;
  snprintf(difference, TRANSCRIPT_DIFFERENCE, "%.160s\n%.160s", expected + line, got + line);
  return false;
}
