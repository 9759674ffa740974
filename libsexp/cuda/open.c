/* Opening a device: libraries, driver, context, facts, handles; each refusal says what was found.
 *
 * The facts that cuDNN selects engines by are made from the driver's attributes, so they are there without cuDNN too.
 */
#include "open.h"

#include <inttypes.h>
#include <string.h>

#include "../base/guard.h"
#include "backend.h"
#include "compile.h"

enum { LEAST_CAPABILITY = 75, HOPPER = 90 };
/* Part of what decides a product's kernel, so it depends on the generation alone. */
enum { WORKSPACE = 4 << 20, WORKSPACE_HOPPER = 32 << 20 };

/* ---- the driver ---------------------------------------------------------------------------------- */

static const char *words_of(const sx_api *api, CUresult result) {
  const char *words = NULL;
  api->cuGetErrorString(result, &words);
  return words ? words : "no words";
}

/* Gives the number of devices, at least 1; 0 and E-DEVICE-021 otherwise. */
static int count_devices(const sx_api *api, sx_diags *diags) {
  int n = 0;
  const char *call = "cuInit";
  CUresult result = api->cuInit(0);
  if (result == CUDA_SUCCESS) {
    call = "cuDeviceGetCount";
    result = api->cuDeviceGetCount(&n);
  }
  const sx_library_found *driver = &api->found[SX_LIBRARY_DRIVER];
  if (result != CUDA_SUCCESS)
    sx_error(diags, SX_E_DEVICE_NONE, (sx_span){0}, "the CUDA driver %s at %s shows no device: %s gives %d (%s)",
             driver->version, driver->path, call, (int)result, words_of(api, result));
  else if (n < 1)
    sx_error(diags, SX_E_DEVICE_NONE, (sx_span){0}, "the CUDA driver %s at %s shows no device", driver->version,
             driver->path);
  return result == CUDA_SUCCESS ? n : 0;
}

int sx_cuda_count(const char *libraries, sx_arena *arena, sx_diags *diags) {
  sx_api api = {0};
  return sx_api_load(&api, SX_LIBRARY_DRIVER, libraries, arena, diags) ? count_devices(&api, diags) : 0;
}

/* ---- libraries ----------------------------------------------------------------------------------- */

/* NVRTC before cuDNN, which opens it itself at every question. */
static bool load_libraries(sx_cuda *cuda, const char *path, sx_diags *diags) {
  static const sx_library needed[] = {SX_LIBRARY_DRIVER, SX_LIBRARY_NVRTC, SX_LIBRARY_CUBLAS, SX_LIBRARY_CUBLASLT};
  size_t n = cuda->portable ? 2 : 4;
  for (size_t i = 0; i < n; i++)
    if (!sx_api_load(&cuda->api, needed[i], path, &cuda->arena, diags)) return false;
  if (!cuda->portable) sx_api_load(&cuda->api, SX_LIBRARY_CUDNN, path, &cuda->arena, NULL);
  int64_t driver = cuda->api.found[SX_LIBRARY_DRIVER].number, nvrtc = cuda->api.found[SX_LIBRARY_NVRTC].number;
  if (driver / 1000 >= nvrtc / 1000) return true;
  sx_error(diags, SX_E_DEVICE_DRIVER, (sx_span){0}, "the CUDA driver %s at %s is older than NVRTC %s at %s",
           cuda->api.found[SX_LIBRARY_DRIVER].version, cuda->api.found[SX_LIBRARY_DRIVER].path,
           cuda->api.found[SX_LIBRARY_NVRTC].version, cuda->api.found[SX_LIBRARY_NVRTC].path);
  return false;
}

static bool has_cudnn(const sx_cuda *cuda) {
  const sx_library_found *found = &cuda->api.found[SX_LIBRARY_CUDNN];
  return found->path && !found->missing;
}

/* ---- facts --------------------------------------------------------------------------------------- */

typedef struct attribute_row {
  const char *name; /* of device.def */
  int attributes[3];
} attribute_row;

static const attribute_row ATTRIBUTES[] = {
    {"multiProcessorCount", {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT}},
    {"warpSize", {CU_DEVICE_ATTRIBUTE_WARP_SIZE}},
    {"maxSharedMemoryPerBlock", {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK}},
    {"maxSharedMemoryPerBlockOptin", {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN}},
    {"reservedSharedMemoryPerBlock", {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK}},
    {"maxRegistersPerSM", {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR}},
    {"maxCtasPerSM", {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR}},
    {"maxThreadsPerBlock", {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK}},
    {"maxThreadsPerSM", {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR}},
    {"regsPerBlock", {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK}},
    {"smClockRateKHz", {CU_DEVICE_ATTRIBUTE_CLOCK_RATE}},
    {"l2CacheSize", {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE}},
    {"maxBlockSize",
     {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z}},
    {"memClockRateKHz", {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE}},
    {"maxGridSize",
     {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z}},
    {"supportCoopLaunch", {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH}},
    {"pciDeviceId", {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID}},
    {"isTccDriver", {CU_DEVICE_ATTRIBUTE_TCC_DRIVER}},
};

static int attribute(sx_cuda *cuda, int which) {
  int value = 0;
  sx_cuda_check(cuda, cuda->api.cuDeviceGetAttribute(&value, (CUdevice_attribute)which, cuda->device),
                "cuDeviceGetAttribute");
  return value;
}

static void add_attribute(sx_text *json, sx_cuda *cuda, const attribute_row *row) {
  sx_text_addf(json, ",\"%s\":%s", row->name, row->attributes[1] ? "[" : "");
  for (int i = 0; i < 3 && row->attributes[i]; i++)
    sx_text_addf(json, "%s%d", i ? "," : "", attribute(cuda, row->attributes[i]));
  if (row->attributes[1]) sx_text_add(json, "]");
}

static void add_json_string(sx_text *json, const char *text) {
  sx_text_add(json, "\"");
  for (; *text; text++) {
    if (*text == '"' || *text == '\\')
      sx_text_addf(json, "\\%c", *text);
    else if ((unsigned char)*text < 0x20)
      sx_text_addf(json, "\\u%04x", (unsigned)(unsigned char)*text);
    else
      sx_text_add_bytes(json, text, 1);
  }
  sx_text_add(json, "\"");
}

static bool find_properties(sx_cuda *cuda, int ordinal, size_t total_bytes, sx_diags *diags) {
  sx_text json;
  sx_text_init(&json, &cuda->arena);
  sx_text_addf(&json, "{\"deviceVer\":%d", (int)cuda->capability * 10);
  for (size_t i = 0; i < sizeof ATTRIBUTES / sizeof *ATTRIBUTES; i++) add_attribute(&json, cuda, &ATTRIBUTES[i]);
  sx_text_addf(&json,
               ",\"totalGlobalMem\":%zu,\"cudaDeviceId\":%d,\"driverVer\":%" PRId64 ",\"deviceName\":", total_bytes,
               ordinal, cuda->facts.driver);
  add_json_string(&json, cuda->facts.gpu);
  sx_text_add(&json, "}");
  return sx_cuda_report(cuda, diags) && sx_device_parse(&cuda->properties, json.bytes, json.n, &cuda->arena, diags);
}

static const char *libraries_text(const sx_cuda *cuda, sx_arena *arena) {
  sx_text json;
  sx_text_init(&json, arena);
  for (int i = 0; i < SX_N_LIBRARIES; i++) {
    const sx_library_found *found = &cuda->api.found[i];
    if (!found->name) continue;
    sx_text_add(&json, json.n ? "," : "{");
    add_json_string(&json, found->name);
    sx_text_add(&json, ":");
    if (found->missing)
      sx_text_add(&json, "null");
    else
      add_json_string(&json, found->version);
  }
  sx_text_add(&json, "}");
  return sx_text_get(&json);
}

/* The seeds' text of a device. Under portable no library decides anything but NVRTC. */
static const char *facts_text(const sx_cuda *cuda, sx_arena *arena) {
  const sx_library_found *found = cuda->api.found;
  sx_text text;
  sx_text_init(&text, arena);
  sx_text_addf(&text, "compute_%d with %d multiprocessors, ", (int)cuda->capability, (int)cuda->multiprocessors);
  if (cuda->portable)
    sx_text_add(&text, "portable");
  else
    sx_text_addf(&text, "cuBLAS %" PRId64, found[SX_LIBRARY_CUBLAS].number);
  if (!cuda->portable && has_cudnn(cuda))
    sx_text_addf(&text, ", cuDNN %" PRId64, found[SX_LIBRARY_CUDNN].number);
  else if (!cuda->portable)
    sx_text_add(&text, ", no cuDNN");
  sx_text_addf(&text, ", NVRTC %s, patterns %s", found[SX_LIBRARY_NVRTC].version, cuda->patterns ? "on" : "off");
  return sx_text_get(&text);
}

/* ---- the device ---------------------------------------------------------------------------------- */

static bool is_compiled_for(sx_cuda *cuda, sx_diags *diags) {
  if (cuda->capability < LEAST_CAPABILITY) {
    sx_error(diags, SX_E_DEVICE_OLD, (sx_span){0},
             "device %d, %s, has compute capability %d.%d; it takes %d.%d or later", (int)cuda->device, cuda->facts.gpu,
             (int)cuda->capability / 10, (int)cuda->capability % 10, LEAST_CAPABILITY / 10, LEAST_CAPABILITY % 10);
    return false;
  }
  int n = 0;
  if (cuda->api.nvrtcGetNumSupportedArchs(&n) != NVRTC_SUCCESS || n < 0) n = 0;
  int *known = SX_NEW_N(&cuda->arena, int, n ? n : 1);
  if (cuda->api.nvrtcGetSupportedArchs(known) != NVRTC_SUCCESS) n = 0;
  sx_text list;
  sx_text_init(&list, &cuda->arena);
  for (int i = 0; i < n; i++) {
    if (known[i] == cuda->capability) return true;
    sx_text_addf(&list, " %d", known[i]);
  }
  sx_error(diags, SX_E_DEVICE_COMPILER, (sx_span){0}, "NVRTC %s at %s does not compile for compute_%d, %s; it has%s",
           cuda->api.found[SX_LIBRARY_NVRTC].version, cuda->api.found[SX_LIBRARY_NVRTC].path, (int)cuda->capability,
           cuda->facts.gpu, list.n ? sx_text_get(&list) : " none");
  return false;
}

static bool find_device(sx_cuda *cuda, const sexp_device_options *options, sx_diags *diags) {
  const sx_api *api = &cuda->api;
  int n = count_devices(api, diags);
  if (!n) return false;
  if (options->ordinal < 0 || options->ordinal >= n) {
    sx_error(diags, SX_E_DEVICE_ORDINAL, (sx_span){0}, "there is no device %d: the driver shows %d, from 0",
             options->ordinal, n);
    return false;
  }
  char name[256] = "";
  size_t total_bytes = 0;
  if (!sx_cuda_check(cuda, api->cuDeviceGet(&cuda->device, options->ordinal), "cuDeviceGet") ||
      !sx_cuda_check(cuda, api->cuDeviceGetName(name, sizeof name - 1, cuda->device), "cuDeviceGetName") ||
      !sx_cuda_check(cuda, api->cuDeviceTotalMem(&total_bytes, cuda->device), "cuDeviceTotalMem"))
    return sx_cuda_report(cuda, diags);
  cuda->capability = attribute(cuda, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10 +
                     attribute(cuda, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  cuda->multiprocessors = attribute(cuda, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  cuda->facts = (sexp_device_facts){.gpu = sx_arena_copy_text(&cuda->arena, name, strlen(name)),
                                    .driver = api->found[SX_LIBRARY_DRIVER].number,
                                    .capability = cuda->capability,
                                    .multiprocessors = cuda->multiprocessors,
                                    .total_bytes = (int64_t)total_bytes};
  cuda->facts.text = facts_text(cuda, &cuda->arena);
  cuda->facts.libraries = libraries_text(cuda, &cuda->arena);
  return sx_cuda_report(cuda, diags) && is_compiled_for(cuda, diags) &&
         find_properties(cuda, options->ordinal, total_bytes, diags);
}

static bool take_context(sx_cuda *cuda) {
  const sx_api *api = &cuda->api;
  if (!sx_cuda_check(cuda, api->cuDevicePrimaryCtxRetain(&cuda->context, cuda->device), "cuDevicePrimaryCtxRetain"))
    return false;
  return sx_cuda_enter(cuda) &&
         sx_cuda_check(cuda, api->cuStreamCreate(&cuda->stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate") &&
         sx_cuda_check(cuda, api->cuEventCreate(&cuda->begin, CU_EVENT_DEFAULT), "cuEventCreate") &&
         sx_cuda_check(cuda, api->cuEventCreate(&cuda->end, CU_EVENT_DEFAULT), "cuEventCreate");
}

/* The workspace is set after the stream, whose setting takes it away. */
static bool take_cublas(sx_cuda *cuda) {
  const sx_api *api = &cuda->api;
  const int math = CUBLAS_PEDANTIC_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
  cuda->blas_workspace_bytes = cuda->capability >= HOPPER ? WORKSPACE_HOPPER : WORKSPACE;
  cuda->blas_workspace = sx_cuda_take(cuda, cuda->blas_workspace_bytes);
  return cuda->blas_workspace && sx_cuda_check_cublas(cuda, api->cublasCreate(&cuda->cublas), "cublasCreate") &&
         sx_cuda_check_cublas(cuda, api->cublasSetStream(cuda->cublas, cuda->stream), "cublasSetStream") &&
         sx_cuda_check_cublas(cuda,
                              api->cublasSetWorkspace(cuda->cublas, (void *)(uintptr_t)cuda->blas_workspace,
                                                      (size_t)cuda->blas_workspace_bytes),
                              "cublasSetWorkspace") &&
         sx_cuda_check_cublas(cuda, api->cublasSetMathMode(cuda->cublas, (cublasMath_t)math), "cublasSetMathMode") &&
         sx_cuda_check_cublas(cuda, api->cublasSetAtomicsMode(cuda->cublas, CUBLAS_ATOMICS_NOT_ALLOWED),
                              "cublasSetAtomicsMode");
}

static bool take_cudnn(sx_cuda *cuda, sx_diags *diags) {
  const sx_api *api = &cuda->api;
  if (!sx_cuda_check_cudnn(cuda, api->cudnnCreate(&cuda->cudnn), "cudnnCreate") ||
      !sx_cuda_check_cudnn(cuda, api->cudnnSetStream(cuda->cudnn, cuda->stream), "cudnnSetStream"))
    return sx_cuda_report(cuda, diags);
  return sx_cudnn_open(&cuda->session, api, &cuda->properties, &cuda->arena, diags);
}

typedef struct opening {
  sx_cuda *cuda;
  const sexp_device_options *options;
  sx_diags *diags;
  bool opened;
} opening;

static void open_body(void *context) {
  opening *o = context;
  sx_cuda *cuda = o->cuda;
  if (!load_libraries(cuda, o->options->libraries, o->diags) || !find_device(cuda, o->options, o->diags)) return;
  bool taken = take_context(cuda) && (cuda->portable || take_cublas(cuda));
  if (!taken) {
    sx_cuda_report(cuda, o->diags);
    return;
  }
  if (!cuda->portable && has_cudnn(cuda) && !take_cudnn(cuda, o->diags)) return;
  sx_diags_init(&cuda->late_diags, &cuda->arena);
  cuda->options = (sx_options){.arena = &cuda->arena, .portable = cuda->portable};
  if (cuda->cudnn) cuda->options.cudnn = &cuda->session;
  if (!sx_kernels_open(cuda, o->options->cubins, o->diags)) return;
  sx_cuda_backend_open(cuda);
  cuda->facts.free_bytes = sx_cuda_free_bytes(cuda);
  o->opened = true;
}

bool sx_cuda_open(sx_cuda **opened, const sexp_device_options *options, const sx_memory *memory, sx_diags *diags) {
  sx_cuda *cuda = *opened = memory->allocate(memory->context, sizeof *cuda);
  if (!cuda) return false;
  *cuda = (sx_cuda){.memory = *memory,
                    .portable = options->portable,
                    .patterns = options->patterns,
                    .assumed_bytes = options->memory_bytes > 0 ? options->memory_bytes : 0};
  cuda->memory.escape = NULL;
  sx_arena_init(&cuda->arena, &cuda->memory);
  opening o = {cuda, options, diags, false};
  return sx_guard(&cuda->memory, open_body, &o) && o.opened;
}

void sx_cuda_close(sx_cuda *cuda) {
  if (!cuda) return;
  const sx_api *api = &cuda->api;
  if (cuda->context) api->cuCtxSetCurrent(cuda->context);
  sx_cuda_backend_close(cuda);
  sx_kernels_close(cuda);
  sx_cudnn_close(&cuda->session);
  if (cuda->cudnn) api->cudnnDestroy(cuda->cudnn);
  if (cuda->cublas) api->cublasDestroy(cuda->cublas);
  sx_cuda_give_all(cuda);
  if (cuda->end) api->cuEventDestroy(cuda->end);
  if (cuda->begin) api->cuEventDestroy(cuda->begin);
  if (cuda->stream) api->cuStreamDestroy(cuda->stream);
  if (cuda->context) {
    api->cuCtxSetCurrent(NULL);
    api->cuDevicePrimaryCtxRelease(cuda->device);
  }
  sx_memory memory = cuda->memory;
  sx_arena_free(&cuda->arena);
  memory.release(memory.context, cuda);
}

const sexp_device_facts *sx_cuda_facts(const sx_cuda *cuda) { return &cuda->facts; }
sx_backend *sx_cuda_backend(sx_cuda *cuda) { return cuda->backend; }
