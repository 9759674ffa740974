/* Any bytes as an experiment.json, with the seal that they need: an error, or an experiment that is written again and
 * then reads as the same. */
#include <stdio.h>

#include "../../libckpt/experiment.h"
#include "tensors.h"

static char *sealed(size_t *n, const uint8_t *data, size_t size) {
  char *text = malloc(size + CK_SEAL_BYTES + 1);
  fuzz_expect(text != NULL);
  if (size) memcpy(text, data, size);
  fuzz_expect(ck_seal(text + size, text, size, NULL) == CKPT_OK);
  *n = size + CK_SEAL_BYTES;
  return text;
}

static void expect_same_text(const char *left, const char *right) {
  fuzz_expect((left == NULL) == (right == NULL) && (!left || strcmp(left, right) == 0));
}

static void expect_same(const ckpt_experiment *left, const ckpt_experiment *right) {
  expect_same_text(left->slug, right->slug);
  expect_same_text(left->choices, right->choices);
  expect_same_text(left->extra, right->extra);
  expect_same_text(left->digest, right->digest);
  fuzz_expect(left->step == right->step && left->seed == right->seed && left->n_files == right->n_files);
  fuzz_expect(left->n_knobs == right->n_knobs && left->n_sources == right->n_sources && left->n_data == right->n_data);
  for (size_t i = 0; i < left->n_knobs; i++) expect_same_text(left->knobs[i].value, right->knobs[i].value);
  for (size_t i = 0; i < left->n_files; i++) expect_same_text(left->files[i].name, right->files[i].name);
  fuzz_expect(left->n_parameters == right->n_parameters && left->n_states == right->n_states);
  for (size_t i = 0; i < left->n_parameters; i++) expect_same_text(left->parameters[i].path, right->parameters[i].path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  size_t n = 0, n_again = 0;
  char *text = sealed(&n, data, size), *again = NULL;
  ck_experiment *first = NULL, *second = NULL;
  ckpt_error error;
  ckpt_status status = ck_experiment_parse(&first, "experiment.json", text, n, &error);
  fuzz_expect_error(status, &error);
  if (status == CKPT_OK) {
    status = ck_experiment_text(&again, &n_again, ck_experiment_public(first), &error);
    if (status == CKPT_OK) {
      fuzz_expect(ck_experiment_parse(&second, "experiment.json", again, n_again, &error) == CKPT_OK);
      expect_same(ck_experiment_public(first), ck_experiment_public(second));
    }
  }
  ck_experiment_free(first);
  ck_experiment_free(second);
  free(again);
  free(text);
  return 0;
}
