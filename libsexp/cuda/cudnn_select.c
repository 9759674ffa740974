/* Engines that the heuristics offer, judged by the rule of cudnn.h. */
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "../base/guard.h"
#include "cudnn_descriptor.h"

/* ---- the rule ----------------------------------------------------------------------------------- */

enum { NOTES_MOST = 32, CUBLASLT_DEPENDENCY = 4 /* newer than the oldest headers that build this */ };
enum { F32 = 1, BF16 = 2, ALL = F32 | BF16 };

typedef struct note_row {
  int note, dtypes;
  sx_rejection rejection;
} note_row;

static const note_row NUMERICAL[] = {
    {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, ALL, SX_REJECTED_NONDETERMINISTIC},
    {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, F32, SX_REJECTED_TENSOR_CORE},
    {CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, ALL, SX_REJECTED_DOWN_CONVERT},
    {CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, ALL, SX_REJECTED_REDUCTION},
    {CUDNN_NUMERICAL_NOTE_WINOGRAD, ALL, SX_REJECTED_WINOGRAD},
    {CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4, ALL, SX_REJECTED_WINOGRAD},
    {CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6, ALL, SX_REJECTED_WINOGRAD},
    {CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13, ALL, SX_REJECTED_WINOGRAD},
    {CUDNN_NUMERICAL_NOTE_FFT, ALL, SX_REJECTED_FFT},
};
static const note_row BEHAVIOR[] = {
    {CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION, ALL, SX_REJECTED_RUNTIME},
    {CUBLASLT_DEPENDENCY, ALL, SX_REJECTED_CUBLASLT},
};
/* Known, and nothing against an engine. */
#define NUMERICAL_HARMLESS (1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE | 1u << CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP)
#define BEHAVIOR_HARMLESS (1u << CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API)

static sx_rejection judge_notes(const note_row *rows, size_t n, int dtype, uint32_t notes, uint32_t harmless) {
  for (size_t i = 0; i < n; i++) {
    if (notes >> rows[i].note & 1 && rows[i].dtypes & dtype) return rows[i].rejection;
    harmless |= 1u << rows[i].note;
  }
  return notes & ~harmless ? SX_REJECTED_UNKNOWN_NOTE : SX_TAKEN;
}

sx_rejection sx_cudnn_judge(sx_dtype dtype, uint32_t numerical, uint32_t behavior) {
  int mask = dtype == SX_F32 ? F32 : BF16;
  sx_rejection first =
      judge_notes(NUMERICAL, sizeof NUMERICAL / sizeof *NUMERICAL, mask, numerical, NUMERICAL_HARMLESS);
  sx_rejection second = judge_notes(BEHAVIOR, sizeof BEHAVIOR / sizeof *BEHAVIOR, mask, behavior, BEHAVIOR_HARMLESS);
  if (first == SX_TAKEN || (first == SX_REJECTED_UNKNOWN_NOTE && second != SX_TAKEN)) return second;
  return first;
}

const char *sx_rejection_text(sx_rejection rejection) {
  static const char *const texts[SX_N_REJECTIONS] = {
      [SX_TAKEN] = "taken",
      [SX_REJECTED_NONDETERMINISTIC] = "nondeterministic",
      [SX_REJECTED_TENSOR_CORE] = "TF32 on tensor cores",
      [SX_REJECTED_DOWN_CONVERT] = "converts its inputs down",
      [SX_REJECTED_REDUCTION] = "reduces in less than f32",
      [SX_REJECTED_WINOGRAD] = "Winograd transforms",
      [SX_REJECTED_FFT] = "Fourier transforms",
      [SX_REJECTED_RUNTIME] = "compiled by NVRTC at run time",
      [SX_REJECTED_CUBLASLT] = "calls cuBLASLt",
      [SX_REJECTED_UNKNOWN_NOTE] = "has a note unknown to this version",
      [SX_REJECTED_WORKSPACE] = "workspace above the cap",
      [SX_REJECTED_REPEATED] = "offered before",
      [SX_REJECTED_PLAN] = "no plan",
  };
  return texts[rejection];
}

/* ---- reading one configuration ------------------------------------------------------------------ */

static uint32_t bits_of(const int *notes, int64_t n) {
  uint32_t bits = 0;
  for (int64_t i = 0; i < n; i++) bits |= 1u << (notes[i] < 0 || notes[i] > 31 ? 31 : notes[i]);
  return bits;
}

bool sx_cudnn_notes(uint32_t *numerical, uint32_t *behavior, sx_cudnn *cudnn, sx_descriptor engine) {
  int notes[NOTES_MOST]; /* cuDNN writes enumerators of int's size */
  int64_t n = 0;
  if (!sx_descriptor_get(&n, notes, cudnn, engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                         NOTES_MOST))
    return false;
  *numerical = bits_of(notes, n);
  if (!sx_descriptor_get(&n, notes, cudnn, engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                         NOTES_MOST))
    return false;
  *behavior = bits_of(notes, n);
  return true;
}

static void insert_knob(sx_engine *engine, sx_knob_choice knob) {
  uint32_t at = engine->n_knobs++;
  for (; at && engine->knobs[at - 1].type > knob.type; at--) engine->knobs[at] = engine->knobs[at - 1];
  engine->knobs[at] = knob;
}

/* Knobs are read into descriptors that must exist before. */
static bool read_knobs(sx_engine *engine, sx_cudnn *s, sx_descriptor configuration) {
  sx_descriptor choices[SX_KNOBS_MAX];
  for (int i = 0; i < SX_KNOBS_MAX; i++)
    if (!sx_descriptor_make(&choices[i], s, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR)) return false;
  int64_t n = 0;
  if (!sx_descriptor_get(&n, choices, s, configuration, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                         CUDNN_TYPE_BACKEND_DESCRIPTOR, SX_KNOBS_MAX))
    return false;
  for (int64_t i = 0; i < n; i++) {
    cudnnBackendKnobType_t type;
    int64_t value = 0, n_read = 0;
    if (!sx_descriptor_get(&n_read, &type, s, choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1) ||
        !sx_descriptor_number(&value, s, choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE))
      return false;
    insert_knob(engine, (sx_knob_choice){(int32_t)type, value});
  }
  return true;
}

static bool read_configuration(sx_offer *offer, sx_cudnn *s, sx_descriptor configuration) {
  sx_descriptor engine;
  int64_t n = 0;
  return sx_descriptor_make(&engine, s, CUDNN_BACKEND_ENGINE_DESCRIPTOR) &&
         sx_descriptor_get(&n, &engine, s, configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                           1) &&
         sx_descriptor_number(&offer->engine.index, s, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX) &&
         sx_cudnn_notes(&offer->numerical_notes, &offer->behavior_notes, s, engine) &&
         read_knobs(&offer->engine, s, configuration) &&
         sx_descriptor_number(&offer->workspace_n_bytes, s, configuration, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE);
}

/* ---- plans -------------------------------------------------------------------------------------- */

cudnnStatus_t sx_cudnn_make_plan(sx_descriptor *plan, bool *failed, sx_cudnn *s, sx_descriptor configuration) {
  *failed =
      !sx_descriptor_make(plan, s, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) ||
      !sx_descriptor_set(s, *plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                         &configuration) ||
      (s->device ? !sx_descriptor_set(s, *plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                      &s->device)
                 : !sx_descriptor_set(s, *plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &s->handle));
  return *failed ? CUDNN_STATUS_INTERNAL_ERROR : s->api->cudnnBackendFinalize(*plan);
}

typedef struct naming {
  json_t *plan;
  sx_text text;
} naming;

static void add_names(void *context) {
  static const char prefix[] = "CUDNN_KNOB_TYPE_";
  naming *n = context;
  const char *name;
  json_t *value;
  json_object_foreach(json_object_get(json_object_get(n->plan, "engine"), "knobChoices"), name, value) {
    size_t skip = strncmp(name, prefix, sizeof prefix - 1) ? 0 : sizeof prefix - 1;
    sx_text_addf(&n->text, "%s%s=%" PRId64, n->text.n ? " " : "", name + skip, (int64_t)json_integer_value(value));
  }
}

/* Names are for people: a plan without a description has none, and that is no error. */
const char *sx_cudnn_knob_names(sx_cudnn *s, sx_descriptor plan) {
  int64_t n = 0;
  cudnnBackendAttributeName_t attribute = CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
  if (s->api->cudnnBackendGetAttribute(plan, attribute, CUDNN_TYPE_CHAR, 0, &n, NULL) || n <= 0) return NULL;
  char *json = sx_arena_take(s->arena, (size_t)n + 1, 1);
  if (s->api->cudnnBackendGetAttribute(plan, attribute, CUDNN_TYPE_CHAR, n, &n, json)) return NULL;
  naming names = {.plan = json_loads(json, 0, NULL)};
  sx_text_init(&names.text, s->arena);
  bool had_memory = sx_guard(s->arena->memory, add_names, &names);
  json_decref(names.plan);
  if (!had_memory) sx_memory_fail(s->arena->memory);
  return sx_text_get(&names.text);
}

/* ---- judging ------------------------------------------------------------------------------------ */

static bool is_repeated(const sx_offers *offers, const sx_offer *offer) {
  for (size_t i = 0; i < offers->n; i++)
    if (sx_engine_equal(&offers->items[i].engine, &offer->engine)) return true;
  return false;
}

/* Fills the rest of an offer; false: an error. */
static bool judge(sx_offer *offer, sx_cudnn *s, const sx_offers *before, sx_dtype dtype, sx_descriptor configuration) {
  offer->rejection = sx_cudnn_judge(dtype, offer->numerical_notes, offer->behavior_notes);
  if (offer->rejection != SX_TAKEN) return true;
  if (offer->workspace_n_bytes > SX_CUDNN_WORKSPACE_N_BYTES) {
    offer->rejection = SX_REJECTED_WORKSPACE;
    return true;
  }
  if (is_repeated(before, offer)) {
    offer->rejection = SX_REJECTED_REPEATED;
    return true;
  }
  sx_descriptor plan;
  bool failed;
  cudnnStatus_t status = sx_cudnn_make_plan(&plan, &failed, s, configuration);
  if (failed) return false;
  if (status == CUDNN_STATUS_SUCCESS) {
    offer->names = sx_cudnn_knob_names(s, plan);
    return true;
  }
  if (!sx_cudnn_declines(status)) return sx_cudnn_fail(s, status, "make a plan");
  offer->rejection = SX_REJECTED_PLAN;
  offer->refusal = sx_cudnn_status_text(s, status);
  return true;
}

/* ---- enumeration -------------------------------------------------------------------------------- */

typedef struct listing {
  sx_cudnn *s;
  const sx_convolution *convolution;
  SX_VEC(sx_offer) offers;
} listing;

static bool add_configuration(listing *l, sx_descriptor configuration, bool fallback) {
  sx_offer offer = {.fallback = fallback};
  sx_offers before = {.items = l->offers.items, .n = l->offers.n};
  size_t n_owned = l->s->owned.n;
  bool done = read_configuration(&offer, l->s, configuration) &&
              judge(&offer, l->s, &before, l->convolution->dtype, configuration);
  sx_cudnn_release(l->s, n_owned);
  if (done) SX_PUSH(l->s->arena, l->offers, offer);
  return done;
}

/* The count that is asked for without room is an upper bound: only as many as are then written count. */
static bool add_results(listing *l, sx_descriptor heuristics, bool fallback) {
  sx_cudnn *s = l->s;
  int64_t most = 0, n = 0;
  if (!sx_descriptor_get(&most, NULL, s, heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0))
    return false;
  if (most <= 0) return true;
  sx_descriptor *configurations = SX_NEW_N(s->arena, sx_descriptor, most);
  for (int64_t i = 0; i < most; i++)
    if (!sx_descriptor_make(&configurations[i], s, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)) return false;
  if (!sx_descriptor_get(&n, configurations, s, heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                         CUDNN_TYPE_BACKEND_DESCRIPTOR, most))
    return false;
  for (int64_t i = 0; i < n; i++)
    if (!add_configuration(l, configurations[i], fallback)) return false;
  return true;
}

static bool add_mode(listing *l, sx_descriptor graph, cudnnBackendHeurMode_t mode) {
  sx_cudnn *s = l->s;
  sx_descriptor heuristics;
  if (!sx_descriptor_make(&heuristics, s, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) ||
      !sx_descriptor_set(s, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                         &graph) ||
      !sx_descriptor_set(s, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode) ||
      !sx_descriptor_set(s, heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &s->device))
    return false;
  cudnnStatus_t status = s->api->cudnnBackendFinalize(heuristics);
  if (status == CUDNN_STATUS_SUCCESS) return add_results(l, heuristics, mode == CUDNN_HEUR_MODE_FALLBACK);
  return sx_cudnn_declines(status) || sx_cudnn_fail(s, status, "ask the heuristics");
}

static void choose_candidates(sx_offers *offers) {
  for (size_t i = 0; i < offers->n; i++) {
    if (offers->items[i].rejection != SX_TAKEN) continue;
    offers->n_taken++;
    if (offers->n_candidates < SX_CUDNN_CANDIDATES) offers->candidates[offers->n_candidates++] = &offers->items[i];
  }
}

bool sx_cudnn_offers(sx_offers *offers, sx_cudnn *cudnn, const sx_convolution *convolution) {
  size_t n_owned = cudnn->owned.n;
  listing l = {.s = cudnn, .convolution = convolution};
  sx_descriptor graph;
  bool done = sx_cudnn_graph(&graph, cudnn, convolution) && add_mode(&l, graph, CUDNN_HEUR_MODE_A) &&
              add_mode(&l, graph, CUDNN_HEUR_MODE_FALLBACK);
  sx_cudnn_release(cudnn, n_owned);
  if (!done) return false;
  *offers = (sx_offers){.items = l.offers.items, .n = l.offers.n};
  choose_candidates(offers);
  return true;
}
