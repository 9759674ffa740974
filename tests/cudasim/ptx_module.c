/* What a module and a kernel are asked. */
#include "ptx_internal.h"

const sim_kernel *sim_module_kernel(const sim_module *module, const char *name) {
  for (size_t i = 0; i < module->n_kernels; i++)
    if (strcmp(module->kernels[i].name, name) == 0) return &module->kernels[i];
  return NULL;
}

size_t sim_kernel_params(const sim_kernel *kernel) { return kernel->n_params; }

void sim_kernel_param(const sim_kernel *kernel, size_t i, size_t *offset, size_t *n_bytes) {
  *offset = kernel->params[i].offset;
  *n_bytes = kernel->params[i].n_bytes;
}

uint32_t sim_kernel_shared_bytes(const sim_kernel *kernel) { return kernel->shared_n_bytes; }

uint32_t sim_kernel_max_threads(const sim_kernel *kernel) { return kernel->max_threads; }

static bool is_in_memory(const sim_variable *variable) {
  return variable->space == SIM_GLOBAL || variable->space == SIM_CONST;
}

bool sim_module_variable(const sim_module *module, const char *name, void **address, size_t *n_bytes) {
  for (size_t i = 0; i < module->n_variables; i++) {
    const sim_variable *variable = &module->variables[i];
    if (!is_in_memory(variable) || variable->n_name != strlen(name) ||
        memcmp(variable->name, name, variable->n_name) != 0)
      continue;
    *address = variable->owned;
    *n_bytes = variable->n_bytes;
    return true;
  }
  return false;
}

bool sim_module_range(const sim_module *module, sim_span *range, uint64_t address, size_t n_bytes, bool writes) {
  for (size_t i = 0; i < module->n_variables; i++) {
    const sim_variable *variable = &module->variables[i];
    if (!is_in_memory(variable) || (writes && variable->space == SIM_CONST)) continue;
    if (address < variable->address || n_bytes > variable->n_bytes ||
        address - variable->address > variable->n_bytes - n_bytes)
      continue;
    *range = (sim_span){variable->address, variable->address + variable->n_bytes};
    return true;
  }
  return false;
}
