/* Tests of the simulated card's libraries. A case runs in a process of its own, because settings are read once and a
 * violation ends it: mathlib_run starts one, and gives what it wrote and how it ended. */
#ifndef TEST_MATHLIB_H
#define TEST_MATHLIB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* True: the libraries are built, beside the tests. False: one line says why these tests are skipped. */
bool mathlib_ready(void);

enum { MATHLIB_VIOLATION = 86, MATHLIB_TEXT_MAX = 1 << 15 };

typedef struct mathlib_outcome {
  int status; /* of exit; -1: a signal ended it */
  char text[MATHLIB_TEXT_MAX];
} mathlib_outcome;

/* Runs body(context) with the card of tests/cuda/CARD.json and settings "name=value", one a line. Context is memory
 * that mathlib_share gave, or not written. */
void mathlib_run(mathlib_outcome *outcome, const char *card, const char *settings, void (*body)(void *context),
                 void *context);
/* It ended well, and with no violation. */
void mathlib_expect_ok(const mathlib_outcome *outcome);
/* It ended with a violation that has the words. */
void mathlib_expect_violation(const mathlib_outcome *outcome, const char *words);
/* Zeroed memory that the process of a case writes for the test. */
void *mathlib_share(size_t n_bytes);

/* ---- in a case's process ---- */

/* Ends the case, which then fails. */
#define mathlib_check(condition)                                    \
  do {                                                              \
    if (!(condition)) mathlib_stop(__FILE__, __LINE__, #condition); \
  } while (0)
_Noreturn void mathlib_stop(const char *file, int line, const char *condition);
/* A library of the simulated card, and one of its functions. */
void *mathlib_library(const char *file);
void *mathlib_function(void *library, const char *name);

#ifdef SX_CUDA
#include <cuda.h>

/* What is called of the driver. */
#define MATHLIB_DRIVER(ROW)      \
  ROW(cuInit)                    \
  ROW(cuDevicePrimaryCtxRetain)  \
  ROW(cuDevicePrimaryCtxRelease) \
  ROW(cuCtxSetCurrent)           \
  ROW(cuMemAlloc)                \
  ROW(cuMemFree)                 \
  ROW(cuMemcpyHtoD)              \
  ROW(cuMemcpyDtoH)              \
  ROW(cuStreamCreate)            \
  ROW(cuStreamDestroy)           \
  ROW(cuStreamSynchronize)       \
  ROW(cuStreamBeginCapture)      \
  ROW(cuStreamEndCapture)        \
  ROW(cuGraphInstantiate)        \
  ROW(cuGraphLaunch)             \
  ROW(cuGraphDestroy)            \
  ROW(cuGraphExecDestroy)        \
  ROW(cuEventCreate)             \
  ROW(cuEventDestroy)            \
  ROW(cuEventRecord)             \
  ROW(cuEventElapsedTime)

typedef struct mathlib_driver {
#define ROW(function) __typeof__(function) *p_##function;
  MATHLIB_DRIVER(ROW)
#undef ROW
  CUstream stream;
} mathlib_driver;

/* The first device's context is current, and there is a stream. */
void mathlib_begin(mathlib_driver *driver);
void mathlib_end(mathlib_driver *driver);
void *mathlib_take(const mathlib_driver *driver, size_t n_bytes);
void mathlib_give(const mathlib_driver *driver, void *memory);
void mathlib_write(const mathlib_driver *driver, void *to, const void *from, size_t n_bytes);
/* Waits for the stream before. */
void mathlib_read(const mathlib_driver *driver, void *to, const void *from, size_t n_bytes);
#endif

#ifdef SX_CUDA
#define MATHLIB_MAIN(...)                             \
  int main(void) {                                    \
    if (!mathlib_ready()) return 0;                   \
    const struct CMUnitTest tests[] = {__VA_ARGS__};  \
    return cmocka_run_group_tests(tests, NULL, NULL); \
  }
#else
#define MATHLIB_MAIN(...)                                                                       \
  int main(void) {                                                                              \
    puts("skipped: this build was made without the headers of CUDA and cuDNN (make says why)"); \
    return 0;                                                                                   \
  }
#endif

#endif
