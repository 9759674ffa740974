/* Signature Version 4 of AWS in its header form, and the encoding of what it signs. Pure functions of their arguments.
 * Source: "Signature Calculations for the Authorization Header" of the Amazon S3 API reference. */
#ifndef CK_S3_SIGN_H
#define CK_S3_SIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A parameter of a query or a header. */
typedef struct ck_s3_pair {
  const char *name, *value;
} ck_s3_pair;

typedef struct ck_s3_signing {
  const char *access_key_id, *secret_access_key, *region, *service;
  const char *method;
  const char *path;          /* encoded, from its first slash on */
  const char *query;         /* of ck_s3_query */
  const ck_s3_pair *headers; /* all that is signed: lowercase names in byte order, values without outer spaces */
  size_t n_headers;
  const char *payload_sha256; /* 64 hexadecimal digits */
  const char *date;           /* of ck_s3_date */
} ck_s3_signing;

/* Percent-encodes all but letters, digits, "-._~" and, with keep_slashes, "/". NULL: no memory. */
char *ck_s3_encode(const char *text, bool keep_slashes);

/* The canonical query: encoded, in byte order, every parameter with "=". NULL: no memory. */
char *ck_s3_query(const ck_s3_pair *pairs, size_t n);

enum { CK_S3_DATE = 17 };
void ck_s3_date(char out[CK_S3_DATE], int64_t now_s); /* "20130524T000000Z" */

/* The key for a day ("20130524"), region and service. False: no memory. */
bool ck_s3_signing_key(unsigned char out[32], const char *secret_access_key, const char *day, const char *region,
                       const char *service);

/* The value of the Authorization header. NULL: no memory. */
char *ck_s3_authorization(const ck_s3_signing *signing);

#endif
