/* Names in an archive for files that refer to each other by relative paths. */
#ifndef CHECKPOINT_LAYOUT_H
#define CHECKPOINT_LAYOUT_H

#include <stddef.h>

/* For each path a relative name without "..", owned (as is the array), so that the files stand to each other as they
 * did. Paths that begin with ".." move all below a directory that stands for the one they start from. Absolute paths
 * lose the directory that all have in common; where some are relative, the absolute ones go below "absolute". */
char **layout_names(const char *const *paths, size_t n);

#endif
