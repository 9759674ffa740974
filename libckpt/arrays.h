/* Arrays to write or digest: order, checks, and their canonical bytes piece by piece. */
#ifndef CK_ARRAYS_H
#define CK_ARRAYS_H

#include "ckpt.h"

/* Path and shape. Errors: E-CKPT-005. */
ckpt_status ck_array_check(uint64_t *n_bytes, const ckpt_array *array, ckpt_error *error);

/* Checked pointers in byte order of the paths; the list is owned. Errors: E-CKPT-005, E-CKPT-006. */
ckpt_status ck_arrays_sort(const ckpt_array ***out, const ckpt_array *arrays, size_t n, ckpt_error *error);

/* Gives canonical bytes of an array to `use`, in order. */
typedef ckpt_status ck_bytes_user(void *context, const void *bytes, size_t n_bytes, ckpt_error *error);
ckpt_status ck_array_each(const ckpt_array *array, ck_bytes_user *use, void *context, ckpt_error *error);

#endif
