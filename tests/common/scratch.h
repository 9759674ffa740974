/* For tests: a directory of files that goes when the tests end. */
#ifndef TEST_SCRATCH_H
#define TEST_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "../../libckpt/ckpt.h"

/* Group setup and teardown of cmocka. */
int scratch_setup(void **state);
int scratch_teardown(void **state);

/* The path of a name in it, formatted; good for the next 16 calls. */
const char *scratch(const char *format, ...) __attribute__((format(printf, 1, 2)));

void scratch_write(const char *path, const void *bytes, size_t n_bytes);
char *scratch_read(const char *path, size_t *n_bytes); /* owned, ended by NUL; NULL: there is no such file */
bool scratch_has(const char *path);
void scratch_empty(void);               /* removes everything in it */
size_t scratch_count(const char *path); /* entries of a directory, hidden ones too */

/* Runs a program for Python with NumPy in the scratch directory; false where that is not installed. */
bool scratch_numpy(const char *program);

/* A failed call that gave this code (status and code agree); the message holds `word`. Prints what was found else. */
#define expect_error(status, error, code, word) expect_error_at(status, error, code, word, __FILE__, __LINE__)
void expect_error_at(ckpt_status status, const ckpt_error *error, const char *code, const char *word, const char *file,
                     int line);
#define expect_ok(status, error) expect_ok_at(status, error, __FILE__, __LINE__)
void expect_ok_at(ckpt_status status, const ckpt_error *error, const char *file, int line);

/* Growing bytes. */
typedef struct bytes {
  unsigned char *data;
  size_t n;
} bytes;
void put(bytes *to, const void *from, size_t n);
void put_le(bytes *to, uint64_t value, size_t n_bytes);
void bytes_free(bytes *of);

/* A safetensors file: its header's length and text, n_data bytes 0 1 2 … after it. */
bytes safetensors_bytes(const char *header, size_t n_data);

#endif
