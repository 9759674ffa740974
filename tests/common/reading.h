/* For tests: a text read to datums, with what that needs. */
#ifndef TEST_READING_H
#define TEST_READING_H

#include "../../libsexp/base/text.h"
#include "../../libsexp/read/datum.h"

typedef struct reading {
  sx_memory memory;
  sx_arena arena;
  sx_intern names;
  sx_sources sources;
  sx_diags diags;
  sx_datums datums;
} reading;

/* Reads the bytes as the file "t.sexp"; freed by reading_free. */
reading *reading_of(const char *bytes, size_t n_bytes);
reading *reading_of_text(const char *text);
void reading_free(reading *reading);

/* All datums in canonical text, separated by newlines; in the reading's arena. */
const char *reading_print(reading *reading);
/* All diagnostics as a person reads them. */
const char *reading_errors(reading *reading);
/* Same kind and value, NaN equal to NaN and -0.0 different from 0.0, spans not compared. */
bool datum_equal(const sx_datum *a, const sx_datum *b);

#endif
