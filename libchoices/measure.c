/* The measuring protocol: look up, prove repeatable, time in rounds, decide, store, use what is stored. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "choices.h"
#include "error.h"
#include "kinds.h"
#include "memory.h"

enum { ROUNDS = 7 };

typedef struct measurement {
  const choices_measuring *asked;
  choices_store *store;
  const choices_kind *kind;
  choices_decision *out;
  size_t n; /* candidates that are looked at */
  int rounds;
  int64_t *samples; /* rounds of each candidate in turn */
  int64_t *median_ns, *spread_ns;
} measurement;

static int by_time(const void *left, const void *right) {
  int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
  return (a > b) - (a < b);
}

void choices_statistics(int64_t *median_ns, int64_t *spread_ns, int64_t *samples_ns, size_t n) {
  qsort(samples_ns, n, sizeof *samples_ns, by_time);
  *median_ns = n % 2 ? samples_ns[n / 2] : (samples_ns[n / 2 - 1] + samples_ns[n / 2]) / 2;
  *spread_ns = samples_ns[n - 1 - n / 4] - samples_ns[n / 4];
}

int choices_cost_pick(const double *estimated_ns, size_t n) {
  const double margin = 0.05;
  size_t best = 0;
  for (size_t i = 1; i < n; i++)
    if (estimated_ns[i] < estimated_ns[best]) best = i;
  for (size_t i = 0; i < n; i++)
    if (i != best && !(estimated_ns[i] > estimated_ns[best] * (1 + margin))) return -1;
  return n ? (int)best : -1;
}

/* ---- what is there already
 * ------------------------------------------------------------------------------------------- */

static size_t index_of(const measurement *m, const char *value) {
  for (size_t i = 0; i < m->n; i++)
    if (strcmp(m->asked->values[i], value) == 0) return i;
  return m->n;
}

static void use(measurement *m, size_t index) {
  m->out->index = index;
  m->out->value = m->asked->values[index];
}

static void note_probe(measurement *m, const choices_candidate *candidates, size_t n) {
  m->out->has_probe = false;
  for (size_t i = 0; i < n; i++) {
    if (!candidates[i].has_probe || strcmp(candidates[i].value, m->out->value) != 0) continue;
    m->out->has_probe = true;
    m->out->probe = candidates[i].probe;
  }
}

/* True: decided by the store. A store that fails is said, and done without. */
static bool recall(measurement *m) {
  choices_record *record = NULL;
  choices_error reason;
  const choices_row *rows = NULL;
  if (choices_store_lookup(&record, m->store, m->asked->key, &reason) != CHOICES_OK) {
    m->out->warning = reason;
    m->store = NULL;
  }
  bool found = record && choices_record_rows(record, &rows) == 1;
  size_t index = found ? index_of(m, rows[0].value) : m->n;
  if (found && index == m->n) {
    ch_fail(&m->out->warning, CH_E_NO_CANDIDATE, NULL, 0, "%s %.400s is %.200s in the store, which is not offered here",
            rows[0].kind, rows[0].key, rows[0].value);
    m->store = NULL;
  }
  if (found && index < m->n) {
    use(m, index);
    m->out->hit = m->out->stored = true;
    m->out->bits = rows[0].bits;
    m->out->reason = "remembered";
    note_probe(m, rows[0].candidates, rows[0].n_candidates);
  }
  choices_record_free(record);
  return m->out->hit;
}

/* ---- candidates
 * -------------------------------------------------------------------------------------------------------- */

static choices_status out_of_memory(const measurement *m, size_t i, choices_error *error) {
  m->out->candidates[i].state = CHOICES_OUT_OF_MEMORY;
  return ch_fail(error, CH_E_CANDIDATE_MEMORY, NULL, 0, "%s %.400s: %.200s", m->asked->key->kind, m->asked->key->key,
                 m->asked->values[i]);
}

/* Runs a candidate twice on the probe's input. */
static choices_status prove(measurement *m, size_t i, choices_error *error) {
  choices_candidate *candidate = &m->out->candidates[i];
  uint64_t digests[2] = {0, 0};
  bool rejected = false;
  choices_status status = choices_store_is_rejected(&rejected, m->store, m->asked->key, m->asked->values[i], error);
  if (status != CHOICES_OK) return status;
  candidate->state = rejected ? CHOICES_REJECTED : CHOICES_MEASURED;
  if (!m->asked->probe) return CHOICES_OK;
  for (int k = 0; k < 2 && candidate->state == CHOICES_MEASURED; k++) {
    choices_ran ran = m->asked->probe(m->asked->context, i, &digests[k]);
    if (ran == CHOICES_RAN_OUT_OF_MEMORY) return out_of_memory(m, i, error);
    if (ran == CHOICES_RAN_REFUSED) candidate->state = CHOICES_FAILED;
  }
  if (candidate->state != CHOICES_MEASURED) return CHOICES_OK;
  candidate->has_probe = true;
  candidate->probe = digests[0];
  if (digests[0] != digests[1]) candidate->state = CHOICES_REJECTED;
  return CHOICES_OK;
}

static choices_status time_once(measurement *m, size_t i, int round, choices_error *error) {
  const choices_measuring *asked = m->asked;
  int64_t begin = asked->now_ns(asked->context);
  choices_ran ran = asked->run(asked->context, i);
  int64_t end = asked->now_ns(asked->context);
  if (ran == CHOICES_RAN_OUT_OF_MEMORY) return out_of_memory(m, i, error);
  if (ran == CHOICES_RAN_REFUSED) m->out->candidates[i].state = CHOICES_FAILED;
  m->samples[i * (size_t)m->rounds + (size_t)round] = end > begin ? end - begin : 0;
  return CHOICES_OK;
}

/* Interleaved, so that all meet the same drift of the clock rate; odd rounds run backwards. */
static choices_status time_all(measurement *m, choices_error *error) {
  choices_status status = CHOICES_OK;
  for (int round = 0; round < m->rounds; round++)
    for (size_t k = 0; k < m->n && status == CHOICES_OK; k++) {
      size_t i = round % 2 ? m->n - 1 - k : k;
      if (m->out->candidates[i].state == CHOICES_MEASURED) status = time_once(m, i, round, error);
    }
  return status;
}

/* ---- deciding
 * ---------------------------------------------------------------------------------------------------------- */

/* By the kind's margin, and by more than both spreads. */
static bool is_ahead(const measurement *m, size_t fast, size_t slow) {
  int64_t gain = m->median_ns[slow] - m->median_ns[fast];
  int64_t spread = m->spread_ns[fast] > m->spread_ns[slow] ? m->spread_ns[fast] : m->spread_ns[slow];
  double margin = m->kind ? m->kind->margin : 0;
  return gain > spread && (double)gain >= margin * (double)m->median_ns[fast];
}

static bool is_timed(const measurement *m, size_t i) { return m->out->candidates[i].state == CHOICES_MEASURED; }

static void compare_probes(measurement *m) {
  size_t n = 0;
  uint64_t first = 0;
  bool moves = false;
  for (size_t i = 0; i < m->n; i++) {
    if (!is_timed(m, i) || !m->out->candidates[i].has_probe) continue;
    moves = moves || (n > 0 && m->out->candidates[i].probe != first);
    first = m->out->candidates[i].probe;
    n++;
  }
  m->out->bits = n < 2 ? CHOICES_BITS_UNKNOWN : moves ? CHOICES_BITS_MOVE : CHOICES_BITS_NEUTRAL;
}

static void settle(measurement *m, size_t first, size_t fastest, size_t n_left) {
  size_t chosen = first;
  while (!is_timed(m, chosen) || (chosen != fastest && is_ahead(m, fastest, chosen))) chosen++;
  use(m, chosen);
  m->out->reason = n_left == 1 ? "the only candidate" : chosen != first ? "ahead" : "first: none is ahead by enough";
  double base = (double)m->median_ns[chosen];
  m->out->ahead = base > 0 ? (double)(m->median_ns[first] - m->median_ns[chosen]) / base : 0;
}

/* The first in order that the fastest is not ahead of. */
static choices_status decide(measurement *m, choices_error *error) {
  size_t n_left = 0, first = m->n, fastest = m->n;
  for (size_t i = 0; i < m->n; i++) {
    if (!is_timed(m, i)) continue;
    int64_t *samples = m->samples + i * (size_t)m->rounds;
    m->out->candidates[i].samples_ns = samples;
    m->out->candidates[i].n_samples = (size_t)m->rounds;
    choices_statistics(&m->median_ns[i], &m->spread_ns[i], samples, (size_t)m->rounds);
    if (n_left++ == 0) first = i;
    if (fastest == m->n || m->median_ns[i] < m->median_ns[fastest]) fastest = i;
  }
  if (n_left == 0)
    return ch_fail(error, CH_E_NO_CANDIDATE, NULL, 0, "%s %.400s: each of %zu was rejected or refused",
                   m->asked->key->kind, m->asked->key->key, m->n);
  compare_probes(m);
  settle(m, first, fastest, n_left);
  return CHOICES_OK;
}

/* What the store then holds is used, whoever stored it. */
static void remember(measurement *m) {
  choices_record *record = NULL;
  choices_error reason;
  const choices_row *rows = NULL;
  const choices_row row = {.value = m->out->value,
                           .is_json = m->kind && !m->kind->is_text,
                           .measured = m->asked->measured,
                           .tool = m->asked->tool,
                           .reason = m->out->reason,
                           .ahead = m->out->ahead,
                           .bits = m->out->bits,
                           .candidates = m->out->candidates,
                           .n_candidates = m->n};
  if (!m->store) return;
  if (choices_store_decide(&record, m->store, m->asked->key, &row, &reason) != CHOICES_OK) {
    m->out->warning = reason;
    return;
  }
  size_t index = choices_record_rows(record, &rows) == 1 ? index_of(m, rows[0].value) : m->n;
  m->out->stored = index < m->n;
  if (index < m->n && index != m->out->index) m->out->reason = "remembered";
  if (index < m->n) use(m, index);
  choices_record_free(record);
}

static bool prepare(measurement *m) {
  size_t n = m->n ? m->n : 1;
  m->samples = calloc(n * (size_t)m->rounds, sizeof *m->samples);
  m->median_ns = calloc(n, sizeof *m->median_ns);
  m->spread_ns = calloc(n, sizeof *m->spread_ns);
  m->out->candidates = calloc(n, sizeof *m->out->candidates);
  m->out->n_candidates = m->out->candidates ? m->n : 0;
  for (size_t i = 0; m->out->candidates && i < m->n; i++)
    m->out->candidates[i] = (choices_candidate){.value = m->asked->values[i], .is_json = m->kind && !m->kind->is_text};
  return m->samples && m->median_ns && m->spread_ns && m->out->candidates;
}

static choices_status measure(measurement *m, choices_error *error) {
  choices_status status = prepare(m) ? CHOICES_OK : ch_no_memory(error);
  for (size_t i = 0; i < m->n && status == CHOICES_OK; i++) status = prove(m, i, error);
  if (status == CHOICES_OK) status = time_all(m, error);
  if (status == CHOICES_OK) status = decide(m, error);
  if (status == CHOICES_OK) remember(m);
  if (status == CHOICES_OK) note_probe(m, m->out->candidates, m->n);
  return status;
}

choices_status choices_measure(choices_decision *out, choices_store *store, const choices_measuring *measuring,
                               choices_error *error) {
  measurement m = {.asked = measuring,
                   .store = store,
                   .kind = choices_kind_find(measuring->key->kind),
                   .out = out,
                   .n = measuring->n_values,
                   .rounds = measuring->rounds > 0 ? measuring->rounds : ROUNDS};
  *out = (choices_decision){.ahead = -1, .reason = ""};
  ch_error_clear(&out->warning);
  ch_error_clear(error);
  if (m.kind && m.kind->most && m.n > m.kind->most) m.n = m.kind->most;
  choices_status status = recall(&m) ? CHOICES_OK : measure(&m, error);
  free(m.median_ns);
  free(m.spread_ns);
  out->samples_ns = m.samples;
  return status;
}

void choices_decision_free(choices_decision *decision) {
  free(decision->candidates);
  free(decision->samples_ns);
  decision->candidates = NULL;
  decision->samples_ns = NULL;
  decision->n_candidates = 0;
}
