#include "experiment.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../libchoices/choices.h"
#include "failure.h"
#include "format.h"

#ifdef __clang__
#define BUILD "clang " __clang_version__
#else
#define BUILD "gcc " __VERSION__
#endif
#include "paths.h"

ckpt_dtype tool_dtype(sexp_dtype dtype) {
  static const ckpt_dtype map[] = {[SEXP_F32] = CKPT_F32, [SEXP_BF16] = CKPT_BF16, [SEXP_F16] = CKPT_F16,
                                   [SEXP_I32] = CKPT_I32, [SEXP_U8] = CKPT_U8,     [SEXP_BOOL] = CKPT_BOOL};
  return map[dtype];
}

/* BASE-xxxx: four digits of a hash of the identity and the seed. */
static char *make_slug(const char *path, const char *base, const sexp_description *about) {
  const char *slash = strrchr(path, '/');
  const char *stem = base ? base : slash ? slash + 1 : path;
  const char *dot = base ? NULL : strrchr(stem, '.');
  int n = dot && dot > stem ? (int)(dot - stem) : (int)strlen(stem);
  char key[160], digest[CKPT_SHA256_TEXT];
  snprintf(key, sizeof key, "%s %" PRId64 " 0", about->identity, about->seed);
  if (ckpt_sha256_bytes(digest, key, strlen(key), NULL) != CKPT_OK) return NULL;
  size_t room = (size_t)n + 6;
  char *slug = malloc(room);
  if (slug) snprintf(slug, room, "%.*s-%.4s", n, stem, digest + strlen("sha256:"));
  return slug;
}

/* A device that chooses records every kind, those without a decision too. */
static choices_status make_record(choices_record **record, const char *identity, const tool_mode *mode) {
  static const char *const maps[] = {"convolutions", "products"};
  const choices_object object = {.device = mode->device,
                                 .graph = identity,
                                 .numerics = 1,
                                 .strict = mode->strict,
                                 .portable = mode->portable,
                                 .probes = mode->probes,
                                 .n_probes = mode->n_probes};
  bool chooses = mode->cuda && !mode->portable;
  choices_row *rows = calloc(mode->n_decisions + 1, sizeof *rows);
  size_t n = 0;
  if (!rows) return CHOICES_IO;
  for (size_t i = 0; chooses && i < mode->n_decisions; i++) {
    const sexp_decision *from = &mode->decisions[i];
    const choices_kind *kind = choices_kind_find(from->kind);
    rows[n++] = (choices_row){.kind = from->kind,
                              .key = kind && kind->is_map ? from->key : "",
                              .value = from->value,
                              .is_json = kind && !kind->is_text};
  }
  if (chooses) rows[n++] = (choices_row){.kind = "node_gradients", .key = "", .value = "null", .is_json = true};
  choices_status status = choices_record_make(record, &object, rows, n, maps, chooses ? 2 : 0, NULL);
  free(rows);
  return status;
}

char *tool_choices_make(char digest_out[CKPT_SHA256_TEXT], const char *identity, const tool_mode *mode) {
  choices_record *record = NULL;
  if (make_record(&record, identity, mode) != CHOICES_OK) return NULL;
  const char *digest = choices_record_digest(record);
  char *choices = digest ? strdup(choices_record_text(record)) : NULL;
  if (digest) snprintf(digest_out, CKPT_SHA256_TEXT, "%s", digest);
  choices_record_free(record);
  return choices;
}

static const char *decided(const tool_mode *mode, const char *kind) {
  for (size_t i = 0; i < mode->n_decisions; i++)
    if (strcmp(mode->decisions[i].kind, kind) == 0) return mode->decisions[i].value;
  return "1";
}

/* A convolution without an engine is none of those that are counted. */
static size_t count_decided(const tool_mode *mode, const char *kind) {
  size_t n = 0;
  for (size_t i = 0; i < mode->n_decisions; i++)
    n += strcmp(mode->decisions[i].kind, kind) == 0 && strcmp(mode->decisions[i].value, "none") != 0;
  return n;
}

void tool_choices_line(char *line, size_t n_line, const char *digest, const tool_mode *mode) {
  char engines[64] = "", products[64] = "";
  if (!mode->cuda || mode->portable) {
    snprintf(line, n_line, "none to make %s; digest %s", mode->cuda ? "under --portable" : "on a CPU", digest);
    return;
  }
  size_t n_engines = count_decided(mode, "convolution"), n_products = count_decided(mode, "product");
  if (n_engines)
    snprintf(engines, sizeof engines, ", %zu convolution engine%s", n_engines, tool_plural((int64_t)n_engines));
  if (n_products)
    snprintf(products, sizeof products, ", %zu product implementation%s", n_products, tool_plural((int64_t)n_products));
  snprintf(line, n_line, "stacking %s, recompute %s flops a byte%s%s; on %s", decided(mode, "stacking"),
           decided(mode, "recompute"), engines, products, mode->device);
}

/* A path as records tell it, kept with the experiment; NULL: out of memory. */
static const char *recorded(tool_experiment *experiment, const char *path) {
  char *text = tool_path_from(experiment->path, path);
  if (text) experiment->paths[experiment->n_paths++] = text;
  return text;
}

static bool fill_parameters(tool_experiment *experiment, const sexp_description *about) {
  bool good = true;
  for (size_t i = 0; i < about->n_parameters; i++) {
    const sexp_parameter *from = &about->parameters[i];
    if (!from->load_file) continue;
    experiment->loads[i] =
        (ckpt_load){recorded(experiment, from->load_file), from->load_tensor, from->load_bytes, from->load_version};
    experiment->parameters[i].load = &experiment->loads[i];
    good = good && experiment->loads[i].file;
  }
  return good;
}

static void fill_arrays(ckpt_array *arrays, const sexp_parameter *from, size_t n) {
  for (size_t i = 0; i < n; i++) {
    arrays[i] = (ckpt_array){.path = from[i].path, .dtype = tool_dtype(from[i].dtype), .rank = from[i].rank};
    for (int d = 0; d < from[i].rank; d++) arrays[i].dims[d] = from[i].dims[d];
  }
}

/* False: out of memory. */
static bool fill_lists(tool_experiment *experiment, const sexp_description *about, const sexp_data_info *datas) {
  bool good = true;
  for (size_t i = 0; i < about->n_sources; i++) {
    experiment->sources[i] = (ckpt_text_file){recorded(experiment, about->sources[i].path), about->sources[i].bytes};
    good = good && experiment->sources[i].name;
  }
  for (size_t i = 0; i < about->n_knobs; i++)
    experiment->knobs[i] = (ckpt_knob){about->knobs[i].name, about->knobs[i].json, about->knobs[i].source};
  for (size_t i = 0; i < experiment->record.n_data; i++) {
    const char *source = recorded(experiment, datas[i].path);
    experiment->data[i] = (ckpt_data_source){datas[i].name, source, datas[i].n_bytes, datas[i].version};
    good = good && source;
  }
  fill_arrays(experiment->parameters, about->parameters, about->n_parameters);
  fill_arrays(experiment->states, about->states, about->n_states);
  return fill_parameters(experiment, about) && good;
}

static bool take_memory(tool_experiment *experiment, const sexp_description *about, size_t n_data) {
  experiment->sources = calloc(about->n_sources + 1, sizeof *experiment->sources);
  experiment->knobs = calloc(about->n_knobs + 1, sizeof *experiment->knobs);
  experiment->data = calloc(n_data + 1, sizeof *experiment->data);
  experiment->parameters = calloc(about->n_parameters + 1, sizeof *experiment->parameters);
  experiment->loads = calloc(about->n_parameters + 1, sizeof *experiment->loads);
  experiment->states = calloc(about->n_states + 1, sizeof *experiment->states);
  experiment->paths = calloc(about->n_sources + n_data + about->n_parameters + 1, sizeof *experiment->paths);
  return experiment->paths && experiment->sources && experiment->knobs && experiment->data && experiment->parameters &&
         experiment->loads && experiment->states;
}

int tool_experiment_init(tool_experiment *experiment, const sexp_program *program, const sexp_run *run,
                         const char *path, const char *slug_base, const char *slug, const tool_mode *mode) {
  const sexp_description *about = sexp_program_describe(program);
  const sexp_data_info *datas = NULL;
  size_t n_data = sexp_run_datas(run, &datas);
  *experiment = (tool_experiment){.path = path, .slug = slug ? strdup(slug) : make_slug(path, slug_base, about)};
  experiment->choices = tool_choices_make(experiment->choices_digest, about->identity, mode);
  if (!experiment->slug || !experiment->choices || !take_memory(experiment, about, n_data)) {
    tool_experiment_free(experiment);
    return tool_no_memory();
  }
  experiment->record = (ckpt_experiment){.slug = experiment->slug,
                                         .sources = experiment->sources,
                                         .n_sources = about->n_sources,
                                         .run = about->run,
                                         .variant = about->variant,
                                         .knobs = experiment->knobs,
                                         .n_knobs = about->n_knobs,
                                         .seed = about->seed,
                                         .identity = about->identity,
                                         .parameters = experiment->parameters,
                                         .n_parameters = about->n_parameters,
                                         .states = experiment->states,
                                         .n_states = about->n_states,
                                         .data = experiment->data,
                                         .n_data = n_data,
                                         .gpus = mode->cuda ? 1 : 0,
                                         .nodes = 1,
                                         .choices = experiment->choices,
                                         .tool_version = SEXPGPU_VERSION,
                                         .tool_build = BUILD};
  if (fill_lists(experiment, about, datas)) return TOOL_DONE;
  tool_experiment_free(experiment);
  return tool_no_memory();
}

void tool_experiment_update(tool_experiment *experiment, const sexp_run *run) {
  sexp_position position;
  sexp_run_position(run, &position);
  experiment->record.step = position.step;
  experiment->record.records = position.records;
  experiment->record.stage = position.stage;
  const sexp_tensor *tensors = NULL;
  size_t n = sexp_run_tensors(run, &tensors);
  size_t n_parameters = experiment->record.n_parameters;
  for (size_t i = 0; i < n; i++) {
    if (i < n_parameters)
      experiment->parameters[i].data = tensors[i].bytes;
    else
      experiment->states[i - n_parameters].data = tensors[i].bytes;
  }
}

void tool_experiment_free(tool_experiment *experiment) {
  free(experiment->slug);
  free(experiment->choices);
  free(experiment->sources);
  free(experiment->knobs);
  free(experiment->data);
  free(experiment->parameters);
  free(experiment->loads);
  free(experiment->states);
  for (size_t i = 0; i < experiment->n_paths; i++) free(experiment->paths[i]);
  free(experiment->paths);
  *experiment = (tool_experiment){0};
}
