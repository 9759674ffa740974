/* Reads any bytes; what reads without error must print, read again to equal datums and print the same.
 * Diagnostics of what does not are printed too. */
#include <stdlib.h>
#include <string.h>

#include "../common/reading.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool holds) {
  if (!holds) abort();
}

static void expect_same(reading *first) {
  const char *printed = reading_print(first);
  reading *second = reading_of_text(printed);
  expect(second->diags.n_errors == 0 && second->datums.n == first->datums.n);
  for (uint32_t i = 0; i < first->datums.n; i++) expect(datum_equal(first->datums.items[i], second->datums.items[i]));
  expect(strcmp(printed, reading_print(second)) == 0);
  reading_free(second);
}

/* Spans lie in the text and in the span of what holds them, in order. */
static void expect_spans(const sx_datum *datum, uint32_t n_bytes) {
  expect(datum->span.begin < datum->span.end && datum->span.end <= n_bytes);
  if (datum->kind < SX_DATUM_LIST) return;
  uint32_t from = datum->span.begin + 1;
  for (uint32_t i = 0; i < datum->n; i++) {
    const sx_datum *item = datum->items[i];
    expect(item->span.begin >= from && item->span.end <= datum->span.end);
    expect_spans(item, n_bytes);
    from = item->span.end;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  reading *first = reading_of((const char *)data, size);
  expect((first->diags.n_errors == 0) == (reading_errors(first)[0] == 0));
  reading_print(first);
  if (first->diags.n_errors == 0) {
    for (uint32_t i = 0; i < first->datums.n; i++) expect_spans(first->datums.items[i], (uint32_t)size);
    expect_same(first);
  }
  reading_free(first);
  return 0;
}
