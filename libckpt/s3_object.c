/* Objects: facts, whole ones written and removed, lists. */
#include <stdlib.h>
#include <string.h>

#include "s3_digest.h"
#include "s3_parts.h"

ckpt_status ck_s3_head(ck_s3_object *out, ckpt_s3 *s3, const char *bucket, const char *key, ckpt_error *error) {
  ck_s3_request request = {.method = "HEAD", .bucket = bucket, .key = key, .may_be_missing = true, .is_head = true};
  ck_s3_response response;
  memset(out, 0, sizeof *out);
  ckpt_status status = ck_s3_send(&response, s3, &request, error);
  if (status == CKPT_OK && response.status != 404) {
    out->exists = true;
    out->size = response.size;
    memcpy(out->etag, response.etag, sizeof out->etag);
    memcpy(out->sha256, response.sha256, sizeof out->sha256);
  }
  ck_s3_response_clear(&response);
  return status;
}

ckpt_status ck_s3_put(char etag_out[CK_S3_ETAG], ckpt_s3 *s3, const char *bucket, const char *key, const void *bytes,
                      size_t n_bytes, ckpt_error *error) {
  unsigned char md5[16];
  char sha256[CK_HEX_SHA256];
  if (!ck_md5(md5, bytes, n_bytes) || !ck_hex_sha256(sha256, bytes, n_bytes)) return ck_no_memory(error, 0);
  ck_s3_request request = {.method = "PUT",
                           .bucket = bucket,
                           .key = key,
                           .headers = {{"content-type", "application/octet-stream"}, {"x-amz-meta-sha256", sha256}},
                           .body = bytes,
                           .n_body = n_bytes,
                           .md5 = md5};
  ck_s3_response response;
  ckpt_status status = ck_s3_send(&response, s3, &request, error);
  if (status == CKPT_OK && etag_out) memcpy(etag_out, response.etag, CK_S3_ETAG);
  ck_s3_response_clear(&response);
  return status;
}

/* ---- Removal ---- */

static ckpt_status delete (ckpt_s3 *s3, const ck_s3_request *request, ckpt_error *error) {
  ck_s3_response response;
  ckpt_status status = ck_s3_send(&response, s3, request, error);
  ck_s3_response_clear(&response);
  return status;
}

ckpt_status ck_s3_remove(ckpt_s3 *s3, const char *bucket, const char *key, ckpt_error *error) {
  ck_s3_request request = {.method = "DELETE", .bucket = bucket, .key = key, .may_be_missing = true};
  return delete (s3, &request, error);
}

ckpt_status ck_s3_upload_abort(ckpt_s3 *s3, const char *bucket, const char *key, const char *upload_id,
                               ckpt_error *error) {
  ck_s3_request request = {
      .method = "DELETE", .bucket = bucket, .key = key, .query = {{"uploadId", upload_id}}, .may_be_missing = true};
  return delete (s3, &request, error);
}

typedef struct removal {
  ckpt_s3 *s3;
  const char *bucket;
  const char *const *keys;
} removal;

static ckpt_status remove_one(void *context, size_t index, const atomic_bool *cancel, ckpt_error *error) {
  const removal *r = context;
  ck_s3_request request = {
      .method = "DELETE", .bucket = r->bucket, .key = r->keys[index], .may_be_missing = true, .cancel = cancel};
  return delete (r->s3, &request, error);
}

ckpt_status ck_s3_remove_keys(ckpt_s3 *s3, const char *bucket, const char *const *keys, size_t n_keys,
                              ckpt_error *error) {
  removal r = {s3, bucket, keys};
  return n_keys ? ck_s3_run(n_keys, s3->connections, remove_one, &r, error) : CKPT_OK;
}

/* ---- Lists ---- */

/* The pages of one list: the request, and the markers that move it on. */
typedef struct pages {
  ckpt_s3 *s3;
  ck_s3_request request;
  char *markers[2];
  ckpt_status (*visit)(void *context, const ck_s3_item *item, ckpt_error *error);
  void *context;
} pages;

static size_t count_query(const ck_s3_request *request) {
  size_t n = 0;
  while (n < CK_S3_PAIRS && request->query[n].name) n++;
  return n;
}

static int by_key(const void *left, const void *right) {
  const ck_s3_item *a = left, *b = right;
  if (!a->key || !b->key) return 0;
  int order = strcmp(a->key, b->key);
  return order ? order : a->is_prefix - b->is_prefix;
}

static ckpt_status visit_items(const pages *p, ck_s3_answer *answer, ckpt_error *error) {
  ckpt_status status = CKPT_OK;
  if (answer->kind == CK_S3_OBJECTS && answer->n_items)
    qsort(answer->items, answer->n_items, sizeof *answer->items, by_key);
  for (size_t i = 0; status == CKPT_OK && i < answer->n_items; i++)
    status = p->visit(p->context, &answer->items[i], error);
  return status;
}

static bool same(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

/* Takes the markers of the next page out of an answer; false: it says that there is one, and not where. */
static bool move_on(pages *p, ck_s3_answer *answer) {
  char **from[2] = {answer->next_token  ? &answer->next_token
                    : answer->next_part ? &answer->next_part
                                        : &answer->next_key,
                    &answer->next_upload};
  if (!*from[0] || (same(*from[0], p->markers[0]) && same(*from[1], p->markers[1]))) return false;
  for (int i = 0; i < 2; i++) {
    free(p->markers[i]);
    p->markers[i] = *from[i];
    *from[i] = NULL;
  }
  return true;
}

static const char *marker_name(ck_s3_kind kind) {
  return kind == CK_S3_OBJECTS ? "continuation-token" : kind == CK_S3_PARTS ? "part-number-marker" : "key-marker";
}

static ckpt_status fail_pages(const pages *p, ckpt_error *error) {
  char *title = ck_s3_title(p->request.bucket, p->request.key);
  if (!title) return ck_no_memory(error, 0);
  ckpt_status status = ck_fail(error, CK_E_S3_MALFORMED, title, -1, 0,
                               "%s: a list is said to go on, but no new place is given for it", p->s3->endpoint);
  free(title);
  return status;
}

static ckpt_status visit_pages(pages *p, ckpt_error *error) {
  size_t n_query = count_query(&p->request);
  ckpt_status status = CKPT_OK;
  for (bool more = true; more && status == CKPT_OK;) {
    ck_s3_response response;
    if (p->markers[0]) p->request.query[n_query] = (ck_s3_pair){marker_name(p->request.answer), p->markers[0]};
    if (p->markers[1]) p->request.query[n_query + 1] = (ck_s3_pair){"upload-id-marker", p->markers[1]};
    status = ck_s3_send(&response, p->s3, &p->request, error);
    if (status == CKPT_OK) status = visit_items(p, &response.xml, error);
    more = response.xml.is_truncated;
    if (status == CKPT_OK && more && !move_on(p, &response.xml)) status = fail_pages(p, error);
    ck_s3_response_clear(&response);
  }
  free(p->markers[0]);
  free(p->markers[1]);
  return status;
}

typedef struct object_visit {
  ck_s3_each *each;
  void *context;
} object_visit;

static ckpt_status visit_object(void *context, const ck_s3_item *item, ckpt_error *error) {
  const object_visit *v = context;
  return v->each(v->context, item->key, item->is_prefix, item->size, item->etag ? item->etag : "", error);
}

ckpt_status ck_s3_list(ckpt_s3 *s3, const char *bucket, const char *prefix, const char *delimiter, ck_s3_each *each,
                       void *context, ckpt_error *error) {
  object_visit v = {each, context};
  pages p = {.s3 = s3,
             .request = {.method = "GET",
                         .bucket = bucket,
                         .query = {{"list-type", "2"}, {"encoding-type", "url"}, {"prefix", prefix}},
                         .answer = CK_S3_OBJECTS},
             .visit = visit_object,
             .context = &v};
  if (delimiter) p.request.query[3] = (ck_s3_pair){"delimiter", delimiter};
  return visit_pages(&p, error);
}

typedef struct upload_visit {
  ck_s3_each_upload *each;
  void *context;
} upload_visit;

static ckpt_status visit_upload(void *context, const ck_s3_item *item, ckpt_error *error) {
  const upload_visit *v = context;
  return v->each(v->context, item->key, item->upload_id, item->initiated ? item->initiated : "", error);
}

ckpt_status ck_s3_uploads(ckpt_s3 *s3, const char *bucket, const char *prefix, ck_s3_each_upload *each, void *context,
                          ckpt_error *error) {
  upload_visit v = {each, context};
  pages p = {.s3 = s3,
             .request = {.method = "GET",
                         .bucket = bucket,
                         .query = {{"uploads", ""}, {"encoding-type", "url"}, {"prefix", prefix}},
                         .answer = CK_S3_UPLOADS},
             .visit = visit_upload,
             .context = &v};
  return visit_pages(&p, error);
}

ckpt_status ck_s3_parts(ckpt_s3 *s3, const char *bucket, const char *key, const char *upload_id,
                        ckpt_status (*each)(void *context, const ck_s3_item *part, ckpt_error *error), void *context,
                        ckpt_error *error) {
  pages p = {.s3 = s3,
             .request = {.method = "GET",
                         .bucket = bucket,
                         .key = key,
                         .query = {{"uploadId", upload_id}},
                         .answer = CK_S3_PARTS},
             .visit = each,
             .context = context};
  return visit_pages(&p, error);
}
