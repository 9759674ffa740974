/* Memory and exchanges of PTX, executed: vectors, structures as parameters, variables of the module, generic addresses,
 * atomics, votes, tables of branches. */
#include "../common/cmocka_all.h"
#include "../cudasim/ptx_case.h"

#define KERNEL "extern \"C\" __global__ void "
enum { N = 200 }; /* in blocks of 64: the last is not full */

static const ptx_shape SHAPE = {(N + 63) / 64, 64, 0, true, true};

static void for_both(void (*check)(const sim_module *module, ptx_memory *memory), const char *source) {
  for (int architecture = 80; architecture <= 90; architecture += 10) {
    sim_module *module = ptx_module(source, architecture);
    ptx_memory memory = {0};
    check(module, &memory);
    ptx_free(&memory);
    sim_module_free(module);
  }
}

/* ---- vectors of every width, each type into a wider register ---- */

static const char VECTORS[] =
    "#define I int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;\n" KERNEL
    "vectors(uint4 *z, const uint4 *__restrict__ a, const ushort4 *b, const uchar4 *c, const double2 *e, int n) {\n"
    "  I uint4 v = a[i]; ushort4 w = b[i]; uchar4 x = c[i]; double2 y = e[i];\n"
    "  v.x += w.x; v.y ^= w.y << 16 | w.z; v.z -= x.x * x.w; v.w += (unsigned)(y.x * y.y) + x.y; z[i] = v; }\n" KERNEL
    "narrow(long long *z, const signed char *a, const short *b, const unsigned char *c, signed char *e, int n) {\n"
    "  I z[i] = (long long)a[i] * b[i] - c[i]; e[i] = (signed char)(a[i] + b[i]); }\n" KERNEL
    "shared(uint4 *z, const uint4 *a, int n) {\n"
    "  __shared__ uint4 s[64]; __shared__ unsigned short t[64]; int u = threadIdx.x, i = blockIdx.x * 64 + u;\n"
    "  uint4 v = i < n ? a[i] : make_uint4(1, 2, 3, 4); s[u] = v; t[u] = (unsigned short)v.y; __syncthreads();\n"
    "  v = s[63 - u]; v.x += t[u ^ 1]; if (i < n) z[i] = v; }\n";

typedef struct four {
  _Alignas(16) uint32_t at[4];
} four;

static void fill(void *to, size_t n_bytes, uint32_t seed) {
  for (size_t i = 0; i < n_bytes; i++) {
    seed = seed * 1664525u + 1013904223u;
    ((uint8_t *)to)[i] = (uint8_t)(seed >> 24);
  }
}

static void check_vectors(const sim_module *module, ptx_memory *memory) {
  static four a[N];
  static uint16_t b[4 * N];
  static uint8_t c[4 * N];
  static double e[2 * N];
  fill(a, sizeof a, 1), fill(b, sizeof b, 2), fill(c, sizeof c, 3);
  for (int i = 0; i < 2 * N; i++) e[i] = i * 1.25;
  four *z = ptx_take(memory, sizeof a);
  const four *da = ptx_take_copy(memory, a, sizeof a);
  const uint16_t *db = ptx_take_copy(memory, b, sizeof b);
  const uint8_t *dc = ptx_take_copy(memory, c, sizeof c);
  const double *de = ptx_take_copy(memory, e, sizeof e);
  int n = N;
  PTX_RUN(module, "vectors", memory, SHAPE, PTX_ARGUMENT(z), PTX_ARGUMENT(da), PTX_ARGUMENT(db), PTX_ARGUMENT(dc),
          PTX_ARGUMENT(de), PTX_ARGUMENT(n));
  for (size_t i = 0; i < N; i++) {
    assert_int_equal(z[i].at[0], a[i].at[0] + b[4 * i]);
    assert_int_equal(z[i].at[1], a[i].at[1] ^ ((uint32_t)b[4 * i + 1] << 16 | b[4 * i + 2]));
    assert_int_equal(z[i].at[2], a[i].at[2] - (uint32_t)c[4 * i] * c[4 * i + 3]);
    assert_int_equal(z[i].at[3], a[i].at[3] + (uint32_t)(e[2 * i] * e[2 * i + 1]) + c[4 * i + 1]);
  }
  PTX_RUN(module, "shared", memory, SHAPE, PTX_ARGUMENT(z), PTX_ARGUMENT(da), PTX_ARGUMENT(n));
  static const four beyond = {{1, 2, 3, 4}};
  for (uint32_t i = 0; i < N; i++) {
    uint32_t from = (i & ~63u) + 63 - (i & 63), beside = i ^ 1;
    four expected = from < N ? a[from] : beyond;
    expected.at[0] += (beside < N ? a[beside].at[1] : 2) & 0xffff;
    assert_memory_equal(&z[i], &expected, sizeof expected);
  }
}

static void check_narrow(const sim_module *module, ptx_memory *memory) {
  static int8_t a[N], sums[N];
  static int16_t b[N];
  static uint8_t c[N];
  fill(a, sizeof a, 4), fill(b, sizeof b, 5), fill(c, sizeof c, 6);
  int64_t *z = ptx_take(memory, N * sizeof *z);
  int8_t *e = ptx_take(memory, sizeof sums);
  const int8_t *da = ptx_take_copy(memory, a, sizeof a);
  const int16_t *db = ptx_take_copy(memory, b, sizeof b);
  const uint8_t *dc = ptx_take_copy(memory, c, sizeof c);
  int n = N;
  PTX_RUN(module, "narrow", memory, SHAPE, PTX_ARGUMENT(z), PTX_ARGUMENT(da), PTX_ARGUMENT(db), PTX_ARGUMENT(dc),
          PTX_ARGUMENT(e), PTX_ARGUMENT(n));
  for (size_t i = 0; i < N; i++) {
    assert_int_equal(z[i], (int64_t)a[i] * b[i] - c[i]);
    assert_int_equal(e[i], (int8_t)(uint8_t)(a[i] + b[i]));
  }
}

static void vectors_and_narrow_elements(void **state) {
  (void)state;
  for_both(check_vectors, VECTORS);
  for_both(check_narrow, VECTORS);
}

/* ---- parameters, variables ---- */

static const char STRUCTURES[] =
    "struct part { long long sizes[6]; float *to; int n; unsigned char kind; };\n"
    "__constant__ int factors[4] = {3, 5, 7, 11}; __device__ unsigned counter = 7; __device__ float "
    "table[2][3];\n" KERNEL
    "structure(const __grid_constant__ part p, part q, unsigned char scale) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= p.n) return;\n"
    "  int place[8]; for (int k = 0; k < 8; k++) place[k] = k * p.n + i; place[i & 7] += q.n;\n"
    "  p.to[i] = (float)(p.sizes[i % 6] + q.sizes[(i + 1) % 6] * scale + place[(i * 3) & 7] + factors[i & 3] + "
    "q.kind);\n"
    "  atomicAdd(&counter, 1u); if (i < 6) table[i / 3][i % 3] = p.to[i]; }\n" KERNEL
    "generic(int **z, int n) {\n"
    "  __shared__ int s[64]; int t = threadIdx.x, mine[4] = {t, t + 1, t + 2, t + 3};\n"
    "  s[t] = 100 + t; __syncthreads();\n"
    "  int *from = t % 3 == 0 ? s + t : t % 3 == 1 ? mine + (t & 3) : z[1] + t;\n"
    "  z[0][t] = *from; *from = 5; z[0][64 + t] = *from + s[t ^ 2] * 0 + mine[t & 3]; }\n";

typedef struct part {
  int64_t sizes[6];
  float *to;
  int32_t n;
  uint8_t kind;
} part;

static void check_structures(const sim_module *module, ptx_memory *memory) {
  part p = {.sizes = {1, 10, 100, 1000, 10000, 100000}, .n = N, .kind = 3},
       q = {.sizes = {2, 3, 5, 7, 11, 13}, .n = 9, .kind = 200};
  uint8_t scale = 77;
  p.to = ptx_take(memory, N * sizeof(float));
  PTX_RUN(module, "structure", memory, SHAPE, PTX_ARGUMENT(p), PTX_ARGUMENT(q), PTX_ARGUMENT(scale));
  static const int factors[4] = {3, 5, 7, 11};
  for (int i = 0; i < N; i++) {
    int k = i * 3 & 7, place = k * N + i + (k == (i & 7) ? 9 : 0);
    assert_true(p.to[i] == (float)(p.sizes[i % 6] + q.sizes[(i + 1) % 6] * scale + place + factors[i & 3] + q.kind));
  }
  void *at;
  size_t n_bytes;
  assert_true(sim_module_variable(module, "counter", &at, &n_bytes));
  assert_int_equal(n_bytes, 4);
  assert_int_equal(*(uint32_t *)at, 7 + N);
  assert_true(sim_module_variable(module, "table", &at, &n_bytes));
  assert_int_equal(n_bytes, 24);
  assert_memory_equal(at, p.to, 24);
  assert_true(sim_module_variable(module, "factors", &at, &n_bytes));
  assert_memory_equal(at, factors, sizeof factors);
  assert_false(sim_module_variable(module, "s", &at, &n_bytes));
}

static void check_generic(const sim_module *module, ptx_memory *memory) {
  int *places[2] = {ptx_take(memory, 128 * sizeof(int)), ptx_take(memory, 64 * sizeof(int))}, n = 64;
  for (int i = 0; i < 64; i++) places[1][i] = 1000 + i;
  int *const *z = ptx_take_copy(memory, places, sizeof places);
  PTX_RUN(module, "generic", memory, ((ptx_shape){1, 64, 0, false, false}), PTX_ARGUMENT(z), PTX_ARGUMENT(n));
  for (int t = 0; t < 64; t++) {
    assert_int_equal(places[0][t], t % 3 == 0 ? 100 + t : t % 3 == 1 ? t + (t & 3) : 1000 + t);
    assert_int_equal(places[0][64 + t], 5 + (t % 3 == 1 ? 5 : t + (t & 3)));
    assert_int_equal(places[1][t], t % 3 == 2 ? 5 : 1000 + t);
  }
}

static void structures_variables_and_generic_addresses(void **state) {
  (void)state;
  for_both(check_structures, STRUCTURES);
  for_both(check_generic, STRUCTURES);
}

/* ---- atomics, votes ---- */

static const char ATOMICS[] = KERNEL
    "atomics(int *z, unsigned *u, unsigned long long *w, int n) {\n"
    "  __shared__ int s; int i = blockIdx.x * blockDim.x + threadIdx.x; if (threadIdx.x == 0) s = 0; __syncthreads();\n"
    "  if (i < n) { atomicMin(z, 50 - i); atomicMax(z + 1, i - 90); atomicAdd(u, i); atomicOr(u + 1, 1u << (i & 31));\n"
    "    atomicMin(w, (unsigned long long)(i + 5) << 32 | i); atomicAdd(w + 1, 1ull << 33); atomicExch(u + 2, i);\n"
    "    atomicCAS(u + 3, i & ~1, i + 1); atomicXor(u + 4, i); atomicInc(u + 5, 6); atomicSub(z + 2, 3);\n"
    "    z[8 + i] = atomicAdd(&s, 2); } }\n";

static void check_atomics(const sim_module *module, ptx_memory *memory) {
  int *z = ptx_take(memory, (8 + N) * sizeof *z), n = N;
  uint32_t *u = ptx_take(memory, 8 * sizeof *u);
  uint64_t *w = ptx_take(memory, 2 * sizeof *w);
  w[0] = UINT64_MAX;
  PTX_RUN(module, "atomics", memory, SHAPE, PTX_ARGUMENT(z), PTX_ARGUMENT(u), PTX_ARGUMENT(w), PTX_ARGUMENT(n));
  uint32_t all = 0, turns = 0;
  for (uint32_t i = 0; i < N; i++) all ^= i, turns = turns >= 6 ? 0 : turns + 1;
  const uint32_t expected[6] = {N * (N - 1) / 2, ~0u, N - 1, 1, all, turns};
  assert_memory_equal(u, expected, sizeof expected);
  const int extremes[3] = {50 - (N - 1), N - 1 - 90, -3 * N};
  assert_memory_equal(z, extremes, sizeof extremes);
  assert_int_equal(w[0], (uint64_t)5 << 32);
  assert_int_equal(w[1], (uint64_t)N << 33);
  for (int i = 0; i < N; i++) assert_int_equal(z[8 + i], i % 64 * 2); /* threads in ascending order */
}

static const char VOTES[] = KERNEL
    "votes(unsigned *z, const int *x) {\n"
    "  int i = threadIdx.x; unsigned *to = z + 8 * i;\n"
    "  to[0] = __ballot_sync(~0u, x[i] > 3); to[1] = __any_sync(~0u, x[i] == 9); to[2] = __all_sync(~0u, x[i] >= 0);\n"
    "  to[3] = __match_any_sync(~0u, x[i]); to[4] = __reduce_add_sync(~0u, x[i]); to[5] = __reduce_min_sync(~0u, x[i] "
    "- 4);\n"
    "  to[6] = __syncthreads_or(x[i] == 2) | __syncthreads_and(x[i] < 8) << 1;\n"
    "  to[7] = 0; if (x[i] % 2) to[7] = __activemask(); }\n";

static void check_votes(const sim_module *module, ptx_memory *memory) {
  int x[64];
  for (int i = 0; i < 64; i++) x[i] = i * 7 % 8;
  const int *dx = ptx_take_copy(memory, x, sizeof x);
  uint32_t *z = ptx_take(memory, 64 * 8 * sizeof *z);
  PTX_RUN(module, "votes", memory, ((ptx_shape){1, 64, 0, false, false}), PTX_ARGUMENT(z), PTX_ARGUMENT(dx));
  for (int i = 0; i < 64; i++) {
    uint32_t above = 0, same = 0, odd = 0, sum = 0;
    for (int lane = 0; lane < 32; lane++) {
      int other = x[(i & 32) + lane];
      above |= (uint32_t)(other > 3) << lane;
      same |= (uint32_t)(other == x[i]) << lane;
      odd |= (uint32_t)(other % 2) << lane;
      sum += (uint32_t)other;
    }
    const uint32_t expected[8] = {above, 0, 1, same, sum, (uint32_t)-4, 3, x[i] % 2 ? odd : 0};
    assert_memory_equal(&z[8 * i], expected, sizeof expected);
  }
}

static void atomics_and_votes(void **state) {
  (void)state;
  for_both(check_atomics, ATOMICS);
  for_both(check_votes, VOTES);
}

/* ---- what NVRTC seldom writes ---- */

static const char BY_HAND[] =
    ".version 9.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry k(\n  .param .u64 .ptr .global .align 4 p\n)\n.reqntid 32, 1, 1\n{\n"
    "  .reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p<3>; .reg .b16 %rs<3>; /* a comment\n of two lines */\n"
    "  .shared .align 4 .b8 s[128];\n"
    "  ld.param.u64 %rd1, [p]; mov.u32 %r1, %laneid; and.b32 %r2, %r1, 3; mul.wide.u32 %rd2, %r1, 4;\n"
    "  add.s64 %rd1, %rd1, %rd2; mov.u32 %r3, 1000; $table: .branchtargets $a, $b, $c, $d;\n"
    "  brx.idx %r2, $table;\n"
    "$a: add.s32 %r3, %r3, 1; bra.uni $end;\n$b: add.s32 %r3, %r3, 20;\n$c: add.s32 %r3, %r3, 300; bra $end;\n$d: "
    "exit;\n"
    "$end: setp.gt.u32 %p1, %r1, 15; @%p1 st.global.u32 [%rd1], %r3; @!%p1 st.global.u32 [%rd1], -1;\n"
    "  mov.u32 %r4, s; mad.lo.u32 %r4, %r1, 4, %r4; st.shared.u32 [%r4], %r1; ld.shared.v2.u16 {%rs1, _}, [%r4];\n"
    "  mov.b32 %r5, {%rs1, 7}; @%p1 red.global.add.u32 [%rd1], %r5; @%p1 ret; bra $end2;\n$end2: ret;\n}\n";

static void tables_guards_and_addresses_of_32_bits(void **state) {
  (void)state;
  char problem[512] = "";
  sim_module *module = sim_module_parse(BY_HAND, problem, sizeof problem);
  if (!module) fail_msg("%s", problem);
  ptx_memory memory = {0};
  int *z = ptx_take(&memory, 32 * sizeof *z);
  PTX_RUN(module, "k", &memory, ((ptx_shape){1, 32, 0, true, true}), PTX_ARGUMENT(z));
  static const int added[4] = {1, 320, 300, 0};
  for (int i = 0; i < 32; i++)
    assert_int_equal(z[i], i % 4 == 3 ? 0 : i < 16 ? -1 : 1000 + added[i % 4] + i + (7 << 16));
  ptx_free(&memory);
  sim_module_free(module);
}

int main(void) {
  if (!ptx_ready()) return 0;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(vectors_and_narrow_elements),
      cmocka_unit_test(structures_variables_and_generic_addresses),
      cmocka_unit_test(atomics_and_votes),
      cmocka_unit_test(tables_guards_and_addresses_of_32_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
