/* Cases that call the simulated cuBLAS, cuBLASLt and cuDNN, on top of cudasim.h. */
#ifndef TEST_CUDASIM_MATHLIB_H
#define TEST_CUDASIM_MATHLIB_H

#include "cudasim.h"

#ifdef SX_CUDA
/* Runs body(context) in a process of its own with the card of tests/cuda/CARD.json. Context is memory that
 * mathlib_share gave, or is not written. */
void mathlib_run(outcome *ended, const char *card, const char *settings, void (*body)(void *context), void *context);
/* It ended well, and with no violation. */
void mathlib_expect_ok(const outcome *ended);
/* It ended with one violation, which has the words. */
void mathlib_expect_violation(const outcome *ended, const char *words);
/* Zeroed memory that the process of a case writes for the test. */
void *mathlib_share(size_t n_bytes);

/* ---- in a case's process ---- */

/* A library of the simulated card, and one of its functions. */
void *mathlib_library(const char *file);
void *mathlib_function(void *library, const char *name);

/* A context is current; gives a stream. */
CUstream mathlib_begin(void);
void mathlib_end(CUstream stream);
void *mathlib_take(size_t n_bytes);
void mathlib_give(void *memory);
void mathlib_write(void *to, const void *from, size_t n_bytes);
/* Waits for the stream before. */
void mathlib_read(CUstream stream, void *to, const void *from, size_t n_bytes);

/* From -1 to 1; the state is a number of any kind. */
float mathlib_uniform(uint64_t *state);
float mathlib_of_bits(uint32_t bits);
uint32_t mathlib_bits_of(float value);

#define MATHLIB_MAIN(ready, ...)                      \
  int main(void) {                                    \
    if (!(ready)) return 0;                           \
    const struct CMUnitTest tests[] = {__VA_ARGS__};  \
    return cmocka_run_group_tests(tests, NULL, NULL); \
  }
#else
#define MATHLIB_MAIN(ready, ...)                                                                \
  int main(void) {                                                                              \
    puts("skipped: this build was made without the headers of CUDA and cuDNN (make says why)"); \
    return 0;                                                                                   \
  }
#endif

#endif
