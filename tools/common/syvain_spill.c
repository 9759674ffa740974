#include "syvain_spill.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "failure.h"
#include "paths.h"

static const char suffix[] = ".jsonl";

/* Owned; NULL: out of memory. */
static char *join(const char *directory, const char *name, const char *end) {
  size_t room = strlen(directory) + strlen(name) + strlen(end) + 2;
  char *path = malloc(room);
  if (path) snprintf(path, room, "%s/%s%s", directory, name, end);
  return path;
}

/* ---- the place ---- */

static bool find_directory(tool_spill *spill, const tool_syvain_settings *settings) {
  char digest[CKPT_SHA256_TEXT], rest[64];
  char *both = join(settings->url, settings->folder, "");
  bool good = both && ckpt_sha256_bytes(digest, both, strlen(both), NULL) == CKPT_OK;
  free(both);
  if (!good) return false;
  snprintf(rest, sizeof rest, "sexpgpu/syvain/%.16s", digest + 7);
  return tool_cache_path(&spill->directory, rest);
}

bool tool_spill_init(tool_spill *spill, const tool_syvain_settings *settings, const char *stream) {
  struct timespec now = {0};
  clock_gettime(CLOCK_REALTIME, &now);
  *spill = (tool_spill){.file = {.fd = -1}};
  snprintf(spill->start, sizeof spill->start, "%011lld-%.32s", (long long)now.tv_sec, stream);
  return find_directory(spill, settings);
}

/* What cannot be made is told by the open that needs it. */
static void make_directories(const char *directory) {
  char *path = strdup(directory);
  if (!path) return;
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    mkdir(path, 0700);
    *slash = '/';
  }
  mkdir(path, 0700);
  free(path);
}

/* ---- writing ---- */

/* The file gets its name once it is locked: nobody takes it in between. */
static int open_locked(const char *temporary, const char *path) {
  int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return -1;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0 && rename(temporary, path) == 0) return fd;
  int kept = errno;
  unlink(temporary);
  close(fd);
  errno = kept;
  return -1;
}

static bool open_next(tool_spill *spill) {
  char end[32];
  make_directories(spill->directory);
  snprintf(end, sizeof end, "-%04d%s", spill->n_files, suffix);
  char *path = join(spill->directory, spill->start, end), *temporary = join(spill->directory, spill->start, ".tmp");
  errno = ENOMEM;
  spill->file.fd = path && temporary ? open_locked(temporary, path) : -1;
  free(temporary);
  if (spill->file.fd < 0) {
    free(path);
    return false;
  }
  spill->file.path = path;
  spill->n_files++;
  return true;
}

static bool write_whole(int fd, const char *bytes, size_t n_bytes) {
  for (size_t done = 0; done < n_bytes;) {
    ssize_t n = write(fd, bytes + done, n_bytes - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += (size_t)n;
  }
  return true;
}

static bool add_line(int fd, const char *line, size_t n_bytes) {
  struct stat facts;
  if (fstat(fd, &facts) != 0) return false;
  if (write_whole(fd, line, n_bytes)) return true;
  int kept = errno;
  if (ftruncate(fd, facts.st_size) != 0) kept = errno;
  errno = kept;
  return false;
}

ckpt_status tool_spill_add(tool_spill *spill, const char *line, size_t n_bytes, ckpt_error *error) {
  if (!spill->directory)
    return tool_error(error, TOOL_E_SYVAIN_LOST, "neither XDG_CACHE_HOME nor HOME says where records could be kept");
  if ((spill->file.path || open_next(spill)) && add_line(spill->file.fd, line, n_bytes)) return CKPT_OK;
  return tool_error(error, TOOL_E_SYVAIN_LOST, "%s: cannot be written: %s",
                    spill->file.path ? spill->file.path : spill->directory, strerror(errno));
}

tool_spill_file tool_spill_take(tool_spill *spill) {
  tool_spill_file file = spill->file;
  spill->file = (tool_spill_file){.fd = -1};
  return file;
}

void tool_spill_file_end(tool_spill_file *file) {
  if (!file->path) return;
  fsync(file->fd);
  close(file->fd);
  free(file->path);
}

void tool_spill_free(tool_spill *spill) { free(spill->directory); }

/* ---- sending ---- */

typedef struct sending {
  tool_sending (*send)(void *context, const char *line, size_t n_bytes);
  void *context;
  tool_sending worst;
  bool copied; /* what stays was written */
  size_t n_left, n_sent;
} sending;

static int is_kept(const struct dirent *entry) {
  size_t n = strlen(entry->d_name), n_suffix = sizeof suffix - 1;
  return n > n_suffix && strcmp(entry->d_name + n - n_suffix, suffix) == 0;
}

/* Open and locked, and still the file of that name; NULL: another process's. */
static FILE *take_file(const char *path) {
  struct stat opened, named;
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return NULL;
  bool taken = flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &opened) == 0 && stat(path, &named) == 0 &&
               opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
  FILE *file = taken ? fdopen(fd, "r") : NULL;
  if (!file) close(fd);
  return file;
}

/* A last line without its end is a write that a kill tore. */
static void send_lines(sending *s, FILE *from, FILE *to) {
  char *line = NULL;
  size_t room = 0;
  ssize_t n;
  while ((n = getline(&line, &room, from)) > 0 && line[n - 1] == '\n') {
    tool_sending answer = s->worst == TOOL_STOP ? TOOL_STOP : s->send(s->context, line, (size_t)n);
    if (answer > s->worst) s->worst = answer;
    if (answer == TOOL_SENT) s->n_sent++;
    if (answer == TOOL_SENT) continue;
    s->n_left++;
    if (fwrite(line, 1, (size_t)n, to) != (size_t)n) s->copied = false;
  }
  if (ferror(from) || (n < 0 && !feof(from))) s->copied = false;
  free(line);
}

/* Where what stays cannot be written, the file stays as it is: what is sent again is known by its key. */
static void replace(sending *s, FILE *to, const char *temporary, const char *path) {
  bool good = s->copied && fflush(to) == 0 && fsync(fileno(to)) == 0;
  if (fclose(to) != 0) good = false;
  if (good && s->n_left > 0 && s->n_sent > 0) good = rename(temporary, path) == 0;
  if (good && s->n_left == 0) unlink(path);
  unlink(temporary);
}

static void send_file(sending *s, const char *path, const char *temporary) {
  FILE *from = take_file(path);
  if (!from) return;
  FILE *to = fopen(temporary, "w");
  s->copied = true;
  s->n_left = s->n_sent = 0;
  if (to) send_lines(s, from, to);
  if (to) replace(s, to, temporary, path);
  if (!to) s->worst = TOOL_STOP;
  fclose(from);
}

tool_sending tool_spill_send(const tool_spill *spill,
                             tool_sending (*send)(void *context, const char *line, size_t n_bytes), void *context) {
  sending s = {.send = send, .context = context, .worst = TOOL_SENT};
  struct dirent **entries = NULL;
  int n = spill->directory ? scandir(spill->directory, &entries, is_kept, alphasort) : 0;
  for (int i = 0; i < n; i++) {
    char *path = join(spill->directory, entries[i]->d_name, ""),
         *temporary = join(spill->directory, entries[i]->d_name, ".tmp");
    if (path && temporary && s.worst != TOOL_STOP) send_file(&s, path, temporary);
    free(path);
    free(temporary);
    free(entries[i]);
  }
  free(entries);
  return s.worst;
}
