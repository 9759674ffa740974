#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "experiment.h"
#include "file.h"
#include "json_read.h"

enum { LARGEST_EXPERIMENT = 1 << 30 };

/* Texts are borrowed from the JSON value; lists, and values given as JSON text, are owned. */
struct ck_experiment {
  ckpt_experiment public;
  json_t *root;
  char *source; /* NULL: parsed from borrowed text */
  size_t n_source;
  char *owned_extra, *owned_choices;
  ckpt_text_file *sources;
  ckpt_knob *knobs; /* values owned */
  ckpt_array *parameters, *states;
  ckpt_load *loads;
  ckpt_data_source *data;
  ckpt_file_entry *files;
};

const ckpt_experiment *ck_experiment_public(const ck_experiment *experiment) { return &experiment->public; }

const char *ck_experiment_source(const ck_experiment *experiment, size_t *n_out) {
  *n_out = experiment->n_source;
  return experiment->source;
}

void ck_experiment_free(ck_experiment *experiment) {
  if (!experiment) return;
  for (size_t i = 0; i < experiment->public.n_knobs; i++) free((void *)(uintptr_t)experiment->knobs[i].value);
  free(experiment->knobs);
  free(experiment->sources);
  free(experiment->parameters);
  free(experiment->states);
  free(experiment->loads);
  free(experiment->data);
  free(experiment->files);
  free(experiment->owned_choices);
  free(experiment->owned_extra);
  json_decref(experiment->root);
  free(experiment->source);
  free(experiment);
}

/* A value as owned text of one line, no deeper than it may be written again. */
static ckpt_status get_json(char **out, const ck_json_object *object, const char *key, ckpt_error *error) {
  const json_t *value = json_object_get(object->value, key);
  if (!value) return ck_json_refuse(object, key, "there", error);
  if (ck_json_depth(value) > CK_JSON_RAW_DEPTH) return ck_json_refuse(object, key, "of at most 32 levels", error);
  return ck_json_dump(out, value, error);
}

/* Zeroed room for the items of an array member. */
static ckpt_status get_list(void *out, size_t *n, const ck_json_object *root, const char *key, size_t item_bytes,
                            ckpt_error *error) {
  const json_t *array = NULL;
  ckpt_status status = ck_json_get_array(&array, root, key, error);
  if (status != CKPT_OK) return status;
  *n = json_array_size(array);
  void *items = ck_take(*n, item_bytes);
  memcpy(out, &items, sizeof items);
  return items ? CKPT_OK : ck_no_memory(error, *n * item_bytes);
}

static ckpt_status read_source(ckpt_text_file *out, const ck_json_object *source, ckpt_error *error) {
  char told[CKPT_SHA256_TEXT], found[CKPT_SHA256_TEXT];
  ckpt_status status = ck_json_get_text(&out->name, source, "name", error);
  if (status == CKPT_OK) status = ck_json_get_text(&out->text, source, "text", error);
  if (status == CKPT_OK) status = ck_json_get_sha256(told, source, "sha256", error);
  if (status == CKPT_OK) status = ckpt_sha256_bytes(found, out->text, strlen(out->text), error);
  if (status == CKPT_OK && strcmp(told, found) != 0)
    status = ck_json_refuse(source, "sha256", "the SHA-256 of the text", error);
  return status;
}

static ckpt_status read_sources(ck_experiment *to, const ck_json_object *root, ckpt_error *error) {
  ck_json_object file;
  const json_t *includes = NULL;
  ckpt_status status = ck_json_get_object(&file, root, "file", error);
  if (status == CKPT_OK) status = ck_json_get_array(&includes, &file, "includes", error);
  if (status != CKPT_OK) return status;
  size_t n = json_array_size(includes);
  to->sources = ck_take(n + 1, sizeof *to->sources);
  if (!to->sources) return ck_no_memory(error, n * sizeof *to->sources);
  to->public.sources = to->sources;
  to->public.n_sources = n + 1;
  status = read_source(&to->sources[0], &file, error);
  for (size_t i = 0; status == CKPT_OK && i < n; i++) {
    ck_json_object include = {root->text, json_array_get(includes, i), "file", -1};
    status = read_source(&to->sources[i + 1], &include, error);
  }
  return status;
}

static ckpt_status read_knobs(ck_experiment *to, const ck_json_object *root, ckpt_error *error) {
  size_t n = 0;
  ckpt_status status = get_list(&to->knobs, &n, root, "knobs", sizeof *to->knobs, error);
  to->public.knobs = to->knobs;
  for (size_t i = 0; status == CKPT_OK && i < n; i++) {
    ck_json_object knob;
    char *value = NULL;
    status = ck_json_get_item(&knob, root, "knobs", i, error);
    if (status == CKPT_OK) status = ck_json_get_text(&to->knobs[i].name, &knob, "name", error);
    if (status == CKPT_OK) status = ck_json_get_text_or_null(&to->knobs[i].source, &knob, "source", error);
    if (status == CKPT_OK) status = get_json(&value, &knob, "value", error);
    to->knobs[i].value = value;
    to->public.n_knobs = i + 1;
  }
  return status;
}

static ckpt_status read_shape(ckpt_array *out, const ck_json_object *item, ckpt_error *error) {
  const json_t *shape = NULL;
  const char *dtype = NULL;
  uint64_t n_elements, n_bytes;
  ckpt_status status = ck_json_get_text(&out->path, item, "path", error);
  if (status == CKPT_OK) status = ck_json_get_text(&dtype, item, "dtype", error);
  if (status == CKPT_OK && !ckpt_dtype_find(&out->dtype, dtype))
    status = ck_json_refuse(item, "dtype", "the name of a dtype", error);
  if (status == CKPT_OK) status = ck_json_get_array(&shape, item, "shape", error);
  if (status != CKPT_OK) return status;
  if (json_array_size(shape) > CKPT_MAX_RANK) return ck_json_refuse(item, "shape", "of at most 8 dimensions", error);
  out->rank = (int)json_array_size(shape);
  for (int i = 0; i < out->rank; i++) {
    const json_t *dim = json_array_get(shape, (size_t)i);
    if (!json_is_integer(dim)) return ck_json_refuse(item, "shape", "an array of integers", error);
    out->dims[i] = json_integer_value(dim);
  }
  if (ck_shape_size(&n_elements, &n_bytes, out->dtype, out->rank, out->dims, NULL, -1, out->path, NULL) != CKPT_OK)
    return ck_json_refuse(item, "shape", "a possible shape", error);
  return CKPT_OK;
}

static ckpt_status read_load(ckpt_load *out, const ck_json_object *item, ckpt_error *error) {
  ck_json_object load = {item->text, json_object_get(item->value, "load"), item->member, item->index};
  ckpt_status status = ck_json_get_text(&out->file, &load, "file", error);
  if (status == CKPT_OK) status = ck_json_get_text(&out->tensor, &load, "tensor", error);
  if (status == CKPT_OK) status = ck_json_get_size(&out->size, &load, "size", error);
  if (status == CKPT_OK) status = ck_json_get_text_or_null(&out->version, &load, "version", error);
  return status;
}

/* `loads` has room for each array's, or is NULL where none is expected. */
static ckpt_status read_arrays(ckpt_array *arrays, size_t n, ckpt_load *loads, const ck_json_object *root,
                               const char *key, ckpt_error *error) {
  for (size_t i = 0; i < n; i++) {
    ck_json_object item;
    ckpt_status status = ck_json_get_item(&item, root, key, i, error);
    if (status == CKPT_OK) status = read_shape(&arrays[i], &item, error);
    if (status == CKPT_OK && i > 0 && strcmp(arrays[i - 1].path, arrays[i].path) >= 0)
      status = ck_json_refuse(&item, "path", "after the one before in byte order", error);
    if (status == CKPT_OK && loads && json_object_get(item.value, "load")) {
      status = read_load(&loads[i], &item, error);
      arrays[i].load = &loads[i];
    }
    if (status != CKPT_OK) return status;
  }
  return CKPT_OK;
}

static ckpt_status read_tensors(ck_experiment *to, const ck_json_object *root, ckpt_error *error) {
  ckpt_experiment *public = &to->public;
  ckpt_status status =
      get_list(&to->parameters, &public->n_parameters, root, "parameters", sizeof *to->parameters, error);
  if (status == CKPT_OK) status = get_list(&to->states, &public->n_states, root, "states", sizeof *to->states, error);
  if (status != CKPT_OK) return status;
  to->loads = ck_take(public->n_parameters, sizeof *to->loads);
  if (!to->loads) return ck_no_memory(error, public->n_parameters * sizeof *to->loads);
  public->parameters = to->parameters;
  public->states = to->states;
  status = read_arrays(to->parameters, public->n_parameters, to->loads, root, "parameters", error);
  if (status == CKPT_OK) status = read_arrays(to->states, public->n_states, NULL, root, "states", error);
  return status;
}

static ckpt_status read_data(ck_experiment *to, const ck_json_object *root, ckpt_error *error) {
  ckpt_status status = get_list(&to->data, &to->public.n_data, root, "data", sizeof *to->data, error);
  to->public.data = to->data;
  for (size_t i = 0; status == CKPT_OK && i < to->public.n_data; i++) {
    ckpt_data_source *out = &to->data[i];
    ck_json_object data;
    status = ck_json_get_item(&data, root, "data", i, error);
    if (status == CKPT_OK) status = ck_json_get_text_or_null(&out->name, &data, "name", error);
    if (status == CKPT_OK) status = ck_json_get_text_or_null(&out->source, &data, "source", error);
    if (status == CKPT_OK) status = ck_json_get_size(&out->size, &data, "size", error);
    if (status == CKPT_OK) status = ck_json_get_text_or_null(&out->version, &data, "version", error);
  }
  return status;
}

static ckpt_status read_files(ck_experiment *to, const ck_json_object *root, ckpt_error *error) {
  ck_json_object files;
  ckpt_status status = ck_json_get_object(&files, root, "files", error);
  if (status != CKPT_OK) return status;
  size_t n = json_object_size(files.value);
  to->files = ck_take(n, sizeof *to->files);
  if (!to->files) return ck_no_memory(error, n * sizeof *to->files);
  to->public.files = to->files;
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)(uintptr_t)files.value, name, value) {
    ckpt_file_entry *out = &to->files[to->public.n_files];
    ck_json_object file = {root->text, value, "files", -1};
    if (!*name || strchr(name, '/') || *name == '.')
      return ck_json_refuse(&files, name, "a file of the checkpoint's own directory", error);
    out->name = name;
    status = ck_json_get_size(&out->size, &file, "size", error);
    if (status == CKPT_OK) status = ck_json_get_sha256(out->sha256, &file, "sha256", error);
    if (status != CKPT_OK) return status;
    to->public.n_files++;
  }
  return CKPT_OK;
}

static ckpt_status read_small(ck_experiment *to, const ck_json_object *root, ckpt_error *error) {
  ckpt_experiment *public = &to->public;
  ck_json_object inner;
  ckpt_status status = ck_json_get_text_or_null(&public->slug, root, "slug", error);
  if (status == CKPT_OK) status = ck_json_get_object(&inner, root, "selection", error);
  if (status == CKPT_OK) status = ck_json_get_text_or_null(&public->run, &inner, "run", error);
  if (status == CKPT_OK) status = ck_json_get_text_or_null(&public->variant, &inner, "variant", error);
  if (status == CKPT_OK) status = ck_json_get_integer(&public->step, root, "step", error);
  if (status == CKPT_OK) status = ck_json_get_integer(&public->records, root, "records", error);
  if (status == CKPT_OK) status = ck_json_get_integer(&public->stage, root, "stage", error);
  if (status == CKPT_OK) status = ck_json_get_integer(&public->seed, root, "seed", error);
  if (status == CKPT_OK) status = ck_json_get_text_or_null(&public->identity, root, "identity", error);
  if (status == CKPT_OK) status = ck_json_get_object(&inner, root, "world", error);
  if (status == CKPT_OK) status = ck_json_get_integer(&public->gpus, &inner, "gpus", error);
  if (status == CKPT_OK) status = ck_json_get_integer(&public->nodes, &inner, "nodes", error);
  if (status == CKPT_OK) status = ck_json_get_sha256(public->digest, root, "digest", error);
  if (status == CKPT_OK) status = ck_json_get_object(&inner, root, "tool", error);
  if (status == CKPT_OK) status = ck_json_get_text_or_null(&public->tool_version, &inner, "version", error);
  if (status == CKPT_OK) status = ck_json_get_text_or_null(&public->tool_build, &inner, "build", error);
  if (status == CKPT_OK) status = ck_json_get_text_or_null(&public->created, root, "created", error);
  if (status == CKPT_OK) status = get_json(&to->owned_choices, root, "choices", error);
  public->choices = to->owned_choices;
  return status;
}

/* The members that this version does not know, to be written again. */
static ckpt_status read_extra(ck_experiment *to, const ck_json_object *root, ckpt_error *error) {
  json_t *rest = json_object(), *value;
  const char *key;
  bool good = rest != NULL;
  json_object_foreach((json_t *)(uintptr_t)root->value, key, value) {
    if (good && !ck_experiment_is_member(key)) good = json_object_set(rest, key, value) == 0;
  }
  ckpt_status status = good ? CKPT_OK : ck_no_memory(error, 0);
  if (good && ck_json_depth(rest) > CK_JSON_RAW_DEPTH)
    status = ck_fail(error, root->text->code, root->text->path, -1, 0, "expected at most %d levels", CK_JSON_RAW_DEPTH);
  if (status == CKPT_OK && json_object_size(rest) > 0) status = ck_json_dump(&to->owned_extra, rest, error);
  to->public.extra = to->owned_extra;
  json_decref(rest);
  return status;
}

static ckpt_status check_version(const ck_json_object *root, ckpt_error *error) {
  int64_t version = 0;
  if (!json_is_object(root->value))
    return ck_fail(error, root->text->code, root->text->path, 0, 0, "expected an object");
  ckpt_status status = ck_json_get_integer(&version, root, "version", error);
  if (status == CKPT_OK && version != CK_EXPERIMENT_VERSION)
    status = ck_fail(error, CK_E_EXPERIMENT_VERSION, root->text->path, ck_json_offset(root->text, "version", NULL), 0,
                     "expected version %d, found %lld", CK_EXPERIMENT_VERSION, (long long)version);
  return status;
}

static ckpt_status check_seal(const ck_json_text *text, ckpt_error *error) {
  char seal[CK_SEAL_BYTES + 1];
  size_t n = text->n_bytes < CK_SEAL_BYTES ? 0 : text->n_bytes - CK_SEAL_BYTES;
  ckpt_status status = ck_seal(seal, text->text, n, error);
  if (status != CKPT_OK) return status;
  if (n > 0 && memcmp(text->text + n, seal, CK_SEAL_BYTES) == 0) return CKPT_OK;
  return ck_fail(error, CK_E_SEAL, text->path, (int64_t)n, 0, "expected it to end in the seal %.71s", seal + 13);
}

static ckpt_status read_all(ck_experiment *to, const ck_json_text *text, ckpt_error *error) {
  ckpt_status status = ck_json_parse(&to->root, text, error);
  ck_json_object root = {text, to->root, NULL, -1};
  if (status == CKPT_OK) status = check_version(&root, error);
  if (status == CKPT_OK) status = check_seal(text, error);
  if (status == CKPT_OK) status = read_small(to, &root, error);
  if (status == CKPT_OK) status = read_sources(to, &root, error);
  if (status == CKPT_OK) status = read_knobs(to, &root, error);
  if (status == CKPT_OK) status = read_tensors(to, &root, error);
  if (status == CKPT_OK) status = read_data(to, &root, error);
  if (status == CKPT_OK) status = read_files(to, &root, error);
  if (status == CKPT_OK) status = read_extra(to, &root, error);
  return status;
}

ckpt_status ck_experiment_parse(ck_experiment **out, const char *path, const char *text, size_t n_bytes,
                                ckpt_error *error) {
  *out = NULL;
  ck_experiment *experiment = ck_take(1, sizeof *experiment);
  if (!experiment) return ck_no_memory(error, sizeof *experiment);
  ck_json_text source = {path, text, n_bytes, 0, CK_E_EXPERIMENT_FORMAT};
  ckpt_status status = read_all(experiment, &source, error);
  if (status == CKPT_OK)
    *out = experiment;
  else
    ck_experiment_free(experiment);
  return status;
}

static ckpt_status parse_file(ck_experiment **out, const ckpt_file *file, ckpt_error *error) {
  uint64_t size = ckpt_file_size(file);
  if (size > LARGEST_EXPERIMENT)
    return ck_fail(error, CK_E_EXPERIMENT_FORMAT, ckpt_file_path(file), -1, 0, "expected at most %d bytes, found %llu",
                   LARGEST_EXPERIMENT, (unsigned long long)size);
  char *text = NULL;
  ckpt_status status = ck_file_text(&text, file, 0, (size_t)size, error);
  if (status == CKPT_OK) status = ck_experiment_parse(out, ckpt_file_path(file), text, (size_t)size, error);
  if (status != CKPT_OK) {
    free(text);
    return status;
  }
  (*out)->source = text;
  (*out)->n_source = (size_t)size;
  return CKPT_OK;
}

ckpt_status ck_experiment_open(ck_experiment **out, const ck_folder *folder, ckpt_error *error) {
  ckpt_error own; /* what the open says, also where the caller does not want to know */
  ckpt_file *file = NULL;
  *out = NULL;
  ckpt_status status = folder->ops->open(&file, folder, "experiment.json", &own);
  if (status == CKPT_OK)
    status = parse_file(out, file, error);
  else if (own.errno_value == ENOENT)
    status = ck_fail(error, CK_E_TORN, folder->path, -1, 0, "it has no experiment.json");
  else if (error)
    *error = own;
  ckpt_file_close(file);
  return status;
}
