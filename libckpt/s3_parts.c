#include "s3_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "s3_digest.h"

static ckpt_status fail(const ck_s3_multipart *m, ck_code code, const char *words, ckpt_error *error) {
  char *title = ck_s3_title(m->bucket, m->key);
  if (!title) return ck_no_memory(error, 0);
  ckpt_status status = ck_fail(error, code, title, -1, 0, "%s: %s", m->s3->endpoint, words);
  free(title);
  return status;
}

ckpt_status ck_s3_multipart_init(ck_s3_multipart *m, ckpt_s3 *s3, const char *bucket, const char *key,
                                 const char *sha256, ckpt_error *error) {
  memset(m, 0, sizeof *m);
  m->s3 = s3;
  m->bucket = ck_copy_text(bucket);
  m->key = ck_copy_text(key);
  if (sha256) snprintf(m->sha256, sizeof m->sha256, "%s", sha256 + strlen("sha256:"));
  return m->bucket && m->key ? CKPT_OK : ck_no_memory(error, 0);
}

void ck_s3_multipart_clear(ck_s3_multipart *m) {
  free(m->bucket);
  free(m->key);
  free(m->upload_id);
  free(m->parts);
  free(m->found);
}

/* ---- An upload that was not finished ---- */

typedef struct search {
  const char *key;
  char **ids, **dates; /* of the key, in the order of the list */
  size_t n, room_ids, room_dates;
} search;

static ckpt_status keep_upload(void *context, const char *key, const char *upload_id, const char *initiated,
                               ckpt_error *error) {
  search *s = context;
  if (strcmp(key, s->key) != 0) return CKPT_OK;
  char **ids = ck_grow(s->ids, s->n, &s->room_ids, sizeof *ids);
  if (ids) s->ids = ids;
  char **dates = ck_grow(s->dates, s->n, &s->room_dates, sizeof *dates);
  if (dates) s->dates = dates;
  if (!ids || !dates) return ck_no_memory(error, 0);
  ids[s->n] = ck_copy_text(upload_id);
  dates[s->n] = ck_copy_text(initiated);
  bool good = ids[s->n] && dates[s->n];
  s->n++;
  return good ? CKPT_OK : ck_no_memory(error, 0);
}

static void free_search(search *s) {
  for (size_t i = 0; i < s->n; i++) {
    free(s->ids[i]);
    free(s->dates[i]);
  }
  free(s->ids);
  free(s->dates);
}

static ckpt_status keep_part(void *context, const ck_s3_item *part, ckpt_error *error) {
  ck_s3_multipart *m = context;
  if (part->part_number < 1 || part->part_number > CK_S3_MAX_PARTS || !part->etag || !ck_is_md5(part->etag))
    return CKPT_OK;
  if (part->part_number > m->n_found) {
    ck_s3_found *grown = realloc(m->found, part->part_number * sizeof *grown);
    if (!grown) return ck_no_memory(error, 0);
    memset(grown + m->n_found, 0, (part->part_number - m->n_found) * sizeof *grown);
    m->found = grown;
    m->n_found = part->part_number;
  }
  ck_s3_found *found = &m->found[part->part_number - 1];
  found->size = part->size;
  memcpy(found->md5, part->etag, sizeof found->md5);
  return CKPT_OK;
}

static ckpt_status take_last(ck_s3_multipart *m, search *s, ckpt_error *error) {
  size_t last = 0;
  for (size_t i = 1; i < s->n; i++)
    if (strcmp(s->dates[i], s->dates[last]) >= 0) last = i;
  ckpt_status status = CKPT_OK;
  for (size_t i = 0; status == CKPT_OK && i < s->n; i++)
    if (i != last) status = ck_s3_upload_abort(m->s3, m->bucket, m->key, s->ids[i], error);
  if (status != CKPT_OK || s->n == 0) return status;
  m->upload_id = s->ids[last];
  s->ids[last] = NULL;
  m->is_resumed = true;
  return ck_s3_parts(m->s3, m->bucket, m->key, m->upload_id, keep_part, m, error);
}

ckpt_status ck_s3_multipart_find(ck_s3_multipart *m, ckpt_error *error) {
  search s = {.key = m->key};
  ckpt_status status = ck_s3_uploads(m->s3, m->bucket, m->key, keep_upload, &s, error);
  if (status == CKPT_OK) status = take_last(m, &s, error);
  free_search(&s);
  return status;
}

/* ---- Beginning and parts ---- */

ckpt_status ck_s3_multipart_start(ck_s3_multipart *m, ckpt_error *error) {
  if (m->upload_id) return CKPT_OK;
  ck_s3_request request = {.method = "POST",
                           .bucket = m->bucket,
                           .key = m->key,
                           .query = {{"uploads", ""}},
                           .headers = {{"content-type", "application/octet-stream"}},
                           .answer = CK_S3_CREATED};
  if (m->sha256[0]) request.headers[1] = (ck_s3_pair){"x-amz-meta-sha256", m->sha256};
  ck_s3_response response;
  ckpt_status status = ck_s3_send(&response, m->s3, &request, error);
  if (status == CKPT_OK && !response.xml.upload_id)
    status = fail(m, CK_E_S3_MALFORMED, "the answer to a new upload has no UploadId", error);
  if (status == CKPT_OK) {
    m->upload_id = response.xml.upload_id;
    response.xml.upload_id = NULL;
  }
  ck_s3_response_clear(&response);
  return status;
}

ckpt_status ck_s3_part_add(ck_s3_multipart *m, ckpt_error *error) {
  if (m->n_parts == CK_S3_MAX_PARTS)
    return fail(m, CK_E_S3_TOO_LARGE, "it has more than 10 000 parts of this size", error);
  ck_s3_part *grown = ck_grow(m->parts, m->n_parts, &m->parts_room, sizeof *grown);
  if (!grown) return ck_no_memory(error, 0);
  m->parts = grown;
  memset(&grown[m->n_parts++], 0, sizeof *grown);
  return CKPT_OK;
}

static bool is_found(const ck_s3_multipart *m, size_t index, const char *md5, size_t n_bytes) {
  return index < m->n_found && m->found[index].size == n_bytes && strcmp(m->found[index].md5, md5) == 0;
}

static ckpt_status put_part(ck_s3_part *out, const ck_s3_multipart *m, size_t index, const void *bytes, size_t n_bytes,
                            const atomic_bool *cancel, ckpt_error *error) {
  char number[24];
  snprintf(number, sizeof number, "%zu", index + 1);
  ck_s3_request request = {.method = "PUT",
                           .bucket = m->bucket,
                           .key = m->key,
                           .query = {{"partNumber", number}, {"uploadId", m->upload_id}},
                           .headers = {{"content-type", "application/octet-stream"}},
                           .body = bytes,
                           .n_body = n_bytes,
                           .md5 = out->md5,
                           .cancel = cancel};
  ck_s3_response response;
  ckpt_status status = ck_s3_send(&response, m->s3, &request, error);
  memcpy(out->etag, response.etag, sizeof out->etag);
  out->is_plain = !response.is_opaque && ck_is_md5(response.etag);
  ck_s3_response_clear(&response);
  return status;
}

ckpt_status ck_s3_part_send(ck_s3_part *out, const ck_s3_multipart *m, size_t index, const void *bytes, size_t n_bytes,
                            const atomic_bool *cancel, ckpt_error *error) {
  char md5[CK_HEX_MD5];
  memset(out, 0, sizeof *out);
  if (!ck_md5(out->md5, bytes, n_bytes)) return ck_no_memory(error, 0);
  ck_hex(md5, out->md5, 16);
  if (!is_found(m, index, md5, n_bytes)) return put_part(out, m, index, bytes, n_bytes, cancel, error);
  memcpy(out->etag, md5, sizeof md5);
  out->is_plain = true;
  return CKPT_OK;
}

/* ---- The end ---- */

/* The MD5 of the parts' MD5s and their number, as S3 makes the ETag of such an object; "" where the server encrypts.
 * False: no memory. */
static bool expect_etag(char out[CK_S3_ETAG], const ck_s3_multipart *m) {
  unsigned char *all = ck_take(m->n_parts, 16), whole[16];
  bool good = all != NULL, is_plain = true;
  for (size_t i = 0; good && i < m->n_parts; i++) {
    memcpy(all + 16 * i, m->parts[i].md5, 16);
    is_plain &= m->parts[i].is_plain;
  }
  good = good && ck_md5(whole, all, m->n_parts * 16);
  free(all);
  out[0] = 0;
  if (!good || !is_plain) return good;
  ck_hex(out, whole, 16);
  snprintf(out + 32, CK_S3_ETAG - 32, "-%zu", m->n_parts);
  return true;
}

/* Servers have other forms of ETags; only one of this form says something. */
static bool contradicts(const char *etag, const char *expected) {
  bool same_form = strlen(etag) > 32 && strcmp(etag + 32, expected[0] ? expected + 32 : "") == 0;
  return expected[0] && same_form && strcmp(etag, expected) != 0;
}

static char *parts_xml(const ck_s3_multipart *m) {
  char *text = NULL;
  size_t n = 0;
  FILE *stream = open_memstream(&text, &n);
  if (!stream) return NULL;
  fputs("<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">", stream);
  for (size_t i = 0; i < m->n_parts; i++)
    fprintf(stream, "<Part><PartNumber>%zu</PartNumber><ETag>\"%s\"</ETag></Part>", i + 1, m->parts[i].etag);
  fputs("</CompleteMultipartUpload>", stream);
  bool good = !ferror(stream);
  if (fclose(stream) == 0 && good) return text;
  free(text);
  return NULL;
}

static ckpt_status ask_to_complete(char etag_out[CK_S3_ETAG], bool *is_gone, const ck_s3_multipart *m,
                                   ckpt_error *error) {
  char *xml = parts_xml(m);
  if (!xml) return ck_no_memory(error, 0);
  ck_s3_request request = {.method = "POST",
                           .bucket = m->bucket,
                           .key = m->key,
                           .query = {{"uploadId", m->upload_id}},
                           .headers = {{"content-type", "application/xml"}},
                           .body = xml,
                           .n_body = strlen(xml),
                           .answer = CK_S3_COMPLETED,
                           .may_be_missing = true,
                           .is_slow = true};
  ck_s3_response response;
  ckpt_status status = ck_s3_send(&response, m->s3, &request, error);
  *is_gone = status == CKPT_OK && response.xml.kind != CK_S3_COMPLETED;
  snprintf(etag_out, CK_S3_ETAG, "%s", response.xml.etag ? response.xml.etag : "");
  ck_s3_response_clear(&response);
  free(xml);
  return status;
}

/* The upload is gone: either an attempt before completed it and its answer was lost, or somebody aborted it. */
static ckpt_status look(char etag_out[CK_S3_ETAG], const ck_s3_multipart *m, const char *expected, ckpt_error *error) {
  ck_s3_object object;
  ckpt_status status = ck_s3_head(&object, m->s3, m->bucket, m->key, error);
  if (status != CKPT_OK) return status;
  bool same = object.exists && object.size == m->n_bytes && !contradicts(object.etag, expected) &&
              (!m->sha256[0] || !object.sha256[0] || strcmp(object.sha256 + 7, m->sha256) == 0) &&
              strchr(object.etag, '-') != NULL;
  if (!same) return fail(m, CK_E_S3_UPLOAD_GONE, "it was aborted, and the object is not the one that was sent", error);
  memcpy(etag_out, object.etag, CK_S3_ETAG);
  return CKPT_OK;
}

/* The metadata of an upload that was taken up is that of its beginning. */
static ckpt_status check_metadata(const ck_s3_multipart *m, ckpt_error *error) {
  ck_s3_object object;
  if (!m->is_resumed || !m->sha256[0]) return CKPT_OK;
  ckpt_status status = ck_s3_head(&object, m->s3, m->bucket, m->key, error);
  if (status != CKPT_OK || strcmp(object.sha256[0] ? object.sha256 + 7 : "", m->sha256) == 0) return status;
  status = ck_s3_remove(m->s3, m->bucket, m->key, error);
  if (status != CKPT_OK) return status;
  return fail(m, CK_E_S3_UNFINISHED, "it was begun with another SHA-256; upload and object have been removed", error);
}

ckpt_status ck_s3_multipart_complete(char etag_out[CK_S3_ETAG], ck_s3_multipart *m, ckpt_error *error) {
  char expected[CK_S3_ETAG];
  bool is_gone = false;
  if (!expect_etag(expected, m)) return ck_no_memory(error, 0);
  ckpt_status status = ask_to_complete(etag_out, &is_gone, m, error);
  if (status == CKPT_OK && is_gone) status = look(etag_out, m, expected, error);
  if (status != CKPT_OK) return status;
  free(m->upload_id);
  m->upload_id = NULL;
  if (contradicts(etag_out, expected))
    return fail(m, CK_E_S3_CONTENT, "the ETag of the object is not that of the parts that were sent", error);
  return check_metadata(m, error);
}

void ck_s3_multipart_abort(const ck_s3_multipart *m) {
  ck_s3_response response;
  ck_s3_request request = {.method = "DELETE",
                           .bucket = m->bucket,
                           .key = m->key,
                           .query = {{"uploadId", m->upload_id}},
                           .may_be_missing = true,
                           .attempts = 2};
  if (!m->upload_id) return;
  (void)ck_s3_send(&response, m->s3, &request, NULL);
  ck_s3_response_clear(&response);
}
