/* Operations of the device that the loader finds, a card or the simulated one, against the CPU's: every operation of
 * ops.def on operands of every layout, random graphs, sequences, arrays bit for bit; products and convolutions by
 * cuBLAS and cuDNN, by every candidate of their choices, within a bound, and twice the same.
 *
 *   check_operations [--seconds N] [--cases N] [--graphs N] [--candidates N] [--cubins DIR]
 *
 * Prints a row of a Markdown table for each, at once; exits 1 where one failed, 77 where nothing could be run. A piece
 * that ends its process, or hangs, fails, and the next one goes on in another process. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <stdio.h>

#ifdef SX_CUDA
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check_parts.h"

enum { PIECE_SECONDS = 60, RESTARTS_MOST = 20 };

/* What the process that computes tells the one that waits, while it goes on. */
typedef struct pace {
  size_t next; /* the piece at hand */
  int passed, failed;
  bool opened;
  char why[1200]; /* the device is not opened */
} pace;

static check_options options = {.cases = 4, .graphs = 24, .candidates = 8};
static double seconds = 1e9, began;

double check_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- the process that computes ------------------------------------------------------------------- */

static void tell(pace *progress, const check_piece *piece, const check_result *result) {
  *(result->good ? &progress->passed : &progress->failed) += 1;
  printf("| %s | %s | %s%s |\n", piece->name, result->what, result->good ? "passed" : "FAILED: ", result->why);
  fflush(stdout);
}

/* Pieces of one kind of device come one after the other; it is opened once. */
static void compute(const check_piece *pieces, size_t n, pace *progress) {
  gpu_device gpu = {0};
  for (; progress->next < n && check_now() - began < seconds; progress->next++) {
    const check_piece *piece = &pieces[progress->next];
    check_result result = {.good = true};
    if (gpu.cuda && gpu.cuda->portable != piece->portable) gpu_close(&gpu);
    alarm(PIECE_SECONDS * (gpu_is_simulated() ? 10 : 1));
    if (!gpu.cuda && !gpu_open(&gpu, options.cubins, piece->portable)) {
      memcpy(progress->why, gpu.why, sizeof progress->why);
      _Exit(3);
    }
    progress->opened = true;
    piece->check(&result, &gpu, piece, &options);
    tell(progress, piece, &result);
    if (!gpu.cuda->failure.failed) continue;
    progress->next++;
    _Exit(4); /* nothing works on it: another process goes on */
  }
  if (gpu.cuda) gpu_close(&gpu);
}

/* ---- the process that waits ---------------------------------------------------------------------- */

/* True: go on in another process. */
static bool judge(const check_piece *pieces, pace *progress, int status) {
  check_result result = {.what = ""};
  if (WIFEXITED(status) && WEXITSTATUS(status) == 4) return true;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 3) {
    if (!progress->opened) return false;
    printf("| the device | | FAILED: %s |\n", progress->why);
    progress->failed++;
    return false;
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return false;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    snprintf(result.why, sizeof result.why, "it did not end in %d s", PIECE_SECONDS);
  else if (WIFSIGNALED(status))
    snprintf(result.why, sizeof result.why, "its process ended by signal %d", WTERMSIG(status));
  else
    snprintf(result.why, sizeof result.why, "its process ended with %d", WEXITSTATUS(status));
  tell(progress, &pieces[progress->next], &result);
  progress->next++;
  return true;
}

static bool run(const check_piece *pieces, size_t n, pace *progress) {
  for (int i = 0; i < RESTARTS_MOST; i++) {
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) return false;
    if (child == 0) {
      compute(pieces, n, progress);
      exit(0);
    }
    while (waitpid(child, &status, 0) != child) continue;
    if (!judge(pieces, progress, status)) return true;
  }
  return true;
}

/* ---- options ------------------------------------------------------------------------------------- */

static bool take_options(int argc, char **argv) {
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 >= argc) return false;
    const char *name = argv[i], *value = argv[i + 1];
    int number = atoi(value);
    if (!strcmp(name, "--cubins"))
      options.cubins = value;
    else if (!strcmp(name, "--seconds") && number > 0)
      seconds = number;
    else if (!strcmp(name, "--cases") && number > 0 && number <= CHECK_CASES_MOST)
      options.cases = number;
    else if (!strcmp(name, "--graphs") && number >= 0)
      options.graphs = number;
    else if (!strcmp(name, "--candidates") && number > 0)
      options.candidates = number;
    else
      return false;
  }
  return true;
}

int main(int argc, char **argv) {
  if (!take_options(argc, argv)) {
    fputs("usage: check_operations [--seconds N] [--cases N] [--graphs N] [--candidates N] [--cubins DIR]\n", stderr);
    return 2;
  }
  static check_piece pieces[CHECK_PIECES_MOST];
  size_t n = check_single_pieces(pieces, 0);
  n = check_graph_pieces(pieces, n, &options);
  n = check_library_pieces(pieces, n);
  pace *progress = mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (progress == MAP_FAILED) return 77;
  began = check_now();
  puts("| what | cases | result |\n| --- | --- | --- |");
  run(pieces, n, progress);
  if (!progress->opened) return printf("\nskipped: %s\n", progress->why), 77;
  if (progress->next < n)
    printf("\nNot reached: %zu of %zu, from %s on.\n", n - progress->next, n, pieces[progress->next].name);
  printf("\n%d passed, %d failed, %zu not reached\n", progress->passed, progress->failed, n - progress->next);
  return progress->failed > 0;
}
#else
int main(void) {
  puts("skipped: this build was made without the headers of CUDA and cuDNN (make says why)");
  return 77;
}
#endif
