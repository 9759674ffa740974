#include "place.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../common/failure.h"
#include "../common/stop.h"
#include "watch.h"

/* A checkpoint that was come across. */
typedef struct known {
  int64_t step;
  bool done;   /* nothing more will be made of it */
  bool said;   /* that it is not whole */
  bool unread; /* that it cannot be read was said */
  int status;  /* the exit status that it means */
} known;

typedef struct place {
  evaluator *e;
  known *all;
  size_t n, room;
  bool is_missed; /* that the location cannot be looked at was said */
  bool any;       /* a complete checkpoint in the range was seen */
} place;

/* ---- one checkpoint ---- */

static const char *last_part(const char *name) {
  const char *slash = strrchr(name, '/');
  return slash && slash[1] ? slash + 1 : name;
}

static bool is_step(const char *name) {
  if (strncmp(name, "step-", 5) != 0) return false;
  size_t n = strspn(name + 5, "0123456789");
  return n > 0 && (name[5 + n] == 0 || (name[5 + n] == '/' && name[6 + n] == 0));
}

static bool has_experiment(const char *name) {
  struct stat facts;
  size_t room = strlen(name) + sizeof "/experiment.json";
  char *path = malloc(room);
  if (path) snprintf(path, room, "%s/experiment.json", name);
  bool has = path && stat(path, &facts) == 0;
  free(path);
  return has;
}

static bool is_latest(const char *name) {
  struct stat facts;
  return strcmp(last_part(name), "latest") == 0 && lstat(name, &facts) != 0;
}

static bool is_checkpoint(const char *name) {
  return is_step(last_part(name)) || is_latest(name) || has_experiment(name);
}

static ckpt_status open_latest(ckpt_checkpoint **out, const char *name, ckpt_s3 *s3, ckpt_error *error) {
  ckpt_location *location = NULL;
  const char *end = last_part(name);
  char *folder = end == name ? strdup(".") : strndup(name, (size_t)(end - name));
  ckpt_status status = ckpt_location_open(&location, folder ? folder : name, false, s3, error);
  if (status == CKPT_OK) status = ckpt_checkpoint_open(out, location, CKPT_LATEST, error);
  if (status == CKPT_OK) tool_say_torn(location, ckpt_checkpoint_experiment(*out)->step);
  ckpt_location_close(location);
  free(folder);
  return status;
}

static int refuse(const ckpt_error *error) {
  tool_fail_ckpt(error);
  return tool_status_unverified(error);
}

static int evaluate_one(evaluator *e, const char *name) {
  const evaluate_settings *s = e->settings;
  ckpt_checkpoint *checkpoint = NULL;
  ckpt_error error;
  int status = TOOL_DONE;
  if (s->watch || s->range)
    return tool_fail(TOOL_INPUT, TOOL_E_ENV_OPTION, "%s: found the checkpoint %s, expected a location",
                     s->watch ? "--watch" : "--steps", name);
  ckpt_status opened = is_latest(name) ? open_latest(&checkpoint, name, e->s3, &error)
                                       : ckpt_checkpoint_open_path(&checkpoint, name, e->s3, &error);
  if (opened != CKPT_OK) return refuse(&error);
  return evaluator_take(e, checkpoint, &status, &error) == UNVERIFIED ? refuse(&error) : status;
}

/* ---- those of a location ---- */

/* NULL: out of memory. */
static known *find(place *p, int64_t step) {
  for (size_t i = 0; i < p->n; i++)
    if (p->all[i].step == step) return &p->all[i];
  if (p->n == p->room) {
    size_t room = p->room ? 2 * p->room : 64;
    known *all = realloc(p->all, room * sizeof *all);
    if (!all) return NULL;
    p->all = all;
    p->room = room;
  }
  p->all[p->n] = (known){.step = step};
  return &p->all[p->n++];
}

static bool is_removed(ckpt_location *location, int64_t step) {
  ckpt_entry *entries = NULL;
  size_t n = 0;
  bool complete = false;
  if (ckpt_checkpoint_list(&entries, &n, location, NULL) != CKPT_OK) return false;
  for (size_t i = 0; i < n; i++)
    if (entries[i].step == step) complete = entries[i].complete;
  free(entries);
  return !complete;
}

/* A run that keeps few checkpoints removes them while they are looked at: no error. One that cannot be read is tried
 * again by a watch. */
static void judge(const place *p, known *k, ckpt_location *location, const ckpt_error *error) {
  bool removed = is_removed(location, k->step), unread = tool_status_unverified(error) == TOOL_STORAGE;
  k->done = removed || !unread || !p->e->settings->watch;
  if (removed)
    fprintf(stderr, "step-%" PRId64 " was removed before it was evaluated, skipped\n", k->step);
  else if (!k->unread)
    k->status = refuse(error);
  k->unread = unread;
}

/* Half of it may be there because the other half is on its way. */
static void say_incomplete(known *k, const ckpt_error *error) {
  bool torn = strcmp(error->code, "E-CKPT-007") == 0 || strcmp(error->code, "E-CKPT-011") == 0;
  if (k->said) return;
  k->said = true;
  if (torn)
    fprintf(stderr, "step-%" PRId64 " is torn, not used\n", k->step);
  else
    k->status = refuse(error);
}

/* The exit status of what ends everything. */
static int visit(place *p, ckpt_location *location, const ckpt_entry *entry) {
  known *k = find(p, entry->step);
  ckpt_checkpoint *checkpoint = NULL;
  ckpt_error error;
  int status = TOOL_DONE;
  if (!k) return tool_no_memory();
  if (k->done) return TOOL_DONE;
  if (ckpt_checkpoint_open(&checkpoint, location, entry->step, &error) != CKPT_OK) {
    if (entry->complete)
      judge(p, k, location, &error);
    else
      say_incomplete(k, &error);
    return TOOL_DONE;
  }
  outcome result = evaluator_take(p->e, checkpoint, &status, &error);
  if (result == FATAL) return status;
  k->status = status;
  k->done = true;
  if (result == UNVERIFIED) judge(p, k, location, &error);
  return TOOL_DONE;
}

static int visit_all(place *p, ckpt_location *location, const ckpt_entry *entries, size_t n) {
  const evaluate_settings *s = p->e->settings;
  for (size_t i = 0; i < n; i++) {
    int64_t step = entries[i].step;
    if (step >= s->last && entries[i].complete) p->e->ended = true;
    if (step < s->first || step > s->last) continue;
    if (tool_stop_signal()) return TOOL_DONE;
    p->any |= entries[i].complete;
    int status = visit(p, location, &entries[i]);
    if (status) return status;
  }
  return TOOL_DONE;
}

static bool is_away(const ckpt_error *error) {
  return strcmp(error->code, "E-CKPT-003") == 0 ||
         (strcmp(error->code, "E-CKPT-002") == 0 && error->errno_value == ENOENT);
}

/* A server that may answer the next time. */
static bool is_passing(const ckpt_error *error) {
  static const char *const codes[] = {"E-S3-005", "E-S3-013", "E-S3-014"};
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    if (strcmp(error->code, codes[i]) == 0) return true;
  return false;
}

/* A watch waits for a location that is not there, and for a server that does not answer. */
static int miss(place *p, const ckpt_error *error) {
  const evaluate_settings *s = p->e->settings;
  bool away = is_away(error), passing = is_passing(error);
  if (!s->watch || !(away || passing)) return tool_fail_ckpt(error);
  if (!p->is_missed && away && !s->quiet) fprintf(stderr, "%s is not there yet; waiting for it\n", s->place);
  if (!p->is_missed && passing) fprintf(stderr, "%s: %s; trying again\n", error->code, error->message);
  p->is_missed = true;
  return TOOL_DONE;
}

/* Opened anew each time: another directory may have its name. */
static int look(place *p) {
  ckpt_location *location = NULL;
  ckpt_entry *entries = NULL;
  ckpt_error error;
  size_t n = 0;
  ckpt_status opened = ckpt_location_open(&location, p->e->settings->place, false, p->e->s3, &error);
  if (opened == CKPT_OK) opened = ckpt_checkpoint_list(&entries, &n, location, &error);
  if (opened == CKPT_OK) p->is_missed = false;
  int status = opened == CKPT_OK ? visit_all(p, location, entries, n) : miss(p, &error);
  free(entries);
  ckpt_location_close(location);
  return status;
}

/* ---- to the end ---- */

static int watch_all(place *p) {
  evaluator *e = p->e;
  int status = TOOL_DONE;
  watch w;
  watch_begin(&w, e->settings->place, e->settings->poll_s);
  for (;;) {
    watch_arm(&w);
    status = look(p);
    if (status || e->ended || tool_stop_signal()) break;
    if (!e->status.state || strcmp(e->status.state, "waiting") != 0) tool_status_set(&e->status, "waiting");
    watch_wait(&w);
  }
  watch_end(&w);
  return status;
}

/* The worst of what single checkpoints mean. */
static int conclude(const place *p) {
  const evaluator *e = p->e;
  int worst = TOOL_DONE;
  int64_t n_failed = 0;
  for (size_t i = 0; i < p->n; i++) {
    n_failed += p->all[i].status != TOOL_DONE;
    if (p->all[i].status > worst) worst = p->all[i].status;
  }
  if (!worst && !p->any && !tool_stop_signal())
    return tool_fail(TOOL_INPUT, TOOL_E_EVALUATE_NONE, "%s: no complete checkpoint%s%s", e->settings->place,
                     e->settings->range ? " in steps " : "", e->settings->range ? e->settings->range : "");
  if (!e->settings->quiet && (n_failed || e->n_recorded))
    fprintf(stderr, "%" PRId64 " evaluated, %" PRId64 " recorded before, %" PRId64 " failed\n", e->n_evaluated,
            e->n_recorded, n_failed);
  return worst;
}

int place_evaluate(evaluator *e) {
  if (is_checkpoint(e->settings->place)) return evaluate_one(e, e->settings->place);
  place p = {.e = e};
  int status = e->settings->watch ? watch_all(&p) : look(&p);
  if (!status) status = conclude(&p);
  free(p.all);
  if (!tool_stop_signal() || e->ended) return status;
  if (!e->settings->quiet) fprintf(stderr, "stopped by %s\n", tool_stop_signal() == SIGINT ? "SIGINT" : "SIGTERM");
  return status ? status : 128 + tool_stop_signal();
}
