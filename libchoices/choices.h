/* libchoices: what a run decides by measuring, remembered, carried and pinned.
 *
 * A choice is a decision that can move bits and that is made from the machine rather than from the experiment: the
 * stacking degree, a convolution's engine, a long product's implementation, the recompute budget. It is measured once,
 * stored, and then what is stored is used; it is recorded in checkpoints; a run can be pinned to a record.
 *
 * Functions return a status and fill *error, which may be NULL. Nothing here prints, exits or reads the environment.
 * An object is used by one thread at a time. Texts are UTF-8; a pointer returned is borrowed, a pointer to a pointer
 * is owned. */
#ifndef CHOICES_H
#define CHOICES_H

#include "choices_record.h"
#include "choices_status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what a run asks for -------------------------------------------------------------------------------------------
 */

/* The value of --choices or SEXPGPU_CHOICES. */
typedef struct choices_request {
  const char *record; /* file, directory, "-"; NULL: none. Borrowed from the text */
  bool fresh;         /* "fresh": choose again, a resume too */
  unsigned kinds;     /* "fresh:convolutions,stacking": bit i is choices_kinds()[i]; 0: all of them */
} choices_request;

/* E-CHOICE-022 for a kind that does not exist. text NULL: nothing asked for. */
choices_status choices_request_parse(choices_request *out, const char *text, choices_error *error);

/* What --deterministic contradicts: a record (E-CHOICE-002), bf16 gradients between nodes (E-CHOICE-002). */
choices_status choices_request_check(const choices_request *request, bool deterministic, bool bf16_between_nodes,
                                     choices_error *error);

/* ---- pinning
 * --------------------------------------------------------------------------------------------------------- */

/* A choice that a run needs, with what this device offers for it. */
typedef struct choices_need {
  const char *kind, *key;
  const char *const *offers; /* the values that can be taken; NULL: `takes` decides alone */
  size_t n_offers;
  const char *offered; /* in words, for the refusal: "1, 2 or 4 fit in 38.1 GiB"; NULL: made from the offers */
} choices_need;

/* Whether the device takes a value. `words` may be filled with what it offers instead, in words. */
typedef bool choices_takes_function(void *context, const choices_need *need, const char *value, char *words,
                                    size_t n_words);

typedef struct choices_pinning {
  const choices_record *record; /* of one device, else E-CHOICE-006 */
  const char *record_name;      /* for messages */
  const choices_device *device; /* this one */
  const choices_need *needs;
  size_t n_needs;
  unsigned fresh;                /* kinds that are chosen again: choices_request.kinds */
  choices_takes_function *takes; /* NULL: a value is taken that stands among the offers */
  void *context;
} choices_pinning;

typedef struct choices_pins choices_pins;

/* Every need gets its recorded value, or none does: CHOICES_REFUSED with E-CHOICE-001, and *out tells all of them.
 * A record from before products were recorded gives them "ordinary". *out is owned in both cases, NULL in others
 * (E-CHOICE-005: the record needs what this version does not know; E-CHOICE-006). */
choices_status choices_pin(choices_pins **out, const choices_pinning *pinning, choices_error *error);
void choices_pins_free(choices_pins *pins);

/* The refusal for people (several lines, the first with its code) and as one JSON object. NULL: nothing was refused. */
const char *choices_pins_refusal(const choices_pins *pins);
const char *choices_pins_refusal_json(const choices_pins *pins);

/* Takes the pinned value of a need, which counts as consumed; NULL: to be chosen (a fresh kind), or no such need. */
const char *choices_pins_take(choices_pins *pins, const char *kind, const char *key);
/* Notes that a choice was measured: right only of a fresh kind. */
void choices_pins_note_measured(choices_pins *pins, const char *kind, const char *key);
/* Says whether every need was consumed and nothing pinned was measured: else E-CHOICE-023, naming the first. */
choices_status choices_pins_audit(const choices_pins *pins, choices_error *error);

/* ---- the level of reproduction
 * ----------------------------------------------------------------------------------------- */

typedef struct choices_run {
  const choices_device *device; /* this one */
  bool chooses;                 /* false: it makes no choice (the CPU) */
  int64_t numerics;             /* of a device that makes none */
  bool deterministic;
  const char *resumed;        /* device of the checkpoint that it goes on from, "" unknown; NULL: starts anew */
  const char *recorded;       /* device of the record that it is pinned to; NULL: of none */
  unsigned fresh_kinds;       /* chosen again although there is a record: choices_request.kinds */
  size_t n_probes, n_match;   /* bit probes made and equal; 0 0: none */
  const char *mismatch;       /* what the first unequal probe is of; NULL: none */
  const choices_error *store; /* why choices are not remembered; NULL: they are */
} choices_run;

/* Whether facts of two devices give the same bits: equal texts, or both end in ", numerics N" with one N, as they then
 * rest on that version alone, whatever the devices are. */
bool choices_same_bits(const char *left, const char *right);

/* 1, 2 or 3, and the words that follow it in the determinism line: "2: any CPU repeats …". */
int choices_level(char *words, size_t n_words, const choices_run *run);

/* ---- the store
 * ------------------------------------------------------------------------------------------------------------ */

typedef struct choices_store choices_store;

typedef enum choices_journal { CHOICES_JOURNAL_AUTO, CHOICES_JOURNAL_WAL, CHOICES_JOURNAL_ROLLBACK } choices_journal;
typedef enum choices_access {
  CHOICES_USE,  /* made where it is missing; read alone where it cannot be written */
  CHOICES_READ, /* read alone; a missing one is empty */
  CHOICES_WRITE /* made where it is missing; must be writable */
} choices_access;

typedef struct choices_store_options {
  const char *path;        /* NULL: there is no place for one, E-CHOICE-016 */
  const char *system_path; /* a layer under it that is only read; NULL: none */
  choices_access access;
  choices_journal journal; /* AUTO: write-ahead log; rollback on network file systems */
  int busy_ms;             /* how long to wait for another process; 0: 10 000 */
} choices_store_options;

/* Opens, makes or migrates. Directories are made with mode 0700, the file with 0600. A file that is no store, is
 * corrupt or of a later version is refused and left as it is. Errors E-CHOICE-010 to 016: a run goes on without. */
choices_status choices_store_open(choices_store **out, const choices_store_options *options, choices_error *error);
void choices_store_close(choices_store *store);

typedef struct choices_store_facts {
  const char *path, *system_path; /* NULL: none */
  const char *journal;            /* "wal", "delete"; "none" of a store that is only read without locks */
  bool writable, network;
  int64_t version, n_choices, n_devices; /* of the path's own layer */
  choices_error warning; /* why it cannot be written, or why the system layer is not used; code "" for none */
} choices_store_facts;
choices_status choices_store_look(choices_store_facts *out, choices_store *store, choices_error *error);

typedef struct choices_executable {
  const char *build_id; /* hexadecimal; NULL: it has none, and size and time stand for it */
  int64_t n_bytes, modified_s;
} choices_executable;
enum { CHOICES_BUILD_ID_TEXT = 136, CHOICES_IDENTITY_TEXT = 160 };
/* Of a file, as "/proc/self/exe"; the build-id is put in `room`. Errors: E-CHOICE-008. */
choices_status choices_executable_read(choices_executable *out, char room[CHOICES_BUILD_ID_TEXT], const char *path,
                                       choices_error *error);
/* "build-id …", or "size … modified …" where there is none. */
void choices_executable_identity(char out[CHOICES_IDENTITY_TEXT], const choices_executable *executable);

/* What a choice is remembered under: every field, but for the exempt ones (docs/choices.md has the list). */
typedef struct choices_key {
  const choices_device *device;
  const char *kind, *key;
  const choices_executable *executable; /* taken where the kind's key holds it; may be NULL otherwise */
  const char *mode; /* modes that are no fact of the device: "optimize off"; NULL or "": the ordinary ones */
} choices_key;

/* The row of a key, of the path's layer or else of the system's; *out is NULL where there is none. The record is owned
 * and holds the row. A NULL store has none. */
choices_status choices_store_lookup(choices_record **out, choices_store *store, const choices_key *key,
                                    choices_error *error);

/* Inserts a decision unless there is one, in one transaction, and reads it back: *out is what all use from now on.
 * Of the row kind, key, device and executable are ignored: they come from the key. */
choices_status choices_store_decide(choices_record **out, choices_store *store, const choices_key *key,
                                    const choices_row *row, choices_error *error);

/* Whether a candidate was rejected for good. */
choices_status choices_store_is_rejected(bool *out, choices_store *store, const choices_key *key, const char *value,
                                         choices_error *error);

/* A timing of the cost model: kept the first time, read back. Not found: *time_ns is -1. */
choices_status choices_store_cost(int64_t *time_ns, choices_store *store, const choices_device *device, const char *key,
                                  choices_error *error);
choices_status choices_store_keep_cost(int64_t *time_ns, choices_store *store, const choices_device *device,
                                       const char *key, int64_t measured_ns, choices_error *error);

typedef struct choices_filter {
  const char *device, *kind, *key; /* equal texts; NULL: any */
} choices_filter;

/* All rows as a record: what is exported and listed. The system's stand beneath the path's own. */
choices_status choices_store_record(choices_record **out, choices_store *store, const choices_filter *filter,
                                    bool measurements, choices_error *error);

typedef struct choices_imported {
  size_t n_added, n_same, n_kept, n_replaced;
} choices_imported;
/* All rows of a record, or none: one transaction. Another value under a key of the store is a conflict: E-CHOICE-017.
 */
choices_status choices_store_import(choices_imported *out, choices_store *store, const choices_record *record,
                                    choices_conflict conflict, choices_error *error);

/* Removes what the filter matches and, of the two limits, what is measured before `older_than` ("2026-11-29T…", NULL:
 * any time) and by an executable whose identity is none of `executables` (n 0: any). Devices without rows go too. */
typedef struct choices_removal {
  choices_filter filter;
  const char *older_than;
  const char *const *executables;
  size_t n_executables;
} choices_removal;
choices_status choices_store_remove(size_t *n_removed, choices_store *store, const choices_removal *removal,
                                    choices_error *error);

/* Reads all of it: SQLite's integrity check, foreign keys, the schema, every value. `tell` is called for each problem;
 * *n_problems is their number. */
typedef void choices_problem_function(void *context, const char *problem);
choices_status choices_store_check(size_t *n_problems, choices_store *store, choices_problem_function *tell,
                                   void *context, choices_error *error);

/* ---- measuring
 * -------------------------------------------------------------------------------------------------------------- */

typedef enum choices_ran { CHOICES_RAN, CHOICES_RAN_OUT_OF_MEMORY, CHOICES_RAN_REFUSED } choices_ran;

typedef struct choices_measuring {
  const choices_key *key;
  const char *const *values; /* the candidates, in the heuristic's order; more than the kind's `most` are left out */
  size_t n_values;
  int rounds; /* 0: 7 */
  /* Does the candidate's work once, to its end. */
  choices_ran (*run)(void *context, size_t candidate);
  /* Runs it on the fixed input of the probe and gives a digest of the output. NULL: it has no output of its own, none
   * is rejected, and whether bits move is unknown. */
  choices_ran (*probe)(void *context, size_t candidate, uint64_t *digest);
  int64_t (*now_ns)(void *context);
  void *context;
  const char *measured, *tool; /* time and tool that are stored with the decision; NULL: none */
} choices_measuring;

typedef struct choices_decision {
  size_t index;       /* the candidate to use */
  const char *value;  /* borrowed from values */
  const char *reason; /* static: "remembered", "the only candidate", "ahead", "first: none is ahead by enough" */
  bool hit, stored;   /* found in the store; another process may have stored it */
  double ahead;       /* of the first candidate, negative: not measured */
  choices_bits bits;
  bool has_probe; /* of the candidate to use: as measured, or as remembered */
  uint64_t probe;
  choices_candidate *candidates; /* as measured; owned, n of them; NULL for a hit */
  size_t n_candidates;
  int64_t *samples_ns;   /* what the candidates' samples point into; owned */
  choices_error warning; /* why it is not remembered; code "" where it is */
} choices_decision;

/* Looks the key up; else runs every candidate twice on the probe's input (unequal outputs reject it for good), times
 * the rest in interleaved rounds (odd ones backwards), and takes the first in order that the fastest is not ahead of by
 * the kind's margin and by more than both spreads; stores the decision, and takes what is then in the store. The same
 * clock gives the same decision. store NULL: nothing is remembered.
 * Errors: E-CHOICE-018 (no candidate is left), E-CHOICE-019 (one does not fit the memory: its workspace is capped, so
 * that the decision would depend on what else is running). */
choices_status choices_measure(choices_decision *out, choices_store *store, const choices_measuring *measuring,
                               choices_error *error);
void choices_decision_free(choices_decision *decision);

/* Median, and spread: the distance between the quartiles. n at least 1; sorts samples_ns. */
void choices_statistics(int64_t *median_ns, int64_t *spread_ns, int64_t *samples_ns, size_t n);

/* The cost model's pick: the candidate that is ahead of every other by more than 5 percent, or -1: measure. */
int choices_cost_pick(const double *estimated_ns, size_t n);

/* A 64-bit digest of bytes (the first of their SHA-256): of outputs of probes. */
choices_status choices_probe_digest(uint64_t *out, const void *bytes, size_t n_bytes, choices_error *error);

#ifdef __cplusplus
}
#endif
#endif
