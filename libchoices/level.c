/* The level of reproduction of a run, and why. */
#include <stdio.h>
#include <string.h>

#include "choices.h"
#include "memory.h"

/* What a run on this device can be without a record. */
static int level_alone(ch_text *to, const choices_run *run) {
  if (!run->chooses) {
    ch_text_format(to, "2: any CPU repeats these bits with no record (numerics %lld)", (long long)run->numerics);
    return 2;
  }
  if (run->deterministic) {
    ch_text_add(to, "2: nothing is measured; every --deterministic run on this kind of device repeats these bits");
    return 2;
  }
  if (run->store) {
    ch_text_format(to, "3: level 1 against later runs is lost, as choices are not remembered: %s", run->store->message);
    return 3;
  }
  ch_text_add(to,
              "1: this machine repeats these bits with this binary and ~/.cache/sexpgpu; another is 3, or 2 pinned "
              "to these choices with --choices");
  return 1;
}

bool choices_same_bits(const char *left, const char *right) {
  static const char rests_on[] = ", numerics ";
  const char *a = strstr(left, rests_on), *b = strstr(right, rests_on);
  return a && b ? strcmp(a, b) == 0 : strcmp(left, right) == 0;
}

static void put_kinds(ch_text *to, unsigned fresh_kinds) {
  size_t n_kinds;
  const choices_kind *kinds = choices_kinds(&n_kinds);
  for (size_t i = 0, n = 0; i < n_kinds; i++)
    if (fresh_kinds & 1u << i) ch_text_format(to, "%s%s", n++ ? ", " : "", kinds[i].member);
}

static void put_probes(ch_text *to, const choices_run *run) {
  if (run->n_probes) ch_text_format(to, ", %zu of %zu probes match", run->n_match, run->n_probes);
}

static int level_pinned(ch_text *to, const choices_run *run) {
  const char *here = run->device->device;
  if (!choices_same_bits(run->recorded, here)) {
    ch_text_format(to, "3: pinned to choices of another device; the record is of %s, this device is %s", run->recorded,
                   here);
    put_probes(to, run);
    return 3;
  }
  if (run->n_match < run->n_probes) {
    ch_text_format(to, "3: pinned to choices of this kind of device, but only %zu of %zu probes match%s%s",
                   run->n_match, run->n_probes, run->mismatch ? "; the first that does not is " : "",
                   run->mismatch ? run->mismatch : "");
    return 3;
  }
  if (run->fresh_kinds) {
    ch_text_add(to, "3: pinned to recorded choices but for ");
    put_kinds(to, run->fresh_kinds);
    ch_text_add(to, ", chosen again on this machine");
    return 3;
  }
  if (run->chooses)
    ch_text_add(to, "2: pinned to recorded choices of this kind of device");
  else
    level_alone(to, run);
  put_probes(to, run);
  return 2;
}

/* A resume without a record: of a device that makes no choices it is the same as long as the device is. */
static int level_resumed(ch_text *to, const choices_run *run) {
  const char *before = run->resumed[0] ? run->resumed : "an unknown device";
  if (!run->chooses && choices_same_bits(run->resumed, run->device->device)) return level_alone(to, run);
  ch_text_format(to, "3: chosen again on this machine; the steps before it were computed with choices of %s", before);
  return 3;
}

static int level_of(ch_text *to, const choices_run *run) {
  if (run->recorded) return level_pinned(to, run);
  return run->resumed ? level_resumed(to, run) : level_alone(to, run);
}

int choices_level(char *words, size_t n_words, const choices_run *run) {
  ch_text text = {0};
  int level = level_of(&text, run);
  snprintf(words, n_words, "%s", text.bytes && !text.failed ? text.bytes : level == 1 ? "1" : level == 2 ? "2" : "3");
  ch_text_free(&text);
  return level;
}
