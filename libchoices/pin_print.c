/* E-CHOICE-001: every choice that cannot be taken, for people and as JSON. */
#include <string.h>

#include "kinds.h"
#include "pins.h"

const char *ch_offers_text(ch_arena *memory, const choices_need *need) {
  ch_text text = {0};
  if (need->n_offers == 0) ch_text_add(&text, "nothing is offered for it");
  for (size_t i = 0; i < need->n_offers; i++)
    ch_text_format(&text, "%s%s", i == 0 ? "" : i + 1 < need->n_offers ? ", " : " or ", need->offers[i]);
  if (text.failed) memory->failed = true;
  const char *copy = text.failed ? NULL : ch_arena_text(memory, text.bytes);
  ch_text_free(&text);
  return copy;
}

static const char *record_device(const choices_pinning *pinning) {
  return pinning->record->n_devices ? pinning->record->devices[0].device : "no device";
}

static size_t widest_kind(const choices_pins *pins) {
  size_t widest = 0;
  for (size_t i = 0; i < pins->n; i++)
    if (pins->items[i].refused && strlen(pins->items[i].kind) > widest) widest = strlen(pins->items[i].kind);
  return widest;
}

/* The kinds that are refused, as --choices fresh: takes them. */
static size_t put_kinds(ch_text *to, const choices_pins *pins, const char *separator, bool quoted) {
  size_t n_kinds, n = 0;
  const choices_kind *kinds = choices_kinds(&n_kinds);
  for (size_t k = 0; k < n_kinds; k++) {
    bool refused = false;
    for (size_t i = 0; i < pins->n; i++)
      refused = refused || (pins->items[i].refused && strcmp(pins->items[i].kind, kinds[k].name) == 0);
    if (refused) ch_text_format(to, quoted ? "%s\"%s\"" : "%s%s", n++ ? separator : "", kinds[k].member);
  }
  return n;
}

/* A key that says no more than its kind does is left out. */
static void put_refused(ch_text *to, const ch_pin *pin, int width) {
  bool alone = !pin->key[0] || strcmp(pin->key, "device") == 0 || strncmp(pin->key, "graph ", 6) == 0;
  const char *recorded = pin->value ? pin->value : "none";
  if (alone) {
    ch_text_format(to, "  %-*s  recorded  %s\n", width, pin->kind, recorded);
  } else {
    ch_text_format(to, "  %-*s  %s\n", width, pin->kind, pin->key);
    ch_text_format(to, "  %-*s  recorded  %s\n", width, "", recorded);
  }
  ch_text_format(to, "  %-*s  here      %s\n", width, "", pin->offered);
}

static void put_people(ch_text *to, const choices_pins *pins, const choices_pinning *pinning) {
  ch_text_format(to, "E-CHOICE-001: %zu of %zu recorded choices cannot be taken on this device\n", pins->n_refused,
                 pins->n);
  int width = (int)widest_kind(pins);
  for (size_t i = 0; i < pins->n; i++)
    if (pins->items[i].refused) put_refused(to, &pins->items[i], width);
  ch_text_format(to, "  the record is of    %s\n  this device is      %s\n", record_device(pinning),
                 pinning->device->device);
  ch_text_add(to, "  --choices fresh chooses again and continues at level 3; --choices fresh:");
  static const char *const only[] = {"only these", "only this one", "only these two", "only these three"};
  size_t n = put_kinds(to, pins, ",", false);
  ch_text_format(to, " %s\n", only[n < sizeof only / sizeof *only ? n : 0]);
}

static void put_json(ch_text *to, const choices_pins *pins, const choices_pinning *pinning) {
  bool first = true;
  ch_text_add(to, "{\"code\": \"E-CHOICE-001\", \"device\": ");
  ch_json_put_string(to, pinning->device->device);
  ch_text_add(to, ", \"fresh\": [");
  put_kinds(to, pins, ", ", true);
  ch_text_format(to, "], \"needed\": %zu, \"record\": ", pins->n);
  ch_json_put_string(to, record_device(pinning));
  ch_text_add(to, ", \"refused\": [");
  for (size_t i = 0; i < pins->n; i++) {
    const ch_pin *pin = &pins->items[i];
    if (!pin->refused) continue;
    ch_text_add(to, first ? "{" : ", {");
    ch_json_put_name(to, "here");
    ch_json_put_string(to, pin->offered);
    ch_json_put_name(to, "key");
    ch_json_put_string(to, pin->key);
    ch_json_put_name(to, "kind");
    ch_json_put_string(to, pin->kind);
    ch_json_put_name(to, "recorded");
    if (pin->value)
      ch_json_put_string(to, pin->value);
    else
      ch_text_add(to, "null");
    ch_text_add(to, "}");
    first = false;
  }
  ch_text_add(to, "]}");
}

bool ch_refusal_make(choices_pins *pins, const choices_pinning *pinning) {
  ch_text people = {0}, json = {0};
  put_people(&people, pins, pinning);
  put_json(&json, pins, pinning);
  pins->text = ch_text_take(&people);
  pins->json = ch_text_take(&json);
  return pins->text && pins->json;
}
