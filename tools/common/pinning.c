#include "pinning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "choices.h"
#include "failure.h"

enum { MOST_NEEDS = 8, MOST_MEMBERS = 8, KEY_ROOM = 1024, NUMERICS = 1 };

static int parse(choices_record **out, const char *name, const char *text) {
  choices_error error;
  return choices_record_parse(out, name, text, strlen(text), &error) == CHOICES_OK ? TOOL_DONE
                                                                                   : tool_fail_choices(&error);
}

/* ---- the record ---- */

/* The choices of a checkpoint in object storage, which libchoices does not reach. */
static int read_remote(tool_pinning *pinning, tool_credentials *credentials, const char *name) {
  ckpt_s3 *s3 = NULL;
  ckpt_checkpoint *checkpoint = NULL;
  ckpt_error error;
  ckpt_status opened = tool_credentials_client(&s3, credentials, TOOL_CHECKPOINT, name, &error);
  if (opened == CKPT_OK) opened = ckpt_checkpoint_open_path(&checkpoint, name, s3, &error);
  if (opened != CKPT_OK) return tool_fail_ckpt(&error);
  int status = parse(&pinning->record, name, ckpt_checkpoint_experiment(checkpoint)->choices);
  ckpt_checkpoint_close(checkpoint);
  return status;
}

static int read_record(tool_pinning *pinning, tool_credentials *credentials, const char *name) {
  choices_error error;
  if (strncmp(name, "s3://", 5) == 0) return read_remote(pinning, credentials, name);
  return choices_record_read(&pinning->record, name, &error) == CHOICES_OK ? TOOL_DONE : tool_fail_choices(&error);
}

int tool_pinning_open(tool_pinning *pinning, const tool_pinning_options *options, tool_credentials *credentials) {
  const char *dtype = options->node_gradients;
  choices_error error;
  *pinning = (tool_pinning){.options = *options};
  if (dtype && strcmp(dtype, "f32") != 0 && strcmp(dtype, "bf16") != 0)
    return tool_fail(TOOL_INPUT, TOOL_E_ENV_VALUE, "SEXPGPU_NODE_GRADIENTS: found \"%s\", expected f32 or bf16", dtype);
  bool narrow = dtype && strcmp(dtype, "bf16") == 0;
  if (choices_request_parse(&pinning->request, options->choices, &error) != CHOICES_OK ||
      choices_request_check(&pinning->request, options->strict, narrow, &error) != CHOICES_OK)
    return tool_fail_choices(&error);
  return pinning->request.record ? read_record(pinning, credentials, pinning->request.record) : TOOL_DONE;
}

/* ---- what a run without choices needs of it ---- */

/* Whether a row of stacking is of this run: the one of a choices object, or under a key that names its graph. */
static bool is_of_graph(const choices_row *row, const char *identity) {
  char room[KEY_ROOM];
  choices_member members[MOST_MEMBERS];
  size_t n = choices_key_members(members, MOST_MEMBERS, room, sizeof room, row->key);
  if (!row->key[0]) return true;
  for (size_t i = 0; i < n && i < MOST_MEMBERS; i++)
    if (strcmp(members[i].name, "graph") == 0) return strcmp(members[i].value, identity) == 0;
  return false;
}

/* It computes unstacked on one node: what a record says otherwise cannot be taken. */
static size_t list_needs(choices_need *needs, const choices_record *record, const char *identity) {
  static const char *const unstacked[] = {"1"};
  const choices_row *rows = NULL;
  size_t n = 0, n_rows = choices_record_rows(record, &rows);
  for (size_t i = 0; i < n_rows && n < MOST_NEEDS; i++) {
    const choices_row *row = &rows[i];
    bool none = row->is_json && strcmp(row->value, "null") == 0;
    if (strcmp(row->kind, "stacking") == 0 && is_of_graph(row, identity))
      needs[n++] = (choices_need){row->kind, row->key, unstacked, 1, "without choices it computes unstacked: 1"};
    else if (strcmp(row->kind, "node_gradients") == 0 && !none)
      needs[n++] = (choices_need){row->kind, row->key, NULL, 0, "one node: there are no gradients between nodes"};
  }
  return n;
}

int tool_pinning_pin(tool_pinning *pinning, const choices_device *device, const choices_need *needs, size_t n_needs,
                     choices_takes_function *takes, void *context) {
  choices_error error;
  const choices_pinning request = {.record = pinning->taken,
                                   .record_name = pinning->taken_name,
                                   .device = device,
                                   .needs = needs,
                                   .n_needs = n_needs,
                                   .fresh = pinning->request.kinds,
                                   .takes = takes,
                                   .context = context};
  choices_pins_free(pinning->pins);
  choices_status status = choices_pin(&pinning->pins, &request, &error);
  if (status != CHOICES_OK && pinning->pins) {
    fputs(choices_pins_refusal(pinning->pins), stderr);
    return TOOL_CHOICE;
  }
  return status == CHOICES_OK ? TOOL_DONE : tool_fail_choices(&error);
}

/* ---- the record in force ---- */

/* NULL: of none, as the export of an empty store. */
static const char *device_of(const choices_record *record) {
  const choices_device *devices = NULL;
  return choices_record_devices(record, &devices) ? devices[0].device : NULL;
}

int tool_pinning_select(tool_pinning *pinning, const char *resumed) {
  const choices_request *request = &pinning->request;
  bool all_again = request->fresh && !request->kinds;
  choices_record_free(pinning->before);
  pinning->before = NULL;
  pinning->taken = pinning->record;
  pinning->taken_name = request->record;
  int status = resumed ? parse(&pinning->before, "the checkpoint's choices", resumed) : TOOL_DONE;
  if (status || pinning->record || !pinning->before || all_again || pinning->options.strict) return status;
  pinning->taken = pinning->before;
  pinning->taken_name = "the checkpoint";
  return TOOL_DONE;
}

/* ---- the level ---- */

void tool_pinning_judge(tool_pinning *pinning, const choices_device *device, bool chooses, const choices_error *store,
                        const tool_probes *probes) {
  choices_run run = {.device = device,
                     .chooses = chooses,
                     .numerics = NUMERICS,
                     .deterministic = pinning->options.strict,
                     .store = store};
  if (pinning->taken) {
    run.recorded = device_of(pinning->taken);
    run.fresh_kinds = pinning->request.kinds;
  }
  if (probes) {
    run.n_probes = probes->n_compared;
    run.n_match = probes->n_match;
    run.mismatch = probes->mismatch;
  }
  if (pinning->before) run.resumed = device_of(pinning->before) ? device_of(pinning->before) : "";
  pinning->level = choices_level(pinning->determinism, sizeof pinning->determinism, &run);
}

int tool_pinning_pin_none(tool_pinning *pinning, const choices_device *device, const char *identity) {
  choices_need needs[MOST_NEEDS] = {{0}};
  if (!pinning->taken) return TOOL_DONE;
  size_t n = pinning->options.evaluates ? 0 : list_needs(needs, pinning->taken, identity);
  int status = tool_pinning_pin(pinning, device, needs, n, NULL, NULL);
  for (size_t i = 0; !status && i < n; i++) choices_pins_take(pinning->pins, needs[i].kind, needs[i].key);
  return status;
}

int tool_pinning_take(tool_pinning *pinning, const char *device, const char *identity, const char *resumed) {
  const choices_device here = {.device = device};
  int status = tool_pinning_select(pinning, resumed);
  if (!status) status = tool_pinning_pin_none(pinning, &here, identity);
  if (!status) tool_pinning_judge(pinning, &here, false, NULL, NULL);
  return status;
}

int tool_pinning_audit(const tool_pinning *pinning) {
  choices_error error;
  if (!pinning->pins || choices_pins_audit(pinning->pins, &error) == CHOICES_OK) return TOOL_DONE;
  return tool_fail_choices(&error);
}

void tool_pinning_free(tool_pinning *pinning) {
  choices_pins_free(pinning->pins);
  choices_record_free(pinning->record);
  choices_record_free(pinning->before);
  *pinning = (tool_pinning){0};
}
