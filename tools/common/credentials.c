#include "credentials.h"

#include <stdlib.h>
#include <string.h>

#include "failure.h"

enum { N_FORMS = 3, N_NEEDED = TOOL_REGION + 1 };

static const char *const role_names[TOOL_N_ROLES] = {"data", "checkpoint"};

/* The forms of a variable, the most specific first. */
static const char *const forms[TOOL_N_ROLES][N_FORMS] = {{"SEXPGPU_DATA_AWS_", "SEXPGPU_AWS_", "AWS_"},
                                                         {"SEXPGPU_CHECKPOINT_AWS_", "SEXPGPU_AWS_", "AWS_"}};

static const struct {
  const char *name;
  int n_forms; /* the first so many exist */
} credentials_table[TOOL_N_CREDENTIALS] = {
    {"ACCESS_KEY_ID", N_FORMS}, {"SECRET_ACCESS_KEY", N_FORMS}, {"ENDPOINT_URL", N_FORMS}, {"REGION", N_FORMS},
    {"SESSION_TOKEN", N_FORMS}, {"ADDRESSING", N_FORMS - 1},    {"CA_BUNDLE", N_FORMS}};

static const char *variable_of(char out[64], tool_role role, tool_credential which, int form) {
  snprintf(out, 64, "%s%s", forms[role][form], credentials_table[which].name);
  return out;
}

/* ---- reading ---- */

static void read_value(tool_credentials *credentials, tool_role role, tool_credential which, int n_forms) {
  char variable[64];
  for (int form = 0; form < n_forms; form++) {
    const char *text = getenv(variable_of(variable, role, which, form));
    if (!text) continue;
    credentials->values[role][which].text = text;
    credentials->values[role][which].form = form;
    return;
  }
}

/* A session token belongs to its key: one of a less specific form than the key's is another key's. */
static void read_role(tool_credentials *credentials, tool_role role) {
  for (int which = 0; which < TOOL_N_CREDENTIALS; which++) {
    int n_forms = credentials_table[which].n_forms;
    if (which == TOOL_SESSION_TOKEN) n_forms = credentials->values[role][TOOL_ACCESS_KEY_ID].form + 1;
    read_value(credentials, role, (tool_credential)which, n_forms);
  }
}

void tool_credentials_read(tool_credentials *credentials) {
  const char *scratch = getenv("TMPDIR");
  *credentials = (tool_credentials){.scratch = scratch && scratch[0] ? scratch : NULL};
  for (int role = 0; role < TOOL_N_ROLES; role++) read_role(credentials, (tool_role)role);
}

void tool_credentials_free(tool_credentials *credentials) {
  for (int role = 0; role < TOOL_N_ROLES; role++) ckpt_s3_free(credentials->clients[role]);
  *credentials = (tool_credentials){0};
}

/* ---- checking ---- */

static bool is_graphic(const char *text) {
  for (const unsigned char *c = (const unsigned char *)text; *c; c++)
    if (*c <= ' ' || *c >= 0x7f) return false;
  return true;
}

/* What a value must look like, or NULL where it does. */
static const char *expected_of(tool_credential which, const char *text) {
  bool url = strncmp(text, "http://", 7) == 0 || strncmp(text, "https://", 8) == 0;
  if (!text[0]) return "a value, or the variable unset";
  if (which == TOOL_ADDRESSING) return !strcmp(text, "path") || !strcmp(text, "virtual") ? NULL : "path or virtual";
  if (which == TOOL_ENDPOINT_URL && !url) return "http://HOST[:PORT] or https://HOST[:PORT]";
  if (which == TOOL_REGION && strchr(text, '/')) return "a name without a slash";
  if (which == TOOL_ACCESS_KEY_ID && strchr(text, '/')) return "a name without a slash";
  return which == TOOL_CA_BUNDLE || is_graphic(text) ? NULL : "printable ASCII without spaces";
}

/* The values themselves are not shown: one may have been pasted into the wrong variable. */
static ckpt_status check_values(const tool_credentials *credentials, tool_role role, ckpt_error *error) {
  for (int which = 0; which < TOOL_N_CREDENTIALS; which++) {
    const struct tool_value *value = &credentials->values[role][which];
    const char *expected = value->text ? expected_of((tool_credential)which, value->text) : NULL;
    char variable[64];
    if (!expected) continue;
    return tool_error(error, TOOL_E_ENV_VALUE, "%s: found %zu bytes that are something else, expected %s",
                      variable_of(variable, role, (tool_credential)which, value->form), strlen(value->text), expected);
  }
  return CKPT_OK;
}

int tool_credentials_missing(char out[TOOL_MISSING_TEXT], const tool_credentials *credentials, tool_role role) {
  char own[64], shared[64], plain[64];
  int n = 0;
  out[0] = 0;
  for (int which = 0; which < N_NEEDED; which++) {
    size_t used = strlen(out);
    if (credentials->values[role][which].text) continue;
    snprintf(out + used, TOOL_MISSING_TEXT - used, "%s%s is set nowhere: %s, %s or %s", n++ ? "; " : "",
             credentials_table[which].name, variable_of(own, role, (tool_credential)which, 0),
             variable_of(shared, role, (tool_credential)which, 1), variable_of(plain, role, (tool_credential)which, 2));
  }
  return n;
}

static ckpt_status check_missing(const tool_credentials *credentials, tool_role role, const char *name,
                                 ckpt_error *error) {
  char missing[TOOL_MISSING_TEXT];
  if (!tool_credentials_missing(missing, credentials, role)) return CKPT_OK;
  return tool_error(error, TOOL_E_S3_MISSING, "%.600s: role %s: %s", name, role_names[role], missing);
}

/* ---- clients ---- */

/* An endpoint that the client refuses is told with the variable that it came from. */
static ckpt_status make_client(tool_credentials *credentials, tool_role role, ckpt_error *error) {
  const struct tool_value *values = credentials->values[role];
  const char *addressing = values[TOOL_ADDRESSING].text;
  const ckpt_s3_options options = {.access_key_id = values[TOOL_ACCESS_KEY_ID].text,
                                   .secret_access_key = values[TOOL_SECRET_ACCESS_KEY].text,
                                   .session_token = values[TOOL_SESSION_TOKEN].text,
                                   .endpoint_url = values[TOOL_ENDPOINT_URL].text,
                                   .region = values[TOOL_REGION].text,
                                   .addressing = !addressing                       ? CKPT_S3_AUTO
                                                 : strcmp(addressing, "path") == 0 ? CKPT_S3_PATH
                                                                                   : CKPT_S3_VIRTUAL,
                                   .ca_file = values[TOOL_CA_BUNDLE].text,
                                   .scratch = credentials->scratch};
  ckpt_error own;
  char variable[64];
  ckpt_status status = ckpt_s3_new(&credentials->clients[role], &options, &own);
  if (status == CKPT_OK) return status;
  if (strcmp(own.code, "E-S3-003") == 0)
    return tool_error(error, TOOL_E_ENV_VALUE, "%s: %s",
                      variable_of(variable, role, TOOL_ENDPOINT_URL, values[TOOL_ENDPOINT_URL].form), own.message);
  *error = own;
  return status;
}

ckpt_status tool_credentials_client(ckpt_s3 **out, tool_credentials *credentials, tool_role role, const char *name,
                                    ckpt_error *error) {
  *out = NULL;
  if (!name || strncmp(name, "s3://", 5) != 0) return CKPT_OK;
  ckpt_status status = CKPT_OK;
  if (!credentials->clients[role]) {
    status = check_values(credentials, role, error);
    if (status == CKPT_OK) status = check_missing(credentials, role, name, error);
    if (status == CKPT_OK) status = make_client(credentials, role, error);
  }
  *out = credentials->clients[role];
  return status;
}

/* ---- telling ---- */

void tool_credentials_describe(tool_origin out[TOOL_N_CREDENTIALS], const tool_credentials *credentials,
                               tool_role role) {
  for (int which = 0; which < TOOL_N_CREDENTIALS; which++) {
    const struct tool_value *value = &credentials->values[role][which];
    variable_of(out[which].variable, role, (tool_credential)which, value->form);
    out[which].set = value->text != NULL;
    out[which].needed = which < N_NEEDED;
  }
}

bool tool_credentials_reads(const char *variable) {
  char name[64];
  for (int role = 0; role < TOOL_N_ROLES; role++)
    for (int which = 0; which < TOOL_N_CREDENTIALS; which++)
      for (int form = 0; form < credentials_table[which].n_forms; form++)
        if (strcmp(variable_of(name, (tool_role)role, (tool_credential)which, form), variable) == 0) return true;
  return false;
}

void tool_credentials_print(const tool_credentials *credentials, tool_role role, FILE *to) {
  tool_origin origins[TOOL_N_CREDENTIALS];
  if (!credentials->clients[role]) return;
  tool_credentials_describe(origins, credentials, role);
  fprintf(to, "s3 %-17s%s, %s;", role_names[role], credentials->values[role][TOOL_ENDPOINT_URL].text,
          credentials->values[role][TOOL_REGION].text);
  for (int which = 0, n = 0; which < TOOL_N_CREDENTIALS; which++)
    if (origins[which].set) fprintf(to, "%s %s", n++ ? "," : "", origins[which].variable);
  fputc('\n', to);
}
