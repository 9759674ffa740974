/* The memory that the system lets this process have. */
#ifndef TOOL_AVAILABLE_H
#define TOOL_AVAILABLE_H

#include <stdint.h>

/* Bytes; -1: not known, or no limit. */
typedef struct tool_available {
  int64_t total, available;        /* of the machine: /proc/meminfo */
  int64_t group, group_left;       /* the tightest of the control groups, and the least left of one */
  int64_t addresses, address_left; /* RLIMIT_AS (ulimit -v) */
} tool_available;

/* root: where /proc and /sys are; "" but in tests. */
void tool_available_read(tool_available *available, const char *root);
/* The least of what is left, and whose it is: "the machine has", "the control group leaves", "ulimit -v leaves". -1:
 * not known. */
int64_t tool_available_least(const tool_available *available, const char **whose);

#endif
