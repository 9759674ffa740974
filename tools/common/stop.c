#include "stop.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t wish;
static int ends[2] = {-1, -1}; /* of a pipe: a signal between a look at the wish and a poll is not lost */

static void on_signal(int number) {
  int kept = errno;
  wish = number;
  if (write(ends[1], "", 1) < 0) errno = kept;
  errno = kept;
}

void tool_stop_catch(void) {
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
  if (ends[0] < 0 && pipe(ends) == 0)
    for (int i = 0; i < 2; i++) {
      fcntl(ends[i], F_SETFD, FD_CLOEXEC);
      fcntl(ends[i], F_SETFL, O_NONBLOCK);
    }
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
}

int tool_stop_signal(void) { return wish; }

int tool_stop_fd(void) { return ends[0]; }
