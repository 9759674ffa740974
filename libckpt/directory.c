/* Checkpoints in a local directory.
 *
 * A checkpoint is written as .tmp-step-<n>-<process>-<try> beside its place, each file and directory is made durable,
 * and one rename shows it. Its writer holds a lock (flock) on the temporary directory, which ends with the process
 * whatever ends it: so the next writer removes exactly what killed ones left. Where step-<n> is there already the two
 * are exchanged in one call; where the system has no such call the old one steps aside as .old-step-<n>-…, and the
 * next writer puts it back if the new one never came. A copy is made in .copy-step-<n>, locked alike, which stays where
 * the copy ends early: the next one goes on in it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* renameat2 */
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "files.h"
#include "location.h"

enum { MOST_TRIES = 100 };

typedef struct directory {
  ckpt_location location;
  int fd;
} directory;

typedef struct staged {
  ck_files files;
  int64_t step;
  int fd; /* of the temporary directory, locked */
  char *name, *path;
  bool published;
} staged;

static directory *directory_of(ckpt_location *location) { return (directory *)(void *)location; }

static const char temporary[] = ".tmp-step-", aside[] = ".old-step-", copying[] = ".copy-step-";

static void step_name(char out[32], int64_t step) { snprintf(out, 32, "step-%lld", (long long)step); }

static char *scratch_name(const char *prefix, int64_t step, int attempt) {
  return ck_print("%s%lld-%ld-%d", prefix, (long long)step, (long)getpid(), attempt);
}

/* ---- Listing ---- */

static ckpt_status fail_list(ckpt_location *location, ckpt_error *error) {
  int cause = errno;
  return ck_fail(error, cause == ENOENT ? CK_E_LOCATION_GONE : CK_E_LOCATION_OPEN, location->name, -1, cause,
                 "listing it failed");
}

static ckpt_status list_steps(int64_t **steps, size_t *n_steps, ckpt_location *location, ckpt_error *error) {
  size_t n = 0, n_found = 0;
  char **names = ck_list_names(&n, directory_of(location)->fd);
  *steps = NULL;
  *n_steps = 0;
  if (!names) return fail_list(location, error);
  int64_t *found = ck_take(n, sizeof *found);
  for (size_t i = 0; found && i < n; i++) n_found += ck_parse_step(&found[n_found], names[i], "step-", false);
  ck_free_names(names, n);
  if (!found) return ck_no_memory(error, n * sizeof *found);
  qsort(found, n_found, sizeof *found, ck_by_step);
  *steps = found;
  *n_steps = n_found;
  return CKPT_OK;
}

/* ---- What killed writers left ---- */

static void restore_or_remove(directory *place, const char *name, int64_t step) {
  char target[32];
  struct stat status;
  step_name(target, step);
  if (fstatat(place->fd, target, &status, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT)
    renameat(place->fd, name, place->fd, target);
  else
    ck_remove_directory(place->fd, name);
}

/* What cannot be removed now is left to the next writer. */
static int64_t clean(directory *place) {
  size_t n = 0;
  int64_t n_cleaned = 0;
  char **names = ck_list_names(&n, place->fd);
  for (size_t i = 0; names && i < n; i++) {
    int64_t step;
    bool is_temporary = ck_parse_step(&step, names[i], temporary, true);
    if (!is_temporary && !ck_parse_step(&step, names[i], aside, true)) continue;
    int fd = ck_open_directory(place->fd, names[i]);
    if (fd < 0) continue;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
      n_cleaned++;
      if (is_temporary)
        ck_remove_directory(place->fd, names[i]);
      else
        restore_or_remove(place, names[i], step);
    }
    close(fd);
  }
  ck_free_names(names, n);
  return n_cleaned;
}

static ckpt_status clean_location(int64_t *n_out, ckpt_location *location, ckpt_error *error) {
  (void)error;
  *n_out = clean(directory_of(location));
  return CKPT_OK;
}

/* ---- Stages ---- */

/* Whether a directory that was opened and locked still stands under its name. */
static bool is_there(directory *place, const char *name, int fd) {
  struct stat named, opened;
  return fstatat(place->fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &opened) == 0 &&
         named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

/* Another writer's cleaning may come between the mkdir and the lock; then the next name is tried. */
static int make_locked(directory *place, const char *name) {
  if (mkdirat(place->fd, name, 0777) != 0) return -1;
  int fd = ck_open_directory(place->fd, name);
  bool busy = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (fd >= 0 && !busy && is_there(place, name, fd)) return fd;
  int cause = fd >= 0 || errno == ENOENT ? EEXIST : errno;
  if (fd >= 0) close(fd);
  if (fd < 0) unlinkat(place->fd, name, AT_REMOVEDIR);
  errno = cause;
  return -1;
}

static ckpt_status make_directory(staged *stage, directory *place, ckpt_error *error) {
  for (int i = 0; i < MOST_TRIES; i++) {
    free(stage->name);
    stage->name = scratch_name(temporary, stage->step, i);
    if (!stage->name) return ck_no_memory(error, 0);
    stage->fd = make_locked(place, stage->name);
    if (stage->fd >= 0) break;
    if (errno != EEXIST) break;
  }
  if (stage->fd < 0) return ck_fail_write(error, place->location.name, NULL, "making a directory in it");
  stage->path = ck_join(place->location.name, stage->name);
  return stage->path ? CKPT_OK : ck_no_memory(error, 0);
}

static void end_stage(ckpt_location *location, ck_output *output) {
  staged *stage = (void *)output;
  bool remove = !stage->published && !output->leave;
  ck_files_clear(&stage->files);
  if (stage->fd >= 0 && remove) ck_remove_directory(directory_of(location)->fd, stage->name);
  if (stage->fd >= 0) close(stage->fd);
  free(stage->name);
  free(stage->path);
  free(stage);
}

static ckpt_status new_stage(ck_output **out, ckpt_location *location, int64_t step,
                             ckpt_status (*make)(staged *, directory *, ckpt_error *), ckpt_error *error) {
  *out = NULL;
  staged *stage = ck_take(1, sizeof *stage);
  if (!stage) return ck_no_memory(error, sizeof *stage);
  stage->step = step;
  stage->fd = -1;
  clean(directory_of(location));
  ckpt_status status = make(stage, directory_of(location), error);
  if (status == CKPT_OK) status = ck_files_init(&stage->files, stage->fd, stage->path, false, error);
  if (status == CKPT_OK)
    *out = &stage->files.output;
  else
    end_stage(location, &stage->files.output);
  return status;
}

static ckpt_status begin_stage(ck_output **out, ckpt_location *location, int64_t step, ckpt_error *error) {
  return new_stage(out, location, step, make_directory, error);
}

/* ---- Copies ---- */

/* The directory of the copies of a step, made or found, locked; -1 and errno. */
static int lock_copy(directory *place, const char *name) {
  for (int i = 0; i < MOST_TRIES; i++) {
    if (mkdirat(place->fd, name, 0777) != 0 && errno != EEXIST) return -1;
    int fd = ck_open_directory(place->fd, name);
    if (fd < 0 && errno != ENOENT) return -1;
    if (fd < 0) continue;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      close(fd);
      errno = EWOULDBLOCK;
      return -1;
    }
    if (is_there(place, name, fd)) return fd;
    close(fd);
  }
  errno = ENOENT;
  return -1;
}

static ckpt_status make_copy(staged *stage, directory *place, ckpt_error *error) {
  stage->name = ck_print("%s%lld", copying, (long long)stage->step);
  stage->path = stage->name ? ck_join(place->location.name, stage->name) : NULL;
  if (!stage->path) return ck_no_memory(error, 0);
  stage->fd = lock_copy(place, stage->name);
  if (stage->fd >= 0) return CKPT_OK;
  if (errno == EWOULDBLOCK)
    return ck_fail(error, CK_E_WRITE, stage->path, -1, errno, "another copy of this step is being made");
  return ck_fail_write(error, place->location.name, stage->name, "making it");
}

/* Whether `name` is one of the files, whole. */
static const ckpt_file_entry *find_whole(const staged *stage, const char *name, const ckpt_file_entry *files,
                                         size_t n_files) {
  char found[CKPT_SHA256_TEXT];
  struct stat status;
  for (size_t i = 0; i < n_files; i++) {
    if (strcmp(files[i].name, name) != 0) continue;
    if (fstatat(stage->fd, name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode)) return NULL;
    if ((uint64_t)status.st_size != files[i].size) return NULL;
    char *path = ck_join(stage->path, name);
    bool same = path && ckpt_sha256_file(found, path, NULL) == CKPT_OK && strcmp(found, files[i].sha256) == 0;
    free(path);
    return same ? &files[i] : NULL;
  }
  return NULL;
}

static ckpt_status take_up(ck_output **out, ckpt_location *location, int64_t step, const ckpt_file_entry *files,
                           size_t n_files, ckpt_error *error) {
  ckpt_status status = new_stage(out, location, step, make_copy, error);
  if (status != CKPT_OK) return status;
  staged *stage = (void *)*out;
  size_t n = 0;
  char **names = ck_list_names(&n, stage->fd);
  if (!names) status = ck_fail_write(error, stage->path, NULL, "listing it");
  for (size_t i = 0; i < n && status == CKPT_OK; i++) {
    const ckpt_file_entry *whole = find_whole(stage, names[i], files, n_files);
    if (whole)
      status = ck_output_keep(&stage->files.output, whole, error);
    else if (unlinkat(stage->fd, names[i], 0) != 0)
      status = ck_fail_write(error, stage->path, names[i], "removing it");
  }
  ck_free_names(names, n);
  if (status == CKPT_OK) return CKPT_OK;
  (*out)->leave = true;
  end_stage(location, *out);
  *out = NULL;
  return status;
}

/* ---- Publishing ---- */

/* Moves `name` to an unused scratch name, which is given; NULL and errno on failure. */
static char *step_aside(directory *place, const char *name, const char *prefix, int64_t step) {
  for (int i = 0; i < MOST_TRIES; i++) {
    char *other = scratch_name(prefix, step, i);
    struct stat status;
    bool unused = other && fstatat(place->fd, other, &status, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
    if (unused && renameat(place->fd, name, place->fd, other) == 0) return other;
    int cause = other ? errno : ENOMEM;
    free(other);
    errno = cause;
    if (unused && cause != EEXIST && cause != ENOTEMPTY) return NULL;
  }
  return NULL;
}

static int exchange(directory *place, const char *one, const char *other) {
#ifdef RENAME_EXCHANGE
  return renameat2(place->fd, one, place->fd, other, RENAME_EXCHANGE);
#else
  (void)place, (void)one, (void)other;
  errno = ENOSYS;
  return -1;
#endif
}

/* Puts the stage in the place of a directory that is there. */
static int replace(directory *place, staged *stage, const char *target) {
  if (exchange(place, stage->name, target) == 0) {
    ck_remove_directory(place->fd, stage->name);
    return 0;
  }
  if (errno != EINVAL && errno != ENOSYS) return -1;
  char *old = step_aside(place, target, aside, stage->step);
  if (!old) return -1;
  int result = renameat(place->fd, stage->name, place->fd, target), cause = errno;
  if (result != 0)
    renameat(place->fd, old, place->fd, target);
  else
    ck_remove_directory(place->fd, old);
  free(old);
  errno = cause;
  return result;
}

/* Refuses to replace what is no checkpoint: anything but a directory of files. */
static ckpt_status check_old(directory *place, const char *target, ckpt_error *error) {
  int old = ck_open_directory(place->fd, target);
  if (old < 0) return errno == ENOENT ? CKPT_OK : ck_fail_write(error, place->location.name, target, "replacing it");
  bool flat = ck_is_flat(old, false);
  close(old);
  if (flat) return CKPT_OK;
  return ck_fail(error, CK_E_WRITE, place->location.name, -1, ENOTEMPTY, "'%s' holds more than files", target);
}

/* A rename takes the place of nothing and of an empty directory; what else is there is replaced. Between the two
 * another writer may put something there, or take it away: then once more. */
static ckpt_status show(directory *place, staged *stage, ckpt_error *error) {
  char target[32];
  int result = -1;
  step_name(target, stage->step);
  for (int i = 0; i < MOST_TRIES && result != 0; i++) {
    ckpt_status status = check_old(place, target, error);
    if (status != CKPT_OK) return status;
    result = renameat(place->fd, stage->name, place->fd, target);
    if (result == 0 || (errno != EEXIST && errno != ENOTEMPTY)) break;
    result = replace(place, stage, target);
    if (result != 0 && errno != ENOENT) break;
  }
  if (result != 0) return ck_fail_write(error, place->location.name, target, "renaming to it");
  stage->published = true;
  return CKPT_OK;
}

static ckpt_status publish(ckpt_location *location, ck_output *output, ckpt_error *error) {
  directory *place = directory_of(location);
  staged *stage = (void *)output;
  if (ck_sync_directory(stage->fd) != 0) return ck_fail_write(error, stage->path, NULL, "fsync");
  ckpt_status status = show(place, stage, error);
  if (status == CKPT_OK && ck_sync_directory(place->fd) != 0)
    status = ck_fail_write(error, location->name, NULL, "fsync");
  return status;
}

/* ---- Removing ---- */

static ckpt_status remove_step(ckpt_location *location, int64_t step, bool complete, ckpt_error *error) {
  directory *place = directory_of(location);
  char name[32];
  step_name(name, step);
  int fd = ck_open_directory(place->fd, name);
  if (fd < 0) return ck_fail(error, CK_E_WRITE, location->name, -1, errno, "opening '%s' to remove it failed", name);
  bool removable = ck_is_flat(fd, !complete);
  flock(fd, LOCK_EX | LOCK_NB); /* keeps cleaners away while it goes */
  char *scratch = removable ? step_aside(place, name, temporary, step) : NULL;
  ckpt_status status = CKPT_OK;
  if (!removable)
    status = ck_fail(error, CK_E_WRITE, location->name, -1, ENOTEMPTY, "'%s' is not removed: it holds more than %s",
                     name, complete ? "files" : "files of checkpoints");
  else if (!scratch || ck_remove_directory(place->fd, scratch) != 0)
    status = ck_fail(error, CK_E_WRITE, location->name, -1, errno, "removing '%s' failed", name);
  close(fd);
  free(scratch);
  return status;
}

/* ---- Opening ---- */

static void close_directory(ckpt_location *location) {
  directory *place = directory_of(location);
  if (place->fd >= 0) close(place->fd);
  free(location->name);
  free(place);
}

static const ck_location_ops directory_ops = {close_directory, list_steps, begin_stage, take_up,
                                              publish,         end_stage,  remove_step, clean_location};

/* mkdir of the path and all before it; 0, or -1 and errno. */
static int make_path(const char *name, ckpt_error *error, ckpt_status *status) {
  char *path = ck_copy_text(name);
  if (!path) {
    *status = ck_no_memory(error, strlen(name));
    return -1;
  }
  int result = 0;
  for (char *slash = path; result == 0 && slash;) {
    slash = strchr(slash + 1, '/');
    if (slash) *slash = 0;
    result = mkdir(path, 0777) == 0 || errno == EEXIST || errno == EISDIR ? 0 : -1;
    if (slash) *slash = '/';
  }
  int cause = errno;
  free(path);
  errno = cause;
  return result;
}

static ckpt_status open_place(directory *place, bool create, ckpt_error *error) {
  const char *name = place->location.name;
  ckpt_status status = CKPT_OK;
  if (!*name) return ck_fail(error, CK_E_LOCATION_OPEN, NULL, -1, ENOENT, "expected the path of a directory");
  if (create && make_path(name, error, &status) != 0)
    return status != CKPT_OK ? status
                             : ck_fail(error, CK_E_LOCATION_OPEN, name, -1, errno, "making the directory failed");
  place->fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (place->fd < 0) return ck_fail(error, CK_E_LOCATION_OPEN, name, -1, errno, "opening the directory failed");
  if (create && faccessat(place->fd, ".", W_OK | X_OK, AT_EACCESS) != 0)
    return ck_fail(error, CK_E_LOCATION_OPEN, name, -1, errno, "the directory cannot be written");
  return CKPT_OK;
}

ckpt_status ck_directory_open(ckpt_location **out, const char *name, bool create, ckpt_error *error) {
  *out = NULL;
  directory *place = ck_take(1, sizeof *place);
  if (!place) return ck_no_memory(error, sizeof *place);
  place->location.ops = &directory_ops;
  place->location.name = ck_copy_text(name);
  place->fd = -1;
  ckpt_status status = place->location.name ? open_place(place, create, error) : ck_no_memory(error, strlen(name));
  if (status == CKPT_OK)
    *out = &place->location;
  else
    close_directory(&place->location);
  return status;
}
