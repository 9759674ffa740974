/* Who decides the choices of a run on a device that makes them: a record that it is pinned to, the fixed rules of
 * --deterministic, or measuring, remembered in the store. */
#ifndef TOOL_CHOOSER_H
#define TOOL_CHOOSER_H

#include "../../libsexp/sexp.h"
#include "choices.h"
#include "pinning.h"
#include "probes.h"

enum { TOOL_MODE_TEXT = 64 };

typedef struct tool_chooser {
  sexp_chooser calls; /* for sexp_run_options.chooser; the object must not be moved */
  tool_pinning *pinning;
  choices_device device; /* facts of the device, borrowed from it */
  const char *identity;  /* of the training graphs */
  bool portable, looks;  /* no choice moves its bits; nothing is measured */
  char mode[TOOL_MODE_TEXT];
  const char *tool;
  choices_executable executable;
  char build_id[CHOICES_BUILD_ID_TEXT];
  bool looked;            /* whether the store was opened: a run that measures nothing reads none */
  choices_store *store;   /* NULL: none */
  choices_error unstored; /* why choices are not remembered; code "": they are */
  char **values;          /* decided; owned */
  size_t n_values, n_values_room;
  tool_probes known;  /* measured or remembered */
  tool_probes probes; /* of the run */
  size_t n_remembered, n_measured, n_unmeasured;
  const char *stacking; /* how it was decided, where it was not remembered: "by the cost model"; NULL: it was, or there
                         * was nothing to decide */
  int status;           /* exit status of a failure that was printed; TOOL_DONE: none was */
} tool_chooser;

typedef struct tool_chooser_options {
  const char *tool, *identity;
  const char *runs; /* whose memory of measurements is looked at: a tool beside this one; NULL: this one's own */
  bool optimize, portable;
  bool looks; /* measures nothing: takes what is remembered, else the first candidate */
} tool_chooser_options;

/* pinning is open, with the record in force selected (tool_pinning_select). The device outlives the chooser. */
void tool_chooser_open(tool_chooser *chooser, tool_pinning *pinning, const sexp_device *device,
                       const tool_chooser_options *options);
/* Once the run is made: probes what it decided, and compares with the record that it is pinned to. Under portable
 * nothing is probed. */
void tool_chooser_probe(tool_chooser *chooser, sexp_device *device, const sexp_run *run);
/* The level and its words in pinning->determinism, once the run is made. */
void tool_chooser_judge(tool_chooser *chooser);
/* Of the store, for the report: its path, what was remembered and what measured, or why there is none. "" where none
 * was asked. */
void tool_chooser_store_line(const tool_chooser *chooser, char *line, size_t n_line);
void tool_chooser_free(tool_chooser *chooser);

#endif
