/* (defgenerator name :fields ((x [8] f32) ...) :trips n :init e :trip (lambda (state) ...) :emit (lambda (state) ...)):
 * a microbatch's fields made by graphs. `batch` is bound in its expressions. */
#include <inttypes.h>
#include <string.h>

#include "declare.h"
#include "machine.h"
#include "translate.h"

static const char *const generator_options[] = {"fields", "trips", "init", "trip", "emit", NULL};
enum { OPTION_FIELDS, OPTION_TRIPS, OPTION_INIT, OPTION_TRIP, OPTION_EMIT };

/* A state, flattened: tensors in the order in which nested lists hold them. */
typedef struct state {
  sx_value shape; /* the value itself */
  SX_VEC(sx_value) leaves;
} state;

/* ---- fields ---- */

/* (name [size ...] dtype) */
static bool read_field(const sx_options *options, const sx_datum *datum, sx_field_type *field) {
  sx_evaluator *evaluator = options->evaluator;
  sx_value sizes, dtype;
  if (datum->kind != SX_DATUM_LIST || datum->n != 3 || datum->items[0]->kind != SX_DATUM_SYMBOL)
    return sx_option_fail(options, datum, "a field is (name [size ...] dtype)");
  *field = (sx_field_type){.name = datum->items[0]->text};
  if (!sx_option_value(options, datum->items[1], &sizes) || !sx_option_value(options, datum->items[2], &dtype))
    return false;
  bool good = sizes.kind == SX_KIND_LIST && sizes.n < SX_RANK_MAX;
  for (uint32_t i = 0; good && i < sizes.n; i++) {
    good = sizes.items[i].kind == SX_KIND_INTEGER && sizes.items[i].integer >= 0;
    field->dims[i] = sizes.items[i].integer;
  }
  if (!good)
    return sx_option_fail(options, datum->items[1], "expected the sizes of a record, [8], found %s",
                          sx_value_show(evaluator->arena, &sizes));
  if (dtype.kind != SX_KIND_DTYPE)
    return sx_option_fail(options, datum->items[2], "expected a dtype, found %s",
                          sx_value_show(evaluator->arena, &dtype));
  field->rank = (int)sizes.n;
  field->dtype = dtype.dtype;
  return true;
}

bool sx_generator_fields(sx_evaluator *evaluator, sx_declaration *declaration) {
  sx_options options;
  if (declaration->built) return true;
  const sx_datum *before = evaluator->form;
  sx_generator *generator = SX_NEW(evaluator->arena, sx_generator);
  evaluator->form = declaration->form;
  *generator = (sx_generator){.name = declaration->name, .span = declaration->form->items[1]->span};
  if (!sx_read_options(&options, evaluator, declaration->form, 2, SX_E_RUN_GENERATOR, generator_options)) return false;
  const sx_datum *fields = options.values[OPTION_FIELDS];
  if (!fields || fields->kind != SX_DATUM_LIST || !fields->n)
    return sx_option_fail(&options, declaration->form->items[1], "a generator needs :fields, as ((x [8] f32))");
  if (!options.values[OPTION_EMIT])
    return sx_option_fail(&options, declaration->form->items[1], "a generator needs :emit");
  if (options.values[OPTION_TRIP] && (!options.values[OPTION_INIT] || !options.values[OPTION_TRIPS]))
    return sx_option_fail(&options, options.values[OPTION_TRIP], ":trip needs :init and :trips");
  generator->n_fields = fields->n;
  generator->fields = SX_NEW_N(evaluator->arena, sx_field_type, fields->n);
  for (uint32_t i = 0; i < fields->n; i++) {
    if (!read_field(&options, fields->items[i], &generator->fields[i])) return false;
    for (uint32_t k = 0; k < i; k++)
      if (strcmp(generator->fields[i].name, generator->fields[k].name) == 0)
        return sx_option_fail(&options, fields->items[i], "the field %s stands twice", generator->fields[i].name);
  }
  if (!sx_option_integer(&options, OPTION_TRIPS, "trips", 0, &generator->trips)) return false;
  if (!options.values[OPTION_TRIP]) generator->trips = 0;
  declaration->built = generator;
  evaluator->form = before;
  return true;
}

/* ---- states ---- */

/* Collects the tensors of a value; numbers become scalars of f32. */
static bool flatten(const sx_options *options, sx_value value, const sx_datum *at, int depth, state *made) {
  sx_evaluator *evaluator = options->evaluator;
  sx_graph *graph = evaluator->context.graph;
  if (value.kind == SX_KIND_LIST && depth) {
    for (uint32_t i = 0; i < value.n; i++)
      if (!flatten(options, value.items[i], at, depth - 1, made)) return false;
    return true;
  }
  if (sx_is_number(&value)) value = sx_tensor(graph, sx_const(graph, SX_F32, 0, NULL, sx_number(&value)));
  if (value.kind != SX_KIND_TENSOR || value.graph != graph)
    return sx_option_fail(options, at, "a generator's state is a tensor or a list of them, found %s, %s",
                          sx_kind_phrase((sx_kind)value.kind), sx_value_show(evaluator->arena, &value));
  if (!sx_spend(evaluator, 1)) return false;
  SX_PUSH(evaluator->arena, made->leaves, value);
  return true;
}

/* The same structure over other tensors, taken in order. */
static sx_value rebuild(sx_arena *arena, const sx_value *shape, const sx_value **leaves) {
  if (shape->kind != SX_KIND_LIST) return *(*leaves)++;
  sx_value *items = SX_NEW_N(arena, sx_value, shape->n);
  for (uint32_t i = 0; i < shape->n; i++) items[i] = rebuild(arena, &shape->items[i], leaves);
  return sx_list(items, shape->n);
}

/* The state as inputs state/K of the context's graph. */
static sx_value state_inputs(sx_evaluator *evaluator, const state *made, sx_span span) {
  sx_graph *graph = evaluator->context.graph;
  sx_value *inputs = SX_NEW_N(evaluator->arena, sx_value, made->leaves.n);
  graph->span = span;
  graph->path = "";
  for (size_t i = 0; i < made->leaves.n; i++) {
    const sx_node *node = sx_value_node(&made->leaves.items[i]);
    inputs[i] = sx_tensor(graph, sx_graph_add(graph, &(sx_spec){.op = SX_OP_INPUT,
                                                                .dtype = node->dtype,
                                                                .rank = node->rank,
                                                                .dims = node->dims,
                                                                .text = sx_format(evaluator->arena, "state/%zu", i)}));
  }
  const sx_value *leaves = inputs;
  return rebuild(evaluator->arena, &made->shape, &leaves);
}

static void state_outputs(sx_evaluator *evaluator, const state *made) {
  for (size_t i = 0; i < made->leaves.n; i++)
    sx_graph_output(evaluator->context.graph, sx_format(evaluator->arena, "state/%zu", i), made->leaves.items[i].n);
}

/* ---- graphs ---- */

/* The value of one of the expressions, in which `batch` is bound. */
static bool evaluate_part(const sx_options *options, int option, int64_t batch, sx_value *value) {
  sx_evaluator *evaluator = options->evaluator;
  const char *names[1] = {sx_intern_text(evaluator->names, "batch")};
  const sx_datum *datum = options->values[option];
  sx_value argument = sx_integer(batch);
  evaluator->form = datum;
  return sx_run_body(evaluator, sx_translate_expression(evaluator, datum, generator_options[option], names, 1),
                     &argument, 1, value);
}

/* Applies the function that an expression gives to the state. */
static bool apply_part(const sx_options *options, int option, int64_t batch, const state *before, sx_value *value) {
  sx_evaluator *evaluator = options->evaluator;
  const sx_datum *datum = options->values[option];
  sx_value function, argument = state_inputs(evaluator, before, datum->span);
  if (!evaluate_part(options, option, batch, &function)) return false;
  if (function.kind != SX_KIND_FUNCTION && function.kind != SX_KIND_BUILTIN)
    return sx_option_fail(options, datum, ":%s must be a function of the state, found %s, %s",
                          generator_options[option], sx_kind_phrase((sx_kind)function.kind),
                          sx_value_show(evaluator->arena, &function));
  return sx_apply(evaluator, &function, &argument, 1, value);
}

static bool build_start(const sx_options *options, sx_generator *made, int64_t batch, state *start) {
  sx_evaluator *evaluator = options->evaluator;
  sx_context before = sx_enter_context(evaluator, SX_PLACE_GENERATOR,
                                       sx_format(evaluator->arena, "generator/%s/init", made->name), "", false);
  made->init = evaluator->context.graph;
  start->shape = sx_list(NULL, 0);
  bool given = options->values[OPTION_INIT] != NULL;
  bool good = !given || (evaluate_part(options, OPTION_INIT, batch, &start->shape) &&
                         flatten(options, start->shape, options->values[OPTION_INIT], 8, start));
  state_outputs(evaluator, start);
  made->n_state = (uint32_t)start->leaves.n;
  sx_leave_context(evaluator, before);
  return good;
}

static bool same_type(const sx_node *a, const sx_node *b) { return a->dtype == b->dtype && sx_shape_equal(a, b); }

static bool build_trip(const sx_options *options, sx_generator *made, int64_t batch, const state *start) {
  sx_evaluator *evaluator = options->evaluator;
  sx_context before = sx_enter_context(evaluator, SX_PLACE_TRIP,
                                       sx_format(evaluator->arena, "generator/%s/trip", made->name), "", false);
  state after = {0};
  const sx_datum *datum = options->values[OPTION_TRIP];
  made->trip = evaluator->context.graph;
  bool good = true;
  if (datum) {
    good =
        apply_part(options, OPTION_TRIP, batch, start, &after.shape) && flatten(options, after.shape, datum, 8, &after);
    bool same = good && after.leaves.n == start->leaves.n;
    for (size_t i = 0; same && i < after.leaves.n; i++)
      same = same_type(sx_value_node(&after.leaves.items[i]), sx_value_node(&start->leaves.items[i]));
    if (good && !same)
      good =
          sx_option_fail(options, datum, ":trip must give a state like that of :init, %s, found %s",
                         sx_value_show(evaluator->arena, &start->shape), sx_value_show(evaluator->arena, &after.shape));
  } else {
    sx_value same = state_inputs(evaluator, start, made->span);
    good = flatten(options, same, options->form->items[1], 8, &after);
  }
  if (good) state_outputs(evaluator, &after);
  sx_leave_context(evaluator, before);
  return good;
}

/* One field of a microbatch, [batch dims...]. */
static bool give_field(const sx_options *options, const sx_field_type *field, const sx_value *value, int64_t batch) {
  sx_evaluator *evaluator = options->evaluator;
  sx_graph *graph = evaluator->context.graph;
  int64_t dims[SX_RANK_MAX] = {batch};
  if (field->rank) memcpy(dims + 1, field->dims, (size_t)field->rank * sizeof *dims);
  const sx_node *node = value->kind == SX_KIND_TENSOR && value->graph == graph ? sx_value_node(value) : NULL;
  bool fits = node && node->dtype == field->dtype && node->rank == field->rank + 1 &&
              memcmp(node->dims, dims, (size_t)node->rank * sizeof *dims) == 0;
  if (fits) {
    sx_graph_output(graph, sx_format(evaluator->arena, "field/%s", field->name), value->n);
    return true;
  }
  sx_text text;
  sx_text_init(&text, evaluator->arena);
  sx_text_addf(&text, "%s ", sx_dtype_name(field->dtype));
  sx_text_add_shape(&text, dims, field->rank + 1);
  return sx_option_fail(options, options->values[OPTION_EMIT], "the field %s must be %s, found %s", field->name,
                        sx_text_get(&text), sx_value_show(evaluator->arena, value));
}

/* :emit gives a list of the fields in their order, or the only one. */
static bool build_emit(const sx_options *options, sx_generator *made, int64_t batch, const state *start) {
  sx_evaluator *evaluator = options->evaluator;
  sx_context before = sx_enter_context(evaluator, SX_PLACE_GENERATOR,
                                       sx_format(evaluator->arena, "generator/%s/emit", made->name), "", false);
  sx_value value;
  made->emit = evaluator->context.graph;
  bool good = apply_part(options, OPTION_EMIT, batch, start, &value);
  bool list = good && value.kind == SX_KIND_LIST;
  if (good && (list ? value.n : 1) != made->n_fields)
    good = sx_option_fail(options, options->values[OPTION_EMIT], ":emit must give the %" PRIu32 " fields, found %s",
                          made->n_fields, sx_value_show(evaluator->arena, &value));
  for (uint32_t i = 0; good && i < made->n_fields; i++)
    good = give_field(options, &made->fields[i], list ? &value.items[i] : &value, batch);
  sx_leave_context(evaluator, before);
  return good;
}

bool sx_build_generator(sx_evaluator *evaluator, sx_declaration *declaration, int64_t batch, int *index) {
  sx_program *program = evaluator->program;
  sx_generator made = *(const sx_generator *)declaration->built;
  sx_options options;
  state start = {0};
  evaluator->form = declaration->form;
  if (!sx_read_options(&options, evaluator, declaration->form, 2, SX_E_RUN_GENERATOR, generator_options)) return false;
  if (!build_start(&options, &made, batch, &start) || !build_trip(&options, &made, batch, &start) ||
      !build_emit(&options, &made, batch, &start))
    return false;
  *index = (int)program->generators.n;
  SX_PUSH(evaluator->arena, program->generators, made);
  return true;
}

void sx_check_generators(sx_evaluator *evaluator) {
  sx_check_options(evaluator, SX_DECLARE_GENERATOR, SX_E_RUN_GENERATOR, generator_options);
}
