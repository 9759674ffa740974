/* A pool of threads with a static partition: part p of n is always the same work. What a part computes
 * never depends on the number of threads, so bits do not. */
#ifndef SX_CPU_THREADS_H
#define SX_CPU_THREADS_H

#include <stdint.h>

typedef struct sx_pool sx_pool;
typedef void sx_parallel(void *context, int64_t begin, int64_t end, int thread);

/* n_threads of 1 makes no thread. NULL: threads could not be started. */
sx_pool *sx_pool_new(int n_threads);
void sx_pool_free(sx_pool *pool);
int sx_pool_threads(const sx_pool *pool); /* 1 for NULL */
/* Calls function on ranges that cut [0, n) at multiples of grain, one range a thread at most; returns
 * when all are done. Calls from one thread at a time, not from inside a part. */
void sx_pool_run(sx_pool *pool, int64_t n, int64_t grain, sx_parallel *function, void *context);
/* Processors that this process may use. */
int sx_pool_processors(void);

#endif
