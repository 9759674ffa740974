/* What a compiled program says of itself: the description of sexp.h and its texts. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "compile.h"
#include "cpu/operand.h"
#include "run/dataset.h"

/* ---- knobs ---- */

static void add_json_string(sx_text *text, const char *bytes, size_t n) {
  sx_text_add(text, "\"");
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)bytes[i];
    if (c == '"' || c == '\\')
      sx_text_addf(text, "\\%c", c);
    else if (c < 0x20 || c == 0x7f)
      sx_text_addf(text, "\\u%04x", c);
    else
      sx_text_add_bytes(text, bytes + i, 1);
  }
  sx_text_add(text, "\"");
}

/* Nesting is limited by the reader. */
static void add_json(sx_text *text, const sx_datum *datum) {
  switch (datum->kind) {
    case SX_DATUM_INTEGER:
      sx_text_addf(text, "%" PRId64, datum->integer);
      break;
    case SX_DATUM_REAL:
      if (isfinite(datum->real))
        sx_text_add_f64(text, datum->real);
      else
        sx_text_add(text, "null");
      break;
    case SX_DATUM_BOOLEAN:
      sx_text_add(text, datum->boolean ? "true" : "false");
      break;
    case SX_DATUM_STRING:
      add_json_string(text, datum->text, datum->n);
      break;
    case SX_DATUM_SYMBOL:
    case SX_DATUM_KEYWORD:
      add_json_string(text, datum->text, strlen(datum->text));
      break;
    case SX_DATUM_LIST:
    case SX_DATUM_VECTOR:
    case SX_DATUM_QUOTE:
      sx_text_add(text, "[");
      for (uint32_t i = 0; i < datum->n; i++) {
        if (i) sx_text_add(text, ", ");
        add_json(text, datum->items[i]);
      }
      sx_text_add(text, "]");
      break;
  }
}

static sexp_knob describe_knob(sx_arena *arena, const sx_knob *knob) {
  sx_text value, json;
  sx_text_init(&value, arena);
  sx_text_init(&json, arena);
  sx_datum_print(&value, knob->value);
  add_json(&json, knob->value);
  return (sexp_knob){knob->name, knob->doc, sx_text_get(&value), sx_text_get(&json), knob->source};
}

static void describe_knobs(sexp_description *d, const sx_program *program) {
  sexp_knob *knobs = SX_NEW_N(program->arena, sexp_knob, program->knobs.n);
  for (size_t i = 0; i < program->knobs.n; i++) knobs[i] = describe_knob(program->arena, &program->knobs.items[i]);
  d->knobs = knobs;
  d->n_knobs = program->knobs.n;
}

/* ---- sources, parameters, states ---- */

static void describe_sources(sexp_description *d, const sx_program *program) {
  sexp_source_file *sources = SX_NEW_N(program->arena, sexp_source_file, program->sources.files.n);
  for (size_t i = 0; i < program->sources.files.n; i++) {
    const sx_source *source = &program->sources.files.items[i];
    if (!source->prelude) sources[d->n_sources++] = (sexp_source_file){source->path, source->bytes, source->n_bytes};
  }
  d->sources = sources;
}

sexp_dtype sx_public_dtype(sx_dtype dtype) {
  static const sexp_dtype map[SX_N_DTYPES] = {[SX_F32] = SEXP_F32, [SX_BF16] = SEXP_BF16, [SX_F16] = SEXP_F16,
                                              [SX_I32] = SEXP_I32, [SX_U8] = SEXP_U8,     [SX_BOOL] = SEXP_BOOL};
  return map[dtype];
}

static void describe_parameters(sexp_description *d, const sx_compiled *compiled) {
  const sx_program *program = compiled->program;
  sexp_parameter *parameters = SX_NEW_N(program->arena, sexp_parameter, program->params.n);
  for (size_t i = 0; i < program->params.n; i++) {
    const sx_param *param = &program->params.items[i];
    int64_t n = sx_count(param->dims, param->rank);
    parameters[i] = (sexp_parameter){.path = param->path,
                                     .dtype = sx_public_dtype(param->dtype),
                                     .rank = param->rank,
                                     .dims = param->dims,
                                     .trainable = param->trainable,
                                     .load_file = param->load_file,
                                     .load_tensor = param->load_tensor};
    d->parameter_elements += n;
    d->parameter_bytes += n * (int64_t)sx_dtype_bytes(param->dtype);
    if (compiled->param_written[i] == SX_WRITTEN_BESIDE) d->beside_bytes += n * (int64_t)sx_dtype_bytes(param->dtype);
  }
  d->parameters = parameters;
  d->n_parameters = program->params.n;
}

static void describe_states(sexp_description *d, const sx_compiled *compiled) {
  const sx_program *program = compiled->program;
  sexp_parameter *states = SX_NEW_N(program->arena, sexp_parameter, program->states.n);
  for (size_t i = 0; i < program->states.n; i++) {
    const sx_state *state = &program->states.items[i];
    states[i] = (sexp_parameter){
        .path = state->path, .dtype = sx_public_dtype(state->dtype), .rank = state->rank, .dims = state->dims};
    int64_t n_bytes = sx_count(state->dims, state->rank) * (int64_t)sx_dtype_bytes(state->dtype);
    d->state_bytes += n_bytes;
    if (compiled->state_written[i] == SX_WRITTEN_BESIDE) d->beside_bytes += n_bytes;
  }
  d->states = states;
  d->n_states = program->states.n;
}

/* ---- graphs ---- */

bool sx_is_training(const sx_compiled *compiled, const sx_unit *unit) {
  bool loss = unit >= compiled->losses && unit < compiled->losses + compiled->program->n_stages;
  return loss || unit == &compiled->update;
}

bool sx_is_convolution(sx_op op) { return op == SX_OP_CONV || op == SX_OP_CONVDATA || op == SX_OP_CONVWEIGHT; }

static void count_unit(sexp_description *d, const sx_unit *unit) {
  d->n_nodes_built += unit->n_built;
  d->n_nodes += (int64_t)unit->graph->nodes.n;
  for (size_t i = 0; i < unit->graph->nodes.n; i++) {
    sx_op op = unit->graph->nodes.items[i].op;
    d->n_products += op == SX_OP_EINSUM;
    d->n_convolutions += sx_is_convolution(op);
  }
  for (size_t i = 0; i < unit->plan->tasks.n; i++)
    d->n_groups += unit->plan->tasks.items[i].kind == SX_TASK_ELEMENT && unit->plan->tasks.items[i].n_nodes > 1;
  if (unit->plan->block_bytes > d->step_bytes) d->step_bytes = unit->plan->block_bytes;
  if (unit->plan->bound_bytes > d->step_bytes_bound) d->step_bytes_bound = unit->plan->bound_bytes;
}

static void describe_evals(sexp_description *d, const sx_program *program) {
  sexp_evaluation *evals = SX_NEW_N(program->arena, sexp_evaluation, program->evals.n);
  for (size_t i = 0; i < program->evals.n; i++) {
    const sx_eval *eval = &program->evals.items[i];
    evals[i] = (sexp_evaluation){eval->name, eval->every, eval->n_metrics, eval->metrics};
  }
  d->evals = evals;
  d->n_evals = program->evals.n;
}

static void describe_datas(sexp_description *d, const sx_compiled *compiled) {
  const sx_program *program = compiled->program;
  sexp_data_info *datas = SX_NEW_N(program->arena, sexp_data_info, program->datas.n);
  for (size_t i = 0; i < program->datas.n; i++) {
    const sx_data_facts *facts = compiled->facts[i];
    if (facts)
      datas[d->n_datas++] = (sexp_data_info){.name = facts->name,
                                             .path = facts->path,
                                             .order = sx_data_order(&program->datas.items[i]),
                                             .n_records = facts->n_records};
  }
  d->datas = datas;
}

static void describe_run(sexp_description *d, const sx_compiled *compiled) {
  const sx_program *program = compiled->program;
  for (uint32_t i = 0; i < program->n_stages; i++) d->steps += compiled->stage_steps[i];
  d->run = program->run_name;
  d->variant = program->variant;
  d->identity = program->identity;
  d->seed = program->seed;
  d->batch = program->stages[0].batch;
  d->microbatches = program->stages[0].microbatches;
  d->n_stages = program->n_stages;
  d->checkpoint_every = program->checkpoint_every;
  d->checkpoint_keep = program->checkpoint_keep;
}

void sx_describe(sexp_description *description, const sx_compiled *compiled) {
  *description = (sexp_description){0};
  describe_run(description, compiled);
  describe_evals(description, compiled->program);
  describe_datas(description, compiled);
  describe_knobs(description, compiled->program);
  describe_sources(description, compiled->program);
  describe_parameters(description, compiled);
  describe_states(description, compiled);
  for (size_t i = 0; i < compiled->units.n; i++)
    if (sx_is_training(compiled, compiled->units.items[i])) count_unit(description, compiled->units.items[i]);
}

/* ---- texts ---- */

static void add_place(sx_text *text, const sx_program *program, const sx_node *node) {
  if (node->path && node->path[0]) sx_text_addf(text, "  %s", node->path);
  if (!node->span.file) return;
  const sx_source *source = sx_sources_get(&program->sources, node->span.file);
  uint32_t line, column;
  sx_source_place(source, node->span.begin, &line, &column);
  sx_text_addf(text, "  %s:%" PRIu32 ":%" PRIu32, source->path, line, column);
}

static void add_product(sx_text *text, const sx_program *program, const sx_graph *graph, const sx_node *node) {
  sx_text_addf(text, "  %s", sx_op_describe(node->op)->name);
  if (node->op == SX_OP_EINSUM) sx_text_addf(text, " %s", node->text);
  for (uint32_t i = 0; i < node->n_inputs; i++) {
    const sx_node *input = sx_node_at(graph, node->inputs[i]);
    sx_text_add(text, " ");
    sx_text_add_shape(text, input->dims, input->rank);
  }
  sx_text_add(text, " -> ");
  sx_text_add_shape(text, node->dims, node->rank);
  sx_text_addf(text, " %s, %s", sx_dtype_name(node->dtype), sx_contraction_implementation);
  add_place(text, program, node);
  sx_text_add(text, "\n");
}

static void add_report(sx_text *text, const sx_compiled *compiled, const sx_unit *unit) {
  if (!sx_is_training(compiled, unit)) return;
  sx_text_addf(text, "%s\n", unit->label);
  for (size_t i = 0; i < unit->graph->nodes.n; i++) {
    const sx_node *node = &unit->graph->nodes.items[i];
    if (node->op == SX_OP_EINSUM || sx_is_convolution(node->op))
      add_product(text, compiled->program, unit->graph, node);
  }
}

static void add_ir(sx_text *text, const sx_compiled *compiled, const sx_unit *unit) {
  (void)compiled;
  sx_graph_print(text, unit->graph, false);
}

static void add_plan(sx_text *text, const sx_compiled *compiled, const sx_unit *unit) {
  (void)compiled;
  sx_text_addf(text, "%s\n", unit->label);
  sx_plan_print(text, unit->plan);
}

enum { N_LARGEST = 5 };

typedef struct largest {
  const sx_unit *units[N_LARGEST];
  const sx_buffer *buffers[N_LARGEST];
  int n;
} largest;

/* Keeps the N_LARGEST largest, in descending order, the earlier first among equals. */
static void keep_largest(largest *list, const sx_unit *unit, const sx_buffer *buffer) {
  int at = list->n;
  while (at && list->buffers[at - 1]->n_bytes < buffer->n_bytes) at--;
  if (at == N_LARGEST) return;
  if (list->n < N_LARGEST) list->n++;
  for (int i = list->n - 1; i > at; i--) {
    list->units[i] = list->units[i - 1];
    list->buffers[i] = list->buffers[i - 1];
  }
  list->units[at] = unit;
  list->buffers[at] = buffer;
}

static void add_largest(sx_text *text, const sx_compiled *compiled) {
  largest list = {.n = 0};
  for (size_t u = 0; u < compiled->units.n; u++) {
    const sx_unit *unit = compiled->units.items[u];
    for (size_t b = 0; sx_is_training(compiled, unit) && b < unit->plan->buffers.n; b++)
      if (unit->plan->buffers.items[b].kind == SX_BUFFER_TEMPORARY)
        keep_largest(&list, unit, &unit->plan->buffers.items[b]);
  }
  for (int i = 0; i < list.n; i++) {
    const sx_node *node = sx_node_at(list.units[i]->plan->graph, list.buffers[i]->node);
    sx_text_addf(text, "  %" PRId64 " bytes  %s  %s ", list.buffers[i]->n_bytes, list.units[i]->label,
                 sx_op_describe(node->op)->name);
    sx_text_add_shape(text, node->dims, node->rank);
    add_place(text, compiled->program, node);
    sx_text_add(text, "\n");
  }
}

typedef void add_unit_text(sx_text *text, const sx_compiled *compiled, const sx_unit *unit);

const char *sx_describe_text(const sx_compiled *compiled, const char *what) {
  static const struct {
    const char *what;
    add_unit_text *add;
  } kinds[] = {{"ir", add_ir}, {"plan", add_plan}, {"report", add_report}};
  sx_text text;
  sx_text_init(&text, compiled->program->arena);
  if (!strcmp(what, "largest") || !strcmp(what, "dot")) {
    (what[0] == 'l' ? add_largest : sx_describe_dot)(&text, compiled);
    return sx_text_get(&text);
  }
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    if (strcmp(kinds[k].what, what)) continue;
    for (size_t i = 0; i < compiled->units.n; i++) kinds[k].add(&text, compiled, compiled->units.items[i]);
    return sx_text_get(&text);
  }
  return NULL;
}
