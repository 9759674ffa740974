/* Records on their way to the service of the metrics target `syvain`, in the order of their making. */
#ifndef TOOL_SYVAIN_BATCH_H
#define TOOL_SYVAIN_BATCH_H

#include "syvain.h"

enum { TOOL_STREAM_TEXT = 33 };

/* The body of a request, a line of JSON (docs/schema/syvain.json); it wants its last bytes while it is open. */
typedef struct tool_batch {
  struct tool_batch *next;
  char *run;
  char *text;
  size_t n_bytes, room, n_records;
  double begun_s;
  bool is_closed; /* before it is full */
} tool_batch;

typedef struct tool_queue {
  tool_batch *first, *last;
  size_t n_bytes; /* of all batches */
  const char *folder;
  char stream[TOOL_STREAM_TEXT]; /* drawn at random, of this process */
  int64_t n_records;             /* that came in */
  int64_t n_lost;                /* for lack of memory */
} tool_queue;

/* False: there are no random bytes. */
bool tool_queue_init(tool_queue *queue, const char *folder);
/* Into the last batch, or a new one where that is full or another run's. */
void tool_queue_add(tool_queue *queue, const char *run, const char *line, size_t n_bytes);
/* The first batch is full, or was begun wait_s ago, or others follow it. */
bool tool_queue_is_due(const tool_queue *queue, double wait_s);
/* More bytes wait than should. */
bool tool_queue_is_full(const tool_queue *queue);
/* The first batch, closed, for the caller to free; NULL: none. */
tool_batch *tool_queue_take(tool_queue *queue);
void tool_batch_free(tool_batch *batch);

#endif
