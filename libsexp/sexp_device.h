/* The CUDA device of a run, and how its choices are made. Included by sexp.h.
 *
 *   sexp_device *device = NULL;
 *   sexp_device_options options = SEXP_DEVICE_OPTIONS_DEFAULT;
 *   if (sexp_device_open(&device, &messages, &options) == SEXP_OK) {
 *     run_options.device = device;
 *     run_options.chooser = &chooser;
 *     sexp_run_new(&run, &messages, program, &run_options, &host);
 *     …
 *     sexp_run_free(run);
 *     sexp_device_close(device);
 *   }
 *
 * A choice is a decision that a machine makes by measuring; each has a kind ("stacking", "recompute", "convolution",
 * "product") and a key. libsexp knows what can be chosen and runs candidates; the chooser decides and remembers. */
#ifndef SEXP_DEVICE_H
#define SEXP_DEVICE_H

#ifndef SEXP_H
#error "include sexp.h"
#endif

typedef struct sexp_device sexp_device;

typedef struct sexp_device_options {
  int ordinal;           /* as the driver numbers the devices that the process sees */
  const char *libraries; /* file or directory of the libraries; NULL: where the system's loader looks */
  const char *cubins;    /* directory of compiled kernels, made when it is missing; NULL: none are kept */
  int64_t memory_bytes;  /* free memory that plans assume; 0: the device's own */
  bool portable;         /* products, convolutions in the order of numerics 1: the CPU's bits */
  bool patterns;         /* hand-written kernels where a group of operations is one of theirs */
} sexp_device_options;
#define SEXP_DEVICE_OPTIONS_DEFAULT \
  { .patterns = true }

/* Opens the device: loads its libraries, takes a context. Errors: E-DEVICE, each naming what was searched and found. */
sexp_status sexp_device_open(sexp_device **device, sexp_messages **messages, const sexp_device_options *options);
/* After the runs on it are freed. */
void sexp_device_close(sexp_device *device);

/* What bits and speed rest on; borrowed from the device. */
typedef struct sexp_device_facts {
  const char *text; /* "compute_80 with 108 multiprocessors, cuBLAS 130101, cuDNN 91300, NVRTC 13.0, patterns on" */
  const char *gpu;  /* the marketing name */
  const char *libraries; /* names and versions as loaded, a JSON object */
  int64_t driver;        /* version of the driver's API, 13000 */
  int64_t capability;    /* 80 */
  int64_t multiprocessors;
  int64_t total_bytes, free_bytes; /* of memory, when it was opened */
} sexp_device_facts;
const sexp_device_facts *sexp_device_describe(const sexp_device *device);

/* How many devices the driver shows this process; 0 with *why filled where there is no driver. */
int sexp_device_count(const char *libraries, sexp_failure *why);

/* ---- choices ------------------------------------------------------------------------------------------------- */

typedef enum sexp_ran { SEXP_RAN, SEXP_RAN_OUT_OF_MEMORY, SEXP_RAN_REFUSED } sexp_ran;

/* One decision to be made. `work` is for the functions, which may be called until choose returns. */
typedef struct sexp_choice {
  const char *kind, *key;
  const char *const *values; /* the candidates, in the heuristic's order: the first is that of --deterministic */
  size_t n_values;
  /* Estimates each candidate's time by the cost model, from rates of the device that the chooser's `cost` remembers or
   * has measured. False: the model says nothing. NULL: there is none. */
  bool (*estimate)(void *work, double *estimated_ns);
  /* Does the candidate's work once, to its end. */
  sexp_ran (*run)(void *work, size_t candidate);
  /* Runs it on the fixed input of the probe and gives a digest of the output; NULL: it has no output of its own. */
  sexp_ran (*probe)(void *work, size_t candidate, uint64_t *digest);
  /* Time of the device that all runs until now have taken; does not go on between them. */
  int64_t (*now_ns)(void *work);
  /* A choice that is a measured number, not one of candidates (n_values 0): measures it, as text. */
  sexp_ran (*measure)(void *work, char *text, size_t n_text);
  void *work;
} sexp_choice;

/* A choice that a run needs, for the check of a record. */
typedef struct sexp_need {
  const char *kind, *key;
  const char *const *values; /* what can be taken; NULL: `takes` decides */
  size_t n_values;
  const char
      *words; /* what the device offers, for a refusal: "1, 2 or 4 fit in 38.1 GiB"; NULL: made from the values */
  /* Whether the device takes the value; else `words` says what it offers instead. */
  bool (*takes)(void *work, const struct sexp_need *need, const char *value, char *words, size_t n_words);
  void *work;
} sexp_need;

/* Functions that return int give 0, or nonzero with *why filled: the run is not made. */
typedef struct sexp_chooser {
  void *context;
  /* The value that a record pins, as recorded, without a check; NULL: none. */
  const char *(*recorded)(void *context, const char *kind, const char *key);
  /* Called once with everything that a run needs, before any memory of the device is taken. */
  int (*check)(void *context, const sexp_need *needs, size_t n_needs, sexp_failure *why);
  /* Decides: *value is one of the candidates, or text of a measured number; borrowed from the chooser. */
  int (*choose)(void *context, const sexp_choice *choice, const char **value, sexp_failure *why);
  /* Called by a choice's estimate: the time that the device takes for a standard piece of work ("copy 134217728
   * bytes"), as it is remembered, else as `measure` says and remembered from now on. -1: it is neither remembered nor
   * can it be, or the device refused: the model is not used then, as times that are measured again in each run might
   * decide otherwise in each. NULL: there is no such place. */
  int64_t (*cost)(void *context, const char *key, sexp_ran (*measure)(void *work, int64_t *time_ns), void *work);
} sexp_chooser;

/* What a run decided, in the order of its decisions; borrowed from the run. */
typedef struct sexp_decision {
  const char *kind, *key, *value;
} sexp_decision;
size_t sexp_run_decisions(const sexp_run *run, const sexp_decision **decisions);
/* Products of the run that cuBLAS decides by itself, one a shape, in the form of decisions for "ordinary": at most 64,
 * whose operands and results have 1 GiB together; those of the training graphs first. */
size_t sexp_run_products(const sexp_run *run, const sexp_decision **products);

/* Does once, on the fixed input of probes, what the value decides, or what cuBLAS decides for an "ordinary" product.
 * *digest is that of sexp_choice.probe: equal bits, equal digests. Takes memory of its own, and gives it back. A run
 * may be there, between steps. Unless SEXP_RAN, *why is filled: E-DEVICE-051. */
sexp_ran sexp_device_probe(uint64_t *digest, sexp_device *device, const char *kind, const char *key, const char *value,
                           sexp_failure *why);

#endif
