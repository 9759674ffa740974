/* Element operations: ns an element of sx_element at every SIMD level, beside a loop over the platform's
 * libm function; and simple operations beside a copy. Arrays fit the first-level cache.
 *
 *   bench_math [OP...]   only the operations named */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../libsexp/cpu/kernel.h"

enum { N = 2048, ROUNDS = 31, REPEATS = 20 };

typedef float unary(float x);
typedef float binary(float x, float y);

typedef struct row {
  sx_op op;
  unary *one;
  binary *two;
  float low, high; /* of the arguments */
} row;

static const row rows[] = {
    {SX_OP_ADD, NULL, NULL, -4, 4},   {SX_OP_MUL, NULL, NULL, -4, 4},     {SX_OP_MAX, NULL, NULL, -4, 4},
    {SX_OP_DIV, NULL, NULL, 1, 4},    {SX_OP_SQRT, sqrtf, NULL, 0, 4},    {SX_OP_RSQRT, NULL, NULL, 1, 4},
    {SX_OP_EXP, expf, NULL, -10, 10}, {SX_OP_EXP2, exp2f, NULL, -10, 10}, {SX_OP_EXPM1, expm1f, NULL, -2, 2},
    {SX_OP_LOG, logf, NULL, 0, 100},  {SX_OP_LOG2, log2f, NULL, 0, 100},  {SX_OP_LOG1P, log1pf, NULL, 0, 4},
    {SX_OP_SIN, sinf, NULL, -10, 10}, {SX_OP_COS, cosf, NULL, -10, 10},   {SX_OP_TAN, tanf, NULL, -10, 10},
    {SX_OP_TANH, tanhf, NULL, -4, 4}, {SX_OP_ERF, erff, NULL, -3, 3},     {SX_OP_FLOOR, floorf, NULL, -9, 9},
    {SX_OP_POW, NULL, powf, 0.1f, 4}, {SX_OP_ATAN2, NULL, atan2f, -4, 4}, {SX_OP_MOD, NULL, fmodf, 1, 9},
};

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static _Alignas(64) float x[N], y[N], out[N];

static void fill(const row *r) {
  uint64_t seed = 1;
  for (int k = 0; k < 2 * N; k++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    float unit = (float)(int32_t)(seed >> 40) * 0x1p-24f;
    (k < N ? x : y)[k % N] = r->low + (r->high - r->low) * unit;
  }
}

static void run(const row *r, sx_simd simd) {
  if (simd != SX_SIMD_REFERENCE) {
    sx_kernels(simd)->element(r->op, SX_F32, SX_F32, out, (const void *const[]){x, y}, N);
  } else {
    for (int k = 0; k < N; k++) out[k] = r->one ? r->one(x[k]) : r->two(x[k], y[k]);
  }
}

/* The best of the rounds, in ns an element: short bursts, so that what else runs shows least. */
static double measure(const row *r, sx_simd simd) {
  double best = 1e300;
  for (int round = 0; round < ROUNDS; round++) {
    double start = now_ns();
    for (int k = 0; k < REPEATS; k++) run(r, simd);
    double t = (now_ns() - start) / ((double)N * REPEATS);
    best = t < best ? t : best;
  }
  return best;
}

static bool selected(const char *name, int argc, char **argv) {
  for (int k = 1; k < argc; k++)
    if (strcmp(argv[k], name) == 0) return true;
  return argc == 1;
}

int main(int argc, char **argv) {
  printf("ns an element, best of %d\n%-10s", ROUNDS, "operation");
  for (sx_simd simd = SX_SIMD_SCALAR; simd < SX_N_SIMD; simd++)
    if (sx_simd_available(simd)) printf(" %8s", sx_simd_name(simd));
  printf(" %8s  libm/best\n", "libm");
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    const row *r = &rows[k];
    const char *name = sx_op_describe(r->op)->name;
    if (!selected(name, argc, argv)) continue;
    fill(r);
    printf("%-10s", name);
    double ours = 0;
    for (sx_simd simd = SX_SIMD_SCALAR; simd < SX_N_SIMD; simd++)
      if (sx_simd_available(simd)) printf(" %8.3f", ours = measure(r, simd));
    if (r->one || r->two) {
      double libm = measure(r, SX_SIMD_REFERENCE);
      printf(" %8.3f  %9.2f", libm, libm / ours);
    }
    printf("\n");
    fflush(stdout);
  }
  return 0;
}
