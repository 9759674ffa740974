#include "sink.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "failure.h"

/* Where the last whole line ends, at most `end`. */
static off_t whole_lines(int fd, off_t end) {
  char block[4096];
  while (end > 0) {
    off_t from = end > (off_t)sizeof block ? end - (off_t)sizeof block : 0;
    ssize_t n = pread(fd, block, (size_t)(end - from), from);
    if (n <= 0) return -1;
    for (ssize_t i = n - 1; i >= 0; i--)
      if (block[i] == '\n') return from + i + 1;
    end = from;
  }
  return 0;
}

static bool cut_torn_line(int fd) {
  struct stat facts;
  if (fstat(fd, &facts) != 0) return false;
  if (!S_ISREG(facts.st_mode)) return true;
  off_t whole = whole_lines(fd, facts.st_size);
  return whole >= 0 && (whole == facts.st_size || ftruncate(fd, whole) == 0);
}

static int open_file(tool_sink *sink, const char *path) {
  sink->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (sink->fd < 0 && errno == EINVAL) sink->fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
  sink->path = path;
  if (sink->fd >= 0 && cut_torn_line(sink->fd)) return TOOL_DONE;
  int status =
      tool_fail(TOOL_STORAGE, TOOL_E_METRIC_OPEN, "%s: cannot be opened for appending: %s", path, strerror(errno));
  tool_sink_close(sink);
  return status;
}

static int open_syvain(tool_sink *sink, const char *target) {
  tool_syvain_settings settings;
  ckpt_error error;
  if (tool_syvain_read(&settings, target, &error) != CKPT_OK) return tool_fail_ckpt(&error);
  sink->syvain = tool_syvain_open(&settings);
  return sink->syvain ? TOOL_DONE : tool_no_memory();
}

int tool_sink_open(tool_sink *sink, const char *target) {
  *sink = (tool_sink){.fd = -1};
  if (!target) return TOOL_DONE;
  if (strncmp(target, "jsonl:", 6) == 0 && target[6]) return open_file(sink, target + 6);
  if (tool_syvain_is(target)) return open_syvain(sink, target);
  if (strcmp(target, "stdout") != 0)
    return tool_fail(TOOL_INPUT, TOOL_E_METRIC_TARGET, "metrics target \"%s\" is unknown", target);
  *sink = (tool_sink){.fd = STDOUT_FILENO, .path = "standard output"};
  return TOOL_DONE;
}

/* What a line is to a run that goes on after `step`. */
typedef enum line_kind { LINE_KEPT, LINE_MANIFEST, LINE_CHECKPOINT, LINE_LATER } line_kind;

static line_kind judge(const char *line, const char *run, int64_t step) {
  json_t *record = json_loads(line, 0, NULL);
  const char *of = json_string_value(json_object_get(record, "run"));
  const char *kind = json_string_value(json_object_get(record, "record"));
  const char *name = json_string_value(json_object_get(record, "name"));
  const json_t *at = json_object_get(record, "step");
  line_kind result = LINE_KEPT;
  if (of && kind && strcmp(of, run) == 0) {
    if (strcmp(kind, "manifest") == 0)
      result = LINE_MANIFEST;
    else if (json_integer_value(at) > step || strcmp(kind, "timing") == 0)
      result = LINE_LATER;
    else if (json_integer_value(at) == step && name && strcmp(name, "checkpoint") == 0)
      result = LINE_CHECKPOINT;
  }
  json_decref(record);
  return result;
}

/* Copies the lines that stay. */
static bool copy_lines(FILE *from, FILE *to, const char *run, int64_t step, tool_held *held) {
  char *line = NULL;
  size_t room = 0;
  ssize_t n;
  bool good = true;
  while (good && (n = getline(&line, &room, from)) > 0) {
    line_kind kind = judge(line, run, step);
    if (kind == LINE_MANIFEST) held->manifest = true;
    if (kind == LINE_CHECKPOINT) held->checkpoint = true;
    if (kind != LINE_LATER) good = fwrite(line, 1, (size_t)n, to) == (size_t)n;
  }
  free(line);
  return good && !ferror(from) && fflush(to) == 0 && fsync(fileno(to)) == 0;
}

static bool rewind_file(tool_sink *sink, const char *temporary, const char *run, int64_t step, tool_held *held) {
  FILE *from = fopen(sink->path, "r"), *to = fopen(temporary, "w");
  bool good = from && to && copy_lines(from, to, run, step, held);
  int kept = errno;
  if (from) fclose(from);
  if (to && fclose(to) != 0) good = false;
  good = good && rename(temporary, sink->path) == 0;
  if (!good) unlink(temporary);
  if (!good && kept) errno = kept;
  return good;
}

int tool_sink_rewind(tool_sink *sink, const char *run, int64_t step, tool_held *held) {
  struct stat facts;
  *held = (tool_held){false, false};
  if (sink->fd <= STDERR_FILENO || fstat(sink->fd, &facts) != 0 || !S_ISREG(facts.st_mode)) return TOOL_DONE;
  size_t room = strlen(sink->path) + 5;
  char *temporary = malloc(room);
  if (temporary) snprintf(temporary, room, "%s.tmp", sink->path);
  bool good = temporary && rewind_file(sink, temporary, run, step, held);
  free(temporary);
  if (!good)
    return tool_fail(TOOL_STORAGE, TOOL_E_METRIC_OPEN, "%s: cannot be cut back to step %" PRId64 ": %s", sink->path,
                     step, strerror(errno));
  close(sink->fd);
  return open_file(sink, sink->path);
}

int tool_sink_write(tool_sink *sink, const char *run, const char *line, size_t n_bytes) {
  size_t done = 0;
  if (sink->syvain) tool_syvain_write(sink->syvain, run, line, n_bytes);
  if (sink->failed) return TOOL_STORAGE;
  while (sink->fd >= 0 && done < n_bytes) {
    ssize_t n = write(sink->fd, line + done, n_bytes - done);
    if (n < 0 && errno == EINTR) continue;
    sink->failed = n < 0;
    if (n < 0)
      return tool_fail(TOOL_STORAGE, TOOL_E_METRIC_WRITE, "%s: a record cannot be written: %s", sink->path,
                       strerror(errno));
    done += (size_t)n;
  }
  return TOOL_DONE;
}

void tool_sink_sync(const tool_sink *sink) {
  if (sink->fd > STDERR_FILENO) fsync(sink->fd);
}

void tool_sink_close(tool_sink *sink) {
  if (sink->fd > STDERR_FILENO) close(sink->fd);
  tool_syvain_close(sink->syvain);
  sink->syvain = NULL;
  sink->fd = -1;
}
