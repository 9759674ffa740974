#include "open.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../common/credentials.h"
#include "command.h"

static tool_credentials credentials;
static bool has_read_credentials;

static ckpt_status client_for(ckpt_s3 **out, const char *name, ckpt_error *error) {
  if (!has_read_credentials) tool_credentials_read(&credentials);
  has_read_credentials = true;
  return tool_credentials_client(out, &credentials, TOOL_CHECKPOINT, name, error);
}

void checkpoint_forget_credentials(void) { tool_credentials_free(&credentials); }

static bool is_object(const char *name) { return strncmp(name, "s3://", 5) == 0; }

void checkpoint_split(char **directory, char **base, const char *name) {
  char *copy = tool_text("%s", name);
  size_t n = strlen(copy), first = is_object(name) ? 5 : 0;
  while (n > 1 && n > first && copy[n - 1] == '/') copy[--n] = 0;
  char *slash = strrchr(copy + first, '/');
  if (first && !slash) {
    *base = tool_text("%s", "");
    *directory = copy;
    return;
  }
  *base = tool_text("%s", slash ? slash + 1 : copy);
  if (slash == copy) slash++;
  if (slash) *slash = 0;
  *directory = tool_text("%s", slash ? copy : ".");
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

static ckpt_status open_location(ckpt_location **out, const char *name, bool create, ckpt_error *error) {
  ckpt_s3 *s3 = NULL;
  *out = NULL;
  ckpt_status status = client_for(&s3, name, error);
  return status == CKPT_OK ? ckpt_location_open(out, name, create, s3, error) : status;
}

static ckpt_status open_latest(ckpt_checkpoint **out, const char *place, ckpt_error *error) {
  ckpt_location *location = NULL;
  ckpt_status status = open_location(&location, place, false, error);
  if (status == CKPT_OK) status = ckpt_checkpoint_open(out, location, CKPT_LATEST, error);
  if (status == CKPT_OK) say_torn(location, place, ckpt_checkpoint_experiment(*out)->step);
  ckpt_location_close(location);
  return status;
}

static ckpt_status open_path(ckpt_checkpoint **out, const char *name, ckpt_error *error) {
  ckpt_s3 *s3 = NULL;
  ckpt_status status = client_for(&s3, name, error);
  return status == CKPT_OK ? ckpt_checkpoint_open_path(out, name, s3, error) : status;
}

static bool is_latest(const char *name, const char *base) {
  struct stat facts;
  return strcmp(base, "latest") == 0 && (is_object(name) || lstat(name, &facts) != 0);
}

ckpt_status checkpoint_open(ckpt_checkpoint **out, const char *name, ckpt_error *error) {
  char *directory, *base;
  *out = NULL;
  checkpoint_split(&directory, &base, name);
  ckpt_status status = is_latest(name, base) ? open_latest(out, directory, error) : open_path(out, name, error);
  free(directory);
  free(base);
  return status;
}

static bool is_location(const char *name) {
  ckpt_location *location = NULL;
  ckpt_entry *entries = NULL;
  ckpt_error unwanted;
  size_t n = 0;
  if (open_location(&location, name, false, &unwanted) == CKPT_OK) ckpt_checkpoint_list(&entries, &n, location, NULL);
  ckpt_location_close(location);
  free(entries);
  return n > 0;
}

/* Of an object's name: what holds no step-<n> is no location. */
static bool is_by_content(const char *name) {
  struct stat facts;
  if (is_object(name)) return !is_location(name);
  char *inside = tool_text("%s/experiment.json", name);
  bool is = stat(inside, &facts) == 0;
  free(inside);
  return is;
}

bool checkpoint_is_one(const char *name) {
  char *directory, *base;
  checkpoint_split(&directory, &base, name);
  bool is = is_latest(name, base) || checkpoint_step_of(base) >= 0 || is_by_content(name);
  free(directory);
  free(base);
  return is;
}

int checkpoint_open_or_say(ckpt_checkpoint **out, const char *name) {
  ckpt_error error;
  if (checkpoint_open(out, name, &error) == CKPT_OK) return TOOL_DONE;
  int status = tool_fail_ckpt(&error);
  if (strcmp(error.code, "E-CKPT-007") == 0 && is_location(name))
    fprintf(stderr, "  hint: it is a location of checkpoints; name one of them, or %s/latest\n", name);
  return status;
}

int checkpoint_fetch_or_say(ckpt_checkpoint *checkpoint) {
  ckpt_error error;
  return ckpt_checkpoint_fetch(checkpoint, &error) == CKPT_OK ? TOOL_DONE : tool_fail_ckpt(&error);
}

int checkpoint_open_location(ckpt_location **out, const char *name, bool create) {
  ckpt_error error;
  return open_location(out, name, create, &error) == CKPT_OK ? TOOL_DONE : tool_fail_ckpt(&error);
}
