/* Records of choices: objects and streams read, printed again, compared. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../libchoices/choices.h"
#include "../common/choices.h"
#include "../common/cmocka_all.h"

#define CUDA                                                                                                           \
  "{\"convolutions\": {\"Weight Spec { batch: 512, height: 8 } bf16\": \"engine 47 knobs 0=3 2=3 5=3 14=2\"}, "        \
  "\"device\": \"compute_90 with 132 multiprocessors, cuBLAS 130101\", \"graph\": \"sha256:12\", \"node_gradients\": " \
  "null, \"numerics\": 1, \"products\": {\"Product { batch: 1, m: 768 } f32\": \"split 8\"}, \"recompute\": 10.99, "   \
  "\"stacking\": 4, \"strict\": false}"
#define CPU "{\"device\": \"cpu, numerics 1\", \"graph\": \"sha256:ab\", \"numerics\": 1, \"strict\": false}"
#define STREAM                                                                                                        \
  "{\"record\": \"choices\", \"version\": 1, \"device\": \"compute_80\", \"gpu\": \"A\", \"driver\": 13000, "         \
  "\"libraries\": {\"cublas\": 130101, \"nvrtc\": \"13.0\"}, \"compute_capability\": 80, \"multiprocessors\": 108}\n" \
  "{\"record\": \"choice\", \"kind\": \"convolution\", \"key\": \"Weight\", \"value\": \"engine 47\"}\n"              \
  "{\"record\": \"choice\", \"kind\": \"stacking\", \"key\": \"graph sha256:12 candidates 1 2 4\", "                  \
  "\"executable\": \"build-id ab\", \"mode\": \"optimize off\", \"value\": 4}\n"

static choices_record *parse(const char *text) {
  choices_error error;
  choices_record *record = NULL;
  choices_expect_ok(choices_record_parse(&record, "r", text, strlen(text), &error), &error);
  return record;
}

static void refuses(const char *text, const char *code, const char *word) {
  choices_error error;
  choices_record *record = NULL;
  choices_expect_error(choices_record_parse(&record, "r", text, strlen(text), &error), &error, code, word);
  assert_null(record);
}

/* The bytes, and the digest of the bytes: what sha256sum says of them. */
static void objects_print_back(void **state) {
  (void)state;
  choices_record *cpu = parse(CPU), *cuda = parse("\n " CUDA " \n");
  assert_string_equal(choices_record_text(cpu), CPU);
  assert_string_equal(choices_record_text(cuda), CUDA);
  assert_string_equal(choices_record_digest(cpu),
                      "sha256:d35867444e04745a1a44140bfd460cbbdb732c0463b13304c64238b0faa614fd");
  const choices_object *object = choices_record_object(cuda);
  assert_int_equal(object->numerics, 1);
  assert_false(object->strict);
  assert_string_equal(object->graph, "sha256:12");
  assert_string_equal(choices_record_find(cuda, "convolutions", "Weight Spec { batch: 512, height: 8 } bf16")->value,
                      "engine 47 knobs 0=3 2=3 5=3 14=2");
  assert_string_equal(choices_record_find(cuda, "stacking", "any")->value, "4");
  assert_string_equal(choices_record_find(cuda, "recompute", NULL)->value, "10.99");
  assert_string_equal(choices_record_find(cuda, "node_gradients", NULL)->value, "null");
  assert_null(choices_record_find(cuda, "product", "other"));
  choices_record_free(cpu);
  choices_record_free(cuda);
}

/* Order, white space and spelling of numbers carry no meaning; unknown members do, and are kept. */
static void canonical(void **state) {
  (void)state;
  choices_record *record = parse(
      "{\"strict\":true,\"stacking\":2,\n\"recompute\":1.10e1,\"device\":\"d\\u00e9\\/\","
      "\"zeta\":[1.0,1e3,0.1,{\"b\":1,\"a\":[]}],\"host\":\"h\"}");
  assert_string_equal(
      choices_record_text(record),
      "{\"device\": \"d\xc3\xa9/\", \"host\": \"h\", \"recompute\": 11, \"stacking\": 2, \"strict\": true, "
      "\"zeta\": [1, 1000, 0.1, {\"a\": [], \"b\": 1}]}");
  choices_record *other = parse(
      "{\"device\": \"d\xc3\xa9/\", \"recompute\": 11, \"stacking\": 2, \"strict\": true, "
      "\"timings\": {\"a\": 3}, \"zeta\": [1, 1000, 0.1, {\"a\": [], \"b\": 1}]}");
  assert_string_equal(choices_record_digest(record), choices_record_digest(other));
  choices_record_free(record);
  choices_record_free(other);
}

/* Evidence: printed again, and not in the digest. */
static void probes(void **state) {
  (void)state;
  static const char text[] =
      "{\"device\": \"d\", \"probes\": {\"convolution Weight Spec { batch: 1 } f32\": \"00000000000000fe\", \"product "
      "Product { m: 1 } f32\": \"0123456789abcdef\"}, \"products\": {\"Product { m: 1 } f32\": \"split 2\"}}";
  choices_record *record = parse(text), *without = parse(
                                            "{\"device\": \"d\", \"products\": {\"Product { m: 1 } f32\": "
                                            "\"split 2\"}}");
  const choices_probe *found = NULL;
  assert_string_equal(choices_record_text(record), text);
  assert_string_equal(choices_record_digest(record), choices_record_digest(without));
  assert_int_equal(choices_record_probes(record, &found), 2);
  assert_string_equal(found[0].kind, "convolution");
  assert_string_equal(found[0].key, "Weight Spec { batch: 1 } f32");
  assert_null(found[0].value);
  assert_true(found[0].digest == 0xfe && found[1].digest == 0x0123456789abcdef);
  assert_string_equal(found[1].value, "split 2");
  const choices_object object = {.device = "d", .probes = found, .n_probes = 2};
  choices_record *made = NULL;
  choices_error error;
  choices_expect_ok(choices_record_make(&made, &object, NULL, 0, NULL, 0, &error), &error);
  assert_non_null(strstr(choices_record_text(made), "\"product Product { m: 1 } f32\": \"0123456789abcdef\"}"));
  assert_int_equal(choices_record_probes(without, &found), 0);
  choices_record_free(record);
  choices_record_free(without);
  choices_record_free(made);
}

/* Of an export with measurements: those of the values that were chosen. */
static void probes_of_streams(void **state) {
  (void)state;
  choices_record *record = parse(
      "{\"record\": \"choices\", \"version\": 1, \"device\": \"d\"}\n"
      "{\"record\": \"choice\", \"kind\": \"convolution\", \"key\": \"k\", \"value\": \"b\", \"candidates\": "
      "[{\"value\": "
      "\"a\", \"state\": \"measured\", \"probe\": \"00000000000000fe\"}, {\"value\": \"b\", \"state\": \"measured\", "
      "\"probe\": \"00000000000000ff\"}]}\n");
  const choices_probe *found = NULL;
  assert_int_equal(choices_record_probes(record, &found), 1);
  assert_string_equal(found[0].value, "b");
  assert_true(found[0].digest == 0xff);
  choices_record_free(record);
}

static void objects_in_other_records(void **state) {
  (void)state;
  const char *const texts[] = {
      "{\"version\": 1, \"slug\": \"a\", \"choices\": " CUDA ", \"seal\": \"s\"}\n",
      "{\"device\": \"x\", \"choices\": " CUDA "}",
      "{\"record\": \"annotation\", \"name\": \"lowering\", \"metadata\": {\"device\": \"x\", \"choices\": " CUDA "}}",
      "{\"record\": \"manifest\", \"choices\": " CPU
      "}\n{\"record\": \"value\", \"name\": \"a\"}\n"
      "{\"record\": \"annotation\", \"metadata\": {\"choices\": " CUDA "}}\n{\"record\": \"value\"}\n"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    choices_record *record = parse(texts[i]);
    assert_string_equal(choices_record_text(record), CUDA);
    choices_record_free(record);
  }
}

static void streams_print_back(void **state) {
  (void)state;
  const choices_device *devices = NULL;
  const choices_row *rows = NULL;
  choices_record *record = parse(STREAM), *bare = parse("{\"record\": \"choices\", \"version\": 1}\n");
  assert_string_equal(choices_record_text(record), STREAM);
  assert_int_equal(choices_record_devices(record, &devices), 1);
  assert_int_equal(devices[0].multiprocessors, 108);
  assert_string_equal(devices[0].libraries, "{\"cublas\": 130101, \"nvrtc\": \"13.0\"}");
  assert_int_equal(choices_record_rows(record, &rows), 2);
  assert_string_equal(rows[1].executable, "build-id ab");
  assert_string_equal(choices_record_text(bare), "{\"record\": \"choices\", \"version\": 1}\n");
  assert_null(choices_record_object(record));
  choices_record_free(record);
  choices_record_free(bare);
}

/* Unknown members of headers and rows, unknown kinds, candidates and timings. */
static void streams_keep_all(void **state) {
  (void)state;
  static const char text[] =
      "{\"record\": \"choices\", \"version\": 1, \"device\": \"d\", \"alpha\": {\"x\": 1}}\n"
      "{\"record\": \"choice\", \"kind\": \"attention\", \"key\": \"k\", \"value\": {\"a\": 1}, \"later\": true}\n"
      "{\"record\": \"choice\", \"kind\": \"product\", \"key\": \"k\", \"value\": \"split 8\", \"measured\": "
      "\"2026-11-29T00:00:00Z\", \"tool\": \"t\", \"reason\": \"ahead\", \"ahead\": 0.072, \"bits\": \"moves\", "
      "\"executable_bytes\": 5, \"executable_modified\": 6, \"candidates\": [{\"value\": \"ordinary\", \"state\": "
      "\"measured\", \"probe\": \"00000000000000ff\", \"samples_ns\": [5, 6]}, {\"value\": \"split 8\", \"state\": "
      "\"rejected\", \"samples_ns\": []}]}\n"
      "{\"record\": \"cost\", \"key\": \"add\", \"time_ns\": 12}\n";
  choices_error error;
  char *printed = NULL;
  choices_record *record = parse(text), *again = NULL;
  choices_expect_ok(choices_record_measurements(&printed, record, &error), &error);
  assert_string_equal(printed, text);
  assert_null(strstr(choices_record_text(record), "samples"));
  again = parse(choices_record_text(record));
  assert_string_equal(choices_record_digest(again), choices_record_digest(record));
  free(printed);
  choices_record_free(record);
  choices_record_free(again);
}

static void repeats_and_conflicts(void **state) {
  (void)state;
  choices_record *record = parse(STREAM STREAM);
  assert_string_equal(choices_record_text(record), STREAM);
  choices_record_free(record);
  refuses(STREAM "{\"record\": \"choice\", \"kind\": \"convolution\", \"key\": \"Weight\", \"value\": \"engine 48\"}",
          "E-CHOICE-017", "engine 48");
}

static void malformed(void **state) {
  (void)state;
  static const char header[] = "{\"record\": \"choices\", \"version\": 1, \"device\": \"d\"}\n";
  static const struct {
    bool header;
    const char *text, *code, *word;
  } cases[] = {
      {false, "", "E-CHOICE-007", "nothing"},
      {false, "[1]", "E-CHOICE-007", "expected a choices object"},
      {false, "{\"choices\": null}", "E-CHOICE-007", "recorded none"},
      {false, "{\"strict\": false}", "E-CHOICE-007", "expected a choices object"},
      {false, "{\"device\": 1, \"choices\": {\"strict\": true}}", "E-CHOICE-004", "\"device\""},
      {false, "{\"device\": \"d\", \"device\": \"e\"}", "E-CHOICE-004", "duplicate"},
      {false, "{\"device\": \"d\", \"stacking\": 0}", "E-CHOICE-004", "positive integer"},
      {false, "{\"device\": \"d\", \"recompute\": \"x\"}", "E-CHOICE-004", "number"},
      {false, "{\"device\": \"d\", \"convolutions\": 3}", "E-CHOICE-004", "keys and values"},
      {false, "{\"device\": \"d\", \"convolutions\": {\"\": \"e\"}}", "E-CHOICE-004", "not empty"},
      {false, "{\"device\": \"d\", \"products\": {\"k\": null}}", "E-CHOICE-004", "text"},
      {false, "{\"device\": \"d\", \"node_gradients\": 16}", "E-CHOICE-004", "text or null"},
      {false, "{\"device\": \"d\", \"strict\": 1}", "E-CHOICE-004", "true or false"},
      {false, "{\"device\": \"d\", \"graph\": 1}", "E-CHOICE-004", "text"},
      {false, "{\"device\": \"d\", \"numerics\": 0}", "E-CHOICE-004", "positive integer"},
      {false, "{\"device\": \"d\", \"probes\": []}", "E-CHOICE-004", "an object of probes"},
      {false, "{\"device\": \"d\", \"probes\": {\"product k\": \"12\"}}", "E-CHOICE-004", "16 hexadecimal"},
      {false, "{\"device\": \"d\", \"probes\": {\"product\": \"0123456789abcdef\"}}", "E-CHOICE-004", "kind and key"},
      {false, "{\"device\": \"d\", \"requires\": 1}", "E-CHOICE-004", "array of names"},
      {false, "{\"device\": \"d\", \"requires\": [1]}", "E-CHOICE-004", "array of names"},
      {false, "{\n\n \"device\": x}", "E-CHOICE-004", "line 3"},
      {false, "{\"record\": \"choices\", \"version\": 2}", "E-CHOICE-005", "found version 2"},
      {false, "{\"record\": \"choices\", \"device\": \"d\"}", "E-CHOICE-004", "\"version\""},
      {false, "{\"record\": \"choices\", \"version\": 1, \"gpu\": \"d\"}", "E-CHOICE-004", "\"device\""},
      {false, "{\"record\": \"choices\", \"version\": 1, \"device\": \"d\", \"driver\": -1}", "E-CHOICE-004", "driver"},
      {false, "{\"record\": \"choices\", \"version\": 1, \"device\": \"d\", \"libraries\": 1}", "E-CHOICE-004",
       "object"},
      {false, "{\"record\": \"choice\", \"kind\": \"k\", \"key\": \"k\", \"value\": 1}", "E-CHOICE-004", "header"},
      {true, "{\"record\": \"other\"}", "E-CHOICE-004", "other"},
      {true, "[]", "E-CHOICE-004", "an object a line"},
      {true, "{\"record\": \"choice\", \"key\": \"k\", \"value\": 1}", "E-CHOICE-004", "\"kind\""},
      {true, "{\"record\": \"choice\", \"kind\": \"k\", \"value\": 1}", "E-CHOICE-004", "\"key\""},
      {true, "{\"record\": \"choice\", \"kind\": \"k\", \"key\": \"k\"}", "E-CHOICE-004", "\"value\""},
      {true, "{\"record\": \"choice\", \"kind\": \"stacking\", \"key\": \"k\", \"value\": \"4\"}", "E-CHOICE-004",
       "integer"},
      {true, "{\"record\": \"choice\", \"kind\": \"k\", \"key\": \"k\", \"value\": 1, \"bits\": \"x\"}", "E-CHOICE-004",
       "neutral"},
      {true, "{\"record\": \"choice\", \"kind\": \"k\", \"key\": \"k\", \"value\": 1, \"ahead\": -1}", "E-CHOICE-004",
       "ahead"},
      {true, "{\"record\": \"choice\", \"kind\": \"k\", \"key\": \"k\", \"value\": 1, \"candidates\": 1}",
       "E-CHOICE-004", "array"},
      {true,
       "{\"record\": \"choice\", \"kind\": \"k\", \"key\": \"k\", \"value\": 1, \"candidates\": [{\"value\": 1}]}",
       "E-CHOICE-004", "state"},
      {true,
       "{\"record\": \"choice\", \"kind\": \"k\", \"key\": \"k\", \"value\": 1, \"candidates\": [{\"value\": 1, "
       "\"state\": \"failed\", \"probe\": \"0\"}]}",
       "E-CHOICE-004", "16 hexadecimal"},
      {true,
       "{\"record\": \"choice\", \"kind\": \"k\", \"key\": \"k\", \"value\": 1, \"candidates\": [{\"value\": 1, "
       "\"state\": \"failed\", \"samples_ns\": [-1]}]}",
       "E-CHOICE-004", "samples"},
      {true, "{\"record\": \"cost\", \"key\": \"k\"}", "E-CHOICE-004", "time_ns"},
      {true, "{\"record\": \"cost\", \"time_ns\": 1}", "E-CHOICE-004", "\"key\""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[512];
    snprintf(text, sizeof text, "%s%s", cases[i].header ? header : "", cases[i].text);
    refuses(text, cases[i].code, cases[i].word);
  }
}

static void levels_are_limited(void **state) {
  (void)state;
  char text[256] = "{\"device\": \"d\", \"deep\": ";
  for (int i = 0; i < 40; i++) strcat(text, "[");
  for (int i = 0; i < 40; i++) strcat(text, "]");
  strcat(text, "}");
  refuses(text, "E-CHOICE-004", "levels");
}

static void made(void **state) {
  (void)state;
  choices_error error;
  choices_record *record = NULL;
  const choices_object cpu = {.device = "cpu, numerics 1", .graph = "sha256:ab", .numerics = 1};
  choices_expect_ok(choices_record_make(&record, &cpu, NULL, 0, NULL, 0, &error), &error);
  assert_string_equal(choices_record_text(record), CPU);
  choices_record_free(record);
  const choices_row rows[] = {{.kind = "stacking", .key = "", .value = "4", .is_json = true},
                              {.kind = "convolution", .key = "k", .value = "engine 1"},
                              {.kind = "node_gradients", .key = "", .value = "null", .is_json = true}};
  const char *const maps[] = {"convolutions", "products"};
  const choices_object cuda = {.device = "d", .strict = true, .portable = true};
  choices_expect_ok(choices_record_make(&record, &cuda, rows, 3, maps, 2, &error), &error);
  assert_string_equal(choices_record_text(record),
                      "{\"convolutions\": {\"k\": \"engine 1\"}, \"device\": \"d\", \"node_gradients\": null, "
                      "\"portable\": true, \"products\": {}, \"stacking\": 4, \"strict\": true}");
  choices_record_free(record);
  const choices_row odd = {.kind = "unknown", .key = "", .value = "4", .is_json = true};
  choices_expect_error(choices_record_make(&record, &cuda, &odd, 1, NULL, 0, &error), &error, "E-CHOICE-004", "known");
}

static void selected(void **state) {
  (void)state;
  choices_error error;
  choices_record *record = parse(STREAM "{\"record\": \"choices\", \"version\": 1, \"device\": \"other\"}\n"),
                 *part = NULL;
  choices_expect_ok(choices_record_select(&part, record, "other", NULL, &error), &error);
  assert_string_equal(choices_record_text(part), "{\"record\": \"choices\", \"version\": 1, \"device\": \"other\"}\n");
  choices_record_free(part);
  const choices_row *rows = NULL;
  choices_expect_ok(choices_record_select(&part, record, "#1", "convolutions", &error), &error);
  assert_int_equal(choices_record_rows(part, &rows), 1);
  choices_record_free(part);
  choices_expect_error(choices_record_select(&part, record, "none", NULL, &error), &error, "E-CHOICE-007", "none");
  choices_record_free(record);
}

static void note(void *context, const choices_compared *c) {
  char *to = context;
  static const char *const marks[] = {"=", "!", "<", ">"};
  sprintf(to + strlen(to), "%s[%s] %s %s: %s | %s\n", marks[c->difference], c->device, c->kind, c->key,
          c->left ? c->left : "-", c->right ? c->right : "-");
}

static void compares(const char *left, const char *right, const char *expected, choices_comparison counts) {
  choices_error error;
  choices_comparison result;
  char told[2048] = "";
  choices_record *a = parse(left), *b = parse(right);
  choices_expect_ok(choices_record_compare(&result, a, b, note, told, &error), &error);
  assert_string_equal(told, expected);
  assert_int_equal(result.n_compared, counts.n_compared);
  assert_int_equal(result.n_differ, counts.n_differ);
  assert_int_equal(result.n_only_left, counts.n_only_left);
  assert_int_equal(result.n_only_right, counts.n_only_right);
  assert_int_equal(result.facts_differ, counts.facts_differ);
  choices_record_free(a);
  choices_record_free(b);
}

static void compared(void **state) {
  (void)state;
  compares(CUDA, CUDA, "", (choices_comparison){.n_compared = 5});
  compares(
      "{\"device\": \"a\", \"stacking\": 4, \"products\": {\"p\": \"split 8\", \"q\": \"x\"}, \"strict\": false}",
      "{\"device\": \"b\", \"stacking\": 1, \"products\": {\"q\": \"x\", \"r\": \"y\"}, \"strict\": true, \"zeta\": 1}",
      "![] device : a | b\n![] strict : false | true\n>[] zeta : - | 1\n"
      "<[] product p: split 8 | -\n>[] product r: - | y\n![] stacking : 4 | 1\n",
      (choices_comparison){.n_compared = 4, .n_differ = 1, .n_only_left = 1, .n_only_right = 1, .facts_differ = true});
  compares(
      "{\"device\": \"compute_80\", \"graph\": \"sha256:12\", \"stacking\": 2, \"convolutions\": {\"Weight\": \"engine "
      "47\"}}",
      STREAM, "![] stacking graph sha256:12 candidates 1 2 4: 2 | 4\n",
      (choices_comparison){.n_compared = 2, .n_differ = 1});
  compares(STREAM
           "{\"record\": \"choices\", \"version\": 1, \"device\": \"x\"}\n{\"record\": \"choice\", \"kind\": "
           "\"recompute\", \"key\": \"device\", \"value\": 9}",
           STREAM, "<[x] recompute device: 9 | -\n", (choices_comparison){.n_compared = 3, .n_only_left = 1});
}

static void key_members(void **state) {
  (void)state;
  static const struct {
    const char *key, *expected;
  } cases[] = {
      {"Weight Spec { batch: 512, kh: 3 } bf16", "role=Weight batch=512 kh=3 dtype=bf16 "},
      {"Product { batch: 1, a: n } f32", "role=Product batch=1 a=n dtype=f32 "},
      {"graph sha256:12 candidates 1 2 4", "graph=sha256:12 candidates=1 2 4 "},
      {"device", "key=device "},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    choices_member members[8];
    char room[128], text[256] = "";
    size_t n = choices_key_members(members, 8, room, sizeof room, cases[i].key);
    for (size_t k = 0; k < n; k++) sprintf(text + strlen(text), "%s=%s ", members[k].name, members[k].value);
    assert_string_equal(text, cases[i].expected);
  }
}

static void requests(void **state) {
  (void)state;
  choices_error error;
  choices_request request;
  choices_expect_ok(choices_request_parse(&request, NULL, &error), &error);
  assert_true(!request.record && !request.fresh);
  choices_expect_ok(choices_request_parse(&request, "fresh", &error), &error);
  assert_true(request.fresh && request.kinds == 0);
  choices_expect_ok(choices_request_parse(&request, "fresh:convolutions,stacking", &error), &error);
  assert_int_equal(request.kinds, 1u << 0 | 1u << 4);
  choices_expect_error(choices_request_parse(&request, "fresh:", &error), &error, "E-CHOICE-022", "\"\"");
  choices_expect_error(choices_request_parse(&request, "fresh:stacking,x", &error), &error, "E-CHOICE-022", "\"x\"");
  choices_expect_ok(choices_request_parse(&request, "runs/a/step-3", &error), &error);
  assert_string_equal(request.record, "runs/a/step-3");
  choices_expect_error(choices_request_check(&request, true, false, &error), &error, "E-CHOICE-002", "runs/a/step-3");
  choices_expect_ok(choices_request_check(&request, false, true, &error), &error);
  choices_expect_ok(choices_request_parse(&request, "fresh", &error), &error);
  choices_expect_ok(choices_request_check(&request, true, false, &error), &error);
  choices_expect_error(choices_request_check(&request, true, true, &error), &error, "E-CHOICE-002", "NODE_GRADIENTS");
}

static void files(void **state) {
  (void)state;
  choices_error error;
  choices_record *record = NULL;
  choices_expect_error(choices_record_read(&record, "/nonexistent/x", &error), &error, "E-CHOICE-008", "No such file");
  choices_expect_error(choices_record_read(&record, "s3://b/k", &error), &error, "E-CHOICE-009", "s3://b/k");
  choices_expect_error(choices_record_read(&record, "/", &error), &error, "E-CHOICE-008", "experiment.json");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(objects_print_back),
                                     cmocka_unit_test(canonical),
                                     cmocka_unit_test(probes),
                                     cmocka_unit_test(probes_of_streams),
                                     cmocka_unit_test(objects_in_other_records),
                                     cmocka_unit_test(streams_print_back),
                                     cmocka_unit_test(streams_keep_all),
                                     cmocka_unit_test(repeats_and_conflicts),
                                     cmocka_unit_test(malformed),
                                     cmocka_unit_test(levels_are_limited),
                                     cmocka_unit_test(made),
                                     cmocka_unit_test(selected),
                                     cmocka_unit_test(compared),
                                     cmocka_unit_test(key_members),
                                     cmocka_unit_test(requests),
                                     cmocka_unit_test(files)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
