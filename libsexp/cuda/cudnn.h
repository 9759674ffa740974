/* cuDNN's engines for a convolution: which ones there are, which of them a run may take, and a recorded one made into
 * a plan again. Works from the facts of a device, so it needs none.
 *
 * The rule. Engines come in the order of cuDNN's heuristics, mode A and then FALLBACK, the device's own number of
 * multiprocessors as the target. One is taken when
 *
 *   - it repeats its bits (no note NONDETERMINISTIC);
 *   - it sums products of the elements themselves, in some order, in f32: no tensor cores in f32 (they would round
 *     the operands to TF32), no converted inputs, no reduction in less than f32, no Winograd and no FFT, whose
 *     transforms round sums of elements before they are multiplied, so that the error of a result is no longer bounded
 *     by the sum of its products' sizes;
 *   - its bits depend on cuDNN alone: it is not compiled by NVRTC when the plan is made, and does not call cuBLASLt;
 *   - it has no note that this version does not know;
 *   - its workspace is at most SX_CUDNN_WORKSPACE_N_BYTES;
 *   - it did not come before, and its plan can be made.
 *
 * The first one taken is that of --deterministic; the first SX_CUDNN_CANDIDATES are those to measure. The cap and the
 * rule are parts of a choice's meaning: neither depends on the memory that is free.
 *
 * Threads: an sx_cudnn belongs to one thread at a time; several of them, each with its arena, work at once over one
 * sx_api. Load NVRTC before: cuDNN opens it at every question and closes it after the answer, and a library that is
 * open already makes an answer four times as fast. Memory: everything that is returned lives in the arena; descriptors
 * live until sx_cudnn_close, which the caller calls on every path, a failed allocation included, and before the arena
 * is freed.
 *
 * Source: the cuDNN backend API (cudnn_graph.h). */
#ifndef SX_CUDA_CUDNN_H
#define SX_CUDA_CUDNN_H

#include "api.h"
#include "convolution.h"
#include "device.h"

enum { SX_CUDNN_CANDIDATES = 8, SX_CUDNN_WORKSPACE_N_BYTES = 256 << 20 };

typedef struct sx_cudnn {
  const sx_api *api;
  const sx_device *facts;
  sx_arena *arena;
  sx_diags *diags;
  cudnnHandle_t handle;                   /* NULL: it works from the facts */
  cudnnBackendDescriptor_t device;        /* the facts; NULL: it works on the handle's device */
  SX_VEC(cudnnBackendDescriptor_t) owned; /* the newest last */
} sx_cudnn;

/* api has cuDNN loaded. Errors: E-DEVICE-014 cuDNN refuses the facts, E-DEVICE-015. False: close it all the same. */
bool sx_cudnn_open(sx_cudnn *cudnn, const sx_api *api, const sx_device *facts, sx_arena *arena, sx_diags *diags);
/* A session on a device, whose plans can be executed: it pins engines. facts are those of the device. */
void sx_cudnn_open_on(sx_cudnn *cudnn, const sx_api *api, const sx_device *facts, cudnnHandle_t handle, sx_arena *arena,
                      sx_diags *diags);
void sx_cudnn_close(sx_cudnn *cudnn);

/* ---- selection ---- */

/* Why an engine is not taken; the order is that in which reasons are looked for. */
typedef enum sx_rejection {
  SX_TAKEN,
  SX_REJECTED_NONDETERMINISTIC,
  SX_REJECTED_TENSOR_CORE,
  SX_REJECTED_DOWN_CONVERT,
  SX_REJECTED_REDUCTION,
  SX_REJECTED_WINOGRAD,
  SX_REJECTED_FFT,
  SX_REJECTED_RUNTIME,
  SX_REJECTED_CUBLASLT,
  SX_REJECTED_UNKNOWN_NOTE,
  SX_REJECTED_WORKSPACE,
  SX_REJECTED_REPEATED,
  SX_REJECTED_PLAN,
  SX_N_REJECTIONS
} sx_rejection;
const char *sx_rejection_text(sx_rejection rejection); /* "taken", "nondeterministic", ... */

typedef struct sx_offer {
  sx_engine engine;
  uint32_t numerical_notes, behavior_notes; /* bit n: note n of cuDNN */
  int64_t workspace_n_bytes;
  bool fallback; /* offered by the mode FALLBACK */
  sx_rejection rejection;
  const char *refusal; /* what cuDNN said where its plan cannot be made; NULL else */
  const char *names;   /* knobs by name, "SPLIT_K=3 TILE_SIZE=3", for people; NULL where no plan was made */
} sx_offer;

typedef struct sx_offers {
  sx_offer *items; /* all, taken or not, in their order */
  size_t n, n_taken;
  const sx_offer *candidates[SX_CUDNN_CANDIDATES]; /* the first is that of --deterministic */
  size_t n_candidates;                             /* 0: this convolution runs without cuDNN */
} sx_offers;

/* Every engine that the heuristics offer. Errors: E-DEVICE-016 an impossible convolution, E-DEVICE-015. Repeats: the
 * same version of cuDNN and the same facts give the same offers. */
bool sx_cudnn_offers(sx_offers *offers, sx_cudnn *cudnn, const sx_convolution *convolution);

/* ---- pinning ---- */

/* A recorded choice that cannot be taken, as E-CHOICE-001 lists it. */
typedef struct sx_choice_refusal {
  const char *choice;   /* the convolution's key */
  const char *recorded; /* "engine 47 knobs 0=9 2=3 5=3 14=2" */
  const char *offered;  /* "cuDNN 91900 offers 26 engines for it on compute_80; 47 takes knob 0 from 0 to 2" */
} sx_choice_refusal;

typedef struct sx_cudnn_plan {
  cudnnBackendDescriptor_t descriptor; /* the session's */
  sx_engine engine;
  int64_t workspace_n_bytes;
  const char *names; /* as sx_offer's */
} sx_cudnn_plan;

typedef enum sx_pin { SX_PINNED, SX_PIN_REFUSED, SX_PIN_FAILED } sx_pin;

/* The recorded engine exactly, or why not: a text that is no engine, an engine that this device does not have or the
 * rule does not take, a knob or a value that the engine does not take. SX_PIN_FAILED: errors as sx_cudnn_offers. */
sx_pin sx_cudnn_pin(sx_cudnn_plan *plan, sx_choice_refusal *refusal, sx_cudnn *cudnn, const sx_convolution *convolution,
                    const char *recorded);

#endif
