/* What runs on the CPU hold, and that steps take nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/counted.h"
#include "../common/memory_host.h"

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

static void compile_with(fixture *f, const char *text, sexp_options options) {
  memory_host_add_text(&f->files, "t.sexp", text);
  check(f, sexp_compile(&f->program, &f->messages, "t.sexp", &options, &f->host));
  f->files.n_files--;
}

static void compile(fixture *f, const char *text) {
  sexp_options options = SEXP_OPTIONS_DEFAULT;
  options.allocator = counted_allocator(&f->c);
  compile_with(f, text, options);
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

static const char deep[] =
    "(defdata n :source (arrays \"n\"))"
    "(defun at (name shape) (param name shape :init (glorot shape)))"
    "(defun layer (x i) (scope i (let ((h (matmul x (at \"w\" [64 64])))) (+ x (* h (sigmoid (* 1.5 (+ h 0.5))))))))"
    "(defrun r :seed 1 :steps 2 :data n :batch 2048 :microbatches 2 :optimizer (adamw :lr 0.01)%s"
    " :loss (mean (fold layer x (range 6))))"
    "(defeval e :run r :data n :batch 2048 :batches 1 :metrics ((\"m\" (mean (* x x)))))";

static void compile_deep(fixture *f, const char *stated, sexp_options options) {
  static float x[4096 * 64];
  static const int64_t dims[2] = {4096, 64};
  char text[1024];
  for (int i = 0; i < 4096 * 64; i++) x[i] = (float)(i % 97) / 97;
  if (!f->files.n_tensors) memory_host_add_tensor(&f->files, "n", "x", SEXP_F32, 2, dims, x);
  snprintf(text, sizeof text, deep, stated);
  options.allocator = counted_allocator(&f->c);
  compile_with(f, text, options);
}

static sexp_memory_use use_of(const fixture *f) {
  sexp_memory_use use;
  assert_true(sexp_program_memory(&use, f->program, 2, NULL));
  assert_int_equal(use.total, use.parameters + use.states + use.beside + use.gradients + use.data + use.constants +
                                  use.activations + use.scratch);
  assert_int_equal(use.total - use.least, use.activations - use.activations_least);
  assert_true(use.least > 0 && use.least <= use.total);
  return use;
}

/* What is said of a run before it is made, against what it takes. */
static void kinds_add_up_to_what_is_held(void **state) {
  fixture *f = *state;
  static const sexp_options options = SEXP_OPTIONS_DEFAULT;
  static const sexp_run_options run_options = SEXP_RUN_OPTIONS_DEFAULT;
  compile_deep(f, "", options);
  sexp_memory_use use = use_of(f);
  size_t before = f->c.now;
  make(f, run_options);
  double held = (double)(f->c.now - before);
  assert_true(held > 0.97 * (double)use.total && held < 1.03 * (double)use.total + (1 << 20));
  assert_int_equal(use.parameters, 6 * 64 * 64 * 4);
  assert_int_equal(use.states, 2 * use.parameters);
  assert_true(use.gradients >= 2 * use.parameters); /* two microbatches */
  assert_int_equal(use.data, 5 * 2048 * 64 * 4);    /* four of the loader, one of the evaluation */
}

/* What only the executables of the loss and of an evaluation have; that of an initial value is gone before. */
static void constants_count_for_every_graph(void **state) {
  fixture *f = *state;
  static const sexp_run_options run_options = SEXP_RUN_OPTIONS_DEFAULT;
  compile(f,
          "(defun far () (mean (cast (iota 500000) f32)))"
          "(defrun r :seed 1 :steps 1 :loss (* (far) (param \"w\" [] :init (far))) :optimizer (sgd :lr 0.1))"
          "(defeval e :run r :metrics ((\"m\" (far))))");
  sexp_memory_use use = use_of(f);
  assert_true(use.constants >= 2 * 500000 * 4 && use.constants < 2 * 500000 * 4 + 4096);
  size_t before = f->c.now;
  make(f, run_options);
  double held = (double)(f->c.now - before);
  assert_true(held > 0.97 * (double)use.total && held < 1.03 * (double)use.total + (1 << 20));
}

/* Those of a short dtype are held beside the sum, and parameters that are not trained have none. */
static void gradients_are_of_what_is_trained(void **state) {
  fixture *f = *state;
  compile(f,
          "(defrun r :seed 1 :steps 1 :optimizer (sgd :lr 0.1) :loss (+ (sum (param \"a\" [70] :init (ones shape)))"
          " (+ (cast (sum (param \"b\" [300] :dtype bf16 :init (ones shape :dtype bf16))) f32)"
          " (sum (param \"c\" [5000] :init (ones shape) :trainable false)))))");
  assert_int_equal(use_of(f).gradients, (80 + 304 + 64) * 4 + 300 * 2); /* whole cells; the loss is in the last 64 */
}

/* Losses of two steps. */
static void run_deep(fixture *f, float losses[2]) {
  static const sexp_run_options run_options = SEXP_RUN_OPTIONS_DEFAULT;
  sexp_step step;
  make(f, run_options);
  for (int i = 0; i < 2; i++) {
    check(f, sexp_run_step(f->run, &step, &f->messages));
    losses[i] = step.loss;
  }
}

/* More is computed again until it fits; a stated budget holds; nothing of it is seen in a bit. */
static void less_memory_recomputes_more(void **state) {
  fixture *f = *state;
  sexp_options options = SEXP_OPTIONS_DEFAULT;
  float plain[2], other[2];
  compile_deep(f, " :recompute 0", options);
  int64_t without = use_of(f).activations;
  assert_true(use_of(f).recompute == 0);
  run_deep(f, plain);
  release(f);
  compile_deep(f, " :recompute 1e9", options);
  int64_t least = use_of(f).total, activations = use_of(f).activations;
  assert_true(activations < without);
  run_deep(f, other);
  assert_memory_equal(plain, other, sizeof plain);
  release(f);
  compile_deep(f, "", options);
  int64_t usual = use_of(f).total;
  assert_true(use_of(f).recompute == 4 && usual > least);
  release(f);
  options.memory_bytes = usual;
  compile_deep(f, "", options);
  assert_int_equal(use_of(f).total, usual);
  release(f);
  options.memory_copies = 1;
  compile_deep(f, "", options);
  assert_true(use_of(f).recompute > 4);
  release(f);
  options.memory_copies = 0;
  options.memory_bytes = least;
  compile_deep(f, "", options);
  assert_true(use_of(f).total <= least && use_of(f).recompute > 4);
  run_deep(f, other);
  assert_memory_equal(plain, other, sizeof plain);
  release(f);
  options.memory_copies = 1; /* cannot fit: as small as it gets */
  compile_deep(f, "", options);
  assert_true(use_of(f).total == least && use_of(f).recompute > 4);
  release(f);
  compile_deep(f, " :recompute 0", options);
  assert_int_equal(use_of(f).activations, without);
  release(f);
  options.optimize = false;
  compile_deep(f, " :recompute 9", options);
  assert_true(use_of(f).recompute == 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(steps_allocate_nothing),           TEST(evaluations_share_what_steps_take),
      TEST(kinds_add_up_to_what_is_held),     TEST(constants_count_for_every_graph),
      TEST(gradients_are_of_what_is_trained), TEST(less_memory_recomputes_more),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
