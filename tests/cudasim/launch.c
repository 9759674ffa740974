/* Launches: what may be launched, and the run of a kernel on memory that is checked access by access. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "module.h"

typedef struct kernel_run {
  sim_function *function;
  sim_launch launch;
  char *params;
} kernel_run;

/* What the memory check of a run keeps. */
typedef struct access {
  sim_op *op;
  bool watched, refused;
  char wrong[320];
} access;

static uint64_t n_launches;

/* ---- running -------------------------------------------------------------------------------------- */

static bool refuse(access *a, const char *wrong) {
  a->refused = true;
  snprintf(a->wrong, sizeof a->wrong, "%s", wrong);
  return false;
}

/* Host memory only where it was allocated for the device. Where races are watched, every piece that is remembered by
 * itself is asked about, else every allocation once. */
static bool allowed(void *context, sim_span *span, uint64_t address, size_t n_bytes, bool writes) {
  access *a = context;
  const void *at = (const void *)(uintptr_t)address;
  sim_memory *memory = sim_memory_find(at);
  bool host = memory && memory->place == SIM_PLACE_HOST && memory->device_map;
  if (!memory || !memory->alive || memory->device != a->op->stream->object.device ||
      (memory->place == SIM_PLACE_HOST && !host) || !sim_memory_holds(memory, at, n_bytes)) {
    const char *wrong = sim_memory_wrong(at, n_bytes, host);
    return refuse(a, wrong ? wrong : "memory of another device");
  }
  uint64_t base = (uintptr_t)memory->base, end = base + memory->n_bytes;
  *span = (sim_span){base, end};
  if (!a->watched) return true;
  sim_race_access(a->op, memory, at, n_bytes, writes);
  span->begin = address - (address - base) % SIM_GRANULE;
  span->end = span->begin + (address + n_bytes - span->begin + SIM_GRANULE - 1) / SIM_GRANULE * SIM_GRANULE;
  if (span->end > end) span->end = end;
  return true;
}

static CUresult run(void *context, sim_op *op) {
  kernel_run *r = context;
  if (!r->function->object.alive) {
    sim_violation("%s on stream %u: its module was unloaded", r->function->name, op->stream->object.number);
    return CUDA_ERROR_LAUNCH_FAILED;
  }
  access a = {.op = op, .watched = sim_race_possible()};
  sim_launch launch = r->launch;
  launch.check = allowed;
  launch.context = &a;
  launch.checks_uninitialized = launch.checks_races = sim_races_watched();
  launch.n_instructions = &op->n_instructions;
  char problem[512] = "";
  if (sim_kernel_run(r->function->kernel, &launch, problem, sizeof problem)) return CUDA_SUCCESS;
  sim_violation("%s on stream %u: %s%s%s", r->function->name, op->stream->object.number, problem, a.refused ? ": " : "",
                a.wrong);
  return a.refused ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_ERROR_LAUNCH_FAILED;
}

static void drop(void *context) {
  kernel_run *r = context;
  free(r->params);
  free(r);
}

/* ---- launching ------------------------------------------------------------------------------------ */

static CUresult wrong_shape(const sim_function *function, const sim_launch *launch) {
  static const uint64_t grid_most[] = {2147483647, 65535, 65535}, block_most[] = {1024, 1024, 64};
  uint64_t threads = 1, most = (uint64_t)sim_card_fact("maxThreadsPerBlock");
  for (int i = 0; i < 3; i++) {
    if (launch->grid[i] == 0 || launch->grid[i] > grid_most[i])
      return sim_refuse(CUDA_ERROR_INVALID_VALUE, "%s: a grid of %u blocks along %c", function->name, launch->grid[i],
                        "xyz"[i]);
    if (launch->block[i] == 0 || launch->block[i] > block_most[i])
      return sim_refuse(CUDA_ERROR_INVALID_VALUE, "%s: a block of %u threads along %c", function->name,
                        launch->block[i], "xyz"[i]);
    threads *= launch->block[i];
  }
  uint32_t stated = sim_kernel_max_threads(function->kernel);
  if (stated && stated < most) most = stated;
  if (threads > most)
    return sim_refuse(CUDA_ERROR_INVALID_VALUE, "%s: a block of %llu threads; it takes %llu", function->name,
                      (unsigned long long)threads, (unsigned long long)most);
  if (launch->shared_bytes > function->max_dynamic_shared)
    return sim_refuse(CUDA_ERROR_INVALID_VALUE, "%s: %u bytes of dynamic shared memory; it takes %u", function->name,
                      launch->shared_bytes, function->max_dynamic_shared);
  return CUDA_SUCCESS;
}

/* "extra" carries the packed parameters and their size, which is checked. */
static CUresult pack_extra(const sim_function *function, char *packed, void **extra) {
  const void *buffer = NULL;
  const size_t *n_bytes = NULL;
  for (size_t i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
      buffer = extra[i + 1];
    else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
      n_bytes = extra[i + 1];
    else
      return sim_refuse(CUDA_ERROR_INVALID_VALUE, "%s: %p in the list \"extra\"", function->name, extra[i]);
  }
  if (!n_bytes || *n_bytes != function->n_param_bytes || (!buffer && *n_bytes))
    return sim_refuse(CUDA_ERROR_INVALID_VALUE, "%s: %zu bytes of parameters; it takes %zu", function->name,
                      n_bytes ? *n_bytes : 0, function->n_param_bytes);
  if (*n_bytes) memcpy(packed, buffer, *n_bytes);
  return CUDA_SUCCESS;
}

static CUresult pack(const sim_function *function, char *packed, void **params, void **extra) {
  if (params && extra) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "%s: parameters were given twice", function->name);
  if (extra) return pack_extra(function, packed, extra);
  for (size_t i = 0; i < sim_kernel_params(function->kernel); i++) {
    size_t offset = 0, n_bytes = 0;
    sim_kernel_param(function->kernel, i, &offset, &n_bytes);
    if (!params || !params[i])
      return sim_refuse(CUDA_ERROR_INVALID_VALUE, "%s: parameter %zu of %zu is NULL", function->name, i + 1,
                        sim_kernel_params(function->kernel));
    memcpy(packed + offset, params[i], n_bytes);
  }
  return CUDA_SUCCESS;
}

/* Takes packed. */
static CUresult enqueue(sim_stream *stream, sim_function *function, const sim_launch *launch, char *packed) {
  kernel_run *r = sim_allocate(sizeof *r);
  *r = (kernel_run){function, *launch, packed};
  r->launch.params = packed;
  r->launch.n_params = function->n_param_bytes;
  sim_task task = {.name = function->name, .drop = drop, .context = r};
  sim_work *work = sim_work_make(&task, SIM_WORK_KERNEL);
  work->run_kernel = run;
  work->n_blocks = (double)launch->grid[0] * launch->grid[1] * launch->grid[2];
  return sim_stream_enqueue(stream, work);
}

CUresult cuLaunchKernel(CUfunction handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream_handle,
                        void **params, void **extra) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  sim_function *function = sim_object_of(handle, SIM_KIND_FUNCTION);
  sim_stream *stream = function ? sim_stream_of(stream_handle) : NULL;
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (function->object.device != stream->object.device)
    return sim_refuse(CUDA_ERROR_INVALID_HANDLE, "%s: its module and the stream are of different devices",
                      function->name);
  sim_launch launch = {
      .grid = {grid_x, grid_y, grid_z}, .block = {block_x, block_y, block_z}, .shared_bytes = shared_bytes};
  CUresult status = wrong_shape(function, &launch);
  if (status) return status;
  if (sim_fails_at("memory.fail_launch", ++n_launches)) return CUDA_ERROR_OUT_OF_MEMORY;
  char *packed = sim_allocate(function->n_param_bytes);
  status = pack(function, packed, params, extra);
  if (!status) return enqueue(stream, function, &launch, packed);
  free(packed);
  return status;
}
