/* What a run on the CPU holds, by kind, before any of it is taken. Sums that overflow are INT64_MAX; the
 * elements of one tensor do not, which was seen when its node was made. */
#include "compile.h"
#include "cpu/executable.h"
#include "cpu/operand.h"
#include "run/loader.h"
#include "run/run.h"
#include "run/sum_tree.h"

static int64_t plus(int64_t a, int64_t b) { return __builtin_add_overflow(a, b, &a) ? INT64_MAX : a; }

static int64_t times(int64_t a, int64_t b) { return __builtin_mul_overflow(a, b, &a) ? INT64_MAX : a; }

/* ---- parameters, states, gradients ---- */

static void add_tensor(sexp_memory_use *use, sx_written written, int64_t n_bytes, int64_t *held) {
  *held = plus(*held, n_bytes);
  if (written == SX_WRITTEN_BESIDE) use->beside = plus(use->beside, n_bytes);
}

static void add_tensors(sexp_memory_use *use, const sx_compiled *compiled) {
  const sx_program *program = compiled->program;
  for (size_t i = 0; i < program->params.n; i++) {
    const sx_param *param = &program->params.items[i];
    int64_t n_bytes = sx_count(param->dims, param->rank) * (int64_t)sx_dtype_bytes(param->dtype);
    add_tensor(use, compiled->param_written[i], n_bytes, &use->parameters);
  }
  for (size_t i = 0; i < program->states.n; i++) {
    const sx_state *state = &program->states.items[i];
    int64_t n_bytes = sx_count(state->dims, state->rank) * (int64_t)sx_dtype_bytes(state->dtype);
    add_tensor(use, compiled->state_written[i], n_bytes, &use->states);
  }
}

/* The sum of the microbatches, as training.c lays it out. */
static void add_gradients(sexp_memory_use *use, const sx_program *program) {
  int64_t n = 0, narrow = 0, scalars = 0;
  int levels = 0;
  for (size_t i = 0; i < program->params.n; i++) {
    const sx_param *param = &program->params.items[i];
    int64_t count = sx_count(param->dims, param->rank);
    if (!param->trainable) continue;
    n = plus(n, (count + SX_CELL_FLOATS - 1) / SX_CELL_FLOATS * SX_CELL_FLOATS);
    if (param->dtype != SX_F32) narrow = plus(narrow, count * (int64_t)sx_dtype_bytes(param->dtype));
  }
  for (uint32_t s = 0; s < program->n_stages; s++) {
    int64_t outputs = (int64_t)program->stages[s].loss->outputs.n;
    int of_stage = sx_sum_tree_levels(program->stages[s].microbatches);
    if (outputs > scalars) scalars = outputs;
    if (of_stage > levels) levels = of_stage;
  }
  use->gradients = plus(sx_sum_tree_bytes(plus(n, scalars * SX_CELL_FLOATS), levels), narrow);
}

/* ---- data ---- */

static int64_t batch_bytes(const sx_compiled *compiled, int data, int64_t batch) {
  const sx_data_facts *facts = data >= 0 ? compiled->facts[data] : NULL;
  int64_t n_bytes = 0;
  for (uint32_t f = 0; facts && f < facts->n_fields; f++) {
    const sx_field_type *field = &facts->fields[f];
    int64_t one = sx_count(field->dims, field->rank) * (int64_t)sx_dtype_bytes(field->dtype);
    n_bytes = plus(n_bytes, times(one, batch));
  }
  return n_bytes;
}

static int64_t output_bytes(const sx_graph *graph) {
  int64_t n_bytes = 0;
  for (size_t i = 0; i < graph->outputs.n; i++) {
    const sx_node *node = sx_node_at(graph, graph->outputs.items[i].node);
    n_bytes = plus(n_bytes, sx_node_elements(node) * (int64_t)sx_dtype_bytes(node->dtype));
  }
  return n_bytes;
}

static void add_data(sexp_memory_use *use, const sx_compiled *compiled) {
  const sx_program *program = compiled->program;
  int64_t most = 0;
  for (uint32_t s = 0; s < program->n_stages; s++) {
    int64_t of_stage = batch_bytes(compiled, program->stages[s].data, program->stages[s].batch);
    if (of_stage > most) most = of_stage;
  }
  use->data = times(most, SX_LOADER_SLOTS);
  for (size_t i = 0; i < program->evals.n; i++)
    use->data = plus(use->data, batch_bytes(compiled, program->evals.items[i].data, program->evals.items[i].batch));
  for (size_t i = 0; i < program->generators.n; i++) {
    const sx_generator *generator = &program->generators.items[i];
    use->data = plus(use->data, plus(times(2, output_bytes(generator->init)), output_bytes(generator->emit)));
  }
}

/* ---- temporaries ---- */

static bool is_initializer(const sx_compiled *compiled, const sx_unit *unit) {
  size_t n_params = compiled->program->params.n, n_states = compiled->program->states.n;
  return (unit >= compiled->param_inits && unit < compiled->param_inits + n_params) ||
         (unit >= compiled->state_inits && unit < compiled->state_inits + n_states);
}

static void add_temporaries(sexp_memory_use *use, const sx_compiled *compiled, const sx_cpu *cpu, int n_threads) {
  int64_t workspace = 0;
  for (size_t i = 0; i < compiled->units.n; i++) {
    const sx_unit *unit = compiled->units.items[i];
    if (is_initializer(compiled, unit)) continue; /* done, and released, before the rest is taken */
    int64_t scratch = sx_plan_scratch(cpu, unit->plan, n_threads, compiled->program->arena);
    use->constants = plus(use->constants, sx_plan_constants(unit->plan));
    int64_t both = plus(unit->plan->block_bytes, scratch);
    if (unit->plan->block_bytes > use->activations) use->activations = unit->plan->block_bytes;
    if (unit->plan->bound_bytes > use->activations_least) use->activations_least = unit->plan->bound_bytes;
    if (both > workspace) workspace = both;
  }
  use->scratch = workspace - use->activations;
}

void sx_memory_use(sexp_memory_use *use, const sx_compiled *compiled, int n_threads, sx_simd simd) {
  sx_cpu cpu = {.kernels = sx_kernels(simd)};
  *use = (sexp_memory_use){.recompute = compiled->recompute};
  add_tensors(use, compiled);
  add_gradients(use, compiled->program);
  add_data(use, compiled);
  add_temporaries(use, compiled, &cpu, n_threads);
  int64_t kept = plus(plus(use->parameters, use->states), use->beside);
  int64_t besides = plus(plus(use->gradients, use->data), plus(use->constants, use->scratch));
  use->total = plus(plus(kept, besides), use->activations);
  use->least = plus(plus(kept, besides), use->activations_least);
}
