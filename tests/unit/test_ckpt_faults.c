/* Every system call and every allocation of reading and writing fails once: an error is reported, nothing partial is
 * left, the checkpoint before is whole, and nothing leaks. The calls below take the place of libc's in this program.
 * The library hashes in threads of its own, so the n-th call is not the same one each time; how many there are is. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/checkpoint.h"
#include "../common/cmocka_all.h"
#include "../common/scratch.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

/* ---- The n-th call fails ---- */

static atomic_long countdown; /* 0 and below: none fails; 1: the next */
static int cause;
static bool calls_fail, memory_fails;
static atomic_uint n_failed;

static bool fails_now(bool armed) {
  if (!armed || atomic_fetch_sub(&countdown, 1) != 1) return false;
  atomic_fetch_add(&n_failed, 1);
  errno = cause;
  return true;
}

/* ---- What a power cut would take ---- */

enum { FDS = 256 };
static bool watched;             /* what follows is kept, by the thread that writes */
static bool unsynced[FDS];       /* bytes were written to it, or a name was made in it, since its fsync */
static unsigned n_early, n_lost; /* renames before all was durable; files closed before they were */

static void note_change(int fd) {
  if (watched && fd >= 0 && fd < FDS) unsynced[fd] = true;
}
static int note_open(int fd) {
  if (watched && fd >= 0 && fd < FDS) {
    n_lost += unsynced[fd];
    unsynced[fd] = false;
  }
  return fd;
}
/* Of the directory that the rename is in, the old names may still be on their way. */
static void note_rename(int directory) {
  for (int fd = 0; watched && fd < FDS; fd++) n_early += unsynced[fd] && fd != directory;
}

#define REAL(name, ...)                                 \
  static __typeof__(&name) real;                        \
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name); \
  return real(__VA_ARGS__)

int openat(int directory, const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  if (fails_now(calls_fail)) return -1;
  static int (*real)(int, const char *, int, ...);
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "openat");
  if (flags & O_CREAT) note_change(directory);
  return note_open(real(directory, path, flags, mode));
}
int open(const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  if (fails_now(calls_fail)) return -1;
  REAL(open, path, flags, mode);
}
ssize_t write(int fd, const void *from, size_t n) {
  if (fails_now(calls_fail)) return -1;
  note_change(fd);
  REAL(write, fd, from, n);
}
ssize_t pread(int fd, void *from, size_t n, off_t offset) {
  if (fails_now(calls_fail)) return -1;
  REAL(pread, fd, from, n, offset);
}
int fsync(int fd) {
  if (fails_now(calls_fail)) return -1;
  if (watched && fd >= 0 && fd < FDS) unsynced[fd] = false;
  REAL(fsync, fd);
}
int mkdirat(int directory, const char *path, mode_t mode) {
  if (fails_now(calls_fail)) return -1;
  REAL(mkdirat, directory, path, mode);
}
int renameat(int from, const char *old, int to, const char *new) {
  if (fails_now(calls_fail)) return -1;
  note_rename(from);
  note_change(to);
  REAL(renameat, from, old, to, new);
}
int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
  if (fails_now(calls_fail)) return -1;
  note_rename(from);
  note_change(to);
  REAL(renameat2, from, old, to, new, flags);
}
int unlinkat(int directory, const char *path, int flags) {
  if (fails_now(calls_fail)) return -1;
  REAL(unlinkat, directory, path, flags);
}
int flock(int fd, int operation) {
  if (fails_now(calls_fail)) return -1;
  REAL(flock, fd, operation);
}
int fstat(int fd, struct stat *status) {
  if (fails_now(calls_fail)) return -1;
  REAL(fstat, fd, status);
}
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *context) {
  if (fails_now(calls_fail)) return EAGAIN;
  REAL(pthread_create, thread, attributes, start, context);
}
void *mmap(void *address, size_t n, int protection, int flags, int fd, off_t offset) {
  if (fd >= 0 && fails_now(calls_fail)) return MAP_FAILED;
  REAL(mmap, address, n, protection, flags, fd, offset);
}

/* Sanitizers have allocators of their own; there, memory does not fail (and they look for leaks themselves). */
static atomic_long n_live; /* allocations that were not freed */
#ifndef SANITIZED
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t item);
void *__libc_realloc(void *old, size_t n);
void __libc_free(void *old);
static void *counted(void *made) {
  n_live += made != NULL;
  return made;
}
void *malloc(size_t n) { return fails_now(memory_fails) ? NULL : counted(__libc_malloc(n)); }
void *calloc(size_t n, size_t item) { return fails_now(memory_fails) ? NULL : counted(__libc_calloc(n, item)); }
void *realloc(void *old, size_t n) {
  if (fails_now(memory_fails)) return NULL;
  return old ? __libc_realloc(old, n) : counted(__libc_realloc(old, n));
}
void free(void *old) {
  n_live -= old != NULL;
  __libc_free(old);
}
#endif

/* ---- What is tried ---- */

/* Large enough for its file to be hashed in another thread. */
static float large[40000];

static ckpt_status write_step(float value, ckpt_error *error) {
  ckpt_location *location = NULL;
  ckpt_experiment experiment = checkpoint_sample(1, value);
  ckpt_array parameters[3] = {experiment.parameters[0], experiment.parameters[1]};
  parameters[2] = (ckpt_array){.path = "large", .dtype = CKPT_F32, .rank = 1, .dims = {40000}, .data = large};
  experiment.parameters = parameters;
  experiment.n_parameters = 3;
  ckpt_write_options options = {.keep = 1, .shard_n_bytes = 8};
  ckpt_written written;
  ckpt_status status = ckpt_location_open(&location, scratch("run"), true, NULL, error);
  if (status == CKPT_OK) status = ckpt_checkpoint_write(&written, location, &experiment, &options, error);
  ckpt_location_close(location);
  return status;
}

static ckpt_status read_step(ckpt_error *error) {
  ckpt_location *location = NULL;
  ckpt_checkpoint *checkpoint = NULL;
  ckpt_status status = ckpt_location_open(&location, scratch("run"), false, NULL, error);
  if (status == CKPT_OK) status = ckpt_checkpoint_open(&checkpoint, location, CKPT_LATEST, error);
  if (status == CKPT_OK) status = ckpt_checkpoint_verify(checkpoint, error);
  ckpt_checkpoint_close(checkpoint);
  ckpt_location_close(location);
  return status;
}

static ckpt_status write_tensors(ckpt_error *error) {
  ckpt_experiment experiment = checkpoint_sample(1, 1);
  return ckpt_safetensors_write(scratch("w.safetensors"), experiment.parameters, 2, 0, error);
}

static ckpt_status read_tensors(ckpt_error *error) {
  static const char *const names[] = {"w.safetensors", "n.npy", "n.npz", "n.npy.gz"};
  ckpt_status status = CKPT_OK;
  for (size_t i = 0; status == CKPT_OK && i < sizeof names / sizeof *names; i++) {
    ckpt_tensors *tensors = NULL;
    if (!scratch_has(scratch("%s", names[i]))) continue;
    status = ckpt_tensors_open(&tensors, scratch("%s", names[i]), NULL, error);
    ckpt_tensors_close(tensors);
  }
  return status;
}

static ckpt_status read_manifest(ckpt_error *error) {
  ckpt_manifest *manifest = NULL;
  ckpt_status status = ckpt_manifest_open(&manifest, scratch("m.json"), NULL, error);
  if (status == CKPT_OK) status = ckpt_manifest_check(manifest, true, NULL, error);
  ckpt_manifest_free(manifest);
  return status;
}

static float next_value = 100;
static ckpt_status write_next(ckpt_error *error) { return write_step(next_value, error); }

/* What holds whatever has failed: step-1 is there, whole, with the old value or the new. */
static void expect_whole(void) {
  ckpt_checkpoint *checkpoint = NULL;
  ckpt_error error;
  expect_ok(ckpt_checkpoint_open_path(&checkpoint, scratch("run/step-1"), NULL, &error), &error);
  expect_ok(ckpt_checkpoint_verify(checkpoint, &error), &error);
  const ckpt_tensor *tensor = NULL;
  expect_ok(ckpt_tensors_find(&tensor, ckpt_checkpoint_parameters(checkpoint), "layer/w", &error), &error);
  float value = 0;
  expect_ok(ckpt_tensors_read(&value, ckpt_checkpoint_parameters(checkpoint), tensor, 0, 1, &error), &error);
  assert_true(value > next_value - 1.5f && value < next_value + 0.5f);
  ckpt_checkpoint_close(checkpoint);
}

typedef ckpt_status action(ckpt_error *error);

static long n_no_memory, n_unread; /* errors of those codes, over all */

static void count_code(const ckpt_error *error) {
  n_no_memory += strcmp(error->code, "E-CKPT-001") == 0;
  n_unread += strcmp(error->code, "E-DATA-102") == 0;
}

/* Lets the first, second, third … call fail until all succeed; the number of calls. */
static long fail_each(action *act, bool calls, int errno_value, bool is_write) {
  long n = 0;
  for (bool failed = true; failed;) {
    ckpt_error error = {0};
    if (is_write) next_value += 1;
    n_failed = 0;
    cause = errno_value;
    calls_fail = calls;
    memory_fails = !calls;
    countdown = ++n;
    long before = n_live;
    ckpt_status status = act(&error);
    countdown = 0;
    calls_fail = memory_fails = false;
    failed = n_failed > 0;
    assert_int_equal(n_live, before);
    if (status != CKPT_OK) assert_true(failed && error.code[0] == 'E' && error.message[0] && error.status == status);
    if (!failed) expect_ok(status, &error);
    count_code(&error);
    if (!is_write) continue;
    expect_whole();
    expect_ok(write_step(next_value, &error), &error); /* and the next one clears away what is left */
    assert_int_equal(scratch_count(scratch("run")), 1);
  }
  return n - 1;
}

static int prepare(void **state) {
  (void)state;
  ckpt_error error;
  scratch_setup(state);
  expect_ok(write_step(next_value, &error), &error);
  expect_ok(write_tensors(&error), &error);
  static const char manifest[] =
      "{\"record\": \"data-manifest\", \"version\": 1, \"kind\": \"csv\", \"fields\": [\"x\"], \"shards\": [{\"path\": "
      "\"abc\", \"size\": 3, \"sha256\": "
      "\"sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"}]}";
  scratch_write(scratch("m.json"), manifest, sizeof manifest - 1);
  scratch_write(scratch("abc"), "abc", 3);
  scratch_numpy(
      "import gzip, shutil\na = np.asfortranarray(np.arange(6).reshape(2, 3))\nnp.save('n.npy', a)\n"
      "np.savez_compressed('n.npz', a=a, b=a)\nshutil.copyfileobj(open('n.npy', 'rb'), gzip.open('n.npy.gz', 'wb'))\n");
  return 0;
}

static void calls_of_writing(void **state) {
  (void)state;
  static const int causes[] = {EIO, ENOSPC, EACCES, EROFS, ENOENT, EINVAL, ENOSYS, EINTR};
  for (size_t i = 0; i < sizeof causes / sizeof *causes; i++) {
    long n = fail_each(write_next, true, causes[i], true);
    print_message("%s: %ld calls failed in turn\n", strerror(causes[i]), n);
    assert_true(n > 30);
  }
  assert_true(fail_each(write_tensors, true, EIO, false) > 5);
}

/* Every file and its directory are durable before the rename that shows them, and the rename before the end. */
static void what_is_shown_is_durable(void **state) {
  (void)state;
  ckpt_error error;
  for (int i = 0; i < 2; i++) { /* in the place of one, and where none is */
    next_value += 1;
    n_early = n_lost = 0;
    memset(unsynced, 0, sizeof unsynced);
    watched = true;
    ckpt_status status = write_step(next_value, &error);
    watched = false;
    expect_ok(status, &error);
    assert_int_equal(n_early, 0);
    assert_int_equal(n_lost, 0);
    for (int fd = 0; fd < FDS; fd++) assert_false(unsynced[fd]);
    ckpt_location *location = NULL;
    expect_ok(ckpt_location_open(&location, scratch("run"), false, NULL, &error), &error);
    expect_ok(ckpt_checkpoint_remove(location, 1, &error), &error);
    ckpt_location_close(location);
  }
  expect_ok(write_step(next_value, &error), &error);
}

static void calls_of_reading(void **state) {
  (void)state;
  long n = fail_each(read_step, true, EIO, false) + fail_each(read_tensors, true, EIO, false) +
           fail_each(read_manifest, true, EIO, false);
  print_message("%ld calls failed in turn\n", n);
  assert_true(n > 40 && n_unread > 0);
}

static void allocations(void **state) {
  (void)state;
#ifdef SANITIZED
  skip();
#endif
  long writing = fail_each(write_next, false, ENOMEM, true);
  long reading = fail_each(read_step, false, ENOMEM, false) + fail_each(read_tensors, false, ENOMEM, false) +
                 fail_each(read_manifest, false, ENOMEM, false) + fail_each(write_tensors, false, ENOMEM, false);
  print_message("%ld allocations of writing and %ld of reading failed in turn\n", writing, reading);
  assert_true(writing > 100 && reading > 100 && n_no_memory > 200);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(calls_of_writing), cmocka_unit_test(calls_of_reading),
                                     cmocka_unit_test(what_is_shown_is_durable), cmocka_unit_test(allocations)};
  return cmocka_run_group_tests(tests, prepare, scratch_teardown);
}
