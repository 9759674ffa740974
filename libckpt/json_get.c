/* Members of JSON objects, with errors that name them. */
#include <stdio.h>
#include <string.h>

#include "json_read.h"
#include "sha256.h"

ckpt_status ck_json_refuse(const ck_json_object *object, const char *key, const char *expected, ckpt_error *error) {
  char index[32] = "";
  const char *member = object->member;
  int64_t at = member ? ck_json_offset(object->text, member, key) : ck_json_offset(object->text, key, NULL);
  if (at < 0 && member) at = ck_json_offset(object->text, member, NULL);
  if (object->index >= 0) snprintf(index, sizeof index, "[%lld]", (long long)object->index);
  return ck_fail(error, object->text->code, object->text->path, at, 0, "expected %s%s%s%s to be %s",
                 member ? member : "", index, member ? "." : "", key, expected);
}

ckpt_status ck_json_get_text(const char **out, const ck_json_object *object, const char *key, ckpt_error *error) {
  *out = json_string_value(json_object_get(object->value, key));
  return *out ? CKPT_OK : ck_json_refuse(object, key, "a string", error);
}

ckpt_status ck_json_get_text_or_null(const char **out, const ck_json_object *object, const char *key,
                                     ckpt_error *error) {
  const json_t *value = json_object_get(object->value, key);
  *out = json_string_value(value);
  return *out || json_is_null(value) ? CKPT_OK : ck_json_refuse(object, key, "a string or null", error);
}

ckpt_status ck_json_get_integer(int64_t *out, const ck_json_object *object, const char *key, ckpt_error *error) {
  const json_t *value = json_object_get(object->value, key);
  *out = json_integer_value(value);
  return json_is_integer(value) ? CKPT_OK : ck_json_refuse(object, key, "an integer", error);
}

ckpt_status ck_json_get_size(uint64_t *out, const ck_json_object *object, const char *key, ckpt_error *error) {
  const json_t *value = json_object_get(object->value, key);
  *out = (uint64_t)json_integer_value(value);
  bool good = json_is_integer(value) && json_integer_value(value) >= 0;
  return good ? CKPT_OK : ck_json_refuse(object, key, "an integer of 0 or more", error);
}

ckpt_status ck_json_get_sha256(char out[CKPT_SHA256_TEXT], const ck_json_object *object, const char *key,
                               ckpt_error *error) {
  const char *text = json_string_value(json_object_get(object->value, key));
  if (!text || !ck_is_sha256(text))
    return ck_json_refuse(object, key, "\"sha256:\" and 64 lowercase hexadecimal digits", error);
  memcpy(out, text, strlen(text) + 1);
  return CKPT_OK;
}

ckpt_status ck_json_get_array(const json_t **out, const ck_json_object *object, const char *key, ckpt_error *error) {
  *out = json_object_get(object->value, key);
  return json_is_array(*out) ? CKPT_OK : ck_json_refuse(object, key, "an array", error);
}

ckpt_status ck_json_get_object(ck_json_object *out, const ck_json_object *object, const char *key, ckpt_error *error) {
  *out = (ck_json_object){object->text, json_object_get(object->value, key), key, -1};
  return json_is_object(out->value) ? CKPT_OK : ck_json_refuse(object, key, "an object", error);
}

ckpt_status ck_json_get_item(ck_json_object *out, const ck_json_object *object, const char *key, size_t index,
                             ckpt_error *error) {
  const json_t *array = json_object_get(object->value, key);
  *out = (ck_json_object){object->text, json_array_get(array, index), key, (int64_t)index};
  return json_is_object(out->value) ? CKPT_OK : ck_json_refuse(object, key, "an array of objects", error);
}
