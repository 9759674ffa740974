/* What sexpgpu-doctor looks at, and what it finds. A check looks at one thing and ends with one finding (a few with
 * several); no check changes what it looks at. */
#ifndef DOCTOR_H
#define DOCTOR_H

#include "../common/credentials.h"

typedef enum doctor_state { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL } doctor_state;

typedef struct doctor_finding {
  doctor_state state;
  const char *name;
  char *found, *facts; /* words; a JSON object; owned */
  const char *advice;  /* what to do; NULL: nothing */
} doctor_finding;

typedef struct doctor {
  tool_credentials credentials;
  const char *verify;  /* a record; NULL: everything else is looked at */
  bool as_json, quiet; /* quiet: no line for what is well */
  doctor_finding *findings;
  size_t n, room;
  const char *name; /* of the finding at work */
  ckpt_json *facts; /* its object, open: a check writes members to it */
} doctor;

/* Between the two a check writes what programs may want to know. */
void doctor_begin(doctor *d, const char *name);
void doctor_end(doctor *d, doctor_state state, const char *advice, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Members of the object at work; text NULL, and a number below 0: null. */
void doctor_fact(doctor *d, const char *key, const char *text);
void doctor_fact_number(doctor *d, const char *key, int64_t number);
void doctor_fact_bool(doctor *d, const char *key, bool value);

/* Printed text, owned; ends the process where there is no memory. */
char *doctor_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* `list` with a separator and the item after it, owned in its place. */
void doctor_add(char **list, const char *separator, const char *item);

void doctor_check_processor(doctor *d);
void doctor_check_memory(doctor *d);
void doctor_check_store(doctor *d);
void doctor_check_libraries(doctor *d);
/* The endpoints' clocks are compared with this one, so the clock is looked at with them. */
void doctor_check_storage(doctor *d);
void doctor_check_scratch(doctor *d);
void doctor_check_variables(doctor *d);

#endif
