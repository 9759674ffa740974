/* why: how a choice was decided, or which facts keep a record from matching the store. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

/* ---- candidates ---- */

static const char *state_word(choices_state state) {
  static const char *const words[] = {[CHOICES_MEASURED] = "measured",
                                      [CHOICES_REJECTED] = "rejected: two outputs of one input differ",
                                      [CHOICES_OUT_OF_MEMORY] = "out of memory",
                                      [CHOICES_FAILED] = "refused by the device"};
  return words[state];
}

static void add_candidate(table *t, const choices_row *row, const choices_candidate *c) {
  int64_t median = 0, spread = 0, *samples = tool_memory(malloc((c->n_samples + 1) * sizeof *samples));
  if (c->n_samples) memcpy(samples, c->samples_ns, c->n_samples * sizeof *samples);
  if (c->n_samples) choices_statistics(&median, &spread, samples, c->n_samples);
  free(samples);
  table_row(t);
  table_cell(t, tool_text("  %s %s", strcmp(c->value, row->value) == 0 ? "*" : " ", c->value));
  table_cell(t, c->n_samples ? tool_text("%.3f ms", (double)median / 1e6) : tool_text("-"));
  table_cell(t, c->n_samples ? tool_text("+-%.3f", (double)spread / 2e6) : tool_text("-"));
  table_cell(t, c->has_probe ? tool_text("%016" PRIx64, c->probe) : tool_text("-"));
  table_cell(t, tool_text("%s", state_word(c->state)));
}

static void explain(const choices_row *row, const choices_device *device) {
  char *ahead = command_ahead(row->ahead), *value = command_value(row->kind, row->value);
  printf("%-12s ", row->kind);
  table_put(row->key, stdout);
  printf("\n%-12s ", "value");
  table_put(value, stdout);
  printf("\n%-12s %s%s%s%s\n%-12s ", "why", row->reason ? row->reason : "not recorded", row->ahead > 0 ? ", by " : "",
         row->ahead > 0 ? ahead : "", row->ahead > 0 ? " of the first candidate" : "", "device");
  table_put(device->device, stdout);
  putchar('\n');
  if (row->n_candidates) {
    table t = {.align = "lrrll"};
    table_row(&t);
    static const char *const heads[] = {"  candidate", "median", "spread", "probe", "state"};
    for (size_t i = 0; i < 5; i++) table_cell(&t, tool_text("%s", heads[i]));
    for (size_t i = 0; i < row->n_candidates; i++) add_candidate(&t, row, &row->candidates[i]);
    table_print(&t, stdout);
    table_free(&t);
  }
  free(ahead);
  free(value);
}

static int why_key(const char *key) {
  choices_record *record = NULL;
  const choices_device *devices = NULL;
  const choices_row *rows = NULL;
  int status = command_rows(&record, NULL, NULL);
  if (status) return status;
  size_t n = choices_record_rows(record, &rows), n_shown = 0;
  choices_record_devices(record, &devices);
  for (int exact = 1; exact >= 0 && n_shown == 0; exact--)
    for (size_t i = 0; i < n; i++) {
      if (exact ? strcmp(rows[i].key, key) != 0 : !strstr(rows[i].key, key)) continue;
      if (n_shown++) putchar('\n');
      explain(&rows[i], &devices[rows[i].device]);
    }
  choices_record_free(record);
  return n_shown ? TOOL_DONE : tool_fail(TOOL_INPUT, TOOL_E_CHOICE_NOT_FOUND, "found no key with \"%s\"", key);
}

/* ---- misses ---- */

enum { MOST_FACTS = 48 };

/* All that must be equal for a row to be found: names and values. */
typedef struct facts {
  choices_member items[MOST_FACTS];
  size_t n;
  char *device, *libraries, key[1024], numbers[3][24];
} facts;

static void add_fact(facts *to, const char *name, const char *value) {
  if (value && to->n < MOST_FACTS) to->items[to->n++] = (choices_member){name, value};
}

static void add_number(facts *to, int place, const char *name, int64_t value) {
  snprintf(to->numbers[place], sizeof to->numbers[place], "%" PRId64, value);
  add_fact(to, name, value ? to->numbers[place] : NULL);
}

/* Parts of a device's text go by their words without the number: "cuDNN". */
static void add_device(facts *to, const choices_device *device) {
  static const char *const names[] = {"device", "cuBLAS", "cuDNN", "NVRTC", "patterns"};
  to->device = tool_text("%s", device->device);
  for (char *rest = to->device, *part; (part = strtok_r(rest, ",", &rest));) {
    const char *name = "device";
    while (*part == ' ') part++;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
      if (strncmp(part, names[i], strlen(names[i])) == 0) name = names[i];
    add_fact(to, name, part);
  }
  add_number(to, 0, "driver", device->driver);
  add_number(to, 1, "compute capability", device->capability);
  add_number(to, 2, "multiprocessors", device->multiprocessors);
  add_fact(to, "libraries", device->libraries);
}

static void fill(facts *out, const choices_row *row, const choices_device *device, bool with_executable) {
  *out = (facts){.n = 0};
  add_device(out, device);
  choices_member members[MOST_FACTS];
  size_t n = row->key[0] ? choices_key_members(members, MOST_FACTS, out->key, sizeof out->key, row->key) : 0;
  for (size_t i = 0; i < n && i < MOST_FACTS; i++) add_fact(out, members[i].name, members[i].value);
  if (!with_executable) return;
  add_fact(out, "executable", row->executable);
  add_fact(out, "mode", row->mode);
}

static void facts_free(facts *of) { free(of->device); }

static const char *fact(const facts *of, const char *name, size_t *from) {
  for (size_t i = *from; i < of->n; i++)
    if (strcmp(of->items[i].name, name) == 0) return *from = i + 1, of->items[i].value;
  return NULL;
}

/* Facts of `wanted` that `found` has otherwise; printed where asked for. A fact that one does not record is no
 * difference. */
static size_t count_differences(const facts *wanted, const facts *found, bool print) {
  size_t n = 0;
  for (size_t i = 0; i < wanted->n; i++) {
    const char *name = wanted->items[i].name, *value = NULL;
    size_t from = 0;
    for (size_t k = 0; k <= i; k++)
      if (strcmp(wanted->items[k].name, name) == 0) value = fact(found, name, &from);
    if (!value || strcmp(value, wanted->items[i].value) == 0) continue;
    n++;
    if (!print) continue;
    printf("  %-10s ", name);
    table_put(wanted->items[i].value, stdout);
    fputs(" in the record, ", stdout);
    table_put(value, stdout);
    puts(" in the store");
  }
  return n;
}

typedef struct missing {
  const choices_record *record, *store;
  const choices_device *record_devices, *store_devices;
  size_t n_hits, n_choices;
} missing;

/* A run of one node records null of its gradients between nodes, and a run with one degree of stacking has not chosen
 * it: neither is in any store. */
static bool is_choice(const choices_row *row) {
  if (row->is_json && strcmp(row->value, "null") == 0) return false;
  return row->key[0] || strcmp(row->kind, "stacking") != 0 || strcmp(row->value, "1") != 0;
}

static void explain_miss(missing *m, const choices_row *row) {
  const choices_row *rows = NULL, *nearest = NULL;
  size_t n = choices_record_rows(m->store, &rows), least = SIZE_MAX;
  bool whole = !choices_record_object(m->record) && row->key[0];
  facts wanted, found;
  fill(&wanted, row, &m->record_devices[row->device], whole);
  for (size_t i = 0; i < n && least; i++) {
    if (strcmp(rows[i].kind, row->kind) != 0) continue;
    fill(&found, &rows[i], &m->store_devices[rows[i].device], whole);
    size_t differences = count_differences(&wanted, &found, false);
    facts_free(&found);
    if (differences >= least) continue;
    least = differences;
    nearest = &rows[i];
  }
  m->n_hits += least == 0;
  if (least) {
    char *key = command_short_key(row->key);
    printf("%-12s ", row->kind);
    table_put(key[0] ? key : "(the run's)", stdout);
    puts(nearest ? ": the nearest of the store differs in" : ": the store has none of this kind");
    free(key);
  }
  if (least && nearest) {
    fill(&found, nearest, &m->store_devices[nearest->device], whole);
    count_differences(&wanted, &found, true);
    facts_free(&found);
  }
  facts_free(&wanted);
}

static int why_miss(const char *name) {
  choices_error error;
  choices_record *record = NULL, *store = NULL;
  const choices_row *rows = NULL;
  if (choices_record_read(&record, name, &error) != CHOICES_OK) return tool_fail_choices(&error);
  int status = command_rows(&store, NULL, NULL);
  size_t n = choices_record_rows(record, &rows);
  missing m = {record, store, NULL, NULL, 0, 0};
  if (!status) {
    choices_record_devices(record, &m.record_devices);
    choices_record_devices(store, &m.store_devices);
    for (size_t i = 0; i < n; i++)
      if (is_choice(&rows[i])) m.n_choices++, explain_miss(&m, &rows[i]);
    printf("%zu of %zu choices of the record are keys of the store\n", m.n_hits, m.n_choices);
    status = m.n_hits == m.n_choices ? TOOL_DONE : TOOL_NO;
  }
  choices_record_free(record);
  choices_record_free(store);
  return status;
}

int command_why(int argc, char **argv) {
  const char *miss = NULL;
  bool exit_now = false;
  const tool_setting settings[] = {
      {"miss", 'm', "RECORD", NULL, TOOL_TEXT, &miss, "which facts keep a record's choices from those of the store"}};
  const tool_command_usage usage = {"sexpgpu-choices why", "KEY", "Tells how a choice was decided.", settings, 1, 0, 1};
  tool_list operands;
  int status = tool_command_read(&usage, argc, argv, &operands, &exit_now);
  if (!status && !exit_now && (operands.n == 1) == (miss != NULL))
    status = tool_fail(TOOL_INPUT, TOOL_E_ENV_OPERANDS, "expected KEY or --miss RECORD");
  if (!status && !exit_now) status = miss ? why_miss(miss) : why_key(operands.items[0]);
  tool_list_free(&operands);
  return status;
}
