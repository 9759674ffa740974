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

static void say_graph(FILE *to, const sexp_description *about) {
  char built[32], nodes[32], groups[32];
  fprintf(to, "%-19s %s nodes, %s after optimization, %s group%s, ", "graph", tool_grouped(built, about->n_nodes_built),
          tool_grouped(nodes, about->n_nodes), tool_grouped(groups, about->n_groups), tool_plural(about->n_groups));
  fprintf(to, "%" PRId64 " product%s, %" PRId64 " convolution%s\n", about->n_products, tool_plural(about->n_products),
          about->n_convolutions, tool_plural(about->n_convolutions));
}

/* By kind, the largest total that a run holds at once, and what no plan of that order goes below. */
static void say_uses(FILE *to, const sexp_memory_use *use, int64_t copy_bytes) {
  const struct {
    const char *words;
    int64_t n_bytes;
  } kinds[] = {{"parameters", use->parameters},
               {"states", use->states},
               {"held twice", use->beside},
               {"gradients", use->gradients},
               {"data", use->data},
               {"constants", use->constants},
               {"a checkpoint's copy", copy_bytes},
               {"activations", use->activations},
               {"scratch", use->scratch}};
  char bytes[32];
  const char *before = ": ";
  fprintf(to, "%-19s %s", "memory", tool_bytes(bytes, use->total + copy_bytes));
  fprintf(to, ", at least %s", tool_bytes(bytes, use->least + copy_bytes));
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (!kinds[i].n_bytes) continue;
    fprintf(to, "%s%s %s", before, kinds[i].words, tool_bytes(bytes, kinds[i].n_bytes));
    before = ", ";
  }
  if (use->recompute > 0) fprintf(to, "; recompute %g operations a byte", use->recompute);
  fputc('\n', to);
}

/* False: out of memory. */
static bool say_memory(FILE *to, const tool_report_facts *facts) {
  const sexp_description *about = sexp_program_describe(facts->program);
  char bytes[32], bound[32], kept[32];
  if (!facts->mode->cuda) {
    sexp_memory_use use;
    if (!sexp_program_memory(&use, facts->program, facts->engine.threads, facts->engine.simd)) return false;
    say_uses(to, &use, facts->copy_bytes);
    return true;
  }
  fprintf(to, "%-19s %s a step, at least %s; parameters and state %s", "memory", tool_bytes(bytes, about->step_bytes),
          tool_bytes(bound, about->step_bytes_bound), tool_bytes(kept, about->parameter_bytes + about->state_bytes));
  if (facts->copy_bytes) fprintf(to, "; a checkpoint's copy %s", tool_bytes(bytes, facts->copy_bytes));
  fputc('\n', to);
  return true;
}

static bool say_machine(FILE *to, const tool_report_facts *facts) {
  say_graph(to, sexp_program_describe(facts->program));
  bool good = say_memory(to, facts);
  say_device(to, &facts->engine, facts->mode);
  return good;
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
  bool good = machine && say_machine(machine, facts);
  good = good && text && !ferror(text) && !ferror(machine);
  if (text && fclose(text) != 0) good = false;
  if (machine && fclose(machine) != 0) good = false;
  return good && report->text && report->machine;
}

bool tool_report_make(tool_report *report, const char *path, sexp_program *program, const sexp_run *run,
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

/* Of what may be INT64_MAX, for more than that. */
static int64_t plus(int64_t a, int64_t b) { return __builtin_add_overflow(a, b, &a) ? INT64_MAX : a; }

int tool_report_fits(sexp_program *program, const sexp_engine *engine, const tool_allowance *allowed, bool twice,
                     int64_t copy_bytes) {
  sexp_memory_use use;
  if (!allowed->n_bytes) return TOOL_DONE;
  if (!sexp_program_memory(&use, program, engine->threads, engine->simd)) return tool_no_memory();
  int64_t state = plus(use.parameters, use.states), more = twice ? state - use.beside : 0;
  int64_t need = plus(plus(use.total, more), copy_bytes);
  if (need <= allowed->n_bytes) return TOOL_DONE;
  char all[32], of[32], step[32], kept[32], gradients[32], data[32], copied[32];
  const char *largest = sexp_program_text(program, "largest");
  return tool_fail(TOOL_INPUT, TOOL_E_DEVICE_MEMORY,
                   "the run needs %s, %s %s: parameters and state %s; gradients %s; data %s; a step %s; a checkpoint's "
                   "copy %s; recompute %g operations a byte\n%s",
                   tool_bytes(all, need), allowed->whose, tool_bytes(of, allowed->n_bytes),
                   tool_bytes(kept, plus(plus(state, use.beside), more)), tool_bytes(gradients, use.gradients),
                   tool_bytes(data, use.data),
                   tool_bytes(step, plus(use.constants, plus(use.activations, use.scratch))),
                   tool_bytes(copied, copy_bytes), use.recompute, largest ? largest : "");
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
