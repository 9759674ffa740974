#include "syvain.h"

#include <math.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "failure.h"
#include "syvain_batch.h"
#include "syvain_post.h"
#include "syvain_spill.h"

enum { MOST_ATTEMPTS = 8, LAST_ATTEMPTS = 3, SAY_AFTER = 3 };
/* A batch waits for more records; the end of a run for the service; pauses double up to the longest; files that are
 * kept are offered again. */
static const double gather_s = 1, end_s = 5, first_pause_s = 0.25, longest_pause_s = 30, last_pause_s = 1, again_s = 10;

struct tool_syvain {
  tool_syvain_settings settings;
  pthread_t thread;
  atomic_bool cancel; /* the end has waited for long enough */

  pthread_mutex_t mutex; /* of these */
  pthread_cond_t arrived, changed;
  tool_queue queue;
  tool_spill spill;
  int64_t n_lost;
  double deadline_s;
  bool ending, ended;
  bool is_kept;   /* batches lie in files, as far as is known */
  bool is_due;    /* some of them were not refused: they are offered again when the service is there */
  bool said_lost; /* each kind of warning is said once */

  tool_poster poster; /* these are the thread's */
  int n_failures;     /* one after another */
  double again_at_s;
  bool is_there;     /* the last batch was taken */
  bool is_forbidden; /* no batch ever will be */
  bool gave_up;      /* at the end */
  bool said_away, said_refused;
};

static void warn(const ckpt_error *error) { fprintf(stderr, "warning: %s: %s\n", error->code, error->message); }

/* With the mutex. False: it is that time. */
static bool wait_until(tool_syvain *s, pthread_cond_t *condition, double until_s) {
  struct timespec at = {.tv_sec = (time_t)until_s, .tv_nsec = (long)(fmod(until_s, 1) * 1e9)};
  pthread_cond_timedwait(condition, &s->mutex, &at);
  return tool_clock_s() < until_s;
}

/* ---- one request ---- */

static void say(tool_syvain *s, tool_posted posted) {
  ckpt_error error;
  bool refused = posted != TOOL_POST_AWAY, *said = refused ? &s->said_refused : &s->said_away;
  if (*said) return;
  *said = true;
  tool_error(&error, refused ? TOOL_E_SYVAIN_REFUSED : TOOL_E_SYVAIN_AWAY, "%s: %s; the run goes on, and %s",
             s->settings.server, s->poster.words,
             posted == TOOL_POST_FORBIDDEN ? "its records are kept in a file"
             : refused                     ? "the batch is kept in a file"
                                           : "its records are sent later");
  warn(&error);
}

static tool_posted post(tool_syvain *s, const char *body, size_t n_bytes) {
  tool_posted posted = tool_poster_post(&s->poster, body, n_bytes);
  bool is_away = posted == TOOL_POST_AWAY;
  if (is_away && atomic_load(&s->cancel)) return posted;
  s->is_there = posted == TOOL_POST_ACCEPTED;
  s->n_failures = is_away ? s->n_failures + 1 : 0;
  s->is_forbidden |= posted == TOOL_POST_FORBIDDEN;
  if (is_away ? s->n_failures >= SAY_AFTER : !s->is_there) say(s, posted);
  return posted;
}

/* ---- keeping ---- */

/* With the mutex. Frees the batch. */
static void keep(tool_syvain *s, tool_batch *batch, bool is_due) {
  ckpt_error error;
  if (tool_spill_add(&s->spill, batch->text, batch->n_bytes, &error) == CKPT_OK) {
    s->is_kept = true;
    s->is_due |= is_due;
  } else {
    s->n_lost += (int64_t)batch->n_records;
    if (!s->said_lost) warn(&error);
    s->said_lost = true;
  }
  tool_batch_free(batch);
}

static tool_sending send_line(void *context, const char *line, size_t n_bytes) {
  tool_syvain *s = context;
  if (s->is_forbidden || atomic_load(&s->cancel)) return TOOL_STOP;
  tool_posted posted = post(s, line, n_bytes);
  if (posted == TOOL_POST_ACCEPTED) return TOOL_SENT;
  return posted == TOOL_POST_REFUSED ? TOOL_LEFT : TOOL_STOP;
}

/* Offers what lies in files that nobody holds: of processes that ended, and what this one has kept until now. */
static void send_kept(tool_syvain *s) {
  pthread_mutex_lock(&s->mutex);
  tool_spill_file file = tool_spill_take(&s->spill);
  s->is_kept = s->is_due = false;
  pthread_mutex_unlock(&s->mutex);
  tool_spill_file_end(&file); /* the disk may take its time, and the run needs the mutex */
  tool_sending sent = tool_spill_send(&s->spill, send_line, s);
  if (sent == TOOL_STOP) s->again_at_s = tool_clock_s() + again_s;
  pthread_mutex_lock(&s->mutex);
  s->is_kept |= sent != TOOL_SENT;
  s->is_due |= sent == TOOL_STOP;
  pthread_mutex_unlock(&s->mutex);
}

/* What is kept is older than what waits. */
static void send_kept_again(tool_syvain *s) {
  pthread_mutex_lock(&s->mutex);
  bool is_due = s->is_due && (s->ending || tool_clock_s() >= s->again_at_s);
  pthread_mutex_unlock(&s->mutex);
  if (is_due && s->is_there) send_kept(s);
}

/* ---- the thread ---- */

/* Half of a pause is drawn, so that many runs do not come at once. */
static double pause_of(const tool_syvain *s) {
  unsigned char drawn = 0;
  RAND_bytes(&drawn, 1);
  double pause = fmin(ldexp(first_pause_s, s->n_failures - 1), s->ending ? last_pause_s : longest_pause_s);
  return fmax(s->poster.wait_s, pause * (0.5 + drawn / 512.0));
}

/* Before another attempt; false: there is none. A pause ends when the run does, for a last attempt. */
static bool pause_after(tool_syvain *s, int n_attempts) {
  pthread_mutex_lock(&s->mutex);
  bool was_ending = s->ending;
  double until_s = tool_clock_s() + pause_of(s);
  bool goes_on = n_attempts < (was_ending ? LAST_ATTEMPTS : MOST_ATTEMPTS) && !atomic_load(&s->cancel) &&
                 (!was_ending || until_s < s->deadline_s);
  while (goes_on && s->ending == was_ending && wait_until(s, &s->changed, until_s)) continue;
  s->gave_up |= s->ending && !goes_on;
  pthread_mutex_unlock(&s->mutex);
  return goes_on;
}

static void deliver(tool_syvain *s, tool_batch *batch) {
  tool_posted posted = TOOL_POST_AWAY;
  bool goes_on = !s->is_forbidden && !s->gave_up && !atomic_load(&s->cancel);
  for (int n_attempts = 1; goes_on; n_attempts++) {
    posted = post(s, batch->text, batch->n_bytes);
    goes_on = posted == TOOL_POST_AWAY && pause_after(s, n_attempts);
  }
  if (posted == TOOL_POST_ACCEPTED) {
    tool_batch_free(batch);
    return;
  }
  pthread_mutex_lock(&s->mutex);
  keep(s, batch, posted == TOOL_POST_AWAY);
  pthread_mutex_unlock(&s->mutex);
}

/* The next batch when it is worth a request; NULL: the run has ended and all is taken. */
static tool_batch *take(tool_syvain *s) {
  pthread_mutex_lock(&s->mutex);
  while (!s->ending && !tool_queue_is_due(&s->queue, gather_s)) {
    const tool_batch *first = s->queue.first;
    wait_until(s, &s->arrived, first ? first->begun_s + gather_s : tool_clock_s() + 60);
  }
  tool_batch *batch = tool_queue_take(&s->queue);
  pthread_mutex_unlock(&s->mutex);
  return batch;
}

static void *send_all(void *context) {
  tool_syvain *s = context;
  send_kept(s);
  for (tool_batch *batch; (batch = take(s));) {
    send_kept_again(s);
    deliver(s, batch);
  }
  send_kept_again(s);
  pthread_mutex_lock(&s->mutex);
  s->ended = true;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->mutex);
  return NULL;
}

/* Signals are the main thread's, and none is raised here by a connection that was closed. */
static bool start_thread(tool_syvain *s) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = pthread_create(&s->thread, NULL, send_all, s) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return started;
}

/* ---- open, write, close ---- */

static void init_locks(tool_syvain *s) {
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_mutex_init(&s->mutex, NULL);
  pthread_cond_init(&s->arrived, &monotonic);
  pthread_cond_init(&s->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
}

static void free_all(tool_syvain *s) {
  tool_batch *batch;
  while ((batch = tool_queue_take(&s->queue))) tool_batch_free(batch);
  if (s->poster.handle) tool_poster_close(&s->poster);
  tool_spill_free(&s->spill);
  pthread_cond_destroy(&s->arrived);
  pthread_cond_destroy(&s->changed);
  pthread_mutex_destroy(&s->mutex);
  free(s);
}

tool_syvain *tool_syvain_open(const tool_syvain_settings *settings) {
  tool_syvain *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->settings = *settings;
  init_locks(s);
  if (tool_queue_init(&s->queue, s->settings.folder) && tool_spill_init(&s->spill, &s->settings, s->queue.stream) &&
      tool_poster_open(&s->poster, &s->settings, &s->cancel) && start_thread(s))
    return s;
  free_all(s);
  return NULL;
}

void tool_syvain_write(tool_syvain *syvain, const char *run, const char *line, size_t n_bytes) {
  pthread_mutex_lock(&syvain->mutex);
  bool was_empty = !syvain->queue.first;
  tool_queue_add(&syvain->queue, run, line, n_bytes);
  if (tool_queue_is_full(&syvain->queue)) keep(syvain, tool_queue_take(&syvain->queue), true);
  if (was_empty || tool_queue_is_due(&syvain->queue, gather_s)) pthread_cond_signal(&syvain->arrived);
  pthread_mutex_unlock(&syvain->mutex);
}

static void end_thread(tool_syvain *s) {
  pthread_mutex_lock(&s->mutex);
  s->ending = true;
  s->deadline_s = tool_clock_s() + end_s;
  pthread_cond_broadcast(&s->arrived);
  pthread_cond_broadcast(&s->changed);
  while (!s->ended && wait_until(s, &s->changed, s->deadline_s)) continue;
  atomic_store(&s->cancel, true);
  pthread_mutex_unlock(&s->mutex);
  pthread_join(s->thread, NULL);
}

static void say_rest(const tool_syvain *s) {
  ckpt_error error;
  int64_t n_lost = s->n_lost + s->queue.n_lost;
  if (s->is_kept) {
    tool_error(&error, TOOL_E_SYVAIN_AWAY,
               "%s: what it has not taken is kept in %s; the next run with its URL and folder sends it",
               s->settings.server, s->spill.directory);
    warn(&error);
  }
  if (n_lost > 0) {
    tool_error(&error, TOOL_E_SYVAIN_LOST, "%s: %lld records were neither taken nor kept", s->settings.server,
               (long long)n_lost);
    warn(&error);
  }
}

void tool_syvain_close(tool_syvain *syvain) {
  if (!syvain) return;
  end_thread(syvain);
  tool_spill_file file = tool_spill_take(&syvain->spill);
  tool_spill_file_end(&file);
  say_rest(syvain);
  free_all(syvain);
}
