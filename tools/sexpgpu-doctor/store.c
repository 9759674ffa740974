/* The store of choices, which is looked at and not made, and the directory it lies in. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/choices.h"
#include "../common/format.h"
#include "doctor.h"

static void write_facts(doctor *d, const choices_store_facts *facts) {
  doctor_fact_bool(d, "exists", true);
  doctor_fact_number(d, "version", facts->version);
  doctor_fact_number(d, "choices", facts->n_choices);
  doctor_fact_number(d, "devices", facts->n_devices);
  doctor_fact(d, "journal", facts->journal);
  doctor_fact_bool(d, "network", facts->network);
}

static void end_store(doctor *d, const tool_store_place *place, choices_store *store) {
  choices_store_facts facts;
  choices_error error;
  char choices[32];
  if (choices_store_look(&facts, store, &error) != CHOICES_OK) {
    doctor_end(d, DOCTOR_FAIL, "sexpgpu-choices check reads all of it", "%s: %s", error.code, error.message);
    return;
  }
  bool writable = access(place->path, W_OK) == 0;
  write_facts(d, &facts);
  doctor_fact_bool(d, "writable", writable);
  char *words =
      doctor_text("%s, %s choice%s of %" PRId64 " device%s, %s", place->path, tool_grouped(choices, facts.n_choices),
                  tool_plural(facts.n_choices), facts.n_devices, tool_plural(facts.n_devices),
                  strcmp(facts.journal, "wal") == 0 ? "WAL" : "rollback journal");
  if (facts.system_path) doctor_add(&words, ", above ", facts.system_path);
  if (facts.network) doctor_add(&words, ", ", "on a network file system");
  if (facts.warning.code[0])
    doctor_end(d, DOCTOR_WARN, "the layer is left out", "%s; %s: %s", words, facts.warning.code, facts.warning.message);
  else if (!writable)
    doctor_end(d, DOCTOR_WARN, "what is measured is not remembered", "%s, not writable", words);
  else
    doctor_end(d, DOCTOR_OK, NULL, "%s", words);
  free(words);
}

/* A system layer under a store that is not there yet is used all the same. */
static void end_missing(doctor *d, const tool_store_place *place, choices_store *store) {
  choices_store_facts facts;
  choices_error error;
  doctor_fact_bool(d, "exists", false);
  bool looked = choices_store_look(&facts, store, &error) == CHOICES_OK;
  if (looked && facts.warning.code[0])
    doctor_end(d, DOCTOR_WARN, "the layer is left out", "%s is not made yet; %s: %s", place->path, facts.warning.code,
               facts.warning.message);
  else
    doctor_end(d, DOCTOR_OK, NULL, "%s is not made yet%s%s", place->path, looked && facts.system_path ? ", above " : "",
               looked && facts.system_path ? facts.system_path : "");
}

static void check_store(doctor *d, const tool_store_place *place) {
  choices_store *store = NULL;
  choices_error error;
  struct stat facts;
  const choices_store_options options = {
      .path = place->path, .system_path = place->system, .access = CHOICES_READ, .busy_ms = 1000};
  doctor_begin(d, "store");
  doctor_fact(d, "path", place->path);
  doctor_fact(d, "system_path", place->system);
  bool exists = place->path && stat(place->path, &facts) == 0;
  if (choices_store_open(&store, &options, &error) != CHOICES_OK)
    doctor_end(d, DOCTOR_FAIL, error.hint && error.hint[0] ? error.hint : "runs go on without a store", "%s: %s",
               error.code, error.message);
  else if (exists)
    end_store(d, place, store);
  else
    end_missing(d, place, store);
  choices_store_close(store);
}

/* ---- the directory ---- */

/* Cuts the last name off; false: there is none above. */
static bool go_up(char *path) {
  char *slash = strrchr(path, '/');
  if (!slash || !path[1]) return false;
  slash[slash == path] = 0;
  return true;
}

/* The store's directory, or the nearest one above it that is there: in it the others can be made. */
static void check_directory(doctor *d, const tool_store_place *place) {
  struct stat facts;
  doctor_begin(d, "cache");
  char *path = place->path ? strdup(place->path) : NULL;
  if (!path || !go_up(path)) {
    doctor_end(d, DOCTOR_WARN, "set HOME or XDG_CACHE_HOME to an absolute path: choices are not remembered without",
               "there is no cache directory");
    free(path);
    return;
  }
  doctor_fact(d, "path", path);
  char *wanted = strdup(path);
  while (stat(path, &facts) != 0 && errno == ENOENT && go_up(path)) continue;
  bool exists = wanted && strcmp(path, wanted) == 0;
  bool writable = stat(path, &facts) == 0 && S_ISDIR(facts.st_mode) && access(path, W_OK | X_OK) == 0;
  doctor_fact_bool(d, "exists", exists);
  doctor_fact_bool(d, "writable", writable);
  const char *directory = wanted ? wanted : path;
  if (!writable)
    doctor_end(d, DOCTOR_WARN, "make it writable, or set XDG_CACHE_HOME: choices are not remembered without",
               "%s: %s is no directory that can be written", directory, path);
  else
    doctor_end(d, DOCTOR_OK, NULL, "%s, %s", directory, exists ? "writable" : "not made yet, can be");
  free(wanted);
  free(path);
}

void doctor_check_store(doctor *d) {
  tool_store_place place;
  tool_store_find(&place);
  if (place.path) check_store(d, &place);
  check_directory(d, &place);
  tool_store_place_free(&place);
}
