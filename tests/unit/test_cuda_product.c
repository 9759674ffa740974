/* Lowering of products: what is long and what implements it, keys, the works of each implementation, texts, refusals.
 */
#include <stdio.h>
#include <string.h>

#include "../../libsexp/cuda/convolve.h"
#include "../../libsexp/cuda/product.h"
#include "../common/cmocka_all.h"
#include "../common/planned.h"

typedef struct lowered {
  planned *graph;
  sx_plan *plan;
  sx_lowering lowering;
  sx_diags diags;
} lowered;

static const char *decided_value;
static char asked[256];
static const char *decide(void *options, const char *kind, const char *key) {
  (void)options;
  snprintf(asked, sizeof asked, "%s: %s", kind, key);
  return decided_value;
}

/* The last node of a graph, lowered; `good`: what is expected. */
static void lower(lowered *l, const char *text, const char *value, bool portable, bool good) {
  l->graph = planned_text(text);
  l->plan = planned_plan(l->graph, false, false);
  sx_diags_init(&l->diags, &l->graph->arena);
  l->lowering = (sx_lowering){
      .plan = l->plan, .portable = portable, .arena = &l->graph->arena, .diags = &l->diags, .decided = decide};
  decided_value = value;
  asked[0] = 0;
  uint32_t task = (uint32_t)l->plan->tasks.n - 1;
  sx_op op = sx_node_at(l->plan->graph, l->plan->tasks.items[task].nodes[0])->op;
  bool done = op == SX_OP_EINSUM ? sx_lower_product(&l->lowering, task) : sx_lower_convolution(&l->lowering, task);
  assert_int_equal(done, good);
}

static const char *kinds(lowered *l) {
  sx_text text;
  sx_text_init(&text, &l->graph->arena);
  for (size_t i = 0; i < l->lowering.works.n; i++) {
    const sx_work *work = &l->lowering.works.items[i];
    if (i) sx_text_add(&text, " ");
    if (work->kind == SX_WORK_ZERO) sx_text_addf(&text, "zero %lld", (long long)work->zero_bytes);
    if (work->kind == SX_WORK_PRODUCT) sx_text_addf(&text, "(%s)", work->product->text);
    if (work->kind == SX_WORK_CONVOLVE) sx_text_addf(&text, "(%s)", work->convolve->text);
    if (work->kind == SX_WORK_LAUNCH) sx_text_add_bytes(&text, work->launch.kernel, strlen(work->launch.kernel) - 17);
  }
  return sx_text_get(&text);
}

#define EINSUM(A, B, LABELS, OUT)                                                          \
  "graph \"g\"\n%0 = input {name \"field/a\"} : " A "\n%1 = input {name \"field/b\"} : " B \
  "\n%2 = einsum %0 %1 {labels \"" LABELS "\"} : " OUT "\noutput \"y\" %2\n"

static void expect(const char *text, const char *value, const char *wanted) {
  lowered l;
  lower(&l, text, value, false, true);
  assert_string_equal(kinds(&l), wanted);
  planned_free(l.graph);
}

static void test_works(void **state) {
  (void)state;
  /* Few multiplications, dot products side by side, what cuBLAS does not round: a kernel. */
  expect(EINSUM("f32 [3 4]", "f32 [4 5]", "ab,bc->ac", "f32 [3 5]"), NULL, "product");
  expect(EINSUM("f32 [300 400]", "f32 [300 400]", "ab,ab->a", "f32 [300]"), NULL, "product");
  expect(EINSUM("f32 [64 40]", "f32 [40 50]", "ab,bc->ac", "bf16 [64 50]"), NULL, "product");
  /* Nothing contracted, nothing at all. */
  expect(EINSUM("f32 [64 0]", "f32 [0 50]", "ab,bc->ac", "f32 [64 50]"), NULL, "zero 12800");
  expect(EINSUM("f32 [0 40]", "f32 [40 50]", "ab,bc->ac", "f32 [0 50]"), NULL, "");
  expect(EINSUM("f32 [640]", "f32 [500]", "a,b->ab", "f32 [640 500]"), NULL, "(640 x 500 x 1 n n f32, cuBLAS)");
  expect(EINSUM("f32 [64 40]", "f32 [40 50]", "ab,bc->ac", "f32 [64 50]"), NULL, "(64 x 50 x 40 n n f32, cuBLAS)");
  expect(EINSUM("bf16 [40 64]", "bf16 [50 40]", "ba,cb->ac", "f32 [64 50]"), NULL,
         "(64 x 50 x 40 t t bf16 to f32, cuBLAS)");
  expect(EINSUM("f32 [8 64 40]", "f32 [8 40 50]", "xab,xbc->xac", "f32 [8 64 50]"), NULL,
         "(8 of 64 x 50 x 40 n n f32, cuBLAS)");
  expect(EINSUM("f32 [2 260 3 64]", "f32 [2 260 3 64]", "bthd,bshd->bhts", "f32 [2 3 260 260]"), NULL,
         "(3 of 260 x 260 x 64 n t f32, cuBLAS, 2 calls)");
  /* Laid out anew where it is large enough. */
  expect(EINSUM("f32 [40 64]", "f32 [50]", "ab,c->ac", "f32 [40 50]"), NULL, "product");
  expect(EINSUM("f32 [400 64]", "f32 [50]", "ab,c->ac", "f32 [400 50]"), NULL,
         "lay_out (400 x 50 x 64 n t f32, cuBLAS)");
}

static void test_portable(void **state) {
  (void)state;
  static const char *const texts[] = {EINSUM("f32 [64 40]", "f32 [40 50]", "ab,bc->ac", "f32 [64 50]"),
                                      EINSUM("f32 [64 4096]", "f32 [4096 50]", "ab,bc->ac", "f32 [64 50]")};
  for (size_t i = 0; i < 2; i++) {
    lowered l;
    lower(&l, texts[i], "split 2", true, true);
    assert_string_equal(kinds(&l), i ? "product sum_parts" : "product");
    assert_string_equal(asked, "");
    planned_free(l.graph);
  }
}

/* ---- long products ------------------------------------------------------------------------------- */

#define LONG EINSUM("f32 [65536 768]", "f32 [65536 3072]", "ka,kb->ab", "f32 [768 3072]")

static void test_long(void **state) {
  (void)state;
  expect(LONG, NULL, "(768 x 3072 x 65536 t n f32, cuBLAS, ordinary)");
  assert_string_equal(asked, "product: Product { batch: 1, m: 768, n: 3072, k: 65536, a: t, b: n } f32");
  expect(LONG, "ordinary", "(768 x 3072 x 65536 t n f32, cuBLAS, ordinary)");
  expect(LONG, "transposed", "(768 x 3072 x 65536 t n f32, cuBLAS, transposed) lay_out");
  expect(LONG, "split 8", "(768 x 3072 x 65536 t n f32, cuBLAS, split 8) sum_parts");
  lowered l;
  lower(&l, LONG, "split 8", false, true);
  assert_int_equal(l.lowering.scratch_bytes, INT64_C(8) * 768 * 3072 * 4);
  planned_free(l.graph);
  /* Stored transposed, it is the product of the exchanged operands. */
  expect(EINSUM("f32 [65536 768]", "f32 [65536 3072]", "ka,kb->ba", "f32 [3072 768]"), NULL,
         "(3072 x 768 x 65536 t n f32, cuBLAS, ordinary)");
  /* Neither of bf16, nor batched, nor short, nor with gaps. */
  asked[0] = 0;
  expect(EINSUM("bf16 [65536 768]", "bf16 [65536 3072]", "ka,kb->ab", "f32 [768 3072]"), "split 8",
         "(768 x 3072 x 65536 t n bf16 to f32, cuBLAS)");
  expect(EINSUM("f32 [4095 64]", "f32 [4095 64]", "ka,kb->ab", "f32 [64 64]"), "split 8",
         "(64 x 64 x 4095 t n f32, cuBLAS)");
  expect(EINSUM("f32 [8192 2049]", "f32 [8192 64]", "ka,kb->ab", "f32 [2049 64]"), "split 8",
         "(2049 x 64 x 8192 t n f32, cuBLAS)");
  expect(EINSUM("f32 [2 8192 64]", "f32 [2 8192 64]", "xka,xkb->xab", "f32 [2 64 64]"), "split 8",
         "(2 of 64 x 64 x 8192 t n f32, cuBLAS)");
  assert_string_equal(asked, "");
  expect(
      "graph \"g\"\n%0 = input {name \"field/a\"} : f32 [8192 65]\n%1 = input {name \"field/b\"} : f32 [8192 64]\n"
      "%2 = slice %0 {start [0 0],end [8192 64],step [1 1]} : f32 [8192 64]\n"
      "%3 = einsum %2 %1 {labels \"ka,kb->ab\"} : f32 [64 64]\noutput \"y\" %3\n",
      "split 8", "(64 x 64 x 8192 t n f32, cuBLAS)");
  assert_string_equal(asked, "");
}

static void expect_implementations(const sx_product_key *key, const char *wanted) {
  sx_memory memory = sx_memory_default();
  sx_arena arena;
  sx_arena_init(&arena, &memory);
  size_t n;
  const char *const *values = sx_product_implementations(&n, key, &arena);
  sx_text text;
  sx_text_init(&text, &arena);
  for (size_t i = 0; i < n; i++) sx_text_addf(&text, "%s%s", i ? ", " : "", values[i]);
  assert_string_equal(sx_text_get(&text), wanted);
  sx_arena_free(&arena);
}

static void test_implementations(void **state) {
  (void)state;
  sx_product_key key = {1, 768, 3072, 65536, false, true, SX_F32};
  expect_implementations(&key, "ordinary, transposed, split 2, split 4, split 8, split 16");
  key.n = 768;
  expect_implementations(&key, "ordinary, transposed, split 2, split 4, split 8, split 16, split 32");
  key.k = 4096;
  expect_implementations(&key, "ordinary, transposed, split 2, split 4, split 8");
  key.k = 4098; /* 2 parts of 2049 */
  expect_implementations(&key, "ordinary, transposed, split 2");
  key.k = 4099;
  expect_implementations(&key, "ordinary, transposed");
}

/* What a plan is asked for is what its lowering asks for. */
static void test_key(void **state) {
  (void)state;
  lowered l;
  lower(&l, LONG, NULL, false, true);
  sx_product_key key;
  assert_true(sx_product_key_of(&key, l.plan, (uint32_t)l.plan->tasks.n - 1));
  sx_text text;
  sx_text_init(&text, &l.graph->arena);
  sx_text_add(&text, "product: ");
  sx_product_key_print(&text, &key);
  assert_string_equal(sx_text_get(&text), asked);
  planned_free(l.graph);
  lower(&l, EINSUM("f32 [64 40]", "f32 [40 50]", "ab,bc->ac", "f32 [64 50]"), NULL, false, true);
  assert_false(sx_product_key_of(&key, l.plan, (uint32_t)l.plan->tasks.n - 1));
  planned_free(l.graph);
}

/* What is printed is read, and nothing else. */
static void test_calls(void **state) {
  (void)state;
  static const char *const good[] = {"Product { batch: 12, m: 64, n: 65, k: 66, a: t, b: n } f32",
                                     "Product { batch: 1, m: 1, n: 2, k: 3, a: n, b: t } bf16",
                                     "Product { batch: 1, m: 1, n: 2, k: 3, a: n, b: t } f16 to f32"};
  static const char *const bad[] = {"Product { batch: 0, m: 64, n: 65, k: 66, a: t, b: n } f32",
                                    "Product { batch: 1, m: 64, n: 65, k: 4294967296, a: t, b: n } f32",
                                    "Product { batch: 2147483647, m: 64, n: 65, k: 66, a: t, b: n } f32",
                                    "Product { batch: 1, m: 064, n: 65, k: 66, a: t, b: n } f32",
                                    "Product { batch: 1, m: 64, n: 65, k: 66, a: x, b: n } f32",
                                    "Product { batch: 1, m: 64, n: 65, k: 66, a: t, b: n } i32",
                                    "Product { batch: 1, m: 64, n: 65, k: 66, a: t, b: n } f32 ",
                                    "Product { batch: 1, m: 64, n: 65, k: 66, a: t, b: n } f32 to f32",
                                    "Product { batch: 1, m: 64, n: 65, k: 66, a: t, b: n } f32 to bf16",
                                    "Product { batch: 1, m: 64, n: 65 }",
                                    ""};
  sx_memory memory = sx_memory_default();
  sx_arena arena;
  sx_arena_init(&arena, &memory);
  sx_product_key key;
  sx_dtype to;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    sx_text text;
    sx_text_init(&text, &arena);
    assert_true(sx_product_call_parse(&key, &to, good[i], &arena));
    sx_product_call_print(&text, &key, to);
    assert_string_equal(sx_text_get(&text), good[i]);
  }
  assert_true(to == SX_F32 && key.dtype == SX_F16 && key.b_transposed && !key.a_transposed);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (sx_product_call_parse(&key, &to, bad[i], &arena)) fail_msg("%s was read", bad[i]);
  sx_arena_free(&arena);
}

static void test_refusal(void **state) {
  (void)state;
  lowered l;
  lower(&l, EINSUM("f32 [4194304]", "f32 [4194304]", "a,b->ab", "f32 [4194304 4194304]"), NULL, true, false);
  assert_int_equal(l.diags.list.items[0].code, SX_E_DEVICE_PRODUCT);
  assert_string_equal(l.diags.list.items[0].message,
                      "einsum to [4194304 4194304] has an operand or a result of more than 2^36 elements");
  assert_int_equal(l.lowering.works.n, 0);
  planned_free(l.graph);
}

/* ---- convolutions -------------------------------------------------------------------------------- */

#define CONV(DTYPE, X, W, ATTRIBUTES, Y)                                                                       \
  "graph \"g\"\n%0 = input {name \"field/x\"} : " DTYPE " " X "\n%1 = input {name \"field/w\"} : " DTYPE " " W \
  "\n%2 = conv2d %0 %1 {" ATTRIBUTES "} : " DTYPE " " Y "\noutput \"y\" %2\n"
#define KEY "Forward Spec { batch: 2, height: 8, width: 8, channels: 3, kh: 3, kw: 3, out: 5, stride: 2, padding: 1 } "

static void test_convolutions(void **state) {
  (void)state;
  expect(CONV("f32", "[2 8 8 3]", "[5 3 3 3]", "stride 2,padding 1", "[2 4 4 5]"), "engine 1",
         "(" KEY "f32, cuDNN engine 1)");
  assert_string_equal(asked, "convolution: " KEY "f32");
  expect(CONV("bf16", "[2 8 8 3]", "[5 3 3 3]", "stride 2,padding 1", "[2 4 4 5]"), "engine 1",
         "(" KEY "bf16, cuDNN engine 1)");
  /* No engine, f16, nothing to compute: the project's kernel. */
  expect(CONV("f32", "[2 8 8 3]", "[5 3 3 3]", "stride 2,padding 1", "[2 4 4 5]"), NULL, "product");
  asked[0] = 0;
  expect(CONV("f16", "[2 8 8 3]", "[5 3 3 3]", "stride 2,padding 1", "[2 4 4 5]"), "engine 1", "product");
  expect(CONV("f32", "[0 8 8 3]", "[5 3 3 3]", "stride 2,padding 1", "[0 4 4 5]"), "engine 1", "");
  assert_string_equal(asked, "");
  /* A kernel of one pixel without padding is a product of matrices. */
  expect(CONV("f16", "[8 16 16 64]", "[32 1 1 64]", "stride 1,padding 0", "[8 16 16 32]"), NULL,
         "(2048 x 32 x 64 n t f16, cuBLAS)");
  /* Operands that are no NHWC tensors are laid out first. */
  expect(
      "graph \"g\"\n%0 = input {name \"field/x\"} : f32 [2 3 8 8]\n%1 = input {name \"field/w\"} : f32 [5 3 3 3]\n"
      "%2 = transpose %0 {perm [0 2 3 1]} : f32 [2 8 8 3]\n"
      "%3 = conv2d %2 %1 {stride 2,padding 1} : f32 [2 4 4 5]\noutput \"y\" %3\n",
      "engine 1", "lay_out (" KEY "f32, cuDNN engine 1)");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_works),        cmocka_unit_test(test_portable),
                                     cmocka_unit_test(test_long),         cmocka_unit_test(test_implementations),
                                     cmocka_unit_test(test_key),          cmocka_unit_test(test_refusal),
                                     cmocka_unit_test(test_convolutions), cmocka_unit_test(test_calls)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
