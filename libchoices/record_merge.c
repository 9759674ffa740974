/* Two records as one. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "choices.h"
#include "error.h"
#include "record.h"

static choices_status copy_all(choices_record *to, const choices_record *from, choices_error *error) {
  for (size_t i = 0; i < from->n_devices; i++) {
    size_t index = ch_record_device(to, &from->devices[i], from->device_extras[i]);
    if (index == SIZE_MAX) return ch_no_memory(error);
    for (size_t k = 0; k < from->n_costs; k++) {
      choices_cost cost = {index, ch_arena_text(&to->memory, from->costs[k].key), from->costs[k].time_ns};
      if (from->costs[k].device == i && !ch_record_add_cost(to, &cost)) return ch_no_memory(error);
    }
  }
  return CHOICES_OK;
}

static choices_status add_row(choices_record *to, const choices_record *from, const choices_row *row,
                              choices_error *error) {
  choices_row copy;
  ch_row_copy(&copy, &to->memory, row);
  copy.device = ch_record_device(to, &from->devices[row->device], NULL);
  return copy.device != SIZE_MAX && ch_record_add(to, &copy) ? CHOICES_OK : ch_no_memory(error);
}

/* The row of the same key in another record; rows of a record are sorted. */
static const choices_row *find_row(const choices_record *in, const choices_record *from, const choices_row *row) {
  size_t device = 0, low = 0, high = in->n_rows;
  while (device < in->n_devices && !ch_device_same(&in->devices[device], &from->devices[row->device])) device++;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const choices_row *at = &in->rows[middle];
    int order = at->device != device ? (at->device > device ? 1 : -1) : ch_row_compare(at, row);
    if (order == 0) return at;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}

static bool same_value(const choices_row *left, const choices_row *right) {
  return left->is_json == right->is_json && strcmp(left->value, right->value) == 0;
}

/* Of rows that agree both are added, and finishing keeps one of them. */
static choices_status merge_rows(choices_record *to, const choices_record *first, const choices_record *second,
                                 choices_conflict conflict, choices_error *error) {
  choices_status status = CHOICES_OK;
  for (size_t i = 0; i < first->n_rows && status == CHOICES_OK; i++) {
    const choices_row *row = &first->rows[i], *other = find_row(second, first, row);
    bool differs = other && !same_value(row, other);
    if (differs && conflict == CHOICES_CONFLICT_REFUSE)
      return ch_fail(error, CH_E_CONFLICT, NULL, 0, "%s %.400s is %.200s and %.200s", row->kind, row->key, row->value,
                     other->value);
    if (!differs || conflict == CHOICES_CONFLICT_KEEP) status = add_row(to, first, row, error);
  }
  for (size_t i = 0; i < second->n_rows && status == CHOICES_OK; i++) {
    const choices_row *row = &second->rows[i], *other = find_row(first, second, row);
    bool differs = other && !same_value(row, other);
    if (!differs || conflict == CHOICES_CONFLICT_REPLACE) status = add_row(to, second, row, error);
  }
  return status;
}

choices_status choices_record_merge(choices_record **out, const choices_record *first, const choices_record *second,
                                    choices_conflict conflict, choices_error *error) {
  *out = NULL;
  ch_error_clear(error);
  if (first->is_object || second->is_object)
    return ch_fail(error, CH_E_RECORD_NONE, NULL, 0,
                   "a run's choices are merged with nothing; expected exports or stores");
  choices_record *record = ch_record_new();
  choices_status status = record ? copy_all(record, first, error) : ch_no_memory(error);
  if (status == CHOICES_OK) status = copy_all(record, second, error);
  if (status == CHOICES_OK) status = merge_rows(record, first, second, conflict, error);
  if (status == CHOICES_OK) return ch_record_finish(out, record, NULL, error);
  choices_record_free(record);
  return status;
}
