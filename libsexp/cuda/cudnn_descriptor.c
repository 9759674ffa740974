/* The session, its table of descriptors, and the graph of a convolution. */
#include "cudnn_descriptor.h"

#include <string.h>

/* ---- statuses ----------------------------------------------------------------------------------- */

bool sx_cudnn_declines(cudnnStatus_t status) { return status >= 2000 && status < 4000; }

const char *sx_cudnn_status_text(const sx_cudnn *cudnn, cudnnStatus_t status) {
  char words[512] = "";
  cudnn->api->cudnnGetLastErrorString(words, sizeof words - 1);
  words[strcspn(words, "\r\n")] = 0;
  return sx_format(cudnn->arena, "%d %s%s%s", (int)status, cudnn->api->cudnnGetErrorString(status), *words ? ": " : "",
                   words);
}

bool sx_cudnn_fail(sx_cudnn *cudnn, cudnnStatus_t status, const char *doing) {
  sx_error(cudnn->diags, SX_E_DEVICE_CUDNN, (sx_span){0}, "cuDNN %s could not %s: %s",
           cudnn->api->found[SX_LIBRARY_CUDNN].version, doing, sx_cudnn_status_text(cudnn, status));
  return false;
}

/* ---- descriptors -------------------------------------------------------------------------------- */

bool sx_descriptor_make(sx_descriptor *descriptor, sx_cudnn *cudnn, cudnnBackendDescriptorType_t type) {
  SX_PUSH(cudnn->arena, cudnn->owned, NULL); /* may not return: so the place first, then the descriptor */
  cudnnStatus_t status = cudnn->api->cudnnBackendCreateDescriptor(type, descriptor);
  if (status != CUDNN_STATUS_SUCCESS) {
    cudnn->owned.n--;
    return sx_cudnn_fail(cudnn, status, sx_format(cudnn->arena, "make a descriptor of type %d", (int)type));
  }
  cudnn->owned.items[cudnn->owned.n - 1] = *descriptor;
  return true;
}

void sx_cudnn_release(sx_cudnn *cudnn, size_t n_owned) {
  while (cudnn->owned.n > n_owned) {
    sx_descriptor last = cudnn->owned.items[--cudnn->owned.n];
    if (last) cudnn->api->cudnnBackendDestroyDescriptor(last);
  }
}

bool sx_descriptor_set(sx_cudnn *cudnn, sx_descriptor descriptor, cudnnBackendAttributeName_t attribute,
                       cudnnBackendAttributeType_t type, int64_t n, const void *values) {
  cudnnStatus_t status = cudnn->api->cudnnBackendSetAttribute(descriptor, attribute, type, n, values);
  if (status == CUDNN_STATUS_SUCCESS) return true;
  return sx_cudnn_fail(cudnn, status, sx_format(cudnn->arena, "set attribute %d", (int)attribute));
}

bool sx_descriptor_get(int64_t *n_read, void *values, sx_cudnn *cudnn, sx_descriptor descriptor,
                       cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type, int64_t n) {
  int64_t read = 0;
  cudnnStatus_t status = cudnn->api->cudnnBackendGetAttribute(descriptor, attribute, type, n, &read, values);
  if (status != CUDNN_STATUS_SUCCESS)
    return sx_cudnn_fail(cudnn, status, sx_format(cudnn->arena, "read attribute %d", (int)attribute));
  *n_read = values && read > n ? n : read; /* a count alone may be of more than there is room for */
  return true;
}

bool sx_descriptor_finalize(sx_cudnn *cudnn, sx_descriptor descriptor) {
  cudnnStatus_t status = cudnn->api->cudnnBackendFinalize(descriptor);
  return status == CUDNN_STATUS_SUCCESS || sx_cudnn_fail(cudnn, status, "finish a descriptor");
}

bool sx_descriptor_number(int64_t *number, sx_cudnn *cudnn, sx_descriptor descriptor,
                          cudnnBackendAttributeName_t attribute) {
  int64_t n = 0;
  if (!sx_descriptor_get(&n, number, cudnn, descriptor, attribute, CUDNN_TYPE_INT64, 1)) return false;
  return n == 1 || sx_cudnn_fail(cudnn, CUDNN_STATUS_INTERNAL_ERROR_UNEXPECTED_VALUE,
                                 sx_format(cudnn->arena, "give the number of attribute %d", (int)attribute));
}

/* ---- the session -------------------------------------------------------------------------------- */

bool sx_cudnn_open(sx_cudnn *cudnn, const sx_api *api, const sx_device *facts, sx_arena *arena, sx_diags *diags) {
  *cudnn = (sx_cudnn){.api = api, .facts = facts, .arena = arena, .diags = diags};
  if (!sx_descriptor_make(&cudnn->device, cudnn, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)) return false;
  cudnnStatus_t status = api->cudnnBackendSetAttribute(cudnn->device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                                       CUDNN_TYPE_CHAR, (int64_t)facts->json_n_bytes, facts->json);
  if (status == CUDNN_STATUS_SUCCESS) status = api->cudnnBackendFinalize(cudnn->device);
  if (status == CUDNN_STATUS_SUCCESS) return true;
  sx_error(diags, SX_E_DEVICE_REFUSED, (sx_span){0}, "cuDNN %s does not take %s, compute_%d: %s",
           api->found[SX_LIBRARY_CUDNN].version, facts->name, (int)(facts->compute_capability / 10),
           sx_cudnn_status_text(cudnn, status));
  return false;
}

void sx_cudnn_open_on(sx_cudnn *cudnn, const sx_api *api, const sx_device *facts, cudnnHandle_t handle, sx_arena *arena,
                      sx_diags *diags) {
  *cudnn = (sx_cudnn){.api = api, .facts = facts, .arena = arena, .diags = diags, .handle = handle};
}

void sx_cudnn_close(sx_cudnn *cudnn) { sx_cudnn_release(cudnn, 0); }

/* ---- the graph of a convolution ----------------------------------------------------------------- */

enum { SPATIAL = 2, RANK = 4 };
static const int64_t ALIGNMENT = 16; /* of every tensor of a memory plan at least */

/* A tensor that cuDNN sees as [n c h w] and that lies in memory as [n h w c]. */
static bool make_tensor(sx_descriptor *tensor, sx_cudnn *s, int64_t id, sx_dtype dtype, const int64_t dims[RANK]) {
  cudnnDataType_t type = dtype == SX_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
  int64_t c = dims[1], h = dims[2], w = dims[3];
  const int64_t strides[RANK] = {h * w * c, 1, w * c, c};
  return sx_descriptor_make(tensor, s, CUDNN_BACKEND_TENSOR_DESCRIPTOR) &&
         sx_descriptor_set(s, *tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type) &&
         sx_descriptor_set(s, *tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, RANK, dims) &&
         sx_descriptor_set(s, *tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, RANK, strides) &&
         sx_descriptor_set(s, *tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id) &&
         sx_descriptor_set(s, *tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &ALIGNMENT) &&
         sx_descriptor_finalize(s, *tensor);
}

static bool make_convolution(sx_descriptor *made, sx_cudnn *s, const sx_convolution *c) {
  const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  const int64_t rank = SPATIAL, dilations[] = {1, 1}, strides[] = {c->stride, c->stride};
  const int64_t paddings[] = {c->padding, c->padding};
  return sx_descriptor_make(made, s, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR) &&
         sx_descriptor_set(s, *made, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums) &&
         sx_descriptor_set(s, *made, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode) &&
         sx_descriptor_set(s, *made, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &rank) &&
         sx_descriptor_set(s, *made, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, SPATIAL, dilations) &&
         sx_descriptor_set(s, *made, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, SPATIAL, strides) &&
         sx_descriptor_set(s, *made, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, SPATIAL, paddings) &&
         sx_descriptor_set(s, *made, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, SPATIAL, paddings) &&
         sx_descriptor_finalize(s, *made);
}

/* What one role calls its operation and the operation's attributes. */
typedef struct role_row {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t x, w, y, convolution, alpha, beta;
} role_row;

static const role_row ROLES[SX_N_ROLES] = {
    [SX_ROLE_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [SX_ROLE_DATA] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [SX_ROLE_WEIGHT] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

static bool make_operation(sx_descriptor *made, sx_cudnn *s, const sx_convolution *c) {
  const role_row *role = &ROLES[c->role];
  const int64_t x[RANK] = {c->batch, c->channels, c->height, c->width}, w[RANK] = {c->out, c->channels, c->kh, c->kw};
  const int64_t y[RANK] = {c->batch, c->out, sx_convolution_out_height(c), sx_convolution_out_width(c)};
  const float one = 1, zero = 0;
  sx_descriptor xs, ws, ys, convolution;
  return make_tensor(&xs, s, 1, c->dtype, x) && make_tensor(&ws, s, 2, c->dtype, w) &&
         make_tensor(&ys, s, 3, c->dtype, y) && make_convolution(&convolution, s, c) &&
         sx_descriptor_make(made, s, role->operation) &&
         sx_descriptor_set(s, *made, role->x, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &xs) &&
         sx_descriptor_set(s, *made, role->w, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &ws) &&
         sx_descriptor_set(s, *made, role->y, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &ys) &&
         sx_descriptor_set(s, *made, role->convolution, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &convolution) &&
         sx_descriptor_set(s, *made, role->alpha, CUDNN_TYPE_FLOAT, 1, &one) &&
         sx_descriptor_set(s, *made, role->beta, CUDNN_TYPE_FLOAT, 1, &zero) && sx_descriptor_finalize(s, *made);
}

bool sx_cudnn_graph(sx_descriptor *graph, sx_cudnn *cudnn, const sx_convolution *convolution) {
  const char *wrong = sx_convolution_check(convolution);
  if (wrong) {
    sx_error(cudnn->diags, SX_E_DEVICE_CONVOLUTION, (sx_span){0}, "a convolution has %s", wrong);
    return false;
  }
  sx_descriptor operation;
  return make_operation(&operation, cudnn, convolution) &&
         sx_descriptor_make(graph, cudnn, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) &&
         sx_descriptor_set(cudnn, *graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                           &operation) &&
         (!cudnn->handle ||
          sx_descriptor_set(cudnn, *graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &cudnn->handle)) &&
         sx_descriptor_finalize(cudnn, *graph);
}
