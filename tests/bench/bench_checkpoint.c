/* Writing, reading with verification, and comparing checkpoints of 500 MB, against what the disk and SHA-256 take for
 * the same bytes, measured in the same rounds. Medians. Files are written back and dropped from the page cache before
 * a cold read. A line: name, seconds, MB/s, and the ratio to the raw limit named.
 *
 *   bench_checkpoint [DIRECTORY [MB]]   by default in $TMPDIR or /tmp, three times the size of a checkpoint */
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../../libckpt/ckpt.h"

enum { ROUNDS = 3, TENSORS = 8, PIECE = 1 << 20 };

static const char *folder;
static size_t n_tensor; /* elements of one */
static float *elements;
static uint64_t n_all; /* bytes of a checkpoint's tensors */

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static _Noreturn void fail(const char *what) {
  perror(what);
  exit(1);
}

static void check(ckpt_status status, const ckpt_error *error) {
  if (status == CKPT_OK) return;
  fprintf(stderr, "%s: %s\n", error->code, error->message);
  exit(1);
}

static const char *in_folder(const char *name) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

/* ---- Raw limits ---- */

static void raw_write(void) {
  int fd = open(in_folder("raw"), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd < 0) fail("open");
  for (uint64_t done = 0; done < n_all; done += PIECE)
    if (write(fd, (const char *)elements + done % ((uint64_t)n_tensor * 4 - PIECE), PIECE) != PIECE) fail("write");
  if (fsync(fd) != 0) fail("fsync");
  close(fd);
}

static void raw_read(void) {
  static unsigned char room[PIECE];
  int fd = open(in_folder("raw"), O_RDONLY);
  if (fd < 0) fail("open");
  ssize_t n;
  while ((n = read(fd, room, sizeof room)) > 0) continue;
  if (n < 0) fail("read");
  close(fd);
}

static void raw_sha256(void) {
  char digest[CKPT_SHA256_TEXT];
  ckpt_error error;
  for (int i = 0; i < TENSORS; i++) check(ckpt_sha256_bytes(digest, elements, n_tensor * 4, &error), &error);
}

/* ---- Checkpoints ---- */

static void write_one(int64_t step) {
  static char names[TENSORS][16];
  ckpt_array parameters[TENSORS / 2], states[TENSORS / 2];
  for (int i = 0; i < TENSORS; i++) {
    snprintf(names[i], sizeof names[i], "layer%d/w", i);
    ckpt_array *array = i < TENSORS / 2 ? &parameters[i] : &states[i - TENSORS / 2];
    *array =
        (ckpt_array){.path = names[i], .dtype = CKPT_F32, .rank = 1, .dims = {(int64_t)n_tensor}, .data = elements};
  }
  const ckpt_text_file source = {"bench.sexp", ""};
  const ckpt_experiment experiment = {.sources = &source,
                                      .n_sources = 1,
                                      .step = step,
                                      .parameters = parameters,
                                      .n_parameters = TENSORS / 2,
                                      .states = states,
                                      .n_states = TENSORS / 2,
                                      .choices = "{}"};
  ckpt_location *location = NULL;
  ckpt_error error;
  check(ckpt_location_open(&location, in_folder("place"), true, NULL, &error), &error);
  check(ckpt_checkpoint_write(NULL, location, &experiment, NULL, &error), &error);
  ckpt_location_close(location);
}

static ckpt_checkpoint *open_one(int64_t step) {
  ckpt_location *location = NULL;
  ckpt_checkpoint *checkpoint = NULL;
  ckpt_error error;
  check(ckpt_location_open(&location, in_folder("place"), false, NULL, &error), &error);
  check(ckpt_checkpoint_open(&checkpoint, location, step, &error), &error);
  ckpt_location_close(location);
  return checkpoint;
}

static void write_first(void) { write_one(1); }

static void verify(void) {
  ckpt_checkpoint *checkpoint = open_one(1);
  ckpt_error error;
  check(ckpt_checkpoint_verify(checkpoint, &error), &error);
  ckpt_checkpoint_close(checkpoint);
}

static uint64_t compare_lists(const ckpt_tensors *left, const ckpt_tensors *right) {
  uint64_t n_differing = 0;
  for (size_t i = 0; i < ckpt_tensors_count(left); i++) {
    ckpt_difference difference;
    ckpt_error error;
    check(ckpt_tensors_compare(&difference, left, ckpt_tensors_at(left, i), right, ckpt_tensors_at(right, i), &error),
          &error);
    n_differing += difference.n_differing;
  }
  return n_differing;
}

static uint64_t n_found;
static void diff(void) {
  ckpt_checkpoint *left = open_one(1), *right = open_one(2);
  n_found = compare_lists(ckpt_checkpoint_parameters(left), ckpt_checkpoint_parameters(right)) +
            compare_lists(ckpt_checkpoint_states(left), ckpt_checkpoint_states(right));
  ckpt_checkpoint_close(left);
  ckpt_checkpoint_close(right);
}

/* ---- Rounds ---- */

static void drop(const char *name) {
  int fd = open(in_folder(name), O_RDONLY);
  if (fd < 0) return;
  fsync(fd);
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  close(fd);
}

static void drop_all(void) {
  static const char *const names[] = {"raw", "place/step-1/parameters.safetensors", "place/step-1/states.safetensors",
                                      "place/step-2/parameters.safetensors", "place/step-2/states.safetensors"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) drop(names[i]);
}

static struct work {
  const char *name;
  void (*run)(void);
  int n_times;                         /* the bytes of a checkpoint that it handles */
  enum { AS_IT_IS, COLD, WARM } cache; /* cold: dropped from the page cache before; warm: run once before */
  const char *against[2];
  double seconds[ROUNDS];
} works[] = {
    {"raw write", raw_write, 1, AS_IT_IS, {NULL, NULL}, {0}},
    {"checkpoint write", write_first, 1, AS_IT_IS, {"raw write", "sha256"}, {0}},
    {"sha256", raw_sha256, 1, AS_IT_IS, {NULL, NULL}, {0}},
    {"raw read, cold", raw_read, 1, COLD, {NULL, NULL}, {0}},
    {"verify, cold", verify, 1, COLD, {"raw read, cold", "sha256"}, {0}},
    {"diff, cold", diff, 2, COLD, {"raw read, cold", NULL}, {0}},
    {"raw read", raw_read, 1, WARM, {NULL, NULL}, {0}},
    {"verify", verify, 1, WARM, {"raw read", "sha256"}, {0}},
    {"diff", diff, 2, WARM, {"raw read", NULL}, {0}},
};
enum { N_WORKS = sizeof works / sizeof *works };

static int by_time(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return a < b ? -1 : a > b;
}

/* Seconds a byte. */
static double median(struct work *w) {
  qsort(w->seconds, ROUNDS, sizeof *w->seconds, by_time);
  return w->seconds[ROUNDS / 2] / ((double)n_all * w->n_times);
}

static double median_of(const char *name) {
  for (size_t i = 0; i < N_WORKS; i++)
    if (strcmp(works[i].name, name) == 0) return median(&works[i]);
  return 0;
}

static void print(void) {
  struct rusage usage;
  for (size_t i = 0; i < N_WORKS; i++) {
    double per_byte = median(&works[i]);
    printf("%-18s %7.3f s %8.0f MB/s", works[i].name, works[i].seconds[ROUNDS / 2], 1e-6 / per_byte);
    for (int k = 0; k < 2 && works[i].against[k]; k++)
      printf("   %.2f times %s", per_byte / median_of(works[i].against[k]), works[i].against[k]);
    putchar('\n');
  }
  getrusage(RUSAGE_SELF, &usage);
  printf("%llu elements differ; at most %ld MiB in memory beside the %zu MiB of elements\n",
         (unsigned long long)n_found, usage.ru_maxrss / 1024 - (long)(n_tensor * 4 >> 20), n_tensor * 4 >> 20);
}

static void clear(void) {
  static const char *const names[] = {"raw",
                                      "place/step-1/parameters.safetensors",
                                      "place/step-1/states.safetensors",
                                      "place/step-1/experiment.json",
                                      "place/step-1",
                                      "place/step-2/parameters.safetensors",
                                      "place/step-2/states.safetensors",
                                      "place/step-2/experiment.json",
                                      "place/step-2",
                                      "place",
                                      ""};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) remove(in_folder(names[i]));
}

int main(int argc, char **argv) {
  const char *parent = argc > 1 ? argv[1] : getenv("TMPDIR");
  char made[4096];
  snprintf(made, sizeof made, "%s/bench-checkpoint-XXXXXX", parent ? parent : "/tmp");
  folder = mkdtemp(made);
  if (!folder) fail(made);
  size_t n_mb = argc > 2 ? (size_t)atol(argv[2]) : 500;
  n_tensor = n_mb * 1000000 / TENSORS / 4;
  n_all = (uint64_t)n_tensor * 4 * TENSORS / PIECE * PIECE;
  elements = malloc(n_tensor * 4);
  if (!elements) fail("malloc");
  for (size_t i = 0; i < n_tensor; i++) elements[i] = (float)(i * 2654435761u % 1000003) / 1000.0f;
  elements[n_tensor / 2] += 1;
  write_one(2);
  elements[n_tensor / 2] -= 1;
  for (int round = 0; round < ROUNDS; round++)
    for (size_t i = 0; i < N_WORKS; i++) {
      if (works[i].cache == COLD) drop_all();
      if (works[i].cache == WARM) works[i].run();
      double begin = now_s();
      works[i].run();
      works[i].seconds[round] = now_s() - begin;
    }
  print();
  clear();
  free(elements);
  return 0;
}
