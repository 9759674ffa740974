#include "recorded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* libsexp sees a pointer to one of these as its sexp_file. */
typedef struct entry {
  sexp_file *file; /* of the host within; NULL: a text */
  const char *text;
} entry;

typedef struct text {
  char *name, *text;
} text;

struct tool_recorded {
  sexp_host inner;
  text *texts;
  size_t n_texts;
  char *root; /* NULL: the working directory */
};

static entry *entry_of(sexp_file *file) { return (entry *)(void *)file; }

static int fail_memory(sexp_failure *why) {
  *why = (sexp_failure){"E-CKPT-001", "out of memory", true};
  return 1;
}

static const char *last_part(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* Names are recorded relative to the experiment's folder. One that leads out of that folder and back by its name, which
 * no record has, is known by its last part where that is of one text alone. */
static const text *find_text(const tool_recorded *recorded, const char *path) {
  const text *found = NULL;
  size_t n_found = 0;
  for (size_t i = 0; i < recorded->n_texts; i++) {
    const text *candidate = &recorded->texts[i];
    if (strcmp(candidate->name, path) == 0) return candidate;
    if (strcmp(last_part(candidate->name), last_part(path)) != 0) continue;
    found = candidate;
    n_found++;
  }
  return n_found == 1 ? found : NULL;
}

/* Where the file is, owned; NULL: out of memory. */
static char *place(const tool_recorded *recorded, const char *path) {
  if (!recorded->root || path[0] == '/' || strstr(path, "://")) return strdup(path);
  size_t n = strlen(recorded->root), room = n + strlen(path) + 2;
  char *joined = malloc(room);
  if (joined) snprintf(joined, room, "%s%s%s", recorded->root, n && recorded->root[n - 1] == '/' ? "" : "/", path);
  return joined;
}

/* An entry, and where its file is. */
static bool begin(const tool_recorded *recorded, const char *path, entry **made, char **at, sexp_failure *why) {
  *made = calloc(1, sizeof **made);
  *at = place(recorded, path);
  if (*made && *at) return true;
  free(*made);
  free(*at);
  fail_memory(why);
  return false;
}

static int end(entry *made, char *at, int failed, sexp_file **file) {
  free(at);
  if (failed)
    free(made);
  else
    *file = (sexp_file *)(void *)made;
  return failed;
}

static int recorded_open(void *context, const char *path, sexp_file **file, sexp_file_info *info, sexp_failure *why) {
  const tool_recorded *recorded = context;
  const text *from = find_text(recorded, path);
  entry *made = NULL;
  char *at = NULL;
  int failed = 0;
  if (!begin(recorded, path, &made, &at, why)) return 1;
  if (from) {
    made->text = from->text;
    *info = (sexp_file_info){(const unsigned char *)from->text, strlen(from->text)};
  } else {
    failed = recorded->inner.open(recorded->inner.context, at, &made->file, info, why);
  }
  return end(made, at, failed, file);
}

static int recorded_open_tensors(void *context, const char *path, sexp_file **file, const sexp_file_tensor **tensors,
                                 size_t *n_tensors, sexp_failure *why) {
  const tool_recorded *recorded = context;
  entry *made = NULL;
  char *at = NULL;
  if (!begin(recorded, path, &made, &at, why)) return 1;
  int failed = recorded->inner.open_tensors(recorded->inner.context, at, &made->file, tensors, n_tensors, why);
  return end(made, at, failed, file);
}

static int recorded_open_manifest(void *context, const char *path, sexp_file **file, const sexp_manifest **manifest,
                                  sexp_failure *why) {
  const tool_recorded *recorded = context;
  entry *made = NULL;
  char *at = NULL;
  if (!begin(recorded, path, &made, &at, why)) return 1;
  int failed = recorded->inner.open_manifest(recorded->inner.context, at, &made->file, manifest, why);
  return end(made, at, failed, file);
}

static int recorded_check(void *context, sexp_file *file, sexp_failure *why) {
  const tool_recorded *recorded = context;
  entry *of = entry_of(file);
  return of->file ? recorded->inner.check(recorded->inner.context, of->file, why) : 0;
}

static int recorded_version(void *context, sexp_file *file, char version[80], uint64_t *n_bytes, sexp_failure *why) {
  const tool_recorded *recorded = context;
  entry *of = entry_of(file);
  if (of->file) return recorded->inner.version(recorded->inner.context, of->file, version, n_bytes, why);
  *n_bytes = strlen(of->text);
  return ckpt_sha256_bytes(version, of->text, strlen(of->text), NULL) == CKPT_OK ? 0 : fail_memory(why);
}

static void recorded_close(void *context, sexp_file *file) {
  const tool_recorded *recorded = context;
  if (!file) return;
  if (entry_of(file)->file) recorded->inner.close(recorded->inner.context, entry_of(file)->file);
  free(entry_of(file));
}

static void recorded_print(void *context, const char *line) {
  const tool_recorded *recorded = context;
  if (recorded->inner.print) recorded->inner.print(recorded->inner.context, line);
}

tool_recorded *tool_recorded_new(const sexp_host *inner, const ckpt_text_file *texts, size_t n_texts,
                                 const char *root) {
  tool_recorded *made = calloc(1, sizeof *made);
  bool good = made && (made->texts = calloc(n_texts + 1, sizeof *made->texts));
  if (good) made->inner = *inner;
  if (good && root) good = (made->root = strdup(root));
  for (size_t i = 0; good && i < n_texts; i++) {
    text *to = &made->texts[made->n_texts++];
    to->name = strdup(texts[i].name);
    to->text = strdup(texts[i].text);
    good = to->name && to->text;
  }
  if (good) return made;
  tool_recorded_free(made);
  return NULL;
}

sexp_host tool_recorded_host(tool_recorded *recorded) {
  return (sexp_host){.context = recorded,
                     .open = recorded_open,
                     .open_tensors = recorded_open_tensors,
                     .open_manifest = recorded_open_manifest,
                     .check = recorded_check,
                     .version = recorded_version,
                     .close = recorded_close,
                     .print = recorded_print};
}

void tool_recorded_free(tool_recorded *recorded) {
  if (!recorded) return;
  for (size_t i = 0; i < recorded->n_texts; i++) {
    free(recorded->texts[i].name);
    free(recorded->texts[i].text);
  }
  free(recorded->texts);
  free(recorded->root);
  free(recorded);
}
