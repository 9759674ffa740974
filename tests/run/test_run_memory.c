/* What runs on the CPU hold, and that steps take nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/memory_host.h"

/* Blocks that the library holds. */
typedef struct counted {
  size_t now, n_calls;
} counted;

static void *take_counted(void *context, size_t n_bytes) {
  counted *c = context;
  size_t *block = malloc(n_bytes + 64);
  if (!block) return NULL;
  *block = n_bytes;
  c->now += n_bytes;
  c->n_calls++;
  return (char *)block + 64;
}

static void release_counted(void *context, void *pointer) {
  if (!pointer) return;
  size_t *block = (size_t *)(void *)((char *)pointer - 64);
  ((counted *)context)->now -= *block;
  free(block);
}

typedef struct fixture {
  memory_host files;
  sexp_host host;
  counted c;
  sexp_program *program;
  sexp_run *run;
  sexp_messages *messages;
} fixture;

static int set_up(void **state) {
  fixture *f = test_calloc(1, sizeof *f);
  f->host = memory_host_callbacks(&f->files);
  *state = f;
  return 0;
}

static void release(fixture *f) {
  sexp_run_free(f->run);
  sexp_messages_free(f->messages);
  sexp_program_free(f->program);
  f->run = NULL;
  f->messages = NULL;
  f->program = NULL;
}

static int tear_down(void **state) {
  fixture *f = *state;
  release(f);
  size_t left = f->c.now;
  test_free(f);
  return left != 0;
}

static void check(const fixture *f, sexp_status status) {
  if (status != SEXP_OK) fail_msg("%s", sexp_messages_get(f->messages, 0)->text);
}

static void compile(fixture *f, const char *text) {
  sexp_options options = SEXP_OPTIONS_DEFAULT;
  options.allocator = (sexp_allocator){take_counted, release_counted, &f->c, 0};
  memory_host_add_text(&f->files, "t.sexp", text);
  check(f, sexp_compile(&f->program, &f->messages, "t.sexp", &options, &f->host));
  f->files.n_files--;
}

static void make(fixture *f, sexp_run_options options) {
  options.threads = 2;
  check(f, sexp_run_new(&f->run, &f->messages, f->program, &options, &f->host));
}

/* Data, microbatches, a norm, probes, evaluations with a partial batch, a stage that follows, ids, sampling. */
static void steps_allocate_nothing(void **state) {
  fixture *f = *state;
  static float x[7 * 16];
  static int32_t y[7];
  const int64_t x_dims[2] = {7, 16}, y_dims[1] = {7};
  memory_host_add_tensor(&f->files, "n", "x", SEXP_F32, 2, x_dims, x);
  memory_host_add_tensor(&f->files, "n", "y", SEXP_I32, 1, y_dims, y);
  compile(f,
          "(defdata n :source (arrays \"n\") :order shuffled)"
          "(defun at (name shape) (param name shape :init (glorot shape)))"
          "(defun score (x) (matmul (dropout (relu (matmul (probe \"in\" x) (at \"a\" [16 32]))) :p 0.1) (at \"b\" [32 "
          "8])))"
          "(defrun r :seed 1 :data n :batch 3 :microbatches 2 :clip 1.0 :diagnostics (\"in\" \"grad/*\") "
          ":diagnostics-every 2"
          " :loss (cross-entropy (score x) y) :optimizer (adamw :lr 0.1)"
          " :stages ((stage \"one\" :steps 4) (stage \"two\" :steps 4 :batch 2)))"
          "(defeval e :run r :every 2 :data n :batch 2 :batches 4 :metrics ((\"m\" (cross-entropy (score x) y))))");
  const sexp_run_options options = SEXP_RUN_OPTIONS_DEFAULT;
  make(f, options);
  size_t n_calls = f->c.n_calls, held = f->c.now;
  sexp_step step;
  for (int i = 0; i < 8; i++) check(f, sexp_run_step(f->run, &step, &f->messages));
  assert_int_equal(sexp_run_step(f->run, &step, &f->messages), SEXP_END);
  assert_int_equal(f->c.n_calls, n_calls);
  assert_int_equal(f->c.now, held);
}

/* Bytes that a run with these forms holds, beside its program. */
static size_t bytes_of_run(fixture *f, const char *loss, const char *more) {
  char text[1024];
  snprintf(text, sizeof text,
           "(defun p (n) (param n [256 256] :init (ones shape)))"
           "(defun deep (x) (sum (matmul (exp (matmul (exp (matmul x (p \"a\"))) (p \"b\"))) (p \"c\"))))"
           "(defrun r :seed 1 :steps 2 :loss %s :optimizer (sgd :lr 0.1))%s",
           loss, more);
  compile(f, text);
  size_t before = f->c.now;
  const sexp_run_options options = SEXP_RUN_OPTIONS_DEFAULT;
  make(f, options);
  size_t held = f->c.now - before;
  release(f);
  return held;
}

/* Of what is executed one after the other temporaries are held once. */
static void evaluations_share_what_steps_take(void **state) {
  fixture *f = *state;
  size_t temporaries = (size_t)3 << 20; /* a value is [3072 256] */
  size_t alone = bytes_of_run(f, "(deep (ones [3072 256]))", "");
  size_t with = bytes_of_run(f, "(deep (ones [3072 256]))",
                             "(defeval e :run r :metrics ((\"m\" (deep (ones [3072 256])))))"
                             "(defeval f :run r :metrics ((\"m\" (deep (ones [3071 256])))))");
  assert_true(alone > 2 * temporaries);
  assert_true(with < alone + temporaries / 4);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(steps_allocate_nothing),
      TEST(evaluations_share_what_steps_take),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
