/* Executes a launch: blocks one after another, a block's warps in turn from barrier to barrier, a warp's lanes together
 * as long as they are at one place. Lanes that part run from the least instruction on, so that they meet again. */
#include "ptx_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- what stopped it ---- */

static int line_of(const char *text, uint32_t line, const char **at) {
  for (; line > 1 && *text; text++) line -= *text == '\n';
  while (*text == ' ' || *text == '\t') text++;
  *at = text;
  return (int)strcspn(text, "\n");
}

bool sim_stop(sim_run *run, const sim_warp *warp, uint32_t lane, const char *format, ...) {
  uint32_t thread = warp->index * SIM_N_LANES + lane;
  const uint32_t *block = run->launch->block;
  const sim_op *op = &run->kernel->ops[warp->pc];
  const char *text;
  int n_text = line_of(run->kernel->module->text, op->line, &text);
  int n = snprintf(run->problem, run->n_problem,
                   "kernel %s, block (%u, %u, %u), thread (%u, %u, %u), PTX line %u \"%.*s\": ", run->kernel->name,
                   run->block[0], run->block[1], run->block[2], thread % block[0], thread / block[0] % block[1],
                   thread / block[0] / block[1], op->line, n_text, text);
  if (n > 0 && (size_t)n < run->n_problem) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(run->problem + n, run->n_problem - (size_t)n, format, arguments);
    va_end(arguments);
  }
  return false;
}

static bool stop_launch(sim_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool stop_launch(sim_run *run, const char *format, ...) {
  int n = snprintf(run->problem, run->n_problem, "kernel %s: ", run->kernel->name);
  if (n > 0 && (size_t)n < run->n_problem) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(run->problem + n, run->n_problem - (size_t)n, format, arguments);
    va_end(arguments);
  }
  return false;
}

/* ---- which lanes run ---- */

static uint32_t first_of(uint32_t mask) { return (uint32_t)__builtin_ctz(mask); }

static void leave(sim_warp *warp) { /* the running lanes stand where they are */
  if (warp->mask == SIM_ALL) {
    for (int i = 0; i < SIM_N_LANES; i++) warp->lane_pc[i] = warp->pc;
    return;
  }
  for (uint32_t rest = warp->mask; rest; rest &= rest - 1) warp->lane_pc[first_of(rest)] = warp->pc;
}

/* The lanes that stand at the least instruction run. False: none can. */
static bool choose(sim_run *run, sim_warp *warp) {
  uint32_t ready = warp->present & ~warp->ended & ~warp->parked, least = UINT32_MAX, next = UINT32_MAX, at = 0;
  for (uint32_t rest = ready; rest; rest &= rest - 1) {
    uint32_t lane = first_of(rest), pc = warp->lane_pc[lane];
    if (pc < least) {
      next = least;
      least = pc;
      at = 0;
    } else if (pc > least && pc < next) {
      next = pc;
    }
    at |= (uint32_t)(pc == least) << lane;
  }
  warp->mask = at;
  warp->other = next;
  if (!ready) return false;
  warp->pc = least;
  run->level->spread(warp->flags, at);
  return true;
}

/* At an instruction that the lanes of `needed` execute together: whether all of them are here. If not, those that are
 * wait, and others run. */
static bool gather(sim_run *run, sim_warp *warp, uint32_t needed) {
  uint32_t before = warp->mask;
  for (uint32_t rest = warp->parked; rest; rest &= rest - 1)
    if (warp->lane_pc[first_of(rest)] == warp->pc) warp->mask |= 1u << first_of(rest);
  warp->parked &= ~warp->mask;
  if (!(needed & ~warp->mask)) {
    if (warp->mask != before) run->level->spread(warp->flags, warp->mask);
    return true;
  }
  leave(warp);
  warp->parked |= warp->mask;
  return false;
}

/* ---- results of some lanes only ---- */

static void *result(sim_run *run, sim_warp *warp, sim_operand d, uint32_t mask) {
  return mask == SIM_ALL ? sim_destination(warp, d) : run->scratch[0];
}

static void finish(sim_run *run, sim_warp *warp, sim_operand d, size_t width, uint32_t mask) {
  if (mask == SIM_ALL) return;
  _Alignas(64) uint32_t guarded[SIM_N_LANES];
  const uint32_t *flags = warp->flags;
  if (mask != warp->mask) run->level->spread(guarded, mask), flags = guarded;
  run->level->blend(sim_destination(warp, d), run->scratch[0], flags, width);
}

static void run_lanes(sim_run *run, sim_warp *warp, const sim_op *op, uint32_t mask) {
  op->function(result(run, warp, op->d, mask), sim_source(run, op->a), sim_source(run, op->b), sim_source(run, op->c),
               sim_source(run, op->e));
  finish(run, warp, op->d, op->width, mask);
}

static void run_convert(sim_run *run, sim_warp *warp, const sim_op *op, uint32_t mask) {
  const uint8_t *a = sim_source(run, op->a);
  uint8_t *d = result(run, warp, op->d, mask);
  for (size_t i = 0; i < SIM_N_LANES; i++) {
    uint64_t bits = 0;
    memcpy(&bits, a + i * op->n, op->of.conversion.from.size);
    bits = sim_convert(&op->of.conversion, bits);
    memcpy(d + i * op->width, &bits, op->width);
  }
  finish(run, warp, op->d, op->width, mask);
}

static void run_pack(sim_run *run, sim_warp *warp, const sim_op *op, uint32_t mask) {
  uint8_t *d = result(run, warp, op->d, mask);
  for (uint32_t j = 0; j < op->n; j++) {
    const uint8_t *from = sim_source(run, op->list[j]);
    for (size_t i = 0; i < SIM_N_LANES; i++)
      memcpy(d + i * op->type.size + j * op->width, from + i * op->width, op->width);
  }
  finish(run, warp, op->d, op->type.size, mask);
}

static void run_unpack(sim_run *run, sim_warp *warp, const sim_op *op, uint32_t mask) {
  _Alignas(64) uint8_t whole[8 * SIM_N_LANES];
  memcpy(whole, sim_source(run, op->a), (size_t)op->type.size * SIM_N_LANES);
  for (uint32_t j = 0; j < op->n; j++) {
    if (op->list[j] == SIM_NONE) continue;
    uint8_t *d = result(run, warp, op->list[j], mask);
    for (size_t i = 0; i < SIM_N_LANES; i++)
      memcpy(d + i * op->width, whole + i * op->type.size + j * op->width, op->width);
    finish(run, warp, op->list[j], op->width, mask);
  }
}

/* ---- branches ---- */

static void run_branch(sim_run *run, sim_warp *warp, const sim_op *op, uint32_t taken) {
  if (taken == warp->mask) {
    warp->pc = op->of.target;
  } else if (taken == 0) {
    warp->pc++;
  } else {
    warp->pc++;
    leave(warp);
    for (uint32_t rest = taken; rest; rest &= rest - 1) warp->lane_pc[first_of(rest)] = op->of.target;
    choose(run, warp);
  }
}

static bool run_branch_table(sim_run *run, sim_warp *warp, const sim_op *op, uint32_t mask) {
  const uint32_t *index = sim_source(run, op->a);
  for (uint32_t rest = mask; rest; rest &= rest - 1)
    if (index[first_of(rest)] >= op->n_targets)
      return sim_stop(run, warp, first_of(rest), "branches to entry %u of a table of %u", index[first_of(rest)],
                      op->n_targets);
  const uint32_t *targets = run->kernel->targets + op->of.target;
  warp->pc++;
  leave(warp);
  for (uint32_t rest = mask; rest; rest &= rest - 1) warp->lane_pc[first_of(rest)] = targets[index[first_of(rest)]];
  choose(run, warp);
  return true;
}

/* ---- exchanges within a warp ---- */

/* Whether the members of the mask that each lane gives are here: 1 yes, 0 they are waited for, -1 stopped. */
static int assemble(sim_run *run, sim_warp *warp, const sim_op *op, bool all_must_be) {
  const uint32_t *masks = sim_source(run, op->e);
  uint32_t members = masks[first_of(warp->mask)], gone = members & ~(warp->present & ~warp->ended);
  for (uint32_t rest = warp->mask; rest; rest &= rest - 1) {
    uint32_t lane = first_of(rest);
    if (!(masks[lane] >> lane & 1))
      return sim_stop(run, warp, lane, "is not in the mask %#x that it gives", masks[lane]), -1;
    if (masks[lane] != members)
      return sim_stop(run, warp, lane, "gives the mask %#x, another lane %#x", masks[lane], members), -1;
  }
  if (gone && all_must_be)
    return sim_stop(run, warp, first_of(warp->mask), "its mask %#x names lane %u, which %s", members, first_of(gone),
                    warp->present >> first_of(gone) & 1 ? "has ended" : "the block does not have"),
           -1;
  return gather(run, warp, members & ~gone);
}

/* The lane that lane i reads, or i itself where that one is out of the segment. */
static uint32_t shuffle_source(const sim_op *op, uint32_t i, uint32_t b, uint32_t c, bool *is_in) {
  uint32_t clamp = c & 31, segment = c >> 8 & 31, delta = b & 31;
  uint32_t most = (i & segment) | (clamp & ~segment), least = i & segment, j;
  switch (op->mode) {
    case SIM_UP_LANES:
      *is_in = (int32_t)i - (int32_t)delta >= (int32_t)most;
      j = i - delta;
      break;
    case SIM_DOWN_LANES:
      *is_in = (j = i + delta) <= most;
      break;
    case SIM_BUTTERFLY:
      *is_in = (j = i ^ delta) <= most;
      break;
    default:
      *is_in = (j = least | (delta & ~segment)) <= most;
      break;
  }
  return *is_in ? j & 31 : i;
}

static bool run_shuffle(sim_run *run, sim_warp *warp, const sim_op *op, uint32_t mask) {
  const uint32_t *a = sim_source(run, op->a), *b = sim_source(run, op->b), *c = sim_source(run, op->c);
  uint32_t members = ((const uint32_t *)sim_source(run, op->e))[first_of(mask)];
  _Alignas(64) uint32_t values[SIM_N_LANES], is_in[SIM_N_LANES];
  for (uint32_t i = 0; i < SIM_N_LANES; i++) {
    bool in;
    uint32_t j = shuffle_source(op, i, b[i], c[i], &in);
    if (mask >> i & 1 && !(members >> j & 1))
      return sim_stop(run, warp, i, "reads lane %u, which the mask %#x does not name", j, members);
    values[i] = a[j];
    is_in[i] = in ? ~0u : 0;
  }
  memcpy(result(run, warp, op->d, mask), values, sizeof values);
  finish(run, warp, op->d, 4, mask);
  if (op->list[0] != SIM_NONE) {
    memcpy(result(run, warp, op->list[0], mask), is_in, sizeof is_in);
    finish(run, warp, op->list[0], 4, mask);
  }
  return true;
}

static void give_all(sim_run *run, sim_warp *warp, const sim_op *op, uint32_t mask, uint32_t value) {
  uint32_t *d = result(run, warp, op->d, mask);
  for (int i = 0; i < SIM_N_LANES; i++) d[i] = value;
  finish(run, warp, op->d, 4, mask);
}

static void run_vote(sim_run *run, sim_warp *warp, const sim_op *op, uint32_t mask) {
  uint32_t votes = run->level->ballot(sim_source(run, op->a)) & mask;
  bool holds = op->mode == SIM_ANY_OF   ? votes != 0
               : op->mode == SIM_ALL_OF ? votes == mask
                                        : votes == 0 || votes == mask;
  give_all(run, warp, op, mask, op->mode == SIM_BALLOT ? votes : holds ? ~0u : 0);
}

static void run_match(sim_run *run, sim_warp *warp, const sim_op *op, uint32_t mask) {
  const uint8_t *a = sim_source(run, op->a);
  _Alignas(64) uint32_t values[SIM_N_LANES] = {0};
  for (uint32_t i = 0; i < SIM_N_LANES; i++)
    for (uint32_t j = 0; j < SIM_N_LANES; j++)
      if (mask >> j & 1 && memcmp(a + i * op->n, a + j * op->n, op->n) == 0) values[i] |= 1u << j;
  memcpy(result(run, warp, op->d, mask), values, sizeof values);
  finish(run, warp, op->d, 4, mask);
}

static void run_reduce(sim_run *run, sim_warp *warp, const sim_op *op, uint32_t mask) {
  const uint32_t *a = sim_source(run, op->a);
  uint32_t sum = a[first_of(mask)];
  for (uint32_t rest = mask & (mask - 1); rest; rest &= rest - 1) {
    uint32_t x = a[first_of(rest)];
    bool below = op->type.kind == SIM_SIGNED ? (int32_t)x < (int32_t)sum : x < sum;
    switch (op->mode) {
      case SIM_ADD:
        sum += x;
        break;
      case SIM_MIN:
        sum = below ? x : sum;
        break;
      case SIM_MAX:
        sum = below ? sum : x;
        break;
      case SIM_AND:
        sum &= x;
        break;
      case SIM_OR:
        sum |= x;
        break;
      default:
        sum ^= x;
        break;
    }
  }
  give_all(run, warp, op, mask, sum);
}

/* ---- one instruction ---- */

typedef enum outcome { GOES_ON, WAITS, ENDED, STOPPED } outcome;

static outcome stop_unreached(sim_run *run, const sim_warp *warp, uint32_t lane, uint32_t thread) {
  sim_stop(run, warp, lane, "waits for thread %u of the block, which has ended", thread);
  return STOPPED;
}

/* No lane can run: the block's barrier, the end, or lanes that wait for others that never come. */
static outcome idle(sim_run *run, sim_warp *warp) {
  if (!warp->parked) return ENDED;
  uint32_t lane = first_of(warp->parked), pc = warp->lane_pc[lane], there = 0;
  for (uint32_t rest = warp->parked; rest; rest &= rest - 1)
    if (warp->lane_pc[first_of(rest)] != pc) there |= 1u << first_of(rest);
  warp->pc = pc;
  if (there)
    sim_stop(run, warp, lane, "waits for lane %u, which waits at PTX line %u", first_of(there),
             run->kernel->ops[warp->lane_pc[first_of(there)]].line);
  else
    stop_unreached(run, warp, lane, warp->index * SIM_N_LANES + first_of(warp->ended));
  return STOPPED;
}

static outcome go_on(sim_run *run, sim_warp *warp) { return choose(run, warp) ? GOES_ON : idle(run, warp); }

static outcome run_exit(sim_run *run, sim_warp *warp, uint32_t mask) {
  warp->pc++;
  leave(warp);
  warp->ended |= mask;
  return go_on(run, warp);
}

static outcome run_barrier(sim_run *run, sim_warp *warp) {
  if (warp->ended)
    return stop_unreached(run, warp, first_of(warp->mask), warp->index * SIM_N_LANES + first_of(warp->ended));
  if (!gather(run, warp, warp->present)) return go_on(run, warp);
  warp->waits = true;
  return WAITS;
}

static outcome run_exchange(sim_run *run, sim_warp *warp, const sim_op *op) {
  int here = assemble(run, warp, op, op->code == SIM_SHUFFLE);
  if (here < 0) return STOPPED;
  if (!here) return go_on(run, warp);
  uint32_t mask = warp->mask;
  switch (op->code) {
    case SIM_SHUFFLE:
      if (!run_shuffle(run, warp, op, mask)) return STOPPED;
      break;
    case SIM_VOTE:
      run_vote(run, warp, op, mask);
      break;
    case SIM_MATCH:
      run_match(run, warp, op, mask);
      break;
    case SIM_REDUCE:
      run_reduce(run, warp, op, mask);
      break;
    default:
      warp->epoch += mask == (warp->present & ~warp->ended);
      break;
  }
  warp->pc++;
  return GOES_ON;
}

static uint32_t guarded(sim_run *run, const sim_warp *warp, const sim_op *op) {
  if (op->guard == SIM_NONE) return warp->mask;
  uint32_t bits = run->level->ballot(sim_source(run, op->guard));
  return warp->mask & (op->is_negated ? ~bits : bits);
}

/* A guarded exchange or barrier: lanes without it go on, the others execute it as if they had parted. */
static bool is_together(const sim_op *op) {
  return op->code >= SIM_SHUFFLE && op->code <= SIM_BARRIER && op->code != SIM_ACTIVE;
}

static outcome part_at_guard(sim_run *run, sim_warp *warp, uint32_t mask) {
  uint32_t here = warp->pc;
  warp->pc++;
  leave(warp);
  warp->pc = here;
  warp->mask = mask;
  for (uint32_t rest = mask; rest; rest &= rest - 1) warp->lane_pc[first_of(rest)] = here;
  warp->other = here + 1;
  run->level->spread(warp->flags, mask);
  return GOES_ON;
}

static outcome step(sim_run *run, sim_warp *warp, const sim_op *op) {
  uint32_t mask = guarded(run, warp, op);
  if (op->code == SIM_BRANCH) return run_branch(run, warp, op, mask), GOES_ON;
  if (mask == 0) return warp->pc++, GOES_ON;
  if (op->code == SIM_EXIT) return run_exit(run, warp, mask);
  if (mask != warp->mask && (is_together(op) || op->code == SIM_BRANCH_TABLE)) part_at_guard(run, warp, mask);
  switch (op->code) {
    case SIM_LANES:
      run_lanes(run, warp, op, mask);
      break;
    case SIM_CONVERT:
      run_convert(run, warp, op, mask);
      break;
    case SIM_PACK:
      run_pack(run, warp, op, mask);
      break;
    case SIM_UNPACK:
      run_unpack(run, warp, op, mask);
      break;
    case SIM_ACTIVE:
      give_all(run, warp, op, mask, mask);
      break;
    case SIM_NOTHING:
      break;
    case SIM_TRAP:
      return sim_stop(run, warp, first_of(mask), "traps"), STOPPED;
    case SIM_BRANCH_TABLE:
      return run_branch_table(run, warp, op, mask) ? GOES_ON : STOPPED;
    case SIM_BARRIER:
      return run_barrier(run, warp);
    case SIM_LOAD:
    case SIM_STORE:
    case SIM_ATOMIC:
      if (!sim_access(run, warp, op, mask)) return STOPPED;
      break;
    default:
      return run_exchange(run, warp, op);
  }
  warp->pc++;
  return GOES_ON;
}

/* To the block's barrier or the end. */
static outcome run_warp(sim_run *run, sim_warp *warp) {
  const sim_op *ops = run->kernel->ops;
  run->bases[0] = warp->registers;
  for (;;) {
    if (warp->pc >= warp->other) {
      leave(warp);
      choose(run, warp);
    }
    const sim_op *op = &ops[warp->pc];
    run->n_instructions++;
    if (op->code == SIM_LANES && op->guard == SIM_NONE && warp->mask == SIM_ALL) {
      op->function(sim_destination(warp, op->d), sim_source(run, op->a), sim_source(run, op->b), sim_source(run, op->c),
                   sim_source(run, op->e));
      warp->pc++;
      continue;
    }
    outcome now = step(run, warp, op);
    if (now != GOES_ON) return now;
  }
}

/* ---- a block ---- */

static uint32_t special_value(const sim_run *run, const sim_warp *warp, size_t kind, uint32_t lane) {
  const uint32_t *n = run->launch->block, *grid = run->launch->grid, thread = warp->index * SIM_N_LANES + lane;
  switch ((sim_special_kind)kind) {
    case SIM_TID_X:
      return thread % n[0];
    case SIM_TID_Y:
      return thread / n[0] % n[1];
    case SIM_TID_Z:
      return thread / n[0] / n[1];
    case SIM_NTID_X:
      return n[0];
    case SIM_NTID_Y:
      return n[1];
    case SIM_NTID_Z:
      return n[2];
    case SIM_CTAID_X:
      return run->block[0];
    case SIM_CTAID_Y:
      return run->block[1];
    case SIM_CTAID_Z:
      return run->block[2];
    case SIM_NCTAID_X:
      return grid[0];
    case SIM_NCTAID_Y:
      return grid[1];
    case SIM_NCTAID_Z:
      return grid[2];
    case SIM_LANE:
      return lane;
    case SIM_WARP:
      return warp->index;
    case SIM_N_WARPS:
      return run->n_warps;
    case SIM_MASK_EQ:
      return 1u << lane;
    case SIM_MASK_LT:
      return (1u << lane) - 1;
    case SIM_MASK_LE:
      return (2u << lane) - 1;
    case SIM_MASK_GT:
      return ~((2u << lane) - 1);
    case SIM_MASK_GE:
      return ~((1u << lane) - 1);
    case SIM_SHARED_SIZE:
      return run->launch->shared_bytes;
    default:
      return run->shared_n_bytes;
  }
}

static void begin_warp(sim_run *run, sim_warp *warp) {
  uint32_t n = run->n_threads - warp->index * SIM_N_LANES;
  warp->present = n >= SIM_N_LANES ? SIM_ALL : (1u << n) - 1;
  warp->mask = warp->present;
  warp->pc = warp->ended = warp->parked = 0;
  warp->other = UINT32_MAX;
  warp->epoch = 1;
  warp->waits = false;
  run->level->spread(warp->flags, warp->mask);
  for (size_t kind = 0; kind < SIM_N_SPECIALS; kind++) {
    sim_operand operand = run->kernel->specials[kind];
    if (operand == SIM_NONE) continue;
    uint32_t *values = sim_destination(warp, operand);
    for (uint32_t lane = 0; lane < SIM_N_LANES; lane++) values[lane] = special_value(run, warp, kind, lane);
  }
}

/* What bar.red gives each thread. */
static void reduce_block(sim_run *run, const sim_op *op) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < run->n_warps; i++) {
    run->bases[0] = run->warps[i].registers;
    n += (uint32_t)__builtin_popcount(run->level->ballot(sim_source(run, op->a)) & run->warps[i].present);
  }
  uint32_t value = op->mode == SIM_COUNT ? n : op->mode == SIM_ANY_OF ? (n ? ~0u : 0) : (n == run->n_threads ? ~0u : 0);
  for (uint32_t i = 0; i < run->n_warps; i++) give_all(run, &run->warps[i], op, run->warps[i].mask, value);
}

/* All warps wait or have ended: they wait at one barrier, or the launch stops. */
static bool pass_barrier(sim_run *run) {
  sim_warp *first = NULL, *ended = NULL;
  for (uint32_t i = 0; i < run->n_warps; i++) {
    sim_warp *warp = &run->warps[i];
    if (!warp->waits) {
      ended = warp;
    } else if (first && first->pc != warp->pc) {
      return sim_stop(run, first, 0, "a barrier where thread %u of the block waits at another, at PTX line %u",
                      warp->index * SIM_N_LANES, run->kernel->ops[warp->pc].line);
    } else if (!first) {
      first = warp;
    }
  }
  if (ended) return stop_unreached(run, first, 0, ended->index * SIM_N_LANES), false;
  const sim_op *op = &run->kernel->ops[first->pc];
  if (op->mode != SIM_NO_MODE) reduce_block(run, op);
  for (uint32_t i = 0; i < run->n_warps; i++) run->warps[i].pc++, run->warps[i].waits = false;
  run->epoch++;
  return true;
}

static bool run_block(sim_run *run) {
  bool in_turn = !run->kernel->has_barrier; /* each to its end, in the same registers */
  for (uint32_t i = 0; i < run->n_warps && !in_turn; i++) begin_warp(run, &run->warps[i]);
  if (run->shadows) memset(run->shadows, 0, run->n_shadows * sizeof *run->shadows);
  memset(run->shared, 0xa5, run->shared_n_bytes); /* whatever; the same every time */
  run->epoch = 1;
  for (;;) {
    bool waits = false;
    for (uint32_t i = 0; i < run->n_warps; i++) {
      sim_warp *warp = &run->warps[i];
      if (in_turn) begin_warp(run, warp);
      if (!warp->mask) continue;
      outcome now = run_warp(run, warp);
      if (now == STOPPED) return false;
      waits |= now == WAITS;
    }
    if (!waits) return true;
    if (!pass_barrier(run)) return false;
  }
}

/* ---- a launch ---- */

static bool check_launch(sim_run *run) {
  const sim_launch *l = run->launch;
  const sim_kernel *kernel = run->kernel;
  uint64_t threads = 1;
  for (int i = 0; i < 3; i++) {
    if (l->grid[i] == 0 || l->block[i] == 0 || l->block[i] > 1024 || l->grid[i] > (i ? 65535u : 2147483647u))
      return stop_launch(run, "no grid of %u x %u x %u blocks of %u x %u x %u threads", l->grid[0], l->grid[1],
                         l->grid[2], l->block[0], l->block[1], l->block[2]);
    threads *= l->block[i];
  }
  uint32_t most = kernel->max_threads ? kernel->max_threads : 1024;
  if (threads > most || threads > 1024)
    return stop_launch(run, "%llu threads a block, %u at most", (unsigned long long)threads, most);
  if (l->n_params != kernel->params_n_bytes)
    return stop_launch(run, "%zu bytes of parameters, %zu belong", l->n_params, kernel->params_n_bytes);
  uint64_t shared = (uint64_t)kernel->dynamic_offset + l->shared_bytes;
  if (shared > 232448) return stop_launch(run, "%llu bytes of shared memory", (unsigned long long)shared);
  run->n_threads = (uint32_t)threads;
  run->n_warps = (run->n_threads + SIM_N_LANES - 1) / SIM_N_LANES;
  run->shared_n_bytes = l->shared_bytes ? (uint32_t)shared : kernel->shared_n_bytes;
  return true;
}

static void *take(size_t n_bytes) {
  void *memory = aligned_alloc(64, (n_bytes + 64) / 64 * 64);
  if (!memory) abort();
  memset(memory, 0, n_bytes);
  return memory;
}

static void take_memory(sim_run *run) {
  const sim_kernel *kernel = run->kernel;
  size_t n_registers = (size_t)kernel->n_units * 64, n_local = (size_t)kernel->local_n_bytes * SIM_N_LANES;
  run->warps = take(run->n_warps * sizeof *run->warps);
  for (uint32_t i = 0; i < run->n_warps; i++) {
    bool owns = i == 0 || kernel->has_barrier;
    run->warps[i] = (sim_warp){.index = i,
                               .registers = owns ? take(n_registers) : run->warps[0].registers,
                               .local = owns ? take(n_local) : run->warps[0].local};
  }
  run->shared = take(run->shared_n_bytes);
  run->params = take(run->launch->n_params);
  memcpy(run->params, run->launch->params, run->launch->n_params);
  run->n_shadows = run->shared_n_bytes / kernel->granule + 1;
  run->memos = take(kernel->n_memos * sizeof *run->memos);
  if (run->launch->checks_races || run->launch->checks_uninitialized)
    run->shadows = take(run->n_shadows * sizeof *run->shadows);
  run->bases[1] = kernel->constants;
}

static void free_memory(sim_run *run) {
  for (uint32_t i = 0; i < (run->kernel->has_barrier ? run->n_warps : 1); i++) {
    free(run->warps[i].registers);
    free(run->warps[i].local);
  }
  free(run->warps);
  free(run->shared);
  free(run->params);
  free(run->memos);
  free(run->shadows);
}

bool sim_kernel_run(const sim_kernel *kernel, const sim_launch *launch, char *problem, size_t n_problem) {
  sim_run *run = take(sizeof *run);
  *run = (sim_run){
      .kernel = kernel, .launch = launch, .level = sim_level_best(), .problem = problem, .n_problem = n_problem};
  bool ok = check_launch(run);
  if (ok) {
    take_memory(run);
    for (uint32_t z = 0; ok && z < launch->grid[2]; z++)
      for (uint32_t y = 0; ok && y < launch->grid[1]; y++)
        for (uint32_t x = 0; ok && x < launch->grid[0]; x++) {
          run->block[0] = x, run->block[1] = y, run->block[2] = z;
          ok = run_block(run);
        }
    free_memory(run);
  }
  if (launch->n_instructions) *launch->n_instructions += run->n_instructions;
  free(run);
  return ok;
}
