/* Inside of the tensors of a file: what each format's reader fills. */
#ifndef CK_TENSORS_H
#define CK_TENSORS_H

#include "ckpt.h"

/* The public part comes first: a ckpt_tensor that ckpt_tensors_at gave is one of these. */
typedef struct ck_entry {
  ckpt_tensor tensor; /* its name is owned */
  bool swap;          /* the elements' bytes stand in the other order than the host's */
  void *owned;        /* elements in memory: tensor.data points into it */
} ck_entry;

struct ckpt_tensors {
  ck_entry *entries;
  size_t n, room;
  const ckpt_file **files;
  size_t n_files;
  bool owns_files;
};

/* Opens files by their names beside each other. */
typedef struct ck_opener {
  ckpt_status (*open)(ckpt_file **out, const void *context, const char *name, ckpt_error *error);
  const void *context;
} ck_opener;

/* ckpt_tensors_open with another way to files. */
ckpt_status ck_tensors_open(ckpt_tensors **out, const ck_opener *opener, const char *name,
                            const ckpt_read_options *options, ckpt_error *error);

/* What one format's reader gets: it adds the tensors of `file` with ck_tensors_add. */
typedef ckpt_status ck_format_reader(ckpt_tensors *tensors, const ckpt_file *file, const ckpt_read_options *options,
                                     ckpt_error *error);
ck_format_reader ck_safetensors_read, ck_npy_read, ck_npz_read;

/* Opens the shards of an index into `tensors`. */
ckpt_status ck_safetensors_read_index(ckpt_tensors *tensors, const ck_opener *opener, const char *name,
                                      const ckpt_read_options *options, ckpt_error *error);

/* Adds a tensor whose name is copied. name, dtype, rank, dims, n_elements, n_bytes and file must be set; offset
 * too, or `owned` memory with offset -1, which is taken over in every case. Sets data. */
ckpt_status ck_tensors_add(ckpt_tensors *tensors, const ckpt_tensor *tensor, bool big_endian, void *owned,
                           ckpt_error *error);
ckpt_status ck_tensors_add_file(ckpt_tensors *tensors, const ckpt_file *file, ckpt_error *error);

/* Brings remote files here, and points the tensors into them. The tensors must own their files. */
ckpt_status ck_tensors_fetch(ckpt_tensors *tensors, ckpt_error *error);

/* Sorts by name and refuses repeated ones. */
ckpt_status ck_tensors_finish(ckpt_tensors *tensors, const char *path, ckpt_error *error);

/* The part of a path after its last '/'. */
const char *ck_base_name(const char *path);

/* Where an .npy lies: in a file's content or, with `memory`, in memory that stands for byte `offset` of the file. */
typedef struct ck_span {
  const ckpt_file *file;
  uint64_t offset, n_bytes;
  const unsigned char *memory;
} ck_span;

ckpt_status ck_npy_read_span(ckpt_tensors *tensors, const ck_span *span, const char *name, ckpt_error *error);

#endif
