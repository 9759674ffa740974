/* What a run is to be computed with, as settings name it. */
#ifndef TOOL_ENGINE_H
#define TOOL_ENGINE_H

/* Refuses a device that this build does not have (E-DEVICE-001) and an unknown SEXPGPU_SIMD (E-ENV-001); NULL: the
 * default. */
int tool_check_engine(const char *device, const char *simd);

#endif
