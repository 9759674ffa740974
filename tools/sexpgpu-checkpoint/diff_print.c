/* A diff as a person reads it, and as one JSON object. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../common/format.h"
#include "../common/table.h"
#include "command.h"
#include "diff.h"
#include "words.h"

static bool is_float(ckpt_dtype dtype) {
  return dtype == CKPT_F16 || dtype == CKPT_BF16 || dtype == CKPT_F32 || dtype == CKPT_F64;
}

/* The indices of a row-major index. */
static void unravel(int64_t out[CKPT_MAX_RANK], const ckpt_tensor *tensor, uint64_t index) {
  for (int i = tensor->rank; i-- > 0;) {
    out[i] = (int64_t)(index % (uint64_t)tensor->dims[i]);
    index /= (uint64_t)tensor->dims[i];
  }
}

/* "choices stacking"; a group of one fact by its own name. */
static char *fact_label(const diff_fact *fact) {
  static const char *const said_with_group[] = {"knobs", "data", "choices", "tool", "world", "file"};
  if (!fact->name[0]) return tool_text("%s", fact->group);
  for (size_t i = 0; i < sizeof said_with_group / sizeof *said_with_group; i++)
    if (strcmp(fact->group, said_with_group[i]) == 0)
      return tool_text("%s %s", i == 0 ? "knob" : fact->group, fact->name);
  return tool_text("%s", fact->name);
}

static void say_same_groups(const diff *d, table *t) {
  char *list = tool_text("%s", "");
  for (size_t i = 0; i < DIFF_GROUPS; i++) {
    if (diff_has_group(d, diff_groups[i])) continue;
    char *longer = tool_text("%s%s%s", list, list[0] ? ", " : "", diff_groups[i]);
    free(list);
    list = longer;
  }
  if (list[0]) {
    table_row(t);
    table_cell(t, tool_text("same"));
    table_cell(t, list);
  } else {
    free(list);
  }
}

static void say_fact(table *t, const diff_fact *fact) {
  table_row(t);
  table_cell(t, fact_label(fact));
  if (fact->left && fact->right)
    table_cell(t, tool_text("%s | %s", fact->left, fact->right));
  else
    table_cell(t, tool_text("only in %s: %s", fact->left ? "a" : "b", fact->left ? fact->left : fact->right));
}

static char *layout(const ckpt_tensor *tensor) {
  char *shape = words_shape(tensor->rank, tensor->dims);
  char *text = tool_text("%s %s", ckpt_dtype_name(tensor->dtype), shape);
  free(shape);
  return text;
}

/* ", at most 2 ulp (1.2e-07)" and the like. */
static char *distance(const ckpt_difference *by, ckpt_dtype dtype) {
  char ulps[32], count[32];
  const char *nan = by->n_nan == by->n_differing ? "all" : tool_grouped(count, (int64_t)by->n_nan);
  char *nans = by->n_nan ? tool_text(", %s of them NaN on one side", nan) : tool_text("%s", "");
  char *text;
  if (by->n_nan == by->n_differing)
    text = tool_text("%s", nans);
  else if (!is_float(dtype))
    text = tool_text(", at most %.17g%s", by->max_value, nans);
  else if (by->max_ulps == 0)
    text = tool_text(", in the sign of zero alone%s", nans);
  else if (by->max_ulps > INT64_MAX)
    text = tool_text(", at most %" PRIu64 " ulp (%.2g)%s", by->max_ulps, by->max_value, nans);
  else
    text = tool_text(", at most %s ulp (%.2g)%s", tool_grouped(ulps, (int64_t)by->max_ulps), by->max_value, nans);
  free(nans);
  return text;
}

static char *elements(const diff_tensor *tensor) {
  const ckpt_difference *by = &tensor->difference;
  char differing[32], all[32];
  int64_t at[CKPT_MAX_RANK];
  unravel(at, tensor->left, by->first);
  char *first = words_shape(tensor->left->rank, at), *far = distance(by, tensor->left->dtype);
  char *text = tool_text("%s of %s element%s differ%s, first at %s", tool_grouped(differing, (int64_t)by->n_differing),
                         tool_grouped(all, (int64_t)tensor->left->n_elements),
                         tool_plural((int64_t)tensor->left->n_elements), far, first);
  free(first);
  free(far);
  return text;
}

static void say_tensor(table *t, const diff_tensor *tensor) {
  const ckpt_tensor *any = tensor->left ? tensor->left : tensor->right;
  table_row(t);
  table_cell(t, tool_text("%s", any->name));
  if (diff_same_layout(tensor)) {
    table_cell(t, elements(tensor));
    return;
  }
  char *left = tensor->left ? layout(tensor->left) : NULL, *right = tensor->right ? layout(tensor->right) : NULL;
  if (left && right)
    table_cell(t, tool_text("%s | %s", left, right));
  else
    table_cell(t, tool_text("only in %s: %s", left ? "a" : "b", left ? left : right));
  free(left);
  free(right);
}

void diff_print(const diff *d) {
  table t = {.align = "ll"};
  char count[32], all[32];
  if (!d->tensors_only) say_same_groups(d, &t);
  for (size_t i = 0; i < d->n_facts; i++) say_fact(&t, &d->facts[i]);
  for (size_t i = 0; i < d->n_tensors; i++) say_tensor(&t, &d->tensors[i]);
  table_print(&t, stdout);
  table_free(&t);
  if (d->n_tensors)
    printf("%s of %s tensor%s differ%s\n", tool_grouped(count, (int64_t)d->n_tensors),
           tool_grouped(all, (int64_t)d->n_compared), tool_plural((int64_t)d->n_compared),
           d->n_tensors == 1 ? "s" : "");
  else
    printf("all %s tensor%s are the same\n", tool_grouped(all, (int64_t)d->n_compared),
           tool_plural((int64_t)d->n_compared));
}

/* ---- JSON ---- */

static void key_text(ckpt_json *json, const char *key, const char *text) {
  ckpt_json_key(json, key);
  ckpt_json_string(json, text);
}

static void print_fact(ckpt_json *json, const diff_fact *fact) {
  ckpt_json_begin_object(json);
  key_text(json, "group", fact->group);
  key_text(json, "name", fact->name);
  key_text(json, "left", fact->left);
  key_text(json, "right", fact->right);
  ckpt_json_end_object(json);
}

static void print_layout(ckpt_json *json, const char *key, const ckpt_tensor *tensor) {
  ckpt_json_key(json, key);
  if (!tensor) {
    ckpt_json_null(json);
    return;
  }
  ckpt_json_begin_object(json);
  key_text(json, "dtype", ckpt_dtype_name(tensor->dtype));
  ckpt_json_key(json, "shape");
  words_shape_json(json, tensor->rank, tensor->dims);
  ckpt_json_end_object(json);
}

static void print_difference(ckpt_json *json, const diff_tensor *tensor) {
  const ckpt_difference *by = &tensor->difference;
  bool numbers = by->n_differing > by->n_nan;
  int64_t at[CKPT_MAX_RANK];
  unravel(at, tensor->left, by->first);
  ckpt_json_key(json, "elements"), ckpt_json_unsigned(json, tensor->left->n_elements);
  ckpt_json_key(json, "differing"), ckpt_json_unsigned(json, by->n_differing);
  ckpt_json_key(json, "nan"), ckpt_json_unsigned(json, by->n_nan);
  ckpt_json_key(json, "ulps");
  if (numbers && is_float(tensor->left->dtype))
    ckpt_json_unsigned(json, by->max_ulps);
  else
    ckpt_json_null(json);
  ckpt_json_key(json, "value");
  if (numbers)
    ckpt_json_real64(json, by->max_value);
  else
    ckpt_json_null(json);
  ckpt_json_key(json, "first"), words_shape_json(json, tensor->left->rank, at);
}

static void print_tensor(ckpt_json *json, const diff_tensor *tensor) {
  const ckpt_tensor *any = tensor->left ? tensor->left : tensor->right;
  ckpt_json_begin_object(json);
  key_text(json, "path", any->name);
  key_text(json, "kind", tensor->kind == CKPT_PARAMETER ? "parameter" : "state");
  print_layout(json, "left", tensor->left);
  print_layout(json, "right", tensor->right);
  if (diff_same_layout(tensor)) print_difference(json, tensor);
  ckpt_json_end_object(json);
}

void diff_print_json(const diff *d) {
  ckpt_json *json = command_json();
  ckpt_json_begin_object(json);
  key_text(json, "record", "diff");
  key_text(json, "left", ckpt_checkpoint_path(d->left));
  key_text(json, "right", ckpt_checkpoint_path(d->right));
  ckpt_json_key(json, "same"), ckpt_json_bool(json, d->n_facts == 0 && d->n_tensors == 0);
  ckpt_json_key(json, "tensors"), ckpt_json_integer(json, (int64_t)d->n_compared);
  ckpt_json_key(json, "facts"), ckpt_json_begin_array(json);
  for (size_t i = 0; i < d->n_facts; i++) print_fact(json, &d->facts[i]);
  ckpt_json_end_array(json);
  ckpt_json_key(json, "differing"), ckpt_json_begin_array(json);
  for (size_t i = 0; i < d->n_tensors; i++) print_tensor(json, &d->tensors[i]);
  ckpt_json_end_array(json);
  ckpt_json_end_object(json);
  command_print_json(json);
  ckpt_json_free(json);
}
