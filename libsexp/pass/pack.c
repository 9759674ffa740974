/* Packing, two ways; the smaller block wins, the first on ties.
 *
 * In time: slots are taken and given back as the tasks run, each from the smallest free block that is large
 * enough (best fit, lowest offset on ties); neighbours that are free become one. Free blocks are in a skip
 * list ordered by size and offset, so this takes n log n.
 *
 * By size: the largest slot first, each into the smallest gap between those already placed that live at the
 * same time. It packs tighter and takes n^2, so it is for few slots.
 *
 * Source: Pugh, "Skip lists", 1990; Pisarchyk and Lee, "Efficient memory management for deep neural net
 * inference", 2020 (greedy by size). */
#include "pack.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../base/hash.h"

enum { LEVELS = 10, BY_SIZE_LIMIT = 2048 };
#define NONE UINT32_MAX

typedef struct block {
  int64_t offset, size;
  uint32_t below, above; /* neighbours in memory */
  uint32_t next[LEVELS]; /* free: in the skip list */
  bool free;
} block;

typedef struct free_store {
  sx_arena *arena;
  SX_VEC(block) blocks; /* 0: head of the skip list */
  uint32_t spare;       /* unused blocks, linked by `above` */
  uint32_t top;         /* the block at the end, or NONE */
  int64_t end;
} free_store;

static int height(uint32_t index) {
  uint64_t bits = sx_hash_bytes(&index, sizeof index);
  int n = 1;
  while (n < LEVELS && (bits & 3) == 0) {
    bits >>= 2;
    n++;
  }
  return n;
}

static bool less(const block *a, int64_t size, int64_t offset) {
  return a->size != size ? a->size < size : a->offset < offset;
}

/* Per level, the last block below (size, offset). */
static void find(const free_store *s, int64_t size, int64_t offset, uint32_t path[LEVELS]) {
  const block *blocks = s->blocks.items;
  uint32_t at = 0;
  for (int level = LEVELS - 1; level >= 0; level--) {
    while (blocks[at].next[level] != NONE && less(&blocks[blocks[at].next[level]], size, offset))
      at = blocks[at].next[level];
    path[level] = at;
  }
}

static void insert_free(free_store *s, uint32_t index) {
  block *blocks = s->blocks.items, *one = &blocks[index];
  uint32_t path[LEVELS];
  find(s, one->size, one->offset, path);
  one->free = true;
  for (int level = height(index) - 1; level >= 0; level--) {
    one->next[level] = blocks[path[level]].next[level];
    blocks[path[level]].next[level] = index;
  }
}

static void remove_free(free_store *s, uint32_t index) {
  block *blocks = s->blocks.items, *one = &blocks[index];
  uint32_t path[LEVELS];
  find(s, one->size, one->offset, path);
  one->free = false;
  for (int level = height(index) - 1; level >= 0; level--) blocks[path[level]].next[level] = one->next[level];
}

static uint32_t new_block(free_store *s, int64_t offset, int64_t size, uint32_t below, uint32_t above) {
  uint32_t index = s->spare;
  block fresh = {.offset = offset, .size = size, .below = below, .above = above};
  if (index == NONE) {
    index = (uint32_t)s->blocks.n;
    SX_PUSH(s->arena, s->blocks, fresh);
  } else {
    s->spare = s->blocks.items[index].above;
    s->blocks.items[index] = fresh;
  }
  if (below != NONE) s->blocks.items[below].above = index;
  if (above != NONE)
    s->blocks.items[above].below = index;
  else
    s->top = index;
  return index;
}

/* Takes out a block whose memory its neighbour took over. */
static void drop_block(free_store *s, uint32_t index) {
  block *one = &s->blocks.items[index];
  if (one->below != NONE) s->blocks.items[one->below].above = one->above;
  if (one->above != NONE)
    s->blocks.items[one->above].below = one->below;
  else
    s->top = one->below;
  one->above = s->spare;
  s->spare = index;
}

/* A block at the end: the free one there made longer, or a new one. */
static uint32_t extend(free_store *s, int64_t size) {
  uint32_t top = s->top;
  if (top == NONE || !s->blocks.items[top].free) {
    s->end += size;
    return new_block(s, s->end - size, size, top, NONE);
  }
  remove_free(s, top);
  s->end += size - s->blocks.items[top].size;
  s->blocks.items[top].size = size;
  return top;
}

static uint32_t take(free_store *s, int64_t size) {
  uint32_t path[LEVELS];
  find(s, size, 0, path);
  uint32_t index = s->blocks.items[path[0]].next[0];
  if (index == NONE) return extend(s, size);
  remove_free(s, index);
  block *one = &s->blocks.items[index];
  int64_t rest = one->size - size, offset = one->offset + size;
  uint32_t above = one->above;
  one->size = size;
  if (rest) insert_free(s, new_block(s, offset, rest, index, above));
  return index;
}

static void give_back(free_store *s, uint32_t index) {
  uint32_t below = s->blocks.items[index].below, above = s->blocks.items[index].above;
  if (above != NONE && s->blocks.items[above].free) {
    remove_free(s, above);
    s->blocks.items[index].size += s->blocks.items[above].size;
    drop_block(s, above);
  }
  if (below != NONE && s->blocks.items[below].free) {
    remove_free(s, below);
    s->blocks.items[below].size += s->blocks.items[index].size;
    drop_block(s, index);
    index = below;
  }
  insert_free(s, index);
}

typedef struct ending {
  uint32_t last, slot;
} ending;

static int by_last(const void *a, const void *b) {
  const ending *x = a, *y = b;
  return x->last != y->last ? (x->last < y->last ? -1 : 1) : (x->slot > y->slot) - (x->slot < y->slot);
}

static int64_t pack_in_time(sx_slot *slots, uint32_t n, sx_arena *arena) {
  free_store s = {.arena = arena, .spare = NONE, .top = NONE};
  uint32_t *held = SX_NEW_N(arena, uint32_t, n);
  ending *endings = SX_NEW_N(arena, ending, n);
  block head = {0};
  memset(head.next, 0xff, sizeof head.next);
  SX_PUSH(arena, s.blocks, head);
  for (uint32_t i = 0; i < n; i++) endings[i] = (ending){slots[i].last, i};
  qsort(endings, n, sizeof *endings, by_last);
  for (uint32_t i = 0, ended = 0; i < n; i++) {
    for (; endings[ended].last < slots[i].first; ended++)
      if (slots[endings[ended].slot].size) give_back(&s, held[endings[ended].slot]);
    if (!slots[i].size) continue;
    held[i] = take(&s, slots[i].size);
    slots[i].offset = s.blocks.items[held[i]].offset;
  }
  return s.end;
}

typedef struct sized {
  int64_t size;
  uint32_t slot;
} sized;

static int by_size(const void *a, const void *b) {
  const sized *x = a, *y = b;
  return x->size != y->size ? (x->size > y->size ? -1 : 1) : (x->slot > y->slot) - (x->slot < y->slot);
}

/* The offset of the smallest gap that holds the slot, among the placed ones in order of offset. */
static int64_t best_gap(const sx_slot *slot, const sx_slot *const *placed, uint32_t n_placed) {
  int64_t end = 0, best = -1, best_size = INT64_MAX;
  for (uint32_t i = 0; i < n_placed; i++) {
    const sx_slot *other = placed[i];
    if (other->last < slot->first || other->first > slot->last) continue;
    int64_t gap = other->offset - end;
    if (gap >= slot->size && gap < best_size) {
      best = end;
      best_size = gap;
    }
    if (other->offset + other->size > end) end = other->offset + other->size;
  }
  return best >= 0 ? best : end;
}

static int64_t pack_by_size(sx_slot *slots, uint32_t n, sx_arena *arena) {
  sized *order = SX_NEW_N(arena, sized, n);
  const sx_slot **placed = SX_NEW_N(arena, const sx_slot *, n);
  int64_t end = 0;
  for (uint32_t i = 0; i < n; i++) order[i] = (sized){slots[i].size, i};
  qsort(order, n, sizeof *order, by_size);
  for (uint32_t i = 0; i < n; i++) {
    sx_slot *slot = &slots[order[i].slot];
    slot->offset = best_gap(slot, placed, i);
    if (slot->offset + slot->size > end) end = slot->offset + slot->size;
    uint32_t at = i;
    for (; at && placed[at - 1]->offset > slot->offset; at--) placed[at] = placed[at - 1];
    placed[at] = slot;
  }
  return end;
}

int64_t sx_pack(sx_slot *slots, uint32_t n, int64_t bound, sx_arena *arena) {
  if (!n) return 0;
  int64_t in_time = pack_in_time(slots, n, arena);
  if (n > BY_SIZE_LIMIT || in_time == bound) return in_time;
  sx_slot *again = SX_NEW_N(arena, sx_slot, n);
  memcpy(again, slots, n * sizeof *slots);
  int64_t packed = pack_by_size(again, n, arena);
  if (packed >= in_time) return in_time;
  for (uint32_t i = 0; i < n; i++) slots[i].offset = again[i].offset;
  return packed;
}
