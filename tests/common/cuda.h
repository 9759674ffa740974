/* What the tests of engine selection begin with: cuDNN loaded, and the facts of a card from tests/cuda. */
#ifndef TEST_CUDA_H
#define TEST_CUDA_H

#include <stdio.h>

#ifdef SX_CUDA
#include "../../libsexp/cuda/cudnn.h"

typedef struct cuda_case {
  sx_memory memory;
  sx_arena arena;
  sx_diags diags;
  sx_api api;
  sx_device device;
  sx_cudnn cudnn;
} cuda_case;

/* True: cuDNN is there. False: one line says why these tests are skipped. */
bool cuda_ready(void);
/* A session for the card of tests/cuda/CARD.json; whatever fails ends the test. */
void cuda_begin(cuda_case *c, const char *card);
void cuda_begin_json(cuda_case *c, const char *json);
void cuda_end(cuda_case *c);

/* The text of tests/cuda/CARD.json, in a buffer of the caller. */
enum { CUDA_JSON_MAX = 4096 };
size_t cuda_read_json(char json[CUDA_JSON_MAX], const char *card);

/* "Weight 512 8 8 256 3 3 512 1 1 bf16": a convolution from its sizes in the order of its key. */
sx_convolution cuda_convolution(sx_role role, const int64_t sizes[9], sx_dtype dtype);
const char *cuda_engine_text(cuda_case *c, const sx_engine *engine);
/* All offers as one text, to compare: engine, notes, workspace and verdict of each. */
const char *cuda_offers_text(cuda_case *c, const sx_convolution *convolution);
/* The key in the seeds' record and the engine recorded for it. */
#define CUDA_SEED_KEY \
  "Weight Spec { batch: 512, height: 8, width: 8, channels: 256, kh: 3, kw: 3, out: 512, stride: 1, padding: 1 } bf16"
#define CUDA_SEED_ENGINE "engine 47 knobs 0=3 2=3 5=3 14=2"
sx_convolution cuda_seed_convolution(void);

#define CUDA_MAIN(...)                                \
  int main(void) {                                    \
    if (!cuda_ready()) return 0;                      \
    const struct CMUnitTest tests[] = {__VA_ARGS__};  \
    return cmocka_run_group_tests(tests, NULL, NULL); \
  }

/* The same where engines are selected. An engine of cuDNN that tries cuBLASLt, which fails without a device, leaves 192
 * bytes of that library behind: they are not ours to free. */
#define CUDNN_MAIN(...)                                                        \
  const char *__lsan_default_suppressions(void);                               \
  const char *__lsan_default_suppressions(void) { return "leak:libcublasLt"; } \
  CUDA_MAIN(__VA_ARGS__)
#else
#define CUDNN_MAIN(...)                                                                         \
  int main(void) {                                                                              \
    puts("skipped: this build was made without the headers of CUDA and cuDNN (make says why)"); \
    return 0;                                                                                   \
  }
#endif

#endif
