/* The public entry points. Each sets the escape point of failed allocations, owns everything that is not
 * arena memory, and turns diagnostics into messages. */
#include <string.h>

#include "base/bug.h"
#include "base/guard.h"
#include "base/sha256.h"
#include "compile.h"
#include "device/device.h"
#include "run/dataset.h"
#include "run/messages.h"
#include "run/run.h"

struct sexp_program {
  sx_memory memory;
  sx_arena arena;
  sx_program program;
  sx_compiled compiled;
  sexp_description description;
  sx_text dump;
};

/* ---- compiling ---- */

typedef struct described {
  sx_data_facts facts;
  struct described *next;
} described;

typedef struct compilation {
  sexp_program *program;
  const char *path;
  const sexp_options *options;
  const sexp_host *host;
  sx_files files;       /* source texts */
  sx_dataset *datasets; /* the one being described */
  described *described;
  bool compiled;
} compilation;

static bool read_source(void *context, const char *path, const char **bytes, size_t *n_bytes, const char **why,
                        sx_arena *arena) {
  compilation *c = context;
  sexp_file_info info = {0};
  sx_diags diags;
  sx_diags_init(&diags, arena);
  if (!sx_files_open(&c->files, path, &info, (sx_span){0}, &diags)) {
    *why = diags.list.items[0].message;
    return false;
  }
  if (info.n_bytes > SIZE_MAX / 2) {
    *why = "it is too large";
    return false;
  }
  *bytes = info.bytes ? (const char *)info.bytes : "";
  *n_bytes = (size_t)info.n_bytes;
  return true;
}

static const described *find_described(const compilation *c, const char *name) {
  for (const described *d = c->described; d; d = d->next)
    if (!strcmp(d->facts.name, name)) return d;
  return NULL;
}

static const described *describe_anew(compilation *c, const sx_data *data, sx_arena *arena, sx_diags *diags) {
  c->datasets = sx_dataset_new(data, c->host, arena);
  bool opened = sx_dataset_open(c->datasets, c->program->program.seed, diags);
  described *d = NULL;
  if (opened) {
    d = SX_NEW(arena, described);
    d->facts = (sx_data_facts){data->name, c->datasets->fields, c->datasets->n_fields, c->datasets->n,
                               sx_dataset_first_file(c->datasets)->path};
    d->next = c->described;
    c->described = d;
  }
  sx_dataset_close(c->datasets);
  c->datasets = NULL;
  return d;
}

static bool describe_data(void *context, const sx_data *data, sx_arena *arena, sx_field_type **fields,
                          uint32_t *n_fields, int64_t *n_records, sx_diags *diags) {
  compilation *c = context;
  const described *d = find_described(c, data->name);
  if (!d) d = describe_anew(c, data, arena, diags);
  if (!d) return false;
  *fields = d->facts.fields;
  *n_fields = d->facts.n_fields;
  *n_records = d->facts.n_records;
  return true;
}

static void print_line(void *context, const char *line) {
  const compilation *c = context;
  if (c->host->print) c->host->print(c->host->context, line);
}

static bool evaluate(compilation *c) {
  const sexp_options *options = c->options;
  sx_selection selection = {.run = options->run,
                            .variant = options->variant,
                            .sets = options->sets,
                            .n_sets = options->n_sets,
                            .steps = options->steps,
                            .eval_every = options->eval_every,
                            .diagnostics = options->diagnostics,
                            .n_diagnostics = options->n_diagnostics,
                            .eval_limit = options->eval_limit};
  sx_language_host host = {
      .context = c, .read_source = read_source, .describe_data = describe_data, .print = print_line};
  return sx_language_evaluate(&c->program->program, c->path, &selection, &host);
}

static bool is_pass(const char *name) {
  for (size_t i = 0; sx_pass_name(i); i++)
    if (!strcmp(sx_pass_name(i), name)) return true;
  return false;
}

/* The facts of the program's data, in their order. */
static sx_data_facts **collect_facts(const compilation *c) {
  sx_program *program = &c->program->program;
  sx_data_facts **facts = SX_NEW_N(program->arena, sx_data_facts *, program->datas.n);
  for (size_t i = 0; i < program->datas.n; i++) {
    const described *d = find_described(c, program->datas.items[i].name);
    if (!d) continue;
    facts[i] = SX_NEW(program->arena, sx_data_facts);
    *facts[i] = d->facts;
  }
  return facts;
}

static void compile_body(void *context) {
  compilation *c = context;
  sexp_program *owner = c->program;
  sx_program *program = &owner->program;
  *program = (sx_program){.arena = &owner->arena};
  sx_intern_init(&program->names, &owner->arena);
  sx_sources_init(&program->sources, &owner->arena);
  sx_diags_init(&program->diags, &owner->arena);
  sx_files_init(&c->files, c->host, &owner->arena);
  sx_text_init(&owner->dump, &owner->arena);
  if (c->options->dump_after && !is_pass(c->options->dump_after)) {
    sx_text names;
    sx_text_init(&names, &owner->arena);
    for (size_t i = 0; sx_pass_name(i); i++) sx_text_addf(&names, "%s%s", i ? ", " : "", sx_pass_name(i));
    sx_error(&program->diags, SX_E_RUN_DUMP, (sx_span){0}, "there is no pass \"%s\"; passes are %s",
             c->options->dump_after, sx_text_get(&names));
    return;
  }
  if (!evaluate(c)) return;
  sx_compile_options options = {.optimize = c->options->optimize,
                                .dump_after = c->options->dump_after,
                                .dump = &owner->dump,
                                .memory_bytes = c->options->memory_bytes,
                                .copies = c->options->memory_copies};
  c->compiled = sx_compile(&owner->compiled, program, collect_facts(c), &options) && !program->diags.n_errors;
  if (c->compiled) sx_describe(&owner->description, &owner->compiled);
}

/* One that a failed allocation interrupted. */
static void end_hash(sx_compiled *compiled) {
  uint8_t digest[32];
  if (compiled->hash) sx_sha256_end(compiled->hash, digest);
  compiled->hash = NULL;
}

static sx_memory memory_of(const sexp_allocator *allocator) {
  sx_memory memory = sx_memory_default();
  if (allocator->allocate) {
    memory = (sx_memory){.allocate = allocator->allocate, .release = allocator->release, .context = allocator->context};
    memory.chunk_bytes = allocator->chunk_bytes;
  }
  return memory;
}

sexp_status sexp_compile(sexp_program **program, sexp_messages **messages, const char *path,
                         const sexp_options *options, const sexp_host *host) {
  sx_memory memory = memory_of(&options->allocator);
  *program = NULL;
  sexp_program *made = memory.allocate(memory.context, sizeof *made);
  if (!made) return sx_messages_no_memory(messages);
  *made = (sexp_program){.memory = memory};
  sx_arena_init(&made->arena, &made->memory);
  compilation c = {.program = made, .path = path, .options = options, .host = host};
  bool had_memory = sx_guard(&made->memory, compile_body, &c);
  if (c.datasets) sx_dataset_close(c.datasets);
  sx_files_close(&c.files);
  end_hash(&made->compiled);
  sexp_status status = SEXP_NO_MEMORY;
  if (had_memory) {
    SX_ASSERT(c.compiled || made->program.diags.n_errors);
    status = c.compiled ? SEXP_OK : sx_status_of(&made->program.diags);
    status = sx_messages_add(messages, &memory, &made->program.diags, &made->program.sources, status);
  } else {
    sx_messages_no_memory(messages);
  }
  if (status == SEXP_OK)
    *program = made;
  else
    sexp_program_free(made);
  return status;
}

void sexp_program_free(sexp_program *program) {
  if (!program) return;
  sx_memory memory = program->memory;
  sx_arena_free(&program->arena);
  memory.release(memory.context, program);
}

const sexp_description *sexp_program_describe(const sexp_program *program) { return &program->description; }

typedef struct memory_request {
  sexp_program *program;
  sexp_memory_use *use;
  int threads;
  sx_simd simd;
} memory_request;

static void count_memory(void *context) {
  memory_request *request = context;
  sx_memory_use(request->use, &request->program->compiled, request->threads, request->simd);
}

bool sexp_program_memory(sexp_memory_use *use, sexp_program *program, int threads, const char *simd) {
  memory_request request = {program, use, threads > 0 ? threads : sx_pool_processors(), sx_simd_best()};
  for (int i = 0; simd && i < SX_N_SIMD; i++)
    if (sx_simd_available((sx_simd)i) && !strcmp(sx_simd_name((sx_simd)i), simd)) request.simd = (sx_simd)i;
  return sx_guard(&program->memory, count_memory, &request);
}

typedef struct graphs_request {
  sexp_program *program;
  const sexp_graph *graphs;
} graphs_request;

static void make_graphs(void *context) {
  graphs_request *request = context;
  request->graphs = sx_describe_graphs(&request->program->compiled);
}

size_t sexp_program_graphs(const sexp_graph **graphs, sexp_program *program) {
  graphs_request request = {program, NULL};
  bool made = sx_guard(&program->memory, make_graphs, &request);
  *graphs = made ? request.graphs : NULL;
  return made ? program->compiled.units.n : 0;
}

typedef struct text_request {
  sexp_program *program;
  const char *what, *text;
} text_request;

static void make_text(void *context) {
  text_request *request = context;
  request->text = sx_describe_text(&request->program->compiled, request->what);
}

const char *sexp_program_text(sexp_program *program, const char *what) {
  if (!strcmp(what, "dump")) return program->dump.n ? sx_text_get(&program->dump) : NULL;
  text_request request = {program, what, NULL};
  return sx_guard(&program->memory, make_text, &request) ? request.text : NULL;
}

const char *sexp_pass_name(size_t i) { return sx_pass_name(i); }

/* ---- running ---- */

static void make_run(void *context) {
  sexp_run *run = context;
  run->failed = !sx_run_make(run);
}

static void free_run(sexp_run *run) {
  sx_memory *memory = run->memory;
  sx_run_release(run);
  sx_arena_free(&run->scratch);
  sx_arena_free(&run->arena);
  memory->release(memory->context, run);
}

sexp_status sexp_run_new(sexp_run **run, sexp_messages **messages, sexp_program *program,
                         const sexp_run_options *options, const sexp_host *host) {
  sx_memory *memory = &program->memory;
  *run = NULL;
  sexp_run *made = memory->allocate(memory->context, sizeof *made);
  if (!made) return sx_messages_no_memory(messages);
  *made = (sexp_run){.memory = memory,
                     .host = *host,
                     .compiled = &program->compiled,
                     .program = &program->program,
                     .described = (sexp_parameter *)program->description.parameters, /* made by sx_describe */
                     .options = *options};
  sx_arena_init(&made->arena, memory);
  sx_arena_init(&made->scratch, memory);
  sx_diags_init(&made->diags, &made->arena);
  sexp_status status = SEXP_NO_MEMORY;
  if (sx_guard(memory, make_run, made) || made->left) {
    status = made->failed || made->left ? sx_status_of(&made->diags) : SEXP_OK;
    status = sx_messages_add(messages, memory, &made->diags, &program->program.sources, status);
  } else {
    sx_messages_no_memory(messages);
  }
  if (status == SEXP_OK)
    *run = made;
  else
    free_run(made);
  return status;
}

void sexp_run_free(sexp_run *run) {
  if (run) free_run(run);
}

typedef struct step_request {
  sexp_run *run;
  sexp_step *step;
  sexp_status status;
} step_request;

static void take_step(void *context) {
  step_request *request = context;
  request->status = sx_run_step(request->run, request->step);
}

sexp_status sexp_run_step(sexp_run *run, sexp_step *step, sexp_messages **messages) {
  step_request request = {run, step, SEXP_OK};
  if (!sx_guard(run->memory, take_step, &request)) {
    run->failed = true;
    return sx_messages_no_memory(messages);
  }
  if (request.status == SEXP_OK || request.status == SEXP_END) return request.status;
  if (!run->diags.n_errors) return sx_messages_no_memory(messages); /* it had failed for that */
  return sx_messages_add(messages, run->memory, &run->diags, &run->program->sources, sx_status_of(&run->diags));
}

typedef struct evaluate_request {
  sexp_run *run;
  const sexp_start *start;
  const char *const *names;
  size_t n_names;
  bool evaluated;
} evaluate_request;

static void evaluate_start(void *context) {
  evaluate_request *request = context;
  request->evaluated = sx_run_evaluate(request->run, request->start, request->names, request->n_names);
}

/* Each call has its own diagnostics, in memory that the next one takes back. */
sexp_status sexp_run_evaluate(sexp_run *run, sexp_evaluated *evaluated, const sexp_start *start,
                              const char *const *names, size_t n_names, sexp_messages **messages) {
  evaluate_request request = {run, start, names, n_names, false};
  sx_diags of_run = run->diags;
  sexp_status status = SEXP_OK;
  sx_arena_free(&run->scratch);
  sx_arena_init(&run->scratch, run->memory);
  sx_diags_init(&run->diags, &run->scratch);
  if (!sx_guard(run->memory, evaluate_start, &request))
    status = sx_messages_no_memory(messages);
  else if (!request.evaluated)
    status = sx_messages_add(messages, run->memory, &run->diags, &run->program->sources, sx_status_of(&run->diags));
  else
    *evaluated = (sexp_evaluated){run->position.step, run->values, run->n_values};
  run->diags = of_run;
  return status;
}

void sexp_run_position(const sexp_run *run, sexp_position *position) { *position = run->position; }

typedef struct tensors_request {
  sexp_run *run;
  bool shown;
} tensors_request;

static void show_tensors(void *context) {
  tensors_request *request = context;
  request->shown = sx_show_tensors(request->run);
}

size_t sexp_run_tensors(const sexp_run *run, const sexp_tensor **tensors) {
  tensors_request request = {(sexp_run *)run, false}; /* what it holds does not change, but for the image of it */
  bool had_memory = sx_guard(run->memory, show_tensors, &request);
  *tensors = run->tensors;
  return had_memory && request.shown ? run->n_slots : 0;
}

size_t sexp_run_datas(const sexp_run *run, const sexp_data_info **datas) {
  *datas = run->data_infos;
  return run->n_data_infos;
}

void sexp_run_engine(const sexp_run *run, sexp_engine *engine) {
  *engine = (sexp_engine){.device = run->options.device ? run->options.device->facts.text : SEXP_DEVICE_CPU,
                          .simd = sx_simd_name(run->cpu.kernels->simd),
                          .threads = sx_pool_threads(run->cpu.pool)};
}

size_t sexp_run_decisions(const sexp_run *run, const sexp_decision **decisions) {
  *decisions = run->decisions.items;
  return run->decisions.n;
}

size_t sexp_run_products(const sexp_run *run, const sexp_decision **products) {
  *products = run->products.items;
  return run->products.n;
}

typedef struct run_text_request {
  sexp_run *run;
  const char *what, *text;
} run_text_request;

static void make_run_text(void *context) {
  run_text_request *request = context;
  request->text = sx_describe_run(request->run, request->what);
}

const char *sexp_run_text(sexp_run *run, const char *what) {
  run_text_request request = {run, what, NULL};
  return sx_guard(run->memory, make_run_text, &request) ? request.text : NULL;
}

void sexp_processor_look(sexp_processor *processor) {
  *processor = (sexp_processor){.threads = sx_pool_processors(), .simd = sx_simd_name(sx_simd_best())};
  for (int i = 0; i < SX_N_SIMD && i < SEXP_SIMD_LEVELS; i++)
    if (sx_simd_available((sx_simd)i)) processor->levels[processor->n_levels++] = sx_simd_name((sx_simd)i);
}
