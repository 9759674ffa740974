#include "resume.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"

static bool same(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

static const char *or_none(const char *text) { return text ? text : "none"; }

/* ---- opening ---- */

void tool_say_torn(ckpt_location *location, int64_t chosen) {
  ckpt_entry *entries = NULL;
  size_t n = 0;
  if (ckpt_checkpoint_list(&entries, &n, location, NULL) != CKPT_OK) return;
  for (size_t i = 0; i < n; i++)
    if (!entries[i].complete && entries[i].step > chosen)
      fprintf(stderr, "step-%" PRId64 " is torn, not used\n", entries[i].step);
  free(entries);
}

static sexp_dtype dtype_of(ckpt_dtype dtype) {
  static const sexp_dtype map[CKPT_N_DTYPES] = {
      [CKPT_BOOL] = SEXP_BOOL, [CKPT_U8] = SEXP_U8,   [CKPT_I8] = SEXP_I8,     [CKPT_U16] = SEXP_U16,
      [CKPT_I16] = SEXP_I16,   [CKPT_F16] = SEXP_F16, [CKPT_BF16] = SEXP_BF16, [CKPT_U32] = SEXP_U32,
      [CKPT_I32] = SEXP_I32,   [CKPT_F32] = SEXP_F32, [CKPT_U64] = SEXP_U64,   [CKPT_I64] = SEXP_I64,
      [CKPT_F64] = SEXP_F64};
  return map[dtype];
}

/* Tensors of a safetensors file lie in it as they are on a little-endian host; elsewhere they are read. */
static int take_tensors(tool_resume *resume, const ckpt_tensors *tensors, bool state) {
  for (size_t i = 0; i < ckpt_tensors_count(tensors); i++) {
    const ckpt_tensor *from = ckpt_tensors_at(tensors, i);
    sexp_tensor *to = &resume->tensors[resume->start.n_tensors++];
    *to = (sexp_tensor){.path = from->name,
                        .dtype = dtype_of(from->dtype),
                        .rank = from->rank,
                        .dims = from->dims,
                        .bytes = from->data,
                        .n_bytes = (size_t)from->n_bytes,
                        .state = state};
    if (!from->data && from->n_bytes)
      return tool_fail(TOOL_INPUT, TOOL_E_RESUME_FILE, "%s: tensor %s does not lie in its file as it is", resume->name,
                       from->name);
  }
  return TOOL_DONE;
}

void tool_resume_take(tool_resume *resume, ckpt_checkpoint *checkpoint) {
  *resume = (tool_resume){.checkpoint = checkpoint};
  resume->start.step = ckpt_checkpoint_experiment(checkpoint)->step;
  snprintf(resume->name, sizeof resume->name, "step-%" PRId64, resume->start.step);
}

int tool_resume_fill(tool_resume *resume) {
  ckpt_error error;
  if (ckpt_checkpoint_fetch(resume->checkpoint, &error) != CKPT_OK) return tool_fail_ckpt(&error);
  const ckpt_tensors *parameters = ckpt_checkpoint_parameters(resume->checkpoint);
  const ckpt_tensors *states = ckpt_checkpoint_states(resume->checkpoint);
  size_t n = ckpt_tensors_count(parameters) + ckpt_tensors_count(states);
  resume->tensors = calloc(n + 1, sizeof *resume->tensors);
  if (!resume->tensors) return tool_no_memory();
  resume->start.tensors = resume->tensors;
  int status = take_tensors(resume, parameters, false);
  return status ? status : take_tensors(resume, states, true);
}

int tool_resume_open(tool_resume *resume, const char *what, ckpt_location *location, tool_credentials *credentials) {
  ckpt_error error;
  ckpt_s3 *s3 = NULL;
  bool latest = strcmp(what, "latest") == 0;
  *resume = (tool_resume){0};
  if (latest && !location) return tool_fail(TOOL_INPUT, TOOL_E_RESUME_LATEST, "--resume latest needs --checkpoint-dir");
  ckpt_status status = tool_credentials_client(&s3, credentials, TOOL_CHECKPOINT, what, &error);
  if (status == CKPT_OK)
    status = latest ? ckpt_checkpoint_open(&resume->checkpoint, location, CKPT_LATEST, &error)
                    : ckpt_checkpoint_open_path(&resume->checkpoint, what, s3, &error);
  if (status == CKPT_OK) status = ckpt_checkpoint_verify(resume->checkpoint, &error);
  if (status != CKPT_OK) return tool_fail_ckpt(&error);
  if (latest) tool_say_torn(location, ckpt_checkpoint_experiment(resume->checkpoint)->step);
  tool_resume_take(resume, resume->checkpoint);
  return tool_resume_fill(resume);
}

/* ---- the experiment ---- */

static int check_sources(const ckpt_experiment *then, const sexp_description *now, const char *path) {
  char was[CKPT_SHA256_TEXT], is[CKPT_SHA256_TEXT];
  for (size_t i = 0; i < then->n_sources || i < now->n_sources; i++) {
    if (i >= then->n_sources || i >= now->n_sources)
      return tool_fail(TOOL_INPUT, TOOL_E_RESUME_FILE, "%s: the checkpoint was written with %zu files, this is %zu",
                       path, then->n_sources, now->n_sources);
    const char *text = then->sources[i].text;
    if (strlen(text) == now->sources[i].n_bytes && memcmp(text, now->sources[i].bytes, strlen(text)) == 0) continue;
    if (ckpt_sha256_bytes(was, text, strlen(text), NULL) != CKPT_OK ||
        ckpt_sha256_bytes(is, now->sources[i].bytes, now->sources[i].n_bytes, NULL) != CKPT_OK)
      return tool_no_memory();
    return tool_fail(TOOL_INPUT, TOOL_E_RESUME_FILE, "%s differs: the checkpoint has %s, this is %s",
                     now->sources[i].path, was, is);
  }
  return TOOL_DONE;
}

static bool is_override(const char *source) { return same(source, "override"); }

/* One text may be written in several ways. */
static bool same_value(const char *a, const char *b) {
  json_t *left = a && b ? json_loads(a, JSON_DECODE_ANY, NULL) : NULL;
  json_t *right = left ? json_loads(b, JSON_DECODE_ANY, NULL) : NULL;
  bool equal = same(a, b) || (right && json_equal(left, right));
  json_decref(left);
  json_decref(right);
  return equal;
}

static const char *knob_then(const ckpt_experiment *then, const char *name) {
  for (size_t i = 0; i < then->n_knobs; i++)
    if (same(then->knobs[i].name, name) && !is_override(then->knobs[i].source)) return then->knobs[i].value;
  return NULL;
}

static int check_selection(const ckpt_experiment *then, const sexp_description *now) {
  if (!same(then->run, now->run))
    return tool_fail(TOOL_INPUT, TOOL_E_RESUME_SELECTION, "run: the checkpoint has %s, this is %s", or_none(then->run),
                     or_none(now->run));
  for (size_t i = 0; i < now->n_knobs; i++) {
    const sexp_knob *knob = &now->knobs[i];
    if (is_override(knob->source)) continue;
    const char *was = knob_then(then, knob->name);
    if (!same_value(was, knob->json))
      return tool_fail(TOOL_INPUT, TOOL_E_RESUME_SELECTION, "knob %s: the checkpoint has %s, this is %s", knob->name,
                       or_none(was), knob->json);
  }
  if (then->seed != now->seed)
    return tool_fail(TOOL_INPUT, TOOL_E_RESUME_SELECTION, "seed: the checkpoint has %" PRId64 ", this is %" PRId64,
                     then->seed, now->seed);
  return TOOL_DONE;
}

int tool_resume_check_program(const tool_resume *resume, const sexp_program *program, const char *path) {
  const ckpt_experiment *then = ckpt_checkpoint_experiment(resume->checkpoint);
  const sexp_description *now = sexp_program_describe(program);
  int status = check_sources(then, now, path);
  if (!status) status = check_selection(then, now);
  if (!status && !same(then->identity, now->identity))
    status = tool_fail(TOOL_INPUT, TOOL_E_RESUME_IDENTITY, "identity: the checkpoint has %s, this is %s",
                       or_none(then->identity), now->identity);
  return status;
}

/* ---- files ---- */

static int check_data(const ckpt_experiment *then, const ckpt_experiment *now) {
  for (size_t i = 0; i < now->n_data; i++) {
    const ckpt_data_source *is = &now->data[i];
    for (size_t k = 0; k < then->n_data; k++) {
      const ckpt_data_source *was = &then->data[k];
      if (!same(was->name, is->name) || (was->size == is->size && same(was->version, is->version))) continue;
      return tool_fail(TOOL_INPUT, TOOL_E_RESUME_DATA,
                       "data %s, %s: the checkpoint has %" PRIu64 " bytes, %s; this is %" PRIu64 " bytes, %s", is->name,
                       is->source, was->size, or_none(was->version), is->size, or_none(is->version));
    }
  }
  return TOOL_DONE;
}

int tool_resume_check_data(const tool_resume *resume, const tool_experiment *experiment) {
  return check_data(ckpt_checkpoint_experiment(resume->checkpoint), &experiment->record);
}

static int fail_load(const char *path, const ckpt_load *was, const ckpt_load *is) {
  return tool_fail(TOOL_INPUT, TOOL_E_RESUME_WEIGHTS,
                   "parameter %s: the checkpoint loaded %s of %s, %" PRIu64 " bytes, %s; this is %s of %s, %" PRIu64
                   " bytes, %s",
                   path, was->tensor, was->file, was->size, or_none(was->version), is->tensor, is->file, is->size,
                   or_none(is->version));
}

/* Loads from another path with the same bytes are named in the annotation. */
static int check_loads(const ckpt_experiment *then, const ckpt_experiment *now, ckpt_json *json) {
  ckpt_json_key(json, "moved");
  ckpt_json_begin_array(json);
  for (size_t i = 0; i < now->n_parameters; i++) {
    const ckpt_load *is = now->parameters[i].load, *was = NULL;
    for (size_t k = 0; k < then->n_parameters; k++)
      if (same(then->parameters[k].path, now->parameters[i].path)) was = then->parameters[k].load;
    if (!is || !was) continue;
    if (!same(was->tensor, is->tensor) || was->size != is->size || !same(was->version, is->version))
      return fail_load(now->parameters[i].path, was, is);
    if (same(was->file, is->file)) continue;
    ckpt_json_begin_object(json);
    ckpt_json_key(json, "parameter");
    ckpt_json_string(json, now->parameters[i].path);
    ckpt_json_key(json, "from");
    ckpt_json_string(json, was->file);
    ckpt_json_key(json, "to");
    ckpt_json_string(json, is->file);
    ckpt_json_end_object(json);
  }
  ckpt_json_end_array(json);
  return TOOL_DONE;
}

int tool_resume_check_files(tool_resume *resume, const tool_experiment *experiment) {
  const ckpt_experiment *then = ckpt_checkpoint_experiment(resume->checkpoint);
  int status = check_data(then, &experiment->record);
  ckpt_json *json = status ? NULL : ckpt_json_new(CKPT_JSON_LINE);
  if (!json) return status ? status : tool_no_memory();
  ckpt_json_begin_object(json);
  ckpt_json_key(json, "digest");
  ckpt_json_string(json, then->digest);
  status = check_loads(then, &experiment->record, json);
  if (!status) {
    ckpt_json_end_object(json);
    size_t n_bytes = 0;
    const char *text = ckpt_json_text(json, &n_bytes);
    resume->metadata = text ? strndup(text, n_bytes - 1) : NULL;
    if (!resume->metadata) status = tool_no_memory();
  }
  ckpt_json_free(json);
  return status;
}

void tool_resume_free(tool_resume *resume) {
  free(resume->metadata);
  free(resume->tensors);
  ckpt_checkpoint_close(resume->checkpoint);
  *resume = (tool_resume){0};
}
