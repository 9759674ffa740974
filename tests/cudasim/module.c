/* Modules: an image of the NVRTC shim, its functions and variables. */
#include "module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"

enum { DEFAULT_SHARED = 48 * 1024, REGISTERS = 32 };

/* ---- loading -------------------------------------------------------------------------------------- */

/* A cubin runs where the major capability is the same and the minor not lower. */
static bool runs_here(unsigned architecture) {
  unsigned here = (unsigned)(sim_card_fact("deviceVer") / 10);
  return architecture / 10 == here / 10 && architecture % 10 <= here % 10;
}

/* The PTX of an image; NULL and why. A damaged file is not the program's fault; PTX for the driver's own compiler is,
 * since its version would move bits. */
static const char *open_image(const char *image, unsigned *architecture, CUresult *status) {
  unsigned major = 0, minor = 0;
  size_t n_bytes = 0;
  unsigned long long sum = 0;
  *status = CUDA_ERROR_INVALID_IMAGE;
  if (strncmp(image, "//", 2) == 0 || strncmp(image, ".version", 8) == 0) {
    *status = sim_refuse(CUDA_ERROR_INVALID_PTX, "PTX was given, which the driver would compile; a cubin was expected");
    return NULL;
  }
  if (memcmp(image, "\177ELF", 4) == 0) {
    sim_refuse(*status, "a real cubin was given: NVRTC was not loaded through tests/cudasim/run");
    return NULL;
  }
  if (strncmp(image, SIM_IMAGE_BEGIN, strlen(SIM_IMAGE_BEGIN)) != 0) return NULL;
  if (sscanf(image, SIM_IMAGE_PARSE, architecture, &major, &minor, &n_bytes, &sum) != 5) return NULL;
  const char *ptx = strchr(image, '\n');
  if (!ptx || strlen(ptx + 1) != n_bytes || sim_image_sum(ptx + 1, n_bytes) != sum) return NULL;
  if (runs_here(*architecture)) return ptx + 1;
  *status = CUDA_ERROR_NO_BINARY_FOR_GPU;
  return NULL;
}

static CUresult load(CUmodule *handle, const void *image) {
  if (!handle || !image) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "module %p, image %p", (void *)handle, image);
  CUresult status = sim_capture_forbids_unsafe();
  if (status) return status;
  unsigned architecture = 0;
  const char *ptx = open_image(image, &architecture, &status);
  if (!ptx) return status;
  char problem[512] = "";
  sim_module *parsed = sim_module_parse(ptx, problem, sizeof problem);
  if (!parsed) return sim_refuse(CUDA_ERROR_INVALID_IMAGE, "%s", problem);
  sim_loaded *module = sim_allocate(sizeof *module);
  sim_object_add(module, SIM_KIND_MODULE);
  module->ptx = parsed;
  module->architecture = architecture;
  *handle = (CUmodule)(void *)module;
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  return load(module, image);
}

/* Options steer the driver's own compiler, which has nothing to do for a cubin; its logs are empty. */
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned n_options, CUjit_option *options,
                            void **values) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  for (unsigned i = 0; i < n_options; i++) {
    if (!options || !values)
      return sim_refuse(CUDA_ERROR_INVALID_VALUE, "%u options, of which there is no list", n_options);
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER || options[i] == CU_JIT_INFO_LOG_BUFFER) {
      if (values[i]) *(char *)values[i] = 0;
    } else if (options[i] != CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES && options[i] != CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES) {
      return sim_refuse(CUDA_ERROR_INVALID_VALUE, "option %d would steer a compiler that a cubin does not need",
                        (int)options[i]);
    }
  }
  return load(module, image);
}

/* Functions stay allocated: their handles are told from nonsense. */
CUresult cuModuleUnload(CUmodule handle) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  sim_loaded *module = sim_object_of(handle, SIM_KIND_MODULE);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  CUresult status = sim_capture_forbids_unsafe();
  if (status) return status;
  status = sim_device_drain(module->object.device);
  for (size_t i = 0; i < module->n; i++) module->functions[i]->object.alive = false;
  for (size_t i = 0; i < module->n_variables; i++) sim_memory_abandon(module->variables[i]);
  module->object.alive = false;
  sim_module_free(module->ptx);
  module->ptx = NULL;
  return status;
}

/* ---- functions and variables ---------------------------------------------------------------------- */

static sim_function *make_function(sim_loaded *module, const sim_kernel *kernel, const char *name) {
  sim_function *function = sim_allocate(sizeof *function);
  sim_object_add(function, SIM_KIND_FUNCTION);
  function->module = module;
  function->kernel = kernel;
  function->name = sim_text(name);
  uint32_t fixed = sim_kernel_shared_bytes(kernel);
  function->max_dynamic_shared = fixed < DEFAULT_SHARED ? DEFAULT_SHARED - fixed : 0;
  for (size_t i = 0; i < sim_kernel_params(kernel); i++) {
    size_t offset = 0, n_bytes = 0;
    sim_kernel_param(kernel, i, &offset, &n_bytes);
    if (offset + n_bytes > function->n_param_bytes) function->n_param_bytes = offset + n_bytes;
  }
  module->functions = realloc(module->functions, (module->n + 1) * sizeof(sim_function *));
  if (!module->functions) abort();
  return module->functions[module->n++] = function;
}

CUresult cuModuleGetFunction(CUfunction *handle, CUmodule module_handle, const char *name) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  sim_loaded *module = sim_object_of(module_handle, SIM_KIND_MODULE);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  if (!handle || !name)
    return sim_refuse(CUDA_ERROR_INVALID_VALUE, "function %p, name %p", (void *)handle, (const void *)name);
  sim_function *function = NULL;
  for (size_t i = 0; i < module->n; i++)
    if (strcmp(module->functions[i]->name, name) == 0) function = module->functions[i];
  const sim_kernel *kernel = function ? function->kernel : sim_module_kernel(module->ptx, name);
  if (!kernel) return sim_refuse(CUDA_ERROR_NOT_FOUND, "module %u has no kernel \"%s\"", module->object.number, name);
  if (!function) function = make_function(module, kernel, name);
  *handle = (CUfunction)(void *)function;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *n_bytes, CUmodule handle, const char *name) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  sim_loaded *module = sim_object_of(handle, SIM_KIND_MODULE);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  void *base = NULL;
  size_t n = 0;
  if (!name || !sim_module_variable(module->ptx, name, &base, &n))
    return sim_refuse(CUDA_ERROR_NOT_FOUND, "module %u has no variable \"%s\"", module->object.number,
                      name ? name : "");
  const sim_memory *known = sim_memory_find(base);
  if (!known || !known->alive) {
    sim_memory_adopt(base, n, module->object.device);
    module->variables = realloc(module->variables, (module->n_variables + 1) * sizeof(void *));
    if (!module->variables) abort();
    module->variables[module->n_variables++] = base;
  }
  if (address) *address = (CUdeviceptr)(uintptr_t)base;
  if (n_bytes) *n_bytes = n;
  return CUDA_SUCCESS;
}

/* ---- attributes ----------------------------------------------------------------------------------- */

static uint32_t max_threads(const sim_function *function) {
  uint32_t stated = sim_kernel_max_threads(function->kernel), card = (uint32_t)sim_card_fact("maxThreadsPerBlock");
  return stated && stated < card ? stated : card;
}

/* Registers are not known before ptxas; every kernel counts as one of 32. */
CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction handle) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  const sim_function *function = sim_object_of(handle, SIM_KIND_FUNCTION);
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  if (!value) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "the value's address is NULL");
  switch ((int)attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = (int)max_threads(function);
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = (int)sim_kernel_shared_bytes(function->kernel);
      break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      *value = 0;
      break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = 0;
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = REGISTERS;
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      *value = (int)function->module->architecture;
      break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = (int)function->module->architecture;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = (int)function->max_dynamic_shared;
      break;
    default:
      return sim_refuse(CUDA_ERROR_INVALID_VALUE, "attribute %d is not known here", (int)attribute);
  }
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  sim_function *function = sim_object_of(handle, SIM_KIND_FUNCTION);
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
    if (value < -1 || value > 100) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "a carveout of %d percent", value);
    return CUDA_SUCCESS;
  }
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
    return sim_refuse(CUDA_ERROR_INVALID_VALUE, "attribute %d cannot be set", (int)attribute);
  int64_t most = sim_card_fact("maxSharedMemoryPerBlockOptin") - (int64_t)sim_kernel_shared_bytes(function->kernel);
  if (value < 0 || value > most)
    return sim_refuse(CUDA_ERROR_INVALID_VALUE, "%s: %d bytes of dynamic shared memory; the card has %lld for it",
                      function->name, value, (long long)most);
  function->max_dynamic_shared = (uint32_t)value;
  return CUDA_SUCCESS;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, CUfunction handle, int block, size_t dynamic) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  const sim_function *function = sim_object_of(handle, SIM_KIND_FUNCTION);
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  if (!n || block <= 0)
    return sim_refuse(CUDA_ERROR_INVALID_VALUE, "number %p, blocks of %d threads", (void *)n, block);
  int64_t reserved = sim_card_fact("reservedSharedMemoryPerBlock");
  int64_t shared = (int64_t)sim_kernel_shared_bytes(function->kernel) + (int64_t)dynamic + reserved;
  int64_t warps = (block + 31) / 32;
  int64_t blocks = least(sim_card_fact("maxCtasPerSM"), sim_card_fact("maxThreadsPerSM") / (32 * warps));
  blocks = least(blocks, (sim_card_fact("maxSharedMemoryPerBlockOptin") + reserved) / shared);
  blocks = least(blocks, sim_card_fact("maxRegistersPerSM") / (REGISTERS * 32 * warps));
  *n = (uint32_t)block > max_threads(function) ? 0 : (int)blocks;
  return CUDA_SUCCESS;
}
