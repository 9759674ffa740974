/* Keys of draws: where the bits of a RANDOM node come from. */
#ifndef SX_IR_DRAW_KEY_H
#define SX_IR_DRAW_KEY_H

#include "ir.h"

/* The stream key of a RANDOM node before its salts: the first 8 bytes, little-endian, of SHA-256 over
 * length-prefixed parts: "sexpgpu draw 1"; the seed as 8 bytes little-endian; the graph's name; and which
 * draw it is. Of a graph "init/PATH" or "init-state/PATH" that is PATH for draw 0 and PATH#N for draw N, of
 * a named stream "stream:NAME" and "stream:NAME#N", else the draw's number in decimal.
 * False: no memory.
 * Repeats: a function of its arguments on every machine (numerics 1). */
bool sx_draw_key(const sx_graph *graph, sx_id id, int64_t seed, uint64_t *key);

#endif
