/* Matrix products: ours, OpenBLAS, BLIS and oneDNN where they are installed, and the machine's fma peak,
 * measured in turn: bursts of about a millisecond with rests, medians and best samples, and what ours is of
 * the best of the others, by medians and by best samples.
 *
 *   bench_gemm [--threads N] [--rounds N] [--simd LEVEL] [SHAPE...]   a SHAPE selects the names that start with it */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fma_peak.h"
#include "options.h"
#include "timing.h"

typedef struct shape {
  const char *name, *labels; /* N: as stored, T: transposed, of a then b */
  int64_t batches, m, n, k;
} shape;

#define NN "zmk,zkn->zmn"
#define NT "zmk,znk->zmn"
#define TN "zkm,zkn->zmn"
static const shape shapes[] = {
    {"sq64", NN, 1, 64, 64, 64},
    {"sq128", NN, 1, 128, 128, 128},
    {"sq256", NN, 1, 256, 256, 256},
    {"sq512", NN, 1, 512, 512, 512},
    {"sq1024", NN, 1, 1024, 1024, 1024},
    {"sq2048", NN, 1, 2048, 2048, 2048},
    {"t1", NN, 1, 4096, 256, 1024},
    {"t2", NN, 1, 2048, 768, 3072},
    {"t3", NN, 1, 64, 4096, 512},
    {"mlp_fc1_fwd", NT, 1, 128, 512, 784},
    {"mlp_fc1_dW", TN, 1, 512, 784, 128},
    {"mlp_fc2_dX", NN, 1, 128, 512, 512},
    {"mlp_out_fwd", NT, 1, 128, 10, 512},
    {"char_qkv_fwd", NT, 1, 2048, 384, 128},
    {"char_fcproj_fwd", NT, 1, 2048, 128, 512},
    {"char_fc_dW", TN, 1, 512, 128, 2048},
    {"gpt_fc_fwd", NT, 1, 1024, 1536, 384},
    {"gpt_fcproj_fwd", NT, 1, 1024, 384, 1536},
    {"gpt_fc_dX", NN, 1, 1024, 384, 1536},
    {"gpt_fc_dW", TN, 1, 1536, 384, 1024},
    {"gpt_head_fwd", NT, 1, 1024, 4096, 384},
    {"gpt_head_dW", TN, 1, 4096, 384, 1024},
    {"char_qk", NT, 1, 128, 128, 32},
    {"gpt_qk", NT, 1, 256, 256, 64},
    {"gpt_att_v", NN, 1, 256, 64, 256},
    {"char_qk_all", NT, 64, 128, 128, 32},
    {"char_att_v_all", NN, 64, 128, 32, 128},
    {"gpt_qk_all", NT, 24, 256, 256, 64},
    {"gpt_att_v_all", NN, 24, 256, 64, 256},
    {"mlp_out_dX", NN, 1, 128, 512, 10},
    {"mlp_out_dW", TN, 1, 10, 512, 128},
    {"row", NN, 1, 1, 1024, 512},
    {"column", NT, 1, 1024, 1, 512},
    {"rows4", NT, 1, 4, 512, 512},
    {"columns16", NN, 1, 512, 16, 256},
    {"outer", NN, 1, 128, 512, 1},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes, MOST_ROUNDS = 1001 };
#define BURST_FLOPS 6e7

/* ---- implementations ---------------------------------------------------------------- */

typedef struct problem {
  const shape *shape;
  float *a, *b, *c;
  sx_pool *pool;
  void *scratch;
  int n_threads;
  sx_simd simd;
} problem;

static bool a_transposed(const shape *s) { return s->labels[1] == 'k'; }
static bool b_transposed(const shape *s) { return s->labels[5] == 'n'; }

static void run_ours(const problem *p) {
  const shape *s = p->shape;
  int64_t z = s->batches, mk = s->m * s->k, kn = s->k * s->n, mn = s->m * s->n;
  int64_t a_dims[3] = {z, a_transposed(s) ? s->k : s->m, a_transposed(s) ? s->m : s->k};
  int64_t b_dims[3] = {z, b_transposed(s) ? s->n : s->k, b_transposed(s) ? s->k : s->n};
  int64_t c_dims[3] = {z, s->m, s->n};
  int64_t a_strides[3] = {mk, a_dims[2], 1}, b_strides[3] = {kn, b_dims[2], 1}, c_strides[3] = {mn, s->n, 1};
  sx_node node = {.op = SX_OP_EINSUM, .text = s->labels, .rank = 3, .dims = c_dims};
  sx_operand inputs[2] = {{p->a, SX_F32, 3, a_dims, a_strides}, {p->b, SX_F32, 3, b_dims, b_strides}};
  sx_call call = {.node = &node, .out = {p->c, SX_F32, 3, c_dims, c_strides}, .inputs = inputs, .n_inputs = 2};
  call.scratch = p->scratch;
  call.pool = p->pool;
  sx_kernels(p->simd)->fast[SX_OP_EINSUM](&call);
}

typedef void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                         const float *b, int ldb, float beta, float *c, int ldc);

typedef int dnnl_sgemm(char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                       int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

typedef struct peer {
  const char *name, *library, *set_threads;
  cblas_sgemm *cblas; /* NULL, both: not installed */
  dnnl_sgemm *dnnl;
} peer;

static peer peers[] = {{"OpenBLAS", "libopenblas.so.0", "openblas_set_num_threads", NULL, NULL},
                       {"BLIS", "libblis.so.4", "bli_thread_set_num_threads", NULL, NULL},
                       {"oneDNN", "libdnnl.so.2", "omp_set_num_threads", NULL, NULL}};
enum { N_PEERS = 3, OURS = N_PEERS, PEAK, N_IMPLEMENTATIONS };

static void *symbol(void *library, const char *name) { return library ? dlsym(library, name) : NULL; }

static void open_peers(int n_threads) {
  for (int k = 0; k < N_PEERS; k++) {
    void *library = dlopen(peers[k].library, RTLD_NOW | RTLD_LOCAL);
    void *cblas = symbol(library, "cblas_sgemm"), *dnnl = symbol(library, "dnnl_sgemm");
    void *set = symbol(library, peers[k].set_threads);
    memcpy(&peers[k].cblas, &cblas, sizeof cblas);
    memcpy(&peers[k].dnnl, &dnnl, sizeof dnnl);
    void (*set_threads)(int64_t) = NULL;
    memcpy(&set_threads, &set, sizeof set);
    if (set_threads) set_threads(n_threads);
  }
}

static bool is_installed(const peer *other) { return other->cblas || other->dnnl; }

static void run_peer(const peer *other, const problem *p) {
  enum { ROW_MAJOR = 101, AS_STORED = 111, TRANSPOSED = 112 };
  const shape *s = p->shape;
  bool at = a_transposed(s), bt = b_transposed(s);
  int64_t lda = at ? s->m : s->k, ldb = bt ? s->k : s->n;
  for (int64_t z = 0; z < s->batches; z++) {
    const float *a = p->a + z * s->m * s->k, *b = p->b + z * s->k * s->n;
    float *c = p->c + z * s->m * s->n;
    if (other->dnnl)
      other->dnnl(at ? 'T' : 'N', bt ? 'T' : 'N', s->m, s->n, s->k, 1.0f, a, lda, b, ldb, 0.0f, c, s->n);
    else
      other->cblas(ROW_MAJOR, at ? TRANSPOSED : AS_STORED, bt ? TRANSPOSED : AS_STORED, (int)s->m, (int)s->n, (int)s->k,
                   1.0f, a, (int)lda, b, (int)ldb, 0.0f, c, (int)s->n);
  }
}

/* ---- the peak ------------------------------------------------------------------------ */

typedef struct peak_job {
  double flops;
} peak_job;

static void run_peak_part(void *context, int64_t begin, int64_t end, int thread) {
  double flops = fma_flops(50000);
  if (thread == 0) ((peak_job *)context)->flops = flops * 1.0;
  (void)begin, (void)end;
}

/* ---- measuring ------------------------------------------------------------------------- */

/* GFLOP/s of one burst of some BURST_FLOPS; 0: not installed. */
static double burst(int implementation, const problem *p) {
  const shape *s = p->shape;
  double flops = 2.0 * (double)s->batches * (double)s->m * (double)s->n * (double)s->k;
  if (implementation == PEAK) {
    peak_job job = {0};
    double start = now_ns();
    sx_pool_run(p->pool, p->n_threads, 1, run_peak_part, &job);
    return job.flops * p->n_threads / (now_ns() - start);
  }
  if (implementation < N_PEERS && !is_installed(&peers[implementation])) return 0.0;
  int64_t repeats = (int64_t)(BURST_FLOPS / flops) + 1;
  double start = now_ns();
  for (int64_t k = 0; k < repeats; k++) {
    if (implementation < N_PEERS)
      run_peer(&peers[implementation], p);
    else
      run_ours(p);
  }
  return flops * (double)repeats / (now_ns() - start);
}

static void rest(void) {
  struct timespec t = {0, 2000000};
  nanosleep(&t, NULL);
}

static void measure(const problem *p, int rounds) {
  static double samples[N_IMPLEMENTATIONS][MOST_ROUNDS];
  for (int k = 0; k < N_IMPLEMENTATIONS; k++) burst(k, p);
  for (int round = 0; round < rounds; round++)
    for (int k = 0; k < N_IMPLEMENTATIONS; k++) {
      int turn = (k + round) % N_IMPLEMENTATIONS;
      samples[turn][round] = burst(turn, p);
      rest();
    }
  double median[N_IMPLEMENTATIONS], best[N_IMPLEMENTATIONS];
  for (int k = 0; k < N_IMPLEMENTATIONS; k++) {
    qsort(samples[k], (size_t)rounds, sizeof **samples, ascending);
    median[k] = samples[k][rounds / 2];
    best[k] = samples[k][rounds - 1];
  }
  double other_median = 0.0, other_best = 0.0;
  printf("%-16s %3lld %5lld %5lld %5lld  %6.1f [%5.1f]", p->shape->name, (long long)p->shape->batches,
         (long long)p->shape->m, (long long)p->shape->n, (long long)p->shape->k, median[OURS], best[OURS]);
  for (int k = 0; k < N_PEERS; k++) {
    printf("  %6.1f [%5.1f]", median[k], best[k]);
    if (median[k] > other_median) other_median = median[k];
    if (best[k] > other_best) other_best = best[k];
  }
  printf("  %6.1f  %5.2f", best[PEAK], best[PEAK] > 0 ? best[OURS] / best[PEAK] : 0.0);
  if (other_best > 0) printf("  %5.2f [%4.2f]", median[OURS] / other_median, best[OURS] / other_best);
  printf("\n");
  fflush(stdout);
}

static float *new_matrix(int64_t n, uint64_t seed) {
  float *matrix = NULL;
  if (posix_memalign((void **)&matrix, 64, (size_t)n * 4)) abort();
  for (int64_t k = 0; k < n; k++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    matrix[k] = (float)(int32_t)(seed >> 40) * 0x1p-23f - 1.0f;
  }
  return matrix;
}

int main(int argc, char **argv) {
  sx_simd simd = level(argc, argv);
  int n_threads = option("--threads", 1, argc, argv), rounds = option("--rounds", 25, argc, argv);
  if (rounds < 1 || rounds > MOST_ROUNDS || n_threads < 1) {
    fprintf(stderr, "bench_gemm: --rounds is 1 to %d, --threads at least 1\n", MOST_ROUNDS);
    return 2;
  }
  if (n_threads == 1) the_clock = CLOCK_THREAD_CPUTIME_ID; /* leaves out the time that other programs take */
  open_peers(n_threads);
  sx_pool *pool = sx_pool_new(n_threads);
  printf("GFLOP/s, median [best] of %d bursts; %s, %d thread(s)\n", rounds, sx_simd_name(simd), n_threads);
  printf("%-16s %3s %5s %5s %5s  %14s  %14s  %14s  %14s  %6s  %5s  %12s\n", "shape", "", "m", "n", "k", "ours",
         peers[0].name, peers[1].name, peers[2].name, "peak", "/peak", "/best peer");
  for (int k = 0; k < N_SHAPES; k++) {
    const shape *s = &shapes[k];
    if (!selected(s->name, argc, argv)) continue;
    problem p = {.shape = s, .pool = pool, .n_threads = n_threads, .simd = simd};
    p.a = new_matrix(s->batches * s->m * s->k, 1);
    p.b = new_matrix(s->batches * s->k * s->n, 2);
    p.c = new_matrix(s->batches * s->m * s->n, 3);
    int64_t dims[3] = {s->batches, s->m, s->n};
    sx_node node = {.op = SX_OP_EINSUM, .rank = 3, .dims = dims};
    sx_graph graph = {.nodes = {.items = &node, .n = 1}};
    int64_t bytes = sx_kernel_scratch(sx_kernels(simd), &graph, 0, n_threads);
    if (posix_memalign(&p.scratch, 64, (size_t)bytes)) abort();
    measure(&p, rounds);
    free(p.a);
    free(p.b);
    free(p.c);
    free(p.scratch);
  }
  sx_pool_free(pool);
  return 0;
}
