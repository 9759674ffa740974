/* The simulator's interpreter of PTX: lane-instructions a second of processor time (instructions of a warp times 32) of
 * kernels of several kinds, and how long a module of 200 kernels is read. */
#include <time.h>

#include "../cudasim/ptx_case.h"

static const char SOURCE[] =
    "#include \"kernels/draws.h\"\n"
    "#define KERNEL extern \"C\" __global__ void\n"
    "#define I (blockIdx.x * blockDim.x + threadIdx.x)\n"
    "KERNEL add(float *z, const float *x, const float *y, int n) { int i = I; if (i < n) z[i] = x[i] + y[i]; }\n"
    "KERNEL add4(float *z, const float *x, const float *y, int n) {\n"
    "  int i = I; if (4 * i >= n) return; float4 a = ((const float4 *)x)[i], b = ((const float4 *)y)[i];\n"
    "  a.x += b.x; a.y += b.y; a.z += b.z; a.w += b.w; ((float4 *)z)[i] = a; }\n"
    "KERNEL gelu(float *z, const float *x, const float *y, int n) {\n"
    "  int i = I; if (i < n) z[i] = 0.5f * x[i] * (1.0f + sx_erf_f32(x[i] * 0.70710678f)) + sx_exp_f32(y[i]); }\n"
    "KERNEL normal(float *z, const float *x, const float *y, int n) {\n"
    "  int i = I; if (i < n) z[i] = sx_draw_normal(7, i); }\n"
    "KERNEL sum(float *z, const float *x, const float *y, int n) {\n"
    "  float s = 0; for (int i = threadIdx.x; i < 4096; i += 32) s += x[(blockIdx.x * 4096 + i) % n];\n"
    "  for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);\n"
    "  if (threadIdx.x == 0) z[blockIdx.x] = s; }\n"
    "KERNEL product(float *z, const float *x, const float *y, int n) {\n"
    "  __shared__ float a[16][17], b[16][17]; int u = threadIdx.x % 16, v = threadIdx.x / 16; float s = 0;\n"
    "  for (int k = 0; k < 256; k += 16) { a[v][u] = x[(blockIdx.x * 16 + v) * 256 % n + k + u];\n"
    "    b[v][u] = y[(k + v) * 256 + u]; __syncthreads();\n"
    "    for (int j = 0; j < 16; j++) s += a[v][j] * b[j][u]; __syncthreads(); }\n"
    "  z[(blockIdx.x * 16 + v) * 16 % n + u] = s; }\n"
    "KERNEL parted(float *z, const float *x, const float *y, int n) {\n"
    "  int i = I; float s = 0; for (int j = 0; j < i % 61; j++) s += i % 3 ? s * x[j] : y[j]; z[i % n] = s; }\n";

static const struct {
  const char *kernel;
  uint32_t grid, block;
  bool checks; /* shared memory */
} ROWS[] = {{"add", 4096, 256, false},    {"add4", 1024, 256, false}, {"gelu", 1024, 256, false},
            {"normal", 1024, 256, false}, {"sum", 2048, 32, false},   {"product", 64, 256, false},
            {"product", 64, 256, true},   {"parted", 512, 256, false}};

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void run_rows(void) {
  enum { N = 1 << 20 };
  sim_module *module = ptx_module(SOURCE, 90);
  ptx_memory memory = {0};
  float *z = ptx_take(&memory, sizeof *z * N), *x = ptx_take(&memory, sizeof *x * N),
        *y = ptx_take(&memory, sizeof *y * N);
  int n = N;
  for (int i = 0; i < N; i++) x[i] = (float)(i % 1000) * 0.005f - 2.5f, y[i] = (float)(i % 777) * 0.001f;
  for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
    double best = 1e9;
    uint64_t n_instructions = 0;
    for (int round = 0; round < 5; round++) {
      uint64_t before = ptx_n_instructions;
      double begin = now_s();
      PTX_RUN(module, ROWS[i].kernel, &memory,
              ((ptx_shape){ROWS[i].grid, ROWS[i].block, 0, ROWS[i].checks, ROWS[i].checks}), PTX_ARGUMENT(z),
              PTX_ARGUMENT(x), PTX_ARGUMENT(y), PTX_ARGUMENT(n));
      double took = now_s() - begin;
      best = took < best ? took : best;
      n_instructions = ptx_n_instructions - before;
    }
    printf("%-8s%-14s %6.0f million lane-instructions a second (%.1f million of warps in %.1f ms)\n", ROWS[i].kernel,
           ROWS[i].checks ? " with checks" : "", (double)n_instructions * 32e-6 / best, (double)n_instructions * 1e-6,
           best * 1e3);
  }
  ptx_free(&memory);
  sim_module_free(module);
}

static void read_many(void) {
  enum { N_KERNELS = 200, ROOM = 1 << 16 };
  static char source[ROOM];
  size_t n = (size_t)snprintf(source, ROOM, "#include \"kernels/draws.h\"\n");
  for (int i = 0; i < N_KERNELS; i++)
    n += (size_t)snprintf(source + n, ROOM - n,
                          "extern \"C\" __global__ void k%d(float *z, const float *x) { int i = threadIdx.x; "
                          "z[i] = sx_tanh_f32(x[i]) * sx_exp_f32(x[i + %d]); }\n",
                          i, i);
  char *ptx = ptx_compile(source, 90), problem[512];
  double begin = now_s();
  sim_module *module = sim_module_parse(ptx, problem, sizeof problem);
  printf("%d kernels, %zu bytes of PTX, read in %.1f ms\n", N_KERNELS, strlen(ptx), (now_s() - begin) * 1e3);
  sim_module_free(module);
  free(ptx);
}

int main(void) {
  if (!ptx_ready()) return 0;
  run_rows();
  read_many();
  return 0;
}
