/* How long compiling takes, and that it grows with the network: residual networks of 50, 100, 200 and 400 layers, each
 * layer a norm, a product with bias and a gelu, trained with adamw. Prints milliseconds (the best of five), nodes as
 * built and as planned, and nanoseconds a node. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../common/memory_host.h"

enum { ROUNDS = 5 };

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static const char experiment[] =
    "(defknob layers 50)\n"
    "(defun layer (x i)\n"
    "  (scope \"layers\" (scope i\n"
    "    (let ((g (param \"g\" [16] :init (ones shape)))\n"
    "          (b (param \"b\" [16] :init (zeros shape)))\n"
    "          (w (param \"w\" [16 16] :init (glorot shape)))\n"
    "          (c (param \"c\" [16] :init (zeros shape))))\n"
    "      (+ x (gelu (linear (layer-norm x g b) w c)))))))\n"
    "(defrun r :seed 1 :steps 1 :batch 4\n"
    "  :loss (mean (let ((y (fold layer (ones [4 16]) (range layers)))) (* y y)))\n"
    "  :optimizer (adamw :lr 1e-3) :clip 1.0)\n";

/* Milliseconds of one compile; the description's counts. */
static double compile(const char *set, int64_t *n_built, int64_t *n_nodes) {
  memory_host files = {0};
  memory_host_add_text(&files, "bench.sexp", experiment);
  sexp_host host = memory_host_callbacks(&files);
  sexp_options options = SEXP_OPTIONS_DEFAULT;
  options.sets = &set;
  options.n_sets = 1;
  sexp_program *program = NULL;
  sexp_messages *messages = NULL;
  double begin = now_ms();
  sexp_status status = sexp_compile(&program, &messages, "bench.sexp", &options, &host);
  double took = now_ms() - begin;
  if (status != SEXP_OK) {
    fputs(sexp_messages_get(messages, 0)->text, stderr);
    exit(1);
  }
  *n_built = sexp_program_describe(program)->n_nodes_built;
  *n_nodes = sexp_program_describe(program)->n_nodes;
  sexp_program_free(program);
  sexp_messages_free(messages);
  return took;
}

int main(void) {
  printf("%8s %10s %10s %10s %14s\n", "layers", "ms", "built", "planned", "ns a node");
  for (int layers = 50; layers <= 400; layers *= 2) {
    char set[32];
    int64_t n_built = 0, n_nodes = 0;
    double best = 1e9;
    snprintf(set, sizeof set, "layers=%d", layers);
    for (int round = 0; round < ROUNDS; round++) {
      double took = compile(set, &n_built, &n_nodes);
      if (took < best) best = took;
    }
    printf("%8d %10.1f %10lld %10lld %14.0f\n", layers, best, (long long)n_built, (long long)n_nodes,
           best * 1e6 / (double)n_nodes);
  }
  return 0;
}
