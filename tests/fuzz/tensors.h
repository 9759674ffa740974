/* For the harnesses of file formats: bytes opened as a file of that name, every tensor read. */
#ifndef FUZZ_TENSORS_H
#define FUZZ_TENSORS_H

#include <stdlib.h>
#include <string.h>

#include "../../libckpt/ckpt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void fuzz_expect(bool holds) {
  if (!holds) abort();
}

/* A failure has a code, a message and a status; a success leaves the error alone. */
static inline void fuzz_expect_error(ckpt_status status, const ckpt_error *error) {
  fuzz_expect(status == CKPT_OK || (error->status == status && error->code[0] == 'E' && error->message[0]));
  fuzz_expect(status == CKPT_OK || strcmp(error->code, "E-CKPT-001") == 0 || status == CKPT_INVALID);
}

/* What a tensor says of itself agrees, and its elements can be read and are those at `data`. */
static inline void fuzz_read_tensor(const ckpt_tensors *tensors, const ckpt_tensor *tensor) {
  ckpt_error error;
  uint64_t n_elements = 1;
  for (int i = 0; i < tensor->rank; i++) n_elements *= (uint64_t)tensor->dims[i];
  fuzz_expect(tensor->rank >= 0 && tensor->rank <= CKPT_MAX_RANK && n_elements == tensor->n_elements);
  fuzz_expect(tensor->n_bytes == n_elements * ckpt_dtype_n_bytes(tensor->dtype));
  unsigned char *elements = malloc((size_t)tensor->n_bytes + 1);
  if (!elements) return;
  fuzz_expect(ckpt_tensors_read(elements, tensors, tensor, 0, n_elements, &error) == CKPT_OK);
  if (tensor->data) fuzz_expect(memcmp(elements, tensor->data, (size_t)tensor->n_bytes) == 0);
  fuzz_expect(ckpt_tensors_read(elements, tensors, tensor, 0, n_elements + 1, &error) != CKPT_OK);
  free(elements);
}

static inline int fuzz_tensors(const char *name, const uint8_t *data, size_t size) {
  ckpt_read_options options = CKPT_READ_OPTIONS;
  ckpt_file *file = NULL;
  ckpt_tensors *tensors = NULL;
  ckpt_error error;
  options.inflate_limit_n_bytes = 1 << 22;
  ckpt_status status = ckpt_file_from_bytes(&file, name, data, size, &options, &error);
  fuzz_expect_error(status, &error);
  if (status == CKPT_OK) {
    status = ckpt_tensors_from_file(&tensors, file, &options, &error);
    fuzz_expect_error(status, &error);
  }
  for (size_t i = 0; tensors && i < ckpt_tensors_count(tensors); i++) {
    const ckpt_tensor *tensor = ckpt_tensors_at(tensors, i), *found = NULL;
    if (i > 0) fuzz_expect(strcmp(ckpt_tensors_at(tensors, i - 1)->name, tensor->name) < 0);
    fuzz_expect(ckpt_tensors_find(&found, tensors, tensor->name, &error) == CKPT_OK && found == tensor);
    fuzz_read_tensor(tensors, tensor);
  }
  ckpt_tensors_close(tensors);
  ckpt_file_close(file);
  return 0;
}

#endif
