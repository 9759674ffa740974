/* libcudnn.so.9 of the simulated card. The real library describes, selects and plans, for the simulated card's facts;
 * what a plan computes is computed here, in an order of sums that depends on its engine and knobs. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cudnn_real.h"
#include "mathlib.h"
#include "sim.h"

/* ---- errors and settings -------------------------------------------------------------------------- */

static _Thread_local char last_error[256];

/* The reason is a violation's text, and what cudnnGetLastErrorString gives next. */
__attribute__((format(printf, 3, 4))) static cudnnStatus_t refuse(const char *call, cudnnStatus_t status,
                                                                  const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(last_error, sizeof last_error, format, arguments);
  va_end(arguments);
  sim_violation("%s: %s", call, last_error);
  return status;
}

static bool is_engine(const char *name) { return *name && strspn(name, "0123456789") == strlen(name); }

static void expect_settings(void) {
  static const char *const names[] = {"cudnn.version", "cudnn.missing", "cudnn.fail", "cudnn.nondeterministic",
                                      "cudnn.order"};
  static int done;
  if (!__atomic_exchange_n(&done, 1, __ATOMIC_RELAXED))
    sim_settings_expect("cudnn.", names, sizeof names / sizeof *names, is_engine);
}

static bool lists_engine(const char *setting, int64_t engine) {
  char name[32];
  snprintf(name, sizeof name, "%lld", (long long)engine);
  return sim_setting_lists(setting, name);
}

/* Of cudnn.order=ENGINE:N; 0 for other engines. */
static int64_t first_term(int64_t engine) {
  const char *value = sim_setting("cudnn.order"), *at = value ? strchr(value, ':') : NULL;
  if (value && !at) sim_violation("setting cudnn.order=%s: it is written ENGINE:N", value);
  return at && atoll(value) == engine ? atoll(at + 1) : 0;
}

static int version(void) {
  const sim_cudnn_real *real = sim_cudnn();
  return real ? (int)sim_setting_number("cudnn.version", (double)real->cudnnGetVersion()) : 0;
}

size_t cudnnGetVersion(void) {
  expect_settings();
  return (size_t)version();
}

const char *cudnnGetErrorString(cudnnStatus_t status) {
  const sim_cudnn_real *real = sim_cudnn();
  return real ? real->cudnnGetErrorString(status) : "there is no real cuDNN";
}

void cudnnGetLastErrorString(char *message, size_t n_message) {
  const sim_cudnn_real *real = sim_cudnn();
  if (!message || !n_message) return;
  if (*last_error || !real)
    snprintf(message, n_message, "%s", last_error);
  else
    real->cudnnGetLastErrorString(message, n_message);
  *last_error = 0;
}

/* ---- handles ------------------------------------------------------------------------------------ */

struct cudnnContext {
  sim_owned owned; /* first */
  CUstream stream;
};
static const char HANDLE[] = "handle";
static sim_owned_list handles;

__attribute__((destructor)) static void end(void) {
  sim_owned_end(&handles, "cuDNN");
  sim_records_end();
}

#define EXPECT_IN(call, condition, status, ...) \
  if (!(condition)) return refuse(call, CUDNN_STATUS_##status, __VA_ARGS__)
#define EXPECT(condition, status, ...) EXPECT_IN(__func__, condition, status, __VA_ARGS__)
#define EXPECT_HANDLE(handle) \
  EXPECT(sim_owned_is(&handles, handle, HANDLE), BAD_PARAM, "the handle is not one, or was destroyed")
#define EXPECT_REAL() \
  if (!sim_cudnn()) return CUDNN_STATUS_NOT_INITIALIZED

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  expect_settings();
  EXPECT_REAL();
  EXPECT(handle, BAD_PARAM_NULL_POINTER, "there is no place for the handle");
  EXPECT(sim_context_current(), NOT_INITIALIZED, "no context is current");
  *handle = sim_take(sizeof **handle);
  **handle = (struct cudnnContext){.stream = NULL};
  sim_owned_add(&handles, &(*handle)->owned, HANDLE);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  EXPECT_HANDLE(handle);
  sim_owned_remove(&handles, &handle->owned);
  free(handle);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  EXPECT_HANDLE(handle);
  EXPECT(sim_stream_valid((CUstream)stream), BAD_PARAM, "the stream is not one, or was destroyed");
  handle->stream = (CUstream)stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t *stream) {
  EXPECT_HANDLE(handle);
  EXPECT(stream, BAD_PARAM_NULL_POINTER, "there is no place for the stream");
  *stream = (cudaStream_t)handle->stream;
  return CUDNN_STATUS_SUCCESS;
}

/* ---- descriptors -------------------------------------------------------------------------------- */

#define RECORD(record, descriptor)                \
  sim_record *record = sim_record_of(descriptor); \
  EXPECT(record, BAD_PARAM, "the descriptor is not one, or was destroyed")

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *descriptor) {
  expect_settings();
  EXPECT_REAL();
  EXPECT(descriptor, BAD_PARAM_NULL_POINTER, "there is no place for the descriptor");
  cudnnStatus_t status = sim_cudnn()->cudnnBackendCreateDescriptor(type, descriptor);
  if (status == CUDNN_STATUS_SUCCESS) sim_record_add(*descriptor, type);
  return status;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  RECORD(record, descriptor);
  sim_record_remove(record);
  return sim_cudnn()->cudnnBackendDestroyDescriptor(descriptor);
}

static cudnnBackendDescriptor_t device;

static void describe_card(void) {
  const sim_cudnn_real *real = sim_cudnn();
  const char *json = sim_card_json();
  cudnnBackendDescriptor_t made = NULL;
  if (!real->cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &made) &&
      !real->cudnnBackendSetAttribute(made, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                      (int64_t)strlen(json), json) &&
      !real->cudnnBackendFinalize(made))
    device = made;
}

/* The description of the simulated card, made once; NULL: cuDNN does not take it. */
static cudnnBackendDescriptor_t card(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, describe_card);
  return device;
}

static const char SETTING[] = "cudnnBackendSetAttribute";

/* In place of a device that is there, the description of the card. */
static cudnnStatus_t set_card(sim_record *record, cudnnBackendAttributeName_t name) {
  cudnnBackendDescriptor_t described = card();
  EXPECT_IN(SETTING, described, NOT_INITIALIZED, "cuDNN does not take the card's facts");
  record->has_device = true;
  record->capability = sim_card_fact("deviceVer");
  record->multiprocessors = sim_card_fact("multiProcessorCount");
  return sim_cudnn()->cudnnBackendSetAttribute(record->descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &described);
}

static cudnnStatus_t set_card_json(sim_record *record) {
  const char *json = sim_card_json();
  sim_record_set(record, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, (int64_t)strlen(json), json);
  return sim_cudnn()->cudnnBackendSetAttribute(record->descriptor, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                               CUDNN_TYPE_CHAR, (int64_t)strlen(json), json);
}

static cudnnStatus_t set_handle(sim_record *record, cudnnBackendAttributeName_t name, const void *values) {
  EXPECT_IN(SETTING, values, BAD_PARAM_NULL_POINTER, "there is no handle");
  EXPECT_IN(SETTING, sim_owned_is(&handles, *(cudnnHandle_t const *)values, HANDLE), BAD_PARAM,
            "the handle is not one, or was destroyed");
  record->has_handle = true;
  if (name == CUDNN_ATTR_EXECUTION_PLAN_HANDLE) return set_card(record, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
  if (name == CUDNN_ATTR_DEVICEPROP_HANDLE) return set_card_json(record);
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t set_pack(sim_record *pack, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                              int64_t n, const void *values) {
  EXPECT_IN(SETTING, !pack->finalized, BAD_PARAM, "the variant pack is finalized");
  EXPECT_IN(SETTING, values && n >= 1 && n <= SIM_PACK_MAX, BAD_PARAM, "%lld values of a variant pack", (long long)n);
  if (name == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS) {
    EXPECT_IN(SETTING, type == CUDNN_TYPE_INT64, BAD_PARAM_ATTRIBUTE_TYPE, "unique ids are CUDNN_TYPE_INT64");
    memcpy(pack->ids, values, (size_t)n * sizeof *pack->ids);
    pack->n_ids = n;
    return CUDNN_STATUS_SUCCESS;
  }
  EXPECT_IN(SETTING, type == CUDNN_TYPE_VOID_PTR, BAD_PARAM_ATTRIBUTE_TYPE, "pointers are CUDNN_TYPE_VOID_PTR");
  if (name == CUDNN_ATTR_VARIANT_PACK_WORKSPACE) {
    memcpy(&pack->workspace, values, sizeof pack->workspace);
    return CUDNN_STATUS_SUCCESS;
  }
  EXPECT_IN(SETTING, name == CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, NOT_SUPPORTED,
            "attribute %d of a variant pack is not simulated", (int)name);
  memcpy(pack->pointers, values, (size_t)n * sizeof *pack->pointers);
  pack->n_pointers = n;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t n, const void *values) {
  RECORD(record, descriptor);
  if (record->type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) return set_pack(record, name, type, n, values);
  if (type == CUDNN_TYPE_HANDLE) return set_handle(record, name, values);
  if (name == CUDNN_ATTR_DEVICEPROP_DEVICE_ID) return set_card_json(record);
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
    for (int64_t i = 0; i < n; i++)
      EXPECT(sim_record_of(((cudnnBackendDescriptor_t const *)values)[i]), BAD_PARAM,
             "a descriptor of attribute %d is not one, or was destroyed", (int)name);
  cudnnStatus_t status = sim_cudnn()->cudnnBackendSetAttribute(descriptor, name, type, n, values);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  sim_record_set(record, name, type, n, values);
  if (name == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
    sim_record_read_engine(record, *(cudnnBackendDescriptor_t const *)values);
  return CUDNN_STATUS_SUCCESS;
}

/* Configurations of engines that are missing go to the end, and are not counted. */
static void filter(const sim_record *heuristics, int64_t *n, cudnnBackendDescriptor_t *results) {
  int64_t n_kept = 0;
  for (int64_t i = 0; i < *n; i++) {
    sim_record *record = sim_record_of(results[i]);
    if (record) sim_record_inherit(record, heuristics);
    if (sim_setting("cudnn.missing") && lists_engine("cudnn.missing", sim_configuration_engine(results[i]))) continue;
    cudnnBackendDescriptor_t kept = results[i];
    results[i] = results[n_kept];
    results[n_kept++] = kept;
  }
  *n = n_kept;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t n, int64_t *n_read, void *values) {
  RECORD(record, descriptor);
  EXPECT(record->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR && type != CUDNN_TYPE_HANDLE, NOT_SUPPORTED,
         "reading attribute %d is not simulated", (int)name);
  int64_t n_here = 0;
  cudnnStatus_t status = sim_cudnn()->cudnnBackendGetAttribute(descriptor, name, type, n, &n_here, values);
  if (status == CUDNN_STATUS_SUCCESS && values && n > 0) {
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) filter(record, &n_here, values);
    sim_record *read = name == CUDNN_ATTR_ENGINECFG_ENGINE ? sim_record_of(*(cudnnBackendDescriptor_t *)values) : NULL;
    if (read) sim_record_inherit(read, record);
  }
  if (n_read) *n_read = n_here;
  return status;
}

/* What was made for a handle is made for the card's description. */
static cudnnStatus_t complete(sim_record *record) {
  if (record->has_device || !record->has_handle) return CUDNN_STATUS_SUCCESS;
  if (record->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) return set_card(record, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
  if (record->type == CUDNN_BACKEND_ENGINE_DESCRIPTOR) return set_card(record, CUDNN_ATTR_ENGINE_DEVICEPROP);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  RECORD(record, descriptor);
  const sim_cudnn_real *real = sim_cudnn();
  if (record->type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) {
    EXPECT(record->n_ids == record->n_pointers, BAD_PARAM, "%lld unique ids and %lld pointers",
           (long long)record->n_ids, (long long)record->n_pointers);
    record->finalized = true;
    return CUDNN_STATUS_SUCCESS;
  }
  if (record->type == CUDNN_BACKEND_ENGINE_DESCRIPTOR && lists_engine("cudnn.missing", record->engine)) {
    snprintf(last_error, sizeof last_error, "engine %lld is missing, as the setting says", (long long)record->engine);
    return CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH;
  }
  cudnnStatus_t status = complete(record);
  if (status == CUDNN_STATUS_SUCCESS) status = real->cudnnBackendFinalize(descriptor);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  record->finalized = true;
  int64_t n = 0;
  if (record->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
    status = real->cudnnBackendGetAttribute(descriptor, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                            &n, &record->workspace_n_bytes);
  return status;
}

/* ---- execution ---------------------------------------------------------------------------------- */

enum { WORKSPACE_ALIGNMENT = 16 };

/* The memory of a tensor in the pack, which has to name it once. */
static cudnnStatus_t bind(void **memory, const char *call, const sim_record *pack, const sim_tensor *tensor) {
  int64_t n = 0;
  for (int64_t i = 0; i < pack->n_ids; i++)
    if (pack->ids[i] == tensor->id) {
      *memory = pack->pointers[i];
      n++;
    }
  long long id = tensor->id;
  if (n != 1)
    return refuse(call, CUDNN_STATUS_BAD_PARAM, "the variant pack has %lld pointers for id %lld", (long long)n, id);
  size_t n_bytes = sim_tensor_n_bytes(tensor);
  if (!sim_device_memory(*memory, n_bytes))
    return refuse(call, CUDNN_STATUS_BAD_PARAM, "the pointer for id %lld is not device memory of %zu bytes", id,
                  n_bytes);
  if ((uintptr_t)*memory % (uintptr_t)tensor->alignment)
    return refuse(call, CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
                  "the pointer for id %lld is not aligned to %lld bytes", id, (long long)tensor->alignment);
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t bind_workspace(sim_convolution_call *made, const char *call, const sim_record *plan,
                                    const sim_record *pack) {
  made->workspace_n_bytes = (size_t)plan->workspace_n_bytes;
  made->workspace = pack->workspace;
  if (!made->workspace_n_bytes) return CUDNN_STATUS_SUCCESS;
  if (!sim_device_memory(made->workspace, made->workspace_n_bytes))
    return refuse(call, CUDNN_STATUS_BAD_PARAM,
                  "the workspace is not device memory of the %zu bytes that the plan needs", made->workspace_n_bytes);
  if ((uintptr_t)made->workspace % WORKSPACE_ALIGNMENT)
    return refuse(call, CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "the workspace is not aligned to 16 bytes");
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check_plan(const char *call, const sim_record *plan) {
  if (!plan || plan->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR || !plan->finalized)
    return refuse(call, CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "the plan is not one that was finalized");
  if (!plan->convolution_known)
    return refuse(call, CUDNN_STATUS_NOT_SUPPORTED, "the plan is not of one convolution: others are not simulated");
  const char *why = sim_convolution_check(&plan->convolution);
  if (why) return refuse(call, CUDNN_STATUS_NOT_SUPPORTED, "%s", why);
  if (plan->tensor_cores && plan->convolution.x.dtype == SIM_F32)
    return refuse(call, CUDNN_STATUS_NOT_SUPPORTED, "engine %lld rounds f32 to TF32", (long long)plan->engine);
  if (plan->capability != sim_card_fact("deviceVer") || plan->multiprocessors != sim_card_fact("multiProcessorCount"))
    return refuse(call, CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH,
                  "the plan is for compute capability %lld with %lld multiprocessors, and this card is another",
                  (long long)plan->capability, (long long)plan->multiprocessors);
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t bind_all(sim_convolution_call *made, const char *call, const sim_record *plan,
                              const sim_record *pack) {
  const sim_convolution *c = &made->convolution;
  if (pack->n_ids != 3)
    return refuse(call, CUDNN_STATUS_BAD_PARAM, "the variant pack has %lld tensors, a convolution 3",
                  (long long)pack->n_ids);
  cudnnStatus_t status = bind(&made->x, call, pack, &c->x);
  if (status == CUDNN_STATUS_SUCCESS) status = bind(&made->w, call, pack, &c->w);
  if (status == CUDNN_STATUS_SUCCESS) status = bind(&made->y, call, pack, &c->y);
  return status == CUDNN_STATUS_SUCCESS ? bind_workspace(made, call, plan, pack) : status;
}

static bool is_apart(const sim_convolution_call *m) {
  const sim_convolution *c = &m->convolution;
  size_t x = sim_tensor_n_bytes(&c->x), w = sim_tensor_n_bytes(&c->w), y = sim_tensor_n_bytes(&c->y);
  size_t n = m->workspace_n_bytes;
  bool of_workspace = sim_overlap(m->workspace, n, m->x, x) || sim_overlap(m->workspace, n, m->w, w) ||
                      sim_overlap(m->workspace, n, m->y, y);
  if (of_workspace) return false;
  if (c->role == SIM_FORWARD) return !sim_overlap(m->y, y, m->x, x) && !sim_overlap(m->y, y, m->w, w);
  if (c->role == SIM_DATA) return !sim_overlap(m->x, x, m->y, y) && !sim_overlap(m->x, x, m->w, w);
  return !sim_overlap(m->w, w, m->x, x) && !sim_overlap(m->w, w, m->y, y);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t executionPlan,
                                  cudnnBackendDescriptor_t variantPack) {
  EXPECT_REAL();
  EXPECT_HANDLE(handle);
  EXPECT(sim_context_current(), NOT_INITIALIZED, "no context is current");
  const sim_record *plan = sim_record_of(executionPlan), *pack = sim_record_of(variantPack);
  cudnnStatus_t status = check_plan(__func__, plan);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  EXPECT(pack && pack->type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR && pack->finalized, BAD_PARAM_NOT_FINALIZED,
         "the variant pack is not one that was finalized");
  if (lists_engine("cudnn.fail", plan->engine)) {
    snprintf(last_error, sizeof last_error, "engine %lld fails, as the setting says", (long long)plan->engine);
    return CUDNN_STATUS_EXECUTION_FAILED;
  }
  sim_convolution_call call = {
      .convolution = plan->convolution,
      .order = sim_convolution_order_of(plan->engine, plan->knobs, plan->n_knobs, version()),
      .engine = plan->engine,
      .differs = plan->nondeterministic || lists_engine("cudnn.nondeterministic", plan->engine)};
  call.order.fold.first = first_term(plan->engine);
  status = bind_all(&call, __func__, plan, pack);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  EXPECT(is_apart(&call), BAD_PARAM, "what is written overlaps what is read, or the workspace a tensor");
  return sim_convolution_enqueue(handle->stream, &call) == CUDA_SUCCESS ? CUDNN_STATUS_SUCCESS
                                                                        : CUDNN_STATUS_EXECUTION_FAILED;
}
