/* Writes checkpoints beside the training: the tensors are copied, and a thread of its own hashes, writes, fsyncs,
 * publishes and prunes. One checkpoint at a time. */
#ifndef RUN_WRITER_H
#define RUN_WRITER_H

#include <pthread.h>
#include <stdatomic.h>

#include "../common/experiment.h"
#include "../common/sink.h"

/* How a checkpoint went. */
typedef struct run_written {
  int64_t step;
  bool good;
  ckpt_written written; /* where good */
  ckpt_error error;     /* where not */
  double copy_s, write_s;
} run_written;

typedef struct run_writer {
  tool_experiment *experiment; /* borrowed; the thread's own while it runs */
  const tool_sink *sink;       /* borrowed; its records are made durable before a checkpoint that follows them */
  ckpt_location *location;     /* borrowed, of the checkpoint under way */
  int64_t keep;
  unsigned char *snapshot; /* owned; NULL: all are written from the run's own tensors */
  pthread_t thread;
  bool running; /* from the start to the join */
  atomic_bool ended;
  char created[32];
  run_written result; /* valid from the join on */
} run_writer;

/* Takes the memory of the snapshot, and touches it, so that no step has to. TOOL_STORAGE, printed, if there is none. */
int run_writer_take_snapshot(run_writer *writer, const sexp_run *run);
void run_writer_free(run_writer *writer);

/* Copies the tensors and starts a thread; where none can be started, writes at once. Nothing may be under way. */
void run_writer_start(run_writer *writer, const sexp_run *run, ckpt_location *location);
/* Whether what was started has come to its end; a join does not wait then. */
bool run_writer_ended(const run_writer *writer);
void run_writer_join(run_writer *writer);
/* Writes the run's own tensors before it returns. Nothing may be under way. */
void run_writer_write(run_writer *writer, const sexp_run *run, ckpt_location *location);

#endif
