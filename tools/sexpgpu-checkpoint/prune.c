/* prune LOCATION --keep N: the newest N complete ones stay; older ones go, and torn ones among them. */
#include <inttypes.h>
#include <stdlib.h>

#include "command.h"
#include "open.h"

static int prune_one(ckpt_location *location, const ckpt_entry *entry, bool dry_run) {
  ckpt_error error;
  if (!dry_run && ckpt_checkpoint_remove(location, entry->step, &error) != CKPT_OK) return tool_fail_ckpt(&error);
  printf("step-%" PRId64 "%s%s\n", entry->step, entry->complete ? "" : " (torn)",
         dry_run ? " would be removed" : " removed");
  return TOOL_DONE;
}

static int prune(ckpt_location *location, int64_t keep, bool dry_run) {
  ckpt_entry *entries = NULL;
  ckpt_error error;
  size_t n = 0, first_kept = 0;
  if (ckpt_checkpoint_list(&entries, &n, location, &error) != CKPT_OK) return tool_fail_ckpt(&error);
  int64_t n_kept = 0;
  for (size_t i = n; i-- > 0 && n_kept < keep;) {
    n_kept += entries[i].complete;
    first_kept = i;
  }
  int status = TOOL_DONE;
  for (size_t i = 0; n_kept == keep && i < first_kept; i++) {
    int each = prune_one(location, &entries[i], dry_run);
    if (each > status) status = each;
  }
  free(entries);
  return status;
}

int command_prune(int argc, char **argv) {
  int64_t keep = 0;
  bool dry_run = false;
  const tool_setting settings[] = {
      {"keep", 'k', "N", NULL, TOOL_COUNT, &keep, "how many of the newest complete ones stay; must be given"},
      {"dry-run", 'n', NULL, NULL, TOOL_FLAG, &dry_run, "say what would be removed, and remove nothing"}};
  const tool_command_usage usage = {
      "sexpgpu-checkpoint prune",
      "LOCATION",
      "Removes all but the newest N complete checkpoints, and torn ones older than these.",
      settings,
      2,
      1,
      1};
  tool_list operands;
  bool exit_now = false;
  ckpt_location *location = NULL;
  int status = tool_command_read(&usage, argc, argv, &operands, &exit_now);
  if (!status && !exit_now && keep == 0)
    status = tool_fail(TOOL_INPUT, TOOL_E_ENV_OPTION, "expected --keep N: how many stay");
  if (!status && !exit_now) status = checkpoint_open_location(&location, operands.items[0], false);
  if (location) status = prune(location, keep, dry_run);
  ckpt_location_close(location);
  tool_list_free(&operands);
  return status;
}
