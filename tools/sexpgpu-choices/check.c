/* check, path. */
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "device.h"

static void say_problem(void *context, const char *problem) {
  (void)context;
  table_put(problem, stdout);
  putchar('\n');
}

static int check_store(void) {
  choices_error error;
  choices_store *store = NULL;
  choices_store_facts facts;
  size_t n = 0;
  choices_status status = tool_store_open(&store, CHOICES_READ, &error);
  if (status == CHOICES_OK) status = choices_store_check(&n, store, say_problem, NULL, &error);
  if (status == CHOICES_OK && n == 0) {
    status = choices_store_look(&facts, store, &error);
    if (status == CHOICES_OK && facts.warning.code[0])
      fprintf(stderr, "%s: %s\n", facts.warning.code, facts.warning.message);
    if (status == CHOICES_OK)
      printf("ok  %s, %lld choice%s of %lld device%s%s\n", facts.path, (long long)facts.n_choices,
             facts.n_choices == 1 ? "" : "s", (long long)facts.n_devices, facts.n_devices == 1 ? "" : "s",
             facts.version ? "" : " (not made yet)");
  }
  choices_store_close(store);
  if (status != CHOICES_OK) return tool_fail_choices(&error);
  return n ? TOOL_NO : TOOL_DONE;
}

static int check_record(const char *name) {
  choices_error error;
  choices_record *record = NULL;
  const choices_device *devices = NULL;
  const choices_row *rows = NULL;
  if (choices_record_read(&record, name, &error) != CHOICES_OK) return tool_fail_choices(&error);
  size_t n_devices = choices_record_devices(record, &devices), n = choices_record_rows(record, &rows);
  const char *digest = tool_memory((void *)choices_record_digest(record));
  printf("ok  %zu choice%s of %zu device%s, digest %s\n", n, n == 1 ? "" : "s", n_devices, n_devices == 1 ? "" : "s",
         digest);
  for (size_t i = 0; i < n_devices; i++) {
    fputs("    of ", stdout);
    table_put(devices[i].device, stdout);
    putchar('\n');
  }
  puts("    a CPU run needs none of them");
  choices_record_free(record);
  return TOOL_DONE;
}

static int check_options(const tool_list *operands, const device_check *check) {
  bool more = check->run || check->variant || check->sets.n || check->json;
  if (check->file && !operands->n)
    return tool_fail(TOOL_INPUT, TOOL_E_ENV_OPERANDS, "found no operand, expected the RECORD for --file");
  if (more && !check->file)
    return tool_fail(TOOL_INPUT, TOOL_E_ENV_OPTION, "--run, --variant, --set and --json are for --file");
  return TOOL_DONE;
}

int command_check(int argc, char **argv) {
  bool exit_now = false;
  device_check check = {0};
  const tool_setting settings[] = {
      {"file", 'f', "F", NULL, TOOL_TEXT, &check.file, "whether a CUDA run of this experiment takes the record"},
      {"run", 'r', "NAME", NULL, TOOL_TEXT, &check.run, "the defrun of it; needed where it has several"},
      {"variant", 0, "NAME", NULL, TOOL_TEXT, &check.variant, "the defvariant whose knob values hold"},
      {"set", 's', "KNOB=VALUE", NULL, TOOL_LIST, &check.sets, "a knob's value; may be given again"},
      {"json", 'j', NULL, NULL, TOOL_FLAG, &check.json, "the refusal, or the level, as an object"}};
  const tool_command_usage usage = {"sexpgpu-choices check",
                                    "[RECORD]",
                                    "Reads all of the store, or of a record, and says what is wrong with it.",
                                    settings,
                                    sizeof settings / sizeof *settings,
                                    0,
                                    1};
  tool_list operands;
  int status = tool_command_read(&usage, argc, argv, &operands, &exit_now);
  if (!status && !exit_now) status = check_options(&operands, &check);
  if (!status && !exit_now && check.file)
    status = check_on_device(operands.items[0], &check);
  else if (!status && !exit_now)
    status = operands.n ? check_record(operands.items[0]) : check_store();
  tool_list_free(&operands);
  tool_list_free(&check.sets);
  return status;
}

int command_path(int argc, char **argv) {
  bool json = false, exit_now = false;
  const tool_setting settings[] = {{"json", 'j', NULL, NULL, TOOL_FLAG, &json, "an object, with the system's layer"}};
  const tool_command_usage usage = {
      "sexpgpu-choices path", "", "Prints where the store is, or would be made.", settings, 1, 0, 0};
  tool_list operands;
  tool_store_place place;
  choices_error error;
  choices_store *store = NULL;
  int status = tool_command_read(&usage, argc, argv, &operands, &exit_now);
  tool_store_find(&place);
  if (!status && !exit_now && operands.n)
    status = tool_fail(TOOL_INPUT, TOOL_E_ENV_OPERANDS, "found \"%s\", expected none", operands.items[0]);
  if (!status && !exit_now && !place.path && tool_store_open(&store, CHOICES_READ, &error) != CHOICES_OK)
    status = tool_fail_choices(&error);
  if (!status && !exit_now && json) {
    command_json_text("path", place.path, true);
    command_json_text("system", place.system, false);
    puts("}");
  } else if (!status && !exit_now) {
    puts(place.path);
  }
  choices_store_close(store);
  tool_store_place_free(&place);
  tool_list_free(&operands);
  return status;
}
