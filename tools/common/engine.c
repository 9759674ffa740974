#include "engine.h"

#include <string.h>

#include "failure.h"

int tool_check_engine(const char *device, const char *simd) {
  static const char *const levels[] = {"reference", "scalar", "avx2", "avx512"};
  if (device && strcmp(device, "cpu") != 0)
    return tool_fail(TOOL_DEVICE, TOOL_E_DEVICE_UNKNOWN, "device \"%s\": this build has the CPU alone", device);
  for (size_t i = 0; simd && i < sizeof levels / sizeof levels[0]; i++)
    if (strcmp(simd, levels[i]) == 0) return TOOL_DONE;
  if (!simd) return TOOL_DONE;
  return tool_fail(TOOL_INPUT, TOOL_E_ENV_VALUE,
                   "SEXPGPU_SIMD: found \"%s\", expected reference, scalar, avx2 or avx512", simd);
}
