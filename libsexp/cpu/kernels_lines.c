/* Reading of what a reduction reduces: see reduce.h. */
#include "reduce.h"

enum { FEWEST_COLUMNS = 8 };

sx_reduction SX_AT_LEVEL(sx_reduction_make)(const sx_call *call) {
  const sx_operand *in = &call->inputs[0];
  sx_reduction r = {.data = in->data, .dtype = in->dtype, .bytes = sx_element_bytes(in->dtype), .n_out = 1, .n_in = 1};
  for (int axis = 0; axis < in->rank; axis++) {
    bool reduced = false;
    for (uint32_t k = 0; k < call->node->n_ints; k++) reduced = reduced || call->node->ints[k] == axis;
    sx_axes_push(reduced ? &r.reduced : &r.kept, in->dims[axis], in->strides[axis]);
    *(reduced ? &r.n_in : &r.n_out) *= in->dims[axis];
  }
  int kept = r.kept.n - 1, reduced = r.reduced.n - 1;
  r.columns = kept >= 0 && r.kept.strides[kept] == 1 && r.kept.dims[kept] >= FEWEST_COLUMNS &&
              !(reduced >= 0 && r.reduced.strides[reduced] == 1);
  return r;
}

static void copy_strided(void *to, const char *from, int64_t stride, int64_t n, int64_t bytes) {
  if (stride == 1) {
    memcpy(to, from, (size_t)(n * bytes));
  } else if (bytes == 4) {
    for (int64_t k = 0; k < n; k++) ((uint32_t *)to)[k] = ((const uint32_t *)(const void *)from)[k * stride];
  } else if (bytes == 2) {
    for (int64_t k = 0; k < n; k++) ((uint16_t *)to)[k] = ((const uint16_t *)(const void *)from)[k * stride];
  } else {
    for (int64_t k = 0; k < n; k++) ((char *)to)[k] = from[k * stride];
  }
}

const void *SX_AT_LEVEL(sx_line_read)(const sx_reduction *r, int64_t base, int64_t first, int64_t n, void *buffer) {
  const char *data = r->data;
  const sx_axes *axes = &r->reduced;
  if (axes->n == 0) return data + base * r->bytes;
  int last = axes->n - 1;
  int64_t length = axes->dims[last], stride = axes->strides[last];
  if (axes->n == 1 && stride == 1) return data + (base + first) * r->bytes;
  for (int64_t done = 0; done < n;) {
    int64_t within = (first + done) % length, count = sx_min_i64(length - within, n - done);
    int64_t at = base + sx_axes_at(axes, first + done);
    copy_strided((char *)buffer + done * r->bytes, data + at * r->bytes, stride, count, r->bytes);
    done += count;
  }
  return buffer;
}
