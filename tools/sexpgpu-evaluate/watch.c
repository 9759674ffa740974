#include "watch.h"

#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "../common/clock.h"
#include "../common/stop.h"

void watch_begin(watch *w, const char *place, double poll_s) {
  bool local = strncmp(place, "s3://", 5) != 0;
  *w = (watch){place, poll_s, local ? inotify_init1(IN_CLOEXEC | IN_NONBLOCK) : -1, -1, -1};
}

void watch_end(watch *w) {
  if (w->fd >= 0) close(w->fd);
  w->fd = -1;
}

/* Moves a watch to a path; the same directory keeps it. */
static bool move_to(const watch *w, int *descriptor, const char *path, uint32_t mask) {
  int now = path ? inotify_add_watch(w->fd, path, mask | IN_ONLYDIR) : -1;
  if (*descriptor >= 0 && *descriptor != now) inotify_rm_watch(w->fd, *descriptor);
  *descriptor = now;
  return now >= 0;
}

/* The folder above, into the same text. False: there is none. */
static bool go_up(char *path) {
  size_t n = strlen(path);
  while (n > 1 && path[n - 1] == '/') path[--n] = 0;
  char *slash = strrchr(path, '/');
  if (strcmp(path, ".") == 0 || strcmp(path, "/") == 0) return false;
  if (!slash)
    strcpy(path, ".");
  else
    slash[slash == path] = 0;
  return true;
}

/* While the place is not there, the nearest folder above that is. */
static void arm_above(watch *w) {
  char path[PATH_MAX];
  if ((size_t)snprintf(path, sizeof path, "%s", w->place) >= sizeof path) return;
  while (go_up(path))
    if (move_to(w, &w->on_parent, path, IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF)) return;
}

/* What came into being between the two looks is found by the second. */
void watch_arm(watch *w) {
  const uint32_t changes = IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF;
  if (w->fd < 0 || move_to(w, &w->on_place, w->place, changes)) return;
  arm_above(w);
  if (move_to(w, &w->on_place, w->place, changes)) move_to(w, &w->on_parent, NULL, 0);
}

/* Our own files may lie there too. */
static bool is_news(const watch *w, const struct inotify_event *event) {
  if (event->mask & (IN_Q_OVERFLOW | IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT)) return true;
  return event->wd == w->on_parent || (event->len && strncmp(event->name, "step-", 5) == 0);
}

static bool has_news(const watch *w) {
  _Alignas(struct inotify_event) char events[4096];
  bool news = false;
  ssize_t n;
  while ((n = read(w->fd, events, sizeof events)) > 0)
    for (char *at = events; at < events + n;) {
      const struct inotify_event *event = (const struct inotify_event *)(void *)at;
      news |= is_news(w, event);
      at += sizeof *event + event->len;
    }
  return news;
}

void watch_wait(watch *w) {
  double until = tool_clock_s() + w->poll_s;
  while (!tool_stop_signal()) {
    double left_s = until - tool_clock_s();
    if (left_s <= 0) return;
    struct pollfd waited[2] = {{tool_stop_fd(), POLLIN, 0}, {w->fd, POLLIN, 0}};
    poll(waited, 2, left_s > 1e6 ? INT_MAX : (int)(left_s * 1000) + 1);
    if (waited[1].revents && has_news(w)) return;
  }
}
