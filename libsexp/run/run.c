/* Making and releasing a run. */
#include "run.h"

#include <inttypes.h>
#include <string.h>

#include "../device/device.h"

/* ---- the engine ---- */

static bool find_simd(sx_run *run, sx_simd *simd) {
  const char *name = run->options.simd;
  *simd = sx_simd_best();
  if (!name) return true;
  for (int i = 0; i < SX_N_SIMD; i++) {
    if (strcmp(sx_simd_name((sx_simd)i), name)) continue;
    *simd = (sx_simd)i;
    if (sx_simd_available(*simd)) return true;
    sx_error(&run->diags, SX_E_RUN_SIMD, (sx_span){0}, "SIMD level %s is not available here", name);
    return false;
  }
  sx_error(&run->diags, SX_E_RUN_SIMD, (sx_span){0}, "there is no SIMD level %s", name);
  return false;
}

static bool make_engine(sx_run *run) {
  sx_simd simd;
  if (!find_simd(run, &simd)) return false;
  int n_threads = run->options.threads > 0 ? run->options.threads : sx_pool_processors();
  run->cpu = (sx_cpu){.kernels = sx_kernels(simd), .pool = sx_pool_new(n_threads), .memory = run->memory};
  run->engine = sx_cpu_backend_new(&run->cpu, &run->arena);
  run->backend = run->options.device ? run->options.device->backend : run->engine;
  if (run->options.pin_threads) sx_pool_pin(run->cpu.pool);
  if (run->cpu.pool) return true;
  sx_error(&run->diags, SX_E_RUN_THREADS, (sx_span){0}, "%d threads could not be started", n_threads);
  return false;
}

/* ---- data ---- */

static bool same_facts(const sx_dataset *dataset, const sx_data_facts *facts) {
  if (dataset->n != facts->n_records || dataset->n_fields != facts->n_fields) return false;
  for (uint32_t f = 0; f < dataset->n_fields; f++) {
    const sx_field_type *a = &dataset->fields[f], *b = &facts->fields[f];
    if (strcmp(a->name, b->name) || a->dtype != b->dtype || a->rank != b->rank) return false;
    if (memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims)) return false;
  }
  return true;
}

static bool describe_dataset(sx_run *run, const sx_dataset *dataset) {
  const sx_data *data = dataset->data;
  const sx_file *file = sx_dataset_first_file(dataset);
  char *version = sx_arena_take(&run->arena, 80, 1);
  sexp_data_info *info = &run->data_infos[run->n_data_infos++];
  *info = (sexp_data_info){.name = data->name,
                           .path = file->path,
                           .order = sx_data_order(data),
                           .n_records = dataset->n,
                           .version = version};
  return sx_files_version(&dataset->files, file, version, &info->n_bytes, data->span, &run->diags);
}

static bool open_dataset(sx_run *run, size_t i) {
  const sx_data *data = &run->program->datas.items[i];
  sx_dataset *dataset = run->datasets[i] = sx_dataset_new(data, &run->host, &run->arena);
  if (!sx_dataset_open(dataset, run->program->seed, &run->diags)) return false;
  if (same_facts(dataset, run->compiled->facts[i])) return describe_dataset(run, dataset);
  sx_error(&run->diags, SX_E_DATA_CHANGED, data->span, "data %s changed since the experiment was compiled", data->name);
  return false;
}

static bool needs_dataset(const sx_run *run, size_t i) {
  if (!run->compiled->facts[i] || !run->options.evaluations_only) return run->compiled->facts[i];
  for (size_t e = 0; e < run->program->evals.n; e++)
    if (run->chosen_evals[e] && run->program->evals.items[e].data == (int)i) return true;
  return false;
}

static bool open_datasets(sx_run *run) {
  size_t n = run->program->datas.n;
  bool fine = true;
  run->datasets = SX_NEW_N(&run->arena, sx_dataset *, n);
  run->data_infos = SX_NEW_N(&run->arena, sexp_data_info, n);
  for (size_t i = 0; i < n; i++)
    if (needs_dataset(run, i)) fine &= open_dataset(run, i);
  return fine;
}

static bool start_loader(sx_run *run) {
  uint32_t n = run->program->n_stages;
  sx_loader_stage *stages = SX_NEW_N(&run->arena, sx_loader_stage, n);
  for (uint32_t s = 0; s < n; s++) {
    const sx_stage_state *state = &run->stages[s];
    stages[s] = (sx_loader_stage){state->dataset, state->stage->batch, state->stage->microbatches, state->steps};
  }
  run->loader = sx_loader_new(stages, n, !run->backend->shares_memory, &run->host_memory);
  sx_loader_skip(run->loader, (uint32_t)run->position.stage, run->stage_step);
  if (!run->options.reads_ahead || sx_loader_start(run->loader)) return true;
  sx_error(&run->diags, SX_E_RUN_THREADS, (sx_span){0}, "the loader's thread could not be started");
  return false;
}

/* ---- the run ---- */

/* What the evaluations give, and in training a step. */
static void make_values(sx_run *run) {
  size_t room = 1 + run->statistics.n, largest = 0;
  for (uint32_t s = 0; s < run->program->n_stages; s++) {
    size_t n = run->stages[s].n_values + run->stages[s].statistics.n;
    if (n > largest) largest = n;
  }
  room += largest;
  for (size_t i = 0; i < run->program->evals.n; i++) room += run->program->evals.items[i].n_metrics;
  run->values = SX_NEW_N(&run->arena, sexp_value, room);
}

static bool choose_evals(sx_run *run) {
  const sexp_run_options *options = &run->options;
  bool few = options->evaluations_only && options->evaluations;
  run->chosen_evals = SX_NEW_N(&run->arena, bool, run->program->evals.n);
  return sx_choose_evals(run, run->chosen_evals, NULL, few ? options->evaluations : NULL,
                         few ? options->n_evaluations : 0);
}

static void make_units(sx_run *run) {
  sx_make_slots(run);
  sx_make_stages(run);
  if (!run->options.evaluations_only) {
    sx_make_generators(run);
    sx_make_training(run);
  }
  run->n_step_cells = run->n_cells;
  sx_make_evals(run);
}

static void *take_data(void *context, int64_t n_bytes) { return sx_take_host(context, n_bytes); }

static uint32_t most_fields(const sx_run *run) {
  uint32_t most = 0;
  for (size_t i = 0; i < run->program->datas.n; i++)
    if (run->datasets[i] && run->datasets[i]->n_fields > most) most = run->datasets[i]->n_fields;
  for (size_t i = 0; i < run->program->generators.n; i++)
    if (run->program->generators.items[i].n_fields > most) most = run->program->generators.items[i].n_fields;
  return most;
}

static void take_memory(sx_run *run) {
  run->host_memory = (sx_host_memory){take_data, run, &run->arena};
  if (!run->options.evaluations_only) {
    sx_take_training(run);
    sx_take_generators(run);
  }
  sx_take_evals(run);
  run->counters = sx_take_mirror(run, SX_USE_CELLS, (run->update_row + 1) * SX_ROW_BYTES);
  run->cells = sx_take_mirror(run, SX_USE_CELLS, run->n_cells * SX_CELL_BYTES);
  if (run->backend->shares_memory) return;
  run->placed = SX_NEW_N(&run->arena, void *, most_fields(run));
  run->field_memory = sx_take(run, SX_USE_FIELDS, run->field_room);
}

static bool begin_training(sx_run *run) {
  sx_make_digests(run);
  if (run->options.start && !sx_start(run, run->options.start)) return false;
  return start_loader(run) && (run->backend->shares_memory || sx_choose_stacking(run));
}

/* Before any memory of the device is taken. */
static bool choose_plans(sx_run *run) {
  sx_choosing_begin(run);
  if (!sx_choose_plans(run)) return false;
  run->staging = sx_take_host(run, SX_STAGING_BYTES);
  return true;
}

bool sx_run_make(sx_run *run) {
  run->degree = 1;
  sx_files_init(&run->weights, &run->host, &run->arena);
  if (!choose_evals(run) || !make_engine(run) || !open_datasets(run)) return false;
  make_units(run);
  if (!run->backend->shares_memory && !choose_plans(run)) return false;
  sx_take_tensors(run);
  if (!sx_make_parameters(run)) return false;
  sx_make_bounds(run);
  take_memory(run);
  if (!sx_finish(run)) return false;
  if (!run->options.evaluations_only && !begin_training(run)) return false;
  if (!run->backend->shares_memory) sx_list_products(run);
  make_values(run);
  run->options.start = NULL; /* it was borrowed, as were the names */
  run->options.evaluations = NULL;
  return true;
}

void sx_run_release(sx_run *run) {
  if (run->loader) sx_loader_stop(run->loader);
  sx_release_initializer(run);
  if (run->backend && run->backend->calls->forget) run->backend->calls->forget(run->backend);
  sx_release_bounds(run);
  if (run->engine) sx_cpu_backend_end(run->engine);
  sx_give_all(run);
  for (size_t i = 0; run->datasets && i < run->program->datas.n; i++)
    if (run->datasets[i]) sx_dataset_close(run->datasets[i]);
  sx_files_close(&run->weights);
  sx_pool_free(run->cpu.pool);
}
