/* What the stand-ins of the mathematical libraries ask of the driver's stand-in. The functions are exported by our
 * libcuda.so.1; link with it (its rpath is $ORIGIN, so that they find one another in one directory).
 *
 * A library call checks its arguments, then enqueues one task on its stream. The task runs later, at the latest when
 * somebody waits for the stream; under capture it becomes a node of the graph and runs at every replay. Only a task's
 * `run` touches device memory, which is host memory at the same address.
 *
 *   static void multiply(void *context) { … }
 *   sim_range ranges[] = {{a, a_n_bytes, false}, {b, b_n_bytes, false}, {c, c_n_bytes, true}};
 *   return sim_enqueue(stream, &(sim_task){.name = "cublasGemmEx", .run = multiply, .drop = free, .context = copy,
 *                                          .ranges = ranges, .n_ranges = 3, .rate = SIM_RATE_F32, .n_flops = 2.0 * m * n * k});
 *
 * All of it may be called from any thread; one lock is held while an entry point or a task runs, and it is recursive. */
#ifndef SIM_H
#define SIM_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- violations ----------------------------------------------------------------------------------- */

/* Writes "cudasim: …" to stderr and makes the process end with status 86 (unless violations=report). The text names the
 * call and the object: "cublasGemmEx: handle 0x… was destroyed". */
void sim_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- settings ------------------------------------------------------------------------------------- */

/* The value of --set name=value; NULL: not given. Names of the libraries begin with "cublas.", "cublaslt." or "cudnn.",
 * engines' speeds with "speed."; each library says so of those that it does not know. Borrowed for good. */
const char *sim_setting(const char *name);
double sim_setting_number(const char *name, double otherwise);
/* Every setting in the order given; NULL from n on. "name=value". */
const char *sim_setting_at(size_t i);

/* ---- the card ------------------------------------------------------------------------------------- */

/* A fact under its name in tests/cuda/CARD.json ("deviceVer", "multiProcessorCount"), with what --set device.* changed;
 * 0: none of that name. */
int64_t sim_card_fact(const char *name);
const char *sim_card_name(void);
/* The same facts as JSON text, for CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION. Borrowed for good. */
const char *sim_card_json(void);

/* ---- tasks ---------------------------------------------------------------------------------------- */

typedef struct sim_range {
  const void *address;
  size_t n_bytes; /* 0: nothing */
  bool writes;
} sim_range;

/* What the card computes with: sets the speed that n_flops are divided by. */
typedef enum sim_rate { SIM_RATE_F32, SIM_RATE_F64, SIM_RATE_BF16, SIM_RATE_TF32 } sim_rate;

typedef struct sim_task {
  const char *name;  /* for messages, also "speed.NAME=2" makes it twice as fast; copied */
  const char *speed; /* NULL: name; else the NAME of speed.NAME, such as an engine's; copied */
  void (*run)(void *context);  /* may run never, once, or at every replay of a graph */
  void (*drop)(void *context); /* called once, when it can run no more, also when sim_enqueue fails; may be NULL */
  void *context;
  const sim_range *ranges; /* all device memory that run reads or writes; copied */
  size_t n_ranges;
  sim_rate rate;
  double n_flops; /* the bytes moved are the ranges' */
} sim_task;

/* Checks the stream and every range (inside one allocation that is not freed; again when it runs), then enqueues.
 * Anything but CUDA_SUCCESS has been reported as a violation or is a failure that was asked for. */
CUresult sim_enqueue(CUstream stream, const sim_task *task);

/* ---- memory --------------------------------------------------------------------------------------- */

/* Whether all bytes are inside one allocation of device memory that is not freed. */
bool sim_device_memory(const void *address, size_t n_bytes);
/* The same for page-locked host memory. */
bool sim_host_memory(const void *address, size_t n_bytes);
/* Device memory that a library takes for itself (a default workspace): counted as used, not as a leak of the caller's;
 * NULL: there is not enough. */
void *sim_memory_take(size_t n_bytes);
void sim_memory_give(void *address);

/* ---- state ---------------------------------------------------------------------------------------- */

/* Whether the calling thread has a current context; a library call without one is a violation of the library's. */
bool sim_context_current(void);
/* The device of the current context, 0 without one. */
int sim_context_device(void);
/* Whether the handle is a stream that is not destroyed (NULL, the legacy stream, is one). */
bool sim_stream_valid(CUstream stream);
bool sim_stream_capturing(CUstream stream);
/* Runs what is pending on the stream and what it waits for; CUDA_SUCCESS or the sticky error. */
CUresult sim_stream_finish(CUstream stream);

#endif
