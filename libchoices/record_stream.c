/* The export stream: lines of JSON, each a device's header, a choice of the last header's device, or a timing. */
#include <stdint.h>
#include <string.h>

#include "error.h"
#include "kinds.h"
#include "record.h"

enum { STREAM_VERSION = 1 };

static const char *const state_words[] = {[CHOICES_MEASURED] = "measured",
                                          [CHOICES_REJECTED] = "rejected",
                                          [CHOICES_OUT_OF_MEMORY] = "out of memory",
                                          [CHOICES_FAILED] = "failed"};
static const char *const bits_words[] = {
    [CHOICES_BITS_UNKNOWN] = "unknown", [CHOICES_BITS_NEUTRAL] = "neutral", [CHOICES_BITS_MOVE] = "moves"};

static int word_index(const char *const *words, int n, const char *word) {
  for (int i = 0; i < n; i++)
    if (strcmp(words[i], word) == 0) return i;
  return -1;
}

const char *ch_state_word(choices_state state) { return state_words[state]; }
const char *ch_bits_word(choices_bits bits) { return bits_words[bits]; }
int ch_state_read(const char *word) { return word_index(state_words, 4, word); }
int ch_bits_read(const char *word) { return word_index(bits_words, 3, word); }

/* ---- reading -------------------------------------------------------------------------------------------------------
 */

typedef struct reader {
  choices_record *record;
  const char *name;
  const json_t *line;
  choices_error *error;
} reader;

static choices_status refuse(const reader *r, const char *member, const char *expected) {
  return ch_fail(r->error, CH_E_RECORD_FORMAT, r->name, 0, "record \"%.40s\": member \"%s\": expected %s",
                 json_string_value(json_object_get(r->line, "record")), member, expected);
}

/* Members of a line: absent ones leave what is there. */
static choices_status read_text(const reader *r, const char **out, const char *member) {
  const json_t *value = json_object_get(r->line, member);
  if (!value) return CHOICES_OK;
  if (!json_is_string(value)) return refuse(r, member, "text");
  *out = ch_arena_text(&r->record->memory, json_string_value(value));
  return CHOICES_OK;
}

static choices_status read_count(const reader *r, int64_t *out, const char *member) {
  const json_t *value = json_object_get(r->line, member);
  if (!value) return CHOICES_OK;
  if (!json_is_integer(value) || json_integer_value(value) < 0)
    return refuse(r, member, "an integer that is not negative");
  *out = json_integer_value(value);
  return CHOICES_OK;
}

/* What is in the line beside the known members, as a JSON object; NULL: nothing. */
static const char *read_extra(const reader *r, const char *const *known, size_t n_known) {
  json_t *others = json_copy((json_t *)(uintptr_t)r->line);
  for (size_t i = 0; others && i < n_known; i++) json_object_del(others, known[i]);
  const char *text = NULL;
  if (!others) r->record->memory.failed = true;
  if (others && json_object_size(others)) text = ch_json_text(&r->record->memory, others);
  json_decref(others);
  return text;
}

static choices_status read_version(const reader *r) {
  const json_t *version = json_object_get(r->line, "version");
  if (!json_is_integer(version)) return refuse(r, "version", "an integer");
  if (json_integer_value(version) == STREAM_VERSION) return CHOICES_OK;
  return ch_fail(r->error, CH_E_RECORD_VERSION, r->name, 0, "found version %lld, expected %d",
                 (long long)json_integer_value(version), STREAM_VERSION);
}

/* A header without a device stands for a store that has none. */
static choices_status read_header(const reader *r, size_t *device) {
  static const char *const known[] = {
      "record", "version", "device", "gpu", "driver", "libraries", "compute_capability", "multiprocessors"};
  choices_device facts = {0};
  const json_t *libraries = json_object_get(r->line, "libraries");
  choices_status status = read_version(r);
  if (status == CHOICES_OK) status = read_text(r, &facts.device, "device");
  if (status == CHOICES_OK) status = read_text(r, &facts.gpu, "gpu");
  if (status == CHOICES_OK) status = read_count(r, &facts.driver, "driver");
  if (status == CHOICES_OK) status = read_count(r, &facts.capability, "compute_capability");
  if (status == CHOICES_OK) status = read_count(r, &facts.multiprocessors, "multiprocessors");
  if (status != CHOICES_OK) return status;
  if (libraries && !json_is_object(libraries)) return refuse(r, "libraries", "an object");
  if (libraries) facts.libraries = ch_json_text(&r->record->memory, libraries);
  const char *extra = read_extra(r, known, sizeof known / sizeof *known);
  *device = SIZE_MAX;
  if (r->record->memory.failed) return ch_no_memory(r->error);
  if (!facts.device) return extra || facts.gpu ? refuse(r, "device", "text") : CHOICES_OK;
  *device = ch_record_device(r->record, &facts, extra);
  return *device == SIZE_MAX ? ch_no_memory(r->error) : CHOICES_OK;
}

static choices_status read_decision(const reader *r, choices_row *row) {
  const json_t *value = json_object_get(r->line, "value");
  const char *expected = NULL;
  choices_status status = read_text(r, &row->kind, "kind");
  if (status == CHOICES_OK) status = read_text(r, &row->key, "key");
  if (status == CHOICES_OK) status = read_text(r, &row->executable, "executable");
  if (status == CHOICES_OK) status = read_text(r, &row->mode, "mode");
  if (status != CHOICES_OK) return status;
  if (r->record->memory.failed) return ch_no_memory(r->error);
  if (!row->kind || !row->kind[0]) return refuse(r, "kind", "text");
  if (!row->key || !row->key[0]) return refuse(r, "key", "text");
  if (!value) return refuse(r, "value", "a value");
  if (!ch_value_read(&row->value, &row->is_json, &expected, row->kind, value, &r->record->memory))
    return refuse(r, "value", expected);
  return CHOICES_OK;
}

static choices_status read_measurement(const reader *r, choices_row *row) {
  const json_t *candidates = json_object_get(r->line, "candidates"), *ahead = json_object_get(r->line, "ahead");
  const char *bits = NULL, *expected = NULL;
  choices_status status = read_text(r, &row->measured, "measured");
  if (status == CHOICES_OK) status = read_text(r, &row->tool, "tool");
  if (status == CHOICES_OK) status = read_text(r, &row->reason, "reason");
  if (status == CHOICES_OK) status = read_text(r, &bits, "bits");
  if (status == CHOICES_OK) status = read_count(r, &row->executable_n_bytes, "executable_bytes");
  if (status == CHOICES_OK) status = read_count(r, &row->executable_modified_s, "executable_modified");
  if (status != CHOICES_OK) return status;
  if (ahead && (!json_is_number(ahead) || json_number_value(ahead) < 0))
    return refuse(r, "ahead", "a number that is not negative");
  row->ahead = ahead ? json_number_value(ahead) : -1;
  int index = bits ? ch_bits_read(bits) : CHOICES_BITS_UNKNOWN;
  if (index < 0) return refuse(r, "bits", "unknown, neutral or moves");
  row->bits = (choices_bits)index;
  if (candidates && !ch_candidates_read(row, &expected, candidates, &r->record->memory))
    return refuse(r, "candidates", expected);
  return CHOICES_OK;
}

static choices_status read_choice(const reader *r, size_t device) {
  static const char *const known[] = {"record",
                                      "kind",
                                      "key",
                                      "executable",
                                      "mode",
                                      "value",
                                      "ahead",
                                      "bits",
                                      "measured",
                                      "tool",
                                      "reason",
                                      "executable_bytes",
                                      "executable_modified",
                                      "candidates"};
  choices_row row = {.device = device, .executable = "", .mode = "", .ahead = -1};
  choices_status status = read_decision(r, &row);
  if (status == CHOICES_OK) status = read_measurement(r, &row);
  if (status != CHOICES_OK) return status;
  row.extra = read_extra(r, known, sizeof known / sizeof *known);
  return ch_record_add(r->record, &row) ? CHOICES_OK : ch_no_memory(r->error);
}

static choices_status read_cost(const reader *r, size_t device) {
  choices_cost cost = {.device = device, .time_ns = -1};
  choices_status status = read_text(r, &cost.key, "key");
  if (status == CHOICES_OK) status = read_count(r, &cost.time_ns, "time_ns");
  if (status != CHOICES_OK) return status;
  if (r->record->memory.failed) return ch_no_memory(r->error);
  if (!cost.key || !cost.key[0]) return refuse(r, "key", "text");
  if (cost.time_ns < 0) return refuse(r, "time_ns", "an integer that is not negative");
  return ch_record_add_cost(r->record, &cost) ? CHOICES_OK : ch_no_memory(r->error);
}

choices_status ch_stream_read(choices_record *record, const char *name, const json_t *line, size_t *device,
                              choices_error *error) {
  const reader r = {record, name, line, error};
  const char *word = json_string_value(json_object_get(line, "record"));
  if (word && strcmp(word, "choices") == 0) return read_header(&r, device);
  bool choice = word && strcmp(word, "choice") == 0;
  if (!choice && (!word || strcmp(word, "cost") != 0))
    return ch_fail(error, CH_E_RECORD_FORMAT, name, 0, "found record \"%.40s\", expected choices, choice or cost",
                   word ? word : "");
  if (*device == SIZE_MAX)
    return ch_fail(error, CH_E_RECORD_FORMAT, name, 0, "a %s without the header of a device before it", word);
  return choice ? read_choice(&r, *device) : read_cost(&r, *device);
}

/* ---- printing ------------------------------------------------------------------------------------------------------
 */

static void put_text(ch_text *to, const char *name, const char *text) {
  if (!text) return;
  ch_json_put_name(to, name);
  ch_json_put_string(to, text);
}

static void put_count(ch_text *to, const char *name, int64_t count) {
  if (!count) return;
  ch_json_put_name(to, name);
  ch_text_format(to, "%lld", (long long)count);
}

/* An object's members, at the end of another's. */
static void put_extra(ch_text *to, const char *extra) {
  if (!extra) return;
  ch_text_add(to, ", ");
  ch_text_put(to, extra + 1, strlen(extra) - 2);
}

static void put_header(ch_text *to, const choices_device *device, const char *extra) {
  ch_text_add(to, "{\"record\": \"choices\", \"version\": 1");
  if (device) {
    put_text(to, "device", device->device);
    put_text(to, "gpu", device->gpu);
    put_count(to, "driver", device->driver);
    if (device->libraries) ch_json_put_name(to, "libraries"), ch_text_add(to, device->libraries);
    put_count(to, "compute_capability", device->capability);
    put_count(to, "multiprocessors", device->multiprocessors);
    put_extra(to, extra);
  }
  ch_text_add(to, "}\n");
}

static void put_measurement(ch_text *to, const choices_row *row) {
  put_text(to, "measured", row->measured);
  put_text(to, "tool", row->tool);
  put_text(to, "reason", row->reason);
  if (row->ahead >= 0) ch_json_put_name(to, "ahead"), ch_json_put_real(to, row->ahead);
  if (row->bits != CHOICES_BITS_UNKNOWN) put_text(to, "bits", ch_bits_word(row->bits));
  put_count(to, "executable_bytes", row->executable_n_bytes);
  put_count(to, "executable_modified", row->executable_modified_s);
  if (!row->n_candidates) return;
  ch_json_put_name(to, "candidates");
  ch_candidates_put(to, row);
}

static void put_choice(ch_text *to, const choices_row *row, bool measurements) {
  ch_text_add(to, "{\"record\": \"choice\"");
  put_text(to, "kind", row->kind);
  put_text(to, "key", row->key);
  if (row->executable[0]) put_text(to, "executable", row->executable);
  if (row->mode[0]) put_text(to, "mode", row->mode);
  ch_json_put_name(to, "value");
  ch_value_put(to, row->value, row->is_json);
  if (measurements) put_measurement(to, row);
  put_extra(to, row->extra);
  ch_text_add(to, "}\n");
}

void ch_stream_put(ch_text *to, const choices_record *record, bool measurements) {
  size_t row = 0, cost = 0;
  if (record->n_devices == 0) put_header(to, NULL, NULL);
  for (size_t i = 0; i < record->n_devices; i++) {
    put_header(to, &record->devices[i], record->device_extras[i]);
    for (; row < record->n_rows && record->rows[row].device == i; row++)
      put_choice(to, &record->rows[row], measurements);
    for (; cost < record->n_costs && record->costs[cost].device == i; cost++) {
      if (!measurements) continue;
      ch_text_add(to, "{\"record\": \"cost\"");
      put_text(to, "key", record->costs[cost].key);
      ch_text_format(to, ", \"time_ns\": %lld}\n", (long long)record->costs[cost].time_ns);
    }
  }
}
