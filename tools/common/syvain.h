/* The metrics target `syvain`: records go in batches to an HTTPS service, posted by a thread of its own.
 * docs/records.md has the request. What the service does not take is kept in files, which the next start with the same
 * URL and folder sends. After the open nothing here fails: a run neither waits for the service nor ends because of it.
 */
#ifndef TOOL_SYVAIN_H
#define TOOL_SYVAIN_H

#include "../../libckpt/ckpt.h"

typedef struct tool_syvain tool_syvain;

/* From the environment; borrowed from it and from the target. */
typedef struct tool_syvain_settings {
  const char *url, *key, *folder;
  const char *ca_file; /* NULL: the system's */
  bool is_plain;       /* http, to this machine */
  char server[256];    /* scheme, host and port, for messages: a path or query may hold a secret */
} tool_syvain_settings;

/* Whether a metrics target is this one: "syvain" or "syvain:FOLDER". */
bool tool_syvain_is(const char *target);
/* Reads SYVAIN_METRICS_URL, _API_KEY, _FOLDER_ID and _CA_BUNDLE; the target's folder wins. No value is shown. Errors:
 * E-METRIC-001 (no folder after the colon), E-METRIC-005 (missing), E-ENV-001 (malformed). */
ckpt_status tool_syvain_read(tool_syvain_settings *settings, const char *target, ckpt_error *error);

/* The settings' texts stay with the caller for as long as it is open. NULL: out of memory or threads. */
tool_syvain *tool_syvain_open(const tool_syvain_settings *settings);
/* One record, a line with its \n, of the run with that slug. At most a batch is written to a file meanwhile. */
void tool_syvain_write(tool_syvain *syvain, const char *run, const char *line, size_t n_bytes);
/* Waits a few seconds at most for what is under way; keeps the rest in files, and says so on standard error
 * (E-METRIC-006 to E-METRIC-008). */
void tool_syvain_close(tool_syvain *syvain);

#endif
