/* For the harnesses of choices: a failure has a code and a message; what is printed reads back as the same. */
#ifndef FUZZ_CHOICES_H
#define FUZZ_CHOICES_H

#include <stdlib.h>
#include <string.h>

#include "../../libchoices/choices.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void fuzz_expect(bool holds) {
  if (!holds) abort();
}

static inline void fuzz_ignore(void *context, const choices_compared *compared) {
  fuzz_expect(compared->difference != CHOICES_EQUAL && compared->kind && compared->key);
  ++*(size_t *)context;
}

/* The text of a record parses as a record with that text and digest, which does not differ from it. */
static inline void fuzz_same_again(choices_record *record, const char *text) {
  choices_record *again = NULL;
  choices_error error;
  choices_comparison counts;
  size_t n_told = 0;
  fuzz_expect(choices_record_parse(&again, "again", text, strlen(text), &error) == CHOICES_OK);
  fuzz_expect(strcmp(choices_record_text(again), choices_record_text(record)) == 0);
  fuzz_expect(strcmp(choices_record_digest(again), choices_record_digest(record)) == 0);
  fuzz_expect(choices_record_compare(&counts, record, again, fuzz_ignore, &n_told, &error) == CHOICES_OK);
  fuzz_expect(n_told == 0 && !counts.facts_differ && counts.n_differ + counts.n_only_left + counts.n_only_right == 0);
  choices_record_free(again);
}

static inline void fuzz_pin(const choices_record *record) {
  const choices_row *rows = NULL;
  const choices_device *devices = NULL, here = {.device = "here"};
  const char *const offers[] = {"1"};
  size_t n = choices_record_rows(record, &rows);
  if (n == 0 || choices_record_devices(record, &devices) != 1) return;
  const choices_need need = {.kind = rows[0].kind, .key = rows[0].key, .offers = offers, .n_offers = 1};
  const choices_pinning pinning = {.record = record, .record_name = "r", .device = &here, .needs = &need, .n_needs = 1};
  choices_pins *pins = NULL;
  choices_error error;
  choices_status status = choices_pin(&pins, &pinning, &error);
  fuzz_expect(status == CHOICES_OK || error.code[0] == 'E');
  if (pins) fuzz_expect((status == CHOICES_OK) == (choices_pins_refusal(pins) == NULL));
  choices_pins_free(pins);
}

static inline void fuzz_record(const uint8_t *data, size_t size) {
  choices_record *record = NULL, *both = NULL;
  choices_error error;
  char *all = NULL;
  choices_status status = choices_record_parse(&record, "fuzz", data, size, &error);
  fuzz_expect((status == CHOICES_OK) == (record != NULL));
  if (!record) {
    fuzz_expect(error.status == status && error.code[0] == 'E' && error.message[0] && !strchr(error.message, '\n'));
    return;
  }
  fuzz_same_again(record, choices_record_text(record));
  fuzz_expect(choices_record_measurements(&all, record, &error) == CHOICES_OK);
  fuzz_same_again(record, all);
  fuzz_pin(record);
  if (choices_record_merge(&both, record, record, CHOICES_CONFLICT_REFUSE, &error) == CHOICES_OK)
    fuzz_expect(strcmp(choices_record_text(both), choices_record_text(record)) == 0);
  choices_record_free(both);
  choices_record_free(record);
  free(all);
}

#endif
