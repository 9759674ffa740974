/* Stands in for a cuDNN that cannot be used: version 9.7, and with LACKS_FINALIZE one without a function that is
 * called. Loading it changes the direction of rounding, as an initializer might. */
#include <fenv.h>
#include <stddef.h>

__attribute__((constructor)) static void round_up(void) { fesetround(FE_UPWARD); }

size_t cudnnGetVersion(void);
size_t cudnnGetVersion(void) { return 90700; }

#define NEVER_CALLED(name) \
  void name(void);         \
  void name(void) {}
NEVER_CALLED(cudnnGetErrorString)
NEVER_CALLED(cudnnGetLastErrorString)
NEVER_CALLED(cudnnBackendCreateDescriptor)
NEVER_CALLED(cudnnBackendDestroyDescriptor)
NEVER_CALLED(cudnnBackendSetAttribute)
NEVER_CALLED(cudnnBackendGetAttribute)
#ifndef LACKS_FINALIZE
NEVER_CALLED(cudnnBackendFinalize)
#endif
