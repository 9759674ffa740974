/* export, import, merge: the store as a stream and back. */
#include <stdlib.h>
#include <string.h>

#include "command.h"

static int print_record(choices_record *record, bool measurements) {
  choices_error error;
  char *text = NULL;
  if (measurements && choices_record_measurements(&text, record, &error) != CHOICES_OK)
    return tool_fail_choices(&error);
  const char *plain = measurements ? text : choices_record_text(record);
  fputs(tool_memory((void *)plain), stdout);
  free(text);
  return TOOL_DONE;
}

int command_export(int argc, char **argv) {
  const char *device = NULL, *kind = NULL;
  bool measurements = false, exit_now = false;
  const tool_setting settings[] = {
      {"device", 'd', "D", NULL, TOOL_TEXT, &device, "of one device alone: its text, or #N of `list`"},
      {"kind", 'k', "K", NULL, TOOL_TEXT, &kind, "of one kind alone, as convolution"},
      {"measurements", 'm', NULL, NULL, TOOL_FLAG, &measurements, "with candidates, timings, probes and times"},
  };
  const tool_command_usage usage = {"sexpgpu-choices export", "", "Prints the store as JSON Lines.", settings, 3, 0, 0};
  tool_list operands;
  choices_record *record = NULL;
  int status = tool_command_read(&usage, argc, argv, &operands, &exit_now);
  if (!status && !exit_now && operands.n)
    status = tool_fail(TOOL_INPUT, TOOL_E_ENV_OPERANDS, "found \"%s\", expected none", operands.items[0]);
  if (!status && !exit_now) status = command_rows(&record, device, kind);
  if (record) status = print_record(record, measurements);
  choices_record_free(record);
  tool_list_free(&operands);
  return status;
}

/* --keep and --replace, of which at most one. */
static int read_conflict(choices_conflict *out, bool keep, bool replace) {
  *out = keep ? CHOICES_CONFLICT_KEEP : replace ? CHOICES_CONFLICT_REPLACE : CHOICES_CONFLICT_REFUSE;
  if (!keep || !replace) return TOOL_DONE;
  return tool_fail(TOOL_INPUT, TOOL_E_ENV_OPTION, "--keep and --replace contradict each other");
}

static int import(const char *name, choices_conflict conflict, bool quiet) {
  choices_error error;
  choices_record *record = NULL;
  choices_store *store = NULL;
  choices_imported counts;
  choices_status status = choices_record_read(&record, name, &error);
  if (status == CHOICES_OK) status = tool_store_open(&store, CHOICES_WRITE, &error);
  if (status == CHOICES_OK) status = choices_store_import(&counts, store, record, conflict, &error);
  choices_store_close(store);
  choices_record_free(record);
  if (status != CHOICES_OK) return tool_fail_choices(&error);
  if (!quiet)
    fprintf(stderr, "%zu added, %zu the same, %zu kept, %zu replaced\n", counts.n_added, counts.n_same, counts.n_kept,
            counts.n_replaced);
  return TOOL_DONE;
}

int command_import(int argc, char **argv) {
  bool keep = false, replace = false, quiet = false, exit_now = false;
  const tool_setting settings[] = {
      {"keep", 0, NULL, NULL, TOOL_FLAG, &keep, "where the store has another value, leave it"},
      {"replace", 0, NULL, NULL, TOOL_FLAG, &replace, "where the store has another value, take the record's"},
      {"quiet", 'q', NULL, NULL, TOOL_FLAG, &quiet, "say nothing of what was done"},
  };
  const tool_command_usage usage = {"sexpgpu-choices import",
                                    "[FILE]",
                                    "Takes an export (or another store) into the store: all of it, or nothing.",
                                    settings,
                                    3,
                                    0,
                                    1};
  tool_list operands;
  choices_conflict conflict = CHOICES_CONFLICT_REFUSE;
  int status = tool_command_read(&usage, argc, argv, &operands, &exit_now);
  if (!status && !exit_now) status = read_conflict(&conflict, keep, replace);
  if (!status && !exit_now) status = import(operands.n ? operands.items[0] : "-", conflict, quiet);
  tool_list_free(&operands);
  return status;
}

static choices_status merge(choices_record **out, const tool_list *names, choices_conflict conflict,
                            choices_error *error) {
  choices_status status = choices_record_read(out, names->items[0], error);
  for (size_t i = 1; i < names->n && status == CHOICES_OK; i++) {
    choices_record *next = NULL, *both = NULL;
    status = choices_record_read(&next, names->items[i], error);
    if (status == CHOICES_OK) status = choices_record_merge(&both, *out, next, conflict, error);
    choices_record_free(next);
    choices_record_free(*out);
    *out = both;
  }
  return status;
}

int command_merge(int argc, char **argv) {
  bool keep = false, replace = false, measurements = false, exit_now = false;
  const tool_setting settings[] = {
      {"keep", 0, NULL, NULL, TOOL_FLAG, &keep, "of two values, take the earlier record's"},
      {"replace", 0, NULL, NULL, TOOL_FLAG, &replace, "of two values, take the later record's"},
      {"measurements", 'm', NULL, NULL, TOOL_FLAG, &measurements, "with candidates, timings, probes and times"},
  };
  const tool_command_usage usage = {
      "sexpgpu-choices merge", "A B...", "Prints several exports or stores as one export.", settings, 3, 2, 0};
  tool_list operands;
  choices_conflict conflict = CHOICES_CONFLICT_REFUSE;
  choices_error error;
  choices_record *record = NULL;
  int status = tool_command_read(&usage, argc, argv, &operands, &exit_now);
  if (!status && !exit_now) status = read_conflict(&conflict, keep, replace);
  if (!status && !exit_now && merge(&record, &operands, conflict, &error) != CHOICES_OK)
    status = tool_fail_choices(&error);
  if (!status && record) status = print_record(record, measurements);
  choices_record_free(record);
  tool_list_free(&operands);
  return status;
}
