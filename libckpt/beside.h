/* Work in a thread beside the caller's, joined before the library's function returns. */
#ifndef CK_BESIDE_H
#define CK_BESIDE_H

#include <pthread.h>

#include "ckpt.h"

typedef ckpt_status ck_work(void *context, ckpt_error *error);

typedef struct ck_beside {
  pthread_t thread;
  bool running;
  ck_work *work;
  void *context;
  ckpt_status status;
  ckpt_error error;
} ck_beside;

/* Starts work(context) in a thread that no signal is delivered to. False: none can be started. The struct stays where
 * it is until the join. */
bool ck_beside_try(ck_beside *beside, ck_work *work, void *context);
/* The same; where no thread can be started, works before it returns. */
void ck_beside_start(ck_beside *beside, ck_work *work, void *context);
/* Waits for it; its status and error. */
ckpt_status ck_beside_join(ck_beside *beside, ckpt_error *error);

#endif
