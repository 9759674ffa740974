#include "beside.h"

#include <signal.h>
#include <string.h>

static void *run(void *context) {
  ck_beside *beside = context;
  beside->status = beside->work(beside->context, &beside->error);
  return NULL;
}

bool ck_beside_try(ck_beside *beside, ck_work *work, void *context) {
  sigset_t all, before;
  memset(beside, 0, sizeof *beside);
  beside->work = work;
  beside->context = context;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  beside->running = pthread_create(&beside->thread, NULL, run, beside) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return beside->running;
}

void ck_beside_start(ck_beside *beside, ck_work *work, void *context) {
  if (!ck_beside_try(beside, work, context)) run(beside);
}

ckpt_status ck_beside_join(ck_beside *beside, ckpt_error *error) {
  if (beside->running) pthread_join(beside->thread, NULL);
  beside->running = false;
  if (beside->status != CKPT_OK && error) *error = beside->error;
  return beside->status;
}
