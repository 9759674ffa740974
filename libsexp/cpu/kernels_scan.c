/* Scans: along the axis in order, across lines side by side where they are. The carried values of a
 * short float stay f32. */
#include "fma.h"
#include "reduce.h"

enum { WIDTH = 128, LEAST_WORK = 1 << 14 };

typedef struct scan_job {
  const sx_call *call;
  const sx_operand *segments; /* NULL: none */
  int64_t axis, n, n_before, n_after;
  bool linear, reverse;
} scan_job;

/* Where lines begin in an operand: index `before` of the axes before, `after` of those behind. */
static int64_t line_at(const sx_operand *operand, int64_t axis, int64_t before, int64_t after) {
  int64_t at = 0;
  for (int k = operand->rank - 1; k > axis; k--) {
    at += after % operand->dims[k] * operand->strides[k];
    after /= operand->dims[k];
  }
  for (int64_t k = axis - 1; k >= 0; k--) {
    at += before % operand->dims[k] * operand->strides[k];
    before /= operand->dims[k];
  }
  return at;
}

/* Up to WIDTH lines side by side in the result: where each begins in each operand. */
typedef struct lines {
  int64_t n;
  int64_t x[WIDTH], b[WIDTH], segments[WIDTH];
} lines;

static void find_lines(const scan_job *job, int64_t before, int64_t first, int64_t n, lines *l) {
  l->n = n;
  for (int64_t j = 0; j < n; j++) {
    l->x[j] = line_at(&job->call->inputs[0], job->axis, before, first + j);
    if (job->linear) l->b[j] = line_at(&job->call->inputs[1], job->axis, before, first + j);
    if (job->segments) l->segments[j] = line_at(job->segments, job->axis, before, first + j);
  }
}

static bool side_by_side(const int64_t *starts, int64_t n) {
  for (int64_t j = 1; j < n; j++)
    if (starts[j] != starts[0] + j) return false;
  return true;
}

/* Step t of each line, widened; where it lies when that is contiguous f32. */
static const float *read_step(const sx_operand *operand, const int64_t *starts, bool contiguous, int64_t offset,
                              int64_t n, float *buffer) {
  if (contiguous && operand->dtype == SX_F32) return (const float *)operand->data + starts[0] + offset;
  for (int64_t j = 0; j < n; j++) buffer[j] = sx_load(operand->data, operand->dtype, starts[j] + offset).f;
  return buffer;
}

/* Whether the id of each line differs from the one before; keeps it. */
static void read_anew(const scan_job *job, const lines *l, int64_t t, bool first, int32_t *last, uint8_t *anew) {
  for (int64_t j = 0; j < l->n; j++) {
    anew[j] = first;
    if (!job->segments) continue;
    int32_t id = ((const int32_t *)job->segments->data)[l->segments[j] + t * job->segments->strides[job->axis]];
    anew[j] = anew[j] || id != last[j];
    last[j] = id;
  }
}

static void scan_floats(const scan_job *job, const lines *l, int64_t out_at) {
  const sx_operand *x = &job->call->inputs[0], *b = &job->call->inputs[1], *out = &job->call->out;
  float carried[WIDTH] = {0}, x_buffer[WIDTH], b_buffer[WIDTH];
  int32_t last[WIDTH];
  uint8_t anew[WIDTH];
  bool x_contiguous = side_by_side(l->x, l->n), b_contiguous = job->linear && side_by_side(l->b, l->n);
  for (int64_t k = 0; k < job->n; k++) {
    int64_t t = job->reverse ? job->n - 1 - k : k;
    const float *xs = read_step(x, l->x, x_contiguous, t * x->strides[job->axis], l->n, x_buffer);
    const float *bs = job->linear ? read_step(b, l->b, b_contiguous, t * b->strides[job->axis], l->n, b_buffer) : xs;
    if (k == 0 || job->segments) {
      read_anew(job, l, t, k == 0, last, anew);
      for (int64_t j = 0; j < l->n; j++) {
        float next = job->linear ? sx_fma(xs[j], carried[j], bs[j]) : carried[j] + xs[j];
        carried[j] = anew[j] ? bs[j] : next;
      }
    } else if (job->linear) {
      for (int64_t j = 0; j < l->n; j++) carried[j] = sx_fma(xs[j], carried[j], bs[j]);
    } else {
      for (int64_t j = 0; j < l->n; j++) carried[j] = carried[j] + xs[j];
    }
    int64_t to = out_at + t * job->n_after;
    SX_AT_LEVEL(sx_narrow)((char *)out->data + to * sx_element_bytes(out->dtype), out->dtype, carried, l->n);
  }
}

static void scan_tiles(void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const scan_job *job = context;
  int64_t tiles = sx_ceil_div(job->n_after, WIDTH);
  for (int64_t unit = begin; unit < end; unit++) {
    int64_t before = unit / tiles, first = unit % tiles * WIDTH;
    lines l;
    find_lines(job, before, first, sx_min_i64(WIDTH, job->n_after - first), &l);
    scan_floats(job, &l, before * job->n * job->n_after + first);
  }
}

bool SX_AT_LEVEL(sx_fast_scan)(const sx_call *call) {
  const sx_operand *out = &call->out;
  if (!sx_is_float(out->dtype)) return false;
  bool linear = call->node->op == SX_OP_SCANLINEAR;
  uint32_t n_values = linear ? 2 : 1;
  int64_t axis = call->node->ints[0];
  scan_job job = {
      .call = call, .axis = axis, .n = out->dims[axis], .linear = linear, .reverse = call->node->ints[1] != 0};
  job.segments = call->n_inputs > n_values ? &call->inputs[n_values] : NULL;
  job.n_before = sx_count(out->dims, (int)axis);
  job.n_after = sx_count(out->dims + axis + 1, out->rank - 1 - (int)axis);
  if (job.n * job.n_before * job.n_after == 0) return true;
  int64_t work = job.n * sx_min_i64(job.n_after, WIDTH);
  sx_pool_run(call->pool, job.n_before * sx_ceil_div(job.n_after, WIDTH), sx_max_i64(1, LEAST_WORK / work), scan_tiles,
              &job);
  return true;
}
