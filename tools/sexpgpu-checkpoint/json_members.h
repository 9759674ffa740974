/* The members of a JSON object that is valid, as texts: enough to compare two choices objects. */
#ifndef CHECKPOINT_JSON_MEMBERS_H
#define CHECKPOINT_JSON_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct json_text {
  const char *text;
  size_t n;
} json_text;

/* The member after *at, which is 0 before the first: its key without the quotes, and its value. */
bool json_member_next(json_text *key, json_text *value, const json_text *object, size_t *at);

/* The value of a member. */
bool json_member_find(json_text *value, const json_text *object, const json_text *key);

bool json_text_equal(const json_text *left, const json_text *right);

#endif
