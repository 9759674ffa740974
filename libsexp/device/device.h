/* An opened device, as what opened it shows it to a run. */
#ifndef SX_DEVICE_DEVICE_H
#define SX_DEVICE_DEVICE_H

#include "../sexp.h"
#include "backend.h"

/* The first member of what sexp_device_open gives. */
struct sexp_device {
  sx_backend *backend;
  sexp_device_facts facts;
};

#endif
