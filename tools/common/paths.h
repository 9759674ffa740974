/* Paths as records tell them: relative to the experiment's folder, so that records compare between machines. And where
 * this user's tools keep what can be made again. */
#ifndef TOOL_PATHS_H
#define TOOL_PATHS_H

#include <stdbool.h>

/* `path` seen from the folder that `file` is in, owned: "exp/a.sexp" and "data/b.npy" give "../data/b.npy". As it is
 * where it is an s3:// name, only one of the two is absolute, or two absolute ones have no folder in common. NULL: out
 * of memory. */
char *tool_path_from(const char *file, const char *path);

/* ${XDG_CACHE_HOME:-~/.cache}/ and `rest`, owned; NULL: the environment has neither. A relative XDG_CACHE_HOME counts
 * as unset, as its specification says. False: out of memory. */
bool tool_cache_path(char **out, const char *rest);

#endif
