#include "syvain_batch.h"

#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

enum { FULL_RECORDS = 1000, FULL_BYTES = 256 << 10, QUEUE_BYTES = 4 << 20 };

static const char between[] = ", ", end[] = "]}\n";

bool tool_queue_init(tool_queue *queue, const char *folder) {
  unsigned char bytes[(TOOL_STREAM_TEXT - 1) / 2];
  *queue = (tool_queue){.folder = folder};
  if (RAND_bytes(bytes, sizeof bytes) != 1) return false;
  for (size_t i = 0; i < sizeof bytes; i++) snprintf(queue->stream + 2 * i, 3, "%02x", bytes[i]);
  return true;
}

/* ---- one batch ---- */

void tool_batch_free(tool_batch *batch) {
  if (!batch) return;
  free(batch->run);
  free(batch->text);
  free(batch);
}

/* Room for the end is kept: a batch can always be closed. */
static bool append(tool_batch *batch, const char *before, const char *bytes, size_t n_bytes) {
  size_t n_before = strlen(before), need = batch->n_bytes + n_before + n_bytes + sizeof end;
  if (need > batch->room) {
    size_t room = need > FULL_BYTES / 4 ? need + need / 2 : 2 * need;
    char *grown = realloc(batch->text, room);
    if (!grown) return false;
    batch->text = grown;
    batch->room = room;
  }
  memcpy(batch->text + batch->n_bytes, before, n_before);
  memcpy(batch->text + batch->n_bytes + n_before, bytes, n_bytes);
  batch->n_bytes += n_before + n_bytes;
  return true;
}

static void write_head(ckpt_json *json, const tool_queue *queue, const char *run) {
  ckpt_json_begin_object(json);
  ckpt_json_key(json, "version");
  ckpt_json_integer(json, 1);
  ckpt_json_key(json, "folder");
  ckpt_json_string(json, queue->folder);
  ckpt_json_key(json, "run");
  ckpt_json_string(json, run);
  ckpt_json_key(json, "stream");
  ckpt_json_string(json, queue->stream);
  ckpt_json_key(json, "first");
  ckpt_json_integer(json, queue->n_records);
  ckpt_json_end_object(json);
}

/* All before the records. */
static bool begin(tool_batch *batch, const tool_queue *queue, const char *run) {
  size_t n_bytes = 0;
  ckpt_json *json = ckpt_json_new(CKPT_JSON_LINE);
  if (json) write_head(json, queue, run);
  const char *text = json ? ckpt_json_text(json, &n_bytes) : NULL;
  bool good = text && append(batch, "", text, n_bytes - strlen("}\n")) && append(batch, ", \"records\": [", "", 0);
  ckpt_json_free(json);
  return good;
}

static tool_batch *new_batch(const tool_queue *queue, const char *run) {
  tool_batch *batch = calloc(1, sizeof *batch);
  if (!batch) return NULL;
  batch->run = strdup(run);
  batch->begun_s = tool_clock_s();
  if (batch->run && begin(batch, queue, run)) return batch;
  tool_batch_free(batch);
  return NULL;
}

static bool is_full(const tool_batch *batch) {
  return batch->is_closed || batch->n_records >= FULL_RECORDS || batch->n_bytes >= FULL_BYTES;
}

/* ---- the queue ---- */

/* The batch that a record of the run goes into; NULL: no memory. */
static tool_batch *open_batch(tool_queue *queue, const char *run) {
  tool_batch *last = queue->last;
  if (last && !is_full(last) && strcmp(last->run, run) == 0) return last;
  tool_batch *batch = new_batch(queue, run);
  if (!batch) return NULL;
  if (last)
    last->next = batch;
  else
    queue->first = batch;
  queue->last = batch;
  queue->n_bytes += batch->n_bytes;
  return batch;
}

/* After a lost record a new batch begins, so that `first` and the records' places in it stay true. */
void tool_queue_add(tool_queue *queue, const char *run, const char *line, size_t n_bytes) {
  tool_batch *batch = open_batch(queue, run);
  size_t before = batch ? batch->n_bytes : 0;
  if (batch && append(batch, batch->n_records ? between : "", line, n_bytes - 1)) {
    batch->n_records++;
    queue->n_bytes += batch->n_bytes - before;
  } else {
    queue->n_lost++;
    if (batch) batch->is_closed = true;
  }
  queue->n_records++;
}

bool tool_queue_is_due(const tool_queue *queue, double wait_s) {
  const tool_batch *first = queue->first;
  return first && (first->next || is_full(first) || tool_clock_s() - first->begun_s >= wait_s);
}

bool tool_queue_is_full(const tool_queue *queue) { return queue->n_bytes > QUEUE_BYTES; }

tool_batch *tool_queue_take(tool_queue *queue) {
  tool_batch *batch = queue->first;
  if (!batch) return NULL;
  queue->first = batch->next;
  if (!queue->first) queue->last = NULL;
  queue->n_bytes -= batch->n_bytes;
  memcpy(batch->text + batch->n_bytes, end, sizeof end);
  batch->n_bytes += sizeof end - 1;
  batch->next = NULL;
  return batch;
}
