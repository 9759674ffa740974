/* cp SRC DST: a checkpoint, or every complete one of a location, into another location. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../common/format.h"
#include "command.h"
#include "open.h"
#include "words.h"

typedef struct copying {
  ckpt_copy_options options;
  bool quiet;
  ckpt_location *to;
} copying;

static void say(int64_t step, const ckpt_copied *copied) {
  char written[32], kept[32];
  printf("step-%" PRId64 " ", step);
  if (copied->already)
    puts("is there already");
  else if (copied->n_bytes_kept)
    printf("copied, %s; %s were there from an earlier copy\n", tool_bytes(written, (int64_t)copied->n_bytes),
           tool_bytes(kept, (int64_t)copied->n_bytes_kept));
  else
    printf("copied, %s\n", tool_bytes(written, (int64_t)copied->n_bytes));
  fflush(stdout);
}

/* A source that does not verify is a no; the rest of a location is copied all the same. */
static int fail(const ckpt_error *error) {
  int status = tool_fail_ckpt(error);
  return strcmp(error->code, "E-CKPT-012") == 0 ? TOOL_NO : status;
}

static int copy(const copying *c, const ckpt_checkpoint *from) {
  ckpt_copied copied;
  ckpt_error error;
  if (ckpt_checkpoint_copy(&copied, c->to, from, &c->options, &error) != CKPT_OK) return fail(&error);
  if (!c->quiet) say(ckpt_checkpoint_experiment(from)->step, &copied);
  return TOOL_DONE;
}

/* DST is a location, or in one the place step-<n> of this very step. */
static int copy_one(copying *c, const char *source, const char *target) {
  ckpt_checkpoint *from = NULL;
  char *directory, *base;
  int status = checkpoint_open_or_say(&from, source);
  checkpoint_split(&directory, &base, target);
  int64_t step = checkpoint_step_of(base);
  if (!status && step >= 0 && step != ckpt_checkpoint_experiment(from)->step)
    status = tool_fail(TOOL_INPUT, TOOL_E_ENV_OPERANDS, "%s: expected a location or step-%" PRId64 ", found %s", target,
                       ckpt_checkpoint_experiment(from)->step, base);
  if (!status) status = checkpoint_open_location(&c->to, step >= 0 ? directory : target, true);
  if (!status) status = copy(c, from);
  ckpt_checkpoint_close(from);
  free(directory);
  free(base);
  return status;
}

static int copy_entry(const copying *c, ckpt_location *from, const char *source, const ckpt_entry *entry) {
  ckpt_checkpoint *checkpoint = NULL;
  ckpt_error error;
  if (ckpt_checkpoint_open(&checkpoint, from, entry->step, &error) != CKPT_OK) {
    if (error.status == CKPT_IO && strcmp(error.code, "E-CKPT-011") != 0) return tool_fail_ckpt(&error);
    fprintf(stderr, "%s/step-%" PRId64 " is torn (%s), not copied\n", source, entry->step, words_torn(&error));
    return TOOL_DONE;
  }
  int status = copy(c, checkpoint);
  ckpt_checkpoint_close(checkpoint);
  return status;
}

static int copy_all(copying *c, const char *source, const char *target) {
  ckpt_location *from = NULL;
  ckpt_entry *entries = NULL;
  ckpt_error error;
  size_t n = 0;
  int status = checkpoint_open_location(&from, source, false);
  if (!status && ckpt_checkpoint_list(&entries, &n, from, &error) != CKPT_OK) status = tool_fail_ckpt(&error);
  if (!status) status = checkpoint_open_location(&c->to, target, true);
  if (!status && n == 0) fprintf(stderr, "%s holds no checkpoints\n", source);
  for (size_t i = 0; !status && i < n; i++) status = copy_entry(c, from, source, &entries[i]);
  free(entries);
  ckpt_location_close(from);
  return status;
}

int command_cp(int argc, char **argv) {
  copying c = {.options = CKPT_COPY_OPTIONS};
  const tool_setting settings[] = {
      {"replace", 0, NULL, NULL, TOOL_FLAG, &c.options.replace, "replace another checkpoint of the same step"},
      {"quiet", 'q', NULL, NULL, TOOL_FLAG, &c.quiet, "no word about what was copied"}};
  const tool_command_usage usage = {
      "sexpgpu-checkpoint cp",
      "SRC DST",
      "Copies a checkpoint, or all of a location, into the location DST: verified, resumable.",
      settings,
      2,
      2,
      2};
  tool_list operands;
  bool exit_now = false;
  int status = tool_command_read(&usage, argc, argv, &operands, &exit_now);
  if (!status && !exit_now) {
    const char *source = operands.items[0], *target = operands.items[1];
    status = checkpoint_is_one(source) ? copy_one(&c, source, target) : copy_all(&c, source, target);
  }
  ckpt_location_close(c.to);
  tool_list_free(&operands);
  return status;
}
