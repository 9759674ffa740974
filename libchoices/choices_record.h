/* Records of choices: the choices object of a run, and the stream that a store exports. Included by choices.h.
 *
 *     choices_record *record = NULL;
 *     if (choices_record_read(&record, "runs/tiny/step-100", &error) != CHOICES_OK) …   // or a file, or "-"
 *     puts(choices_record_text(record));
 *     choices_record_free(record);
 *
 * A record is read from: a choices object; an experiment.json, or the directory of a checkpoint that holds one; a
 * `lowering` annotation or its metadata; a metrics stream (its last lowering annotation or manifest); an export stream
 * (JSON Lines); a store (a SQLite file). Members that this version does not know are kept and printed again.
 *
 * Printing is canonical: the same decisions are the same bytes. Members of an object are sorted by their bytes, numbers
 * are the shortest that read back, a line has ", " and ": " as separators. */
#ifndef CHOICES_RECORD_H
#define CHOICES_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "choices_status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what is decided ------------------------------------------------------------------------------------------- */

/* A kind of choice. In stores and streams a kind goes by `name`, in choices objects and on command lines by `member`.
 */
typedef struct choices_kind {
  const char *name, *member; /* "convolution", "convolutions" */
  bool is_map;               /* one value a key; else one a run */
  bool is_text;              /* the value is text; else a number (or null) */
  bool by_executable;        /* its key holds the executable that measured it */
  double margin;             /* how far ahead the fastest must be of the first candidate: 0.01 is one percent */
  size_t most;               /* candidates that are measured at most; 0: all */
} choices_kind;

/* By name or member; NULL: unknown to this version. */
const choices_kind *choices_kind_find(const char *name);
/* All, in the order of their names. */
const choices_kind *choices_kinds(size_t *n_out);

/* The facts of a device that a choice was made on. All but the GPU's name are part of every key. */
typedef struct choices_device {
  const char *device;      /* "compute_90 with 132 multiprocessors, cuBLAS 130101, …": what level 2 needs to hold */
  const char *gpu;         /* the marketing name; NULL: unknown. In no key: equal silicon has several */
  const char *libraries;   /* names and versions as loaded, a JSON object; NULL: unknown */
  int64_t driver;          /* the driver's API version; 0: unknown */
  int64_t capability;      /* compute capability: 90; 0: unknown */
  int64_t multiprocessors; /* as seen by the process (MIG, MPS); 0: unknown */
} choices_device;

typedef enum choices_bits { CHOICES_BITS_UNKNOWN, CHOICES_BITS_NEUTRAL, CHOICES_BITS_MOVE } choices_bits;

typedef enum choices_state {
  CHOICES_MEASURED,
  CHOICES_REJECTED,      /* two outputs for one input differ: never taken again */
  CHOICES_OUT_OF_MEMORY, /* it did not fit */
  CHOICES_FAILED         /* the device refused it */
} choices_state;

/* What was measured of one candidate. */
typedef struct choices_candidate {
  const char *value;
  bool is_json; /* as in choices_row */
  choices_state state;
  bool has_probe;
  uint64_t probe; /* digest of its output on the probe's input */
  const int64_t *samples_ns;
  size_t n_samples;
} choices_candidate;

/* One decision. */
typedef struct choices_row {
  size_t device;          /* which of the record's devices */
  const char *kind, *key; /* key "": the one value that a choices object has of this kind */
  const char *executable; /* identity of the executable, where the key holds it; else "" */
  const char *mode;       /* the modes that are part of the key, "" for the ordinary ones */
  const char *value;      /* "split 8", "4" */
  bool is_json;           /* value is JSON that is no string (a number, null); else plain text */
  /* How it was decided; not part of the decision. */
  const char *measured, *tool, *reason;              /* "2026-11-29T12:00:00Z", what measured it, why; NULL: unknown */
  double ahead;                                      /* of the runner-up: 0.072 is 7.2 percent; negative: unknown */
  choices_bits bits;                                 /* whether candidates' outputs differ */
  int64_t executable_n_bytes, executable_modified_s; /* 0: unknown */
  const choices_candidate *candidates;
  size_t n_candidates;
  const char *origin; /* of rows read from a store: "user" or "system"; else NULL */
  const char *extra;  /* members unknown to this version, a JSON object; NULL: none */
} choices_row;

/* A bit probe: the digest of what a choice, or a library that decides by itself, computes on a fixed input. Equal
 * probes are evidence for equal bits, and no proof. */
typedef struct choices_probe {
  const char *kind, *key; /* "convolution"; "product", of one that is chosen or of one that the device decides */
  const char *value;      /* what the record chooses for it; NULL: the device decides */
  uint64_t digest;
} choices_probe;

/* A timing of the cost model. */
typedef struct choices_cost {
  size_t device;
  const char *key;
  int64_t time_ns;
} choices_cost;

/* ---- records ----------------------------------------------------------------------------------------------------- */

typedef struct choices_record choices_record;

/* Reads the file, directory or (path "-") standard input. Errors: E-CHOICE-004 to 009. */
choices_status choices_record_read(choices_record **out, const char *path, choices_error *error);
/* The same of bytes; `name` is for messages. */
choices_status choices_record_parse(choices_record **out, const char *name, const void *bytes, size_t n_bytes,
                                    choices_error *error);
void choices_record_free(choices_record *record);

size_t choices_record_devices(const choices_record *record, const choices_device **out);
/* Sorted by device, kind, key, executable and mode. */
size_t choices_record_rows(const choices_record *record, const choices_row **out);
size_t choices_record_costs(const choices_record *record, const choices_cost **out);
/* Those of a choices object; of an export with measurements and of a store, those of the values that were chosen. */
size_t choices_record_probes(const choices_record *record, const choices_probe **out);

/* What a choices object says beside its decisions. */
typedef struct choices_object {
  const char *device;
  const char *graph; /* identity of the training graphs; NULL: none recorded */
  int64_t numerics;  /* 0: none recorded */
  bool strict, portable;
  const choices_probe *probes; /* for choices_record_make */
  size_t n_probes;
} choices_object;
/* NULL: the record is a stream or a store. */
const choices_object *choices_record_object(const choices_record *record);

/* The choices object of a run: what it records of itself. Of the rows kind, key, value and is_json are taken; a kind
 * that is a map and has no row stands as an empty map where `maps` names it (NULL: none), as "products". */
choices_status choices_record_make(choices_record **out, const choices_object *object, const choices_row *rows,
                                   size_t n_rows, const char *const *maps, size_t n_maps, choices_error *error);

/* The row of a kind and key; for a kind of one value a run, `key` NULL takes the record's only one. NULL: none.
 * Of records of one device. */
const choices_row *choices_record_find(const choices_record *record, const char *kind, const char *key);

/* Only the rows of one device (its text, or the index as a decimal number with '#': "#2") and kind; either NULL: any.
 * E-CHOICE-007 where no device is of that text. */
choices_status choices_record_select(choices_record **out, const choices_record *record, const char *device,
                                     const char *kind, choices_error *error);

/* Canonical text, borrowed: the object as one line without its end, or the stream's lines. NULL: out of memory. */
const char *choices_record_text(choices_record *record);
/* The same with candidates, timings and times, owned. */
choices_status choices_record_measurements(char **out, const choices_record *record, choices_error *error);

/* SHA-256 of the canonical text without timings, hosts and dates: equal digests, equal decisions. Borrowed;
 * NULL: out of memory. */
const char *choices_record_digest(choices_record *record);

typedef enum choices_conflict {
  CHOICES_CONFLICT_REFUSE,
  CHOICES_CONFLICT_KEEP,
  CHOICES_CONFLICT_REPLACE
} choices_conflict;
/* Both records as one; another value under one key is a conflict: E-CHOICE-017, or the first's or the second's. Of
 * streams and stores: E-CHOICE-007 for objects. */
choices_status choices_record_merge(choices_record **out, const choices_record *first, const choices_record *second,
                                    choices_conflict conflict, choices_error *error);

/* ---- differences ---------------------------------------------------------------------------------------------------
 */

typedef enum choices_difference {
  CHOICES_EQUAL,
  CHOICES_VALUES_DIFFER,
  CHOICES_ONLY_LEFT,
  CHOICES_ONLY_RIGHT
} choices_difference;

/* Of one key; rows are NULL for the device facts (kind "device") and other members of an object (kind "graph", …),
 * whose texts are left and right. */
typedef struct choices_compared {
  choices_difference difference;
  const char *device; /* the device it is of; "" where both records have one device */
  const char *kind, *key;
  const char *left, *right; /* plain values; NULL: none */
} choices_compared;

typedef void choices_compare_function(void *context, const choices_compared *compared);
typedef struct choices_comparison {
  size_t n_compared, n_differ, n_only_left, n_only_right; /* of decisions */
  bool facts_differ;                                      /* device, strict, graph, … */
} choices_comparison;

/* Calls `tell` for each difference in a stable order: facts first, then by device, kind and key. */
choices_status choices_record_compare(choices_comparison *out, const choices_record *left, const choices_record *right,
                                      choices_compare_function *tell, void *context, choices_error *error);

/* The members of a key: "Weight Spec { batch: 512 } bf16" has role Weight, batch 512, dtype bf16; "graph X candidates
 * 1 2" has graph X, candidates "1 2". The first `most` are told; the number that there are. A key of another form is
 * one member, "key". Names and values are borrowed from `room`, which holds a copy of the key. */
typedef struct choices_member {
  const char *name, *value;
} choices_member;
size_t choices_key_members(choices_member *out, size_t most, char *room, size_t n_room, const char *key);

#ifdef __cplusplus
}
#endif
#endif
