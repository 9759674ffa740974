#include "self_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Products, convolutions, scans, sorts, reductions, draws and elementary functions, forwards and backwards, with sizes
 * that are no multiples of a vector. */
static const char experiment[] =
    "(defun image-loss (x)\n"
    "  (let ((h (max-pool (gelu (conv x (param \"k\" [8 3 3 3] :init (he shape)) :padding 1)) :window 2 :stride 2))\n"
    "        (h (layer-norm (reshape h [6 128]) (param \"g\" [128] :init (ones shape))\n"
    "                       (param \"b\" [128] :init (zeros shape))))\n"
    "        (y (tanh (matmul h (param \"w\" [128 20] :init (normal shape :std 0.1))))))\n"
    "    (cross-entropy y (argmax (gather y (argsort (sum y :axis 1))) :axis -1))))\n"
    "(defun text-loss (x)\n"
    "  (let ((h (split-heads (reshape x [2 9 32]) 4))\n"
    "        (a (merge-heads (attention (rotary h) (rotary h) h :causal true)))\n"
    "        (s (linear-scan (sigmoid a) a :axis 1)))\n"
    "    (+ (mean (* s (sin s))) (mean (* (sort (cumsum a :axis 1)) (exp (- 0.0 (* a a))))))))\n"
    "(defrun self-test :seed 1 :steps 3\n"
    "  :loss (+ (image-loss (normal [6 8 8 3] :salt :step))\n"
    "           (text-loss (matmul (normal [18 300] :salt :step) (param \"e\" [300 32] :init (normal shape :std "
    "0.1)))))\n"
    "  :optimizer (adamw :lr 0.01 :weight-decay 0.1))\n";

/* digest/parameters after its third step (numerics 1). */
static const char known_parameters[] = "sha256:23ded6f6ce2780ce2c7afbae6671d246ad5e9ca36de8700587e826a5f0ef97e6";

/* ---- a host that has the experiment and nothing else ---- */

static int open_text(void *context, const char *path, sexp_file **file, sexp_file_info *info, sexp_failure *why) {
  (void)context, (void)path, (void)why;
  *file = NULL;
  *info = (sexp_file_info){(const unsigned char *)experiment, sizeof experiment - 1};
  return 0;
}

static int check_text(void *context, sexp_file *file, sexp_failure *why) {
  (void)context, (void)file, (void)why;
  return 0;
}

static void close_text(void *context, sexp_file *file) { (void)context, (void)file; }

static const sexp_host host = {.open = open_text, .check = check_text, .close = close_text};

/* ---- digests ---- */

typedef struct digests {
  struct digest {
    char digest[80], name[160];
  } * items;
  size_t n, room;
} digests;

static bool keep(digests *all, const sexp_digest *from) {
  if (all->n == all->room) {
    size_t room = all->room ? all->room * 2 : 512;
    struct digest *grown = realloc(all->items, room * sizeof *grown);
    if (!grown) return false;
    all->items = grown;
    all->room = room;
  }
  struct digest *to = &all->items[all->n++];
  snprintf(to->digest, sizeof to->digest, "%s", from->digest);
  snprintf(to->name, sizeof to->name, "%s", from->text ? from->text : from->name);
  return true;
}

static bool train(digests *all, sexp_program *program, const char *simd, int threads, sexp_messages **errors) {
  sexp_run_options options = SEXP_RUN_OPTIONS_DEFAULT;
  options.simd = simd;
  options.threads = threads;
  options.digest_every = options.digest_nodes_at = 1;
  sexp_run *run = NULL;
  sexp_step step;
  bool good = true;
  sexp_status status = sexp_run_new(&run, errors, program, &options, &host);
  while (good && status == SEXP_OK && (status = sexp_run_step(run, &step, errors)) == SEXP_OK)
    for (size_t i = 0; good && i < step.n_digests; i++) good = keep(all, &step.digests[i]);
  sexp_run_free(run);
  return good && status == SEXP_END;
}

static void compare(self_test *out, const digests *fast, const digests *slow) {
  out->n = slow->n;
  for (size_t i = 0; i < slow->n && i < fast->n; i++) {
    if (strcmp(slow->items[i].digest, fast->items[i].digest) == 0)
      out->n_equal++;
    else if (!out->different[0])
      snprintf(out->different, sizeof out->different, "%s", slow->items[i].name);
  }
}

static void find_parameters(self_test *out, const digests *fast) {
  for (size_t i = 0; i < fast->n; i++)
    if (strcmp(fast->items[i].name, "digest/parameters") == 0)
      memcpy(out->parameters, fast->items[i].digest, sizeof out->parameters);
  out->known = strcmp(out->parameters, known_parameters) == 0;
}

void self_test_run(self_test *out, const char *simd, int threads) {
  sexp_options options = SEXP_OPTIONS_DEFAULT;
  sexp_program *program = NULL;
  digests fast = {0}, slow = {0};
  *out = (self_test){0};
  if (sexp_compile(&program, &out->errors, "self-test", &options, &host) == SEXP_OK &&
      train(&fast, program, simd, threads, &out->errors) && train(&slow, program, "reference", 1, &out->errors)) {
    compare(out, &fast, &slow);
    find_parameters(out, &fast);
  }
  sexp_program_free(program);
  free(fast.items);
  free(slow.items);
}
