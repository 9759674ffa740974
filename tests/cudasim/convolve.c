#include "convolve.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- tensors ------------------------------------------------------------------------------------ */

size_t sim_tensor_n_bytes(const sim_tensor *tensor) {
  int64_t last = 0;
  for (int i = 0; i < 4; i++) last += (tensor->dims[i] - 1) * tensor->strides[i];
  return (size_t)(last + 1) * sim_dtype_size(tensor->dtype);
}

const sim_tensor *sim_convolution_result(const sim_convolution *c) {
  return c->role == SIM_FORWARD ? &c->y : c->role == SIM_DATA ? &c->x : &c->w;
}

static bool is_sound(const sim_tensor *t) {
  for (int i = 0; i < 4; i++)
    if (t->dims[i] < 1 || t->strides[i] < 1) return false;
  return true;
}

const char *sim_convolution_check(const sim_convolution *c) {
  if (!is_sound(&c->x) || !is_sound(&c->w) || !is_sound(&c->y))
    return "a dimension or a stride of a tensor is not positive";
  if (c->x.dtype != c->w.dtype || c->x.dtype != c->y.dtype) return "tensors of different types are not simulated";
  if (c->x.dims[1] != c->w.dims[1]) return "groups are not simulated: x and w differ in channels";
  if (c->y.dims[0] != c->x.dims[0] || c->y.dims[1] != c->w.dims[0])
    return "y has not the images of x and the outputs of w";
  for (int i = 0; i < 2; i++) {
    if (c->dilation[i] != 1) return "dilations are not simulated";
    if (c->stride[i] < 1 || c->before[i] < 0 || c->after[i] < 0) return "a stride or a padding is not a size";
    if (c->y.dims[2 + i] != (c->x.dims[2 + i] + c->before[i] + c->after[i] - c->w.dims[2 + i]) / c->stride[i] + 1)
      return "the height or the width of y does not follow from x, w, strides and paddings";
  }
  return NULL;
}

/* ---- orders ------------------------------------------------------------------------------------- */

enum { KNOB_SPLIT_K = 0 };

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

sim_convolution_order sim_convolution_order_of(int64_t engine, const sim_knob *knobs, int64_t n_knobs, int version) {
  uint64_t hash = mix((uint64_t)engine, (uint64_t)(sim_card_fact("deviceVer") * 1000000 + version));
  int64_t parts = 1;
  for (int64_t i = 0; i < n_knobs; i++) {
    hash = mix(hash, (uint64_t)(knobs[i].type * 4096 + knobs[i].value));
    if (knobs[i].type == KNOB_SPLIT_K && knobs[i].value > 1)
      parts = knobs[i].value < SIM_PARTS_MAX ? knobs[i].value : SIM_PARTS_MAX;
  }
  hash = mix(hash, hash >> 32);
  int64_t block = (int64_t)(hash >> 10 & 3);
  return (sim_convolution_order){.fold = {.parts = parts,
                                          .lanes = (int64_t)1 << (hash >> 8 & 3),
                                          .block = block ? 8 << block : 0,
                                          .tree = hash >> 12 & 1},
                                 .channels_first = hash >> 13 & 1};
}

/* ---- places ------------------------------------------------------------------------------------- */

/* What a row or a term adds to an element's place in its tensor; h and w times the divisor of a view. */
typedef struct place {
  int64_t offset, h, w;
} place;

/* One side of the sums: element (i, k) lies where rows[i] and terms[k] add up to. */
typedef struct view {
  const sim_tensor *tensor;
  place *rows, *terms;
  int64_t n_rows, n_terms;
  int64_t divide[2]; /* height and width exist at multiples of it alone */
} view;

static void free_view(view *v) {
  free(v->rows);
  free(v->terms);
}

static bool find(int64_t *offset, const view *v, const place *row, const place *term) {
  int64_t h = row->h + term->h, w = row->w + term->w;
  if (h < 0 || w < 0) return false;
  if (v->divide[0] > 1 || v->divide[1] > 1) {
    if (h % v->divide[0] || w % v->divide[1]) return false;
    h /= v->divide[0];
    w /= v->divide[1];
  }
  *offset = row->offset + term->offset + h * v->tensor->strides[2] + w * v->tensor->strides[3];
  return h < v->tensor->dims[2] && w < v->tensor->dims[3];
}

static void fill(const sim_operand *operand, float *panel, int64_t n_terms, int64_t i, int64_t width) {
  const view *v = operand->context;
  int64_t n = v->n_rows - i < width ? v->n_rows - i : width, offset;
  for (int64_t k = 0; k < n_terms; k++, panel += width)
    for (int64_t r = 0; r < width; r++)
      panel[r] = r < n && find(&offset, v, &v->rows[i + r], &v->terms[k])
                     ? sim_widen(operand->dtype, operand->values, offset)
                     : 0;
}

/* Places of all (a, b, c), c fastest, as the lists `order` of what each one steps say. */
typedef struct axis {
  int64_t n, offset, h, w;
} axis;

static place *list(int64_t *n, place origin, axis a, axis b, axis c) {
  *n = a.n * b.n * c.n;
  place *places = sim_take((size_t)*n * sizeof *places), *at = places;
  for (int64_t i = 0; i < a.n; i++)
    for (int64_t j = 0; j < b.n; j++)
      for (int64_t k = 0; k < c.n; k++)
        *at++ = (place){origin.offset + i * a.offset + j * b.offset + k * c.offset,
                        origin.h + i * a.h + j * b.h + k * c.h, origin.w + i * a.w + j * b.w + k * c.w};
  return places;
}

static place *list_terms(int64_t *n, place origin, const axis axes[3], bool last_first) {
  return last_first ? list(n, origin, axes[2], axes[0], axes[1]) : list(n, origin, axes[0], axes[1], axes[2]);
}

/* ---- roles -------------------------------------------------------------------------------------- */

/* Both sides and the result: its element (i, j) lies where out.rows[i] and out.terms[j] say. */
typedef struct layout {
  view a, b, out;
} layout;

static view view_of(const sim_tensor *tensor) { return (view){.tensor = tensor, .divide = {1, 1}}; }

/* The axis of dimension d of a tensor: within its plane a step is of h or w, else of memory. */
static axis axis_of(const sim_tensor *t, int d) {
  return (axis){t->dims[d], d < 2 ? t->strides[d] : 0, d == 2, d == 3};
}

static axis axis_step(int64_t n, int d, int64_t step) { return (axis){n, 0, d == 2 ? step : 0, d == 3 ? step : 0}; }

/* y(n, k, p, q) sums w(k, c, r, s) x(n, c, p * stride - before + r, ...) over (r, s, c). */
static void lay_forward(layout *l, const sim_convolution *c, bool channels_first) {
  const axis w_terms[] = {axis_of(&c->w, 2), axis_of(&c->w, 3), axis_of(&c->w, 1)};
  const axis x_terms[] = {axis_step(c->w.dims[2], 2, 1), axis_step(c->w.dims[3], 3, 1), axis_of(&c->x, 1)};
  const place zero = {0, 0, 0}, corner = {0, -c->before[0], -c->before[1]};
  const axis none = {1, 0, 0, 0};
  l->a.rows = list(&l->a.n_rows, zero, none, none, axis_of(&c->w, 0));
  l->a.terms = list_terms(&l->a.n_terms, zero, w_terms, channels_first);
  l->b.rows = list(&l->b.n_rows, corner, axis_of(&c->x, 0), axis_step(c->y.dims[2], 2, c->stride[0]),
                   axis_step(c->y.dims[3], 3, c->stride[1]));
  l->b.terms = list_terms(&l->b.n_terms, zero, x_terms, channels_first);
  l->out.rows = list(&l->out.n_rows, zero, none, none, axis_of(&c->y, 1));
  l->out.terms = list(&l->out.n_terms, zero, axis_of(&c->y, 0), axis_of(&c->y, 2), axis_of(&c->y, 3));
}

/* x(n, c, h, w) sums w(k, c, r, s) y(n, k, (h + before - r) / stride, ...), where it divides, over (r, s, k). */
static void lay_data(layout *l, const sim_convolution *c, bool channels_first) {
  const axis w_terms[] = {axis_of(&c->w, 2), axis_of(&c->w, 3), axis_of(&c->w, 0)};
  const axis y_terms[] = {axis_step(c->w.dims[2], 2, -1), axis_step(c->w.dims[3], 3, -1), axis_of(&c->y, 1)};
  const place zero = {0, 0, 0}, corner = {0, c->before[0], c->before[1]};
  const axis none = {1, 0, 0, 0};
  l->b.divide[0] = c->stride[0];
  l->b.divide[1] = c->stride[1];
  l->a.rows = list(&l->a.n_rows, zero, none, none, axis_of(&c->w, 1));
  l->a.terms = list_terms(&l->a.n_terms, zero, w_terms, channels_first);
  l->b.rows =
      list(&l->b.n_rows, corner, axis_of(&c->y, 0), axis_step(c->x.dims[2], 2, 1), axis_step(c->x.dims[3], 3, 1));
  l->b.terms = list_terms(&l->b.n_terms, zero, y_terms, channels_first);
  l->out.rows = list(&l->out.n_rows, zero, none, none, axis_of(&c->x, 1));
  l->out.terms = list(&l->out.n_terms, zero, axis_of(&c->x, 0), axis_of(&c->x, 2), axis_of(&c->x, 3));
}

/* w(k, c, r, s) sums y(n, k, p, q) x(n, c, p * stride - before + r, ...) over (p, q, n) or (n, p, q). */
static void lay_weight(layout *l, const sim_convolution *c, bool images_first) {
  const axis y_terms[] = {axis_of(&c->y, 2), axis_of(&c->y, 3), axis_of(&c->y, 0)};
  const axis x_terms[] = {axis_step(c->y.dims[2], 2, c->stride[0]), axis_step(c->y.dims[3], 3, c->stride[1]),
                          axis_of(&c->x, 0)};
  const place zero = {0, 0, 0}, corner = {0, -c->before[0], -c->before[1]};
  const axis none = {1, 0, 0, 0};
  l->a.rows = list(&l->a.n_rows, zero, none, none, axis_of(&c->y, 1));
  l->a.terms = list_terms(&l->a.n_terms, zero, y_terms, images_first);
  l->b.rows =
      list(&l->b.n_rows, corner, axis_step(c->w.dims[2], 2, 1), axis_step(c->w.dims[3], 3, 1), axis_of(&c->x, 1));
  l->b.terms = list_terms(&l->b.n_terms, zero, x_terms, images_first);
  l->out.rows = list(&l->out.n_rows, zero, none, none, axis_of(&c->w, 0));
  l->out.terms = list(&l->out.n_terms, zero, axis_of(&c->w, 2), axis_of(&c->w, 3), axis_of(&c->w, 1));
}

static layout lay(const sim_convolution *c, bool channels_first) {
  layout l = {.a = view_of(c->role == SIM_WEIGHT ? &c->y : &c->w),
              .b = view_of(c->role == SIM_DATA ? &c->y : &c->x),
              .out = view_of(sim_convolution_result(c))};
  static void (*const roles[SIM_N_ROLES])(layout *, const sim_convolution *, bool) = {lay_forward, lay_data,
                                                                                      lay_weight};
  roles[c->role](&l, c, channels_first);
  return l;
}

/* ---- computing ---------------------------------------------------------------------------------- */

static void store(const sim_convolution *c, const view *out, const float *sums, void *result) {
  int64_t offset;
  for (int64_t i = 0; i < out->n_rows; i++)
    for (int64_t j = 0; j < out->n_terms; j++) {
      if (!find(&offset, out, &out->rows[i], &out->terms[j])) continue;
      float value = c->alpha * sums[i * out->n_terms + j];
      if (c->beta != 0) value += c->beta * sim_widen(out->tensor->dtype, result, offset);
      sim_narrow(out->tensor->dtype, result, offset, value);
    }
}

static void *memory_of(const sim_convolution_call *call, const sim_tensor *tensor) {
  const sim_convolution *c = &call->convolution;
  return tensor == &c->x ? call->x : tensor == &c->w ? call->w : call->y;
}

static sim_operand operand_of(const sim_convolution_call *call, const view *v) {
  return (sim_operand){
      .n = v->n_rows, .fill = fill, .values = memory_of(call, v->tensor), .dtype = v->tensor->dtype, .context = v};
}

static void run(void *context) {
  static int64_t n_runs;
  const sim_convolution_call *call = context;
  sim_fold_order order = call->order.fold;
  if (call->differs) order.first = __atomic_add_fetch(&n_runs, 1, __ATOMIC_RELAXED);
  layout l = lay(&call->convolution, call->order.channels_first);
  const sim_operand a = operand_of(call, &l.a), b = operand_of(call, &l.b);
  float *sums = sim_take((size_t)(a.n * b.n) * sizeof *sums);
  sim_fold(sums, l.a.n_terms, &a, &b, &order);
  store(&call->convolution, &l.out, sums, memory_of(call, l.out.tensor));
  free(sums);
  free_view(&l.a);
  free_view(&l.b);
  free_view(&l.out);
}

/* The part of the card's speed that an engine reaches: 0.4 to 0.9, so that measuring finds a best one. */
static double efficiency(const sim_convolution_call *call) {
  const sim_fold_order *o = &call->order.fold;
  uint64_t hash = mix((uint64_t)call->engine, (uint64_t)(o->parts * 512 + o->lanes * 64 + o->block + o->tree));
  return 0.4 + 0.5 * (double)(hash % 1000) / 1000;
}

CUresult sim_convolution_enqueue(CUstream stream, const sim_convolution_call *call) {
  const sim_convolution *c = &call->convolution;
  const sim_range ranges[] = {
      {call->x, sim_tensor_n_bytes(&c->x), c->role == SIM_DATA},
      {call->w, sim_tensor_n_bytes(&c->w), c->role == SIM_WEIGHT},
      {call->y, sim_tensor_n_bytes(&c->y), c->role == SIM_FORWARD},
      {call->workspace, call->workspace_n_bytes, true},
  };
  const int64_t *y = c->y.dims, *w = c->w.dims;
  char speed[32];
  snprintf(speed, sizeof speed, "cudnn.%lld", (long long)call->engine);
  sim_convolution_call *copy = sim_take(sizeof *copy);
  *copy = *call;
  return sim_enqueue(stream, &(sim_task){.name = "cudnnBackendExecute",
                                         .speed = speed,
                                         .run = run,
                                         .drop = free,
                                         .context = copy,
                                         .ranges = ranges,
                                         .n_ranges = sizeof ranges / sizeof *ranges,
                                         .rate = c->x.dtype == SIM_F32 ? SIM_RATE_F32 : SIM_RATE_BF16,
                                         .n_flops = 2.0 * (double)(y[0] * y[1] * y[2] * y[3]) *
                                                    (double)(w[1] * w[2] * w[3]) / efficiency(call)});
}
