#include "cudnn_real.h"

#include <dlfcn.h>
#include <fenv.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the library -------------------------------------------------------------------------------- */

static sim_cudnn_real real;
static bool found;

static bool load(const char *path) {
  fenv_t environment;
  fegetenv(&environment);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  fesetenv(&environment);
  if (!library) return false;
#define ROW(function)                                   \
  *(void **)&real.function = dlsym(library, #function); \
  if (!real.function) return false;
  SIM_CUDNN_FUNCTIONS(ROW)
#undef ROW
  return true;
}

static void open_real(void) {
  static const char *const paths[] = {SIM_CUDNN_HOME "/lib64/libcudnn.so.9", SIM_CUDNN_HOME "/lib/libcudnn.so.9",
                                      "/usr/lib/x86_64-linux-gnu/libcudnn.so.9",
                                      "/usr/lib/aarch64-linux-gnu/libcudnn.so.9"};
  const char *given = getenv("CUDASIM_CUDNN");
  found = given && load(given);
  for (size_t i = 0; !given && !found && i < sizeof paths / sizeof *paths; i++) found = load(paths[i]);
  if (!found)
    fprintf(stderr, "cudasim: no cuDNN: there is no usable real libcudnn.so.9 %s%s\n",
            given ? "at " : "in " SIM_CUDNN_HOME, given ? given : " (CUDASIM_CUDNN names it)");
}

const sim_cudnn_real *sim_cudnn(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_real);
  return found ? &real : NULL;
}

/* ---- records ------------------------------------------------------------------------------------ */

enum { N_CHAINS = 4096 };
static sim_record *chains[N_CHAINS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static sim_record **chain_of(const void *descriptor) { return &chains[((uintptr_t)descriptor >> 4) % N_CHAINS]; }

void sim_record_add(cudnnBackendDescriptor_t descriptor, cudnnBackendDescriptorType_t type) {
  sim_record *record = sim_take(sizeof *record), **chain = chain_of(descriptor);
  *record = (sim_record){.descriptor = descriptor, .type = type, .engine = -1};
  record->convolution.alpha = 1;
  record->tensor.alignment = 1;
  for (int i = 0; i < 2; i++) record->convolution.stride[i] = record->convolution.dilation[i] = 1;
  pthread_mutex_lock(&lock);
  record->next = *chain;
  *chain = record;
  pthread_mutex_unlock(&lock);
}

sim_record *sim_record_of(const void *descriptor) {
  pthread_mutex_lock(&lock);
  sim_record *record = *chain_of(descriptor);
  while (record && record->descriptor != descriptor) record = record->next;
  pthread_mutex_unlock(&lock);
  return record;
}

void sim_record_remove(sim_record *record) {
  pthread_mutex_lock(&lock);
  sim_record **at = chain_of(record->descriptor);
  while (*at != record) at = &(*at)->next;
  *at = record->next;
  pthread_mutex_unlock(&lock);
  free(record);
}

void sim_records_end(void) {
  enum { N_TYPES = 64 };
  size_t n_left[N_TYPES] = {0};
  for (size_t i = 0; i < N_CHAINS; i++)
    for (const sim_record *r = chains[i]; r; r = r->next) n_left[(size_t)r->type % N_TYPES]++;
  for (size_t i = 0; i < N_TYPES; i++)
    if (n_left[i]) sim_violation("cuDNN: %zu descriptors of type %zu not destroyed at the end", n_left[i], i);
}

/* ---- what attributes tell ------------------------------------------------------------------------- */

/* Numbers that are copied as they are. */
typedef struct number_row {
  cudnnBackendAttributeName_t name;
  size_t offset;
  int64_t n;
} number_row;
#define AT(member) offsetof(sim_record, member)
static const number_row NUMBERS[] = {
    {CUDNN_ATTR_TENSOR_DIMENSIONS, AT(tensor.dims), 4},
    {CUDNN_ATTR_TENSOR_STRIDES, AT(tensor.strides), 4},
    {CUDNN_ATTR_TENSOR_UNIQUE_ID, AT(tensor.id), 1},
    {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, AT(tensor.alignment), 1},
    {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, AT(convolution.stride), 2},
    {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, AT(convolution.before), 2},
    {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, AT(convolution.after), 2},
    {CUDNN_ATTR_CONVOLUTION_DILATIONS, AT(convolution.dilation), 2},
    {CUDNN_ATTR_ENGINE_GLOBAL_INDEX, AT(engine), 1},
};

/* Tensors of operations: where each goes, and the role that its name tells. */
typedef struct tensor_row {
  cudnnBackendAttributeName_t name;
  sim_role role;
  size_t offset;
} tensor_row;
static const tensor_row TENSORS[] = {
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, SIM_FORWARD, AT(convolution.x)},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, SIM_FORWARD, AT(convolution.w)},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, SIM_FORWARD, AT(convolution.y)},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, SIM_DATA, AT(convolution.x)},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, SIM_DATA, AT(convolution.w)},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, SIM_DATA, AT(convolution.y)},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, SIM_WEIGHT, AT(convolution.x)},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, SIM_WEIGHT, AT(convolution.w)},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, SIM_WEIGHT, AT(convolution.y)},
};

/* Factors of the result. */
typedef struct factor_row {
  cudnnBackendAttributeName_t name;
  size_t offset;
} factor_row;
static const factor_row FACTORS[] = {
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, AT(convolution.alpha)},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, AT(convolution.beta)},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, AT(convolution.alpha)},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, AT(convolution.beta)},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, AT(convolution.alpha)},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, AT(convolution.beta)},
};
enum {
  N_NUMBERS = sizeof NUMBERS / sizeof *NUMBERS,
  N_TENSORS = sizeof TENSORS / sizeof *TENSORS,
  N_FACTORS = sizeof FACTORS / sizeof *FACTORS
};

void sim_record_inherit(sim_record *record, const sim_record *from) {
  record->convolution = from->convolution;
  record->convolution_known = from->convolution_known;
  record->has_handle |= from->has_handle;
}

static void set_type(sim_record *record, const void *values) {
  cudnnDataType_t type = *(const cudnnDataType_t *)values;
  record->tensor_known = type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_BFLOAT16;
  record->tensor.dtype = type == CUDNN_DATA_BFLOAT16 ? SIM_BF16 : SIM_F32;
}

static void set_device(sim_record *record, int64_t n, const void *values) {
  json_t *facts = json_loadb(values, (size_t)n, JSON_DISABLE_EOF_CHECK, NULL);
  record->capability = json_integer_value(json_object_get(facts, "deviceVer"));
  record->multiprocessors = json_integer_value(json_object_get(facts, "multiProcessorCount"));
  json_decref(facts);
}

static void take_device(sim_record *record, const sim_record *device) {
  record->has_device = true;
  record->capability = device->capability;
  record->multiprocessors = device->multiprocessors;
}

/* Dilations, strides and paddings of the convolution into the operation. */
static void take_window(sim_record *operation, const sim_convolution *from) {
  sim_convolution *c = &operation->convolution;
  memcpy(c->stride, from->stride, sizeof c->stride);
  memcpy(c->before, from->before, sizeof c->before);
  memcpy(c->after, from->after, sizeof c->after);
  memcpy(c->dilation, from->dilation, sizeof c->dilation);
}

static bool is_operation(const sim_record *record) {
  return record->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
         record->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
         record->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
}

static void set_tensor(sim_record *record, const tensor_row *row, const sim_record *from) {
  sim_tensor *tensor = (sim_tensor *)((char *)record + row->offset);
  *tensor = from->tensor;
  record->convolution.role = row->role;
  if (!from->tensor_known) tensor->dims[0] = 0; /* which the check of a convolution refuses */
}

static void set_descriptor(sim_record *record, cudnnBackendAttributeName_t name, int64_t n, const sim_record *from) {
  for (size_t i = 0; i < N_TENSORS; i++)
    if (TENSORS[i].name == name) set_tensor(record, &TENSORS[i], from);
  switch (name) {
    case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC:
      take_window(record, &from->convolution);
      break;
    case CUDNN_ATTR_OPERATIONGRAPH_OPS:
      record->convolution = from->convolution;
      record->convolution_known = n == 1 && is_operation(from);
      break;
    case CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH:
    case CUDNN_ATTR_ENGINE_OPERATION_GRAPH:
    case CUDNN_ATTR_ENGINECFG_ENGINE:
    case CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG:
      sim_record_inherit(record, from);
      break;
    case CUDNN_ATTR_ENGINEHEUR_DEVICEPROP:
    case CUDNN_ATTR_ENGINE_DEVICEPROP:
    case CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP:
      take_device(record, from);
      break;
    default:
      break;
  }
}

void sim_record_set(sim_record *record, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
                    const void *values) {
  if (!values || n < 1) return;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const sim_record *from = sim_record_of(*(cudnnBackendDescriptor_t const *)values);
    if (from) set_descriptor(record, name, n, from);
    return;
  }
  if (name == CUDNN_ATTR_TENSOR_DATA_TYPE) set_type(record, values);
  if (name == CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION) set_device(record, n, values);
  for (size_t i = 0; i < N_NUMBERS && type == CUDNN_TYPE_INT64; i++)
    if (NUMBERS[i].name == name && n == NUMBERS[i].n)
      memcpy((char *)record + NUMBERS[i].offset, values, (size_t)n * sizeof(int64_t));
  for (size_t i = 0; i < N_FACTORS; i++)
    if (FACTORS[i].name == name)
      *(float *)((char *)record + FACTORS[i].offset) =
          type == CUDNN_TYPE_DOUBLE ? (float)*(const double *)values : *(const float *)values;
}

/* ---- what the real library tells -------------------------------------------------------------------- */

static bool read_descriptor(cudnnBackendDescriptor_t into, cudnnBackendDescriptor_t from,
                            cudnnBackendAttributeName_t name) {
  int64_t n = 0;
  return !real.cudnnBackendGetAttribute(from, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &into) && n == 1;
}

static bool has_note(cudnnBackendDescriptor_t engine, cudnnBackendNumericalNote_t note) {
  int notes[32]; /* cuDNN writes enumerators of int's size */
  int64_t n = 0;
  if (real.cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, 32, &n, notes))
    return false;
  for (int64_t i = 0; i < n && i < 32; i++)
    if (notes[i] == (int)note) return true;
  return false;
}

static int64_t read_engine(cudnnBackendDescriptor_t configuration, sim_record *plan) {
  cudnnBackendDescriptor_t engine = NULL;
  int64_t index = -1, n = 0;
  if (real.cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine)) return -1;
  if (read_descriptor(engine, configuration, CUDNN_ATTR_ENGINECFG_ENGINE)) {
    real.cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &n, &index);
    if (plan) {
      plan->nondeterministic = has_note(engine, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
      plan->tensor_cores = has_note(engine, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
    }
  }
  real.cudnnBackendDestroyDescriptor(engine);
  return index;
}

int64_t sim_configuration_engine(cudnnBackendDescriptor_t configuration) { return read_engine(configuration, NULL); }

static void read_knob(sim_record *plan, cudnnBackendDescriptor_t choice) {
  int type = 0;
  int64_t n = 0, value = 0;
  real.cudnnBackendGetAttribute(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &n, &type);
  real.cudnnBackendGetAttribute(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &n, &value);
  int64_t at = plan->n_knobs++;
  for (; at && plan->knobs[at - 1].type > type; at--) plan->knobs[at] = plan->knobs[at - 1];
  plan->knobs[at] = (sim_knob){type, value};
}

bool sim_record_read_engine(sim_record *plan, cudnnBackendDescriptor_t configuration) {
  cudnnBackendDescriptor_t choices[SIM_KNOBS_MAX];
  int64_t n_made = 0, n = 0;
  plan->engine = read_engine(configuration, plan);
  plan->n_knobs = 0;
  while (n_made < SIM_KNOBS_MAX &&
         !real.cudnnBackendCreateDescriptor(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, &choices[n_made]))
    n_made++;
  if (n_made == SIM_KNOBS_MAX &&
      !real.cudnnBackendGetAttribute(configuration, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                     SIM_KNOBS_MAX, &n, choices))
    for (int64_t i = 0; i < n && i < SIM_KNOBS_MAX; i++) read_knob(plan, choices[i]);
  while (n_made) real.cudnnBackendDestroyDescriptor(choices[--n_made]);
  return plan->engine >= 0;
}
