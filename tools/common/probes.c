#include "probes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tool_probes_add(tool_probes *probes, const choices_probe *probe) {
  if (probes->n == probes->room) {
    size_t room = 2 * probes->room + 16;
    choices_probe *items = realloc(probes->items, room * sizeof *items);
    if (!items) return false;
    probes->items = items;
    probes->room = room;
  }
  probes->items[probes->n++] = *probe;
  return true;
}

const choices_probe *tool_probes_find(const tool_probes *probes, const char *kind, const char *key, const char *value) {
  for (size_t i = 0; i < probes->n; i++) {
    const choices_probe *probe = &probes->items[i];
    if (strcmp(probe->kind, kind) == 0 && strcmp(probe->key, key) == 0 && strcmp(probe->value, value) == 0)
      return probe;
  }
  return NULL;
}

static void make_one(tool_probes *probes, const tool_probes *known, sexp_device *device, const sexp_decision *of) {
  const choices_probe *found = tool_probes_find(known, of->kind, of->key, of->value);
  choices_probe probe = {.kind = of->kind, .key = of->key, .value = of->value};
  sexp_failure why;
  if (found)
    probe.digest = found->digest;
  else if (sexp_device_probe(&probe.digest, device, of->kind, of->key, of->value, &why) != SEXP_RAN)
    return;
  tool_probes_add(probes, &probe);
}

void tool_probes_make(tool_probes *probes, const tool_probes *known, sexp_device *device, const sexp_run *run) {
  const sexp_decision *decisions = NULL, *products = NULL;
  size_t n_decisions = sexp_run_decisions(run, &decisions), n_products = sexp_run_products(run, &products);
  for (size_t i = 0; i < n_decisions; i++)
    if (strcmp(decisions[i].kind, "convolution") == 0 || strcmp(decisions[i].kind, "product") == 0)
      make_one(probes, known, device, &decisions[i]);
  for (size_t i = 0; i < n_products; i++) make_one(probes, known, device, &products[i]);
}

/* What a record says nothing of is what the device decides. */
static bool is_same(const choices_probe *probe, const choices_probe *recorded) {
  const char *value = recorded->value ? recorded->value : "ordinary";
  return strcmp(probe->kind, recorded->kind) == 0 && strcmp(probe->key, recorded->key) == 0 &&
         strcmp(probe->value, value) == 0;
}

static void note_mismatch(tool_probes *probes, const choices_probe *probe) {
  size_t room = strlen(probe->kind) + strlen(probe->key) + 2;
  if (probes->mismatch) return;
  probes->mismatch = malloc(room);
  if (probes->mismatch) snprintf(probes->mismatch, room, "%s %s", probe->kind, probe->key);
}

void tool_probes_compare(tool_probes *probes, const choices_record *record) {
  const choices_probe *recorded = NULL;
  size_t n = choices_record_probes(record, &recorded);
  for (size_t i = 0; i < probes->n; i++) {
    const choices_probe *probe = &probes->items[i];
    size_t k = 0;
    while (k < n && !is_same(probe, &recorded[k])) k++;
    if (k == n) continue;
    probes->n_compared++;
    if (probe->digest == recorded[k].digest)
      probes->n_match++;
    else
      note_mismatch(probes, probe);
  }
}

void tool_probes_free(tool_probes *probes) {
  free(probes->items);
  free(probes->mismatch);
  *probes = (tool_probes){0};
}
