/* What kernels of the CUDA device share: elements in memory and in registers, faults, the order of sums.
 *
 * C++ for NVRTC, after math.h and draws.h. A value in a register is a float (of f32, bf16, f16) or an int (of i32, u8,
 * bool). Nothing here contracts, approximates or adds floats by atomics. */
#pragma nv_diag_suppress 177 /* a unit uses some of it */

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

/* The type's own way of holding a register's value. */
SX_MATH void sx_put(float *to, float x) { *to = x; }
SX_MATH void sx_put(sx_bf16 *to, float x) { to->bits = sx_bf16_from_f32(x); }
SX_MATH void sx_put(sx_f16 *to, float x) { to->bits = sx_f16_from_f32(x); }
SX_MATH void sx_put(int *to, int x) { *to = x; }
SX_MATH void sx_put(sx_byte *to, int x) { *to = (sx_byte)x; }
template <typename T, typename V> SX_MATH T sx_made(V x) {
  T made;
  sx_put(&made, x);
  return made;
}

/* As an element of the type holds it. */
template <typename T> SX_MATH float sx_rounded(float x) { return sx_get(sx_made<T>(x)); }

/* Four neighbours, moved as one where their address is a multiple of their size. */
template <typename T> struct __align__(4 * sizeof(T)) sx_four { T at[4]; };

/* The first n, fewer than four, of them. */
template <typename T, typename N> SX_MATH void sx_read_some(sx_four<T> &to, const T *from, N n) {
#pragma unroll
  for (int x = 0; x < 4; x++) to.at[x] = x < n ? from[x] : T{};
}
template <typename T, typename N> SX_MATH void sx_write_some(T *to, const sx_four<T> &from, N n) {
#pragma unroll
  for (int x = 0; x < 4; x++)
    if (x < n) to[x] = from.at[x];
}

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

/* ---- folding ------------------------------------------------------------------------------------- */

/* What a reduction does with two values, and the value that changes no other: x + -0 is x for every x. */
struct sx_sum_float {
  typedef float T;
  SX_MATH float none() { return sx_from_bits_f32(0x80000000u); }
  SX_MATH float join(float a, float b) { return a + b; }
};
struct sx_sum_int {
  typedef int T;
  SX_MATH int none() { return 0; }
  SX_MATH int join(int a, int b) { return sx_wrap_add(a, b); }
};
struct sx_max_float {
  typedef float T;
  SX_MATH float none() { return sx_from_bits_f32(0xff800000u); }
  SX_MATH float join(float a, float b) { return sx_max_f32(a, b); }
};
struct sx_min_float {
  typedef float T;
  SX_MATH float none() { return sx_from_bits_f32(0x7f800000u); }
  SX_MATH float join(float a, float b) { return sx_min_f32(a, b); }
};
struct sx_max_int {
  typedef int T;
  SX_MATH int none() { return (int)0x80000000u; }
  SX_MATH int join(int a, int b) { return a > b ? a : b; }
};
struct sx_min_int {
  typedef int T;
  SX_MATH int none() { return 0x7fffffff; }
  SX_MATH int join(int a, int b) { return a < b ? a : b; }
};
struct sx_any {
  typedef int T;
  SX_MATH int none() { return 0; }
  SX_MATH int join(int a, int b) { return a != 0 || b != 0; }
};
struct sx_all {
  typedef int T;
  SX_MATH int none() { return 1; }
  SX_MATH int join(int a, int b) { return a != 0 && b != 0; }
};

/* The tree h = 16, 8, 4, 2, 1 over a warp: a + b is b + a, so all lanes come to the value of lane 0. */
template <typename F> SX_MATH typename F::T sx_warp_join(typename F::T x) {
#pragma unroll
  for (int h = 16; h > 0; h /= 2) x = F::join(x, __shfl_xor_sync(0xffffffffu, x, h));
  return x;
}

/* Of a block whose warp w holds the value of chunk w: the value of all chunks, `part` having room for one each. */
template <typename F> SX_MATH typename F::T sx_block_join(typename F::T x, typename F::T *part) {
  const unsigned lane = threadIdx.x % 32, n = blockDim.x / 32;
  __syncthreads();
  if (lane == 0) part[threadIdx.x / 32] = x;
  __syncthreads();
  return sx_warp_join<F>(lane < n ? part[lane] : F::none());
}

/* The same tree over n values in registers, n a constant, from h on. */
template <typename F, int n, int h> struct sx_tree_from {
  SX_MATH void join(typename F::T *lanes) {
    constexpr int pairs = n - h < h ? n - h : h;
#pragma unroll
    for (int j = 0; j < pairs; j++) lanes[j] = F::join(lanes[j], lanes[j + h]);
    sx_tree_from<F, n, h / 2>::join(lanes);
  }
};
template <typename F, int n> struct sx_tree_from<F, n, 0> {
  SX_MATH void join(typename F::T *) {}
};
template <typename F, int n> SX_MATH typename F::T sx_tree(typename F::T *lanes) {
  sx_tree_from<F, n, 16>::join(lanes);
  return lanes[0];
}

/* Lane j of 32 warps holds its values of 32 columns: the columns' values, in warp 0. */
template <typename F> SX_MATH typename F::T sx_columns_join(typename F::T x, typename F::T (*lanes)[33]) {
  const int column = threadIdx.x % 32, j = threadIdx.x / 32;
  lanes[j][column] = x;
  for (int h = 16; h > 0; h /= 2) {
    __syncthreads();
    if (j < h) lanes[j][column] = F::join(lanes[j][column], lanes[j + h][column]);
  }
  return lanes[j][column];
}

/* ---- the place of an extreme --------------------------------------------------------------------- */

template <typename T> struct sx_placed {
  T value;
  int at; /* -1: none yet */
};

/* The first NaN is the extreme, -0 and +0 tie, the lowest index wins. `sign` is 1 for a maximum, -1 for a minimum. */
template <int sign, typename T> SX_MATH bool sx_beats(sx_placed<T> a, sx_placed<T> b) {
  if (a.at < 0 || b.at < 0) return b.at < 0 && a.at >= 0;
  const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
  if (a_nan || b_nan) return a_nan && (!b_nan || a.at < b.at);
  if (a.value == b.value) return a.at < b.at;
  return sign > 0 ? a.value > b.value : a.value < b.value;
}

template <int sign, typename T> SX_MATH sx_placed<T> sx_warp_extreme(sx_placed<T> best) {
#pragma unroll
  for (int h = 16; h > 0; h /= 2) {
    sx_placed<T> other = {__shfl_xor_sync(0xffffffffu, best.value, h), __shfl_xor_sync(0xffffffffu, best.at, h)};
    if (sx_beats<sign>(other, best)) best = other;
  }
  return best;
}

/* ---- sorting ------------------------------------------------------------------------------------- */

/* Ascending keys in ascending order of the number, -0 as +0, NaN last in either direction. */
template <int descending> SX_MATH unsigned sx_sort_key(float x) {
  const unsigned order = sx_order_f32(sx_bits_f32(x == 0.0f ? 0.0f : x));
  return x != x ? 0xffffffffu : descending ? ~order : order;
}
template <int descending> SX_MATH unsigned sx_sort_key(int x) {
  const unsigned order = (unsigned)x ^ 0x80000000u;
  return descending ? ~order : order;
}

/* How many of n ascending keys are below the key. */
SX_MATH unsigned sx_count_below(const unsigned long long *keys, long long n, unsigned long long key) {
  long long low = 0, high = n;
  while (low < high) {
    const long long middle = low + (high - low) / 2;
    if (keys[middle] < key)
      low = middle + 1;
    else
      high = middle;
  }
  return (unsigned)low;
}

/* Sorts the first `left` keys, at most n, by n / 2 threads (a bitonic network). */
template <int n> SX_MATH void sx_sort_tile(unsigned long long *keys, long long left, unsigned long long *tile) {
  for (int k = threadIdx.x; k < n; k += n / 2) tile[k] = k < left ? keys[k] : ~0ull;
  for (int run = 2; run <= n; run *= 2)
    for (int gap = run / 2; gap > 0; gap /= 2) {
      __syncthreads();
      const int low = 2 * gap * ((int)threadIdx.x / gap) + (int)threadIdx.x % gap, high = low + gap;
      const unsigned long long a = tile[low], b = tile[high];
      if ((a > b) == ((low & run) == 0)) {
        tile[low] = b;
        tile[high] = a;
      }
    }
  __syncthreads();
  for (int k = threadIdx.x; k < n; k += n / 2)
    if (k < left) keys[k] = tile[k];
}

/* Where key `at` of a line comes when each two neighbouring runs become one. */
SX_MATH long long sx_merged_place(const unsigned long long *line, long long n, long long run, long long at) {
  const long long own = at / run, begin = (own ^ 1) * run;
  if (begin >= n) return at;
  const long long other = begin + run < n ? run : n - begin;
  return own / 2 * 2 * run + at % run + sx_count_below(line + begin, other, line[at]);
}
