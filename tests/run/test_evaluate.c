/* Evaluations without training: the bits of the inline ones, of nothing but parameters and a step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/counted.h"
#include "../common/strict_device.h"
#include "../common/transcript.h"

enum { STEPS = 7, VALUES = 16 };

/* Two stages, an optimizer with states, data whose last batch is smaller, each counter, draws, no data. */
static const char text[] =
    "(defdata n :source (arrays \"n\") :order shuffled)"
    "(defdata m :source (arrays \"m\"))"
    "(defun model (x) (* x (param \"p\" [3] :init (normal shape))))"
    "(defrun r :seed 3 :optimizer (adam :lr 0.1) :stages"
    " ((stage \"a\" :steps 3 :data n :batch 2 :microbatches 2) (stage \"b\" :steps 4 :data n :batch 3))"
    " :loss (mse (sum (model x) :axis 1) (cast y f32)))"
    "(defeval held :run r :every 1 :data m :batch 2"
    " :metrics ((\"loss\" (mse (model x) 0.5)) (\"worst\" (reduce-max (model x)) :reduce max)"
    "           (\"noise\" (mean (* (model x) (normal [(dim x 0) 3] :salt [:microbatch :step]))) :reduce sum)))"
    "(defeval counters :run r :every 1 :batches 2"
    " :metrics ((\"step\" (cast (input :step) f32)) (\"microbatch\" (cast (input :microbatch) f32) :reduce max)"
    "           (\"records\" (cast (input :records) f32)) (\"stage\" (cast (input :stage) f32))"
    "           (\"stage-records\" (cast (input :stage-records) f32))))"
    "(defeval last :run r :data n :batch 4 :metrics ((\"y\" (mean (* (cast y f32) (sum (model x) :axis 1))))))";

/* At step 7 an id is out of range. */
static const char ids_text[] =
    "(defdata n :source (arrays \"n\"))"
    "(defrun r :seed 3 :optimizer (adam :lr 0.1) :steps 7 :data n :batch 2 :loss (mean (* x (param \"p\" [3] :init "
    "(normal shape)))))"
    "(defeval held :run r :every 1 :batches 1 :metrics ((\"p\" (mean (param \"p\" [3])))))"
    "(defeval ids :run r :data n :batch 4"
    " :metrics ((\"p\" (mean (gather (param \"p\" [3]) (min y (cast (input :step) i32)))))))";

/* What a training run gave after each step. */
typedef struct trained {
  size_t n_values, n_tensors;
  char names[VALUES][48];
  uint32_t bits[VALUES];
  sexp_tensor tensors[8];
  unsigned char bytes[8][16];
} trained;

typedef struct fixture {
  memory_host files;
  sexp_host host;
  sexp_program *program;
  sexp_run *run;
  sexp_messages *messages;
  sexp_evaluated evaluated;
  trained steps[STEPS + 1];
  strict_device *device; /* NULL: the CPU. Training is the CPU's always */
} fixture;

static float rows_n[8][3], rows_m[5][3];
static int32_t ids[8] = {0, 1, 2, 0, 1, 2, 5, 1};

static int set_up(void **state) {
  static const int64_t dims_n[2] = {8, 3}, dims_m[2] = {5, 3}, dims_y[1] = {8};
  fixture *f = test_calloc(1, sizeof *f);
  for (int i = 0; i < 24; i++) rows_n[i / 3][i % 3] = (float)(i * 7 % 5) / 3;
  for (int i = 0; i < 15; i++) rows_m[i / 3][i % 3] = (float)(i * 5 % 7) / 9;
  f->host = memory_host_callbacks(&f->files);
  memory_host_add_tensor(&f->files, "m", "x", SEXP_F32, 2, dims_m, rows_m);
  memory_host_add_tensor(&f->files, "n", "x", SEXP_F32, 2, dims_n, rows_n);
  memory_host_add_tensor(&f->files, "n", "y", SEXP_I32, 1, dims_y, ids);
  *state = f;
  return 0;
}

static int set_up_on_device(void **state) {
  int status = set_up(state);
  ((fixture *)*state)->device = strict_device_open();
  return status;
}

static int tear_down(void **state) {
  fixture *f = *state;
  sexp_run_free(f->run);
  sexp_program_free(f->program);
  sexp_messages_free(f->messages);
  if (f->device) strict_device_close(f->device);
  int n_open = f->files.n_open;
  test_free(f);
  return n_open;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
#define TEST_ON_BOTH(f) \
  TEST(f), { #f " on a device", f, set_up_on_device, tear_down, NULL }

static const char *first_text(const fixture *f) {
  return sexp_messages_count(f->messages) ? sexp_messages_get(f->messages, 0)->text : "no message";
}

static void compile(fixture *f, const char *source, const sexp_allocator *allocator) {
  sexp_options options = SEXP_OPTIONS_DEFAULT;
  if (allocator) options.allocator = *allocator;
  memory_host_add_text(&f->files, "t.sexp", source);
  if (sexp_compile(&f->program, &f->messages, "t.sexp", &options, &f->host) != SEXP_OK) fail_msg("%s", first_text(f));
}

static sexp_status make(fixture *f, const char *const *names, size_t n_names, int threads) {
  sexp_run_options options = SEXP_RUN_OPTIONS_DEFAULT;
  options.evaluations_only = true;
  options.evaluations = names;
  options.n_evaluations = n_names;
  options.threads = threads;
  if (f->device) options.device = strict_device_of(f->device);
  sexp_run_free(f->run);
  f->run = NULL;
  return sexp_run_new(&f->run, &f->messages, f->program, &options, &f->host);
}

static void make_ok(fixture *f, const char *const *names, size_t n_names, int threads) {
  if (make(f, names, n_names, threads) != SEXP_OK) fail_msg("%s", first_text(f));
}

static void keep_step(trained *to, const sexp_run *run, const sexp_step *step) {
  const sexp_tensor *tensors;
  for (size_t i = 0; i < step->n_values; i++) {
    if (strncmp(step->values[i].name, "eval/", 5)) continue;
    snprintf(to->names[to->n_values], sizeof to->names[0], "%s", step->values[i].name);
    memcpy(&to->bits[to->n_values++], &step->values[i].value, 4);
  }
  to->n_tensors = sexp_run_tensors(run, &tensors);
  for (size_t i = 0; i < to->n_tensors; i++) {
    to->tensors[i] = tensors[i];
    memcpy(to->bytes[i], tensors[i].bytes, tensors[i].n_bytes);
    to->tensors[i].bytes = to->bytes[i];
  }
}

/* All steps; the program stays, so that the tensors' paths and dims do. */
static void train(fixture *f, const char *source) {
  static const sexp_run_options options = SEXP_RUN_OPTIONS_DEFAULT;
  sexp_step step;
  compile(f, source, NULL);
  assert_int_equal(sexp_run_new(&f->run, &f->messages, f->program, &options, &f->host), SEXP_OK);
  for (int i = 1; i <= STEPS; i++) {
    if (sexp_run_step(f->run, &step, &f->messages) != SEXP_OK) step.n_values = 0; /* the state is whole */
    keep_step(&f->steps[i], f->run, &step);
  }
}

static sexp_start start_of(const fixture *f, int step, bool with_states) {
  sexp_start start = {step, f->steps[step].tensors, f->steps[step].n_tensors};
  if (!with_states)
    while (start.n_tensors && start.tensors[start.n_tensors - 1].state) start.n_tensors--;
  return start;
}

static sexp_status evaluate(fixture *f, const sexp_start *start, const char *const *names, size_t n_names) {
  sexp_messages_free(f->messages);
  f->messages = NULL;
  return sexp_run_evaluate(f->run, &f->evaluated, start, names, n_names, &f->messages);
}

static void assert_refused(fixture *f, const sexp_start *start, const char *const *names, size_t n_names,
                           const char *code, const char *words) {
  assert_int_not_equal(evaluate(f, start, names, n_names), SEXP_OK);
  const sexp_message *message = sexp_messages_get(f->messages, 0);
  if (strcmp(message->code, code) || !strstr(message->text, words)) fail_msg("%s", message->text);
}

/* Those values of the step that begin with a prefix, in their order, and no others. */
static void assert_values(fixture *f, int step, const char *prefix) {
  const trained *expected = &f->steps[step];
  size_t n = 0;
  assert_int_equal(f->evaluated.step, step);
  for (size_t i = 0; i < expected->n_values; i++) {
    if (strncmp(expected->names[i], prefix, strlen(prefix))) continue;
    uint32_t bits;
    assert_true(n < f->evaluated.n_values);
    memcpy(&bits, &f->evaluated.values[n].value, 4);
    assert_string_equal(f->evaluated.values[n].name, expected->names[i]);
    if (bits != expected->bits[i])
      fail_msg("step %d %s: %08x, inline %08x", step, expected->names[i], bits, expected->bits[i]);
    n++;
  }
  assert_int_equal(f->evaluated.n_values, n);
}

/* ---- values ---- */

static void test_bits_of_the_inline_ones(void **state) {
  fixture *f = *state;
  static const char *const two[] = {"counters", "held"};
  static const int order[STEPS] = {3, 1, 7, 4, 2, 6, 5}; /* nothing of one checkpoint is left in the next */
  train(f, text);
  for (int threads = 1; threads <= 3; threads++) {
    make_ok(f, NULL, 0, threads);
    for (int i = 0; i < STEPS; i++) {
      sexp_start start = start_of(f, order[i], threads == 2);
      bool all = order[i] == STEPS; /* "last" is due there alone */
      if (evaluate(f, &start, all ? NULL : two, all ? 0 : 2) != SEXP_OK) fail_msg("%s", first_text(f));
      assert_values(f, order[i], "eval/");
    }
  }
}

static void test_each_counter(void **state) {
  fixture *f = *state;
  static const char *const names[] = {"counters"};
  static const float at_4[] = {4, 1, 15, 1, 3}, at_3[] = {3, 1, 12, 0, 12};
  train(f, text);
  make_ok(f, names, 1, 1);
  for (int i = 0; i < 2; i++) {
    sexp_start start = start_of(f, i ? 3 : 4, false);
    assert_int_equal(evaluate(f, &start, NULL, 0), SEXP_OK);
    assert_int_equal(f->evaluated.n_values, 5);
    for (int k = 0; k < 5; k++) assert_true(f->evaluated.values[k].value == (i ? at_3 : at_4)[k]);
  }
}

static void test_named_ones(void **state) {
  fixture *f = *state;
  static const char *const two[] = {"held", "counters"}, *const one[] = {"counters", "counters"};
  static const char *const other[] = {"last"}, *const wrong[] = {"heldd"};
  train(f, text);
  make_ok(f, two, 2, 1);
  sexp_start start = start_of(f, 5, false);
  assert_int_equal(evaluate(f, &start, one, 2), SEXP_OK);
  assert_values(f, 5, "eval/counters/");
  assert_int_equal(evaluate(f, &start, NULL, 0), SEXP_OK);
  assert_values(f, 5, "eval/");
  assert_refused(f, &start, other, 1, "E-RUN-007", "unknown evaluation last; the evaluations are held, counters");
  assert_refused(f, &start, wrong, 1, "E-RUN-007", "did you mean held?");
  assert_int_equal(make(f, wrong, 1, 1), SEXP_INPUT);
  assert_non_null(strstr(sexp_messages_get(f->messages, sexp_messages_count(f->messages) - 1)->text,
                         "the evaluations are held, counters, last"));
}

/* ---- what it opens and holds ---- */

static void test_opens_the_data_of_its_evaluations_alone(void **state) {
  fixture *f = *state;
  static const char *const held[] = {"held"}, *const none[] = {"counters"};
  const sexp_data_info *datas;
  train(f, text);
  sexp_run_free(f->run);
  f->run = NULL;
  f->files.n_tensors = 1; /* the training data are gone */
  make_ok(f, held, 1, 1);
  assert_int_equal(sexp_run_datas(f->run, &datas), 1);
  assert_string_equal(datas[0].name, "m");
  sexp_start start = start_of(f, 2, false);
  assert_int_equal(evaluate(f, &start, NULL, 0), SEXP_OK);
  assert_values(f, 2, "eval/held/");
  assert_int_equal(make(f, NULL, 0, 1), SEXP_STORAGE);
  f->files.n_tensors = 0;
  make_ok(f, none, 1, 1);
  assert_int_equal(sexp_run_datas(f->run, &datas), 0);
  assert_int_equal(f->files.n_open, 0);
}

/* 4 MiB of parameters: adam holds that, a gradient and two states, an evaluation the parameters once. */
static void test_holds_the_parameters_once(void **state) {
  fixture *f = *state;
  static const sexp_run_options options = SEXP_RUN_OPTIONS_DEFAULT;
  counted c = {0};
  sexp_allocator allocator = counted_allocator(&c);
  compile(f,
          "(defun p () (param \"p\" [1024 1024] :init (zeros shape)))"
          "(defrun r :seed 1 :steps 2 :optimizer (adam :lr 0.1) :loss (mean (p)))"
          "(defeval e :run r :metrics ((\"m\" (reduce-max (p)))))",
          &allocator);
  size_t before = c.now, parameter = (size_t)4 << 20;
  sexp_tensor tensor = sexp_run_new(&f->run, &f->messages, f->program, &options, &f->host) == SEXP_OK
                           ? *tensor_of(f->run, "p")
                           : (sexp_tensor){0};
  assert_true(c.now - before > 4 * parameter && c.now - before < 5 * parameter);
  void *bytes = calloc(1, tensor.n_bytes);
  memcpy(bytes, tensor.bytes, tensor.n_bytes);
  tensor.bytes = bytes;
  sexp_run_free(f->run);
  f->run = NULL;
  assert_int_equal(c.now, before);
  c.most = before;
  make_ok(f, NULL, 0, 2);
  sexp_start start = {1, &tensor, 1};
  assert_int_equal(evaluate(f, &start, NULL, 0), SEXP_OK);
  size_t held = c.now;
  for (int i = 0; i < 50; i++) assert_int_equal(evaluate(f, &start, NULL, 0), SEXP_OK);
  assert_int_equal(c.now, held);
  assert_true(f->evaluated.values[0].value == 0);
  assert_true(c.most - before < parameter + parameter / 4);
  sexp_run_free(f->run);
  sexp_messages_free(f->messages);
  sexp_program_free(f->program);
  f->run = NULL;
  f->messages = NULL;
  f->program = NULL;
  assert_int_equal(c.now, 0);
  free(bytes);
}

/* Each allocation of making and evaluating fails in turn: E-RUN-001, and nothing stays behind. */
static void test_memory_that_fails(void **state) {
  fixture *f = *state;
  static const int64_t dims[1] = {3};
  static const float p[3] = {1, 2, 3};
  counted c = {0};
  sexp_allocator allocator = counted_allocator(&c);
  sexp_tensor tensor = {"p", SEXP_F32, 1, dims, p, sizeof p, false};
  sexp_start start = {2, &tensor, 1};
  compile(f, text, &allocator);
  size_t before = c.now, n = 0;
  sexp_status status = SEXP_NO_MEMORY;
  for (; status != SEXP_OK; n++) {
    c.n_calls = 0;
    c.fails_at = n + 1;
    status = make(f, NULL, 0, 1);
    if (status == SEXP_OK) status = sexp_run_evaluate(f->run, &f->evaluated, &start, NULL, 0, &f->messages);
    assert_true(status == SEXP_OK || status == SEXP_NO_MEMORY);
    c.fails_at = 0;
    sexp_run_free(f->run);
    f->run = NULL;
    sexp_messages_free(f->messages);
    f->messages = NULL;
    assert_int_equal(c.now, before);
  }
  assert_true(n > 20);
  sexp_program_free(f->program);
  f->program = NULL;
}

static void test_shows_parameters_and_position(void **state) {
  fixture *f = *state;
  const sexp_tensor *tensors;
  sexp_position position;
  sexp_step step;
  train(f, text);
  make_ok(f, NULL, 0, 1);
  sexp_start start = start_of(f, 4, true);
  assert_int_equal(evaluate(f, &start, NULL, 0), SEXP_OK);
  assert_int_equal(sexp_run_tensors(f->run, &tensors), 1);
  assert_memory_equal(tensors[0].bytes, f->steps[4].bytes[0], tensors[0].n_bytes);
  sexp_run_position(f->run, &position);
  assert_true(position.step == 4 && position.records == 15 && position.stage == 1 && position.stage_records == 3);
  assert_int_equal(sexp_run_step(f->run, &step, &f->messages), SEXP_END);
}

/* ---- errors ---- */

static void test_starts_that_do_not_fit(void **state) {
  fixture *f = *state;
  static const int64_t dims[1] = {2};
  train(f, text);
  make_ok(f, NULL, 0, 1);
  sexp_start good = start_of(f, 1, false), bad = good;
  bad.n_tensors = 0;
  assert_refused(f, &bad, NULL, 0, "E-RUN-006", "parameter p is not in the checkpoint");
  sexp_tensor two[2] = {good.tensors[0], good.tensors[0]};
  bad = (sexp_start){1, two, 2};
  assert_refused(f, &bad, NULL, 0, "E-RUN-006", "twice");
  two[1].path = "q";
  assert_refused(f, &bad, NULL, 0, "E-RUN-006", "parameter q of the checkpoint is not in the experiment");
  bad.n_tensors = 1;
  two[0].dims = dims;
  assert_refused(f, &bad, NULL, 0, "E-RUN-006", "[2] in the checkpoint and [3]");
  bad = good;
  bad.step = STEPS + 1;
  assert_refused(f, &bad, NULL, 0, "E-RUN-006", "step 8, the run has 7 steps");
  assert_int_equal(evaluate(f, &good, (const char *const[]){"held"}, 1), SEXP_OK);
  assert_values(f, 1, "eval/held/");
}

/* An evaluation that fails leaves the run as good as it was. */
static void test_goes_on_after_an_error(void **state) {
  fixture *f = *state;
  train(f, ids_text);
  make_ok(f, NULL, 0, 1);
  sexp_start good = start_of(f, 2, false), bad = start_of(f, 7, false);
  assert_refused(f, &bad, NULL, 0, "E-RUN-010", "id 5");
  assert_int_equal(evaluate(f, &good, NULL, 0), SEXP_OK);
  f->files.changed = "n";
  assert_refused(f, &good, NULL, 0, "E-DATA-103", "changed at byte 7");
  f->files.changed = NULL;
  assert_int_equal(evaluate(f, &good, (const char *const[]){"held"}, 1), SEXP_OK);
  assert_values(f, 2, "eval/held/");
}

static void test_a_training_run_is_refused(void **state) {
  fixture *f = *state;
  static const sexp_run_options options = SEXP_RUN_OPTIONS_DEFAULT;
  sexp_step step;
  compile(f, text, NULL);
  assert_int_equal(sexp_run_new(&f->run, &f->messages, f->program, &options, &f->host), SEXP_OK);
  sexp_start start = {0, NULL, 0};
  assert_refused(f, &start, NULL, 0, "E-RUN-007", "made for training");
  assert_int_equal(sexp_run_step(f->run, &step, &f->messages), SEXP_OK);
}

static void test_description(void **state) {
  fixture *f = *state;
  compile(f, text, NULL);
  const sexp_description *about = sexp_program_describe(f->program);
  assert_int_equal(about->n_evals, 3);
  assert_string_equal(about->evals[1].name, "counters");
  assert_int_equal(about->evals[1].n_metrics, 5);
  assert_string_equal(about->evals[1].metrics[4], "stage-records");
  assert_int_equal(about->evals[1].every, 1);
  assert_int_equal(about->evals[2].every, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST_ON_BOTH(test_bits_of_the_inline_ones),
      TEST_ON_BOTH(test_each_counter),
      TEST_ON_BOTH(test_named_ones),
      TEST_ON_BOTH(test_opens_the_data_of_its_evaluations_alone),
      TEST(test_holds_the_parameters_once),
      TEST(test_memory_that_fails),
      TEST_ON_BOTH(test_shows_parameters_and_position),
      TEST_ON_BOTH(test_starts_that_do_not_fit),
      TEST_ON_BOTH(test_goes_on_after_an_error),
      TEST_ON_BOTH(test_a_training_run_is_refused),
      TEST(test_description),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
