/* What a model declares: parameters, states, probes; and where it stands. */
#include <string.h>

#include "model.h"
#include "paths.h"

/* The file is meant from the file in which this call stands. */
static bool weights(sx_call *call, sx_value *result) {
  sx_evaluator *evaluator = call->evaluator;
  sx_weights *made = SX_NEW(evaluator->arena, sx_weights);
  if (!sx_get_text(call, &call->args[0], "the file", &made->file)) return false;
  if (call->n > 1 && !sx_get_text(call, &call->args[1], "the tensor", &made->tensor)) return false;
  made->has_dtype = call->keys[0].kind != SX_KIND_NONE;
  if (made->has_dtype && !sx_get_dtype(call, &call->keys[0], &made->dtype)) return false;
  const sx_datum *at = sx_here(evaluator);
  if (at && at->span.file)
    made->file =
        sx_join_path(evaluator->arena, sx_sources_get(&evaluator->program->sources, at->span.file)->path, made->file);
  *result = (sx_value){SX_KIND_WEIGHTS, 0, {.weights = made}};
  return true;
}

static bool param_path(sx_call *call, sx_value *result) {
  const struct sx_param_entry *entry = call->evaluator->context.parameter;
  if (!entry) return sx_call_fail(call, SX_E_EVAL_PLACE, "there is a parameter only in an optimizer and in :init");
  *result = sx_string(entry->param.path);
  return true;
}

static bool scope_path(sx_call *call, sx_value *result) {
  *result = sx_string(call->evaluator->context.path);
  return true;
}

/* In a loss graph the value becomes an output for diagnostics; elsewhere it only passes. */
bool sx_probe_builtin(sx_call *call, sx_value *result) {
  sx_evaluator *evaluator = call->evaluator;
  const char *name;
  sx_id id;
  if (!sx_get_text(call, &call->args[0], "the name", &name) || !sx_get_tensor(call, &call->args[1], &id)) return false;
  *result = call->args[1];
  if (evaluator->context.place != SX_PLACE_LOSS) return true;
  name = sx_intern_text(evaluator->names, sx_format(evaluator->arena, "probe/%s", name));
  sx_span *span = SX_NEW(evaluator->arena, sx_span), *earlier = sx_name_map_get(&evaluator->probes, name);
  *span = evaluator->context.graph->span;
  if (earlier) {
    sx_diag *diag = sx_fail(evaluator, SX_E_RUN_PROBE, *span, "probe: the name %s is taken", name + strlen("probe/"));
    diag->second_span = *earlier;
    diag->second_label = "first used here";
    diag->hint = "make names of repeated parts from their place, (probe (path (scope-path) \"entropy\") x)";
    return false;
  }
  sx_name_map_set(&evaluator->probes, evaluator->arena, name, span);
  sx_graph_output(evaluator->context.graph, name, id);
  return true;
}

const sx_builtin sx_builtins_model[] = {
    {"param", 2, 2, sx_param_builtin, "(param name shape :init expression :dtype f32 :load weights :trainable true)", 0,
     NULL},
    {"weights", 1, 2, weights, "(weights file tensor :dtype f32)", 0, NULL},
    {"state", 3, 3, sx_state_builtin, "(state name init function)", 0, NULL},
    {"probe", 2, 2, sx_probe_builtin, "(probe name x)", 0, NULL},
    {"param-path", 0, 0, param_path, "(param-path)", 0, NULL},
    {"scope-path", 0, 0, scope_path, "(scope-path)", 0, NULL},
    {NULL, 0, 0, NULL, NULL, 0, NULL},
};
