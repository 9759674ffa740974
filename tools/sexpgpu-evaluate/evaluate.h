/* Evaluating checkpoints one after another, and telling of each. */
#ifndef EVALUATE_EVALUATE_H
#define EVALUATE_EVALUATE_H

#include "../common/records.h"
#include "../common/seen.h"
#include "../common/sink.h"
#include "../common/status.h"
#include "settings.h"
#include "subject.h"

typedef struct evaluator {
  const evaluate_settings *settings;
  tool_credentials credentials;
  ckpt_s3 *s3; /* of the place; NULL: it is local */
  tool_pinning pinning;
  subject subject;
  tool_sink sink;
  tool_seen *seen;
  tool_records records;
  tool_status status;
  char last[32]; /* "step-100", for the status */
  int64_t n_evaluated, n_recorded;
  bool is_on_terminal; /* standard error is, and words are wanted */
  bool ended;          /* the run's last step was come to */
} evaluator;

/* Why a checkpoint was not evaluated. */
typedef enum outcome {
  EVALUATED,  /* or recorded already */
  UNVERIFIED, /* *error says why; nothing was printed */
  FAILED,     /* printed; *status: the exit status it means; others may do */
  FATAL       /* the same, and no other will do */
} outcome;

/* Opens the metrics. The exit status of a failure, printed. */
int evaluator_open(evaluator *e);
/* Takes the checkpoint over. */
outcome evaluator_take(evaluator *e, ckpt_checkpoint *checkpoint, int *status, ckpt_error *error);
void evaluator_close(evaluator *e);

#endif
