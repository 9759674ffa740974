#include "tar.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

enum { BLOCK = 512, RECORD = 20 * BLOCK, NAME_ROOM = 100, PREFIX_ROOM = 155 };
static const uint64_t octal_most = (UINT64_C(1) << 33) - 1; /* eleven octal digits */

void tar_bytes(tar *archive, const void *bytes, size_t n) {
  fwrite(bytes, 1, n, archive->to);
  archive->n_bytes += n;
}

void tar_pad(tar *archive) {
  static const char zeros[BLOCK];
  if (archive->n_bytes % BLOCK) tar_bytes(archive, zeros, BLOCK - archive->n_bytes % BLOCK);
}

void tar_finish(tar *archive) {
  static const char zeros[BLOCK];
  for (int i = 0; i < 2 || archive->n_bytes % RECORD; i++) tar_bytes(archive, zeros, BLOCK);
}

/* digits octal digits and a NUL. */
static void put_octal(char *at, int digits, uint64_t value) {
  for (int i = digits; i-- > 0; value >>= 3) at[i] = (char)('0' + (value & 7));
  at[digits] = 0;
}

/* Where to cut a name so that what is before the slash fits the prefix, and what is after it the name; 0: it fits
 * whole; -1: nowhere. */
static long cut_of(const char *name) {
  size_t n = strlen(name);
  if (n <= NAME_ROOM) return 0;
  for (size_t i = 1; i + 1 < n && i <= PREFIX_ROOM; i++)
    if (name[i] == '/' && n - i - 1 <= NAME_ROOM) return (long)i;
  return -1;
}

/* The parts of a header: https://pubs.opengroup.org/onlinepubs/9699919799/utilities/pax.html, ustar. */
static void put_header(tar *archive, const char *name, uint64_t size, char type) {
  char block[BLOCK] = {0};
  long cut = cut_of(name);
  const char *rest = cut > 0 ? name + cut + 1 : name;
  size_t n_rest = strlen(rest);
  memcpy(block, rest, n_rest < NAME_ROOM ? n_rest : NAME_ROOM);
  if (cut > 0) memcpy(block + 345, name, (size_t)cut);
  put_octal(block + 100, 7, 0644);
  put_octal(block + 108, 7, 0);
  put_octal(block + 116, 7, 0);
  put_octal(block + 124, 11, size <= octal_most ? size : 0);
  put_octal(block + 136, 11, (uint64_t)archive->mtime_s);
  memset(block + 148, ' ', 8);
  block[156] = type;
  memcpy(block + 257, "ustar\00000", 8);
  put_octal(block + 329, 7, 0);
  put_octal(block + 337, 7, 0);
  unsigned sum = 0;
  for (size_t i = 0; i < BLOCK; i++) sum += (unsigned char)block[i];
  put_octal(block + 148, 6, sum);
  tar_bytes(archive, block, BLOCK);
}

/* "LENGTH key=value\n", whose length counts itself. */
static char *pax_record(const char *before, const char *key, const char *value) {
  size_t n = strlen(key) + strlen(value) + 3, length = n + 1;
  for (size_t power = 10; length >= power; power *= 10) length++;
  return tool_text("%s%zu %s=%s\n", before, length, key, value);
}

static bool is_ascii(const char *text) {
  while (*text)
    if ((unsigned char)*text++ > 126) return false;
  return true;
}

static void put_pax(tar *archive, const char *name, uint64_t size) {
  char *records = tool_text("%s", "");
  if (cut_of(name) < 0 || !is_ascii(name)) {
    char *longer = pax_record(records, "path", name);
    free(records);
    records = longer;
  }
  if (size > octal_most) {
    char number[24];
    snprintf(number, sizeof number, "%" PRIu64, size);
    char *longer = pax_record(records, "size", number);
    free(records);
    records = longer;
  }
  if (records[0]) {
    put_header(archive, "pax_header", strlen(records), 'x');
    tar_bytes(archive, records, strlen(records));
    tar_pad(archive);
  }
  free(records);
}

void tar_begin(tar *archive, const char *name, uint64_t size) {
  put_pax(archive, name, size);
  put_header(archive, name, size, '0');
}
