#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "utf8.h"

static const ckpt_code codes[] = {
#define CKPT_ERROR(area, number, name, title, hint, page) {"E-" #area "-" number, #name, title, hint, page},
#include "errors.def"
#undef CKPT_ERROR
};

const ckpt_code *ckpt_codes(size_t *n_out) {
  *n_out = sizeof codes / sizeof *codes;
  return codes;
}

/* One line of UTF-8: control characters, and bytes that are no character (cut-off ones too), become '?'. */
static void tidy(char *text) {
  size_t n = strlen(text);
  for (size_t i = 0; i < n;) {
    size_t length = ck_utf8_length((const unsigned char *)text + i, n - i);
    if (length == 0 || (unsigned char)text[i] < 0x20 || text[i] == 0x7f) text[i] = '?';
    i += length ? length : 1;
  }
}

static void append(char *text, size_t room, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void append(char *text, size_t room, const char *format, ...) {
  size_t used = strlen(text);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + used, room - used, format, arguments);
  va_end(arguments);
}

static void keep_path(ckpt_error *error, const char *path) {
  size_t n = strlen(path), room = sizeof error->path - 1;
  snprintf(error->path, sizeof error->path, "%s", n > room ? path + (n - room) : path);
  tidy(error->path);
}

static ckpt_status status_of(ck_code code, int errno_value) {
  bool network = code >= CK_E_S3_UNREACHED && code <= CK_E_S3_UPLOAD_GONE && code != CK_E_S3_TOO_LARGE;
  return errno_value || network || code == CK_E_DATA_CHANGED || code == CK_E_LOCATION_GONE ? CKPT_IO : CKPT_INVALID;
}

ckpt_status ck_fail(ckpt_error *error, ck_code code, const char *path, int64_t offset, int errno_value,
                    const char *format, ...) {
  if (!error) return status_of(code, errno_value);
  const ckpt_code *row = &codes[code];
  memset(error, 0, sizeof *error);
  error->status = status_of(code, errno_value);
  error->errno_value = errno_value;
  error->offset = offset;
  error->hint = row->hint;
  snprintf(error->code, sizeof error->code, "%s", row->code);
  size_t room = sizeof error->message;
  if (path) {
    keep_path(error, path);
    append(error->message, room, "%s: ", error->path);
    if (offset >= 0) append(error->message, room, "byte %lld: ", (long long)offset);
  }
  append(error->message, room, "%s: ", row->title);
  size_t used = strlen(error->message);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error->message + used, room - used, format, arguments);
  va_end(arguments);
  char words[256];
  if (errno_value && strerror_r(errno_value, words, sizeof words) == 0) append(error->message, room, ": %s", words);
  tidy(error->message);
  return error->status;
}

ckpt_status ck_no_memory(ckpt_error *error, size_t n_bytes) {
  if (n_bytes) return ck_fail(error, CK_E_NO_MEMORY, NULL, -1, ENOMEM, "%zu bytes", n_bytes);
  return ck_fail(error, CK_E_NO_MEMORY, NULL, -1, ENOMEM, "a small allocation");
}

void *ck_take(size_t n, size_t item_bytes) { return calloc(n ? n : 1, item_bytes); }

char *ck_copy_text_n(const char *text, size_t n_bytes) {
  char *copy = malloc(n_bytes + 1);
  if (!copy) return NULL;
  if (n_bytes) memcpy(copy, text, n_bytes);
  copy[n_bytes] = 0;
  return copy;
}

char *ck_copy_text(const char *text) { return ck_copy_text_n(text, strlen(text)); }

char *ck_print(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int n = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  char *text = n < 0 ? NULL : malloc((size_t)n + 1);
  if (!text) return NULL;
  va_start(arguments, format);
  vsnprintf(text, (size_t)n + 1, format, arguments);
  va_end(arguments);
  return text;
}

char *ck_join(const char *directory, const char *name) { return ck_print("%s/%s", directory, name); }

void *ck_grow(void *items, size_t n, size_t *room, size_t item_bytes) {
  if (n < *room) return items;
  size_t larger = *room ? *room * 2 : 8;
  if (larger > SIZE_MAX / 2 / item_bytes) return NULL;
  void *grown = realloc(items, larger * item_bytes);
  if (grown) *room = larger;
  return grown;
}
