/* Variables of the environment: SexpGPU's own, and those that can move the bits of a GPU's libraries. */
#include <stdlib.h>
#include <string.h>

#include "../common/choices.h"
#include "../common/engine.h"
#include "../common/failure.h"
#include "../common/settings.h"
#include "../common/syvain.h"
#include "doctor.h"

extern char **environ;

/* values: the words that it can be, each after a space; NULL: as its kind says. */
static const struct {
  const char *name;
  tool_kind kind;
  const char *values;
} own[] = {
    {"SEXPGPU_CHECKPOINT_DIR", TOOL_TEXT, NULL},
    {"SEXPGPU_CHOICES", TOOL_TEXT, NULL},
    {"SEXPGPU_CHOICES_SYSTEM", TOOL_TEXT, NULL},
    {"SEXPGPU_DETERMINISTIC", TOOL_BOOLEAN, NULL},
    {"SEXPGPU_DEVICE", TOOL_TEXT, " cpu cuda"},
    {"SEXPGPU_DEVICES", TOOL_TEXT, NULL},
    {"SEXPGPU_DIAGNOSTICS", TOOL_TEXT, NULL},
    {"SEXPGPU_EVAL_LIMIT", TOOL_COUNT, NULL},
    {"SEXPGPU_EXPLAIN", TOOL_TEXT, " kernels"},
    {"SEXPGPU_MEMORY", TOOL_REAL, NULL},
    {"SEXPGPU_METRICS", TOOL_TEXT, " stdout jsonl:PATH syvain syvain:FOLDER"},
    {"SEXPGPU_NODES", TOOL_LATER, NULL},
    {"SEXPGPU_NODE_GRADIENTS", TOOL_TEXT, " f32 bf16"},
    {"SEXPGPU_NODE_RANK", TOOL_LATER, NULL},
    {"SEXPGPU_OPTIMIZE", TOOL_BOOLEAN, NULL},
    {"SEXPGPU_PATTERNS", TOOL_BOOLEAN, NULL},
    {"SEXPGPU_PIN", TOOL_BOOLEAN, NULL},
    {"SEXPGPU_RENDEZVOUS", TOOL_LATER, NULL},
    {"SEXPGPU_RESUME", TOOL_TEXT, NULL},
    {"SEXPGPU_RUN_SLUG", TOOL_TEXT, NULL},
    {"SEXPGPU_SIMD", TOOL_TEXT, " reference scalar avx2 avx512"},
    {"SEXPGPU_STATUS", TOOL_TEXT, NULL},
};
enum { N_OWN = sizeof own / sizeof *own, MOST_NAME = 64 };

/* Of CUDA, cuBLAS, NCCL, OpenMP and the C library: a name that ends in '*' stands for all that begin so. */
static const char *const moves_bits[] = {
    "CUBLASLT_WORKSPACE_SIZE",
    "CUBLAS_EMULATION_STRATEGY",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_FORCE_PTX_JIT",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    "CUDA_VISIBLE_DEVICES",
    "GLIBC_TUNABLES",
    "NCCL_*",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
};

static bool matches(const char *pattern, const char *name) {
  size_t n = strlen(pattern);
  return pattern[n - 1] == '*' ? strncmp(pattern, name, n - 1) == 0 : strcmp(pattern, name) == 0;
}

/* Whether the value is one of the words; "jsonl:PATH" stands for all that begin with "jsonl:" and go on. */
static bool is_word(const char *words, const char *value) {
  while (*words) {
    size_t n = strcspn(++words, " "), n_fixed = strcspn(words, ": ") + 1;
    bool open = n_fixed < n;
    if (open ? strncmp(words, value, n_fixed) == 0 && value[n_fixed] : strlen(value) == n && !strncmp(words, value, n))
      return true;
    words += n;
  }
  return false;
}

/* ---- one variable ---- */

typedef struct variables {
  char *set, *problems; /* lists in words */
  doctor_state state;
} variables;

static void note(variables *all, doctor_state state, char *problem) {
  doctor_add(&all->problems, "; ", problem);
  if (state > all->state) all->state = state;
  free(problem);
}

/* Kinds after "fresh:"; a record is not opened. */
static void check_choices(variables *all, const char *value) {
  choices_request request;
  choices_error error;
  if (choices_request_parse(&request, value, &error) == CHOICES_OK) return;
  note(all, DOCTOR_FAIL, doctor_text("%s: SEXPGPU_CHOICES: %s", error.code, error.message));
}

static void check_devices(variables *all, const char *value) {
  int ordinal;
  tool_ordinal found = tool_engine_ordinal(&ordinal, value);
  if (found == TOOL_ORDINAL_SEVERAL)
    note(all, DOCTOR_FAIL,
         doctor_text("E-DEVICE-060: SEXPGPU_DEVICES: found \"%s\", a run of this version is on one", value));
  if (found == TOOL_ORDINAL_MALFORMED)
    note(all, DOCTOR_FAIL,
         doctor_text("E-ENV-001: SEXPGPU_DEVICES: found \"%s\", expected the number of a device, as 0", value));
}

/* Nothing is sent. */
static void check_metrics(variables *all, const char *value) {
  tool_syvain_settings settings;
  ckpt_error error;
  if (!tool_syvain_is(value) || tool_syvain_read(&settings, value, &error) == CKPT_OK) return;
  note(all, DOCTOR_FAIL, doctor_text("%s: %s", error.code, error.message));
}

static void check_own(variables *all, size_t i, const char *value) {
  const char *expected = tool_setting_expected(own[i].kind, value);
  const char *words = own[i].values;
  if (own[i].kind == TOOL_LATER)
    note(all, DOCTOR_FAIL, doctor_text("E-ENV-003: %s is of a part that this version does not have", own[i].name));
  else if (expected)
    note(all, DOCTOR_FAIL, doctor_text("E-ENV-001: %s: found \"%s\", expected %s", own[i].name, value, expected));
  else if (words && !is_word(words, value))
    note(all, DOCTOR_FAIL, doctor_text("E-ENV-001: %s: found \"%s\", expected one of%s", own[i].name, value, words));
  else if (strcmp(own[i].name, "SEXPGPU_CHOICES") == 0)
    check_choices(all, value);
  else if (strcmp(own[i].name, "SEXPGPU_DEVICES") == 0)
    check_devices(all, value);
  else if (strcmp(own[i].name, "SEXPGPU_METRICS") == 0)
    check_metrics(all, value);
}

static void check_variable(variables *all, const char *name, const char *value) {
  doctor_add(&all->set, ", ", name);
  for (size_t i = 0; i < N_OWN; i++)
    if (strcmp(own[i].name, name) == 0) {
      check_own(all, i, value);
      return;
    }
  if (!tool_credentials_reads(name)) note(all, DOCTOR_WARN, doctor_text("%s is read by nothing", name));
}

/* ---- all of them ---- */

static int by_text(const void *left, const void *right) {
  return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* "NAME=value" of all that are set, in order of their names; owned, the texts borrowed. */
static const char **sort_environment(size_t *n) {
  *n = 0;
  while (environ[*n]) ++*n;
  const char **sorted = malloc((*n + 1) * sizeof *sorted);
  if (!sorted) exit(tool_no_memory());
  for (size_t i = 0; i < *n; i++) sorted[i] = environ[i];
  qsort(sorted, *n, sizeof *sorted, by_text);
  return sorted;
}

static void write_names(doctor *d, const char *key, const char *list) {
  ckpt_json_key(d->facts, key), ckpt_json_begin_array(d->facts);
  while (list && *list) {
    size_t n = strcspn(list, ",");
    ckpt_json_string_n(d->facts, list, n);
    list += n + (list[n] ? 2 : 0);
  }
  ckpt_json_end_array(d->facts);
}

static void end_own(doctor *d, const variables *all) {
  doctor_begin(d, "environment");
  write_names(d, "set", all->set);
  if (all->problems)
    doctor_end(d, all->state, "docs/environment.md has every variable", "%s", all->problems);
  else
    doctor_end(d, DOCTOR_OK, NULL, "%s", all->set ? all->set : "no variable of SexpGPU is set");
}

static void end_foreign(doctor *d, const char *list) {
  doctor_begin(d, "bits");
  write_names(d, "set", list);
  if (list)
    doctor_end(d, DOCTOR_WARN, "no CPU run reads them, but they can move the bits of a GPU's libraries", "%s", list);
  else
    doctor_end(d, DOCTOR_OK, NULL, "no variable is set that can move the bits of a GPU's libraries");
}

void doctor_check_variables(doctor *d) {
  variables all = {NULL, NULL, DOCTOR_OK};
  char *foreign = NULL;
  size_t n = 0;
  const char **sorted = sort_environment(&n);
  for (size_t i = 0; i < n; i++) {
    size_t n_name = strcspn(sorted[i], "=");
    char *name = doctor_text("%.*s", (int)n_name, sorted[i]);
    if (strncmp(name, "SEXPGPU_", 8) == 0 && sorted[i][n_name]) check_variable(&all, name, sorted[i] + n_name + 1);
    for (size_t k = 0; k < sizeof moves_bits / sizeof *moves_bits; k++)
      if (matches(moves_bits[k], name)) doctor_add(&foreign, ", ", name);
    free(name);
  }
  end_own(d, &all);
  end_foreign(d, foreign);
  free(sorted);
  free(foreign);
  free(all.set);
  free(all.problems);
}
