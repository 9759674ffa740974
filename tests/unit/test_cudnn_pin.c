/* A recorded engine pinned on a card, and what is said where it cannot be. */
#include <stdlib.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/cuda.h"

#ifdef SX_CUDA
static bool is_919(const cuda_case *c) { return c->api.found[SX_LIBRARY_CUDNN].number == 91900; }

static void the_seeds_record_pins(void **state) {
  (void)state;
  static const char *const cards[] = {"a100", "h100", "h200"};
  for (size_t i = 0; i < 3; i++) {
    cuda_case c;
    cuda_begin(&c, cards[i]);
    sx_convolution convolution;
    assert_null(sx_convolution_parse(&convolution, CUDA_SEED_KEY, &c.arena));
    sx_cudnn_plan plan;
    sx_choice_refusal refusal;
    assert_int_equal(sx_cudnn_pin(&plan, &refusal, &c.cudnn, &convolution, CUDA_SEED_ENGINE), SX_PINNED);
    assert_non_null(plan.descriptor);
    assert_string_equal(cuda_engine_text(&c, &plan.engine), CUDA_SEED_ENGINE);
    assert_string_equal(plan.names, "SPLIT_K=3 TILE_SIZE=3 KBLOCK=3 STAGES=2");
    printf("%s: %s, workspace %lld bytes\n", cards[i], plan.names, (long long)plan.workspace_n_bytes);
    cuda_end(&c);
  }
}

/* Two plans of one session live together until it ends. */
static void plans_of_a_session_live_together(void **state) {
  (void)state;
  cuda_case c;
  cuda_begin(&c, "h100");
  sx_convolution convolution = cuda_seed_convolution();
  sx_cudnn_plan first, second;
  sx_choice_refusal refusal;
  assert_int_equal(sx_cudnn_pin(&first, &refusal, &c.cudnn, &convolution, CUDA_SEED_ENGINE), SX_PINNED);
  assert_int_equal(sx_cudnn_pin(&second, &refusal, &c.cudnn, &convolution, "engine 0"), SX_PINNED);
  assert_ptr_not_equal(first.descriptor, second.descriptor);
  assert_string_equal(second.names, "");
  cuda_end(&c);
}

static void expect_refusal(cuda_case *c, const sx_convolution *convolution, const char *recorded, const char *begin,
                           const char *end) {
  sx_cudnn_plan plan;
  sx_choice_refusal refusal;
  size_t n_owned = c->cudnn.owned.n;
  assert_int_equal(sx_cudnn_pin(&plan, &refusal, &c->cudnn, convolution, recorded), SX_PIN_REFUSED);
  assert_int_equal(c->cudnn.owned.n, n_owned);
  assert_null(plan.descriptor);
  assert_int_equal(c->diags.n_errors, 0);
  assert_string_equal(refusal.recorded, recorded);
  sx_convolution named;
  assert_null(sx_convolution_parse(&named, refusal.choice, &c->arena));
  printf("  %s\n    %s\n", recorded, refusal.offered);
  if (strncmp(refusal.offered, begin, strlen(begin)) != 0)
    fail_msg("%s does not begin with %s", refusal.offered, begin);
  const char *at = strstr(refusal.offered, "; ");
  assert_non_null(at);
  if (strncmp(at + 2, end, strlen(end)) != 0) fail_msg("%s does not go on with %s", at + 2, end);
}

static void what_cannot_be_pinned_is_explained(void **state) {
  (void)state;
  static const char *const rows[][2] = {
      {"engine 999", "999 is none of them (3000 CUDNN_STATUS_NOT_SUPPORTED"},
      {"engine 65", "65 is none of them (3007 CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH"}, /* Hopper's */
      {"engine 47 knobs 0=0 2=3 5=3 14=2", "47 takes knob 0 from 1 to 2048"},
      {"engine 47 knobs 0=3 2=3 5=3 14=99", "47 takes knob 14 from 0 to 7"},
      {"engine 47 knobs 0=9999 2=3 5=-3 14=2", "47 takes knob 0 from 1 to 2048, 47 takes knob 5 from 0 to 5"},
      {"engine 47 knobs 0=3 2=3 5=3 13=1", "47 has no knob 13 (it has 0 2 5 14)"},
      {"engine 47 knobs 0=3 2=3 5=3 14=2 999=1", "47 has no knob 999 (it has 0 2 5 14)"},
      {"engine 0 knobs 2=3", "0 has no knob 2 (it has none)"},
      {"engine 47 knobs", "the record names none of them: expected \" \" and a knob at character 16"},
      {"engine 47 knobs 2=3 0=3", "the record names none of them: expected a knob above the one before"},
      {"", "the record names none of them: expected \"engine \" at character 1"},
      {"engine 1000000000000", "1000000000000 is none of them"},
  };
  cuda_case c;
  cuda_begin(&c, "a100");
  if (!is_919(&c)) skip();
  sx_convolution convolution = cuda_seed_convolution();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    expect_refusal(&c, &convolution, rows[i][0], "cuDNN 91900 offers ", rows[i][1]);
  cuda_end(&c);
}

/* The number that a refusal names is that of the engines there are: pinned without a knob, or refused for the knobs. */
static void a_refusal_counts_the_engines_there_are(void **state) {
  (void)state;
  cuda_case c;
  cuda_begin(&c, "h100");
  for (int role = 0; role < SX_N_ROLES; role++) {
    sx_convolution convolution = cuda_seed_convolution();
    convolution.role = (sx_role)role;
    sx_cudnn_plan plan;
    sx_choice_refusal refusal;
    long long offered = -1;
    int n = 0;
    for (int i = 0; i < 200; i++) {
      sx_pin pin = sx_cudnn_pin(&plan, &refusal, &c.cudnn, &convolution, sx_format(&c.arena, "engine %d", i));
      assert_int_not_equal(pin, SX_PIN_FAILED);
      n += pin == SX_PINNED || strstr(refusal.offered, "gives no plan with these knobs");
    }
    assert_int_equal(sx_cudnn_pin(&plan, &refusal, &c.cudnn, &convolution, "engine 999"), SX_PIN_REFUSED);
    assert_int_equal(sscanf(refusal.offered, "cuDNN %*d offers %lld engines", &offered), 1);
    assert_int_equal(offered, n);
    assert_true(n > 1);
  }
  cuda_end(&c);
}

/* A record from elsewhere may name an engine that the rule does not take: it is there, and is refused. */
static void an_engine_against_the_rule_is_refused(void **state) {
  (void)state;
  static const int64_t sizes[] = {32, 28, 28, 1, 3, 3, 16, 1, 1};
  cuda_case c;
  cuda_begin(&c, "a100");
  if (!is_919(&c)) skip();
  sx_convolution convolution = cuda_convolution(SX_ROLE_WEIGHT, sizes, SX_F32);
  expect_refusal(&c, &convolution, "engine 20 knobs 2=6 3=0", "cuDNN 91900", "20 is none of them: nondeterministic");
  expect_refusal(&c, &convolution, "engine 34 knobs 0=21 2=7 5=3 14=2", "cuDNN 91900",
                 "34 is none of them: TF32 on tensor cores");
  cuda_end(&c);
}

static void too_much_workspace_is_refused(void **state) {
  (void)state;
  static const int64_t sizes[] = {4096, 8, 8, 512, 3, 3, 512, 1, 1};
  cuda_case c;
  cuda_begin(&c, "a100");
  if (!is_919(&c)) skip();
  sx_convolution convolution = cuda_convolution(SX_ROLE_FORWARD, sizes, SX_F32);
  sx_offers offers;
  assert_true(sx_cudnn_offers(&offers, &c.cudnn, &convolution));
  bool seen = false;
  for (size_t i = 0; i < offers.n; i++) {
    if (offers.items[i].rejection != SX_REJECTED_WORKSPACE) continue;
    assert_true(offers.items[i].workspace_n_bytes > SX_CUDNN_WORKSPACE_N_BYTES);
    seen = true;
    expect_refusal(&c, &convolution, cuda_engine_text(&c, &offers.items[i].engine), "cuDNN 91900",
                   sx_format(&c.arena, "%d needs %lld bytes of workspace with these knobs, and 268435456 is the cap",
                             (int)offers.items[i].engine.index, (long long)offers.items[i].workspace_n_bytes));
  }
  assert_true(seen);
  cuda_end(&c);
}

static void a_convolution_that_cannot_be_fails(void **state) {
  (void)state;
  cuda_case c;
  cuda_begin(&c, "a100");
  sx_convolution convolution = cuda_seed_convolution();
  convolution.stride = 0;
  sx_cudnn_plan plan;
  sx_choice_refusal refusal;
  assert_int_equal(sx_cudnn_pin(&plan, &refusal, &c.cudnn, &convolution, CUDA_SEED_ENGINE), SX_PIN_FAILED);
  assert_string_equal(sx_diag_code(&c.diags.list.items[0]), "E-DEVICE-016");
  cuda_end(&c);
}

CUDNN_MAIN(cmocka_unit_test(the_seeds_record_pins), cmocka_unit_test(plans_of_a_session_live_together),
           cmocka_unit_test(what_cannot_be_pinned_is_explained),
           cmocka_unit_test(a_refusal_counts_the_engines_there_are),
           cmocka_unit_test(an_engine_against_the_rule_is_refused), cmocka_unit_test(too_much_workspace_is_refused),
           cmocka_unit_test(a_convolution_that_cannot_be_fails))
#else
CUDNN_MAIN()
#endif
