/* experiment.json. Its last member, "seal", is the SHA-256 of all that stands before it. */
#ifndef CK_EXPERIMENT_H
#define CK_EXPERIMENT_H

#include "ckpt.h"
#include "error.h"
#include "folder.h"

enum { CK_EXPERIMENT_VERSION = 1, CK_SEAL_BYTES = 13 + 71 + 4 };

/* Whether a member of the outermost object is one that this version knows. */
bool ck_experiment_is_member(const char *key);

/* ",\n  \"seal\": \"sha256:…\"\n}\n": what follows the n bytes that are sealed. */
ckpt_status ck_seal(char out[CK_SEAL_BYTES + 1], const char *text, size_t n, ckpt_error *error);

/* The text of experiment.json. Arrays are listed in order of their paths. Errors: E-CKPT-005, E-CKPT-006. */
ckpt_status ck_experiment_text(char **out, size_t *n_out, const ckpt_experiment *experiment, ckpt_error *error);

/* What is read from one; the public part comes first. */
typedef struct ck_experiment ck_experiment;
const ckpt_experiment *ck_experiment_public(const ck_experiment *experiment);

/* The text of one that ck_experiment_open read. */
const char *ck_experiment_source(const ck_experiment *experiment, size_t *n_out);

/* Reads experiment.json of a folder. Errors: E-CKPT-007 to E-CKPT-010. */
ckpt_status ck_experiment_open(ck_experiment **out, const ck_folder *folder, ckpt_error *error);
ckpt_status ck_experiment_parse(ck_experiment **out, const char *path, const char *text, size_t n_bytes,
                                ckpt_error *error);
void ck_experiment_free(ck_experiment *experiment);

#endif
