/* The store of choices: made, looked up, decided, imported, exported, emptied. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../../libchoices/memory.h"
#include "../common/choices.h"
#include "../common/choices_store.h"
#include "../common/cmocka_all.h"
#include "../common/scratch.h"

/* ---- made and used
 * --------------------------------------------------------------------------------------------------- */

static void made_and_used(void **state) {
  (void)state;
  struct stat facts;
  choices_error error;
  choices_store_facts looked;
  choices_store *store = store_test_open("a/b/choices.db", CHOICES_USE);
  assert_int_equal(stat(scratch("a/b"), &facts), 0);
  assert_int_equal(facts.st_mode & 0777, 0700);
  assert_int_equal(stat(scratch("a/b/choices.db"), &facts), 0);
  assert_int_equal(facts.st_mode & 0777, 0600);
  store_test_has(store, &store_test_product, NULL, NULL);
  store_test_decide(store, &store_test_product, "split 8", "split 8");
  store_test_decide(store, &store_test_product, "ordinary", "split 8"); /* the first stays */
  store_test_decide(store, &store_test_engine, "engine 47", "engine 47");
  choices_store_close(store);
  store = store_test_open("a/b/choices.db", CHOICES_READ);
  store_test_has(store, &store_test_product, "split 8", "user");
  store_test_has(store, &store_test_engine, "engine 47", "user");
  choices_expect_ok(choices_store_look(&looked, store, &error), &error);
  assert_false(looked.writable);
  assert_string_equal(looked.journal, "wal");
  assert_int_equal(looked.n_choices, 2);
  assert_int_equal(looked.n_devices, 1);
  assert_int_equal(looked.version, 2);
  char *text = store_test_export(store, false);
  assert_string_equal(text,
                      "{\"record\": \"choices\", \"version\": 1, \"device\": \"compute_90 with 132 multiprocessors\", "
                      "\"gpu\": \"NVIDIA H200\", "
                      "\"driver\": 13000, "
                      "\"libraries\": {\"cublas\": 130101, \"nvrtc\": \"13.0\"}, \"compute_capability\": 90, "
                      "\"multiprocessors\": 132}\n"
                      "{\"record\": \"choice\", \"kind\": \"convolution\", \"key\": \"Weight Spec { batch: 1 } bf16\", "
                      "\"value\": \"engine "
                      "47\"}\n"
                      "{\"record\": \"choice\", \"kind\": \"product\", \"key\": \"Product { m: 1 } f32\", "
                      "\"executable\": \"build-id abcd\", "
                      "\"value\": \"split 8\"}\n");
  free(text);
  choices_store_close(store);
  store = store_test_open("none.db", CHOICES_READ);
  text = store_test_export(store, false);
  assert_string_equal(text, "{\"record\": \"choices\", \"version\": 1}\n");
  free(text);
  choices_store_close(store);
  assert_false(scratch_has(scratch("none.db")));
}

/* Every field of a key, changed: a miss; or its reason. */
static void each_field_of_a_key_counts(void **state) {
  (void)state;
  choices_store *store = store_test_open("key.db", CHOICES_USE);
  store_test_decide(store, &store_test_product, "split 8", "split 8");
  enum { DEVICE, GPU, LIBRARIES, DRIVER, CAPABILITY, MULTIPROCESSORS, KIND, KEY, BUILD_ID, N_BYTES, MODIFIED, MODE, N };
  static const struct {
    int field;
    const char *exempt; /* why a change is no miss */
  } fields[] = {
      {DEVICE, NULL},
      {GPU, "equal silicon is sold under several names"},
      {LIBRARIES, NULL},
      {DRIVER, NULL},
      {CAPABILITY, NULL},
      {MULTIPROCESSORS, NULL},
      {KIND, NULL},
      {KEY, NULL},
      {BUILD_ID, NULL},
      {N_BYTES, "the build-id identifies the executable"},
      {MODIFIED, "the build-id identifies the executable, and copies have other times"},
      {MODE, NULL},
  };
  assert_int_equal(sizeof fields / sizeof *fields, N);
  /* A field that is added to one of these must get a row above. */
  assert_int_equal(sizeof(choices_device), 3 * sizeof(char *) + 3 * sizeof(int64_t));
  assert_int_equal(sizeof(choices_executable), sizeof(char *) + 2 * sizeof(int64_t));
  assert_int_equal(sizeof(choices_key), 5 * sizeof(void *));
  for (size_t i = 0; i < N; i++) {
    choices_device d = store_test_device;
    choices_executable e = store_test_executable;
    choices_key k = store_test_product;
    k.device = &d;
    k.executable = &e;
    if (fields[i].field == DEVICE) d.device = "compute_90 with 131 multiprocessors";
    if (fields[i].field == GPU) d.gpu = "NVIDIA GH200";
    if (fields[i].field == LIBRARIES) d.libraries = "{\"nvrtc\": \"13.0\", \"cublas\": 130102}";
    if (fields[i].field == DRIVER) d.driver++;
    if (fields[i].field == CAPABILITY) d.capability++;
    if (fields[i].field == MULTIPROCESSORS) d.multiprocessors++;
    if (fields[i].field == KIND) k.kind = "attention";
    if (fields[i].field == KEY) k.key = "Product { m: 2 } f32";
    if (fields[i].field == BUILD_ID) e.build_id = "abce";
    if (fields[i].field == N_BYTES) e.n_bytes++;
    if (fields[i].field == MODIFIED) e.modified_s++;
    if (fields[i].field == MODE) k.mode = "optimize off";
    store_test_has(store, &k, fields[i].exempt ? "split 8" : NULL, "user");
  }
  /* Without a build-id the size and the time are the identity. */
  choices_executable plain = {.n_bytes = 5, .modified_s = 6};
  choices_key by_size = store_test_product;
  by_size.executable = &plain;
  store_test_decide(store, &by_size, "split 4", "split 4");
  plain.n_bytes++;
  store_test_has(store, &by_size, NULL, NULL);
  plain = (choices_executable){.n_bytes = 5, .modified_s = 7};
  store_test_has(store, &by_size, NULL, NULL);
  /* An engine is cuDNN's, whatever executable asks for it. */
  choices_key other = store_test_engine;
  other.executable = &plain;
  store_test_decide(store, &store_test_engine, "engine 1", "engine 1");
  store_test_has(store, &other, "engine 1", "user");
  choices_store_close(store);
}

#define CONVOLUTION                                                                                                \
  "Weight Spec { batch: 512, height: 8, width: 8, channels: 256, kh: 3, kw: 3, out: 512, stride: 1, padding: 1 } " \
  "bf16"

/* Every member of a key's text is part of the text. */
static void each_member_of_a_text_counts(void **state) {
  (void)state;
  static const char *const texts[] = {CONVOLUTION, "Product { batch: 1, m: 768, n: 3072, k: 65536, a: n, b: t } f32",
                                      "graph sha256:12 candidates 1 2 4"};
  choices_store *store = store_test_open("text.db", CHOICES_USE);
  for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
    choices_key key = store_test_engine;
    key.key = texts[t];
    store_test_decide(store, &key, "engine 1", "engine 1");
    choices_member members[16];
    char room[256], changed[300];
    size_t n = choices_key_members(members, 16, room, sizeof room, texts[t]);
    assert_true(n >= 2 && n <= 16);
    for (size_t i = 0; i < n; i++) {
      size_t at = (size_t)(members[i].value - room);
      snprintf(changed, sizeof changed, "%.*s9%s", (int)at, texts[t], texts[t] + at);
      key.key = changed;
      store_test_has(store, &key, NULL, NULL);
    }
  }
  choices_store_close(store);
}

static void rejected_for_good(void **state) {
  (void)state;
  choices_error error;
  bool rejected = true;
  size_t n = 0;
  choices_record *record = NULL;
  choices_store *store = store_test_open("rejected.db", CHOICES_USE);
  const choices_candidate candidates[] = {{.value = "engine 1", .state = CHOICES_REJECTED},
                                          {.value = "engine 2", .has_probe = true, .probe = 255}};
  const choices_row row = {.value = "engine 2", .ahead = -1, .candidates = candidates, .n_candidates = 2};
  choices_expect_ok(choices_store_is_rejected(&rejected, store, &store_test_engine, "engine 1", &error), &error);
  assert_false(rejected);
  choices_expect_ok(choices_store_decide(&record, store, &store_test_engine, &row, &error), &error);
  choices_record_free(record);
  char *text = store_test_export(store, true);
  assert_non_null(
      strstr(text,
             "{\"value\": \"engine 1\", \"state\": \"rejected\", \"samples_ns\": []}, {\"value\": \"engine 2\", "
             "\"state\": \"measured\", \"probe\": \"00000000000000ff\", \"samples_ns\": []}"));
  free(text);
  choices_expect_ok(choices_store_remove(&n, store, &(choices_removal){0}, &error), &error);
  assert_int_equal(n, 1);
  choices_expect_ok(choices_store_is_rejected(&rejected, store, &store_test_engine, "engine 1", &error), &error);
  assert_true(rejected);
  choices_expect_ok(choices_store_is_rejected(&rejected, store, &store_test_engine, "engine 2", &error), &error);
  assert_false(rejected);
  choices_store_close(store);
}

static void costs(void **state) {
  (void)state;
  choices_error error;
  int64_t time_ns = 0;
  choices_store *store = store_test_open("cost.db", CHOICES_USE);
  choices_expect_ok(choices_store_cost(&time_ns, store, &store_test_device, "add", &error), &error);
  assert_int_equal(time_ns, -1);
  choices_expect_ok(choices_store_keep_cost(&time_ns, store, &store_test_device, "add", 12, &error), &error);
  assert_int_equal(time_ns, 12);
  choices_expect_ok(choices_store_keep_cost(&time_ns, store, &store_test_device, "add", 13, &error), &error);
  assert_int_equal(time_ns, 12);
  choices_device other = store_test_device;
  other.driver++;
  choices_expect_ok(choices_store_cost(&time_ns, store, &other, "add", &error), &error);
  assert_int_equal(time_ns, -1);
  char *text = store_test_export(store, true);
  assert_non_null(strstr(text, "{\"record\": \"cost\", \"key\": \"add\", \"time_ns\": 12}\n"));
  free(text);
  choices_store_close(store);
}

static void layers(void **state) {
  (void)state;
  choices_error error;
  choices_store *store = store_test_open("system.db", CHOICES_USE);
  int64_t time_ns = 0;
  store_test_decide(store, &store_test_product, "split 2", "split 2");
  store_test_decide(store, &store_test_engine, "engine 2", "engine 2");
  choices_expect_ok(choices_store_keep_cost(&time_ns, store, &store_test_device, "add", 12, &error), &error);
  choices_store_close(store);
  char *system = strdup(scratch("system.db"));
  const choices_store_options options = {.path = scratch("user.db"), .system_path = system};
  choices_expect_ok(choices_store_open(&store, &options, &error), &error);
  store_test_has(store, &store_test_product, "split 2", "system");
  store_test_decide(store, &store_test_product, "split 8", "split 8");
  store_test_has(store, &store_test_product, "split 8", "user");
  store_test_has(store, &store_test_engine, "engine 2", "system");
  choices_expect_ok(choices_store_cost(&time_ns, store, &store_test_device, "add", &error), &error);
  assert_int_equal(time_ns, 12);
  choices_record *record = NULL;
  const choices_row *rows = NULL;
  choices_expect_ok(choices_store_record(&record, store, &(choices_filter){0}, true, &error), &error);
  assert_int_equal(choices_record_rows(record, &rows), 2);
  assert_string_equal(rows[0].origin, "system");
  assert_string_equal(rows[1].value, "split 8");
  choices_record_free(record);
  choices_store_close(store);
  /* One that cannot be read is done without, and said. */
  choices_store_facts looked;
  const choices_store_options missing = {.path = scratch("user.db"), .system_path = "/nonexistent/choices.db"};
  choices_expect_ok(choices_store_open(&store, &missing, &error), &error);
  choices_expect_ok(choices_store_look(&looked, store, &error), &error);
  assert_string_equal(looked.warning.code, "E-CHOICE-010");
  assert_null(looked.system_path);
  store_test_has(store, &store_test_engine, NULL, NULL);
  choices_store_close(store);
  free(system);
}

/* ---- imports
 * ------------------------------------------------------------------------------------------------------------ */

#define HEADER "{\"record\": \"choices\", \"version\": 1, \"device\": \"d\", \"gpu\": \"g\"}\n"
#define ROW(key, value) \
  "{\"record\": \"choice\", \"kind\": \"product\", \"key\": \"" key "\", \"value\": \"" value "\"}\n"

static void conflicts(void **state) {
  (void)state;
  choices_error error;
  choices_imported counts;
  choices_store *store = store_test_open("import.db", CHOICES_WRITE);
  choices_expect_ok(
      store_test_import(store, HEADER ROW("a", "1") ROW("b", "2"), CHOICES_CONFLICT_REFUSE, &counts, &error), &error);
  assert_int_equal(counts.n_added, 2);
  choices_expect_error(store_test_import(store, HEADER ROW("0", "9") ROW("a", "1") ROW("b", "3"),
                                         CHOICES_CONFLICT_REFUSE, &counts, &error),
                       &error, "E-CHOICE-017", "b is 2 in the store and 3 in the record");
  char *text = store_test_export(store, false); /* all or nothing */
  assert_string_equal(text, HEADER ROW("a", "1") ROW("b", "2"));
  free(text);
  choices_expect_ok(
      store_test_import(store, HEADER ROW("a", "1") ROW("b", "3"), CHOICES_CONFLICT_KEEP, &counts, &error), &error);
  assert_int_equal(counts.n_same, 1);
  assert_int_equal(counts.n_kept, 1);
  choices_expect_ok(
      store_test_import(store, HEADER ROW("b", "3") ROW("c", "4"), CHOICES_CONFLICT_REPLACE, &counts, &error), &error);
  assert_int_equal(counts.n_replaced, 1);
  assert_int_equal(counts.n_added, 1);
  text = store_test_export(store, false);
  assert_string_equal(text, HEADER ROW("a", "1") ROW("b", "3") ROW("c", "4"));
  free(text);
  choices_expect_error(store_test_import(store, "{\"device\": \"d\", \"products\": {\"a\": \"2\"}}",
                                         CHOICES_CONFLICT_REFUSE, &counts, &error),
                       &error, "E-CHOICE-007", "--choices");
  choices_store_close(store);
}

/* A random export, with every member that there is. */
static char *random_stream(uint64_t seed) {
  uint64_t s = seed;
  ch_text text = {0};
  size_t n_devices = 1 + store_test_draw(&s) % 3;
  for (size_t d = 0; d < n_devices; d++) {
    ch_text_format(&text, "{\"record\": \"choices\", \"version\": 1, \"device\": \"d%zu\\u00e9\\n\"", d);
    if (store_test_draw(&s) % 2) ch_text_add(&text, ", \"gpu\": \"g\\\"\"");
    if (store_test_draw(&s) % 2) ch_text_format(&text, ", \"driver\": %d", (int)(store_test_draw(&s) % 3));
    if (store_test_draw(&s) % 2)
      ch_text_format(&text, ", \"libraries\": {\"b\": %d, \"a\": \"x\"}", (int)(store_test_draw(&s) % 3));
    if (store_test_draw(&s) % 2) ch_text_add(&text, ", \"unknown\": [1.5, {\"z\": null, \"a\": 1e300}]");
    ch_text_add(&text, "}\n");
    for (size_t i = store_test_draw(&s) % 12; i-- > 0;) {
      bool number = store_test_draw(&s) % 2;
      ch_text_format(&text, "{\"record\": \"choice\", \"kind\": \"%s\", \"key\": \"k%zu\", ",
                     number ? "recompute" : "product", i);
      if (store_test_draw(&s) % 2) ch_text_add(&text, "\"executable\": \"e\", ");
      if (store_test_draw(&s) % 2) ch_text_add(&text, "\"mode\": \"optimize off\", ");
      if (store_test_draw(&s) % 2)
        ch_text_add(&text, "\"bits\": \"moves\", \"ahead\": 0.1, \"measured\": \"2026\", \"reason\": \"r\", ");
      if (store_test_draw(&s) % 2) ch_text_format(&text, "\"later\": {\"v\": %d}, ", (int)(store_test_draw(&s) % 9));
      if (number)
        ch_text_format(&text, "\"value\": %.17g", (double)store_test_draw(&s) / 7);
      else
        ch_text_format(&text, "\"value\": \"split %d\"", (int)(store_test_draw(&s) % 9));
      for (size_t c = 0, n = store_test_draw(&s) % 3; c < n; c++)
        ch_text_format(&text, "%s{\"value\": %s, \"state\": \"%s\", \"samples_ns\": [%d]}%s",
                       c ? ", " : ", \"candidates\": [", number ? "1" : "\"x\"", c ? "rejected" : "measured",
                       (int)store_test_draw(&s), c + 1 == n ? "]" : "");
      ch_text_add(&text, "}\n");
    }
    if (store_test_draw(&s) % 2) ch_text_add(&text, "{\"record\": \"cost\", \"key\": \"add\", \"time_ns\": 3}\n");
  }
  return ch_text_take(&text);
}

static void export_import_export(void **state) {
  (void)state;
  int n_rows = 0;
  for (uint64_t seed = 1; seed <= 60; seed++) {
    choices_error error;
    choices_imported counts;
    choices_record *record = NULL;
    char *random = random_stream(seed), *first, *second;
    if (choices_record_parse(&record, "r", random, strlen(random), &error) != CHOICES_OK) {
      assert_string_equal(error.code, "E-CHOICE-017"); /* two headers came out as one device */
      free(random);
      continue;
    }
    choices_record_free(record);
    choices_store *a = store_test_open("one.db", CHOICES_WRITE), *b = store_test_open("two.db", CHOICES_WRITE);
    choices_expect_ok(store_test_import(a, random, CHOICES_CONFLICT_REFUSE, &counts, &error), &error);
    n_rows += (int)counts.n_added;
    first = store_test_export(a, true);
    choices_expect_ok(store_test_import(b, first, CHOICES_CONFLICT_REFUSE, &counts, &error), &error);
    second = store_test_export(b, true);
    assert_string_equal(first, second);
    choices_expect_ok(store_test_import(b, first, CHOICES_CONFLICT_REFUSE, &counts, &error), &error);
    assert_int_equal(counts.n_added, 0);
    choices_store_close(a);
    choices_store_close(b);
    free(random);
    free(first);
    free(second);
    scratch_empty();
  }
  assert_true(n_rows > 300);
}

static void removed(void **state) {
  (void)state;
  static const char text[] = HEADER
      "{\"record\": \"choice\", \"kind\": \"product\", \"key\": \"a\", \"executable\": \"build-id 1\", \"value\": "
      "\"1\", \"measured\": \"2026-01-01T00:00:00Z\"}\n"
      "{\"record\": \"choice\", \"kind\": \"product\", \"key\": \"b\", \"executable\": \"build-id 2\", \"value\": "
      "\"1\", \"measured\": \"2026-06-01T00:00:00Z\"}\n"
      "{\"record\": \"choice\", \"kind\": \"convolution\", \"key\": \"a\", \"value\": \"1\"}\n"
      "{\"record\": \"cost\", \"key\": \"x\", \"time_ns\": 1}\n";
  static const char *const executables[] = {"build-id 2"};
  static const struct {
    choices_removal removal;
    size_t n;
    const char *left;
  } cases[] = {
      {{.filter = {.kind = "products", .key = "a"}}, 1, "build-id 2"},
      {{.filter = {.key = "a"}}, 2, "build-id 2"},
      {{.older_than = "2026-03-01"}, 1, "build-id 2"},
      {{.executables = executables, .n_executables = 1}, 1, "build-id 2"},
      {{.filter = {.device = "d"}}, 3, ""},
      {{.filter = {.device = "other"}}, 0, "build-id 1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    choices_error error;
    choices_imported counts;
    size_t n = 99;
    choices_store *store = store_test_open("remove.db", CHOICES_WRITE);
    choices_expect_ok(store_test_import(store, text, CHOICES_CONFLICT_REPLACE, &counts, &error), &error);
    choices_expect_ok(choices_store_remove(&n, store, &cases[i].removal, &error), &error);
    assert_int_equal(n, cases[i].n);
    char *after = store_test_export(store, true);
    assert_non_null(strstr(after, cases[i].left));
    if (!cases[i].left[0]) assert_string_equal(after, "{\"record\": \"choices\", \"version\": 1}\n");
    free(after);
    choices_store_close(store);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(made_and_used, store_test_empty),
      cmocka_unit_test_setup(each_field_of_a_key_counts, store_test_empty),
      cmocka_unit_test_setup(each_member_of_a_text_counts, store_test_empty),
      cmocka_unit_test_setup(rejected_for_good, store_test_empty),
      cmocka_unit_test_setup(costs, store_test_empty),
      cmocka_unit_test_setup(layers, store_test_empty),
      cmocka_unit_test_setup(conflicts, store_test_empty),
      cmocka_unit_test_setup(export_import_export, store_test_empty),
      cmocka_unit_test_setup(removed, store_test_empty),
  };
  return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
