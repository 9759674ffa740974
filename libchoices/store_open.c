/* Opening a store: directories, the user's file, the system's beneath it. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "store.h"

/* The directories above the file, with mode 0700. An errno, or 0. */
static int make_directories(const char *path) {
  char *copy = strdup(path);
  int failed = copy ? 0 : ENOMEM;
  for (char *slash = copy ? strchr(copy + 1, '/') : NULL; slash && !failed; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    if (mkdir(copy, 0700) != 0 && errno != EEXIST) {
      struct stat facts;
      failed = errno;
      if (stat(copy, &facts) == 0 && S_ISDIR(facts.st_mode)) failed = 0; /* a parent that may not be written */
    }
    *slash = '/';
  }
  free(copy);
  return failed;
}

/* The file, empty where it was missing: SQLite would make it readable by all. An errno, or 0. */
static int make_file(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  close(fd);
  return 0;
}

static bool is_there(const char *path) {
  struct stat facts;
  return stat(path, &facts) == 0;
}

/* The directory of a file, for its file system. */
static bool on_network(const char *path) {
  char *copy = strdup(path);
  char *slash = copy ? strrchr(copy, '/') : NULL;
  if (slash) *(slash == copy ? slash + 1 : slash) = 0;
  bool network = copy && ch_is_network(slash ? copy : ".");
  free(copy);
  return network;
}

/* Reads alone what cannot be written; the reason stays as the store's warning. */
static choices_status fall_back(choices_store *store, const choices_store_options *options, choices_error *error) {
  bool older = false;
  choices_error second;
  choices_status status = ch_layer_open_read(&store->user, options->busy_ms, &older, &second);
  if (status == CHOICES_OK) return status;
  if (error) *error = second;
  return status;
}

static bool may_be_read(const choices_error *reason) {
  return strcmp(reason->code, "E-CHOICE-013") == 0 || strcmp(reason->code, "E-CHOICE-010") == 0;
}

static choices_status open_writable(choices_store *store, const choices_store_options *options, choices_error *error) {
  int failed = make_directories(options->path);
  store->user.network = on_network(options->path);
  if (!failed) failed = make_file(options->path);
  bool denied = failed == EACCES || failed == EPERM || failed == EROFS;
  choices_status status = CHOICES_OK;
  if (denied && is_there(options->path))
    status = ch_fail(&store->warning, CH_E_STORE_READ_ONLY, options->path, failed, "it cannot be opened for writing");
  else if (failed)
    status = ch_fail(&store->warning, CH_E_STORE_OPEN, options->path, failed, "it cannot be made");
  else
    status = ch_layer_open(&store->user, options, &store->warning);
  if (status == CHOICES_OK) return status;
  if (options->access == CHOICES_USE && is_there(options->path) && may_be_read(&store->warning))
    return fall_back(store, options, error);
  if (error) *error = store->warning;
  return status;
}

/* An older one has to be migrated, which is a write. */
static choices_status open_readable(choices_store *store, const choices_store_options *options, choices_error *error) {
  bool older = false;
  if (!is_there(options->path) && errno == ENOENT) return CHOICES_OK;
  store->user.network = on_network(options->path);
  choices_status status = ch_layer_open_read(&store->user, options->busy_ms, &older, error);
  return older ? ch_layer_open(&store->user, options, error) : status;
}

static void open_system(choices_store *store, const choices_store_options *options) {
  choices_error reason;
  bool older = false;
  ch_layer *layer = &store->system;
  if (!options->system_path) return;
  layer->path = strdup(options->system_path);
  if (!layer->path)
    ch_no_memory(&reason);
  else if (ch_layer_open_read(layer, options->busy_ms, &older, &reason) == CHOICES_OK)
    return;
  if (!store->warning.code[0]) store->warning = reason;
}

choices_status choices_store_open(choices_store **out, const choices_store_options *options, choices_error *error) {
  *out = NULL;
  ch_error_clear(error);
  if (!options->path || !options->path[0])
    return ch_fail(error, CH_E_STORE_NOWHERE, NULL, 0, "expected XDG_CACHE_HOME or HOME");
  choices_store *store = calloc(1, sizeof *store);
  char *path = strdup(options->path);
  if (!store || !path) {
    free(store);
    free(path);
    return ch_no_memory(error);
  }
  store->user = (ch_layer){.path = path, .origin = "user"};
  store->system.origin = "system";
  ch_error_clear(&store->warning);
  choices_status status =
      options->access == CHOICES_READ ? open_readable(store, options, error) : open_writable(store, options, error);
  if (status != CHOICES_OK) {
    choices_store_close(store);
    return status;
  }
  open_system(store, options);
  *out = store;
  return CHOICES_OK;
}

void choices_store_close(choices_store *store) {
  if (!store) return;
  ch_layer_close(&store->user);
  ch_layer_close(&store->system);
  free(store);
}

choices_status choices_store_look(choices_store_facts *out, choices_store *store, choices_error *error) {
  ch_layer *layer = &store->user;
  ch_error_clear(error);
  *out = (choices_store_facts){.path = layer->path,
                               .system_path = store->system.db ? store->system.path : NULL,
                               .journal = "none",
                               .writable = layer->writable,
                               .network = layer->network,
                               .warning = store->warning};
  if (!layer->db) return CHOICES_OK;
  out->version = ch_sql_number(layer, "PRAGMA user_version", -1);
  out->n_choices = ch_sql_number(layer, "SELECT count(*) FROM choice", -1);
  out->n_devices = ch_sql_number(layer, "SELECT count(*) FROM device", -1);
  if (!layer->immutable)
    out->journal = ch_sql_number(layer, "SELECT journal_mode = 'wal' FROM pragma_journal_mode", 0) ? "wal" : "delete";
  return out->n_choices < 0 || out->n_devices < 0 ? ch_sql_fail(layer, error) : CHOICES_OK;
}
