/* Programs through the public interface: what a compiled experiment says of itself, and what changes it. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "../common/cmocka_all.h"
#include "../common/moderate.h"
#include "../common/transcript.h"

typedef struct fixture {
  memory_host files;
  sexp_host host;
  sexp_options options;
  sexp_program *program;
  sexp_messages *messages;
} fixture;

static int set_up(void **state) {
  static const sexp_options options = SEXP_OPTIONS_DEFAULT;
  fixture *f = test_calloc(1, sizeof *f);
  f->host = memory_host_callbacks(&f->files);
  f->options = options;
  moderate_add(&f->files);
  *state = f;
  return 0;
}

static void release(fixture *f) {
  sexp_program_free(f->program);
  sexp_messages_free(f->messages);
  f->program = NULL;
  f->messages = NULL;
}

static int tear_down(void **state) {
  fixture *f = *state;
  release(f);
  int n_open = f->files.n_open;
  test_free(f);
  return n_open;
}

static const sexp_description *compile(fixture *f, const char *run) {
  release(f);
  f->options.run = run;
  if (sexp_compile(&f->program, &f->messages, MODERATE_PATH, &f->options, &f->host) != SEXP_OK)
    fail_msg("%s", sexp_messages_get(f->messages, 0)->text);
  assert_int_equal(f->files.n_open, 0);
  return sexp_program_describe(f->program);
}

static void test_description(void **state) {
  fixture *f = *state;
  f->options.variant = "wide";
  const sexp_description *d = compile(f, "images");
  assert_string_equal(d->run, "images");
  assert_string_equal(d->variant, "wide");
  assert_int_equal(d->seed, 7);
  assert_int_equal(d->steps, 11);
  assert_int_equal(d->batch, 6);
  assert_int_equal(d->microbatches, 3);
  assert_int_equal(d->n_stages, 2);
  assert_int_equal(d->checkpoint_every, 4);
  assert_int_equal(d->n_evals, 1);
  assert_string_equal(d->evals[0].name, "held-out");
  assert_int_equal(d->n_sources, 2);
  assert_string_equal(d->sources[0].path, MODERATE_PATH);
  assert_string_equal(d->sources[1].path, "layers.sexp");
  assert_int_equal(d->n_datas, 2);
  for (int i = 0; i < 2; i++) {
    assert_true(d->datas[i].n_records > 0 && d->datas[i].path && !d->datas[i].version);
    assert_non_null(strstr("sequential shuffled", d->datas[i].order));
  }
  assert_true(d->n_nodes < d->n_nodes_built && d->n_groups && d->n_products && d->n_convolutions);
  assert_true(d->step_bytes >= d->step_bytes_bound && d->step_bytes_bound > 0);
}

/* What the graphs count, each and together. */
static void test_graphs(void **state) {
  fixture *f = *state;
  const sexp_description *d = compile(f, "images");
  const sexp_graph *graphs = NULL;
  size_t n = sexp_program_graphs(&graphs, f->program), n_products = 0, n_convolutions = 0, n_training = 0;
  int64_t n_nodes = 0, n_groups = 0, n_bytes = 0;
  for (size_t i = 0; i < n; i++) {
    const sexp_graph *graph = &graphs[i];
    assert_true(graph->n_tasks > 0 && graph->block_bytes >= graph->bound_bytes);
    for (size_t c = 0; c < graph->n_convolutions; c++) {
      assert_int_equal(strncmp(graph->convolutions[c].op, "conv2d", 6), 0);
      assert_int_equal(graph->convolutions[c].output.rank, 4);
      assert_null(graph->convolutions[c].equation);
    }
    for (size_t p = 0; p < graph->n_products; p++) {
      assert_int_equal(graph->products[p].n_inputs, 2);
      assert_non_null(strstr(graph->products[p].equation, "->"));
      assert_true(graph->products[p].place.line > 0 && graph->products[p].place.file);
    }
    if (!graph->training) continue;
    n_training++;
    n_products += graph->n_products;
    n_convolutions += graph->n_convolutions;
    n_nodes += graph->n_nodes;
    n_groups += graph->n_groups;
    if (graph->block_bytes > n_bytes) n_bytes = graph->block_bytes;
  }
  assert_int_equal(n_training, 3); /* two stages and the update */
  assert_string_equal(graphs[n - 1].name, "init/v/head/w");
  assert_int_equal(n_products, d->n_products);
  assert_int_equal(n_convolutions, d->n_convolutions);
  assert_int_equal(n_nodes, d->n_nodes);
  assert_int_equal(n_groups, d->n_groups);
  assert_int_equal(n_bytes, d->step_bytes);
}

static void test_parameters_and_states(void **state) {
  fixture *f = *state;
  const sexp_description *d = compile(f, "images");
  static const char *const paths[] = {"c1", "head/b", "head/w"};
  int64_t elements = 8 * 9 + 10 + 10 * 72;
  assert_int_equal(d->n_parameters, 3);
  for (int i = 0; i < 3; i++) assert_string_equal(d->parameters[i].path, paths[i]);
  assert_int_equal(d->parameter_elements, elements);
  assert_int_equal(d->parameter_bytes, 4 * elements);
  assert_int_equal(d->n_states, 6);
  assert_int_equal(d->state_bytes, 8 * elements);
}

static void test_knobs(void **state) {
  fixture *f = *state;
  const char *sets[] = {"rate=0.5"};
  f->options.sets = sets;
  f->options.n_sets = 1;
  f->options.steps = 5;
  const sexp_description *d = compile(f, "images");
  assert_int_equal(d->steps, 5);
  assert_string_equal(d->knobs[0].name, "width");
  assert_string_equal(d->knobs[0].json, "8");
  assert_string_equal(d->knobs[0].source, "default");
  assert_string_equal(d->knobs[1].json, "0.5");
  assert_string_equal(d->knobs[1].source, "set");
  size_t n_overrides = 0;
  for (size_t i = 0; i < d->n_knobs; i++) n_overrides += !strcmp(d->knobs[i].source, "override");
  assert_int_equal(n_overrides, 1);
}

static void test_json_of_knobs(void **state) {
  fixture *f = *state;
  f->files.n_files = 0;
  memory_host_add_text(&f->files, MODERATE_PATH,
                       "(defknob a \"q\\\"\\\\\\n\\u{e9}\") (defknob b true) (defknob c [1 2]) (defknob d inf)"
                       "(defrun r :seed 1 :steps 1 :loss 1.0)");
  const sexp_description *d = compile(f, NULL);
  static const char *const json[] = {"\"q\\\"\\\\\\u000a\xc3\xa9\"", "true", "[1, 2]", "null"};
  assert_int_equal(d->n_knobs, 4);
  for (int i = 0; i < 4; i++) assert_string_equal(d->knobs[i].json, json[i]);
}

/* The identity is that of the graphs as they were built: knobs that shape them change it, settings do not. */
static void test_identity(void **state) {
  fixture *f = *state;
  static const char *const all[] = {"*"};
  const char *sets[] = {"width=9"};
  char identity[72];
  strcpy(identity, compile(f, "images")->identity);
  assert_int_equal(strlen(identity), 71);
  f->options.optimize = false;
  assert_string_equal(identity, compile(f, "images")->identity);
  f->options.optimize = true;
  f->options.diagnostics = all;
  f->options.n_diagnostics = 1;
  assert_string_equal(identity, compile(f, "images")->identity);
  f->options.sets = sets;
  f->options.n_sets = 1;
  assert_string_not_equal(identity, compile(f, "images")->identity);
}

static void test_warnings_are_kept(void **state) {
  fixture *f = *state;
  f->files.n_files = 0;
  memory_host_add_text(&f->files, MODERATE_PATH,
                       "(defrun r :seed 1 :steps 1 :optimizer (lambda (p g) p)"
                       " :loss (begin (param \"unused\" [2] :init (zeros shape)) 1.0))");
  compile(f, NULL);
  assert_int_equal(sexp_messages_count(f->messages), 1);
  assert_true(sexp_messages_get(f->messages, 0)->warning);
  assert_non_null(strstr(sexp_messages_get(f->messages, 0)->text, "warning: E-PARAM-"));
}

static void test_errors_in_files(void **state) {
  fixture *f = *state;
  f->files.n_files = 0;
  assert_int_equal(sexp_compile(&f->program, &f->messages, "missing.sexp", &f->options, &f->host), SEXP_INPUT);
  assert_null(f->program);
  assert_string_equal(sexp_messages_get(f->messages, 0)->code, "E-READ-008");
  memory_host_add_text(&f->files, MODERATE_PATH,
                       "(defdata d :source (arrays \"nowhere\"))"
                       "(defrun r :seed 1 :steps 1 :data d :batch 1 :loss 1.0)");
  sexp_messages_free(f->messages);
  f->messages = NULL;
  assert_int_equal(sexp_compile(&f->program, &f->messages, MODERATE_PATH, &f->options, &f->host), SEXP_STORAGE);
  assert_string_equal(sexp_messages_get(f->messages, 0)->code, "E-DATA-101");
  assert_int_equal(sexp_messages_get(f->messages, 0)->line, 1);
}

static void test_print(void **state) {
  fixture *f = *state;
  f->files.n_files = 0;
  memory_host_add_text(&f->files, MODERATE_PATH, "(print \"hello\" 3) (defrun r :seed 1 :steps 1 :loss 1.0)");
  compile(f, NULL);
  assert_non_null(strstr(f->files.printed, "hello"));
}

static void test_passes_are_listed(void **state) {
  (void)state;
  static const char *const names[] = {"gradient", "simplify", "cse", "dce"};
  for (size_t i = 0; i < 4; i++) assert_string_equal(sexp_pass_name(i), names[i]);
  assert_null(sexp_pass_name(4));
}

/* Two runs of one program have memory of their own. */
static void test_two_runs_of_one_program(void **state) {
  fixture *f = *state;
  sexp_run_options options = SEXP_RUN_OPTIONS_DEFAULT;
  sexp_run *runs[2];
  sexp_step steps[2];
  compile(f, "images");
  for (int i = 0; i < 2; i++)
    assert_int_equal(sexp_run_new(&runs[i], &f->messages, f->program, &options, &f->host), SEXP_OK);
  for (int s = 0; s < 3; s++) assert_int_equal(sexp_run_step(runs[0], &steps[0], &f->messages), SEXP_OK);
  float losses[3];
  for (int s = 0; s < 3; s++) {
    assert_int_equal(sexp_run_step(runs[1], &steps[1], &f->messages), SEXP_OK);
    losses[s] = steps[1].loss;
  }
  assert_true(losses[2] == steps[0].loss && losses[0] != losses[2]);
  for (int i = 0; i < 2; i++) sexp_run_free(runs[i]);
}

static void test_datas(void **state) {
  fixture *f = *state;
  sexp_run_options options = SEXP_RUN_OPTIONS_DEFAULT;
  sexp_run *run = NULL;
  const sexp_data_info *datas;
  compile(f, "images");
  assert_int_equal(sexp_run_new(&run, &f->messages, f->program, &options, &f->host), SEXP_OK);
  assert_int_equal(sexp_run_datas(run, &datas), 2);
  assert_string_equal(datas[0].name, "images");
  assert_string_equal(datas[0].path, "images");
  assert_string_equal(datas[0].order, "shuffled");
  assert_int_equal(datas[0].n_records, 40);
  assert_string_equal(datas[0].version, "sha256:of images");
  assert_int_equal(datas[1].n_records, 12); /* (0.0 0.8) of 16 */
  sexp_run_free(run);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
#else
enum { SANITIZED = 0 };
#endif

/* Stacks of so many threads do not fit what the process may map. */
static void test_threads_that_do_not_start(void **state) {
  fixture *f = *state;
  struct rlimit before, low;
  sexp_run_options options = SEXP_RUN_OPTIONS_DEFAULT;
  sexp_run *run = NULL;
  if (SANITIZED) skip();
  compile(f, "made");
  assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
  low = before;
  low.rlim_cur = 512u << 20;
  options.threads = 1000;
  assert_int_equal(setrlimit(RLIMIT_AS, &low), 0);
  sexp_status status = sexp_run_new(&run, &f->messages, f->program, &options, &f->host);
  assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
  assert_int_equal(status, SEXP_INPUT);
  assert_string_equal(sexp_messages_get(f->messages, 0)->code, "E-RUN-003");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_description),
      TEST(test_graphs),
      TEST(test_parameters_and_states),
      TEST(test_knobs),
      TEST(test_json_of_knobs),
      TEST(test_identity),
      TEST(test_warnings_are_kept),
      TEST(test_errors_in_files),
      TEST(test_print),
      TEST(test_passes_are_listed),
      TEST(test_two_runs_of_one_program),
      TEST(test_datas),
      TEST(test_threads_that_do_not_start),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
