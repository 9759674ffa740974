/* Devices, their facts and their primary contexts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

enum { MAX_DEVICES = 16 };
static sim_device devices[MAX_DEVICES];
static _Thread_local sim_device *current;

sim_device *sim_device_at(int device) {
  return device >= 0 && device < sim_device_count() && device < MAX_DEVICES ? &devices[device] : NULL;
}

bool sim_context_current(void) { return current && current->n_retained; }
int sim_context_device(void) { return current ? (int)(current - devices) : 0; }
CUresult sim_context_error(int device) { return devices[device].error; }

void sim_context_fault(int device, CUresult status) {
  if (!devices[device].error) devices[device].error = status;
  sim_device_drop(device);
}

/* What the driver or its libraries read, and no record tells of. */
static void watch_environment(void) {
  static const char *const names[] = {"CUBLAS_WORKSPACE_CONFIG", "CUBLAS_EMULATION_STRATEGY", "CUBLASLT_WORKSPACE_SIZE",
                                      "CUDA_FORCE_PTX_JIT", "NVIDIA_TF32_OVERRIDE"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (getenv(names[i])) sim_violation("cuInit: %s is set, which can move bits unseen", names[i]);
}

CUresult cuInit(unsigned flags) {
  SIM_CALL(SIM_NEEDS_NOTHING);
  if (flags) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "flags are %u; they must be 0", flags);
  if (!sim_settings_ready() || sim_device_count() == 0) return CUDA_ERROR_NO_DEVICE;
  watch_environment();
  sim_initialize();
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
  SIM_CALL(SIM_NEEDS_NOTHING);
  if (!version) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "the version's address is NULL");
  *version = sim_driver_version();
  return CUDA_SUCCESS;
}

/* ---- devices -------------------------------------------------------------------------------------- */

static CUresult no_device(CUdevice device) {
  return sim_refuse(CUDA_ERROR_INVALID_DEVICE, "there is no device %d; there are %d", device, sim_device_count());
}

CUresult cuDeviceGetCount(int *count) {
  SIM_CALL(SIM_NEEDS_INIT);
  if (!count) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "the count's address is NULL");
  *count = sim_device_count();
  return CUDA_SUCCESS;
}

/* A program may ask for a device that is not there, and be told so. */
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  SIM_CALL(SIM_NEEDS_INIT);
  if (!device) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "the device's address is NULL");
  if (!sim_device_at(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int n, CUdevice device) {
  SIM_CALL(SIM_NEEDS_INIT);
  if (!name || n <= 0) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "the name has %d bytes at %p", n, (void *)name);
  if (!sim_device_at(device)) return no_device(device);
  snprintf(name, (size_t)n, "%s", sim_card_name());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
  SIM_CALL(SIM_NEEDS_INIT);
  if (!uuid) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "the identifier's address is NULL");
  if (!sim_device_at(device)) return no_device(device);
  memcpy(uuid->bytes, "cudasim device ", 15);
  uuid->bytes[15] = (char)('a' + device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *text, int n, CUdevice device) {
  SIM_CALL(SIM_NEEDS_INIT);
  if (!text || n < 13)
    return sim_refuse(CUDA_ERROR_INVALID_VALUE, "the text has %d bytes at %p; it needs 13", n, (void *)text);
  if (!sim_device_at(device)) return no_device(device);
  snprintf(text, (size_t)n, "0000:%02X:%02X.0", 1, device & 31);
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *n_bytes, CUdevice device) {
  SIM_CALL(SIM_NEEDS_INIT);
  if (!n_bytes) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "the size's address is NULL");
  if (!sim_device_at(device)) return no_device(device);
  *n_bytes = (size_t)sim_card_fact("totalGlobalMem");
  return CUDA_SUCCESS;
}

typedef struct attribute_row {
  CUdevice_attribute attribute;
  const char *fact; /* NULL: value */
  int value;
} attribute_row;

static const attribute_row ATTRIBUTES[] = {
#define SIM_ATTRIBUTE(name, fact) {CU_DEVICE_ATTRIBUTE_##name, fact, 0},
#define SIM_CONSTANT(name, value) {CU_DEVICE_ATTRIBUTE_##name, NULL, value},
#include "attributes.def"
#undef SIM_ATTRIBUTE
#undef SIM_CONSTANT
};

/* The sizes of blocks and grids, in cuda.h six attributes in a row; the rows of ATTRIBUTES have the rest. */
static int size_of(CUdevice_attribute attribute) {
  static const int block[] = {1024, 1024, 64}, grid[] = {2147483647, 65535, 65535};
  if (attribute <= CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z) return block[attribute - CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X];
  return grid[attribute - CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X];
}

static bool attribute_of(int *value, CUdevice_attribute attribute, CUdevice device) {
  if (attribute >= CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X && attribute <= CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)
    *value = size_of(attribute);
  else if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
    *value = (int)(sim_card_fact("deviceVer") / 100);
  else if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
    *value = (int)(sim_card_fact("deviceVer") % 100 / 10);
  else if (attribute == CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)
    *value = (int)sim_card_fact("pciDeviceId") + device;
  else if (attribute == CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)
    *value = (int)(sim_card_bytes_a_second() * 8 / 2000 / (double)sim_card_fact("memClockRateKHz") + 0.5);
  else {
    for (size_t i = 0; i < sizeof ATTRIBUTES / sizeof *ATTRIBUTES; i++) {
      if (ATTRIBUTES[i].attribute != attribute) continue;
      *value = ATTRIBUTES[i].fact ? (int)sim_card_fact(ATTRIBUTES[i].fact) : ATTRIBUTES[i].value;
      return true;
    }
    return false;
  }
  return true;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  SIM_CALL(SIM_NEEDS_INIT);
  if (!value) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "the value's address is NULL");
  if (!sim_device_at(device)) return no_device(device);
  if (!attribute_of(value, attribute, device))
    return sim_refuse(CUDA_ERROR_INVALID_VALUE, "attribute %d is not one of tests/cudasim/attributes.def",
                      (int)attribute);
  return CUDA_SUCCESS;
}

/* ---- contexts ------------------------------------------------------------------------------------- */

static CUcontext handle_of(sim_device *device) { return (CUcontext)(void *)device; }

static sim_device *context_of(CUcontext handle) {
  for (int i = 0; i < MAX_DEVICES; i++)
    if (handle == handle_of(&devices[i]) && devices[i].n_retained) return &devices[i];
  sim_refuse(CUDA_ERROR_INVALID_CONTEXT, "%p is no primary context that is retained", (void *)handle);
  return NULL;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice ordinal) {
  SIM_CALL(SIM_NEEDS_INIT);
  if (!context) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "the context's address is NULL");
  sim_device *device = sim_device_at(ordinal);
  if (!device) return no_device(ordinal);
  device->n_retained++;
  *context = handle_of(device);
  return CUDA_SUCCESS;
}

/* After a fault nothing can be destroyed, so nothing is missed. */
static void end_context(int device, const char *when) {
  if (!devices[device].error) {
    sim_device_drain(device);
    sim_objects_report(device, when);
    sim_memory_report(device, when);
  }
  devices[device] = (sim_device){0};
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice ordinal) {
  SIM_CALL(SIM_NEEDS_INIT);
  sim_device *device = sim_device_at(ordinal);
  if (!device) return no_device(ordinal);
  if (!device->n_retained)
    return sim_refuse(CUDA_ERROR_INVALID_CONTEXT, "the primary context of device %d is not retained", ordinal);
  if (--device->n_retained == 0) end_context(ordinal, "its context is released");
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned *flags, int *active) {
  SIM_CALL(SIM_NEEDS_INIT);
  if (!sim_device_at(ordinal)) return no_device(ordinal);
  if (!flags || !active) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "an address is NULL");
  *flags = 0;
  *active = devices[ordinal].n_retained > 0;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext handle) {
  SIM_CALL(SIM_NEEDS_INIT);
  sim_device *device = handle ? context_of(handle) : NULL;
  if (handle && !device) return CUDA_ERROR_INVALID_CONTEXT;
  current = device;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
  SIM_CALL(SIM_NEEDS_NOTHING);
  if (!context) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "the context's address is NULL");
  *context = sim_context_current() ? handle_of(current) : NULL;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  if (!device) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "the device's address is NULL");
  *device = sim_context_device();
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  CUresult forbidden = sim_capture_forbids_all();
  return forbidden ? forbidden : sim_device_drain(sim_context_device());
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return CUDA_SUCCESS;
}

void sim_context_end(void) {
  for (int i = 0; i < MAX_DEVICES; i++) {
    if (!devices[i].n_retained) continue;
    current = &devices[i];
    if (!devices[i].error)
      sim_violation("leak: the primary context of device %d is not released when the process ends", i);
    end_context(i, "the process ends");
  }
}
