#include "subject.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/failure.h"
#include "../common/host.h"
#include "../common/messages.h"
#include "../common/report.h"
#include "knob.h"

/* ---- what makes two experiments the same ---- */

static int make_key(char key[CKPT_SHA256_TEXT], const ckpt_experiment *then) {
  size_t n_bytes = 0;
  ckpt_json *json = ckpt_json_new(CKPT_JSON_LINE);
  if (!json) return tool_no_memory();
  ckpt_json_begin_object(json);
  ckpt_experiment_write(json, then, CKPT_BEFORE_STEP_1);
  ckpt_json_end_object(json);
  const char *text = ckpt_json_text(json, &n_bytes);
  bool good = text && ckpt_sha256_bytes(key, text, n_bytes, NULL) == CKPT_OK;
  ckpt_json_free(json);
  return good ? TOOL_DONE : tool_no_memory();
}

/* ---- the selection ---- */

static int take_override(subject *s, const ckpt_knob *knob) {
  if (strcmp(knob->name, "steps") == 0) s->steps = strtoll(knob->value, NULL, 10);
  if (strcmp(knob->name, "eval-every") == 0) s->eval_every = strtoll(knob->value, NULL, 10);
  return TOOL_DONE;
}

static int take_knobs(subject *s, const ckpt_experiment *then) {
  s->sets = calloc(then->n_knobs + 1, sizeof *s->sets);
  if (!s->sets) return tool_no_memory();
  for (size_t i = 0; i < then->n_knobs; i++) {
    const ckpt_knob *knob = &then->knobs[i];
    int status = TOOL_DONE;
    if (!knob->source) continue;
    if (strcmp(knob->source, "override") == 0) status = take_override(s, knob);
    if (strcmp(knob->source, "set") == 0) status = knob_set(&s->sets[s->n_sets++], knob);
    if (status) return status;
  }
  return TOOL_DONE;
}

/* ---- the stages of making one ---- */

static int open_host(subject *s, const ckpt_experiment *then, const evaluate_settings *settings) {
  sexp_host host = tool_host(&s->files);
  s->path = strdup(settings->file ? settings->file : then->sources[0].name);
  if (!settings->file) {
    s->recorded = tool_recorded_new(&host, then->sources, then->n_sources, settings->root);
    if (!s->recorded) return tool_no_memory();
    host = tool_recorded_host(s->recorded);
  }
  s->kept = tool_kept_new(&host);
  return s->path && s->kept ? TOOL_DONE : tool_no_memory();
}

static int compile(subject *s, const ckpt_experiment *then, const evaluate_settings *settings) {
  const sexp_host host = tool_kept_host(s->kept);
  sexp_options options = SEXP_OPTIONS_DEFAULT;
  options.run = then->run;
  options.variant = then->variant;
  options.sets = (const char *const *)s->sets;
  options.n_sets = s->n_sets;
  options.steps = s->steps;
  options.eval_every = s->eval_every;
  options.eval_limit = settings->eval_limit;
  options.optimize = settings->optimize;
  sexp_status status = sexp_compile(&s->program, &s->messages, s->path, &options, &host);
  return status == SEXP_OK ? TOOL_DONE : tool_fail_sexp(status, s->messages);
}

static int load(subject *s, const evaluate_settings *settings) {
  const sexp_host host = tool_kept_host(s->kept);
  sexp_run_options options = SEXP_RUN_OPTIONS_DEFAULT;
  if (sexp_program_describe(s->program)->n_evals == 0)
    return tool_fail(TOOL_INPUT, TOOL_E_EVALUATE_NOTHING, "%s: run %s has no evaluation", s->path,
                     sexp_program_describe(s->program)->run);
  tool_engine_options(&options, &settings->engine, s->device);
  if (s->device) options.chooser = &s->chooser.calls;
  options.evaluations_only = true;
  options.evaluations = settings->evals.n ? settings->evals.items : NULL;
  options.n_evaluations = settings->evals.n;
  sexp_status status = sexp_run_new(&s->run, &s->messages, s->program, &options, &host);
  tool_kept_settle(s->kept);
  if (status == SEXP_OK) return TOOL_DONE;
  return s->chooser.status ? s->chooser.status : tool_fail_sexp(status, s->messages);
}

/* The run's slug; with another file that file's digits after it, so that its values are not taken for the run's. */
static int name_it(subject *s, const ckpt_experiment *then, const evaluate_settings *settings) {
  const sexp_description *about = sexp_program_describe(s->program);
  char digest[CKPT_SHA256_TEXT];
  const char *slug = then->slug ? then->slug : "run";
  snprintf(s->slug, sizeof s->slug, "%s", slug);
  if (!settings->file) return TOOL_DONE;
  if (ckpt_sha256_bytes(digest, about->sources[0].bytes, about->sources[0].n_bytes, NULL) != CKPT_OK)
    return tool_no_memory();
  snprintf(s->slug, sizeof s->slug, "%.240s-%.4s", slug, digest + strlen("sha256:"));
  return TOOL_DONE;
}

static int describe(subject *s, const ckpt_experiment *then, const evaluate_settings *settings) {
  s->mode.n_decisions = s->device ? sexp_run_decisions(s->run, &s->mode.decisions) : 0;
  int status = name_it(s, then, settings);
  if (!status) status = tool_experiment_init(&s->experiment, s->program, s->run, s->path, NULL, s->slug, &s->mode);
  if (status) return status;
  for (size_t i = 0; i < s->experiment.record.n_parameters; i++) s->experiment.parameters[i].load = NULL;
  return TOOL_DONE;
}

/* ---- choices ---- */

/* The facts that the checkpoint's choices were made on, owned; NULL: it records none, or memory is out. */
static char *device_then(const ckpt_experiment *then) {
  json_t *choices = then->choices ? json_loads(then->choices, 0, NULL) : NULL;
  const char *device = json_string_value(json_object_get(choices, "device"));
  char *text = device ? strdup(device) : NULL;
  json_decref(choices);
  return text;
}

/* Facts of several devices begin with those of one. */
static bool is_kind(const char *then, const char *here) {
  return then && strncmp(then, here, strlen(here)) == 0 && (!then[strlen(here)] || then[strlen(here)] == ',');
}

/* On its kind of device the checkpoint's choices are taken, where no others were asked for; elsewhere the device
 * chooses. */
static int open_choices(subject *s, const ckpt_experiment *then, const evaluate_settings *settings) {
  const tool_chooser_options options = {.tool = "sexpgpu-evaluate " SEXPGPU_VERSION,
                                        .identity = sexp_program_describe(s->program)->identity,
                                        .optimize = settings->optimize,
                                        .portable = settings->engine.portable};
  s->mode = (tool_mode){.strict = settings->strict,
                        .portable = settings->engine.portable,
                        .device = SEXP_DEVICE_CPU,
                        .determinism = s->determinism,
                        .store = s->store};
  if (!s->device) return TOOL_DONE;
  char *recorded = device_then(then);
  tool_chooser_open(&s->chooser, s->pinning, s->device, &options);
  s->mode.device = s->chooser.device.device;
  s->mode.cuda = sexp_device_describe(s->device);
  bool takes = !settings->engine.portable && !settings->strict && is_kind(recorded, s->mode.device);
  free(recorded);
  return tool_pinning_select(s->pinning, takes ? then->choices : NULL);
}

/* The values repeat where the checkpoint's choices are those of this kind of device. A record that was asked for stands
 * in the place of the checkpoint's. */
static int judge(subject *s, const ckpt_experiment *then) {
  const tool_pinning *pinning = s->pinning;
  int status = TOOL_DONE;
  if (s->device) {
    if (pinning->taken) tool_chooser_probe(&s->chooser, s->device, s->run);
    tool_chooser_judge(&s->chooser);
    tool_chooser_store_line(&s->chooser, s->store, sizeof s->store);
  } else if (pinning->record) {
    status = tool_pinning_take(s->pinning, SEXP_DEVICE_CPU, sexp_program_describe(s->program)->identity, NULL);
  }
  bool settled = pinning->taken || (s->device && pinning->options.strict && !s->mode.portable);
  if (settled) snprintf(s->determinism, sizeof s->determinism, "%s", pinning->determinism);
  if (settled || status) return status;
  char *recorded = device_then(then);
  bool chooses = s->device && !s->mode.portable;
  if (!chooses && recorded && choices_same_bits(recorded, s->mode.device))
    snprintf(s->determinism, sizeof s->determinism, "2: any CPU repeats these bits with no record (numerics 1)");
  else if (recorded && is_kind(recorded, s->mode.device))
    snprintf(s->determinism, sizeof s->determinism,
             "3: chosen again on this machine; the checkpoint's choices are of this kind of device: %s", recorded);
  else if (recorded)
    snprintf(s->determinism, sizeof s->determinism, "3: the checkpoint's choices are of %s, this is %s", recorded,
             s->mode.device);
  else
    snprintf(s->determinism, sizeof s->determinism, "3: the checkpoint records no choices, this is %s", s->mode.device);
  free(recorded);
  return TOOL_DONE;
}

static int make(subject *s, const tool_resume *resume, const evaluate_settings *settings) {
  const ckpt_experiment *then = ckpt_checkpoint_experiment(resume->checkpoint);
  int status = open_host(s, then, settings);
  if (!status) status = take_knobs(s, then);
  if (!status) status = compile(s, then, settings);
  if (!status && !settings->file) status = tool_resume_check_program(resume, s->program, s->path);
  if (!status) status = open_choices(s, then, settings);
  if (!status) status = load(s, settings);
  if (!status) status = describe(s, then, settings);
  if (!status && !settings->file) status = tool_resume_check_data(resume, &s->experiment);
  if (!status) status = judge(s, then);
  if (status) return status;
  tool_print_messages(s->messages);
  sexp_messages_free(s->messages);
  s->messages = NULL;
  return TOOL_DONE;
}

int subject_prepare(subject *s, bool *anew, const tool_resume *resume, const evaluate_settings *settings) {
  char key[CKPT_SHA256_TEXT];
  int status = make_key(key, ckpt_checkpoint_experiment(resume->checkpoint));
  *anew = !status && strcmp(key, s->key) != 0;
  if (!*anew) return status;
  subject_free(s);
  status = make(s, resume, settings);
  if (status)
    subject_free(s);
  else
    memcpy(s->key, key, sizeof key);
  return status;
}

void subject_free(subject *s) {
  tool_experiment_free(&s->experiment);
  sexp_run_free(s->run);
  tool_chooser_free(&s->chooser);
  sexp_program_free(s->program);
  sexp_messages_free(s->messages);
  tool_kept_free(s->kept);
  tool_recorded_free(s->recorded);
  for (size_t i = 0; i < s->n_sets; i++) free(s->sets[i]);
  free(s->sets);
  free(s->path);
  tool_credentials *credentials = s->files.credentials;
  tool_pinning *pinning = s->pinning;
  sexp_device *device = s->device;
  tool_files_free(&s->files);
  *s = (subject){.pinning = pinning, .device = device, .files = {.credentials = credentials}};
}
