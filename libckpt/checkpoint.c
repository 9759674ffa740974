/* Checkpoints: writing, removing, verifying. */
#include "checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "arrays.h"
#include "beside.h"
#include "error.h"
#include "file.h"
#include "location.h"

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

static ckpt_status write_files(ck_output *stage, const ckpt_experiment *complete, const ckpt_write_options *options,
                               ckpt_error *error) {
  uint64_t shard_n_bytes = options->shard_n_bytes;
  ckpt_status status =
      write_tensors(stage, "parameters", complete->parameters, complete->n_parameters, shard_n_bytes, error);
  if (status == CKPT_OK)
    status = write_tensors(stage, "states", complete->states, complete->n_states, shard_n_bytes, error);
  return status;
}

static ckpt_status compute_digest(void *context, ckpt_error *error) {
  ckpt_experiment *complete = context;
  return ckpt_digest_arrays(complete->digest, complete->parameters, complete->n_parameters, complete->states,
                            complete->n_states, error);
}

/* Whether elements lie in memory, which any number of threads may read. */
static bool in_memory(const ckpt_array *arrays, size_t n) {
  bool all = true;
  for (size_t i = 0; i < n; i++) all = all && arrays[i].data;
  return all;
}

/* The digest takes the tensors in another order than the files do: it is computed beside them. */
static ckpt_status write_stage(ck_output *stage, ckpt_experiment *complete, const ckpt_write_options *options,
                               ckpt_error *error) {
  ck_beside digest;
  bool beside =
      in_memory(complete->parameters, complete->n_parameters) && in_memory(complete->states, complete->n_states);
  if (beside) ck_beside_start(&digest, compute_digest, complete);
  ckpt_status status = write_files(stage, complete, options, error);
  ckpt_error *first = status == CKPT_OK ? error : NULL;
  ckpt_status digested = beside ? ck_beside_join(&digest, first) : CKPT_OK;
  if (status == CKPT_OK) status = beside ? digested : compute_digest(complete, error);
  if (status == CKPT_OK) status = write_experiment(stage, complete, error);
  return status;
}

/* Removes one that may go; *complete: whether it was whole. */
static ckpt_status prune_step(ckpt_written *written, bool *complete, ckpt_location *location, int64_t step, bool goes,
                              ckpt_error *error) {
  ckpt_status status = ck_checkpoint_judge(complete, location, step, error);
  if (status != CKPT_OK || !goes) return status;
  status = location->ops->remove(location, step, *complete, error);
  written->n_removed += status == CKPT_OK && *complete;
  return status;
}

/* Removes what is older than the `keep` newest complete ones up to `step`. One that cannot go does not keep the others;
 * the first failure is reported. */
static void prune(ckpt_written *written, ckpt_location *location, int64_t step, int64_t keep) {
  int64_t *steps = NULL, n_kept = 0;
  size_t n = 0;
  ckpt_status status = location->ops->list(&steps, &n, location, &written->prune);
  for (size_t i = n; i-- > 0;) {
    bool complete = false;
    if (steps[i] > step) continue;
    ckpt_error *first = status == CKPT_OK ? &written->prune : NULL;
    ckpt_status pruned = prune_step(written, &complete, location, steps[i], n_kept >= keep, first);
    if (status == CKPT_OK) status = pruned;
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
  bool complete = false;
  ckpt_status status = ck_checkpoint_judge(&complete, location, step, error);
  return status == CKPT_OK ? location->ops->remove(location, step, complete, error) : status;
}

/* ---- Verifying ---- */

static ckpt_status verify_file(const ck_folder *folder, const ckpt_file_entry *entry, ckpt_error *error) {
  ckpt_file *file = NULL;
  char found[CKPT_SHA256_TEXT];
  ckpt_status status = ck_folder_open_listed(&file, folder, entry, error);
  if (status == CKPT_OK) status = ck_file_bring(file, error);
  if (status == CKPT_OK) status = ckpt_file_sha256(found, file, error);
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
    ckpt_status status = ck_file_bring(tensor->file, error);
    if (status == CKPT_OK) status = ckpt_digest_tensor(digest, kind, &array, error);
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
    status = ck_fail(error, CK_E_DIGEST, ckpt_checkpoint_path(checkpoint), -1, 0, "expected %s, found %s", told, found);
  return status;
}

static ckpt_status verify_files(void *context, ckpt_error *error) {
  const ckpt_checkpoint *checkpoint = context;
  const ckpt_experiment *experiment = ckpt_checkpoint_experiment(checkpoint);
  ckpt_status status = CKPT_OK;
  for (size_t i = 0; i < experiment->n_files && status == CKPT_OK; i++)
    status = verify_file(checkpoint->folder, &experiment->files[i], error);
  return status;
}

/* The files' hashes and the digest side by side. Where both differ, it is the file that is told. */
ckpt_status ckpt_checkpoint_verify(const ckpt_checkpoint *checkpoint, ckpt_error *error) {
  ck_beside files;
  ck_beside_start(&files, verify_files, (void *)(uintptr_t)checkpoint);
  ckpt_status digested = verify_digest(checkpoint, error);
  ckpt_status status = ck_beside_join(&files, error);
  return status == CKPT_OK ? digested : status;
}
