/* ls LOCATION: a line for each checkpoint. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../common/format.h"
#include "../common/table.h"
#include "command.h"
#include "open.h"
#include "words.h"

/* "2026-11-29T12:01:07Z" as "2026-11-29 12:01:07"; anything else as it is. */
static char *written(const char *created) {
  if (!created) return tool_text("-");
  size_t n = strlen(created);
  if (n == 20 && created[10] == 'T' && created[19] == 'Z') return tool_text("%.10s %.8s", created, created + 11);
  return tool_text("%s", created);
}

static void add_whole(table *t, const ckpt_checkpoint *checkpoint) {
  const ckpt_experiment *experiment = ckpt_checkpoint_experiment(checkpoint);
  char size[32], choices[CKPT_SHA256_TEXT];
  words_choices_digest(choices, experiment);
  table_cell(t, written(experiment->created));
  table_cell(t, tool_text("%s", tool_bytes(size, (int64_t)ckpt_checkpoint_n_bytes(checkpoint))));
  table_cell(t, words_short(experiment->digest, true));
  table_cell(t, choices[0] ? words_short(choices, false) : tool_text("-"));
}

static void print_entry_json(ckpt_json *json, const ckpt_checkpoint *checkpoint, int64_t step, const char *path,
                             const ckpt_error *error) {
  char choices[CKPT_SHA256_TEXT] = "";
  ckpt_json_begin_object(json);
  ckpt_json_key(json, "record"), ckpt_json_string(json, "checkpoint");
  ckpt_json_key(json, "step"), ckpt_json_integer(json, step);
  ckpt_json_key(json, "path"), ckpt_json_string(json, path);
  ckpt_json_key(json, "complete"), ckpt_json_bool(json, checkpoint != NULL);
  if (checkpoint) {
    const ckpt_experiment *experiment = ckpt_checkpoint_experiment(checkpoint);
    words_choices_digest(choices, experiment);
    ckpt_json_key(json, "created"), ckpt_json_string(json, experiment->created);
    ckpt_json_key(json, "size"), ckpt_json_unsigned(json, ckpt_checkpoint_n_bytes(checkpoint));
    ckpt_json_key(json, "digest"), ckpt_json_string(json, experiment->digest);
    ckpt_json_key(json, "choices"), ckpt_json_string(json, choices[0] ? choices : NULL);
  } else {
    ckpt_json_key(json, "error"), ckpt_json_begin_object(json);
    ckpt_json_key(json, "code"), ckpt_json_string(json, error->code);
    ckpt_json_key(json, "message"), ckpt_json_string(json, error->message);
    ckpt_json_end_object(json);
  }
  ckpt_json_end_object(json);
  command_print_json(json);
}

/* What cannot be read for another reason than its content is an error of the listing. */
static int list_one(table *t, ckpt_json *json, ckpt_location *location, const char *name, int64_t step) {
  ckpt_checkpoint *checkpoint = NULL;
  ckpt_error error;
  ckpt_status status = ckpt_checkpoint_open(&checkpoint, location, step, &error);
  if (json) {
    char *path = tool_text("%s/step-%" PRId64, name, step);
    print_entry_json(json, checkpoint, step, path, &error);
    free(path);
  } else {
    table_row(t);
    table_cell(t, tool_text("step-%" PRId64, step));
    if (checkpoint) add_whole(t, checkpoint);
    if (!checkpoint) table_cell(t, tool_text("torn (%s), not used", words_torn(&error)));
  }
  ckpt_checkpoint_close(checkpoint);
  bool unread = status == CKPT_IO && strcmp(error.code, "E-CKPT-011") != 0;
  return unread ? tool_fail_ckpt(&error) : TOOL_DONE;
}

static int list_all(ckpt_location *location, const char *name, bool as_json) {
  ckpt_entry *entries = NULL;
  ckpt_error error;
  size_t n = 0;
  int status = TOOL_DONE;
  table t = {.align = "llrll"};
  ckpt_json *json = as_json ? command_json() : NULL;
  if (ckpt_checkpoint_list(&entries, &n, location, &error) != CKPT_OK) status = tool_fail_ckpt(&error);
  if (n > 0 && !json) {
    static const char *const heads[] = {"step", "written", "size", "digest", "choices"};
    table_row(&t);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) table_cell(&t, tool_text("%s", heads[i]));
  }
  for (size_t i = 0; i < n; i++) {
    int each = list_one(&t, json, location, name, entries[i].step);
    if (each) status = each;
  }
  if (!json) table_print(&t, stdout);
  if (!status && n == 0 && !json) fprintf(stderr, "%s holds no checkpoints\n", name);
  table_free(&t);
  ckpt_json_free(json);
  free(entries);
  return status;
}

int command_ls(int argc, char **argv) {
  bool json = false;
  const tool_setting settings[] = {{"json", 'j', NULL, NULL, TOOL_FLAG, &json, "one JSON object a line"}};
  const tool_command_usage usage = {
      "sexpgpu-checkpoint ls", "LOCATION", "Lists the checkpoints of a location, the torn too.", settings, 1, 1, 1};
  tool_list operands;
  bool exit_now = false;
  ckpt_location *location = NULL;
  int status = tool_command_read(&usage, argc, argv, &operands, &exit_now);
  if (!status && !exit_now) status = checkpoint_open_location(&location, operands.items[0], false);
  if (location) status = list_all(location, operands.items[0], json);
  ckpt_location_close(location);
  tool_list_free(&operands);
  return status;
}
