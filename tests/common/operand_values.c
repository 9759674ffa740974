#include "operand_values.h"

#include "../../kernels/math.h"

float operand_value(operand_values values, uint64_t bits) {
  float unit = (float)(int32_t)(bits >> 40) * 0x1p-23f - 1.0f;
  uint64_t which = bits >> 20 & 1023;
  switch (values) {
    case VALUES_UNDERFLOW:
      return which % 3 == 0 ? 0.0f * unit : unit * 0x1p-75f;
    case VALUES_NOT_FINITE:
      if (which == 0) return sx_from_bits_f32(0x7f800000u | (uint32_t)(bits >> 63) << 31);
      if (which == 1) return sx_from_bits_f32(0x7fc00000u);
      return which < 300 ? 0.0f * unit : unit;
    default:
      return unit;
  }
}
