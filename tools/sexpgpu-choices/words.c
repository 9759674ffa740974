/* How keys and values are shown to people. */
#include <stdlib.h>
#include <string.h>

#include "command.h"

enum { MOST_MEMBERS = 16 };

typedef struct parts {
  choices_member items[MOST_MEMBERS];
  size_t n;
} parts;

static const char *part(const parts *of, const char *name) {
  for (size_t i = 0; i < of->n && i < MOST_MEMBERS; i++)
    if (strcmp(of->items[i].name, name) == 0) return of->items[i].value;
  return NULL;
}

/* All of the names, in their order, and no others. */
static bool are(const parts *of, const char *const *names, size_t n) {
  if (of->n != n) return false;
  for (size_t i = 0; i < n; i++)
    if (strcmp(of->items[i].name, names[i]) != 0) return false;
  return true;
}

static char *short_convolution(const parts *p) {
  return tool_text("%s %sx%sx%sx%s %sx%s -> %s /%s +%s %s", part(p, "role"), part(p, "batch"), part(p, "height"),
                   part(p, "width"), part(p, "channels"), part(p, "kh"), part(p, "kw"), part(p, "out"),
                   part(p, "stride"), part(p, "padding"), part(p, "dtype"));
}

static char *short_product(const parts *p) {
  const char *batch = part(p, "batch");
  bool one = strcmp(batch, "1") == 0;
  return tool_text("%s%s%s x %s x %s %s %s %s", one ? "" : batch, one ? "" : " of ", part(p, "m"), part(p, "n"),
                   part(p, "k"), part(p, "a"), part(p, "b"), part(p, "dtype"));
}

static char *short_graph(const parts *p) {
  const char *graph = part(p, "graph"), *candidates = part(p, "candidates");
  if (strncmp(graph, "sha256:", 7) == 0) graph += 7;
  return tool_text("graph %.6s%s%s%s", graph, strlen(graph) > 6 ? "…" : "", candidates ? "  of " : "",
                   candidates ? candidates : "");
}

char *command_short_key(const char *key) {
  static const char *const convolution[] = {"role", "batch", "height", "width",   "channels", "kh",
                                            "kw",   "out",   "stride", "padding", "dtype"};
  static const char *const product[] = {"role", "batch", "m", "n", "k", "a", "b", "dtype"};
  parts p;
  char room[1024], *text;
  if (strlen(key) >= sizeof room) return tool_text("%s", key);
  p.n = choices_key_members(p.items, MOST_MEMBERS, room, sizeof room, key);
  if (are(&p, convolution, sizeof convolution / sizeof *convolution))
    text = short_convolution(&p);
  else if (are(&p, product, sizeof product / sizeof *product))
    text = short_product(&p);
  else if (part(&p, "graph"))
    text = short_graph(&p);
  else
    text = tool_text("%s", key);
  return text;
}

char *command_value(const char *kind, const char *value) {
  return tool_text("%s%s", value, strcmp(kind, "recompute") == 0 ? " flops a byte" : "");
}

const char *command_bits(choices_bits bits) {
  return bits == CHOICES_BITS_MOVE ? "moves" : bits == CHOICES_BITS_NEUTRAL ? "neutral" : "-";
}

char *command_ahead(double ahead) { return ahead < 0 ? tool_text("-") : tool_text("%.1f %%", ahead * 100); }

/* ---- JSON ---- */

static void put_string(const char *text) {
  putchar('"');
  for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
    if (*c == '"' || *c == '\\')
      printf("\\%c", *c);
    else if (*c < 0x20)
      printf("\\u%04x", *c);
    else
      putchar(*c);
  }
  putchar('"');
}

void command_json_text(const char *name, const char *value, bool first) {
  printf("%s\"%s\": ", first ? "{" : ", ", name);
  if (value)
    put_string(value);
  else
    fputs("null", stdout);
}

void command_json_value(const char *name, const char *value, bool is_json) {
  printf(", \"%s\": ", name);
  if (is_json)
    fputs(value, stdout);
  else
    put_string(value);
}
