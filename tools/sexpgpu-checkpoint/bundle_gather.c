/* What goes into a bundle. */
#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bundle.h"
#include "command.h"
#include "layout.h"
#include "open.h"

static bundle_item *add(bundle *b, char *path) {
  if (b->n_items == b->room) {
    b->room = b->room ? b->room * 2 : 16;
    b->items = tool_memory(realloc(b->items, b->room * sizeof *b->items));
  }
  bundle_item *item = &b->items[b->n_items++];
  *item = (bundle_item){.path = path};
  return item;
}

static bool has(const bundle *b, const char *path) {
  for (size_t i = 0; i < b->n_items; i++)
    if (strcmp(b->items[i].path, path) == 0) return true;
  return false;
}

/* Where a path that the run recorded lies now: relative ones start at the experiment's folder. */
static char *located(const bundle *b, const char *path) {
  bool as_it_is = path[0] == '/' || !b->root;
  return as_it_is ? tool_text("%s", path) : tool_text("%s/%s", b->root, path);
}

static int add_file(bundle *b, const char *path) {
  ckpt_read_options options = CKPT_READ_OPTIONS;
  ckpt_file *file = NULL;
  ckpt_error error;
  options.stored = true;
  if (has(b, path)) return TOOL_DONE;
  char *place = located(b, path);
  ckpt_status status = ckpt_file_open(&file, place, &options, &error);
  if (status == CKPT_OK) add(b, tool_text("%s", path))->size = ckpt_file_size(file);
  ckpt_file_close(file);
  free(place);
  return status == CKPT_OK ? TOOL_DONE : tool_fail_ckpt(&error);
}

/* Whether a file is the one that the run loaded. */
static int check_weights(const bundle *b, const ckpt_load *load) {
  char *place = located(b, load->file), found[CKPT_SHA256_TEXT];
  ckpt_error error;
  int status = TOOL_DONE;
  if (ckpt_sha256_file(found, place, &error) != CKPT_OK)
    status = tool_fail_ckpt(&error);
  else if (load->version && strcmp(load->version, found) != 0)
    status = tool_fail(TOOL_INPUT, TOOL_E_CKPT_WEIGHTS, "%s: expected %s, found %s", place, load->version, found);
  free(place);
  return status;
}

static char *directory_of(const char *path) {
  char *directory, *base;
  checkpoint_split(&directory, &base, path);
  free(base);
  return directory;
}

/* Adds an index and all of its shards, if `shard` is one of them. */
static int add_index(bundle *b, const char *index, const char *shard) {
  char *place = located(b, index), *shard_place = located(b, shard), *directory = directory_of(index);
  ckpt_tensors *tensors = NULL;
  size_t n = ckpt_tensors_open(&tensors, place, NULL, NULL) == CKPT_OK ? ckpt_tensors_n_files(tensors) : 0;
  bool found = false;
  int status = TOOL_DONE;
  for (size_t i = 0; i < n; i++) found |= strcmp(ckpt_file_path(ckpt_tensors_file(tensors, i)), shard_place) == 0;
  if (found) status = add_file(b, index);
  for (size_t i = 0; found && !status && i < n; i++) {
    const char *name = strrchr(ckpt_file_path(ckpt_tensors_file(tensors, i)), '/');
    char *path = name && strchr(index, '/') ? tool_text("%s%s", directory, name)
                                            : tool_text("%s", ckpt_file_path(ckpt_tensors_file(tensors, i)));
    status = add_file(b, path);
    free(path);
  }
  ckpt_tensors_close(tensors);
  free(place);
  free(shard_place);
  free(directory);
  return status;
}

static bool is_index(const char *name) {
  static const char end[] = ".safetensors.index.json";
  size_t n = strlen(name), n_end = sizeof end - 1;
  return n > n_end && strcmp(name + (n - n_end), end) == 0;
}

/* A checkpoint records the shard that a tensor was in; the experiment names the index beside it. */
static int add_indexes(bundle *b, const char *shard) {
  char *directory = directory_of(shard), *place = located(b, directory);
  DIR *stream = opendir(place);
  int status = TOOL_DONE;
  for (const struct dirent *entry; stream && !status && (entry = readdir(stream));) {
    if (!is_index(entry->d_name)) continue;
    char *index = strchr(shard, '/') ? tool_text("%s/%s", directory, entry->d_name) : tool_text("%s", entry->d_name);
    status = add_index(b, index, shard);
    free(index);
  }
  if (stream) closedir(stream);
  free(directory);
  free(place);
  return status;
}

static int add_weights(bundle *b) {
  const ckpt_experiment *e = ckpt_checkpoint_experiment(b->checkpoint);
  for (size_t i = 0; i < e->n_parameters; i++) {
    const ckpt_load *load = e->parameters[i].load;
    if (!load || has(b, load->file)) continue;
    if (strncmp(load->file, "s3://", 5) == 0) {
      fprintf(stderr, "%s stays where it is\n", load->file);
      continue;
    }
    int status = check_weights(b, load);
    if (!status) status = add_file(b, load->file);
    if (!status) status = add_indexes(b, load->file);
    if (status) return status;
  }
  return TOOL_DONE;
}

static void add_checkpoint(bundle *b, const char *top) {
  const ckpt_experiment *e = ckpt_checkpoint_experiment(b->checkpoint);
  const char *path = ckpt_checkpoint_path(b->checkpoint);
  for (size_t i = 0; i < e->n_files; i++) {
    bundle_item *item = add(b, tool_text("%s/%s", path, e->files[i].name));
    item->name = tool_text("%s/step-%" PRId64 "/%s", top, e->step, e->files[i].name);
    item->size = e->files[i].size;
    item->listed = true;
    item->index = i;
  }
  size_t n = 0;
  const char *text = ckpt_checkpoint_text(b->checkpoint, &n);
  bundle_item *item = add(b, tool_text("%s/experiment.json", path));
  item->name = tool_text("%s/step-%" PRId64 "/experiment.json", top, e->step);
  item->bytes = text;
  item->size = n;
}

static char *top_name(const ckpt_experiment *e) {
  char *name = tool_text("%s-step-%" PRId64, e->slug && e->slug[0] ? e->slug : "checkpoint", e->step);
  for (char *c = name; *c; c++)
    if (*c == '/' || (unsigned char)*c < 0x20 || (c == name && *c == '.')) *c = '_';
  return name;
}

/* Names for the items that have none: those that the run found by path. */
static void name_items(bundle *b, const char *top) {
  const char **paths = tool_memory(calloc(b->n_items + 1, sizeof *paths));
  size_t first = 0;
  while (first < b->n_items && b->items[first].name) first++;
  for (size_t i = first; i < b->n_items; i++) paths[i - first] = b->items[i].path;
  char **names = layout_names(paths, b->n_items - first);
  for (size_t i = first; i < b->n_items; i++) {
    if (strncmp(names[i - first], "absolute/", 9) == 0)
      fprintf(stderr, "%s was named by an absolute path; in the bundle it is %s\n", paths[i - first], names[i - first]);
    b->items[i].name = tool_text("%s/%s", top, names[i - first]);
    free(names[i - first]);
  }
  for (size_t i = first; i < b->n_items; i++) {
    if (b->items[i].bytes) continue;
    char *place = located(b, b->items[i].path);
    free(b->items[i].path);
    b->items[i].path = place;
  }
  free(names);
  free(paths);
}

int bundle_gather(bundle *b) {
  const ckpt_experiment *e = ckpt_checkpoint_experiment(b->checkpoint);
  char *top = top_name(e);
  add_checkpoint(b, top);
  for (size_t i = 0; i < e->n_sources; i++) {
    bundle_item *item = add(b, tool_text("%s", e->sources[i].name));
    item->bytes = e->sources[i].text;
    item->size = strlen(e->sources[i].text);
  }
  int status = add_weights(b);
  if (!status) name_items(b, top);
  free(top);
  return status;
}

void bundle_free(bundle *b) {
  for (size_t i = 0; i < b->n_items; i++) {
    free(b->items[i].path);
    free(b->items[i].name);
  }
  free(b->items);
}
