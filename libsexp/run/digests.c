/* Digests of sampled steps: what a step read, gave and left behind, each as one SHA-256, and on request the
 * value of every node. Two runs' lists, compared line by line, name the first value that differs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../base/sha256.h"
#include "../cpu/canonical.h"
#include "run.h"

enum { TEXT_BYTES = 72, HASH_BYTES = 32, CHUNK_BYTES = 4096, NAME_BYTES = 64 };

/* Nodes of one graph, observed. */
typedef struct observed {
  const char **texts; /* one a node */
  const char *graph;  /* "loss" or "update" */
} observed;

struct sx_digests {
  sexp_digest *list;
  char (*texts)[TEXT_BYTES], (*names)[NAME_BYTES];
  size_t n, room;
  uint8_t *microbatches; /* HASH_BYTES each: what each microbatch held */
  int64_t n_microbatches;
  bool active, observing; /* the step at hand is sampled; digests its nodes */
  observed loss, update;
  const observed *current;
};

/* ---- making room ---- */

static const char *node_text(sx_run *run, const sx_graph *graph, sx_id id) {
  const sx_node *node = sx_node_at(graph, id);
  sx_text text;
  sx_text_init(&text, &run->arena);
  sx_node_print(&text, graph, id, false);
  while (text.n && text.bytes[text.n - 1] == '\n') text.bytes[--text.n] = 0;
  if (node->path && node->path[0]) sx_text_addf(&text, "  %s", node->path);
  if (node->span.file) {
    const sx_source *source = sx_sources_get(&run->program->sources, node->span.file);
    uint32_t line, column;
    sx_source_place(source, node->span.begin, &line, &column);
    sx_text_addf(&text, "  %s:%" PRIu32 ":%" PRIu32, source->path, line, column);
  }
  return sx_text_get(&text);
}

static size_t observe_graph(sx_run *run, observed *to, const sx_bound *bound, const char *name) {
  *to = (observed){.graph = name};
  if (!bound->made) return 0;
  const sx_graph *graph = bound->plan->graph;
  to->texts = SX_NEW_N(&run->arena, const char *, graph->nodes.n);
  for (sx_id id = 0; id < graph->nodes.n; id++) to->texts[id] = node_text(run, graph, id);
  return graph->nodes.n;
}

static size_t count_observed(sx_run *run, struct sx_digests *digests) {
  size_t n = observe_graph(run, &digests->update, &run->observed_update, "update");
  for (uint32_t s = 0; s < run->program->n_stages; s++) {
    const sx_stage_state *state = &run->stages[s];
    if (state->observed.made)
      n += observe_graph(run, &digests->loss, &state->observed, "loss") * (size_t)state->stage->microbatches;
  }
  return n;
}

void sx_make_digests(sx_run *run) {
  struct sx_digests *digests = SX_NEW(&run->arena, struct sx_digests);
  int64_t n_microbatches = 0;
  for (uint32_t s = 0; s < run->program->n_stages; s++)
    if (run->program->stages[s].microbatches > n_microbatches) n_microbatches = run->program->stages[s].microbatches;
  run->digests = digests;
  digests->room = 5 + count_observed(run, digests);
  digests->list = SX_NEW_N(&run->arena, sexp_digest, digests->room);
  digests->texts = sx_arena_take(&run->arena, digests->room, TEXT_BYTES);
  digests->names = sx_arena_take(&run->arena, digests->room, NAME_BYTES);
  digests->microbatches = sx_arena_take(&run->arena, (size_t)n_microbatches, HASH_BYTES);
}

void sx_digests_begin(sx_run *run) {
  struct sx_digests *digests = run->digests;
  int64_t step = run->position.step + 1, every = run->options.digest_every;
  digests->n = 0;
  digests->n_microbatches = 0;
  digests->active = every > 0 && step % every == 0;
  digests->observing = step == run->options.digest_nodes_at;
}

bool sx_digests_active(const sx_run *run) { return run->digests->active || run->digests->observing; }

void sx_digests_end(sx_run *run, sexp_step *step) {
  step->digests = run->digests->list;
  step->n_digests = run->digests->n;
}

/* ---- hashing ---- */

static sx_sha256 *new_hash(const sx_run *run) {
  sx_sha256 *hash = sx_sha256_new();
  if (!hash) sx_memory_fail(run->memory);
  return hash;
}

static void add_integer(sx_sha256 *hash, int64_t value) {
  uint8_t bytes[8];
  for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)((uint64_t)value >> (8 * i));
  sx_sha256_add(hash, bytes, sizeof bytes);
}

/* Elements little-endian, every NaN as the one NaN. */
static void add_elements(sx_sha256 *hash, sx_dtype dtype, const void *data, int64_t n) {
  size_t size = sx_dtype_bytes(dtype);
  int64_t per_chunk = (int64_t)(CHUNK_BYTES / size);
  _Alignas(16) unsigned char chunk[CHUNK_BYTES];
  for (int64_t at = 0; at < n; at += per_chunk) {
    int64_t count = n - at < per_chunk ? n - at : per_chunk;
    memcpy(chunk, (const char *)data + at * (int64_t)size, (size_t)count * size);
    if (sx_dtype_is_float(dtype)) sx_canonical_nans(chunk, dtype, count);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    for (int64_t i = 0; i < count; i++)
      for (size_t b = 0; b < size / 2; b++) {
        unsigned char *element = chunk + (size_t)i * size, kept = element[b];
        element[b] = element[size - 1 - b];
        element[size - 1 - b] = kept;
      }
#endif
    sx_sha256_add(hash, chunk, (size_t)count * size);
  }
}

/* Of the device's memory. What cannot be read leaves a digest of nothing: the step fails then, and shows none. */
static void add_device_elements(sx_run *run, sx_sha256 *hash, sx_dtype dtype, const void *data, int64_t n) {
  if (run->backend->shares_memory) {
    add_elements(hash, dtype, data, n);
    return;
  }
  int64_t size = (int64_t)sx_dtype_bytes(dtype), most = SX_STAGING_BYTES / size;
  for (int64_t at = 0; at < n; at += most) {
    int64_t count = n - at < most ? n - at : most;
    run->backend->calls->download(run->backend, run->staging, (const char *)data + at * size, count * size);
    if (!sx_finish(run)) return;
    add_elements(hash, dtype, run->staging, count);
  }
}

static void end_digest(struct sx_digests *digests, sx_sha256 *hash, const char *name, const char *text) {
  uint8_t bytes[HASH_BYTES];
  size_t i = digests->n++;
  sx_sha256_end(hash, bytes);
  sx_sha256_text(bytes, digests->texts[i]);
  snprintf(digests->names[i], NAME_BYTES, "%s", name);
  digests->list[i] = (sexp_digest){digests->names[i], digests->texts[i], text};
}

/* Path, dtype, rank, dims, elements. */
static void add_tensor(sx_run *run, sx_sha256 *hash, const sx_slot *slot, const void *data) {
  const char *dtype = sx_dtype_name(slot->dtype);
  sx_sha256_add_part(hash, slot->path, strlen(slot->path));
  sx_sha256_add_part(hash, dtype, strlen(dtype));
  add_integer(hash, slot->rank);
  for (int i = 0; i < slot->rank; i++) add_integer(hash, slot->dims[i]);
  add_device_elements(run, hash, slot->dtype, data, slot->n_elements);
}

/* ---- sampled steps ---- */

void sx_digest_microbatch(sx_run *run, const sx_stage_state *stage, const sx_microbatch *microbatch) {
  struct sx_digests *digests = run->digests;
  if (!digests->active || (!microbatch && !stage->generator)) return;
  sx_sha256 *hash = new_hash(run);
  for (int64_t r = 0; microbatch && r < stage->stage->batch; r++) add_integer(hash, microbatch->records[r]);
  for (uint32_t f = 0; !microbatch && f < stage->n_fields; f++) {
    sx_dtype dtype = stage->fields[f].dtype;
    int64_t n = stage->generator->field_bytes[f] / (int64_t)sx_dtype_bytes(dtype);
    add_device_elements(run, hash, dtype, stage->generator->fields[f], n);
  }
  sx_sha256_end(hash, digests->microbatches + HASH_BYTES * digests->n_microbatches++);
}

void sx_digest_sums(sx_run *run) {
  struct sx_digests *digests = run->digests;
  if (!digests->active) return;
  if (digests->n_microbatches) {
    sx_sha256 *batch = new_hash(run);
    sx_sha256_add(batch, digests->microbatches, (size_t)digests->n_microbatches * HASH_BYTES);
    end_digest(digests, batch, "digest/batch", NULL);
  }
  sx_sha256 *loss = new_hash(run);
  float mean = sx_scalar(run, 0);
  add_elements(loss, SX_F32, &mean, 1);
  end_digest(digests, loss, "digest/loss", NULL);
  sx_sha256 *gradients = new_hash(run);
  for (size_t p = 0; p < run->n_params; p++) {
    if (run->grad_offsets[p] < 0) continue;
    const void *narrow = run->narrow_grads[p];
    add_tensor(run, gradients, &run->slots[p], narrow ? narrow : run->sum.leaf + run->grad_offsets[p]);
  }
  end_digest(digests, gradients, "digest/gradients", NULL);
}

static void digest_slots(sx_run *run, size_t begin, size_t end, const char *name) {
  sx_sha256 *hash = new_hash(run);
  for (size_t i = begin; i < end; i++) add_tensor(run, hash, &run->slots[i], run->slots[i].now);
  end_digest(run->digests, hash, name, NULL);
}

void sx_digest_state(sx_run *run) {
  if (!run->digests->active) return;
  digest_slots(run, 0, run->n_params, "digest/parameters");
  digest_slots(run, run->n_params, run->n_slots, "digest/states");
}

/* ---- nodes ---- */

bool sx_observes(const sx_run *run) { return run->digests->observing; }

static void observe_node(void *context, sx_id node, const void *data, int64_t n_bytes) {
  sx_run *run = context;
  const observed *of = run->digests->current;
  char name[NAME_BYTES];
  if (of == &run->digests->update)
    snprintf(name, sizeof name, "digest/node/update/%%%" PRIu32, node);
  else
    snprintf(name, sizeof name, "digest/node/%s.%" PRId64 "/%%%" PRIu32, of->graph, run->microbatch, node);
  sx_sha256 *hash = new_hash(run);
  sx_sha256_add(hash, data, (size_t)n_bytes);
  end_digest(run->digests, hash, name, of->texts[node]);
}

void sx_execute_observed(sx_run *run, sx_bound *bound, const char *graph) {
  struct sx_digests *digests = run->digests;
  digests->current = !strcmp(graph, "update") ? &digests->update : &digests->loss;
  if (!run->backend->calls->observe(run->backend, bound->made, observe_node, run)) sx_memory_fail(run->memory);
  sx_execute(run, bound);
}
