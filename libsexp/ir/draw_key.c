/* Keys of draws. An initializer's draw is named by its parameter, so adding a layer changes no other layer's
 * start. */
#include "draw_key.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../base/sha256.h"

static void add_text(sx_sha256 *hash, const char *text) { sx_sha256_add_part(hash, text, strlen(text)); }

/* The path that an initializer's graph is named by; NULL for another graph. */
static const char *initialized_path(const char *name) {
  static const char *const prefixes[] = {"init/", "init-state/"};
  for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
    if (!strncmp(name, prefixes[i], strlen(prefixes[i]))) return name + strlen(prefixes[i]);
  return NULL;
}

/* One part: the prefix, the name, and "#N" for a draw after the first. */
static void add_named(sx_sha256 *hash, const char *prefix, const char *name, int64_t draw) {
  char number[32];
  size_t n = strlen(prefix) + strlen(name);
  int digits = draw ? snprintf(number, sizeof number, "#%" PRId64, draw) : 0;
  uint8_t length[8];
  for (int i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)(n + (size_t)digits) >> (8 * i));
  sx_sha256_add(hash, length, sizeof length);
  sx_sha256_add(hash, prefix, strlen(prefix));
  sx_sha256_add(hash, name, strlen(name));
  sx_sha256_add(hash, number, (size_t)digits);
}

bool sx_draw_key(const sx_graph *graph, sx_id id, int64_t seed, uint64_t *key) {
  const sx_node *node = sx_node_at(graph, id);
  sx_sha256 *hash = sx_sha256_new();
  if (!hash) return false;
  uint8_t bytes[8], digest[32];
  for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)((uint64_t)seed >> (8 * i));
  add_text(hash, "sexpgpu draw 1");
  sx_sha256_add_part(hash, bytes, sizeof bytes);
  add_text(hash, graph->name);
  const char *path = initialized_path(graph->name);
  char number[32];
  if (node->text && *node->text) {
    add_named(hash, "stream:", node->text, node->ints[0]);
  } else if (path) {
    add_named(hash, "", path, node->ints[0]);
  } else {
    snprintf(number, sizeof number, "%" PRId64, node->ints[0]);
    add_text(hash, number);
  }
  sx_sha256_end(hash, digest);
  *key = 0;
  for (int i = 0; i < 8; i++) *key |= (uint64_t)digest[i] << (8 * i);
  return true;
}
