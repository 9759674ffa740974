/* What sexpgpu-choices asks of tools that open a device. */
#ifndef CHOICES_DEVICE_H
#define CHOICES_DEVICE_H

#include "../common/settings.h"

typedef struct device_check {
  const char *file, *run, *variant; /* run and variant NULL: the file's only one, none */
  tool_list sets;
  bool json;
} device_check;

/* Whether a CUDA run of the file takes the record: its refusal or its level is printed. The exit status: 0, 3 refused,
 * or that of another failure. */
int check_on_device(const char *record, const device_check *check);

#endif
