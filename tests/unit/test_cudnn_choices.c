/* A record of choices pinned through libchoices, cuDNN itself answering for the engines: every one, or one refusal that
 * names all that cannot be taken. */
#include <stdlib.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/cuda.h"

#ifdef SX_CUDA
#include "../common/choices.h"

#define DEVICE "compute_80 with 108 multiprocessors, cuBLAS 130101, cuDNN 91300, NVRTC 13.0, patterns on"
#define FORWARD                                                                                                     \
  "Forward Spec { batch: 512, height: 8, width: 8, channels: 256, kh: 3, kw: 3, out: 512, stride: 1, padding: 1 } " \
  "bf16"
/* The seeds' record, with one convolution more. */
#define RECORD(engine)                                                                                \
  "{\"device\": \"" DEVICE                                                                            \
  "\", \"strict\": false, \"stacking\": 1, \"recompute\": 10.99, \"convolutions\": {\"" CUDA_SEED_KEY \
  "\": \"" CUDA_SEED_ENGINE "\", \"" FORWARD "\": \"" engine "\"}, \"node_gradients\": null}"

/* What a device says of a recorded value: the plan is made, or the words are cuDNN's. */
static bool takes(void *context, const choices_need *need, const char *value, char *words, size_t n_words) {
  cuda_case *c = context;
  sx_convolution convolution;
  assert_null(sx_convolution_parse(&convolution, need->key, &c->arena));
  sx_cudnn_plan plan;
  sx_choice_refusal refusal;
  sx_pin pin = sx_cudnn_pin(&plan, &refusal, &c->cudnn, &convolution, value);
  assert_int_not_equal(pin, SX_PIN_FAILED);
  if (pin == SX_PINNED) return true;
  assert_string_equal(refusal.choice, need->key);
  assert_string_equal(refusal.recorded, value);
  assert_true((size_t)snprintf(words, n_words, "%s", refusal.offered) < n_words);
  return false;
}

static const choices_need NEEDS[] = {{.kind = "convolution", .key = CUDA_SEED_KEY},
                                     {.kind = "convolution", .key = FORWARD}};

static choices_status pin_on(cuda_case *c, choices_pins **pins, const char *text, choices_error *error) {
  choices_record *record = NULL;
  choices_expect_ok(choices_record_parse(&record, "record", text, strlen(text), error), error);
  const choices_device here = {.device = DEVICE};
  const choices_pinning pinning = {.record = record,
                                   .record_name = "record",
                                   .device = &here,
                                   .needs = NEEDS,
                                   .n_needs = 2,
                                   .takes = takes,
                                   .context = c};
  choices_status status = choices_pin(pins, &pinning, error);
  choices_record_free(record);
  return status;
}

static void a_record_that_fits_is_pinned_whole(void **state) {
  (void)state;
  cuda_case c;
  cuda_begin(&c, "a100");
  choices_error error;
  choices_pins *pins = NULL;
  choices_expect_ok(pin_on(&c, &pins, RECORD("engine 0"), &error), &error);
  assert_string_equal(choices_pins_take(pins, "convolution", CUDA_SEED_KEY), CUDA_SEED_ENGINE);
  assert_string_equal(choices_pins_take(pins, "convolution", FORWARD), "engine 0");
  choices_expect_ok(choices_pins_audit(pins, &error), &error);
  choices_pins_free(pins);
  cuda_end(&c);
}

static void one_that_does_not_fit_is_refused_in_words(void **state) {
  (void)state;
  cuda_case c;
  cuda_begin(&c, "a100");
  choices_error error;
  choices_pins *pins = NULL;
  choices_expect_error(pin_on(&c, &pins, RECORD("engine 999"), &error), &error, "E-CHOICE-001", "1 of 2");
  const char *text = choices_pins_refusal(pins);
  fputs(text, stdout);
  assert_non_null(strstr(text, "  convolution  " FORWARD "\n               recorded  engine 999\n               here "));
  assert_non_null(strstr(text, "on compute_80 with 108 multiprocessors; 999 is none of them ("));
  assert_null(strstr(text, CUDA_SEED_ENGINE));
  choices_pins_free(pins);
  cuda_end(&c);
}

CUDNN_MAIN(cmocka_unit_test(a_record_that_fits_is_pinned_whole),
           cmocka_unit_test(one_that_does_not_fit_is_refused_in_words))
#else
CUDNN_MAIN()
#endif
