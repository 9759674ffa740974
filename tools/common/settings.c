#include "settings.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"

/* Where a value came from, for messages. */
typedef struct origin {
  tool_code code;
  const char *name; /* "--steps" or "SEXPGPU_STATUS" */
} origin;

static void list_add(tool_list *list, const char *item) {
  if (list->n == list->room) {
    size_t room = list->room ? list->room * 2 : 8;
    const char **items = realloc(list->items, room * sizeof *items);
    if (!items) {
      fputs("sexpgpu: out of memory\n", stderr);
      exit(TOOL_INPUT);
    }
    list->items = items;
    list->room = room;
  }
  list->items[list->n++] = item;
}

void tool_list_free(tool_list *list) {
  free(list->items);
  *list = (tool_list){0};
}

static int malformed(const origin *from, const char *value, const char *expected) {
  return tool_fail(TOOL_INPUT, from->code, "%s: found \"%s\", expected %s", from->name, value, expected);
}

static bool parse_count(const char *text, int64_t *count) {
  char *end = NULL;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (end == text || *end || errno || value < 1 || text[0] < '0' || text[0] > '9') return false;
  *count = value;
  return true;
}

static int set_every(const tool_setting *setting, const char *value, const origin *from) {
  size_t key = strcspn(setting->argument, "=") + 1;
  if (strncmp(value, setting->argument, key) == 0 && parse_count(value + key, setting->target)) return TOOL_DONE;
  return malformed(from, value, setting->argument);
}

static bool parse_real(const char *text, double *real) {
  char *end = NULL;
  *real = strtod(text, &end);
  return end != text && !*end && isfinite(*real) && *real > 0;
}

static int set_real(const tool_setting *setting, const char *value, const origin *from) {
  if (parse_real(value, setting->target)) return TOOL_DONE;
  return malformed(from, value, tool_setting_expected(TOOL_REAL, value));
}

static int set_boolean(const tool_setting *setting, const char *value, const origin *from) {
  const char *expected = tool_setting_expected(TOOL_BOOLEAN, value);
  if (expected) return malformed(from, value, expected);
  *(bool *)setting->target = value[0] == '1';
  return TOOL_DONE;
}

const char *tool_setting_expected(tool_kind kind, const char *value) {
  int64_t count;
  double real;
  bool is_bit = strcmp(value, "0") == 0 || strcmp(value, "1") == 0;
  if (!value[0]) return "a value, or the variable unset";
  if (kind == TOOL_COUNT && !parse_count(value, &count)) return "a positive integer";
  if (kind == TOOL_REAL && !parse_real(value, &real)) return "a positive number";
  return (kind == TOOL_FLAG || kind == TOOL_BOOLEAN) && !is_bit ? "0 or 1" : NULL;
}

static int set_list(const tool_setting *setting, const char *value, const origin *from) {
  if (from->code == TOOL_E_ENV_OPTION) {
    list_add(setting->target, value);
    return TOOL_DONE;
  }
  char *copy = strdup(value); /* lives as long as the process: settings point into it */
  if (!copy) return malformed(from, value, "less text (out of memory)");
  for (char *rest = copy, *item; (item = strtok_r(rest, ",", &rest));) list_add(setting->target, item);
  return TOOL_DONE;
}

static int set(const tool_setting *setting, const char *value, const origin *from) {
  switch (setting->kind) {
    case TOOL_FLAG:
      if (from->code == TOOL_E_ENV_VALUE) return set_boolean(setting, value, from);
      *(bool *)setting->target = true;
      return TOOL_DONE;
    case TOOL_TEXT:
      *(const char **)setting->target = value;
      return TOOL_DONE;
    case TOOL_COUNT:
      if (parse_count(value, setting->target)) return TOOL_DONE;
      return malformed(from, value, tool_setting_expected(TOOL_COUNT, value));
    case TOOL_EVERY:
      return set_every(setting, value, from);
    case TOOL_REAL:
      return set_real(setting, value, from);
    case TOOL_LIST:
      return set_list(setting, value, from);
    case TOOL_BOOLEAN:
      return set_boolean(setting, value, from);
    case TOOL_LATER:
      break;
  }
  return tool_fail(TOOL_INPUT, TOOL_E_ENV_LATER, "%s: %s", from->name, setting->help);
}

static int read_environment(const tool_usage *usage) {
  for (size_t i = 0; i < usage->n_settings; i++) {
    const tool_setting *setting = &usage->settings[i];
    const char *value = setting->variable ? getenv(setting->variable) : NULL;
    if (!value) continue;
    origin from = {TOOL_E_ENV_VALUE, setting->variable};
    int status = value[0] ? set(setting, value, &from) : malformed(&from, value, "a value, or the variable unset");
    if (status) return status;
  }
  return TOOL_DONE;
}

/* A list given by flags replaces the variable's. */
static void forget_list(const tool_setting *setting, bool *seen) {
  if (setting->kind != TOOL_LIST || *seen) return;
  ((tool_list *)setting->target)->n = 0;
  *seen = true;
}

static void print_option(const tool_setting *setting) {
  char left[40];
  snprintf(left, sizeof left, "%s%s%s --%s%s%s", setting->letter ? "-" : "  ",
           setting->letter ? (char[]){setting->letter, 0} : "", setting->letter ? "," : " ", setting->option,
           setting->argument ? " " : "", setting->argument ? setting->argument : "");
  printf("  %-26s %s\n", left, setting->help);
}

/* The length of the program's name: the tool without a subcommand. */
static int program_length(const tool_usage *usage) { return (int)strcspn(usage->tool, " "); }

static void print_help(const tool_usage *usage) {
  printf("usage: %s [OPTION]...%s%s\n%s\n\n", usage->tool, usage->operands[0] ? " " : "", usage->operands, usage->purpose);
  for (size_t i = 0; i < usage->n_settings; i++)
    if (usage->settings[i].option && usage->settings[i].kind != TOOL_LATER) print_option(&usage->settings[i]);
  print_option(&(tool_setting){.option = "help", .help = "this text"});
  print_option(&(tool_setting){.option = "version", .help = "the version"});
  printf("\nman %.*s says everything.\n", program_length(usage), usage->tool);
}

static const tool_setting *find_long(const tool_usage *usage, const char *name, size_t n) {
  for (size_t i = 0; i < usage->n_settings; i++) {
    const char *option = usage->settings[i].option;
    if (option && strlen(option) == n && strncmp(option, name, n) == 0) return &usage->settings[i];
  }
  return NULL;
}

static const tool_setting *find_letter(const tool_usage *usage, char letter) {
  for (size_t i = 0; i < usage->n_settings; i++)
    if (letter && usage->settings[i].letter == letter) return &usage->settings[i];
  return NULL;
}

typedef struct reading {
  const tool_usage *usage;
  int argc, at;
  char **argv;
  bool *seen; /* per setting: a list was given by flags */
} reading;

static int apply(reading *r, const tool_setting *setting, const char *name, const char *attached) {
  origin from = {TOOL_E_ENV_OPTION, name};
  const char *value = attached;
  bool takes = setting->argument != NULL;
  if (!takes && attached) return tool_fail(TOOL_INPUT, TOOL_E_ENV_OPTION, "%s takes no value", name);
  if (takes && !value && setting->kind != TOOL_LATER) {
    if (r->at + 1 >= r->argc) return tool_fail(TOOL_INPUT, TOOL_E_ENV_OPTION, "%s needs %s", name, setting->argument);
    value = r->argv[++r->at];
  }
  forget_list(setting, &r->seen[setting - r->usage->settings]);
  return set(setting, value, &from);
}

static int read_long(reading *r, const char *argument) {
  size_t n = strcspn(argument + 2, "=");
  const tool_setting *setting = find_long(r->usage, argument + 2, n);
  if (!setting) return tool_fail(TOOL_INPUT, TOOL_E_ENV_OPTION, "unknown option %s", argument);
  char name[64];
  snprintf(name, sizeof name, "--%s", setting->option);
  return apply(r, setting, name, argument[2 + n] ? argument + 3 + n : NULL);
}

static int read_letters(reading *r, const char *argument) {
  for (const char *letter = argument + 1; *letter; letter++) {
    const tool_setting *setting = find_letter(r->usage, *letter);
    char name[3] = {'-', *letter, 0};
    if (!setting) return tool_fail(TOOL_INPUT, TOOL_E_ENV_OPTION, "unknown option %s", name);
    const char *attached = setting->argument && letter[1] ? letter + 1 : NULL;
    int status = apply(r, setting, name, attached);
    if (status || attached) return status;
  }
  return TOOL_DONE;
}

static bool asks_for_words(const tool_usage *usage, const char *argument) {
  if (strcmp(argument, "--help") == 0)
    print_help(usage);
  else if (strcmp(argument, "--version") == 0)
    printf("%.*s %s\n", program_length(usage), usage->tool, SEXPGPU_VERSION);
  else
    return false;
  return true;
}

static int read_arguments(reading *r, tool_list *operands) {
  bool options_end = false;
  for (r->at = 1; r->at < r->argc; r->at++) {
    const char *argument = r->argv[r->at];
    int status = TOOL_DONE;
    if (options_end || argument[0] != '-' || !argument[1])
      list_add(operands, argument);
    else if (strcmp(argument, "--") == 0)
      options_end = true;
    else
      status = argument[1] == '-' ? read_long(r, argument) : read_letters(r, argument);
    if (status) return status;
  }
  return TOOL_DONE;
}

int tool_settings_read(const tool_usage *usage, int argc, char **argv, tool_list *operands, bool *exit_now) {
  *exit_now = false;
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
    if (asks_for_words(usage, argv[i])) {
      *exit_now = true;
      return TOOL_DONE;
    }
  int status = read_environment(usage);
  if (status) return status;
  bool *seen = calloc(usage->n_settings, sizeof *seen);
  if (!seen) return TOOL_INPUT;
  reading r = {usage, argc, 1, argv, seen};
  status = read_arguments(&r, operands);
  free(seen);
  return status;
}
