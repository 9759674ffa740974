/* The real cuDNN, which describes and selects; and what the stand-in knows of each of its descriptors. */
#ifndef SIM_CUDNN_REAL_H
#define SIM_CUDNN_REAL_H

#include <cudnn_backend.h>

#include "convolve.h"

/* ---- the library -------------------------------------------------------------------------------- */

#define SIM_CUDNN_FUNCTIONS(ROW)     \
  ROW(cudnnGetVersion)               \
  ROW(cudnnGetErrorString)           \
  ROW(cudnnGetLastErrorString)       \
  ROW(cudnnBackendCreateDescriptor)  \
  ROW(cudnnBackendDestroyDescriptor) \
  ROW(cudnnBackendSetAttribute)      \
  ROW(cudnnBackendGetAttribute)      \
  ROW(cudnnBackendFinalize)

typedef struct sim_cudnn_real {
#define ROW(function) __typeof__(function) *function;
  SIM_CUDNN_FUNCTIONS(ROW)
#undef ROW
} sim_cudnn_real;

/* Opened at the first call, by its path, so that the two libraries of one name stay apart. NULL: there is none, and one
 * line of stderr said so. */
const sim_cudnn_real *sim_cudnn(void);

/* ---- records of descriptors ----------------------------------------------------------------------- */

enum { SIM_PACK_MAX = 16 };

/* Descriptors are copied when they are given to another, as cuDNN does: the copies outlive them. */
typedef struct sim_record {
  struct sim_record *next;
  cudnnBackendDescriptor_t descriptor;
  cudnnBackendDescriptorType_t type;
  bool finalized;
  sim_tensor tensor;
  bool tensor_known; /* of a type and a rank that is simulated */
  sim_convolution convolution;
  bool convolution_known; /* of a graph and all made from it: it is one convolution */
  bool has_handle, has_device;
  int64_t capability, multiprocessors; /* of the device that is described */
  int64_t engine;
  sim_knob knobs[SIM_KNOBS_MAX];
  int64_t n_knobs;
  bool nondeterministic, tensor_cores; /* notes of a plan's engine */
  int64_t workspace_n_bytes;
  int64_t ids[SIM_PACK_MAX], n_ids, n_pointers; /* of a variant pack */
  void *pointers[SIM_PACK_MAX], *workspace;
} sim_record;

void sim_record_add(cudnnBackendDescriptor_t descriptor, cudnnBackendDescriptorType_t type);
/* NULL: none of that address, or it was destroyed. */
sim_record *sim_record_of(const void *descriptor);
void sim_record_remove(sim_record *record);
/* One violation a type of which some are left. */
void sim_records_end(void);

/* What an attribute that was set, or a descriptor that was read, tells. */
void sim_record_set(sim_record *record, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
                    const void *values);
void sim_record_inherit(sim_record *record, const sim_record *from);
/* Engine, knobs and notes of a configuration, read from the real library. */
bool sim_record_read_engine(sim_record *plan, cudnnBackendDescriptor_t configuration);
/* The engine's number of a configuration; -1: it has none. */
int64_t sim_configuration_engine(cudnnBackendDescriptor_t configuration);

#endif
