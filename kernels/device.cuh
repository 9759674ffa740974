/* What kernels of the CUDA device share: elements in memory and in registers, faults, the order of sums.
 *
 * C++ for NVRTC, after math.h and draws.h. A value in a register is a float (of f32, bf16, f16) or an int (of i32, u8,
 * bool). Nothing here contracts, approximates or adds floats by atomics. */

struct sx_bf16 {
  unsigned short bits;
};
struct sx_f16 {
  unsigned short bits;
};
typedef unsigned char sx_byte; /* u8, bool */

/* ---- elements ------------------------------------------------------------------------------------ */

SX_MATH float sx_get(float x) { return x; }
SX_MATH float sx_get(sx_bf16 x) { return sx_f32_from_bf16(x.bits); }
SX_MATH float sx_get(sx_f16 x) { return sx_f32_from_f16(x.bits); }
SX_MATH int sx_get(int x) { return x; }
SX_MATH int sx_get(sx_byte x) { return x; }

template <typename T> SX_MATH T sx_made(float x);
template <typename T> SX_MATH T sx_made(int x);
template <> SX_MATH float sx_made<float>(float x) { return x; }
template <> SX_MATH sx_bf16 sx_made<sx_bf16>(float x) { return {sx_bf16_from_f32(x)}; }
template <> SX_MATH sx_f16 sx_made<sx_f16>(float x) { return {sx_f16_from_f32(x)}; }
template <> SX_MATH int sx_made<int>(int x) { return x; }
template <> SX_MATH sx_byte sx_made<sx_byte>(int x) { return (sx_byte)x; }

/* As an element of the type holds it. */
template <typename T> SX_MATH float sx_rounded(float x) { return sx_get(sx_made<T>(x)); }

/* Four neighbours, moved as one where their address is a multiple of their size. */
template <typename T> struct __align__(4 * sizeof(T)) sx_four { T at[4]; };

/* i32 wraps. */
SX_MATH int sx_wrap_add(int a, int b) { return (int)((unsigned)a + (unsigned)b); }
SX_MATH int sx_wrap_sub(int a, int b) { return (int)((unsigned)a - (unsigned)b); }
SX_MATH int sx_wrap_mul(int a, int b) { return (int)((unsigned)a * (unsigned)b); }
SX_MATH int sx_floor_div(int a, int b) {
  if (b == 0) return 0;
  long long q = (long long)a / b;
  return (int)((long long)a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q);
}
SX_MATH int sx_floor_mod(int a, int b) {
  if (b == 0) return 0;
  long long r = (long long)a % b;
  return (int)(r != 0 && (r < 0) != (b < 0) ? r + b : r);
}
SX_MATH int sx_byte_from_int(int x) { return x < 0 ? 0 : x > 255 ? 255 : x; }
SX_MATH float sx_negated(float x) { return sx_from_bits_f32(sx_bits_f32(x) ^ 0x80000000u); }
SX_MATH float sx_absolute(float x) { return sx_from_bits_f32(sx_bits_f32(x) & 0x7fffffffu); }

/* ---- faults -------------------------------------------------------------------------------------- */

/* Of an id out of range: `cell` is that of its node, `index` where the id is in row-major order (sx_fault_cell). */
static __device__ void sx_fault(unsigned long long *cell, unsigned long long index, int id) {
  atomicMin(cell, (index < 0xffffffffull ? index : 0xffffffffull) << 32 | (unsigned)id);
}
