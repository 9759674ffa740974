/* Files in a local directory: the place that an output writes to, and what lists and empties directories. */
#ifndef CK_FILES_H
#define CK_FILES_H

#include "output.h"

typedef struct ck_files {
  ck_output output;
  int directory;    /* borrowed */
  const char *path; /* of the directory, for messages; borrowed */
  bool atomic;      /* each file is written under another name and renamed when it is whole */
  int fd;
  char *written;                 /* the name that the open file has */
  uint64_t n_written, n_started; /* bytes of it; those on their way to the disk */
} ck_files;

ckpt_status ck_files_init(ck_files *files, int directory, const char *path, bool atomic, ckpt_error *error);
void ck_files_clear(ck_files *files);

/* E-CKPT-003 where a directory is no longer there, else E-CKPT-004; from errno. */
ckpt_status ck_fail_write(ckpt_error *error, const char *directory, const char *name, const char *what);

/* fsync of a directory; file systems that know no such thing are not at fault. */
int ck_sync_directory(int directory);

/* The names in a directory but . and .., in no order; NULL and errno on failure. */
char **ck_list_names(size_t *n_out, int directory);
void ck_free_names(char **names, size_t n);

/* Opens a directory that is no symbolic link; -1 and errno on failure. */
int ck_open_directory(int parent, const char *name);

/* Unlinks the files of directory `name` and the directory; 0, or -1 and errno. What is gone already is no failure. */
int ck_remove_directory(int parent, const char *name);

/* Whether a checkpoint is made of files of such names. */
bool ck_is_checkpoint_file(const char *name);

/* Whether a directory holds only regular files, and with `ours` only those that a checkpoint is made of. */
bool ck_is_flat(int directory, bool ours);

#endif
