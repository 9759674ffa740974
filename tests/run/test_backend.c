/* Runs on a device that does not share the host's memory: the CPU's bits, whatever is recorded, sampled or observed,
 * and after every failure the state of the last whole step. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/moderate.h"
#include "../common/strict_device.h"
#include "../common/transcript.h"

static const char *const runs[] = {"images", "text", "made"};
enum { N_RUNS = sizeof runs / sizeof *runs };

static char *transcript(const char *run, const sexp_run_options *run_options) {
  memory_host files = {0};
  sexp_options options = SEXP_OPTIONS_DEFAULT;
  options.run = run;
  moderate_add(&files);
  return transcript_of(&files, MODERATE_PATH, &options, run_options);
}

static sexp_run_options settings(strict_device *device) {
  sexp_run_options options = SEXP_RUN_OPTIONS_DEFAULT;
  options.threads = 1;
  options.device = device ? strict_device_of(device) : NULL;
  return options;
}

static void assert_same(const char *expected, const char *got, const char *what) {
  char difference[TRANSCRIPT_DIFFERENCE];
  if (!transcript_same(difference, expected, got)) fail_msg("%s differs:\n%s", what, difference);
}

typedef struct way {
  const char *what;
  int64_t digest_every, digest_nodes_at;
  bool reads_ahead, keeps_no_sequences;
} way;

static void compare(const char *run, const way *w) {
  strict_device *device = strict_device_open();
  sexp_run_options options = settings(NULL);
  options.digest_every = w->digest_every;
  options.digest_nodes_at = w->digest_nodes_at;
  char *expected = transcript(run, &options);
  options.device = strict_device_of(device);
  options.reads_ahead = w->reads_ahead;
  if (w->keeps_no_sequences) strict_device_keep_no_sequences(device);
  char *got = transcript(run, &options);
  assert_same(expected, got, w->what);
  free(expected);
  free(got);
  if (w->digest_every != 1 && !w->keeps_no_sequences) assert_true(strict_device_counts(device)->n_replayed > 0);
  strict_device_close(device);
}

static void test_a_device_has_the_bits_of_the_cpu(void **state) {
  static const way ways[] = {{"a device", 0, 0, true, false},
                             {"digests of every step", 1, 0, true, false},
                             {"digests of some steps", 3, 0, true, false},
                             {"reading on demand", 0, 0, false, false},
                             {"without sequences", 0, 0, true, true},
                             {"digests of nodes", 0, 2, true, false}};
  (void)state;
  for (int r = 0; r < N_RUNS; r++)
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) compare(runs[r], &ways[i]);
}

/* ---- failures ---- */

enum { MOST_STEPS = 16 };

typedef struct fixture {
  memory_host files;
  sexp_host host;
  sexp_program *program;
  sexp_messages *messages;
  sexp_run *run;
  strict_device *device;
  uint64_t after[MOST_STEPS + 1]; /* digests of the tensors after each step */
  int64_t n_steps;
} fixture;

static void open_run(fixture *f, strict_device *device, sexp_status expected) {
  sexp_run_options options = settings(device);
  sexp_status status = sexp_run_new(&f->run, &f->messages, f->program, &options, &f->host);
  if (status != expected)
    fail_msg("%s", sexp_messages_count(f->messages) ? sexp_messages_get(f->messages, 0)->text : "no message");
}

static void close_run(fixture *f) {
  sexp_run_free(f->run);
  sexp_messages_free(f->messages);
  f->run = NULL;
  f->messages = NULL;
}

static uint64_t digest(const sexp_run *run) {
  const sexp_tensor *tensors;
  size_t n = sexp_run_tensors(run, &tensors);
  uint64_t hash = 0xcbf29ce484222325u;
  assert_true(n > 0);
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < tensors[i].n_bytes; k++)
      hash = (hash ^ ((const unsigned char *)tensors[i].bytes)[k]) * 0x100000001b3u;
  return hash;
}

static fixture *compile(const char *run) {
  fixture *f = test_calloc(1, sizeof *f);
  sexp_options options = SEXP_OPTIONS_DEFAULT;
  options.run = run;
  moderate_add(&f->files);
  f->host = memory_host_callbacks(&f->files);
  assert_int_equal(sexp_compile(&f->program, &f->messages, MODERATE_PATH, &options, &f->host), SEXP_OK);
  sexp_step step;
  open_run(f, NULL, SEXP_OK);
  f->after[0] = digest(f->run);
  while (sexp_run_step(f->run, &step, &f->messages) == SEXP_OK) f->after[++f->n_steps] = digest(f->run);
  close_run(f);
  return f;
}

static void end(fixture *f) {
  sexp_program_free(f->program);
  test_free(f);
}

static void test_memory_that_lacks_at_the_beginning(void **state) {
  (void)state;
  fixture *f = compile("images");
  int n_refused = 0;
  for (int64_t room = 0;; room += 800) {
    strict_device *device = strict_device_open();
    strict_device_set_room(device, room);
    sexp_run_options options = settings(device);
    sexp_status status = sexp_run_new(&f->run, &f->messages, f->program, &options, &f->host);
    if (status != SEXP_OK) {
      assert_int_equal(status, SEXP_DEVICE);
      assert_string_equal(sexp_messages_get(f->messages, 0)->code, "E-DEVICE-050");
      n_refused++;
    }
    close_run(f);
    strict_device_close(device);
    if (status == SEXP_OK) break;
  }
  assert_true(n_refused > 10);
  end(f);
}

/* False: the run came to its end before. Of an update that memory lacked for, which may be done in part, there are no
 * tensors; else they are counted. */
static bool fail_at(fixture *f, strict_failure failure, int64_t n, int *n_kept) {
  sexp_step step;
  sexp_position position;
  sexp_status status;
  strict_device *device = strict_device_open();
  open_run(f, device, SEXP_OK);
  strict_device_fail(device, failure, n);
  while ((status = sexp_run_step(f->run, &step, &f->messages)) == SEXP_OK) {
  }
  if (status != SEXP_END) {
    const sexp_tensor *tensors;
    assert_int_equal(status, SEXP_DEVICE);
    assert_int_equal(sexp_run_step(f->run, &step, &f->messages), SEXP_DEVICE);
    sexp_run_position(f->run, &position);
    bool kept = sexp_run_tensors(f->run, &tensors) > 0;
    assert_true(!kept || (failure == STRICT_FAILS_MEMORY && digest(f->run) == f->after[position.step]));
    *n_kept += kept;
  }
  close_run(f);
  strict_device_close(device);
  return status != SEXP_END;
}

static void test_failures_leave_whole_steps(void **state) {
  (void)state;
  for (int r = 0; r < N_RUNS; r++) {
    fixture *f = compile(runs[r]);
    int64_t n = 1;
    int n_kept = 0;
    while (fail_at(f, STRICT_FAILS_MEMORY, n, &n_kept)) n++;
    assert_true(n > 15 && n_kept > n / 3);
    for (n = 1; fail_at(f, STRICT_FAILS_FOR_GOOD, n, &n_kept); n += 17) {
    }
    end(f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_device_has_the_bits_of_the_cpu),
                                     cmocka_unit_test(test_memory_that_lacks_at_the_beginning),
                                     cmocka_unit_test(test_failures_leave_whole_steps)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
