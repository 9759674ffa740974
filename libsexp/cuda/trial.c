/* Trying candidates: the operation alone as a plan, executed on a fixed input. */
#include "trial.h"

#include <string.h>

#include "../../kernels/draws.h"
#include "../base/bug.h"
#include "../base/sha256.h"

enum { PATTERN = 1 << 18 /* elements after which the input begins again */, STREAM = 0x5eed };

/* ---- the plan ----------------------------------------------------------------------------------- */

static sx_id input(sx_graph *graph, const char *name, sx_dtype dtype, int rank, const int64_t *dims) {
  return sx_graph_add(graph, &(sx_spec){.op = SX_OP_INPUT, .dtype = dtype, .rank = rank, .dims = dims, .text = name});
}

static sx_id product(sx_graph *graph, const sx_product_key *key, sx_dtype to) {
  static const char *const labels[2][2][2] = {
      {{"mk,kn->mn", "mk,nk->mn"}, {"km,kn->mn", "km,nk->mn"}},
      {{"bmk,bkn->bmn", "bmk,bnk->bmn"}, {"bkm,bkn->bmn", "bkm,bnk->bmn"}},
  };
  bool batched = key->batch > 1;
  int64_t a[] = {key->batch, key->m, key->k}, b[] = {key->batch, key->k, key->n};
  if (key->a_transposed) a[1] = key->k, a[2] = key->m;
  if (key->b_transposed) b[1] = key->n, b[2] = key->k;
  const sx_id inputs[] = {input(graph, "field/a", key->dtype, 2 + batched, a + !batched),
                          input(graph, "field/b", key->dtype, 2 + batched, b + !batched)};
  return sx_graph_add(graph, &(sx_spec){.op = SX_OP_EINSUM,
                                        .dtype = to,
                                        .inputs = inputs,
                                        .n_inputs = 2,
                                        .text = labels[batched][key->a_transposed][key->b_transposed]});
}

static sx_id convolution(sx_graph *graph, const sx_convolution *c) {
  const int64_t x[] = {c->batch, c->height, c->width, c->channels}, w[] = {c->out, c->kh, c->kw, c->channels};
  const int64_t y[] = {c->batch, sx_convolution_out_height(c), sx_convolution_out_width(c), c->out};
  static const sx_op ops[SX_N_ROLES] = {SX_OP_CONV, SX_OP_CONVDATA, SX_OP_CONVWEIGHT};
  const int64_t *const first[SX_N_ROLES] = {x, y, y}, *const second[SX_N_ROLES] = {w, w, x};
  const int64_t ints[SX_N_ROLES][4] = {
      {c->stride, c->padding}, {c->stride, c->padding, c->height, c->width}, {c->stride, c->padding, c->kh, c->kw}};
  const sx_id inputs[] = {input(graph, "field/a", c->dtype, 4, first[c->role]),
                          input(graph, "field/b", c->dtype, 4, second[c->role])};
  return sx_graph_add(graph, &(sx_spec){.op = ops[c->role],
                                        .inputs = inputs,
                                        .n_inputs = 2,
                                        .ints = ints[c->role],
                                        .n_ints = c->role == SX_ROLE_FORWARD ? 2 : 4});
}

const sx_plan *sx_trial_plan(const sx_option *option, sx_arena *arena) {
  sx_intern *names = SX_NEW(arena, sx_intern);
  sx_intern_init(names, arena);
  sx_graph *graph = sx_graph_new(arena, names, "trial");
  bool is_product = !strcmp(option->kind, "product");
  sx_graph_output(graph, "y",
                  is_product ? product(graph, &option->product, option->to) : convolution(graph, &option->convolution));
  return sx_plan_make(graph, &(sx_plan_options){.fuse = false, .reuse = false}, arena);
}

/* ---- the input ---------------------------------------------------------------------------------- */

static uint32_t wide(uint32_t word) {
  uint32_t exponent = 127 - 12 + (word >> 23 & 0xff) % 25;
  return (word & 0x807fffffu) | exponent << 23;
}

void sx_trial_fill(void *values, sx_dtype dtype, uint64_t stream, int64_t n) {
  for (int64_t block = 0; 4 * block < n; block++) {
    uint32_t words[4];
    sx_draw_words(stream, (uint64_t)block, words);
    for (int64_t i = 4 * block; i < n && i < 4 * block + 4; i++) {
      uint32_t bits = wide(words[i % 4]);
      if (dtype == SX_F32)
        memcpy((char *)values + 4 * i, &bits, 4);
      else
        ((uint16_t *)values)[i] = (uint16_t)(bits >> 16);
    }
  }
}

/* The buffer of an operand of the output's node, filled; repeats where it is long. */
static sexp_ran upload(const sx_trial *trial, void *made, uint32_t i) {
  const sx_plan *plan = trial->plan;
  sx_id node = sx_node_at(plan->graph, plan->graph->outputs.items[0].node)->inputs[i];
  sx_dtype dtype = sx_node_at(plan->graph, node)->dtype;
  uint32_t buffer = plan->views[node].buffer;
  int64_t n_bytes = plan->buffers.items[buffer].n_bytes, n_element = (int64_t)sx_dtype_bytes(dtype);
  int64_t n_pattern = PATTERN * n_element < n_bytes ? PATTERN * n_element : n_bytes;
  sx_memory *memory = trial->arena.memory;
  char *values = memory->allocate(memory->context, (size_t)n_bytes);
  if (!values) return SEXP_RAN_OUT_OF_MEMORY;
  sx_trial_fill(values, dtype, STREAM + i, n_pattern / n_element);
  for (int64_t at = n_pattern; at < n_bytes; at += n_pattern)
    memcpy(values + at, values, (size_t)(n_bytes - at < n_pattern ? n_bytes - at : n_pattern));
  sexp_ran ran = trial->calls->upload(trial->calls->context, made, buffer, values, n_bytes);
  memory->release(memory->context, values);
  return ran;
}

/* ---- candidates --------------------------------------------------------------------------------- */

static void unmake(sx_trial *trial, size_t candidate) {
  if (trial->made[candidate]) trial->calls->unmake(trial->calls->context, trial->made[candidate]);
  trial->made[candidate] = NULL;
}

static sexp_ran make(sx_trial *trial, size_t candidate) {
  sx_options *options = trial->options;
  options->trying = trial->option;
  options->trying_value = trial->option->values[candidate];
  void *made = NULL;
  sexp_ran ran = trial->calls->make(trial->calls->context, &made, trial->plan);
  options->trying = NULL;
  if (ran != SEXP_RAN) return ran;
  trial->made[candidate] = made;
  for (uint32_t i = 0; i < 2 && ran == SEXP_RAN; i++) ran = upload(trial, made, i);
  if (ran != SEXP_RAN) unmake(trial, candidate);
  return ran;
}

/* Where memory lacks beside the others', they make room. */
static sexp_ran ready(sx_trial *trial, size_t candidate) {
  if (candidate >= SX_TRIALS_MOST) SX_BUG("%zu candidates", candidate + 1);
  if (trial->made[candidate]) return SEXP_RAN;
  sexp_ran ran = make(trial, candidate);
  if (ran != SEXP_RAN_OUT_OF_MEMORY) return ran;
  for (size_t i = 0; i < SX_TRIALS_MOST; i++) unmake(trial, i);
  return make(trial, candidate);
}

void sx_trial_begin(sx_trial *trial, sx_options *options, const sx_option *option, const sx_trial_calls *calls) {
  *trial = (sx_trial){.options = options, .option = option, .calls = calls};
  sx_arena_init(&trial->arena, options->arena->memory);
  trial->plan = sx_trial_plan(option, &trial->arena);
}

void sx_trial_end(sx_trial *trial) {
  for (size_t i = 0; i < SX_TRIALS_MOST; i++) unmake(trial, i);
  trial->options->trying = NULL;
  sx_arena_free(&trial->arena);
}

sexp_ran sx_trial_run(void *work, size_t candidate) {
  sx_trial *trial = work;
  sexp_ran ran = ready(trial, candidate);
  return ran == SEXP_RAN ? trial->calls->execute(trial->calls->context, trial->made[candidate]) : ran;
}

static sexp_ran digest_of(uint64_t *first, const void *bytes, size_t n) {
  uint8_t digest[32];
  sx_sha256 *hash = sx_sha256_new();
  if (!hash) return SEXP_RAN_OUT_OF_MEMORY;
  sx_sha256_add(hash, bytes, n);
  sx_sha256_end(hash, digest);
  *first = 0;
  for (int i = 0; i < 8; i++) *first = *first << 8 | digest[i];
  return SEXP_RAN;
}

sexp_ran sx_trial_probe(void *work, size_t candidate, uint64_t *digest) {
  sx_trial *trial = work;
  sexp_ran ran = sx_trial_run(trial, candidate);
  if (ran != SEXP_RAN) return ran;
  const sx_plan *plan = trial->plan;
  uint32_t buffer = plan->views[plan->graph->outputs.items[0].node].buffer;
  size_t n_bytes = (size_t)plan->buffers.items[buffer].n_bytes;
  sx_memory *memory = trial->arena.memory;
  void *result = memory->allocate(memory->context, n_bytes);
  if (!result) return SEXP_RAN_OUT_OF_MEMORY;
  ran = trial->calls->download(trial->calls->context, trial->made[candidate], buffer, result, (int64_t)n_bytes);
  if (ran == SEXP_RAN) ran = digest_of(digest, result, n_bytes);
  memory->release(memory->context, result);
  return ran;
}

int64_t sx_trial_now(void *work) {
  const sx_trial *trial = work;
  return trial->calls->now_ns(trial->calls->context);
}
