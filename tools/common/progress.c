#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "format.h"

void tool_progress_start(tool_progress *progress, bool shown, int64_t steps) {
  *progress = (tool_progress){.shown = shown, .steps = steps, .started_s = tool_clock_s()};
}

void tool_progress_rates(const tool_progress *progress, int64_t step, int64_t records, double *per_second,
                         double *left_s) {
  double elapsed = tool_clock_s() - progress->started_s;
  int64_t done = step - progress->first_step;
  *per_second = elapsed > 0 ? (double)(records - progress->first_records) / elapsed : 0;
  *left_s = done > 0 ? elapsed / (double)done * (double)(progress->steps - step) : 0;
}

static const char *short_name(const char *name) { return strncmp(name, "train/", 6) == 0 ? name + 6 : name; }

static int add_metrics(char *line, int at, int room, const sexp_step *step) {
  for (size_t i = 0; i < step->n_values && at < room; i++) {
    const char *name = step->values[i].name;
    if (strncmp(name, "train/", 6) != 0 || strcmp(name, "train/loss") == 0) continue;
    at += snprintf(line + at, (size_t)(room - at), "   %s %.3f", short_name(name), (double)step->values[i].value);
  }
  return at < room ? at : room - 1;
}

void tool_progress_draw(tool_progress *progress, const sexp_step *step, int64_t records) {
  double now = tool_clock_s();
  if (!progress->shown || (progress->drawn && now - progress->drawn_s < 0.1)) return;
  double rate = 0, left = 0;
  tool_progress_rates(progress, step->step, records, &rate, &left);
  char line[256], a[32], b[32], c[32];
  int at = snprintf(line, sizeof line, "step %6s / %s   loss %.4f", tool_grouped(a, step->step),
                    tool_grouped(b, progress->steps), (double)step->loss);
  at = add_metrics(line, at, (int)sizeof line, step);
  if (rate > 0) at += snprintf(line + at, sizeof line - (size_t)at, "   %s records/s", tool_grouped(c, (int64_t)rate));
  if (at < (int)sizeof line)
    at += snprintf(line + at, sizeof line - (size_t)at, "   %d:%02d left", (int)left / 60, (int)left % 60);
  if (progress->last_checkpoint && at < (int)sizeof line)
    snprintf(line + at, sizeof line - (size_t)at, "   checkpoint %s", progress->last_checkpoint);
  fprintf(stderr, "\r\033[K%s", line);
  fflush(stderr);
  progress->drawn = true;
  progress->drawn_s = now;
}

void tool_progress_clear(tool_progress *progress) {
  if (progress->drawn) fputs("\r\033[K", stderr);
  progress->drawn = false;
}
