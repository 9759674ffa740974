/* Differences of two records: facts of objects, then decisions by device, kind and key. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "record.h"

/* A decision under the names that both sides share. */
typedef struct side_row {
  const char *device, *key;
  const choices_row *row;
} side_row;

typedef struct side {
  const choices_record *record;
  side_row *rows;
  ch_arena memory;
} side;

typedef struct comparing {
  choices_comparison *result;
  choices_compare_function *tell;
  void *context;
} comparing;

static void note(comparing *c, const choices_compared *compared) {
  if (compared->difference != CHOICES_EQUAL && c->tell) c->tell(c->context, compared);
}

static choices_difference differs(const char *left, const char *right) {
  if (!left) return right ? CHOICES_ONLY_RIGHT : CHOICES_EQUAL;
  if (!right) return CHOICES_ONLY_LEFT;
  return strcmp(left, right) == 0 ? CHOICES_EQUAL : CHOICES_VALUES_DIFFER;
}

static void compare_fact(comparing *c, const char *name, const char *left, const char *right) {
  choices_compared compared = {differs(left, right), "", name, "", left, right};
  c->result->facts_differ = c->result->facts_differ || compared.difference != CHOICES_EQUAL;
  note(c, &compared);
}

/* The device is compared for all records; the other members only between two objects. */
static void compare_facts(comparing *c, const choices_record *left, const choices_record *right, bool one_device) {
  if (one_device)
    compare_fact(c, "device", left->n_devices ? left->devices[0].device : NULL,
                 right->n_devices ? right->devices[0].device : NULL);
  if (!left->is_object || !right->is_object) return;
  size_t i = 0, k = 0;
  while (i < left->n_facts || k < right->n_facts) {
    const ch_fact *a = i < left->n_facts ? &left->facts[i] : NULL, *b = k < right->n_facts ? &right->facts[k] : NULL;
    int order = !a ? 1 : !b ? -1 : strcmp(a->name, b->name);
    const char *name = order <= 0 ? a->name : b->name;
    if (strcmp(name, "device") != 0) compare_fact(c, name, order <= 0 ? a->text : NULL, order >= 0 ? b->text : NULL);
    i += order <= 0;
    k += order >= 0;
  }
}

/* What a device goes by: its text, and what tells it from another of the same text. */
static const char *device_name(ch_arena *memory, const choices_record *record, size_t index) {
  const choices_device *device = &record->devices[index];
  bool alone = true;
  for (size_t i = 0; i < record->n_devices; i++)
    alone = alone && (i == index || strcmp(record->devices[i].device, device->device) != 0);
  if (alone) return device->device;
  ch_text text = {0};
  ch_text_format(&text, "%s, driver %lld, libraries %s", device->device, (long long)device->driver,
                 device->libraries ? device->libraries : "unknown");
  const char *name = text.failed ? NULL : ch_arena_text(memory, text.bytes);
  if (!name) memory->failed = true;
  ch_text_free(&text);
  return name;
}

/* The key that an object's value of a kind has in the other record, where that has keys: the one of its graph, or the
 * only one of that kind. */
static const char *shared_key(const side *of, const choices_row *row, const choices_record *other) {
  const char *graph = of->record->object.graph, *only = NULL;
  size_t n = 0;
  if (row->key[0]) return row->key;
  for (size_t i = 0; i < other->n_rows; i++) {
    if (strcmp(other->rows[i].kind, row->kind) != 0) continue;
    only = other->rows[i].key;
    n++;
    if (graph && strncmp(only, "graph ", 6) == 0 && strncmp(only + 6, graph, strlen(graph)) == 0) return only;
  }
  return n == 1 ? only : row->key;
}

static int by_place(const void *left, const void *right) {
  const side_row *a = left, *b = right;
  int order = strcmp(a->device, b->device);
  if (!order) order = strcmp(a->row->kind, b->row->kind);
  if (!order) order = strcmp(a->key, b->key);
  if (!order) order = strcmp(a->row->executable, b->row->executable);
  return order ? order : strcmp(a->row->mode, b->row->mode);
}

static choices_status fill(side *of, const choices_record *other, bool one_device, choices_error *error) {
  const choices_record *record = of->record;
  const char **names = ch_arena_take(&of->memory, record->n_devices, sizeof *names);
  of->rows = ch_arena_take(&of->memory, record->n_rows, sizeof *of->rows);
  for (size_t i = 0; names && i < record->n_devices; i++)
    names[i] = one_device ? "" : device_name(&of->memory, record, i);
  if (of->memory.failed) return ch_no_memory(error);
  for (size_t i = 0; i < record->n_rows; i++) {
    const choices_row *row = &record->rows[i];
    of->rows[i] = (side_row){names[row->device], shared_key(of, row, other), row};
  }
  if (record->n_rows) qsort(of->rows, record->n_rows, sizeof *of->rows, by_place);
  return CHOICES_OK;
}

/* An object does not say which executable and modes; it then stands for the other's. */
static int order_of(const side_row *a, const side_row *b, bool objects) {
  if (!objects) return by_place(a, b);
  int order = strcmp(a->device, b->device);
  if (!order) order = strcmp(a->row->kind, b->row->kind);
  return order ? order : strcmp(a->key, b->key);
}

static void compare_rows(comparing *c, const side *left, const side *right) {
  bool objects = left->record->is_object || right->record->is_object;
  size_t i = 0, k = 0;
  while (i < left->record->n_rows || k < right->record->n_rows) {
    const side_row *a = i < left->record->n_rows ? &left->rows[i] : NULL;
    const side_row *b = k < right->record->n_rows ? &right->rows[k] : NULL;
    int order = !a ? 1 : !b ? -1 : order_of(a, b, objects);
    const side_row *named = order <= 0 ? a : b;
    choices_compared compared = {CHOICES_EQUAL,
                                 named->device,
                                 named->row->kind,
                                 named->key,
                                 order <= 0 ? a->row->value : NULL,
                                 order >= 0 ? b->row->value : NULL};
    compared.difference = differs(compared.left, compared.right);
    if (compared.difference == CHOICES_EQUAL && a->row->is_json != b->row->is_json)
      compared.difference = CHOICES_VALUES_DIFFER;
    c->result->n_compared++;
    c->result->n_differ += compared.difference == CHOICES_VALUES_DIFFER;
    c->result->n_only_left += compared.difference == CHOICES_ONLY_LEFT;
    c->result->n_only_right += compared.difference == CHOICES_ONLY_RIGHT;
    note(c, &compared);
    i += order <= 0;
    k += order >= 0;
  }
}

choices_status choices_record_compare(choices_comparison *out, const choices_record *left, const choices_record *right,
                                      choices_compare_function *tell, void *context, choices_error *error) {
  bool one_device = left->n_devices <= 1 && right->n_devices <= 1;
  side a = {.record = left}, b = {.record = right};
  *out = (choices_comparison){0};
  ch_error_clear(error);
  comparing c = {out, tell, context};
  choices_status status = fill(&a, right, one_device, error);
  if (status == CHOICES_OK) status = fill(&b, left, one_device, error);
  if (status == CHOICES_OK) {
    compare_facts(&c, left, right, one_device);
    compare_rows(&c, &a, &b);
  }
  ch_arena_free(&a.memory);
  ch_arena_free(&b.memory);
  return status;
}
