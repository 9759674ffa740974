/* tensors C: a line for each tensor. */
#include <inttypes.h>

#include "../common/table.h"
#include "command.h"
#include "open.h"
#include "words.h"

static void add_tensor(table *t, const ckpt_tensor *tensor, const char *kind) {
  table_row(t);
  table_cell(t, tool_text("%s", tensor->name));
  table_cell(t, tool_text("%s", ckpt_dtype_name(tensor->dtype)));
  table_cell(t, words_shape(tensor->rank, tensor->dims));
  table_cell(t, tool_text("%" PRIu64, tensor->n_bytes));
  table_cell(t, tool_text("%s", kind));
}

static void print_tensor(ckpt_json *json, const ckpt_tensor *tensor, const char *kind) {
  ckpt_json_begin_object(json);
  ckpt_json_key(json, "record"), ckpt_json_string(json, "tensor");
  ckpt_json_key(json, "path"), ckpt_json_string(json, tensor->name);
  ckpt_json_key(json, "kind"), ckpt_json_string(json, kind);
  ckpt_json_key(json, "dtype"), ckpt_json_string(json, ckpt_dtype_name(tensor->dtype));
  ckpt_json_key(json, "shape"), words_shape_json(json, tensor->rank, tensor->dims);
  ckpt_json_key(json, "bytes"), ckpt_json_unsigned(json, tensor->n_bytes);
  ckpt_json_end_object(json);
  command_print_json(json);
}

static void list(const ckpt_checkpoint *checkpoint, bool as_json) {
  const ckpt_tensors *lists[] = {ckpt_checkpoint_parameters(checkpoint), ckpt_checkpoint_states(checkpoint)};
  static const char *const kinds[] = {"parameter", "state"};
  table t = {.align = "lllrl"};
  ckpt_json *json = as_json ? command_json() : NULL;
  for (size_t kind = 0; kind < 2; kind++)
    for (size_t i = 0; i < ckpt_tensors_count(lists[kind]); i++) {
      const ckpt_tensor *tensor = ckpt_tensors_at(lists[kind], i);
      if (json)
        print_tensor(json, tensor, kinds[kind]);
      else
        add_tensor(&t, tensor, kinds[kind]);
    }
  table_print(&t, stdout);
  table_free(&t);
  ckpt_json_free(json);
}

int command_tensors(int argc, char **argv) {
  bool json = false;
  const tool_setting settings[] = {{"json", 'j', NULL, NULL, TOOL_FLAG, &json, "one JSON object a line"}};
  const tool_command_usage usage = {"sexpgpu-checkpoint tensors",
                                    "C",
                                    "Lists a checkpoint's tensors: path, dtype, shape, bytes, parameter or state.",
                                    settings,
                                    1,
                                    1,
                                    1};
  tool_list operands;
  bool exit_now = false;
  ckpt_checkpoint *checkpoint = NULL;
  int status = tool_command_read(&usage, argc, argv, &operands, &exit_now);
  if (!status && !exit_now) status = checkpoint_open_or_say(&checkpoint, operands.items[0]);
  if (checkpoint) list(checkpoint, json);
  ckpt_checkpoint_close(checkpoint);
  tool_list_free(&operands);
  return status;
}
