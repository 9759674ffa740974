/* The tensors of a run: parameters drawn by their initializers or loaded from files, and states. */
#include <string.h>

#include "../../kernels/math.h"
#include "../base/bug.h"
#include "../lang/names.h"
#include "run.h"

/* Slots are in path order within parameters and within states. */
size_t sx_find_slot(const sx_run *run, const char *path, bool state) {
  size_t low = state ? run->n_params : 0, end = state ? run->n_slots : run->n_params, high = end;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int order = strcmp(run->slots[middle].path, path);
    if (!order) return middle;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return run->n_slots;
}

static void make_slot(const sx_run *run, sx_slot *slot, sx_written written) {
  slot->n_elements = 1;
  for (int i = 0; i < slot->rank; i++) slot->n_elements *= slot->dims[i];
  slot->n_bytes = slot->n_elements * (int64_t)sx_dtype_bytes(slot->dtype);
  if (!run->options.evaluations_only) slot->written = written;
  /* The observed update is executed before the plain one, which must find the old values. */
  if (slot->written == SX_WRITTEN_IN_PLACE && run->options.digest_nodes_at > 0) slot->written = SX_WRITTEN_BESIDE;
}

void sx_make_slots(sx_run *run) {
  const sx_program *program = run->program;
  run->n_params = program->params.n;
  run->n_slots = run->n_params + (run->options.evaluations_only ? 0 : program->states.n);
  run->slots = SX_NEW_N(&run->arena, sx_slot, run->n_slots);
  for (size_t i = 0; i < run->n_params; i++) {
    const sx_param *param = &program->params.items[i];
    run->slots[i] = (sx_slot){.path = param->path, .dtype = param->dtype, .rank = param->rank, .dims = param->dims};
    make_slot(run, &run->slots[i], run->compiled->param_written[i]);
  }
  for (size_t i = run->n_params; i < run->n_slots; i++) {
    const sx_state *state = &program->states.items[i - run->n_params];
    sx_slot *slot = &run->slots[i];
    *slot = (sx_slot){.path = state->path, .dtype = state->dtype, .rank = state->rank, .dims = state->dims};
    make_slot(run, slot, run->compiled->state_written[i - run->n_params]);
  }
}

/* What the public functions show. */
static void make_tensors(sx_run *run) {
  static const sexp_dtype dtypes[SX_N_DTYPES] = {[SX_F32] = SEXP_F32, [SX_BF16] = SEXP_BF16, [SX_F16] = SEXP_F16,
                                                 [SX_I32] = SEXP_I32, [SX_U8] = SEXP_U8,     [SX_BOOL] = SEXP_BOOL};
  run->tensors = SX_NEW_N(&run->arena, sexp_tensor, run->n_slots);
  for (size_t i = 0; i < run->n_slots; i++) {
    const sx_slot *slot = &run->slots[i];
    run->tensors[i] = (sexp_tensor){.path = slot->path,
                                    .dtype = dtypes[slot->dtype],
                                    .rank = slot->rank,
                                    .dims = slot->dims,
                                    .bytes = run->backend->shares_memory ? slot->now : NULL,
                                    .n_bytes = (size_t)slot->n_bytes,
                                    .state = i >= run->n_params};
  }
}

void sx_take_tensors(sx_run *run) {
  for (size_t i = 0; i < run->n_slots; i++) {
    sx_slot *slot = &run->slots[i];
    sx_use use = i < run->n_params ? SX_USE_PARAMETERS : SX_USE_STATES;
    slot->now = sx_take(run, use, slot->n_bytes);
    run->writes_beside |= slot->written == SX_WRITTEN_BESIDE;
    if (slot->written == SX_WRITTEN_NEVER) continue;
    slot->next = slot->written == SX_WRITTEN_IN_PLACE ? slot->now : sx_take(run, use, slot->n_bytes);
  }
  make_tensors(run);
}

/* ---- initializers ---- */

static bool bind_initializer(sx_run *run, const sx_plan *plan, void *value) {
  for (uint32_t b = 0; b < plan->buffers.n; b++) {
    const sx_buffer *buffer = &plan->buffers.items[b];
    void *data = value;
    if (buffer->kind == SX_BUFFER_EXTERNAL) {
      const char *path = sx_after(buffer->name, "param/");
      size_t i = path ? sx_find_slot(run, path, false) : run->n_slots;
      if (i == run->n_slots) SX_BUG("graph %s: %s is bound to nothing", plan->graph->name, buffer->name);
      const sx_slot *read = &run->slots[i];
      bool shared = run->backend->shares_memory;
      data = shared ? read->now : sx_take_aligned(&run->scratch, read->n_bytes);
      if (!shared && !sx_read_back(run, data, read->now, read->n_bytes)) return false;
    } else if (buffer->kind != SX_BUFFER_OUTPUT) {
      continue;
    }
    sx_executable_bind(run->initializer, b, data);
  }
  return true;
}

static bool execute_initializer(sx_run *run) {
  sx_stopped why = {0};
  if (sx_executable_execute(run->initializer, &why)) return true;
  sx_report_stop(run, &why);
  return false;
}

/* The CPU engine computes them on every device: draws have the same bits on all, and no kernel has to be compiled for a
 * graph that is executed once. That of a state may read parameters. One executable at a time, in memory that is given
 * back. */
static bool initialize(sx_run *run, sx_slot *slot, const sx_unit *unit) {
  bool shared = run->backend->shares_memory;
  run->initializer = sx_executable_new(&run->cpu, unit->plan, run->program->seed, &run->scratch);
  if (!run->initializer) sx_memory_fail(run->memory);
  void *value = shared ? slot->now : sx_take_aligned(&run->scratch, slot->n_bytes);
  bool executed = bind_initializer(run, unit->plan, value) && execute_initializer(run);
  if (executed && !shared) executed = sx_write(run, slot->now, value, slot->n_bytes);
  sx_release_initializer(run);
  sx_arena_free(&run->scratch);
  sx_arena_init(&run->scratch, run->memory);
  return executed;
}

void sx_release_initializer(sx_run *run) {
  if (run->initializer) sx_executable_free(run->initializer);
  run->initializer = NULL;
}

/* ---- loading ---- */

typedef struct weights_file {
  const char *path;
  sx_file *file;
  const sexp_file_tensor *tensors;
  size_t n_tensors;
  struct weights_file *next;
} weights_file;

/* A file of which version and size are known. */
typedef struct versioned {
  const char *path;
  char version[80];
  uint64_t n_bytes;
  struct versioned *next;
} versioned;

typedef struct loading {
  sx_run *run;
  weights_file *files;
  versioned *versions;
} loading;

static weights_file *open_weights(loading *l, const sx_param *param) {
  sx_run *run = l->run;
  for (weights_file *file = l->files; file; file = file->next)
    if (!strcmp(file->path, param->load_file)) return file;
  weights_file *file = SX_NEW(&run->arena, weights_file);
  file->path = param->load_file;
  file->file = sx_files_open_tensors(&run->weights, param->load_file, &file->tensors, &file->n_tensors, param->span,
                                     &run->diags);
  if (!file->file) return NULL;
  file->next = l->files;
  l->files = file;
  return file;
}

static const sexp_file_tensor *find_tensor(sx_run *run, const weights_file *file, const sx_param *param) {
  sx_nearest nearest = sx_nearest_begin(param->load_tensor);
  for (size_t i = 0; i < file->n_tensors; i++) {
    if (!strcmp(file->tensors[i].name, param->load_tensor)) return &file->tensors[i];
    sx_nearest_add(&nearest, file->tensors[i].name);
  }
  sx_diag *diag = sx_error(&run->diags, SX_E_LOAD_TENSOR, param->span, "%s has no tensor %s, for parameter %s",
                           file->path, param->load_tensor, param->path);
  diag->path = param->path;
  const char *hint = sx_nearest_hint(&nearest, run->diags.arena);
  if (hint) diag->hint = hint;
  return NULL;
}

static const char *file_dtype_name(sexp_dtype dtype) {
  static const char *const names[] = {
      [SEXP_F32] = "f32",   [SEXP_BF16] = "bf16", [SEXP_F16] = "f16", [SEXP_I32] = "i32", [SEXP_U8] = "u8",
      [SEXP_BOOL] = "bool", [SEXP_F64] = "f64",   [SEXP_I64] = "i64", [SEXP_U64] = "u64", [SEXP_U32] = "u32",
      [SEXP_U16] = "u16",   [SEXP_I16] = "i16",   [SEXP_I8] = "i8"};
  return names[dtype];
}

static bool fits(sx_run *run, const sexp_file_tensor *tensor, const sx_param *param) {
  const char *have = file_dtype_name(tensor->dtype), *want = sx_dtype_name(param->load_dtype);
  if (strcmp(have, want)) {
    bool said = param->load_dtype != param->dtype;
    sx_error(&run->diags, SX_E_LOAD_DTYPE, param->span, "tensor %s of %s is %s, %s %s %s %s", tensor->name,
             param->load_file, have, said ? "the weights of parameter" : "parameter", param->path,
             said ? "are said to be" : "is", want)
        ->path = param->path;
    return false;
  }
  bool same = tensor->rank == param->rank;
  for (int i = 0; same && i < param->rank; i++) same = tensor->dims[i] == param->dims[i];
  if (same) return true;
  sx_text shapes;
  sx_text_init(&shapes, run->diags.arena);
  sx_text_add_shape(&shapes, tensor->dims, tensor->rank);
  sx_text_addf(&shapes, ", parameter %s is ", param->path);
  sx_text_add_shape(&shapes, param->dims, param->rank);
  sx_error(&run->diags, SX_E_LOAD_SHAPE, param->span, "tensor %s of %s is %s", tensor->name, param->load_file,
           sx_text_get(&shapes))
      ->path = param->path;
  return false;
}

/* The version of the file that holds a tensor: the opened one, or a shard of an index. */
static versioned *find_version(loading *l, const weights_file *file, const char *path, sx_span span) {
  sx_run *run = l->run;
  for (versioned *v = l->versions; v; v = v->next)
    if (!strcmp(v->path, path)) return v;
  sx_arena *arena = run->program->arena; /* the program's description shows it */
  versioned *v = SX_NEW(arena, versioned);
  v->path = sx_arena_copy_text(arena, path, strlen(path));
  sexp_file_info info;
  const sx_file *shard = file->file;
  if (strcmp(path, file->path)) shard = sx_files_open(&run->weights, path, &info, span, &run->diags);
  if (!shard || !sx_files_version(&run->weights, shard, v->version, &v->n_bytes, span, &run->diags)) return NULL;
  v->next = l->versions;
  l->versions = v;
  return v;
}

/* Elements of bf16 or f16, at any alignment, exactly. */
static void widen(float *to, const unsigned char *from, int64_t n_elements, sx_dtype dtype) {
  for (int64_t i = 0; i < n_elements; i++) {
    uint16_t narrow;
    memcpy(&narrow, from + 2 * i, sizeof narrow);
    to[i] = dtype == SX_BF16 ? sx_f32_from_bf16(narrow) : sx_f32_from_f16(narrow);
  }
}

static bool take_elements(sx_run *run, const sx_slot *slot, const sx_param *param, const sexp_file_tensor *tensor) {
  if (param->load_dtype == param->dtype) return sx_write(run, slot->now, tensor->bytes, (int64_t)tensor->n_bytes);
  bool shared = run->backend->shares_memory;
  float *wide = shared ? slot->now : sx_take_aligned(&run->scratch, slot->n_bytes);
  widen(wide, tensor->bytes, slot->n_elements, param->load_dtype);
  bool written = shared || sx_write(run, slot->now, wide, slot->n_bytes);
  sx_arena_free(&run->scratch);
  sx_arena_init(&run->scratch, run->memory);
  return written;
}

static bool load(loading *l, size_t index) {
  sx_run *run = l->run;
  const sx_param *param = &run->program->params.items[index];
  weights_file *file = open_weights(l, param);
  const sexp_file_tensor *tensor = file ? find_tensor(run, file, param) : NULL;
  if (!tensor || !fits(run, tensor, param)) return false;
  if (!take_elements(run, &run->slots[index], param, tensor)) return false;
  versioned *v = find_version(l, file, tensor->path, param->span);
  if (!v) return false;
  run->described[index].load_file = v->path;
  run->described[index].load_bytes = v->n_bytes;
  run->described[index].load_version = v->version;
  return true;
}

bool sx_make_parameters(sx_run *run) {
  loading l = {.run = run};
  bool fine = true;
  if (run->options.evaluations_only) return true;
  for (size_t i = 0; i < run->n_params; i++) {
    const sx_unit *init = &run->compiled->param_inits[i];
    fine &= run->program->params.items[i].load_file ? load(&l, i) : initialize(run, &run->slots[i], init);
  }
  sx_files_close(&run->weights);
  for (size_t i = run->n_params; fine && i < run->n_slots; i++)
    fine = initialize(run, &run->slots[i], &run->compiled->state_inits[i - run->n_params]);
  return fine;
}
