#include "available.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum { LINE_BYTES = 4096 };

/* "MemTotal:       32862064 kB" as bytes; -1: it is not there. */
static int64_t read_meminfo(const char *root, const char *name) {
  char path[LINE_BYTES], line[LINE_BYTES];
  int64_t kib = -1, found = -1;
  snprintf(path, sizeof path, "%s/proc/meminfo", root);
  FILE *file = fopen(path, "r");
  while (file && found < 0 && fgets(line, sizeof line, file)) {
    size_t n = strlen(name);
    if (strncmp(line, name, n) == 0 && line[n] == ':' && sscanf(line + n + 1, "%" SCNd64, &kib) == 1)
      found = kib * 1024;
  }
  if (file) fclose(file);
  return found;
}

/* A number alone in a file; -1: there is none ("max", or no such file). */
static int64_t read_number(const char *directory, const char *name) {
  char path[2 * LINE_BYTES];
  int64_t number = -1;
  snprintf(path, sizeof path, "%s/%s", directory, name);
  FILE *file = fopen(path, "r");
  if (file && fscanf(file, "%" SCNd64, &number) != 1) number = -1;
  if (file) fclose(file);
  return number;
}

/* Of a group's memory.stat, "inactive_file 1234": pages of files, which the system takes back when it needs them. */
static int64_t read_file_pages(const char *directory) {
  char path[2 * LINE_BYTES], line[LINE_BYTES];
  int64_t sum = 0, n_bytes;
  snprintf(path, sizeof path, "%s/memory.stat", directory);
  FILE *file = fopen(path, "r");
  while (file && fgets(line, sizeof line, file)) {
    if (sscanf(line, "inactive_file %" SCNd64, &n_bytes) == 1) sum += n_bytes;
    if (sscanf(line, "active_file %" SCNd64, &n_bytes) == 1) sum += n_bytes;
  }
  if (file) fclose(file);
  return sum;
}

typedef struct limit {
  int64_t n_bytes, left; /* -1: none */
} limit;

/* The tightest limit of a control group and those above it, and the least that is left of one. */
static void read_groups(limit *out, const char *groups, const char *group, const char *most, const char *used) {
  char path[LINE_BYTES];
  snprintf(path, sizeof path, "%s%s", groups, group);
  size_t n_root = strlen(groups);
  for (;;) {
    int64_t allowed = read_number(path, most), taken = read_number(path, used);
    if (allowed >= 0 && allowed < INT64_MAX / 4) {
      int64_t held = taken - read_file_pages(path), left = held < allowed ? allowed - (held > 0 ? held : 0) : 0;
      if (out->n_bytes < 0 || allowed < out->n_bytes) out->n_bytes = allowed;
      if (out->left < 0 || left < out->left) out->left = left;
    }
    char *slash = strlen(path) > n_root ? strrchr(path + n_root, '/') : NULL;
    if (!slash) return;
    *slash = 0;
  }
}

/* Of version 2 ("0::/group") or 1 ("5:memory:/group"). */
static limit find_limit(const char *root) {
  char line[LINE_BYTES / 4], groups[LINE_BYTES / 2], path[LINE_BYTES];
  limit found = {-1, -1};
  snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  FILE *file = fopen(path, "r");
  while (file && fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
    if (!group) continue;
    *group++ = 0;
    bool second = !names[1];
    if (!second && strcmp(names + 1, "memory") != 0) continue;
    snprintf(groups, sizeof groups, "%s/sys/fs/cgroup%s", root, second ? "" : "/memory");
    read_groups(&found, groups, group, second ? "memory.max" : "memory.limit_in_bytes",
                second ? "memory.current" : "memory.usage_in_bytes");
  }
  if (file) fclose(file);
  return found;
}

/* What is mapped counts against RLIMIT_AS: "VmSize:  1234 kB". */
static int64_t address_bytes(void) {
  char line[LINE_BYTES];
  int64_t kib = -1;
  FILE *file = fopen("/proc/self/status", "r");
  while (file && kib < 0 && fgets(line, sizeof line, file))
    if (sscanf(line, "VmSize: %" SCNd64, &kib) != 1) kib = -1;
  if (file) fclose(file);
  return kib < 0 ? 0 : kib * 1024;
}

void tool_available_read(tool_available *available, const char *root) {
  struct rlimit addresses;
  limit group = find_limit(root);
  *available = (tool_available){.total = read_meminfo(root, "MemTotal"),
                                .available = read_meminfo(root, "MemAvailable"),
                                .group = group.n_bytes,
                                .group_left = group.left,
                                .addresses = -1,
                                .address_left = -1};
  if (getrlimit(RLIMIT_AS, &addresses) || addresses.rlim_cur > INT64_MAX / 4) return;
  int64_t taken = address_bytes();
  available->addresses = (int64_t)addresses.rlim_cur;
  available->address_left = taken < available->addresses ? available->addresses - taken : 0;
}

int64_t tool_available_least(const tool_available *available, const char **whose) {
  const struct {
    int64_t left;
    const char *whose;
  } limits[] = {{available->available, "the machine has"},
                {available->group_left, "the control group leaves"},
                {available->address_left, "ulimit -v leaves"}};
  int64_t least = -1;
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    if (limits[i].left < 0 || (least >= 0 && limits[i].left >= least)) continue;
    least = limits[i].left;
    *whose = limits[i].whose;
  }
  return least;
}
