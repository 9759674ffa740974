/* Which facts of a device move the engines that are offered: each one changed in turn, and a table of what was seen. */
#include <stdlib.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/cuda.h"

#ifdef SX_CUDA
#include <jansson.h>

static const sx_dtype DTYPES[2] = {SX_F32, SX_BF16};
static const int64_t SHAPES[2][9] = {{32, 28, 28, 1, 3, 3, 16, 1, 1}, {512, 8, 8, 256, 3, 3, 512, 1, 1}}; /* of each */
enum { N_ASKED = SX_N_ROLES * 2 };

typedef struct answers {
  char *texts[N_ASKED];
  bool refused; /* cuDNN does not take the facts */
} answers;

static void ask(answers *a, const char *json) {
  cuda_case c = {.memory = sx_memory_default()};
  *a = (answers){.refused = true};
  sx_arena_init(&c.arena, &c.memory);
  sx_diags_init(&c.diags, &c.arena);
  assert_true(sx_api_load(&c.api, SX_LIBRARY_CUDNN, NULL, &c.arena, &c.diags));
  assert_true(sx_device_parse(&c.device, json, strlen(json), &c.arena, &c.diags));
  if (sx_cudnn_open(&c.cudnn, &c.api, &c.device, &c.arena, &c.diags)) {
    a->refused = false;
    for (size_t i = 0; i < N_ASKED; i++) {
      sx_convolution convolution = cuda_convolution((sx_role)(i / 2), SHAPES[i % 2], DTYPES[i % 2]);
      a->texts[i] = strdup(cuda_offers_text(&c, &convolution));
    }
  }
  c.diags.list.n = 0;
  cuda_end(&c);
}

static void forget(answers *a) {
  for (size_t i = 0; i < N_ASKED; i++) free(a->texts[i]);
}

static size_t count_differing(const answers *a, const answers *b) {
  size_t n = 0;
  for (size_t i = 0; i < N_ASKED; i++) n += strcmp(a->texts[i], b->texts[i]) != 0;
  return n;
}

/* Numbers times factor / 8 as far as cuDNN's int holds them, text with a letter more. */
static int64_t scaled(int64_t number, int64_t factor) {
  int64_t most = number > INT32_MAX ? INT64_MAX : INT32_MAX, product = number ? number / 8 * factor : factor;
  return product < most ? product : most;
}

static void change(json_t *facts, const char *name, int64_t factor) {
  json_t *value = json_object_get(facts, name), *changed;
  if (json_is_integer(value)) {
    changed = json_integer(scaled(json_integer_value(value), factor));
  } else if (json_is_array(value)) {
    changed = json_deep_copy(value);
    json_array_set_new(changed, 0, json_integer(scaled(json_integer_value(json_array_get(value, 0)), factor)));
  } else {
    changed = json_sprintf("%sx", json_string_value(value));
  }
  json_object_set_new(facts, name, changed);
}

/* How many of N_ASKED lists move; -1: cuDNN refuses the facts. */
static int changed_lists(const answers *base, const json_t *facts, const char *name, int64_t factor) {
  json_t *copy = json_deep_copy(facts);
  change(copy, name, factor);
  char *json = json_dumps(copy, JSON_COMPACT);
  answers a;
  ask(&a, json);
  int n = a.refused ? -1 : (int)count_differing(base, &a);
  forget(&a);
  free(json);
  json_decref(copy);
  return n;
}

static void cell(char text[16], int n) { snprintf(text, 16, n < 0 ? "refused" : n ? "%d of %d" : "same", n, N_ASKED); }

static void facts_that_matter_and_facts_that_do_not(void **state) {
  (void)state;
  char json[CUDA_JSON_MAX];
  cuda_read_json(json, "a100");
  json_t *facts = json_loads(json, 0, NULL), *value;
  const char *name;
  answers base;
  ask(&base, json);
  printf("%-30s %10s %10s   (lists of offers that are others, A100)\n", "fact", "x 1/8", "x 9/8");
  json_object_foreach(facts, name, value) {
    int less = changed_lists(&base, facts, name, 1), more = changed_lists(&base, facts, name, 9);
    char left[16], right[16];
    cell(left, less);
    cell(right, more);
    printf("%-30s %10s %10s\n", name, left, right);
    bool is_label = !strcmp(name, "deviceName") || !strcmp(name, "pciDeviceId") || !strcmp(name, "cudaDeviceId");
    if (is_label && (less || more)) fail_msg("%s moves the lists", name);
    if (!strcmp(name, "deviceVer") && (less >= 0 || more == 0)) fail_msg("the compute capability does not matter");
  }
  forget(&base);
  json_decref(facts);
}

/* A card's generation alone: the rest of the facts stays an A100's. */
static void the_generation_matters(void **state) {
  (void)state;
  char json[CUDA_JSON_MAX];
  cuda_read_json(json, "a100");
  answers base, hopper;
  ask(&base, json);
  memcpy(strstr(json, "800"), "900", 3);
  ask(&hopper, json);
  size_t n = count_differing(&base, &hopper);
  printf("compute_80 to compute_90: %zu of %d lists are others\n", n, N_ASKED);
  assert_true(n > N_ASKED / 2);
  forget(&base);
  forget(&hopper);
}

CUDNN_MAIN(cmocka_unit_test(facts_that_matter_and_facts_that_do_not), cmocka_unit_test(the_generation_matters))
#else
CUDNN_MAIN()
#endif
