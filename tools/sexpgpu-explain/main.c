/* sexpgpu-explain: how an experiment will be computed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/failure.h"
#include "../common/lost_pages.h"
#include "../common/messages.h"
#include "../common/report.h"
#include "explanation.h"

static int open_host(explanation *e) {
  e->files.credentials = &e->credentials;
  const sexp_host inner = tool_host(&e->files);
  e->kept = tool_kept_new(&inner);
  if (!e->kept) return tool_no_memory();
  e->host = tool_kept_host(e->kept);
  return TOOL_DONE;
}

static int compile(explanation *e) {
  const explain_settings *s = e->settings;
  sexp_options options = tool_selection_options(&s->selection);
  const char *whose;
  options.dump_after = s->after;
  options.memory_bytes = tool_engine_memory(&s->engine, &whose);
  sexp_status status = sexp_compile(&e->program, &e->messages, s->selection.file, &options, &e->host);
  tool_kept_settle(e->kept);
  if (status != SEXP_OK) return tool_fail_sexp(status, e->messages);
  tool_print_messages(e->messages);
  return TOOL_DONE;
}

static int open_choices(explanation *e) {
  const explain_settings *s = e->settings;
  const tool_pinning_options options = {
      .choices = s->choices, .node_gradients = s->node_gradients, .strict = s->strict};
  return tool_pinning_open(&e->pinning, &options, &e->credentials);
}

static int choose_on_cpu(explanation *e) {
  const tool_engine_settings *s = &e->settings->engine;
  sexp_processor cpu;
  sexp_processor_look(&cpu);
  e->engine = (sexp_engine){.device = SEXP_DEVICE_CPU,
                            .simd = s->simd ? s->simd : cpu.simd,
                            .threads = s->threads ? (int)(s->threads > 1024 ? 1024 : s->threads) : cpu.threads};
  e->mode.device = SEXP_DEVICE_CPU;
  return tool_pinning_take(&e->pinning, SEXP_DEVICE_CPU, sexp_program_describe(e->program)->identity, NULL);
}

/* What a device would choose is what it remembers; the run is made ready for that, and not started. */
static int choose_on_device(explanation *e) {
  const explain_settings *s = e->settings;
  const tool_chooser_options options = {.tool = "sexpgpu-explain " SEXPGPU_VERSION,
                                        .identity = sexp_program_describe(e->program)->identity,
                                        .optimize = s->selection.optimize,
                                        .portable = s->engine.portable,
                                        .runs = "sexpgpu-run",
                                        .looks = true};
  sexp_run_options run_options = SEXP_RUN_OPTIONS_DEFAULT;
  int status = tool_pinning_select(&e->pinning, NULL);
  tool_chooser_open(&e->chooser, &e->pinning, e->device, &options);
  tool_engine_options(&run_options, &s->engine, e->device);
  run_options.chooser = &e->chooser.calls;
  sexp_status made = status ? SEXP_INPUT : sexp_run_new(&e->run, &e->messages, e->program, &run_options, &e->host);
  if (status) return status;
  if (made != SEXP_OK) return e->chooser.status ? e->chooser.status : tool_fail_sexp(made, e->messages);
  if (e->pinning.taken) tool_chooser_probe(&e->chooser, e->device, e->run);
  tool_chooser_judge(&e->chooser);
  tool_chooser_store_line(&e->chooser, e->store, sizeof e->store);
  sexp_run_engine(e->run, &e->engine);
  e->mode.device = e->chooser.device.device;
  e->mode.cuda = sexp_device_describe(e->device);
  e->mode.store = e->store;
  e->mode.n_decisions = sexp_run_decisions(e->run, &e->mode.decisions);
  e->mode.probes = e->chooser.probes.items;
  e->mode.n_probes = e->chooser.probes.n;
  return TOOL_DONE;
}

/* The device, the level and the choices of the run. */
static int choose(explanation *e) {
  const explain_settings *s = e->settings;
  e->mode = (tool_mode){.strict = s->strict, .portable = s->engine.portable, .determinism = e->pinning.determinism};
  int status = tool_engine_open(&e->device, &s->engine);
  if (!status) status = e->device ? choose_on_device(e) : choose_on_cpu(e);
  if (status == TOOL_CHOICE && s->json && e->pinning.pins) puts(choices_pins_refusal_json(e->pinning.pins));
  if (status) return status;
  e->choices = tool_choices_make(e->choices_digest, sexp_program_describe(e->program)->identity, &e->mode);
  return e->choices ? TOOL_DONE : tool_no_memory();
}

/* ---- outputs ---- */

static int print_text(const explanation *e, const char *what) {
  const char *text = sexp_program_text(e->program, what);
  if (!text) return tool_no_memory();
  fputs(text, stdout);
  return TOOL_DONE;
}

static int print_report(const explanation *e) {
  const sexp_description *about = sexp_program_describe(e->program);
  const tool_report_facts facts = {.path = e->settings->selection.file,
                                   .program = e->program,
                                   .datas = about->datas,
                                   .n_datas = about->n_datas,
                                   .engine = e->engine,
                                   .choices_digest = e->choices_digest,
                                   .mode = &e->mode};
  tool_report report;
  bool made = tool_report_program(&report, &facts);
  char *details = made ? tool_report_details(e->program, e->device ? e->run : NULL, e->settings->explain_what) : NULL;
  if (details) tool_report_print(&report, details, stdout);
  tool_report_free(&report);
  free(details);
  return details ? TOOL_DONE : tool_no_memory();
}

static int print(const explanation *e) {
  const explain_settings *s = e->settings;
  if (s->json) return explanation_print_json(e);
  if (s->report) return print_report(e);
  return print_text(e, s->ir ? "ir" : s->plan ? "plan" : s->dot ? "dot" : "dump");
}

static int explain(explanation *e) {
  int status = TOOL_DONE;
  tool_credentials_read(&e->credentials);
  if ((status = open_choices(e)) || (status = open_host(e)) || (status = compile(e))) return status;
  if ((status = choose(e))) return status;
  tool_allowance allowed = {0}; /* of the system's nothing is taken here */
  if (e->settings->engine.memory_gib > 0) allowed.n_bytes = tool_engine_memory(&e->settings->engine, &allowed.whose);
  if ((status = tool_report_fits(e->program, &e->engine, &allowed, false, 0))) return status;
  return print(e);
}

static void release(explanation *e) {
  free(e->choices);
  sexp_run_free(e->run);
  sexp_device_close(e->device);
  if (e->device) tool_chooser_free(&e->chooser);
  sexp_program_free(e->program);
  sexp_messages_free(e->messages);
  tool_kept_free(e->kept);
  tool_files_free(&e->files);
  tool_pinning_free(&e->pinning);
  tool_credentials_free(&e->credentials);
}

int main(int argc, char **argv) {
  explain_settings settings;
  bool exit_now = false;
  tool_lost_pages_catch();
  int status = explain_settings_read(&settings, argc, argv, &exit_now);
  if (!status && !exit_now) {
    explanation e = {.settings = &settings};
    status = explain(&e);
    release(&e);
  }
  explain_settings_free(&settings);
  return tool_end_output(status);
}
