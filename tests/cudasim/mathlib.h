/* What the stand-ins of cuBLAS, cuBLASLt and cuDNN share. */
#ifndef SIM_MATHLIB_H
#define SIM_MATHLIB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reports every setting that begins with `prefix` ("cublas.") and is none of `names`, and every one that begins with
 * "speed." and `prefix` and names no engine. The first call of a process does; NULL: any engine. */
void sim_settings_expect(const char *prefix, const char *const *names, size_t n_names,
                         bool (*is_engine)(const char *name));

/* Whether `item` stands in the comma-separated list that is the setting's value. */
bool sim_setting_lists(const char *setting, const char *item);

/* A setting of the form STATUS@N: the status that the N-th call gets, from 1 on; 0 for all others. *n_calls counts. */
int sim_setting_failure(const char *setting, int64_t *n_calls);

/* Whether two pieces of memory have a byte in common. */
bool sim_overlap(const void *x, size_t n_x, const void *y, size_t n_y);

/* ---- objects that must be given back ---- */

typedef struct sim_owned {
  struct sim_owned *previous, *next;
  const char *kind; /* "handle" */
} sim_owned;

/* Objects of one library. A destroyed one is forgotten: what is not in the list is not valid. */
typedef struct sim_owned_list {
  sim_owned first; /* of a ring; all zero at the start */
} sim_owned_list;

void sim_owned_add(sim_owned_list *objects, sim_owned *object, const char *kind);
void sim_owned_remove(sim_owned_list *objects, sim_owned *object);
bool sim_owned_is(sim_owned_list *objects, const void *object, const char *kind);
/* One violation a kind that has some left: "2 handles were not destroyed". */
void sim_owned_end(sim_owned_list *objects, const char *library);

#endif
