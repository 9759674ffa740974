/* The table of kinds, and values in their two forms: plain text, and JSON as records and stores hold it. */
#ifndef CH_KINDS_H
#define CH_KINDS_H

#include "choices_record.h"
#include "json.h"

/* Where a kind stands in choices_kinds(); -1: unknown. */
int ch_kind_index(const char *name);

/* The value of a JSON value: its text and whether that is JSON. *expected is set, and false given, where the kind does
 * not take it. Of an unknown kind anything is taken. Memory: arena->failed. */
bool ch_value_read(const char **value, bool *is_json, const char **expected, const char *kind, const json_t *json,
                   ch_arena *arena);
void ch_value_put(ch_text *to, const char *value, bool is_json);

#endif
