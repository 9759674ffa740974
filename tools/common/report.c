/* Labels stand in a column of 20. The report has a part that is the same on every machine and one that is
 * not, so that the metrics stream, which holds the first, compares between machines. */
#include "report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"
#include "format.h"

enum { LINE_TEXT = 1024 };

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static void say_experiment(FILE *to, const char *path, const sexp_description *about) {
  char steps[32];
  fprintf(to, "%-19s %s, run %s, seed %" PRId64 ", %s step%s of %" PRId64 " x %" PRId64 " record%s\n", "experiment",
          base_name(path), about->run, about->seed, tool_grouped(steps, about->steps), tool_plural(about->steps),
          about->microbatches, about->batch, tool_plural(about->microbatches * about->batch));
  for (size_t i = 0; i < about->n_knobs; i++)
    if (strcmp(about->knobs[i].source, "default") != 0)
      fprintf(to, "%-19s %s = %s (%s)\n", "knob", about->knobs[i].name, about->knobs[i].value, about->knobs[i].source);
}

static void say_data(FILE *to, const sexp_data_info *datas, size_t n) {
  char records[32];
  for (size_t i = 0; i < n; i++)
    fprintf(to, "%-19s %s: %s, %s record%s, %s\n", "data", datas[i].name, base_name(datas[i].path),
            tool_grouped(records, datas[i].n_records), tool_plural(datas[i].n_records), datas[i].order);
}

static void say_model(FILE *to, const sexp_description *about) {
  char elements[32], bytes[32], state[32];
  fprintf(to, "%-19s %zu parameter%s, %s element%s, %s", "model", about->n_parameters,
          tool_plural((int64_t)about->n_parameters), tool_grouped(elements, about->parameter_elements),
          tool_plural(about->parameter_elements), tool_bytes(bytes, about->parameter_bytes));
  if (about->state_bytes) fprintf(to, "; the optimizer keeps %s of state", tool_bytes(state, about->state_bytes));
  fputc('\n', to);
}

static void say_reproduction(FILE *to, const char *choices_digest, const tool_mode *mode) {
  char line[LINE_TEXT];
  fprintf(to, "%-19s %s%s%s\n", "determinism", mode->determinism, mode->strict ? ", --deterministic" : "",
          mode->portable ? ", --portable" : "");
  tool_choices_line(line, sizeof line, choices_digest, mode);
  fprintf(to, "%-19s %s\n", "choices", line);
}

static void say_device(FILE *to, const sexp_engine *engine, const tool_mode *mode) {
  char all[32], free_bytes[32];
  const sexp_device_facts *cuda = mode->cuda;
  if (cuda) {
    fprintf(to, "%-19s cuda, %s, %s free of %s; %s\n", "device", cuda->gpu, tool_bytes(free_bytes, cuda->free_bytes),
            tool_bytes(all, cuda->total_bytes), cuda->text);
    if (mode->store && mode->store[0]) fprintf(to, "%-19s %s\n", "store", mode->store);
    return;
  }
  fprintf(to, "%-19s cpu, %d thread%s, %s\n", "device", engine->threads, tool_plural(engine->threads), engine->simd);
}

static void say_machine(FILE *to, const sexp_description *about, const sexp_engine *engine, const tool_mode *mode,
                        int64_t copy_bytes) {
  char built[32], nodes[32], bytes[32], bound[32];
  fprintf(to, "%-19s %s nodes, %s after optimization, %s group%s, ", "graph", tool_grouped(built, about->n_nodes_built),
          tool_grouped(nodes, about->n_nodes), tool_grouped(bytes, about->n_groups), tool_plural(about->n_groups));
  fprintf(to, "%" PRId64 " product%s, %" PRId64 " convolution%s\n", about->n_products, tool_plural(about->n_products),
          about->n_convolutions, tool_plural(about->n_convolutions));
  fprintf(to, "%-19s %s a step, at least %s; parameters and state %s", "memory", tool_bytes(bytes, about->step_bytes),
          tool_bytes(bound, about->step_bytes_bound), tool_bytes(nodes, about->parameter_bytes + about->state_bytes));
  if (copy_bytes) fprintf(to, "; a checkpoint's copy %s", tool_bytes(bytes, copy_bytes));
  fputc('\n', to);
  say_device(to, engine, mode);
}

static bool is_chosen(const char *name, const char *const *evals, size_t n_evals) {
  for (size_t i = 0; i < n_evals; i++)
    if (strcmp(evals[i], name) == 0) return true;
  return !evals || n_evals == 0;
}

void tool_report_evaluation(FILE *to, const char *path, const sexp_program *program, const sexp_run *run,
                            const tool_experiment *experiment, const char *const *evals, size_t n_evals,
                            const tool_mode *mode) {
  const sexp_description *about = sexp_program_describe(program);
  const sexp_data_info *datas = NULL;
  size_t n_datas = sexp_run_datas(run, &datas);
  sexp_description held = *about;
  sexp_engine engine;
  sexp_run_engine(run, &engine);
  held.state_bytes = 0; /* the optimizer's are not held */
  say_experiment(to, path, about);
  for (size_t i = 0; i < about->n_evals; i++) {
    const sexp_evaluation *eval = &about->evals[i];
    if (!is_chosen(eval->name, evals, n_evals)) continue;
    fprintf(to, "%-19s %s:", "evaluation", eval->name);
    for (size_t m = 0; m < eval->n_metrics; m++) fprintf(to, "%s %s", m ? "," : "", eval->metrics[m]);
    fputc('\n', to);
  }
  say_data(to, datas, n_datas);
  say_model(to, &held);
  say_device(to, &engine, mode);
  say_reproduction(to, experiment->choices_digest, mode);
  fputc('\n', to);
  fflush(to);
}

bool tool_report_program(tool_report *report, const tool_report_facts *facts) {
  const sexp_description *about = sexp_program_describe(facts->program);
  size_t n_text = 0, n_machine = 0;
  *report = (tool_report){NULL, NULL};
  FILE *text = open_memstream(&report->text, &n_text);
  FILE *machine = open_memstream(&report->machine, &n_machine);
  if (text) {
    say_experiment(text, facts->path, about);
    say_data(text, facts->datas, facts->n_datas);
    say_model(text, about);
    say_reproduction(text, facts->choices_digest, facts->mode);
  }
  if (machine) say_machine(machine, about, &facts->engine, facts->mode, facts->copy_bytes);
  bool good = text && machine && !ferror(text) && !ferror(machine);
  if (text && fclose(text) != 0) good = false;
  if (machine && fclose(machine) != 0) good = false;
  return good && report->text && report->machine;
}

bool tool_report_make(tool_report *report, const char *path, const sexp_program *program, const sexp_run *run,
                      const tool_experiment *experiment, const tool_mode *mode, int64_t copy_bytes) {
  tool_report_facts facts = {.path = path,
                             .program = program,
                             .choices_digest = experiment->choices_digest,
                             .mode = mode,
                             .copy_bytes = copy_bytes};
  facts.n_datas = sexp_run_datas(run, &facts.datas);
  sexp_run_engine(run, &facts.engine);
  return tool_report_program(report, &facts);
}

int tool_report_fits(sexp_program *program, double allowed_gib, bool twice, int64_t copy_bytes) {
  const sexp_description *about = sexp_program_describe(program);
  int64_t state = about->parameter_bytes + about->state_bytes;
  state += twice ? state : about->beside_bytes;
  int64_t need = state + about->step_bytes + copy_bytes;
  double allowed = allowed_gib * 1073741824.0;
  if (allowed <= 0 || (double)need <= allowed) return TOOL_DONE;
  char all[32], of[32], step[32], kept[32], copied[32];
  const char *largest = sexp_program_text(program, "largest");
  return tool_fail(TOOL_INPUT, TOOL_E_DEVICE_MEMORY,
                   "the run needs %s, SEXPGPU_MEMORY allows %s: parameters and state %s; a step %s; a "
                   "checkpoint's copy %s\n%s",
                   tool_bytes(all, need), tool_bytes(of, (int64_t)allowed), tool_bytes(kept, state),
                   tool_bytes(step, about->step_bytes), tool_bytes(copied, copy_bytes), largest ? largest : "");
}

char *tool_report_details(sexp_program *program, sexp_run *on_device, bool launches) {
  size_t n = 0;
  char *details = NULL;
  FILE *to = open_memstream(&details, &n);
  if (!to) return NULL;
  const char *texts[] = {
      on_device ? "" : sexp_program_text(program, "report"),
      on_device ? sexp_run_text(on_device, "memory") : "",
      on_device ? sexp_run_text(on_device, "stacking") : "",
      !launches   ? ""
      : on_device ? sexp_run_text(on_device, "kernels")
                  : sexp_program_text(program, "plan"),
  };
  bool good = true;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) good = good && texts[i] && fputs(texts[i], to) >= 0;
  if (fclose(to) != 0) good = false;
  if (good) return details;
  free(details);
  return NULL;
}

/* The last two lines of the first part end the report. */
void tool_report_print(const tool_report *report, const char *details, FILE *to) {
  const char *tail = strstr(report->text, "\ndeterminism");
  tail = tail ? tail + 1 : report->text;
  fwrite(report->text, 1, (size_t)(tail - report->text), to);
  fputs(report->machine, to);
  if (details) fputs(details, to);
  fputs(tail, to);
  fputc('\n', to);
  fflush(to);
}

void tool_report_free(tool_report *report) {
  free(report->text);
  free(report->machine);
  *report = (tool_report){NULL, NULL};
}
