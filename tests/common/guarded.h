/* Memory for operands of kernels: what is read or written beside it ends the test. */
#ifndef TESTS_GUARDED_H
#define TESTS_GUARDED_H

#include <stdbool.h>
#include <stddef.h>

typedef struct guarded {
  void *data;
  char *pages;
  size_t n_mapped;
} guarded;

/* n_bytes, all 0xff, between two pages without access: they end where the second begins, or begin where the first
 * ends. Owned by the caller (guarded_free). */
guarded guarded_new(size_t n_bytes, bool at_end);
void guarded_free(guarded *g);

#endif
