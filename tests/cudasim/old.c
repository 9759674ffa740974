/* Names that the driver exports beside those that cuda.h maps to. Where the old entry takes other types (sizes and
 * addresses of 32 bits, no mode of capture), a program that looked it up by its plain name would pass garbage on a real
 * driver: that is a violation. Where the types are the same, it is the new entry. */
#include "driver.h"

#undef cuStreamDestroy
#undef cuEventDestroy
#undef cuEventElapsedTime
#undef cuDevicePrimaryCtxRelease
#undef cuDeviceGetUuid
#undef cuGetProcAddress

CUresult cuStreamDestroy(CUstream stream);
CUresult cuStreamDestroy(CUstream stream) { return cuStreamDestroy_v2(stream); }
CUresult cuEventDestroy(CUevent event);
CUresult cuEventDestroy(CUevent event) { return cuEventDestroy_v2(event); }
CUresult cuEventElapsedTime(float *ms, CUevent begin, CUevent end);
CUresult cuEventElapsedTime(float *ms, CUevent begin, CUevent end) { return cuEventElapsedTime_v2(ms, begin, end); }
CUresult cuDevicePrimaryCtxRelease(CUdevice device);
CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return cuDevicePrimaryCtxRelease_v2(device); }
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device);
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) { return cuDeviceGetUuid_v2(uuid, device); }

/* A macro would be replaced by what cuda.h maps the name to; pasted, it is not. */
#define OLD(name, mapped)                                                                                        \
  CUresult cu##name(void);                                                                                       \
  CUresult cu##name(void) {                                                                                      \
    SIM_CALL(SIM_NEEDS_NOTHING);                                                                                 \
    return sim_refuse(CUDA_ERROR_NOT_SUPPORTED, "this entry has the types of an old CUDA; cuda.h's is " mapped); \
  }

#undef cuDeviceTotalMem
#undef cuMemGetInfo
#undef cuMemAlloc
#undef cuMemFree
#undef cuMemAllocHost
#undef cuMemGetAddressRange
#undef cuModuleGetGlobal
#undef cuMemcpyHtoD
#undef cuMemcpyDtoH
#undef cuMemcpyDtoD
#undef cuMemcpyHtoDAsync
#undef cuMemcpyDtoHAsync
#undef cuMemcpyDtoDAsync
#undef cuMemsetD8
#undef cuMemsetD32
#undef cuStreamBeginCapture
#undef cuGraphInstantiate
OLD(DeviceTotalMem, "cuDeviceTotalMem_v2")
OLD(MemGetInfo, "cuMemGetInfo_v2")
OLD(MemAlloc, "cuMemAlloc_v2")
OLD(MemFree, "cuMemFree_v2")
OLD(MemAllocHost, "cuMemAllocHost_v2")
OLD(MemGetAddressRange, "cuMemGetAddressRange_v2")
OLD(ModuleGetGlobal, "cuModuleGetGlobal_v2")
OLD(MemcpyHtoD, "cuMemcpyHtoD_v2")
OLD(MemcpyDtoH, "cuMemcpyDtoH_v2")
OLD(MemcpyDtoD, "cuMemcpyDtoD_v2")
OLD(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2")
OLD(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2")
OLD(MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2")
OLD(MemsetD8, "cuMemsetD8_v2")
OLD(MemsetD32, "cuMemsetD32_v2")
OLD(StreamBeginCapture, "cuStreamBeginCapture_v2")
OLD(GraphInstantiate, "cuGraphInstantiateWithFlags")
