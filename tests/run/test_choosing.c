/* What a run on a device decides: everything is checked before memory is taken, stacking is measured on gradients of
 * the first step and computes the sums that it says, and gives way when memory fails, unless a record pins it. The data
 * are small whole numbers, whose sums are exact in any order: so every degree has the bits of the CPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/strict_device.h"
#include "../common/transcript.h"

enum { N_STEPS = 5, MOST_NEEDS = 16 };

/* A chooser whose answers a test gives. */
typedef struct answers {
  const char *stacking;  /* NULL: the first candidate */
  const char *recompute; /* NULL: what is measured */
  const char *pinned;    /* recorded stacking */
  bool runs, refuses, fails, estimates;
  const char *budget;       /* the only one that a record may have; NULL: any */
  const char *takes_memory; /* the kind whose decision finds the host's memory taken */
  bool memory_taken;
  int64_t launch_ns, byte_ns; /* remembered times; 0: measured; -1: not to be had */
  bool estimated;             /* what the model said, of so many candidates: */
  double estimated_ns[8];
  strict_device *device;
  char needs[MOST_NEEDS][64], words[128], candidates[64], text[64];
  size_t n_needs;
  int n_checks, n_ran, n_lacked, n_choosing;
} answers;

typedef struct fixture {
  memory_host files;
  sexp_host host;
  sexp_program *program;
  sexp_run *run;
  sexp_messages *messages;
  strict_device *device;
  answers answers;
  sexp_chooser chooser;
} fixture;

static const char *recorded(void *context, const char *kind, const char *key) {
  const answers *a = context;
  (void)key;
  return strcmp(kind, "stacking") ? NULL : a->pinned;
}

static int check(void *context, const sexp_need *needs, size_t n_needs, sexp_failure *why) {
  answers *a = context;
  a->n_checks++;
  assert_int_equal(strict_device_counts(a->device)->taken_bytes, 0);
  a->n_needs = n_needs;
  for (size_t i = 0; i < n_needs && i < MOST_NEEDS; i++) {
    snprintf(a->needs[i], sizeof a->needs[i], "%s", needs[i].kind);
    if (!strcmp(needs[i].kind, "recompute") && needs[i].n_values == 1) a->budget = needs[i].values[0];
    if (!strcmp(needs[i].kind, "stacking")) snprintf(a->words, sizeof a->words, "%s", needs[i].words);
  }
  if (!a->refuses) return 0;
  snprintf(why->code, sizeof why->code, "E-CHOICE-001");
  snprintf(why->message, sizeof why->message, "recorded choices cannot be taken");
  return 1;
}

static int64_t cost(void *context, const char *key, sexp_ran (*measure)(void *work, int64_t *time_ns), void *work) {
  const answers *a = context;
  int64_t time_ns = strcmp(key, "launch") ? a->byte_ns : a->launch_ns;
  if (!time_ns) assert_int_equal(measure(work, &time_ns), SEXP_RAN);
  return time_ns;
}

static int choose_now(answers *a, const sexp_choice *choice, const char **value) {
  if (a->takes_memory && !strcmp(choice->kind, a->takes_memory)) a->memory_taken = true;
  if (a->fails) return 1;
  if (!strcmp(choice->kind, "recompute")) {
    assert_int_equal(choice->measure(choice->work, a->text, sizeof a->text), SEXP_RAN);
    *value = a->recompute ? a->recompute : a->text;
    return 0;
  }
  if (!strcmp(choice->kind, "product")) {
    *value = choice->values[1];
    return 0;
  }
  assert_string_equal(choice->kind, "stacking");
  snprintf(a->candidates, sizeof a->candidates, "%s", strstr(choice->key, "candidates"));
  if (a->estimates) a->estimated = choice->estimate(choice->work, a->estimated_ns);
  int64_t before = choice->now_ns(choice->work);
  for (int round = 0; a->runs && round < 2; round++)
    for (size_t i = 0; i < choice->n_values; i++) {
      sexp_ran ran = choice->run(choice->work, i);
      assert_true(ran != SEXP_RAN_REFUSED);
      a->n_ran += ran == SEXP_RAN;
      a->n_lacked += ran == SEXP_RAN_OUT_OF_MEMORY;
    }
  assert_true(!a->n_ran || choice->now_ns(choice->work) > before);
  *value = a->pinned ? a->pinned : a->stacking ? a->stacking : choice->values[0];
  return 0;
}

static int choose(void *context, const sexp_choice *choice, const char **value, sexp_failure *why) {
  answers *a = context;
  (void)why;
  a->n_choosing++;
  int status = choose_now(a, choice, value);
  a->n_choosing--;
  return status;
}

static int set_up(void **state) {
  static float x[24][2];
  static const int64_t dims[2] = {24, 2};
  fixture *f = test_calloc(1, sizeof *f);
  for (int i = 0; i < 48; i++) x[i / 2][i % 2] = (float)(i * 7 % 5 - 2);
  f->host = memory_host_callbacks(&f->files);
  memory_host_add_tensor(&f->files, "n", "x", SEXP_F32, 2, dims, x);
  f->device = strict_device_open();
  f->answers.device = f->device;
  f->chooser = (sexp_chooser){&f->answers, recorded, check, choose, cost};
  *state = f;
  return 0;
}

static void close_run(fixture *f) {
  sexp_run_free(f->run);
  f->run = NULL;
}

static int tear_down(void **state) {
  fixture *f = *state;
  close_run(f);
  sexp_program_free(f->program);
  sexp_messages_free(f->messages);
  strict_device_close(f->device);
  int n_open = f->files.n_open;
  test_free(f);
  return n_open;
}

#define DATA "(defdata n :source (arrays \"n\"))"
/* p is bf16, q f32; the gradients are sums of small whole numbers. */
#define LOSS                                                                                                       \
  " :loss (+ (sum (* x (cast (param \"p\" [2] :dtype bf16 :init (cast (ones shape) bf16)) f32)))"                  \
  "          (sum (relu (matmul x (probe \"w\" (param \"q\" [2 3] :init (ones shape)))))))"                        \
  " :metrics ((\"largest\" (reduce-max x))) :optimizer (lambda (p g) (cast (- (cast p f32) (* 0.5 (cast g f32))) " \
  "(dtype-of p)))"
static const char plain[] = DATA "(defrun r :seed 1 :steps 5 :data n :batch 2 :microbatches 8" LOSS ")";
/* Gradients of much more than the data. */
static const char wide[] = DATA
    "(defrun r :seed 1 :steps 5 :data n :batch 2 :microbatches 8 :optimizer (lambda (p g) (- p g))"
    " :loss (sum (relu (matmul x (param \"q\" [2 2000] :init (ones shape))))))";
static const char sampled[] = DATA
    "(defrun r :seed 1 :steps 5 :data n :batch 2 :microbatches 8 :diagnostics (\"w\" \"grad/*\") :diagnostics-every "
    "2" LOSS ")";
static const char by_six[] = DATA "(defrun r :seed 1 :steps 5 :data n :batch 2 :microbatches 6" LOSS ")";
static const char made[] =
    "(defgenerator g :fields ((x [2] f32)) :trips 2 :init (broadcast-to (cast (input :step) f32) [3 2])"
    " :trip (lambda (s) (+ s (cast (input :trip) f32))) :emit (lambda (s) [s]))"
    "(defrun r :seed 1 :steps 5 :data g :batch 3 :microbatches 4" LOSS ")";
static const char counting[] = DATA
    "(defrun r :seed 1 :steps 5 :data n :batch 2 :microbatches 4 :optimizer (lambda (p g) (- p g))"
    " :loss (* (mean x) (param \"p\" [] :init (zeros shape)) (cast (input :microbatch) f32)))";

static void *allocate(void *context, size_t n_bytes) {
  const answers *a = context;
  return a->memory_taken ? NULL : malloc(n_bytes);
}

static void release(void *context, void *pointer) {
  (void)context;
  free(pointer);
}

static void compile(fixture *f, const char *text) {
  sexp_options options = SEXP_OPTIONS_DEFAULT;
  options.allocator = (sexp_allocator){allocate, release, &f->answers, 1};
  memory_host_add_text(&f->files, "t.sexp", text);
  sexp_status status = sexp_compile(&f->program, &f->messages, "t.sexp", &options, &f->host);
  if (status != SEXP_OK) fail_msg("%s", sexp_messages_get(f->messages, 0)->text);
}

static sexp_status make(fixture *f, bool on_device, int64_t digest_nodes_at) {
  sexp_run_options options = SEXP_RUN_OPTIONS_DEFAULT;
  options.threads = 1;
  options.digest_nodes_at = digest_nodes_at;
  options.device = on_device ? strict_device_of(f->device) : NULL;
  options.chooser = &f->chooser;
  close_run(f);
  return sexp_run_new(&f->run, &f->messages, f->program, &options, &f->host);
}

static void make_ok(fixture *f, bool on_device) {
  if (make(f, on_device, 0) != SEXP_OK) fail_msg("%s", sexp_messages_get(f->messages, 0)->text);
}

static const char *decision(const fixture *f, const char *kind) {
  const sexp_decision *decisions;
  size_t n = sexp_run_decisions(f->run, &decisions);
  for (size_t i = 0; i < n; i++)
    if (!strcmp(decisions[i].kind, kind)) return decisions[i].value;
  return "none";
}

/* Values and tensors of all steps, as text; how many steps told that memory failed. */
static char *go_on(fixture *f, bool values, int *n_failed) {
  char *text = NULL;
  size_t n_text;
  FILE *to = open_memstream(&text, &n_text);
  sexp_step step;
  const sexp_tensor *tensors;
  *n_failed = 0;
  while (sexp_run_step(f->run, &step, &f->messages) == SEXP_OK) {
    *n_failed += step.memory_failed != NULL;
    for (size_t i = 0; values && i < step.n_values; i++)
      fprintf(to, "%s %a\n", step.values[i].name, (double)step.values[i].value);
    size_t n = sexp_run_tensors(f->run, &tensors);
    for (size_t i = 0; i < n; i++)
      for (size_t k = 0; k < tensors[i].n_bytes; k++) fprintf(to, "%02x", ((const unsigned char *)tensors[i].bytes)[k]);
    fputc('\n', to);
  }
  fclose(to);
  return text;
}

static char *go(fixture *f, int *n_failed) { return go_on(f, true, n_failed); }

static void compare(fixture *f, const char *text, const char *degree) {
  int n_failed;
  compile(f, text);
  make_ok(f, false);
  bool values = text != by_six; /* means of six are no numbers of few bits: their losses' sums are rounded */
  char *expected = go_on(f, values, &n_failed);
  f->answers.stacking = degree;
  f->answers.runs = true;
  make_ok(f, true);
  assert_string_equal(decision(f, "stacking"), degree);
  char *got = go_on(f, values, &n_failed);
  assert_string_equal(expected, got);
  assert_int_equal(n_failed, 0);
  free(expected);
  free(got);
  close_run(f);
  sexp_program_free(f->program);
  f->program = NULL;
  f->files.n_files--;
}

static void test_stacked_sums_are_those_of_the_cpu(void **state) {
  static const char *const degrees[] = {"1", "2", "4", "8"};
  fixture *f = *state;
  for (size_t i = 0; i < 4; i++) {
    compare(f, plain, degrees[i]);
    assert_string_equal(f->answers.candidates, "candidates 1 2 4 8");
    compare(f, sampled, degrees[i]);
  }
  assert_int_equal(f->answers.n_ran, 64);
  compare(f, by_six, "6");
  compare(f, by_six, "2");
  compare(f, made, "2");
  compare(f, made, "4");
}

/* A run whose nodes are digested computes that step one by one, and has the same sums. */
static void test_observed_steps_are_not_stacked(void **state) {
  fixture *f = *state;
  int n_failed;
  compile(f, plain);
  assert_int_equal(make(f, false, 3), SEXP_OK);
  char *expected = go(f, &n_failed);
  f->answers.stacking = "2";
  assert_int_equal(make(f, true, 3), SEXP_OK);
  char *got = go(f, &n_failed);
  assert_string_equal(expected, got);
  free(expected);
  free(got);
}

static void test_decides_in_order_and_checks_first(void **state) {
  fixture *f = *state;
  compile(f, plain);
  make_ok(f, true);
  assert_int_equal(f->answers.n_checks, 1);
  assert_string_equal(f->answers.needs[0], "recompute");
  assert_string_equal(f->answers.needs[1], "stacking");
  assert_non_null(strstr(f->answers.words, "1, 2, 4 or 8 fit in "));
  assert_string_equal(decision(f, "recompute"), "10.5");
  assert_string_equal(decision(f, "stacking"), "1");
  assert_non_null(strstr(sexp_run_text(f->run, "stacking"), "fits, taken"));
  assert_non_null(strstr(sexp_run_text(f->run, "memory"), "gradients"));
  assert_non_null(strstr(sexp_run_text(f->run, "kernels"), "update\n"));
  assert_null(sexp_run_text(f->run, "nothing"));
  f->answers.refuses = true;
  assert_int_equal(make(f, true, 0), SEXP_INPUT);
  assert_string_equal(sexp_messages_get(f->messages, 0)->code, "E-CHOICE-001");
}

/* A budget that the experiment states is neither asked for nor measured; a record is checked against it. */
static void test_a_stated_budget_is_taken(void **state) {
  fixture *f = *state;
  compile(f, DATA "(defrun r :seed 1 :steps 5 :data n :batch 2 :microbatches 8 :recompute 5.25" LOSS ")");
  f->answers.recompute = "11";
  make_ok(f, true);
  assert_int_equal(f->answers.n_checks, 1);
  assert_string_equal(f->answers.needs[0], "recompute");
  assert_string_equal(f->answers.budget, "5.25");
  assert_string_equal(decision(f, "recompute"), "5.25");
  assert_string_equal(decision(f, "stacking"), "1");
  f->answers.refuses = true;
  assert_int_equal(make(f, true, 0), SEXP_INPUT);
}

static size_t count(const fixture *f, const char *kind) {
  const sexp_decision *decisions;
  size_t n = sexp_run_decisions(f->run, &decisions), n_of_kind = 0;
  for (size_t i = 0; i < n; i++) n_of_kind += !strcmp(decisions[i].kind, kind);
  return n_of_kind;
}

/* Of all the plans that were tried, those of the degree that is taken and of the unstacked run are the run's. */
static void test_decisions_are_those_that_the_run_needs(void **state) {
  fixture *f = *state;
  compile(f, plain);
  f->answers.runs = true;
  make_ok(f, true);
  assert_int_equal(count(f, "product"), 2);
  f->answers.stacking = "4";
  make_ok(f, true);
  assert_int_equal(count(f, "product"), 3);
  assert_string_equal(decision(f, "product"), "transposed");
  f->answers.pinned = "4";
  make_ok(f, true);
  assert_int_equal(f->answers.n_needs, 5); /* recompute, stacking, three plans */
}

static void test_without_a_chooser_the_first_candidates_are_taken(void **state) {
  fixture *f = *state;
  sexp_run_options options = SEXP_RUN_OPTIONS_DEFAULT;
  compile(f, plain);
  options.device = strict_device_of(f->device);
  assert_int_equal(sexp_run_new(&f->run, &f->messages, f->program, &options, &f->host), SEXP_OK);
  assert_string_equal(decision(f, "recompute"), "9");
  assert_string_equal(decision(f, "stacking"), "1");
}

static void test_choices_that_are_not_made(void **state) {
  fixture *f = *state;
  compile(f, plain);
  f->answers.stacking = "3";
  assert_int_equal(make(f, true, 0), SEXP_DEVICE);
  assert_string_equal(sexp_messages_get(f->messages, 0)->code, "E-DEVICE-051");
  assert_non_null(
      strstr(sexp_messages_get(f->messages, 0)->text, "stacking 3 is none of those that fit: 1, 2, 4 or 8 fit"));
  sexp_messages_free(f->messages);
  f->messages = NULL;
  f->answers.fails = true;
  assert_int_equal(make(f, true, 0), SEXP_DEVICE);
  assert_string_equal(sexp_messages_get(f->messages, 0)->code, "E-DEVICE-051");
}

/* A decision returns where there is no memory to note it, so that the device can give back what it has begun. */
static void test_decisions_without_memory(void **state) {
  static const char *const kinds[] = {"recompute", "product", "stacking"};
  fixture *f = *state;
  compile(f, plain);
  for (int i = 0; i < 6; i++) {
    f->answers.takes_memory = kinds[i % 3];
    f->answers.memory_taken = false;
    f->answers.fails = i >= 3;
    sexp_status status = make(f, true, 0);
    f->answers.memory_taken = false;
    /* "recompute" is asked for first: where all fail, it does. */
    assert_int_equal(status, i > 3 ? SEXP_DEVICE : SEXP_NO_MEMORY);
    assert_int_equal(f->answers.n_choosing, 0);
    sexp_messages_free(f->messages);
    f->messages = NULL;
  }
  f->answers.fails = false;
  f->answers.runs = f->answers.estimates = true;
  f->answers.takes_memory = "stacking"; /* candidates lack it too, and their estimates */
  assert_int_equal(make(f, true, 0), SEXP_NO_MEMORY);
  f->answers.memory_taken = false;
  assert_int_equal(f->answers.n_choosing, 0);
  assert_false(f->answers.estimated);
  assert_true(f->answers.n_lacked > 0);
}

static void test_a_graph_that_is_not_stacked(void **state) {
  fixture *f = *state;
  compile(f, counting);
  make_ok(f, true);
  assert_string_equal(f->answers.candidates, "candidates 1");
  assert_string_equal(f->answers.words, ""); /* one degree is no need, so a record without it will do */
  assert_non_null(strstr(sexp_run_text(f->run, "stacking"), "not above 1: "));
  close_run(f);
  f->answers.pinned = "1";
  make_ok(f, true);
  assert_non_null(strstr(f->answers.words, "1: "));
}

static void test_degrees_that_do_not_fit(void **state) {
  fixture *f = *state;
  compile(f, plain);
  f->answers.runs = true;
  make_ok(f, true);
  int64_t most = strict_device_counts(f->device)->most_bytes;
  close_run(f);
  strict_device_set_room(f->device, most / 4);
  sexp_status status = make(f, true, 0);
  assert_true(status == SEXP_DEVICE || !strcmp(f->answers.candidates, "candidates 1"));
}

static double told(const fixture *f, const char *what, const char *line, const char *format) {
  double mebibytes = 0;
  const char *text = strstr(sexp_run_text(f->run, what), line);
  assert_non_null(text);
  assert_int_equal(sscanf(text, format, &mebibytes), 1);
  return mebibytes;
}

/* Activations are of the largest of all plans, stacked ones too; a degree needs more than unstacked by them alone, as
 * the sum of gradients has room for every degree. */
static void test_memory_of_degrees(void **state) {
  fixture *f = *state;
  compile(f, wide);
  make_ok(f, true);
  double unstacked = told(f, "memory", "activations", "activations %lf");
  f->answers.stacking = "8";
  make_ok(f, true);
  double more = told(f, "memory", "activations", "activations %lf") - unstacked;
  assert_true(more > unstacked);
  double one = told(f, "stacking", "stacking ", "stacking 1 %lf"), eight = told(f, "stacking", "8 ", "8 %lf");
  assert_true(eight - one > more - 0.002 && eight - one < more + 0.002);
}

/* ---- memory that fails ---- */

static void fail_above(fixture *f, sexp_status expected, int expected_failures) {
  int n_failed;
  sexp_step step;
  compile(f, plain);
  make_ok(f, false);
  char *wanted = go(f, &n_failed);
  make_ok(f, true);
  assert_string_equal(decision(f, "stacking"), "8");
  assert_int_equal(sexp_run_step(f->run, &step, &f->messages), SEXP_OK);
  assert_null(step.memory_failed);
  strict_device_fail_above(f->device, sexp_program_describe(f->program)->step_bytes);
  char *got = go(f, &n_failed);
  assert_int_equal(n_failed, expected_failures);
  assert_int_equal(sexp_run_step(f->run, &step, &f->messages), expected);
  size_t n = strlen(wanted), n_got = strlen(got); /* of the steps after the first */
  if (expected == SEXP_END) assert_string_equal(wanted + n - n_got, got);
  free(wanted);
  free(got);
}

static void test_a_stacked_run_gives_way(void **state) {
  fixture *f = *state;
  f->answers.stacking = "8";
  fail_above(f, SEXP_END, 1);
}

static void test_a_pinned_run_stops(void **state) {
  fixture *f = *state;
  f->answers.pinned = "8";
  fail_above(f, SEXP_DEVICE, 0);
  sexp_position position;
  sexp_run_position(f->run, &position);
  assert_int_equal(position.step, 1);
}

/* An update that lacks memory may be done in part: it is not computed again, and the tensors are none to be kept. */
static void test_an_update_without_memory_ends_the_run(void **state) {
  fixture *f = *state;
  sexp_step step;
  const sexp_tensor *tensors;
  sexp_position position;
  f->answers.stacking = "8";
  compile(f, plain);
  make_ok(f, true);
  strict_device_fail(f->device, STRICT_FAILS_MEMORY, 2);
  assert_int_equal(sexp_run_step(f->run, &step, &f->messages), SEXP_DEVICE);
  sexp_run_position(f->run, &position);
  assert_int_equal(position.step, 0);
  assert_int_equal(sexp_run_tensors(f->run, &tensors), 0);
}

static void test_a_candidate_without_memory_is_told(void **state) {
  fixture *f = *state;
  compile(f, plain);
  strict_device_fail_above(f->device, sexp_program_describe(f->program)->step_bytes);
  f->answers.runs = true;
  make_ok(f, true);
  assert_true(f->answers.n_ran >= 2 && f->answers.n_lacked >= 2);
  assert_int_equal(f->answers.n_ran + f->answers.n_lacked, 8);
  int n_failed;
  free(go(f, &n_failed));
  assert_int_equal(n_failed, 0);
}

/* ---- the cost model ---- */

static void estimate(fixture *f, const char *text, int64_t launch_ns, int64_t byte_ns) {
  f->answers.launch_ns = launch_ns;
  f->answers.byte_ns = byte_ns;
  f->answers.estimates = true;
  sexp_program_free(f->program);
  f->program = NULL;
  compile(f, text);
  make_ok(f, true);
  assert_true(f->answers.estimated == (strstr(sexp_run_text(f->run, "stacking"), ", estimated ") != NULL));
  close_run(f);
  f->files.n_files--;
}

/* With launches alone, eight passes of one microbatch take 7 / 8 of the passes' launches more than one of eight: tasks,
 * uploads, additions; a generator's go on for each microbatch. */
static void test_estimates(void **state) {
  fixture *f = *state;
  const double *ns = f->answers.estimated_ns;
  estimate(f, plain, 1000000, 1);
  assert_true(f->answers.estimated && ns[0] > 0);
  for (int i = 1; i < 4; i++) assert_true(ns[i] < 0.75 * ns[i - 1]);
  double launches = ns[0];
  estimate(f, plain, 2000000, 1);
  assert_true(ns[0] > 1.99 * launches && ns[0] < 2 * launches);
  estimate(f, plain, 1, 1000000); /* the work of the microbatches stays, additions and widened gradients are fewer */
  for (int i = 1; i < 4; i++) assert_true(ns[i] < ns[i - 1] && ns[i] > 0.1 * ns[0]);
  estimate(f, made, 1000000, 1);
  assert_true(ns[2] < ns[1] && ns[2] > 0.4 * ns[0]);
  assert_int_equal(strict_device_counts(f->device)->n_timed, 0);
}

static void test_estimates_are_measured_or_not_had(void **state) {
  fixture *f = *state;
  estimate(f, plain, 0, 0);
  assert_true(f->answers.estimated);
  assert_int_equal(strict_device_counts(f->device)->n_timed, 2);
  estimate(f, plain, 0, -1);
  assert_true(!f->answers.estimated);
  estimate(f, plain, -1, 0);
  assert_true(!f->answers.estimated);
  assert_int_equal(strict_device_counts(f->device)->n_timed, 3);
  f->chooser.cost = NULL;
  estimate(f, plain, 0, 0);
  assert_true(!f->answers.estimated);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_stacked_sums_are_those_of_the_cpu),
      TEST(test_observed_steps_are_not_stacked),
      TEST(test_decides_in_order_and_checks_first),
      TEST(test_a_stated_budget_is_taken),
      TEST(test_decisions_are_those_that_the_run_needs),
      TEST(test_without_a_chooser_the_first_candidates_are_taken),
      TEST(test_choices_that_are_not_made),
      TEST(test_decisions_without_memory),
      TEST(test_a_graph_that_is_not_stacked),
      TEST(test_degrees_that_do_not_fit),
      TEST(test_a_stacked_run_gives_way),
      TEST(test_a_pinned_run_stops),
      TEST(test_memory_of_degrees),
      TEST(test_an_update_without_memory_ends_the_run),
      TEST(test_a_candidate_without_memory_is_told),
      TEST(test_estimates),
      TEST(test_estimates_are_measured_or_not_had),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
