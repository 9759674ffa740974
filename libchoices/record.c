#include "record.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "kinds.h"

choices_record *ch_record_new(void) { return calloc(1, sizeof(choices_record)); }

void choices_record_free(choices_record *record) {
  if (!record) return;
  ch_arena_free(&record->memory);
  free(record->devices);
  free(record->device_extras);
  free(record->rows);
  free(record->costs);
  free(record->probes);
  free(record->text);
  free(record);
}

static int compare_texts(const char *left, const char *right) { return strcmp(left ? left : "", right ? right : ""); }
static int compare_numbers(int64_t left, int64_t right) { return (left > right) - (left < right); }

int ch_device_compare(const choices_device *left, const choices_device *right) {
  int order = compare_texts(left->device, right->device);
  if (!order) order = compare_numbers(left->driver, right->driver);
  if (!order) order = compare_texts(left->libraries, right->libraries);
  if (!order) order = compare_numbers(left->capability, right->capability);
  return order ? order : compare_numbers(left->multiprocessors, right->multiprocessors);
}

bool ch_device_same(const choices_device *left, const choices_device *right) {
  return ch_device_compare(left, right) == 0;
}

size_t ch_record_device(choices_record *record, const choices_device *device, const char *extra) {
  for (size_t i = record->n_devices; i-- > 0;)
    if (ch_device_same(&record->devices[i], device)) return i;
  void *devices = ch_grow(record->devices, record->n_devices, &record->device_room, sizeof *record->devices);
  if (devices) record->devices = devices;
  void *extras =
      ch_grow(record->device_extras, record->n_devices, &record->device_extra_room, sizeof *record->device_extras);
  if (extras) record->device_extras = extras;
  if (!devices || !extras) return SIZE_MAX;
  ch_arena *memory = &record->memory;
  choices_device copy = *device;
  copy.device = ch_arena_text(memory, device->device);
  copy.gpu = ch_arena_text(memory, device->gpu);
  copy.libraries = ch_arena_text(memory, device->libraries);
  record->device_extras[record->n_devices] = ch_arena_text(memory, extra);
  if (memory->failed) return SIZE_MAX;
  record->devices[record->n_devices] = copy;
  return record->n_devices++;
}

bool ch_record_add(choices_record *record, const choices_row *row) {
  if (record->memory.failed) return false;
  void *rows = ch_grow(record->rows, record->n_rows, &record->row_room, sizeof *record->rows);
  if (!rows) return false;
  record->rows = rows;
  record->rows[record->n_rows++] = *row;
  return true;
}

bool ch_record_add_cost(choices_record *record, const choices_cost *cost) {
  if (record->memory.failed) return false;
  void *costs = ch_grow(record->costs, record->n_costs, &record->cost_room, sizeof *record->costs);
  if (!costs) return false;
  record->costs = costs;
  record->costs[record->n_costs++] = *cost;
  return true;
}

static const choices_candidate *copy_candidates(ch_arena *memory, const choices_row *row) {
  choices_candidate *copies = ch_arena_take(memory, row->n_candidates, sizeof *copies);
  for (size_t i = 0; copies && i < row->n_candidates; i++) {
    copies[i] = row->candidates[i];
    copies[i].value = ch_arena_text(memory, copies[i].value);
    int64_t *samples = ch_arena_take(memory, copies[i].n_samples, sizeof *samples);
    if (samples && copies[i].n_samples) memcpy(samples, copies[i].samples_ns, copies[i].n_samples * sizeof *samples);
    copies[i].samples_ns = samples;
  }
  return copies;
}

void ch_row_copy(choices_row *out, ch_arena *memory, const choices_row *row) {
  *out = *row;
  const char **texts[] = {&out->kind,     &out->key,  &out->executable, &out->mode,   &out->value,
                          &out->measured, &out->tool, &out->reason,     &out->origin, &out->extra};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) *texts[i] = ch_arena_text(memory, *texts[i]);
  out->candidates = row->n_candidates ? copy_candidates(memory, row) : NULL;
}

int ch_row_compare(const choices_row *left, const choices_row *right) {
  int order = strcmp(left->kind, right->kind);
  if (!order) order = strcmp(left->key, right->key);
  if (!order) order = strcmp(left->executable, right->executable);
  return order ? order : strcmp(left->mode, right->mode);
}

static int by_place(const void *left, const void *right) {
  const choices_row *a = left, *b = right;
  return a->device != b->device ? (a->device > b->device) - (a->device < b->device) : ch_row_compare(a, b);
}

static int by_cost_place(const void *left, const void *right) {
  const choices_cost *a = left, *b = right;
  return a->device != b->device ? (a->device > b->device) - (a->device < b->device) : strcmp(a->key, b->key);
}

/* Devices in order, and where each went. */
static bool sort_devices(choices_record *record) {
  size_t n = record->n_devices, *place = malloc((n + 1) * sizeof *place), *from = malloc((n + 1) * sizeof *from);
  for (size_t i = 0; from && i < n; i++) from[i] = i;
  for (size_t i = 1; place && from && i < n; i++) { /* by insertion: there are few */
    choices_device device = record->devices[i];
    const char *extra = record->device_extras[i];
    size_t origin = from[i], at = i;
    for (; at > 0 && ch_device_compare(&record->devices[at - 1], &device) > 0; at--) {
      record->devices[at] = record->devices[at - 1];
      record->device_extras[at] = record->device_extras[at - 1];
      from[at] = from[at - 1];
    }
    record->devices[at] = device;
    record->device_extras[at] = extra;
    from[at] = origin;
  }
  bool good = place && from;
  for (size_t i = 0; good && i < n; i++) place[from[i]] = i;
  for (size_t i = 0; good && i < record->n_rows; i++) record->rows[i].device = place[record->rows[i].device];
  for (size_t i = 0; good && i < record->n_costs; i++) record->costs[i].device = place[record->costs[i].device];
  free(place);
  free(from);
  return good;
}

static bool same_value(const choices_row *left, const choices_row *right) {
  return left->is_json == right->is_json && strcmp(left->value, right->value) == 0;
}

/* Of equal rows the one that says more of how it was measured. */
static choices_status drop_repeats(choices_record *record, const char *name, choices_error *error) {
  size_t n = 0;
  for (size_t i = 0; i < record->n_rows; i++) {
    choices_row *row = &record->rows[i], *last = n ? &record->rows[n - 1] : NULL;
    if (!last || by_place(last, row) != 0)
      record->rows[n++] = *row;
    else if (!same_value(last, row))
      return ch_fail(error, CH_E_CONFLICT, name, 0, "%s %s is %s and %s", row->kind, row->key, last->value, row->value);
    else if (row->n_candidates > last->n_candidates)
      *last = *row;
  }
  record->n_rows = n;
  n = 0;
  for (size_t i = 0; i < record->n_costs; i++)
    if (n == 0 || by_cost_place(&record->costs[n - 1], &record->costs[i]) != 0) record->costs[n++] = record->costs[i];
  record->n_costs = n;
  return CHOICES_OK;
}

choices_status ch_record_finish(choices_record **out, choices_record *record, const char *name, choices_error *error) {
  choices_status status = CHOICES_OK;
  *out = NULL;
  if (record->memory.failed || !sort_devices(record)) status = ch_no_memory(error);
  if (status == CHOICES_OK && record->n_rows) qsort(record->rows, record->n_rows, sizeof *record->rows, by_place);
  if (status == CHOICES_OK && record->n_costs)
    qsort(record->costs, record->n_costs, sizeof *record->costs, by_cost_place);
  if (status == CHOICES_OK) status = drop_repeats(record, name, error);
  if (status == CHOICES_OK && !ch_probes_finish(record)) status = ch_no_memory(error);
  if (status != CHOICES_OK) {
    choices_record_free(record);
    return status;
  }
  *out = record;
  return CHOICES_OK;
}

size_t choices_record_devices(const choices_record *record, const choices_device **out) {
  *out = record->devices;
  return record->n_devices;
}

size_t choices_record_rows(const choices_record *record, const choices_row **out) {
  *out = record->rows;
  return record->n_rows;
}

size_t choices_record_costs(const choices_record *record, const choices_cost **out) {
  *out = record->costs;
  return record->n_costs;
}

size_t choices_record_probes(const choices_record *record, const choices_probe **out) {
  *out = record->probes;
  return record->n_probes;
}

const choices_object *choices_record_object(const choices_record *record) {
  return record->is_object ? &record->object : NULL;
}

/* A choices object has one value of such a kind, under no key. */
const choices_row *choices_record_find(const choices_record *record, const char *kind, const char *key) {
  const choices_kind *known = choices_kind_find(kind);
  const char *name = known ? known->name : kind;
  for (size_t i = 0; i < record->n_rows; i++) {
    const choices_row *row = &record->rows[i];
    if (strcmp(row->kind, name) != 0) continue;
    if (!key || !row->key[0] || strcmp(row->key, key) == 0) return row;
  }
  return NULL;
}
