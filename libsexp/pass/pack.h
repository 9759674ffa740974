/* Places intervals of memory: slots, each alive over a range of tasks, get offsets in one block. */
#ifndef SX_PASS_PACK_H
#define SX_PASS_PACK_H

#include <stdint.h>

#include "../base/memory.h"

typedef struct sx_slot {
  int64_t size;         /* bytes, a multiple of 64 */
  uint32_t first, last; /* tasks, both included */
  int64_t offset;       /* result */
} sx_slot;

/* Gives every slot an offset so that no two alive at one task overlap; slots come in order of first. Returns
 * the bytes of the block. bound: a block that cannot be beaten (0: not known). */
int64_t sx_pack(sx_slot *slots, uint32_t n, int64_t bound, sx_arena *arena);

#endif
