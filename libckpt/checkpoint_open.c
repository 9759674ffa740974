/* Checkpoints: listing and opening. */
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "dtype.h"
#include "error.h"
#include "file.h"
#include "location.h"
#include "tensors.h"

static char *step_path(const ckpt_location *location, int64_t step) {
  return ck_print("%s/step-%lld", location->name, (long long)step);
}

static ckpt_status check_sizes(const ck_folder *folder, const ckpt_experiment *experiment, ckpt_error *error) {
  for (size_t i = 0; i < experiment->n_files; i++) {
    ckpt_file *file = NULL;
    ckpt_status status = ck_folder_open_listed(&file, folder, &experiment->files[i], error);
    ckpt_file_close(file);
    if (status != CKPT_OK) return status;
  }
  return CKPT_OK;
}

/* ---- Beginning: what makes one complete ---- */

static ckpt_status begin(ckpt_checkpoint **out, const char *path, ckpt_s3 *s3, ckpt_error *error) {
  *out = NULL;
  ckpt_checkpoint *checkpoint = ck_take(1, sizeof *checkpoint);
  if (!checkpoint) return ck_no_memory(error, sizeof *checkpoint);
  ckpt_status status = ck_folder_open(&checkpoint->folder, path, s3, error);
  if (status == CKPT_OK) status = ck_experiment_open(&checkpoint->experiment, checkpoint->folder, error);
  if (status == CKPT_OK) status = check_sizes(checkpoint->folder, ck_experiment_public(checkpoint->experiment), error);
  if (status == CKPT_OK)
    *out = checkpoint;
  else
    ckpt_checkpoint_close(checkpoint);
  return status;
}

static ckpt_status begin_step(ckpt_checkpoint **out, const ckpt_location *location, int64_t step, ckpt_error *error) {
  *out = NULL;
  char *path = step_path(location, step);
  ckpt_status status = path ? begin(out, path, location->s3, error) : ck_no_memory(error, 0);
  free(path);
  return status;
}

/* An object that is gone, or another one by now, is an answer. */
bool ck_is_unanswered(const ckpt_error *error) {
  static const char *const answers[] = {"E-S3-010", "E-S3-011", "E-S3-012"};
  for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
    if (strcmp(error->code, answers[i]) == 0) return false;
  return strncmp(error->code, "E-S3-", 5) == 0 || strcmp(error->code, "E-CKPT-001") == 0;
}

ckpt_status ck_checkpoint_judge(bool *complete, const ckpt_location *location, int64_t step, ckpt_error *error) {
  ckpt_checkpoint *checkpoint = NULL;
  ckpt_error own;
  ckpt_status status = begin_step(&checkpoint, location, step, &own);
  ckpt_checkpoint_close(checkpoint);
  *complete = status == CKPT_OK;
  if (*complete || !ck_is_unanswered(&own)) return CKPT_OK;
  if (error) *error = own;
  return status;
}

ckpt_status ckpt_checkpoint_list(ckpt_entry **out, size_t *n_out, ckpt_location *location, ckpt_error *error) {
  int64_t *steps = NULL;
  size_t n = 0;
  *out = NULL;
  *n_out = 0;
  ckpt_status status = location->ops->list(&steps, &n, location, error);
  if (status != CKPT_OK) return status;
  ckpt_entry *entries = ck_take(n, sizeof *entries);
  if (!entries) status = ck_no_memory(error, n * sizeof *entries);
  for (size_t i = 0; status == CKPT_OK && i < n; i++) {
    entries[i].step = steps[i];
    status = ck_checkpoint_judge(&entries[i].complete, location, steps[i], error);
  }
  free(steps);
  if (status != CKPT_OK) {
    free(entries);
    return status;
  }
  *out = entries;
  *n_out = n;
  return CKPT_OK;
}

/* ---- Opening ---- */

/* stem.safetensors, or the index of its shards: whichever of the two experiment.json lists. */
static ckpt_status open_tensors(ckpt_tensors **out, const ckpt_checkpoint *checkpoint, const char *stem,
                                ckpt_error *error) {
  static const char *const ends[] = {".safetensors", ".safetensors.index.json"};
  const ckpt_experiment *experiment = ck_experiment_public(checkpoint->experiment);
  for (size_t i = 0; i < experiment->n_files; i++) {
    const char *name = experiment->files[i].name;
    size_t n = strlen(stem);
    if (strncmp(name, stem, n) != 0 || (strcmp(name + n, ends[0]) != 0 && strcmp(name + n, ends[1]) != 0)) continue;
    return ck_folder_open_tensors(out, checkpoint->folder, name, error);
  }
  return ck_fail(error, CK_E_TENSORS_DIFFER, checkpoint->folder->path, -1, 0, "experiment.json lists no %s.safetensors",
                 stem);
}

static ckpt_status fail_tensor(const ckpt_checkpoint *checkpoint, const ckpt_tensor *found, const ckpt_array *told,
                               ckpt_error *error) {
  char found_shape[CK_SHAPE_TEXT], told_shape[CK_SHAPE_TEXT];
  if (!found || !told)
    return ck_fail(error, CK_E_TENSORS_DIFFER, checkpoint->folder->path, -1, 0, "tensor '%.200s' is only in %s",
                   found ? found->name : told->path, found ? "its file" : "experiment.json");
  return ck_fail(error, CK_E_TENSORS_DIFFER, checkpoint->folder->path, -1, 0,
                 "tensor '%.200s': expected %s %s, found %s %s", told->path, ckpt_dtype_name(told->dtype),
                 ck_shape_text(told_shape, told->rank, told->dims), ckpt_dtype_name(found->dtype),
                 ck_shape_text(found_shape, found->rank, found->dims));
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

/* Closes the checkpoint on failure. */
static ckpt_status finish(ckpt_checkpoint **out, ckpt_checkpoint *checkpoint, ckpt_error *error) {
  const ckpt_experiment *experiment = ck_experiment_public(checkpoint->experiment);
  ckpt_status status = open_tensors(&checkpoint->parameters, checkpoint, "parameters", error);
  if (status == CKPT_OK) status = open_tensors(&checkpoint->states, checkpoint, "states", error);
  if (status == CKPT_OK)
    status =
        compare_tensors(checkpoint, checkpoint->parameters, experiment->parameters, experiment->n_parameters, error);
  if (status == CKPT_OK)
    status = compare_tensors(checkpoint, checkpoint->states, experiment->states, experiment->n_states, error);
  if (status == CKPT_OK)
    *out = checkpoint;
  else
    ckpt_checkpoint_close(checkpoint);
  return status;
}

ckpt_status ckpt_checkpoint_open_path(ckpt_checkpoint **out, const char *path, ckpt_s3 *s3, ckpt_error *error) {
  ckpt_checkpoint *checkpoint = NULL;
  *out = NULL;
  ckpt_status status = begin(&checkpoint, path, s3, error);
  return status == CKPT_OK ? finish(out, checkpoint, error) : status;
}

/* The newest that is complete. One that cannot be judged is not passed over. */
static ckpt_status begin_latest(ckpt_checkpoint **out, const ckpt_location *location, const int64_t *steps, size_t n,
                                ckpt_error *error) {
  for (size_t i = n; i-- > 0;) {
    ckpt_error own;
    ckpt_status status = begin_step(out, location, steps[i], &own);
    if (status == CKPT_OK) return status;
    if (!ck_is_unanswered(&own)) continue;
    if (error) *error = own;
    return status;
  }
  return ck_fail(error, CK_E_NO_CHECKPOINT, location->name, -1, 0, "expected a complete one, found %zu torn ones", n);
}

static ckpt_status begin_one(ckpt_checkpoint **out, const ckpt_location *location, int64_t step, const int64_t *steps,
                             size_t n, ckpt_error *error) {
  for (size_t i = 0; i < n; i++)
    if (steps[i] == step) return begin_step(out, location, step, error);
  return ck_fail(error, CK_E_NO_CHECKPOINT, location->name, -1, 0, "expected step-%lld", (long long)step);
}

ckpt_status ckpt_checkpoint_open(ckpt_checkpoint **out, ckpt_location *location, int64_t step, ckpt_error *error) {
  ckpt_checkpoint *checkpoint = NULL;
  int64_t *steps = NULL;
  size_t n = 0;
  *out = NULL;
  ckpt_status status = location->ops->list(&steps, &n, location, error);
  if (status == CKPT_OK)
    status = step == CKPT_LATEST ? begin_latest(&checkpoint, location, steps, n, error)
                                 : begin_one(&checkpoint, location, step, steps, n, error);
  free(steps);
  return status == CKPT_OK ? finish(out, checkpoint, error) : status;
}

void ckpt_checkpoint_close(ckpt_checkpoint *checkpoint) {
  if (!checkpoint) return;
  ckpt_tensors_close(checkpoint->parameters);
  ckpt_tensors_close(checkpoint->states);
  ck_experiment_free(checkpoint->experiment);
  ck_folder_close(checkpoint->folder);
  free(checkpoint);
}

ckpt_status ckpt_checkpoint_file(ckpt_file **out, const ckpt_checkpoint *checkpoint, size_t index, ckpt_error *error) {
  const ckpt_experiment *experiment = ckpt_checkpoint_experiment(checkpoint);
  ckpt_status status = ck_folder_open_listed(out, checkpoint->folder, &experiment->files[index], error);
  if (status == CKPT_OK) status = ck_file_fetch(*out, error);
  if (status != CKPT_OK) {
    ckpt_file_close(*out);
    *out = NULL;
  }
  return status;
}

ckpt_status ckpt_checkpoint_fetch(ckpt_checkpoint *checkpoint, ckpt_error *error) {
  ckpt_status status = ck_tensors_fetch(checkpoint->parameters, error);
  return status == CKPT_OK ? ck_tensors_fetch(checkpoint->states, error) : status;
}

const char *ckpt_checkpoint_path(const ckpt_checkpoint *checkpoint) { return checkpoint->folder->path; }

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
