/* The device's own kernels of products and convolutions have the CPU's bits: random labels, sizes, strides and values,
 * each with one of the tiles, in parts or not, compiled by NVRTC and executed from its PTX. A kernel reads what its
 * operands' strides reach and nothing else. */
#define _DEFAULT_SOURCE
#include <sys/mman.h>

#include "../../libsexp/cpu/operand.h"
#include "../../libsexp/cuda/emit.h"
#include "../../libsexp/cuda/kernel_product.h"
#include "../common/cmocka_all.h"
#include "../common/kernel_case.h"
#include "../cudasim/ptx_case.h"

enum { UNIT = 24, WORK_MOST = 150000 };

typedef struct one {
  kernel_case c;
  sx_contract contract;
  sx_contract_kernel kernel;
  char name[32], sum[32];
} one;

typedef struct unit {
  sx_memory memory;
  sx_arena arena;
  sx_text text;
  one cases[UNIT];
  size_t n;
  bool is_hopper;
} unit;

static bool quick(void) { return getenv("QUICK") && *getenv("QUICK"); }

/* ---- making kernels ------------------------------------------------------------------------------ */

static void unit_begin(unit *u) {
  *u = (unit){.memory = sx_memory_default()};
  sx_arena_init(&u->arena, &u->memory);
  sx_text_init(&u->text, &u->arena);
  sx_text_add(&u->text, sx_emit_prelude);
}

/* The text under a name of its own. */
static void add_kernel(unit *u, const char *text, const char *name) {
  for (const char *at; (at = strstr(text, "KERNEL")); text = at + strlen("KERNEL")) {
    sx_text_add_bytes(&u->text, text, (size_t)(at - text));
    sx_text_add(&u->text, name);
  }
  sx_text_add(&u->text, text);
}

static double work_of(const sx_contract *c) {
  return (double)c->batch.count * (double)c->rows.count * (double)c->columns.count * (double)c->depth.count;
}

static uint64_t next(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

/* An einsum whose contracted index has several blocks. */
static void make_deep(kernel_case *c, uint64_t seed) {
  static const char *const labels[] = {"mk,kn->mn",   "km,nk->nm",     "bmk,bkn->bmn", "kmb,nbk->nbm",
                                       "jmk,knj->mn", "k,kn->n",       "mk,k->m",      "bk,bk->b",
                                       "k,k->",       "akm,bkn->manb", "mkx,nk->mn",   "bkm,bk->mb"};
  static const sx_dtype dtypes[] = {SX_F32, SX_F32, SX_BF16, SX_F16};
  *c = (kernel_case){.n_inputs = 2};
  uint64_t state = seed + 1;
  int64_t dims[128];
  for (int label = 'a'; label <= 'z'; label++) dims[label] = 1 + (int64_t)(next(&state) % (label == 'm' ? 70 : 9));
  dims['k'] = 257 + (int64_t)(next(&state) % 500);
  snprintf(c->labels, sizeof c->labels, "%s", labels[seed % (sizeof labels / sizeof *labels)]);
  snprintf(c->text, sizeof c->text, "deep %s, seed %llu", c->labels, (unsigned long long)seed);
  sx_dtype dtype = dtypes[next(&state) % 4];
  const char *text = c->labels;
  for (int i = 0; i < 3; i++) {
    int slot = i < 2 ? i : CASE_INPUTS, rank = (int)strcspn(text, ",-");
    int64_t step = 1;
    for (int axis = rank - 1; axis >= 0; axis--) {
      c->dims[slot][axis] = dims[(unsigned char)text[axis]];
      c->strides[slot][axis] = step;
      step *= c->dims[slot][axis];
    }
    sx_operand operand = {NULL, i == 2 && next(&state) % 2 ? SX_F32 : dtype, rank, c->dims[slot], c->strides[slot]};
    text += rank + (i == 0 ? 1 : 2);
    if (i == 2) {
      c->out = operand;
      break;
    }
    operand.data = c->blocks[c->n_blocks++] = malloc((size_t)step * 4);
    assert_non_null(operand.data);
    for (int64_t at = 0; at < step; at++)
      sx_store(operand.data, dtype, at, (sx_value){.f = (float)(int32_t)(next(&state) % 65536 - 32768) * 0x1p-13f});
    c->inputs[i] = operand;
  }
  c->node.text = c->labels;
}

/* The case at the unit's end, made. False: nothing to compute, or too much. */
static bool add_made(unit *u, sx_op op, uint64_t seed) {
  one *o = &u->cases[u->n];
  kernel_case *c = &o->c;
  c->node.op = op;
  c->node.dtype = c->out.dtype;
  c->node.rank = c->out.rank;
  c->node.dims = c->dims[CASE_INPUTS];
  c->node.ints = c->ints;
  sx_strided inputs[2];
  for (int i = 0; i < 2; i++)
    inputs[i] = (sx_strided){c->inputs[i].dtype, c->inputs[i].rank, c->inputs[i].dims, c->inputs[i].strides};
  o->contract = sx_contract_of(&c->node, inputs);
  double work = work_of(&o->contract);
  if (work == 0 || work > WORK_MOST) {
    kernel_case_free(c);
    return false;
  }
  size_t n_tiles = 0;
  while (sx_contract_tile(n_tiles)) n_tiles++;
  o->kernel = seed % 3 ? sx_contract_kernel_with(&o->contract, sx_contract_tile(seed / 3 % n_tiles), seed % 2)
                       : sx_contract_kernel_of(&o->contract);
  snprintf(o->name, sizeof o->name, "product_%zu", u->n);
  snprintf(o->sum, sizeof o->sum, "sum_%zu", u->n);
  add_kernel(u, sx_contract_kernel_text(&o->kernel, &u->arena), o->name);
  if (o->kernel.parts > 1) add_kernel(u, sx_contract_sum_text(&o->kernel.contract, o->kernel.parts, &u->arena), o->sum);
  u->n++;
  return true;
}

static void add_case(unit *u, sx_op op, uint64_t seed, int64_t largest) {
  if (largest)
    kernel_case_make(&u->cases[u->n].c, op, seed, largest);
  else
    make_deep(&u->cases[u->n].c, seed);
  add_made(u, op, seed);
}

/* ---- executing ----------------------------------------------------------------------------------- */

enum { MOST_SPANS = 4 };
typedef struct allowed {
  sim_span spans[MOST_SPANS];
  bool written[MOST_SPANS];
  int n;
} allowed;

static bool check(void *context, sim_span *range, uint64_t address, size_t n_bytes, bool writes) {
  const allowed *a = context;
  for (int i = 0; i < a->n; i++) {
    if (address < a->spans[i].begin || address + n_bytes > a->spans[i].end || (writes && !a->written[i])) continue;
    *range = a->spans[i];
    return true;
  }
  return false;
}

static void allow(allowed *a, const void *begin, int64_t n_bytes, bool written) {
  uint64_t at = (uint64_t)(uintptr_t)begin;
  a->spans[a->n] = (sim_span){at, at + (uint64_t)n_bytes};
  a->written[a->n++] = written;
}

/* From the first element in memory that the strides reach to the last. */
static void allow_operand(allowed *a, const sx_operand *operand) {
  int64_t least = 0, most = 0, n_element = sx_element_bytes(operand->dtype);
  for (int axis = 0; axis < operand->rank; axis++) {
    int64_t reach = (operand->dims[axis] - 1) * operand->strides[axis];
    if (reach < 0) least += reach;
    if (reach > 0) most += reach;
  }
  allow(a, (const char *)operand->data + least * n_element, (most - least + 1) * n_element, false);
}

static void launch(const sim_module *module, const char *name, int64_t n_groups, allowed *a, const void *const *at,
                   size_t n) {
  const sim_kernel *kernel = sim_module_kernel(module, name);
  assert_non_null(kernel);
  uint64_t params[4];
  for (size_t i = 0; i < n; i++) params[i] = (uint64_t)(uintptr_t)at[i];
  sim_launch how = {.grid = {(uint32_t)n_groups, 1, 1},
                    .block = {SX_CONTRACT_THREADS, 1, 1},
                    .params = params,
                    .n_params = 8 * n,
                    .check = check,
                    .context = a,
                    .checks_uninitialized = true,
                    .checks_races = true,
                    .n_instructions = &ptx_n_instructions};
  char problem[512] = "";
  if (!sim_kernel_run(kernel, &how, problem, sizeof problem)) fail_msg("%s: %s", name, problem);
}

static void *take(int64_t n_bytes) {
  void *memory = aligned_alloc(64, ((size_t)n_bytes + 127) / 64 * 64);
  assert_non_null(memory);
  return memset(memory, 0xa5, ((size_t)n_bytes + 127) / 64 * 64);
}

static void run_case(const one *o, const sim_module *module, void *out) {
  const kernel_case *c = &o->c;
  const sx_contract_kernel *kernel = &o->kernel;
  int64_t n = kernel_case_elements(c), n_bytes = kernel_case_bytes(c);
  void *parts = kernel->parts > 1 ? take(kernel->scratch_bytes) : NULL;
  const void *at[] = {c->inputs[kernel->exchanged].data, c->inputs[!kernel->exchanged].data, parts ? parts : out};
  allowed a = {.n = 0};
  for (int i = 0; i < 2; i++) allow_operand(&a, &c->inputs[i]);
  allow(&a, at[2], parts ? kernel->scratch_bytes : n_bytes, true);
  launch(module, o->name, kernel->n_groups, &a, at, 3);
  if (!parts) return;
  allowed sums = {.n = 0};
  allow(&sums, parts, kernel->scratch_bytes, false);
  allow(&sums, out, n_bytes, true);
  launch(module, o->sum, (n + SX_CONTRACT_THREADS - 1) / SX_CONTRACT_THREADS, &sums, (const void *[]){parts, out}, 2);
  free(parts);
}

/* Nothing in it depends on an order of threads or rounds otherwise than the text says. */
static void check_ptx(const char *ptx) {
  static const char *const refused[] = {"\tatom.", "\tred.",     ".approx",  ".ftz",
                                        ".rz.f32", "fma.rn.f64", "ld.local", "st.local"};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    if (strstr(ptx, refused[i])) fail_msg("there is %s in the PTX", refused[i]);
}

static void check_unit(unit *u) {
  char *ptx = ptx_compile(sx_text_get(&u->text), u->is_hopper ? 90 : 80), problem[512] = "";
  check_ptx(ptx);
  sim_module *module = sim_module_parse(ptx, problem, sizeof problem);
  if (!module) fail_msg("%s", problem);
  free(ptx);
  for (size_t i = 0; i < u->n; i++) {
    one *o = &u->cases[i];
    int64_t n = kernel_case_elements(&o->c), n_bytes = kernel_case_bytes(&o->c);
    void *expected = take(n_bytes), *out = take(n_bytes);
    sx_fault fault;
    sx_call call = kernel_case_call(&o->c, expected, NULL, &fault, NULL);
    sx_reference[o->c.node.op](&call);
    run_case(o, module, out);
    canonicalize(expected, o->c.out.dtype, n);
    canonicalize(out, o->c.out.dtype, n);
    if (memcmp(out, expected, (size_t)n_bytes))
      fail_msg("%s: tile %d x %d, %lld parts", o->c.text, o->kernel.tile.rows, o->kernel.tile.columns,
               (long long)o->kernel.parts);
    free(out);
    free(expected);
    kernel_case_free(&o->c);
  }
  sim_module_free(module);
  sx_arena_free(&u->arena);
}

static void check_operation(sx_op op, int64_t largest, int n) {
  uint64_t seed = 0;
  int n_done = 0, n_parts = 0, n_tiled = 0, n_blocks = 0;
  while (n_done < n) {
    static unit u;
    unit_begin(&u);
    u.is_hopper = n_done / UNIT % 2;
    while (u.n < UNIT) add_case(&u, op, seed++, largest);
    for (size_t i = 0; i < u.n; i++) {
      const sx_contract_kernel *kernel = &u.cases[i].kernel;
      n_tiled += kernel->tile.rows > 1;
      n_parts += kernel->parts > 1;
      n_blocks += kernel->parts == 1 && kernel->contract.depth.count > SX_CONTRACT_BLOCK;
    }
    n_done += (int)u.n;
    check_unit(&u);
  }
  printf("%s: %d cases, %d of tiles; of several blocks %d in parts, %d not\n", sx_op_describe(op)->name, n_done,
         n_tiled, n_parts, n_blocks);
}

static void test_einsum(void **state) {
  (void)state;
  check_operation(SX_OP_EINSUM, 40, quick() ? UNIT : 3 * UNIT);
}

static void test_deep(void **state) {
  (void)state;
  check_operation(SX_OP_EINSUM, 0, quick() ? UNIT : 3 * UNIT);
}

static void test_convolutions(void **state) {
  (void)state;
  for (sx_op op = SX_OP_CONV; op <= SX_OP_CONVWEIGHT; op++) check_operation(op, 90, quick() ? UNIT : 2 * UNIT);
}

/* Rows so far apart that indices are of 64 bits, with every tile; of 24 GiB only the pages that are read exist. */
static void test_far(void **state) {
  (void)state;
  const int64_t apart = INT64_C(1) << 31, dims[2][2] = {{4, 300}, {300, 5}}, strides[2][2] = {{apart, 1}, {5, 1}};
  size_t n_bytes = (size_t)(3 * apart + 300) * 4;
  float *far = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (far == MAP_FAILED) skip();
  for (int64_t i = 0; i < 4 * 300; i++) far[i / 300 * apart + i % 300] = (float)(i * 37 % 101) * 0.37f - 17.0f;
  static unit u;
  unit_begin(&u);
  for (uint64_t seed = 1; sx_contract_tile(seed / 3); seed += seed % 3) {
    kernel_case *c = &u.cases[u.n].c;
    *c = (kernel_case){.n_inputs = 2, .labels = "mk,kn->mn", .text = "far rows"};
    for (int i = 0; i < 2; i++) {
      memcpy(c->dims[i], dims[i], sizeof dims[i]);
      memcpy(c->strides[i], strides[i], sizeof strides[i]);
      c->inputs[i] = (sx_operand){far, SX_F32, 2, c->dims[i], c->strides[i]};
    }
    memcpy(c->dims[CASE_INPUTS], (int64_t[]){4, 5}, 2 * sizeof(int64_t));
    memcpy(c->strides[CASE_INPUTS], (int64_t[]){5, 1}, 2 * sizeof(int64_t));
    c->inputs[1].data = c->blocks[c->n_blocks++] = malloc(300 * 5 * 4);
    memcpy(c->inputs[1].data, far, 300 * 4);
    for (int64_t i = 300; i < 1500; i++) ((float *)c->inputs[1].data)[i] = (float)i * -0.013f;
    c->out = (sx_operand){NULL, SX_F32, 2, c->dims[CASE_INPUTS], c->strides[CASE_INPUTS]};
    c->node.text = c->labels;
    assert_true(add_made(&u, SX_OP_EINSUM, seed));
  }
  assert_non_null(strstr(sx_text_get(&u.text), "typedef long long index;"));
  assert_null(strstr(sx_text_get(&u.text), "typedef int index;"));
  check_unit(&u);
  munmap(far, n_bytes);
}

int main(void) {
  if (!ptx_ready()) return 0;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_einsum), cmocka_unit_test(test_deep),
                                     cmocka_unit_test(test_far), cmocka_unit_test(test_convolutions)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
