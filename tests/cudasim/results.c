/* Names and texts of results. */
#include <stddef.h>

#include "driver.h"

typedef struct result_row {
  CUresult result;
  const char *name, *text;
} result_row;

static const result_row RESULTS[] = {
#define SIM_RESULT(name, text) {name, #name, text},
#include "results.def"
#undef SIM_RESULT
};

static const result_row *row_of(CUresult result) {
  for (size_t i = 0; i < sizeof RESULTS / sizeof *RESULTS; i++)
    if (RESULTS[i].result == result) return &RESULTS[i];
  return NULL;
}

CUresult cuGetErrorName(CUresult result, const char **name) {
  const result_row *row = row_of(result);
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  *name = row ? row->name : NULL;
  return row ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult result, const char **text) {
  const result_row *row = row_of(result);
  if (!text) return CUDA_ERROR_INVALID_VALUE;
  *text = row ? row->text : NULL;
  return row ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
