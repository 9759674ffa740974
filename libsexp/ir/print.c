/* Text of a graph. It parses back (parse.c) to an equal graph, and that prints the same text.
 *
 *   text      := "graph" string line*
 *   line      := node | output                      one a line; "; ..." to its end is a comment
 *   node      := id "=" operation id* [attributes] ":" dtype list [place]
 *   id        := "%" integer                        nodes count from %0 in order of their lines
 *   attributes:= "{" name value ("," name value)* "}"   those of the operation's row, in its order; a text
 *                                                   may be left out where the operation can go without
 *   value     := integer | list | real | string
 *   list      := "[" integer* "]"
 *   real      := as C reads a decimal, shortest that reads back to the same value, or inf, -inf, nan
 *   string    := '"' bytes '"'                      \" \\ and \xHH for control characters
 *   place     := "@" string integer ":" integer ":" integer   model path, then file, begin and end of the span
 *   output    := "output" string id
 *
 *   graph "loss"
 *   %0 = param {path "fc1/w"} : f32 [784 32]
 *   %1 = sum %0 {axes [0]} : f32 [32] @ "fc1" 1:320:331
 *   output "loss" %1 */
#include <string.h>

#include "ir.h"

static void add_integer(sx_text *text, int64_t value) {
  char digits[24], *at = digits + sizeof digits;
  uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  do *--at = (char)('0' + rest % 10);
  while (rest /= 10);
  if (value < 0) *--at = '-';
  sx_text_add_bytes(text, at, (size_t)(digits + sizeof digits - at));
}

static void add_string(sx_text *text, const char *string) {
  sx_text_add(text, "\"");
  for (const char *at = string; *at; at++) {
    unsigned char c = (unsigned char)*at;
    size_t plain = 0;
    while ((unsigned char)at[plain] >= ' ' && at[plain] != '"' && at[plain] != '\\' && at[plain] != 0x7f) plain++;
    if (plain > 0) {
      sx_text_add_bytes(text, at, plain);
      at += plain - 1;
    } else if (c == '"' || c == '\\') {
      sx_text_add_bytes(text, c == '"' ? "\\\"" : "\\\\", 2);
    } else {
      sx_text_addf(text, "\\x%02x", c);
    }
  }
  sx_text_add(text, "\"");
}

/* Every step-th of the integers from the first. */
static void add_list(sx_text *text, const int64_t *ints, uint32_t n, uint32_t step) {
  sx_text_add(text, "[");
  for (uint32_t i = 0; i < n; i += step) {
    if (i > 0) sx_text_add(text, " ");
    add_integer(text, ints[i]);
  }
  sx_text_add(text, "]");
}

static void add_real(sx_text *text, sx_dtype dtype, double value) {
  if (sx_dtype_is_float(dtype))
    sx_text_add_f32(text, (float)value);
  else
    sx_text_add_f64(text, value);
}

static void add_attributes(sx_text *text, const sx_node *node) {
  sx_attributes layout = sx_op_attributes(node->op);
  uint32_t n_integers = 0, n_lists = 0, n_printed = 0;
  for (uint32_t i = 0; i < layout.n; i++) {
    sx_attribute attribute = layout.items[i];
    if (attribute.kind == 't' && !node->text) continue;
    sx_text_add(text, n_printed++ ? ", " : " {");
    sx_text_add_bytes(text, attribute.name, attribute.length);
    sx_text_add(text, " ");
    if (attribute.kind == 'i') add_integer(text, node->ints[n_integers++]);
    if (attribute.kind == 'r') add_real(text, node->dtype, node->real);
    if (attribute.kind == 't') add_string(text, node->text);
    if (attribute.kind == 'I') {
      uint32_t first = layout.n_fixed + n_lists++;
      bool some = node->n_ints > first;
      add_list(text, some ? node->ints + first : NULL, some ? node->n_ints - first : 0, layout.n_lists);
    }
  }
  if (n_printed > 0) sx_text_add(text, "}");
}

static void add_place(sx_text *text, const sx_node *node) {
  sx_text_add(text, " @ ");
  add_string(text, node->path);
  sx_text_add(text, " ");
  add_integer(text, node->span.file);
  sx_text_add(text, ":");
  add_integer(text, node->span.begin);
  sx_text_add(text, ":");
  add_integer(text, node->span.end);
}

void sx_node_print(sx_text *text, const sx_graph *graph, sx_id id, bool place) {
  const sx_node *node = sx_node_at(graph, id);
  sx_text_add(text, "%");
  add_integer(text, id);
  sx_text_add(text, " = ");
  sx_text_add(text, sx_op_describe(node->op)->name);
  for (uint32_t i = 0; i < node->n_inputs; i++) {
    sx_text_add(text, " %");
    add_integer(text, node->inputs[i]);
  }
  add_attributes(text, node);
  sx_text_add(text, " : ");
  sx_text_add(text, sx_dtype_name(node->dtype));
  sx_text_add(text, " ");
  add_list(text, node->dims, (uint32_t)node->rank, 1);
  if (place) add_place(text, node);
}

void sx_graph_print(sx_text *text, const sx_graph *graph, bool spans) {
  sx_text_add(text, "graph ");
  add_string(text, graph->name);
  sx_text_add(text, "\n");
  for (size_t i = 0; i < graph->nodes.n; i++) {
    sx_node_print(text, graph, (sx_id)i, spans);
    sx_text_add(text, "\n");
  }
  for (size_t i = 0; i < graph->outputs.n; i++) {
    sx_text_add(text, "output ");
    add_string(text, graph->outputs.items[i].name);
    sx_text_add(text, " %");
    add_integer(text, graph->outputs.items[i].node);
    sx_text_add(text, "\n");
  }
}
