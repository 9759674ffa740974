/* Element operations on arrays in the first-level cache: elements a nanosecond of sx_element at every SIMD level, of a
 * loop over glibc's function and, where the library is there, of libmvec's function of a register of f32 (which is not
 * correctly rounded: up to 4 ulp). All take turns, in bursts of some microseconds; the best of each counts, so what
 * else runs shows least. Then ours over theirs, and cycles an element of our best, by the time of dependent additions.
 *
 *   bench_math [OP...]   only the operations named */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../libsexp/cpu/kernel.h"

enum { N = 2048, ROUNDS = 301, ADDITIONS = 4096 };

typedef float unary(float x);
typedef float binary(float x, float y);
typedef void any(void); /* a function of libmvec, of its own signature */

typedef struct row {
  sx_op op;
  unary *one;
  binary *two;
  const char *vector; /* libmvec's name without its prefix */
  float low, high;    /* of the arguments */
} row;

static const row rows[] = {
    {SX_OP_ADD, NULL, NULL, NULL, -4, 4},
    {SX_OP_MUL, NULL, NULL, NULL, -4, 4},
    {SX_OP_MAX, NULL, NULL, NULL, -4, 4},
    {SX_OP_DIV, NULL, NULL, NULL, 1, 4},
    {SX_OP_SQRT, sqrtf, NULL, NULL, 0, 4},
    {SX_OP_RSQRT, NULL, NULL, NULL, 1, 4},
    {SX_OP_EXP, expf, NULL, "expf", -10, 10},
    {SX_OP_EXP2, exp2f, NULL, "exp2f", -10, 10},
    {SX_OP_EXPM1, expm1f, NULL, "expm1f", -2, 2},
    {SX_OP_LOG, logf, NULL, "logf", 0.001f, 100},
    {SX_OP_LOG2, log2f, NULL, "log2f", 0.001f, 100},
    {SX_OP_LOG1P, log1pf, NULL, "log1pf", 0, 4},
    {SX_OP_SIN, sinf, NULL, "sinf", -10, 10},
    {SX_OP_COS, cosf, NULL, "cosf", -10, 10},
    {SX_OP_TAN, tanf, NULL, "tanf", -10, 10},
    {SX_OP_TANH, tanhf, NULL, "tanhf", -4, 4},
    {SX_OP_ERF, erff, NULL, "erff", -3, 3},
    {SX_OP_FLOOR, floorf, NULL, NULL, -9, 9},
    {SX_OP_POW, NULL, powf, "powf", 0.1f, 4},
    {SX_OP_ATAN2, NULL, atan2f, "atan2f", -4, 4},
    {SX_OP_MOD, NULL, fmodf, NULL, 1, 9},
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

/* ---- who takes part ---- */

typedef enum contestant { SCALAR, AVX2, AVX512, LIBM, VECTOR_8, VECTOR_16, N_CONTESTANTS } contestant;

static sx_simd simd_of(contestant who) { return (sx_simd)((int)SX_SIMD_SCALAR + (int)who); }

#if defined(__x86_64__) && defined(__GNUC__)
#define VECTOR_LOOP(lanes, machine)                                                              \
  typedef float floats_##lanes __attribute__((vector_size(lanes * 4)));                          \
  __attribute__((target(machine))) static void run_vector_##lanes(const row *r, any *function) { \
    for (int k = 0; k < N; k += lanes) {                                                         \
      floats_##lanes a, b, result;                                                               \
      memcpy(&a, x + k, sizeof a);                                                               \
      memcpy(&b, y + k, sizeof b);                                                               \
      result = r->one ? ((floats_##lanes(*)(floats_##lanes))function)(a)                         \
                      : ((floats_##lanes(*)(floats_##lanes, floats_##lanes))function)(a, b);     \
      memcpy(out + k, &result, sizeof result);                                                   \
    }                                                                                            \
  }
VECTOR_LOOP(8, "avx2")
VECTOR_LOOP(16, "avx512f")
#else
static void run_vector_8(const row *r, any *function) { (void)r, (void)function; }
static void run_vector_16(const row *r, any *function) { (void)r, (void)function; }
#endif

static void *library;

/* libmvec's function of this many lanes, or NULL. */
static any *vector_function(const row *r, contestant who) {
  if (!library || !r->vector || !sx_simd_available(who == VECTOR_8 ? SX_SIMD_AVX2 : SX_SIMD_AVX512)) return NULL;
  char name[64];
  snprintf(name, sizeof name, "_ZGV%s%s_%s", who == VECTOR_8 ? "dN8" : "eN16", r->one ? "v" : "vv", r->vector);
  void *found = dlsym(library, name);
  any *function;
  memcpy(&function, &found, sizeof function);
  return function;
}

static bool takes_part(const row *r, contestant who) {
  if (who < LIBM) return sx_simd_available(simd_of(who));
  return who == LIBM ? r->one || r->two : vector_function(r, who) != NULL;
}

static void run(const row *r, contestant who, any *function) {
  if (who < LIBM)
    sx_kernels(simd_of(who))->element(r->op, SX_F32, SX_F32, out, (const void *const[]){x, y}, N);
  else if (who == LIBM)
    for (int k = 0; k < N; k++) out[k] = r->one ? r->one(x[k]) : r->two(x[k], y[k]);
  else
    (who == VECTOR_8 ? run_vector_8 : run_vector_16)(r, function);
}

static double cycle_ns(void) {
  double start = now_ns();
  int sum = 0;
  for (int k = 0; k < ADDITIONS; k++) {
    sum += 1;
    __asm__ volatile("" : "+r"(sum));
  }
  return (now_ns() - start) / ADDITIONS;
}

/* best[who]: ns an element, best[N_CONTESTANTS]: of a cycle. */
static void measure(const row *r, double *best) {
  any *functions[N_CONTESTANTS] = {NULL};
  functions[VECTOR_8] = vector_function(r, VECTOR_8);
  functions[VECTOR_16] = vector_function(r, VECTOR_16);
  for (int who = 0; who <= N_CONTESTANTS; who++) best[who] = HUGE_VAL;
  for (int round = 0; round < ROUNDS; round++)
    for (int who = 0; who <= N_CONTESTANTS; who++) {
      double t;
      if (who == N_CONTESTANTS) {
        t = cycle_ns();
      } else {
        if (!takes_part(r, (contestant)who)) continue;
        double start = now_ns();
        run(r, (contestant)who, functions[who]);
        t = (now_ns() - start) / N;
      }
      best[who] = t < best[who] ? t : best[who];
    }
}

static void print(const row *r, const double *best) {
  printf("%-7s", sx_op_describe(r->op)->name);
  double ours = HUGE_VAL, vector = best[VECTOR_8] < best[VECTOR_16] ? best[VECTOR_8] : best[VECTOR_16];
  for (int who = 0; who < N_CONTESTANTS; who++) {
    if (who < LIBM && best[who] < ours) ours = best[who];
    if (isinf(best[who]))
      printf(" %9s", "-");
    else
      printf(" %9.3f", 1 / best[who]);
  }
  if (isinf(best[LIBM]))
    printf(" %7s", "-");
  else
    printf(" %7.2f", best[LIBM] / ours);
  if (isinf(vector))
    printf(" %9s", "-");
  else
    printf(" %9.2f", vector / ours);
  printf(" %7.2f\n", ours / best[N_CONTESTANTS]);
  fflush(stdout);
}

static bool selected(const char *name, int argc, char **argv) {
  for (int k = 1; k < argc; k++)
    if (strcmp(argv[k], name) == 0) return true;
  return argc == 1;
}

int main(int argc, char **argv) {
  library = dlopen("libmvec.so.1", RTLD_NOW);
  printf("elements a ns, best of %d; ours over glibc and over the better libmvec; cycles an element of ours\n", ROUNDS);
  printf("%-7s %9s %9s %9s %9s %9s %9s %7s %9s %7s\n", "", "scalar", "avx2", "avx512", "glibc", "libmvec 8", "16",
         "/ glibc", "/ libmvec", "cycles");
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    const row *r = &rows[k];
    if (!selected(sx_op_describe(r->op)->name, argc, argv)) continue;
    double best[N_CONTESTANTS + 1];
    fill(r);
    measure(r, best);
    print(r, best);
  }
  return 0;
}
