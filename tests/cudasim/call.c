/* The lock, the call that is running, violations and how the process ends. */
#define _GNU_SOURCE /* a recursive mutex by its initializer */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "driver.h"

enum { STATUS_OF_VIOLATIONS = 86, MOST_LISTED = 100 };

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static bool initialized;
static pid_t process; /* a child that is forked ends without a word */
static unsigned n_violations;
static _Thread_local const char *current_call = "cudasim";
static _Thread_local unsigned depth;

void sim_lock(void) { pthread_mutex_lock(&lock); }
void sim_unlock(void) { pthread_mutex_unlock(&lock); }

static void report(const char *call, const char *format, va_list arguments) {
  if (++n_violations == MOST_LISTED + 1) fputs("cudasim: there are more mistakes, which are not listed\n", stderr);
  if (n_violations > MOST_LISTED) return;
  char text[1024];
  vsnprintf(text, sizeof text, format, arguments);
  if (call)
    fprintf(stderr, "cudasim: %s: %s\n", call, text);
  else
    fprintf(stderr, "cudasim: %s\n", text);
}

void sim_violation(const char *format, ...) {
  pthread_mutex_lock(&lock);
  va_list arguments;
  va_start(arguments, format);
  report(NULL, format, arguments);
  va_end(arguments);
  pthread_mutex_unlock(&lock);
}

/* "cuMemAlloc" of cuMemAlloc_v2: what the source of a program says. */
const char *sim_call_name(void) {
  static _Thread_local char name[80];
  snprintf(name, sizeof name, "%s", current_call);
  char *end = strrchr(name, '_');
  if (end && end[1] == 'v' && end[2] >= '0' && end[2] <= '9') *end = 0;
  return name;
}

CUresult sim_refuse(CUresult status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  report(sim_call_name(), format, arguments);
  va_end(arguments);
  return status;
}

void sim_initialize(void) {
  initialized = true;
  process = getpid();
}

static CUresult allowed(sim_needs needs) {
  if (needs == SIM_NEEDS_NOTHING) return CUDA_SUCCESS;
  if (!initialized) return sim_refuse(CUDA_ERROR_NOT_INITIALIZED, "called before cuInit");
  if (needs == SIM_NEEDS_INIT) return CUDA_SUCCESS;
  if (!sim_context_current())
    return sim_refuse(CUDA_ERROR_INVALID_CONTEXT, "the calling thread has no current context");
  return sim_context_error(sim_context_device());
}

sim_call sim_enter(const char *name, sim_needs needs) {
  pthread_mutex_lock(&lock);
  sim_settings_ready();
  if (depth++ == 0) current_call = name;
  return (sim_call){allowed(needs)};
}

void sim_leave(sim_call *call) {
  (void)call;
  if (depth == 1 && sim_order_of_settings() == SIM_ORDER_EAGER) sim_run_all();
  depth--;
  pthread_mutex_unlock(&lock);
}

/* When the process ends, or the library is closed. */
__attribute__((destructor)) static void end(void) {
  if (process && process != getpid()) return;
  current_call = "exit";
  sim_context_end();
  if (n_violations == 0 || !sim_violations_end()) return;
  fflush(NULL);
  _exit(STATUS_OF_VIOLATIONS);
}
