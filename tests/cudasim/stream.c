/* Streams' work and the order in which it runs. */
#include <stdlib.h>
#include <string.h>

#include "driver.h"

static sim_stream *streams; /* those that work may be on, the youngest first */
static sim_stream *legacy[16];
static uint64_t n_ops;
static sim_clock host_clock; /* what the host has waited for */
static bool slot_taken[SIM_N_SLOTS];
static unsigned n_slots_taken;

bool sim_race_possible(void) { return n_slots_taken > 1 && sim_races_watched(); }

sim_stream *sim_stream_each(sim_stream *after) { return after ? after->next : streams; }

/* ---- streams -------------------------------------------------------------------------------------- */

static int take_slot(void) {
  for (int i = 0; i < SIM_N_SLOTS; i++) {
    if (slot_taken[i]) continue;
    slot_taken[i] = true;
    n_slots_taken++;
    return i;
  }
  return -1;
}

sim_stream *sim_stream_make(unsigned flags, bool hidden) {
  sim_stream *stream = sim_allocate(sizeof *stream);
  if (hidden)
    stream->object = (sim_object){.kind = SIM_KIND_STREAM, .alive = true, .device = sim_context_device()};
  else
    sim_object_add(stream, SIM_KIND_STREAM);
  stream->flags = flags;
  stream->hidden = hidden;
  stream->slot = take_slot();
  stream->next = streams;
  streams = stream;
  return stream;
}

static sim_stream *legacy_of(int device) {
  if (!legacy[device]) legacy[device] = sim_stream_make(CU_STREAM_DEFAULT, true);
  return legacy[device];
}

static bool is_legacy(CUstream handle) { return handle == NULL || handle == CU_STREAM_LEGACY; }

sim_stream *sim_stream_of(CUstream handle) {
  if (is_legacy(handle)) return legacy_of(sim_context_device());
  sim_stream *stream = sim_object_of(handle, SIM_KIND_STREAM);
  if (stream && stream->object.device != sim_context_device()) {
    sim_refuse(CUDA_ERROR_INVALID_HANDLE, "stream %u is of device %d, the current one is %d", stream->object.number,
               stream->object.device, sim_context_device());
    return NULL;
  }
  return stream;
}

static void unlink_stream(sim_stream *stream) {
  if (stream->object.alive || stream->first) return;
  for (sim_stream **at = &streams; *at; at = &(*at)->next) {
    if (*at != stream) continue;
    *at = stream->next;
    if (stream->slot >= 0) slot_taken[stream->slot] = false, n_slots_taken--;
    if (stream->hidden) free(stream);
    return;
  }
}

void sim_stream_retire(sim_stream *stream) {
  stream->object.alive = false;
  unlink_stream(stream);
}

/* ---- work and marks ------------------------------------------------------------------------------- */

sim_work *sim_work_make(const sim_task *task, sim_work_kind kind) {
  sim_work *work = sim_allocate(sizeof *work);
  *work = (sim_work){.n_references = 1,
                     .kind = kind,
                     .name = sim_text(task->name),
                     .speed = sim_text(task->speed ? task->speed : task->name),
                     .run = task->run,
                     .drop = task->drop,
                     .context = task->context,
                     .ranges = sim_allocate(task->n_ranges * sizeof *task->ranges),
                     .n_ranges = task->n_ranges,
                     .rate = task->rate,
                     .n_flops = task->n_flops,
                     .n_bytes_a_second = sim_card_bytes_a_second()};
  if (task->n_ranges) memcpy(work->ranges, task->ranges, task->n_ranges * sizeof *task->ranges);
  return work;
}

void sim_work_release(sim_work *work) {
  if (!work || --work->n_references) return;
  if (work->drop) work->drop(work->context);
  free(work->ranges);
  free(work->name);
  free(work->speed);
  free(work);
}

sim_mark *sim_mark_make(sim_stream *stream) {
  sim_mark *mark = sim_allocate(sizeof *mark);
  mark->n_references = 1;
  mark->stream = stream;
  return mark;
}

void sim_mark_release(sim_mark *mark) {
  if (mark && --mark->n_references == 0) free(mark);
}

static void free_op(sim_op *op) {
  sim_work_release(op->work);
  sim_mark_release(op->mark);
  for (size_t i = 0; i < op->n_waits; i++) sim_mark_release(op->waits[i]);
  free(op->waits);
  free(op);
}

/* ---- adding --------------------------------------------------------------------------------------- */

static sim_op *append(sim_stream *stream) {
  sim_op *op = sim_allocate(sizeof *op);
  op->id = ++n_ops;
  op->stream = stream;
  op->host_ns = sim_host_now();
  op->clock = host_clock;
  if (stream->last)
    stream->last->next = op;
  else
    stream->first = op;
  stream->last = op;
  return op;
}

static void add_wait(sim_op *op, sim_mark *mark) {
  op->waits = realloc(op->waits, (op->n_waits + 1) * sizeof *op->waits);
  if (!op->waits) abort();
  mark->n_references++;
  op->waits[op->n_waits++] = mark;
}

/* op comes after all that is on the other stream now. */
static void follow(sim_op *op, sim_stream *other) {
  if (!other->first) {
    sim_clock_join(&op->clock, &other->clock);
    if (other->now_ns > op->host_ns) op->host_ns = other->now_ns;
    return;
  }
  sim_op *last = other->last;
  if (!last->mark) last->mark = sim_mark_make(other);
  add_wait(op, last->mark);
}

/* The legacy stream waits for every stream that is not CU_STREAM_NON_BLOCKING, and they for it. */
static void follow_legacy(sim_op *op) {
  sim_stream *stream = op->stream, *own = legacy[stream->object.device];
  if (stream == own) {
    for (sim_stream *other = streams; other; other = other->next)
      if (other != own && other->object.device == stream->object.device && !(other->flags & CU_STREAM_NON_BLOCKING))
        follow(op, other);
  } else if (own && !(stream->flags & CU_STREAM_NON_BLOCKING)) {
    follow(op, own);
  }
}

sim_op *sim_stream_add(sim_stream *stream, sim_work *work, sim_mark *mark, sim_mark *const *waits, size_t n_waits) {
  sim_op *op = append(stream);
  if (work) work->n_references++;
  if (mark) mark->n_references++;
  op->work = work;
  op->mark = mark;
  for (size_t i = 0; i < n_waits; i++) add_wait(op, waits[i]);
  follow_legacy(op);
  return op;
}

CUresult sim_stream_enqueue(sim_stream *stream, sim_work *work) {
  CUresult status = CUDA_SUCCESS;
  if (stream->capture) {
    status = sim_capture_add(stream, work);
  } else if (stream == legacy[stream->object.device] && sim_capture_forbids_legacy()) {
    status = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  } else {
    sim_host_spend(1500);
    sim_stream_add(stream, work, NULL, NULL, 0)->latency_ns = work->kind == SIM_WORK_COPY ? 1500 : 2500;
  }
  sim_work_release(work);
  return status;
}

/* ---- running -------------------------------------------------------------------------------------- */

static bool ranges_right(sim_op *op) {
  for (size_t i = 0; i < op->work->n_ranges; i++) {
    const sim_range *range = &op->work->ranges[i];
    if (range->n_bytes == 0) continue;
    sim_memory *memory = sim_memory_find(range->address);
    const char *wrong = sim_memory_wrong(range->address, range->n_bytes, memory && memory->place == SIM_PLACE_HOST);
    if (wrong) {
      sim_violation("%s on stream %u %s: %s", op->work->name, op->stream->object.number,
                    range->writes ? "writes" : "reads", wrong);
      return false;
    }
    if (sim_race_possible()) sim_race_access(op, memory, range->address, range->n_bytes, range->writes);
  }
  return true;
}

static CUresult do_work(sim_op *op) {
  sim_race_begin(op);
  if (!ranges_right(op)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  if (op->work->run_kernel) return op->work->run_kernel(op->work->context, op);
  if (op->work->run) op->work->run(op->work->context);
  return CUDA_SUCCESS;
}

static void finish_mark(sim_mark *mark, const sim_stream *stream) {
  if (!mark) return;
  mark->done = true;
  mark->end_ns = stream->now_ns;
  mark->clock = stream->clock;
}

static sim_op *pop(sim_stream *stream) {
  sim_op *op = stream->first;
  stream->first = op->next;
  if (!stream->first) stream->last = NULL;
  return op;
}

static void run_first(sim_stream *stream) {
  sim_op *op = pop(stream);
  double begin = op->host_ns > stream->now_ns ? op->host_ns : stream->now_ns;
  for (size_t i = 0; i < op->n_waits; i++) {
    sim_clock_join(&op->clock, &op->waits[i]->clock);
    if (op->waits[i]->end_ns > begin) begin = op->waits[i]->end_ns;
  }
  sim_clock_join(&op->clock, &stream->clock);
  if (stream->slot >= 0) op->clock.at[stream->slot] = op->id;
  CUresult status = op->work ? do_work(op) : CUDA_SUCCESS;
  stream->now_ns = begin + (op->work ? sim_cost_ns(op) : 0);
  stream->clock = op->clock;
  stream->n_done++;
  finish_mark(op->mark, stream);
  int device = stream->object.device;
  free_op(op);
  unlink_stream(stream);
  if (status) sim_context_fault(device, status);
}

static const sim_mark *blocked_by(const sim_stream *stream) {
  for (size_t i = 0; i < stream->first->n_waits; i++)
    if (!stream->first->waits[i]->done) return stream->first->waits[i];
  return NULL;
}

static bool ready(const sim_stream *stream) { return stream->first && !blocked_by(stream); }

static sim_stream *oldest_operation(void) {
  sim_stream *best = NULL;
  for (sim_stream *stream = streams; stream; stream = stream->next)
    if (ready(stream) && (!best || stream->first->id < best->first->id)) best = stream;
  return best;
}

static sim_stream *youngest_stream(void) {
  for (sim_stream *stream = streams; stream; stream = stream->next)
    if (ready(stream)) return stream;
  return NULL;
}

static sim_stream *any_stream(void) {
  size_t n = 0;
  for (sim_stream *stream = streams; stream; stream = stream->next) n += ready(stream);
  size_t chosen = n ? (size_t)(sim_random() % n) : 0;
  for (sim_stream *stream = streams; stream; stream = stream->next)
    if (ready(stream) && chosen-- == 0) return stream;
  return NULL;
}

/* Waits lead to older operations, so this ends. */
static sim_stream *needed_stream(sim_stream *towards) {
  while (towards && towards->first) {
    const sim_mark *mark = blocked_by(towards);
    if (!mark) return towards;
    towards = mark->stream;
  }
  return NULL;
}

bool sim_step(sim_stream *towards) {
  sim_stream *next = NULL;
  switch (sim_order_of_settings()) {
    case SIM_ORDER_FORWARD:
    case SIM_ORDER_EAGER:
      next = oldest_operation();
      break;
    case SIM_ORDER_REVERSE:
      next = youngest_stream();
      break;
    case SIM_ORDER_RANDOM:
      next = any_stream();
      break;
    case SIM_ORDER_LAZY:
      next = needed_stream(towards);
      break;
  }
  if (next) run_first(next);
  return next != NULL;
}

void sim_run_all(void) {
  while (sim_step(NULL)) continue;
}

/* ---- waiting -------------------------------------------------------------------------------------- */

CUresult sim_mark_finish(sim_mark *mark) {
  int device = mark->stream->object.device;
  while (!mark->done && sim_step(mark->stream)) continue;
  sim_clock_join(&host_clock, &mark->clock);
  sim_host_reach(mark->end_ns);
  return sim_context_error(device);
}

CUresult sim_stream_drain(sim_stream *stream) {
  int device = stream->object.device;
  while (stream->first && sim_step(stream)) continue;
  sim_clock_join(&host_clock, &stream->clock);
  sim_host_reach(stream->now_ns);
  return sim_context_error(device);
}

static sim_stream *busy(int device) {
  for (sim_stream *stream = streams; stream; stream = stream->next)
    if (stream->object.device == device && stream->first) return stream;
  return NULL;
}

CUresult sim_device_drain(int device) {
  for (sim_stream *stream; (stream = busy(device));)
    if (!sim_step(stream)) break;
  for (sim_stream *stream = streams; stream; stream = stream->next) {
    if (stream->object.device != device) continue;
    sim_clock_join(&host_clock, &stream->clock);
    sim_host_reach(stream->now_ns);
  }
  return sim_context_error(device);
}

void sim_device_drop(int device) {
  for (sim_stream *stream = streams, *next; stream; stream = next) {
    next = stream->next;
    if (stream->object.device != device) continue;
    while (stream->first) {
      sim_op *op = pop(stream);
      finish_mark(op->mark, stream);
      free_op(op);
    }
    unlink_stream(stream);
  }
}
