/* show C: what a checkpoint is of, as a page. Labels stand in a column of 20. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../common/format.h"
#include "../common/table.h"
#include "command.h"
#include "json_members.h"
#include "open.h"
#include "words.h"

enum { LABEL = 18 }; /* and two spaces */

/* A line of the page; the text is taken over. */
static void say(table *t, const char *label, char *text) {
  table_row(t);
  table_cell(t, tool_text("%-*s", LABEL, label));
  table_cell(t, text);
}

static char *or_dash(const char *text) { return tool_text("%s", text ? text : "-"); }

static void say_run(table *t, const ckpt_experiment *e) {
  char step[32], records[32];
  say(t, "run",
      tool_text("%s%s%s%s%s, seed %" PRId64, e->slug ? e->slug : "-", e->run ? ", defrun " : "", e->run ? e->run : "",
                e->variant ? ", variant " : "", e->variant ? e->variant : "", e->seed));
  say(t, "step",
      tool_text("%s, %s record%s, stage %" PRId64, tool_grouped(step, e->step), tool_grouped(records, e->records),
                tool_plural(e->records), e->stage));
  for (size_t i = 0; i < e->n_sources; i++) {
    char sha256[CKPT_SHA256_TEXT] = "";
    ckpt_sha256_bytes(sha256, e->sources[i].text, strlen(e->sources[i].text), NULL);
    say(t, i == 0 ? "file" : "include", tool_text("%s, %s", e->sources[i].name, sha256));
  }
  for (size_t i = 0; i < e->n_knobs; i++)
    if (!e->knobs[i].source || strcmp(e->knobs[i].source, "default") != 0)
      say(t, "knob",
          tool_text("%s = %s (%s)", e->knobs[i].name, e->knobs[i].value,
                    e->knobs[i].source ? e->knobs[i].source : "-"));
}

static void say_tensors(table *t, const char *label, const ckpt_tensors *tensors, const ckpt_array *told) {
  uint64_t n_elements = 0, n_bytes = 0;
  size_t n = ckpt_tensors_count(tensors), widest = 0;
  char count[32], elements[32], bytes[32];
  for (size_t i = 0; i < n; i++) {
    const ckpt_tensor *tensor = ckpt_tensors_at(tensors, i);
    n_elements += tensor->n_elements;
    n_bytes += tensor->n_bytes;
    if (strlen(tensor->name) > widest) widest = strlen(tensor->name);
  }
  say(t, label,
      tool_text("%s tensor%s, %s element%s, %s", tool_grouped(count, (int64_t)n), tool_plural((int64_t)n),
                tool_grouped(elements, (int64_t)n_elements), tool_plural((int64_t)n_elements),
                tool_bytes(bytes, (int64_t)n_bytes)));
  if (widest > 40) widest = 40;
  for (size_t i = 0; i < n; i++) {
    const ckpt_tensor *tensor = ckpt_tensors_at(tensors, i);
    char *shape = words_shape(tensor->rank, tensor->dims);
    const ckpt_load *load = told[i].load;
    say(t, "",
        tool_text("%-*s  %-4s %s%s%s%s%s", (int)widest, tensor->name, ckpt_dtype_name(tensor->dtype), shape,
                  load ? ", loaded from " : "", load ? load->file : "", load ? " " : "", load ? load->tensor : ""));
    free(shape);
  }
}

static void say_data(table *t, const ckpt_experiment *e) {
  char bytes[32];
  for (size_t i = 0; i < e->n_data; i++) {
    const ckpt_data_source *data = &e->data[i];
    say(t, "data",
        tool_text("%s: %s, %s, %s", data->name ? data->name : "-", data->source ? data->source : "-",
                  tool_bytes(bytes, (int64_t)data->size), data->version ? data->version : "no version"));
  }
}

/* The device and the digest; `choices` prints all. */
static void say_choices(table *t, const ckpt_experiment *e) {
  const json_text object = {e->choices, e->choices ? strlen(e->choices) : 0}, key = {"device", 6};
  json_text device = {"", 0};
  char digest[CKPT_SHA256_TEXT];
  words_choices_digest(digest, e);
  if (json_member_find(&device, &object, &key) && device.n >= 2) {
    device.text++;
    device.n -= 2;
  }
  say(t, "choices", tool_text("%.*s%s%s", (int)device.n, device.text, digest[0] ? "; digest " : "none", digest));
}

static void say_machine(table *t, const ckpt_checkpoint *checkpoint, const ckpt_experiment *e) {
  char bytes[32];
  say_choices(t, e);
  if (e->gpus > 1 || e->nodes > 1)
    say(t, "world",
        tool_text("%" PRId64 " node%s, %" PRId64 " GPU%s", e->nodes, tool_plural(e->nodes), e->gpus,
                  tool_plural(e->gpus)));
  say(t, "identity", or_dash(e->identity));
  say(t, "tool",
      tool_text("%s, built by %s", e->tool_version ? e->tool_version : "-", e->tool_build ? e->tool_build : "-"));
  say(t, "created", or_dash(e->created));
  say(t, "size",
      tool_text("%s in %zu files", tool_bytes(bytes, (int64_t)ckpt_checkpoint_n_bytes(checkpoint)), e->n_files + 1));
  say(t, "digest", tool_text("%s", e->digest));
}

static void print_page(const ckpt_checkpoint *checkpoint) {
  const ckpt_experiment *e = ckpt_checkpoint_experiment(checkpoint);
  table t = {.align = "ll"};
  say(&t, "checkpoint", tool_text("%s", ckpt_checkpoint_path(checkpoint)));
  say_run(&t, e);
  say_tensors(&t, "parameters", ckpt_checkpoint_parameters(checkpoint), e->parameters);
  say_tensors(&t, "states", ckpt_checkpoint_states(checkpoint), e->states);
  say_data(&t, e);
  say_machine(&t, checkpoint, e);
  table_print(&t, stdout);
  table_free(&t);
}

static void print_json(const ckpt_checkpoint *checkpoint) {
  ckpt_json *json = command_json();
  ckpt_json_begin_object(json);
  ckpt_json_key(json, "record"), ckpt_json_string(json, "checkpoint");
  ckpt_json_key(json, "path"), ckpt_json_string(json, ckpt_checkpoint_path(checkpoint));
  ckpt_json_key(json, "size"), ckpt_json_unsigned(json, ckpt_checkpoint_n_bytes(checkpoint));
  ckpt_json_key(json, "experiment"), ckpt_json_begin_object(json);
  ckpt_experiment_write(json, ckpt_checkpoint_experiment(checkpoint), CKPT_WHOLE);
  ckpt_json_end_object(json);
  ckpt_json_end_object(json);
  command_print_json(json);
  ckpt_json_free(json);
}

int command_show(int argc, char **argv) {
  bool json = false;
  const tool_setting settings[] = {{"json", 'j', NULL, NULL, TOOL_FLAG, &json, "one JSON object"}};
  const tool_command_usage usage = {
      "sexpgpu-checkpoint show", "C", "Prints what a checkpoint is of.", settings, 1, 1, 1};
  tool_list operands;
  bool exit_now = false;
  ckpt_checkpoint *checkpoint = NULL;
  int status = tool_command_read(&usage, argc, argv, &operands, &exit_now);
  if (!status && !exit_now) status = checkpoint_open_or_say(&checkpoint, operands.items[0]);
  if (checkpoint && json) print_json(checkpoint);
  if (checkpoint && !json) print_page(checkpoint);
  ckpt_checkpoint_close(checkpoint);
  tool_list_free(&operands);
  return status;
}
