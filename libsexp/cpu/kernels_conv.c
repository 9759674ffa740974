/* Convolutions as products over windows that are read where they lie. Where channels fill registers, pixels
 * are rows and terms that padding and strides make 0 are left out (conv.h). Elsewhere each is a product one
 * side of which walks the image: pixels of the result step by the stride, places of the kernel by one, and what
 * leaves the image is 0. */
#include "conv.h"
#include "level.h"
#include "reference.h"

enum { WIDEN_GRAIN = 1 << 14 };

typedef struct geometry {
  int64_t stride, padding;
  const sx_operand *image, *pixels, *kernel; /* [n h w c], [n oh ow o], [o kh kw c] */
} geometry;

static sx_gemm_axis plain(const sx_operand *operand, int axis) {
  return (sx_gemm_axis){.dim = operand->dims[axis], .stride = operand->strides[axis]};
}

static sx_gemm_walk walk(int n, const sx_gemm_axis *axes) {
  sx_gemm_walk result = {.n = n};
  memcpy(result.axes, axes, (size_t)n * sizeof *axes);
  return result;
}

static sx_gemm_side side(const sx_operand *operand, sx_gemm_walk rows, sx_gemm_walk depth) {
  return (sx_gemm_side){operand->data, operand->dtype, 0, 0, 0, 1, 1, rows, depth};
}

static void finish(sx_gemm *gemm) {
  gemm->n_batches = 1;
  gemm->n_blocks = sx_ceil_div(gemm->k, SX_GEMM_DEPTH);
}

/* The image seen by (n, oh, ow) and (kh, kw, c); pixel and place tell the walks apart. */
static void window_walks(const geometry *g, sx_gemm_walk *pixel, sx_gemm_walk *place) {
  const sx_operand *x = g->image;
  int64_t row = x->strides[1], column = x->strides[2], s = g->stride;
  *pixel = walk(
      3, (sx_gemm_axis[]){plain(x, 0), {g->pixels->dims[1], s * row, s, 0}, {g->pixels->dims[2], s * column, 0, s}});
  pixel->axes[0].dim = g->pixels->dims[0];
  *place = walk(3, (sx_gemm_axis[]){{g->kernel->dims[1], row, 1, 0}, {g->kernel->dims[2], column, 0, 1}, plain(x, 3)});
}

static sx_gemm_side window_side(const geometry *g, sx_gemm_walk rows, sx_gemm_walk depth) {
  const sx_operand *x = g->image;
  sx_gemm_side windows = side(x, rows, depth);
  windows.base = -g->padding * (x->strides[1] + x->strides[2]);
  windows.y0 = windows.x0 = -g->padding;
  windows.height = x->dims[1];
  windows.width = x->dims[2];
  return windows;
}

/* A result that is empty, or of nothing contracted; then it is filled. */
static bool fill_empty(const sx_call *call, int64_t n_terms) {
  int64_t n = sx_operand_count(&call->out);
  if (n > 0 && n_terms > 0) return false;
  if (n > 0) memset(call->out.data, 0, (size_t)(n * sx_element_bytes(call->out.dtype)));
  return true;
}

/* ---- short floats ---------------------------------------------------------------- */

/* Each element is read for many places of the kernel: so inputs are widened once, into the scratch. */
typedef struct widened {
  sx_call call;
  sx_operand inputs[2];
} widened;

static void widen_some(void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const sx_operand *pair = context; /* from, to */
  int64_t bytes = sx_element_bytes(pair[0].dtype);
  SX_AT_LEVEL(sx_widen)
  ((float *)pair[1].data + begin, (const char *)pair[0].data + begin * bytes, pair[0].dtype, end - begin);
}

static bool is_whole(const sx_operand *x) {
  int64_t n = 1;
  for (int axis = x->rank - 1; axis >= 0; n *= x->dims[axis--])
    if (x->dims[axis] != 1 && x->strides[axis] != n) return false;
  return true;
}

/* The call itself, or one of f32 inputs. Inputs that do not lie in one piece are left as they are. */
static const sx_call *widen(const sx_call *call, widened *wide) {
  const sx_operand *inputs = call->inputs;
  if (inputs[0].dtype == SX_F32 || !is_whole(&inputs[0]) || !is_whole(&inputs[1])) return call;
  wide->call = *call;
  wide->call.inputs = wide->inputs;
  for (int k = 0; k < 2; k++) {
    sx_operand pair[2] = {inputs[k], inputs[k]};
    pair[1].data = wide->call.scratch;
    pair[1].dtype = SX_F32;
    wide->inputs[k] = pair[1];
    wide->call.scratch = (char *)wide->call.scratch + sx_conv_wide_bytes(sx_operand_count(&inputs[k]));
    sx_pool_run(call->pool, sx_operand_count(&inputs[k]), WIDEN_GRAIN, widen_some, pair);
  }
  return &wide->call;
}

/* ---- forward ------------------------------------------------------------------- */

static sx_conv_phase forward_phase(const sx_call *call, int64_t y, int64_t x) {
  const sx_operand *image = &call->inputs[0], *w = &call->inputs[1];
  int64_t stride = call->node->ints[0], padding = call->node->ints[1];
  sx_conv_axis axis[2];
  for (int k = 0; k < 2; k++)
    axis[k] = (sx_conv_axis){.n = call->out.dims[1 + k],
                             .c_step = 1,
                             .from = -padding,
                             .step = stride,
                             .length = image->dims[1 + k],
                             .n_places = w->dims[1 + k],
                             .place_apart = 1,
                             .place_step = 1};
  (void)y, (void)x;
  return (sx_conv_phase){axis[0], axis[1]};
}

/* Computes it with pixels as rows; false: it does not suit. */
static bool run_pixels(const sx_call *call, sx_conv_pixels *p, bool leaves_out) {
  p->call = call;
  p->source = &call->inputs[0];
  p->kernel = &call->inputs[1];
  if (!SX_AT_LEVEL(sx_conv_pixels_suit)(p) || (leaves_out && !SX_AT_LEVEL(sx_conv_is_finite)(p->kernel))) return false;
  sx_product product = SX_AT_LEVEL(sx_product_begin)(call);
  p->c = product.c;
  SX_AT_LEVEL(sx_conv_pixels_run)(p, product.panels);
  SX_AT_LEVEL(sx_product_end)(call);
  return true;
}

static bool forward_pixels(const sx_call *call) {
  const sx_operand *w = &call->inputs[1];
  sx_conv_pixels p = {
      .reference = sx_reference_conv_at,
      .n_phases = 1,
      .phase = forward_phase,
      .weights = side(w, walk(1, (sx_gemm_axis[]){plain(w, 0)}),
                      walk(3, (sx_gemm_axis[]){plain(w, 1), plain(w, 2), plain(w, 3)})),
  };
  return run_pixels(call, &p, call->node->ints[1] > 0);
}

static bool convolve(const sx_call *call) {
  const sx_operand *w = &call->inputs[1], *out = &call->out;
  geometry g = {call->node->ints[0], call->node->ints[1], &call->inputs[0], out, w};
  sx_gemm gemm = {
      .m = sx_count(out->dims, 3),
      .n = out->dims[3],
      .k = sx_count(w->dims + 1, 3),
      .c_rows = walk(3, (sx_gemm_axis[]){plain(out, 0), plain(out, 1), plain(out, 2)}),
      .c_columns = walk(1, (sx_gemm_axis[]){plain(out, 3)}),
  };
  if (fill_empty(call, gemm.k) || forward_pixels(call)) return true;
  sx_gemm_walk pixel, place;
  window_walks(&g, &pixel, &place);
  gemm.row_side = window_side(&g, pixel, place);
  gemm.column_side =
      side(w, walk(1, (sx_gemm_axis[]){plain(w, 0)}), walk(3, (sx_gemm_axis[]){plain(w, 1), plain(w, 2), plain(w, 3)}));
  finish(&gemm);
  SX_AT_LEVEL(sx_gemm_orient)(&gemm);
  SX_AT_LEVEL(sx_gemm_compute)(call, &gemm);
  return true;
}

static bool weight_channels(const sx_call *call) {
  sx_conv_weight p = {.call = call};
  if (!SX_AT_LEVEL(sx_conv_weight_suits)(&p)) return false;
  sx_product product = SX_AT_LEVEL(sx_product_begin)(call);
  p.c = product.c;
  SX_AT_LEVEL(sx_conv_weight_run)(&p, product.panels);
  SX_AT_LEVEL(sx_product_end)(call);
  return true;
}

static bool convolve_weight(const sx_call *call) {
  const sx_operand *dy = &call->inputs[0], *out = &call->out;
  geometry g = {call->node->ints[0], call->node->ints[1], &call->inputs[1], dy, out};
  sx_gemm gemm = {
      .m = out->dims[0],
      .n = sx_count(out->dims + 1, 3),
      .k = sx_count(dy->dims, 3),
      .c_rows = walk(1, (sx_gemm_axis[]){plain(out, 0)}),
      .c_columns = walk(3, (sx_gemm_axis[]){plain(out, 1), plain(out, 2), plain(out, 3)}),
  };
  if (fill_empty(call, gemm.k) || weight_channels(call)) return true;
  sx_gemm_walk pixel, place;
  window_walks(&g, &pixel, &place);
  gemm.row_side = side(dy, walk(1, (sx_gemm_axis[]){plain(dy, 3)}),
                       walk(3, (sx_gemm_axis[]){plain(dy, 0), plain(dy, 1), plain(dy, 2)}));
  gemm.column_side = window_side(&g, place, pixel);
  finish(&gemm);
  SX_AT_LEVEL(sx_gemm_orient)(&gemm);
  SX_AT_LEVEL(sx_gemm_compute)(call, &gemm);
  return true;
}

/* ---- data gradient --------------------------------------------------------------- */

/* Along one axis of the image: the pixels first, first + stride, ..., and the kernel's places that reach them. */
typedef struct phase_axis {
  int64_t first, n_pixels;
  int64_t first_place, n_places;
  int64_t start; /* dy's index that the first pixel sees through the first place */
} phase_axis;

static phase_axis make_phase(int64_t first, int64_t length, int64_t n_places, int64_t stride, int64_t padding) {
  phase_axis phase = {.first = first, .n_pixels = sx_ceil_div(length - first, stride)};
  phase.first_place = (first + padding) % stride;
  phase.n_places = phase.first_place < n_places ? sx_ceil_div(n_places - phase.first_place, stride) : 0;
  phase.start = (first + padding - phase.first_place) / stride;
  return phase;
}

static sx_conv_axis data_axis(const sx_call *call, int k, int64_t first) {
  int64_t stride = call->node->ints[0], padding = call->node->ints[1];
  phase_axis phase = make_phase(first, call->out.dims[1 + k], call->inputs[1].dims[1 + k], stride, padding);
  return (sx_conv_axis){.n = phase.n_pixels,
                        .c_first = first,
                        .c_step = stride,
                        .from = phase.start,
                        .step = 1,
                        .length = call->inputs[0].dims[1 + k],
                        .n_places = phase.n_places,
                        .place_first = phase.first_place,
                        .place_apart = stride,
                        .place_step = -1};
}

static sx_conv_phase data_phase(const sx_call *call, int64_t y, int64_t x) {
  return (sx_conv_phase){data_axis(call, 0, y), data_axis(call, 1, x)};
}

static bool data_pixels(const sx_call *call) {
  const sx_operand *w = &call->inputs[1];
  sx_conv_pixels p = {
      .reference = sx_reference_conv_data_at,
      .n_phases = call->node->ints[0],
      .phase = data_phase,
      .weights = side(w, walk(1, (sx_gemm_axis[]){plain(w, 3)}),
                      walk(3, (sx_gemm_axis[]){plain(w, 1), plain(w, 2), plain(w, 0)})),
  };
  return run_pixels(call, &p, true);
}

/* The same as a product. */
typedef struct phase {
  phase_axis y, x;
  int64_t stride, n_rows, n_columns, n_out; /* of the kernel; channels of dy */
} phase;

/* How many of the terms below index `term` of (kh, kw, o) the phase keeps. */
static int64_t kept_below(const phase *p, int64_t term) {
  int64_t row = term / (p->n_columns * p->n_out), column = term / p->n_out % p->n_columns, out = term % p->n_out;
  int64_t rows = row > p->y.first_place ? sx_ceil_div(row - p->y.first_place, p->stride) : 0;
  int64_t columns = column > p->x.first_place ? sx_ceil_div(column - p->x.first_place, p->stride) : 0;
  bool in_row = row >= p->y.first_place && (row - p->y.first_place) % p->stride == 0 && rows < p->y.n_places;
  bool in_column = column >= p->x.first_place && (column - p->x.first_place) % p->stride == 0;
  int64_t kept = sx_min_i64(rows, p->y.n_places) * p->x.n_places * p->n_out;
  if (in_row) kept += columns * p->n_out + (in_column ? out : 0);
  return kept;
}

static int64_t phase_block(const void *context, int64_t j) { return kept_below(context, j * SX_GEMM_DEPTH); }

static void phase_product(const sx_call *call, const phase *p, sx_gemm *gemm) {
  const sx_operand *dy = &call->inputs[0], *w = &call->inputs[1], *out = &call->out;
  int64_t s = p->stride, row = dy->strides[1], column = dy->strides[2];
  *gemm = (sx_gemm){
      .m = out->dims[0] * p->y.n_pixels * p->x.n_pixels,
      .n = out->dims[3],
      .k = p->y.n_places * p->x.n_places * p->n_out,
      .c_rows = walk(3, (sx_gemm_axis[]){plain(out, 0),
                                         {p->y.n_pixels, s * out->strides[1], 0, 0},
                                         {p->x.n_pixels, s * out->strides[2], 0, 0}}),
      .c_columns = walk(1, (sx_gemm_axis[]){plain(out, 3)}),
      .row_side =
          side(dy, walk(3, (sx_gemm_axis[]){plain(dy, 0), {p->y.n_pixels, row, 1, 0}, {p->x.n_pixels, column, 0, 1}}),
               walk(3, (sx_gemm_axis[]){{p->y.n_places, -row, -1, 0}, {p->x.n_places, -column, 0, -1}, plain(dy, 3)})),
      .column_side = side(w, walk(1, (sx_gemm_axis[]){plain(w, 3)}),
                          walk(3, (sx_gemm_axis[]){{p->y.n_places, s * w->strides[1], 0, 0},
                                                   {p->x.n_places, s * w->strides[2], 0, 0},
                                                   plain(w, 0)})),
  };
  gemm->row_side.y0 = p->y.start;
  gemm->row_side.x0 = p->x.start;
  gemm->row_side.height = dy->dims[1];
  gemm->row_side.width = dy->dims[2];
  gemm->row_side.base = p->y.start * row + p->x.start * column;
  gemm->column_side.base = p->y.first_place * w->strides[1] + p->x.first_place * w->strides[2];
  finish(gemm);
}

enum { ZEROS_GRAIN = 1 << 14 };

typedef struct zeros_job {
  const sx_call *call;
  float *c;
} zeros_job;

static void run_phase(const sx_call *call, const phase *p, const sx_product *product) {
  sx_gemm gemm;
  phase_product(call, p, &gemm);
  gemm.c = product->c + p->y.first * call->out.strides[1] + p->x.first * call->out.strides[2];
  if (p->stride > 1) {
    gemm.block_begin = phase_block;
    gemm.context = p;
    gemm.n_blocks = sx_ceil_div(p->n_rows * p->n_columns * p->n_out, SX_GEMM_DEPTH);
  }
  SX_AT_LEVEL(sx_gemm_orient)(&gemm);
  SX_AT_LEVEL(sx_gemm_run)(&gemm, call->pool, product->panels);
}

/* Where phases gave -0, the full order decides the sign. */
static void repair_zeros(void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const zeros_job *job = context;
  const sx_operand *out = &job->call->out;
  for (int64_t k = begin; k < end; k++) {
    if (sx_bits_f32(job->c[k]) != 0x80000000u) continue;
    int64_t at[4], rest = k;
    for (int axis = 3; axis >= 0; axis--) {
      at[axis] = rest % out->dims[axis];
      rest /= out->dims[axis];
    }
    job->c[k] = sx_reference_conv_data_at(job->call, at);
  }
}

static bool convolve_data(const sx_call *call) {
  const sx_operand *w = &call->inputs[1], *out = &call->out;
  int64_t stride = call->node->ints[0], padding = call->node->ints[1];
  int64_t rows = w->dims[1], columns = w->dims[2];
  if (fill_empty(call, sx_min_i64(sx_count(w->dims, 3), sx_operand_count(&call->inputs[0])))) return true;
  if (data_pixels(call)) return true;
  if (stride > 1 && !SX_AT_LEVEL(sx_conv_is_finite)(w)) return false;
  sx_product product = SX_AT_LEVEL(sx_product_begin)(call);
  int64_t n_out = sx_operand_count(out);
  bool gaps = stride > rows || stride > columns; /* some phases see no place of the kernel */
  if (gaps) memset(product.c, 0, (size_t)n_out * 4);
  for (int64_t y = 0; y < sx_min_i64(stride, out->dims[1]); y++)
    for (int64_t x = 0; x < sx_min_i64(stride, out->dims[2]); x++) {
      phase p = {make_phase(y, out->dims[1], rows, stride, padding),
                 make_phase(x, out->dims[2], columns, stride, padding),
                 stride,
                 rows,
                 columns,
                 w->dims[0]};
      if (p.y.n_places > 0 && p.x.n_places > 0) run_phase(call, &p, &product);
    }
  zeros_job job = {call, product.c};
  if (stride > 1) sx_pool_run(call->pool, n_out, ZEROS_GRAIN, repair_zeros, &job);
  SX_AT_LEVEL(sx_product_end)(call);
  return true;
}

bool SX_AT_LEVEL(sx_fast_conv)(const sx_call *call) {
  widened wide;
  return convolve(widen(call, &wide));
}

bool SX_AT_LEVEL(sx_fast_conv_weight)(const sx_call *call) {
  widened wide;
  return convolve_weight(widen(call, &wide));
}

bool SX_AT_LEVEL(sx_fast_conv_data)(const sx_call *call) {
  widened wide;
  return convolve_data(widen(call, &wide));
}
