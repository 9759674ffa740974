/* The CUDA device that the loader finds, as tables: memory, products beside cuBLAS, convolutions by engine, launches,
 * compilation of kernels. On the simulated device the figures are none of a card's: each run says so, and they show
 * that it runs.
 *
 *   bench_device [--short] [--seconds N]     --short: small shapes, each once
 *
 * Exits 0 where there is no device, with a word. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>

#ifdef SX_CUDA
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../libsexp/cuda/compile.h"
#include "../common/planned.h"
#include "../gpu/bench_parts.h"

static bench at = {.ends = 1e18};
static gpu_device gpu;

static void part(const char *title, void (*run)(bench *b)) {
  if (bench_is_over(&at)) {
    printf("\n### %s\n\nNot reached.\n", title);
    return;
  }
  printf("\n### %s%s\n\n", title, gpu_is_simulated() ? " (simulated: no figures)" : "");
  fflush(stdout);
  run(&at);
}

/* ---- compilation --------------------------------------------------------------------------------- */

/* Opens the device and makes the executable of a graph of many operations. */
static void compile_once(const char *how, const char *directory) {
  gpu_device fresh;
  double begin = bench_now();
  bool opened = gpu_open(&fresh, directory, true);
  double opening = bench_now() - begin;
  planned *graph = planned_random(7, 150);
  gpu_plan plan;
  begin = bench_now();
  bool made = opened && gpu_plan_make(&plan, &fresh, planned_plan(graph, true, true), NULL, &graph->arena);
  double making = bench_now() - begin;
  if (made) {
    sx_kernel_counts counts = sx_kernels_count(fresh.cuda);
    printf("| %s | %.0f | %.0f | %lld | %lld | %lld |\n", how, opening * 1e3, making * 1e3, (long long)counts.n_kernels,
           (long long)counts.n_compiled, (long long)counts.n_taken);
  } else {
    bench_failed(&at, how, fresh.why);
  }
  if (opened) gpu_plan_free(&plan);
  gpu_close(&fresh);
  planned_free(graph);
}

static void remove_folder(const char *path) {
  DIR *folder = opendir(path);
  char name[600];
  for (const struct dirent *entry; folder && (entry = readdir(folder));) {
    snprintf(name, sizeof name, "%s/%.255s", path, entry->d_name);
    if (entry->d_name[0] != '.') unlink(name);
  }
  if (folder) closedir(folder);
  rmdir(path);
}

static void bench_compiling(void) {
  char directory[] = "/tmp/bench-device-XXXXXX";
  puts("\n### Compiling kernels of a graph of 150 operations\n");
  puts("| cubins | milliseconds to open | to make | kernels | units compiled | units taken |");
  puts("| --- | --- | --- | --- | --- | --- |");
  if (!mkdtemp(directory)) return;
  compile_once("none are kept", NULL);
  compile_once("an empty directory", directory);
  compile_once("the same directory again", directory);
  remove_folder(directory);
}

/* -------------------------------------------------------------------------------------------------- */

static void all_parts(void) {
  part("Memory", bench_memory);
  part("Products", bench_products);
  part("Launches", bench_launches);
  part("Convolutions", bench_convolutions);
  gpu_close(&gpu);
  if (bench_now() < at.ends) bench_compiling();
  if (bench_now() < at.ends && gpu_open(&gpu, NULL, true)) part("Products, portable", bench_products);
  gpu_close(&gpu);
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--short"))
      at.shortened = true;
    else if (!strcmp(argv[i], "--seconds") && i + 1 < argc)
      at.ends = bench_now() + atoi(argv[++i]);
    else
      return fputs("usage: bench_device [--short] [--seconds N]\n", stderr), 2;
  }
  at.gpu = &gpu;
  if (!gpu_open_any(&gpu)) {
    printf("skipped: %s\n", gpu.why);
    gpu_close(&gpu);
    return 0;
  }
  printf("%s, %s\n", gpu.cuda->facts.gpu, gpu.cuda->facts.text);
  all_parts();
  return at.n_failed > 0;
}
#else
int main(void) {
  puts("skipped: this build was made without the headers of CUDA and cuDNN (make says why)");
  return 0;
}
#endif
