/* Libraries of the CUDA device. */
#include <stdlib.h>

#include "../../libsexp/sexp.h"
#include "../common/failure.h"
#include "doctor.h"

static const char advice[] = "runs of this version use the CPU and need none of it";

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

void doctor_check_libraries(doctor *d) {
  sexp_libraries *libraries = sexp_libraries_find(NULL);
  if (!libraries) exit(tool_no_memory());
  for (size_t i = 0; i < libraries->n; i++) tell(d, &libraries->items[i]);
  if (libraries->unbuilt) {
    doctor_begin(d, "cuda");
    doctor_end(d, DOCTOR_WARN, advice, "no library was looked for: %s", libraries->unbuilt);
  }
  sexp_libraries_free(libraries);
}
