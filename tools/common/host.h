/* Files for libsexp, through libckpt. */
#ifndef TOOL_HOST_H
#define TOOL_HOST_H

#include "../../libsexp/sexp.h"
#include "credentials.h"

/* What a host keeps between calls. */
typedef struct tool_files {
  tool_credentials *credentials; /* for s3:// names, with the role of data; NULL: they are refused */
  ckpt_shard_file *shards;       /* of manifests: they are checked when they are opened; paths owned */
  size_t n_shards, room;
  sexp_file *open; /* files of tensors, the last opened first */
} tool_files;

/* A host over local files and objects; (print ...) goes to standard error. `files` must outlive it. */
sexp_host tool_host(tool_files *files);
void tool_files_free(tool_files *files);

#endif
