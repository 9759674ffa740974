/* Every operation of ops.def that is work of its own, on operands of every dtype and layout, in one executable an
 * operation: the bits of the reference loops, and the id that stopped it. */
#include "check_parts.h"

#ifdef SX_CUDA
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../libsexp/cpu/operand.h"
#include "../../libsexp/ir/draw_key.h"
#include "../common/case_plan.h"

bool check_failed(check_result *result, const char *format, ...) {
  va_list arguments;
  if (!result->good) return false;
  result->good = false;
  va_start(arguments, format);
  vsnprintf(result->why, sizeof result->why, format, arguments);
  va_end(arguments);
  for (char *c = result->why; *c; c++)
    if (*c == '|' || *c == '\n') *c = '/'; /* it stands in a table */
  return false;
}

bool check_bits(check_result *result, const char *what, sx_dtype dtype, void *got, void *want, int64_t n) {
  size_t each = (size_t)sx_element_bytes(dtype);
  canonicalize(got, dtype, n);
  canonicalize(want, dtype, n);
  if (!memcmp(got, want, (size_t)n * each)) return true;
  int64_t first = -1, differ = 0;
  for (int64_t k = 0; k < n; k++) {
    if (!memcmp((char *)got + (size_t)k * each, (char *)want + (size_t)k * each, each)) continue;
    if (first < 0) first = k;
    differ++;
  }
  uint32_t a = 0, b = 0;
  memcpy(&a, (char *)got + (size_t)first * each, each);
  memcpy(&b, (char *)want + (size_t)first * each, each);
  return check_failed(result, "%s: %lld of %lld elements differ; element %lld is %0*x, the CPU's %0*x", what,
                      (long long)differ, (long long)n, (long long)first, (int)each * 2, a, (int)each * 2, b);
}

typedef struct reference {
  void *out;
  int64_t fault; /* flat index of the first bad id; INT64_MAX: none */
} reference;

/* The case by its reference loop; `id` is its node in the plan. */
static bool refer(reference *r, kernel_case *c, const sx_graph *graph, sx_id id) {
  int64_t scratch_bytes;
  sx_fault fault = {INT64_MAX, 0, 0};
  void *scratch = kernel_case_scratch(c, SX_SIMD_REFERENCE, 1, &scratch_bytes);
  r->out = calloc(1, (size_t)kernel_case_bytes(c) + 1);
  sx_call call = kernel_case_call(c, r->out, scratch, &fault, NULL);
  bool good = r->out && (sx_op_describe(c->node.op)->class != SX_CLASS_RANDOM ||
                         sx_draw_key(graph, id, GPU_DRAW_SEED, &call.stream_key));
  if (good) sx_reference[c->node.op](&call);
  r->fault = atomic_load(&fault.at);
  free(scratch);
  return good;
}

static void compare(check_result *result, gpu_plan *p, kernel_case *cases, int n, const sx_stopped *stopped) {
  sx_id id = 0;
  bool expected_stop = false;
  for (int i = 0; i < n; i++) {
    kernel_case *c = &cases[i];
    reference r = {0};
    id += c->n_inputs;
    if (!refer(&r, c, p->plan->graph, id)) check_failed(result, "%s: no memory, or no key of a draw", c->text);
    if (result->good) check_bits(result, c->text, c->out.dtype, p->host[id], r.out, kernel_case_elements(c));
    if (r.fault != INT64_MAX && !expected_stop) {
      expected_stop = true;
      if (!stopped->plan || stopped->node != id || stopped->at != r.fault)
        check_failed(result, "%s: the first bad id is %lld, told was node %u, id %lld", c->text, (long long)r.fault,
                     stopped->node, (long long)stopped->at);
    }
    free(r.out);
    id++;
  }
  if (!expected_stop && stopped->plan) check_failed(result, "it stopped at an id that is in range");
}

static void execute(check_result *result, gpu_device *gpu, kernel_case *cases, int n, sx_arena *arena) {
  kernel_case *list[CHECK_CASES_MOST];
  gpu_plan p;
  sx_stopped stopped;
  for (int i = 0; i < n; i++) list[i] = &cases[i];
  if (gpu_plan_make(&p, gpu, case_plan(list, (size_t)n, arena), NULL, arena)) {
    uint32_t buffer = 0;
    for (int i = 0; i < n; i++, buffer++)
      for (uint32_t k = 0; k < cases[i].n_inputs; k++) case_input(&cases[i], k, p.host[buffer++]);
    if (gpu_plan_run(&p, &stopped))
      compare(result, &p, cases, n, &stopped);
    else
      check_failed(result, "%s", gpu->why);
  } else {
    check_failed(result, "%s", gpu->why);
  }
  gpu_plan_free(&p);
}

static void check_operation(check_result *result, gpu_device *gpu, const check_piece *piece,
                            const check_options *options) {
  static kernel_case cases[CHECK_CASES_MOST];
  sx_memory memory = sx_memory_default();
  sx_arena arena;
  sx_arena_init(&arena, &memory);
  for (int i = 0; i < options->cases; i++)
    kernel_case_make(&cases[i], (sx_op)piece->number, (uint64_t)i + 1, i % 3 == 2 ? 300 : 40);
  execute(result, gpu, cases, options->cases, &arena);
  snprintf(result->what, sizeof result->what, "%d", options->cases);
  for (int i = 0; i < options->cases; i++) kernel_case_free(&cases[i]);
  sx_arena_free(&arena);
}

/* Moves that are views alone, leaves: graphs have them. */
static bool is_work(sx_op op) {
  if (!kernel_case_has(op)) return false;
  switch (sx_op_describe(op)->class) {
    case SX_CLASS_LEAF:
    case SX_CLASS_META:
      return false;
    case SX_CLASS_MOVE:
      return op == SX_OP_RESHAPE || op == SX_OP_PAD || op == SX_OP_CONCAT;
    default:
      return true;
  }
}

size_t check_single_pieces(check_piece *pieces, size_t n) {
  for (int op = 0; op < SX_N_OPS; op++) {
    if (!is_work((sx_op)op)) continue;
    check_piece *piece = &pieces[n++];
    *piece = (check_piece){.portable = true, .check = check_operation, .number = op};
    snprintf(piece->name, sizeof piece->name, "%s", sx_op_describe((sx_op)op)->name);
  }
  return n;
}
#else
typedef int test_gpu_check_single_is_empty;
#endif
