/* Work on several threads. */
#include <signal.h>
#include <stdlib.h>

#include "s3_client.h"

bool ck_s3_thread(pthread_t *out, void *(*run)(void *), void *context) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool good = pthread_create(out, NULL, run, context) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return good;
}

typedef struct work {
  ck_s3_task *task;
  void *context;
  size_t n;
  atomic_size_t next;
  atomic_bool cancel;
  pthread_mutex_t mutex; /* of status and error */
  ckpt_status status;
  ckpt_error error;
} work;

static void keep_error(work *w, ckpt_status status, const ckpt_error *error) {
  pthread_mutex_lock(&w->mutex);
  if (!atomic_exchange(&w->cancel, true)) {
    w->status = status;
    w->error = *error;
  }
  pthread_mutex_unlock(&w->mutex);
}

static void *do_work(void *context) {
  work *w = context;
  ckpt_error error;
  for (size_t i; !atomic_load(&w->cancel) && (i = atomic_fetch_add(&w->next, 1)) < w->n;) {
    ckpt_status status = w->task(w->context, i, &w->cancel, &error);
    if (status != CKPT_OK) keep_error(w, status, &error);
  }
  return NULL;
}

/* A thread that cannot be made is done without. */
static void share_out(work *w, int n_threads) {
  pthread_t threads[CK_S3_MAX_CONNECTIONS];
  int n = 0;
  while (n + 1 < n_threads && ck_s3_thread(&threads[n], do_work, w)) n++;
  do_work(w);
  while (n > 0) pthread_join(threads[--n], NULL);
}

ckpt_status ck_s3_run(size_t n, int n_threads, ck_s3_task *task, void *context, ckpt_error *error) {
  work w = {.task = task, .context = context, .n = n, .status = CKPT_OK};
  if ((size_t)n_threads > n) n_threads = (int)n;
  if (pthread_mutex_init(&w.mutex, NULL) != 0) return ck_no_memory(error, 0);
  share_out(&w, n_threads);
  pthread_mutex_destroy(&w.mutex);
  if (w.status != CKPT_OK && error) *error = w.error;
  return w.status;
}
