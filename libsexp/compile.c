/* The list of passes, and the driver that takes every graph of a program through it. */
#include "compile.h"

#include <string.h>

#include "base/sha256.h"
#include "cpu/threads.h"
#include "pass/pass.h"
#include "pass/recompute.h"

typedef struct pass_row {
  const char *name;
  sx_pass *function;
  sx_stage needs, gives;
  bool optimizes; /* left out without optimization; it changes no bit of a result */
} pass_row;

static const pass_row passes[] = {
    {"gradient", sx_pass_gradient, SX_STAGE_BUILT, SX_STAGE_EXPANDED, false},
    {"simplify", sx_pass_simplify, SX_STAGE_EXPANDED, SX_STAGE_EXPANDED, true},
    {"cse", sx_pass_cse, SX_STAGE_EXPANDED, SX_STAGE_EXPANDED, true},
    {"dce", sx_pass_dce, SX_STAGE_EXPANDED, SX_STAGE_READY, false},
};
/* Of the CPU, unless stated: about what a core does in the time in which it moves a byte of memory. */
static const double RECOMPUTE = 4;
enum { N_PASSES = sizeof passes / sizeof *passes, HASHED_BYTES = 1 << 15 };

const char *sx_pass_name(size_t i) { return i < N_PASSES ? passes[i].name : NULL; }

typedef struct compiler {
  sx_compiled *compiled;
  sx_program *program;
  const sx_compile_options *options;
} compiler;

/* ---- one graph ---- */

static bool run_pass(compiler *c, sx_unit *unit, const pass_row *row) {
  sx_diags *diags = &c->program->diags;
  bool skipped = row->optimizes && !c->options->optimize;
  if (!skipped) {
    unit->graph = row->function(unit->graph, diags);
    if (!unit->graph || !sx_graph_verify(unit->graph, row->gives, diags)) return false;
  }
  if (c->options->dump_after && !strcmp(c->options->dump_after, row->name))
    sx_graph_print(c->options->dump, unit->graph, false);
  return true;
}

/* The update's plan serves the engine and devices alike; the others a device makes anew. */
static bool is_engines(const compiler *c, const sx_unit *unit) {
  return unit != &c->compiled->update && unit != &c->compiled->diagnosed_update;
}

/* Where updates write in place rests on the plan that they have. */
static void plan_unit(compiler *c, sx_unit *unit) {
  bool optimize = c->options->optimize, engines = optimize && is_engines(c, unit);
  sx_plan_options options = {.fuse = optimize, .reuse = optimize, .wait = optimize, .layout = engines};
  options.columns = options.join = options.tiles = engines;
  if (engines) options.attention = SX_ATTENTION_FASTER;
  if (engines && c->compiled->recompute > 0)
    unit->plan = sx_plan_recompute(unit->graph, &options, c->compiled->recompute, c->program->arena);
  else
    unit->plan = sx_plan_make(unit->graph, &options, c->program->arena);
}

static bool compile_unit(compiler *c, sx_unit *unit, const char *label, sx_graph *graph) {
  sx_program *program = c->program;
  *unit = (sx_unit){.label = label, .graph = graph};
  if (!graph) return true;
  unit->n_built = (int64_t)graph->nodes.n;
  if (!sx_graph_verify(graph, SX_STAGE_BUILT, &program->diags)) return false;
  for (int i = 0; i < N_PASSES; i++)
    if (!run_pass(c, unit, &passes[i])) return false;
  plan_unit(c, unit);
  SX_PUSH(program->arena, c->compiled->units, unit);
  return true;
}

/* ---- all graphs ---- */

static bool compile_diagnosed(compiler *c, sx_unit *unit, const char *label, sx_graph *graph) {
  bool compiled = compile_unit(c, unit, label, graph);
  unit->diagnosed = true;
  return compiled;
}

static bool compile_stages(compiler *c) {
  sx_program *program = c->program;
  sx_arena *arena = program->arena;
  c->compiled->losses = SX_NEW_N(arena, sx_unit, program->n_stages);
  c->compiled->diagnosed_losses = SX_NEW_N(arena, sx_unit, program->n_stages);
  bool fine = true;
  for (uint32_t i = 0; i < program->n_stages; i++) {
    sx_stage_run *stage = &program->stages[i];
    const char *label = stage->name[0] ? sx_format(arena, "loss/%s", stage->name) : "loss";
    fine &= compile_unit(c, &c->compiled->losses[i], label, sx_without_probes(stage->loss));
    fine &= compile_diagnosed(c, &c->compiled->diagnosed_losses[i], sx_format(arena, "%s, diagnosed", label),
                              sx_diagnose_loss(stage->loss, program));
  }
  return fine;
}

/* Both are in path order. */
static const char *written_path(const sx_program *program, bool state, size_t i) {
  return state ? program->states.items[i].path : program->params.items[i].path;
}

/* Where the update writes tensors; one that its copy with diagnostics writes beside is written so by both. */
static void note_writes(compiler *c, const sx_unit *update, bool state, sx_written *written) {
  const char *kind = state ? "state/" : "param/";
  size_t n = state ? c->program->states.n : c->program->params.n;
  for (size_t b = 0; update->plan && b < update->plan->buffers.n; b++) {
    const sx_buffer *buffer = &update->plan->buffers.items[b];
    if (buffer->kind != SX_BUFFER_OUTPUT || strncmp(buffer->name, kind, strlen(kind)) != 0) continue;
    const char *path = buffer->name + strlen(kind);
    size_t low = 0, high = n;
    while (low < high) {
      size_t middle = low + (high - low) / 2;
      if (strcmp(written_path(c->program, state, middle), path) < 0)
        low = middle + 1;
      else
        high = middle;
    }
    if (low == n || strcmp(written_path(c->program, state, low), path) != 0) continue;
    if (written[low] != SX_WRITTEN_BESIDE) written[low] = update->in_place[b] ? SX_WRITTEN_IN_PLACE : SX_WRITTEN_BESIDE;
  }
}

static void find_writes(compiler *c) {
  sx_compiled *compiled = c->compiled;
  sx_program *program = c->program;
  compiled->param_written = SX_NEW_N(program->arena, sx_written, program->params.n);
  compiled->state_written = SX_NEW_N(program->arena, sx_written, program->states.n);
  note_writes(c, &compiled->update, false, compiled->param_written);
  note_writes(c, &compiled->update, true, compiled->state_written);
  note_writes(c, &compiled->diagnosed_update, false, compiled->param_written);
  note_writes(c, &compiled->diagnosed_update, true, compiled->state_written);
}

static bool compile_update(compiler *c) {
  sx_program *program = c->program;
  sx_unit *update = &c->compiled->update, *diagnosed = &c->compiled->diagnosed_update;
  bool fine = compile_unit(c, update, "update", program->update);
  fine &= compile_diagnosed(c, diagnosed, "update, diagnosed", sx_diagnose_update(program->update, program));
  if (fine && update->plan) update->in_place = sx_plan_in_place(update->plan, program->arena);
  if (fine && diagnosed->plan) diagnosed->in_place = sx_plan_in_place(diagnosed->plan, program->arena);
  if (fine) find_writes(c);
  return fine;
}

static bool compile_evals(compiler *c) {
  sx_program *program = c->program;
  sx_arena *arena = program->arena;
  c->compiled->evals = SX_NEW_N(arena, sx_unit, program->evals.n);
  c->compiled->partial_evals = SX_NEW_N(arena, sx_unit, program->evals.n);
  bool fine = true;
  for (size_t i = 0; i < program->evals.n; i++) {
    sx_eval *eval = &program->evals.items[i];
    fine &= compile_unit(c, &c->compiled->evals[i], sx_format(arena, "eval/%s", eval->name), eval->graph);
    fine &= compile_unit(c, &c->compiled->partial_evals[i], sx_format(arena, "eval/%s, partial", eval->name),
                         eval->partial);
  }
  return fine;
}

static bool compile_generators(compiler *c) {
  sx_program *program = c->program;
  sx_arena *arena = program->arena;
  size_t n = program->generators.n;
  c->compiled->generator_inits = SX_NEW_N(arena, sx_unit, n);
  c->compiled->trips = SX_NEW_N(arena, sx_unit, n);
  c->compiled->emits = SX_NEW_N(arena, sx_unit, n);
  bool fine = true;
  for (size_t i = 0; i < n; i++) {
    sx_generator *generator = &program->generators.items[i];
    const char *name = generator->name;
    fine &=
        compile_unit(c, &c->compiled->generator_inits[i], sx_format(arena, "generator/%s/init", name), generator->init);
    fine &= compile_unit(c, &c->compiled->trips[i], sx_format(arena, "generator/%s/trip", name), generator->trip);
    fine &= compile_unit(c, &c->compiled->emits[i], sx_format(arena, "generator/%s/emit", name), generator->emit);
  }
  return fine;
}

static bool compile_inits(compiler *c) {
  sx_program *program = c->program;
  sx_arena *arena = program->arena;
  c->compiled->param_inits = SX_NEW_N(arena, sx_unit, program->params.n);
  c->compiled->state_inits = SX_NEW_N(arena, sx_unit, program->states.n);
  bool fine = true;
  for (size_t i = 0; i < program->params.n; i++) {
    sx_param *param = &program->params.items[i];
    fine &= compile_unit(c, &c->compiled->param_inits[i], sx_format(arena, "init/%s", param->path), param->init);
  }
  for (size_t i = 0; i < program->states.n; i++) {
    sx_state *state = &program->states.items[i];
    fine &= compile_unit(c, &c->compiled->state_inits[i], sx_format(arena, "init/%s", state->path), state->init);
  }
  return fine;
}

/* ---- memory ---- */

static bool fits(const compiler *c) {
  sexp_memory_use use;
  sx_memory_use(&use, c->compiled, sx_pool_processors(), sx_simd_best());
  double copies = (double)c->options->copies * (double)(use.parameters + use.states);
  return (double)use.total + copies <= (double)c->options->memory_bytes;
}

/* Where the experiment states no budget and the run takes more memory than there is, more and more is computed again
 * until it fits, or there is nothing left to gain. */
static void fit(compiler *c) {
  static const double budgets[] = {16, 64, SX_RECOMPUTE_MOST};
  sx_compiled *compiled = c->compiled;
  if (!c->options->memory_bytes || !c->options->optimize || c->program->recompute >= 0) return;
  for (size_t b = 0; b < sizeof budgets / sizeof *budgets && !fits(c); b++) {
    compiled->recompute = budgets[b];
    for (size_t u = 0; u < compiled->units.n; u++)
      if (is_engines(c, compiled->units.items[u])) plan_unit(c, compiled->units.items[u]);
  }
}

/* ---- lengths of stages ---- */

/* Where data stop, a stage ends before the step that they cannot fill. */
static bool limit_stage(compiler *c, uint32_t i) {
  const sx_stage_run *stage = &c->program->stages[i];
  int64_t *steps = &c->compiled->stage_steps[i];
  *steps = stage->steps;
  if (stage->data < 0) return true;
  const sx_data *data = &c->program->datas.items[stage->data];
  int64_t n_records = c->compiled->facts[stage->data]->n_records, needed;
  if (!data->stop_at_end) return true;
  if (__builtin_mul_overflow(stage->batch, stage->microbatches, &needed)) needed = INT64_MAX;
  if (n_records / needed < *steps) *steps = n_records / needed;
  if (*steps) return true;
  sx_error(&c->program->diags, SX_E_DATA_SHORT, data->span, "data %s hold %lld records, a step takes %lld", data->name,
           (long long)n_records, (long long)needed);
  return false;
}

static bool limit_stages(compiler *c) {
  bool fine = true;
  c->compiled->stage_steps = SX_NEW_N(c->program->arena, int64_t, c->program->n_stages);
  for (uint32_t i = 0; i < c->program->n_stages; i++) fine &= limit_stage(c, i);
  return fine;
}

/* ---- identity ---- */

/* The text of a graph, in pieces: whole it would take more memory than the graph. */
static void hash_graph(sx_compiled *compiled, const sx_graph *graph, sx_text *text) {
  if (!graph) return;
  text->n = 0;
  sx_text_addf(text, "graph \"%s\"\n", graph->name);
  for (sx_id id = 0; id < graph->nodes.n; id++) {
    sx_node_print(text, graph, id, false);
    if (text->n < HASHED_BYTES) continue;
    sx_sha256_add(compiled->hash, text->bytes, text->n);
    text->n = 0;
  }
  for (size_t i = 0; i < graph->outputs.n; i++)
    sx_text_addf(text, "output \"%s\" %%%u\n", graph->outputs.items[i].name, (unsigned)graph->outputs.items[i].node);
  sx_sha256_add(compiled->hash, text->bytes, text->n);
}

/* Of the training graphs as they were built, so that no version of a pass changes it. */
static void identify(sx_compiled *compiled, sx_program *program) {
  sx_text text;
  uint8_t digest[32];
  sx_text_init(&text, program->arena);
  compiled->hash = sx_sha256_new();
  if (!compiled->hash) sx_memory_fail(program->arena->memory);
  for (uint32_t i = 0; i < program->n_stages; i++) hash_graph(compiled, program->stages[i].loss, &text);
  hash_graph(compiled, program->update, &text);
  for (size_t i = 0; i < program->generators.n; i++) {
    hash_graph(compiled, program->generators.items[i].init, &text);
    hash_graph(compiled, program->generators.items[i].trip, &text);
    hash_graph(compiled, program->generators.items[i].emit, &text);
  }
  sx_sha256_end(compiled->hash, digest);
  compiled->hash = NULL;
  sx_sha256_text(digest, program->identity);
}

bool sx_compile(sx_compiled *compiled, sx_program *program, sx_data_facts **facts, const sx_compile_options *options) {
  *compiled = (sx_compiled){.program = program, .facts = facts, .optimize = options->optimize};
  if (options->optimize) compiled->recompute = program->recompute >= 0 ? program->recompute : RECOMPUTE;
  compiler c = {compiled, program, options};
  identify(compiled, program);
  bool fine = limit_stages(&c);
  fine &= compile_stages(&c);
  fine &= compile_update(&c);
  fine &= compile_evals(&c);
  fine &= compile_generators(&c);
  fine &= compile_inits(&c);
  if (fine) fit(&c);
  return fine;
}
