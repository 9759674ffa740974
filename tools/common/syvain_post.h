/* One request of the metrics target `syvain`. */
#ifndef TOOL_SYVAIN_POST_H
#define TOOL_SYVAIN_POST_H

#include <curl/curl.h>
#include <stdatomic.h>

#include "syvain.h"

typedef enum tool_posted {
  TOOL_POST_ACCEPTED,
  TOOL_POST_AWAY,     /* no answer, or one that asks to come again */
  TOOL_POST_REFUSED,  /* this batch */
  TOOL_POST_FORBIDDEN /* the key or the folder: every batch */
} tool_posted;

typedef struct tool_poster {
  const tool_syvain_settings *settings;
  CURL *handle;
  const atomic_bool *cancel; /* ends a request that is under way within a second or so */
  double wait_s;             /* what the last answer asked for; 0: nothing */
  char words[CURL_ERROR_SIZE];
} tool_poster;

/* False: out of memory. */
bool tool_poster_open(tool_poster *poster, const tool_syvain_settings *settings, const atomic_bool *cancel);
void tool_poster_close(tool_poster *poster);
/* The body's SHA-256 is its idempotency key. Unless accepted, poster->words says why. */
tool_posted tool_poster_post(tool_poster *poster, const char *body, size_t n_bytes);

#endif
