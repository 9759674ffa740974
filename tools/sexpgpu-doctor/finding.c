#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "../common/failure.h"
#include "../common/table.h"
#include "doctor.h"
#include "output.h"

static const char *const states[] = {[DOCTOR_OK] = "ok", [DOCTOR_WARN] = "warn", [DOCTOR_FAIL] = "fail"};

static char *print_text(const char *format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  int n = vsnprintf(NULL, 0, format, again);
  va_end(again);
  char *text = n < 0 ? NULL : malloc((size_t)n + 1);
  if (!text) exit(tool_no_memory());
  vsnprintf(text, (size_t)n + 1, format, arguments);
  return text;
}

char *doctor_text(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char *text = print_text(format, arguments);
  va_end(arguments);
  return text;
}

void doctor_add(char **list, const char *separator, const char *item) {
  char *longer = doctor_text("%s%s%s", *list ? *list : "", *list ? separator : "", item);
  free(*list);
  *list = longer;
}

/* ---- facts ---- */

void doctor_fact(doctor *d, const char *key, const char *text) {
  ckpt_json_key(d->facts, key);
  ckpt_json_string(d->facts, text);
}

void doctor_fact_number(doctor *d, const char *key, int64_t number) {
  ckpt_json_key(d->facts, key);
  if (number < 0)
    ckpt_json_null(d->facts);
  else
    ckpt_json_integer(d->facts, number);
}

void doctor_fact_bool(doctor *d, const char *key, bool value) {
  ckpt_json_key(d->facts, key);
  ckpt_json_bool(d->facts, value);
}

/* ---- findings ---- */

void doctor_begin(doctor *d, const char *name) {
  if (!d->facts) d->facts = ckpt_json_new(CKPT_JSON_LINE);
  if (!d->facts) exit(tool_no_memory());
  ckpt_json_reset(d->facts);
  ckpt_json_begin_object(d->facts);
  d->name = name;
}

/* A line is shown when it is known: some checks take their time. */
static void print_line(const doctor_finding *finding) {
  printf("%-5s %-13s ", states[finding->state], finding->name);
  table_put(finding->found, stdout);
  if (finding->advice) printf("; %s", finding->advice);
  putchar('\n');
  fflush(stdout);
}

void doctor_end(doctor *d, doctor_state state, const char *advice, const char *format, ...) {
  va_list arguments;
  if (d->n == d->room) {
    d->room = d->room ? d->room * 2 : 16;
    doctor_finding *grown = realloc(d->findings, d->room * sizeof *grown);
    if (!grown) exit(tool_no_memory());
    d->findings = grown;
  }
  size_t n_facts = 0;
  ckpt_json_end_object(d->facts);
  const char *facts = ckpt_json_text(d->facts, &n_facts);
  if (!facts) exit(tool_no_memory());
  doctor_finding *finding = &d->findings[d->n++];
  va_start(arguments, format);
  *finding = (doctor_finding){state, d->name, print_text(format, arguments),
                              doctor_text("%.*s", (int)strcspn(facts, "\n"), facts), advice};
  va_end(arguments);
  if (!d->as_json && !(d->quiet && state == DOCTOR_OK)) print_line(finding);
}

doctor_state doctor_worst(const doctor *d) {
  doctor_state worst = DOCTOR_OK;
  for (size_t i = 0; i < d->n; i++)
    if (d->findings[i].state > worst) worst = d->findings[i].state;
  return worst;
}

static void write_finding(ckpt_json *json, const doctor_finding *finding) {
  ckpt_json_begin_object(json);
  ckpt_json_key(json, "name"), ckpt_json_string(json, finding->name);
  ckpt_json_key(json, "state"), ckpt_json_string(json, states[finding->state]);
  ckpt_json_key(json, "found"), ckpt_json_string(json, finding->found);
  ckpt_json_key(json, "advice"), ckpt_json_string(json, finding->advice);
  ckpt_json_key(json, "facts"), ckpt_json_raw(json, finding->facts);
  ckpt_json_end_object(json);
}

void doctor_print_json(const doctor *d) {
  ckpt_json *json = ckpt_json_new(CKPT_JSON_LINE);
  size_t n = 0;
  if (!json) exit(tool_no_memory());
  ckpt_json_begin_object(json);
  ckpt_json_key(json, "record"), ckpt_json_string(json, "doctor");
  ckpt_json_key(json, "tool"), ckpt_json_string(json, "sexpgpu " SEXPGPU_VERSION);
  ckpt_json_key(json, "state"), ckpt_json_string(json, states[doctor_worst(d)]);
  ckpt_json_key(json, "findings"), ckpt_json_begin_array(json);
  for (size_t i = 0; i < d->n; i++)
    if (!d->quiet || d->findings[i].state != DOCTOR_OK) write_finding(json, &d->findings[i]);
  ckpt_json_end_array(json);
  ckpt_json_end_object(json);
  const char *text = ckpt_json_text(json, &n);
  if (!text) exit(tool_no_memory());
  fwrite(text, 1, n, stdout);
  ckpt_json_free(json);
}

void doctor_release(doctor *d) {
  for (size_t i = 0; i < d->n; i++) {
    free(d->findings[i].found);
    free(d->findings[i].facts);
  }
  free(d->findings);
  ckpt_json_free(d->facts);
  tool_credentials_free(&d->credentials);
}
