/* Cases on the simulated device: each runs in a process of its own, which opens the stand-ins by their path. */
#ifndef TEST_CUDASIM_H
#define TEST_CUDASIM_H

#include <stdio.h>

#ifdef SX_CUDA
#include <cuda.h>
#include <nvrtc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "../cudasim/sim.h"

/* The entry points under the names that cuda.h maps them to. */
typedef struct simulated_cuda {
#define SIM_ENTRY(name) __typeof__(name) *name;
#include "cudasim.def"
#undef SIM_ENTRY
} simulated_cuda;
extern simulated_cuda cu;

typedef struct outcome {
  int status;       /* of the process; 1: a check in it failed */
  char text[16384]; /* its stderr */
} outcome;

/* Runs body with the settings ("order=reverse\nmemory.total=1"; the card is an A100 where none is named). What
 * the variable CUDASIM_MORE holds is added: CUDASIM_MORE=order=reverse runs a whole suite in another order. */
void cudasim_run(outcome *result, const char *settings, void (*body)(void));
/* The same, and the process must end with the status and its stderr hold the words. */
void cudasim_expect(const char *settings, void (*body)(void), int status, const char *words);
/* Ends well and says nothing. */
void cudasim_good(const char *settings, void (*body)(void));
enum { CUDASIM_VIOLATED = 86 };

/* Whether the real NVRTC is there; else one line says why kernels are skipped. */
bool cudasim_has_nvrtc(void);

/* ---- inside of a body ---- */

/* Says what failed and ends the process with 1. */
#define CHECK(condition) \
  ((condition) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), fflush(stderr), _Exit(1)))
#define GOOD(call) CHECK((call) == CUDA_SUCCESS)

void cudasim_open(void);  /* cuInit, the primary context of device 0 made current */
void cudasim_close(void); /* the context released */
CUdeviceptr cudasim_memory(size_t n_bytes);
float *cudasim_host(size_t n);
CUstream cudasim_stream(void); /* CU_STREAM_NON_BLOCKING */
/* The image of the source for "sm_80"; malloc'ed. */
char *cudasim_compile(const char *source, const char *architecture);
/* A module with "fill(float *x, unsigned long long n, float value)", blocks of at most 256 threads and 1024 bytes of
 * shared memory, and "copy(float *y, const float *x, unsigned long long n)". */
CUmodule cudasim_module(void);
void cudasim_fill(CUmodule module, CUdeviceptr x, unsigned long long n, float value, CUstream stream);
void cudasim_copy(CUmodule module, CUdeviceptr y, CUdeviceptr x, unsigned long long n, CUstream stream);
#endif

#endif
