/* Files being written, one after another, into one place; their sizes and SHA-256 are kept. */
#ifndef CK_OUTPUT_H
#define CK_OUTPUT_H

#include "ckpt.h"
#include "lane.h"
#include "sha256.h"

typedef struct ck_output ck_output;

/* What a kind of place does. finish makes the file durable; abandon gives up the file that is open, if any. */
typedef struct ck_output_ops {
  ckpt_status (*create)(ck_output *output, const char *name, ckpt_error *error);
  ckpt_status (*write)(ck_output *output, const void *bytes, size_t n_bytes, ckpt_error *error);
  ckpt_status (*finish)(ck_output *output, const char *name, ckpt_error *error);
  void (*abandon)(ck_output *output);
} ck_output_ops;

/* The first member of every place's own struct. */
struct ck_output {
  const ck_output_ops *ops;
  ck_sha256 *hash; /* of the file that is open */
  ck_lane *lane;   /* hashes a piece while it is written; NULL: none yet, or none to be had */
  char *name;      /* NULL: none is open */
  uint64_t size;
  ckpt_file_entry *files; /* finished, in the order in which they were; names owned */
  size_t n_files, room;
  bool leave; /* what was finished stays where the output ends unpublished, for a copy that takes it up */
};

ckpt_status ck_output_init(ck_output *output, const ck_output_ops *ops, ckpt_error *error);
void ck_output_clear(ck_output *output);
ckpt_status ck_output_begin(ck_output *output, const char *name, ckpt_error *error);
ckpt_status ck_output_write(ck_output *output, const void *bytes, size_t n_bytes, ckpt_error *error);
ckpt_status ck_output_end(ck_output *output, ckpt_error *error);

/* Gives up the file that is open, if one is. */
void ck_output_abandon(ck_output *output);

/* Counts a file that is there already among the finished ones. */
ckpt_status ck_output_keep(ck_output *output, const ckpt_file_entry *entry, ckpt_error *error);

/* Writes stem.safetensors, or its shards and their index. The arrays are in order of their paths, and checked. */
ckpt_status ck_safetensors_write(ck_output *output, const char *stem, const ckpt_array *const *arrays, size_t n,
                                 uint64_t shard_n_bytes, ckpt_error *error);

#endif
