#include "scratch.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmocka_all.h"

static char root[64];

int scratch_setup(void **state) {
  (void)state;
  snprintf(root, sizeof root, "/tmp/sexpgpu-test-XXXXXX");
  return mkdtemp(root) ? 0 : -1;
}

static void remove_all(const char *path) {
  struct stat status;
  if (lstat(path, &status) != 0) return;
  if (S_ISDIR(status.st_mode)) {
    chmod(path, 0700);
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
      char inner[4096];
      if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
      if (snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name) < (int)sizeof inner) remove_all(inner);
    }
    if (directory) closedir(directory);
  }
  remove(path);
}

int scratch_teardown(void **state) {
  (void)state;
  remove_all(root);
  return 0;
}

void scratch_empty(void) {
  remove_all(root);
  if (mkdir(root, 0700) != 0) abort();
}

const char *scratch(const char *format, ...) {
  static char paths[16][512];
  static unsigned next;
  char *path = paths[next++ % 16];
  int n = snprintf(path, sizeof paths[0], "%s/", root);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(path + n, sizeof paths[0] - (size_t)n, format, arguments);
  va_end(arguments);
  return path;
}

void scratch_write(const char *path, const void *data, size_t n_bytes) {
  FILE *file = fopen(path, "wb");
  if (!file || (n_bytes && fwrite(data, 1, n_bytes, file) != n_bytes) || fclose(file) != 0) abort();
}

char *scratch_read(const char *path, size_t *n_bytes) {
  FILE *file = fopen(path, "rb");
  bytes content = {0};
  char piece[4096];
  if (!file) return NULL;
  for (size_t n; (n = fread(piece, 1, sizeof piece, file)) > 0;) put(&content, piece, n);
  fclose(file);
  if (n_bytes) *n_bytes = content.n;
  put(&content, "", 1);
  return (char *)content.data;
}

bool scratch_has(const char *path) {
  struct stat status;
  return lstat(path, &status) == 0;
}

size_t scratch_count(const char *path) {
  size_t n = 0;
  DIR *directory = opendir(path);
  while (directory && readdir(directory)) n++;
  if (directory) closedir(directory);
  return n - 2;
}

bool scratch_numpy(const char *program) {
  static int present = -1;
  char command[8192];
  if (present < 0) present = system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") == 0;
  if (!present) return false;
  scratch_write(scratch("program.py"), program, strlen(program));
  snprintf(command, sizeof command,
           "cd %s && /usr/bin/python3 -c 'import numpy as np; exec(open(\"program.py\").read())'", root);
  assert_int_equal(system(command), 0);
  return true;
}

void expect_error_at(ckpt_status status, const ckpt_error *error, const char *code, const char *word, const char *file,
                     int line) {
  bool good = status != CKPT_OK && status == error->status && strcmp(error->code, code) == 0 &&
              strstr(error->message, word) != NULL;
  if (good) return;
  print_error("%s:%d: expected %s with '%s', found status %d, %s: %s\n", file, line, code, word, (int)status,
              status == CKPT_OK ? "no error" : error->code, status == CKPT_OK ? "" : error->message);
  _fail(file, line);
}

void expect_ok_at(ckpt_status status, const ckpt_error *error, const char *file, int line) {
  if (status == CKPT_OK) return;
  print_error("%s:%d: %s: %s\n", file, line, error->code, error->message);
  _fail(file, line);
}

void put(bytes *to, const void *from, size_t n) {
  to->data = realloc(to->data, to->n + n + 1);
  if (!to->data) abort();
  if (n) memcpy(to->data + to->n, from, n);
  to->n += n;
}

void put_le(bytes *to, uint64_t value, size_t n_bytes) {
  for (size_t i = 0; i < n_bytes; i++, value >>= 8) put(to, &(unsigned char){(unsigned char)value}, 1);
}

void bytes_free(bytes *of) {
  free(of->data);
  *of = (bytes){0};
}

bytes safetensors_bytes(const char *header, size_t n_data) {
  bytes file = {0};
  put_le(&file, strlen(header), 8);
  put(&file, header, strlen(header));
  for (size_t i = 0; i < n_data; i++) put(&file, &(unsigned char){(unsigned char)i}, 1);
  return file;
}
