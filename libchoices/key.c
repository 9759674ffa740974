/* The members of a key's text. */
#include <stdio.h>
#include <string.h>

#include "choices_record.h"

typedef struct members {
  choices_member *items;
  size_t n, most;
} members;

static void add(members *to, const char *name, const char *value) {
  if (to->n < to->most) to->items[to->n] = (choices_member){name, value};
  to->n++;
}

/* "Weight Spec { batch: 512, … } bf16" or "Product { batch: 1, … } f32": words, members in braces, a dtype. */
static bool braced(members *to, char *text) {
  char *open = strstr(text, " { "), *close = open ? strstr(open, " }") : NULL;
  if (!close) return false;
  *open = *close = 0;
  char *spec = strstr(text, " Spec");
  if (spec && !spec[5]) *spec = 0;
  add(to, "role", text);
  for (char *part = open + 3, *next; part && *part; part = next) {
    next = strstr(part, ", ");
    if (next) {
      *next = 0;
      next += 2;
    }
    char *colon = strstr(part, ": ");
    if (colon) *colon = 0;
    add(to, colon ? part : "", colon ? colon + 2 : part);
  }
  if (close[2]) add(to, "dtype", close[2] == ' ' ? close + 3 : close + 2);
  return true;
}

/* "graph sha256:… candidates 1 2 4". */
static bool graph(members *to, char *text) {
  char *candidates = strstr(text, " candidates ");
  if (strncmp(text, "graph ", 6) != 0) return false;
  if (candidates) *candidates = 0;
  add(to, "graph", text + 6);
  if (candidates) add(to, "candidates", candidates + 12);
  return true;
}

size_t choices_key_members(choices_member *out, size_t most, char *room, size_t n_room, const char *key) {
  members list = {out, 0, most};
  snprintf(room, n_room, "%s", key);
  if (!braced(&list, room) && !graph(&list, room)) add(&list, "key", room);
  return list.n;
}
