/* Memory of a run's device, and what moves between it and the host's. Where the device shares the host's memory, an
 * address of one is an address of the other and nothing moves. */
#include <inttypes.h>
#include <string.h>

#include "run.h"

_Noreturn void sx_leave(sx_run *run) {
  run->left = true;
  sx_memory_fail(run->memory);
}

/* ---- taking ---- */

static const char *const use_words[SX_N_USES] = {
    [SX_USE_PARAMETERS] = "parameters", [SX_USE_STATES] = "optimizer states", [SX_USE_GRADIENTS] = "gradients",
    [SX_USE_FIELDS] = "data",           [SX_USE_GENERATORS] = "generators",   [SX_USE_CELLS] = "single values",
};

static _Noreturn void refuse(sx_run *run, const char *words, int64_t n_bytes) {
  if (run->backend->shares_memory) sx_memory_fail(run->memory);
  sx_error(&run->diags, SX_E_DEVICE_ROOM, (sx_span){0},
           "the device has no %.2f MiB of memory for %s; %.2f MiB are free", (double)n_bytes / 1048576, words,
           (double)run->backend->calls->free_bytes(run->backend) / 1048576);
  sx_leave(run);
}

/* The list has the place before the memory is taken, so that none is lost. */
static sx_taken *new_taken(sx_run *run, bool host) {
  sx_taken *taken = SX_NEW(&run->arena, sx_taken);
  *taken = (sx_taken){.host = host, .next = run->taken};
  return run->taken = taken;
}

void *sx_take(sx_run *run, sx_use use, int64_t n_bytes) {
  sx_taken *taken = new_taken(run, false);
  taken->memory = run->backend->calls->take(run->backend, n_bytes ? n_bytes : 1);
  if (!taken->memory) refuse(run, use_words[use], n_bytes);
  run->use_bytes[use] += n_bytes;
  return taken->memory;
}

void *sx_take_host(sx_run *run, int64_t n_bytes) {
  if (run->backend->shares_memory) return sx_take_aligned(&run->arena, n_bytes);
  sx_taken *taken = new_taken(run, true);
  taken->memory = run->backend->calls->take_host(run->backend, n_bytes ? n_bytes : 1);
  if (!taken->memory) sx_memory_fail(run->memory);
  return taken->memory;
}

sx_mirror sx_take_mirror(sx_run *run, sx_use use, int64_t n_bytes) {
  sx_mirror mirror = {.device = sx_take(run, use, n_bytes), .n_bytes = n_bytes};
  mirror.host = run->backend->shares_memory ? mirror.device : sx_take_host(run, n_bytes);
  return mirror;
}

void sx_give_all(sx_run *run) {
  for (sx_taken *taken = run->taken; taken; taken = taken->next) {
    if (!taken->memory) continue;
    if (taken->host)
      run->backend->calls->give_host(run->backend, taken->memory);
    else
      run->backend->calls->give(run->backend, taken->memory);
  }
  run->taken = NULL;
  if (run->image) run->memory->release(run->memory->context, run->image);
  run->image = NULL;
}

static void describe_use(sx_text *text, bool first, const char *words, int64_t n_bytes) {
  sx_text_addf(text, "%-19s %-18s %12.3f MiB\n", first ? "device memory" : "", words, (double)n_bytes / 1048576);
}

static int64_t larger_plan(const sx_run *run, const sx_bound *bound, int64_t n_bytes) {
  int64_t n = bound->made ? run->backend->calls->plan_bytes(run->backend, bound->plan) : 0;
  return n > n_bytes ? n : n_bytes;
}

void sx_describe_memory(const sx_run *run, sx_text *text) {
  for (int use = 0; use < SX_N_USES; use++) describe_use(text, !use, use_words[use], run->use_bytes[use]);
  int64_t shared = 0;
  for (const sx_bound *bound = run->bounds; bound; bound = bound->next_bound) shared = larger_plan(run, bound, shared);
  for (uint32_t s = 0; s < run->program->n_stages; s++) shared = larger_plan(run, &run->stages[s].stacked, shared);
  describe_use(text, false, "activations", shared);
}

/* ---- moving ---- */

sx_diag_mark sx_diags_mark(const sx_diags *diags) { return (sx_diag_mark){diags->list.n, diags->n_errors}; }

void sx_diags_forget(sx_diags *diags, sx_diag_mark mark) {
  diags->list.n = mark.n;
  diags->n_errors = mark.n_errors;
}

void sx_upload(sx_run *run, void *to, const void *from_host, int64_t n_bytes) {
  if (n_bytes && !run->backend->shares_memory) run->backend->calls->upload(run->backend, to, from_host, n_bytes);
}

void sx_upload_part(sx_run *run, const sx_mirror *mirror, int64_t offset, int64_t n_bytes) {
  sx_upload(run, mirror->device + offset, mirror->host + offset, n_bytes);
}

void sx_download_part(sx_run *run, const sx_mirror *mirror, int64_t offset, int64_t n_bytes) {
  if (!n_bytes || run->backend->shares_memory) return;
  run->backend->calls->download(run->backend, mirror->host + offset, mirror->device + offset, n_bytes);
}

void sx_report_stop(sx_run *run, const sx_stopped *why) {
  const sx_node *node = sx_node_at(why->plan->graph, why->node);
  const char *path = node->path && node->path[0] ? node->path : NULL;
  sx_diag *diag = sx_error(
      &run->diags, SX_E_RUN_INDEX, node->span, "%s%s%s: id %" PRId64 " at index %" PRId64 " is outside 0 to %" PRId64,
      sx_op_describe(node->op)->name, path ? " in " : "", path ? path : "", why->value, why->at, why->limit - 1);
  diag->path = path;
}

bool sx_finish(sx_run *run) {
  sx_stopped why = {0};
  if (run->finished != SX_FINISHED) return false;
  run->finished = run->backend->calls->finish(run->backend, &why, &run->diags);
  if (run->finished == SX_FINISHED_STOPPED) sx_report_stop(run, &why);
  if (run->finished == SX_FINISHED_FAILED) run->lost = true;
  return run->finished == SX_FINISHED;
}

bool sx_write(sx_run *run, void *to, const void *from, int64_t n_bytes) {
  if (run->backend->shares_memory) {
    if (n_bytes) memcpy(to, from, (size_t)n_bytes);
    return true;
  }
  for (int64_t at = 0; at < n_bytes; at += SX_STAGING_BYTES) {
    int64_t n = n_bytes - at < SX_STAGING_BYTES ? n_bytes - at : SX_STAGING_BYTES;
    memcpy(run->staging, (const char *)from + at, (size_t)n);
    run->backend->calls->upload(run->backend, (char *)to + at, run->staging, n);
    if (!sx_finish(run)) return false;
  }
  return true;
}

bool sx_read_back(sx_run *run, void *to, const void *from, int64_t n_bytes) {
  if (run->backend->shares_memory) {
    if (n_bytes) memcpy(to, from, (size_t)n_bytes);
    return true;
  }
  for (int64_t at = 0; at < n_bytes; at += SX_STAGING_BYTES) {
    int64_t n = n_bytes - at < SX_STAGING_BYTES ? n_bytes - at : SX_STAGING_BYTES;
    run->backend->calls->download(run->backend, run->staging, (const char *)from + at, n);
    if (!sx_finish(run)) return false;
    memcpy((char *)to + at, run->staging, (size_t)n);
  }
  return true;
}

bool sx_show_tensors(sx_run *run) {
  if (run->backend->shares_memory || run->shown) return true;
  if (run->lost) return false;
  int64_t n_bytes = 0;
  for (size_t i = 0; i < run->n_slots; i++) n_bytes += run->slots[i].n_bytes;
  if (!run->image) run->image = run->memory->allocate(run->memory->context, n_bytes ? (size_t)n_bytes : 1);
  if (!run->image) return false;
  run->finished = SX_FINISHED;
  char *at = run->image;
  for (size_t i = 0; i < run->n_slots; at += run->slots[i++].n_bytes) {
    if (!sx_read_back(run, at, run->slots[i].now, run->slots[i].n_bytes)) return false;
    run->tensors[i].bytes = at;
  }
  return run->shown = true;
}
