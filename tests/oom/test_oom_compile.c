/* Fails the n-th allocation of compiling, of making a run and of its first step, for every n: each time
 * one E-RUN-001, and nothing is left. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/moderate.h"

/* Chunks of arenas are kept small, so that the allocations are many and spread over all of the work. */
typedef struct counting {
  int64_t n, fails_at, n_live; /* fails_at 0: never */
  size_t chunk_bytes;
} counting;

static void *allocate(void *context, size_t n_bytes) {
  counting *c = context;
  if (++c->n == c->fails_at) return NULL;
  void *memory = malloc(n_bytes);
  c->n_live += memory != NULL;
  return memory;
}

static void release(void *context, void *memory) {
  counting *c = context;
  c->n_live -= memory != NULL;
  free(memory);
}

static void expect_one_message(const sexp_messages *messages) {
  size_t n = sexp_messages_count(messages);
  assert_true(n >= 1);
  assert_string_equal(sexp_messages_get(messages, n - 1)->code, "E-RUN-001");
  for (size_t i = 0; i + 1 < n; i++) assert_true(sexp_messages_get(messages, i)->warning);
}

/* What is done with the n-th allocation failing; the status of what failed, or of all of it. */
typedef sexp_status attempt(counting *memory, const sexp_host *host, const char *run, sexp_messages **messages);

static sexp_status compile(sexp_program **program, counting *memory, const sexp_host *host, const char *run,
                           sexp_messages **messages) {
  sexp_options options = SEXP_OPTIONS_DEFAULT;
  options.run = run;
  options.allocator = (sexp_allocator){allocate, release, memory, memory->chunk_bytes};
  options.dump_after = "dce";
  return sexp_compile(program, messages, MODERATE_PATH, &options, host);
}

static sexp_status only_compile(counting *memory, const sexp_host *host, const char *run, sexp_messages **messages) {
  sexp_program *program = NULL;
  sexp_status status = compile(&program, memory, host, run, messages);
  sexp_program_free(program);
  return status;
}

/* Compiling succeeds; then the count begins. */
static sexp_status make_and_step(counting *memory, const sexp_host *host, const char *name, sexp_messages **messages) {
  sexp_program *program = NULL;
  sexp_run *run = NULL;
  sexp_step step;
  sexp_run_options options = SEXP_RUN_OPTIONS_DEFAULT;
  int64_t fails_at = memory->fails_at;
  memory->fails_at = 0;
  options.threads = 1;
  options.digest_nodes_at = 1;
  sexp_status status = compile(&program, memory, host, name, messages);
  assert_int_equal(status, SEXP_OK);
  memory->n = 0;
  memory->fails_at = fails_at;
  status = sexp_run_new(&run, messages, program, &options, host);
  if (status == SEXP_OK) status = sexp_run_step(run, &step, messages);
  sexp_run_free(run);
  sexp_program_free(program);
  return status;
}

/* Every n (or every stride-th) up to the first that is not reached. */
static void fail_each(attempt *try, const char *run, size_t chunk_bytes, int64_t stride) {
  sexp_status status = SEXP_NO_MEMORY;
  int64_t n = 0, n_failed = -1;
  for (n = 1; status != SEXP_OK; n += stride, n_failed++) {
    memory_host files = {0};
    counting memory = {.fails_at = n, .chunk_bytes = chunk_bytes};
    sexp_messages *messages = NULL;
    moderate_add(&files);
    sexp_host host = memory_host_callbacks(&files);
    status = try(&memory, &host, run, &messages);
    if (status != SEXP_OK) {
      assert_int_equal(status, SEXP_NO_MEMORY);
      expect_one_message(messages);
    }
    sexp_messages_free(messages);
    assert_int_equal(memory.n_live, 0);
    assert_int_equal(files.n_open, 0);
  }
  printf("%s: %lld allocations failed in turn\n", run, (long long)n_failed);
  assert_true(n_failed > 5);
}

static void test_compile(void **state) {
  (void)state;
  fail_each(only_compile, "images", 0, 1);
  fail_each(only_compile, "text", 1 << 14, 1);
  fail_each(only_compile, "made", 1 << 14, 1);
}

/* Each piece of memory of an arena is an allocation of its own; a sample of them fails. */
static void test_compile_piece_by_piece(void **state) {
  (void)state;
  bool quick = getenv("QUICK") && *getenv("QUICK");
  fail_each(only_compile, "images", 1, quick ? 997 : 97);
  fail_each(only_compile, "made", 1, quick ? 499 : 47);
}

static void test_make_and_step(void **state) {
  (void)state;
  fail_each(make_and_step, "images", 1 << 12, 1);
  fail_each(make_and_step, "made", 1, 1);
}

/* An experiment with errors: its messages need memory too. */
static void test_messages(void **state) {
  (void)state;
  for (int64_t n = 1;; n++) {
    memory_host files = {0};
    counting memory = {.fails_at = n, .chunk_bytes = 64};
    sexp_messages *messages = NULL;
    memory_host_add_text(&files, MODERATE_PATH, "(defrun made :seed 1 :steps 1 :loss (+ nothing 1))");
    sexp_host host = memory_host_callbacks(&files);
    sexp_status status = only_compile(&memory, &host, "made", &messages);
    size_t n_messages = sexp_messages_count(messages);
    assert_true(n_messages >= 1);
    const char *last = sexp_messages_get(messages, n_messages - 1)->code;
    assert_int_equal(status, strcmp(last, "E-RUN-001") ? SEXP_INPUT : SEXP_NO_MEMORY);
    sexp_messages_free(messages);
    assert_int_equal(memory.n_live, 0);
    assert_int_equal(files.n_open, 0);
    if (status == SEXP_INPUT) break;
  }
}

/* Facts and texts of a compiled program: none, or all of one. */
static void test_texts(void **state) {
  static const char *const texts[] = {"ir", "plan", "report", "largest", "dot"};
  bool complete = false;
  int64_t n = 0;
  (void)state;
  for (n = 1; !complete; n++) {
    memory_host files = {0};
    counting memory = {.chunk_bytes = 1 << 12};
    sexp_messages *messages = NULL;
    sexp_program *program = NULL;
    const sexp_graph *graphs = NULL;
    moderate_add(&files);
    sexp_host host = memory_host_callbacks(&files);
    assert_int_equal(compile(&program, &memory, &host, "images", &messages), SEXP_OK);
    memory.n = 0;
    memory.fails_at = n;
    complete = sexp_program_graphs(&graphs, program) > 0;
    assert_int_equal(complete, graphs != NULL);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
      complete = sexp_program_text(program, texts[i]) != NULL && complete;
    sexp_program_free(program);
    sexp_messages_free(messages);
    assert_int_equal(memory.n_live, 0);
  }
  assert_true(n > 20);
}

/* Two failures on one list of messages are one message; a list that could not be made takes no more. */
static void test_no_memory_for_messages(void **state) {
  (void)state;
  memory_host files = {0};
  counting memory = {.fails_at = 1};
  sexp_messages *messages = NULL;
  sexp_host host = memory_host_callbacks(&files);
  moderate_add(&files);
  for (int i = 0; i < 2; i++) {
    memory.n = 0;
    assert_int_equal(only_compile(&memory, &host, "made", &messages), SEXP_NO_MEMORY);
    assert_int_equal(sexp_messages_count(messages), 1);
  }
  sexp_messages_free(messages);
}

static void test_a_step_allocates_nothing(void **state) {
  (void)state;
  static const char *const runs[] = {"images", "text", "made"};
  for (int r = 0; r < 3; r++) {
    memory_host files = {0};
    counting memory = {0};
    sexp_messages *messages = NULL;
    sexp_program *program = NULL;
    sexp_run *run = NULL;
    sexp_step step;
    sexp_run_options options = SEXP_RUN_OPTIONS_DEFAULT;
    sexp_host host = memory_host_callbacks(&files);
    moderate_add(&files);
    assert_int_equal(compile(&program, &memory, &host, runs[r], &messages), SEXP_OK);
    assert_int_equal(sexp_run_new(&run, &messages, program, &options, &host), SEXP_OK);
    int64_t before = memory.n;
    while (sexp_run_step(run, &step, &messages) == SEXP_OK) continue;
    assert_int_equal(memory.n, before);
    sexp_run_free(run);
    sexp_program_free(program);
    sexp_messages_free(messages);
    assert_int_equal(memory.n_live, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_compile),
      cmocka_unit_test(test_compile_piece_by_piece),
      cmocka_unit_test(test_make_and_step),
      cmocka_unit_test(test_messages),
      cmocka_unit_test(test_texts),
      cmocka_unit_test(test_no_memory_for_messages),
      cmocka_unit_test(test_a_step_allocates_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
