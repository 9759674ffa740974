/* sexpgpu-doctor: what this machine can run, and what is wrong with it. */
#include <stdio.h>

#include "../common/failure.h"
#include "../common/settings.h"
#include "output.h"

static int read_settings(doctor *d, int argc, char **argv, bool *exit_now) {
  const tool_setting table[] = {
      {"json", 'j', NULL, NULL, TOOL_FLAG, &d->as_json, "one JSON object, with every fact"},
      {"verify", 0, "RECORD", NULL, TOOL_TEXT, &d->verify,
       "instead of all that: compares a record's bit probes with what the device computes"},
      {"quiet", 'q', NULL, NULL, TOOL_FLAG, &d->quiet, "nothing about what is well"},
  };
  const tool_usage usage = {"sexpgpu-doctor", "", "Says what this machine can run, and what is wrong with it.", table,
                            sizeof table / sizeof table[0]};
  tool_list operands = {0};
  int status = tool_settings_read(&usage, argc, argv, &operands, exit_now);
  if (!status && operands.n)
    status = tool_fail(TOOL_INPUT, TOOL_E_ENV_OPERANDS, "found %zu operands, expected none", operands.n);
  tool_list_free(&operands);
  return status;
}

static void look(doctor *d) {
  static void (*const checks[])(doctor *) = {
      doctor_check_processor, doctor_check_memory,  doctor_check_store,     doctor_check_libraries,
      doctor_check_storage,   doctor_check_scratch, doctor_check_variables,
  };
  tool_credentials_read(&d->credentials);
  for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) checks[i](d);
  if (d->as_json) doctor_print_json(d);
}

int main(int argc, char **argv) {
  doctor d = {0};
  bool exit_now = false;
  int status = read_settings(&d, argc, argv, &exit_now);
  if (!status && !exit_now && d.verify) {
    status = doctor_verify(d.verify, d.as_json);
  } else if (!status && !exit_now) {
    look(&d);
    status = doctor_worst(&d) == DOCTOR_FAIL ? TOOL_NO : TOOL_DONE;
  }
  doctor_release(&d);
  return tool_end_output(status);
}
