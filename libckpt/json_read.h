/* JSON that is read: jansson, with errors of ours. */
#ifndef CK_JSON_READ_H
#define CK_JSON_READ_H

#include <jansson.h>

#include "ckpt.h"
#include "error.h"

/* Where a value came from, for errors: the text lies `base` bytes into the file. */
typedef struct ck_json_text {
  const char *path, *text;
  size_t n_bytes;
  uint64_t base;
  ck_code code; /* of what is malformed */
} ck_json_text;

/* Parses one value (json_decref gives it back); duplicate keys, NUL in strings and bad UTF-8 are refused. */
ckpt_status ck_json_parse(json_t **out, const ck_json_text *text, ckpt_error *error);

/* Byte in the file where the member `key` of the outermost object starts, or, with `inner`, the member `inner` of
 * that; -1 where there is none. */
int64_t ck_json_offset(const ck_json_text *text, const char *key, const char *inner);

/* An object that members are taken from: the outermost one (member NULL), or one within the outermost one's `member`,
 * where that is an array the one of that index (else -1). */
typedef struct ck_json_object {
  const ck_json_text *text;
  const json_t *value;
  const char *member;
  int64_t index;
} ck_json_object;

/* E-… of the text, naming the member `key` of an object. */
ckpt_status ck_json_refuse(const ck_json_object *object, const char *key, const char *expected, ckpt_error *error);

/* A member that must be there and of that type; borrowed. */
ckpt_status ck_json_get_text(const char **out, const ck_json_object *object, const char *key, ckpt_error *error);
ckpt_status ck_json_get_text_or_null(const char **out, const ck_json_object *object, const char *key,
                                     ckpt_error *error);
ckpt_status ck_json_get_size(uint64_t *out, const ck_json_object *object, const char *key, ckpt_error *error);
ckpt_status ck_json_get_integer(int64_t *out, const ck_json_object *object, const char *key, ckpt_error *error);
ckpt_status ck_json_get_sha256(char out[CKPT_SHA256_TEXT], const ck_json_object *object, const char *key,
                               ckpt_error *error);
ckpt_status ck_json_get_array(const json_t **out, const ck_json_object *object, const char *key, ckpt_error *error);

/* The object that is member `key` of the outermost one, or item `index` of the array that is. */
ckpt_status ck_json_get_object(ck_json_object *out, const ck_json_object *object, const char *key, ckpt_error *error);
ckpt_status ck_json_get_item(ck_json_object *out, const ck_json_object *object, const char *key, size_t index,
                             ckpt_error *error);

/* Nesting of a value: 0 for a scalar. Jansson limits it to 2048. */
int ck_json_depth(const json_t *value);

/* Writes a value with `json`: at most CK_JSON_RAW_DEPTH deep. */
enum { CK_JSON_RAW_DEPTH = 32 };
void ck_json_emit(ckpt_json *json, const json_t *value);

/* A value as text of one line, owned. */
ckpt_status ck_json_dump(char **out, const json_t *value, ckpt_error *error);

#endif
