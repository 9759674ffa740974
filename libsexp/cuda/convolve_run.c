/* Convolutions as plans of cuDNN. */
#include "convolve.h"
#include "cuda.h"
#include "cudnn_descriptor.h"

enum { X_ID = 1, W_ID = 2, Y_ID = 3 /* of the tensors of sx_cudnn_graph */ };

static void fail_first(sx_cuda *cuda, const sx_diags *diags) {
  const sx_diag *first = &diags->list.items[0];
  sx_cuda_fail(cuda, first->code, "%s", first->message);
}

bool sx_convolve_prepare(sx_cuda *cuda, sx_work *work) {
  sx_convolve *c = work->convolve;
  sx_diags diags;
  sx_diags_init(&diags, c->arena);
  c->session = SX_NEW(c->arena, sx_cudnn);
  sx_cudnn_open_on(c->session, &cuda->api, &cuda->properties, cuda->cudnn, c->arena, &diags);
  sx_cudnn_plan *plan = SX_NEW(c->arena, sx_cudnn_plan);
  sx_choice_refusal refusal;
  sx_pin pin = sx_cudnn_pin(plan, &refusal, c->session, &c->convolution, c->engine);
  c->session->diags = NULL;
  if (pin == SX_PIN_FAILED) fail_first(cuda, &diags);
  if (pin == SX_PIN_REFUSED)
    sx_cuda_fail(cuda, SX_E_DEVICE_ENGINE, "%s: %s cannot be taken: %s", refusal.choice, refusal.recorded,
                 refusal.offered);
  c->plan = plan;
  return pin == SX_PINNED && (!plan->workspace_n_bytes || sx_cuda_convolution_workspace(cuda));
}

void sx_convolve_release(sx_cuda *cuda, sx_work *work) {
  (void)cuda;
  if (work->convolve->session) sx_cudnn_close(work->convolve->session);
  work->convolve->session = NULL;
}

/* The addresses of one execution; allocates nothing of ours. */
static cudnnStatus_t execute(sx_cuda *cuda, const sx_convolve *c, void *addresses[3], void *workspace) {
  static const int64_t ids[] = {X_ID, W_ID, Y_ID};
  const sx_api *api = &cuda->api;
  cudnnBackendDescriptor_t pack;
  cudnnStatus_t status = api->cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  status = api->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, ids);
  if (status == CUDNN_STATUS_SUCCESS)
    status =
        api->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, addresses);
  if (status == CUDNN_STATUS_SUCCESS)
    status = api->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  if (status == CUDNN_STATUS_SUCCESS) status = api->cudnnBackendFinalize(pack);
  if (status == CUDNN_STATUS_SUCCESS) status = api->cudnnBackendExecute(cuda->cudnn, c->plan->descriptor, pack);
  api->cudnnBackendDestroyDescriptor(pack);
  return status;
}

void sx_convolve_run(sx_cuda *cuda, const sx_work *work, const sx_addresses *addresses) {
  const sx_convolve *c = work->convolve;
  void *at[] = {(void *)(uintptr_t)sx_address(addresses, c->x), (void *)(uintptr_t)sx_address(addresses, c->w),
                (void *)(uintptr_t)sx_address(addresses, c->y)};
  void *workspace = c->plan->workspace_n_bytes ? (void *)(uintptr_t)sx_cuda_convolution_workspace(cuda) : NULL;
  sx_cuda_check_cudnn(cuda, execute(cuda, c, at, workspace), "cudnnBackendExecute");
}

void sx_convolve_print(sx_text *text, const sx_work *work) { sx_text_add(text, work->convolve->text); }
