/* The value of --choices. */
#include <string.h>

#include "choices.h"
#include "error.h"
#include "kinds.h"

static choices_status read_kinds(unsigned *out, const char *list, choices_error *error) {
  while (*list || *out == 0) {
    size_t n = strcspn(list, ",");
    char word[32] = "";
    if (n < sizeof word) memcpy(word, list, n);
    int index = ch_kind_index(word);
    if (index < 0) return ch_fail(error, CH_E_KIND, NULL, 0, "found \"%.*s\"", n > 60 ? 60 : (int)n, list);
    *out |= 1u << index;
    list += n;
    if (*list == ',') list++;
  }
  return CHOICES_OK;
}

choices_status choices_request_parse(choices_request *out, const char *text, choices_error *error) {
  *out = (choices_request){0};
  ch_error_clear(error);
  if (!text) return CHOICES_OK;
  bool listed = strncmp(text, "fresh:", 6) == 0;
  out->fresh = listed || strcmp(text, "fresh") == 0;
  if (!out->fresh) out->record = text;
  return listed ? read_kinds(&out->kinds, text + 6, error) : CHOICES_OK;
}

choices_status choices_request_check(const choices_request *request, bool deterministic, bool bf16_between_nodes,
                                     choices_error *error) {
  ch_error_clear(error);
  if (deterministic && request->record)
    return ch_fail(error, CH_E_DETERMINISTIC, NULL, 0, "--choices %.500s; found both", request->record);
  if (deterministic && bf16_between_nodes)
    return ch_fail(error, CH_E_DETERMINISTIC, NULL, 0, "SEXPGPU_NODE_GRADIENTS=bf16; found both");
  return CHOICES_OK;
}
