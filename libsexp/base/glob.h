/* Globs over model paths and names: `*` any text (also with slashes), `?` one character, `[abc]` or `[a-z]`
 * one of these, `[!abc]` none of these; anything else stands for itself. */
#ifndef SX_BASE_GLOB_H
#define SX_BASE_GLOB_H

#include <stdbool.h>

/* Whether the whole text matches. Takes at most time proportional to both lengths' product. */
bool sx_glob_matches(const char *glob, const char *text);

#endif
