/* Pinning a run to a record: all of its needs, or a refusal that tells all that cannot be taken. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "kinds.h"
#include "pins.h"

void choices_pins_free(choices_pins *pins) {
  if (!pins) return;
  ch_arena_free(&pins->memory);
  free(pins->text);
  free(pins->json);
  free(pins);
}

const char *choices_pins_refusal(const choices_pins *pins) { return pins->text; }
const char *choices_pins_refusal_json(const choices_pins *pins) { return pins->json; }

static bool is_offered(const choices_need *need, const char *value) {
  for (size_t i = 0; i < need->n_offers; i++)
    if (strcmp(need->offers[i], value) == 0) return true;
  return false;
}

/* What the record says of a need; NULL: nothing. Products were not recorded at first, and all of them ordinary. */
static const char *recorded_value(const choices_record *record, const choices_need *need) {
  const choices_row *row = choices_record_find(record, need->kind, need->key);
  if (row) return row->is_json && strcmp(row->value, "null") == 0 ? NULL : row->value;
  int index = ch_kind_index(need->kind);
  bool products = index >= 0 && strcmp(choices_kind_find(need->kind)->name, "product") == 0;
  return record->is_object && products && !(record->maps & 1u << index) ? "ordinary" : NULL;
}

static bool takes(const choices_pinning *pinning, const choices_need *need, const char *value, char *words,
                  size_t n_words) {
  if (pinning->takes) return pinning->takes(pinning->context, need, value, words, n_words);
  return is_offered(need, value);
}

static void pin_one(ch_pin *pin, choices_pins *pins, const choices_pinning *pinning, const choices_need *need) {
  char words[512] = "";
  const choices_kind *kind = choices_kind_find(need->kind);
  *pin = (ch_pin){.kind = ch_arena_text(&pins->memory, kind ? kind->name : need->kind),
                  .key = ch_arena_text(&pins->memory, need->key)};
  int index = ch_kind_index(need->kind);
  pin->fresh = index >= 0 && (pinning->fresh & 1u << index);
  if (pin->fresh) return;
  const char *value = recorded_value(pinning->record, need);
  pin->value = ch_arena_text(&pins->memory, value);
  pin->refused = !value || !takes(pinning, need, value, words, sizeof words);
  pin->offered = ch_arena_text(&pins->memory, words[0] ? words : need->offered);
  if (!pin->refused) return;
  pins->n_refused++;
  if (!pin->offered) pin->offered = ch_offers_text(&pins->memory, need);
}

static choices_status check_needed(const choices_pinning *pinning, choices_error *error) {
  static const char *const known[] = {"device",       "graph",    "numerics",       "portable",  "strict",  "requires",
                                      "convolutions", "products", "node_gradients", "recompute", "stacking"};
  const choices_record *record = pinning->record;
  for (size_t i = 0; i < record->n_needed; i++) {
    bool found = false;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) found = found || strcmp(known[k], record->needed[i]) == 0;
    if (!found)
      return ch_fail(error, CH_E_RECORD_VERSION, pinning->record_name, 0,
                     "it requires \"%.80s\", which this version does not know", record->needed[i]);
  }
  return CHOICES_OK;
}

/* The device of this run is shown where the record has it, else the first. */
static choices_status check_devices(const choices_pinning *pinning, choices_error *error) {
  const choices_record *record = pinning->record;
  size_t shown = 0;
  if (record->n_devices <= 1) return check_needed(pinning, error);
  for (size_t i = 0; i < record->n_devices; i++)
    if (strcmp(record->devices[i].device, pinning->device->device) == 0) shown = i;
  return ch_fail(error, CH_E_RECORD_DEVICES, pinning->record_name, 0,
                 "found %zu devices, expected one: sexpgpu-choices export --device '%.600s'", record->n_devices,
                 record->devices[shown].device);
}

choices_status choices_pin(choices_pins **out, const choices_pinning *pinning, choices_error *error) {
  *out = NULL;
  ch_error_clear(error);
  choices_status status = check_devices(pinning, error);
  if (status != CHOICES_OK) return status;
  choices_pins *pins = calloc(1, sizeof *pins);
  if (!pins) return ch_no_memory(error);
  pins->items = ch_arena_take(&pins->memory, pinning->n_needs, sizeof *pins->items);
  for (size_t i = 0; pins->items && i < pinning->n_needs; i++)
    pin_one(&pins->items[pins->n++], pins, pinning, &pinning->needs[i]);
  if (pins->memory.failed || (pins->n_refused && !ch_refusal_make(pins, pinning))) {
    choices_pins_free(pins);
    return ch_no_memory(error);
  }
  *out = pins;
  if (!pins->n_refused) return CHOICES_OK;
  return ch_fail(error, CH_E_PIN, pinning->record_name, 0, "%zu of %zu", pins->n_refused, pins->n);
}

/* ---- what a run does with them
 * --------------------------------------------------------------------------------------- */

static ch_pin *find(const choices_pins *pins, const char *kind, const char *key) {
  const choices_kind *known = choices_kind_find(kind);
  for (size_t i = 0; i < pins->n; i++)
    if (strcmp(pins->items[i].kind, known ? known->name : kind) == 0 && strcmp(pins->items[i].key, key) == 0)
      return &pins->items[i];
  return NULL;
}

const char *choices_pins_take(choices_pins *pins, const char *kind, const char *key) {
  ch_pin *pin = find(pins, kind, key);
  if (!pin || pin->fresh) return NULL;
  pin->consumed = true;
  return pin->value;
}

void choices_pins_note_measured(choices_pins *pins, const char *kind, const char *key) {
  ch_pin *pin = find(pins, kind, key);
  if (pin && pin->fresh)
    pin->consumed = true;
  else if (pin)
    pin->measured = true;
  else
    pins->unknown_measured = true;
}

choices_status choices_pins_audit(const choices_pins *pins, choices_error *error) {
  ch_error_clear(error);
  if (pins->unknown_measured)
    return ch_fail(error, CH_E_AUDIT, NULL, 0, "a choice that is none of the %zu needs was measured", pins->n);
  for (size_t i = 0; i < pins->n; i++) {
    const ch_pin *pin = &pins->items[i];
    if (pin->measured || (!pin->consumed && !pin->fresh))
      return ch_fail(error, CH_E_AUDIT, NULL, 0, "%s %.600s was %s", pin->kind, pin->key,
                     pin->measured ? "measured" : "not taken from the record");
  }
  return CHOICES_OK;
}
