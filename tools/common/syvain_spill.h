/* Batches that the service has not taken, in ${XDG_CACHE_HOME:-~/.cache}/sexpgpu/syvain/HASH, where HASH stands for the
 * URL and the folder: files of one batch a line. Whoever has a file's lock (flock) may write or send it, so that the
 * files of a process that lives are its own, and those of one that ended are everybody's. */
#ifndef TOOL_SYVAIN_SPILL_H
#define TOOL_SYVAIN_SPILL_H

#include "syvain.h"

typedef struct tool_spill_file {
  char *path; /* NULL: none */
  int fd;
} tool_spill_file;

typedef struct tool_spill {
  char *directory; /* NULL: there is no place */
  tool_spill_file file;
  int n_files;
  char start[64]; /* names of this process's files begin so, and sort by time */
} tool_spill;

/* stream: what this process's files are told from others' by. False: out of memory. */
bool tool_spill_init(tool_spill *spill, const tool_syvain_settings *settings, const char *stream);
/* Adds a line, with its \n, whole or not at all; E-METRIC-008. */
ckpt_status tool_spill_add(tool_spill *spill, const char *line, size_t n_bytes, ckpt_error *error);
/* The file that is open, for the caller to end; the next line opens another. */
tool_spill_file tool_spill_take(tool_spill *spill);
/* Makes it durable and leaves it to whoever comes. */
void tool_spill_file_end(tool_spill_file *file);
/* Its file was taken. */
void tool_spill_free(tool_spill *spill);

typedef enum tool_sending {
  TOOL_SENT, /* the line goes out of its file */
  TOOL_LEFT, /* it stays, and the next is offered */
  TOOL_STOP  /* it stays, as do all after it */
} tool_sending;

/* Offers every line of files that no process holds, the oldest file first, and takes out what was sent. TOOL_SENT: all
 * was; else the strongest of the answers. */
tool_sending tool_spill_send(const tool_spill *spill,
                             tool_sending (*send)(void *context, const char *line, size_t n_bytes), void *context);

#endif
