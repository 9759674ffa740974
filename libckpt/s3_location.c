/* Checkpoints below s3://bucket/prefix.
 *
 * An object appears whole when its upload ends, so the files of step-<n> are uploaded to their places as they are
 * written, and experiment.json, which makes a checkpoint of them, last. Where step-<n> is there already its
 * experiment.json goes first: so it is torn while its files change, and never a mixture. What a killed writer leaves is
 * a torn step-<n> and unfinished multipart uploads, which take space that no listing of objects shows: the next writer
 * aborts them, or goes on with them where it is a copy. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "files.h"
#include "folder.h"
#include "location.h"
#include "s3.h"

static const char record[] = "experiment.json", probe[] = ".sexpgpu-probe";

typedef struct place {
  ckpt_location location;
  ck_s3_name name; /* its key ends with a slash, or is empty */
  bool cleaned;
} place;

typedef struct staged {
  ck_output output;
  place *place;
  char *prefix;                /* of the step's keys */
  const ckpt_file_entry *told; /* of a copy: what is to come; NULL: not known before */
  size_t n_told;
  ck_s3_upload *upload; /* of the file that is open; NULL: it is experiment.json */
  char *text;           /* experiment.json, kept until all else is there */
  size_t n_text, text_room;
  bool published;
} staged;

static place *place_of(ckpt_location *location) { return (place *)(void *)location; }
static staged *stage_of(ck_output *output) { return (staged *)(void *)output; }
static ckpt_s3 *client_of(const place *there) { return there->location.s3; }

static char *step_prefix(const place *there, int64_t step) {
  return ck_print("%sstep-%lld/", there->name.key, (long long)step);
}

/* ---- Lists of keys ---- */

typedef struct keys {
  char **items;
  size_t n, room;
} keys;

static void free_keys(keys *list) { ck_free_names(list->items, list->n); }

static ckpt_status add_key(keys *list, const char *key, ckpt_error *error) {
  char **grown = ck_grow(list->items, list->n, &list->room, sizeof *grown);
  if (grown) list->items = grown;
  char *copy = grown ? ck_copy_text(key) : NULL;
  if (!copy) return ck_no_memory(error, 0);
  grown[list->n++] = copy;
  return CKPT_OK;
}

static ckpt_status add_object(void *context, const char *key, bool is_prefix, uint64_t size, const char *etag,
                              ckpt_error *error) {
  (void)size, (void)etag;
  return is_prefix ? CKPT_OK : add_key(context, key, error);
}

static ckpt_status list_keys(keys *list, const place *there, const char *prefix, ckpt_error *error) {
  return ck_s3_list(client_of(there), there->name.bucket, prefix, NULL, add_object, list, error);
}

static ckpt_status remove_keys(const place *there, const keys *list, ckpt_error *error) {
  return ck_s3_remove_keys(client_of(there), there->name.bucket, (const char *const *)list->items, list->n, error);
}

static ckpt_status remove_key(const place *there, const char *prefix, const char *name, ckpt_error *error) {
  char *key = ck_print("%s%s", prefix, name);
  ckpt_status status = key ? ck_s3_remove(client_of(there), there->name.bucket, key, error) : ck_no_memory(error, 0);
  free(key);
  return status;
}

/* ---- Unfinished uploads ---- */

typedef struct uploads {
  const char *prefix; /* of the step's keys, or of the location's */
  bool whole;         /* the location's: those of any step */
  keys of, ids;
} uploads;

/* Whether the rest of a key is a file of a checkpoint: with `whole`, of step-<n>. */
static bool is_file(const char *rest, bool whole) {
  char step[32];
  int64_t n;
  if (!whole) return ck_is_checkpoint_file(rest);
  size_t length = strcspn(rest, "/");
  if (length >= sizeof step || rest[length] != '/') return false;
  snprintf(step, sizeof step, "%.*s", (int)length, rest);
  return ck_parse_step(&n, step, "step-", false) && ck_is_checkpoint_file(rest + length + 1);
}

static ckpt_status add_upload(void *context, const char *key, const char *id, const char *initiated,
                              ckpt_error *error) {
  uploads *list = context;
  (void)initiated;
  if (!is_file(key + strlen(list->prefix), list->whole)) return CKPT_OK;
  ckpt_status status = add_key(&list->of, key, error);
  return status == CKPT_OK ? add_key(&list->ids, id, error) : status;
}

static bool is_told(const staged *stage, const char *key) {
  const char *name = key + strlen(stage->prefix);
  for (size_t i = 0; i < stage->n_told; i++)
    if (strcmp(stage->told[i].name, name) == 0) return true;
  return false;
}

/* Aborts the unfinished uploads below a prefix; with `keep`, but for those of the files that its copy is to write. */
static ckpt_status abort_uploads(int64_t *n_out, const place *there, const char *prefix, bool whole, const staged *keep,
                                 ckpt_error *error) {
  uploads list = {.prefix = prefix, .whole = whole};
  *n_out = 0;
  ckpt_status status = ck_s3_uploads(client_of(there), there->name.bucket, prefix, add_upload, &list, error);
  for (size_t i = 0; status == CKPT_OK && i < list.ids.n; i++) {
    if (keep && is_told(keep, list.of.items[i])) continue;
    status = ck_s3_upload_abort(client_of(there), there->name.bucket, list.of.items[i], list.ids.items[i], error);
    *n_out += status == CKPT_OK;
  }
  free_keys(&list.of);
  free_keys(&list.ids);
  return status;
}

static ckpt_status clean(int64_t *n_out, ckpt_location *location, ckpt_error *error) {
  place *there = place_of(location);
  ckpt_status status = abort_uploads(n_out, there, there->name.key, true, NULL, error);
  if (status == CKPT_OK) there->cleaned = true;
  return status;
}

/* ---- Listing ---- */

typedef struct steps {
  const place *there;
  int64_t *items;
  size_t n, room;
} steps;

static ckpt_status add_step(void *context, const char *key, bool is_prefix, uint64_t size, const char *etag,
                            ckpt_error *error) {
  steps *list = context;
  char name[32];
  int64_t step;
  const char *rest = key + strlen(list->there->name.key);
  size_t n = strlen(rest);
  (void)size, (void)etag;
  if (!is_prefix || n < 2 || n > sizeof name) return CKPT_OK;
  snprintf(name, sizeof name, "%.*s", (int)(n - 1), rest);
  if (!ck_parse_step(&step, name, "step-", false)) return CKPT_OK;
  int64_t *grown = ck_grow(list->items, list->n, &list->room, sizeof *grown);
  if (!grown) return ck_no_memory(error, 0);
  list->items = grown;
  grown[list->n++] = step;
  return CKPT_OK;
}

static ckpt_status list_steps(int64_t **out, size_t *n_out, ckpt_location *location, ckpt_error *error) {
  const place *there = place_of(location);
  steps list = {.there = there};
  *out = NULL;
  *n_out = 0;
  ckpt_status status = ck_s3_list(location->s3, there->name.bucket, there->name.key, "/", add_step, &list, error);
  if (status == CKPT_OK && list.n == 0) {
    list.items = ck_take(1, sizeof *list.items);
    if (!list.items) status = ck_no_memory(error, 0);
  }
  if (status != CKPT_OK) {
    free(list.items);
    return status;
  }
  qsort(list.items, list.n, sizeof *list.items, ck_by_step);
  *out = list.items;
  *n_out = list.n;
  return CKPT_OK;
}

/* ---- Files of a stage ---- */

static ckpt_status create_file(ck_output *output, const char *name, ckpt_error *error) {
  staged *stage = stage_of(output);
  ck_s3_upload_options options = {.leave = stage->told != NULL, .resume = stage->told != NULL};
  stage->n_text = 0;
  if (strcmp(name, record) == 0) return CKPT_OK;
  for (size_t i = 0; i < stage->n_told; i++) {
    if (strcmp(stage->told[i].name, name) != 0) continue;
    options.sha256 = stage->told[i].sha256;
    options.size = stage->told[i].size;
  }
  char *key = ck_print("%s%s", stage->prefix, name);
  if (!key) return ck_no_memory(error, 0);
  ckpt_status status =
      ck_s3_upload_begin(&stage->upload, client_of(stage->place), stage->place->name.bucket, key, &options, error);
  free(key);
  return status;
}

static ckpt_status write_file(ck_output *output, const void *bytes, size_t n_bytes, ckpt_error *error) {
  staged *stage = stage_of(output);
  if (stage->upload) return ck_s3_upload_write(stage->upload, bytes, n_bytes, error);
  if (n_bytes > stage->text_room - stage->n_text) {
    size_t room = stage->n_text + n_bytes;
    char *grown = room >= n_bytes ? realloc(stage->text, room) : NULL;
    if (!grown) return ck_no_memory(error, room);
    stage->text = grown;
    stage->text_room = room;
  }
  memcpy(stage->text + stage->n_text, bytes, n_bytes);
  stage->n_text += n_bytes;
  return CKPT_OK;
}

static ckpt_status finish_file(ck_output *output, const char *name, ckpt_error *error) {
  staged *stage = stage_of(output);
  (void)name;
  if (!stage->upload) return CKPT_OK;
  ckpt_status status = ck_s3_upload_end(NULL, stage->upload, error);
  if (status != CKPT_OK) return status;
  ck_s3_upload_free(stage->upload);
  stage->upload = NULL;
  return CKPT_OK;
}

static void abandon_file(ck_output *output) {
  staged *stage = stage_of(output);
  ck_s3_upload_free(stage->upload);
  stage->upload = NULL;
}

static const ck_output_ops output_ops = {create_file, write_file, finish_file, abandon_file};

/* ---- Stages ---- */

/* What an unpublished stage has uploaded. Never an error: what stays is torn, and the next write replaces it. */
static void take_back(staged *stage) {
  keys list = {0};
  int64_t n = 0;
  ckpt_status status = CKPT_OK;
  for (size_t i = 0; status == CKPT_OK && i < stage->output.n_files; i++) {
    char *key = ck_print("%s%s", stage->prefix, stage->output.files[i].name);
    status = key ? add_key(&list, key, NULL) : CKPT_IO;
    free(key);
  }
  remove_keys(stage->place, &list, NULL);
  if (stage->told) abort_uploads(&n, stage->place, stage->prefix, false, NULL, NULL);
  free_keys(&list);
}

static void end_stage(ckpt_location *location, ck_output *output) {
  staged *stage = stage_of(output);
  (void)location;
  abandon_file(output);
  if (stage->prefix && !stage->published && !output->leave) take_back(stage);
  ck_output_clear(output);
  free(stage->prefix);
  free(stage->text);
  free(stage);
}

/* From here on step-<step> is torn, if it is there. */
static ckpt_status new_stage(staged **out, ckpt_location *location, int64_t step, ckpt_error *error) {
  *out = NULL;
  staged *stage = ck_take(1, sizeof *stage);
  if (!stage) return ck_no_memory(error, sizeof *stage);
  stage->place = place_of(location);
  ckpt_status status = ck_output_init(&stage->output, &output_ops, error);
  stage->output.leave = true; /* nothing is there yet to be taken back */
  stage->prefix = step_prefix(stage->place, step);
  if (status == CKPT_OK && !stage->prefix) status = ck_no_memory(error, 0);
  if (status == CKPT_OK) status = remove_key(stage->place, stage->prefix, record, error);
  if (status != CKPT_OK) {
    end_stage(location, &stage->output);
    return status;
  }
  stage->output.leave = false;
  *out = stage;
  return CKPT_OK;
}

/* A server that lists no uploads, or a key that may not ask, does not keep a checkpoint from being written. */
static ckpt_status begin_stage(ck_output **out, ckpt_location *location, int64_t step, ckpt_error *error) {
  staged *stage = NULL;
  int64_t n;
  if (!place_of(location)->cleaned) clean(&n, location, NULL);
  ckpt_status status = new_stage(&stage, location, step, error);
  *out = stage ? &stage->output : NULL;
  return status;
}

static ckpt_status keep_if_whole(staged *stage, const ckpt_file_entry *entry, ckpt_error *error) {
  ck_s3_object found;
  char *key = ck_print("%s%s", stage->prefix, entry->name);
  if (!key) return ck_no_memory(error, 0);
  ckpt_status status = ck_s3_head(&found, client_of(stage->place), stage->place->name.bucket, key, error);
  free(key);
  bool whole = status == CKPT_OK && found.exists && found.size == entry->size && !strcmp(found.sha256, entry->sha256);
  return whole ? ck_output_keep(&stage->output, entry, error) : status;
}

static ckpt_status take_up(ck_output **out, ckpt_location *location, int64_t step, const ckpt_file_entry *files,
                           size_t n_files, ckpt_error *error) {
  staged *stage = NULL;
  int64_t n;
  *out = NULL;
  ckpt_status status = new_stage(&stage, location, step, error);
  if (status != CKPT_OK) return status;
  stage->told = files;
  stage->n_told = n_files;
  abort_uploads(&n, stage->place, stage->prefix, false, stage, NULL);
  for (size_t i = 0; status == CKPT_OK && i < n_files; i++) status = keep_if_whole(stage, &files[i], error);
  if (status == CKPT_OK) {
    *out = &stage->output;
  } else {
    stage->output.leave = true;
    end_stage(location, &stage->output);
  }
  return status;
}

/* ---- Publishing ---- */

static bool is_finished(const staged *stage, const char *key) {
  const char *name = key + strlen(stage->prefix);
  for (size_t i = 0; i < stage->output.n_files; i++)
    if (strcmp(stage->output.files[i].name, name) == 0) return true;
  return false;
}

/* Files of what was there before, cut into other shards, do not stay beside the new ones. */
static ckpt_status remove_others(const staged *stage, ckpt_error *error) {
  keys all = {0}, others = {0};
  ckpt_status status = list_keys(&all, stage->place, stage->prefix, error);
  for (size_t i = 0; status == CKPT_OK && i < all.n; i++)
    if (!is_finished(stage, all.items[i]) && ck_is_checkpoint_file(all.items[i] + strlen(stage->prefix)))
      status = add_key(&others, all.items[i], error);
  if (status == CKPT_OK) status = remove_keys(stage->place, &others, error);
  free_keys(&all);
  free_keys(&others);
  return status;
}

static ckpt_status publish(ckpt_location *location, ck_output *output, ckpt_error *error) {
  staged *stage = stage_of(output);
  ckpt_status status = remove_others(stage, error);
  if (status != CKPT_OK) return status;
  char *key = ck_print("%s%s", stage->prefix, record);
  status = key ? ck_s3_put(NULL, location->s3, stage->place->name.bucket, key, stage->text, stage->n_text, error)
               : ck_no_memory(error, 0);
  free(key);
  stage->published = status == CKPT_OK;
  return status;
}

/* ---- Removing ---- */

static ckpt_status check_removable(const place *there, const keys *list, size_t n_prefix, int64_t step, bool complete,
                                   ckpt_error *error) {
  const char *of = complete ? "files" : "files of checkpoints";
  if (list->n == 0)
    return ck_fail(error, CK_E_WRITE, there->location.name, -1, ENOENT, "'step-%lld' cannot be removed",
                   (long long)step);
  for (size_t i = 0; i < list->n; i++) {
    const char *name = list->items[i] + n_prefix;
    if (*name && !strchr(name, '/') && (complete || ck_is_checkpoint_file(name))) continue;
    return ck_fail(error, CK_E_WRITE, there->location.name, -1, ENOTEMPTY,
                   "'step-%lld' is not removed: it holds more than %s", (long long)step, of);
  }
  return CKPT_OK;
}

static ckpt_status remove_step(ckpt_location *location, int64_t step, bool complete, ckpt_error *error) {
  const place *there = place_of(location);
  keys list = {0};
  int64_t n;
  char *prefix = step_prefix(there, step);
  ckpt_status status = prefix ? list_keys(&list, there, prefix, error) : ck_no_memory(error, 0);
  if (status == CKPT_OK) status = check_removable(there, &list, strlen(prefix), step, complete, error);
  if (status == CKPT_OK) status = remove_key(there, prefix, record, error);
  if (status == CKPT_OK) status = remove_keys(there, &list, error);
  if (status == CKPT_OK) abort_uploads(&n, there, prefix, false, NULL, NULL);
  free_keys(&list);
  free(prefix);
  return status;
}

/* ---- Opening ---- */

static void close_place(ckpt_location *location) {
  place *there = place_of(location);
  ck_s3_name_clear(&there->name);
  free(location->name);
  free(there);
}

static const ck_location_ops s3_ops = {close_place, list_steps, begin_stage, take_up,
                                       publish,     end_stage,  remove_step, clean};

static ckpt_status try_to_write(const place *there, ckpt_error *error) {
  char *key = ck_print("%s%s", there->name.key, probe);
  if (!key) return ck_no_memory(error, 0);
  ckpt_status status = ck_s3_put(NULL, client_of(there), there->name.bucket, key, "", 0, error);
  if (status == CKPT_OK) status = ck_s3_remove(client_of(there), there->name.bucket, key, error);
  free(key);
  return status;
}

static ckpt_status open_place(place *there, const char *name, ckpt_error *error) {
  there->location.name = ck_s3_folder_path(name);
  if (!there->location.name) return ck_no_memory(error, 0);
  return ck_s3_folder_parse(&there->name, there->location.name, error);
}

ckpt_status ck_s3_location_open(ckpt_location **out, const char *name, bool create, ckpt_s3 *s3, ckpt_error *error) {
  *out = NULL;
  place *there = ck_take(1, sizeof *there);
  if (!there) return ck_no_memory(error, sizeof *there);
  there->location.ops = &s3_ops;
  there->location.s3 = s3;
  ckpt_status status = open_place(there, name, error);
  if (status == CKPT_OK && create) status = try_to_write(there, error);
  if (status == CKPT_OK)
    *out = &there->location;
  else
    close_place(&there->location);
  return status;
}
