#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/language.h"

#define W "(sum (param \"w\" [4] :init 0))"
#define OPTIMIZER ":optimizer (lambda (p g) (- p g))"

static void expect(const char *text, const char *wanted) {
  language *made = language_of(text, NULL);
  const char *got = language_error(made);
  if (*wanted ? !strstr(got, wanted) : *got != 0) {
    print_error("%s\n  wanted %s\n  got    %s\n", text, wanted, got);
    fail();
  }
  language_free(made);
}

/* ---- data ---- */

#define USING(data) "(defdata d " data ")\n(defrun r :steps 1 :data d :batch 2 :loss (+ 0 " W ") " OPTIMIZER ")"

static const sx_data *data_of(language *made) {
  assert_string_equal(language_error(made), "");
  assert_int_equal(made->program.datas.n, 1);
  return &made->program.datas.items[0];
}

static void test_data(void **state) {
  (void)state;
  language *made =
      language_of(USING(":source (arrays \"a.npz\") :order shuffled :seed 3 :records (2 7) :on-end stop"), NULL);
  const sx_data *data = data_of(made);
  assert_string_equal(data->name, "d");
  assert_int_equal(data->kind, SX_SOURCE_ARRAYS);
  assert_string_equal(data->path, "a.npz");
  assert_true(data->shuffled && data->has_seed && data->seed == 3 && data->stop_at_end);
  assert_true(data->record_lo == 2 && data->record_hi == 7 && !data->records_are_fractions);
  language_free(made);

  made = language_of(
      "(defknob n 24)" USING(
          ":source (windows (str \"t\" \".txt\") :dtype u16 :length (+ n 1) :stride n :field ids) :records [0 0.5]"),
      NULL);
  data = data_of(made);
  assert_int_equal(data->kind, SX_SOURCE_WINDOWS);
  assert_string_equal(data->path, "t.txt");
  assert_true(data->window_bytes == 2 && data->window_dtype == SX_I32);
  assert_true(data->window_length == 25 && data->window_stride == 24);
  assert_string_equal(data->window_field, "ids");
  assert_true(data->records_are_fractions && data->fraction_lo == 0 && data->fraction_hi == 0.5);
  assert_true(!data->shuffled && !data->has_seed && !data->stop_at_end);
  language_free(made);

  made = language_of(USING(":source (csv \"c.csv\" :fields ((a [4]) b (c i32) (e 9 i32) (f [2])) :header true)"), NULL);
  data = data_of(made);
  static const sx_source_field wanted[] = {{"a", NULL, SX_F32, 0, 4},
                                           {"b", NULL, SX_F32, 4, 0},
                                           {"c", NULL, SX_I32, 5, 0},
                                           {"e", NULL, SX_I32, 9, 0},
                                           {"f", NULL, SX_F32, 10, 2}};
  assert_int_equal(data->n_fields, 5);
  for (uint32_t i = 0; i < 5; i++) {
    assert_string_equal(data->fields[i].name, wanted[i].name);
    assert_int_equal(data->fields[i].dtype, wanted[i].dtype);
    assert_int_equal(data->fields[i].first_column, wanted[i].first_column);
    assert_int_equal(data->fields[i].n_columns, wanted[i].n_columns);
  }
  assert_true(data->csv_header);
  language_free(made);

  made = language_of(USING(":source (idx (image \"i.gz\") (label \"l.gz\"))"), NULL);
  data = data_of(made);
  assert_int_equal(data->n_fields, 2);
  assert_string_equal(data->fields[1].name, "label");
  assert_string_equal(data->fields[1].path, "l.gz");
  assert_true(data->record_lo == -1 && data->record_hi == -1);
  language_free(made);
  expect(USING(":source (manifest \"m.json\")"), "");
}

static void test_data_mistakes(void **state) {
  (void)state;
  expect(USING(""), "E-DATA-001 1:1 data need a :source");
  expect(USING(":source \"a\""), "E-DATA-001 1:20 a source is (arrays FILE)");
  expect(USING(":source (array \"a\")"), "E-DATA-001");
  expect(USING(":source (arrays)"), "E-DATA-001");
  expect(USING(":source (arrays 3)"), "E-DATA-001 1:28 expected the path of a file");
  expect(USING(":source (arrays \"a\" \"b\")"), "E-DATA-001");
  expect(USING(":source (arrays \"a\") :ordre shuffled"),
         "E-DATA-001 1:33 defdata takes no keyword :ordre | did you mean :order?");
  expect(USING(":source (arrays \"a\") :order shuffle"),
         "E-DATA-001 1:40 :order must be sequential or shuffled, found shuffle");
  expect(USING(":source (arrays \"a\") :order"), "E-DATA-001");
  expect(USING(":source (arrays \"a\") :seed 1 :seed 2"), "E-DATA-001 1:41 :seed stands twice");
  expect(USING(":source (arrays \"a\") :seed 1.5"), "E-DATA-001 1:39 :seed must be an integer");
  expect(USING(":source (arrays \"a\") :records (5 2)"), "E-DATA-001");
  expect(USING(":source (arrays \"a\") :records (0.5 1.5)"), "E-DATA-001");
  expect(USING(":source (arrays \"a\") :records 5"), "E-DATA-001 1:42 :records is (lo hi)");
  expect(USING(":source (arrays \"a\") :records (1 \"a\")"), "E-DATA-001");
  expect(USING(":source (windows \"a\")"), "E-DATA-001 1:20 windows need a :length");
  expect(USING(":source (windows \"a\" :length 0)"), "E-DATA-001");
  expect(USING(":source (windows \"a\" :length 4 :dtype f32)"), "E-DATA-001 1:50 :dtype must be u8 or u16 or i32");
  expect(USING(":source (csv \"a\")"), "E-DATA-001");
  expect(USING(":source (csv \"a\" :fields ((x bf16)))"), "E-DATA-001");
  expect(USING(":source (csv \"a\" :fields (x x))"), "E-DATA-001 1:20 the field x stands twice");
  expect(USING(":source (idx)"), "E-DATA-001");
  expect(USING(":source (idx (1 \"a\"))"), "E-DATA-001");
  expect(USING(":source (arrays \"missing\")"), "E-DATA-050");
  expect("(defrun r :steps 1 :data dd :batch 1 :loss " W " " OPTIMIZER ")\n(defdata de :source (arrays \"a\"))",
         "E-DATA-002 1:26 there are no data dd; the file defines de");
  expect("(defdata d :source (arrays \"a\"))\n(defdata d :source (arrays \"a\"))",
         "E-EVAL-006 2:10 d is defined a second time @ 1:10");
  expect("(defdata d :source (arrays \"a\"))\n(defgenerator d :fields ((x [] f32)) :emit (lambda (s) s))",
         "E-EVAL-006");
}

/* ---- runs ---- */

static void test_fields(void **state) {
  (void)state;
  language *made = language_of(
      "(defdata d :source (arrays \"a\"))\n"
      "(defrun r :steps 3 :data d :batch 2 :microbatches 4 :loss (+ (mean (* x (param \"w\" [4] :init 0))) (sum (cast "
      "y f32)))\n"
      ":metrics ((\"big\" (reduce-max x)) (two 2)) " OPTIMIZER ")",
      NULL);
  assert_string_equal(language_error(made), "");
  const sx_stage_run *stage = &made->program.stages[0];
  assert_true(stage->batch == 2 && stage->microbatches == 4 && stage->steps == 3 && stage->data == 0);
  assert_int_equal(stage->generator, -1);
  const char *text = language_graph(made, stage->loss);
  assert_non_null(strstr(text, "input {name \"field/x\"} : f32 [2 4]"));
  assert_non_null(strstr(text, "input {name \"field/y\"} : i32 [2]"));
  assert_non_null(strstr(text, "output \"metric/big\""));
  assert_non_null(strstr(text, "output \"metric/two\""));
  language_free(made);
  /* a field that nobody reads is no input */
  made = language_of(USING(":source (arrays \"a\")"), NULL);
  assert_null(strstr(language_graph(made, made->program.stages[0].loss), "field/"));
  language_free(made);
  /* a field hides a function of its name, in the expression only */
  expect(
      "(defun x (a) (* a 2)) (defdata d :source (arrays \"a\"))\n"
      "(defrun r :steps 1 :data d :batch 2 :loss (x 3) " OPTIMIZER ")",
      "E-EVAL-003 2:44 a tensor is no function: f32 [2 4]");
}

static void test_settings(void **state) {
  (void)state;
  language *made =
      language_of("(defrun r :seed -5 :steps (* 2 5) :loss " W " " OPTIMIZER
                  " :checkpoint-every 4 :checkpoint-keep 2 :diagnostics (\"a/*\" \"b\") :diagnostics-every 7)",
                  NULL);
  const sx_program *program = &made->program;
  assert_string_equal(language_error(made), "");
  assert_string_equal(program->run_name, "r");
  assert_true(program->seed == -5 && program->stages[0].steps == 10);
  assert_true(program->checkpoint_every == 4 && program->checkpoint_keep == 2 && program->diagnostics_every == 7);
  assert_string_equal(program->diagnostics[1], "b");
  assert_int_equal(program->stages[0].batch, 1);
  language_free(made);
}

static void test_run_mistakes(void **state) {
  (void)state;
  expect("(print 1)", "E-RUN-021 the file defines no run");
  expect("(defrun a :steps 1 :loss 1) (defrun b :steps 1 :loss 1)",
         "E-RUN-021 the file defines several runs: a, b | choose one");
  expect("(defrun a :steps 1)", "E-RUN-020 1:1 a run needs a :loss");
  expect("(defrun a :loss 1)", "E-RUN-020 1:1 a run needs :steps");
  expect("(defrun a :steps 0 :loss 1)", "E-RUN-020 1:18 :steps must be at least 1, found 0");
  expect("(defrun a :steps 1 :loss 1 :stepz 2)",
         "E-RUN-020 1:28 defrun takes no keyword :stepz | did you mean :steps?");
  expect("(defrun a 1)", "E-RUN-020 1:11 defrun: expected a keyword here");
  expect("(defrun a :steps 1 :loss [1])", "E-RUN-022 1:26 the loss must be a scalar of f32, found a list, [1]");
  expect("(defrun a :steps 1 :loss (ones [2]))",
         "E-RUN-022 1:26 the loss must be a scalar of f32, found a tensor, f32 [2] | reduce it");
  expect("(defrun a :steps 1 :loss (cast 1 bf16))", "| cast it, (cast x f32)");
  expect("(defrun a :steps 1 :loss 1 :metrics ((\"m\" (ones [2]))))", "E-RUN-022 1:43 the metric m must be");
  expect("(defrun a :steps 1 :loss 1 :metrics ((\"m\")))", "E-RUN-020");
  expect("(defrun a :steps 1 :loss 1 :metrics ((\"m\" 1 :reduce max)))", "E-RUN-020");
  expect("(defrun a :steps 1 :loss 1 :metrics ((\"m\" 1) (\"m\" 1)))", "E-RUN-020 1:46 the metric m stands twice");
  expect("(defrun a :steps 1 :loss 1 :diagnostics 3)", "E-RUN-020");
  expect("(defdata d :source (arrays \"a\")) (defrun a :steps 1 :loss 1 :data d)", "E-RUN-020 1:67 data need a :batch");
  expect("(defrun a :steps 1 :loss (begin (probe \"p\" (ones [1])) (probe \"p\" (ones [2])) 1))",
         "E-RUN-024 1:57 probe: the name p is taken | make names");
  /* the keywords of a run that is not selected are checked, its expressions are not evaluated */
  sx_selection selection = {.run = "a", .eval_limit = 10000};
  language *made = language_of("(defrun a :steps 1 :loss 1) (defrun b :steps (error \"no\") :loss (nope))", &selection);
  assert_string_equal(language_codes(made), "");
  language_free(made);
  made = language_of("(defrun a :steps 1 :loss 1) (defrun b :stepz 1)", &selection);
  assert_string_equal(language_codes(made), "E-RUN-020");
  language_free(made);
  made = language_of("(defrun a :steps 1 :loss 1) (defrun b :steps 1 :loss 1) (defeval e :run b :evry 1)", &selection);
  assert_string_equal(language_codes(made), "E-RUN-020");
  language_free(made);
  made = language_of("(defrun a :steps 1 :loss 1) (defgenerator g :emitt 1)", &selection);
  assert_string_equal(language_codes(made), "E-RUN-025");
  language_free(made);
  selection.run = "tiyn";
  made = language_of("(defrun tiny :steps 1 :loss 1)", &selection);
  assert_string_equal(language_error(made), "E-RUN-021 there is no run tiyn; the runs are tiny | did you mean tiny?");
  language_free(made);
}

static const char staged[] =
    "(defdata d :source (arrays \"a\"))\n"
    "(defrun r :steps 5 :batch 2 :loss (sum (* 1 (normal [2]))) " OPTIMIZER
    "\n"
    ":stages ((stage \"short\" :steps 3) (stage long :data d :batch 3 :loss (+ (mean x) " W ")) (stage \"last\")))";

static void test_stages(void **state) {
  (void)state;
  language *made = language_of(staged, NULL);
  const sx_program *program = &made->program;
  assert_string_equal(language_error(made), "");
  assert_int_equal(program->n_stages, 3);
  assert_string_equal(program->stages[1].name, "long");
  assert_string_equal(program->stages[0].loss->name, "loss/short");
  assert_true(program->stages[0].steps == 3 && program->stages[1].steps == 5);
  assert_true(program->stages[0].data == -1 && program->stages[1].data == 0);
  assert_true(program->stages[0].batch == 2 && program->stages[1].batch == 3);
  /* a parameter that only one stage has gets a zero gradient in the others, without a warning */
  const sx_graph *first = program->stages[0].loss;
  assert_int_equal(sx_node_at(first, sx_graph_find_output(first, "grad/w"))->op, SX_OP_CONST);
  assert_string_equal(language_codes(made), "");
  language_free(made);
  static const int64_t wanted[][4] = {{2, 2, 0, 0}, {4, 3, 1, 0}, {8, 3, 5, 0}, {20, 3, 5, 12}};
  for (size_t i = 0; i < 4; i++) {
    sx_selection selection = {.steps = wanted[i][0], .eval_limit = 100000};
    made = language_of(staged, &selection);
    for (size_t k = 0; k < 3; k++) assert_int_equal(made->program.stages[k].steps, wanted[i][k + 1]);
    language_free(made);
  }
  expect("(defrun a :steps 1 :loss 1 :stages 3)", "E-RUN-020");
  expect("(defrun a :steps 1 :loss 1 :stages ((stage)))", "E-RUN-020");
  expect("(defrun a :steps 1 :loss 1 :stages ((stage \"a\") (stage \"a\")))",
         "E-RUN-020 1:49 the stage a stands twice");
  expect("(defrun a :steps 1 :loss 1 :stages ((stage \"a\" :seed 1)))", "E-RUN-020");
}

/* ---- evaluations ---- */

#define EVALUATED(rest)                                                                           \
  "(defdata d :source (arrays \"a\"))\n(defun model (x) (sum (* x (param \"w\" [4] :init 0))))\n" \
  "(defrun r :steps 5 :data d :batch 2 :loss (model x) " OPTIMIZER ")\n(defeval e " rest ")"

static void test_evals(void **state) {
  (void)state;
  language *made = language_of(EVALUATED(":run r :every 3 :data d :batch 4 :metrics ((\"loss\" (model x)) (\"worst\" "
                                         "(reduce-max x) :reduce max) (\"training\" (if training? 1 0)))"),
                               NULL);
  assert_string_equal(language_codes(made), "");
  const sx_eval *eval = &made->program.evals.items[0];
  assert_true(eval->every == 3 && eval->batch == 4 && eval->batches == 0 && eval->data == 0);
  assert_int_equal(eval->n_metrics, 3);
  assert_string_equal(eval->metrics[1], "worst");
  assert_true(eval->reduces[0] == SX_REDUCE_MEAN && eval->reduces[1] == SX_REDUCE_MAX);
  assert_non_null(strstr(language_graph(made, eval->graph), "input {name \"field/x\"} : f32 [4 4]"));
  assert_non_null(strstr(language_graph(made, eval->graph), "const {value 0} : f32 []"));
  assert_int_equal(eval->partial_batch, 2); /* 10 records */
  assert_non_null(strstr(language_graph(made, eval->partial), "input {name \"field/x\"} : f32 [2 4]"));
  language_free(made);
  made = language_of(EVALUATED(":data d :batch 3 :batches 2 :metrics ((\"loss\" (model x)))"), NULL);
  eval = &made->program.evals.items[0];
  assert_true(eval->every == 0 && eval->batches == 2 && !eval->partial);
  language_free(made);
  made = language_of(EVALUATED(":data d :batch 5 :batches 9 :metrics ((\"loss\" (model x)))"), NULL);
  eval = &made->program.evals.items[0]; /* over the data once */
  assert_true(eval->batches == 0 && !eval->partial && eval->partial_batch == 0);
  language_free(made);
  sx_selection selection = {.run = "s", .eval_limit = 100000, .eval_every = 2};
  made = language_of(
      EVALUATED(
          ":run r :metrics ((\"loss\" (nope)))") "(defrun s :steps 1 :loss 1) (defeval f :run s :metrics ((\"x\" 1)))",
      &selection);
  assert_string_equal(language_codes(made), ""); /* that of another run is not evaluated */
  assert_int_equal(made->program.evals.n, 1);
  assert_int_equal(made->program.evals.items[0].every, 2);
  assert_true(made->program.evals.items[0].data == -1 && made->program.evals.items[0].batches == 1);
  language_free(made);
}

static void test_eval_mistakes(void **state) {
  (void)state;
  expect(EVALUATED(":run rr :metrics ((\"l\" 1))"), "E-RUN-021 4:17 there is no run rr");
  expect(EVALUATED(":run r"), "E-RUN-020 4:10 an evaluation needs :metrics");
  expect(EVALUATED(":data d :metrics ((\"l\" 1))"), "E-RUN-020 4:18 data need a :batch");
  expect(EVALUATED(":data d :batch 2 :metrics ((\"l\" x))"), "E-RUN-022");
  expect(EVALUATED(":metrics ((\"l\" 1 :reduce median))"),
         "E-RUN-020 4:37 :reduce must be mean or sum or max or min, found median");
  expect(EVALUATED(":metrics ((\"l\" (param \"ww\" [] :init 0)))"),
         "E-PARAM-002 4:28 parameter ww: the training graph has no such parameter");
  expect(EVALUATED(":metrics ((\"l\" (sum (param \"w\" [4]))))"), "");
  expect(EVALUATED(":metrics ((\"l\" (param \"fixed\" [] :init 0 :trainable false)))"), "");
  expect(EVALUATED(":metrics ((\"l\" (cast (input :trip) f32)))"), "E-EVAL-007");
}

/* ---- generators ---- */

#define GENERATED(rest)                                    \
  "(defgenerator g :fields ((x [8] f32) (y [] i32)) " rest \
  ")\n"                                                    \
  "(defrun r :steps 1 :data g :batch 3 :loss (+ (mean x) (sum (param \"w\" [] :init 0))) " OPTIMIZER ")"

static void test_generators(void **state) {
  (void)state;
  language *made =
      language_of(GENERATED(":trips 4 :init [(normal [batch 8] :salt :step) [(zeros [batch])]]\n"
                            ":trip (lambda (s) [(+ (first s) (cast (input :trip) f32)) [(* 2 (first (nth s 1)))]])\n"
                            ":emit (lambda (s) [(if training? 0 (first s)) (cast (first (nth s 1)) i32)])"),
                  NULL);
  assert_string_equal(language_codes(made), "");
  assert_int_equal(made->program.stages[0].generator, 0);
  assert_int_equal(made->program.stages[0].data, -1);
  const sx_generator *generator = &made->program.generators.items[0];
  assert_true(generator->trips == 4 && generator->n_state == 2 && generator->n_fields == 2);
  const char *text = language_graph(made, generator->trip);
  assert_non_null(strstr(text, "graph \"generator/g/trip\""));
  assert_non_null(strstr(text, "input {name \"state/0\"} : f32 [3 8]"));
  assert_non_null(strstr(text, "input {name \"counter/trip\"} : i32 []"));
  assert_non_null(strstr(text, "output \"state/1\""));
  assert_non_null(strstr(language_graph(made, generator->init), "output \"state/1\""));
  assert_non_null(strstr(language_graph(made, generator->emit), "output \"field/y\""));
  language_free(made);
  /* without :init and :trip; it may read parameters */
  expect(GENERATED(":emit (lambda (s) [(+ (param \"w\" []) (normal [batch 8])) (zeros [batch] :dtype i32)])"), "");
  expect(
      "(defgenerator g :fields ((x [] f32)) :emit (lambda (s) (ones [batch])))\n"
      "(defrun r :steps 1 :data g :batch 3 :loss (mean x))",
      "");
}

static void test_generator_mistakes(void **state) {
  (void)state;
#define EMIT " :emit (lambda (s) [(ones [batch 8]) (zeros [batch] :dtype i32)])"
  expect(GENERATED(":trips 2"), "E-RUN-025 1:15 a generator needs :emit");
  expect(GENERATED(":trip (lambda (s) s)" EMIT), "E-RUN-025 1:56 :trip needs :init and :trips");
  expect(GENERATED(":init \"a\"" EMIT), "E-RUN-025 1:56 a generator's state is a tensor or a list of them");
  expect(GENERATED(":trips 2 :init 0 :trip (lambda (s) [s s])" EMIT),
         "E-RUN-025 1:73 :trip must give a state like that of :init, 0, found [f32 [] f32 []]");
  expect(GENERATED(":trips 2 :init 0 :trip 3" EMIT), "E-RUN-025 1:73 :trip must be a function of the state");
  expect(GENERATED(":trips -1 :init 0 :trip (lambda (s) s)" EMIT), "E-RUN-025");
  expect(GENERATED(":emit (lambda (s) (ones [batch 8]))"), "E-RUN-025 1:56 :emit must give the 2 fields");
  expect(GENERATED(":emit (lambda (s) [(ones [8]) (zeros [batch])])"),
         "E-RUN-025 1:56 the field x must be f32 [3 8], found f32 [8]");
  expect(GENERATED(":emit (lambda (s) [(ones [batch 8]) (zeros [batch])])"),
         "the field y must be i32 [3], found f32 [3]");
  expect(GENERATED(":fieldz 1" EMIT), "E-RUN-025");
  expect("(defgenerator g :fields ((x f32)) :emit 1)(defrun r :steps 1 :data g :batch 1 :loss 1)", "E-RUN-025");
  expect("(defgenerator g :fields ((x [1] f64)) :emit 1)(defrun r :steps 1 :data g :batch 1 :loss 1)", "E-EVAL-001");
  expect("(defgenerator g :emit 1)(defrun r :steps 1 :data g :batch 1 :loss 1)", "E-RUN-025");
  expect(GENERATED(":emit (lambda (s) [(+ (param \"v\" [] :init 0) (normal [batch 8])) (zeros [batch] :dtype i32)])"),
         "E-PARAM-002");
  expect(
      "(defgenerator g :fields ((x [] f32)) :emit (lambda (s) (ones [batch])))\n(defrun r :steps 1 :loss 1)\n"
      "(defeval e :data g :batch 2 :metrics ((\"m\" (mean x))))",
      "E-RUN-020 3:18 an evaluation reads data, not a generator");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_data),         cmocka_unit_test(test_data_mistakes),
      cmocka_unit_test(test_fields),       cmocka_unit_test(test_settings),
      cmocka_unit_test(test_run_mistakes), cmocka_unit_test(test_stages),
      cmocka_unit_test(test_evals),        cmocka_unit_test(test_eval_mistakes),
      cmocka_unit_test(test_generators),   cmocka_unit_test(test_generator_mistakes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
