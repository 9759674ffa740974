/* Races: two operations touch the same bytes, one of them writes, and no stream, event, wait or synchronization orders
 * them. Every 16 bytes remember who wrote and who read last. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "driver.h"

enum { N_RECENT = 4096, ID_BITS = 56 };
typedef struct recent {
  uint64_t id;
  unsigned stream;
  char name[64];
} recent;
static recent recents[N_RECENT]; /* names of operations that ran */

void sim_clock_join(sim_clock *clock, const sim_clock *other) {
  for (size_t i = 0; i < SIM_N_SLOTS; i++)
    if (other->at[i] > clock->at[i]) clock->at[i] = other->at[i];
}

void sim_race_begin(const sim_op *op) {
  recent *at = &recents[op->id % N_RECENT];
  at->id = op->id;
  at->stream = op->stream->object.number;
  snprintf(at->name, sizeof at->name, "%s", op->work->name);
}

static bool ordered(const sim_op *op, uint64_t epoch) {
  return (epoch & ((1ull << ID_BITS) - 1)) <= op->clock.at[epoch >> ID_BITS];
}

static void report(sim_op *op, const sim_memory *memory, size_t granule, uint64_t epoch, const char *other_did,
                   bool writes) {
  if (op->reported) return;
  op->reported = true;
  uint64_t id = epoch & ((1ull << ID_BITS) - 1);
  const recent *other = &recents[id % N_RECENT];
  char name[128] = "an earlier operation";
  if (other->id == id) snprintf(name, sizeof name, "%s on stream %u", other->name, other->stream);
  sim_violation("race: %s on stream %u %s %s, which %s %s with nothing that orders them", op->work->name,
                op->stream->object.number, writes ? "writes" : "reads",
                sim_memory_describe(memory, memory->base + granule * SIM_GRANULE), name, other_did);
}

static bool have_shadow(sim_memory *memory) {
  if (memory->shadow) return true;
  size_t n = (memory->n_bytes + SIM_GRANULE - 1) / SIM_GRANULE * sizeof(sim_shadow);
  void *shadow = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (shadow == MAP_FAILED) return false;
  memory->shadow = shadow;
  return true;
}

void sim_race_access(sim_op *op, sim_memory *memory, const void *address, size_t n_bytes, bool writes) {
  if (n_bytes == 0 || op->stream->slot < 0 || !have_shadow(memory)) return;
  uint64_t own = (uint64_t)op->stream->slot << ID_BITS | op->id;
  size_t first = (size_t)((const char *)address - memory->base) / SIM_GRANULE;
  size_t last = ((size_t)((const char *)address - memory->base) + n_bytes - 1) / SIM_GRANULE;
  for (size_t i = first; i <= last; i++) {
    sim_shadow *shadow = &memory->shadow[i];
    if (shadow->writer != own && shadow->writer && !ordered(op, shadow->writer))
      report(op, memory, i, shadow->writer, "wrote", writes);
    if (!writes) {
      shadow->reader = own;
    } else {
      if (shadow->reader && shadow->reader != own && !ordered(op, shadow->reader))
        report(op, memory, i, shadow->reader, "read", true);
      shadow->writer = own;
    }
  }
}
