/* Compiles an experiment and shows all that it says: lines of (print ...), messages as a person reads them, texts, and
 * the values of a few steps. The program behind the file-based tests of the language.
 * usage: evaluate [--run R] [--variant V] [--set K=V]... [--limit N] [--steps N] [--no-optimize] [--no-warnings]
 * [--text WHAT]... FILE
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../libsexp/sexp.h"
#include "../../tools/common/host.h"

enum { ITEMS_MAX = 64 };

typedef struct request {
  sexp_options options;
  const char *sets[ITEMS_MAX], *texts[ITEMS_MAX], *file;
  size_t n_texts;
  int64_t n_steps;
  bool errors_only;
} request;

static void print_line(void *context, const char *line) {
  (void)context;
  printf("%s\n", line);
}

static void show_messages(const request *wanted, const sexp_messages *messages, size_t *shown) {
  for (; *shown < sexp_messages_count(messages); ++*shown) {
    const sexp_message *message = sexp_messages_get(messages, *shown);
    if (!message->warning || !wanted->errors_only) fputs(message->text, stdout);
  }
}

static void show_number(float value) {
  char digits[40];
  bool whole = value > -1e7F && value < 1e7F && (float)(int)value == value;
  for (int precision = 1; precision <= 9; precision++) {
    snprintf(digits, sizeof digits, whole ? "%.*f" : "%.*g", whole ? 0 : precision, (double)value);
    if (strtof(digits, NULL) == value) break;
  }
  printf(" %s", value == value ? digits : "nan");
}

static void show_step(const sexp_step *step) {
  printf("step %lld: loss", (long long)step->step);
  show_number(step->loss);
  for (size_t i = 0; i < step->n_values; i++) {
    if (strcmp(step->values[i].name, "train/loss") == 0) continue;
    printf(", %s", step->values[i].name);
    show_number(step->values[i].value);
  }
  printf("\n");
}

static void show_tensor(const sexp_tensor *tensor) {
  printf("%s %s [", tensor->state ? "state" : "param", tensor->path);
  for (int i = 0; i < tensor->rank; i++) printf(i ? " %lld" : "%lld", (long long)tensor->dims[i]);
  printf("]");
  for (size_t i = 0; tensor->dtype == SEXP_F32 && i < tensor->n_bytes / 4; i++) {
    float value;
    memcpy(&value, (const char *)tensor->bytes + 4 * i, 4);
    show_number(value);
  }
  for (size_t i = 0; tensor->dtype == SEXP_I32 && i < tensor->n_bytes / 4; i++) {
    int32_t value;
    memcpy(&value, (const char *)tensor->bytes + 4 * i, 4);
    printf(" %d", (int)value);
  }
  printf("\n");
}

static sexp_status show_steps(const request *wanted, sexp_program *program, sexp_messages **messages,
                              const sexp_host *host) {
  sexp_run *run = NULL;
  sexp_run_options options = SEXP_RUN_OPTIONS_DEFAULT;
  options.threads = 1;
  sexp_status status = sexp_run_new(&run, messages, program, &options, host);
  for (int64_t i = 0; status == SEXP_OK && i < wanted->n_steps; i++) {
    sexp_step step;
    status = sexp_run_step(run, &step, messages);
    if (status == SEXP_OK) show_step(&step);
  }
  const sexp_tensor *tensors = NULL;
  size_t n = run ? sexp_run_tensors(run, &tensors) : 0;
  for (size_t i = 0; i < n; i++) show_tensor(&tensors[i]);
  sexp_run_free(run);
  return status;
}

static int refuse(const char *what) {
  fprintf(stderr, "evaluate: %s\n", what);
  return 2;
}

static int parse(request *wanted, int n, char **arguments) {
  for (int i = 1; i < n; i++) {
    const char *name = arguments[i];
    if (strncmp(name, "--", 2) != 0) {
      wanted->file = name;
      continue;
    }
    bool no_optimize = strcmp(name, "--no-optimize") == 0, no_warnings = strcmp(name, "--no-warnings") == 0;
    if (no_optimize || no_warnings) {
      wanted->options.optimize = wanted->options.optimize && !no_optimize;
      wanted->errors_only = wanted->errors_only || no_warnings;
      continue;
    }
    if (++i == n) return refuse("an option without its value");
    const char *value = arguments[i];
    if (strcmp(name, "--run") == 0) {
      wanted->options.run = value;
    } else if (strcmp(name, "--variant") == 0) {
      wanted->options.variant = value;
    } else if (strcmp(name, "--limit") == 0) {
      wanted->options.eval_limit = strtoll(value, NULL, 10);
    } else if (strcmp(name, "--steps") == 0) {
      wanted->n_steps = strtoll(value, NULL, 10);
    } else if (strcmp(name, "--set") == 0 && wanted->options.n_sets < ITEMS_MAX) {
      wanted->sets[wanted->options.n_sets++] = value;
    } else if (strcmp(name, "--text") == 0 && wanted->n_texts < ITEMS_MAX) {
      wanted->texts[wanted->n_texts++] = value;
    } else {
      return refuse(name);
    }
  }
  wanted->options.sets = wanted->sets;
  return wanted->file ? 0 : refuse("which file?");
}

int main(int n, char **arguments) {
  request wanted = {.options = SEXP_OPTIONS_DEFAULT};
  if (parse(&wanted, n, arguments)) return 2;
  tool_files files = {0};
  sexp_host host = tool_host(&files);
  host.print = print_line;
  sexp_program *program = NULL;
  sexp_messages *messages = NULL;
  size_t shown = 0;
  sexp_status status = sexp_compile(&program, &messages, wanted.file, &wanted.options, &host);
  show_messages(&wanted, messages, &shown);
  for (size_t i = 0; status == SEXP_OK && i < wanted.n_texts; i++) {
    const char *text = sexp_program_text(program, wanted.texts[i]);
    fputs(text ? text : "no such text\n", stdout);
  }
  if (status == SEXP_OK && wanted.n_steps) status = show_steps(&wanted, program, &messages, &host);
  show_messages(&wanted, messages, &shown);
  static const char *const names[] = {"ok", "end", "input", "storage", "no memory"};
  printf("status %s\n", names[status]);
  sexp_messages_free(messages);
  sexp_program_free(program);
  tool_files_free(&files);
  return 0;
}
