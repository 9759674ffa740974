/* Object storage by role: which variable gives each value, whether the server takes the signature, and how far its
 * clock is from this one. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "../common/clock.h"
#include "doctor.h"

enum { MOST_SKEW_S = 300 };

/* The answers of the endpoints, for the clock. */
typedef struct skew {
  bool known;
  int64_t seconds; /* this clock minus the server's: the largest either way */
} skew;

static const char *const names[TOOL_N_ROLES] = {[TOOL_DATA] = "s3 data", [TOOL_CHECKPOINT] = "s3 checkpoint"};
static const char *const members[TOOL_N_CREDENTIALS] = {"access_key_id", "secret_access_key", "endpoint_url", "region",
                                                        "session_token", "addressing",        "ca_bundle"};

/* The variables that give the values; NULL: none of the needed ones is set. */
static char *list_origins(doctor *d, tool_role role) {
  tool_origin origins[TOOL_N_CREDENTIALS];
  char *list = NULL;
  bool any = false;
  tool_credentials_describe(origins, &d->credentials, role);
  ckpt_json_key(d->facts, "variables"), ckpt_json_begin_object(d->facts);
  for (int which = 0; which < TOOL_N_CREDENTIALS; which++) {
    doctor_fact(d, members[which], origins[which].set ? origins[which].variable : NULL);
    if (!origins[which].set) continue;
    any = any || origins[which].needed;
    doctor_add(&list, ", ", origins[which].variable);
  }
  ckpt_json_end_object(d->facts);
  if (!any) free(list);
  return any ? list : NULL;
}

static void note_skew(skew *clock, const ckpt_s3_proof *proof) {
  if (!proof->server_s) return;
  int64_t seconds = (int64_t)time(NULL) - proof->server_s;
  if (!clock->known || llabs(seconds) > llabs(clock->seconds)) clock->seconds = seconds;
  clock->known = true;
}

static const char *advice_of(const ckpt_error *error) {
  return error->hint && error->hint[0] ? error->hint : "docs/errors.md says more of it";
}

static void prove(doctor *d, ckpt_s3 *s3, const char *origins, skew *clock) {
  ckpt_s3_proof proof;
  ckpt_error error;
  double begun_s = tool_clock_s();
  ckpt_status status = ckpt_s3_prove(&proof, s3, &error);
  double answered_ms = (tool_clock_s() - begun_s) * 1000;
  note_skew(clock, &proof);
  doctor_fact_bool(d, "proved", status == CKPT_OK);
  ckpt_json_key(d->facts, "answered_ms"), ckpt_json_real64(d->facts, answered_ms);
  doctor_fact(d, "error", status == CKPT_OK ? NULL : error.code);
  if (status == CKPT_OK)
    doctor_end(d, DOCTOR_OK, NULL, "%s; signed request answered in %.0f ms%s", origins, answered_ms,
               proof.may_list ? "" : " (the key may not list buckets)");
  else
    doctor_end(d, DOCTOR_FAIL, advice_of(&error), "%s; %s: %s", origins, error.code, error.message);
}

static void check_role(doctor *d, tool_role role, skew *clock) {
  char missing[TOOL_MISSING_TEXT];
  ckpt_error error;
  ckpt_s3 *s3 = NULL;
  doctor_begin(d, names[role]);
  char *origins = list_origins(d, role);
  if (!origins)
    doctor_end(d, DOCTOR_OK, NULL, "not set; s3:// names of this role are refused");
  else if (tool_credentials_missing(missing, &d->credentials, role))
    doctor_end(d, DOCTOR_FAIL, "set it, or unset the others", "%s", missing);
  else if (tool_credentials_client(&s3, &d->credentials, role, "s3://", &error) != CKPT_OK)
    doctor_end(d, DOCTOR_FAIL, advice_of(&error), "%s: %s", error.code, error.message);
  else
    prove(d, s3, origins, clock);
  free(origins);
}

/* ---- the clock ---- */

static const char *direction(int64_t seconds) { return seconds < 0 ? "behind" : "ahead of"; }

static void check_clock(doctor *d, const skew *clock) {
  static const char advice[] = "set this machine's clock: signed requests expire, and records bear its time";
  char now[32];
  struct stat program;
  tool_clock_text(now);
  doctor_begin(d, "clock");
  doctor_fact(d, "now", now);
  ckpt_json_key(d->facts, "skew_s");
  if (clock->known)
    ckpt_json_integer(d->facts, clock->seconds);
  else
    ckpt_json_null(d->facts);
  bool built_later = stat("/proc/self/exe", &program) == 0 && program.st_mtime > time(NULL) + 1;
  if (clock->known && llabs(clock->seconds) > MOST_SKEW_S)
    doctor_end(d, DOCTOR_FAIL, advice, "%s, %lld s %s the S3 endpoint's", now, llabs(clock->seconds),
               direction(clock->seconds));
  else if (built_later)
    doctor_end(d, DOCTOR_FAIL, advice, "%s, before this program was built", now);
  else if (clock->known)
    doctor_end(d, DOCTOR_OK, NULL, "%s, within %lld s of the S3 endpoint's", now, llabs(clock->seconds) + 1);
  else
    doctor_end(d, DOCTOR_OK, NULL, "%s, after this program was built; compared with no server", now);
}

void doctor_check_storage(doctor *d) {
  skew clock = {false, 0};
  for (int role = 0; role < TOOL_N_ROLES; role++) check_role(d, (tool_role)role, &clock);
  check_clock(d, &clock);
}
