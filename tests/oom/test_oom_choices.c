/* Fails the n-th allocation of reading, printing, comparing, merging and pinning records of choices, of the store and
 * of measuring, for every n: each time an error, or the result; and nothing is left. The calls below take the place of
 * libc's in this program; sanitizers have allocators of their own, and there nothing fails. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/choices.h"
#include "../common/choices_store.h"
#include "../common/cmocka_all.h"
#include "../common/scratch.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif

static long countdown; /* 0: none fails; 1: the next */
static long n_failed;
static atomic_long n_live;

#ifndef SANITIZED
static bool fails_now(void) {
  if (countdown == 0 || --countdown > 0) return false;
  n_failed++;
  errno = ENOMEM;
  return true;
}

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t item);
void *__libc_realloc(void *old, size_t n);
void __libc_free(void *old);
static void *counted(void *made) {
  n_live += made != NULL;
  return made;
}
void *malloc(size_t n) { return fails_now() ? NULL : counted(__libc_malloc(n)); }
void *calloc(size_t n, size_t item) { return fails_now() ? NULL : counted(__libc_calloc(n, item)); }
void *realloc(void *old, size_t n) {
  if (fails_now()) return NULL;
  return old ? __libc_realloc(old, n) : counted(__libc_realloc(old, n));
}
void free(void *old) {
  n_live -= old != NULL;
  __libc_free(old);
}
#endif

#define STREAM                                                                                                        \
  "{\"record\": \"choices\", \"version\": 1, \"device\": \"d\", \"libraries\": {\"b\": 1, \"a\": 2}, \"later\": 1}\n" \
  "{\"record\": \"choice\", \"kind\": \"product\", \"key\": \"p\", \"executable\": \"e\", \"value\": \"split 8\", "   \
  "\"later\": 2, "                                                                                                    \
  "\"candidates\": [{\"value\": \"split 8\", \"state\": \"rejected\", \"samples_ns\": [1, 2]}]}\n"                    \
  "{\"record\": \"choice\", \"kind\": \"recompute\", \"key\": \"device\", \"value\": 10.99}\n"                        \
  "{\"record\": \"cost\", \"key\": \"add\", \"time_ns\": 3}\n"
#define OBJECT                                                                                                        \
  "{\"device\": \"e\", \"stacking\": 2, \"products\": {\"p\": \"split 4\"}, \"later\": {\"b\": [1.5], \"a\": null}, " \
  "\"requires\": [\"stacking\"], \"strict\": false}"

/* What is tried; the status of what failed, or CHOICES_OK. */
typedef choices_status attempt(choices_error *error);

static void ignore(void *context, const choices_compared *compared) {
  (void)context;
  (void)compared;
}

static choices_status no_memory(choices_error *error) {
  *error = (choices_error){.status = CHOICES_IO, .code = "E-CHOICE-003"};
  return CHOICES_IO;
}

static choices_status records(choices_error *error) {
  choices_record *stream = NULL, *object = NULL, *part = NULL, *both = NULL;
  choices_comparison counts;
  char *text = NULL;
  choices_status status = choices_record_parse(&stream, "r", STREAM, strlen(STREAM), error);
  if (status == CHOICES_OK) status = choices_record_parse(&object, "r", OBJECT, strlen(OBJECT), error);
  if (status == CHOICES_OK) status = choices_record_measurements(&text, stream, error);
  if (status == CHOICES_OK && !choices_record_digest(stream)) status = no_memory(error);
  if (status == CHOICES_OK) status = choices_record_select(&part, stream, "d", "products", error);
  if (status == CHOICES_OK) status = choices_record_merge(&both, stream, part, CHOICES_CONFLICT_KEEP, error);
  if (status == CHOICES_OK) status = choices_record_compare(&counts, both, object, ignore, NULL, error);
  free(text);
  choices_record_free(stream);
  choices_record_free(object);
  choices_record_free(part);
  choices_record_free(both);
  return status;
}

static choices_status making(choices_error *error) {
  const choices_row rows[] = {{.kind = "product", .key = "p", .value = "split 8"},
                              {.kind = "stacking", .key = "", .value = "4", .is_json = true}};
  const choices_object facts = {.device = "d", .graph = "g", .numerics = 1};
  choices_record *record = NULL;
  choices_status status = choices_record_make(&record, &facts, rows, 2, NULL, 0, error);
  if (status == CHOICES_OK && !choices_record_digest(record)) status = no_memory(error);
  choices_record_free(record);
  return status;
}

/* A refusal is the longest way. */
static choices_status pinning(choices_error *error) {
  const char *const offers[] = {"1", "4"};
  const choices_device here = {.device = "h"};
  const choices_need needs[] = {{.kind = "stacking", .key = "graph g", .offers = offers, .n_offers = 2},
                                {.kind = "product", .key = "p", .offers = offers, .n_offers = 2}};
  choices_record *record = NULL;
  choices_pins *pins = NULL;
  choices_status status = choices_record_parse(&record, "r", OBJECT, strlen(OBJECT), error);
  const choices_pinning asked = {.record = record, .device = &here, .needs = needs, .n_needs = 2};
  if (status == CHOICES_OK) status = choices_pin(&pins, &asked, error);
  if (status == CHOICES_REFUSED) {
    assert_non_null(choices_pins_refusal(pins));
    assert_non_null(choices_pins_refusal_json(pins));
    status = CHOICES_OK;
  }
  choices_pins_free(pins);
  choices_record_free(record);
  return status;
}

static choices_status storing(choices_error *error) {
  choices_record *record = NULL, *found = NULL, *all = NULL;
  choices_store *store = NULL;
  choices_imported counts;
  int64_t time_ns = 0;
  bool rejected = false;
  size_t n = 0;
  const choices_row row = {.value = "engine 1", .ahead = -1};
  const choices_store_options options = {.path = scratch("oom.db"), .access = CHOICES_WRITE};
  choices_status status = choices_record_parse(&record, "r", STREAM, strlen(STREAM), error);
  if (status == CHOICES_OK) status = choices_store_open(&store, &options, error);
  if (status == CHOICES_OK) status = choices_store_import(&counts, store, record, CHOICES_CONFLICT_REPLACE, error);
  if (status == CHOICES_OK) status = choices_store_decide(&found, store, &store_test_engine, &row, error);
  if (status == CHOICES_OK) status = choices_store_is_rejected(&rejected, store, &store_test_engine, "engine 1", error);
  if (status == CHOICES_OK) status = choices_store_keep_cost(&time_ns, store, &store_test_device, "add", 3, error);
  if (status == CHOICES_OK) status = choices_store_record(&all, store, &(choices_filter){0}, true, error);
  if (status == CHOICES_OK) status = choices_store_remove(&n, store, &(choices_removal){.older_than = "2020"}, error);
  choices_record_free(record);
  choices_record_free(found);
  choices_record_free(all);
  choices_store_close(store);
  return status;
}

static choices_ran run(void *context, size_t i) {
  (void)context;
  (void)i;
  return CHOICES_RAN;
}
static choices_ran probe(void *context, size_t i, uint64_t *digest) {
  (void)context;
  *digest = i;
  return CHOICES_RAN;
}
static int64_t now_ns(void *context) { return ++*(int64_t *)context; }

static choices_status measuring(choices_error *error) {
  static const char *const values[] = {"engine 0", "engine 1"};
  int64_t clock = 0;
  choices_decision decision;
  const choices_measuring asked = {.key = &store_test_engine,
                                   .values = values,
                                   .n_values = 2,
                                   .run = run,
                                   .probe = probe,
                                   .now_ns = now_ns,
                                   .context = &clock};
  choices_status status = choices_measure(&decision, NULL, &asked, error);
  choices_decision_free(&decision);
  return status;
}

/* Until an n that is not reached. jansson and SQLite go on without some of what they ask for, so that a failed
 * allocation may also leave all well; and jansson calls a token that it has no memory for malformed. */
static void fail_each(attempt *try, bool has_store) {
  long n = 1, n_errors = 0;
#ifdef SANITIZED
  choices_error once;
  assert_int_equal(try(&once), CHOICES_OK);
  return;
#endif
  for (;; n++) {
    choices_error error = {.code = ""};
    if (has_store) scratch_empty();
    long before = n_live;
    n_failed = 0;
    countdown = n;
    choices_status status = try(&error);
    countdown = 0;
    if (n_live != before) print_error("allocation %ld: %ld left\n", n, n_live - before);
    assert_int_equal(n_live, before);
    if (n_failed == 0) {
      assert_int_equal(status, CHOICES_OK);
      break;
    }
    n_errors += status != CHOICES_OK;
    bool said = strcmp(error.code, "E-CHOICE-003") == 0 || strcmp(error.code, "E-CHOICE-004") == 0;
    if (status != CHOICES_OK && !has_store && !said)
      print_error("allocation %ld: %s %s\n", n, error.code, error.message);
    if (status != CHOICES_OK && !has_store) assert_true(said);
    if (status != CHOICES_OK) assert_true(error.code[0] == 'E');
  }
  assert_true(n > 2 && n_errors > n / 2);
}

static void in_records(void **state) {
  (void)state;
  fail_each(records, false);
}
static void in_making(void **state) {
  (void)state;
  fail_each(making, false);
}
static void in_pinning(void **state) {
  (void)state;
  fail_each(pinning, false);
}
static void in_measuring(void **state) {
  (void)state;
  fail_each(measuring, false);
}
static void in_the_store(void **state) {
  (void)state;
  fail_each(storing, true);
}

int main(void) {
  choices_error error;
  const struct CMUnitTest tests[] = {cmocka_unit_test(in_records), cmocka_unit_test(in_making),
                                     cmocka_unit_test(in_pinning), cmocka_unit_test(in_measuring),
                                     cmocka_unit_test(in_the_store)};
  if (scratch_setup(NULL) != 0 || storing(&error) != CHOICES_OK) return 1; /* libraries take what they keep */
  measuring(&error), records(&error);
  return cmocka_run_group_tests(tests, NULL, scratch_teardown);
}
