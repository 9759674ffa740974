/* XML answers of S3. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../libckpt/s3_xml.h"
#include "../common/cmocka_all.h"

static ck_s3_answer read_good(const char *text) {
  ck_s3_answer answer;
  const char *why;
  assert_int_equal(ck_s3_read_xml(&answer, &why, text, strlen(text)), CK_S3_READ);
  assert_null(why);
  return answer;
}

static void expect_bad(const char *text, size_t n) {
  ck_s3_answer answer;
  const char *why = NULL;
  assert_int_equal(ck_s3_read_xml(&answer, &why, text, n), CK_S3_MALFORMED);
  assert_non_null(why);
  assert_int_equal(answer.n_items, 0);
  assert_null(answer.items);
}

static void reads_objects(void **state) {
  (void)state;
  ck_s3_answer a = read_good(
      "<?xml version='1.0' encoding='UTF-8'?>\n<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\n"
      "<Name>bkt</Name><Prefix>not%this</Prefix><KeyCount>2</KeyCount><IsTruncated>true</IsTruncated>"
      "<NextContinuationToken>a%2F+b</NextContinuationToken><EncodingType>url</EncodingType>\n"
      "<Contents><Key>a%2Fb+c%2B%C3%A9</Key><LastModified>2026-01-01</LastModified><ETag>&#34;abc-2&#34;</ETag>"
      "<Size>9223372036854775807</Size><Owner><ID>x</ID><Key>wrong</Key></Owner></Contents>"
      "<CommonPrefixes><Prefix>d%20/</Prefix></CommonPrefixes></ListBucketResult>");
  assert_int_equal(a.kind, CK_S3_OBJECTS);
  assert_int_equal(a.is_truncated, 1);
  assert_string_equal(a.next_token, "a%2F+b");
  assert_int_equal(a.n_items, 2);
  assert_string_equal(a.items[0].key, "a/b c+\xc3\xa9");
  assert_string_equal(a.items[0].etag, "abc-2");
  assert_true(a.items[0].size == INT64_MAX && !a.items[0].is_prefix);
  assert_string_equal(a.items[1].key, "d /");
  assert_true(a.items[1].is_prefix);
  ck_s3_answer_clear(&a);
}

static void keeps_keys_that_are_not_encoded(void **state) {
  (void)state;
  ck_s3_answer a =
      read_good("<ListBucketResult><Contents><Key>a%2Fb+c &amp; &lt;d></Key></Contents></ListBucketResult>");
  assert_string_equal(a.items[0].key, "a%2Fb+c & <d>");
  assert_null(a.items[0].etag);
  ck_s3_answer_clear(&a);
}

static void reads_uploads_and_parts(void **state) {
  (void)state;
  ck_s3_answer a = read_good(
      "<ListMultipartUploadsResult><EncodingType>url</EncodingType><NextKeyMarker>k%25</NextKeyMarker>"
      "<NextUploadIdMarker>u%25</NextUploadIdMarker><IsTruncated>true</IsTruncated><Upload><Key>k%20</Key>"
      "<UploadId>u%25</UploadId><Initiated>2026</Initiated></Upload></ListMultipartUploadsResult>");
  assert_int_equal(a.kind, CK_S3_UPLOADS);
  assert_string_equal(a.next_key, "k%");
  assert_string_equal(a.next_upload, "u%25");
  assert_string_equal(a.items[0].key, "k ");
  assert_string_equal(a.items[0].upload_id, "u%25");
  assert_string_equal(a.items[0].initiated, "2026");
  ck_s3_answer_clear(&a);
  a = read_good(
      "<ListPartsResult><UploadId>x</UploadId><NextPartNumberMarker>2</NextPartNumberMarker><IsTruncated>false"
      "</IsTruncated><Part><PartNumber>2</PartNumber><Size>5</Size><ETag>\"e\"</ETag></Part></ListPartsResult>");
  assert_int_equal(a.kind, CK_S3_PARTS);
  assert_string_equal(a.next_part, "2");
  assert_true(a.items[0].part_number == 2 && a.items[0].size == 5 && a.is_truncated == 0);
  ck_s3_answer_clear(&a);
}

static void reads_the_rest(void **state) {
  (void)state;
  ck_s3_answer a = read_good(
      "<s3:InitiateMultipartUploadResult "
      "xmlns:s3='x'><s3:UploadId>id</s3:UploadId></s3:InitiateMultipartUploadResult>");
  assert_int_equal(a.kind, CK_S3_CREATED);
  assert_string_equal(a.upload_id, "id");
  ck_s3_answer_clear(&a);
  a = read_good("  <CompleteMultipartUploadResult><ETag>&quot;x-1&quot;</ETag></CompleteMultipartUploadResult>");
  assert_int_equal(a.kind, CK_S3_COMPLETED);
  assert_string_equal(a.etag, "x-1");
  ck_s3_answer_clear(&a);
  a = read_good("<Error><Code>C</Code><Message>M</Message><Region>R</Region><Endpoint>E</Endpoint></Error>");
  assert_int_equal(a.kind, CK_S3_ERROR);
  assert_string_equal(a.code, "C");
  assert_string_equal(a.message, "M");
  assert_string_equal(a.region, "R");
  assert_string_equal(a.server, "E");
  ck_s3_answer_clear(&a);
  a = read_good("<html><Code>C</Code></html>");
  assert_true(a.kind == CK_S3_OTHER && !a.code);
  ck_s3_answer_clear(&a);
}

static void refuses(void **state) {
  (void)state;
  static const char *const texts[] = {
      "",
      "no XML",
      "<a>",
      "<a></b>",
      "<a/><b/>",
      "<!DOCTYPE a><a/>",
      "<!DOCTYPE a [<!ENTITY b \"bbbbbbbb\"><!ENTITY c \"&b;&b;&b;&b;\">]><a>&c;</a>",
      "<a>&b;</a>",
      "<ListBucketResult><Contents><Key>k</Key><Size>x</Size></Contents></ListBucketResult>",
      "<ListBucketResult><Contents><Key>k</Key><Size>-1</Size></Contents></ListBucketResult>",
      "<ListBucketResult><Contents><Key>k</Key><Size>9223372036854775808</Size></Contents></ListBucketResult>",
      "<ListBucketResult><Contents></Contents></ListBucketResult>",
      "<ListBucketResult><Contents><Key>a<b/>c</Key></Contents></ListBucketResult>",
      "<ListMultipartUploadsResult><Upload><Key>k</Key></Upload></ListMultipartUploadsResult>",
      "<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>%zz</Key></Contents></ListBucketResult>",
      "<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>%4</Key></Contents></ListBucketResult>",
      "<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>a%00b</Key></Contents></ListBucketResult>",
      "<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>%FF</Key></Contents></ListBucketResult>",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) expect_bad(texts[i], strlen(texts[i]));
  expect_bad("<Error>\0</Error>", 16);
}

static void has_limits(void **state) {
  (void)state;
  char *text = calloc(1, 40000);
  size_t n = 0;
  assert_non_null(text);
  for (int i = 0; i < 17; i++) n += (size_t)sprintf(text + n, "<a>");
  for (int i = 0; i < 17; i++) n += (size_t)sprintf(text + n, "</a>");
  expect_bad(text, n);
  n = (size_t)sprintf(text, "<Error><Code>%*s</Code></Error>", 16385, "x");
  expect_bad(text, n);
  n = (size_t)sprintf(text, "<Error><Other>%*s</Other></Error>", 30000, "x");
  ck_s3_answer a = read_good(text);
  ck_s3_answer_clear(&a);
  n = (size_t)sprintf(text, "<%0300d/>", 1);
  text[1] = 'e';
  expect_bad(text, n);
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_objects),
      cmocka_unit_test(keeps_keys_that_are_not_encoded),
      cmocka_unit_test(reads_uploads_and_parts),
      cmocka_unit_test(reads_the_rest),
      cmocka_unit_test(refuses),
      cmocka_unit_test(has_limits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
