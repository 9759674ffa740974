/* The CPU: threads, SIMD levels, and whether they give the bits they must. */
#include <stdlib.h>
#include <string.h>

#include "doctor.h"
#include "self_test.h"

static bool has_level(const sexp_processor *cpu, const char *simd) {
  for (size_t i = 0; i < cpu->n_levels; i++)
    if (strcmp(cpu->levels[i], simd) == 0) return true;
  return false;
}

static char *list_levels(doctor *d, const sexp_processor *cpu) {
  char *levels = NULL;
  ckpt_json_key(d->facts, "levels"), ckpt_json_begin_array(d->facts);
  for (size_t i = 0; i < cpu->n_levels; i++) {
    ckpt_json_string(d->facts, cpu->levels[i]);
    doctor_add(&levels, ", ", cpu->levels[i]);
  }
  ckpt_json_end_array(d->facts);
  return levels;
}

static void end_self_test(doctor *d, const sexp_processor *cpu, const char *simd, const char *words) {
  static const char advice[] = "compute nothing with this build on this machine, and report it";
  self_test test;
  self_test_run(&test, simd, cpu->threads);
  doctor_fact_number(d, "self_test_digests", (int64_t)test.n);
  doctor_fact_number(d, "self_test_equal", (int64_t)test.n_equal);
  doctor_fact(d, "self_test_parameters", test.parameters[0] ? test.parameters : NULL);
  size_t n_errors = sexp_messages_count(test.errors);
  const char *error = n_errors ? sexp_messages_get(test.errors, 0)->message : "out of memory";
  if (!test.n)
    doctor_end(d, DOCTOR_FAIL, "see whether the machine lets this process have threads and memory",
               "%s; the numerics self-test could not be computed: %s", words, error);
  else if (test.n_equal < test.n)
    doctor_end(d, DOCTOR_FAIL, advice, "%s; numerics self-test %zu of %zu digests, the first that differs: %s", words,
               test.n_equal, test.n, test.different);
  else if (!test.known)
    doctor_end(d, DOCTOR_FAIL, advice, "%s; numerics self-test: parameters %s, not those of other machines", words,
               test.parameters);
  else
    doctor_end(d, DOCTOR_OK, NULL, "%s; numerics self-test %zu of %zu digests", words, test.n_equal, test.n);
  sexp_messages_free(test.errors);
}

void doctor_check_processor(doctor *d) {
  const char *asked = getenv("SEXPGPU_SIMD");
  sexp_processor cpu;
  sexp_processor_look(&cpu);
  doctor_begin(d, "cpu");
  const char *simd = asked ? asked : cpu.simd;
  doctor_fact_number(d, "threads", cpu.threads);
  doctor_fact(d, "simd", simd);
  char *levels = list_levels(d, &cpu);
  char *words = doctor_text("%d thread%s, %s%s (levels: %s)", cpu.threads, cpu.threads == 1 ? "" : "s", simd,
                            asked ? " (SEXPGPU_SIMD)" : "", levels);
  if (has_level(&cpu, simd))
    end_self_test(d, &cpu, simd, words);
  else
    doctor_end(d, DOCTOR_FAIL, "unset it, or set one of these", "SEXPGPU_SIMD is \"%s\"; levels here: %s", simd,
               levels);
  free(words);
  free(levels);
}
