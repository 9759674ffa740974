/* All that the report says, and what it counts, as one object. */
#include <stdio.h>

#include "../common/failure.h"
#include "explanation.h"

static void text(ckpt_json *json, const char *key, const char *value) {
  ckpt_json_key(json, key);
  ckpt_json_string(json, value);
}

static void number(ckpt_json *json, const char *key, int64_t value) {
  ckpt_json_key(json, key);
  ckpt_json_integer(json, value);
}

static void truth(ckpt_json *json, const char *key, bool value) {
  ckpt_json_key(json, key);
  ckpt_json_bool(json, value);
}

static void begin(ckpt_json *json, const char *key, bool is_array) {
  ckpt_json_key(json, key);
  if (is_array)
    ckpt_json_begin_array(json);
  else
    ckpt_json_begin_object(json);
}

/* "dtype" and "shape". */
static void write_shape(ckpt_json *json, sexp_dtype dtype, int rank, const int64_t *dims) {
  text(json, "dtype", ckpt_dtype_name(tool_dtype(dtype)));
  begin(json, "shape", true);
  for (int i = 0; i < rank; i++) ckpt_json_integer(json, dims[i]);
  ckpt_json_end_array(json);
}

/* ---- the experiment ---- */

static void write_experiment(ckpt_json *json, const explanation *e, const sexp_description *about) {
  begin(json, "experiment", false);
  begin(json, "files", true);
  for (size_t i = 0; i < about->n_sources; i++) ckpt_json_string(json, about->sources[i].path);
  ckpt_json_end_array(json);
  text(json, "run", about->run);
  text(json, "variant", about->variant);
  text(json, "identity", about->identity);
  number(json, "seed", about->seed);
  number(json, "steps", about->steps);
  number(json, "batch", about->batch);
  number(json, "microbatches", about->microbatches);
  number(json, "stages", (int64_t)about->n_stages);
  number(json, "checkpoint_every", about->checkpoint_every);
  number(json, "checkpoint_keep", about->checkpoint_keep);
  truth(json, "optimized", e->settings->selection.optimize);
  ckpt_json_end_object(json);
}

static void write_knobs(ckpt_json *json, const sexp_description *about) {
  begin(json, "knobs", true);
  for (size_t i = 0; i < about->n_knobs; i++) {
    const sexp_knob *knob = &about->knobs[i];
    ckpt_json_begin_object(json);
    text(json, "name", knob->name);
    ckpt_json_key(json, "value"), ckpt_json_raw(json, knob->json);
    text(json, "source", knob->source);
    text(json, "doc", knob->doc);
    ckpt_json_end_object(json);
  }
  ckpt_json_end_array(json);
}

static void write_data(ckpt_json *json, const sexp_description *about) {
  begin(json, "data", true);
  for (size_t i = 0; i < about->n_datas; i++) {
    const sexp_data_info *data = &about->datas[i];
    ckpt_json_begin_object(json);
    text(json, "name", data->name);
    text(json, "path", data->path);
    text(json, "order", data->order);
    number(json, "records", data->n_records);
    ckpt_json_end_object(json);
  }
  ckpt_json_end_array(json);
}

static void write_parameters(ckpt_json *json, const char *key, const sexp_parameter *parameters, size_t n, bool are) {
  begin(json, key, true);
  for (size_t i = 0; i < n; i++) {
    const sexp_parameter *parameter = &parameters[i];
    ckpt_json_begin_object(json);
    text(json, "path", parameter->path);
    write_shape(json, parameter->dtype, parameter->rank, parameter->dims);
    if (are) {
      truth(json, "trainable", parameter->trainable);
      text(json, "load", parameter->load_file);
    }
    ckpt_json_end_object(json);
  }
  ckpt_json_end_array(json);
}

static void write_evaluations(ckpt_json *json, const sexp_description *about) {
  begin(json, "evaluations", true);
  for (size_t i = 0; i < about->n_evals; i++) {
    const sexp_evaluation *eval = &about->evals[i];
    ckpt_json_begin_object(json);
    text(json, "name", eval->name);
    number(json, "every", eval->every);
    begin(json, "metrics", true);
    for (size_t m = 0; m < eval->n_metrics; m++) ckpt_json_string(json, eval->metrics[m]);
    ckpt_json_end_array(json);
    ckpt_json_end_object(json);
  }
  ckpt_json_end_array(json);
}

/* ---- how it is computed ---- */

/* by_libraries: cuBLAS and cuDNN compute it, in an order of theirs that this object does not name. */
static void write_contraction(ckpt_json *json, const char *graph, const sexp_contraction *from, bool by_libraries) {
  ckpt_json_begin_object(json);
  text(json, "graph", graph);
  text(json, "op", from->op);
  text(json, "equation", from->equation);
  begin(json, "inputs", true);
  for (size_t i = 0; i < from->n_inputs; i++) {
    ckpt_json_begin_object(json);
    write_shape(json, from->inputs[i].dtype, from->inputs[i].rank, from->inputs[i].dims);
    ckpt_json_end_object(json);
  }
  ckpt_json_end_array(json);
  begin(json, "output", false);
  write_shape(json, from->output.dtype, from->output.rank, from->output.dims);
  ckpt_json_end_object(json);
  text(json, "implementation", by_libraries ? NULL : from->implementation);
  text(json, "path", from->place.path);
  text(json, "file", from->place.file);
  number(json, "line", from->place.line);
  number(json, "column", from->place.column);
  ckpt_json_end_object(json);
}

static void write_contractions(ckpt_json *json, const char *key, const sexp_graph *graphs, size_t n,
                               bool are_convolutions, bool by_libraries) {
  begin(json, key, true);
  for (size_t g = 0; g < n; g++) {
    const sexp_contraction *items = are_convolutions ? graphs[g].convolutions : graphs[g].products;
    size_t n_items = are_convolutions ? graphs[g].n_convolutions : graphs[g].n_products;
    for (size_t i = 0; i < n_items; i++) write_contraction(json, graphs[g].name, &items[i], by_libraries);
  }
  ckpt_json_end_array(json);
}

static void write_graphs(ckpt_json *json, const sexp_graph *graphs, size_t n) {
  begin(json, "graphs", true);
  for (size_t g = 0; g < n; g++) {
    const sexp_graph *graph = &graphs[g];
    ckpt_json_begin_object(json);
    text(json, "name", graph->name);
    truth(json, "training", graph->training);
    number(json, "nodes_built", graph->n_nodes_built);
    number(json, "nodes", graph->n_nodes);
    number(json, "groups", graph->n_groups);
    number(json, "launches", graph->n_tasks);
    number(json, "products", (int64_t)graph->n_products);
    number(json, "convolutions", (int64_t)graph->n_convolutions);
    number(json, "bytes", graph->block_bytes);
    number(json, "least_bytes", graph->bound_bytes);
    ckpt_json_end_object(json);
  }
  ckpt_json_end_array(json);
}

/* Of a step: the training graphs' sums, as the report has them. */
static void write_step(ckpt_json *json, const sexp_description *about) {
  begin(json, "step", false);
  number(json, "nodes_built", about->n_nodes_built);
  number(json, "nodes", about->n_nodes);
  number(json, "groups", about->n_groups);
  number(json, "products", about->n_products);
  number(json, "convolutions", about->n_convolutions);
  ckpt_json_end_object(json);
}

/* On a device the plans are its own, and so is what they take. False: out of memory. */
static bool write_memory(ckpt_json *json, const explanation *e, const sexp_description *about) {
  sexp_memory_use use;
  if (!sexp_program_memory(&use, e->program, e->engine.threads, e->engine.simd)) return false;
  begin(json, "memory", false);
  number(json, "parameters", use.parameters);
  number(json, "states", use.states);
  number(json, "twice", use.beside);
  number(json, "gradients", use.gradients);
  number(json, "data", use.data);
  number(json, "constants", use.constants);
  number(json, "activations", use.activations);
  number(json, "activations_least", use.activations_least);
  number(json, "scratch", use.scratch);
  number(json, "step", about->step_bytes);
  number(json, "step_least", about->step_bytes_bound);
  number(json, "run", use.total);
  number(json, "run_least", use.least);
  ckpt_json_key(json, "recompute"), ckpt_json_real64(json, use.recompute);
  ckpt_json_end_object(json);
  return true;
}

static void write_choices(ckpt_json *json, const explanation *e) {
  begin(json, "device", false);
  text(json, "name", e->mode.device);
  text(json, "simd", e->engine.simd);
  number(json, "threads", e->engine.threads);
  ckpt_json_end_object(json);
  begin(json, "determinism", false);
  number(json, "level", e->pinning.level);
  text(json, "text", e->pinning.determinism);
  ckpt_json_end_object(json);
  begin(json, "choices", false);
  text(json, "digest", e->choices_digest);
  ckpt_json_key(json, "object"), ckpt_json_raw(json, e->choices);
  ckpt_json_end_object(json);
}

static bool write_all(ckpt_json *json, const explanation *e, const sexp_graph *graphs, size_t n_graphs) {
  const sexp_description *about = sexp_program_describe(e->program);
  const bool by_libraries = e->device && !e->settings->engine.portable;
  ckpt_json_begin_object(json);
  text(json, "record", "explanation");
  text(json, "tool", "sexpgpu " SEXPGPU_VERSION);
  write_experiment(json, e, about);
  write_knobs(json, about);
  write_data(json, about);
  number(json, "parameter_elements", about->parameter_elements);
  write_parameters(json, "parameters", about->parameters, about->n_parameters, true);
  write_parameters(json, "states", about->states, about->n_states, false);
  write_evaluations(json, about);
  write_step(json, about);
  bool good = write_memory(json, e, about);
  write_graphs(json, graphs, n_graphs);
  write_contractions(json, "products", graphs, n_graphs, false, by_libraries);
  write_contractions(json, "convolutions", graphs, n_graphs, true, by_libraries);
  write_choices(json, e);
  ckpt_json_end_object(json);
  return good;
}

int explanation_print_json(const explanation *e) {
  const sexp_graph *graphs = NULL;
  size_t n = 0, n_graphs = sexp_program_graphs(&graphs, e->program);
  ckpt_json *json = graphs ? ckpt_json_new(CKPT_JSON_LINE) : NULL;
  if (!json) return tool_no_memory();
  const char *bytes = write_all(json, e, graphs, n_graphs) ? ckpt_json_text(json, &n) : NULL;
  if (bytes) fwrite(bytes, 1, n, stdout);
  ckpt_json_free(json);
  return bytes ? TOOL_DONE : tool_no_memory();
}
