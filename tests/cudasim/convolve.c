#include "convolve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    return "tensors are simulated in f32 and bf16, of four dimensions and strides that are positive";
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

enum { NOWHERE = -1 };

/* One side of the sums: element (i, k) lies where rows[i] and terms[k] add up to. */
typedef struct view {
  const sim_tensor *tensor;
  place *rows, *terms;
  int64_t n_rows, n_terms;
  int64_t divide[2];              /* height and width exist at multiples of it alone */
  int64_t *h_offsets, *w_offsets; /* by the sums of h and of w: the offset, or NOWHERE */
  int64_t *by_pixel;              /* the terms, those of one h and w together */
} view;

static void free_view(view *v) {
  free(v->rows);
  free(v->terms);
  free(v->h_offsets);
  free(v->w_offsets);
  free(v->by_pixel);
}

static int64_t *axis_at(place *p, int d) { return d == 0 ? &p->h : &p->w; }

/* Moves a list's h or w so that the least is 0; gives what was the least and what is the most. */
static int64_t move(int64_t *most, place *places, int64_t n, int d) {
  int64_t least = *axis_at(&places[0], d);
  *most = 0;
  for (int64_t i = 0; i < n; i++)
    if (*axis_at(&places[i], d) < least) least = *axis_at(&places[i], d);
  for (int64_t i = 0; i < n; i++) {
    int64_t *at = axis_at(&places[i], d);
    *at -= least;
    if (*at > *most) *most = *at;
  }
  return least;
}

static int64_t *tabulate(view *v, int d, int64_t *most_term) {
  int64_t most_row;
  int64_t least = move(&most_row, v->rows, v->n_rows, d) + move(most_term, v->terms, v->n_terms, d);
  int64_t *offsets = sim_take((size_t)(most_row + *most_term + 1) * sizeof *offsets);
  for (int64_t i = 0; i <= most_row + *most_term; i++) {
    int64_t at = least + i;
    bool is_there = at >= 0 && at % v->divide[d] == 0 && at / v->divide[d] < v->tensor->dims[2 + d];
    offsets[i] = is_there ? at / v->divide[d] * v->tensor->strides[2 + d] : NOWHERE;
  }
  return offsets;
}

/* Counts, then places. */
static int64_t *sort_by_pixel(const view *v, int64_t most_h, int64_t most_w) {
  size_t n_pixels = (size_t)((most_h + 1) * (most_w + 1));
  int64_t *begins = sim_take((n_pixels + 1) * sizeof *begins), *sorted = sim_take((size_t)v->n_terms * sizeof *sorted);
  memset(begins, 0, (n_pixels + 1) * sizeof *begins);
  for (int64_t k = 0; k < v->n_terms; k++) begins[v->terms[k].h * (most_w + 1) + v->terms[k].w + 1]++;
  for (size_t i = 0; i < n_pixels; i++) begins[i + 1] += begins[i];
  for (int64_t k = 0; k < v->n_terms; k++) sorted[begins[v->terms[k].h * (most_w + 1) + v->terms[k].w]++] = k;
  free(begins);
  return sorted;
}

static void finish_view(view *v) {
  int64_t most_h, most_w;
  v->h_offsets = tabulate(v, 0, &most_h);
  v->w_offsets = tabulate(v, 1, &most_w);
  v->by_pixel = sort_by_pixel(v, most_h, most_w);
}

/* The element's offset, or a negative number. */
static inline int64_t find(const view *v, const place *row, const place *term) {
  int64_t h = v->h_offsets[row->h + term->h], w = v->w_offsets[row->w + term->w];
  return (h | w) < 0 ? NOWHERE : row->offset + term->offset + h + w;
}

#define INLINE static inline __attribute__((always_inline))

static bool is_pixel_of(const place *a, const place *b) { return a->h == b->h && a->w == b->w; }

/* A row at a time: all terms of one pixel are there, or none is. */
INLINE void fill_by_terms(sim_dtype dtype, float *panel, const void *values, const view *v, int64_t i, int64_t n,
                          int64_t width) {
  for (int64_t r = 0; r < n; r++)
    for (int64_t at = 0, end; at < v->n_terms; at = end) {
      const place *first = &v->terms[v->by_pixel[at]];
      int64_t offset = find(v, &v->rows[i + r], first) - first->offset;
      bool is_there = offset + first->offset >= 0;
      for (end = at; end < v->n_terms && is_pixel_of(first, &v->terms[v->by_pixel[end]]); end++) {
        int64_t k = v->by_pixel[end];
        panel[k * width + r] = is_there ? sim_widen(dtype, values, offset + v->terms[k].offset) : 0;
      }
    }
}

/* A term at a time: rows that are neighbours in memory, of one pixel, are copied together. */
INLINE void fill_by_rows(sim_dtype dtype, float *panel, const void *values, const view *v, int64_t i, int64_t width,
                         const int64_t *ends, int64_t n_runs) {
  for (int64_t k = 0; k < v->n_terms; k++)
    for (int64_t run = 0, r = 0; run < n_runs; r = ends[run++]) {
      int64_t offset = find(v, &v->rows[i + r], &v->terms[k]), n = ends[run] - r;
      float *to = panel + k * width + r;
      for (int64_t j = 0; j < n; j++) to[j] = offset < 0 ? 0 : sim_widen(dtype, values, offset + j);
    }
}

/* ends: of the runs of neighbours among n rows from i on; gives how many there are. */
static int64_t find_runs(int64_t *ends, const view *v, int64_t i, int64_t n) {
  int64_t n_runs = 0;
  const place *rows = &v->rows[i];
  for (int64_t r = 1; r <= n; r++)
    if (r == n || !is_pixel_of(&rows[r], &rows[r - 1]) || rows[r].offset != rows[r - 1].offset + 1) ends[n_runs++] = r;
  return n_runs;
}

enum { WIDTH_MOST = 32 };

static void fill(const sim_operand *operand, float *panel, int64_t n_terms, int64_t i, int64_t width) {
  const view *v = operand->context;
  int64_t n = v->n_rows - i < width ? v->n_rows - i : width, ends[WIDTH_MOST];
  if (n < width) memset(panel, 0, (size_t)(n_terms * width) * sizeof *panel);
  int64_t n_runs = find_runs(ends, v, i, n);
  if (n_runs * 2 <= n)
    SIM_FOR_DTYPE(operand->dtype, dtype, fill_by_rows(dtype, panel, operand->values, v, i, width, ends, n_runs));
  else
    SIM_FOR_DTYPE(operand->dtype, dtype, fill_by_terms(dtype, panel, operand->values, v, i, n, width));
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
  finish_view(&l.a);
  finish_view(&l.b);
  finish_view(&l.out);
  return l;
}

/* ---- computing ---------------------------------------------------------------------------------- */

static void store(const sim_convolution *c, const view *out, const float *sums, void *result) {
  for (int64_t j = 0; j < out->n_terms; j++)
    for (int64_t i = 0; i < out->n_rows; i++) {
      int64_t offset = find(out, &out->rows[i], &out->terms[j]);
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
