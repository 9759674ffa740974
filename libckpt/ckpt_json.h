/* A writer of JSON (RFC 8259) into memory, for records. Included by ckpt.h.
 *
 *     ckpt_json *json = ckpt_json_new(CKPT_JSON_LINE);
 *     ckpt_json_begin_object(json);
 *     ckpt_json_key(json, "loss");
 *     ckpt_json_real32(json, loss);
 *     ckpt_json_end_object(json);
 *     const char *text = ckpt_json_text(json, &n_bytes);   // NULL: out of memory
 *
 * Commas and line ends are the writer's. A call that makes no JSON (a value where a key belongs, an end without a
 * begin, more than CKPT_JSON_DEPTH levels) is a bug of the caller and aborts. Failed allocations are remembered:
 * ckpt_json_text gives NULL. After ckpt_json_reset the memory is used again, so that a record of the size of an
 * earlier one allocates nothing.
 *
 * Reals are the shortest of %.1g, %.2g … that reads back to the same binary32 or binary64, with a point whatever the
 * locale; -0 is -0; NaN and infinities are null. Strings are UTF-8; bytes that are not become U+FFFD. */
#ifndef CKPT_JSON_H
#define CKPT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CKPT_JSON_DEPTH = 64 };

typedef enum ckpt_json_style {
  CKPT_JSON_LINE,  /* one line, ended by \n when the value is complete */
  CKPT_JSON_PRETTY /* two spaces a level, ended by \n; an array of scalars stays on one line */
} ckpt_json_style;

typedef struct ckpt_json ckpt_json;

ckpt_json *ckpt_json_new(ckpt_json_style style); /* owned; NULL: out of memory */
void ckpt_json_free(ckpt_json *json);
void ckpt_json_reset(ckpt_json *json);

/* What was written, ended by a NUL that is not counted; borrowed until the next call. NULL: out of memory. */
const char *ckpt_json_text(ckpt_json *json, size_t *n_out);

void ckpt_json_begin_object(ckpt_json *json);
void ckpt_json_end_object(ckpt_json *json);
void ckpt_json_begin_array(ckpt_json *json);
void ckpt_json_end_array(ckpt_json *json);
void ckpt_json_key(ckpt_json *json, const char *key);

void ckpt_json_string(ckpt_json *json, const char *text); /* NULL: null */
void ckpt_json_string_n(ckpt_json *json, const char *text, size_t n_bytes);
void ckpt_json_integer(ckpt_json *json, int64_t value);
void ckpt_json_unsigned(ckpt_json *json, uint64_t value); /* above INT64_MAX a string, as many readers are signed */
void ckpt_json_bool(ckpt_json *json, bool value);
void ckpt_json_null(ckpt_json *json);
void ckpt_json_real32(ckpt_json *json, float value);
void ckpt_json_real64(ckpt_json *json, double value);
void ckpt_json_bits32(ckpt_json *json, float value); /* "3f8ccccd": the bits in hexadecimal */

/* A value that is JSON text already, taken as it is. */
void ckpt_json_raw(ckpt_json *json, const char *text);

/* The same texts of a real outside of JSON ("nan", "inf", "-inf" for those). The number of bytes without the NUL. */
enum { CKPT_REAL_TEXT = 32 };
size_t ckpt_real32_text(char out[CKPT_REAL_TEXT], float value);
size_t ckpt_real64_text(char out[CKPT_REAL_TEXT], double value);

#ifdef __cplusplus
}
#endif
#endif
