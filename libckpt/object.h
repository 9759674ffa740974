/* An object of fixed content: of one ETag. It is read in ranges until it is asked for whole; then it is fetched once,
 * into a file without a name in the scratch directory. */
#ifndef CK_OBJECT_H
#define CK_OBJECT_H

#include "ckpt.h"

typedef struct ck_object ck_object;

/* Held once. The texts are copied. */
ckpt_status ck_object_new(ck_object **out, ckpt_s3 *s3, const char *bucket, const char *key, const char *etag,
                          uint64_t size, ckpt_error *error);
ck_object *ck_object_hold(ck_object *object);
void ck_object_release(ck_object *object); /* takes NULL */

uint64_t ck_object_size(const ck_object *object);
const char *ck_object_etag(const ck_object *object);

/* By any number of threads at once. Errors: those of ck_s3_read, E-DATA-102. */
ckpt_status ck_object_read(void *out, ck_object *object, uint64_t offset, size_t n_bytes, ckpt_error *error);

/* The descriptor of the fetched object, which keeps it. Errors: those of ck_s3_fetch, E-S3-021. */
ckpt_status ck_object_fetch(int *fd, ck_object *object, ckpt_error *error);
bool ck_object_is_fetched(ck_object *object);

#endif
