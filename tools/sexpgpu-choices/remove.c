/* rm and prune: rows out of the store. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "command.h"

static int run(const choices_removal *removal, bool must, bool quiet) {
  choices_error error;
  choices_store *store = NULL;
  size_t n = 0;
  choices_status status = tool_store_open(&store, CHOICES_WRITE, &error);
  if (status == CHOICES_OK) status = choices_store_remove(&n, store, removal, &error);
  choices_store_close(store);
  if (status != CHOICES_OK) return tool_fail_choices(&error);
  if (must && n == 0) return tool_fail(TOOL_INPUT, TOOL_E_CHOICE_NOT_FOUND, "nothing was removed");
  if (!quiet) fprintf(stderr, "%zu removed\n", n);
  return TOOL_DONE;
}

int command_rm(int argc, char **argv) {
  const char *device = NULL, *kind = NULL;
  bool all = false, quiet = false, exit_now = false;
  const tool_setting settings[] = {
      {"device", 'd', "D", NULL, TOOL_TEXT, &device, "of the device with this text"},
      {"kind", 'k', "K", NULL, TOOL_TEXT, &kind, "of this kind"},
      {"all", 'a', NULL, NULL, TOOL_FLAG, &all, "all of the store"},
      {"quiet", 'q', NULL, NULL, TOOL_FLAG, &quiet, "say nothing of what was done"},
  };
  const tool_command_usage usage = {
      "sexpgpu-choices rm", "[KEY]", "Removes the choices that match all that is given.", settings, 4, 0, 1};
  tool_list operands;
  int status = tool_command_read(&usage, argc, argv, &operands, &exit_now);
  const char *key = operands.n ? operands.items[0] : NULL;
  if (!status && !exit_now && !key && !device && !kind && !all)
    status = tool_fail(TOOL_INPUT, TOOL_E_ENV_OPERANDS, "found nothing, expected a KEY, --device, --kind or --all");
  if (!status && !exit_now && all && (key || device || kind))
    status = tool_fail(TOOL_INPUT, TOOL_E_ENV_OPTION, "--all contradicts a KEY, --device and --kind");
  if (!status && !exit_now) status = command_check_kind(kind);
  const choices_removal removal = {.filter = {device, kind, key}};
  if (!status && !exit_now) status = run(&removal, !all, quiet);
  tool_list_free(&operands);
  return status;
}

/* ---- prune ---- */

enum { MOST_EXECUTABLES = 16 };

typedef struct executables {
  char items[MOST_EXECUTABLES][CHOICES_IDENTITY_TEXT];
  const char *list[MOST_EXECUTABLES];
  size_t n;
} executables;

static void add_executable(executables *to, const char *path) {
  choices_executable executable;
  char room[CHOICES_BUILD_ID_TEXT];
  if (to->n == MOST_EXECUTABLES || choices_executable_read(&executable, room, path, NULL) != CHOICES_OK) return;
  choices_executable_identity(to->items[to->n], &executable);
  to->list[to->n] = to->items[to->n];
  to->n++;
}

/* The tools that lie beside this one. */
static void find_executables(executables *to) {
  char own[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
  own[n > 0 ? n : 0] = 0;
  char *slash = strrchr(own, '/');
  if (!slash) return;
  *slash = 0;
  DIR *directory = opendir(own);
  for (struct dirent *entry; directory && (entry = readdir(directory));) {
    if (strncmp(entry->d_name, "sexpgpu-", 8) != 0) continue;
    char *path = tool_text("%s/%s", own, entry->d_name);
    add_executable(to, path);
    free(path);
  }
  if (directory) closedir(directory);
}

/* "30d", "12h" or "2026-11-29" as the time that rows have; false: neither. */
static bool read_time(char out[32], const char *text) {
  char *end = NULL;
  errno = 0;
  long count = strtol(text, &end, 10);
  bool days = end != text && strcmp(end, "d") == 0, hours = end != text && strcmp(end, "h") == 0;
  if ((days || hours) && !errno && count >= 0 && count <= 1000000) {
    time_t then = time(NULL) - (time_t)count * (days ? 86400 : 3600);
    struct tm parts;
    return gmtime_r(&then, &parts) && strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &parts) > 0;
  }
  static const char form[] = "dddd-dd-dd";
  if (strlen(text) != strlen(form)) return false;
  for (size_t i = 0; form[i]; i++)
    if (form[i] == 'd' ? !isdigit((unsigned char)text[i]) : text[i] != '-') return false;
  snprintf(out, 32, "%s", text);
  return true;
}

int command_prune(int argc, char **argv) {
  const char *older = NULL;
  bool others = false, quiet = false, exit_now = false;
  tool_list kept = {0};
  const tool_setting settings[] = {
      {"other-executables", 'o', NULL, NULL, TOOL_FLAG, &others, "what neither the tools beside this one measured"},
      {"executable", 'e', "FILE", NULL, TOOL_LIST, &kept, "nor this file; may be given again"},
      {"older-than", 0, "D", NULL, TOOL_TEXT, &older, "what was measured before: 30d, 12h or 2026-11-29"},
      {"quiet", 'q', NULL, NULL, TOOL_FLAG, &quiet, "say nothing of what was done"},
  };
  const tool_command_usage usage = {
      "sexpgpu-choices prune", "", "Removes choices that are out of use.", settings, 4, 0, 0};
  tool_list operands;
  char time_text[32];
  executables known = {.n = 0};
  int status = tool_command_read(&usage, argc, argv, &operands, &exit_now);
  if (!status && !exit_now && (operands.n || (!others && !older)))
    status = tool_fail(TOOL_INPUT, TOOL_E_ENV_OPERANDS,
                       "found %zu operands, expected --other-executables or --older-than", operands.n);
  if (!status && !exit_now && older && !read_time(time_text, older))
    status =
        tool_fail(TOOL_INPUT, TOOL_E_ENV_OPTION, "--older-than: found \"%s\", expected 30d, 12h or 2026-11-29", older);
  if (!status && !exit_now && others) find_executables(&known);
  for (size_t i = 0; i < kept.n && others; i++) add_executable(&known, kept.items[i]);
  const choices_removal removal = {
      .older_than = older ? time_text : NULL, .executables = known.list, .n_executables = known.n};
  if (!status && !exit_now) status = run(&removal, false, quiet);
  tool_list_free(&operands);
  tool_list_free(&kept);
  return status;
}
