/* Making executables, and enqueuing them. */
#include "executable.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../base/bug.h"
#include "compile.h"
#include "lower.h"
#include "values.h"

enum { KNOWN_ALIGNMENT = 64, SHARED_WITHOUT_ASKING = 48 << 10 };

sx_made *sx_made_new(sx_cuda *cuda) {
  sx_made *made = cuda->memory.allocate(cuda->memory.context, sizeof *made);
  if (!made) return NULL;
  *made = (sx_made){.cuda = cuda};
  sx_arena_init(&made->arena, &cuda->memory);
  return made;
}

void sx_made_free(sx_made *made) {
  sx_cuda *cuda = made->cuda;
  for (size_t i = 0; i < made->lowering.works.n; i++)
    if (made->lowering.works.items[i].kind == SX_WORK_CONVOLVE)
      sx_convolve_release(cuda, &made->lowering.works.items[i]);
  sx_cuda_give(cuda, made->known);
  sx_cuda_give(cuda, made->own);
  sx_cuda_give_host(cuda, made->observed);
  sx_arena_free(&made->arena);
  cuda->memory.release(cuda->memory.context, made);
}

/* ---- lowering ------------------------------------------------------------------------------------ */

bool sx_made_lower(sx_made *made, const sx_plan *plan, int64_t draw_seed, sx_diags *diags) {
  sx_cuda *cuda = made->cuda;
  made->plan = plan;
  made->lowering = (sx_lowering){.plan = plan,
                                 .draw_seed = draw_seed,
                                 .capability = cuda->capability,
                                 .multiprocessors = cuda->multiprocessors,
                                 .portable = cuda->portable,
                                 .patterns = cuda->patterns,
                                 .arena = &made->arena,
                                 .diags = diags,
                                 .decided = sx_options_value,
                                 .options = &cuda->options};
  return sx_lower(&made->lowering);
}

/* ---- constants ----------------------------------------------------------------------------------- */

static bool is_known(const sx_buffer *buffer) {
  return buffer->kind == SX_BUFFER_CONST || buffer->kind == SX_BUFFER_IOTA;
}

static int64_t known_room(const sx_buffer *buffer) {
  return (buffer->n_bytes + KNOWN_ALIGNMENT - 1) / KNOWN_ALIGNMENT * KNOWN_ALIGNMENT;
}

int64_t sx_known_bytes(const sx_plan *plan) {
  int64_t bytes = 0;
  for (size_t b = 0; b < plan->buffers.n; b++)
    if (is_known(&plan->buffers.items[b])) bytes += known_room(&plan->buffers.items[b]);
  return bytes;
}

static void fill_known(char *to, const sx_buffer *buffer) {
  memset(to, 0, (size_t)known_room(buffer));
  if (buffer->kind == SX_BUFFER_CONST) {
    sx_value_store(to, buffer->dtype, buffer->value);
    return;
  }
  for (int64_t i = 0; i < buffer->n_bytes / 4; i++) {
    int32_t index = (int32_t)i;
    memcpy(to + 4 * i, &index, 4);
  }
}

static bool upload_known(sx_made *made, char *host, int64_t n_bytes) {
  sx_cuda *cuda = made->cuda;
  const sx_plan *plan = made->plan;
  int64_t at = 0;
  for (size_t b = 0; b < plan->buffers.n; b++) {
    if (!is_known(&plan->buffers.items[b])) continue;
    fill_known(host + at, &plan->buffers.items[b]);
    made->addresses.buffers[b] = made->known + (CUdeviceptr)at;
    at += known_room(&plan->buffers.items[b]);
  }
  return sx_cuda_check(cuda, cuda->api.cuMemcpyHtoDAsync(made->known, host, (size_t)n_bytes, cuda->stream),
                       "cuMemcpyHtoDAsync") &&
         sx_cuda_check(cuda, cuda->api.cuStreamSynchronize(cuda->stream), "cuStreamSynchronize");
}

static bool make_known(sx_made *made) {
  int64_t n_bytes = sx_known_bytes(made->plan);
  made->addresses.buffers = SX_NEW_N(&made->arena, CUdeviceptr, made->plan->buffers.n);
  if (!n_bytes) return true;
  made->known = sx_cuda_take(made->cuda, n_bytes);
  char *host = made->known ? sx_cuda_take_host(made->cuda, n_bytes) : NULL;
  bool filled = host && upload_known(made, host, n_bytes);
  sx_cuda_give_host(made->cuda, host);
  return filled;
}

/* ---- launches ------------------------------------------------------------------------------------ */

static bool make_launch(sx_made *made, sx_ready_launch *ready, const sx_launch *launch) {
  sx_cuda *cuda = made->cuda;
  ready->function = sx_kernels_find(cuda, launch->kernel);
  if (!ready->function) SX_BUG("no kernel %s", launch->kernel);
  ready->values = SX_NEW_N(&made->arena, uint64_t, launch->n_arguments ? launch->n_arguments : 1);
  ready->pointers = SX_NEW_N(&made->arena, void *, launch->n_arguments ? launch->n_arguments : 1);
  for (uint32_t i = 0; i < launch->n_arguments; i++) {
    ready->values[i] = launch->arguments[i].bits;
    ready->pointers[i] = &ready->values[i];
  }
  if (launch->shared_bytes <= SHARED_WITHOUT_ASKING) return true;
  return sx_cuda_check(cuda,
                       cuda->api.cuFuncSetAttribute(ready->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                    (int)launch->shared_bytes),
                       "cuFuncSetAttribute");
}

static const char *doing_of(sx_made *made, const sx_work *work) {
  const sx_node *node = sx_node_at(made->plan->graph, work->node);
  return sx_format(&made->arena, "%s:%%%u %s%s%s%s%s%s", made->plan->graph->name, work->node,
                   sx_op_describe(node->op)->name, *node->path ? " of " : "", node->path,
                   work->kind == SX_WORK_LAUNCH ? " (kernel " : "",
                   work->kind == SX_WORK_LAUNCH ? work->launch.kernel : "", work->kind == SX_WORK_LAUNCH ? ")" : "");
}

static bool make_work(sx_made *made, size_t i) {
  sx_work *work = &made->lowering.works.items[i];
  made->doings[i] = doing_of(made, work);
  made->cuda->doing = made->doings[i];
  bool good = true;
  if (work->kind == SX_WORK_LAUNCH) good = make_launch(made, &made->launches[i], &work->launch);
  if (work->kind == SX_WORK_CONVOLVE) good = sx_convolve_prepare(made->cuda, work);
  made->cuda->doing = NULL;
  return good;
}

bool sx_made_fill(sx_made *made, const sx_plan *plan, int64_t draw_seed, sx_diags *diags) {
  if (!sx_made_lower(made, plan, draw_seed, diags)) return false;
  sx_lowering *lowering = &made->lowering;
  if (!sx_kernels_add(made->cuda, lowering->kernels.items, lowering->kernels.n, diags) || !make_known(made))
    return false;
  made->launches = SX_NEW_N(&made->arena, sx_ready_launch, lowering->works.n);
  made->doings = SX_NEW_N(&made->arena, const char *, lowering->works.n);
  for (size_t i = 0; i < lowering->works.n; i++)
    if (!make_work(made, i)) return false;
  return true;
}

/* ---- executing ----------------------------------------------------------------------------------- */

void sx_made_place(sx_made *made, CUdeviceptr block, CUdeviceptr scratch) {
  for (size_t b = 0; b < made->plan->buffers.n; b++)
    if (made->plan->buffers.items[b].kind == SX_BUFFER_TEMPORARY)
      made->addresses.buffers[b] = block + (CUdeviceptr)made->plan->buffers.items[b].offset;
  made->addresses.scratch = scratch;
}

static void launch(sx_made *made, const sx_launch *launch, sx_ready_launch *ready, CUdeviceptr faults) {
  sx_cuda *cuda = made->cuda;
  for (uint32_t i = 0; i < launch->n_arguments; i++) {
    const sx_argument *argument = &launch->arguments[i];
    if (argument->kind == SX_ARGUMENT_PLACE) ready->values[i] = sx_address(&made->addresses, argument->place);
    if (argument->kind == SX_ARGUMENT_FAULT)
      ready->values[i] = faults + (made->first_fault + argument->bits) * sizeof(sx_fault_cell);
  }
  void *packed = ready->values;
  CUresult result = cuda->api.cuLaunchKernel(ready->function, launch->grid[0], launch->grid[1], launch->grid[2],
                                             launch->block[0], launch->block[1], launch->block[2], launch->shared_bytes,
                                             cuda->stream, launch->packed ? &packed : ready->pointers, NULL);
  sx_cuda_check(cuda, result, "cuLaunchKernel");
}

void sx_made_execute(sx_made *made, CUdeviceptr faults) {
  sx_cuda *cuda = made->cuda;
  for (size_t i = 0; i < made->lowering.works.n && !cuda->failure.failed; i++) {
    const sx_work *work = &made->lowering.works.items[i];
    cuda->doing = made->doings[i];
    switch (work->kind) {
      case SX_WORK_LAUNCH:
        launch(made, &work->launch, &made->launches[i], faults);
        break;
      case SX_WORK_PRODUCT:
        sx_product_run(cuda, work, &made->addresses);
        break;
      case SX_WORK_CONVOLVE:
        sx_convolve_run(cuda, work, &made->addresses);
        break;
      case SX_WORK_ZERO:
        sx_cuda_check(cuda,
                      cuda->api.cuMemsetD8Async(sx_address(&made->addresses, work->zero), 0, (size_t)work->zero_bytes,
                                                cuda->stream),
                      "cuMemsetD8Async");
        break;
    }
  }
  cuda->doing = NULL;
}

/* ---- stopping ------------------------------------------------------------------------------------ */

/* Below what the ids of an operation must be. */
static int64_t limit_of(const sx_graph *graph, const sx_node *node) {
  const sx_node *first = sx_node_at(graph, node->inputs[0]);
  switch (node->op) {
    case SX_OP_GATHER:
      return first->dims[0];
    case SX_OP_TAKE:
      return first->dims[node->ints[0]];
    case SX_OP_SCATTER:
      return node->dims[0];
    case SX_OP_PUT:
      return node->dims[node->ints[0]];
    case SX_OP_ONEHOT:
      return node->dims[node->rank - 1];
    default:
      SX_BUG("%s takes no ids", sx_op_describe(node->op)->name);
  }
}

bool sx_made_stopped(const sx_made *made, const unsigned long long *cells, sx_stopped *why) {
  const sx_graph *graph = made->plan->graph;
  for (size_t i = 0; i < made->lowering.faults.n; i++) {
    unsigned long long at = cells[made->first_fault + i];
    if (at == ~0ull) continue;
    sx_id node = made->lowering.faults.items[i];
    *why = (sx_stopped){.plan = made->plan,
                        .node = node,
                        .at = (int64_t)(at >> 32),
                        .value = (int32_t)(uint32_t)at,
                        .limit = limit_of(graph, sx_node_at(graph, node))};
    return true;
  }
  return false;
}

/* ---- reports ------------------------------------------------------------------------------------- */

static const char *const WORK_NAMES[] = {[SX_WORK_LAUNCH] = "launch",
                                         [SX_WORK_PRODUCT] = "product",
                                         [SX_WORK_CONVOLVE] = "convolve",
                                         [SX_WORK_ZERO] = "zero"};

/* "group_5a1f03c2, 4x2 blocks of 256"; or the call. */
static void print_how(sx_text *text, const sx_work *work) {
  const sx_launch *launch = &work->launch;
  switch (work->kind) {
    case SX_WORK_LAUNCH:
      sx_text_addf(text, "%s, %u", launch->kernel, launch->grid[0]);
      if (launch->grid[1] > 1 || launch->grid[2] > 1) sx_text_addf(text, "x%u", launch->grid[1]);
      if (launch->grid[2] > 1) sx_text_addf(text, "x%u", launch->grid[2]);
      sx_text_addf(text, " block%s of %u", launch->grid[0] == 1 ? "" : "s", launch->block[0]);
      if (launch->block[1] > 1) sx_text_addf(text, "x%u", launch->block[1]);
      break;
    case SX_WORK_PRODUCT:
      sx_product_print(text, work);
      break;
    case SX_WORK_CONVOLVE:
      sx_convolve_print(text, work);
      break;
    case SX_WORK_ZERO:
      sx_text_addf(text, "%" PRId64 " bytes", work->zero_bytes);
      break;
  }
}

/* A number with its unit of a thousand, in a column: "1.57 G". */
static void add_amount(sx_text *text, double amount, const char *unit) {
  static const char *const thousands[] = {"", "k", "M", "G", "T", "P"};
  char number[32] = "", unit_text[16];
  size_t i = 0;
  for (; amount >= 999.5 && i < 5; i++) amount /= 1000;
  snprintf(unit_text, sizeof unit_text, "%s%s", thousands[i], unit);
  if (amount > 0) snprintf(number, sizeof number, "%.3g %s", amount, unit_text);
  sx_text_addf(text, "  %10s", number);
}

/* The node in a column: "%12 add f32 [32 64]". */
static void add_node(sx_text *text, const sx_made *made, sx_id id, sx_arena *arena) {
  const sx_node *node = sx_node_at(made->plan->graph, id);
  sx_text column;
  sx_text_init(&column, arena);
  sx_text_addf(&column, "%%%u %s %s ", id, sx_op_describe(node->op)->name, sx_dtype_name(node->dtype));
  sx_text_add_shape(&column, node->dims, node->rank);
  sx_text_addf(text, "  %-38s %-20s ", sx_text_get(&column), node->path);
}

void sx_made_print(const sx_made *made, sx_text *text) {
  for (size_t i = 0; i < made->lowering.works.n; i++) {
    const sx_work *work = &made->lowering.works.items[i];
    sx_text_addf(text, "%4zu  %-8s", i + 1, WORK_NAMES[work->kind]);
    add_amount(text, work->flops, "flop");
    add_amount(text, work->bytes, "B");
    add_node(text, made, work->node, text->arena);
    print_how(text, work);
    sx_text_add(text, "\n");
  }
}
