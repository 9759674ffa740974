/* Credentials of object storage by role. Every variable is read once, at start; a role's client is made when the first
 * s3:// name of that role is met, and what it lacks is an error only then. No function here shows a secret's value. */
#ifndef TOOL_CREDENTIALS_H
#define TOOL_CREDENTIALS_H

#include <stdio.h>

#include "../../libckpt/ckpt.h"

typedef enum tool_role {
  TOOL_DATA,       /* data sources, manifests, weights: SEXPGPU_DATA_AWS_... */
  TOOL_CHECKPOINT, /* checkpoints and their locations: SEXPGPU_CHECKPOINT_AWS_... */
  TOOL_N_ROLES
} tool_role;

typedef enum tool_credential {
  TOOL_ACCESS_KEY_ID,
  TOOL_SECRET_ACCESS_KEY,
  TOOL_ENDPOINT_URL,
  TOOL_REGION, /* a role needs those up to here */
  TOOL_SESSION_TOKEN,
  TOOL_ADDRESSING,
  TOOL_CA_BUNDLE,
  TOOL_N_CREDENTIALS
} tool_credential;

/* Where a value comes from. */
typedef struct tool_origin {
  char variable[64]; /* the one that gives it; the role's own where none does */
  bool set, needed;
} tool_origin;

typedef struct tool_credentials {
  struct tool_value {
    const char *text; /* borrowed from the environment; NULL: set nowhere */
    int form;         /* which of the three forms of its variable gave it */
  } values[TOOL_N_ROLES][TOOL_N_CREDENTIALS];
  const char *scratch; /* TMPDIR, or NULL */
  ckpt_s3 *clients[TOOL_N_ROLES];
} tool_credentials;

/* Reads the environment. */
void tool_credentials_read(tool_credentials *credentials);
void tool_credentials_free(tool_credentials *credentials);

/* The client that `name` is reached with: NULL for a local name or NULL, else the role's, made at the first call.
 * Errors: E-ENV-001 (a malformed value), E-S3-020 (missing ones). */
ckpt_status tool_credentials_client(ckpt_s3 **out, tool_credentials *credentials, tool_role role, const char *name,
                                    ckpt_error *error);

/* Which variable gives each value of a role, and whether it is set. */
void tool_credentials_describe(tool_origin out[TOOL_N_CREDENTIALS], const tool_credentials *credentials,
                               tool_role role);

/* Says what a role lacks of the values it needs, with the variables that would give each; their number. */
enum { TOOL_MISSING_TEXT = 1024 };
int tool_credentials_missing(char out[TOOL_MISSING_TEXT], const tool_credentials *credentials, tool_role role);

/* Whether a variable of that name gives a value of any role. */
bool tool_credentials_reads(const char *variable);

/* A line of the verbose report: the endpoint, and the variables that gave the rest. Nothing for a role without a
 * client. */
void tool_credentials_print(const tool_credentials *credentials, tool_role role, FILE *to);

#endif
