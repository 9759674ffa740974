/* --choices: the record a run is pinned to, and the level of reproduction that follows. On a device that makes no
 * choice of its own what can be taken of a record is checked all the same: a stacking other than 1 sums in another
 * order than it can. On one that chooses, chooser.h asks what is selected here. */
#ifndef TOOL_PINNING_H
#define TOOL_PINNING_H

#include "../../libchoices/choices.h"
#include "credentials.h"
#include "probes.h"

enum { TOOL_LEVEL_TEXT = 1024 };

typedef struct tool_pinning_options {
  const char *choices;        /* of --choices; NULL: none */
  const char *node_gradients; /* of SEXPGPU_NODE_GRADIENTS, "f32" or "bf16"; NULL: none */
  bool strict;                /* --deterministic */
  bool evaluates;             /* passes of evaluations, which are unstacked everywhere, on one node */
} tool_pinning_options;

typedef struct tool_pinning {
  tool_pinning_options options;
  choices_request request;
  choices_record *record;      /* that was asked for; NULL: none */
  choices_record *before;      /* the checkpoint's that the run goes on from; NULL: none */
  const choices_record *taken; /* the one in force; NULL: pinned to nothing */
  const char *taken_name;      /* for messages */
  choices_pins *pins;
  int level;
  char determinism[TOOL_LEVEL_TEXT]; /* the level and why, for reports */
} tool_pinning;

/* What is asked for, read whole, s3:// with the checkpoint role. All return the exit status of a failure, printed:
 * E-CHOICE-002, -004 to -009, -022, those of credentials and checkpoints. */
int tool_pinning_open(tool_pinning *pinning, const tool_pinning_options *options, tool_credentials *credentials);

/* Which record is in force. resumed: the choices object of the checkpoint that the run goes on from, which pins it
 * unless something else was asked for; NULL: none. May be called again. */
int tool_pinning_select(tool_pinning *pinning, const char *resumed);

/* Pins the record in force to what a run needs. E-CHOICE-001 with every choice that cannot be taken, E-CHOICE-005,
 * -006.
 */
int tool_pinning_pin(tool_pinning *pinning, const choices_device *device, const choices_need *needs, size_t n_needs,
                     choices_takes_function *takes, void *context);

/* The same for a run of that identity that makes no choice: a CPU's, a portable one. */
int tool_pinning_pin_none(tool_pinning *pinning, const choices_device *device, const char *identity);

/* Sets level and determinism. chooses: the device makes choices; store: why they are not remembered, NULL: they are;
 * probes: as they compare with the record's, NULL: none were made. */
void tool_pinning_judge(tool_pinning *pinning, const choices_device *device, bool chooses, const choices_error *store,
                        const tool_probes *probes);

/* All three for a device that makes no choices, for a program of that identity. */
int tool_pinning_take(tool_pinning *pinning, const char *device, const char *identity, const char *resumed);

/* At the end of the run: E-CHOICE-023. */
int tool_pinning_audit(const tool_pinning *pinning);

void tool_pinning_free(tool_pinning *pinning);

#endif
