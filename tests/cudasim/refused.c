/* Names that the real cuDNN must find in a driver and that answer it with "no device". Without cuda.h: their arguments
 * are not looked at. */
enum { NO_DEVICE = 100 };

#define REFUSE(name) \
  int name(void);    \
  int name(void) { return NO_DEVICE; }

REFUSE(cuCtxGetLimit)
REFUSE(cuCtxPopCurrent)
REFUSE(cuCtxPopCurrent_v2)
REFUSE(cuCtxPushCurrent)
REFUSE(cuCtxPushCurrent_v2)
REFUSE(cuKernelGetAttribute)
REFUSE(cuKernelSetAttribute)
REFUSE(cuLaunchCooperativeKernel)
REFUSE(cuLaunchKernelEx)
REFUSE(cuLibraryLoadFromFile)
REFUSE(cuLinkAddData)
REFUSE(cuLinkAddData_v2)
REFUSE(cuLinkComplete)
REFUSE(cuLinkCreate)
REFUSE(cuLinkCreate_v2)
REFUSE(cuLinkDestroy)
REFUSE(cuOccupancyMaxPotentialClusterSize)
