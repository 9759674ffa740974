/* Waiting for something to change in a place: told by the system (inotify) where it can, by the clock elsewhere. */
#ifndef EVALUATE_WATCH_H
#define EVALUATE_WATCH_H

typedef struct watch {
  const char *place;       /* a directory, which may come, go and be replaced; or s3:// */
  double poll_s;           /* the longest wait */
  int fd;                  /* of inotify; -1: the clock alone */
  int on_place, on_parent; /* what is watched; -1: nothing */
} watch;

void watch_begin(watch *w, const char *place, double poll_s);
/* Before a look at the place: what changes from here on ends the next wait. */
void watch_arm(watch *w);
/* Until a checkpoint may have appeared, the time is over, or a signal to stop came. */
void watch_wait(watch *w);
void watch_end(watch *w);

#endif
