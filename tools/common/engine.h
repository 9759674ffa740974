/* What a run is to be computed with, as settings name it. */
#ifndef TOOL_ENGINE_H
#define TOOL_ENGINE_H

#include "../../libsexp/sexp.h"

/* Of --device and the environment. */
typedef struct tool_engine_settings {
  const char *device;  /* "cpu", "cuda"; NULL: cpu */
  const char *devices; /* SEXPGPU_DEVICES; NULL: 0 */
  const char *simd;    /* SEXPGPU_SIMD; NULL: the best */
  int64_t threads;     /* --threads; 0: all */
  bool pin;            /* SEXPGPU_PIN */
  bool patterns;       /* SEXPGPU_PATTERNS */
  bool portable;       /* --portable */
  double memory_gib;   /* SEXPGPU_MEMORY; 0: the device's own */
} tool_engine_settings;
#define TOOL_ENGINE_DEFAULT \
  { .patterns = true }

bool tool_engine_is_cuda(const tool_engine_settings *settings);
/* Refuses an unknown device (E-DEVICE-001), a malformed SEXPGPU_DEVICES (E-ENV-001), several devices (E-DEVICE-060), an
 * unknown SEXPGPU_SIMD (E-ENV-001). */
int tool_engine_check(const tool_engine_settings *settings);
/* The number in the text of SEXPGPU_DEVICES. */
typedef enum tool_ordinal { TOOL_ORDINAL_ONE, TOOL_ORDINAL_SEVERAL, TOOL_ORDINAL_MALFORMED } tool_ordinal;
tool_ordinal tool_engine_ordinal(int *ordinal, const char *text);
/* *device is NULL for the CPU. Variables that make the libraries compute otherwise than they are asked to are taken out
 * of this process's environment, with a warning. The exit status of a failure, printed. */
int tool_engine_open(sexp_device **device, const tool_engine_settings *settings);

/* Memory that a run on the CPU may take, and who says so: "SEXPGPU_MEMORY allows", or what the system leaves. 0: any;
 * so for a device, which fits its plans to its own memory. */
int64_t tool_engine_memory(const tool_engine_settings *settings, const char **whose);

/* Fills the options that say what to compute with; device NULL: the CPU. */
void tool_engine_options(sexp_run_options *options, const tool_engine_settings *settings, sexp_device *device);

#endif
