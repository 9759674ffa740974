/* Runs through the public interface: what a step computes, in which order, and what it reports; on the CPU, and on a
 * device that does not share its memory. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/strict_device.h"
#include "../common/transcript.h"

typedef struct fixture {
  memory_host files;
  sexp_host host;
  sexp_options options;
  sexp_run_options run_options;
  sexp_program *program;
  sexp_run *run;
  sexp_messages *messages;
  sexp_step step;
  strict_device *device; /* NULL: the CPU */
} fixture;

static int set_up(void **state) {
  static const sexp_options options = SEXP_OPTIONS_DEFAULT;
  static const sexp_run_options run_options = SEXP_RUN_OPTIONS_DEFAULT;
  fixture *f = test_calloc(1, sizeof *f);
  f->host = memory_host_callbacks(&f->files);
  f->options = options;
  f->run_options = run_options;
  f->run_options.threads = 2;
  *state = f;
  return 0;
}

static int set_up_on_device(void **state) {
  int status = set_up(state);
  fixture *f = *state;
  f->device = strict_device_open();
  f->run_options.device = strict_device_of(f->device);
  return status;
}

static void release(fixture *f) {
  sexp_run_free(f->run);
  sexp_program_free(f->program);
  sexp_messages_free(f->messages);
  f->run = NULL;
  f->program = NULL;
  f->messages = NULL;
}

static int tear_down(void **state) {
  fixture *f = *state;
  release(f);
  if (f->device) strict_device_close(f->device);
  int n_open = f->files.n_open;
  test_free(f);
  return n_open;
}

/* Compiles a text and makes the run; the first status that is not SEXP_OK. */
static sexp_status start(fixture *f, const char *text) {
  release(f);
  memory_host_add_text(&f->files, "t.sexp", text);
  sexp_status status = sexp_compile(&f->program, &f->messages, "t.sexp", &f->options, &f->host);
  f->files.n_files--;
  if (status == SEXP_OK) status = sexp_run_new(&f->run, &f->messages, f->program, &f->run_options, &f->host);
  return status;
}

static const char *first_text(const fixture *f) {
  return sexp_messages_count(f->messages) ? sexp_messages_get(f->messages, 0)->text : "no message";
}

static void start_ok(fixture *f, const char *text) {
  if (start(f, text) != SEXP_OK) fail_msg("%s", first_text(f));
}

static void step_ok(fixture *f) {
  if (sexp_run_step(f->run, &f->step, &f->messages) != SEXP_OK) fail_msg("%s", first_text(f));
}

static void assert_message(const fixture *f, const char *code, const char *words) {
  assert_true(sexp_messages_count(f->messages) >= 1);
  const sexp_message *message = sexp_messages_get(f->messages, 0);
  if (strcmp(message->code, code) || !strstr(message->text, words)) fail_msg("%s", message->text);
}

static void assert_refused(fixture *f, const char *text, const char *code, const char *words) {
  assert_int_equal(start(f, text), SEXP_INPUT);
  assert_message(f, code, words);
}

static float value(const fixture *f, const char *name) { return value_of(&f->step, name); }

/* x: 1 to 8, y: i32 0 to 7. */
static void add_numbers(fixture *f) {
  static float x[8];
  static int32_t y[8];
  int64_t dims[1] = {8};
  for (int i = 0; i < 8; i++) {
    x[i] = (float)(i + 1);
    y[i] = i;
  }
  memory_host_add_tensor(&f->files, "n", "x", SEXP_F32, 1, dims, x);
  memory_host_add_tensor(&f->files, "n", "y", SEXP_I32, 1, dims, y);
}

#define NUMBERS "(defdata n :source (arrays \"n\"))"
#define SGD ":optimizer (lambda (p g) (- p g))"

/* ---- steps ---- */

static void test_step(void **state) {
  fixture *f = *state;
  add_numbers(f);
  start_ok(f, NUMBERS "(defrun r :seed 1 :steps 3 :data n :batch 2 :microbatches 2 " SGD
                      " :metrics ((\"largest\" (reduce-max x)))"
                      " :loss (* (param \"p\" [] :init (zeros shape)) (mean x)))");
  step_ok(f);
  assert_int_equal(f->step.step, 1);
  assert_true(f->step.loss == 0);
  assert_true(value(f, "train/largest") == 3); /* mean of 2 and 4 */
  const float *p = tensor_of(f->run, "p")->bytes;
  assert_true(*p == -2.5f); /* mean of 1.5 and 3.5 */
  step_ok(f);
  assert_true(f->step.loss == -2.5f * 6.5f);
  p = tensor_of(f->run, "p")->bytes;
  assert_true(*p == -9.0f);
  step_ok(f); /* the next epoch */
  assert_true(value(f, "train/largest") == 3);
  assert_true(f->step.checkpoint);
  assert_int_equal(sexp_run_step(f->run, &f->step, &f->messages), SEXP_END);
  sexp_position position;
  sexp_run_position(f->run, &position);
  assert_int_equal(position.step, 3);
  assert_int_equal(position.records, 12);
  assert_int_equal(position.stages_steps, 3);
}

static void test_microbatches_wrap_inside(void **state) {
  fixture *f = *state;
  add_numbers(f);
  start_ok(f,
           "(defdata n :source (arrays \"n\") :records (0 5))"
           "(defrun r :seed 1 :steps 3 :data n :batch 3 :loss (mean x))");
  static const float expected[3] = {2, (4 + 5 + 1) / 3.0f, 3};
  for (int i = 0; i < 3; i++) {
    step_ok(f);
    assert_true(f->step.loss == expected[i]);
  }
}

static void test_counters(void **state) {
  fixture *f = *state;
  add_numbers(f);
  start_ok(f, NUMBERS
           "(defun c (name) (cast (input name) f32))"
           "(defrun r :seed 1 :batch 2 :microbatches 2 :data n :loss (mean x)"
           " :metrics ((\"step\" (c :step)) (\"microbatch\" (c :microbatch)) (\"records\" (c :records))"
           "           (\"stage-records\" (c :stage-records)) (\"stage\" (c :stage)))"
           " :stages ((stage \"a\" :steps 2) (stage \"b\" :steps 2 :batch 1)))");
  static const float expected[4][5] = {
      {0, 0.5, 1, 1, 0}, {1, 0.5, 5, 5, 0}, {2, 0.5, 8.5, 0.5, 1}, {3, 0.5, 10.5, 2.5, 1}};
  static const float losses[4] = {2.5, 6.5, 1.5, 3.5}; /* a stage begins its data anew */
  static const char *const names[5] = {"step", "microbatch", "records", "stage-records", "stage"};
  for (int s = 0; s < 4; s++) {
    step_ok(f);
    for (int i = 0; i < 5; i++) {
      char name[40];
      snprintf(name, sizeof name, "train/%s", names[i]);
      if (value(f, name) != expected[s][i]) fail_msg("step %d: %s is %g", s, name, (double)value(f, name));
    }
    assert_true(f->step.loss == losses[s]);
    assert_string_equal(f->step.stage, s < 2 ? "a" : "b");
    assert_int_equal(f->step.stage_began, s % 2 == 0);
  }
}

static void test_counter_overflow(void **state) {
  fixture *f = *state;
  start_ok(f, "(defrun r :seed 1 :steps 9 :batch 1073741824 :loss (cast (input :records) f32))");
  step_ok(f);
  step_ok(f);
  assert_int_equal(sexp_run_step(f->run, &f->step, &f->messages), SEXP_INPUT);
  assert_message(f, "E-RUN-011", "(input :records) would be 2147483648");
}

/* A counter that no graph reads may grow. */
static void test_counters_that_nobody_reads(void **state) {
  fixture *f = *state;
  start_ok(f, "(defrun r :seed 1 :steps 9 :batch 1073741824 :loss (cast (input :step) f32))");
  for (int i = 0; i < 9; i++) step_ok(f);
  assert_true(f->step.loss == 8);
}

static void test_data_that_stop(void **state) {
  fixture *f = *state;
  add_numbers(f);
  start_ok(f,
           "(defdata n :source (arrays \"n\") :on-end stop)"
           "(defrun r :seed 1 :steps 3 :data n :batch 3 :loss (mean x))");
  assert_int_equal(sexp_program_describe(f->program)->steps, 2);
  step_ok(f);
  step_ok(f);
  assert_true(f->step.checkpoint);
  assert_int_equal(sexp_run_step(f->run, &f->step, &f->messages), SEXP_END);
  assert_refused(f,
                 "(defdata n :source (arrays \"n\") :on-end stop)"
                 "(defrun r :seed 1 :steps 100 :data n :batch 3 :microbatches 3 :loss (mean x))",
                 "E-DATA-056", "data n hold 8 records, a step takes 9");
}

static void test_nonfinite_loss_goes_on(void **state) {
  fixture *f = *state;
  start_ok(f, "(defrun r :seed 1 :steps 2 " SGD " :loss (log (- (param \"p\" [] :init (zeros shape)) 1)))");
  step_ok(f);
  uint32_t bits;
  memcpy(&bits, &f->step.loss, sizeof bits);
  assert_int_equal(bits, 0x7fc00000);
  step_ok(f);
}

/* The frozen parameter stays, and both keep their places in path order. */
static void test_frozen_parameters(void **state) {
  fixture *f = *state;
  start_ok(f, "(defrun r :seed 1 :steps 3 " SGD
              " :loss (* (param \"b\" [] :init (ones shape)) (param \"a\" [] :init (ones shape) :trainable false)))");
  for (int i = 0; i < 3; i++) step_ok(f);
  const sexp_tensor *tensors;
  assert_int_equal(sexp_run_tensors(f->run, &tensors), 2);
  assert_string_equal(tensors[0].path, "a");
  assert_true(*(const float *)tensors[0].bytes == 1);
  assert_true(*(const float *)tensors[1].bytes == -2);
}

/* bf16 gradients are summed in f32 and rounded once: summed in bf16 this would be (1 + 2^-7) / 4. */
static void test_narrow_gradients(void **state) {
  fixture *f = *state;
  static const float x[4] = {1, 0x1p-8f, 0x1p-8f, 0x1p-8f};
  int64_t dims[1] = {4};
  memory_host_add_tensor(&f->files, "n", "x", SEXP_F32, 1, dims, x);
  start_ok(f,
           "(defdata n :source (arrays \"n\"))"
           "(defrun r :seed 1 :steps 1 :data n :batch 1 :microbatches 4 " SGD
           " :loss (sum (* (cast (param \"p\" [1] :dtype bf16 :init (cast (zeros shape) bf16)) f32) x)))");
  step_ok(f);
  uint16_t half;
  memcpy(&half, tensor_of(f->run, "p")->bytes, sizeof half);
  uint32_t bits = (uint32_t)half << 16;
  float p;
  memcpy(&p, &bits, sizeof p);
  assert_true(p == -(1 + 0x1p-6f) / 4);
}

/* ---- errors ---- */

static void test_id_out_of_range(void **state) {
  fixture *f = *state;
  add_numbers(f);
  start_ok(f, NUMBERS "(defrun r :seed 1 :steps 9 :data n :batch 2 :microbatches 1 " SGD
                      "\n"
                      " :loss (scope \"emb\" (sum (gather (param \"t\" [5] :init (ones shape)) y))))");
  step_ok(f);
  step_ok(f);
  float before[5];
  memcpy(before, tensor_of(f->run, "emb/t")->bytes, sizeof before);
  for (int again = 0; again < 2; again++) {
    assert_int_equal(sexp_run_step(f->run, &f->step, &f->messages), SEXP_INPUT);
    assert_message(f, "E-RUN-010", "gather in emb: id 5 at index 1 is outside 0 to 4");
    assert_int_equal(sexp_messages_get(f->messages, 0)->line, 2);
    assert_memory_equal(before, tensor_of(f->run, "emb/t")->bytes, sizeof before);
  }
  sexp_position position;
  sexp_run_position(f->run, &position);
  assert_int_equal(position.step, 2);
}

/* The update stops between two parameters: neither has moved, for both are held twice. Where it cannot stop, they are
 * held once. */
static void test_id_out_of_range_in_the_update(void **state) {
  fixture *f = *state;
  add_numbers(f);
  start_ok(f, NUMBERS
           "(defrun r :seed 1 :steps 9 :data n :batch 2\n"
           " :loss (+ (sum (* (param \"a\" [3] :init (ones shape)) (param \"t\" [3] :init (ones shape))))"
           " (mean x))\n"
           " :optimizer (lambda (p g) (- p (* 0.1 g (if (= (param-path) \"t\") (gather (ones [3]) (+ (input :step) 1)) "
           "1)))))");
  assert_int_equal(sexp_program_describe(f->program)->beside_bytes, 24);
  float before[2][3];
  step_ok(f);
  step_ok(f);
  memcpy(before[0], tensor_of(f->run, "a")->bytes, sizeof *before);
  memcpy(before[1], tensor_of(f->run, "t")->bytes, sizeof *before);
  assert_int_equal(sexp_run_step(f->run, &f->step, &f->messages), SEXP_INPUT);
  assert_message(f, "E-RUN-010", "id 3 at index 0 is outside 0 to 2");
  assert_memory_equal(before[0], tensor_of(f->run, "a")->bytes, sizeof *before);
  assert_memory_equal(before[1], tensor_of(f->run, "t")->bytes, sizeof *before);
  sexp_position position;
  sexp_run_position(f->run, &position);
  assert_int_equal(position.step, 2);
}

static void test_file_changes_during_the_run(void **state) {
  fixture *f = *state;
  add_numbers(f);
  for (int ahead = 0; ahead < 2; ahead++) {
    f->run_options.reads_ahead = ahead;
    f->files.changed = "n";
    f->files.n_checks = 0;
    f->files.changed_from = 2;
    start_ok(f, NUMBERS "(defrun r :seed 1 :steps 9 :data n :batch 2 :loss (mean x))");
    step_ok(f);
    step_ok(f);
    assert_int_equal(sexp_run_step(f->run, &f->step, &f->messages), SEXP_STORAGE);
    assert_message(f, "E-DATA-103", "n: it changed at byte 7");
  }
}

static void test_data_change_after_compiling(void **state) {
  fixture *f = *state;
  add_numbers(f);
  memory_host_add_text(&f->files, "t.sexp", NUMBERS "(defrun r :seed 1 :steps 9 :data n :batch 2 :loss (mean x))");
  assert_int_equal(sexp_compile(&f->program, &f->messages, "t.sexp", &f->options, &f->host), SEXP_OK);
  f->files.tensors[0].dims[0] = f->files.tensors[1].dims[0] = 7;
  assert_int_equal(sexp_run_new(&f->run, &f->messages, f->program, &f->run_options, &f->host), SEXP_INPUT);
  assert_message(f, "E-DATA-057", "data n changed");
}

static void test_values_that_do_not_fit(void **state) {
  fixture *f = *state;
  static const int64_t y[4] = {1, 2, 3, INT64_C(1) << 40};
  int64_t dims[1] = {4};
  memory_host_add_tensor(&f->files, "w", "y", SEXP_I64, 1, dims, y);
  start_ok(f,
           "(defdata w :source (arrays \"w\"))"
           "(defrun r :seed 1 :steps 9 :data w :batch 2 :loss (mean (cast y f32)))");
  step_ok(f);
  assert_int_equal(sexp_run_step(f->run, &f->step, &f->messages), SEXP_INPUT);
  assert_message(f, "E-DATA-055", "field y of record 3, element 0, is 1099511627776");
}

/* ---- loading ---- */

static void add_weights(fixture *f) {
  static const float w[2] = {3, 4};
  static const double d[2] = {3, 4};
  int64_t dims[2] = {2, 1};
  memory_host_add_tensor(&f->files, "w", "column", SEXP_F32, 2, dims, w);
  memory_host_add_tensor(&f->files, "w", "fc1/weight", SEXP_F32, 1, dims, w);
  memory_host_add_tensor(&f->files, "w", "double", SEXP_F64, 1, dims, d);
}

#define LOADING(shape, tensor) \
  "(defrun r :seed 1 :steps 1 " SGD " :loss (sum (param \"p\" " shape " :load (weights \"w\" \"" tensor "\"))))"

static void test_load(void **state) {
  fixture *f = *state;
  add_weights(f);
  start_ok(f, LOADING("[2]", "fc1/weight"));
  step_ok(f);
  assert_true(f->step.loss == 7);
  const sexp_parameter *p = sexp_program_describe(f->program)->parameters;
  assert_string_equal(p->load_file, "w");
  assert_string_equal(p->load_tensor, "fc1/weight");
  assert_string_equal(p->load_version, "sha256:of w");
  assert_true(p->load_bytes > 0);
}

static void test_load_refused(void **state) {
  fixture *f = *state;
  add_weights(f);
  assert_refused(f, LOADING("[2]", "fc1/wieght"), "E-LOAD-010", "did you mean fc1/weight?");
  assert_refused(f, LOADING("[2]", "double"), "E-LOAD-011", "tensor double of w is f64, parameter p is f32");
  assert_refused(f, LOADING("[2]", "column"), "E-LOAD-012", "is [2 1], parameter p is [2]");
  assert_refused(f, LOADING("[3]", "fc1/weight"), "E-LOAD-012", "tensor fc1/weight of w is [2], parameter p is [3]");
  assert_int_equal(
      start(f, "(defrun r :seed 1 :steps 1 " SGD " :loss (sum (param \"p\" [2] :load (weights \"missing\" \"a\"))))"),
      SEXP_STORAGE);
  assert_message(f, "E-DATA-101", "missing: no such file");
}

/* ---- evaluations ---- */

static void test_evaluations(void **state) {
  fixture *f = *state;
  add_numbers(f);
  start_ok(f, NUMBERS "(defrun r :seed 1 :steps 5 " SGD
                      " :loss (param \"p\" [] :init (zeros shape)))"
                      "(defeval e :run r :every 2 :data n :batch 3 :metrics"
                      " ((\"mean\" (mean x)) (\"sum\" (sum x) :reduce sum) (\"max\" (reduce-max x) :reduce max)"
                      "  (\"min\" (reduce-min x) :reduce min) (\"p\" (param \"p\" [] :init (zeros shape)))))"
                      "(defeval some :run r :every 3 :data n :batch 2 :batches 2 :metrics ((\"mean\" (mean x))))");
  for (int i = 1; i <= 5; i++) {
    step_ok(f);
    bool e = i == 2 || i == 4 || i == 5, some = i == 3 || i == 5;
    assert_int_equal(!isnan(value(f, "eval/e/mean")), e);
    assert_int_equal(!isnan(value(f, "eval/some/mean")), some);
    if (e) {
      assert_true(value(f, "eval/e/mean") == 4.5f); /* a mean of 2, 5 and, two thirds, 7.5 */
      assert_true(value(f, "eval/e/sum") == 36);
      assert_true(value(f, "eval/e/max") == 8);
      assert_true(value(f, "eval/e/min") == 1);
      assert_true(value(f, "eval/e/p") == (float)-i);
    }
    if (some) assert_true(value(f, "eval/some/mean") == 2.5f);
  }
}

/* ---- diagnostics, digests ---- */

static void test_diagnostics(void **state) {
  fixture *f = *state;
  add_numbers(f);
  start_ok(f, NUMBERS
           "(defrun r :seed 1 :steps 4 :data n :batch 4 " SGD
           " :diagnostics (\"seen\" \"*/p\") :diagnostics-every 2"
           " :loss (begin (probe \"unseen\" x) (* (mean (probe \"seen\" x)) (param \"p\" [] :init (ones shape)))))");
  step_ok(f);
  assert_int_equal(f->step.n_values, 1);
  step_ok(f);
  assert_int_equal(f->step.n_values, 1 + 4 * 6);
  assert_true(value(f, "diagnostics/seen/mean") == 6.5f);
  assert_true(value(f, "diagnostics/seen/std") == sqrtf(1.25f));
  assert_true(value(f, "diagnostics/seen/min") == 5);
  assert_true(value(f, "diagnostics/seen/max") == 8);
  assert_true(value(f, "diagnostics/seen/absmax") == 8);
  assert_true(value(f, "diagnostics/seen/nonfinite") == 0);
  assert_true(value(f, "diagnostics/grad/p/mean") == 6.5f);
  assert_true(value(f, "diagnostics/param/p/mean") == 1 - 2.5f - 6.5f);
  assert_true(value(f, "diagnostics/update/p/min") == -6.5f);
  assert_true(value(f, "diagnostics/update/p/absmax") == 6.5f);
}

static void test_diagnostics_change_no_bit(void **state) {
  fixture *f = *state;
  add_numbers(f);
  static const char *const all[] = {"*"};
  static const char text[] = NUMBERS
      "(defrun r :seed 1 :steps 4 :data n :batch 2 :microbatches 3 :optimizer (adam :lr 0.1) :diagnostics-every 1"
      " :loss (mean (square-of (probe \"d\" (- (sin (* x (param \"p\" [2] :init (normal shape)))) 1)))))";
  char whole[1000];
  snprintf(whole, sizeof whole, "(defun square-of (x) (* x x))%s", text);
  float losses[2][4];
  for (int diagnosed = 0; diagnosed < 2; diagnosed++) {
    f->options.diagnostics = diagnosed ? all : NULL;
    f->options.n_diagnostics = (size_t)diagnosed;
    start_ok(f, whole);
    for (int i = 0; i < 4; i++) {
      step_ok(f);
      assert_int_equal(f->step.n_values > 1, diagnosed);
      losses[diagnosed][i] = f->step.loss;
    }
  }
  assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
}

static void test_counts_of_nonfinite(void **state) {
  fixture *f = *state;
  start_ok(f,
           "(defrun r :seed 1 :steps 1 :diagnostics (\"*\") :diagnostics-every 1"
           " :loss (begin (probe \"large\" (full [2] -3e38)) (sum (probe \"v\" (/ (cast (iota [3]) f32) 0.0)))))");
  step_ok(f);
  assert_true(value(f, "diagnostics/v/nonfinite") == 3);
  assert_true(isnan(value(f, "diagnostics/v/max")));
  assert_true(value(f, "diagnostics/large/nonfinite") == 0);
  assert_true(value(f, "diagnostics/large/absmax") == 3e38f);
}

static void test_digests(void **state) {
  fixture *f = *state;
  add_numbers(f);
  f->run_options.digest_every = 2;
  f->run_options.digest_nodes_at = 3;
  start_ok(f, NUMBERS "(defrun r :seed 1 :steps 3 :data n :batch 2 :microbatches 2 " SGD
                      " :loss (* (param \"p\" [] :init (zeros shape)) (mean x)))");
  step_ok(f);
  assert_int_equal(f->step.n_digests, 0);
  step_ok(f);
  static const char *const names[] = {"digest/batch", "digest/loss", "digest/gradients", "digest/parameters",
                                      "digest/states"};
  assert_int_equal(f->step.n_digests, 5);
  for (int i = 0; i < 5; i++) {
    assert_string_equal(f->step.digests[i].name, names[i]);
    assert_int_equal(strlen(f->step.digests[i].digest), 71);
  }
  step_ok(f);
  assert_true(f->step.n_digests > 6);
  size_t n[3] = {0};
  for (size_t i = 0; i < f->step.n_digests; i++) {
    n[0] += !strncmp(f->step.digests[i].name, "digest/node/loss.0/%", 20);
    n[1] += !strncmp(f->step.digests[i].name, "digest/node/loss.1/%", 20);
    n[2] += !strncmp(f->step.digests[i].name, "digest/node/update/%", 20);
    assert_non_null(f->step.digests[i].text);
  }
  assert_true(n[0] && n[0] == n[1] && n[2]);
  assert_true(n[0] + n[1] + n[2] == f->step.n_digests);
}

/* ---- generators ---- */

static void test_generator(void **state) {
  fixture *f = *state;
  start_ok(f,
           "(defgenerator g :fields ((x [] f32)) :trips 3 :init (cast (input :step) f32)"
           " :trip (lambda (s) (+ (* s 2) (cast (input :trip) f32)))"
           " :emit (lambda (s) (broadcast-to s [2])))"
           "(defrun r :seed 1 :steps 3 :data g :batch 2 :loss (mean x))");
  for (int i = 0; i < 3; i++) {
    step_ok(f);
    float s = (float)i;
    for (int trip = 0; trip < 3; trip++) s = s * 2 + (float)trip;
    if (f->step.loss != s) fail_msg("step %d: %g, expected %g", i, (double)f->step.loss, (double)s);
  }
}

/* ---- settings ---- */

static void test_settings_refused(void **state) {
  fixture *f = *state;
  f->run_options.simd = "sse9";
  assert_refused(f, "(defrun r :seed 1 :steps 1 :loss 1.0)", "E-RUN-004", "sse9");
  f->options.dump_after = "nothing";
  assert_refused(f, "(defrun r :seed 1 :steps 1 :loss 1.0)", "E-RUN-005", "no pass \"nothing\"");
}

static void test_texts(void **state) {
  fixture *f = *state;
  f->options.dump_after = sexp_pass_name(0);
  start_ok(f, "(defrun r :seed 1 :steps 1 " SGD
              " :loss (sum (matmul (param \"w\" [2 3] :init (ones shape)) (ones [3 2]))))");
  static const char *const texts[][2] = {
      {"ir", "graph \"loss\""}, {"report", "einsum"}, {"plan", "loss"}, {"dump", "graph \"update\""}};
  for (size_t i = 0; i < 4; i++) {
    const char *text = sexp_program_text(f->program, texts[i][0]);
    assert_non_null(text);
    assert_non_null(strstr(text, texts[i][1]));
  }
  assert_non_null(sexp_program_text(f->program, "largest"));
  assert_null(sexp_program_text(f->program, "nonsense"));
  const sexp_description *about = sexp_program_describe(f->program);
  assert_int_equal(about->n_products, 2); /* itself and its gradient with respect to w */
  assert_int_equal(about->parameter_elements, 6);
  assert_int_equal(strlen(about->identity), 71);
  sexp_engine engine;
  sexp_run_engine(f->run, &engine);
  assert_int_equal(engine.threads, 2);
  assert_string_equal(engine.device, f->device ? "strict device" : "cpu, numerics 1");
}

static void test_error_codes(void **state) {
  (void)state;
  size_t n = 0;
  for (const sexp_error_code *code; (code = sexp_error_codes(n)); n++)
    assert_int_equal(strncmp(code->code, "E-", 2), 0);
  assert_true(n > 50);
}

#define TEST(name)                                                \
  cmocka_unit_test_setup_teardown(name, set_up, tear_down), {     \
#name " on a device", name, set_up_on_device, tear_down, NULL \
  }

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_step),
      TEST(test_microbatches_wrap_inside),
      TEST(test_counters),
      TEST(test_counter_overflow),
      TEST(test_counters_that_nobody_reads),
      TEST(test_data_that_stop),
      TEST(test_nonfinite_loss_goes_on),
      TEST(test_frozen_parameters),
      TEST(test_narrow_gradients),
      TEST(test_id_out_of_range),
      TEST(test_id_out_of_range_in_the_update),
      TEST(test_file_changes_during_the_run),
      TEST(test_data_change_after_compiling),
      TEST(test_values_that_do_not_fit),
      TEST(test_load),
      TEST(test_load_refused),
      TEST(test_evaluations),
      TEST(test_diagnostics),
      TEST(test_diagnostics_change_no_bit),
      TEST(test_counts_of_nonfinite),
      TEST(test_digests),
      TEST(test_generator),
      TEST(test_settings_refused),
      TEST(test_texts),
      TEST(test_error_codes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
