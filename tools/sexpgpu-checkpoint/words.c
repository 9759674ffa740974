#include "words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

char *words_shape(int rank, const int64_t *dims) {
  char *text = tool_text("[");
  for (int i = 0; i < rank; i++) {
    char *longer = tool_text("%s%s%" PRId64, text, i ? " " : "", dims[i]);
    free(text);
    text = longer;
  }
  char *closed = tool_text("%s]", text);
  free(text);
  return closed;
}

void words_shape_json(ckpt_json *json, int rank, const int64_t *dims) {
  ckpt_json_begin_array(json);
  for (int i = 0; i < rank; i++) ckpt_json_integer(json, dims[i]);
  ckpt_json_end_array(json);
}

char *words_short(const char *sha256, bool prefix) {
  const char *digits = strncmp(sha256, "sha256:", 7) == 0 ? sha256 + 7 : sha256;
  return tool_text("%s%.6s…", prefix ? "sha256:" : "", digits);
}

void words_choices_digest(char out[CKPT_SHA256_TEXT], const ckpt_experiment *experiment) {
  out[0] = 0;
  if (experiment->choices) ckpt_sha256_bytes(out, experiment->choices, strlen(experiment->choices), NULL);
}

const char *words_torn(const ckpt_error *error) {
  static const struct {
    const char *code, *words;
  } reasons[] = {
      {"E-CKPT-007", "no experiment.json"},           {"E-CKPT-008", "malformed experiment.json"},
      {"E-CKPT-009", "written by a later version"},   {"E-CKPT-010", "experiment.json was changed"},
      {"E-CKPT-011", "a file is missing or cut off"}, {"E-CKPT-013", "tensors differ from experiment.json"},
  };
  for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
    if (strcmp(error->code, reasons[i].code) == 0) return reasons[i].words;
  return error->code;
}
