/* Memory, and the directory for what is fetched. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "../common/format.h"
#include "doctor.h"

enum { LINE_BYTES = 4096, TMPFS = 0x01021994 };
static const int64_t gib = INT64_C(1) << 30;

/* ---- memory ---- */

/* "MemTotal:       32862064 kB" as bytes; -1: it is not there. */
static int64_t read_meminfo(const char *name) {
  char line[LINE_BYTES];
  int64_t kib = -1, found = -1;
  FILE *file = fopen("/proc/meminfo", "r");
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

typedef struct limit {
  int64_t n_bytes, left; /* -1: none */
} limit;

/* The tightest limit of a control group and those above it. */
static void read_groups(limit *out, const char *root, const char *group, const char *most, const char *used) {
  char path[LINE_BYTES];
  snprintf(path, sizeof path, "%s%s", root, group);
  size_t n_root = strlen(root);
  for (;;) {
    int64_t allowed = read_number(path, most), taken = read_number(path, used);
    if (allowed >= 0 && allowed < INT64_MAX / 4 && (out->n_bytes < 0 || allowed < out->n_bytes)) {
      int64_t left = taken < allowed ? allowed - taken : 0;
      *out = (limit){allowed, taken < 0 ? allowed : left};
    }
    char *slash = strlen(path) > n_root ? strrchr(path + n_root, '/') : NULL;
    if (!slash) return;
    *slash = 0;
  }
}

/* Of version 2 ("0::/group") or 1 ("5:memory:/group"). */
static limit find_limit(void) {
  char line[LINE_BYTES / 2];
  limit found = {-1, -1};
  FILE *file = fopen("/proc/self/cgroup", "r");
  while (file && fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
    if (!group) continue;
    *group++ = 0;
    if (!names[1]) read_groups(&found, "/sys/fs/cgroup", group, "memory.max", "memory.current");
    if (strcmp(names + 1, "memory") == 0)
      read_groups(&found, "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes", "memory.usage_in_bytes");
  }
  if (file) fclose(file);
  return found;
}

void doctor_check_memory(doctor *d) {
  char all[32], some[32], most[32];
  int64_t total = read_meminfo("MemTotal"), available = read_meminfo("MemAvailable");
  limit group = find_limit();
  doctor_begin(d, "memory");
  doctor_fact_number(d, "total_bytes", total);
  doctor_fact_number(d, "available_bytes", available);
  doctor_fact_number(d, "limit_bytes", group.n_bytes);
  int64_t least = group.n_bytes >= 0 && group.left < available ? group.left : available;
  char *words = doctor_text("%s of %s available", tool_bytes(some, available), tool_bytes(all, total));
  if (group.n_bytes >= 0) {
    char *limited = doctor_text("the control group allows %s", tool_bytes(most, group.n_bytes));
    doctor_add(&words, ", ", limited);
    free(limited);
  }
  if (total < 0 || available < 0)
    doctor_end(d, DOCTOR_WARN, "mount /proc", "/proc/meminfo does not tell");
  else if (least < gib)
    doctor_end(d, DOCTOR_WARN, "a run that needs more is killed by the system; SEXPGPU_MEMORY refuses it first", "%s",
               words);
  else
    doctor_end(d, DOCTOR_OK, NULL, "%s", words);
  free(words);
}

/* ---- scratch ---- */

/* Whether a file can be made there, which is removed at once. An errno, or 0. */
static int try_file(const char *directory) {
  char *path = doctor_text("%s/sexpgpu-doctor-XXXXXX", directory);
  int fd = mkstemp(path), failed = fd < 0 ? errno : 0;
  if (fd >= 0) {
    unlink(path);
    close(fd);
  }
  free(path);
  return failed;
}

static void end_scratch(doctor *d, const char *directory, const char *from, const struct statvfs *room) {
  struct statfs system;
  char left[32];
  int64_t n_bytes = (int64_t)((uint64_t)room->f_bavail * room->f_frsize);
  bool in_memory = statfs(directory, &system) == 0 && (uint64_t)system.f_type == TMPFS;
  doctor_fact_number(d, "available_bytes", n_bytes);
  doctor_fact_bool(d, "in_memory", in_memory);
  tool_bytes(left, n_bytes);
  if (in_memory)
    doctor_end(d, DOCTOR_WARN, "set TMPDIR to a directory on a disk: objects that are fetched take memory there",
               "%s%s, %s free, in memory (tmpfs)", directory, from, left);
  else if (n_bytes < gib)
    doctor_end(d, DOCTOR_WARN, "set TMPDIR to a directory with more space for objects that are fetched",
               "%s%s, %s free", directory, from, left);
  else
    doctor_end(d, DOCTOR_OK, NULL, "%s%s, %s free", directory, from, left);
}

void doctor_check_scratch(doctor *d) {
  const char *set = d->credentials.scratch, *directory = set ? set : "/tmp";
  const char *from = set ? " (TMPDIR)" : "";
  struct statvfs room;
  doctor_begin(d, "scratch");
  doctor_fact(d, "path", directory);
  int failed = statvfs(directory, &room) != 0 ? errno : try_file(directory);
  if (failed)
    doctor_end(d, DOCTOR_FAIL,
               "set TMPDIR to a directory that can be written: objects of s3:// names are fetched there", "%s%s: %s",
               directory, from, strerror(failed));
  else
    end_scratch(d, directory, from, &room);
}
