#include "choices_store.h"

#include <stdlib.h>
#include <string.h>

#include "choices.h"
#include "cmocka_all.h"
#include "scratch.h"

const choices_device store_test_device = {.device = "compute_90 with 132 multiprocessors",
                                          .gpu = "NVIDIA H200",
                                          .libraries = "{\"nvrtc\": \"13.0\", \"cublas\": 130101}",
                                          .driver = 13000,
                                          .capability = 90,
                                          .multiprocessors = 132};
const choices_executable store_test_executable = {.build_id = "abcd", .n_bytes = 5, .modified_s = 6};
const choices_key store_test_product = {.device = &store_test_device,
                                        .kind = "products",
                                        .key = "Product { m: 1 } f32",
                                        .executable = &store_test_executable};
const choices_key store_test_engine = {
    .device = &store_test_device, .kind = "convolution", .key = "Weight Spec { batch: 1 } bf16"};

choices_store *store_test_open(const char *name, choices_access access) {
  choices_error error;
  choices_store *store = NULL;
  const choices_store_options options = {.path = scratch("%s", name), .access = access, .busy_ms = 5000};
  choices_expect_ok(choices_store_open(&store, &options, &error), &error);
  return store;
}

void store_test_refuses(const char *name, choices_access access, const char *code, const char *word) {
  choices_error error;
  choices_store *store = NULL;
  const choices_store_options options = {.path = scratch("%s", name), .access = access, .busy_ms = 50};
  choices_expect_error(choices_store_open(&store, &options, &error), &error, code, word);
  assert_null(store);
}

/* What a key has now: "" for nothing. */
void store_test_has(choices_store *store, const choices_key *key, const char *value, const char *origin) {
  choices_error error;
  choices_record *record = NULL;
  const choices_row *rows = NULL;
  choices_expect_ok(choices_store_lookup(&record, store, key, &error), &error);
  if (!value) {
    assert_null(record);
    return;
  }
  assert_non_null(record);
  assert_int_equal(choices_record_rows(record, &rows), 1);
  assert_string_equal(rows[0].value, value);
  assert_string_equal(rows[0].origin, origin);
  choices_record_free(record);
}

void store_test_decide(choices_store *store, const choices_key *key, const char *value, const char *then) {
  choices_error error;
  choices_record *record = NULL;
  const choices_row row = {.value = value, .reason = "ahead", .ahead = 0.072, .bits = CHOICES_BITS_MOVE}, *rows = NULL;
  choices_expect_ok(choices_store_decide(&record, store, key, &row, &error), &error);
  choices_record_rows(record, &rows);
  assert_string_equal(rows[0].value, then);
  choices_record_free(record);
}

char *store_test_export(choices_store *store, bool measurements) {
  choices_error error;
  choices_record *record = NULL;
  char *text = NULL;
  choices_expect_ok(choices_store_record(&record, store, &(choices_filter){0}, measurements, &error), &error);
  if (measurements)
    choices_expect_ok(choices_record_measurements(&text, record, &error), &error);
  else
    text = strdup(choices_record_text(record));
  choices_record_free(record);
  return text;
}

choices_status store_test_import(choices_store *store, const char *text, choices_conflict conflict,
                                 choices_imported *counts, choices_error *error) {
  choices_record *record = NULL;
  choices_expect_ok(choices_record_parse(&record, "r", text, strlen(text), error), error);
  choices_status status = choices_store_import(counts, store, record, conflict, error);
  choices_record_free(record);
  return status;
}

uint64_t store_test_draw(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return *state >> 33;
}

int store_test_empty(void **state) {
  (void)state;
  scratch_empty();
  return 0;
}
