/* Writes a tar archive of files: ustar, with pax headers for what ustar cannot say. Source: POSIX.1-2017, pax. */
#ifndef CHECKPOINT_TAR_H
#define CHECKPOINT_TAR_H

#include <stdint.h>
#include <stdio.h>

typedef struct tar {
  FILE *to;        /* its error flag tells whether all was written */
  int64_t mtime_s; /* of every file */
  uint64_t n_bytes;
} tar;

/* A file of `size` bytes, which follow through tar_bytes, all of them. */
void tar_begin(tar *archive, const char *name, uint64_t size);
void tar_bytes(tar *archive, const void *bytes, size_t n);
void tar_pad(tar *archive); /* after the bytes of a file */
void tar_finish(tar *archive);

#endif
