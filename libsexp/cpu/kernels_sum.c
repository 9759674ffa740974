/* Sums of floats in the order of numerics 1, two ways. By lines: a chunk of 4096 elements is folded into
 * 32 lanes that are a few registers. By columns: where results lie side by side, rows are added to the rows
 * of a table of 32 lanes, many columns at once, and the table is folded at the end of a chunk. */
#include "reduce.h"

enum { LANES = SX_SUM_LANES, CHUNK = SX_SUM_CHUNK, VECTORS = LANES / SX_LANES };

/* ---- lines ---------------------------------------------------------------------- */

static float fold_lanes(float lanes[LANES]) {
  for (int j = 0; j < 16; j++) lanes[j] += lanes[j + 16];
  for (int j = 0; j < 8; j++) lanes[j] += lanes[j + 8];
  for (int j = 0; j < 4; j++) lanes[j] += lanes[j + 4];
  lanes[0] += lanes[2];
  lanes[1] += lanes[3];
  return lanes[0] + lanes[1];
}

/* Fewer elements than lanes. */
static float sum_short(const float *x, int64_t n) {
  float lanes[LANES];
  if (n == 0) return 0.0f;
  memcpy(lanes, x, (size_t)n * 4);
  for (int64_t h = LANES / 2; h > 0; h /= 2)
    for (int64_t j = 0; j < h && j + h < n; j++) lanes[j] += lanes[j + h];
  return lanes[0];
}

/* At most a chunk. */
static float sum_chunk(const float *x, int64_t n) {
  if (n < LANES) return sum_short(x, n);
  sx_floats sums[VECTORS];
  float lanes[LANES];
  SX_UNROLL for (int v = 0; v < VECTORS; v++) sums[v] = sx_floats_load(x + v * SX_LANES);
  int64_t k = LANES;
  for (; k + LANES <= n; k += LANES)
    SX_UNROLL for (int v = 0; v < VECTORS; v++) sums[v] += sx_floats_load(x + k + v * SX_LANES);
  SX_UNROLL for (int v = 0; v < VECTORS; v++) sx_floats_store(lanes + v * SX_LANES, sums[v]);
  for (int64_t j = 0; k + j < n; j++) lanes[j] += x[k + j];
  return fold_lanes(lanes);
}

/* The results of chunks by the same rule, in place. */
static float sum_results(float *results, int64_t n) {
  while (n > CHUNK) {
    int64_t m = sx_ceil_div(n, CHUNK);
    for (int64_t k = 0; k < m; k++) results[k] = sum_chunk(results + k * CHUNK, sx_min_i64(CHUNK, n - k * CHUNK));
    n = m;
  }
  return sum_chunk(results, n);
}

static float sum_line_chunk(const sx_reduction *r, int64_t base, int64_t first) {
  _Alignas(64) char buffer[CHUNK * 4];
  float wide[CHUNK];
  int64_t n = sx_min_i64(CHUNK, r->n_in - first);
  const void *x = SX_AT_LEVEL(sx_line_read)(r, base, first, n, buffer);
  if (r->dtype == SX_F32) return sum_chunk(x, n);
  SX_AT_LEVEL(sx_widen)(wide, x, r->dtype, n);
  return sum_chunk(wide, n);
}

typedef struct sum_job {
  const sx_reduction *r;
  const sx_operand *out;
  int64_t n_chunks, results_room; /* chunks of a line; floats between two threads' results */
  float *results;
  int64_t base;  /* of the one line whose chunks are shared among threads */
  int64_t strip; /* columns: of a unit of work */
} sum_job;

static void store_sum(const sx_operand *out, int64_t at, float sum) {
  sx_store(out->data, out->dtype, at, (sx_value){.f = sum});
}

static void sum_lines(void *context, int64_t begin, int64_t end, int thread) {
  const sum_job *job = context;
  float *results = job->results + thread * job->results_room;
  for (int64_t line = begin; line < end; line++) {
    int64_t base = sx_axes_at(&job->r->kept, line);
    if (job->n_chunks <= 1) {
      store_sum(job->out, line, sum_line_chunk(job->r, base, 0));
      continue;
    }
    for (int64_t k = 0; k < job->n_chunks; k++) results[k] = sum_line_chunk(job->r, base, k * CHUNK);
    store_sum(job->out, line, sum_results(results, job->n_chunks));
  }
}

static void sum_chunks(void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const sum_job *job = context;
  for (int64_t k = begin; k < end; k++) job->results[k] = sum_line_chunk(job->r, job->base, k * CHUNK);
}

/* Few long lines: the threads share the chunks of each. */
static void sum_long_lines(const sx_call *call, sum_job *job) {
  for (int64_t line = 0; line < job->r->n_out; line++) {
    job->base = sx_axes_at(&job->r->kept, line);
    sx_pool_run(call->pool, job->n_chunks, 1, sum_chunks, job);
    store_sum(job->out, line, sum_results(job->results, job->n_chunks));
  }
}

/* ---- columns --------------------------------------------------------------------- */

/* Lanes of many columns; the first of two levels takes rows, the second the results of chunks. */
typedef struct table {
  float *lanes[2];
  int64_t n[2], n_columns, lane_room;
} table;

static table make_table(void *memory, int64_t n_columns) {
  table t = {.n_columns = n_columns, .lane_room = sx_sum_lane_room(n_columns)};
  t.lanes[0] = memory;
  t.lanes[1] = t.lanes[0] + LANES * t.lane_room;
  return t;
}

/* Four registers at a time, upwards in memory. */
static void add_to(float *to, const float *x, int64_t n) {
  enum { STEP = 4 * SX_LANES };
  int64_t k = 0;
  for (; k + STEP <= n; k += STEP)
    SX_UNROLL for (int64_t v = k; v < k + STEP; v += SX_LANES)
        sx_floats_store(to + v, sx_floats_load(to + v) + sx_floats_load(x + v));
  for (; k < n; k++) to[k] += x[k];
}

static void add_row(table *t, int level, const float *x) {
  float *lane = t->lanes[level] + t->n[level] % LANES * t->lane_room;
  if (t->n[level]++ < LANES)
    memcpy(lane, x, (size_t)t->n_columns * 4);
  else
    add_to(lane, x, t->n_columns);
}

static const float *fold_table(table *t, int level) {
  int64_t n = sx_min_i64(t->n[level], LANES);
  for (int64_t h = LANES / 2; h > 0; h /= 2)
    for (int64_t j = 0; j < h && j + h < n; j++)
      add_to(t->lanes[level] + j * t->lane_room, t->lanes[level] + (j + h) * t->lane_room, t->n_columns);
  t->n[level] = 0;
  return t->lanes[level];
}

static void sum_columns_of(const sx_reduction *r, const sx_operand *out, int64_t base, int64_t out_at, table *t) {
  float wide[SX_SUM_COLUMNS];
  int last = r->reduced.n - 1;
  int64_t length = last >= 0 ? r->reduced.dims[last] : 1, stride = last >= 0 ? r->reduced.strides[last] : 0;
  int64_t at = base, within = 0; /* the rows of the innermost loop that are done */
  for (int64_t row = 0; row < r->n_in; row++, within++, at += stride) {
    if (within == length) {
      at = base + sx_axes_at(&r->reduced, row);
      within = 0;
    }
    const void *x = (const char *)r->data + at * r->bytes;
    if (r->dtype != SX_F32) {
      SX_AT_LEVEL(sx_widen)(wide, x, r->dtype, t->n_columns);
      x = wide;
    }
    add_row(t, 0, x);
    if (t->n[0] == CHUNK) add_row(t, 1, fold_table(t, 0));
  }
  if (t->n[0] > 0 && t->n[1] > 0) add_row(t, 1, fold_table(t, 0));
  const float *sums = fold_table(t, t->n[1] > 0);
  SX_AT_LEVEL(sx_narrow)
  ((char *)out->data + out_at * sx_element_bytes(out->dtype), out->dtype, sums, t->n_columns);
}

/* Strips of the columns that lie side by side: the wider, the longer the runs that are read, up to whole rows, which
 * the processor fetches ahead; but one for each thread. */
static int64_t strip_of(const sum_job *job, int n_threads) {
  const sx_reduction *r = job->r;
  int64_t width = r->kept.dims[r->kept.n - 1], others = r->n_out / width;
  int64_t strips = sx_ceil_div(width, SX_SUM_COLUMNS), needed = sx_ceil_div(n_threads, others);
  if (strips < needed) strips = needed;
  int64_t strip = sx_ceil_div(sx_ceil_div(width, strips), SX_SUM_MULTIPLE) * SX_SUM_MULTIPLE;
  return sx_min_i64(strip, SX_SUM_COLUMNS);
}

static void sum_columns(void *context, int64_t begin, int64_t end, int thread) {
  const sum_job *job = context;
  const sx_reduction *r = job->r;
  int64_t width = r->kept.dims[r->kept.n - 1], strips = sx_ceil_div(width, job->strip);
  for (int64_t unit = begin; unit < end; unit++) {
    int64_t first = unit % strips * job->strip, out_at = unit / strips * width + first;
    table t = make_table((char *)job->results + thread * sx_sum_table_bytes(job->strip),
                         sx_min_i64(job->strip, width - first));
    sum_columns_of(r, job->out, sx_axes_at(&r->kept, out_at), out_at, &t);
  }
}

/* ---- the kernel -------------------------------------------------------------------- */

enum { LEAST_WORK = 1 << 14 }; /* elements that are worth a thread */

bool SX_AT_LEVEL(sx_fast_sum)(const sx_call *call) {
  if (!sx_is_float(call->inputs[0].dtype)) return false;
  sx_reduction r = SX_AT_LEVEL(sx_reduction_make)(call);
  if (r.n_out == 0) return true;
  if (r.n_in == 0) {
    memset(call->out.data, 0, (size_t)(r.n_out * r.bytes));
    return true;
  }
  sum_job job = {.r = &r, .out = &call->out, .n_chunks = sx_ceil_div(r.n_in, CHUNK), .results = call->scratch};
  job.results_room = (job.n_chunks + 15) / 16 * 16;
  if (r.columns && r.n_in <= (int64_t)CHUNK * CHUNK) {
    int64_t width = r.kept.dims[r.kept.n - 1];
    job.strip = strip_of(&job, sx_pool_threads(call->pool));
    int64_t grain = sx_max_i64(1, LEAST_WORK / (r.n_in * sx_min_i64(width, job.strip)));
    sx_pool_run(call->pool, r.n_out / width * sx_ceil_div(width, job.strip), grain, sum_columns, &job);
  } else if (r.n_out < 2 * sx_pool_threads(call->pool) && job.n_chunks > 1) {
    sum_long_lines(call, &job);
  } else {
    sx_pool_run(call->pool, r.n_out, sx_max_i64(1, LEAST_WORK / r.n_in), sum_lines, &job);
  }
  return true;
}
