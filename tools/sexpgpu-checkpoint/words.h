/* Words about checkpoints that several commands use. */
#ifndef CHECKPOINT_WORDS_H
#define CHECKPOINT_WORDS_H

#include "../../libckpt/ckpt.h"

/* "[3 4]", owned. */
char *words_shape(int rank, const int64_t *dims);

/* The same as a JSON array. */
void words_shape_json(ckpt_json *json, int rank, const int64_t *dims);

/* The first six digits of a SHA-256 with what stands before them: "sha256:b07c91…", owned. */
char *words_short(const char *sha256, bool prefix);

/* SHA-256 of the choices as the run prints it; "" where there are none. */
void words_choices_digest(char out[CKPT_SHA256_TEXT], const ckpt_experiment *experiment);

/* Why a checkpoint is torn, shortly: "no experiment.json". */
const char *words_torn(const ckpt_error *error);

#endif
