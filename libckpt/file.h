/* Inside of open files. */
#ifndef CK_FILE_H
#define CK_FILE_H

#include "ckpt.h"
#include "object.h"

enum { CK_PIECE_BYTES = 1 << 20 }; /* what is read, hashed or written at a time */

/* Bytes as stored. Errors: E-DATA-102, E-DATA-104. */
ckpt_status ck_file_read_stored(void *out, const ckpt_file *file, uint64_t offset, size_t n_bytes, ckpt_error *error);
uint64_t ck_file_stored_size(const ckpt_file *file);

/* Inflates a stored gzip file into owned memory. Errors: E-DATA-102, E-DATA-104, E-DATA-11x. */
ckpt_status ck_gzip_inflate(unsigned char **out, size_t *n_out, const ckpt_file *file, uint64_t limit_n_bytes,
                            ckpt_error *error);

/* Content bytes offset to the end, or n_bytes of them, in owned memory with a NUL after them. */
ckpt_status ck_file_text(char **out, const ckpt_file *file, uint64_t offset, size_t n_bytes, ckpt_error *error);

/* Opens an object without a request: it is held, read in ranges, and its bytes are NULL, until it is fetched. Taken as
 * it is stored. */
ckpt_status ck_file_open_remote(ckpt_file **out, const char *path, ck_object *object, ckpt_error *error);

/* The same by name, with a request for size and ETag; or a local file, as it is stored. */
ckpt_status ck_file_open_stored(ckpt_file **out, const char *path, ckpt_s3 *s3, ckpt_error *error);

/* How much to read at once: each read of a remote file is a request or several. */
size_t ck_file_piece(const ckpt_file *file);

/* Brings an object here, for all files that are open on it; nothing to do for another file. ck_file_fetch maps it too.
 * Errors: those of ck_object_fetch. */
ckpt_status ck_file_bring(const ckpt_file *file, ckpt_error *error);
ckpt_status ck_file_fetch(ckpt_file *file, ckpt_error *error);

bool ck_ends_with(const char *text, const char *end);

/* E-S3-001 for an s3:// name. */
ckpt_status ck_refuse_s3(const char *name, ckpt_error *error);

#endif
