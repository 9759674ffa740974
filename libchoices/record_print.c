/* What a record prints as, and its digest. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "record.h"

const char *choices_record_text(choices_record *record) {
  if (record->is_object) return record->object_text;
  if (record->text) return record->text;
  ch_text text = {0};
  ch_stream_put(&text, record, false);
  return record->text = ch_text_take(&text);
}

choices_status choices_record_measurements(char **out, const choices_record *record, choices_error *error) {
  ch_text text = {0};
  if (record->is_object)
    ch_text_add(&text, record->object_text);
  else
    ch_stream_put(&text, record, true);
  *out = ch_text_take(&text);
  return *out ? CHOICES_OK : ch_no_memory(error);
}

const char *choices_record_digest(choices_record *record) {
  if (record->digest[0]) return record->digest;
  const char *text = record->is_object ? record->identity_text : choices_record_text(record);
  if (!text || ch_sha256_text(record->digest, text, strlen(text), NULL) != CHOICES_OK) return NULL;
  return record->digest;
}

/* ---- a part of a record
 * ---------------------------------------------------------------------------------------------- */

static bool names_device(const choices_record *record, size_t index, const char *device) {
  char number[32];
  snprintf(number, sizeof number, "#%zu", index + 1);
  return strcmp(record->devices[index].device, device) == 0 || strcmp(number, device) == 0;
}

static choices_status add_selected(choices_record *to, const choices_record *from, const char *device, const char *kind,
                                   choices_error *error) {
  for (size_t i = 0; i < from->n_devices; i++) {
    if (device && !names_device(from, i, device)) continue;
    size_t index = ch_record_device(to, &from->devices[i], from->device_extras[i]);
    if (index == SIZE_MAX) return ch_no_memory(error);
    for (size_t k = 0; k < from->n_rows; k++) {
      choices_row row = from->rows[k];
      if (row.device != i || (kind && strcmp(row.kind, kind) != 0)) continue;
      ch_row_copy(&row, &to->memory, &row);
      row.device = index;
      if (!ch_record_add(to, &row)) return ch_no_memory(error);
    }
    for (size_t k = 0; !kind && k < from->n_costs; k++) {
      choices_cost cost = {index, ch_arena_text(&to->memory, from->costs[k].key), from->costs[k].time_ns};
      if (from->costs[k].device == i && !ch_record_add_cost(to, &cost)) return ch_no_memory(error);
    }
  }
  if (device && to->n_devices == 0) return ch_fail(error, CH_E_RECORD_NONE, NULL, 0, "no device is \"%s\"", device);
  return CHOICES_OK;
}

choices_status choices_record_select(choices_record **out, const choices_record *record, const char *device,
                                     const char *kind, choices_error *error) {
  const choices_kind *known = kind ? choices_kind_find(kind) : NULL;
  *out = NULL;
  ch_error_clear(error);
  choices_record *part = ch_record_new();
  if (!part) return ch_no_memory(error);
  choices_status status = add_selected(part, record, device, known ? known->name : kind, error);
  if (status == CHOICES_OK) return ch_record_finish(out, part, NULL, error);
  choices_record_free(part);
  return status;
}
