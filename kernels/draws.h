/* Random draws and the epoch shuffle: pure functions of key and index.
 *
 * The generator is Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel
 * random numbers: as easy as 1, 2, 3", SC 2011). Nothing has state: element i
 * of a stream can be drawn alone, in any order, on any device, and has the
 * same bits. For the host and for NVRTC like math.h, whose build rules hold
 * here too. docs/kernels.md states every formula for reimplementation.
 *
 *   uint64_t key = ...;                          // the stream
 *   int32_t step_and_row[2] = {step, row};
 *   key = sx_draw_salt(key, step_and_row, 2);    // a stream of its own
 *   for (uint64_t block = 0; 4 * block < n; block++)
 *     sx_draw_uniform_block(key, block, &out[4 * block]);
 */
#ifndef SX_KERNELS_DRAWS_H
#define SX_KERNELS_DRAWS_H

#include "math.h"

/* Philox 4x32-10: four words from a counter under a key. */
SX_MATH void sx_philox(const uint32_t counter[4], uint32_t key_lo, uint32_t key_hi, uint32_t out[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xd2511f53u * c0;
    uint64_t p1 = (uint64_t)0xcd9e8d57u * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ key_lo;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ key_hi;
    c1 = (uint32_t)p1;
    c3 = (uint32_t)p0;
    key_lo += 0x9e3779b9u;
    key_hi += 0xbb67ae85u;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

/* The four words of elements 4 block to 4 block + 3 of a stream. */
SX_MATH void sx_draw_words(uint64_t key, uint64_t block, uint32_t words[4]) {
  uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), 0, 0};
  sx_philox(counter, (uint32_t)key, (uint32_t)(key >> 32), words);
}

/* The key of a stream salted by its i-th word (from 0). */
SX_MATH uint64_t sx_draw_salt_word(uint64_t key, uint32_t i, int32_t word) {
  uint32_t counter[4] = {(uint32_t)word, i, 0x5a17u, 0};
  uint32_t out[4];
  sx_philox(counter, (uint32_t)key, (uint32_t)(key >> 32), out);
  return out[0] | (uint64_t)out[1] << 32;
}

/* The key of a stream derived from `key` by n salt words. */
SX_MATH uint64_t sx_draw_salt(uint64_t key, const int32_t *words, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) key = sx_draw_salt_word(key, i, words[i]);
  return key;
}

/* A multiple of 2^-24 in [0, 1). */
SX_MATH float sx_uniform_from_word(uint32_t word) { return (float)(int32_t)(word >> 8) * 0x1p-24f; }

SX_MATH float sx_draw_uniform(uint64_t key, uint64_t i) {
  uint32_t words[4];
  sx_draw_words(key, i / 4, words);
  return sx_uniform_from_word(words[i % 4]);
}

SX_MATH void sx_draw_uniform_block(uint64_t key, uint64_t block, float out[4]) {
  uint32_t words[4];
  sx_draw_words(key, block, words);
  for (int lane = 0; lane < 4; lane++) out[lane] = sx_uniform_from_word(words[lane]);
}

/* Box-Muller on two words: each operation one f32 operation of math.h. */
SX_MATH void sx_normal_pair(uint32_t word_radius, uint32_t word_angle, float *even, float *odd) {
  float u1 = (float)(int32_t)((word_radius >> 8) + 1) * 0x1p-24f;
  float twice_u2 = 2.0f * sx_uniform_from_word(word_angle);
  float radius = sx_sqrt_f32(-2.0f * sx_log_f32(u1));
  *even = radius * sx_cospi_f32(twice_u2);
  *odd = radius * sx_sinpi_f32(twice_u2);
}

/* Standard normal; elements 2j and 2j + 1 are one Box-Muller pair. */
SX_MATH float sx_draw_normal(uint64_t key, uint64_t i) {
  uint32_t words[4];
  float pair[2];
  sx_draw_words(key, i / 4, words);
  sx_normal_pair(words[i & 2], words[(i & 2) + 1], &pair[0], &pair[1]);
  return pair[i & 1];
}

SX_MATH void sx_draw_normal_block(uint64_t key, uint64_t block, float out[4]) {
  uint32_t words[4];
  sx_draw_words(key, block, words);
  sx_normal_pair(words[0], words[1], &out[0], &out[1]);
  sx_normal_pair(words[2], words[3], &out[2], &out[3]);
}

/* Blocks in a tile: enough for both loops below to vectorize. */
#define SX_DRAW_TILE 64

/* The same bits as SX_DRAW_TILE calls of sx_draw_normal_block from `block` on;
 * several times as fast with a compiler that vectorizes inner loops only. */
SX_MATH void sx_draw_normal_tile(uint64_t key, uint64_t block, float out[4 * SX_DRAW_TILE]) {
  uint32_t words[4 * SX_DRAW_TILE];
  for (uint32_t i = 0; i < SX_DRAW_TILE; i++) sx_draw_words(key, block + i, &words[4 * i]);
  for (uint32_t i = 0; i < 2 * SX_DRAW_TILE; i++)
    sx_normal_pair(words[2 * i], words[2 * i + 1], &out[2 * i], &out[2 * i + 1]);
}

/* ---- The epoch shuffle -------------------------------------------------- */

#define SX_SHUFFLE_ROUNDS 6

/* Half the number of bits of the network: the least h >= 1 with 4^h >= n. */
SX_MATH uint32_t sx_shuffle_half_bits(uint64_t n) {
  uint32_t half = 1;
  while (half < 31 && (uint64_t)1 << 2 * half < n) half++;
  return half;
}

/* One pass of the balanced Feistel network over 2 half_bits bits. */
SX_MATH uint64_t sx_shuffle_pass(uint64_t key, uint64_t epoch, uint32_t half_bits, uint64_t x) {
  uint32_t mask = (1u << half_bits) - 1u;
  uint32_t left = (uint32_t)(x >> half_bits) & mask;
  uint32_t right = (uint32_t)x & mask;
  for (uint32_t round = 0; round < SX_SHUFFLE_ROUNDS; round++) {
    uint32_t counter[4] = {right, 0x5f0f0000u | round, (uint32_t)epoch, (uint32_t)(epoch >> 32)};
    uint32_t out[4];
    sx_philox(counter, (uint32_t)key, (uint32_t)(key >> 32), out);
    uint32_t next = left ^ (out[0] & mask);
    left = right;
    right = next;
  }
  return (uint64_t)left << half_bits | right;
}

/* The record at place i of epoch `epoch` over n records: for each key and
 * epoch a bijection of 0..n-1, i < n, n <= 2^62. Walks the cycle of the
 * network until it is back below n (fewer than 4 passes on average). Gives 0
 * for n <= 1. */
SX_MATH uint64_t sx_shuffle_index(uint64_t key, uint64_t epoch, uint64_t n, uint64_t i) {
  if (n <= 1) return 0;
  uint32_t half_bits = sx_shuffle_half_bits(n);
  do {
    i = sx_shuffle_pass(key, epoch, half_bits, i);
  } while (i >= n);
  return i;
}

#endif
