/* Memory, and the directory for what is fetched. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "../common/available.h"
#include "../common/format.h"
#include "doctor.h"

enum { TMPFS = 0x01021994 };
static const int64_t gib = INT64_C(1) << 30;

/* ---- memory ---- */

void doctor_check_memory(doctor *d) {
  char all[32], some[32], most[32];
  tool_available found;
  tool_available_read(&found, "");
  int64_t total = found.total, available = found.available;
  doctor_begin(d, "memory");
  doctor_fact_number(d, "total_bytes", total);
  doctor_fact_number(d, "available_bytes", available);
  doctor_fact_number(d, "limit_bytes", found.group);
  int64_t least = found.group >= 0 && found.group_left < available ? found.group_left : available;
  char *words = doctor_text("%s of %s available", tool_bytes(some, available), tool_bytes(all, total));
  if (found.group >= 0) {
    char *limited = doctor_text("the control group allows %s", tool_bytes(most, found.group));
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
