/* Lookups by index and additions at indices. Threads of a lookup share the ids; threads of an addition share
 * what does not depend on the ids (columns of the rows, lines along the axis), so that each target still
 * takes its contributions in ascending order of source index. */
#include "reduce.h"

enum { LEAST_WORK = 1 << 14 };

/* What a walk over the ids needs: their flat index and whether they are in range. */
typedef struct index_job {
  const sx_call *call;
  const sx_operand *ids, *values;
  sx_axes ids_axes, row; /* a row's elements over the table or the values */
  int64_t n_ids, n_row, limit, bytes;
  bool row_is_contiguous;
  void *sums; /* additions: f32 or i32, of the result's shape */
} index_job;

static sx_axes axes_of(const sx_operand *operand, int first, int end) {
  sx_axes axes = {.n = 0};
  for (int axis = first; axis < end; axis++) sx_axes_push(&axes, operand->dims[axis], operand->strides[axis]);
  return axes;
}

static bool is_contiguous(const sx_axes *axes) { return axes->n == 0 || (axes->n == 1 && axes->strides[0] == 1); }

/* The id at a flat index, -1 and a report when it is out of range. */
SX_INLINE int64_t id_at(const index_job *job, int64_t flat) {
  int64_t id = ((const int32_t *)job->ids->data)[sx_axes_at(&job->ids_axes, flat)];
  if (id >= 0 && id < job->limit) return id;
  sx_fault_report(job->call->fault, flat);
  return -1;
}

/* ---- gather, one-hot -------------------------------------------------------------- */

static void gather_rows(void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const index_job *job = context;
  const sx_operand *table = job->values;
  int64_t row_bytes = job->n_row * job->bytes;
  for (int64_t k = begin; k < end; k++) {
    int64_t id = id_at(job, k);
    char *to = (char *)job->call->out.data + k * row_bytes;
    if (id < 0) {
      memset(to, 0, (size_t)row_bytes);
      continue;
    }
    const char *from = (const char *)table->data + id * table->strides[0] * job->bytes;
    if (job->row_is_contiguous)
      memcpy(to, from, (size_t)row_bytes);
    else
      for (int64_t j = 0; j < job->n_row; j++) sx_move_element(to, j, from, sx_axes_at(&job->row, j), job->bytes);
  }
}

bool SX_AT_LEVEL(sx_fast_gather)(const sx_call *call) {
  const sx_operand *table = &call->inputs[0], *ids = &call->inputs[1];
  index_job job = {.call = call, .ids = ids, .values = table, .ids_axes = axes_of(ids, 0, ids->rank)};
  job.row = axes_of(table, 1, table->rank);
  job.n_ids = sx_operand_count(ids);
  job.n_row = sx_count(table->dims + 1, table->rank - 1);
  job.limit = table->dims[0];
  job.bytes = sx_element_bytes(table->dtype);
  job.row_is_contiguous = is_contiguous(&job.row);
  if (job.n_ids > 0)
    sx_pool_run(call->pool, job.n_ids, sx_max_i64(1, LEAST_WORK / sx_max_i64(1, job.n_row)), gather_rows, &job);
  return true;
}

static void one_hot_rows(void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const index_job *job = context;
  const sx_operand *out = &job->call->out;
  for (int64_t k = begin; k < end; k++) {
    int64_t id = id_at(job, k);
    memset((char *)out->data + k * job->limit * job->bytes, 0, (size_t)(job->limit * job->bytes));
    if (id >= 0) sx_store(out->data, out->dtype, k * job->limit + id, (sx_value){.f = 1.0f, .i = 1});
  }
}

bool SX_AT_LEVEL(sx_fast_one_hot)(const sx_call *call) {
  const sx_operand *ids = &call->inputs[0], *out = &call->out;
  index_job job = {.call = call, .ids = ids, .ids_axes = axes_of(ids, 0, ids->rank)};
  job.n_ids = sx_operand_count(ids);
  job.limit = out->dims[out->rank - 1];
  job.bytes = sx_element_bytes(out->dtype);
  if (job.n_ids > 0) sx_pool_run(call->pool, job.n_ids, sx_max_i64(1, LEAST_WORK / job.limit), one_hot_rows, &job);
  return true;
}

/* ---- sums ---------------------------------------------------------------------------- */

/* Sums of a short float are f32 in the scratch. */
static void *begin_sums(const sx_call *call) {
  bool is_short = call->out.dtype == SX_BF16 || call->out.dtype == SX_F16;
  void *sums = is_short ? call->scratch : call->out.data;
  sx_pool_zero(call->pool, sums, sx_operand_count(&call->out) * 4);
  return sums;
}

static void end_sums(const sx_call *call, const void *sums) {
  if (sums != call->out.data)
    SX_AT_LEVEL(sx_narrow)(call->out.data, call->out.dtype, sums, sx_operand_count(&call->out));
}

SX_INLINE void add_element(const index_job *job, int64_t to, int64_t from) {
  sx_value x = sx_load(job->values->data, job->values->dtype, from);
  if (job->values->dtype == SX_I32) {
    int32_t *sum = (int32_t *)job->sums + to;
    *sum = sx_wrap_add(*sum, x.i);
  } else {
    float *sum = (float *)job->sums + to;
    *sum = *sum + x.f;
  }
}

SX_INLINE void add_line(float *sum, const float *x, int64_t n) {
  int64_t j = 0;
  for (; j + SX_LANES <= n; j += SX_LANES) sx_floats_store(sum + j, sx_floats_load(sum + j) + sx_floats_load(x + j));
  for (; j < n; j++) sum[j] += x[j];
}

/* Columns begin to end - 1 of every row; only the thread of column 0 reports faults. */
static void scatter_columns(void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const index_job *job = context;
  sx_axes rows = axes_of(job->values, 0, job->ids->rank);
  bool plain = job->values->dtype == SX_F32 && job->row_is_contiguous;
  for (int64_t k = 0; k < job->n_ids; k++) {
    int64_t id = id_at(job, k);
    if (id < 0) continue;
    int64_t from = sx_axes_at(&rows, k), to = id * job->n_row;
    if (plain) {
      add_line((float *)job->sums + to + begin, (const float *)job->values->data + from + begin, end - begin);
    } else {
      for (int64_t j = begin; j < end; j++) add_element(job, to + j, from + sx_axes_at(&job->row, j));
    }
  }
}

/* Columns of a thread: one share each, since every thread reads all the ids, if that is worth a thread. */
static int64_t scatter_grain(const index_job *job, int n_threads) {
  enum { LINE = 16 };
  int64_t share = sx_ceil_div(job->n_row, n_threads), least = LEAST_WORK / sx_max_i64(1, job->n_ids);
  return sx_ceil_div(sx_max_i64(share, least), LINE) * LINE;
}

bool SX_AT_LEVEL(sx_fast_scatter)(const sx_call *call) {
  const sx_operand *ids = &call->inputs[0], *values = &call->inputs[1], *out = &call->out;
  index_job job = {.call = call, .ids = ids, .values = values, .ids_axes = axes_of(ids, 0, ids->rank)};
  job.row = axes_of(values, ids->rank, values->rank);
  job.n_ids = sx_operand_count(ids);
  job.n_row = sx_count(out->dims + 1, out->rank - 1);
  job.limit = out->dims[0];
  job.row_is_contiguous = is_contiguous(&job.row);
  job.sums = begin_sums(call);
  if (job.n_row > 0) {
    sx_pool_run(call->pool, job.n_row, scatter_grain(&job, sx_pool_threads(call->pool)), scatter_columns, &job);
  } else {
    for (int64_t k = 0; k < job.n_ids; k++) id_at(&job, k); /* faults are reported of empty rows too */
  }
  end_sums(call, job.sums);
  return true;
}

/* ---- along an axis --------------------------------------------------------------------- */

/* Lines along the axis: (before, after) the axis, over the ids, x (or the values) and the result. */
typedef struct along_job {
  const sx_call *call;
  const sx_operand *ids, *values;
  int64_t axis, before, after, limit, bytes;
  void *sums;
} along_job;

static int64_t line_start(const sx_operand *operand, int64_t axis, int64_t line) {
  int64_t at = 0;
  for (int k = operand->rank - 1; k >= 0; k--) {
    if (k == axis) continue;
    at += line % operand->dims[k] * operand->strides[k];
    line /= operand->dims[k];
  }
  return at;
}

/* Row-major index of step k of a line of the operand's shape. */
static int64_t flat_index(const along_job *job, const sx_operand *operand, int64_t line, int64_t k) {
  return (line / job->after * operand->dims[job->axis] + k) * job->after + line % job->after;
}

SX_INLINE int64_t along_id(const along_job *job, int64_t start, int64_t line, int64_t k) {
  int64_t id = ((const int32_t *)job->ids->data)[start + k * job->ids->strides[job->axis]];
  if (id >= 0 && id < job->limit) return id;
  sx_fault_report(job->call->fault, flat_index(job, job->ids, line, k));
  return -1;
}

static void take_lines(void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const along_job *job = context;
  const sx_operand *x = job->values;
  int64_t n = job->ids->dims[job->axis];
  for (int64_t line = begin; line < end; line++) {
    int64_t ids_start = line_start(job->ids, job->axis, line), x_start = line_start(x, job->axis, line);
    for (int64_t k = 0; k < n; k++) {
      int64_t id = along_id(job, ids_start, line, k), to = flat_index(job, job->ids, line, k);
      if (id >= 0)
        sx_move_element(job->call->out.data, to, x->data, x_start + id * x->strides[job->axis], job->bytes);
      else
        memset((char *)job->call->out.data + to * job->bytes, 0, (size_t)job->bytes);
    }
  }
}

static void put_lines(void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const along_job *job = context;
  index_job adding = {.values = job->values, .sums = job->sums};
  int64_t n = job->ids->dims[job->axis];
  for (int64_t line = begin; line < end; line++) {
    int64_t ids_start = line_start(job->ids, job->axis, line), start = line_start(job->values, job->axis, line);
    for (int64_t k = 0; k < n; k++) {
      int64_t id = along_id(job, ids_start, line, k);
      if (id >= 0)
        add_element(&adding, flat_index(job, &job->call->out, line, id), start + k * job->values->strides[job->axis]);
    }
  }
}

static along_job make_along(const sx_call *call, const sx_operand *ids, const sx_operand *values, int64_t limit) {
  int64_t axis = call->node->ints[0];
  return (along_job){.call = call,
                     .ids = ids,
                     .values = values,
                     .axis = axis,
                     .before = sx_count(ids->dims, (int)axis),
                     .after = sx_count(ids->dims + axis + 1, ids->rank - 1 - (int)axis),
                     .limit = limit,
                     .bytes = sx_element_bytes(call->out.dtype)};
}

static void run_along(along_job *job, sx_parallel *lines) {
  int64_t n = job->ids->dims[job->axis], n_lines = job->before * job->after;
  if (n > 0 && n_lines > 0) sx_pool_run(job->call->pool, n_lines, sx_max_i64(1, LEAST_WORK / 4 / n), lines, job);
}

bool SX_AT_LEVEL(sx_fast_take)(const sx_call *call) {
  const sx_operand *x = &call->inputs[0];
  along_job job = make_along(call, &call->inputs[1], x, x->dims[call->node->ints[0]]);
  run_along(&job, take_lines);
  return true;
}

bool SX_AT_LEVEL(sx_fast_put)(const sx_call *call) {
  along_job job = make_along(call, &call->inputs[0], &call->inputs[1], call->out.dims[call->node->ints[0]]);
  job.sums = begin_sums(call);
  run_along(&job, put_lines);
  end_sums(call, job.sums);
  return true;
}
