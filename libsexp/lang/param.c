/* (param name shape :init e :dtype f32 :load w :trainable true), and its starting value. */
#include <stdlib.h>
#include <string.h>

#include "machine.h"
#include "model.h"
#include "names.h"
#include "paths.h"

enum { KEY_INIT, KEY_DTYPE, KEY_LOAD, KEY_TRAINABLE };

sx_context sx_enter_context(sx_evaluator *evaluator, sx_place place, const char *graph_name, const char *path,
                            bool training) {
  sx_context before = evaluator->context;
  sx_graph *graph = sx_graph_new(evaluator->arena, evaluator->names, sx_intern_text(evaluator->names, graph_name));
  evaluator->context =
      (sx_context){.place = place, .graph = graph, .path = path, .training = training, .parameter = before.parameter};
  return before;
}

void sx_leave_context(sx_evaluator *evaluator, sx_context before) { evaluator->context = before; }

sx_id sx_param_node(sx_param_entry *entry, sx_graph *graph) {
  if (entry->graph == graph) return entry->node;
  const sx_param *param = &entry->param;
  entry->graph = graph;
  entry->node = sx_graph_add(
      graph,
      &(sx_spec){
          .op = SX_OP_PARAM, .dtype = param->dtype, .rank = param->rank, .dims = param->dims, .text = param->path});
  return entry->node;
}

static int by_path(const void *a, const void *b) {
  return strcmp((*(sx_param_entry *const *)a)->param.path, (*(sx_param_entry *const *)b)->param.path);
}

void sx_sort_params(sx_evaluator *evaluator) {
  if (evaluator->params.n)
    qsort(evaluator->params.items, evaluator->params.n, sizeof *evaluator->params.items, by_path);
}

/* ---- the starting value ---- */

static const char *type_text(sx_arena *arena, sx_dtype dtype, int rank, const int64_t *dims) {
  sx_text text;
  sx_text_init(&text, arena);
  sx_text_addf(&text, "%s ", sx_dtype_name(dtype));
  sx_text_add_shape(&text, dims, rank);
  return sx_text_get(&text);
}

static bool fail_value(sx_evaluator *evaluator, const sx_value *value, sx_dtype dtype, int rank, const int64_t *dims,
                       const char *what) {
  sx_fail(evaluator, SX_E_PARAM_VALUE, (sx_span){0, 0, 0}, "%s must be %s, found %s", what,
          type_text(evaluator->arena, dtype, rank, dims), sx_value_show(evaluator->arena, value));
  return false;
}

static bool number_fits(const sx_value *value, sx_dtype dtype) {
  if (value->kind == SX_KIND_BOOLEAN) return dtype == SX_BOOL;
  if (!sx_is_number(value) || dtype == SX_BOOL) return false;
  double number = sx_number(value);
  return sx_dtype_is_float(dtype) || sx_dtype_round(dtype, number) == number;
}

bool sx_give_value(sx_evaluator *evaluator, sx_graph *graph, const sx_value *value, sx_dtype dtype, int rank,
                   const int64_t *dims, const char *what, sx_value *given) {
  if (number_fits(value, dtype)) {
    double number = value->kind == SX_KIND_BOOLEAN ? value->boolean : sx_number(value);
    *given = sx_tensor(graph, sx_const(graph, dtype, rank, dims, number));
    return true;
  }
  if (value->kind != SX_KIND_TENSOR || value->graph != graph)
    return fail_value(evaluator, value, dtype, rank, dims, what);
  const sx_node *node = sx_value_node(value);
  bool same = node->rank == rank && (!rank || memcmp(node->dims, dims, (size_t)rank * sizeof *dims) == 0);
  if (!same) return fail_value(evaluator, value, dtype, rank, dims, what);
  *given = sx_tensor(graph, sx_cast(graph, value->n, dtype));
  return true;
}

static bool is_function(const sx_value *value) {
  return value->kind == SX_KIND_FUNCTION || value->kind == SX_KIND_BUILTIN;
}

/* :init in a graph of its own. It is a function of the shape; where that gives a function (an initializer by name),
 * that one is applied to the shape. */
static bool build_init(const sx_call *call, sx_param_entry *entry, sx_value shape) {
  sx_evaluator *evaluator = call->evaluator;
  sx_param *param = &entry->param;
  sx_arena *arena = evaluator->arena;
  sx_context before =
      sx_enter_context(evaluator, SX_PLACE_INIT, sx_format(arena, "init/%s", param->path), param->path, false);
  evaluator->context.parameter = entry;
  sx_graph *graph = evaluator->context.graph;
  sx_value value = entry->init, given;
  bool good = true;
  for (int i = 0; i < 2 && good && is_function(&value); i++) good = sx_apply(evaluator, &value, &shape, 1, &value);
  sx_leave_context(evaluator, before);
  if (!good) return false;
  graph->span = param->span;
  if (!sx_give_value(evaluator, graph, &value, param->dtype, param->rank, param->dims,
                     sx_format(arena, ":init of %s", param->path), &given))
    return false;
  sx_graph_output(graph, "value", given.n);
  param->init = graph;
  return true;
}

/* ---- declaring ---- */

static bool fail_param(const sx_call *call, sx_code code, const char *path, const char *words) {
  sx_fail(call->evaluator, code, sx_head_span(call->at), "parameter %s: %s", path, words)->path = path;
  return false;
}

static bool same_start(const sx_param_entry *a, const sx_param_entry *b) {
  sx_effort effort = SX_EFFORT_DEFAULT;
  if (b->init.kind == SX_KIND_NONE && !b->weights.file) return true; /* only named again */
  if (!a->weights.file != !b->weights.file) return false;
  if (a->weights.file)
    return strcmp(a->weights.file, b->weights.file) == 0 && strcmp(a->weights.tensor, b->weights.tensor) == 0 &&
           a->param.load_dtype == b->param.load_dtype;
  return sx_value_equal(&a->init, &b->init, &effort);
}

/* What the second declaration of a path has otherwise, or NULL. */
static const char *difference(const sx_param_entry *a, const sx_param_entry *b) {
  const sx_param *p = &a->param, *q = &b->param;
  if (p->rank != q->rank || (p->rank && memcmp(p->dims, q->dims, (size_t)p->rank * sizeof *p->dims) != 0))
    return "shape";
  if (p->dtype != q->dtype) return "dtype";
  if (!same_start(a, b)) return "starting value";
  return p->trainable != q->trainable ? ":trainable" : NULL;
}

static bool check_same(const sx_call *call, const sx_param_entry *entry, const sx_param_entry *again) {
  sx_evaluator *evaluator = call->evaluator;
  const char *what = difference(entry, again);
  if (!what) return true;
  const sx_param *p = &entry->param, *q = &again->param;
  bool typed = strcmp(what, "shape") == 0 || strcmp(what, "dtype") == 0;
  const char *types =
      typed ? sx_format(evaluator->arena, ", %s and not %s", type_text(evaluator->arena, q->dtype, q->rank, q->dims),
                        type_text(evaluator->arena, p->dtype, p->rank, p->dims))
            : "";
  sx_diag *diag = sx_fail(evaluator, SX_E_PARAM_DIFFERS, sx_head_span(call->at),
                          "parameter %s: declared again with another %s%s", p->path, what, types);
  diag->second_span = p->span;
  diag->second_label = "first declared here";
  return false;
}

/* Evaluations and generators read the parameters of the training graphs; they may add ones that are not trained. */
static bool check_place(const sx_call *call, const sx_param *param) {
  sx_evaluator *evaluator = call->evaluator;
  sx_place place = evaluator->context.place;
  if (place == SX_PLACE_LOSS || !param->trainable) return true;
  sx_nearest nearest = sx_nearest_begin(param->path);
  for (size_t i = 0; i < evaluator->params.n; i++) sx_nearest_add(&nearest, evaluator->params.items[i]->param.path);
  sx_diag *diag = sx_fail(evaluator, SX_E_PARAM_UNKNOWN, sx_head_span(call->at),
                          "parameter %s: the training graph has no such parameter", param->path);
  diag->hint = nearest.best ? sx_nearest_hint(&nearest, evaluator->arena)
                            : "one that only this graph reads needs :trainable false";
  return false;
}

/* Nothing is converted but what is said and exact. */
static bool read_load_dtype(const sx_call *call, sx_param_entry *entry) {
  sx_param *param = &entry->param;
  param->load_dtype = entry->weights.has_dtype ? entry->weights.dtype : param->dtype;
  bool widens = param->dtype == SX_F32 && (param->load_dtype == SX_BF16 || param->load_dtype == SX_F16);
  if (param->load_dtype == param->dtype || widens) return true;
  return fail_param(call, SX_E_LOAD_DTYPE, param->path,
                    sx_format(call->evaluator->arena, "it is %s, its weights are %s", sx_dtype_name(param->dtype),
                              sx_dtype_name(param->load_dtype)));
}

static bool read_keys(const sx_call *call, sx_param_entry *entry) {
  sx_param *param = &entry->param;
  const sx_value *load = &call->keys[KEY_LOAD];
  param->dtype = SX_F32;
  param->trainable = true;
  entry->init = call->keys[KEY_INIT];
  if (call->keys[KEY_DTYPE].kind != SX_KIND_NONE && !sx_get_dtype(call, &call->keys[KEY_DTYPE], &param->dtype))
    return false;
  if (call->keys[KEY_TRAINABLE].kind != SX_KIND_NONE &&
      !sx_get_boolean(call, &call->keys[KEY_TRAINABLE], ":trainable", &param->trainable))
    return false;
  if (load->kind == SX_KIND_NONE) return true;
  if (entry->init.kind != SX_KIND_NONE)
    return fail_param(call, SX_E_PARAM_START, param->path, ":init and :load exclude each other");
  if (load->kind != SX_KIND_WEIGHTS) return sx_expected(call, load, "(weights FILE [TENSOR]) for :load");
  entry->weights = *load->weights;
  if (!entry->weights.tensor) entry->weights.tensor = param->path;
  return read_load_dtype(call, entry);
}

static bool read_path(const sx_call *call, const char **path) {
  sx_evaluator *evaluator = call->evaluator;
  const sx_value *name = &call->args[0];
  bool named = sx_is_text(name) || name->kind == SX_KIND_INTEGER;
  if (!named || (sx_is_text(name) && !name->text[0])) return sx_expected(call, name, "a text or an integer, the name");
  *path = sx_extend_path(evaluator, name);
  return *path || sx_call_fail(call, SX_E_EVAL_DEPTH, "a model path of more than %d bytes", (int)SX_PATH_BYTES);
}

static bool declare(const sx_call *call, sx_param_entry *entry, sx_value shape) {
  sx_evaluator *evaluator = call->evaluator;
  sx_param *param = &entry->param;
  if (!check_place(call, param)) return false;
  if (param->trainable && !sx_dtype_is_float(param->dtype))
    return fail_param(call, SX_E_PARAM_DTYPE, param->path,
                      sx_format(evaluator->arena, "one of %s cannot be trained", sx_dtype_name(param->dtype)));
  if (entry->weights.file) {
    param->load_file = entry->weights.file;
    param->load_tensor = entry->weights.tensor;
  } else if (entry->init.kind == SX_KIND_NONE) {
    return fail_param(call, SX_E_PARAM_START, param->path, "it has neither :init nor :load");
  } else if (!build_init(call, entry, shape)) {
    return false;
  }
  sx_name_map_set(&evaluator->param_names, evaluator->arena, param->path, entry);
  SX_PUSH(evaluator->arena, evaluator->params, entry);
  return true;
}

/* Reads the parameter in the graph of the context; its shape is checked here. */
static bool add_param_node(const sx_call *call, sx_param_entry *entry) {
  sx_graph *graph = sx_call_graph(call);
  const sx_param *param = &entry->param;
  sx_problem why;
  if (entry->graph == graph) return true;
  graph->path = param->path;
  sx_spec spec = {
      .op = SX_OP_PARAM, .dtype = param->dtype, .rank = param->rank, .dims = param->dims, .text = param->path};
  size_t before = graph->nodes.n;
  if (!sx_graph_try(graph, &spec, &entry->node, &why)) return sx_report_problem(call, &why, NULL, 0);
  entry->graph = graph;
  return sx_count_nodes(call, before);
}

bool sx_param_builtin(sx_call *call, sx_value *result) {
  sx_evaluator *evaluator = call->evaluator;
  sx_graph *graph = sx_call_graph(call);
  int64_t dims[SX_RANK_MAX];
  if (!graph) return false;
  sx_place place = evaluator->context.place;
  if (place == SX_PLACE_INIT || place == SX_PLACE_UPDATE)
    return sx_call_fail(call, SX_E_EVAL_PLACE, "no parameter can be declared in %s",
                        place == SX_PLACE_INIT ? "the starting value of another" : "an optimizer");
  sx_param_entry *entry = SX_NEW(evaluator->arena, sx_param_entry);
  sx_param *param = &entry->param;
  if (!read_path(call, &param->path) || !sx_get_shape(call, &call->args[1], dims, &param->rank)) return false;
  int64_t *kept = SX_NEW_N(evaluator->arena, int64_t, param->rank);
  if (param->rank) memcpy(kept, dims, (size_t)param->rank * sizeof *kept);
  param->dims = kept;
  param->span = graph->span;
  if (!read_keys(call, entry)) return false;
  sx_param_entry *known = sx_name_map_get(&evaluator->param_names, param->path);
  if (known && !check_same(call, known, entry)) return false;
  if (known) entry = known;
  if (!add_param_node(call, entry) || (!known && !declare(call, entry, call->args[1]))) return false;
  *result = sx_tensor(graph, entry->node);
  return true;
}
