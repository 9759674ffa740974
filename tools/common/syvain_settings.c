#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "failure.h"
#include "syvain.h"

static const char key_variable[] = "SYVAIN_METRICS_API_KEY", url_variable[] = "SYVAIN_METRICS_URL",
                  folder_variable[] = "SYVAIN_METRICS_FOLDER_ID", ca_variable[] = "SYVAIN_METRICS_CA_BUNDLE";

bool tool_syvain_is(const char *target) { return strcmp(target, "syvain") == 0 || strncmp(target, "syvain:", 7) == 0; }

/* The value is not shown: it may be the key, in the wrong variable. */
static ckpt_status malformed(ckpt_error *error, const char *name, const char *text, const char *expected) {
  return tool_error(error, TOOL_E_ENV_VALUE, "%s: found %zu bytes that are something else, expected %s", name,
                    strlen(text), expected);
}

static bool is_graphic(const char *text) {
  for (const unsigned char *c = (const unsigned char *)text; *c; c++)
    if (*c <= ' ' || *c >= 0x7f) return false;
  return true;
}

static ckpt_status check_text(const char *name, const char *text, ckpt_error *error) {
  if (!text[0]) return malformed(error, name, text, "a value, or the variable unset");
  return is_graphic(text) ? CKPT_OK : malformed(error, name, text, "printable ASCII without spaces");
}

/* ---- the URL ---- */

/* Hosts that a key may go to without TLS: this machine. */
static bool is_loopback(const char *host) {
  unsigned parts[4];
  char rest;
  if (strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0) return true;
  return sscanf(host, "%3u.%3u.%3u.%3u%c", &parts[0], &parts[1], &parts[2], &parts[3], &rest) == 4 && parts[0] == 127;
}

static bool has_part(CURLU *url, CURLUPart part) {
  char *text = NULL;
  bool has = curl_url_get(url, part, &text, 0) == CURLUE_OK;
  curl_free(text);
  return has;
}

/* What is wrong with the URL; NULL: nothing, and *settings is filled. */
static const char *examine(tool_syvain_settings *settings, CURLU *url) {
  char *scheme = NULL, *host = NULL, *port = NULL;
  const char *expected = "https://HOST[:PORT]/PATH";
  bool good = curl_url_set(url, CURLUPART_URL, settings->url, 0) == CURLUE_OK &&
              curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
              curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
              curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK;
  if (good) {
    settings->is_plain = strcmp(scheme, "http") == 0;
    snprintf(settings->server, sizeof settings->server, "%s://%.200s:%s", scheme, host, port);
    if (has_part(url, CURLUPART_USER) || has_part(url, CURLUPART_PASSWORD) || has_part(url, CURLUPART_FRAGMENT))
      expected = "a URL without a user, a password or a fragment";
    else if (settings->is_plain && !is_loopback(host))
      expected = "https: http is for localhost alone";
    else if (settings->is_plain || strcmp(scheme, "https") == 0)
      expected = NULL;
  }
  curl_free(scheme);
  curl_free(host);
  curl_free(port);
  return expected;
}

static ckpt_status check_url(tool_syvain_settings *settings, ckpt_error *error) {
  CURLU *url = curl_url();
  const char *expected = url ? examine(settings, url) : "less text (out of memory)";
  curl_url_cleanup(url);
  return expected ? malformed(error, url_variable, settings->url, expected) : CKPT_OK;
}

/* ---- all of them ---- */

static ckpt_status missing(ckpt_error *error, const char *name, const char *what) {
  return tool_error(error, TOOL_E_SYVAIN_MISSING, "metrics target \"syvain\": %s is not set: %s", name, what);
}

static ckpt_status check(tool_syvain_settings *settings, const char *folder_name, ckpt_error *error) {
  if (!settings->url) return missing(error, url_variable, "the address that records are posted to");
  if (!settings->key) return missing(error, key_variable, "the key that the service knows the sender by");
  if (!settings->folder) return missing(error, folder_variable, "the folder; syvain:FOLDER gives it too");
  ckpt_status status = check_text(url_variable, settings->url, error);
  if (status == CKPT_OK) status = check_text(key_variable, settings->key, error);
  if (status == CKPT_OK) status = check_text(folder_name, settings->folder, error);
  if (status == CKPT_OK) status = check_url(settings, error);
  if (status == CKPT_OK && settings->ca_file && access(settings->ca_file, R_OK) != 0)
    status = malformed(error, ca_variable, settings->ca_file, "a PEM file that can be read");
  return status;
}

ckpt_status tool_syvain_read(tool_syvain_settings *settings, const char *target, ckpt_error *error) {
  const char *own = strchr(target, ':');
  *settings = (tool_syvain_settings){.url = getenv(url_variable),
                                     .key = getenv(key_variable),
                                     .folder = own ? own + 1 : getenv(folder_variable),
                                     .ca_file = getenv(ca_variable)};
  if (own && !own[1])
    return tool_error(error, TOOL_E_METRIC_TARGET, "metrics target \"syvain:\": expected a folder after the colon");
  return check(settings, own ? "the folder of the metrics target" : folder_variable, error);
}
