/* Walks every f32 input of each one-argument function of kernels/math.h and
 * fails on any result that is not the correctly rounded one, and on any that
 * the kernels of a SIMD level of this machine give otherwise.
 *
 *   check_math [--sample N] [--levels] [--near] [NAME...]
 *
 * Default: all functions, all 2^32 inputs, one thread per core. --sample N
 * takes every N-th bit pattern; --levels only compares the levels with
 * kernels/math.h, which takes some seconds a function; --near lists the cases sent to MPFR and their
 * results, from which hard_cases.h is made. A line per function:
 *   name  inputs  misrounded  cases sent to MPFR  seconds
 * The first misrounded inputs are listed. Exit status 1 if there is one.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../libsexp/cpu/chain.h"
#include "../../libsexp/cpu/kernel.h"
#include "oracle.h"

#define CHUNK 4096u
#define MAX_THREADS 64
#define MAX_LISTED 40

struct walk {
  const struct sx_oracle *function;
  uint64_t stride;
  int list_near, levels_only;
  sx_op op; /* SX_N_OPS: no operation is this function */
  uint64_t n_inputs;
  atomic_uint_fast64_t next;
  atomic_uint_fast64_t n_misrounded;
  atomic_uint_fast64_t n_asked;
};

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void report(struct walk *walk, const char *by, float x, float got, uint32_t right) {
  if (atomic_fetch_add(&walk->n_misrounded, 1) < MAX_LISTED)
    printf("  %s%s(%a = 0x%08x) gave 0x%08x, right is 0x%08x\n", walk->function->name, by, (double)x, sx_bits_f32(x),
           sx_bits_f32(got), right);
}

static void compare(struct walk *walk, const char *how, sx_simd simd, const float *in, const float *out,
                    const float *right, size_t n) {
  if (memcmp(out, right, n * sizeof *out) == 0) return;
  char by[48];
  snprintf(by, sizeof by, " %s %s", how, sx_simd_name(simd));
  for (size_t i = 0; i < n; i++)
    if (sx_bits_f32(out[i]) != sx_bits_f32(right[i])) report(walk, by, in[i], out[i], sx_bits_f32(right[i]));
}

/* Alone, and in a chain of load, function and store. */
static void check_levels(struct walk *walk, float *in, const float *right, size_t n) {
  float out[CHUNK];
  for (sx_simd simd = SX_SIMD_SCALAR; simd < SX_N_SIMD && walk->op != SX_N_OPS; simd++) {
    if (!sx_simd_available(simd)) continue;
    sx_kernels(simd)->element(walk->op, SX_F32, SX_F32, out, (const void *const[]){in}, (int64_t)n);
    compare(walk, "at", simd, in, out, right, n);
    const sx_chain_kernels *chains = sx_kernels(simd)->chains;
    if (!chains->unary[walk->op]) continue;
    const sx_link links[] = {{chains->load, {-1}, {0}},
                             {chains->unary[walk->op], {0}, {0}},
                             {chains->store, {-1}, {1}},
                             {chains->end, {0}, {0}}};
    chains->run(links, (void *const[]){in, out}, CHUNK);
    compare(walk, "in a chain at", simd, in, out, right, n);
  }
}

static void walk_chunk(struct walk *walk, uint64_t first, mpfr_t scratch[2]) {
  float in[CHUNK] = {0}, out[CHUNK];
  size_t n = (size_t)(walk->n_inputs - first < CHUNK ? walk->n_inputs - first : CHUNK);
  for (size_t i = 0; i < n; i++) in[i] = sx_from_bits_f32((uint32_t)((first + i) * walk->stride));
  walk->function->evaluate(in, out, n);
  check_levels(walk, in, out, n);
  if (walk->levels_only) return;
  uint64_t n_asked = 0;
  for (size_t i = 0; i < n; i++) {
    struct sx_verdict verdict = sx_oracle_judge(walk->function, in[i], out[i], scratch);
    n_asked += (uint64_t)verdict.asked_mpfr;
    if (verdict.asked_mpfr && walk->list_near)
      printf("near %s 0x%08x 0x%08x\n", walk->function->name, sx_bits_f32(in[i]), verdict.right);
    if (verdict.right != sx_bits_f32(out[i])) report(walk, "", in[i], out[i], verdict.right);
  }
  atomic_fetch_add(&walk->n_asked, n_asked);
}

static void *walk_thread(void *argument) {
  struct walk *walk = argument;
  mpfr_t scratch[2];
  mpfr_inits2(SX_ORACLE_PRECISION, scratch[0], scratch[1], (mpfr_ptr)0);
  for (;;) {
    uint64_t first = atomic_fetch_add(&walk->next, CHUNK);
    if (first >= walk->n_inputs) break;
    walk_chunk(walk, first, scratch);
  }
  mpfr_clears(scratch[0], scratch[1], (mpfr_ptr)0);
  mpfr_free_cache();
  return NULL;
}

static sx_op find_operation(const char *name) {
  sx_op op = 0;
  while (op < SX_N_OPS && strcmp(sx_op_describe(op)->name, name) != 0) op++;
  return op;
}

/* The number of misrounded results of one function. */
static uint64_t walk_function(const struct sx_oracle *function, uint64_t stride, int list_near, int levels_only) {
  struct walk walk = {.function = function,
                      .stride = stride,
                      .list_near = list_near,
                      .levels_only = levels_only,
                      .op = find_operation(function->name),
                      .n_inputs = ((1ull << 32) + stride - 1) / stride};
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  int n_threads = cores < 1 ? 1 : cores > MAX_THREADS ? MAX_THREADS : (int)cores;
  pthread_t threads[MAX_THREADS];
  double start = now_s();
  for (int i = 0; i < n_threads; i++)
    if (pthread_create(&threads[i], NULL, walk_thread, &walk) != 0) {
      perror("check_math: pthread_create");
      exit(2);
    }
  for (int i = 0; i < n_threads; i++) pthread_join(threads[i], NULL);
  printf("%-6s %11llu inputs %6llu misrounded %8llu to MPFR %8.1f s\n", function->name,
         (unsigned long long)walk.n_inputs, (unsigned long long)walk.n_misrounded, (unsigned long long)walk.n_asked,
         now_s() - start);
  fflush(stdout);
  return walk.n_misrounded;
}

static const struct sx_oracle *find_function(const char *name) {
  for (size_t i = 0; i < SX_ORACLE_COUNT; i++)
    if (strcmp(name, sx_oracle_table[i].name) == 0) return &sx_oracle_table[i];
  return NULL;
}

static int usage(void) {
  fprintf(stderr, "usage: check_math [--sample N] [--levels] [--near] [NAME...]\nnames:");
  for (size_t i = 0; i < SX_ORACLE_COUNT; i++) fprintf(stderr, " %s", sx_oracle_table[i].name);
  fprintf(stderr, "\n");
  return 2;
}

int main(int argc, char **argv) {
  uint64_t stride = 1, n_misrounded = 0;
  int list_near = 0, levels_only = 0, i = 1;
  for (; i < argc && argv[i][0] == '-'; i++) {
    if (strcmp(argv[i], "--near") == 0)
      list_near = 1;
    else if (strcmp(argv[i], "--levels") == 0)
      levels_only = 1;
    else if (strcmp(argv[i], "--sample") == 0 && i + 1 < argc && (stride = strtoull(argv[i + 1], NULL, 0)) != 0)
      i++;
    else
      return usage();
  }
  for (int j = i; j < argc; j++)
    if (find_function(argv[j]) == NULL) return usage();
  for (int j = i; j < argc; j++) n_misrounded += walk_function(find_function(argv[j]), stride, list_near, levels_only);
  for (size_t j = 0; i == argc && j < SX_ORACLE_COUNT; j++)
    n_misrounded += walk_function(&sx_oracle_table[j], stride, list_near, levels_only);
  return n_misrounded == 0 ? 0 : 1;
}
