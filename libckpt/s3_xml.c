#include "s3_xml.h"

#include <errno.h>
#include <expat.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "utf8.h"

enum { PATH_BYTES = 256, MAX_DEPTH = 16, TEXT_BYTES = 1 << 14 };

/* ---- What is taken from which element ---- */

typedef enum taken { BEGIN_ITEM, BEGIN_PREFIX, ITEM_TEXT, ITEM_NUMBER, TEXT, NUMBER } taken;

typedef struct row {
  const char *path; /* from the root element on */
  taken taken;
  size_t offset;
  bool encoded; /* where the answer has an EncodingType */
} row;

#define ITEM(field) offsetof(ck_s3_item, field)
#define ANSWER(field) offsetof(ck_s3_answer, field)

static const row rows[] = {
    {"ListBucketResult/Contents", BEGIN_ITEM, 0, false},
    {"ListBucketResult/Contents/Key", ITEM_TEXT, ITEM(key), true},
    {"ListBucketResult/Contents/ETag", ITEM_TEXT, ITEM(etag), false},
    {"ListBucketResult/Contents/Size", ITEM_NUMBER, ITEM(size), false},
    {"ListBucketResult/CommonPrefixes", BEGIN_PREFIX, 0, false},
    {"ListBucketResult/CommonPrefixes/Prefix", ITEM_TEXT, ITEM(key), true},
    {"ListBucketResult/EncodingType", TEXT, ANSWER(encoding), false},
    {"ListBucketResult/IsTruncated", NUMBER, ANSWER(is_truncated), false},
    {"ListBucketResult/NextContinuationToken", TEXT, ANSWER(next_token), false},
    {"ListMultipartUploadsResult/Upload", BEGIN_ITEM, 0, false},
    {"ListMultipartUploadsResult/Upload/Key", ITEM_TEXT, ITEM(key), true},
    {"ListMultipartUploadsResult/Upload/UploadId", ITEM_TEXT, ITEM(upload_id), false},
    {"ListMultipartUploadsResult/Upload/Initiated", ITEM_TEXT, ITEM(initiated), false},
    {"ListMultipartUploadsResult/EncodingType", TEXT, ANSWER(encoding), false},
    {"ListMultipartUploadsResult/IsTruncated", NUMBER, ANSWER(is_truncated), false},
    {"ListMultipartUploadsResult/NextKeyMarker", TEXT, ANSWER(next_key), true},
    {"ListMultipartUploadsResult/NextUploadIdMarker", TEXT, ANSWER(next_upload), false},
    {"ListPartsResult/Part", BEGIN_ITEM, 0, false},
    {"ListPartsResult/Part/PartNumber", ITEM_NUMBER, ITEM(part_number), false},
    {"ListPartsResult/Part/ETag", ITEM_TEXT, ITEM(etag), false},
    {"ListPartsResult/Part/Size", ITEM_NUMBER, ITEM(size), false},
    {"ListPartsResult/IsTruncated", NUMBER, ANSWER(is_truncated), false},
    {"ListPartsResult/NextPartNumberMarker", TEXT, ANSWER(next_part), false},
    {"InitiateMultipartUploadResult/UploadId", TEXT, ANSWER(upload_id), false},
    {"CompleteMultipartUploadResult/ETag", TEXT, ANSWER(etag), false},
    {"Error/Code", TEXT, ANSWER(code), false},
    {"Error/Message", TEXT, ANSWER(message), false},
    {"Error/Region", TEXT, ANSWER(region), false},
    {"Error/Endpoint", TEXT, ANSWER(server), false},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static const struct {
  const char *root;
  ck_s3_kind kind;
} kinds[] = {
    {"Error", CK_S3_ERROR},
    {"ListAllMyBucketsResult", CK_S3_BUCKETS},
    {"ListBucketResult", CK_S3_OBJECTS},
    {"ListMultipartUploadsResult", CK_S3_UPLOADS},
    {"ListPartsResult", CK_S3_PARTS},
    {"InitiateMultipartUploadResult", CK_S3_CREATED},
    {"CompleteMultipartUploadResult", CK_S3_COMPLETED},
};

/* ---- The parser's state ---- */

typedef struct state {
  XML_Parser parser;
  ck_s3_answer *answer;
  char path[PATH_BYTES];
  size_t n_path, depth;
  const row *row; /* of the innermost element, or NULL */
  char *text;     /* of it so far, TEXT_BYTES + 1 */
  size_t n_text;
  const char *why;
  bool no_memory;
} state;

static void stop(state *s, const char *why) {
  if (!s->why) s->why = why;
  XML_StopParser(s->parser, XML_FALSE);
}

static void stop_memory(state *s) {
  s->no_memory = true;
  stop(s, "");
}

static const row *find_row(const char *path) {
  for (size_t i = 0; i < N_ROWS; i++)
    if (strcmp(rows[i].path, path) == 0) return &rows[i];
  return NULL;
}

static void begin_item(state *s, bool is_prefix) {
  ck_s3_answer *answer = s->answer;
  ck_s3_item *grown = ck_grow(answer->items, answer->n_items, &answer->room, sizeof *grown);
  if (!grown) {
    stop_memory(s);
    return;
  }
  answer->items = grown;
  memset(&grown[answer->n_items], 0, sizeof *grown);
  grown[answer->n_items++].is_prefix = is_prefix;
}

static void set_kind(state *s, const char *root) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(kinds[i].root, root) == 0) s->answer->kind = kinds[i].kind;
}

static void on_start(void *context, const XML_Char *name, const XML_Char **attributes) {
  state *s = context;
  (void)attributes;
  const char *colon = strrchr(name, ':'), *local = colon ? colon + 1 : name;
  size_t n = strlen(local);
  if (++s->depth > MAX_DEPTH || n + 2 > sizeof s->path - s->n_path) {
    s->row = NULL;
    stop(s, "its elements are too deep or their names too long");
    return;
  }
  if (s->depth == 1) set_kind(s, local);
  if (s->depth > 1) s->path[s->n_path++] = '/';
  memcpy(s->path + s->n_path, local, n + 1);
  s->n_path += n;
  s->row = find_row(s->path);
  s->n_text = 0;
  if (s->row && (s->row->taken == BEGIN_ITEM || s->row->taken == BEGIN_PREFIX))
    begin_item(s, s->row->taken == BEGIN_PREFIX);
}

static void on_text(void *context, const XML_Char *text, int n) {
  state *s = context;
  if (!s->row || s->row->taken < ITEM_TEXT) return;
  if ((size_t)n > TEXT_BYTES - s->n_text) {
    stop(s, "a text in it is too long");
    return;
  }
  memcpy(s->text + s->n_text, text, (size_t)n);
  s->n_text += (size_t)n;
}

static void on_document_type(void *context, const XML_Char *name, const XML_Char *system, const XML_Char *public_id,
                             int has_subset) {
  (void)name, (void)system, (void)public_id, (void)has_subset;
  stop(context, "it has a document type");
}

/* ---- Values ---- */

static void strip_quotes(char *text) {
  size_t n = strlen(text);
  if (n < 2 || text[0] != '"' || text[n - 1] != '"') return;
  memmove(text, text + 1, n - 2);
  text[n - 2] = 0;
}

static bool read_number(uint64_t *out, const char *text) {
  if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
    *out = text[0] == 't';
    return true;
  }
  char *end;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  *out = value;
  return text[0] >= '0' && text[0] <= '9' && *end == 0 && errno == 0 && value <= INT64_MAX;
}

static void keep_text(state *s, char **field) {
  free(*field);
  *field = ck_copy_text(s->text);
  if (!*field) {
    stop_memory(s);
    return;
  }
  strip_quotes(*field);
}

static void on_end(void *context, const XML_Char *name) {
  state *s = context;
  (void)name;
  if (s->row && s->row->taken >= ITEM_TEXT) {
    bool in_item = s->row->taken == ITEM_TEXT || s->row->taken == ITEM_NUMBER;
    bool is_number = s->row->taken == ITEM_NUMBER || s->row->taken == NUMBER;
    char *base = in_item ? (char *)&s->answer->items[s->answer->n_items - 1] : (char *)s->answer;
    void *field = base + s->row->offset;
    s->text[s->n_text] = 0;
    if (!is_number)
      keep_text(s, field);
    else if (!read_number(field, s->text))
      stop(s, "a number in it is none");
  }
  s->row = NULL;
  s->depth--;
  char *slash = strrchr(s->path, '/');
  s->n_path = slash ? (size_t)(slash - s->path) : 0;
  s->path[s->n_path] = 0;
}

static int hex_digit(char c) {
  const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c) : NULL;
  return at ? (int)(at - digits) : -1;
}

/* In place, "+" being a space as S3 writes it. False: no encoding, a NUL, or no UTF-8. */
static bool decode(char *text) {
  char *out = text;
  for (const char *in = text; *in; in++) {
    if (*in != '%') {
      *out++ = (char)(*in == '+' ? ' ' : *in);
      continue;
    }
    int high = hex_digit(in[1]), low = high < 0 ? -1 : hex_digit(in[2]);
    if (low < 0 || high + low == 0) return false;
    *out++ = (char)(unsigned char)(high << 4 | low);
    in += 2;
  }
  *out = 0;
  return ck_is_utf8(text, (size_t)(out - text));
}

static bool decode_keys(ck_s3_answer *answer) {
  if (!answer->encoding || strcmp(answer->encoding, "url") != 0) return true;
  bool good = !answer->next_key || decode(answer->next_key);
  for (size_t i = 0; good && i < answer->n_items; i++) good = !answer->items[i].key || decode(answer->items[i].key);
  return good;
}

static bool has_keys(const ck_s3_answer *answer) {
  if (answer->kind != CK_S3_OBJECTS && answer->kind != CK_S3_UPLOADS) return true;
  for (size_t i = 0; i < answer->n_items; i++)
    if (!answer->items[i].key || (answer->kind == CK_S3_UPLOADS && !answer->items[i].upload_id)) return false;
  return true;
}

static const char *check(ck_s3_answer *answer) {
  if (!has_keys(answer)) return "an item in it has no key";
  if (!decode_keys(answer)) return "a key in it is not encoded as it says";
  return NULL;
}

static void parse(state *s, const char *bytes, size_t n_bytes) {
  XML_SetUserData(s->parser, s);
  XML_SetElementHandler(s->parser, on_start, on_end);
  XML_SetCharacterDataHandler(s->parser, on_text);
  XML_SetStartDoctypeDeclHandler(s->parser, on_document_type);
  if (n_bytes > INT_MAX)
    s->why = "it is too long";
  else if (XML_Parse(s->parser, bytes, (int)n_bytes, XML_TRUE) != XML_STATUS_OK && !s->why) {
    s->no_memory = XML_GetErrorCode(s->parser) == XML_ERROR_NO_MEMORY;
    s->why = XML_ErrorString(XML_GetErrorCode(s->parser));
  }
  if (!s->why) s->why = check(s->answer);
}

ck_s3_reading ck_s3_read_xml(ck_s3_answer *out, const char **why, const char *bytes, size_t n_bytes) {
  memset(out, 0, sizeof *out);
  *why = NULL;
  state s = {.answer = out, .parser = XML_ParserCreate(NULL), .text = malloc(TEXT_BYTES + 1)};
  if (s.parser && s.text)
    parse(&s, bytes, n_bytes);
  else
    s.no_memory = true;
  if (s.parser) XML_ParserFree(s.parser);
  free(s.text);
  if (!s.no_memory && !s.why) return CK_S3_READ;
  ck_s3_answer_clear(out);
  if (!s.no_memory) *why = s.why;
  return s.no_memory ? CK_S3_NO_MEMORY : CK_S3_MALFORMED;
}

void ck_s3_answer_clear(ck_s3_answer *answer) {
  for (size_t i = 0; i < answer->n_items; i++) {
    ck_s3_item *item = &answer->items[i];
    free(item->key);
    free(item->etag);
    free(item->upload_id);
    free(item->initiated);
  }
  free(answer->items);
  for (size_t i = 0; i < N_ROWS; i++) {
    if (rows[i].taken != TEXT) continue;
    char **field = (char **)(void *)((char *)answer + rows[i].offset);
    free(*field);
    *field = NULL;
  }
  memset(answer, 0, sizeof *answer);
}
