/* Uploads of any size: a writer fills buffers, threads send them as parts. */
#include <stdlib.h>
#include <string.h>

#include "s3_parts.h"

typedef enum buffer_state { EMPTY, FULL, BUSY } buffer_state;

typedef struct buffer {
  unsigned char *bytes; /* NULL until it is used */
  size_t n, index;      /* index: of the part */
  buffer_state state;
} buffer;

struct ck_s3_upload {
  ck_s3_multipart multipart;
  uint64_t part_n_bytes;
  bool leave, is_multipart, is_done;
  buffer buffers[CK_S3_MAX_CONNECTIONS + 1];
  int n_buffers;
  buffer *filling; /* the writer's, EMPTY for the others */
  pthread_t threads[CK_S3_MAX_CONNECTIONS];
  int n_threads;
  pthread_mutex_t mutex; /* of the buffers' states, the parts and what follows */
  pthread_cond_t has_work, has_room;
  bool is_closing;
  atomic_bool cancel;
  ckpt_status status;
  ckpt_error error;
};

/* ---- Sending, in the threads ---- */

/* With the mutex held. */
static buffer *next_full(ck_s3_upload *upload) {
  buffer *first = NULL;
  for (int i = 0; i < upload->n_buffers; i++) {
    buffer *b = &upload->buffers[i];
    if (b->state == FULL && (!first || b->index < first->index)) first = b;
  }
  return first;
}

static void keep_error(ck_s3_upload *upload, ckpt_status status, const ckpt_error *error) {
  if (atomic_exchange(&upload->cancel, true)) return;
  upload->status = status;
  upload->error = *error;
}

/* With the mutex held, which it lets go while it sends. After a failure parts are dropped. */
static void send_buffer(ck_s3_upload *upload, buffer *b) {
  ck_s3_part part;
  ckpt_error error;
  b->state = BUSY;
  if (!atomic_load(&upload->cancel)) {
    pthread_mutex_unlock(&upload->mutex);
    ckpt_status status = ck_s3_part_send(&part, &upload->multipart, b->index, b->bytes, b->n, &upload->cancel, &error);
    pthread_mutex_lock(&upload->mutex);
    if (status == CKPT_OK)
      upload->multipart.parts[b->index] = part;
    else
      keep_error(upload, status, &error);
  }
  b->state = EMPTY;
  b->n = 0;
  pthread_cond_signal(&upload->has_room);
}

static void *send_buffers(void *context) {
  ck_s3_upload *upload = context;
  pthread_mutex_lock(&upload->mutex);
  for (;;) {
    buffer *b = next_full(upload);
    if (b)
      send_buffer(upload, b);
    else if (upload->is_closing)
      break;
    else
      pthread_cond_wait(&upload->has_work, &upload->mutex);
  }
  pthread_mutex_unlock(&upload->mutex);
  return NULL;
}

/* ---- The writer ---- */

static ckpt_status failure(ck_s3_upload *upload, ckpt_error *error) {
  pthread_mutex_lock(&upload->mutex);
  ckpt_status status = upload->status;
  if (status != CKPT_OK && error) *error = upload->error;
  pthread_mutex_unlock(&upload->mutex);
  return status;
}

static ckpt_status start_multipart(ck_s3_upload *upload, ckpt_error *error) {
  if (upload->is_multipart) return CKPT_OK;
  ckpt_status status = ck_s3_multipart_start(&upload->multipart, error);
  if (status != CKPT_OK) return status;
  upload->is_multipart = true;
  while (upload->n_threads < upload->multipart.s3->connections &&
         ck_s3_thread(&upload->threads[upload->n_threads], send_buffers, upload))
    upload->n_threads++;
  return CKPT_OK;
}

/* Gives the filled buffer to the threads; where the system has none, sends it here. */
static ckpt_status submit(ck_s3_upload *upload, ckpt_error *error) {
  buffer *b = upload->filling;
  ckpt_status status = start_multipart(upload, error);
  if (status != CKPT_OK) return status;
  pthread_mutex_lock(&upload->mutex);
  status = ck_s3_part_add(&upload->multipart, error);
  if (status == CKPT_OK) {
    b->index = upload->multipart.n_parts - 1;
    b->state = FULL;
    upload->filling = NULL;
    if (upload->n_threads)
      pthread_cond_signal(&upload->has_work);
    else
      send_buffer(upload, b);
  }
  pthread_mutex_unlock(&upload->mutex);
  return status;
}

static buffer *wait_for_room(ck_s3_upload *upload) {
  buffer *b = NULL;
  pthread_mutex_lock(&upload->mutex);
  while (!b) {
    for (int i = 0; !b && i < upload->n_buffers; i++)
      if (upload->buffers[i].state == EMPTY) b = &upload->buffers[i];
    if (!b) pthread_cond_wait(&upload->has_room, &upload->mutex);
  }
  pthread_mutex_unlock(&upload->mutex);
  return b;
}

static ckpt_status get_buffer(ck_s3_upload *upload, ckpt_error *error) {
  buffer *b = wait_for_room(upload);
  if (!b->bytes) b->bytes = malloc((size_t)upload->part_n_bytes);
  if (!b->bytes) return ck_no_memory(error, (size_t)upload->part_n_bytes);
  upload->filling = b;
  return CKPT_OK;
}

ckpt_status ck_s3_upload_write(ck_s3_upload *upload, const void *bytes, size_t n_bytes, ckpt_error *error) {
  const unsigned char *from = bytes;
  ckpt_status status = failure(upload, error);
  while (status == CKPT_OK && n_bytes > 0) {
    if (upload->filling && upload->filling->n == upload->part_n_bytes) status = submit(upload, error);
    if (status == CKPT_OK && !upload->filling) status = get_buffer(upload, error);
    if (status == CKPT_OK) status = failure(upload, error);
    if (status != CKPT_OK) break;
    size_t room = (size_t)upload->part_n_bytes - upload->filling->n, n = n_bytes < room ? n_bytes : room;
    memcpy(upload->filling->bytes + upload->filling->n, from, n);
    upload->filling->n += n;
    upload->multipart.n_bytes += n;
    from += n;
    n_bytes -= n;
  }
  return status;
}

/* ---- The end ---- */

static bool is_idle(const ck_s3_upload *upload) {
  for (int i = 0; i < upload->n_buffers; i++)
    if (upload->buffers[i].state != EMPTY) return false;
  return true;
}

static ckpt_status wait_for_all(ck_s3_upload *upload, ckpt_error *error) {
  pthread_mutex_lock(&upload->mutex);
  while (!is_idle(upload)) pthread_cond_wait(&upload->has_room, &upload->mutex);
  pthread_mutex_unlock(&upload->mutex);
  return failure(upload, error);
}

/* Whatever unfinished upload was to be taken up has more parts than this content: it is of another one. */
static ckpt_status put_whole(char etag_out[CK_S3_ETAG], ck_s3_upload *upload, ckpt_error *error) {
  ck_s3_multipart *m = &upload->multipart;
  const buffer *b = upload->filling;
  ckpt_status status = ck_s3_put(etag_out, m->s3, m->bucket, m->key, b ? b->bytes : NULL, b ? b->n : 0, error);
  if (status == CKPT_OK && m->upload_id) status = ck_s3_upload_abort(m->s3, m->bucket, m->key, m->upload_id, error);
  return status;
}

static ckpt_status complete(char etag_out[CK_S3_ETAG], ck_s3_upload *upload, ckpt_error *error) {
  ckpt_status status = CKPT_OK;
  if (upload->filling && upload->filling->n > 0) status = submit(upload, error);
  if (status == CKPT_OK) status = wait_for_all(upload, error);
  return status == CKPT_OK ? ck_s3_multipart_complete(etag_out, &upload->multipart, error) : status;
}

ckpt_status ck_s3_upload_end(char etag_out[CK_S3_ETAG], ck_s3_upload *upload, ckpt_error *error) {
  char etag[CK_S3_ETAG];
  ckpt_status status = failure(upload, error);
  if (status == CKPT_OK) status = upload->is_multipart ? complete(etag, upload, error) : put_whole(etag, upload, error);
  if (status != CKPT_OK) return status;
  upload->is_done = true;
  if (etag_out) memcpy(etag_out, etag, CK_S3_ETAG);
  return CKPT_OK;
}

/* ---- Life ---- */

static ckpt_status choose_part_size(ck_s3_upload *upload, uint64_t size, ckpt_error *error) {
  const uint64_t unit = UINT64_C(1) << 20, most = UINT64_C(5) << 30;
  uint64_t least = size / CK_S3_MAX_PARTS + 1;
  least += (unit - least % unit) % unit;
  upload->part_n_bytes = upload->multipart.s3->part_n_bytes;
  if (size / CK_S3_MAX_PARTS >= upload->part_n_bytes) upload->part_n_bytes = least;
  if (upload->part_n_bytes <= most) return CKPT_OK;
  return ck_fail(error, CK_E_S3_TOO_LARGE, NULL, -1, 0, "%llu bytes for s3://%s/%s, where 10 000 parts of 5 GiB is all",
                 (unsigned long long)size, upload->multipart.bucket, upload->multipart.key);
}

static bool make_locks(ck_s3_upload *upload) {
  if (pthread_mutex_init(&upload->mutex, NULL) != 0) return false;
  if (pthread_cond_init(&upload->has_work, NULL) != 0) {
    pthread_mutex_destroy(&upload->mutex);
    return false;
  }
  if (pthread_cond_init(&upload->has_room, NULL) == 0) return true;
  pthread_cond_destroy(&upload->has_work);
  pthread_mutex_destroy(&upload->mutex);
  return false;
}

ckpt_status ck_s3_upload_begin(ck_s3_upload **out, ckpt_s3 *s3, const char *bucket, const char *key,
                               const ck_s3_upload_options *options, ckpt_error *error) {
  static const ck_s3_upload_options defaults = {0};
  if (!options) options = &defaults;
  *out = NULL;
  ck_s3_upload *upload = ck_take(1, sizeof *upload);
  if (!upload || !make_locks(upload)) {
    free(upload);
    return ck_no_memory(error, sizeof *upload);
  }
  upload->leave = options->leave;
  upload->n_buffers = s3->connections + 1;
  ckpt_status status = ck_s3_multipart_init(&upload->multipart, s3, bucket, key, options->sha256, error);
  if (status == CKPT_OK) status = choose_part_size(upload, options->size, error);
  if (status == CKPT_OK && options->resume) status = ck_s3_multipart_find(&upload->multipart, error);
  if (status == CKPT_OK) {
    *out = upload;
  } else {
    upload->leave = true;
    ck_s3_upload_free(upload);
  }
  return status;
}

static void stop_threads(ck_s3_upload *upload) {
  pthread_mutex_lock(&upload->mutex);
  upload->is_closing = true;
  if (!upload->is_done) atomic_store(&upload->cancel, true);
  pthread_cond_broadcast(&upload->has_work);
  pthread_mutex_unlock(&upload->mutex);
  for (int i = 0; i < upload->n_threads; i++) pthread_join(upload->threads[i], NULL);
}

void ck_s3_upload_free(ck_s3_upload *upload) {
  if (!upload) return;
  stop_threads(upload);
  if (!upload->is_done && !upload->leave) ck_s3_multipart_abort(&upload->multipart);
  ck_s3_multipart_clear(&upload->multipart);
  for (int i = 0; i < upload->n_buffers; i++) free(upload->buffers[i].bytes);
  pthread_cond_destroy(&upload->has_room);
  pthread_cond_destroy(&upload->has_work);
  pthread_mutex_destroy(&upload->mutex);
  free(upload);
}
