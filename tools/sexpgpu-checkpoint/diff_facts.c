/* What two checkpoints say of themselves beside the tensors. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "diff.h"
#include "json_members.h"

const char *const diff_groups[DIFF_GROUPS] = {"file",     "selection", "knobs", "position", "seed",
                                              "identity", "data",      "world", "choices",  "tool"};

bool diff_has_group(const diff *d, const char *group) {
  for (size_t i = 0; i < d->n_facts; i++)
    if (strcmp(d->facts[i].group, group) == 0) return true;
  return false;
}

static bool same_text(const char *left, const char *right) {
  return left == right || (left && right && strcmp(left, right) == 0);
}

/* Adds the fact if the two differ. Name and values are copied. */
static void note(diff *d, const char *group, const char *name, const char *left, const char *right) {
  if (same_text(left, right)) return;
  if (d->n_facts == d->facts_room) {
    d->facts_room = d->facts_room ? d->facts_room * 2 : 16;
    d->facts = tool_memory(realloc(d->facts, d->facts_room * sizeof *d->facts));
  }
  d->facts[d->n_facts++] = (diff_fact){.group = group,
                                       .name = tool_text("%s", name),
                                       .left = left ? tool_text("%s", left) : NULL,
                                       .right = right ? tool_text("%s", right) : NULL};
}

static void note_number(diff *d, const char *group, const char *name, int64_t left, int64_t right) {
  char a[24], b[24];
  snprintf(a, sizeof a, "%" PRId64, left);
  snprintf(b, sizeof b, "%" PRId64, right);
  note(d, group, name, a, b);
}

static char *source_text(const ckpt_text_file *source) {
  char sha256[CKPT_SHA256_TEXT] = "";
  ckpt_sha256_bytes(sha256, source->text, strlen(source->text), NULL);
  return tool_text("%s %s", source->name, sha256);
}

/* Files are the same when their texts are, under whatever path each run found them. */
static void compare_sources(diff *d, const ckpt_experiment *a, const ckpt_experiment *b) {
  for (size_t i = 0; i < a->n_sources || i < b->n_sources; i++) {
    const ckpt_text_file *left = i < a->n_sources ? &a->sources[i] : NULL;
    const ckpt_text_file *right = i < b->n_sources ? &b->sources[i] : NULL;
    if (left && right && strcmp(left->text, right->text) == 0) continue;
    char *left_text = left ? source_text(left) : NULL, *right_text = right ? source_text(right) : NULL;
    note(d, "file", i == 0 ? "" : "include", left_text, right_text);
    free(left_text);
    free(right_text);
  }
}

static const ckpt_knob *find_knob(const ckpt_experiment *of, const char *name) {
  for (size_t i = 0; i < of->n_knobs; i++)
    if (strcmp(of->knobs[i].name, name) == 0) return &of->knobs[i];
  return NULL;
}

static void compare_knobs(diff *d, const ckpt_experiment *a, const ckpt_experiment *b) {
  for (size_t i = 0; i < a->n_knobs; i++) {
    const ckpt_knob *other = find_knob(b, a->knobs[i].name);
    note(d, "knobs", a->knobs[i].name, a->knobs[i].value, other ? other->value : NULL);
  }
  for (size_t i = 0; i < b->n_knobs; i++)
    if (!find_knob(a, b->knobs[i].name)) note(d, "knobs", b->knobs[i].name, NULL, b->knobs[i].value);
}

/* Size and version make data the same; the name of the file is said where they do not. */
static void compare_data(diff *d, const ckpt_experiment *a, const ckpt_experiment *b) {
  for (size_t i = 0; i < a->n_data || i < b->n_data; i++) {
    const ckpt_data_source *left = i < a->n_data ? &a->data[i] : NULL, *right = i < b->n_data ? &b->data[i] : NULL;
    if (left && right && same_text(left->name, right->name) && left->size == right->size &&
        same_text(left->version, right->version))
      continue;
    const ckpt_data_source *each[2] = {left, right};
    char *texts[2] = {NULL, NULL};
    for (int side = 0; side < 2; side++)
      if (each[side])
        texts[side] = tool_text("%s, %s, %" PRIu64 " bytes, %s", each[side]->name ? each[side]->name : "-",
                                each[side]->source ? each[side]->source : "-", each[side]->size,
                                each[side]->version ? each[side]->version : "no version");
    char number[24];
    snprintf(number, sizeof number, "%zu", i + 1);
    note(d, "data", left && left->name ? left->name : number, texts[0], texts[1]);
    free(texts[0]);
    free(texts[1]);
  }
}

/* A string value without its quotes, anything else as it stands. */
static char *plain(const json_text *value) {
  size_t cut = value->n >= 2 && value->text[0] == '"';
  return tool_text("%.*s", (int)(value->n - 2 * cut), value->text + cut);
}

static void compare_member(diff *d, const char *prefix, const json_text *key, const json_text *left,
                           const json_text *right, int depth);

/* Members of the left object, then those that only the right one has. */
static void compare_objects(diff *d, const char *prefix, const json_text *left, const json_text *right, int depth) {
  json_text key, value, other;
  for (size_t at = 0; json_member_next(&key, &value, left, &at);) {
    bool both = json_member_find(&other, right, &key);
    compare_member(d, prefix, &key, &value, both ? &other : NULL, depth);
  }
  for (size_t at = 0; json_member_next(&key, &value, right, &at);)
    if (!json_member_find(&other, left, &key)) compare_member(d, prefix, &key, NULL, &value, depth);
}

/* Convolutions and products are objects within the object: these two levels are told member by member. */
static void compare_member(diff *d, const char *prefix, const json_text *key, const json_text *left,
                           const json_text *right, int depth) {
  if (left && right && json_text_equal(left, right)) return;
  char *name = tool_text("%s%.*s", prefix, (int)key->n, key->text);
  if (depth == 0 && left && right && left->text[0] == '{' && right->text[0] == '{') {
    char *inner = tool_text("%s ", name);
    compare_objects(d, inner, left, right, depth + 1);
    free(inner);
  } else {
    char *left_text = left ? plain(left) : NULL, *right_text = right ? plain(right) : NULL;
    note(d, "choices", name, left_text, right_text);
    free(left_text);
    free(right_text);
  }
  free(name);
}

static void compare_choices(diff *d, const ckpt_experiment *a, const ckpt_experiment *b) {
  json_text left = {a->choices, a->choices ? strlen(a->choices) : 0};
  json_text right = {b->choices, b->choices ? strlen(b->choices) : 0};
  if (left.n && right.n && left.text[0] == '{' && right.text[0] == '{')
    compare_objects(d, "", &left, &right, 0);
  else
    note(d, "choices", "", a->choices, b->choices);
}

void diff_facts(diff *d) {
  const ckpt_experiment *a = ckpt_checkpoint_experiment(d->left), *b = ckpt_checkpoint_experiment(d->right);
  compare_sources(d, a, b);
  note(d, "selection", "run", a->run, b->run);
  note(d, "selection", "variant", a->variant, b->variant);
  compare_knobs(d, a, b);
  note_number(d, "position", "step", a->step, b->step);
  note_number(d, "position", "records", a->records, b->records);
  note_number(d, "position", "stage", a->stage, b->stage);
  note_number(d, "seed", "", a->seed, b->seed);
  note(d, "identity", "", a->identity, b->identity);
  compare_data(d, a, b);
  note_number(d, "world", "gpus", a->gpus, b->gpus);
  note_number(d, "world", "nodes", a->nodes, b->nodes);
  compare_choices(d, a, b);
  note(d, "tool", "version", a->tool_version, b->tool_version);
  note(d, "tool", "build", a->tool_build, b->tool_build);
}
