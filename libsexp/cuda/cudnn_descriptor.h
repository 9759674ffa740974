/* Descriptors of one session: made, described and released through here alone, so that none is lost. */
#ifndef SX_CUDA_CUDNN_DESCRIPTOR_H
#define SX_CUDA_CUDNN_DESCRIPTOR_H

#include "cudnn.h"

typedef cudnnBackendDescriptor_t sx_descriptor;

/* ---- calls that must succeed: false and E-DEVICE-015 otherwise ---- */

bool sx_descriptor_make(sx_descriptor *descriptor, sx_cudnn *cudnn, cudnnBackendDescriptorType_t type);
bool sx_descriptor_set(sx_cudnn *cudnn, sx_descriptor descriptor, cudnnBackendAttributeName_t attribute,
                       cudnnBackendAttributeType_t type, int64_t n, const void *values);
/* At most n values into values; *n_read as many as were written. */
bool sx_descriptor_get(int64_t *n_read, void *values, sx_cudnn *cudnn, sx_descriptor descriptor,
                       cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type, int64_t n);
bool sx_descriptor_finalize(sx_cudnn *cudnn, sx_descriptor descriptor);
/* One number; false too where there is none. */
bool sx_descriptor_number(int64_t *number, sx_cudnn *cudnn, sx_descriptor descriptor,
                          cudnnBackendAttributeName_t attribute);

/* Destroys what was made since the session owned n_owned. */
void sx_cudnn_release(sx_cudnn *cudnn, size_t n_owned);

/* ---- statuses ---- */

/* cuDNN says that it does not do this, rather than that something went wrong. */
bool sx_cudnn_declines(cudnnStatus_t status);
/* "3007 CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH", with cuDNN's own words where it has some. */
const char *sx_cudnn_status_text(const sx_cudnn *cudnn, cudnnStatus_t status);
/* E-DEVICE-015; false. */
bool sx_cudnn_fail(sx_cudnn *cudnn, cudnnStatus_t status, const char *doing);

/* ---- what selecting and pinning share ---- */

/* The graph of one convolution. */
bool sx_cudnn_graph(sx_descriptor *graph, sx_cudnn *cudnn, const sx_convolution *convolution);

/* Notes of an engine as bits; a note past bit 31 is bit 31. */
bool sx_cudnn_notes(uint32_t *numerical, uint32_t *behavior, sx_cudnn *cudnn, sx_descriptor engine);
/* The first reason of the rule that speaks against the notes; SX_TAKEN: none. */
sx_rejection sx_cudnn_judge(sx_dtype dtype, uint32_t numerical, uint32_t behavior);

/* Makes the plan of a configuration. The status is of finalizing it; calls before that report as above and give
 * CUDNN_STATUS_INTERNAL_ERROR with *failed. */
cudnnStatus_t sx_cudnn_make_plan(sx_descriptor *plan, bool *failed, sx_cudnn *cudnn, sx_descriptor configuration);
/* Knobs by name out of the plan's own description; NULL: it has none. */
const char *sx_cudnn_knob_names(sx_cudnn *cudnn, sx_descriptor plan);

#endif
