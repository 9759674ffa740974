/* What the tests of the interpreter begin with: the real NVRTC, device memory that is checked, a launch. */
#ifndef TEST_PTX_CASE_H
#define TEST_PTX_CASE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx.h"

/* False: no NVRTC; one line says so. */
bool ptx_ready(void);

/* CUDA C to PTX as the product compiles it; architecture: 80 or 90. What NVRTC refuses ends the test. Owned by the
 * caller. */
char *ptx_compile(const char *source, int architecture);
/* The same with products and sums contracted, as the product never compiles. */
char *ptx_compile_contracted(const char *source, int architecture);
/* The same, parsed; its text may be NULL. */
sim_module *ptx_module(const char *source, int architecture);

/* Device memory: exactly what was taken may be read, and written where it is said. */
enum { PTX_MOST_RANGES = 16 };
typedef struct ptx_memory {
  sim_span ranges[PTX_MOST_RANGES];
  bool is_constant[PTX_MOST_RANGES];
  size_t n, n_asked;
} ptx_memory;

/* Zeroed, aligned to 64, with bytes around it that are not device memory. */
void *ptx_take(ptx_memory *memory, size_t n_bytes);
void *ptx_take_copy(ptx_memory *memory, const void *from, size_t n_bytes); /* may only be read */
void ptx_free(ptx_memory *memory);

typedef struct ptx_argument {
  const void *at;
  size_t n_bytes;
} ptx_argument;
#define PTX_ARGUMENT(value) \
  { &(value), sizeof(value) }

typedef struct ptx_shape {
  uint32_t grid, block, shared;
  bool checks_uninitialized, checks_races;
} ptx_shape;

/* True: it ran. False: problem says what stopped it. */
bool ptx_try(const sim_module *module, const char *kernel, ptx_memory *memory, ptx_shape shape, char problem[512],
             size_t n, const ptx_argument *arguments);
/* The same where it must run. */
void ptx_run(const sim_module *module, const char *kernel, ptx_memory *memory, ptx_shape shape, size_t n,
             const ptx_argument *arguments);
#define PTX_RUN(module, kernel, memory, shape, ...)                                                    \
  ptx_run(module, kernel, memory, shape, sizeof((ptx_argument[]){__VA_ARGS__}) / sizeof(ptx_argument), \
          (ptx_argument[]){__VA_ARGS__})

extern uint64_t ptx_n_instructions; /* of all launches so far, counted once a warp */

#endif
