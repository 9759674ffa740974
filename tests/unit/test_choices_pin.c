/* Pinning: every need or a complete refusal; the audit; levels. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/choices.h"
#include "../common/cmocka_all.h"

#define DEVICE_A "compute_80 with 108 multiprocessors, cuBLAS 130101, cuDNN 91300, NVRTC 13.0, patterns on"
#define DEVICE_B "compute_80 with 108 multiprocessors, cuBLAS 130101, cuDNN 91900, NVRTC 13.0, patterns on"
#define WEIGHT "Weight Spec { batch: 512, height: 8 } bf16"
#define OBJECT(products)                                                                                             \
  "{\"device\": \"" DEVICE_A                                                                                         \
  "\", \"stacking\": 8, \"recompute\": 10.99, \"node_gradients\": null, "                                            \
  "\"convolutions\": {\"" WEIGHT "\": \"engine 47 knobs 0=3 2=3\", \"Forward Spec { } f32\": \"engine 1\"}" products \
  ", \"strict\": false}"

static const choices_device here = {.device = DEVICE_B};

static choices_record *parse(const char *text) {
  choices_error error;
  choices_record *record = NULL;
  choices_expect_ok(choices_record_parse(&record, "r", text, strlen(text), &error), &error);
  return record;
}

static bool engines(void *context, const choices_need *need, const char *value, char *words, size_t n_words) {
  (void)context;
  if (strcmp(need->kind, "convolution") == 0 && strstr(value, "engine 47")) {
    snprintf(words, n_words, "cuDNN 91900 offers 26 engines for it; 47 takes knob 0 from 0 to 2");
    return false;
  }
  for (size_t i = 0; i < need->n_offers; i++)
    if (strcmp(need->offers[i], value) == 0) return true;
  return need->n_offers == 0;
}

static const char *const forward[] = {"engine 1"};
static const char *const degrees[] = {"1", "2", "4"};
static const choices_need needs[] = {
    {.kind = "convolution", .key = WEIGHT},
    {.kind = "convolution", .key = "Forward Spec { } f32", .offers = forward, .n_offers = 1},
    {.kind = "stacking",
     .key = "graph sha256:1 candidates 1 2 4",
     .offers = degrees,
     .n_offers = 3,
     .offered = "1, 2 or 4 fit in 38.1 GiB"},
    {.kind = "recompute", .key = "device"},
};

static void complete_refusal(void **state) {
  (void)state;
  choices_error error;
  choices_pins *pins = NULL;
  choices_record *record = parse(OBJECT(""));
  const choices_pinning pinning = {record, "a/step-100", &here, needs, 4, 0, engines, NULL};
  choices_expect_error(choices_pin(&pins, &pinning, &error), &error, "E-CHOICE-001", "2 of 4");
  assert_string_equal(choices_pins_refusal(pins),
                      "E-CHOICE-001: 2 of 4 recorded choices cannot be taken on this device\n"
                      "  convolution  " WEIGHT
                      "\n"
                      "               recorded  engine 47 knobs 0=3 2=3\n"
                      "               here      cuDNN 91900 offers 26 engines for it; 47 takes knob 0 from 0 to 2\n"
                      "  stacking     recorded  8\n"
                      "               here      1, 2 or 4 fit in 38.1 GiB\n"
                      "  the record is of    " DEVICE_A
                      "\n"
                      "  this device is      " DEVICE_B
                      "\n"
                      "  --choices fresh chooses again and continues at level 3; --choices fresh:convolutions,stacking "
                      "only these two\n");
  assert_string_equal(
      choices_pins_refusal_json(pins),
      "{\"code\": \"E-CHOICE-001\", \"device\": \"" DEVICE_B
      "\", \"fresh\": [\"convolutions\", \"stacking\"], "
      "\"needed\": 4, \"record\": \"" DEVICE_A
      "\", \"refused\": [{\"here\": \"cuDNN 91900 offers 26 engines for it; "
      "47 takes knob 0 from 0 to 2\", \"key\": \"" WEIGHT
      "\", \"kind\": \"convolution\", \"recorded\": \"engine 47 "
      "knobs 0=3 2=3\"}, {\"here\": \"1, 2 or 4 fit in 38.1 GiB\", \"key\": \"graph sha256:1 candidates 1 2 4\", "
      "\"kind\": \"stacking\", \"recorded\": \"8\"}]}");
  choices_pins_free(pins);
  choices_record_free(record);
}

static choices_status pin_one(choices_pins **pins, const char *object, const choices_need *need, unsigned fresh,
                              choices_error *error) {
  choices_record *record = parse(object);
  const choices_pinning pinning = {record, "r", &here, need, 1, fresh, NULL, NULL};
  choices_status status = choices_pin(pins, &pinning, error);
  choices_record_free(record);
  return status;
}

static void what_is_taken(void **state) {
  (void)state;
  static const char *const products[] = {"ordinary", "split 8"}, *const f32[] = {"f32"};
  const choices_need product = {.kind = "products", .key = "p", .offers = products, .n_offers = 2};
  const choices_need other = {.kind = "convolution", .key = "none such"};
  const choices_need between = {.kind = "node_gradients", .key = "run", .offers = f32, .n_offers = 1};
  choices_error error;
  choices_pins *pins = NULL;
  choices_expect_ok(pin_one(&pins, OBJECT(""), &product, 0, &error), &error); /* of before they were recorded */
  assert_string_equal(choices_pins_take(pins, "product", "p"), "ordinary");
  choices_pins_free(pins);
  choices_expect_ok(pin_one(&pins, OBJECT(", \"products\": {\"p\": \"split 8\"}"), &product, 0, &error), &error);
  assert_string_equal(choices_pins_take(pins, "product", "p"), "split 8");
  choices_pins_free(pins);
  choices_expect_error(pin_one(&pins, OBJECT(", \"products\": {}"), &product, 0, &error), &error, "E-CHOICE-001",
                       "1 of 1");
  assert_non_null(strstr(choices_pins_refusal(pins), "recorded  none\n           here      ordinary or split 8\n"));
  choices_pins_free(pins);
  choices_expect_error(pin_one(&pins, OBJECT(""), &other, 0, &error), &error, "E-CHOICE-001", "1 of 1");
  assert_non_null(strstr(choices_pins_refusal(pins), "nothing is offered for it"));
  choices_pins_free(pins);
  choices_expect_error(pin_one(&pins, OBJECT(""), &between, 0, &error), &error, "E-CHOICE-001", "1 of 1");
  choices_pins_free(pins);
  choices_expect_ok(pin_one(&pins, OBJECT(""), &other, 1u << 0, &error), &error); /* fresh:convolutions */
  assert_null(choices_pins_take(pins, "convolution", "none such"));
  choices_pins_free(pins);
}

static void other_refusals(void **state) {
  (void)state;
  choices_error error;
  choices_pins *pins = NULL;
  const choices_need need = {.kind = "recompute", .key = "device"};
  choices_expect_error(
      pin_one(&pins, "{\"device\": \"d\", \"requires\": [\"stacking\", \"tree\"], \"tree\": 1}", &need, 0, &error),
      &error, "E-CHOICE-005", "\"tree\"");
  assert_null(pins);
  choices_expect_error(pin_one(&pins,
                               "{\"record\": \"choices\", \"version\": 1, \"device\": \"x\"}\n"
                               "{\"record\": \"choices\", \"version\": 1, \"device\": \"" DEVICE_B "\"}\n",
                               &need, 0, &error),
                       &error, "E-CHOICE-006", "sexpgpu-choices export --device '" DEVICE_B "'");
  assert_null(pins);
}

/* Of a stream the entries that the run needs. */
static void from_stream(void **state) {
  (void)state;
  choices_error error;
  choices_pins *pins = NULL;
  const char *text =
      "{\"record\": \"choices\", \"version\": 1, \"device\": \"x\"}\n"
      "{\"record\": \"choice\", \"kind\": \"stacking\", \"key\": \"graph sha256:2 candidates 1\", \"value\": 1}\n"
      "{\"record\": \"choice\", \"kind\": \"stacking\", \"key\": \"graph sha256:1 candidates 1 2 4\", \"value\": 4}\n";
  choices_expect_ok(pin_one(&pins, text, &needs[2], 0, &error), &error);
  assert_string_equal(choices_pins_take(pins, "stacking", needs[2].key), "4");
  choices_pins_free(pins);
}

static void audit(void **state) {
  (void)state;
  choices_error error;
  choices_pins *pins = NULL;
  choices_expect_ok(pin_one(&pins, OBJECT(""), &needs[1], 0, &error), &error);
  choices_expect_error(choices_pins_audit(pins, &error), &error, "E-CHOICE-023", "not taken");
  choices_pins_take(pins, "convolutions", needs[1].key);
  choices_expect_ok(choices_pins_audit(pins, &error), &error);
  choices_pins_note_measured(pins, "convolution", needs[1].key);
  choices_expect_error(choices_pins_audit(pins, &error), &error, "E-CHOICE-023", "was measured");
  choices_pins_free(pins);
  choices_expect_ok(pin_one(&pins, OBJECT(""), &needs[1], 1u << 0, &error), &error);
  choices_pins_note_measured(pins, "convolution", needs[1].key);
  choices_expect_ok(choices_pins_audit(pins, &error), &error);
  choices_pins_note_measured(pins, "convolution", "other");
  choices_expect_error(choices_pins_audit(pins, &error), &error, "E-CHOICE-023", "none of the 1");
  choices_pins_free(pins);
}

static void levels(void **state) {
  (void)state;
  const choices_device cpu = {.device = "cpu, numerics 1"}, gpu = {.device = DEVICE_B},
                       portable = {.device = "cuda, numerics 1"};
  const choices_error lost = {.code = "E-CHOICE-013", .message = "the disk is full"};
  const struct {
    choices_run run;
    const char *words;
  } cases[] = {
      {{.device = &cpu, .numerics = 1}, "2: any CPU repeats these bits with no record (numerics 1)"},
      {{.device = &cpu, .numerics = 1, .recorded = "cpu, numerics 1"},
       "2: any CPU repeats these bits with no record (numerics 1)"},
      {{.device = &cpu, .numerics = 1, .resumed = "cpu, numerics 1"},
       "2: any CPU repeats these bits with no record (numerics 1)"},
      {{.device = &cpu, .numerics = 1, .resumed = DEVICE_A},
       "3: chosen again on this machine; the steps before it were computed with choices of " DEVICE_A},
      {{.device = &cpu, .numerics = 1, .recorded = DEVICE_A},
       "3: pinned to choices of another device; the record is of " DEVICE_A ", this device is cpu, numerics 1"},
      {{.device = &portable, .numerics = 1, .recorded = "cpu, numerics 1"},
       "2: any CPU repeats these bits with no record (numerics 1)"},
      {{.device = &cpu, .numerics = 1, .resumed = "cuda, numerics 1"},
       "2: any CPU repeats these bits with no record (numerics 1)"},
      {{.device = &cpu, .numerics = 1, .recorded = "cuda, numerics 2"},
       "3: pinned to choices of another device; the record is of cuda, numerics 2, this device is cpu, numerics 1"},
      {{.device = &gpu, .chooses = true},
       "1: this machine repeats these bits with this binary and ~/.cache/sexpgpu; another is 3, or 2 pinned to these "
       "choices with --choices"},
      {{.device = &gpu, .chooses = true, .store = &lost},
       "3: level 1 against later runs is lost, as choices are not remembered: the disk is full"},
      {{.device = &gpu, .chooses = true, .deterministic = true},
       "2: nothing is measured; every --deterministic run on this kind of device repeats these bits"},
      {{.device = &gpu, .chooses = true, .recorded = DEVICE_B}, "2: pinned to recorded choices of this kind of device"},
      {{.device = &gpu, .chooses = true, .recorded = DEVICE_B, .n_probes = 23, .n_match = 23},
       "2: pinned to recorded choices of this kind of device, 23 of 23 probes match"},
      {{.device = &gpu, .chooses = true, .recorded = DEVICE_B, .n_probes = 23, .n_match = 22, .mismatch = WEIGHT},
       "3: pinned to choices of this kind of device, but only 22 of 23 probes match; the first that does not "
       "is " WEIGHT},
      {{.device = &gpu, .chooses = true, .recorded = DEVICE_A},
       "3: pinned to choices of another device; the record is of " DEVICE_A ", this device is " DEVICE_B},
      {{.device = &gpu, .chooses = true, .recorded = DEVICE_B, .fresh_kinds = 1u << 0 | 1u << 4},
       "3: pinned to recorded choices but for convolutions, stacking, chosen again on this machine"},
      {{.device = &gpu, .chooses = true, .resumed = ""},
       "3: chosen again on this machine; the steps before it were computed with choices of an unknown device"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char words[1024];
    int level = choices_level(words, sizeof words, &cases[i].run);
    assert_string_equal(words, cases[i].words);
    assert_int_equal(level, words[0] - '0');
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(complete_refusal), cmocka_unit_test(what_is_taken), cmocka_unit_test(other_refusals),
      cmocka_unit_test(from_stream),      cmocka_unit_test(audit),         cmocka_unit_test(levels)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
