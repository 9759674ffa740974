#include "writer.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "../common/clock.h"
#include "../common/failure.h"

enum { ALIGNMENT = 64 };

static size_t room_of(size_t n_bytes) { return (n_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

int run_writer_take_snapshot(run_writer *writer, const sexp_run *run) {
  const sexp_tensor *tensors = NULL;
  size_t n = sexp_run_tensors(run, &tensors), n_bytes = ALIGNMENT;
  for (size_t i = 0; i < n; i++) n_bytes += room_of(tensors[i].n_bytes);
  writer->snapshot = aligned_alloc(ALIGNMENT, n_bytes);
  if (!writer->snapshot) return tool_no_memory();
  memset(writer->snapshot, 0, n_bytes);
  return TOOL_DONE;
}

void run_writer_free(run_writer *writer) {
  if (writer->running) run_writer_join(writer);
  free(writer->snapshot);
  writer->snapshot = NULL;
}

/* The position, and the run's tensors as they are; what is written from now on is told of them. */
static void take_up(run_writer *writer, const sexp_run *run, ckpt_location *location) {
  writer->location = location;
  tool_experiment_update(writer->experiment, run);
  tool_clock_text(writer->created);
  writer->result = (run_written){.step = writer->experiment->record.step};
}

static void copy(run_writer *writer, const sexp_run *run) {
  double began_s = tool_clock_s();
  tool_experiment *experiment = writer->experiment;
  const sexp_tensor *tensors = NULL;
  size_t n = sexp_run_tensors(run, &tensors), n_parameters = experiment->record.n_parameters;
  unsigned char *to = writer->snapshot;
  for (size_t i = 0; i < n; i++) {
    ckpt_array *array = i < n_parameters ? &experiment->parameters[i] : &experiment->states[i - n_parameters];
    if (tensors[i].n_bytes) memcpy(to, tensors[i].bytes, tensors[i].n_bytes);
    array->data = to;
    to += room_of(tensors[i].n_bytes);
  }
  writer->result.copy_s = tool_clock_s() - began_s;
}

/* A checkpoint stands for the records up to its step: they are on the disk before it is. */
static void write_all(run_writer *writer) {
  double began_s = tool_clock_s();
  ckpt_write_options options = CKPT_WRITE_OPTIONS;
  ckpt_experiment record = writer->experiment->record;
  run_written *result = &writer->result;
  options.keep = writer->keep;
  record.created = writer->created;
  tool_sink_sync(writer->sink);
  result->good =
      ckpt_checkpoint_write(&result->written, writer->location, &record, &options, &result->error) == CKPT_OK;
  result->write_s = tool_clock_s() - began_s;
}

static void *run_thread(void *context) {
  run_writer *writer = context;
  write_all(writer);
  atomic_store(&writer->ended, true);
  return NULL;
}

/* Signals are the main thread's: none interrupts a call of the writer's. */
static bool start_thread(run_writer *writer) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = pthread_create(&writer->thread, NULL, run_thread, writer) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return started;
}

void run_writer_start(run_writer *writer, const sexp_run *run, ckpt_location *location) {
  take_up(writer, run, location);
  copy(writer, run);
  atomic_store(&writer->ended, false);
  writer->running = start_thread(writer);
  if (writer->running) return;
  write_all(writer);
  atomic_store(&writer->ended, true);
}

bool run_writer_ended(const run_writer *writer) { return atomic_load(&writer->ended); }

void run_writer_join(run_writer *writer) {
  pthread_join(writer->thread, NULL);
  writer->running = false;
}

void run_writer_write(run_writer *writer, const sexp_run *run, ckpt_location *location) {
  take_up(writer, run, location);
  write_all(writer);
}
