/* Loads, stores and atomics: each byte is checked before it is touched. */
#include <stdio.h>

#include "ptx_run.h"

/* ---- addresses ---- */

static uint32_t first_of(uint32_t mask) { return (uint32_t)__builtin_ctz(mask); }

static void gather_addresses(sim_run *run, const sim_op *op, sim_places *places, uint32_t mask, size_t n_bytes) {
  const void *base = sim_source(run, op->a);
  _Alignas(64) uint64_t wide[SIM_N_LANES];
  if (op->address_size == 4) {
    for (int i = 0; i < SIM_N_LANES; i++) wide[i] = ((const uint32_t *)base)[i];
    base = wide;
  }
  if (mask != SIM_ALL) { /* whoever is not active is where the first active lane is */
    uint64_t first = ((const uint64_t *)base)[first_of(mask)];
    for (uint32_t i = 0; i < SIM_N_LANES; i++) wide[i] = mask >> i & 1 ? ((const uint64_t *)base)[i] : first;
    base = wide;
  }
  run->level->place(places, base, op->offset, n_bytes);
  places->mask = mask;
}

/* The lane, or the one whose address it has. */
static uint32_t asking(const sim_places *places, uint32_t lane) {
  return places->mask >> lane & 1 ? lane : first_of(places->mask);
}

static const char *verb(const sim_op *op) {
  return op->code == SIM_LOAD ? "reads" : op->code == SIM_STORE ? "writes" : "updates";
}

static const char *const SPACES[] = {"generic", "global", "shared", "local", "parameter", "constant"};

static bool check_alignment(sim_run *run, const sim_warp *warp, const sim_op *op, const sim_places *places, size_t n) {
  if (!(places->any & (n - 1))) return true;
  uint32_t lane = 0;
  while (!(places->address[lane] & (n - 1))) lane++;
  return sim_stop(run, warp, asking(places, lane), "%s %zu bytes at %s address %#llx, which is not a multiple of %zu",
                  verb(op), n, SPACES[op->space], (unsigned long long)places->address[lane], n);
}

/* Within 0 to limit - 1. */
static bool check_limit(sim_run *run, const sim_warp *warp, const sim_op *op, const sim_places *places, size_t n,
                        uint64_t limit, sim_space space) {
  if (places->most < limit && limit - places->most >= n) return true;
  uint32_t lane = 0;
  while (places->address[lane] < limit && limit - places->address[lane] >= n) lane++;
  return sim_stop(run, warp, asking(places, lane), "%s %zu bytes at %s address %lld, of which there are %llu bytes",
                  verb(op), n, SPACES[space], (long long)places->address[lane], (unsigned long long)limit);
}

static bool is_within(const sim_span *range, uint64_t least, uint64_t most, size_t n) {
  return least >= range->begin && most < range->end && range->end - most >= n;
}

static bool check_global(sim_run *run, const sim_warp *warp, const sim_op *op, const sim_places *places, size_t n) {
  sim_span *memo = &run->memos[op->of.memo];
  if (is_within(memo, places->least, places->most, n)) return true;
  bool writes = op->code != SIM_LOAD;
  const sim_launch *launch = run->launch;
  for (uint32_t lane = 0; lane < SIM_N_LANES; lane++) {
    uint64_t address = places->address[lane];
    if (is_within(memo, address, address, n)) continue;
    sim_span range = {0};
    if (!sim_module_range(run->kernel->module, &range, address, n, writes) &&
        (op->space == SIM_CONST || !launch->check(launch->context, &range, address, n, writes)))
      return sim_stop(run, warp, asking(places, lane), "%s %zu bytes at %#llx, where no %s memory is that it may touch",
                      verb(op), n, (unsigned long long)address, op->space == SIM_CONST ? "constant" : "device");
    *memo = range;
  }
  return true;
}

/* ---- the shadow of shared memory ---- */

static bool races(const sim_run *run, const sim_warp *warp, uint32_t lane, const sim_shadow *s, bool writes,
                  uint32_t *with) {
  uint32_t thread = warp->index * SIM_N_LANES + lane;
  *with = s->writer;
  if (s->write_epoch == run->epoch && s->writer != thread &&
      (s->writer / SIM_N_LANES != warp->index || s->write_warp_epoch == warp->epoch))
    return true;
  *with = s->reader;
  if (!writes || s->read_epoch != run->epoch) return false;
  if (s->many_warps || s->reader / SIM_N_LANES != warp->index) return true;
  return s->read_warp_epoch == warp->epoch && (s->many_lanes || s->reader != thread);
}

static void note_read(const sim_run *run, const sim_warp *warp, uint32_t lane, sim_shadow *s) {
  uint16_t thread = (uint16_t)(warp->index * SIM_N_LANES + lane);
  bool is_new = s->read_epoch != run->epoch;
  bool same_warp = s->reader / SIM_N_LANES == warp->index, same_time = s->read_warp_epoch == warp->epoch;
  s->many_warps = !is_new && (s->many_warps || !same_warp);
  s->many_lanes = !is_new && same_warp && same_time && (s->many_lanes || s->reader != thread);
  s->reader = thread;
  s->read_epoch = run->epoch;
  s->read_warp_epoch = warp->epoch;
}

static bool check_granule(sim_run *run, const sim_warp *warp, const sim_op *op, uint32_t lane, uint64_t at) {
  sim_shadow *s = &run->shadows[at / run->kernel->granule];
  uint32_t with;
  if (run->launch->checks_uninitialized && op->code != SIM_STORE && !s->is_written)
    return sim_stop(run, warp, lane, "reads shared byte %llu, which no thread has written", (unsigned long long)at);
  s->is_written = true;
  if (!run->launch->checks_races || op->code == SIM_ATOMIC) return true;
  if (races(run, warp, lane, s, op->code == SIM_STORE, &with))
    return sim_stop(run, warp, lane,
                    "%s shared byte %llu, which thread %u of the block touched with no barrier between", verb(op),
                    (unsigned long long)at, with);
  if (op->code == SIM_LOAD) {
    note_read(run, warp, lane, s);
  } else {
    s->writer = (uint16_t)(warp->index * SIM_N_LANES + lane);
    s->write_epoch = run->epoch;
    s->write_warp_epoch = warp->epoch;
  }
  return true;
}

/* Marks granules as read where nobody wrote since the barrier: a load that can race with nothing. False: it may. */
static bool mark_read(const sim_run *run, const sim_warp *warp, const sim_places *places, uint32_t mask, size_t n) {
  const size_t granule = run->kernel->granule;
  const int shift = __builtin_ctzll(granule);
  const uint32_t epoch = run->epoch;
  uint32_t rest = mask;
  /* Where all lanes read the same, the first and the last leave the mark of all. */
  if (places->is_one) rest = (mask & -mask) | 1u << (SIM_N_LANES - 1 - __builtin_clz(mask));
  for (; rest; rest &= rest - 1) {
    uint32_t lane = first_of(rest);
    sim_shadow *s = &run->shadows[places->address[lane] >> shift];
    for (size_t i = 0; i < n; i += granule, s++) {
      if (s->write_epoch == epoch || !s->is_written) return false;
      if (s->read_epoch == epoch && s->many_warps)
        s->reader = (uint16_t)(warp->index * SIM_N_LANES + lane);
      else
        note_read(run, warp, lane, s);
    }
  }
  return true;
}

static bool check_shadow(sim_run *run, const sim_warp *warp, const sim_op *op, const sim_places *places, uint32_t mask,
                         size_t n) {
  if (op->code == SIM_LOAD && run->launch->checks_races && mark_read(run, warp, places, mask, n)) return true;
  for (uint32_t rest = mask; rest; rest &= rest - 1)
    for (size_t i = 0; i < n; i += run->kernel->granule)
      if (!check_granule(run, warp, op, first_of(rest), places->address[first_of(rest)] + i)) return false;
  return true;
}

/* ---- from an address of a space to one of the host ---- */

static void move_all(sim_places *places, const uint8_t *base, size_t a_lane) {
  for (uint64_t i = 0; i < SIM_N_LANES; i++) places->address[i] += (uint64_t)(uintptr_t)base + i * a_lane;
  if (a_lane) places->is_row = places->is_one = false;
}

static bool resolve(sim_run *run, const sim_warp *warp, const sim_op *op, sim_places *places, uint32_t mask, size_t n,
                    sim_space space) {
  switch (space) {
    case SIM_SHARED:
      if (!check_limit(run, warp, op, places, n, run->shared_n_bytes, space)) return false;
      if (run->shadows && !check_shadow(run, warp, op, places, mask, n)) return false;
      move_all(places, run->shared, 0);
      return true;
    case SIM_LOCAL:
      if (!check_limit(run, warp, op, places, n, run->kernel->local_n_bytes, space)) return false;
      move_all(places, warp->local, run->kernel->local_n_bytes);
      return true;
    case SIM_PARAM:
      if (op->code != SIM_LOAD) return sim_stop(run, warp, first_of(mask), "writes to parameters");
      if (!check_limit(run, warp, op, places, n, run->kernel->params_n_bytes, space)) return false;
      move_all(places, run->params, 0);
      return true;
    default:
      return check_global(run, warp, op, places, n);
  }
}

/* ---- values ---- */

static uint64_t read_value(uint64_t address, sim_type type) {
  uint64_t bits = 0;
  memcpy(&bits, (const void *)(uintptr_t)address, type.size);
  int n = 64 - 8 * type.size;
  return type.kind == SIM_SIGNED ? (uint64_t)((int64_t)(bits << n) >> n) : bits;
}

#define EACH(T, n)                                                                      \
  do {                                                                                  \
    for (uint32_t j = 0; j < (n); j++) {                                                \
      T *to = to_list[j];                                                               \
      for (int i = 0; i < SIM_N_LANES; i++)                                             \
        memcpy(&to[i], (const char *)(uintptr_t)address[i] + j * sizeof(T), sizeof(T)); \
    }                                                                                   \
  } while (0)

static void load(const sim_op *op, const sim_places *places, void *const *to_list) {
  const uint64_t *address = places->address;
  size_t size = op->type.size;
  bool is_plain = size == op->width;
  if (is_plain && places->is_row && op->n == 1) {
    memcpy(to_list[0], (const void *)(uintptr_t)address[0], size * SIM_N_LANES);
  } else if (is_plain && size == 4) {
    EACH(uint32_t, op->n);
  } else if (is_plain && size == 8) {
    EACH(uint64_t, op->n);
  } else if (is_plain && size == 2) {
    EACH(uint16_t, op->n);
  } else {
    for (uint32_t j = 0; j < op->n; j++)
      for (size_t i = 0; i < SIM_N_LANES; i++) {
        uint64_t bits = read_value(address[i] + j * size, op->type);
        memcpy((char *)to_list[j] + i * op->width, &bits, op->width);
      }
  }
}

static void store(sim_run *run, const sim_op *op, const sim_places *places, uint32_t mask) {
  size_t size = op->type.size;
  const void *list[4];
  for (uint32_t j = 0; j < op->n; j++) list[j] = sim_source(run, op->list[j]);
  if (mask == SIM_ALL && places->is_row && op->n == 1 && size == op->width) {
    memcpy((void *)(uintptr_t)places->address[0], list[0], size * SIM_N_LANES);
    return;
  }
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    size_t lane = first_of(rest);
    char *to = (char *)(uintptr_t)places->address[lane];
    if (size == 4 && op->width == 4)
      for (uint32_t j = 0; j < op->n; j++) memcpy(to + 4 * j, (const char *)list[j] + 4 * lane, 4);
    else
      for (uint32_t j = 0; j < op->n; j++) memcpy(to + size * j, (const char *)list[j] + op->width * lane, size);
  }
}

static uint64_t updated(const sim_op *op, uint64_t old, uint64_t b, uint64_t c) {
  bool is_signed = op->type.kind == SIM_SIGNED, below = is_signed ? (int64_t)old < (int64_t)b : old < b;
  switch (op->mode) {
    case SIM_ADD:
      return old + b;
    case SIM_MIN:
      return below ? old : b;
    case SIM_MAX:
      return below ? b : old;
    case SIM_AND:
      return old & b;
    case SIM_OR:
      return old | b;
    case SIM_XOR:
      return old ^ b;
    case SIM_EXCHANGE:
      return b;
    case SIM_COMPARE:
      return old == b ? c : old;
    case SIM_INCREMENT:
      return old >= b ? 0 : old + 1;
    default:
      return old == 0 || old > b ? b : old - 1;
  }
}

/* The lanes in ascending order. */
static void update(sim_run *run, sim_warp *warp, const sim_op *op, const sim_places *places, uint32_t mask) {
  size_t size = op->type.size;
  uint64_t b_at = (uint64_t)(uintptr_t)sim_source(run, op->b), c_at = (uint64_t)(uintptr_t)sim_source(run, op->c);
  uint8_t *d = op->d == SIM_NONE ? NULL : sim_destination(warp, op->d);
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    uint64_t lane = first_of(rest), address = places->address[lane], old = read_value(address, op->type);
    uint64_t bits =
        updated(op, old, read_value(b_at + lane * size, op->type), read_value(c_at + lane * size, op->type));
    memcpy((void *)(uintptr_t)address, &bits, size);
    if (d) memcpy(d + lane * size, &old, size);
  }
}

/* ---- access ---- */

static bool access_space(sim_run *run, sim_warp *warp, const sim_op *op, sim_places *places, uint32_t mask, size_t n,
                         sim_space space) {
  if (!resolve(run, warp, op, places, mask, n, space)) return false;
  if (op->code == SIM_STORE) {
    store(run, op, places, mask);
  } else if (op->code == SIM_ATOMIC) {
    update(run, warp, op, places, mask);
  } else {
    void *to[4];
    for (uint32_t j = 0; j < op->n; j++) to[j] = mask == SIM_ALL ? sim_destination(warp, op->list[j]) : run->scratch[j];
    load(op, places, to);
    if (mask == SIM_ALL) return true;
    _Alignas(64) uint32_t flags[SIM_N_LANES];
    run->level->spread(flags, mask);
    for (uint32_t j = 0; j < op->n; j++) run->level->blend(sim_destination(warp, op->list[j]), to[j], flags, op->width);
  }
  return true;
}

static sim_space space_of(uint64_t address) {
  uint64_t window = address & SIM_WINDOW_MASK;
  return window == SIM_SHARED_WINDOW  ? SIM_SHARED
         : window == SIM_LOCAL_WINDOW ? SIM_LOCAL
         : window == SIM_PARAM_WINDOW ? SIM_PARAM
                                      : SIM_GLOBAL;
}

/* Generic addresses: the lanes of each space for themselves. */
static bool access_generic(sim_run *run, sim_warp *warp, const sim_op *op, const sim_places *generic, uint32_t mask,
                           size_t n) {
  while (mask) {
    sim_space space = space_of(generic->address[first_of(mask)]);
    uint64_t window = space == SIM_GLOBAL ? 0 : generic->address[first_of(mask)] & SIM_WINDOW_MASK;
    uint32_t now = 0;
    _Alignas(64) uint64_t base[SIM_N_LANES];
    for (uint32_t i = 0; i < SIM_N_LANES; i++) {
      bool is_it = mask >> i & 1 && space_of(generic->address[i]) == space;
      now |= (uint32_t)is_it << i;
      base[i] = generic->address[is_it ? i : first_of(mask)] - window;
    }
    sim_places places;
    run->level->place(&places, base, 0, n);
    places.mask = now;
    if (!access_space(run, warp, op, &places, now, n, space)) return false;
    mask &= ~now;
  }
  return true;
}

bool sim_access(sim_run *run, sim_warp *warp, const sim_op *op, uint32_t mask) {
  sim_places places;
  size_t n = (size_t)op->n * op->type.size;
  gather_addresses(run, op, &places, mask, n);
  if (!check_alignment(run, warp, op, &places, n)) return false;
  if (op->space == SIM_GENERIC) return access_generic(run, warp, op, &places, mask, n);
  return access_space(run, warp, op, &places, mask, n, op->space);
}
