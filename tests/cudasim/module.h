/* Modules and their functions, for launches. */
#ifndef SIM_MODULE_H
#define SIM_MODULE_H

#include "driver.h"

typedef struct sim_loaded {
  sim_object object;
  sim_module *ptx;
  unsigned architecture; /* 80 */
  struct sim_function **functions;
  size_t n;
  void **variables; /* those that were asked for */
  size_t n_variables;
} sim_loaded;

typedef struct sim_function {
  sim_object object;
  sim_loaded *module;
  const sim_kernel *kernel;
  char *name;
  uint32_t max_dynamic_shared; /* as cuFuncSetAttribute set it */
  size_t n_param_bytes;
} sim_function;

#endif
