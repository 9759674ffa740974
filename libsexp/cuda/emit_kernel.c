/* A kernel's text and launch, put together piece by piece. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "../../kernels/math.h"
#include "emit_parts.h"

/* Numbers below stay in 32 bits with room for the threads past the last element. */
static const int64_t narrow_limit = INT32_MAX - (1 << 16);

void sx_emit_begin(sx_emitter *e, sx_lowering *lowering, uint32_t task, sx_id node) {
  *e = (sx_emitter){.lowering = lowering, .task = task, .node = node, .arena = lowering->arena, .wide = lowering->wide};
  sx_text_init(&e->parameters, e->arena);
  sx_text_init(&e->body, e->arena);
  sx_text_init(&e->outside, e->arena);
}

static void add_parameter(sx_emitter *e, const char *type, const char *name, sx_argument argument) {
  sx_text_addf(&e->parameters, "%s%s%s", e->arguments.n ? ", " : "", type, name);
  SX_PUSH(e->arena, e->arguments, argument);
}

void sx_emit_pointer(sx_emitter *e, const char *name, const char *type, sx_place place, bool written) {
  const char *apart = e->overlaps ? "" : "__restrict__ ";
  const char *pointer = sx_format(e->arena, "%s%s *%s", written ? "" : "const ", type, apart);
  add_parameter(e, pointer, name, (sx_argument){.kind = SX_ARGUMENT_PLACE, .place = place, .written = written});
}

void sx_emit_input(sx_emitter *e, const char *name, sx_id id) {
  const sx_node *node = sx_node_at(e->lowering->plan->graph, id);
  sx_path path = sx_path_of(e->lowering->plan, id);
  sx_emit_pointer(e, name, sx_emit_type(node->dtype), sx_place_of(e->lowering, id), false);
  sx_emit_reach(e, &path);
  e->bytes += (double)sx_path_distinct(&path) * (double)sx_dtype_bytes(node->dtype);
}

void sx_emit_output(sx_emitter *e, const char *name, sx_id id) {
  const sx_node *node = sx_node_at(e->lowering->plan->graph, id);
  sx_emit_pointer(e, name, sx_emit_type(node->dtype), sx_place_of(e->lowering, id), true);
  sx_emit_count(e, sx_node_elements(node));
  e->bytes += (double)sx_node_elements(node) * (double)sx_dtype_bytes(node->dtype);
}

void sx_emit_i64(sx_emitter *e, const char *name, int64_t value) {
  add_parameter(e, "long long ", name, (sx_argument){.kind = SX_ARGUMENT_I64, .bits = (uint64_t)value});
}

void sx_emit_fault(sx_emitter *e) {
  uint64_t number = sx_lowering_fault(e->lowering, e->node);
  add_parameter(e, "unsigned long long *", "fault", (sx_argument){.kind = SX_ARGUMENT_FAULT, .bits = number});
}

void sx_emit_add(sx_emitter *e, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  sx_text_vaddf(&e->body, format, arguments);
  va_end(arguments);
}

void sx_emit_count(sx_emitter *e, int64_t n) { e->wide = e->wide || n > narrow_limit; }

void sx_emit_reach(sx_emitter *e, const sx_path *path) {
  sx_emit_count(e, path->n);
  sx_emit_count(e, sx_path_reach(path));
}

static const char *number(sx_emitter *e, int64_t n) {
  return sx_format(e->arena, n > INT32_MAX || n <= INT32_MIN ? "%" PRId64 "LL" : "%" PRId64, n);
}

void sx_emit_place(sx_emitter *e, const sx_path *path, const char *index, const char *result) {
  int outermost = 0;
  while (outermost < path->rank && path->strides[outermost] == 0) outermost++;
  if (outermost == path->rank) {
    sx_emit_add(e, "  const J %s = 0;\n", result);
    return;
  }
  if (path->rank == 1) {
    sx_emit_add(e, "  const J %s = (J)(%s) * %s;\n", result, index, number(e, path->strides[0]));
    return;
  }
  sx_emit_add(e, "  J %s = 0;\n  {\n    U q = %s;\n", result, index);
  for (int i = path->rank - 1; i >= outermost; i--) {
    const char *digit = i ? sx_format(e->arena, "(q %% %s)", number(e, path->dims[i])) : "q";
    if (path->strides[i]) sx_emit_add(e, "    %s += (J)%s * %s;\n", result, digit, number(e, path->strides[i]));
    if (i > outermost) sx_emit_add(e, "    q /= %s;\n", number(e, path->dims[i]));
  }
  sx_emit_add(e, "  }\n");
}

void sx_emit_each(sx_emitter *e, int64_t n) {
  sx_emit_count(e, n);
  sx_emit_add(e, "  const U i = (U)blockIdx.x * %d + threadIdx.x;\n  if (i >= %s) return;\n", SX_EMIT_THREADS,
              number(e, n));
}

sx_work *sx_emit_end(sx_emitter *e, const char *prefix, const int64_t grid[3], uint32_t threads) {
  const char *types = e->wide ? "  typedef unsigned long long U;\n  typedef long long J;\n"
                              : "  typedef unsigned U;\n  typedef int J;\n";
  const char *text =
      sx_format(e->arena, "%sextern \"C\" __global__ void __launch_bounds__(%u) KERNEL(%s) {\n%s%s}\n",
                sx_text_get(&e->outside), threads, sx_text_get(&e->parameters), types, sx_text_get(&e->body));
  sx_work *work = sx_lowering_add(e->lowering, SX_WORK_LAUNCH, e->task, e->node);
  work->flops = e->flops;
  work->bytes = e->bytes;
  work->launch = (sx_launch){.kernel = sx_lowering_kernel(e->lowering, prefix, text),
                             .block = {threads, 1, 1},
                             .arguments = e->arguments.items,
                             .n_arguments = (uint32_t)e->arguments.n};
  for (int i = 0; i < 3; i++) work->launch.grid[i] = (uint32_t)grid[i];
  return work;
}

sx_work *sx_emit_end_each(sx_emitter *e, const char *prefix, int64_t n) {
  return sx_emit_end(e, prefix, (int64_t[]){(n + SX_EMIT_THREADS - 1) / SX_EMIT_THREADS, 1, 1}, SX_EMIT_THREADS);
}

const char *sx_emit_type(sx_dtype dtype) {
  static const char *const types[SX_N_DTYPES] = {
      [SX_F32] = "float", [SX_BF16] = "sx_bf16", [SX_F16] = "sx_f16",
      [SX_I32] = "int",   [SX_U8] = "sx_byte",   [SX_BOOL] = "sx_byte",
  };
  return types[dtype];
}

const char *sx_emit_register(sx_dtype dtype) { return sx_dtype_is_float(dtype) ? "float" : "int"; }

const char *sx_emit_bits(sx_dtype dtype) {
  size_t n_bytes = sx_dtype_bytes(dtype);
  return n_bytes == 4 ? "int" : n_bytes == 2 ? "unsigned short" : "sx_byte";
}

const char *sx_emit_literal(sx_arena *arena, sx_dtype dtype, double value) {
  if (sx_dtype_is_float(dtype)) return sx_format(arena, "sx_from_bits_f32(0x%08xu)", sx_bits_f32((float)value));
  return sx_format(arena, "(int)0x%08xu", (unsigned)(int32_t)value);
}
