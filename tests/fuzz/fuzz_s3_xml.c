/* Any bytes as an answer of S3: malformed, or items whose texts are whole, within the limits, and keys that are UTF-8.
 */
#include <stdlib.h>
#include <string.h>

#include "../../libckpt/s3_xml.h"
#include "../../libckpt/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool holds) {
  if (!holds) abort();
}

static void expect_text(const char *text, bool needed) {
  expect(text || !needed);
  if (text) expect(strlen(text) <= 1 << 14 && ck_is_utf8(text, strlen(text)));
}

static void expect_item(const ck_s3_item *item, ck_s3_kind kind) {
  expect_text(item->key, kind == CK_S3_OBJECTS || kind == CK_S3_UPLOADS);
  expect_text(item->upload_id, kind == CK_S3_UPLOADS);
  expect_text(item->etag, false);
  expect_text(item->initiated, false);
  expect(item->size <= INT64_MAX && item->part_number <= INT64_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ck_s3_answer answer;
  const char *why;
  ck_s3_reading reading = ck_s3_read_xml(&answer, &why, (const char *)data, size);
  expect(reading != CK_S3_NO_MEMORY && (reading == CK_S3_READ) == (why == NULL));
  if (reading == CK_S3_READ) {
    bool lists = answer.kind == CK_S3_OBJECTS || answer.kind == CK_S3_UPLOADS || answer.kind == CK_S3_PARTS;
    expect(lists || answer.n_items == 0);
    expect((answer.code || answer.message) <= (answer.kind == CK_S3_ERROR));
    for (size_t i = 0; i < answer.n_items; i++) expect_item(&answer.items[i], answer.kind);
  } else {
    expect(!answer.items && answer.n_items == 0);
  }
  ck_s3_answer_clear(&answer);
  expect(!answer.items && !answer.code);
  return 0;
}
