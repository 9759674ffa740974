/* What differs between two checkpoints, gathered before it is printed. */
#ifndef CHECKPOINT_DIFF_H
#define CHECKPOINT_DIFF_H

#include "../../libckpt/ckpt.h"

/* A fact beside the tensors, with both values as texts; NULL: only the other one has it. */
typedef struct diff_fact {
  const char *group; /* "knobs" */
  char *name;        /* "lr"; "" where the group has one fact */
  char *left, *right;
} diff_fact;

/* A tensor that differs. */
typedef struct diff_tensor {
  ckpt_kind kind;
  const ckpt_tensor *left, *right; /* NULL: only the other one has it */
  ckpt_difference difference;      /* where dtype and shape are the same */
} diff_tensor;

typedef struct diff {
  const ckpt_checkpoint *left, *right;
  diff_fact *facts;
  size_t n_facts, facts_room;
  diff_tensor *tensors;
  size_t n_tensors, tensors_room, n_compared;
  bool tensors_only;
} diff;

/* The groups of facts, in the order in which they are told. */
enum { DIFF_GROUPS = 10 };
extern const char *const diff_groups[DIFF_GROUPS];

void diff_facts(diff *d);
ckpt_status diff_tensors(diff *d, ckpt_error *error);
bool diff_same_layout(const diff_tensor *tensor);
bool diff_has_group(const diff *d, const char *group);
void diff_print(const diff *d);
void diff_print_json(const diff *d);
void diff_free(diff *d);

#endif
