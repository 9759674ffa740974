#include "chooser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "failure.h"

/* What every --deterministic run takes for the recompute budget: that of an A100. */
static const char fixed_recompute[] = "9";
/* What the bits of a --portable run rest on. */
static const char portable_facts[] = "cuda, numerics 1";
enum { TIME_TEXT = 32, NUMBER_TEXT = 64, PATH_TEXT = 4096 };

static bool is_kind(const char *kind, const char *name) { return strcmp(kind, name) == 0; }

static int refuse(sexp_failure *why, const char *code, const char *message) {
  *why = (sexp_failure){.storage = false};
  snprintf(why->code, sizeof why->code, "%s", code);
  snprintf(why->message, sizeof why->message, "%s", message);
  return 1;
}

static int refuse_choices(tool_chooser *chooser, const choices_error *error, sexp_failure *why) {
  refuse(why, error->code, error->message);
  why->storage = error->status == CHOICES_IO;
  chooser->status = tool_fail_choices(error);
  return 1;
}

/* A text that lives as long as the chooser; NULL: no memory. */
static const char *keep(tool_chooser *chooser, const char *value) {
  if (chooser->n_values == chooser->n_values_room) {
    size_t room = 2 * chooser->n_values_room + 16;
    char **values = realloc(chooser->values, room * sizeof *values);
    if (!values) return NULL;
    chooser->values = values;
    chooser->n_values_room = room;
  }
  char *text = strdup(value);
  if (text) chooser->values[chooser->n_values++] = text;
  return text;
}

static int give(tool_chooser *chooser, const char *value, const char **out, sexp_failure *why) {
  *out = keep(chooser, value);
  if (*out) return 0;
  chooser->status = tool_no_memory();
  return refuse(why, "E-RUN-001", "out of memory");
}

/* ---- the store ---- */

/* Opened when a choice is first to be made, so that a run which makes none reads none. */
static choices_store *store_of(tool_chooser *chooser) {
  if (chooser->looked) return chooser->store;
  chooser->looked = true;
  choices_error error;
  if (tool_store_open(&chooser->store, CHOICES_USE, &error) != CHOICES_OK) {
    chooser->store = NULL;
    chooser->unstored = error;
    return NULL;
  }
  choices_store_facts facts;
  if (choices_store_look(&facts, chooser->store, &error) != CHOICES_OK)
    chooser->unstored = error;
  else if (!facts.writable)
    chooser->unstored = facts.warning;
  return chooser->store;
}

static choices_key key_of(const tool_chooser *chooser, const sexp_choice *choice) {
  return (choices_key){.device = &chooser->device,
                       .kind = choice->kind,
                       .key = choice->key,
                       .executable = &chooser->executable,
                       .mode = chooser->mode};
}

static void write_time(char out[TIME_TEXT]) {
  time_t now = time(NULL);
  struct tm utc;
  if (!gmtime_r(&now, &utc) || !strftime(out, TIME_TEXT, "%Y-%m-%dT%H:%M:%SZ", &utc)) out[0] = 0;
}

/* Stores a decision and gives what all take from now on; without a store, the value itself. */
static int remember(tool_chooser *chooser, const sexp_choice *choice, const char *value, const char *reason,
                    const char **out, sexp_failure *why) {
  char now[TIME_TEXT];
  const choices_kind *kind = choices_kind_find(choice->kind);
  choices_key key = key_of(chooser, choice);
  choices_store *store = store_of(chooser);
  choices_record *stored = NULL;
  choices_error error;
  write_time(now);
  const choices_row row = {.kind = choice->kind,
                           .key = choice->key,
                           .value = value,
                           .is_json = kind && !kind->is_text,
                           .measured = now,
                           .tool = chooser->tool,
                           .reason = reason,
                           .ahead = -1};
  if (!store) return give(chooser, value, out, why);
  if (choices_store_decide(&stored, store, &key, &row, &error) != CHOICES_OK) {
    if (!chooser->unstored.code[0]) chooser->unstored = error;
    return give(chooser, value, out, why);
  }
  const choices_row *rows = NULL;
  size_t n = choices_record_rows(stored, &rows);
  int failed = give(chooser, n ? rows[0].value : value, out, why);
  choices_record_free(stored);
  return failed;
}

/* 1: found, *out is filled; 0: not; -1: a failure, in *why. */
static int look_up(tool_chooser *chooser, const sexp_choice *choice, const char **out, sexp_failure *why) {
  choices_key key = key_of(chooser, choice);
  choices_store *store = store_of(chooser);
  choices_record *found = NULL;
  choices_error error;
  if (!store) return 0;
  if (choices_store_lookup(&found, store, &key, &error) != CHOICES_OK) {
    if (!chooser->unstored.code[0]) chooser->unstored = error;
    return 0;
  }
  const choices_row *rows = NULL;
  if (!found || !choices_record_rows(found, &rows)) return 0;
  int failed = give(chooser, rows[0].value, out, why);
  choices_record_free(found);
  chooser->n_remembered++;
  return failed ? -1 : 1;
}

/* ---- measuring ---- */

static choices_ran ran(sexp_ran what) {
  return what == SEXP_RAN                 ? CHOICES_RAN
         : what == SEXP_RAN_OUT_OF_MEMORY ? CHOICES_RAN_OUT_OF_MEMORY
                                          : CHOICES_RAN_REFUSED;
}

static choices_ran run_candidate(void *context, size_t candidate) {
  const sexp_choice *choice = context;
  return ran(choice->run(choice->work, candidate));
}

static choices_ran probe_candidate(void *context, size_t candidate, uint64_t *digest) {
  const sexp_choice *choice = context;
  return ran(choice->probe(choice->work, candidate, digest));
}

static int64_t now_ns(void *context) {
  const sexp_choice *choice = context;
  return choice->now_ns(choice->work);
}

/* Evidence alone: where there is no memory to keep it, it is made again. */
static void know_probe(tool_chooser *chooser, const sexp_choice *choice, const char *value, uint64_t digest) {
  const choices_probe probe = {keep(chooser, choice->kind), keep(chooser, choice->key), value, digest};
  if (probe.kind && probe.key) tool_probes_add(&chooser->known, &probe);
}

static int measure_candidates(tool_chooser *chooser, const sexp_choice *choice, const char **out, sexp_failure *why) {
  char now[TIME_TEXT];
  choices_key key = key_of(chooser, choice);
  choices_decision decision;
  choices_error error;
  write_time(now);
  const choices_measuring measuring = {.key = &key,
                                       .values = choice->values,
                                       .n_values = choice->n_values,
                                       .run = run_candidate,
                                       .probe = choice->probe ? probe_candidate : NULL,
                                       .now_ns = now_ns,
                                       .context = (void *)(uintptr_t)choice,
                                       .measured = now,
                                       .tool = chooser->tool};
  if (choices_measure(&decision, store_of(chooser), &measuring, &error) != CHOICES_OK)
    return refuse_choices(chooser, &error, why);
  if (decision.warning.code[0] && !chooser->unstored.code[0]) chooser->unstored = decision.warning;
  if (decision.hit)
    chooser->n_remembered++;
  else
    chooser->n_measured++;
  int failed = give(chooser, decision.value, out, why);
  if (!failed && decision.has_probe) know_probe(chooser, choice, *out, decision.probe);
  choices_decision_free(&decision);
  return failed;
}

static int measure_number(tool_chooser *chooser, const sexp_choice *choice, const char **out, sexp_failure *why) {
  char text[NUMBER_TEXT];
  int found = look_up(chooser, choice, out, why);
  if (found) return found < 0;
  if (choice->measure(choice->work, text, sizeof text) != SEXP_RAN)
    return refuse(why, "E-CHOICE-018", "the device refused what measures the recompute budget");
  chooser->n_measured++;
  return remember(chooser, choice, text, "measured", out, why);
}

/* ---- the cost model ---- */

static int64_t unrated(tool_chooser *chooser, const choices_error *error) {
  if (!chooser->unstored.code[0]) chooser->unstored = *error;
  return -1;
}

static int64_t cost(void *context, const char *key, sexp_ran (*measure)(void *work, int64_t *time_ns), void *work) {
  tool_chooser *chooser = context;
  choices_store *store = store_of(chooser);
  choices_error error;
  int64_t time_ns = -1;
  if (!store) return -1;
  if (choices_store_cost(&time_ns, store, &chooser->device, key, &error) != CHOICES_OK) return unrated(chooser, &error);
  if (time_ns >= 0 || chooser->looks || chooser->unstored.code[0]) return time_ns;
  if (measure(work, &time_ns) != SEXP_RAN) return -1;
  if (choices_store_keep_cost(&time_ns, store, &chooser->device, key, time_ns, &error) != CHOICES_OK)
    return unrated(chooser, &error);
  return time_ns;
}

/* The candidate that the cost model is sure of; -1: none. */
static int modelled(const sexp_choice *choice) {
  double *estimated_ns = choice->estimate ? calloc(choice->n_values, sizeof *estimated_ns) : NULL;
  int pick = -1;
  if (estimated_ns && choice->estimate(choice->work, estimated_ns))
    pick = choices_cost_pick(estimated_ns, choice->n_values);
  free(estimated_ns);
  return pick;
}

/* What the model is not sure of is measured. */
static int choose_stacking(tool_chooser *chooser, const sexp_choice *choice, const char **out, sexp_failure *why) {
  int found = look_up(chooser, choice, out, why);
  if (found) return found < 0;
  int pick = modelled(choice);
  chooser->stacking = pick < 0 ? "by measurement" : "by the cost model";
  if (pick < 0) return measure_candidates(chooser, choice, out, why);
  return remember(chooser, choice, choice->values[pick], "the cost model's pick", out, why);
}

/* ---- what libsexp calls ---- */

static bool is_fresh(const tool_pinning *pinning, const char *kind) {
  size_t n;
  const choices_kind *kinds = choices_kinds(&n), *known = choices_kind_find(kind);
  return known && (pinning->request.kinds & 1u << (known - kinds));
}

static const char *recorded(void *context, const char *kind, const char *key) {
  const tool_chooser *chooser = context;
  const tool_pinning *pinning = chooser->pinning;
  if (!pinning->taken || chooser->portable || is_fresh(pinning, kind)) return NULL;
  const choices_kind *known = choices_kind_find(kind);
  const choices_row *row = choices_record_find(pinning->taken, kind, known && known->is_map ? key : NULL);
  return row && !(row->is_json && strcmp(row->value, "null") == 0) ? row->value : NULL;
}

typedef struct checking {
  const sexp_need *needs;
  const choices_need *asked;
} checking;

static bool takes(void *context, const choices_need *need, const char *value, char *words, size_t n_words) {
  const checking *c = context;
  const sexp_need *of = &c->needs[need - c->asked];
  if (of->takes) return of->takes(of->work, of, value, words, n_words);
  for (size_t i = 0; i < of->n_values; i++)
    if (strcmp(of->values[i], value) == 0) return true;
  return false;
}

/* One node has no gradients between nodes: a record that has some cannot be taken. */
static bool refuses_nodes(void *work, const sexp_need *need, const char *value, char *words, size_t n_words) {
  (void)work, (void)need, (void)value;
  snprintf(words, n_words, "one node: there are no gradients between nodes");
  return false;
}

static int check(void *context, const sexp_need *needs, size_t n_needs, sexp_failure *why) {
  tool_chooser *chooser = context;
  tool_pinning *pinning = chooser->pinning;
  if (!pinning->taken) return 0;
  if (chooser->portable) {
    chooser->status = tool_pinning_pin_none(pinning, &chooser->device, chooser->identity);
    return chooser->status ? refuse(why, "E-CHOICE-001", "recorded choices cannot be taken") : 0;
  }
  choices_need *asked = calloc(n_needs + 1, sizeof *asked);
  sexp_need *all = calloc(n_needs + 1, sizeof *all);
  int status = asked && all ? TOOL_DONE : tool_no_memory();
  if (!status) {
    size_t n = n_needs;
    if (n) memcpy(all, needs, n * sizeof *all);
    if (recorded(chooser, "node_gradients", ""))
      all[n++] = (sexp_need){.kind = "node_gradients", .key = "", .takes = refuses_nodes};
    for (size_t i = 0; i < n; i++)
      asked[i] = (choices_need){all[i].kind, all[i].key, all[i].values, all[i].n_values, all[i].words};
    const checking context_of = {all, asked};
    status = tool_pinning_pin(pinning, &chooser->device, asked, n, takes, (void *)(uintptr_t)&context_of);
  }
  free(all);
  free(asked);
  chooser->status = status;
  return status ? refuse(why, "E-CHOICE-001", "recorded choices cannot be taken") : 0;
}

static int give_first(tool_chooser *chooser, const sexp_choice *choice, const char **value, sexp_failure *why) {
  return give(chooser, choice->n_values ? choice->values[0] : fixed_recompute, value, why);
}

static int look(tool_chooser *chooser, const sexp_choice *choice, const char **value, sexp_failure *why) {
  int found = look_up(chooser, choice, value, why);
  if (found) return found < 0;
  int pick = choice->n_values > 1 ? modelled(choice) : -1;
  if (pick >= 0) return give(chooser, choice->values[pick], value, why);
  chooser->n_unmeasured += choice->n_values != 1;
  return give_first(chooser, choice, value, why);
}

static int choose(void *context, const sexp_choice *choice, const char **value, sexp_failure *why) {
  tool_chooser *chooser = context;
  choices_pins *pins = chooser->pinning->pins;
  if (chooser->portable) return give_first(chooser, choice, value, why);
  const char *pinned = pins ? choices_pins_take(pins, choice->kind, choice->key) : NULL;
  if (pinned) return give(chooser, pinned, value, why);
  if (chooser->pinning->options.strict) return give_first(chooser, choice, value, why);
  if (chooser->looks) return look(chooser, choice, value, why);
  if (is_kind(choice->kind, "stacking") && choice->n_values == 1) return give_first(chooser, choice, value, why);
  if (pins) choices_pins_note_measured(pins, choice->kind, choice->key);
  if (!choice->n_values) return measure_number(chooser, choice, value, why);
  if (is_kind(choice->kind, "stacking")) return choose_stacking(chooser, choice, value, why);
  return measure_candidates(chooser, choice, value, why);
}

/* ---- opening and what is said at the end ---- */

/* Of this process, or of another tool in its folder. */
static bool find_executable(char path[PATH_TEXT], const char *beside) {
  static const char own[] = "/proc/self/exe";
  ssize_t n = beside ? readlink(own, path, PATH_TEXT - 1) : 0;
  if (n <= 0) return snprintf(path, PATH_TEXT, "%s", own) > 0;
  path[n] = 0;
  char *name = strrchr(path, '/') + 1;
  size_t room = PATH_TEXT - (size_t)(name - path);
  return (size_t)snprintf(name, room, "%s", beside) < room;
}

void tool_chooser_open(tool_chooser *chooser, tool_pinning *pinning, const sexp_device *device,
                       const tool_chooser_options *options) {
  const sexp_device_facts *facts = sexp_device_describe(device);
  char path[PATH_TEXT];
  choices_error error = {.code = "E-CHOICE-008", .message = "the path of the executable is too long"};
  *chooser = (tool_chooser){.calls = {chooser, recorded, check, choose, cost},
                            .pinning = pinning,
                            .device = {.device = options->portable ? portable_facts : facts->text,
                                       .gpu = facts->gpu,
                                       .libraries = facts->libraries,
                                       .driver = facts->driver,
                                       .capability = facts->capability,
                                       .multiprocessors = facts->multiprocessors},
                            .identity = options->identity,
                            .portable = options->portable,
                            .looks = options->looks,
                            .tool = options->tool};
  snprintf(chooser->mode, sizeof chooser->mode, "%s%s%s", options->optimize ? "" : "optimize off",
           !options->optimize && options->portable ? ", " : "", options->portable ? "portable" : "");
  if (!find_executable(path, options->runs) ||
      choices_executable_read(&chooser->executable, chooser->build_id, path, &error) != CHOICES_OK)
    chooser->unstored = error;
}

void tool_chooser_probe(tool_chooser *chooser, sexp_device *device, const sexp_run *run) {
  if (chooser->portable) return;
  tool_probes_make(&chooser->probes, &chooser->known, device, run);
  if (chooser->pinning->taken) tool_probes_compare(&chooser->probes, chooser->pinning->taken);
}

void tool_chooser_judge(tool_chooser *chooser) {
  tool_pinning_judge(chooser->pinning, &chooser->device, !chooser->portable,
                     chooser->unstored.code[0] ? &chooser->unstored : NULL, &chooser->probes);
}

void tool_chooser_store_line(const tool_chooser *chooser, char *line, size_t n_line) {
  choices_store_facts facts;
  choices_error error;
  line[0] = 0;
  if (!chooser->looked) return;
  if (!chooser->store || choices_store_look(&facts, chooser->store, &error) != CHOICES_OK) {
    snprintf(line, n_line, "none: %s", chooser->unstored.message);
    return;
  }
  int n = snprintf(line, n_line, "%s, %zu remembered, ", facts.path, chooser->n_remembered);
  if (n < 0 || (size_t)n >= n_line) return;
  if (chooser->looks)
    snprintf(line + n, n_line - (size_t)n, "%zu that a run will measure", chooser->n_unmeasured);
  else
    snprintf(line + n, n_line - (size_t)n, "%zu measured%s%s", chooser->n_measured,
             chooser->stacking ? ", the stacking " : "", chooser->stacking ? chooser->stacking : "");
}

void tool_chooser_free(tool_chooser *chooser) {
  choices_store_close(chooser->store);
  for (size_t i = 0; i < chooser->n_values; i++) free(chooser->values[i]);
  free(chooser->values);
  tool_probes_free(&chooser->known);
  tool_probes_free(&chooser->probes);
  *chooser = (tool_chooser){0};
}
