/* Checkpoints: writing, listing, opening, verifying. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "arrays.h"
#include "dtype.h"
#include "error.h"
#include "experiment.h"
#include "file.h"
#include "location.h"
#include "tensors.h"

/* ---- Writing ---- */

static ckpt_status write_tensors(ck_output *stage, const char *stem, const ckpt_array *arrays, size_t n,
                                 uint64_t shard_n_bytes, ckpt_error *error) {
  const ckpt_array **order = NULL;
  ckpt_status status = ck_arrays_sort(&order, arrays, n, error);
  if (status == CKPT_OK) status = ck_safetensors_write(stage, stem, order, n, shard_n_bytes, error);
  free(order);
  return status;
}

static int by_name(const void *left, const void *right) {
  return strcmp(((const ckpt_file_entry *)left)->name, ((const ckpt_file_entry *)right)->name);
}

static ckpt_status write_experiment(ck_output *stage, ckpt_experiment *complete, ckpt_error *error) {
  char *text = NULL;
  size_t n = 0;
  qsort(stage->files, stage->n_files, sizeof *stage->files, by_name);
  complete->files = stage->files;
  complete->n_files = stage->n_files;
  ckpt_status status = ck_experiment_text(&text, &n, complete, error);
  if (status == CKPT_OK) status = ck_output_begin(stage, "experiment.json", error);
  if (status == CKPT_OK) status = ck_output_write(stage, text, n, error);
  if (status == CKPT_OK) status = ck_output_end(stage, error);
  free(text);
  return status;
}

static ckpt_status write_stage(ck_output *stage, ckpt_experiment *complete, const ckpt_write_options *options,
                               ckpt_error *error) {
  const ckpt_array *parameters = complete->parameters, *states = complete->states;
  size_t n_parameters = complete->n_parameters, n_states = complete->n_states;
  ckpt_status status = write_tensors(stage, "parameters", parameters, n_parameters, options->shard_n_bytes, error);
  if (status == CKPT_OK) status = write_tensors(stage, "states", states, n_states, options->shard_n_bytes, error);
  if (status == CKPT_OK)
    status = ckpt_digest_arrays(complete->digest, parameters, n_parameters, states, n_states, error);
  if (status == CKPT_OK) status = write_experiment(stage, complete, error);
  return status;
}

static char *step_path(const ckpt_location *location, int64_t step) {
  return ck_print("%s/step-%lld", location->name, (long long)step);
}

static bool is_complete(const ckpt_location *location, int64_t step);

/* Removes what is older than the `keep` newest complete ones up to `step`. One that cannot go does not keep the others;
 * the first failure is reported. */
static void prune(ckpt_written *written, ckpt_location *location, int64_t step, int64_t keep) {
  int64_t *steps = NULL, n_kept = 0;
  size_t n = 0;
  ckpt_status status = location->ops->list(&steps, &n, location, &written->prune);
  for (size_t i = n; i-- > 0;) {
    if (steps[i] > step) continue;
    bool complete = is_complete(location, steps[i]);
    if (n_kept >= keep) {
      ckpt_status removed =
          location->ops->remove(location, steps[i], complete, status == CKPT_OK ? &written->prune : NULL);
      written->n_removed += removed == CKPT_OK && complete;
      if (status == CKPT_OK) status = removed;
    }
    n_kept += complete;
  }
  free(steps);
}

static void report(ckpt_written *written, const ck_output *stage, const ckpt_experiment *complete) {
  memcpy(written->digest, complete->digest, sizeof written->digest);
  for (size_t i = 0; i < stage->n_files; i++) written->n_bytes += stage->files[i].size;
}

ckpt_status ckpt_checkpoint_write(ckpt_written *written, ckpt_location *location, const ckpt_experiment *experiment,
                                  const ckpt_write_options *options, ckpt_error *error) {
  const ckpt_write_options defaults = CKPT_WRITE_OPTIONS;
  ckpt_written unwanted;
  ckpt_experiment complete = *experiment;
  ck_output *stage = NULL;
  if (!written) written = &unwanted;
  if (!options) options = &defaults;
  memset(written, 0, sizeof *written);
  written->prune.offset = -1;
  if (experiment->step < 0)
    return ck_fail(error, CK_E_ARGUMENT, NULL, -1, 0, "the step is %lld", (long long)experiment->step);
  ckpt_status status = location->ops->stage(&stage, location, experiment->step, error);
  if (status != CKPT_OK) return status;
  status = write_stage(stage, &complete, options, error);
  if (status == CKPT_OK) status = location->ops->publish(location, stage, error);
  if (status == CKPT_OK) report(written, stage, &complete);
  location->ops->end(location, stage);
  if (status == CKPT_OK && options->keep > 0) prune(written, location, experiment->step, options->keep);
  return status;
}

ckpt_status ckpt_checkpoint_remove(ckpt_location *location, int64_t step, ckpt_error *error) {
  return location->ops->remove(location, step, is_complete(location, step), error);
}

/* ---- Opening ---- */

struct ckpt_checkpoint {
  char *path;
  ck_experiment *experiment;
  ckpt_tensors *parameters, *states;
};

static ckpt_status open_listed(ckpt_file **out, const char *directory, const ckpt_file_entry *entry,
                               ckpt_error *error) {
  ckpt_read_options options = CKPT_READ_OPTIONS;
  ckpt_error own;
  options.stored = true;
  *out = NULL;
  char *path = ck_join(directory, entry->name);
  if (!path) return ck_no_memory(error, 0);
  ckpt_status status = ckpt_file_open(out, path, &options, &own);
  if (status != CKPT_OK) {
    status = own.errno_value ? ck_fail(error, CK_E_FILE_SIZE, path, -1, own.errno_value, "opening it failed")
                             : ck_fail(error, CK_E_FILE_SIZE, path, -1, 0, "expected a regular file");
  } else if (ckpt_file_size(*out) != entry->size) {
    status = ck_fail(error, CK_E_FILE_SIZE, path, -1, 0, "expected %llu bytes, found %llu",
                     (unsigned long long)entry->size, (unsigned long long)ckpt_file_size(*out));
    ckpt_file_close(*out);
    *out = NULL;
  }
  free(path);
  return status;
}

ckpt_status ck_checkpoint_open_file(ckpt_file **out, const ckpt_checkpoint *checkpoint, const ckpt_file_entry *entry,
                                    ckpt_error *error) {
  return open_listed(out, checkpoint->path, entry, error);
}

static ckpt_status check_sizes(const char *directory, const ckpt_experiment *experiment, ckpt_error *error) {
  for (size_t i = 0; i < experiment->n_files; i++) {
    ckpt_file *file = NULL;
    ckpt_status status = open_listed(&file, directory, &experiment->files[i], error);
    ckpt_file_close(file);
    if (status != CKPT_OK) return status;
  }
  return CKPT_OK;
}

static bool is_complete(const ckpt_location *location, int64_t step) {
  ck_experiment *experiment = NULL;
  char *path = step_path(location, step);
  bool complete = path && ck_experiment_open(&experiment, path, NULL) == CKPT_OK &&
                  check_sizes(path, ck_experiment_public(experiment), NULL) == CKPT_OK;
  ck_experiment_free(experiment);
  free(path);
  return complete;
}

ckpt_status ckpt_checkpoint_list(ckpt_entry **out, size_t *n_out, ckpt_location *location, ckpt_error *error) {
  int64_t *steps = NULL;
  size_t n = 0;
  *out = NULL;
  *n_out = 0;
  ckpt_status status = location->ops->list(&steps, &n, location, error);
  if (status != CKPT_OK) return status;
  ckpt_entry *entries = ck_take(n, sizeof *entries);
  for (size_t i = 0; entries && i < n; i++) entries[i] = (ckpt_entry){steps[i], is_complete(location, steps[i])};
  free(steps);
  if (!entries) return ck_no_memory(error, n * sizeof *entries);
  *out = entries;
  *n_out = n;
  return CKPT_OK;
}

/* stem.safetensors, or the index of its shards: whichever of the two experiment.json lists. */
static ckpt_status open_tensors(ckpt_tensors **out, const ckpt_checkpoint *checkpoint, const char *stem,
                                ckpt_error *error) {
  static const char *const ends[] = {".safetensors", ".safetensors.index.json"};
  const ckpt_experiment *experiment = ck_experiment_public(checkpoint->experiment);
  for (size_t i = 0; i < experiment->n_files; i++) {
    const char *name = experiment->files[i].name;
    size_t n = strlen(stem);
    if (strncmp(name, stem, n) != 0 || (strcmp(name + n, ends[0]) != 0 && strcmp(name + n, ends[1]) != 0)) continue;
    char *path = ck_join(checkpoint->path, name);
    ckpt_status status = path ? ckpt_tensors_open(out, path, NULL, error) : ck_no_memory(error, 0);
    free(path);
    return status;
  }
  return ck_fail(error, CK_E_TENSORS_DIFFER, checkpoint->path, -1, 0, "experiment.json lists no %s.safetensors", stem);
}

static ckpt_status fail_tensor(const ckpt_checkpoint *checkpoint, const ckpt_tensor *found, const ckpt_array *told,
                               ckpt_error *error) {
  char found_shape[CK_SHAPE_TEXT], told_shape[CK_SHAPE_TEXT];
  if (!found || !told)
    return ck_fail(error, CK_E_TENSORS_DIFFER, checkpoint->path, -1, 0, "tensor '%.200s' is only in %s",
                   found ? found->name : told->path, found ? "its file" : "experiment.json");
  return ck_fail(error, CK_E_TENSORS_DIFFER, checkpoint->path, -1, 0, "tensor '%.200s': expected %s %s, found %s %s",
                 told->path, ckpt_dtype_name(told->dtype), ck_shape_text(told_shape, told->rank, told->dims),
                 ckpt_dtype_name(found->dtype), ck_shape_text(found_shape, found->rank, found->dims));
}

/* Both lists are in byte order of the names. */
static ckpt_status compare_tensors(const ckpt_checkpoint *checkpoint, const ckpt_tensors *found, const ckpt_array *told,
                                   size_t n_told, ckpt_error *error) {
  size_t n_found = ckpt_tensors_count(found);
  for (size_t i = 0; i < n_found || i < n_told; i++) {
    const ckpt_tensor *tensor = i < n_found ? ckpt_tensors_at(found, i) : NULL;
    const ckpt_array *array = i < n_told ? &told[i] : NULL;
    int order = !array ? -1 : !tensor ? 1 : strcmp(tensor->name, array->path);
    if (order != 0) return fail_tensor(checkpoint, order < 0 ? tensor : NULL, order < 0 ? NULL : array, error);
    if (tensor->dtype != array->dtype || !ck_same_shape(tensor->rank, tensor->dims, array->rank, array->dims))
      return fail_tensor(checkpoint, tensor, array, error);
  }
  return CKPT_OK;
}

static ckpt_status open_parts(ckpt_checkpoint *checkpoint, ckpt_error *error) {
  ckpt_status status = ck_experiment_open(&checkpoint->experiment, checkpoint->path, error);
  if (status != CKPT_OK) return status;
  const ckpt_experiment *experiment = ck_experiment_public(checkpoint->experiment);
  status = check_sizes(checkpoint->path, experiment, error);
  if (status == CKPT_OK) status = open_tensors(&checkpoint->parameters, checkpoint, "parameters", error);
  if (status == CKPT_OK) status = open_tensors(&checkpoint->states, checkpoint, "states", error);
  if (status == CKPT_OK)
    status =
        compare_tensors(checkpoint, checkpoint->parameters, experiment->parameters, experiment->n_parameters, error);
  if (status == CKPT_OK)
    status = compare_tensors(checkpoint, checkpoint->states, experiment->states, experiment->n_states, error);
  return status;
}

static ckpt_status check_directory(const char *path, ckpt_error *error) {
  struct stat status;
  if (stat(path, &status) != 0) return ck_fail(error, CK_E_CHECKPOINT_OPEN, path, -1, errno, "expected a directory");
  if (S_ISDIR(status.st_mode)) return CKPT_OK;
  return ck_fail(error, CK_E_CHECKPOINT_OPEN, path, -1, ENOTDIR, "expected a directory");
}

ckpt_status ckpt_checkpoint_open_path(ckpt_checkpoint **out, const char *path, ckpt_error *error) {
  *out = NULL;
  ckpt_status status = ck_refuse_s3(path, error);
  if (status == CKPT_OK) status = check_directory(path, error);
  if (status != CKPT_OK) return status;
  ckpt_checkpoint *checkpoint = ck_take(1, sizeof *checkpoint);
  if (!checkpoint) return ck_no_memory(error, sizeof *checkpoint);
  checkpoint->path = ck_copy_text(path);
  status = checkpoint->path ? open_parts(checkpoint, error) : ck_no_memory(error, strlen(path));
  if (status == CKPT_OK)
    *out = checkpoint;
  else
    ckpt_checkpoint_close(checkpoint);
  return status;
}

/* The newest complete step, or the one asked for if it is there. */
static ckpt_status choose_step(int64_t *out, ckpt_location *location, int64_t step, ckpt_error *error) {
  int64_t *steps = NULL;
  size_t n = 0;
  bool found = false;
  ckpt_status status = location->ops->list(&steps, &n, location, error);
  for (size_t i = n; status == CKPT_OK && !found && i-- > 0;) {
    *out = steps[i];
    found = step == CKPT_LATEST ? is_complete(location, steps[i]) : steps[i] == step;
  }
  free(steps);
  if (status != CKPT_OK || found) return status;
  if (step == CKPT_LATEST)
    return ck_fail(error, CK_E_NO_CHECKPOINT, location->name, -1, 0, "expected a complete one, found %zu torn ones", n);
  return ck_fail(error, CK_E_NO_CHECKPOINT, location->name, -1, 0, "expected step-%lld", (long long)step);
}

ckpt_status ckpt_checkpoint_open(ckpt_checkpoint **out, ckpt_location *location, int64_t step, ckpt_error *error) {
  *out = NULL;
  ckpt_status status = choose_step(&step, location, step, error);
  if (status != CKPT_OK) return status;
  char *path = step_path(location, step);
  status = path ? ckpt_checkpoint_open_path(out, path, error) : ck_no_memory(error, 0);
  free(path);
  return status;
}

void ckpt_checkpoint_close(ckpt_checkpoint *checkpoint) {
  if (!checkpoint) return;
  ckpt_tensors_close(checkpoint->parameters);
  ckpt_tensors_close(checkpoint->states);
  ck_experiment_free(checkpoint->experiment);
  free(checkpoint->path);
  free(checkpoint);
}

const char *ckpt_checkpoint_path(const ckpt_checkpoint *checkpoint) { return checkpoint->path; }

const char *ckpt_checkpoint_text(const ckpt_checkpoint *checkpoint, size_t *n_out) {
  return ck_experiment_source(checkpoint->experiment, n_out);
}

uint64_t ckpt_checkpoint_n_bytes(const ckpt_checkpoint *checkpoint) {
  const ckpt_experiment *experiment = ck_experiment_public(checkpoint->experiment);
  size_t n = 0;
  ck_experiment_source(checkpoint->experiment, &n);
  uint64_t n_bytes = n;
  for (size_t i = 0; i < experiment->n_files; i++) n_bytes += experiment->files[i].size;
  return n_bytes;
}

const ckpt_experiment *ckpt_checkpoint_experiment(const ckpt_checkpoint *checkpoint) {
  return ck_experiment_public(checkpoint->experiment);
}
const ckpt_tensors *ckpt_checkpoint_parameters(const ckpt_checkpoint *checkpoint) { return checkpoint->parameters; }
const ckpt_tensors *ckpt_checkpoint_states(const ckpt_checkpoint *checkpoint) { return checkpoint->states; }

/* ---- Verifying ---- */

static ckpt_status verify_file(const char *directory, const ckpt_file_entry *entry, ckpt_error *error) {
  ckpt_file *file = NULL;
  char found[CKPT_SHA256_TEXT];
  ckpt_status status = open_listed(&file, directory, entry, error);
  if (status == CKPT_OK) status = ckpt_file_version(found, file, error);
  if (status == CKPT_OK && strcmp(found, entry->sha256) != 0)
    status = ck_fail(error, CK_E_FILE_HASH, ckpt_file_path(file), -1, 0, "expected %s, found %s", entry->sha256, found);
  ckpt_file_close(file);
  return status;
}

typedef struct tensor_source {
  const ckpt_tensors *tensors;
  const ckpt_tensor *tensor;
} tensor_source;

static ckpt_status read_piece(void *out, void *context, uint64_t offset, size_t n_bytes, ckpt_error *error) {
  const tensor_source *source = context;
  size_t width = ckpt_dtype_n_bytes(source->tensor->dtype);
  return ckpt_tensors_read(out, source->tensors, source->tensor, offset / width, n_bytes / width, error);
}

static ckpt_status digest_tensors(ckpt_digest *digest, ckpt_kind kind, const ckpt_tensors *tensors, ckpt_error *error) {
  for (size_t i = 0; i < ckpt_tensors_count(tensors); i++) {
    const ckpt_tensor *tensor = ckpt_tensors_at(tensors, i);
    tensor_source source = {tensors, tensor};
    ckpt_array array = {.path = tensor->name, .dtype = tensor->dtype, .rank = tensor->rank, .fill = read_piece};
    array.context = &source;
    memcpy(array.dims, tensor->dims, sizeof array.dims);
    ckpt_status status = ckpt_digest_tensor(digest, kind, &array, error);
    if (status != CKPT_OK) return status;
  }
  return CKPT_OK;
}

ckpt_status ckpt_checkpoint_digest(char out[CKPT_SHA256_TEXT], const ckpt_checkpoint *checkpoint, ckpt_error *error) {
  ckpt_digest *digest = NULL;
  ckpt_status status = ckpt_digest_new(&digest, error);
  if (status == CKPT_OK) status = digest_tensors(digest, CKPT_PARAMETER, checkpoint->parameters, error);
  if (status == CKPT_OK) status = digest_tensors(digest, CKPT_STATE, checkpoint->states, error);
  if (status == CKPT_OK) status = ckpt_digest_finish(out, digest, error);
  ckpt_digest_free(digest);
  return status;
}

static ckpt_status verify_digest(const ckpt_checkpoint *checkpoint, ckpt_error *error) {
  const char *told = ckpt_checkpoint_experiment(checkpoint)->digest;
  char found[CKPT_SHA256_TEXT];
  ckpt_status status = ckpt_checkpoint_digest(found, checkpoint, error);
  if (status == CKPT_OK && strcmp(found, told) != 0)
    status = ck_fail(error, CK_E_DIGEST, checkpoint->path, -1, 0, "expected %s, found %s", told, found);
  return status;
}

ckpt_status ckpt_checkpoint_verify(const ckpt_checkpoint *checkpoint, ckpt_error *error) {
  const ckpt_experiment *experiment = ckpt_checkpoint_experiment(checkpoint);
  for (size_t i = 0; i < experiment->n_files; i++) {
    ckpt_status status = verify_file(checkpoint->path, &experiment->files[i], error);
    if (status != CKPT_OK) return status;
  }
  return verify_digest(checkpoint, error);
}
