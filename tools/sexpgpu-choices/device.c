/* verify, and check --file: what needs a device, which other tools beside this one open. */
#include "device.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"

enum { MOST_ARGUMENTS = 16, MOST_SETS = 64, CHUNK = 1 << 16 };

/* The tool in this program's directory. */
static int find_tool(char path[PATH_MAX], const char *name) {
  ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
  path[n > 0 ? n : 0] = 0;
  char *slash = strrchr(path, '/');
  size_t room = slash ? (size_t)(path + PATH_MAX - slash - 1) : 0;
  int length = slash ? snprintf(slash + 1, room, "%s", name) : -1;
  if (length > 0 && (size_t)length < room && access(path, X_OK) == 0) return TOOL_DONE;
  return tool_fail(TOOL_INPUT, TOOL_E_ENV_COMMAND, "%s is not beside this program, and is needed for this", name);
}

/* argv is not written to; execv's type says so in C++ alone. */
static void become(const char *path, const char *const *argv) {
  execv(path, (char *const *)(uintptr_t)argv);
  tool_fail(TOOL_INPUT, TOOL_E_ENV_COMMAND, "%s cannot be started: %s", path, strerror(errno));
}

/* ---- verify ---- */

int command_verify(int argc, char **argv) {
  bool json = false, exit_now = false;
  char path[PATH_MAX];
  const tool_setting settings[] = {{"json", 'j', NULL, NULL, TOOL_FLAG, &json, "an object with every probe"}};
  const tool_command_usage usage = {"sexpgpu-choices verify",
                                    "RECORD",
                                    "Compares a record's bit probes with what this machine's device computes.",
                                    settings,
                                    1,
                                    1,
                                    1};
  tool_list operands;
  int status = tool_command_read(&usage, argc, argv, &operands, &exit_now);
  if (!status && !exit_now) status = find_tool(path, "sexpgpu-doctor");
  if (!status && !exit_now) {
    const char *call[] = {"sexpgpu-doctor", "--verify", operands.items[0], json ? "--json" : NULL, NULL};
    become(path, call);
    status = TOOL_INPUT;
  }
  tool_list_free(&operands);
  return status;
}

/* ---- check --file ---- */

/* All that a descriptor gives, owned. */
static char *read_all(int fd, size_t *n) {
  char *bytes = NULL;
  ssize_t got;
  *n = 0;
  do {
    bytes = tool_memory(realloc(bytes, *n + CHUNK));
    do got = read(fd, bytes + *n, CHUNK);
    while (got < 0 && errno == EINTR);
    if (got > 0) *n += (size_t)got;
  } while (got > 0);
  return bytes;
}

/* Runs a program whose standard output is given back. Its exit status; TOOL_DEVICE where a signal ended it. */
static int capture(char **output, size_t *n_output, const char *path, const char *const *argv) {
  int ends[2], status = 0;
  *output = NULL;
  if (fflush(stdout) != 0 || pipe(ends) != 0)
    return tool_fail(TOOL_STORAGE, TOOL_E_ENV_COMMAND, "%s cannot be started: %s", path, strerror(errno));
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    become(path, argv);
    _exit(TOOL_INPUT);
  }
  close(ends[1]);
  if (child > 0) *output = read_all(ends[0], n_output);
  close(ends[0]);
  if (child < 0) return tool_fail(TOOL_STORAGE, TOOL_E_ENV_COMMAND, "%s cannot be started: %s", path, strerror(errno));
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : TOOL_DEVICE;
}

/* Of an explanation: the level and its words. */
static void say_taken(const char *explanation, size_t n, bool as_json) {
  json_t *parsed = json_loadb(explanation, n, 0, NULL), *level = json_object_get(parsed, "determinism");
  const char *words = json_string_value(json_object_get(level, "text"));
  if (as_json) {
    printf("{\"refused\": [], \"level\": %lld", (long long)json_integer_value(json_object_get(level, "level")));
    command_json_text("determinism", words, false);
    puts("}");
  } else {
    printf("ok  every choice can be taken\n    determinism ");
    table_put(words ? words : "", stdout);
    putchar('\n');
  }
  json_decref(parsed);
}

int check_on_device(const char *record, const device_check *check) {
  char path[PATH_MAX], *output = NULL;
  size_t n = 5, n_output = 0;
  const char *call[MOST_ARGUMENTS + 2 * MOST_SETS] = {"sexpgpu-explain", "--json", "--device", "cuda", "--choices"};
  int status = find_tool(path, "sexpgpu-explain");
  if (status) return status;
  if (check->sets.n > MOST_SETS)
    return tool_fail(TOOL_INPUT, TOOL_E_ENV_OPTION, "found %zu --set, expected at most %d", check->sets.n, MOST_SETS);
  char *named = tool_text("%s%s", strncmp(record, "fresh", 5) == 0 ? "./" : "", record);
  call[n++] = named;
  if (check->run) call[n++] = "--run", call[n++] = check->run;
  if (check->variant) call[n++] = "--variant", call[n++] = check->variant;
  for (size_t i = 0; i < check->sets.n; i++) call[n++] = "--set", call[n++] = check->sets.items[i];
  call[n++] = "--";
  call[n++] = check->file;
  status = capture(&output, &n_output, path, call);
  if (status == TOOL_DONE)
    say_taken(output, n_output, check->json);
  else if (check->json && status == TOOL_CHOICE)
    fwrite(output, 1, n_output, stdout);
  free(output);
  free(named);
  return status;
}
