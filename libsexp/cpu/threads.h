/* A pool of threads. Units of work are fixed by the caller, and each thread has a fixed share of them, which it begins
 * with; who is done helps the others. What a unit computes never depends on who computes it, nor on the number of
 * threads, so bits do not. */
#ifndef SX_CPU_THREADS_H
#define SX_CPU_THREADS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct sx_pool sx_pool;
typedef void sx_parallel(void *context, int64_t begin, int64_t end, int thread);

/* n_threads of 1 makes no thread. NULL: threads could not be started. */
sx_pool *sx_pool_new(int n_threads);
void sx_pool_free(sx_pool *pool);
int sx_pool_threads(const sx_pool *pool); /* 1 for NULL */
/* Binds each worker to a processor of its own, of those that the process may use, without the first: that is left to
 * the caller, who is not bound, since threads that it starts would inherit this. False: there are fewer processors than
 * threads, or the system does not do it; nothing is bound then. */
bool sx_pool_pin(sx_pool *pool);
/* Calls function on ranges that cut [0, n) at multiples of grain, several a thread, on a thread one after the other;
 * returns when all are done. Calls from one thread at a time, not from inside a part. */
void sx_pool_run(sx_pool *pool, int64_t n, int64_t grain, sx_parallel *function, void *context);
/* Zeroes so many bytes, each thread its share. */
void sx_pool_zero(sx_pool *pool, void *memory, int64_t n_bytes);
/* Processors that this process may use. */
int sx_pool_processors(void);

#endif
