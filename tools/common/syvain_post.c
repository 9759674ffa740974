#include "syvain_post.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONNECT_S = 10, ANSWER_S = 60, LONGEST_WAIT_S = 60 };

bool tool_poster_open(tool_poster *poster, const tool_syvain_settings *settings, const atomic_bool *cancel) {
  *poster = (tool_poster){.settings = settings, .cancel = cancel};
  if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return false;
  poster->handle = curl_easy_init();
  if (!poster->handle) curl_global_cleanup();
  return poster->handle != NULL;
}

void tool_poster_close(tool_poster *poster) {
  curl_easy_cleanup(poster->handle);
  curl_global_cleanup();
}

/* The answer's body is not read: it could say the key again. */
static size_t on_body(char *bytes, size_t one, size_t n, void *context) {
  (void)bytes, (void)one, (void)context;
  return n;
}

static int on_progress(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
  const tool_poster *poster = context;
  (void)a, (void)b, (void)c, (void)d;
  return atomic_load(poster->cancel);
}

static bool append(struct curl_slist **list, const char *name, const char *value) {
  size_t room = strlen(name) + strlen(value) + 1;
  char *line = malloc(room);
  if (line) snprintf(line, room, "%s%s", name, value);
  struct curl_slist *longer = line ? curl_slist_append(*list, line) : NULL;
  if (longer) *list = longer;
  free(line);
  return longer != NULL;
}

/* False: out of memory. */
static bool make_headers(struct curl_slist **list, const tool_poster *poster, const char *body, size_t n_bytes) {
  char digest[CKPT_SHA256_TEXT];
  return ckpt_sha256_bytes(digest, body, n_bytes, NULL) == CKPT_OK &&
         append(list, "Content-Type: ", "application/json") && append(list, "Idempotency-Key: ", digest + 7) &&
         append(list, "Authorization: Bearer ", poster->settings->key) && append(list, "Expect:", "");
}

static void set_limits(CURL *handle, tool_poster *poster) {
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
  curl_easy_setopt(handle, CURLOPT_TIMEOUT, (long)ANSWER_S);
  curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(handle, CURLOPT_XFERINFODATA, poster);
  curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
#if LIBCURL_VERSION_NUM >= 0x075700
  curl_easy_setopt(handle, CURLOPT_QUICK_EXIT, 1L); /* a name that is being looked up holds up no end */
#endif
}

/* Redirects are not followed: the key is for that address. Plain text does not leave the machine, by a proxy either. */
static CURLcode set_all(tool_poster *poster, struct curl_slist *list, const char *body, size_t n_bytes) {
  CURL *handle = poster->handle;
  const tool_syvain_settings *settings = poster->settings;
  curl_easy_reset(handle);
  set_limits(handle, poster);
  curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, poster->words);
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(handle, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(handle, CURLOPT_SSL_VERIFYHOST, 2L);
  if (settings->ca_file) curl_easy_setopt(handle, CURLOPT_CAINFO, settings->ca_file);
  if (settings->is_plain) curl_easy_setopt(handle, CURLOPT_PROXY, "");
  curl_easy_setopt(handle, CURLOPT_POSTFIELDS, body);
  curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)n_bytes);
  CURLcode code = curl_easy_setopt(handle, CURLOPT_USERAGENT, "sexpgpu/" SEXPGPU_VERSION);
  if (code == CURLE_OK) code = curl_easy_setopt(handle, CURLOPT_HTTPHEADER, list);
  return code == CURLE_OK ? curl_easy_setopt(handle, CURLOPT_URL, settings->url) : code;
}

static tool_posted judge(tool_poster *poster, CURLcode code) {
  long status = 0;
  curl_off_t wait_s = 0;
  curl_easy_getinfo(poster->handle, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(poster->handle, CURLINFO_RETRY_AFTER, &wait_s);
  poster->wait_s = (double)(wait_s < LONGEST_WAIT_S ? wait_s : LONGEST_WAIT_S);
  if (code != CURLE_OK) {
    if (!poster->words[0]) snprintf(poster->words, sizeof poster->words, "%s", curl_easy_strerror(code));
    return TOOL_POST_AWAY;
  }
  if (status >= 200 && status < 300) return TOOL_POST_ACCEPTED;
  snprintf(poster->words, sizeof poster->words, "it answered with HTTP status %ld", status);
  if (status >= 500 || status == 408 || status == 425 || status == 429) return TOOL_POST_AWAY;
  return status == 401 || status == 403 ? TOOL_POST_FORBIDDEN : TOOL_POST_REFUSED;
}

tool_posted tool_poster_post(tool_poster *poster, const char *body, size_t n_bytes) {
  struct curl_slist *list = NULL;
  poster->words[0] = 0;
  CURLcode code =
      make_headers(&list, poster, body, n_bytes) ? set_all(poster, list, body, n_bytes) : CURLE_OUT_OF_MEMORY;
  if (code == CURLE_OK) code = curl_easy_perform(poster->handle);
  tool_posted posted = judge(poster, code);
  curl_easy_setopt(poster->handle, CURLOPT_HTTPHEADER, NULL);
  curl_slist_free_all(list);
  return posted;
}
