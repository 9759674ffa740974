/* Numbers in files: little-endian whatever the host; elements in the host's order. */
#ifndef CK_BYTES_H
#define CK_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline bool ck_host_is_little(void) {
  const uint16_t probe = 1;
  unsigned char first;
  memcpy(&first, &probe, 1);
  return first == 1;
}

static inline uint64_t ck_load_le(const unsigned char *bytes, size_t n_bytes) {
  uint64_t value = 0;
  for (size_t i = n_bytes; i-- > 0;) value = value << 8 | bytes[i];
  return value;
}

static inline uint16_t ck_load_u16(const unsigned char *bytes) { return (uint16_t)ck_load_le(bytes, 2); }
static inline uint32_t ck_load_u32(const unsigned char *bytes) { return (uint32_t)ck_load_le(bytes, 4); }
static inline uint64_t ck_load_u64(const unsigned char *bytes) { return ck_load_le(bytes, 8); }

static inline void ck_store_u64(unsigned char out[8], uint64_t value) {
  for (int i = 0; i < 8; i++) out[i] = (unsigned char)(value >> (8 * i));
}

/* Reverses the bytes of each of n elements of `width` bytes, in place. */
void ck_swap_elements(void *elements, size_t n, size_t width);

#endif
