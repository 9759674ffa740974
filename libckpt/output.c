#include "output.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"

enum { LEAST_BESIDE = 1 << 16 }; /* bytes whose hash is worth a hand to the other thread */

ckpt_status ck_output_init(ck_output *output, const ck_output_ops *ops, ckpt_error *error) {
  memset(output, 0, sizeof *output);
  output->ops = ops;
  return ck_sha256_new(&output->hash, error);
}

void ck_output_abandon(ck_output *output) {
  if (output->name) output->ops->abandon(output);
  free(output->name);
  output->name = NULL;
}

void ck_output_clear(ck_output *output) {
  ck_output_abandon(output);
  for (size_t i = 0; i < output->n_files; i++) free((void *)(uintptr_t)output->files[i].name);
  free(output->files);
  ck_lane_free(output->lane);
  ck_sha256_free(output->hash);
  memset(output, 0, sizeof *output);
}

ckpt_status ck_output_begin(ck_output *output, const char *name, ckpt_error *error) {
  char *copy = ck_copy_text(name);
  if (!copy) return ck_no_memory(error, strlen(name));
  ckpt_status status = output->ops->create(output, name, error);
  if (status != CKPT_OK) {
    free(copy);
    return status;
  }
  output->name = copy;
  output->size = 0;
  return CKPT_OK;
}

ckpt_status ck_output_write(ck_output *output, const void *bytes, size_t n_bytes, ckpt_error *error) {
  bool beside = n_bytes >= LEAST_BESIDE;
  if (beside && !output->lane) output->lane = ck_lane_new();
  beside = beside && output->lane;
  if (beside) ck_lane_give(output->lane, output->hash, bytes, n_bytes);
  ckpt_status status = output->ops->write(output, bytes, n_bytes, error);
  ckpt_error *first = status == CKPT_OK ? error : NULL;
  ckpt_status hashed = beside ? ck_lane_wait(output->lane, first) : CKPT_OK;
  if (status == CKPT_OK) status = beside ? hashed : ck_sha256_add(output->hash, bytes, n_bytes, error);
  output->size += n_bytes;
  return status;
}

ckpt_status ck_output_end(ck_output *output, ckpt_error *error) {
  ckpt_file_entry *grown = ck_grow(output->files, output->n_files, &output->room, sizeof *grown);
  if (!grown) return ck_no_memory(error, 0);
  output->files = grown;
  ckpt_file_entry *entry = &grown[output->n_files];
  memset(entry, 0, sizeof *entry);
  ckpt_status status = ck_sha256_finish(entry->sha256, output->hash, error);
  if (status == CKPT_OK) status = output->ops->finish(output, output->name, error);
  if (status != CKPT_OK) return status;
  entry->name = output->name;
  entry->size = output->size;
  output->name = NULL;
  output->n_files++;
  return CKPT_OK;
}

ckpt_status ck_output_keep(ck_output *output, const ckpt_file_entry *entry, ckpt_error *error) {
  ckpt_file_entry *grown = ck_grow(output->files, output->n_files, &output->room, sizeof *grown);
  if (grown) output->files = grown;
  char *name = grown ? ck_copy_text(entry->name) : NULL;
  if (!name) return ck_no_memory(error, 0);
  grown[output->n_files] = *entry;
  grown[output->n_files++].name = name;
  return CKPT_OK;
}
