/* bundle C OUT.tar: a checkpoint with all that a resume elsewhere needs but the data. */
#include "bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "open.h"
#include "tar.h"

enum { PIECE = 1 << 20 };

/* Seconds since 1970 of "2026-11-29T12:01:07Z"; 0 for anything else. Days: Howard Hinnant, "chrono-compatible
 * low-level date algorithms", days_from_civil. */
static int64_t seconds_of(const char *created) {
  int year, month, day, hour, minute, second, n = 0;
  if (!created ||
      sscanf(created, "%4d-%2d-%2dT%2d:%2d:%2dZ%n", &year, &month, &day, &hour, &minute, &second, &n) != 6 || n != 20 ||
      year < 1970)
    return 0;
  int y = year - (month <= 2), era = y / 400, of_era = y - era * 400;
  int of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  int64_t days = (int64_t)era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
  return ((days * 24 + hour) * 60 + minute) * 60 + second;
}

static int write_file(tar *archive, const ckpt_checkpoint *checkpoint, const bundle_item *item) {
  ckpt_read_options options = CKPT_READ_OPTIONS;
  ckpt_file *file = NULL;
  ckpt_error error;
  options.stored = true;
  unsigned char *room = tool_memory(malloc(PIECE));
  ckpt_status status = item->listed ? ckpt_checkpoint_file(&file, checkpoint, item->index, &error)
                                    : ckpt_file_open(&file, item->path, &options, &error);
  for (uint64_t done = 0; status == CKPT_OK && done < item->size && !ferror(archive->to);) {
    size_t n = item->size - done < PIECE ? (size_t)(item->size - done) : PIECE;
    status = ckpt_file_read(room, file, done, n, &error);
    if (status == CKPT_OK) tar_bytes(archive, room, n);
    done += n;
  }
  if (status == CKPT_OK) status = ckpt_file_check(file, &error);
  ckpt_file_close(file);
  free(room);
  return status == CKPT_OK ? TOOL_DONE : tool_fail_ckpt(&error);
}

static int write_items(const bundle *b, FILE *to) {
  tar archive = {.to = to, .mtime_s = seconds_of(ckpt_checkpoint_experiment(b->checkpoint)->created)};
  for (size_t i = 0; i < b->n_items && !ferror(to); i++) {
    const bundle_item *item = &b->items[i];
    int status = TOOL_DONE;
    tar_begin(&archive, item->name, item->size);
    if (item->bytes)
      tar_bytes(&archive, item->bytes, (size_t)item->size);
    else
      status = write_file(&archive, b->checkpoint, item);
    if (status) return status;
    tar_pad(&archive);
  }
  tar_finish(&archive);
  return TOOL_DONE;
}

static int fail_write(const char *target) {
  return tool_fail(TOOL_STORAGE, TOOL_E_CKPT_BUNDLE, "%s: %s", target, strerror(errno));
}

/* 0, or the exit status of a failure, printed. Closes `to`. */
static int write_and_close(const bundle *b, FILE *to, const char *target, bool sync) {
  int status = write_items(b, to);
  bool bad = fflush(to) != 0 || ferror(to) || (sync && fsync(fileno(to)) != 0);
  if (!status && bad) status = fail_write(target);
  if (fclose(to) != 0 && !status) status = fail_write(target);
  return status;
}

/* A file appears whole; a device or pipe is written as it is. */
static int write_target(const bundle *b, const char *target) {
  struct stat facts;
  bool direct = stat(target, &facts) == 0 && !S_ISREG(facts.st_mode);
  char *written = direct ? tool_text("%s", target) : tool_text("%s.tmp-%ld", target, (long)getpid());
  int fd = open(written, O_WRONLY | O_CLOEXEC | (direct ? 0 : O_CREAT | O_EXCL), 0666);
  FILE *to = fd >= 0 ? fdopen(fd, "wb") : NULL;
  int status = to ? write_and_close(b, to, target, !direct) : fail_write(target);
  if (!status && !direct && rename(written, target) != 0) status = fail_write(target);
  if (status && fd >= 0 && !direct) unlink(written);
  free(written);
  return status;
}

int bundle_write(const bundle *b, const char *target) {
  return strcmp(target, "-") == 0 ? write_items(b, stdout) : write_target(b, target);
}

static int make(const ckpt_checkpoint *checkpoint, const char *root, const char *target) {
  bundle b = {.checkpoint = checkpoint, .root = root};
  ckpt_error error;
  int status = TOOL_DONE;
  if (ckpt_checkpoint_verify(checkpoint, &error) != CKPT_OK) {
    status = tool_fail_ckpt(&error);
    if (status == TOOL_INPUT) status = TOOL_NO;
  }
  if (!status) status = bundle_gather(&b);
  if (!status) status = bundle_write(&b, target);
  bundle_free(&b);
  return status;
}

int command_bundle(int argc, char **argv) {
  const char *root = NULL;
  const tool_setting settings[] = {{"root", 0, "DIR", NULL, TOOL_TEXT, &root,
                                    "the experiment's folder, where recorded paths start; by default here"}};
  const tool_command_usage usage = {
      "sexpgpu-checkpoint bundle",
      "C OUT.tar",
      "Writes a tar file of a checkpoint, its experiment's files and the weights it loaded.",
      settings,
      1,
      2,
      2};
  tool_list operands;
  bool exit_now = false;
  ckpt_checkpoint *checkpoint = NULL;
  int status = tool_command_read(&usage, argc, argv, &operands, &exit_now);
  if (!status && !exit_now && strcmp(operands.items[1], "-") == 0)
    status = command_refuse_terminal(stdout, "a tar file");
  if (!status && !exit_now) status = checkpoint_open_or_say(&checkpoint, operands.items[0]);
  if (checkpoint) status = make(checkpoint, root, operands.items[1]);
  ckpt_checkpoint_close(checkpoint);
  tool_list_free(&operands);
  return status;
}
