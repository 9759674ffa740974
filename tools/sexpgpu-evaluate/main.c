/* sexpgpu-evaluate: runs the evaluations of a run from its checkpoints. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "../common/failure.h"
#include "../common/lost_pages.h"
#include "../common/stop.h"
#include "place.h"

static int evaluate(const evaluate_settings *settings) {
  evaluator e = {.settings = settings, .sink = {.fd = -1}};
  e.status.path = settings->status;
  e.is_on_terminal = !settings->quiet && isatty(STDERR_FILENO);
  tool_stop_catch();
  tool_status_set(&e.status, "loading");
  int status = evaluator_open(&e);
  if (!status) status = place_evaluate(&e);
  tool_status_set(&e.status, status && status < 128 ? "failed" : "done");
  evaluator_close(&e);
  return status;
}

int main(int argc, char **argv) {
  evaluate_settings settings;
  bool exit_now = false;
  tool_lost_pages_catch();
  signal(SIGXFSZ, SIG_IGN); /* a file beyond the limit of its size is an error of its write */
  int status = evaluate_settings_read(&settings, argc, argv, &exit_now);
  if (!status && !exit_now) status = evaluate(&settings);
  evaluate_settings_free(&settings);
  return tool_end_output(status);
}
