/* diff: what differs between two records, one line each in a stable order. */
#include <stdlib.h>
#include <string.h>

#include "command.h"

typedef struct printing {
  bool json;
} printing;

/* The facts of a device that the other has not, of texts of parts between commas: "cuDNN 91300". Owned. */
static char *own_facts(const char *of, const char *other) {
  char *left = tool_text("%s", of), *text = tool_text("%s", "");
  for (char *rest = left, *part; (part = strtok_r(rest, ",", &rest));) {
    while (*part == ' ') part++;
    size_t n = strlen(part);
    bool shared = false;
    for (const char *at = other; at && !shared; at = strchr(at, ',')) {
      at += strspn(at, ", ");
      shared = strncmp(at, part, n) == 0 && (at[n] == ',' || !at[n]);
    }
    if (shared) continue;
    char *longer = tool_text("%s%s%s", text, text[0] ? ", " : "", part);
    free(text);
    text = longer;
  }
  free(left);
  return text;
}

static void print_json(const choices_compared *c) {
  static const char *const words[] = {"equal", "differs", "only in a", "only in b"};
  command_json_text("record", "difference", true);
  command_json_text("difference", words[c->difference], false);
  if (c->device[0]) command_json_text("device", c->device, false);
  command_json_text("kind", c->kind, false);
  command_json_text("key", c->key, false);
  command_json_text("a", c->left, false);
  command_json_text("b", c->right, false);
  puts("}");
}

static void print_pair(const char *left, const char *right) {
  table_put(left, stdout);
  fputs(" | ", stdout);
  table_put(right, stdout);
}

static void print_fact(const choices_compared *c) {
  bool devices = strcmp(c->kind, "device") == 0 && c->left && c->right;
  char *left = devices ? own_facts(c->left, c->right) : tool_text("%s", c->left ? c->left : "none");
  char *right = devices ? own_facts(c->right, c->left) : tool_text("%s", c->right ? c->right : "none");
  printf("%-12s differs  ", c->kind);
  print_pair(left[0] ? left : "no more", right[0] ? right : "no more");
  free(left);
  free(right);
}

static void print_choice(const choices_compared *c) {
  char *key = command_short_key(c->key);
  bool left_only = c->difference == CHOICES_ONLY_LEFT, only = left_only || c->difference == CHOICES_ONLY_RIGHT;
  printf("%-12s ", c->kind);
  if (only) printf("only in %s: ", left_only ? "a" : "b");
  table_put(key, stdout);
  if (only) {
    fputs(key[0] ? " = " : "", stdout);
    table_put(left_only ? c->left : c->right, stdout);
  } else {
    fputs(key[0] ? "  " : "", stdout);
    print_pair(c->left, c->right);
  }
  free(key);
}

static void print_difference(void *context, const choices_compared *c) {
  const printing *p = context;
  if (p->json) {
    print_json(c);
    return;
  }
  if (choices_kind_find(c->kind) || c->key[0])
    print_choice(c);
  else
    print_fact(c);
  if (c->device[0]) {
    fputs("  on ", stdout);
    table_put(c->device, stdout);
  }
  putchar('\n');
}

static void print_summary(const choices_comparison *counts, choices_record *left, choices_record *right, bool json) {
  const char *a = tool_memory((void *)choices_record_digest(left));
  const char *b = tool_memory((void *)choices_record_digest(right));
  if (json) {
    printf(
        "{\"record\": \"summary\", \"compared\": %zu, \"differ\": %zu, \"only_a\": %zu, \"only_b\": %zu, \"a\": "
        "\"%s\", "
        "\"b\": \"%s\"}\n",
        counts->n_compared, counts->n_differ, counts->n_only_left, counts->n_only_right, a, b);
    return;
  }
  printf("%zu of %zu choices differ, %zu only in a, %zu only in b; digests %.6s… %.6s…\n", counts->n_differ,
         counts->n_compared, counts->n_only_left, counts->n_only_right, a + 7, b + 7);
}

static int compare(choices_record *left, choices_record *right, bool json) {
  choices_error error;
  choices_comparison counts;
  printing p = {json};
  if (choices_record_compare(&counts, left, right, print_difference, &p, &error) != CHOICES_OK)
    return tool_fail_choices(&error);
  bool same = !counts.facts_differ && !counts.n_differ && !counts.n_only_left && !counts.n_only_right;
  if (!same) print_summary(&counts, left, right, json);
  return same ? TOOL_DONE : TOOL_NO;
}

int command_diff(int argc, char **argv) {
  bool json = false, exit_now = false;
  const tool_setting settings[] = {{"json", 'j', NULL, NULL, TOOL_FLAG, &json, "an object a line"}};
  const tool_command_usage usage = {
      "sexpgpu-choices diff",
      "A B",
      "What differs: nothing is printed, and the exit status is 0, where they are the same.",
      settings,
      1,
      2,
      2};
  tool_list operands;
  choices_record *left = NULL, *right = NULL;
  int status = tool_command_read(&usage, argc, argv, &operands, &exit_now);
  if (!status && !exit_now) status = command_read_two(&left, &right, operands.items);
  if (!status && left && right) status = compare(left, right, json);
  choices_record_free(left);
  choices_record_free(right);
  tool_list_free(&operands);
  return status;
}
