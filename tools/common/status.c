#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "failure.h"

static void write_error(ckpt_json *json, const tool_status *status) {
  ckpt_json_key(json, "error");
  if (!status->error_code) {
    ckpt_json_null(json);
    return;
  }
  ckpt_json_begin_object(json);
  ckpt_json_key(json, "code");
  ckpt_json_string(json, status->error_code);
  ckpt_json_key(json, "message");
  ckpt_json_string(json, status->error_message);
  ckpt_json_end_object(json);
}

static void write_number(ckpt_json *json, const char *key, bool known, double value) {
  ckpt_json_key(json, key);
  if (known)
    ckpt_json_real64(json, value);
  else
    ckpt_json_null(json);
}

static void write_process(ckpt_json *json) {
  char host[256] = "", updated[32];
  if (gethostname(host, sizeof host - 1) != 0) host[0] = 0;
  tool_clock_text(updated);
  ckpt_json_key(json, "pid");
  ckpt_json_integer(json, getpid());
  ckpt_json_key(json, "host");
  ckpt_json_string(json, host);
  ckpt_json_key(json, "updated");
  ckpt_json_string(json, updated);
}

static void write_object(ckpt_json *json, const tool_status *status) {
  ckpt_json_begin_object(json);
  ckpt_json_key(json, "version");
  ckpt_json_integer(json, 1);
  ckpt_json_key(json, "run");
  ckpt_json_string(json, status->run);
  ckpt_json_key(json, "state");
  ckpt_json_string(json, status->state);
  ckpt_json_key(json, "step");
  ckpt_json_integer(json, status->step);
  ckpt_json_key(json, "steps");
  ckpt_json_integer(json, status->steps);
  ckpt_json_key(json, "loss");
  if (status->has_loss)
    ckpt_json_real32(json, status->loss);
  else
    ckpt_json_null(json);
  write_number(json, "records_per_second", status->records_per_second > 0, status->records_per_second);
  write_number(json, "eta_seconds", status->eta_seconds > 0, status->eta_seconds);
  ckpt_json_key(json, "last_checkpoint");
  ckpt_json_string(json, status->last_checkpoint);
  ckpt_json_key(json, "overrides");
  ckpt_json_begin_array(json);
  for (size_t i = 0; i < status->n_overrides; i++) ckpt_json_string(json, status->overrides[i]);
  ckpt_json_end_array(json);
  write_error(json, status);
  write_process(json);
  ckpt_json_end_object(json);
}

static bool write_file(const char *path, const char *text, size_t n_bytes) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return false;
  size_t done = 0;
  ssize_t n = 0;
  while (done < n_bytes && (n = write(fd, text + done, n_bytes - done)) > 0) done += (size_t)n;
  bool good = done == n_bytes && fsync(fd) == 0;
  int kept = errno;
  good = close(fd) == 0 && good;
  if (kept) errno = kept;
  return good;
}

static bool replace(const tool_status *status) {
  char temporary[PATH_MAX];
  if ((size_t)snprintf(temporary, sizeof temporary, "%s.%ld.tmp", status->path, (long)getpid()) >= sizeof temporary) {
    errno = ENAMETOOLONG;
    return false;
  }
  size_t n_bytes = 0;
  ckpt_json *json = ckpt_json_new(CKPT_JSON_LINE);
  if (json) write_object(json, status);
  const char *text = json ? ckpt_json_text(json, &n_bytes) : NULL;
  errno = 0;
  bool good = text && write_file(temporary, text, n_bytes) && rename(temporary, status->path) == 0;
  int kept = errno;
  if (!good) unlink(temporary);
  errno = kept;
  ckpt_json_free(json);
  return good;
}

static void write_status(tool_status *status) {
  status->written_s = tool_clock_s();
  if (replace(status) || status->warned) return;
  status->warned = true;
  tool_fail(TOOL_STORAGE, TOOL_E_METRIC_STATUS, "%s: the status file cannot be written: %s; the run goes on without it",
            status->path, errno ? strerror(errno) : "out of memory");
}

void tool_status_set(tool_status *status, const char *state) {
  status->state = state;
  if (status->path) write_status(status);
}

void tool_status_tick(tool_status *status) {
  if (status->path && tool_clock_s() - status->written_s >= 1.0) write_status(status);
}
