/* The files of a checkpoint below s3://bucket/prefix. One listing tells their sizes and ETags, so that opening one
 * costs nothing, and each is fetched once at most, however often it is opened. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "file.h"
#include "folder.h"
#include "object.h"
#include "s3.h"

enum { MOST_OBJECTS = 100000 };

typedef struct item {
  char *name;
  ck_object *object;
} item;

typedef struct s3_folder {
  ck_folder folder;
  ckpt_s3 *s3;
  ck_s3_name name; /* its key ends with a slash, or is empty */
  item *items;     /* in byte order of their names */
  size_t n, room;
  bool any; /* object or prefix */
} s3_folder;

static void close_folder(ck_folder *folder) {
  s3_folder *own = (s3_folder *)(void *)folder;
  for (size_t i = 0; i < own->n; i++) {
    free(own->items[i].name);
    ck_object_release(own->items[i].object);
  }
  free(own->items);
  ck_s3_name_clear(&own->name);
  free(folder->path);
  free(own);
}

static int by_name(const void *name, const void *of) { return strcmp(name, ((const item *)of)->name); }

static ckpt_status open_object(ckpt_file **out, const ck_folder *folder, const char *name, ckpt_error *error) {
  const s3_folder *own = (const s3_folder *)(const void *)folder;
  const item *found = own->n ? bsearch(name, own->items, own->n, sizeof *own->items, by_name) : NULL;
  *out = NULL;
  char *path = ck_join(folder->path, name);
  ckpt_status status = path ? CKPT_OK : ck_no_memory(error, 0);
  if (path && !found) status = ck_fail(error, CK_E_DATA_OPEN, path, -1, ENOENT, "there is no such object");
  if (path && found) status = ck_file_open_remote(out, path, found->object, error);
  free(path);
  return status;
}

static const ck_folder_ops s3_ops = {close_folder, open_object};

static ckpt_status add_item(void *context, const char *key, bool is_prefix, uint64_t size, const char *etag,
                            ckpt_error *error) {
  s3_folder *own = context;
  const char *name = key + strlen(own->name.key);
  own->any = true;
  if (is_prefix || !*name) return CKPT_OK;
  if (own->n == MOST_OBJECTS)
    return ck_fail(error, CK_E_CHECKPOINT_OPEN, own->folder.path, -1, 0,
                   "expected the files of a checkpoint, found more than %d objects", MOST_OBJECTS);
  item *grown = ck_grow(own->items, own->n, &own->room, sizeof *grown);
  if (!grown) return ck_no_memory(error, 0);
  own->items = grown;
  item added = {.name = ck_copy_text(name)};
  ckpt_status status = added.name ? ck_object_new(&added.object, own->s3, own->name.bucket, key, etag, size, error)
                                  : ck_no_memory(error, 0);
  if (status == CKPT_OK)
    grown[own->n++] = added;
  else
    free(added.name);
  return status;
}

char *ck_s3_folder_path(const char *name) {
  size_t n = strlen(name);
  while (n > strlen("s3://") && name[n - 1] == '/') n--;
  return ck_copy_text_n(name, n);
}

ckpt_status ck_s3_folder_parse(ck_s3_name *out, const char *path, ckpt_error *error) {
  ckpt_status status = ck_s3_name_parse(out, path, error);
  if (status != CKPT_OK || !*out->key) return status;
  char *key = ck_print("%s/", out->key);
  if (!key) return ck_no_memory(error, 0);
  free(out->key);
  out->key = key;
  return CKPT_OK;
}

static ckpt_status list(s3_folder *own, ckpt_error *error) {
  ckpt_status status = ck_s3_list(own->s3, own->name.bucket, own->name.key, "/", add_item, own, error);
  if (status != CKPT_OK || own->any) return status;
  return ck_fail(error, CK_E_CHECKPOINT_OPEN, own->folder.path, -1, ENOENT, "no object's name begins so");
}

ckpt_status ck_s3_folder_open(ck_folder **out, const char *path, ckpt_s3 *s3, ckpt_error *error) {
  *out = NULL;
  s3_folder *own = ck_take(1, sizeof *own);
  if (!own) return ck_no_memory(error, sizeof *own);
  own->folder = (ck_folder){&s3_ops, ck_s3_folder_path(path)};
  own->s3 = s3;
  ckpt_status status =
      own->folder.path ? ck_s3_folder_parse(&own->name, own->folder.path, error) : ck_no_memory(error, 0);
  if (status == CKPT_OK) status = list(own, error);
  if (status == CKPT_OK)
    *out = &own->folder;
  else
    close_folder(&own->folder);
  return status;
}
