/* --verify: the bit probes of a record, made again on this machine's device. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/choices.h"
#include "../common/engine.h"
#include "../common/failure.h"
#include "../common/format.h"
#include "../common/settings.h"
#include "../common/table.h"
#include "output.h"

typedef struct verification {
  const char *of; /* device of the record */
  sexp_device *device;
  const char *here;
  const choices_probe *probes;
  size_t n, n_match;
  ckpt_json *json; /* NULL: in words */
} verification;

static int open_device(sexp_device **device) {
  static const char variable[] = "SEXPGPU_PATTERNS";
  const char *patterns = getenv(variable);
  const char *expected = patterns ? tool_setting_expected(TOOL_BOOLEAN, patterns) : NULL;
  const tool_engine_settings settings = {
      .device = "cuda", .devices = getenv("SEXPGPU_DEVICES"), .patterns = !patterns || strcmp(patterns, "0") != 0};
  if (expected)
    return tool_fail(TOOL_INPUT, TOOL_E_ENV_VALUE, "%s: found \"%s\", expected %s", variable, patterns, expected);
  int status = tool_engine_check(&settings);
  return status ? status : tool_engine_open(device, &settings);
}

/* ---- what is told of a probe ---- */

static void hexadecimal(char text[20], uint64_t digest) { snprintf(text, 20, "%016" PRIx64, digest); }

static void write_text(ckpt_json *json, const char *name, const char *text) {
  ckpt_json_key(json, name), ckpt_json_string(json, text);
}

/* here: NULL where it could not be made, and why. */
static void tell(const verification *v, const choices_probe *probe, bool match, const char *here, const char *why) {
  char recorded[20];
  hexadecimal(recorded, probe->digest);
  if (v->json) {
    ckpt_json_begin_object(v->json);
    write_text(v->json, "kind", probe->kind);
    write_text(v->json, "key", probe->key);
    write_text(v->json, "value", probe->value);
    write_text(v->json, "recorded", recorded);
    write_text(v->json, "here", here);
    ckpt_json_key(v->json, "match"), ckpt_json_bool(v->json, match);
    write_text(v->json, "why", why);
    ckpt_json_end_object(v->json);
    return;
  }
  if (match) return;
  fputs(here ? "differs  " : "not made  ", stdout);
  table_put(probe->kind, stdout);
  putchar(' ');
  table_put(probe->key, stdout);
  if (probe->value) fputs(" = ", stdout), table_put(probe->value, stdout);
  printf(here ? ": %s is recorded, here it is %s\n" : ": %s is recorded; %s\n", recorded, here ? here : why);
}

static void verify_one(verification *v, const choices_probe *probe) {
  uint64_t digest = 0;
  char here[20];
  sexp_failure why;
  const char *value = probe->value ? probe->value : "ordinary";
  if (sexp_device_probe(&digest, v->device, probe->kind, probe->key, value, &why) != SEXP_RAN) {
    tell(v, probe, false, NULL, why.message);
    return;
  }
  hexadecimal(here, digest);
  v->n_match += digest == probe->digest;
  tell(v, probe, digest == probe->digest, here, NULL);
}

/* ---- all of them ---- */

static void say_summary(const verification *v) {
  if (v->n)
    printf("%zu of %zu probe%s match%s\n", v->n_match, v->n, tool_plural((int64_t)v->n), v->n == 1 ? "es" : "");
  else
    puts("the record has no probes");
  if (strcmp(v->of, v->here) == 0) return;
  fputs("  the record is of    ", stdout), table_put(v->of, stdout);
  fputs("\n  this device is      ", stdout), table_put(v->here, stdout);
  putchar('\n');
}

static int end_json(const verification *v) {
  size_t n = 0;
  ckpt_json_end_array(v->json);
  ckpt_json_key(v->json, "n_probes"), ckpt_json_integer(v->json, (int64_t)v->n);
  ckpt_json_key(v->json, "n_match"), ckpt_json_integer(v->json, (int64_t)v->n_match);
  ckpt_json_end_object(v->json);
  const char *text = ckpt_json_text(v->json, &n);
  if (!text) return tool_no_memory();
  fwrite(text, 1, n, stdout);
  return TOOL_DONE;
}

static int verify(verification *v, bool as_json) {
  int status = TOOL_DONE;
  if (as_json) {
    v->json = ckpt_json_new(CKPT_JSON_LINE);
    if (!v->json) return tool_no_memory();
    ckpt_json_begin_object(v->json);
    write_text(v->json, "record", v->of);
    write_text(v->json, "device", v->here);
    ckpt_json_key(v->json, "probes"), ckpt_json_begin_array(v->json);
  }
  for (size_t i = 0; i < v->n; i++) verify_one(v, &v->probes[i]);
  if (as_json)
    status = end_json(v);
  else
    say_summary(v);
  ckpt_json_free(v->json);
  return status ? status : v->n && v->n_match == v->n ? TOOL_DONE : TOOL_NO;
}

/* Of a record of several devices the rows of this one. */
static int select_device(choices_record **record, const char *here) {
  const choices_device *devices = NULL;
  choices_record *selected = NULL;
  choices_error error;
  if (choices_record_devices(*record, &devices) < 2) return TOOL_DONE;
  if (choices_record_select(&selected, *record, here, NULL, &error) != CHOICES_OK) return tool_fail_choices(&error);
  choices_record_free(*record);
  *record = selected;
  return TOOL_DONE;
}

static const char *device_of(const choices_record *record) {
  const choices_device *devices = NULL;
  return choices_record_devices(record, &devices) ? devices[0].device : "no device";
}

int doctor_verify(const char *name, bool as_json) {
  choices_record *record = NULL;
  choices_error error;
  verification v = {0};
  if (choices_record_read(&record, name, &error) != CHOICES_OK) return tool_fail_choices(&error);
  int status = open_device(&v.device);
  if (status == TOOL_DEVICE)
    tool_fail(status, TOOL_E_CHOICE_DEVICE, "the record is of %s; no device could be opened here", device_of(record));
  if (!status) v.here = sexp_device_describe(v.device)->text;
  if (!status) status = select_device(&record, v.here);
  if (!status) {
    v.of = device_of(record);
    v.n = choices_record_probes(record, &v.probes);
    status = verify(&v, as_json);
  }
  sexp_device_close(v.device);
  choices_record_free(record);
  return status;
}
