#include "location.h"

#include <string.h>

#include "file.h"
#include "s3.h"

ckpt_status ckpt_location_open(ckpt_location **out, const char *name, bool create, ckpt_s3 *s3, ckpt_error *error) {
  *out = NULL;
  if (s3 && ck_s3_is_name(name)) return ck_s3_location_open(out, name, create, s3, error);
  ckpt_status status = ck_refuse_s3(name, error);
  return status == CKPT_OK ? ck_directory_open(out, name, create, error) : status;
}

ckpt_status ckpt_location_clean(int64_t *n_out, ckpt_location *location, ckpt_error *error) {
  return location->ops->clean(n_out, location, error);
}

void ckpt_location_close(ckpt_location *location) {
  if (location) location->ops->close(location);
}

bool ck_parse_step(int64_t *out, const char *name, const char *prefix, bool more) {
  if (strncmp(name, prefix, strlen(prefix)) != 0) return false;
  const char *digits = name + strlen(prefix);
  size_t n = strspn(digits, "0123456789");
  if (n == 0 || (n > 1 && digits[0] == '0') || (more ? digits[n] != '-' : digits[n] != 0)) return false;
  int64_t value = 0;
  for (size_t i = 0; i < n; i++) {
    int digit = digits[i] - '0';
    if (value > (INT64_MAX - digit) / 10) return false;
    value = value * 10 + digit;
  }
  *out = value;
  return true;
}

int ck_by_step(const void *left, const void *right) {
  int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
  return a < b ? -1 : a > b;
}
