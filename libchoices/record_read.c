/* Which of the records a text is, and its choices. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "choices.h"
#include "error.h"
#include "record.h"

static bool is_record(const json_t *value, const char *word) {
  const char *found = json_string_value(json_object_get(value, "record"));
  return found && strcmp(found, word) == 0;
}

/* The choices object in a record of another kind; NULL: it has none. *null: the record says that there are none. */
static const json_t *choices_within(const json_t *value, bool *null) {
  const json_t *metadata = json_object_get(value, "metadata"), *within = json_object_get(value, "choices");
  if (!within && json_is_object(metadata)) within = json_object_get(metadata, "choices");
  *null = json_is_null(within);
  if (within) return json_is_object(within) ? within : NULL;
  return json_is_string(json_object_get(value, "device")) && !json_object_get(value, "record") ? value : NULL;
}

static choices_status refuse_none(choices_error *error, const char *name, bool null) {
  return ch_fail(error, CH_E_RECORD_NONE, name, 0, "%s",
                 null ? "its run recorded none"
                      : "expected a choices object, an experiment.json, a lowering annotation or an export");
}

/* The last record with choices counts: of a stream of metrics that a resumed run went on with. */
static choices_status read_object(choices_record *record, const char *name, json_t *first, const char *bytes, size_t n,
                                  size_t at, choices_error *error) {
  bool null = false, any_null = false;
  choices_status status = CHOICES_OK;
  json_t *holder = NULL, *value = first;
  const json_t *object = NULL;
  while (status == CHOICES_OK) {
    const json_t *found = json_is_object(value) ? choices_within(value, &null) : NULL;
    any_null = any_null || null;
    if (found) {
      json_decref(holder);
      holder = json_incref(value);
      object = found;
    }
    if (value != first) json_decref(value);
    value = NULL;
    if (at >= n) break;
    status = ch_json_next(&value, name, bytes, n, &at, error);
  }
  if (status == CHOICES_OK)
    status = object ? ch_object_read(record, name, object, error) : refuse_none(error, name, any_null);
  json_decref(holder);
  return status;
}

static choices_status read_stream(choices_record *record, const char *name, const json_t *first, const char *bytes,
                                  size_t n, size_t at, choices_error *error) {
  size_t device = SIZE_MAX;
  choices_status status = ch_stream_read(record, name, first, &device, error);
  while (status == CHOICES_OK && at < n) {
    json_t *line = NULL;
    status = ch_json_next(&line, name, bytes, n, &at, error);
    if (status == CHOICES_OK && !json_is_object(line))
      status = ch_fail(error, CH_E_RECORD_FORMAT, name, 0, "expected an object a line");
    if (status == CHOICES_OK) status = ch_stream_read(record, name, line, &device, error);
    json_decref(line);
  }
  return status;
}

choices_status choices_record_parse(choices_record **out, const char *name, const void *bytes, size_t n_bytes,
                                    choices_error *error) {
  *out = NULL;
  ch_error_clear(error);
  size_t at = 0;
  const char *text = bytes;
  while (at < n_bytes && text[at] && strchr(" \t\r\n", text[at])) at++;
  if (at == n_bytes) return ch_fail(error, CH_E_RECORD_NONE, name, 0, "nothing is in it");
  json_t *first = NULL;
  choices_status status = ch_json_next(&first, name, text, n_bytes, &at, error);
  if (status != CHOICES_OK) return status;
  choices_record *record = ch_record_new();
  bool stream = is_record(first, "choices") || is_record(first, "choice") || is_record(first, "cost");
  if (!record)
    status = ch_no_memory(error);
  else
    status = stream ? read_stream(record, name, first, text, n_bytes, at, error)
                    : read_object(record, name, first, text, n_bytes, at, error);
  json_decref(first);
  if (status == CHOICES_OK) return ch_record_finish(out, record, name, error);
  choices_record_free(record);
  return status;
}

/* ---- files ---------------------------------------------------------------------------------------------------------
 */

static choices_status read_all(ch_text *to, FILE *file, const char *name, choices_error *error) {
  char bytes[16384];
  size_t n;
  while ((n = fread(bytes, 1, sizeof bytes, file)) > 0) ch_text_put(to, bytes, n);
  if (ferror(file)) return ch_fail(error, CH_E_RECORD_READ, name, errno, "reading failed");
  ch_text_put(to, "", 0);
  return to->failed ? ch_no_memory(error) : CHOICES_OK;
}

static choices_status read_store(choices_record **out, const char *path, choices_error *error) {
  const choices_store_options options = {.path = path, .access = CHOICES_READ};
  choices_store *store = NULL;
  choices_status status = choices_store_open(&store, &options, error);
  if (status == CHOICES_OK) status = choices_store_record(out, store, &(choices_filter){0}, true, error);
  choices_store_close(store);
  return status;
}

static choices_status read_file(choices_record **out, const char *path, choices_error *error) {
  static const char magic[] = "SQLite format 3";
  bool standard = strcmp(path, "-") == 0;
  const char *name = standard ? "standard input" : path;
  FILE *file = standard ? stdin : fopen(path, "rbe");
  if (!file) return ch_fail(error, CH_E_RECORD_READ, name, errno, "it cannot be opened");
  ch_text text = {0};
  choices_status status = read_all(&text, file, name, error);
  if (!standard) fclose(file);
  bool store =
      status == CHOICES_OK && !standard && text.n >= sizeof magic && memcmp(text.bytes, magic, sizeof magic) == 0;
  if (store)
    status = read_store(out, path, error);
  else if (status == CHOICES_OK)
    status = choices_record_parse(out, name, text.bytes, text.n, error);
  ch_text_free(&text);
  return status;
}

choices_status choices_record_read(choices_record **out, const char *path, choices_error *error) {
  struct stat facts;
  *out = NULL;
  ch_error_clear(error);
  if (strncmp(path, "s3://", 5) == 0) return ch_fail(error, CH_E_RECORD_S3, path, 0, "expected a file or directory");
  if (strcmp(path, "-") == 0 || stat(path, &facts) != 0 || !S_ISDIR(facts.st_mode)) return read_file(out, path, error);
  ch_text inner = {0};
  ch_text_format(&inner, "%s/experiment.json", path);
  choices_status status = inner.failed ? ch_no_memory(error) : read_file(out, inner.bytes, error);
  ch_text_free(&inner);
  return status;
}
