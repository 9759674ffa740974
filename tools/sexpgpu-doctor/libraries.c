/* Libraries of the CUDA device. */
#include <stdlib.h>
#include <string.h>

#include "../../libsexp/sexp.h"
#include "../common/engine.h"
#include "../common/failure.h"
#include "../common/format.h"
#include "doctor.h"

static const char advice[] = "runs with --device cuda need it; those on the CPU need none of it";

static void tell(doctor *d, const sexp_library *library) {
  doctor_begin(d, "cuda");
  doctor_fact(d, "library", library->name);
  doctor_fact(d, "path", library->path);
  doctor_fact(d, "version", library->version);
  if (library->missing)
    doctor_end(d, DOCTOR_WARN, advice, "%s", library->missing);
  else
    doctor_end(d, DOCTOR_OK, NULL, "%s %s, %s", library->name, library->version ? library->version : "of no version",
               library->path);
}

/* Opens the device that a run would; a malformed value is a finding about the environment. */
static void check_device(doctor *d) {
  sexp_device_options options = SEXP_DEVICE_OPTIONS_DEFAULT;
  const char *ordinal = getenv("SEXPGPU_DEVICES"), *patterns = getenv("SEXPGPU_PATTERNS");
  sexp_device *device = NULL;
  sexp_messages *messages = NULL;
  sexp_failure why;
  char free_bytes[32], all[32];
  int n = sexp_device_count(NULL, &why);
  if (ordinal) tool_engine_ordinal(&options.ordinal, ordinal);
  options.patterns = !patterns || strcmp(patterns, "0") != 0;
  doctor_begin(d, "device");
  doctor_fact_number(d, "devices", n);
  if (n < 1) {
    doctor_end(d, DOCTOR_WARN, advice, "%s", why.message);
  } else if (sexp_device_open(&device, &messages, &options) != SEXP_OK) {
    const sexp_message *first = sexp_messages_count(messages) ? sexp_messages_get(messages, 0) : NULL;
    doctor_end(d, DOCTOR_FAIL, "see SEXPGPU_DEVICES and the line for each library", "%s: %s", first ? first->code : "E-RUN-001",
               first ? first->message : "out of memory");
  } else {
    const sexp_device_facts *facts = sexp_device_describe(device);
    doctor_fact(d, "facts", facts->text);
    doctor_fact(d, "gpu", facts->gpu);
    doctor_fact_number(d, "free_bytes", facts->free_bytes);
    doctor_fact_number(d, "total_bytes", facts->total_bytes);
    doctor_end(d, DOCTOR_OK, NULL, "%d of %d: %s, %s, %s free of %s", options.ordinal, n, facts->gpu, facts->text,
               tool_bytes(free_bytes, facts->free_bytes), tool_bytes(all, facts->total_bytes));
  }
  sexp_device_close(device);
  sexp_messages_free(messages);
}

void doctor_check_libraries(doctor *d) {
  sexp_libraries *libraries = sexp_libraries_find(NULL);
  if (!libraries) exit(tool_no_memory());
  for (size_t i = 0; i < libraries->n; i++) tell(d, &libraries->items[i]);
  if (libraries->unbuilt) {
    doctor_begin(d, "cuda");
    doctor_end(d, DOCTOR_WARN, advice, "no library was looked for: %s", libraries->unbuilt);
  }
  bool has_driver = !libraries->unbuilt && libraries->n && !libraries->items[0].missing;
  sexp_libraries_free(libraries);
  if (has_driver) check_device(d);
}
