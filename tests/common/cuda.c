#include "cuda.h"

#ifdef SX_CUDA
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

bool cuda_ready(void) {
  sx_memory memory = sx_memory_default();
  sx_arena arena;
  sx_arena_init(&arena, &memory);
  sx_api api = {0};
  bool ready = sx_api_load(&api, SX_LIBRARY_CUDNN, NULL, &arena, NULL);
  sx_api_load(&api, SX_LIBRARY_NVRTC, NULL, &arena, NULL); /* kept open, as cudnn.h asks */
  const sx_library_found *cudnn = &api.found[SX_LIBRARY_CUDNN];
  if (ready)
    printf("cuDNN %s at %s\n", cudnn->version, cudnn->path);
  else
    printf("skipped: %s\n", cudnn->missing);
  sx_arena_free(&arena);
  return ready;
}

size_t cuda_read_json(char json[CUDA_JSON_MAX], const char *card) {
  char path[64];
  snprintf(path, sizeof path, "tests/cuda/%s.json", card);
  FILE *file = fopen(path, "rb");
  if (!file) fail_msg("%s cannot be opened: the tests run in the root of the tree", path);
  size_t n = fread(json, 1, CUDA_JSON_MAX - 1, file);
  fclose(file);
  json[n] = 0;
  return n;
}

static void report(const sx_diags *diags) {
  for (size_t i = 0; i < diags->list.n; i++)
    printf("%s: %s\n", sx_diag_code(&diags->list.items[i]), diags->list.items[i].message);
}

void cuda_begin_json(cuda_case *c, const char *json) {
  *c = (cuda_case){.memory = sx_memory_default()};
  sx_arena_init(&c->arena, &c->memory);
  sx_diags_init(&c->diags, &c->arena);
  bool ready = sx_api_load(&c->api, SX_LIBRARY_CUDNN, NULL, &c->arena, &c->diags) &&
               sx_device_parse(&c->device, json, strlen(json), &c->arena, &c->diags) &&
               sx_cudnn_open(&c->cudnn, &c->api, &c->device, &c->arena, &c->diags);
  report(&c->diags);
  assert_true(ready);
}

void cuda_begin(cuda_case *c, const char *card) {
  char json[CUDA_JSON_MAX];
  cuda_read_json(json, card);
  cuda_begin_json(c, json);
}

void cuda_end(cuda_case *c) {
  report(&c->diags);
  sx_cudnn_close(&c->cudnn);
  sx_arena_free(&c->arena);
}

sx_convolution cuda_convolution(sx_role role, const int64_t sizes[9], sx_dtype dtype) {
  return (sx_convolution){role,     sizes[0], sizes[1], sizes[2], sizes[3], sizes[4],
                          sizes[5], sizes[6], sizes[7], sizes[8], dtype};
}

sx_convolution cuda_seed_convolution(void) {
  static const int64_t sizes[] = {512, 8, 8, 256, 3, 3, 512, 1, 1};
  return cuda_convolution(SX_ROLE_WEIGHT, sizes, SX_BF16);
}

const char *cuda_engine_text(cuda_case *c, const sx_engine *engine) {
  sx_text text;
  sx_text_init(&text, &c->arena);
  sx_engine_print(&text, engine);
  return sx_text_get(&text);
}

const char *cuda_offers_text(cuda_case *c, const sx_convolution *convolution) {
  sx_offers offers;
  if (!sx_cudnn_offers(&offers, &c->cudnn, convolution)) {
    report(&c->diags);
    fail();
  }
  sx_text text;
  sx_text_init(&text, &c->arena);
  for (size_t i = 0; i < offers.n; i++) {
    const sx_offer *offer = &offers.items[i];
    sx_engine_print(&text, &offer->engine);
    sx_text_addf(&text, " %x %x %lld %s\n", offer->numerical_notes, offer->behavior_notes,
                 (long long)offer->workspace_n_bytes, sx_rejection_text(offer->rejection));
  }
  return sx_text_get(&text);
}
#endif
