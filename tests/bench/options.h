/* Options of benchmarks: "--name value", and beside them beginnings of the names of cases. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stdlib.h>
#include <string.h>

#include "../../libsexp/cpu/kernel.h"

/* Whether a case is to be measured: all are where none is named. */
static inline bool selected(const char *name, int argc, char **argv) {
  bool any = false;
  for (int k = 1; k < argc; k++) {
    if (argv[k][0] == '-') {
      k++;
      continue;
    }
    any = true;
    if (strncmp(name, argv[k], strlen(argv[k])) == 0) return true;
  }
  return !any;
}

static inline int option(const char *name, int otherwise, int argc, char **argv) {
  for (int k = 1; k + 1 < argc; k++)
    if (strcmp(argv[k], name) == 0) return atoi(argv[k + 1]);
  return otherwise;
}

/* --simd, else the best level. */
static inline sx_simd level(int argc, char **argv) {
  for (int k = 1; k + 1 < argc; k++)
    for (sx_simd simd = SX_SIMD_SCALAR; simd < SX_N_SIMD; simd++)
      if (strcmp(argv[k], "--simd") == 0 && strcmp(argv[k + 1], sx_simd_name(simd)) == 0 && sx_simd_available(simd))
        return simd;
  return sx_simd_best();
}

#endif
