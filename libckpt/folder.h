/* The files of one checkpoint, wherever it lies: one table of functions a kind of place. */
#ifndef CK_FOLDER_H
#define CK_FOLDER_H

#include "ckpt.h"
#include "s3.h"

typedef struct ck_folder ck_folder;

typedef struct ck_folder_ops {
  void (*close)(ck_folder *folder);
  /* A file of the folder as it is stored. Errors: E-DATA-101, with ENOENT where there is none of that name. */
  ckpt_status (*open)(ckpt_file **out, const ck_folder *folder, const char *name, ckpt_error *error);
} ck_folder_ops;

/* The first member of every place's own struct. */
struct ck_folder {
  const ck_folder_ops *ops;
  char *path;
};

/* A directory, or with s3 not NULL also the objects below s3://bucket/prefix. Errors: E-CKPT-030, E-S3-001. */
ckpt_status ck_folder_open(ck_folder **out, const char *path, ckpt_s3 *s3, ckpt_error *error);
ckpt_status ck_s3_folder_open(ck_folder **out, const char *path, ckpt_s3 *s3, ckpt_error *error);
void ck_folder_close(ck_folder *folder);

/* s3://bucket/prefix as a folder: its path without slashes at its end, owned (NULL: no memory), and its bucket and the
 * start of its keys, "" or "prefix/". Errors: E-S3-002. */
char *ck_s3_folder_path(const char *name);
ckpt_status ck_s3_folder_parse(ck_s3_name *out, const char *path, ckpt_error *error);

/* A file that a checkpoint lists, as stored, of the size told. Errors: E-CKPT-011. */
ckpt_status ck_folder_open_listed(ckpt_file **out, const ck_folder *folder, const ckpt_file_entry *entry,
                                  ckpt_error *error);

/* Tensors of a file of the folder, or of an index and the shards beside it. Errors: those of ckpt_tensors_open. */
ckpt_status ck_folder_open_tensors(ckpt_tensors **out, const ck_folder *folder, const char *name, ckpt_error *error);

#endif
