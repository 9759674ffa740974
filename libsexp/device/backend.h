/* What a run asks of the device that computes it, as a table of functions; the CPU engine and the CUDA device each have
 * one. Nothing else of a device is known to libsexp/run.
 *
 * Work (upload to execute) is enqueued: it is done in order, at the latest when `finish` returns. A failure stops what
 * comes after it and is told by finish. Addresses are the device's; only a device that shares_memory lets the host
 * read them. */
#ifndef SX_DEVICE_BACKEND_H
#define SX_DEVICE_BACKEND_H

#include "../pass/plan.h"

/* Why an execution stopped: the node, and for an id out of range its value. */
typedef struct sx_stopped {
  const sx_plan *plan; /* NULL: it did not stop at a node */
  sx_id node;
  int64_t at, value, limit;
} sx_stopped;

typedef struct sx_backend sx_backend;
typedef struct sx_made sx_made; /* an executable, the backend's own */

/* Called at the end of each execution of a plan made without fusion and reuse, for every node in order but CONST and
 * IOTA: canonical bytes of the value (row-major, every NaN the one NaN), in host memory. Of an execution that stopped:
 * for the nodes computed until then. */
typedef void sx_observe(void *context, sx_id node, const void *data, int64_t n_bytes);

/* Choices of a plan, for the check of a record: called for each, keys may come more than once. */
struct sexp_need;
typedef void sx_tell_need(void *context, const struct sexp_need *need);

typedef enum sx_finished {
  SX_FINISHED,
  SX_FINISHED_STOPPED, /* *why is filled */
  SX_FINISHED_MEMORY,  /* the device has no memory for what was enqueued; an error is in diags */
  SX_FINISHED_FAILED   /* the device failed: an error is in diags, nothing further works */
} sx_finished;

typedef struct sx_backend_calls {
  /* ---- memory: NULL where there is none. Addresses are multiples of 256 on a device, 64 on the CPU. ---- */
  void *(*take)(sx_backend *backend, int64_t n_bytes);
  void (*give)(sx_backend *backend, void *memory);
  /* Memory of the host that upload and download work on. */
  void *(*take_host)(sx_backend *backend, int64_t n_bytes);
  void (*give_host)(sx_backend *backend, void *memory);

  /* ---- work, in order ---- */
  void (*upload)(sx_backend *backend, void *to, const void *from_host, int64_t n_bytes);
  void (*download)(sx_backend *backend, void *to_host, const void *from, int64_t n_bytes);
  void (*copy)(sx_backend *backend, void *to, const void *from, int64_t n_bytes);
  /* out[i] = left[i] + right[i]; out may be one of them. */
  void (*add)(sx_backend *backend, float *out, const float *left, const float *right, int64_t n);
  /* values[i] = values[i] / count. */
  void (*divide)(sx_backend *backend, float *values, float count, int64_t n);
  /* Between f32 and bf16 or f16, rounding to nearest even. */
  void (*widen)(sx_backend *backend, float *to, const void *from, sx_dtype from_dtype, int64_t n);
  void (*narrow)(sx_backend *backend, void *to, sx_dtype to_dtype, const float *from, int64_t n);
  void (*execute)(sx_backend *backend, sx_made *made);
  sx_finished (*finish)(sx_backend *backend, sx_stopped *why, sx_diags *diags);

  /* ---- executables ---- */
  /* The choices that executing the plan rests on. NULL: none, ever. */
  void (*needs)(sx_backend *backend, const sx_plan *plan, sx_tell_need *tell, void *context);
  /* Makes the plan ready, deciding its choices. draw_seed and the graph's name give the draws' keys. Its temporaries
   * may share memory with those of every other executable of the backend. NULL: no memory, or errors in diags. */
  sx_made *(*make)(sx_backend *backend, const sx_plan *plan, int64_t draw_seed, sx_arena *arena, sx_diags *diags);
  void (*unmake)(sx_backend *backend, sx_made *made);
  /* Binds the memory of an EXTERNAL or OUTPUT buffer of the plan by its index in plan->buffers. May be bound anew
   * before each execution. An output's memory does not overlap any other's, unless it is that of the input of its name
   * and sx_plan_in_place allows it. */
  void (*bind)(sx_backend *backend, sx_made *made, uint32_t buffer, void *data);
  /* NULL ends observing. False: no memory. An observed execution finishes before execute returns. */
  bool (*observe)(sx_backend *backend, sx_made *made, sx_observe *observe, void *context);
  /* After all executables of a run are made, before the first is executed: takes the memory that they share. */
  bool (*ready)(sx_backend *backend, sx_diags *diags);
  /* Adds a line of text for each piece of work that it is executed as. NULL: it has none to show. */
  void (*print)(sx_backend *backend, const sx_made *made, sx_text *text);

  /* ---- sequences: work that is enqueued alike, again and again ---- */
  /* True: all that was enqueued between record and recorded of this number is enqueued again. False: enqueue it. */
  bool (*replay)(sx_backend *backend, uint32_t sequence);
  /* What is enqueued from here to recorded is done as always, and kept for replay where the device can. */
  void (*record)(sx_backend *backend, uint32_t sequence);
  void (*recorded)(sx_backend *backend);
  /* Addresses changed: replay of all sequences is false until they are recorded again. */
  void (*forget)(sx_backend *backend);
} sx_backend_calls;

struct sx_backend {
  const sx_backend_calls *calls;
  const char *facts;  /* "cpu, numerics 1" */
  bool shares_memory; /* device addresses are host addresses, and work is done when a call returns */
  bool stacks;        /* microbatches may be computed together */
};

#endif
