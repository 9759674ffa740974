#include <stdlib.h>
#include <string.h>

#include "arrays.h"
#include "experiment.h"
#include "json_read.h"
#include "utf8.h"

bool ck_experiment_is_member(const char *key) {
  static const char known[][12] = {"version", "slug",  "file",     "selection",  "knobs",   "step", "records",
                                   "stage",   "seed",  "identity", "parameters", "states",  "data", "world",
                                   "choices", "files", "digest",   "tool",       "created", "seal"};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(key, known[i]) == 0) return true;
  return false;
}

/* What cannot be written is written as null, so that the JSON stays whole; the first failure is kept. */
typedef struct members {
  ckpt_json *json;
  ckpt_experiment_part part;
  ckpt_status status;
  ckpt_error *error;
} members;

static void put_text(members *out, const char *key, const char *text) {
  bool good = !text || ck_is_utf8(text, strlen(text));
  if (!good && out->status == CKPT_OK)
    out->status = ck_fail(out->error, CK_E_ARGUMENT, NULL, -1, 0, "'%s' of experiment.json is not UTF-8", key);
  ckpt_json_key(out->json, key);
  ckpt_json_string(out->json, good ? text : NULL);
}

static void put_integer(members *out, const char *key, int64_t value) {
  ckpt_json_key(out->json, key);
  ckpt_json_integer(out->json, value);
}

static void put_size(members *out, const char *key, uint64_t value) {
  if (value > INT64_MAX && out->status == CKPT_OK)
    out->status = ck_fail(out->error, CK_E_ARGUMENT, NULL, -1, 0, "'%s' of experiment.json is above 2^63 - 1", key);
  ckpt_json_key(out->json, key);
  ckpt_json_unsigned(out->json, value);
}

static void begin_object(members *out, const char *key) {
  if (key) ckpt_json_key(out->json, key);
  ckpt_json_begin_object(out->json);
}

static void begin_array(members *out, const char *key) {
  ckpt_json_key(out->json, key);
  ckpt_json_begin_array(out->json);
}

static void end_object(members *out) { ckpt_json_end_object(out->json); }
static void end_array(members *out) { ckpt_json_end_array(out->json); }

/* A value that the caller gave as text, read so that what is written is JSON for certain; NULL after a failure. */
static json_t *parse_value(members *out, const char *key, const char *text) {
  ckpt_error own;
  json_t *value = NULL;
  ck_json_text source = {NULL, text, strlen(text), 0, CK_E_ARGUMENT};
  ckpt_status status = ck_json_parse(&value, &source, &own);
  bool deep = value && ck_json_depth(value) > CK_JSON_RAW_DEPTH;
  if (status == CKPT_OK && !deep) return value;
  json_decref(value);
  if (out->status != CKPT_OK) return NULL;
  if (deep)
    out->status = ck_fail(out->error, CK_E_ARGUMENT, NULL, -1, 0, "'%s' of experiment.json: expected at most %d levels",
                          key, CK_JSON_RAW_DEPTH);
  else if (status == CKPT_IO)
    out->status = ck_no_memory(out->error, 0);
  else
    out->status = ck_fail(out->error, CK_E_ARGUMENT, NULL, -1, 0, "'%s' of experiment.json: %.400s", key, own.message);
  return NULL;
}

static void put_json(members *out, const char *key, const char *text) {
  json_t *value = text ? parse_value(out, key, text) : NULL;
  ckpt_json_key(out->json, key);
  if (value)
    ck_json_emit(out->json, value);
  else
    ckpt_json_null(out->json);
  json_decref(value);
}

/* ---- The members ---- */

static void put_source(members *out, const ckpt_text_file *source) {
  char hash[CKPT_SHA256_TEXT] = "";
  const char *text = source->text ? source->text : "";
  ckpt_status status = ckpt_sha256_bytes(hash, text, strlen(text), out->status == CKPT_OK ? out->error : NULL);
  if (out->status == CKPT_OK) out->status = status;
  put_text(out, "name", source->name ? source->name : "");
  put_text(out, "sha256", hash);
  put_text(out, "text", text);
}

static void put_sources(members *out, const ckpt_experiment *experiment) {
  static const ckpt_text_file none = {"", ""};
  begin_object(out, "file");
  put_source(out, experiment->n_sources ? &experiment->sources[0] : &none);
  begin_array(out, "includes");
  for (size_t i = 1; i < experiment->n_sources; i++) {
    begin_object(out, NULL);
    put_source(out, &experiment->sources[i]);
    end_object(out);
  }
  end_array(out);
  end_object(out);
}

static void put_selection(members *out, const ckpt_experiment *experiment) {
  begin_object(out, "selection");
  put_text(out, "run", experiment->run);
  put_text(out, "variant", experiment->variant);
  end_object(out);
}

static void put_knobs(members *out, const ckpt_experiment *experiment) {
  begin_array(out, "knobs");
  for (size_t i = 0; i < experiment->n_knobs; i++) {
    begin_object(out, NULL);
    put_text(out, "name", experiment->knobs[i].name ? experiment->knobs[i].name : "");
    put_json(out, "value", experiment->knobs[i].value);
    put_text(out, "source", experiment->knobs[i].source);
    end_object(out);
  }
  end_array(out);
}

static void put_load(members *out, const ckpt_load *load) {
  begin_object(out, "load");
  put_text(out, "file", load->file ? load->file : "");
  put_text(out, "tensor", load->tensor ? load->tensor : "");
  put_size(out, "size", load->size);
  put_text(out, "version", load->version);
  end_object(out);
}

static void put_array(members *out, const ckpt_array *array) {
  begin_object(out, NULL);
  put_text(out, "path", array->path);
  begin_array(out, "shape");
  for (int i = 0; i < array->rank; i++) ckpt_json_integer(out->json, array->dims[i]);
  end_array(out);
  put_text(out, "dtype", ckpt_dtype_name(array->dtype));
  if (array->load) put_load(out, array->load);
  end_object(out);
}

static void put_arrays(members *out, const char *key, const ckpt_array *arrays, size_t n) {
  const ckpt_array **order = NULL;
  ckpt_status status = ck_arrays_sort(&order, arrays, n, out->status == CKPT_OK ? out->error : NULL);
  if (out->status == CKPT_OK) out->status = status;
  begin_array(out, key);
  for (size_t i = 0; order && i < n; i++) put_array(out, order[i]);
  end_array(out);
  free(order);
}

static void put_data(members *out, const ckpt_experiment *experiment) {
  begin_array(out, "data");
  for (size_t i = 0; i < experiment->n_data; i++) {
    const ckpt_data_source *data = &experiment->data[i];
    begin_object(out, NULL);
    put_text(out, "name", data->name);
    put_text(out, "source", data->source);
    put_size(out, "size", data->size);
    put_text(out, "version", data->version);
    end_object(out);
  }
  end_array(out);
}

static void put_world(members *out, const ckpt_experiment *experiment) {
  begin_object(out, "world");
  put_integer(out, "gpus", experiment->gpus);
  put_integer(out, "nodes", experiment->nodes);
  end_object(out);
}

static void put_files(members *out, const ckpt_experiment *experiment) {
  begin_object(out, "files");
  for (size_t i = 0; i < experiment->n_files; i++) {
    begin_object(out, experiment->files[i].name);
    put_size(out, "size", experiment->files[i].size);
    put_text(out, "sha256", experiment->files[i].sha256);
    end_object(out);
  }
  end_object(out);
}

static void put_tool(members *out, const ckpt_experiment *experiment) {
  begin_object(out, "tool");
  put_text(out, "version", experiment->tool_version);
  if (out->part == CKPT_WHOLE) put_text(out, "build", experiment->tool_build);
  end_object(out);
}

static void put_extra(members *out, const char *text) {
  json_t *extra = text ? parse_value(out, "extra", text) : NULL, *value;
  const char *key;
  if (extra && !json_is_object(extra) && out->status == CKPT_OK)
    out->status = ck_fail(out->error, CK_E_ARGUMENT, NULL, -1, 0, "expected the extra members as a JSON object");
  json_object_foreach(extra, key, value) {
    if (ck_experiment_is_member(key)) {
      if (out->status == CKPT_OK)
        out->status =
            ck_fail(out->error, CK_E_ARGUMENT, NULL, -1, 0, "experiment.json has a member '%.100s' already", key);
      continue;
    }
    ckpt_json_key(out->json, key);
    ck_json_emit(out->json, value);
  }
  json_decref(extra);
}

static void put_members(members *out, const ckpt_experiment *experiment) {
  bool whole = out->part == CKPT_WHOLE;
  put_integer(out, "version", CK_EXPERIMENT_VERSION);
  put_text(out, "slug", experiment->slug);
  put_sources(out, experiment);
  put_selection(out, experiment);
  put_knobs(out, experiment);
  if (whole) put_integer(out, "step", experiment->step);
  if (whole) put_integer(out, "records", experiment->records);
  if (whole) put_integer(out, "stage", experiment->stage);
  put_integer(out, "seed", experiment->seed);
  put_text(out, "identity", experiment->identity);
  put_arrays(out, "parameters", experiment->parameters, experiment->n_parameters);
  put_arrays(out, "states", experiment->states, experiment->n_states);
  put_data(out, experiment);
  put_world(out, experiment);
  put_json(out, "choices", experiment->choices);
  if (whole) put_files(out, experiment);
  if (whole) put_text(out, "digest", experiment->digest);
  put_tool(out, experiment);
  if (whole) put_text(out, "created", experiment->created);
  put_extra(out, experiment->extra);
}

ckpt_status ckpt_experiment_write(ckpt_json *json, const ckpt_experiment *experiment, ckpt_experiment_part part) {
  members out = {json, part, CKPT_OK, NULL};
  put_members(&out, experiment);
  return out.status;
}

/* ---- The file ---- */

ckpt_status ck_seal(char out[CK_SEAL_BYTES + 1], const char *text, size_t n, ckpt_error *error) {
  static const char before[] = ",\n  \"seal\": \"", after[] = "\"\n}\n";
  char hash[CKPT_SHA256_TEXT];
  ckpt_status status = ckpt_sha256_bytes(hash, text, n, error);
  if (status != CKPT_OK) return status;
  size_t n_before = sizeof before - 1, n_hash = strlen(hash);
  memcpy(out, before, n_before);
  memcpy(out + n_before, hash, n_hash);
  memcpy(out + n_before + n_hash, after, sizeof after);
  return CKPT_OK;
}

/* The document without its last bytes "\n}\n", and the seal. */
static ckpt_status seal_text(char **out, size_t *n_out, ckpt_json *json, ckpt_error *error) {
  size_t n = 0;
  const char *text = ckpt_json_text(json, &n);
  if (!text) return ck_no_memory(error, n);
  n -= 3;
  char *sealed = malloc(n + CK_SEAL_BYTES + 1);
  if (!sealed) return ck_no_memory(error, n);
  memcpy(sealed, text, n);
  ckpt_status status = ck_seal(sealed + n, text, n, error);
  if (status != CKPT_OK) {
    free(sealed);
    return status;
  }
  *out = sealed;
  *n_out = n + CK_SEAL_BYTES;
  return CKPT_OK;
}

ckpt_status ck_experiment_text(char **text, size_t *n_out, const ckpt_experiment *experiment, ckpt_error *error) {
  *text = NULL;
  members out = {ckpt_json_new(CKPT_JSON_PRETTY), CKPT_WHOLE, CKPT_OK, error};
  if (!out.json) return ck_no_memory(error, 0);
  ckpt_json_begin_object(out.json);
  put_members(&out, experiment);
  ckpt_json_end_object(out.json);
  if (out.status == CKPT_OK) out.status = seal_text(text, n_out, out.json, error);
  ckpt_json_free(out.json);
  return out.status;
}
