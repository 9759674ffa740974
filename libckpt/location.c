#include "location.h"

#include "file.h"

ckpt_status ckpt_location_open(ckpt_location **out, const char *name, bool create, ckpt_s3 *s3, ckpt_error *error) {
  *out = NULL;
  (void)s3;
  ckpt_status status = ck_refuse_s3(name, error);
  return status == CKPT_OK ? ck_directory_open(out, name, create, error) : status;
}

void ckpt_location_close(ckpt_location *location) {
  if (location) location->ops->close(location);
}
