/* sexpgpu-run: compiles an experiment and trains one of its runs. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/failure.h"
#include "../common/format.h"
#include "../common/host.h"
#include "../common/lost_pages.h"
#include "../common/messages.h"
#include "checkpoints.h"
#include "train.h"

static int compile(training *t) {
  const run_settings *s = t->settings;
  sexp_options options = tool_selection_options(&s->selection);
  const char *whose;
  options.memory_bytes = tool_engine_memory(&s->engine, &whose);
  options.memory_copies = (s->checkpoint_dir != NULL) + (s->digest_nodes_at > 0);
  tool_status_set(&t->status, "compiling");
  sexp_status status = sexp_compile(&t->program, &t->messages, s->selection.file, &options, &t->host);
  return status == SEXP_OK ? TOOL_DONE : tool_fail_sexp(status, t->messages);
}

static int check_memory(const training *t) {
  const tool_engine_settings *s = &t->settings->engine;
  sexp_run_options options = SEXP_RUN_OPTIONS_DEFAULT;
  tool_allowance allowed = {0};
  bool twice = t->settings->digest_nodes_at > 0;
  tool_engine_options(&options, s, NULL);
  const sexp_engine engine = {.simd = options.simd, .threads = options.threads};
  allowed.n_bytes = tool_engine_memory(s, &allowed.whose);
  return tool_report_fits(t->program, &engine, &allowed, twice, checkpoints_copy_bytes(t));
}

/* What a device chose, and the level that follows. */
static void judge(training *t) {
  if (t->pinning.taken || !t->settings->explain) tool_chooser_probe(&t->chooser, t->device, t->run);
  tool_chooser_judge(&t->chooser);
  tool_chooser_store_line(&t->chooser, t->store, sizeof t->store);
  t->mode.n_decisions = sexp_run_decisions(t->run, &t->mode.decisions);
  t->mode.probes = t->chooser.probes.items;
  t->mode.n_probes = t->chooser.probes.n;
}

static int load(training *t) {
  const run_settings *s = t->settings;
  sexp_run_options options = SEXP_RUN_OPTIONS_DEFAULT;
  tool_engine_options(&options, &s->engine, t->device);
  if (t->device) options.chooser = &t->chooser.calls;
  options.digest_every = s->digest_every;
  options.digest_nodes_at = s->digest_nodes_at;
  if (t->resume.checkpoint) options.start = &t->resume.start;
  tool_status_set(&t->status, "loading");
  sexp_status status = sexp_run_new(&t->run, &t->messages, t->program, &options, &t->host);
  tool_kept_settle(t->kept);
  if (status != SEXP_OK) return t->chooser.status ? t->chooser.status : tool_fail_sexp(status, t->messages);
  if (t->device) judge(t);
  return TOOL_DONE;
}

/* What killed writers left, as far as it can be found out: a place that tells nothing of it can be written all the
 * same.
 */
static void clean_location(const training *t) {
  int64_t n = 0;
  ckpt_error error;
  if (ckpt_location_clean(&n, t->location, &error) != CKPT_OK)
    fprintf(stderr, "warning: %s: %s\n", error.code, error.message);
  if (n > 0 && t->settings->verbose)
    fprintf(stderr, "%" PRId64 " unfinished write%s of earlier runs removed\n", n, tool_plural(n));
}

static int open_location(training *t) {
  const char *name = t->settings->checkpoint_dir;
  ckpt_error error;
  ckpt_s3 *s3 = NULL;
  if (!name) return TOOL_DONE;
  ckpt_status status = tool_credentials_client(&s3, &t->credentials, TOOL_CHECKPOINT, name, &error);
  if (status == CKPT_OK) status = ckpt_location_open(&t->location, name, true, s3, &error);
  if (status != CKPT_OK) return tool_fail_ckpt(&error);
  clean_location(t);
  return TOOL_DONE;
}

static int open_checkpoint(training *t) {
  const char *what = t->settings->resume;
  return what ? tool_resume_open(&t->resume, what, t->location, &t->credentials) : TOOL_DONE;
}

static int open_choices(training *t) {
  const run_settings *s = t->settings;
  const tool_pinning_options options = {
      .choices = s->choices, .node_gradients = s->node_gradients, .strict = s->strict};
  return tool_pinning_open(&t->pinning, &options, &t->credentials);
}

/* A device's choices are taken as the run is made; a CPU has none. */
static int pin(training *t) {
  const run_settings *s = t->settings;
  const char *before = t->resume.checkpoint ? ckpt_checkpoint_experiment(t->resume.checkpoint)->choices : NULL;
  const char *identity = sexp_program_describe(t->program)->identity;
  t->mode.determinism = t->pinning.determinism;
  t->mode.device = SEXP_DEVICE_CPU;
  int status = tool_engine_open(&t->device, &s->engine);
  if (status) return status;
  if (!t->device) return tool_pinning_take(&t->pinning, SEXP_DEVICE_CPU, identity, before);
  const tool_chooser_options options = {.tool = "sexpgpu-run " SEXPGPU_VERSION,
                                        .identity = identity,
                                        .optimize = s->selection.optimize,
                                        .portable = s->engine.portable,
                                        .looks = s->explain};
  status = tool_pinning_select(&t->pinning, before);
  tool_chooser_open(&t->chooser, &t->pinning, t->device, &options);
  t->mode.device = t->chooser.device.device;
  t->mode.cuda = sexp_device_describe(t->device);
  t->mode.store = t->store;
  return status;
}

static int check_checkpoint(const training *t) {
  return t->resume.checkpoint ? tool_resume_check_program(&t->resume, t->program, t->settings->selection.file)
                              : TOOL_DONE;
}

/* A run that goes on keeps its slug. */
static int describe(training *t) {
  const run_settings *s = t->settings;
  const char *slug = t->resume.checkpoint ? ckpt_checkpoint_experiment(t->resume.checkpoint)->slug : NULL;
  int status = tool_experiment_init(&t->experiment, t->program, t->run, s->selection.file, s->slug, slug, &t->mode);
  if (!status && t->resume.checkpoint) status = tool_resume_check_files(&t->resume, &t->experiment);
  if (status) return status;
  t->records = (tool_records){&t->sink, ckpt_json_new(CKPT_JSON_LINE), t->experiment.slug};
  t->status.run = t->experiment.slug;
  if (t->records.json && tool_report_make(&t->report, s->selection.file, t->program, t->run, &t->experiment, &t->mode,
                                          checkpoints_copy_bytes(t)))
    return TOOL_DONE;
  return tool_no_memory();
}

static void print_report(training *t) {
  const run_settings *s = t->settings;
  char *details = NULL;
  if (s->quiet && !s->explain) return;
  if (s->explain_what || s->verbose || s->explain)
    details = tool_report_details(t->program, t->device ? t->run : NULL, s->explain_what != NULL);
  tool_report_print(&t->report, details, s->explain ? stdout : stderr);
  free(details);
  if (!s->verbose) return;
  for (int role = 0; role < TOOL_N_ROLES; role++) tool_credentials_print(&t->credentials, (tool_role)role, stderr);
}

static int announce_run(training *t) {
  size_t room = 128 + strlen(t->experiment.choices) + strlen(t->mode.device);
  char *metadata = malloc(room);
  if (!metadata) return tool_no_memory();
  snprintf(metadata, room, "{\"choices\": %s, \"device\": \"%s\"}", t->experiment.choices, t->mode.device);
  int status = tool_record_manifest(&t->records, &t->experiment.record);
  if (!status) status = tool_record_annotation(&t->records, "lowering", 0, t->report.text, metadata);
  free(metadata);
  return status;
}

/* A stream that holds the run already goes on after the checkpoint's step: no record twice, none missing. That of the
 * checkpoint itself may be: a run that was killed had it still to write. */
static int announce(training *t) {
  bool resumed = t->resume.checkpoint != NULL;
  tool_held held = {false, false};
  int64_t step = t->resume.start.step;
  int status = resumed ? tool_sink_rewind(&t->sink, t->experiment.slug, step, &held) : TOOL_DONE;
  if (!status && !held.manifest) status = announce_run(t);
  if (!status && held.manifest && !held.checkpoint)
    status = tool_record_checkpoint(&t->records, step, ckpt_checkpoint_experiment(t->resume.checkpoint)->digest);
  if (!status && resumed)
    status = tool_record_annotation(&t->records, "resumed from", step, t->resume.name, t->resume.metadata);
  if (!status) status = tool_record_timing(&t->records, "perf/engine", step, 0, t->report.machine);
  return status;
}

static int gather_overrides(training *t) {
  const sexp_description *about = sexp_program_describe(t->program);
  t->status.steps = about->steps;
  t->overrides = calloc(about->n_knobs + 1, sizeof *t->overrides);
  if (!t->overrides) return tool_no_memory();
  for (size_t i = 0; i < about->n_knobs; i++)
    if (strcmp(about->knobs[i].source, "override") == 0) t->overrides[t->status.n_overrides++] = about->knobs[i].name;
  t->status.overrides = t->overrides;
  return TOOL_DONE;
}

static int open_host(training *t) {
  t->files.credentials = &t->credentials;
  const sexp_host inner = tool_host(&t->files);
  t->kept = tool_kept_new(&inner);
  if (!t->kept) return tool_no_memory();
  t->host = tool_kept_host(t->kept);
  return TOOL_DONE;
}

static int prepare_and_train(training *t) {
  int status = TOOL_DONE;
  if ((status = open_choices(t)) || (status = open_host(t))) return status;
  if ((status = open_location(t)) || (status = open_checkpoint(t))) return status;
  if ((status = compile(t)) || (status = check_checkpoint(t)) || (status = gather_overrides(t))) return status;
  if ((status = pin(t)) || (status = check_memory(t)) || (status = load(t)) || (status = describe(t))) return status;
  tool_print_messages(t->messages);
  print_report(t);
  if (t->settings->explain) return TOOL_DONE;
  if ((status = tool_sink_open(&t->sink, t->settings->metrics)) || (status = checkpoints_prepare(t))) return status;
  if ((status = announce(t))) return status;
  return train(t);
}

static void release(training *t) {
  run_writer_free(&t->writer);
  free(t->overrides);
  tool_resume_free(&t->resume);
  tool_report_free(&t->report);
  tool_experiment_free(&t->experiment);
  ckpt_json_free(t->records.json);
  tool_sink_close(&t->sink);
  ckpt_location_close(t->location);
  sexp_run_free(t->run);
  sexp_device_close(t->device);
  if (t->device) tool_chooser_free(&t->chooser);
  sexp_program_free(t->program);
  sexp_messages_free(t->messages);
  tool_kept_free(t->kept);
  tool_files_free(&t->files);
  tool_pinning_free(&t->pinning);
  tool_credentials_free(&t->credentials);
}

int main(int argc, char **argv) {
  run_settings settings;
  bool exit_now = false;
  tool_lost_pages_catch();
  signal(SIGXFSZ, SIG_IGN); /* a file beyond the limit of its size is an error of its write */
  int status = run_settings_read(&settings, argc, argv, &exit_now);
  if (!status && !exit_now) {
    training t = {.settings = &settings,
                  .mode = {.strict = settings.strict, .portable = settings.engine.portable},
                  .sink = {.fd = -1},
                  .last_checkpoint_step = -1};
    tool_credentials_read(&t.credentials);
    t.status.path = settings.status;
    t.progress.shown = !settings.quiet && isatty(STDERR_FILENO);
    status = prepare_and_train(&t);
    if (status && status < 128) tool_status_set(&t.status, "failed");
    release(&t);
  }
  run_settings_free(&settings);
  return status;
}
