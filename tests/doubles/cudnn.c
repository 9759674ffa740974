/* Stands in for a cuDNN that cannot be used: version 9.7, and with LACKS_FINALIZE one without a function that is
 * called. Loading it changes the direction of rounding, as an initializer might. */
#include <fenv.h>
#include <stddef.h>

__attribute__((constructor)) static void round_up(void) { fesetround(FE_UPWARD); }

size_t cudnnGetVersion(void);
size_t cudnnGetVersion(void) { return 90700; }

/* All others are there and never called. */
#define ENTRY_DRIVER(name)
#define ENTRY_NVRTC(name)
#define ENTRY_CUBLAS(name)
#define ENTRY_CUBLASLT(name)
#define ENTRY_CUDNN(name) \
  void name(void);        \
  void name(void) {}
#define cudnnGetVersion version_is_above
#ifdef LACKS_FINALIZE
#define cudnnBackendFinalize finalize_has_another_name
#endif
#define SX_ENTRY(library, function) ENTRY_##library(function)
#include "../../libsexp/cuda/api.def"
