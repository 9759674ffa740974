/* Products and convolutions of random views equal the reference loop bit for bit at every SIMD level and with 1 to
 * 4 threads: axes in any order, padded, reversed, repeated; short floats, sums that underflow, values that are not
 * finite. A view begins where a page without access ends or ends where one begins; what lies between its elements
 * is NaN. Everything follows from the operation and the number of the case; one that fails or crashes is printed. */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../libsexp/cpu/operand.h"
#include "../common/cmocka_all.h"
#include "../common/guarded.h"
#include "../common/kernel_case.h"
#include "../common/operand_values.h"
#include "../common/quick.h"

enum { N_POOLS = 4, GUARD = 64, N_VIEWS = 3, RANK = 4, N_CASES = 210 };
static sx_pool *pools[N_POOLS];

static int start_pools(void **state) {
  (void)state;
  for (int k = 0; k < N_POOLS; k++) pools[k] = sx_pool_new(k + 1);
  return 0;
}

static int stop_pools(void **state) {
  (void)state;
  for (int k = 0; k < N_POOLS; k++) sx_pool_free(pools[k]);
  return 0;
}

static uint64_t scaled(uint64_t n) { return test_is_quick() ? (n + 9) / 10 : n; }

/* ---- random choices ---------------------------------------------------------------------------- */

static uint64_t next(uint64_t *random) {
  uint64_t z = *random += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static int64_t below(uint64_t *random, int64_t n) { return (int64_t)(next(random) % (uint64_t)n); }
static bool one_in(uint64_t *random, int64_t n) { return below(random, n) == 0; }

/* ---- views ------------------------------------------------------------------------------------- */

typedef struct view {
  int64_t dims[RANK], strides[RANK];
  guarded memory;
  sx_operand operand;
} view;

static void free_view(view *x) { guarded_free(&x->memory); }

static void swap(int *a, int *b) {
  int old = *a;
  *a = *b;
  *b = old;
}

/* The axes from the innermost out: of a few views in any order. */
static void order_axes(int order[RANK], int rank, uint64_t *random) {
  for (int k = 0; k < rank; k++) order[k] = rank - 1 - k;
  if (!one_in(random, 3)) return;
  for (int k = rank - 1; k > 0; k--) swap(&order[k], &order[below(random, k + 1)]);
}

/* One step of an axis: `packed` or somewhat more, either way, or none. */
static int64_t random_stride(int64_t *packed, uint64_t *random) {
  if (one_in(random, 3)) *packed += below(random, 5);
  if (one_in(random, 20) && *packed < 4096) *packed = (*packed + 1023) / 1024 * 1024;
  return one_in(random, 8) ? 0 : one_in(random, 5) ? -*packed : *packed;
}

/* Strides of a random view, whose innermost axis has steps of 1 when `dense`. */
static void set_strides(view *x, int rank, bool dense, uint64_t *random) {
  int order[RANK];
  order_axes(order, rank, random);
  int64_t packed = 1;
  for (int k = 0; k < rank; k++) {
    int axis = order[k];
    x->strides[axis] = k == 0 && dense ? 1 : random_stride(&packed, random);
    packed *= x->dims[axis] ? x->dims[axis] : 1;
  }
}

static void set_contiguous(view *x, int rank) {
  int64_t packed = 1;
  for (int axis = rank - 1; axis >= 0; axis--) {
    x->strides[axis] = packed;
    packed *= x->dims[axis];
  }
}

/* Memory for a view whose dims and strides are set. */
static void allocate_view(view *x, int rank, sx_dtype dtype, uint64_t *random) {
  int64_t lowest = 0, highest = 0, each = sx_element_bytes(dtype);
  bool is_empty = sx_count(x->dims, rank) == 0;
  for (int axis = 0; axis < rank && !is_empty; axis++) {
    int64_t span = x->strides[axis] * (x->dims[axis] - 1);
    *(span < 0 ? &lowest : &highest) += span;
  }
  int64_t n = is_empty ? 0 : highest - lowest + 1;
  x->memory = guarded_new((size_t)(n * each), one_in(random, 2));
  x->operand = (sx_operand){(char *)x->memory.data - lowest * each, dtype, rank, x->dims, x->strides};
}

static void fill_view(view *x, operand_values v, uint64_t *random) {
  int64_t index[RANK] = {0};
  for (int64_t k = sx_operand_count(&x->operand); k > 0; k--) {
    sx_value element = {.f = operand_value(v, next(random))};
    sx_store(x->operand.data, x->operand.dtype, sx_operand_at(&x->operand, index), element);
    sx_index_next(index, x->dims, x->operand.rank);
  }
}

/* ---- one case ---------------------------------------------------------------------------------- */

/* A node of two inputs; the views are its result, contiguous, and the inputs. */
typedef struct trial {
  uint64_t number, random;
  operand_values values;
  sx_node nodes[N_VIEWS];
  view views[N_VIEWS];
  sx_id ids[2];
  int64_t ints[2];
  bool is_running;
} trial;

static trial current; /* outlives a test that fails within it */

static trial *new_trial(sx_op op, uint64_t number) {
  trial *t = &current;
  *t = (trial){.number = number, .random = number * 1000003u + (uint64_t)op, .ids = {1, 2}, .is_running = true};
  t->values = (operand_values)below(&t->random, N_OPERAND_VALUES);
  t->nodes[0].op = op;
  return t;
}

static void set_view(trial *t, int k, int rank, const int64_t *dims, sx_dtype dtype) {
  view *x = &t->views[k];
  memcpy(x->dims, dims, (size_t)rank * sizeof *dims);
  if (k > 0 && !one_in(&t->random, 4))
    set_strides(x, rank, one_in(&t->random, 2), &t->random);
  else
    set_contiguous(x, rank);
  allocate_view(x, rank, dtype, &t->random);
  if (k > 0) fill_view(x, t->values, &t->random);
  t->nodes[k].dtype = dtype;
  t->nodes[k].rank = rank;
}

/* The case that a test was left in. */
static int print_unfinished(void **state) {
  (void)state;
  const trial *t = &current;
  if (!t->is_running) return 0;
  print_error("%s, case %llu, values %d, ints %lld %lld, %s\n", sx_op_describe(t->nodes[0].op)->name,
              (unsigned long long)t->number, (int)t->values, (long long)t->ints[0], (long long)t->ints[1],
              t->nodes[0].text ? t->nodes[0].text : "");
  for (int k = 0; k < N_VIEWS; k++) {
    const sx_operand *x = &t->views[k].operand;
    print_error("  %s %s, dims and strides:", k ? "input" : "result", sx_dtype_name(x->dtype));
    for (int axis = 0; axis < x->rank; axis++)
      print_error("  %lld by %lld", (long long)x->dims[axis], (long long)x->strides[axis]);
    print_error("\n");
  }
  current.is_running = false;
  return 0;
}

static void check_result(const sx_operand *want, const view *got, sx_simd simd, int n_threads) {
  int64_t n = sx_operand_count(want);
  canonicalize(got->operand.data, want->dtype, n);
  if (memcmp(got->operand.data, want->data, (size_t)(n * sx_element_bytes(want->dtype))))
    fail_msg("differs from the reference at %s with %d threads", sx_simd_name(simd), n_threads);
}

static void check_guard(const unsigned char *guard, sx_simd simd, int n_threads) {
  for (int k = 0; k < GUARD; k++)
    if (guard[k] != 0xa5) fail_msg("writes behind its scratch at %s with %d threads", sx_simd_name(simd), n_threads);
}

/* Whether the level has a fast kernel for the call. */
static bool check_level(trial *t, sx_call call, sx_simd simd, int n_threads) {
  sx_graph graph = {.nodes = {.items = t->nodes, .n = N_VIEWS}};
  int64_t bytes = sx_kernel_scratch(sx_kernels(simd), &graph, 0, n_threads);
  unsigned char *scratch = NULL;
  if (posix_memalign((void **)&scratch, 64, (size_t)bytes + GUARD)) abort();
  memset(scratch, 0xa5, (size_t)bytes + GUARD);
  view got = t->views[0];
  allocate_view(&got, call.out.rank, call.out.dtype, &t->random);
  call.out.data = got.operand.data;
  call.scratch = scratch;
  call.pool = pools[n_threads - 1];
  bool taken = sx_kernels(simd)->fast[call.node->op](&call);
  if (taken) check_result(&t->views[0].operand, &got, simd, n_threads);
  check_guard(scratch + bytes, simd, n_threads);
  free_view(&got);
  free(scratch);
  return taken;
}

typedef struct tally {
  uint64_t n_calls, n_taken;
} tally;

/* Frees the views. */
static void check(trial *t, tally *calls) {
  for (int k = 0; k < N_VIEWS; k++) t->nodes[k].dims = t->views[k].dims;
  t->nodes[0].inputs = t->ids;
  t->nodes[0].n_inputs = 2;
  sx_operand inputs[2] = {t->views[1].operand, t->views[2].operand};
  sx_call call = {.node = t->nodes, .out = t->views[0].operand, .inputs = inputs, .n_inputs = 2};
  sx_reference[t->nodes[0].op](&call);
  canonicalize(call.out.data, call.out.dtype, sx_operand_count(&call.out));
  for (sx_simd simd = SX_SIMD_SCALAR; simd < SX_N_SIMD; simd++)
    for (int n = 1; n <= N_POOLS && sx_simd_available(simd); n++) {
      calls->n_calls++;
      calls->n_taken += check_level(t, call, simd, n);
    }
  for (int k = 0; k < N_VIEWS; k++) free_view(&t->views[k]);
  t->is_running = false;
}

static void check_taken(tally calls) {
  if (calls.n_taken * 2 < calls.n_calls)
    fail_msg("only %llu of %llu calls taken", (unsigned long long)calls.n_taken, (unsigned long long)calls.n_calls);
}

/* ---- products ---------------------------------------------------------------------------------- */

static int64_t product_size(uint64_t *random) {
  switch (below(random, 6)) {
    case 0:
      return 1 + below(random, 3);
    case 1:
      return 1 + below(random, 20);
    case 2: /* about a block of the contracted index */
      return 250 + below(random, 20);
    case 3:
      return 16 * (1 + below(random, 5));
    case 4:
      return one_in(random, 200) ? 0 : 1 + below(random, 70);
    default:
      return 1 + below(random, 40);
  }
}

typedef struct product {
  const char *labels; /* three axes each, of z m n k */
  int64_t z, m, n, k;
} product;

/* Batches and the contracted index shrink until the loop of the reference is short. */
static product random_product(uint64_t *random) {
  static const char *const labels[] = {"zmk,zkn->zmn", "zmk,znk->zmn", "zkm,zkn->zmn", "zkm,znk->znm",
                                       "zmk,zkn->znm", "mzk,znk->nzm", "zmk,zkn->mzn"};
  enum { N_LABELS = sizeof labels / sizeof *labels, LARGEST = 600000 };
  product p = {.labels = labels[below(random, N_LABELS)]};
  p.m = product_size(random);
  p.n = product_size(random);
  p.k = one_in(random, 5) ? 500 + below(random, 40) : product_size(random);
  p.z = one_in(random, 3) ? 1 + below(random, 5) : 1;
  if (one_in(random, 20)) { /* more columns than a block holds */
    p.n = 500 + below(random, 600);
    p.m = 1 + below(random, 20);
  }
  if (p.m * p.n * p.k * p.z > LARGEST) p.z = 1;
  if (p.m * p.n * p.k > LARGEST) p.k = 1 + below(random, 20);
  return p;
}

static int64_t size_of(const product *p, char label) {
  return label == 'z' ? p->z : label == 'm' ? p->m : label == 'n' ? p->n : p->k;
}

static void set_product_view(trial *t, int k, const product *p, const char *labels, sx_dtype dtype) {
  int64_t dims[3];
  for (int axis = 0; axis < 3; axis++) dims[axis] = size_of(p, labels[axis]);
  set_view(t, k, 3, dims, dtype);
}

static void products(void **state) {
  (void)state;
  tally calls = {0, 0};
  for (uint64_t number = 1; number <= scaled(N_CASES); number++) {
    trial *t = new_trial(SX_OP_EINSUM, number);
    product p = random_product(&t->random);
    sx_dtype dtype = one_in(&t->random, 5) ? SX_BF16 : SX_F32, other = one_in(&t->random, 40) ? SX_F32 : dtype;
    t->nodes[0].text = p.labels;
    set_product_view(t, 0, &p, p.labels + 9, one_in(&t->random, 6) ? dtype : SX_F32);
    set_product_view(t, 1, &p, p.labels, dtype);
    set_product_view(t, 2, &p, p.labels + 4, other);
    check(t, &calls);
  }
  check_taken(calls);
}

/* ---- convolutions ------------------------------------------------------------------------------ */

static int64_t n_channels(uint64_t *random) {
  static const int64_t sizes[] = {1, 3, 4, 8, 12, 15, 16, 17, 20, 24, 31, 32, 33, 48, 64, 80};
  return sizes[below(random, sizeof sizes / sizeof *sizes)];
}

typedef struct geometry {
  int64_t image[RANK], kernel[RANK], pixels[RANK]; /* pixels of the convolution's result */
  int64_t stride, padding;
} geometry;

static geometry random_geometry(uint64_t *random) {
  geometry g = {.stride = 1 + below(random, 4), .padding = below(random, 4)};
  g.image[0] = 1 + below(random, 4);
  g.image[3] = g.kernel[3] = n_channels(random);
  g.kernel[0] = n_channels(random);
  for (int axis = 1; axis <= 2; axis++) {
    int64_t place = 1 + below(random, 4), size = below(random, 9);
    g.kernel[axis] = place;
    g.image[axis] = size + 2 * g.padding < place ? place : size;
    g.pixels[axis] = (g.image[axis] + 2 * g.padding - place) / g.stride + 1;
  }
  g.pixels[0] = g.image[0];
  g.pixels[3] = g.kernel[0];
  return g;
}

static void check_convolutions(sx_op op) {
  tally calls = {0, 0};
  for (uint64_t number = 1; number <= scaled(N_CASES / 3); number++) {
    trial *t = new_trial(op, number);
    geometry g = random_geometry(&t->random);
    sx_dtype dtype = one_in(&t->random, 8) ? SX_BF16 : SX_F32;
    t->ints[0] = g.stride;
    t->ints[1] = g.padding;
    t->nodes[0].ints = t->ints;
    t->nodes[0].n_ints = 2;
    set_view(t, 0, RANK, op == SX_OP_CONV ? g.pixels : op == SX_OP_CONVDATA ? g.image : g.kernel, dtype);
    set_view(t, 1, RANK, op == SX_OP_CONV ? g.image : g.pixels, dtype);
    set_view(t, 2, RANK, op == SX_OP_CONVWEIGHT ? g.image : g.kernel, dtype);
    check(t, &calls);
  }
  check_taken(calls);
}

static void convolutions(void **state) {
  (void)state;
  check_convolutions(SX_OP_CONV);
}

static void data_gradients(void **state) {
  (void)state;
  check_convolutions(SX_OP_CONVDATA);
}

static void weight_gradients(void **state) {
  (void)state;
  check_convolutions(SX_OP_CONVWEIGHT);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(products, print_unfinished),
                                     cmocka_unit_test_teardown(convolutions, print_unfinished),
                                     cmocka_unit_test_teardown(data_gradients, print_unfinished),
                                     cmocka_unit_test_teardown(weight_gradients, print_unfinished)};
  return cmocka_run_group_tests(tests, start_pools, stop_pools);
}
