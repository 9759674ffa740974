/* Inside of open files. */
#ifndef CK_FILE_H
#define CK_FILE_H

#include "ckpt.h"

enum { CK_PIECE_BYTES = 1 << 20 }; /* what is read, hashed or written at a time */

/* Bytes as stored. Errors: E-DATA-102, E-DATA-104. */
ckpt_status ck_file_read_stored(void *out, const ckpt_file *file, uint64_t offset, size_t n_bytes, ckpt_error *error);
uint64_t ck_file_stored_size(const ckpt_file *file);

/* Inflates a stored gzip file into owned memory. Errors: E-DATA-102, E-DATA-104, E-DATA-11x. */
ckpt_status ck_gzip_inflate(unsigned char **out, size_t *n_out, const ckpt_file *file, uint64_t limit_n_bytes,
                            ckpt_error *error);

/* Content bytes offset to the end, or n_bytes of them, in owned memory with a NUL after them. */
ckpt_status ck_file_text(char **out, const ckpt_file *file, uint64_t offset, size_t n_bytes, ckpt_error *error);

bool ck_ends_with(const char *text, const char *end);

/* E-S3-001 for an s3:// name. */
ckpt_status ck_refuse_s3(const char *name, ckpt_error *error);

#endif
