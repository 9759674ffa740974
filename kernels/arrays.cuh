/* Arrays outside plans: see libsexp/cuda/emit.h. */
#define SX_ARRAY_INDEX(n)                                              \
  long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; \
  if (i >= (n)) return

extern "C" __global__ void arrays_add(float *out, const float *left, const float *right, long long n) {
  SX_ARRAY_INDEX(n);
  out[i] = left[i] + right[i];
}

extern "C" __global__ void arrays_divide(float *values, float count, long long n) {
  SX_ARRAY_INDEX(n);
  values[i] = values[i] / count;
}

extern "C" __global__ void arrays_widen_bf16(float *to, const unsigned short *from, long long n) {
  SX_ARRAY_INDEX(n);
  to[i] = sx_f32_from_bf16(from[i]);
}

extern "C" __global__ void arrays_widen_f16(float *to, const unsigned short *from, long long n) {
  SX_ARRAY_INDEX(n);
  to[i] = sx_f32_from_f16(from[i]);
}

extern "C" __global__ void arrays_narrow_bf16(unsigned short *to, const float *from, long long n) {
  SX_ARRAY_INDEX(n);
  to[i] = sx_bf16_from_f32(from[i]);
}

extern "C" __global__ void arrays_narrow_f16(unsigned short *to, const float *from, long long n) {
  SX_ARRAY_INDEX(n);
  to[i] = sx_f16_from_f32(from[i]);
}
