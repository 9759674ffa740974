#include "open.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "command.h"

void checkpoint_split(char **directory, char **base, const char *name) {
  char *copy = command_text("%s", name);
  size_t n = strlen(copy);
  while (n > 1 && copy[n - 1] == '/') copy[--n] = 0;
  char *slash = strrchr(copy, '/');
  *base = command_text("%s", slash ? slash + 1 : copy);
  if (slash == copy) slash++;
  if (slash) *slash = 0;
  *directory = command_text("%s", slash ? copy : ".");
  free(copy);
}

int64_t checkpoint_step_of(const char *base) {
  if (strncmp(base, "step-", 5) != 0 || base[5] < '0' || base[5] > '9' || (base[5] == '0' && base[6])) return -1;
  char *end = NULL;
  errno = 0;
  intmax_t step = strtoimax(base + 5, &end, 10);
  return *end || errno || step > INT64_MAX ? -1 : (int64_t)step;
}

static void say_torn(ckpt_location *location, const char *name, int64_t chosen) {
  ckpt_entry *entries = NULL;
  size_t n = 0;
  if (ckpt_checkpoint_list(&entries, &n, location, NULL) != CKPT_OK) return;
  for (size_t i = 0; i < n; i++)
    if (entries[i].step > chosen) fprintf(stderr, "%s/step-%" PRId64 " is torn, not used\n", name, entries[i].step);
  free(entries);
}

static ckpt_status open_latest(ckpt_checkpoint **out, const char *place, ckpt_error *error) {
  ckpt_location *location = NULL;
  ckpt_status status = ckpt_location_open(&location, place, false, NULL, error);
  if (status == CKPT_OK) status = ckpt_checkpoint_open(out, location, CKPT_LATEST, error);
  if (status == CKPT_OK) say_torn(location, place, ckpt_checkpoint_experiment(*out)->step);
  ckpt_location_close(location);
  return status;
}

ckpt_status checkpoint_open(ckpt_checkpoint **out, const char *name, ckpt_error *error) {
  struct stat facts;
  char *directory, *base;
  *out = NULL;
  checkpoint_split(&directory, &base, name);
  bool latest = strcmp(base, "latest") == 0 && lstat(name, &facts) != 0;
  ckpt_status status = latest ? open_latest(out, directory, error) : ckpt_checkpoint_open_path(out, name, NULL, error);
  free(directory);
  free(base);
  return status;
}

static bool is_location(const char *name) {
  ckpt_location *location = NULL;
  ckpt_entry *entries = NULL;
  size_t n = 0;
  if (ckpt_location_open(&location, name, false, NULL, NULL) == CKPT_OK)
    ckpt_checkpoint_list(&entries, &n, location, NULL);
  ckpt_location_close(location);
  free(entries);
  return n > 0;
}

int checkpoint_open_or_say(ckpt_checkpoint **out, const char *name) {
  ckpt_error error;
  if (checkpoint_open(out, name, &error) == CKPT_OK) return TOOL_DONE;
  int status = tool_fail_ckpt(&error);
  if (strcmp(error.code, "E-CKPT-007") == 0 && is_location(name))
    fprintf(stderr, "  hint: it is a location of checkpoints; name one of them, or %s/latest\n", name);
  return status;
}

int checkpoint_open_location(ckpt_location **out, const char *name) {
  ckpt_error error;
  return ckpt_location_open(out, name, false, NULL, &error) == CKPT_OK ? TOOL_DONE : tool_fail_ckpt(&error);
}
