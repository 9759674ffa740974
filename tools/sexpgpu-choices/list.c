/* list and show: the rows of the store. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

/* "#1  compute_80 with …": what --device takes is shown. */
static void print_device(const choices_device *device, size_t number, size_t n) {
  fputs("device       ", stdout);
  if (n > 1) printf("#%zu  ", number);
  table_put(device->device, stdout);
  putchar('\n');
}

static void head(table *t, bool origin) {
  static const char *const heads[] = {"kind", "key", "value", "ahead", "bits", "measured"};
  table_row(t);
  for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) table_cell(t, tool_text("%s", heads[i]));
  if (origin) table_cell(t, tool_text("from"));
}

static void add(table *t, const choices_row *row, bool origin) {
  table_row(t);
  table_cell(t, tool_text("%s", row->kind));
  table_cell(t, command_short_key(row->key));
  table_cell(t, command_value(row->kind, row->value));
  table_cell(t, command_ahead(row->ahead));
  table_cell(t, tool_text("%s", command_bits(row->bits)));
  table_cell(t, row->measured ? tool_text("%.10s", row->measured) : tool_text("-"));
  if (origin) table_cell(t, tool_text("%s", row->origin ? row->origin : "-"));
}

static void print_tables(const choices_record *record) {
  const choices_device *devices = NULL;
  const choices_row *rows = NULL;
  size_t n_devices = choices_record_devices(record, &devices), n = choices_record_rows(record, &rows), at = 0;
  bool origin = false;
  for (size_t i = 0; i < n; i++) origin = origin || (rows[i].origin && strcmp(rows[i].origin, "system") == 0);
  for (size_t i = 0; i < n_devices; i++) {
    table t = {.align = origin ? "lllrlll" : "lllrll"};
    if (i) putchar('\n');
    print_device(&devices[i], i + 1, n_devices);
    head(&t, origin);
    for (; at < n && rows[at].device == i; at++) add(&t, &rows[at], origin);
    table_print(&t, stdout);
    table_free(&t);
  }
}

static void print_json(const choices_row *row, const choices_device *device) {
  command_json_text("record", "choice", true);
  command_json_text("device", device->device, false);
  command_json_text("kind", row->kind, false);
  command_json_text("key", row->key, false);
  command_json_value("value", row->value, row->is_json);
  if (row->executable[0]) command_json_text("executable", row->executable, false);
  if (row->mode[0]) command_json_text("mode", row->mode, false);
  if (row->ahead >= 0) printf(", \"ahead\": %.6g", row->ahead);
  command_json_text("bits", row->bits == CHOICES_BITS_UNKNOWN ? "unknown" : command_bits(row->bits), false);
  command_json_text("reason", row->reason, false);
  command_json_text("measured", row->measured, false);
  command_json_text("tool", row->tool, false);
  command_json_text("from", row->origin, false);
  puts("}");
}

int command_list(int argc, char **argv) {
  const char *device = NULL, *kind = NULL;
  bool json = false, table_wanted = false, exit_now = false;
  const tool_setting settings[] = {
      {"device", 'd', "D", NULL, TOOL_TEXT, &device, "of one device alone: its text, or #N"},
      {"kind", 'k', "K", NULL, TOOL_TEXT, &kind, "of one kind alone, as convolution"},
      {"json", 'j', NULL, NULL, TOOL_FLAG, &json, "an object a line; so it is in a pipe"},
      {"table", 't', NULL, NULL, TOOL_FLAG, &table_wanted, "a table; so it is on a terminal"},
  };
  const tool_command_usage usage = {"sexpgpu-choices list", "", "Lists the choices of the store.", settings, 4, 0, 0};
  tool_list operands;
  choices_record *record = NULL;
  const choices_device *devices = NULL;
  const choices_row *rows = NULL;
  int status = tool_command_read(&usage, argc, argv, &operands, &exit_now);
  if (!status && !exit_now && operands.n)
    status =
        tool_fail(TOOL_INPUT, TOOL_E_ENV_OPERANDS, "found \"%s\", expected none; show takes a key", operands.items[0]);
  if (!status && !exit_now) status = command_rows(&record, device, kind);
  if (record && (table_wanted || (!json && isatty(STDOUT_FILENO)))) {
    print_tables(record);
  } else if (record) {
    size_t n = choices_record_rows(record, &rows);
    choices_record_devices(record, &devices);
    for (size_t i = 0; i < n; i++) print_json(&rows[i], &devices[rows[i].device]);
  }
  choices_record_free(record);
  tool_list_free(&operands);
  return status;
}

static void say(const char *label, const char *text) {
  if (!text || !text[0]) return;
  printf("%-12s ", label);
  table_put(text, stdout);
  putchar('\n');
}

static void show(const choices_row *row, const choices_device *device) {
  char *ahead = command_ahead(row->ahead), *value = command_value(row->kind, row->value);
  say(row->kind, row->key);
  say("value", value);
  say("why", row->reason);
  if (row->ahead >= 0) say("ahead", ahead);
  say("bits", row->bits == CHOICES_BITS_UNKNOWN ? "not known whether it moves bits"
              : row->bits == CHOICES_BITS_MOVE  ? "moves: the candidates' outputs differ"
                                                : "neutral: the candidates' outputs are equal");
  say("device", device->device);
  say("gpu", device->gpu);
  say("libraries", device->libraries);
  if (device->driver) printf("%-12s %lld\n", "driver", (long long)device->driver);
  say("executable", row->executable);
  say("mode", row->mode);
  say("measured", row->measured);
  say("by", row->tool);
  say("from", row->origin);
  free(ahead);
  free(value);
}

int command_show(int argc, char **argv) {
  bool json = false, exit_now = false;
  const tool_setting settings[] = {{"json", 'j', NULL, NULL, TOOL_FLAG, &json, "an object a line"}};
  const tool_command_usage usage = {
      "sexpgpu-choices show", "KEY", "Shows the choices whose key is KEY, or else holds it.", settings, 1, 1, 1};
  tool_list operands;
  choices_record *record = NULL;
  const choices_device *devices = NULL;
  const choices_row *rows = NULL;
  size_t n_shown = 0;
  int status = tool_command_read(&usage, argc, argv, &operands, &exit_now);
  if (!status && !exit_now) status = command_rows(&record, NULL, NULL);
  size_t n = record ? choices_record_rows(record, &rows) : 0;
  if (record) choices_record_devices(record, &devices);
  for (int exact = 1; exact >= 0 && n_shown == 0; exact--)
    for (size_t i = 0; i < n; i++) {
      const char *key = operands.items[0];
      if (exact ? strcmp(rows[i].key, key) != 0 : !strstr(rows[i].key, key)) continue;
      if (!json && n_shown) putchar('\n');
      n_shown++;
      if (json)
        print_json(&rows[i], &devices[rows[i].device]);
      else
        show(&rows[i], &devices[rows[i].device]);
    }
  if (record && !n_shown)
    status = tool_fail(TOOL_INPUT, TOOL_E_CHOICE_NOT_FOUND, "found no key with \"%s\"", operands.items[0]);
  choices_record_free(record);
  tool_list_free(&operands);
  return status;
}
