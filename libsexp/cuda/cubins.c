#include "cubins.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/sha256.h"

/* "sexpgpu cubin 1 sha256:<64 digits>\n", then the bytes that the digest is of. */
static const char MAGIC[] = "sexpgpu cubin 1 ";
enum { HEADER = sizeof MAGIC - 1 + 71 + 1, PATH_BYTES = 4096 };
static const off_t MOST_BYTES = 1 << 28;

static bool make_header(char header[HEADER + 1], const void *bytes, size_t n_bytes) {
  sx_sha256 *hash = sx_sha256_new();
  if (!hash) return false;
  uint8_t digest[32];
  char text[72];
  sx_sha256_add(hash, bytes, n_bytes);
  sx_sha256_end(hash, digest);
  sx_sha256_text(digest, text);
  snprintf(header, HEADER + 1, "%s%s\n", MAGIC, text);
  return true;
}

static bool read_all(int fd, char *to, size_t n) {
  while (n) {
    ssize_t got = read(fd, to, n);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    n -= (size_t)got;
  }
  return true;
}

static bool write_all(int fd, const char *from, size_t n) {
  while (n) {
    ssize_t put = write(fd, from, n);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    from += put;
    n -= (size_t)put;
  }
  return true;
}

static bool name_file(char path[PATH_BYTES], const char *directory, const char *key, const char *end) {
  int n = snprintf(path, PATH_BYTES, "%s/%s%s", directory, key, end);
  return n > 0 && n < PATH_BYTES;
}

bool sx_cubin_read(void **bytes, size_t *n_bytes, const char *directory, const char *key, const sx_memory *memory) {
  char path[PATH_BYTES], header[HEADER + 1], expected[HEADER + 1];
  *bytes = NULL;
  if (!name_file(path, directory, key, ".cubin")) return false;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  struct stat facts;
  bool good = fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size > HEADER && facts.st_size < MOST_BYTES;
  *n_bytes = good ? (size_t)facts.st_size - HEADER : 0;
  if (good) *bytes = memory->allocate(memory->context, *n_bytes);
  good = good && *bytes && read_all(fd, header, HEADER) && read_all(fd, *bytes, *n_bytes) &&
         make_header(expected, *bytes, *n_bytes) && !memcmp(header, expected, HEADER);
  close(fd);
  if (good) return true;
  if (*bytes) memory->release(memory->context, *bytes);
  *bytes = NULL;
  return false;
}

static void make_directory(const char *directory) {
  char path[PATH_BYTES];
  size_t n = strlen(directory);
  if (n >= PATH_BYTES) return;
  memcpy(path, directory, n + 1);
  for (size_t i = 1; i < n; i++) {
    if (path[i] != '/') continue;
    path[i] = 0;
    mkdir(path, 0777);
    path[i] = '/';
  }
  mkdir(path, 0777);
}

void sx_cubin_write(const char *directory, const char *key, const void *bytes, size_t n_bytes) {
  char path[PATH_BYTES], unfinished[PATH_BYTES], header[HEADER + 1], end[32];
  snprintf(end, sizeof end, ".%ld.new", (long)getpid());
  if (!name_file(path, directory, key, ".cubin") || !name_file(unfinished, directory, key, end)) return;
  if (!make_header(header, bytes, n_bytes)) return;
  make_directory(directory);
  int fd = open(unfinished, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return;
  bool whole = write_all(fd, header, HEADER) && write_all(fd, bytes, n_bytes);
  whole = close(fd) == 0 && whole;
  if (!whole || rename(unfinished, path)) unlink(unfinished);
}
