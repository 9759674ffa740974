/* Which engines cuDNN offers for a convolution and which of them the rule takes: the real library, for cards that are
 * not there. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/cuda.h"

#ifdef SX_CUDA
#include "../../libsexp/cuda/cudnn_descriptor.h"

static const char *const CARDS[] = {"a100", "h100", "h200"};
/* batch, height, width, channels, kh, kw, out, stride, padding */
static const int64_t SHAPES[][9] = {
    {512, 8, 8, 256, 3, 3, 512, 1, 1},                                    /* the seeds' */
    {32, 16, 16, 16, 3, 3, 32, 1, 1},  {64, 14, 14, 64, 1, 1, 128, 1, 0}, /* 1 x 1 */
    {32, 28, 28, 32, 3, 3, 64, 2, 1},                                     /* strided */
    {16, 9, 7, 3, 5, 3, 7, 1, 2},                                         /* odd channels and sides */
    {32, 28, 28, 1, 3, 3, 16, 1, 1},
};
enum { N_CARDS = sizeof CARDS / sizeof *CARDS, N_SHAPES = sizeof SHAPES / sizeof *SHAPES };
static const sx_dtype DTYPES[] = {SX_F32, SX_BF16};

/* Calls check for every role, shape and dtype of a card's session. */
static void for_each(const char *card, void (*check)(cuda_case *c, const sx_convolution *convolution)) {
  cuda_case c;
  cuda_begin(&c, card);
  for (size_t shape = 0; shape < N_SHAPES; shape++)
    for (int role = 0; role < SX_N_ROLES; role++)
      for (size_t dtype = 0; dtype < 2; dtype++) {
        sx_convolution convolution = cuda_convolution((sx_role)role, SHAPES[shape], DTYPES[dtype]);
        check(&c, &convolution);
        assert_int_equal(c.cudnn.owned.n, 1); /* the device */
      }
  cuda_end(&c);
}

static size_t n_asked, n_offered, n_taken, n_rejected[SX_N_REJECTIONS], least[2] = {SIZE_MAX, SIZE_MAX}, most[2];

/* What no taken engine may have, by cuDNN's own enumerators. */
static uint32_t forbidden(sx_dtype dtype) {
  uint32_t notes = 1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC | 1u << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS |
                   1u << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION | 1u << CUDNN_NUMERICAL_NOTE_FFT |
                   1u << CUDNN_NUMERICAL_NOTE_WINOGRAD | 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 |
                   1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 | 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13;
  return dtype == SX_F32 ? notes | 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE : notes;
}

static void check_offer(cuda_case *c, const sx_offers *offers, size_t i, sx_dtype dtype) {
  const sx_offer *offer = &offers->items[i];
  bool bad = offer->numerical_notes & forbidden(dtype) || offer->behavior_notes & 1u ||
             offer->workspace_n_bytes > SX_CUDNN_WORKSPACE_N_BYTES;
  for (size_t j = 0; j < i; j++) bad |= sx_engine_equal(&offers->items[j].engine, &offer->engine);
  assert_int_equal(offer->rejection == SX_TAKEN, !bad);
  assert_true(offer->workspace_n_bytes >= 0);
  if (i) assert_true(offers->items[i - 1].fallback <= offer->fallback);
  const char *text = cuda_engine_text(c, &offer->engine);
  sx_engine again;
  assert_null(sx_engine_parse(&again, text, &c->arena));
  assert_true(sx_engine_equal(&again, &offer->engine));
  assert_string_equal(cuda_engine_text(c, &again), text);
}

/* What was enumerated can be pinned from its text, and gives the same plan. */
static void check_pinned(cuda_case *c, const sx_convolution *convolution, const sx_offer *offer) {
  const char *text = cuda_engine_text(c, &offer->engine);
  sx_cudnn_plan plan;
  sx_choice_refusal refusal;
  size_t n_owned = c->cudnn.owned.n;
  sx_pin pin = sx_cudnn_pin(&plan, &refusal, &c->cudnn, convolution, text);
  if (pin != SX_PINNED) fail_msg("%s: %s", text, pin == SX_PIN_REFUSED ? refusal.offered : "failed");
  assert_non_null(plan.descriptor);
  assert_true(sx_engine_equal(&plan.engine, &offer->engine));
  assert_int_equal(plan.workspace_n_bytes, offer->workspace_n_bytes);
  assert_string_equal(plan.names, offer->names);
  sx_cudnn_release(&c->cudnn, n_owned);
}

static void check_offers(cuda_case *c, const sx_convolution *convolution) {
  sx_offers offers;
  assert_true(sx_cudnn_offers(&offers, &c->cudnn, convolution));
  size_t taken = 0;
  for (size_t i = 0; i < offers.n; i++) {
    const sx_offer *offer = &offers.items[i];
    check_offer(c, &offers, i, convolution->dtype);
    n_rejected[offer->rejection]++;
    if (offer->rejection != SX_TAKEN) continue;
    if (taken < SX_CUDNN_CANDIDATES) assert_ptr_equal(offers.candidates[taken], offer);
    taken++;
    check_pinned(c, convolution, offer);
  }
  assert_true(taken >= 1);
  assert_int_equal(offers.n_taken, taken);
  assert_int_equal(offers.n_candidates, taken < SX_CUDNN_CANDIDATES ? taken : SX_CUDNN_CANDIDATES);
  int is_bf16 = convolution->dtype == SX_BF16;
  if (taken < least[is_bf16]) least[is_bf16] = taken;
  if (taken > most[is_bf16]) most[is_bf16] = taken;
  n_asked++;
  n_offered += offers.n;
  n_taken += taken;
}

static void every_offer_follows_the_rule_and_pins(void **state) {
  (void)state;
  for (size_t i = 0; i < N_CARDS; i++) {
    n_asked = n_offered = n_taken = 0;
    for_each(CARDS[i], check_offers);
    printf("%s: %zu convolutions, %zu engines and knobs offered, %zu taken and pinned again\n", CARDS[i], n_asked,
           n_offered, n_taken);
    assert_int_equal(n_asked, N_SHAPES * SX_N_ROLES * 2);
  }
  for (int r = 0; r < SX_N_REJECTIONS; r++) printf("  %-32s %zu\n", sx_rejection_text((sx_rejection)r), n_rejected[r]);
  printf("taken of a convolution: %zu to %zu in f32, %zu to %zu in bf16\n", least[0], most[0], least[1], most[1]);
  /* What these cards offer has each of these, so the rule above was put to the test. */
  assert_true(n_rejected[SX_REJECTED_NONDETERMINISTIC] && n_rejected[SX_REJECTED_TENSOR_CORE] &&
              n_rejected[SX_REJECTED_WINOGRAD] && n_rejected[SX_REJECTED_REPEATED]);
}

/* A line an offer, for people. */
static void print_offers(sx_text *text, const sx_offers *offers) {
  for (size_t i = 0; i < offers->n; i++) {
    const sx_offer *offer = &offers->items[i];
    sx_text engine;
    sx_text_init(&engine, text->arena);
    sx_engine_print(&engine, &offer->engine);
    sx_text_addf(text, "%3zu  %-8s  %-58s  %11" PRId64 " B  %s%s%s%s%s\n", i, offer->fallback ? "fallback" : "A",
                 sx_text_get(&engine), offer->workspace_n_bytes, sx_rejection_text(offer->rejection),
                 offer->refusal ? ": " : "", offer->refusal ? offer->refusal : "",
                 offer->names && *offer->names ? "  " : "", offer->names ? offer->names : "");
  }
}

/* The seeds' --deterministic is the first deterministic plan, not the first plan. */
static void the_first_deterministic_engine_is_not_the_first(void **state) {
  (void)state;
  cuda_case c;
  cuda_begin(&c, "a100");
  sx_convolution convolution = cuda_convolution(SX_ROLE_WEIGHT, SHAPES[5], SX_F32);
  sx_offers offers;
  assert_true(sx_cudnn_offers(&offers, &c.cudnn, &convolution));
  sx_text table;
  sx_text_init(&table, &c.arena);
  print_offers(&table, &offers);
  fputs(sx_text_get(&table), stdout);
  assert_int_equal(offers.items[0].engine.index, 20);
  assert_int_equal(offers.items[0].rejection, SX_REJECTED_NONDETERMINISTIC);
  assert_true(offers.candidates[0] > &offers.items[0]);
  assert_int_not_equal(offers.candidates[0]->engine.index, 20);
  assert_non_null(strstr(sx_text_get(&table), "nondeterministic\n"));
  cuda_end(&c);
}

static void a_plan_names_its_knobs(void **state) {
  (void)state;
  cuda_case c;
  cuda_begin(&c, "a100");
  sx_convolution convolution = cuda_seed_convolution();
  sx_offers offers;
  assert_true(sx_cudnn_offers(&offers, &c.cudnn, &convolution));
  if (c.api.found[SX_LIBRARY_CUDNN].number == 91900) {
    assert_string_equal(cuda_engine_text(&c, &offers.candidates[0]->engine), "engine 47 knobs 0=2 2=3 5=3 14=2");
    assert_string_equal(offers.candidates[0]->names, "SPLIT_K=2 TILE_SIZE=3 KBLOCK=3 STAGES=2");
  }
  for (size_t i = 0; i < offers.n_candidates; i++) assert_non_null(offers.candidates[i]->names);
  cuda_end(&c);
}

static const char *texts[N_SHAPES * SX_N_ROLES * 2];
static size_t n_texts;

static void note_offers(cuda_case *c, const sx_convolution *convolution) {
  texts[n_texts++] = strdup(cuda_offers_text(c, convolution));
}

static void check_again(cuda_case *c, const sx_convolution *convolution) {
  assert_string_equal(cuda_offers_text(c, convolution), texts[n_texts]);
  free((char *)texts[n_texts++]);
}

static void answers_repeat_exactly(void **state) {
  (void)state;
  for (size_t i = 0; i < N_CARDS; i++) {
    n_texts = 0;
    for_each(CARDS[i], note_offers);
    n_texts = 0;
    for_each(CARDS[i], check_again);
    assert_int_equal(n_texts, N_SHAPES * SX_N_ROLES * 2);
  }
}

static const char *plan_json(cuda_case *c, const sx_convolution *convolution) {
  sx_cudnn_plan plan;
  sx_choice_refusal refusal;
  assert_int_equal(sx_cudnn_pin(&plan, &refusal, &c->cudnn, convolution, "engine 0"), SX_PINNED);
  char *json = sx_arena_take(&c->arena, 1 << 16, 1);
  int64_t n = 0;
  assert_true(sx_descriptor_get(&n, json, &c->cudnn, plan.descriptor, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                CUDNN_TYPE_CHAR, 1 << 16));
  return json;
}

/* cuDNN's own description of a plan holds every field of the key, and what the key implies. */
static void every_field_of_a_key_reaches_cudnn(void **state) {
  (void)state;
  static const char *const operations[] = {"CONVOLUTION_FORWARD", "CONVOLUTION_BACKWARD_DATA",
                                           "CONVOLUTION_BACKWARD_FILTER"};
  static const int64_t sizes[] = {2, 30, 31, 4, 5, 6, 7, 2, 3}; /* y: 16 x 16 */
  cuda_case c;
  cuda_begin(&c, "a100");
  for (int role = 0; role < SX_N_ROLES; role++)
    for (size_t dtype = 0; dtype < 2; dtype++) {
      sx_convolution convolution = cuda_convolution((sx_role)role, sizes, DTYPES[dtype]);
      const char *json = plan_json(&c, &convolution);
      const char *const parts[] = {
          operations[role],
          dtype ? "\"dataType\":\"CUDNN_DATA_BFLOAT16\"" : "\"dataType\":\"CUDNN_DATA_FLOAT\"",
          "\"dim\":[2,4,30,31],\"stride\":[3720,1,124,4]",
          "\"dim\":[7,4,5,6],\"stride\":[120,1,24,4]",
          "\"dim\":[2,7,16,16],\"stride\":[1792,1,112,7]",
          "\"mathPrec\":\"CUDNN_DATA_FLOAT\",\"alpha\":1.0,\"beta\":0.0,\"pad\":[3,3],\"stride\":[2,2],\"dilation\":[1,"
          "1]",
          "\"ptrAlignment\":16",
      };
      for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(json, parts[i])) fail_msg("no %s in %s", parts[i], json);
      assert_null(strstr(json, dtype ? "\"dataType\":\"CUDNN_DATA_FLOAT\"" : "CUDNN_DATA_BFLOAT16"));
    }
  cuda_end(&c);
}

/* Notes that no engine of these cards has are judged all the same. */
static void every_note_has_a_verdict(void **state) {
  (void)state;
  static const struct {
    uint32_t numerical, behavior;
    sx_rejection f32, bf16;
  } rows[] = {
      {0, 0, SX_TAKEN, SX_TAKEN},
      {1u << 0, 0, SX_REJECTED_TENSOR_CORE, SX_TAKEN},
      {1u << 1, 0, SX_REJECTED_DOWN_CONVERT, SX_REJECTED_DOWN_CONVERT},
      {1u << 2, 0, SX_REJECTED_REDUCTION, SX_REJECTED_REDUCTION},
      {1u << 3, 0, SX_REJECTED_FFT, SX_REJECTED_FFT},
      {1u << 4, 0, SX_REJECTED_NONDETERMINISTIC, SX_REJECTED_NONDETERMINISTIC},
      {1u << 5, 0, SX_REJECTED_WINOGRAD, SX_REJECTED_WINOGRAD},
      {1u << 6, 0, SX_REJECTED_WINOGRAD, SX_REJECTED_WINOGRAD},
      {1u << 7, 0, SX_REJECTED_WINOGRAD, SX_REJECTED_WINOGRAD},
      {1u << 8, 0, SX_REJECTED_WINOGRAD, SX_REJECTED_WINOGRAD},
      {1u << 9, 0, SX_TAKEN, SX_TAKEN},
      {1u << 10, 0, SX_REJECTED_UNKNOWN_NOTE, SX_REJECTED_UNKNOWN_NOTE},
      {1u << 31, 0, SX_REJECTED_UNKNOWN_NOTE, SX_REJECTED_UNKNOWN_NOTE},
      {1u << 4 | 1u << 0 | 1u << 10, 1u << 0, SX_REJECTED_NONDETERMINISTIC, SX_REJECTED_NONDETERMINISTIC},
      {0, 1u << 0, SX_REJECTED_RUNTIME, SX_REJECTED_RUNTIME},
      {1u << 10, 1u << 0, SX_REJECTED_RUNTIME, SX_REJECTED_RUNTIME},
      {0, 1u << 3, SX_TAKEN, SX_TAKEN},
      {0, 1u << 4, SX_REJECTED_CUBLASLT, SX_REJECTED_CUBLASLT},
      {0, 1u << 5, SX_REJECTED_UNKNOWN_NOTE, SX_REJECTED_UNKNOWN_NOTE},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    assert_int_equal(sx_cudnn_judge(SX_F32, rows[i].numerical, rows[i].behavior), rows[i].f32);
    assert_int_equal(sx_cudnn_judge(SX_BF16, rows[i].numerical, rows[i].behavior), rows[i].bf16);
  }
}

static void a_convolution_that_cannot_be_is_an_error(void **state) {
  (void)state;
  cuda_case c;
  cuda_begin(&c, "a100");
  sx_convolution convolution = cuda_seed_convolution();
  convolution.kh = 11;
  sx_offers offers;
  assert_false(sx_cudnn_offers(&offers, &c.cudnn, &convolution));
  assert_string_equal(sx_diag_code(&c.diags.list.items[0]), "E-DEVICE-016");
  assert_string_equal(c.diags.list.items[0].message, "a convolution has a kernel larger than the padded input");
  cuda_end(&c);
}

static void a_device_that_cudnn_does_not_know_is_refused(void **state) {
  (void)state;
  char json[CUDA_JSON_MAX];
  size_t n = cuda_read_json(json, "a100");
  memcpy(strstr(json, "800"), "123", 3);
  cuda_case c = {.memory = sx_memory_default()};
  sx_arena_init(&c.arena, &c.memory);
  sx_diags_init(&c.diags, &c.arena);
  assert_true(sx_api_load(&c.api, SX_LIBRARY_CUDNN, NULL, &c.arena, &c.diags));
  assert_true(sx_device_parse(&c.device, json, n, &c.arena, &c.diags));
  assert_false(sx_cudnn_open(&c.cudnn, &c.api, &c.device, &c.arena, &c.diags));
  assert_string_equal(sx_diag_code(&c.diags.list.items[0]), "E-DEVICE-014");
  assert_non_null(strstr(c.diags.list.items[0].message, "does not take NVIDIA A100-SXM4-40GB, compute_12: 3007"));
  c.diags.list.n = 0;
  cuda_end(&c);
}

CUDNN_MAIN(cmocka_unit_test(every_offer_follows_the_rule_and_pins),
           cmocka_unit_test(the_first_deterministic_engine_is_not_the_first), cmocka_unit_test(a_plan_names_its_knobs),
           cmocka_unit_test(answers_repeat_exactly), cmocka_unit_test(every_field_of_a_key_reaches_cudnn),
           cmocka_unit_test(every_note_has_a_verdict), cmocka_unit_test(a_convolution_that_cannot_be_is_an_error),
           cmocka_unit_test(a_device_that_cudnn_does_not_know_is_refused))
#else
CUDNN_MAIN()
#endif
