/* A recorded engine made into a plan, or the reason why not, in words that a person can act on. */
#include <inttypes.h>

#include "cudnn_descriptor.h"

typedef struct pinning {
  sx_cudnn *s;
  const sx_convolution *convolution;
  sx_descriptor graph, engine, configuration;
  sx_engine recorded;
  sx_choice_refusal *refusal;
} pinning;

/* ---- what is offered ---------------------------------------------------------------------------- */

/* Makes an engine by its number. *status tells whether cuDNN has it here; false: an error. */
static bool make_engine(sx_descriptor *engine, cudnnStatus_t *status, sx_cudnn *s, sx_descriptor graph, int64_t index) {
  if (!sx_descriptor_make(engine, s, CUDNN_BACKEND_ENGINE_DESCRIPTOR) ||
      !sx_descriptor_set(s, *engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph) ||
      (s->device &&
       !sx_descriptor_set(s, *engine, CUDNN_ATTR_ENGINE_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &s->device)))
    return false;
  *status = s->api->cudnnBackendSetAttribute(*engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index);
  if (*status == CUDNN_STATUS_SUCCESS) *status = s->api->cudnnBackendFinalize(*engine);
  return *status == CUDNN_STATUS_SUCCESS || sx_cudnn_declines(*status) || sx_cudnn_fail(s, *status, "make an engine");
}

/* Engines of the graph that this device has and the rule takes, whether or not the heuristics offer them. */
static bool count_engines(int64_t *n, const pinning *p) {
  int64_t most = 0;
  *n = 0;
  if (!sx_descriptor_number(&most, p->s, p->graph, CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT)) return false;
  size_t n_owned = p->s->owned.n;
  bool done = true;
  for (int64_t i = 0; i < most && done; i++) {
    sx_descriptor engine;
    cudnnStatus_t status;
    uint32_t numerical, behavior;
    done = make_engine(&engine, &status, p->s, p->graph, i);
    if (done && status == CUDNN_STATUS_SUCCESS) {
      done = sx_cudnn_notes(&numerical, &behavior, p->s, engine);
      if (done) *n += sx_cudnn_judge(p->convolution->dtype, numerical, behavior) == SX_TAKEN;
    }
    sx_cudnn_release(p->s, n_owned);
  }
  return done;
}

static sx_pin refuse(const pinning *p, const char *reason) {
  int64_t n;
  if (!count_engines(&n, p)) return SX_PIN_FAILED;
  p->refusal->offered = sx_format(
      p->s->arena, "cuDNN %" PRId64 " offers %" PRId64 " engines for it on compute_%d with %d multiprocessors; %s",
      p->s->api->found[SX_LIBRARY_CUDNN].number, n, (int)(p->s->facts->compute_capability / 10),
      (int)p->s->facts->multiprocessors, reason);
  return SX_PIN_REFUSED;
}

static sx_pin refuse_status(const pinning *p, const char *what, cudnnStatus_t status) {
  if (!sx_cudnn_declines(status)) {
    sx_cudnn_fail(p->s, status, "pin an engine");
    return SX_PIN_FAILED;
  }
  return refuse(
      p, sx_format(p->s->arena, "%" PRId64 " %s (%s)", p->recorded.index, what, sx_cudnn_status_text(p->s, status)));
}

static const char NO_PLAN[] = "gives no plan with these knobs";

/* ---- knobs -------------------------------------------------------------------------------------- */

typedef struct knob_range {
  cudnnBackendKnobType_t type;
  int64_t least, most, stride;
} knob_range;

static bool read_ranges(knob_range *ranges, int64_t *n, const pinning *p) {
  sx_cudnn *s = p->s;
  sx_descriptor infos[SX_KNOBS_MAX];
  for (int i = 0; i < SX_KNOBS_MAX; i++)
    if (!sx_descriptor_make(&infos[i], s, CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR)) return false;
  if (!sx_descriptor_get(n, infos, s, p->engine, CUDNN_ATTR_ENGINE_KNOB_INFO, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                         SX_KNOBS_MAX))
    return false;
  for (int64_t i = 0; i < *n; i++) {
    int64_t one = 0;
    if (!sx_descriptor_get(&one, &ranges[i].type, s, infos[i], CUDNN_ATTR_KNOB_INFO_TYPE, CUDNN_TYPE_KNOB_TYPE, 1) ||
        !sx_descriptor_number(&ranges[i].least, s, infos[i], CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE) ||
        !sx_descriptor_number(&ranges[i].most, s, infos[i], CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE) ||
        !sx_descriptor_number(&ranges[i].stride, s, infos[i], CUDNN_ATTR_KNOB_INFO_STRIDE))
      return false;
  }
  return true;
}

static void add_missing_knob(sx_text *text, const pinning *p, int32_t type, const knob_range *ranges, int64_t n) {
  sx_text_addf(text, "%" PRId64 " has no knob %" PRId32 " (it has", p->recorded.index, type);
  for (int64_t i = 0; i < n; i++) sx_text_addf(text, " %d", (int)ranges[i].type);
  sx_text_add(text, n ? ")" : " none)");
}

static void add_knob_fault(sx_text *text, const pinning *p, const sx_knob_choice *knob, const knob_range *ranges,
                           int64_t n) {
  const knob_range *range = ranges;
  while (range < ranges + n && (int32_t)range->type != knob->type) range++;
  bool is_missing = range == ranges + n;
  if (!is_missing && knob->value >= range->least && knob->value <= range->most &&
      (range->stride <= 1 || (knob->value - range->least) % range->stride == 0))
    return;
  if (text->n) sx_text_add(text, ", ");
  if (is_missing) {
    add_missing_knob(text, p, knob->type, ranges, n);
    return;
  }
  sx_text_addf(text, "%" PRId64 " takes knob %" PRId32 " from %" PRId64 " to %" PRId64, p->recorded.index, knob->type,
               range->least, range->most);
  if (range->stride > 1) sx_text_addf(text, " in steps of %" PRId64, range->stride);
}

/* Every knob that is at fault; none alone: their combination is, or that one is not named. */
static sx_pin refuse_knobs(const pinning *p, cudnnStatus_t status) {
  if (!sx_cudnn_declines(status)) return refuse_status(p, "", status);
  knob_range ranges[SX_KNOBS_MAX];
  int64_t n = 0;
  if (!read_ranges(ranges, &n, p)) return SX_PIN_FAILED;
  sx_text faults;
  sx_text_init(&faults, p->s->arena);
  for (uint32_t i = 0; i < p->recorded.n_knobs; i++) add_knob_fault(&faults, p, &p->recorded.knobs[i], ranges, n);
  if (!faults.n) return refuse_status(p, NO_PLAN, status);
  return refuse(p, sx_text_get(&faults));
}

/* ---- pinning ------------------------------------------------------------------------------------ */

static bool make_knob(sx_descriptor *made, sx_cudnn *s, const sx_knob_choice *knob, cudnnStatus_t *status) {
  cudnnBackendKnobType_t type = (cudnnBackendKnobType_t)knob->type;
  if (!sx_descriptor_make(made, s, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR)) return false;
  *status = s->api->cudnnBackendSetAttribute(*made, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
  if (*status == CUDNN_STATUS_SUCCESS)
    *status =
        s->api->cudnnBackendSetAttribute(*made, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &knob->value);
  if (*status == CUDNN_STATUS_SUCCESS) *status = s->api->cudnnBackendFinalize(*made);
  return true;
}

static sx_pin pin_engine(pinning *p) {
  cudnnStatus_t status;
  uint32_t numerical, behavior;
  if (!make_engine(&p->engine, &status, p->s, p->graph, p->recorded.index)) return SX_PIN_FAILED;
  if (status != CUDNN_STATUS_SUCCESS) return refuse_status(p, "is none of them", status);
  if (!sx_cudnn_notes(&numerical, &behavior, p->s, p->engine)) return SX_PIN_FAILED;
  sx_rejection rejection = sx_cudnn_judge(p->convolution->dtype, numerical, behavior);
  if (rejection == SX_TAKEN) return SX_PINNED;
  return refuse(
      p, sx_format(p->s->arena, "%" PRId64 " is none of them: %s", p->recorded.index, sx_rejection_text(rejection)));
}

static sx_pin pin_knobs(pinning *p) {
  sx_cudnn *s = p->s;
  sx_descriptor knobs[SX_KNOBS_MAX];
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  if (!sx_descriptor_make(&p->configuration, s, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) ||
      !sx_descriptor_set(s, p->configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                         &p->engine))
    return SX_PIN_FAILED;
  for (uint32_t i = 0; i < p->recorded.n_knobs && status == CUDNN_STATUS_SUCCESS; i++)
    if (!make_knob(&knobs[i], s, &p->recorded.knobs[i], &status)) return SX_PIN_FAILED;
  if (status == CUDNN_STATUS_SUCCESS && p->recorded.n_knobs)
    status = s->api->cudnnBackendSetAttribute(p->configuration, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                              CUDNN_TYPE_BACKEND_DESCRIPTOR, p->recorded.n_knobs, knobs);
  if (status == CUDNN_STATUS_SUCCESS) status = s->api->cudnnBackendFinalize(p->configuration);
  return status == CUDNN_STATUS_SUCCESS ? SX_PINNED : refuse_knobs(p, status);
}

static sx_pin pin_plan(sx_cudnn_plan *plan, pinning *p) {
  bool failed;
  cudnnStatus_t status = sx_cudnn_make_plan(&plan->descriptor, &failed, p->s, p->configuration);
  if (failed) return SX_PIN_FAILED;
  if (status != CUDNN_STATUS_SUCCESS) return refuse_status(p, NO_PLAN, status);
  if (!sx_descriptor_number(&plan->workspace_n_bytes, p->s, plan->descriptor, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE))
    return SX_PIN_FAILED;
  if (plan->workspace_n_bytes > SX_CUDNN_WORKSPACE_N_BYTES)
    return refuse(p, sx_format(p->s->arena,
                               "%" PRId64 " needs %" PRId64 " bytes of workspace with these knobs, and %d is the cap",
                               p->recorded.index, plan->workspace_n_bytes, SX_CUDNN_WORKSPACE_N_BYTES));
  plan->engine = p->recorded;
  plan->names = sx_cudnn_knob_names(p->s, plan->descriptor);
  return SX_PINNED;
}

sx_pin sx_cudnn_pin(sx_cudnn_plan *plan, sx_choice_refusal *refusal, sx_cudnn *cudnn, const sx_convolution *convolution,
                    const char *recorded) {
  pinning p = {.s = cudnn, .convolution = convolution, .refusal = refusal};
  size_t n_owned = cudnn->owned.n;
  *plan = (sx_cudnn_plan){0};
  if (!sx_cudnn_graph(&p.graph, cudnn, convolution)) {
    sx_cudnn_release(cudnn, n_owned);
    return SX_PIN_FAILED;
  }
  sx_text key;
  sx_text_init(&key, cudnn->arena);
  sx_convolution_print(&key, convolution);
  *refusal = (sx_choice_refusal){.choice = sx_text_get(&key), .recorded = recorded};
  const char *wrong = sx_engine_parse(&p.recorded, recorded, cudnn->arena);
  sx_pin pin = wrong ? refuse(&p, sx_format(cudnn->arena, "the record names none of them: %s", wrong)) : pin_engine(&p);
  if (pin == SX_PINNED) pin = pin_knobs(&p);
  if (pin == SX_PINNED) pin = pin_plan(plan, &p);
  if (pin != SX_PINNED) {
    sx_cudnn_release(cudnn, n_owned);
    *plan = (sx_cudnn_plan){0};
  }
  return pin;
}
