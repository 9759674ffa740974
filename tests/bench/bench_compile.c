/* How long compiling takes, and that it grows with the network as it should: residual networks of 50, 100, 200 and 400
 * layers, each layer a norm, a product with bias and a gelu, and transformers of the GPT workload's shapes of 6, 12 and
 * 24 layers, trained with adamw. Prints milliseconds (the best of five) and processor time, nodes as built and as
 * planned, nanoseconds a node, and that over the one of the size before: 1.00 where it is linear. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../common/memory_host.h"

enum { ROUNDS = 5 };

static double now_ms(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static const char residual[] =
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

static const char transformer[] =
    "(defknob layers 6)\n"
    "(defun w (name shape) (param name shape :init (normal shape)))\n"
    "(defun linear-of (x name from to) (scope name (linear x (w \"weight\" [to from]) (w \"bias\" [to]))))\n"
    "(defun norm (x name) (scope name (layer-norm x (w \"g\" [384]) (w \"b\" [384]))))\n"
    "(defun heads (x i)\n"
    "  (transpose (reshape (slice x 2 (* i 384) (* (+ i 1) 384)) [4 256 6 64]) [0 2 1 3]))\n"
    "(defun mix (x)\n"
    "  (let ((all (linear-of x \"mix\" 384 1152))\n"
    "        (y (attention (heads all 0) (heads all 1) (heads all 2) :causal true)))\n"
    "    (linear-of (reshape (transpose y [0 2 1 3]) [4 256 384]) \"mixed\" 384 384)))\n"
    "(defun widen (x)\n"
    "  (linear-of (gelu (linear-of x \"wide\" 384 1536) :approximate \"tanh\") \"narrow\" 1536 384))\n"
    "(defun layer (x i)\n"
    "  (scope \"layers\" (scope i\n"
    "    (let ((x (+ x (mix (norm x \"norm1\"))))) (+ x (widen (norm x \"norm2\")))))))\n"
    "(defrun r :seed 1 :steps 1\n"
    "  :loss (let ((x (reshape (cast (mod (iota 1024) 4096) i32) [4 256])) (tokens (w \"tokens\" [4096 384]))\n"
    "              (h (fold layer (+ (gather tokens x) (w \"places\" [256 384])) (range layers))))\n"
    "          (cross-entropy (matmul (norm h \"norm\") (transpose tokens [1 0])) x))\n"
    "  :optimizer (adamw :lr 1e-3))\n";

typedef struct timing {
  double ms, processor_ms;
} timing;

/* Of one compile; the description's counts. */
static timing compile(const char *experiment, const char *set, int64_t *n_built, int64_t *n_nodes) {
  memory_host files = {0};
  memory_host_add_text(&files, "bench.sexp", experiment);
  sexp_host host = memory_host_callbacks(&files);
  sexp_options options = SEXP_OPTIONS_DEFAULT;
  options.sets = &set;
  options.n_sets = 1;
  sexp_program *program = NULL;
  sexp_messages *messages = NULL;
  double begin = now_ms(CLOCK_MONOTONIC), processor = now_ms(CLOCK_PROCESS_CPUTIME_ID);
  sexp_status status = sexp_compile(&program, &messages, "bench.sexp", &options, &host);
  timing took = {now_ms(CLOCK_MONOTONIC) - begin, now_ms(CLOCK_PROCESS_CPUTIME_ID) - processor};
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

static void measure(const char *name, const char *experiment, int least, int most) {
  double before = 0;
  for (int layers = least; layers <= most; layers *= 2) {
    char set[32];
    int64_t n_built = 0, n_nodes = 0;
    timing best = {1e9, 1e9};
    snprintf(set, sizeof set, "layers=%d", layers);
    for (int round = 0; round < ROUNDS; round++) {
      timing took = compile(experiment, set, &n_built, &n_nodes);
      if (took.ms < best.ms) best.ms = took.ms;
      if (took.processor_ms < best.processor_ms) best.processor_ms = took.processor_ms;
    }
    double each = best.processor_ms * 1e6 / (double)n_nodes;
    printf("%-12s %6d %9.1f %9.1f %9lld %9lld %11.0f", name, layers, best.ms, best.processor_ms, (long long)n_built,
           (long long)n_nodes, each);
    if (before > 0) printf(" %6.2f", each / before);
    putchar('\n');
    before = each;
  }
}

int main(void) {
  printf("%-12s %6s %9s %9s %9s %9s %11s %6s\n", "", "layers", "ms", "processor", "built", "planned", "ns a node",
         "ratio");
  measure("residual", residual, 50, 400);
  measure("transformer", transformer, 6, 24);
  return 0;
}
