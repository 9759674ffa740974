/* Inside our libcuda.so.1: objects, memory, streams, capture and the order in which work runs.
 *
 * Work is a list of operations a stream. An operation runs once all marks that it waits for are done and it is first
 * in its stream; nothing runs before somebody waits. What happened before what is kept as vector clocks, one entry a
 * stream, so that two operations that touch the same memory with nothing that orders them are found whatever the order
 * they ran in. */
#ifndef SIM_DRIVER_H
#define SIM_DRIVER_H

#include "ptx.h"
#include "sim.h"

/* ---- calls and violations (call.c) ---------------------------------------------------------------- */

/* The one lock, recursive. */
void sim_lock(void);
void sim_unlock(void);

typedef enum sim_needs { SIM_NEEDS_NOTHING, SIM_NEEDS_INIT, SIM_NEEDS_CONTEXT } sim_needs;

/* Every entry point begins with SIM_CALL(needs): takes the lock, and returns the error of a call that comes too early
 * or after a fault. Left with the function. */
typedef struct sim_call {
  CUresult status;
} sim_call;
sim_call sim_enter(const char *name, sim_needs needs);
void sim_leave(sim_call *call);
#define SIM_CALL_AS(name, needs)                                                      \
  __attribute__((cleanup(sim_leave))) sim_call sim_this = sim_enter((name), (needs)); \
  if (sim_this.status != CUDA_SUCCESS) return sim_this.status
#define SIM_CALL(needs) SIM_CALL_AS(__func__, needs)

/* Reports "cudasim: CALL: …" with the call that is running and gives status back. */
CUresult sim_refuse(CUresult status, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *sim_call_name(void);
void sim_initialize(void); /* cuInit was called */

/* ---- objects (object.c) --------------------------------------------------------------------------- */

typedef enum sim_kind {
  SIM_KIND_STREAM,
  SIM_KIND_EVENT,
  SIM_KIND_MODULE,
  SIM_KIND_FUNCTION,
  SIM_KIND_GRAPH,
  SIM_KIND_NODE,
  SIM_KIND_EXECUTABLE,
  SIM_N_KINDS
} sim_kind;

/* First member of whatever a handle points to. Destroyed objects stay, so that their use is told from nonsense. */
typedef struct sim_object {
  sim_kind kind;
  bool alive;
  unsigned number; /* of its kind, from 1: "stream 2" */
  int device;
} sim_object;

void sim_object_add(void *object, sim_kind kind);
/* The object of a handle; NULL after a violation: no such object, of another kind, or destroyed. */
void *sim_object_of(const void *handle, sim_kind kind);
/* The same without a violation. */
bool sim_object_valid(const void *handle, sim_kind kind);
const char *sim_kind_name(sim_kind kind);
/* A violation for each that is alive on the device. */
void sim_objects_report(int device, const char *when);
void *sim_allocate(size_t n_bytes); /* zeroed; ends the process where the host has no memory */
char *sim_text(const char *text);

/* ---- settings and the card (settings.c) ------------------------------------------------------------ */

bool sim_settings_ready(void); /* reads them once; false: no card */
bool sim_violations_end(void); /* whether a violation ends the process with 86 */
typedef enum sim_order {
  SIM_ORDER_FORWARD,
  SIM_ORDER_EAGER, /* at the end of the call that asked for it */
  SIM_ORDER_REVERSE,
  SIM_ORDER_LAZY,
  SIM_ORDER_RANDOM
} sim_order;
sim_order sim_order_of_settings(void);
uint64_t sim_random(void); /* of order=random:SEED */
bool sim_races_watched(void);
int sim_device_count(void);
int sim_driver_version(void);
/* Whether the n-th call (from 1) is one that "memory.fail_at" or its like names: "3", "3,7", "5-" (from then on). */
bool sim_fails_at(const char *setting, uint64_t n);

/* ---- contexts (context.c) ------------------------------------------------------------------------- */

typedef struct sim_device {
  unsigned n_retained;
  CUresult error; /* sticky: of a fault */
} sim_device;
sim_device *sim_device_at(int device); /* NULL: no such device */
CUresult sim_context_error(int device);
void sim_context_fault(int device, CUresult status);
void sim_context_end(void); /* of the process: what is left is a leak */

/* ---- memory (memory.c) ---------------------------------------------------------------------------- */

typedef enum sim_place { SIM_PLACE_DEVICE, SIM_PLACE_LIBRARY, SIM_PLACE_MODULE, SIM_PLACE_HOST } sim_place;
typedef struct sim_shadow {
  uint64_t writer, reader; /* stream's slot << 56 | id of the last that wrote and of the last that read */
} sim_shadow;
typedef struct sim_memory {
  char *base;
  size_t n_bytes, n_mapped;
  sim_place place;
  bool alive, device_map;
  int device;
  unsigned number;
  sim_shadow *shadow; /* one for SIM_GRANULE bytes; NULL until two streams work */
} sim_memory;
enum { SIM_GRANULE = 16 };

/* The allocation, alive or freed, that the address or up to a page before it is of; NULL: none. The pointer holds until
 * the next allocation. */
sim_memory *sim_memory_find(const void *address);
bool sim_memory_holds(const sim_memory *memory, const void *address, size_t n_bytes); /* address as found */
/* NULL: the bytes are in one allocation of that kind; else what is wrong, in a buffer of the calling thread. */
const char *sim_memory_wrong(const void *address, size_t n_bytes, bool host);
sim_memory *sim_memory_adopt(void *base, size_t n_bytes, int device); /* a module's variable */
void sim_memory_abandon(void *base);
void sim_memory_report(int device, const char *when);
const char *sim_memory_describe(const sim_memory *memory, const void *address);

/* ---- streams (stream.c) --------------------------------------------------------------------------- */

enum { SIM_N_SLOTS = 64 };
typedef struct sim_clock {
  uint64_t at[SIM_N_SLOTS]; /* the last operation of each slot's stream that happened before */
} sim_clock;

typedef struct sim_stream sim_stream;
/* A place in a stream's work: what an event records and a wait waits for. */
typedef struct sim_mark {
  unsigned n_references;
  sim_stream *stream;
  bool done;
  double end_ns;
  sim_clock clock;
} sim_mark;

typedef struct sim_op sim_op;
typedef enum sim_work_kind { SIM_WORK_KERNEL, SIM_WORK_COPY, SIM_WORK_SET, SIM_WORK_HOST } sim_work_kind;
/* What an operation does; shared by a graph's node and its runs. */
typedef struct sim_work {
  unsigned n_references;
  sim_work_kind kind;
  char *name, *speed;
  void (*run)(void *context);
  CUresult (*run_kernel)(void *context, sim_op *op); /* in place of run; says itself what faulted */
  void (*drop)(void *context);
  void *context;
  sim_range *ranges;
  size_t n_ranges;
  sim_rate rate;
  double n_flops, n_bytes_a_second; /* the slowest link: the card's memory, or the bus */
  double n_blocks;                  /* of a kernel */
} sim_work;

struct sim_op {
  sim_op *next;
  uint64_t id;
  sim_stream *stream;
  sim_work *work; /* NULL: it waits or marks only */
  sim_mark *mark; /* NULL, or what is done with it */
  sim_mark **waits;
  size_t n_waits;
  double host_ns, latency_ns; /* enqueued at; spent before it works */
  sim_clock clock;            /* of the host when it was enqueued, then its own */
  uint64_t n_instructions;    /* of a kernel, a warp each, counted as it runs */
  bool reported;              /* a race of it */
};

typedef struct sim_capture sim_capture;
typedef struct sim_nodes {
  size_t *items, n;
} sim_nodes;
struct sim_stream {
  sim_object object;
  sim_stream *next;
  unsigned flags;
  int slot;    /* in the vector clocks; -1: there are too many streams, races of this one are not seen */
  bool hidden; /* a graph's lane */
  sim_op *first, *last;
  sim_clock clock;
  double now_ns;
  uint64_t n_done;
  sim_capture *capture;
  sim_nodes nodes; /* that the next captured node follows */
};

/* NULL after a violation. NULL or CU_STREAM_LEGACY is the legacy stream of the current device. */
sim_stream *sim_stream_of(CUstream handle);
sim_stream *sim_stream_make(unsigned flags, bool hidden);
void sim_stream_retire(sim_stream *stream);
sim_work *sim_work_make(const sim_task *task, sim_work_kind kind);
void sim_work_release(sim_work *work);
/* Adds an operation; work, mark and waits get one more reference each. */
sim_op *sim_stream_add(sim_stream *stream, sim_work *work, sim_mark *mark, sim_mark *const *waits, size_t n_waits);
/* To the stream, or to the graph that it captures. Takes the caller's reference. */
CUresult sim_stream_enqueue(sim_stream *stream, sim_work *work);
sim_mark *sim_mark_make(sim_stream *stream);
void sim_mark_release(sim_mark *mark);
CUresult sim_mark_finish(sim_mark *mark);
CUresult sim_stream_drain(sim_stream *stream);
CUresult sim_device_drain(int device);
void sim_device_drop(int device); /* pending work, after a fault */
void sim_run_all(void);
bool sim_step(sim_stream *towards);             /* one operation that the stream needs; false: nothing is left */
sim_stream *sim_stream_each(sim_stream *after); /* NULL first */

/* ---- time and races (time.c, race.c) -------------------------------------------------------------- */

double sim_host_now(void); /* simulated, of the calling thread */
void sim_host_spend(double ns);
void sim_host_reach(double ns);
double sim_cost_ns(const sim_op *op);
double sim_card_bytes_a_second(void);
double sim_bus_bytes_a_second(void);

void sim_clock_join(sim_clock *clock, const sim_clock *other);
/* Of op's own clock; reports what is not ordered with it. */
void sim_race_access(sim_op *op, sim_memory *memory, const void *address, size_t n_bytes, bool writes);
void sim_race_begin(const sim_op *op);
bool sim_race_possible(void); /* two streams are there, and races=on */

/* ---- capture (capture.c, graph.c) ----------------------------------------------------------------- */

typedef struct sim_node {
  sim_object object;
  sim_work *work;
  sim_nodes after; /* ascending, all below its own place */
} sim_node;
typedef struct sim_graph {
  sim_object object;
  sim_node **nodes;
  size_t n;
} sim_graph;
typedef struct sim_event {
  sim_object object;
  unsigned flags;
  sim_mark *mark;       /* of the last record; NULL: none */
  sim_capture *capture; /* where it was recorded under capture */
  sim_nodes nodes;
} sim_event;

sim_graph *sim_graph_make(void);
size_t sim_graph_add(sim_graph *graph, sim_work *work, const sim_nodes *after);
void sim_graph_free_nodes(sim_graph *graph);
void sim_nodes_join(sim_nodes *nodes, const sim_nodes *other);
void sim_nodes_set(sim_nodes *nodes, const sim_nodes *other);
/* A call that a capturing stream, or a capture of this thread, does not allow; CUDA_SUCCESS: it is allowed. The capture
 * is invalid afterwards. */
CUresult sim_capture_forbids_wait(sim_stream *stream);
CUresult sim_capture_forbids_all(void);
CUresult sim_capture_forbids_unsafe(void);
CUresult sim_capture_forbids_legacy(void);
CUresult sim_capture_add(sim_stream *stream, sim_work *work);
CUresult sim_capture_record(sim_stream *stream, sim_event *event);
CUresult sim_capture_wait(sim_stream *stream, sim_event *event);
bool sim_capture_same(const sim_capture *capture, const sim_event *event);
bool sim_capture_live(const sim_event *event);

#endif
