#include "values.h"

#include <string.h>

#include "../../kernels/math.h"

void sx_value_store(void *to, sx_dtype dtype, double value) {
  switch (dtype) {
    case SX_F32: {
      float f = (float)value;
      memcpy(to, &f, sizeof f);
      return;
    }
    case SX_BF16:
    case SX_F16: {
      uint16_t bits = dtype == SX_BF16 ? sx_bf16_from_f32((float)value) : sx_f16_from_f32((float)value);
      memcpy(to, &bits, sizeof bits);
      return;
    }
    case SX_I32: {
      int32_t i = (int32_t)value;
      memcpy(to, &i, sizeof i);
      return;
    }
    default:
      *(unsigned char *)to = (unsigned char)value;
  }
}

sx_reach sx_view_reach(const sx_view *view, const sx_node *node) {
  int64_t n_bytes = (int64_t)sx_dtype_bytes(node->dtype), least = view->offset, most = view->offset;
  for (int axis = 0; axis < node->rank; axis++) {
    if (node->dims[axis] == 0) return (sx_reach){0, 0};
    int64_t across = (node->dims[axis] - 1) * view->strides[axis];
    *(across < 0 ? &least : &most) += across;
  }
  return (sx_reach){least * n_bytes, (most + 1) * n_bytes};
}

void sx_view_read(void *to, const void *from, sx_reach reach, const sx_view *view, const sx_node *node) {
  int64_t n_bytes = (int64_t)sx_dtype_bytes(node->dtype), n = sx_node_elements(node), at[SX_RANK_MAX] = {0};
  int64_t place = view->offset * n_bytes - reach.begin;
  for (int64_t i = 0; i < n; i++) {
    memcpy((char *)to + i * n_bytes, (const char *)from + place, (size_t)n_bytes);
    for (int axis = node->rank - 1; axis >= 0; axis--) {
      place += view->strides[axis] * n_bytes;
      if (++at[axis] < node->dims[axis]) break;
      place -= view->strides[axis] * n_bytes * node->dims[axis];
      at[axis] = 0;
    }
  }
}

void sx_values_canonical(void *values, sx_dtype dtype, int64_t n) {
  char *at = values;
  for (int64_t i = 0; dtype == SX_F32 && i < n; i++, at += 4) {
    uint32_t bits;
    memcpy(&bits, at, 4);
    if ((bits & 0x7fffffffu) > 0x7f800000u) bits = SX_NAN_F32;
    memcpy(at, &bits, 4);
  }
  uint16_t infinity = dtype == SX_BF16 ? 0x7f80 : 0x7c00, nan = dtype == SX_BF16 ? 0x7fc0 : 0x7e00;
  for (int64_t i = 0; (dtype == SX_BF16 || dtype == SX_F16) && i < n; i++, at += 2) {
    uint16_t bits;
    memcpy(&bits, at, 2);
    if ((bits & 0x7fff) > infinity) bits = nan;
    memcpy(at, &bits, 2);
  }
}
