#include "seen.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "failure.h"

struct tool_seen {
  json_t *keys; /* an object of "KIND STEP RUN\nNAME": true */
};

/* Owned; NULL: out of memory. */
static char *key_of(const char *kind, const char *run, const char *name, int64_t step) {
  bool whole = strcmp(kind, "manifest") == 0;
  size_t room = strlen(kind) + strlen(run) + strlen(name ? name : "") + 32;
  char *key = malloc(room);
  if (key) snprintf(key, room, "%s %" PRId64 " %s\n%s", kind, whole ? 0 : step, run, whole || !name ? "" : name);
  return key;
}

bool tool_seen_has(const tool_seen *seen, const char *kind, const char *run, const char *name, int64_t step) {
  char *key = key_of(kind, run, name, step);
  bool has = key && json_object_get(seen->keys, key);
  free(key);
  return has;
}

bool tool_seen_add(tool_seen *seen, const char *kind, const char *run, const char *name, int64_t step) {
  char *key = key_of(kind, run, name, step);
  bool added = key && json_object_set_new_nocheck(seen->keys, key, json_true()) == 0;
  free(key);
  return added;
}

/* Other lines than records are nothing to us. */
static bool take_line(tool_seen *seen, const char *line) {
  json_t *record = json_loads(line, 0, NULL);
  const char *kind = json_string_value(json_object_get(record, "record"));
  const char *run = json_string_value(json_object_get(record, "run"));
  const char *name = json_string_value(json_object_get(record, "name"));
  int64_t step = json_integer_value(json_object_get(record, "step"));
  bool good = true;
  if (kind && run && (strcmp(kind, "manifest") == 0 || (strcmp(kind, "value") == 0 && name)))
    good = tool_seen_add(seen, kind, run, name, step);
  json_decref(record);
  return good;
}

static int read_lines(tool_seen *seen, const char *path) {
  FILE *from = fopen(path, "r");
  char *line = NULL;
  size_t room = 0;
  bool memory = true;
  while (from && memory && getline(&line, &room, from) > 0) memory = take_line(seen, line);
  bool good = from && !ferror(from);
  int why = errno;
  free(line);
  if (from) fclose(from);
  if (!memory) return tool_no_memory();
  if (good) return TOOL_DONE;
  return tool_fail(TOOL_STORAGE, TOOL_E_METRIC_OPEN, "%s: cannot be read: %s", path, strerror(why));
}

tool_seen *tool_seen_new(const tool_sink *sink) {
  struct stat facts;
  tool_seen *seen = calloc(1, sizeof *seen);
  if (seen) seen->keys = json_object();
  bool file = sink->fd > STDERR_FILENO && fstat(sink->fd, &facts) == 0 && S_ISREG(facts.st_mode);
  int status = seen && seen->keys ? TOOL_DONE : tool_no_memory();
  if (!status && file) status = read_lines(seen, sink->path);
  if (!status) return seen;
  tool_seen_free(seen);
  return NULL;
}

void tool_seen_free(tool_seen *seen) {
  if (!seen) return;
  json_decref(seen->keys);
  free(seen);
}
