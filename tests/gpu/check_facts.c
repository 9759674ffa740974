/* What the device that the loader finds says of itself, as Markdown: its text, libraries, memory, and the 23 facts by
 * which cuDNN selects, as the driver's attributes give them, as cuDNN gives them, and as tests/cuda has a card of this
 * kind. Exits 77 where there is no device.
 *
 *   check_facts [--name]    only the card's name */
#include <stdio.h>

#ifdef SX_CUDA
#include <dirent.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "on_device.h"

static const char FOLDER[] = "tests/cuda";

/* ---- cuDNN's --------------------------------------------------------------------------------------- */

static json_t *read_descriptor(const sx_api *api, cudnnBackendDescriptor_t descriptor) {
  int64_t n = 0;
  if (api->cudnnBackendGetAttribute(descriptor, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 0, &n,
                                    NULL))
    return NULL;
  char *text = calloc(1, (size_t)n + 1);
  json_t *facts = NULL;
  if (text && !api->cudnnBackendGetAttribute(descriptor, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, n,
                                             &n, text))
    facts = json_loads(text, 0, NULL);
  free(text);
  return facts;
}

/* NULL: there is no cuDNN, or it gives none. */
static json_t *cudnn_facts(const sx_cuda *cuda) {
  const sx_api *api = &cuda->api;
  cudnnBackendDescriptor_t descriptor = NULL;
  cudnnHandle_t handle = cuda->cudnn;
  json_t *facts = NULL;
  if (!handle || api->cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &descriptor)) return NULL;
  if (!api->cudnnBackendSetAttribute(descriptor, CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle) &&
      !api->cudnnBackendFinalize(descriptor))
    facts = read_descriptor(api, descriptor);
  api->cudnnBackendDestroyDescriptor(descriptor);
  return facts;
}

/* ---- tests/cuda's ---------------------------------------------------------------------------------- */

typedef struct known_card {
  char file[512];
  json_t *facts; /* NULL: none is like it */
  int same;
} known_card;

/* The card whose facts agree most, among those of this compute capability. */
static void find_known(known_card *best, json_t *facts) {
  DIR *folder = opendir(FOLDER);
  if (!folder) return;
  for (const struct dirent *entry; (entry = readdir(folder));) {
    char path[512];
    const char *ending = strrchr(entry->d_name, '.');
    if (!ending || strcmp(ending, ".json") != 0) continue;
    snprintf(path, sizeof path, "%s/%.300s", FOLDER, entry->d_name);
    json_t *card = json_load_file(path, 0, NULL), *value;
    const char *name;
    int same = 0;
    json_object_foreach(card, name, value) same += json_equal(value, json_object_get(facts, name));
    if (card && same > best->same &&
        json_equal(json_object_get(card, "deviceVer"), json_object_get(facts, "deviceVer"))) {
      json_decref(best->facts);
      *best = (known_card){.facts = json_incref(card), .same = same};
      memcpy(best->file, path, sizeof path);
    }
    json_decref(card);
  }
  closedir(folder);
}

/* ---- the tables ------------------------------------------------------------------------------------ */

static const char *const FACTS[] = {
#define SX_FACT(kind, member, name) name,
#include "../../libsexp/cuda/device.def"
#undef SX_FACT
};

static char *text_of(json_t *facts, const char *name) {
  json_t *value = json_object_get(facts, name);
  return value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
}

static void print_fact(const char *name, json_t *const columns[3]) {
  printf("| %s |", name);
  for (int i = 0; i < 3; i++) {
    char *text = text_of(columns[i], name);
    printf(" %s%s |", text ? text : "",
           i && text && !json_equal(json_object_get(columns[i], name), json_object_get(columns[0], name)) ? " differs"
                                                                                                          : "");
    free(text);
  }
  puts("");
}

static void print_facts(sx_cuda *cuda) {
  json_t *driver = json_loadb(cuda->properties.json, cuda->properties.json_n_bytes, 0, NULL),
         *theirs = cudnn_facts(cuda);
  known_card known = {.file = "none of its compute capability in tests/cuda"};
  find_known(&known, theirs ? theirs : driver);
  json_t *const columns[] = {driver, theirs, known.facts};
  printf("\n| fact | the driver | cuDNN%s | %s |\n| --- | --- | --- | --- |\n", theirs ? "" : " gives none",
         known.file);
  for (size_t i = 0; i < sizeof FACTS / sizeof *FACTS; i++) print_fact(FACTS[i], columns);
  char *text = json_dumps(theirs ? theirs : driver, JSON_COMPACT);
  printf("\n%s's JSON:\n\n```json\n%s\n```\n", theirs ? "cuDNN" : "The driver", text ? text : "");
  free(text);
  json_decref(known.facts);
  json_decref(theirs);
  json_decref(driver);
}

static void print_libraries(const sx_cuda *cuda) {
  puts("\n| library | version | file |\n| --- | --- | --- |");
  for (int i = 0; i < SX_N_LIBRARIES; i++) {
    const sx_library_found *found = &cuda->api.found[i];
    if (found->name)
      printf("| %s | %s | %s |\n", found->name, found->version ? found->version : "none",
             found->missing ? found->missing : found->path);
  }
}

int main(int argc, char **argv) {
  gpu_device gpu;
  bool opened = gpu_open_any(&gpu);
  if (!opened) {
    printf("%s\n", gpu.why);
  } else if (argc > 1 && !strcmp(argv[1], "--name")) {
    puts(gpu.cuda->facts.gpu);
  } else {
    const sexp_device_facts *facts = &gpu.cuda->facts;
    printf("- GPU: %s%s\n- device: `%s`\n- memory: %.2f GiB, of which %.2f free\n", facts->gpu,
           gpu_is_simulated() ? " (simulated)" : "", facts->text, (double)facts->total_bytes / (1 << 30),
           (double)facts->free_bytes / (1 << 30));
    print_libraries(gpu.cuda);
    print_facts(gpu.cuda);
  }
  gpu_close(&gpu);
  return opened ? 0 : 77;
}
#else
int main(void) {
  puts("skipped: this build was made without the headers of CUDA and cuDNN (make says why)");
  return 77;
}
#endif
