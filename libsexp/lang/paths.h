/* File names as the experiment's files name them. */
#ifndef SX_LANG_PATHS_H
#define SX_LANG_PATHS_H

#include "../base/memory.h"

/* `path` as it is meant in the file `from`: joined to its folder, unless it is absolute or has a scheme (s3://).
 * A folder and the ".." after it go away, so that a file is named in one way. */
const char *sx_join_path(sx_arena *arena, const char *from, const char *path);

#endif
