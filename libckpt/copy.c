/* Copying a checkpoint into a location: file by file, each hashed on the way, experiment.json last. */
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "error.h"
#include "file.h"
#include "location.h"

static bool is_kept(const ck_output *stage, const ckpt_file_entry *entry) {
  for (size_t i = 0; i < stage->n_files; i++)
    if (strcmp(stage->files[i].name, entry->name) == 0) return true;
  return false;
}

static ckpt_status copy_bytes(ck_output *stage, const ckpt_file *file, ckpt_error *error) {
  uint64_t size = ck_file_stored_size(file);
  size_t most = ck_file_piece(file);
  unsigned char *room = malloc(most);
  ckpt_status status = room ? CKPT_OK : ck_no_memory(error, most);
  for (uint64_t done = 0; status == CKPT_OK && done < size;) {
    size_t n = size - done < most ? (size_t)(size - done) : most;
    status = ck_file_read_stored(room, file, done, n, error);
    if (status == CKPT_OK) status = ck_output_write(stage, room, n, error);
    done += n;
  }
  free(room);
  return status;
}

static ckpt_status try_to_copy(ck_output *stage, const ckpt_file *file, const ckpt_file_entry *entry,
                               ckpt_error *error) {
  ckpt_status status = ck_output_begin(stage, entry->name, error);
  if (status == CKPT_OK) status = copy_bytes(stage, file, error);
  if (status == CKPT_OK) status = ck_output_end(stage, error);
  return status;
}

/* A file whose bytes are not those that experiment.json tells of is not finished: nothing of it stays. What an earlier
 * copy of another checkpoint had begun to upload may be taken up at first, and is then removed. */
static ckpt_status copy_file(ck_output *stage, const ckpt_checkpoint *from, const ckpt_file_entry *entry,
                             ckpt_error *error) {
  ckpt_file *file = NULL;
  ckpt_error own;
  ckpt_status status = ck_folder_open_listed(&file, from->folder, entry, &own);
  if (status == CKPT_OK) status = try_to_copy(stage, file, entry, &own);
  if (status != CKPT_OK && strcmp(own.code, "E-S3-017") == 0) {
    ck_output_abandon(stage);
    status = try_to_copy(stage, file, entry, &own);
  }
  if (status != CKPT_OK && error) *error = own;
  const char *found = status == CKPT_OK ? stage->files[stage->n_files - 1].sha256 : NULL;
  if (found && strcmp(found, entry->sha256) != 0)
    status = ck_fail(error, CK_E_FILE_HASH, ckpt_file_path(file), -1, 0, "expected %s, found %s", entry->sha256, found);
  ckpt_file_close(file);
  return status;
}

static ckpt_status copy_text(ck_output *stage, const ckpt_checkpoint *from, ckpt_error *error) {
  size_t n = 0;
  const char *text = ckpt_checkpoint_text(from, &n);
  ckpt_status status = ck_output_begin(stage, "experiment.json", error);
  if (status == CKPT_OK) status = ck_output_write(stage, text, n, error);
  if (status == CKPT_OK) status = ck_output_end(stage, error);
  return status;
}

static ckpt_status copy_files(ckpt_copied *copied, ck_output *stage, const ckpt_checkpoint *from, ckpt_error *error) {
  const ckpt_experiment *experiment = ckpt_checkpoint_experiment(from);
  for (size_t i = 0; i < experiment->n_files; i++) {
    const ckpt_file_entry *entry = &experiment->files[i];
    bool kept = is_kept(stage, entry);
    ckpt_status status = kept ? CKPT_OK : copy_file(stage, from, entry, error);
    if (status != CKPT_OK) return status;
    *(kept ? &copied->n_bytes_kept : &copied->n_bytes) += entry->size;
  }
  ckpt_status status = copy_text(stage, from, error);
  if (status == CKPT_OK) copied->n_bytes += stage->size;
  return status;
}

static ckpt_status copy_anew(ckpt_copied *copied, ckpt_location *to, const ckpt_checkpoint *from, ckpt_error *error) {
  const ckpt_experiment *experiment = ckpt_checkpoint_experiment(from);
  ck_output *stage = NULL;
  ckpt_status status = to->ops->take_up(&stage, to, experiment->step, experiment->files, experiment->n_files, error);
  if (status != CKPT_OK) return status;
  status = copy_files(copied, stage, from, error);
  if (status == CKPT_OK) status = to->ops->publish(to, stage, error);
  stage->leave = status == CKPT_IO;
  to->ops->end(to, stage);
  return status;
}

/* Whether the step is there: the same one and whole, another one (an error, unless it is to be replaced), or none that
 * is worth keeping. */
static ckpt_status find(bool *same, ckpt_location *to, const ckpt_checkpoint *from, bool replace, ckpt_error *error) {
  int64_t step = ckpt_checkpoint_experiment(from)->step;
  ckpt_checkpoint *there = NULL;
  size_t n = 0, n_there = 0;
  const char *text = ckpt_checkpoint_text(from, &n);
  ckpt_error own;
  *same = false;
  ckpt_status status = ckpt_checkpoint_open(&there, to, step, &own);
  if (status != CKPT_OK) {
    if (!ck_is_unanswered(&own)) return CKPT_OK;
    if (error) *error = own;
    return status;
  }
  const char *text_there = ckpt_checkpoint_text(there, &n_there);
  if (n == n_there && memcmp(text, text_there, n) == 0)
    *same = ckpt_checkpoint_verify(there, NULL) == CKPT_OK;
  else if (!replace)
    status = ck_fail(error, CK_E_STEP_TAKEN, ckpt_checkpoint_path(there), -1, 0, "it has digest %s, the one to copy %s",
                     ckpt_checkpoint_experiment(there)->digest, ckpt_checkpoint_experiment(from)->digest);
  ckpt_checkpoint_close(there);
  return status;
}

ckpt_status ckpt_checkpoint_copy(ckpt_copied *copied, ckpt_location *to, const ckpt_checkpoint *from,
                                 const ckpt_copy_options *options, ckpt_error *error) {
  const ckpt_copy_options defaults = CKPT_COPY_OPTIONS;
  ckpt_copied unwanted;
  if (!copied) copied = &unwanted;
  if (!options) options = &defaults;
  memset(copied, 0, sizeof *copied);
  ckpt_status status = find(&copied->already, to, from, options->replace, error);
  if (status != CKPT_OK || copied->already) return status;
  return copy_anew(copied, to, from, error);
}
