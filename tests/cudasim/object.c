/* Handles: every object that was ever made, found by its address. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

static const char *const NAMES[SIM_N_KINDS] = {"stream", "event", "module",          "function",
                                               "graph",  "node",  "executable graph"};
static sim_object **table; /* open addressing; a power of two */
static size_t n_places, n_objects;
static unsigned numbers[SIM_N_KINDS];

const char *sim_kind_name(sim_kind kind) { return NAMES[kind]; }

void *sim_allocate(size_t n_bytes) {
  void *memory = calloc(1, n_bytes ? n_bytes : 1);
  if (memory) return memory;
  fprintf(stderr, "cudasim: the host has no %zu bytes left\n", n_bytes);
  abort();
}

char *sim_text(const char *text) {
  size_t n = strlen(text) + 1;
  return memcpy(sim_allocate(n), text, n);
}

static size_t place_of(const void *handle) {
  size_t at = (size_t)(((uintptr_t)handle >> 4) * 0x9E3779B97F4A7C15u >> 20) & (n_places - 1);
  while (table[at] && table[at] != handle) at = (at + 1) & (n_places - 1);
  return at;
}

static void grow(void) {
  sim_object **old = table;
  size_t n_old = n_places;
  n_places = n_places ? 2 * n_places : 256;
  table = sim_allocate(n_places * sizeof *table);
  for (size_t i = 0; i < n_old; i++)
    if (old[i]) table[place_of(old[i])] = old[i];
  free(old);
}

void sim_object_add(void *object, sim_kind kind) {
  if (2 * (n_objects + 1) > n_places) grow();
  *(sim_object *)object = (sim_object){kind, true, ++numbers[kind], sim_context_device()};
  table[place_of(object)] = object;
  n_objects++;
}

static sim_object *find(const void *handle) { return handle && n_places ? table[place_of(handle)] : NULL; }

bool sim_object_valid(const void *handle, sim_kind kind) {
  const sim_object *object = find(handle);
  return object && object->kind == kind && object->alive;
}

void *sim_object_of(const void *handle, sim_kind kind) {
  sim_object *object = find(handle);
  if (object && object->kind == kind && object->alive) return object;
  if (!handle)
    sim_refuse(CUDA_ERROR_INVALID_HANDLE, "the %s is NULL", NAMES[kind]);
  else if (!object)
    sim_refuse(CUDA_ERROR_INVALID_HANDLE, "%p is no %s", handle, NAMES[kind]);
  else if (object->kind != kind)
    sim_refuse(CUDA_ERROR_INVALID_HANDLE, "%s %u was given where a handle of kind %s is expected", NAMES[object->kind],
               object->number, NAMES[kind]);
  else
    sim_refuse(CUDA_ERROR_INVALID_HANDLE, "%s %u was destroyed", NAMES[kind], object->number);
  return NULL;
}

static int by_kind_and_number(const void *a, const void *b) {
  const sim_object *x = *(sim_object *const *)a, *y = *(sim_object *const *)b;
  if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
  return x->number < y->number ? -1 : x->number > y->number;
}

/* Functions go with their module, nodes with their graph. */
void sim_objects_report(int device, const char *when) {
  sim_object **left = sim_allocate(n_objects * sizeof *left);
  size_t n = 0;
  for (size_t i = 0; i < n_places; i++) {
    sim_object *object = table[i];
    if (!object || !object->alive || object->device != device) continue;
    if (object->kind != SIM_KIND_FUNCTION && object->kind != SIM_KIND_NODE) left[n++] = object;
  }
  qsort(left, n, sizeof *left, by_kind_and_number);
  for (size_t i = 0; i < n; i++) {
    sim_violation("leak: %s %u is not destroyed when %s", NAMES[left[i]->kind], left[i]->number, when);
    left[i]->alive = false;
  }
  free(left);
}
