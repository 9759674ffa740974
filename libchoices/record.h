/* A record while it is built: devices, rows and costs in one arena. */
#ifndef CH_RECORD_H
#define CH_RECORD_H

#include "choices_record.h"
#include "json.h"
#include "memory.h"
#include "sha256.h"

/* A member of a choices object that is no decision: device, graph, one that this version does not know, … */
typedef struct ch_fact {
  const char *name, *text; /* plain, or JSON */
} ch_fact;

struct choices_record {
  ch_arena memory; /* holds every text of it */
  choices_device *devices;
  const char **device_extras; /* members of a device's header that are unknown, a JSON object; NULL: none */
  size_t n_devices, device_room, device_extra_room;
  choices_row *rows;
  size_t n_rows, row_room;
  choices_cost *costs;
  size_t n_costs, cost_room;
  choices_probe *probes;
  size_t n_probes, probe_room;
  bool is_object;
  choices_object object;
  unsigned maps;  /* kinds whose map stands in the object, empty or not */
  ch_fact *facts; /* sorted by name */
  size_t n_facts;
  const char **needed; /* members that the object says bear on bits */
  size_t n_needed;
  const char *object_text, *identity_text; /* of an object */
  char *text;                              /* made when asked for */
  char digest[CH_SHA256_TEXT];
};

choices_record *ch_record_new(void); /* NULL: out of memory */

/* The device with these facts, added where it is new; SIZE_MAX: out of memory. Texts are copied. */
size_t ch_record_device(choices_record *record, const choices_device *device, const char *extra);
/* Whether two devices are one to a key. */
int ch_device_compare(const choices_device *left, const choices_device *right);
bool ch_device_same(const choices_device *left, const choices_device *right);

/* Adds a row whose texts are in the record's arena already. False: out of memory. */
bool ch_record_add(choices_record *record, const choices_row *row);
bool ch_record_add_cost(choices_record *record, const choices_cost *cost);

/* probes.c. Reads the member "probes" of an object; expects text otherwise. */
bool ch_probes_read(choices_record *record, const char **expected, const json_t *probes);
/* The member "probes"; NULL: out of memory. */
json_t *ch_probes_json(const choices_object *object);
/* Of a record whose rows are sorted: values of an object's probes, probes of a stream's chosen candidates. False: out
 * of memory. */
bool ch_probes_finish(choices_record *record);

/* The texts of a row, its candidates too, copied into an arena. */
void ch_row_copy(choices_row *out, ch_arena *memory, const choices_row *row);

/* Order of rows within a device. */
int ch_row_compare(const choices_row *left, const choices_row *right);

/* Sorts all, keeps one of equal rows; E-CHOICE-017 where two of one key differ; E-CHOICE-003. On an error the record is
 * freed and *out NULL. */
choices_status ch_record_finish(choices_record **out, choices_record *record, const char *name, choices_error *error);

/* Fills a new record from a parsed choices object, or from lines of a stream; the caller finishes it. */
choices_status ch_object_read(choices_record *record, const char *name, const json_t *object, choices_error *error);
choices_status ch_stream_read(choices_record *record, const char *name, const json_t *line, size_t *device,
                              choices_error *error);
/* Canonical lines of a stream. */
void ch_stream_put(ch_text *to, const choices_record *record, bool measurements);
void ch_candidates_put(ch_text *to, const choices_row *row);
bool ch_candidates_read(choices_row *row, const char **expected, const json_t *list, ch_arena *memory);

/* Words of choices_state and choices_bits; a reader's -1: unknown word. */
const char *ch_state_word(choices_state state);
const char *ch_bits_word(choices_bits bits);
int ch_state_read(const char *word);
int ch_bits_read(const char *word);

#endif
