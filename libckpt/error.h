/* Raising errors, and memory that fails as an error. */
#ifndef CK_ERROR_H
#define CK_ERROR_H

#include "ckpt_status.h"

typedef enum ck_code {
#define CKPT_ERROR(area, number, name, title, hint, page) CK_E_##name,
#include "errors.def"
#undef CKPT_ERROR
  CK_N_CODES
} ck_code;

/* Fills *error (which may be NULL) and returns its status: CKPT_IO where a system call or a request failed or a file
 * changed under its reader, else CKPT_INVALID. path may be NULL, offset -1, errno_value 0. The format says what was expected and
 * what was found; the message becomes "path: byte offset: title: detail: system's words", without control characters.
 */
ckpt_status ck_fail(ckpt_error *error, ck_code code, const char *path, int64_t offset, int errno_value,
                    const char *format, ...) __attribute__((format(printf, 6, 7)));

ckpt_status ck_no_memory(ckpt_error *error, size_t n_bytes);

/* n items of item_bytes, zeroed; NULL where that fails or overflows. Zero items take one byte. Freed with free(). */
void *ck_take(size_t n, size_t item_bytes);

/* A copy that ends in NUL. */
char *ck_copy_text(const char *text);
char *ck_copy_text_n(const char *text, size_t n_bytes);

/* printf into owned memory; NULL where memory fails. */
char *ck_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "directory/name" */
char *ck_join(const char *directory, const char *name);

/* The items with room for at least one more, or NULL and the old ones untouched. */
void *ck_grow(void *items, size_t n, size_t *room, size_t item_bytes);

#endif
