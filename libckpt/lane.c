#include "lane.h"

#include <pthread.h>
#include <stdlib.h>

#include "beside.h"
#include "error.h"

struct ck_lane {
  ck_beside thread;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  bool stop;
  ck_sha256 *hash; /* NULL: nothing is given, or what was is done */
  const void *bytes;
  size_t n_bytes;
  ckpt_status status;
  ckpt_error error;
};

static ckpt_status hash_what_comes(void *context, ckpt_error *error) {
  ck_lane *lane = context;
  (void)error;
  pthread_mutex_lock(&lane->mutex);
  while (!lane->stop) {
    if (lane->hash) {
      pthread_mutex_unlock(&lane->mutex);
      ckpt_status status = ck_sha256_add(lane->hash, lane->bytes, lane->n_bytes, &lane->error);
      pthread_mutex_lock(&lane->mutex);
      lane->status = status;
      lane->hash = NULL;
      pthread_cond_broadcast(&lane->changed);
    } else {
      pthread_cond_wait(&lane->changed, &lane->mutex);
    }
  }
  pthread_mutex_unlock(&lane->mutex);
  return CKPT_OK;
}

ck_lane *ck_lane_new(void) {
  ck_lane *lane = ck_take(1, sizeof *lane);
  if (!lane) return NULL;
  pthread_mutex_init(&lane->mutex, NULL);
  pthread_cond_init(&lane->changed, NULL);
  if (ck_beside_try(&lane->thread, hash_what_comes, lane)) return lane;
  ck_lane_free(lane);
  return NULL;
}

void ck_lane_free(ck_lane *lane) {
  if (!lane) return;
  pthread_mutex_lock(&lane->mutex);
  lane->stop = true;
  pthread_cond_broadcast(&lane->changed);
  pthread_mutex_unlock(&lane->mutex);
  ck_beside_join(&lane->thread, NULL);
  pthread_cond_destroy(&lane->changed);
  pthread_mutex_destroy(&lane->mutex);
  free(lane);
}

void ck_lane_give(ck_lane *lane, ck_sha256 *hash, const void *bytes, size_t n_bytes) {
  pthread_mutex_lock(&lane->mutex);
  lane->bytes = bytes;
  lane->n_bytes = n_bytes;
  lane->hash = hash;
  pthread_cond_broadcast(&lane->changed);
  pthread_mutex_unlock(&lane->mutex);
}

ckpt_status ck_lane_wait(ck_lane *lane, ckpt_error *error) {
  pthread_mutex_lock(&lane->mutex);
  while (lane->hash) pthread_cond_wait(&lane->changed, &lane->mutex);
  ckpt_status status = lane->status;
  pthread_mutex_unlock(&lane->mutex);
  if (status != CKPT_OK && error) *error = lane->error;
  return status;
}
