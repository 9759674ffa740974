/* A device for tests of the run layer: it does not share the host's memory, does nothing before finish, and executes on
 * the CPU engine, so that a run on it has the CPU's bits. An address that is not its own, memory of the host that was
 * not taken for it, overlapping outputs, anything not given back and a decision that does not return end the test. */
#ifndef TESTS_STRICT_DEVICE_H
#define TESTS_STRICT_DEVICE_H

#include "../../libsexp/sexp.h"

typedef struct strict_device strict_device;

typedef enum strict_failure { STRICT_FAILS_MEMORY, STRICT_FAILS_FOR_GOOD } strict_failure;

typedef struct strict_counts {
  int64_t n_done;  /* pieces of work that were done or left out */
  int64_t n_timed; /* pieces of work for the cost model */
  int64_t n_replayed, n_recorded, n_executed, n_uploads, n_downloads;
  int64_t taken_bytes, most_bytes; /* now, and at one time at most */
} strict_counts;

/* Ends the test where there is no memory. */
strict_device *strict_device_open(void);
/* Ends the test where anything was not given back. */
void strict_device_close(strict_device *device);
sexp_device *strict_device_of(strict_device *device);

/* Bytes that it gives at most. */
void strict_device_set_room(strict_device *device, int64_t n_bytes);
/* The n-th piece of work, or execution where memory is to lack, from now on (1: the next) fails like that. */
void strict_device_fail(strict_device *device, strict_failure failure, int64_t n);
/* Executions of plans with more elements in their block than this fail for lack of memory; 0: none. */
void strict_device_fail_above(strict_device *device, int64_t block_bytes);
void strict_device_keep_no_sequences(strict_device *device);
const strict_counts *strict_device_counts(strict_device *device);

#endif
