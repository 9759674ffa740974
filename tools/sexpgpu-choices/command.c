#include "command.h"

#include <stdlib.h>
#include <string.h>

int command_check_kind(const char *kind) {
  choices_error error;
  choices_request request;
  if (!kind || choices_kind_find(kind)) return TOOL_DONE;
  char *text = tool_text("fresh:%s", kind);
  choices_status status = choices_request_parse(&request, text, &error);
  free(text);
  return status == CHOICES_OK ? TOOL_DONE : tool_fail_choices(&error);
}

static void say_warning(choices_store *store) {
  choices_store_facts facts;
  if (choices_store_look(&facts, store, NULL) == CHOICES_OK && facts.warning.code[0])
    fprintf(stderr, "%s: %s\n", facts.warning.code, facts.warning.message);
}

int command_rows(choices_record **out, const char *device, const char *kind) {
  choices_error error;
  choices_store *store = NULL;
  choices_record *all = NULL;
  const choices_filter filter = {.kind = kind};
  int status = command_check_kind(kind);
  *out = NULL;
  if (status) return status;
  choices_status got = tool_store_open(&store, CHOICES_READ, &error);
  if (got == CHOICES_OK) say_warning(store);
  if (got == CHOICES_OK) got = choices_store_record(&all, store, device ? &(choices_filter){0} : &filter, true, &error);
  if (got == CHOICES_OK && device) got = choices_record_select(out, all, device, kind, &error);
  choices_store_close(store);
  if (device) choices_record_free(all);
  if (!device) *out = all;
  return got == CHOICES_OK ? TOOL_DONE : tool_fail_choices(&error);
}

int command_read_two(choices_record **left, choices_record **right, const char *const *names) {
  choices_error error;
  *left = *right = NULL;
  if (strcmp(names[0], "-") == 0 && strcmp(names[1], "-") == 0)
    return tool_fail(TOOL_INPUT, TOOL_E_ENV_OPERANDS, "found - twice, expected at most once: it is read to its end");
  choices_status status = choices_record_read(left, names[0], &error);
  if (status == CHOICES_OK) status = choices_record_read(right, names[1], &error);
  return status == CHOICES_OK ? TOOL_DONE : tool_fail_choices(&error);
}
