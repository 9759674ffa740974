/* diff A B: whether two checkpoints are the same, and what differs. */
#include "diff.h"

#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "open.h"

bool diff_same_layout(const diff_tensor *tensor) {
  const ckpt_tensor *left = tensor->left, *right = tensor->right;
  if (!left || !right || left->dtype != right->dtype || left->rank != right->rank) return false;
  for (int i = 0; i < left->rank; i++)
    if (left->dims[i] != right->dims[i]) return false;
  return true;
}

static void add_tensor(diff *d, const diff_tensor *tensor) {
  if (d->n_tensors == d->tensors_room) {
    d->tensors_room = d->tensors_room ? d->tensors_room * 2 : 16;
    d->tensors = tool_memory(realloc(d->tensors, d->tensors_room * sizeof *d->tensors));
  }
  d->tensors[d->n_tensors++] = *tensor;
}

/* Both lists are in byte order of the names. */
static ckpt_status compare_lists(diff *d, ckpt_kind kind, const ckpt_tensors *left, const ckpt_tensors *right,
                                 ckpt_error *error) {
  size_t n_left = ckpt_tensors_count(left), n_right = ckpt_tensors_count(right);
  for (size_t i = 0, j = 0; i < n_left || j < n_right;) {
    diff_tensor pair = {.kind = kind};
    pair.left = i < n_left ? ckpt_tensors_at(left, i) : NULL;
    pair.right = j < n_right ? ckpt_tensors_at(right, j) : NULL;
    int order = !pair.left ? 1 : !pair.right ? -1 : strcmp(pair.left->name, pair.right->name);
    if (order < 0) pair.right = NULL;
    if (order > 0) pair.left = NULL;
    i += order <= 0;
    j += order >= 0;
    d->n_compared++;
    if (!diff_same_layout(&pair)) {
      add_tensor(d, &pair);
      continue;
    }
    ckpt_status status = ckpt_tensors_compare(&pair.difference, left, pair.left, right, pair.right, error);
    if (status != CKPT_OK) return status;
    if (pair.difference.n_differing) add_tensor(d, &pair);
  }
  return CKPT_OK;
}

ckpt_status diff_tensors(diff *d, ckpt_error *error) {
  ckpt_status status = compare_lists(d, CKPT_PARAMETER, ckpt_checkpoint_parameters(d->left),
                                     ckpt_checkpoint_parameters(d->right), error);
  if (status == CKPT_OK)
    status = compare_lists(d, CKPT_STATE, ckpt_checkpoint_states(d->left), ckpt_checkpoint_states(d->right), error);
  return status;
}

void diff_free(diff *d) {
  for (size_t i = 0; i < d->n_facts; i++) {
    free(d->facts[i].name);
    free(d->facts[i].left);
    free(d->facts[i].right);
  }
  free(d->facts);
  free(d->tensors);
}

static int compare(diff *d, bool json) {
  ckpt_error error;
  if (!d->tensors_only) diff_facts(d);
  if (diff_tensors(d, &error) != CKPT_OK) return tool_fail_ckpt(&error);
  if (json)
    diff_print_json(d);
  else
    diff_print(d);
  return d->n_facts || d->n_tensors ? TOOL_NO : TOOL_DONE;
}

int command_diff(int argc, char **argv) {
  bool json = false;
  diff d = {0};
  const tool_setting settings[] = {
      {"tensors", 't', NULL, NULL, TOOL_FLAG, &d.tensors_only, "compare the tensors alone"},
      {"json", 'j', NULL, NULL, TOOL_FLAG, &json, "one JSON object"}};
  const tool_command_usage usage = {"sexpgpu-checkpoint diff",
                                    "A B",
                                    "Compares two checkpoints; exit status 0 when they are the same, 1 when not.",
                                    settings,
                                    2,
                                    2,
                                    2};
  tool_list operands;
  bool exit_now = false;
  ckpt_checkpoint *left = NULL, *right = NULL;
  int status = tool_command_read(&usage, argc, argv, &operands, &exit_now);
  if (!status && !exit_now) status = checkpoint_open_or_say(&left, operands.items[0]);
  if (left) status = checkpoint_open_or_say(&right, operands.items[1]);
  d.left = left;
  d.right = right;
  if (right) status = checkpoint_fetch_or_say(left);
  if (right && !status) status = checkpoint_fetch_or_say(right);
  if (right && !status) status = compare(&d, json);
  diff_free(&d);
  ckpt_checkpoint_close(left);
  ckpt_checkpoint_close(right);
  tool_list_free(&operands);
  return status;
}
