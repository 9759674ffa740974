#include "clock.h"

#include <time.h>

double tool_clock_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void tool_clock_text(char text[32]) {
  time_t now = time(NULL);
  struct tm parts;
  gmtime_r(&now, &parts);
  strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &parts);
}
