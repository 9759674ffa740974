/* The pinned values of a run, and their refusal in words. */
#ifndef CH_PINS_H
#define CH_PINS_H

#include "choices.h"
#include "record.h"

typedef struct ch_pin {
  const char *kind, *key;
  const char *value;   /* as recorded; NULL: none, or a fresh kind */
  const char *offered; /* what this device offers, in words; of refused ones */
  bool refused, fresh, consumed, measured;
} ch_pin;

struct choices_pins {
  ch_arena memory;
  ch_pin *items;
  size_t n, n_refused;
  bool unknown_measured;
  char *text, *json; /* of a refusal */
};

/* "1, 2 or 4": the offers in words. */
const char *ch_offers_text(ch_arena *memory, const choices_need *need);

/* Makes the text and the JSON of E-CHOICE-001; false: out of memory. */
bool ch_refusal_make(choices_pins *pins, const choices_pinning *pinning);

#endif
