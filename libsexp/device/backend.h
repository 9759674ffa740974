/* What a run asks of the device that computes it, as a table of functions; the CPU engine and the CUDA device each have
 * one. Nothing else of a device is known to libsexp/run.
 *
 * Work (upload to execute) is enqueued: it is done in order, at the latest when `finish` returns, which also tells of
 * failures. Where an execution stops at a node, what was enqueued after it until finish may be done or left out, and
 * what it reads may be anything: so nothing that matters is enqueued behind what can stop. Only executions, and
 * replays as a whole, can lack memory; then, and when the device failed, that execution may be done in part, and all
 * after it is left out until finish. Addresses are the device's; only a device that shares_memory lets the host read
 * them. */
#ifndef SX_DEVICE_BACKEND_H
#define SX_DEVICE_BACKEND_H

#include "../base/text.h"
#include "../pass/cost.h"

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

/* Choices of a plan, for the check of a record: called for each, keys may come more than once. What the need points to
 * lives as long as the arena that was given. */
struct sexp_need;
struct sexp_chooser;
typedef void sx_tell_need(void *context, const struct sexp_need *need);

/* Called for each product that the device decides by itself: the key of its shape, the bytes of operands and result. */
typedef void sx_tell_product(void *context, const char *key, int64_t n_bytes);

/* Decides a choice: asks the run's chooser, and notes the decision for its record. NULL: an error is in diags, or
 * the run has no memory. Returns in any case. The value lives as long as the run. */
struct sexp_choice;
typedef struct sx_deciding {
  const char *(*decide)(void *context, const struct sexp_choice *choice, sx_diags *diags);
  void *context;
} sx_deciding;

typedef enum sx_finished {
  SX_FINISHED,
  SX_FINISHED_STOPPED, /* *why is filled: of the first execution that stopped */
  SX_FINISHED_MEMORY,  /* the device has no memory for what was enqueued: an error is in diags, the device works on */
  SX_FINISHED_FAILED   /* the device failed: an error is in diags, nothing further works */
} sx_finished;

typedef struct sx_backend_calls {
  /* ---- memory: NULL where there is none. Addresses are multiples of 256 on a device, 64 on the CPU. ---- */
  void *(*take)(sx_backend *backend, int64_t n_bytes);
  /* It, give_host and unmake wait for what was enqueued. */
  void (*give)(sx_backend *backend, void *memory);
  /* Memory of the host that upload and download work on. It is read and written when the work is done, not when it is
   * enqueued: a recorded upload takes at each replay what is there then. */
  void *(*take_host)(sx_backend *backend, int64_t n_bytes);
  void (*give_host)(sx_backend *backend, void *memory);
  /* Bytes that take can still give, as far as plans may count on them. */
  int64_t (*free_bytes)(sx_backend *backend);
  /* Bytes of the memory that executables share which the plan needs: block, constants, scratch, workspaces. */
  int64_t (*plan_bytes)(sx_backend *backend, const sx_plan *plan);

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
  void (*needs)(sx_backend *backend, const sx_plan *plan, sx_tell_need *tell, void *context, sx_arena *arena);
  /* Makes the plan ready, deciding its choices. draw_seed and the graph's name give the draws' keys. Its temporaries
   * may share memory with those of every other executable of the backend. NULL: no memory, or errors in diags. */
  sx_made *(*make)(sx_backend *backend, const sx_plan *plan, int64_t draw_seed, const sx_deciding *deciding,
                   sx_arena *arena, sx_diags *diags);
  void (*unmake)(sx_backend *backend, sx_made *made);
  /* Binds the memory of an EXTERNAL or OUTPUT buffer of the plan by its index in plan->buffers. May be bound anew
   * before each execution. An output's memory does not overlap any other's, unless it is that of the input of its name
   * and sx_plan_in_place allows it. */
  void (*bind)(sx_backend *backend, sx_made *made, uint32_t buffer, void *data);
  /* NULL ends observing. False: no memory. An observed execution finishes before execute returns. */
  bool (*observe)(sx_backend *backend, sx_made *made, sx_observe *observe, void *context);
  /* After executables are made, before one of them is executed: takes the memory that they share. May be called again
   * when more were made; sequences are to be recorded anew then. False: an error is in diags. */
  bool (*ready)(sx_backend *backend, sx_diags *diags);
  /* Tells the products among its works for which nothing is chosen, some more than once. NULL: none, ever. */
  void (*products)(sx_backend *backend, const sx_made *made, sx_tell_product *tell, void *context);
  /* Adds a line of text for each piece of work that it is executed as: kernel, shape, dtype, model path. */
  void (*print)(sx_backend *backend, const sx_made *made, sx_text *text);

  /* ---- sequences: work that is enqueued alike, again and again ---- */
  /* True: all that was enqueued between record and recorded of this number is enqueued again. False: enqueue it. */
  bool (*replay)(sx_backend *backend, uint32_t sequence);
  /* What is enqueued from here to recorded is done as always, and kept for replay where the device can. */
  void (*record)(sx_backend *backend, uint32_t sequence);
  void (*recorded)(sx_backend *backend);
  /* Addresses changed: replay of all sequences is false until they are recorded again. */
  void (*forget)(sx_backend *backend);

  /* ---- measuring ---- */
  /* Time of the device until now that executions took; waits for what was enqueued. */
  int64_t (*now_ns)(sx_backend *backend);
  /* What a pass asks of the device as a number: "recompute", f32 operations that it does in the time in which a byte of
   * its memory is read; as text. False: it cannot, an error is in diags. */
  bool (*measure)(sx_backend *backend, const char *what, char *text, size_t n_text, sx_diags *diags);
  /* What the cost model reckons with, from times of standard pieces of work that chooser->cost remembers; of products
   * the dtypes whose bits (1 << SX_F32) are set. False: one is not to be had, with or without an error in diags. NULL:
   * the device measures none. */
  bool (*rates)(sx_backend *backend, sx_cost_rates *rates, unsigned dtypes, const struct sexp_chooser *chooser,
                sx_diags *diags);
} sx_backend_calls;

/* Where shares_memory, these calls may be NULL: take_host, give_host, upload, download, free_bytes, plan_bytes, needs,
 * ready, products, print, replay to measure. */
struct sx_backend {
  const sx_backend_calls *calls;
  const char *facts;  /* "cpu, numerics 1" */
  bool shares_memory; /* device addresses are host addresses, and work is done when a call returns */
  bool stacks;        /* microbatches may be computed together */
};

#endif
