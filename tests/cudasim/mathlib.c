#include "mathlib.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* ---- settings ----------------------------------------------------------------------------------- */

static bool begins(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

static bool is_among(const char *name, size_t n_name, const char *const *names, size_t n_names) {
  for (size_t i = 0; i < n_names; i++)
    if (strlen(names[i]) == n_name && !memcmp(names[i], name, n_name)) return true;
  return false;
}

static void expect_engine(const char *name, size_t n_name, const char *setting, bool (*is_engine)(const char *name)) {
  char engine[64];
  if (n_name < sizeof engine) {
    memcpy(engine, name, n_name);
    engine[n_name] = 0;
    if (is_engine(engine)) return;
  }
  sim_violation("setting %s: there is no such engine", setting);
}

void sim_settings_expect(const char *prefix, const char *const *names, size_t n_names,
                         bool (*is_engine)(const char *name)) {
  const char *setting;
  for (size_t i = 0; (setting = sim_setting_at(i)); i++) {
    size_t n = strcspn(setting, "=");
    if (begins(setting, prefix) && !is_among(setting, n, names, n_names))
      sim_violation("setting %s: there is none of this name", setting);
    if (!is_engine || !begins(setting, "speed.") || !begins(setting + strlen("speed."), prefix)) continue;
    size_t skip = strlen("speed.") + strlen(prefix);
    expect_engine(setting + skip, n > skip ? n - skip : 0, setting, is_engine);
  }
}

bool sim_setting_lists(const char *setting, const char *item) {
  const char *list = sim_setting(setting);
  size_t n = strlen(item);
  for (; list && *list; list += strcspn(list, ","), list += *list == ',')
    if (strcspn(list, ",") == n && !memcmp(list, item, n)) return true;
  return false;
}

int sim_setting_failure(const char *setting, int64_t *n_calls) {
  const char *value = sim_setting(setting), *at = value ? strchr(value, '@') : NULL;
  int64_t call = __atomic_add_fetch(n_calls, 1, __ATOMIC_RELAXED);
  if (!value) return 0;
  if (!at) {
    sim_violation("setting %s=%s: it is written STATUS@CALL", setting, value);
    return 0;
  }
  return call == atoll(at + 1) ? atoi(value) : 0;
}

bool sim_overlap(const void *x, size_t n_x, const void *y, size_t n_y) {
  uintptr_t a = (uintptr_t)x, b = (uintptr_t)y;
  return n_x && n_y && a < b + n_y && b < a + n_x;
}

/* ---- objects ------------------------------------------------------------------------------------ */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void sim_owned_add(sim_owned_list *objects, sim_owned *object, const char *kind) {
  pthread_mutex_lock(&lock);
  sim_owned *first = &objects->first;
  if (!first->next) first->next = first->previous = first;
  *object = (sim_owned){first->previous, first, kind};
  object->previous->next = first->previous = object;
  pthread_mutex_unlock(&lock);
}

void sim_owned_remove(sim_owned_list *objects, sim_owned *object) {
  (void)objects;
  pthread_mutex_lock(&lock);
  object->previous->next = object->next;
  object->next->previous = object->previous;
  pthread_mutex_unlock(&lock);
}

bool sim_owned_is(sim_owned_list *objects, const void *object, const char *kind) {
  bool found = false;
  pthread_mutex_lock(&lock);
  const sim_owned *first = &objects->first;
  for (const sim_owned *o = first->next; o && o != first && !found; o = o->next)
    found = (const void *)o == object && !strcmp(o->kind, kind);
  pthread_mutex_unlock(&lock);
  return found;
}

void sim_owned_end(sim_owned_list *objects, const char *library) {
  const sim_owned *first = &objects->first;
  for (const sim_owned *o = first->next; o && o != first; o = o->next) {
    size_t before = 0, n = 0;
    for (const sim_owned *p = first->next; p != o; p = p->next) before += !strcmp(p->kind, o->kind);
    for (const sim_owned *p = o; p != first; p = p->next) n += !strcmp(p->kind, o->kind);
    if (!before) sim_violation("%s: %zu of kind %s not destroyed at the end", library, n, o->kind);
  }
}
