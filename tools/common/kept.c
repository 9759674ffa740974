#include "kept.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind { BYTES, TENSORS, MANIFEST } kind;

/* libsexp sees a pointer to one of these as its sexp_file. */
typedef struct entry {
  struct entry *next;
  kind kind;
  char *path;
  sexp_file *file; /* of the host within */
  sexp_file_info info;
  const sexp_file_tensor *tensors;
  size_t n_tensors;
  const sexp_manifest *manifest;
  char version[80]; /* "": not asked for so far */
  uint64_t n_bytes; /* with it */
  int64_t n_users;
} entry;

struct tool_kept {
  sexp_host inner;
  entry *first;
  bool settled;
};

static entry *entry_of(sexp_file *file) { return (entry *)(void *)file; }
static sexp_file *file_of(entry *of) { return (sexp_file *)(void *)of; }

static int fail_memory(sexp_failure *why) {
  *why = (sexp_failure){"E-CKPT-001", "out of memory", true};
  return 1;
}

static void drop(tool_kept *kept, entry *gone) {
  entry **link = &kept->first;
  while (*link != gone) link = &(*link)->next;
  *link = gone->next;
  if (gone->file) kept->inner.close(kept->inner.context, gone->file);
  free(gone->path);
  free(gone);
}

static int open_inner(tool_kept *kept, entry *made, sexp_failure *why) {
  const sexp_host *inner = &kept->inner;
  if (made->kind == BYTES) return inner->open(inner->context, made->path, &made->file, &made->info, why);
  if (made->kind == MANIFEST)
    return inner->open_manifest(inner->context, made->path, &made->file, &made->manifest, why);
  return inner->open_tensors(inner->context, made->path, &made->file, &made->tensors, &made->n_tensors, why);
}

static entry *add(tool_kept *kept, kind as, const char *path, sexp_failure *why) {
  entry *made = calloc(1, sizeof *made);
  char *copy = strdup(path);
  if (!made || !copy) {
    free(made);
    free(copy);
    fail_memory(why);
    return NULL;
  }
  *made = (entry){.next = kept->first, .kind = as, .path = copy};
  kept->first = made;
  if (!open_inner(kept, made, why)) return made;
  made->file = NULL;
  drop(kept, made);
  return NULL;
}

static entry *take(tool_kept *kept, kind as, const char *path, sexp_failure *why) {
  entry *found = kept->first;
  while (found && (found->kind != as || strcmp(found->path, path) != 0)) found = found->next;
  if (!found) found = add(kept, as, path, why);
  if (found) found->n_users++;
  return found;
}

static int kept_open(void *context, const char *path, sexp_file **file, sexp_file_info *info, sexp_failure *why) {
  entry *found = take(context, BYTES, path, why);
  if (!found) return 1;
  *file = file_of(found);
  *info = found->info;
  return 0;
}

static int kept_open_tensors(void *context, const char *path, sexp_file **file, const sexp_file_tensor **tensors,
                             size_t *n_tensors, sexp_failure *why) {
  entry *found = take(context, TENSORS, path, why);
  if (!found) return 1;
  *file = file_of(found);
  *tensors = found->tensors;
  *n_tensors = found->n_tensors;
  return 0;
}

static int kept_open_manifest(void *context, const char *path, sexp_file **file, const sexp_manifest **manifest,
                              sexp_failure *why) {
  entry *found = take(context, MANIFEST, path, why);
  if (!found) return 1;
  *file = file_of(found);
  *manifest = found->manifest;
  return 0;
}

static int kept_check(void *context, sexp_file *file, sexp_failure *why) {
  const tool_kept *kept = context;
  return kept->inner.check(kept->inner.context, entry_of(file)->file, why);
}

static int kept_version(void *context, sexp_file *file, char version[80], uint64_t *n_bytes, sexp_failure *why) {
  const tool_kept *kept = context;
  entry *of = entry_of(file);
  if (!of->version[0] && kept->inner.version(kept->inner.context, of->file, of->version, &of->n_bytes, why)) {
    of->version[0] = 0;
    return 1;
  }
  memcpy(version, of->version, sizeof of->version);
  *n_bytes = of->n_bytes;
  return 0;
}

static void kept_close(void *context, sexp_file *file) {
  tool_kept *kept = context;
  if (file && --entry_of(file)->n_users == 0 && kept->settled) drop(kept, entry_of(file));
}

static void kept_print(void *context, const char *line) {
  const tool_kept *kept = context;
  if (kept->inner.print) kept->inner.print(kept->inner.context, line);
}

tool_kept *tool_kept_new(const sexp_host *inner) {
  tool_kept *kept = calloc(1, sizeof *kept);
  if (kept) kept->inner = *inner;
  return kept;
}

sexp_host tool_kept_host(tool_kept *kept) {
  return (sexp_host){.context = kept,
                     .open = kept_open,
                     .open_tensors = kept_open_tensors,
                     .open_manifest = kept_open_manifest,
                     .check = kept_check,
                     .version = kept_version,
                     .close = kept_close,
                     .print = kept_print};
}

void tool_kept_settle(tool_kept *kept) {
  kept->settled = true;
  for (entry *at = kept->first, *next; at; at = next) {
    next = at->next;
    if (at->n_users == 0) drop(kept, at);
  }
}

void tool_kept_free(tool_kept *kept) {
  if (!kept) return;
  while (kept->first) drop(kept, kept->first);
  free(kept);
}
