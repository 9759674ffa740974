/* Hash for tables in memory (FNV-1a, 64 bits, with a final mix). Never part of a record. */
#ifndef SX_BASE_HASH_H
#define SX_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t sx_hash_mix(uint64_t h) {
  h ^= h >> 32;
  h *= 0xd6e8feb86659fd93u;
  return h ^ (h >> 32);
}

static inline uint64_t sx_hash_bytes(const void *bytes, size_t n) {
  const unsigned char *p = bytes;
  uint64_t h = 0xcbf29ce484222325u;
  for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001b3u;
  return sx_hash_mix(h);
}

#endif
