/* Whether credentials are good, when no bucket is known. */
#include <string.h>

#include "s3_client.h"

/* A wrong key, signature, token, region or clock has a code of its own. */
static bool is_taken(const ck_s3_response *response) {
  const ck_s3_answer *xml = &response->xml;
  return xml->kind == CK_S3_ERROR && xml->code && strcmp(xml->code, "AccessDenied") == 0;
}

ckpt_status ckpt_s3_prove(ckpt_s3_proof *out, ckpt_s3 *s3, ckpt_error *error) {
  const ck_s3_request request = {.method = "GET", .answer = CK_S3_BUCKETS, .attempts = 2};
  ck_s3_response response;
  ckpt_error refusal;
  ckpt_status status = ck_s3_send(&response, s3, &request, &refusal);
  *out = (ckpt_s3_proof){status == CKPT_OK, response.date_s};
  if (status != CKPT_OK && is_taken(&response)) status = CKPT_OK;
  if (status != CKPT_OK && error) *error = refusal;
  ck_s3_response_clear(&response);
  return status;
}
