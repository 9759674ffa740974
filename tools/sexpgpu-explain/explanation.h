/* A compiled experiment and all that is known of how it would be computed here. */
#ifndef EXPLANATION_H
#define EXPLANATION_H

#include "../common/chooser.h"
#include "../common/experiment.h"
#include "../common/host.h"
#include "../common/kept.h"
#include "../common/pinning.h"
#include "settings.h"

typedef struct explanation {
  const explain_settings *settings;
  tool_credentials credentials;
  tool_files files;
  tool_kept *kept;
  sexp_host host;
  sexp_program *program;
  sexp_messages *messages;
  tool_pinning pinning;
  sexp_device *device; /* NULL: the CPU */
  sexp_run *run;       /* on the device, made ready alone */
  tool_chooser chooser;
  char store[TOOL_LEVEL_TEXT];
  tool_mode mode;
  sexp_engine engine; /* of the run that is explained */
  char *choices;      /* its choices object */
  char choices_digest[CKPT_SHA256_TEXT];
} explanation;

/* One JSON object (docs/schema/explain.json) on standard output. The exit status of a failure, printed. */
int explanation_print_json(const explanation *e);

#endif
