/* What a bundle holds: gathered and checked, then written. */
#ifndef CHECKPOINT_BUNDLE_H
#define CHECKPOINT_BUNDLE_H

#include "../../libckpt/ckpt.h"

typedef struct bundle_item {
  char *path; /* of the file to read; or, with `bytes`, the name that a run gave it */
  char *name; /* in the archive */
  const void *bytes;
  bool listed; /* file `index` of the checkpoint */
  size_t index;
  uint64_t size;
} bundle_item;

typedef struct bundle {
  const ckpt_checkpoint *checkpoint;
  const char *root; /* the experiment's folder, where recorded relative paths start */
  bundle_item *items;
  size_t n_items, room;
} bundle;

/* The checkpoint's files, its experiment's files, and the weights that it was started from. The exit status. */
int bundle_gather(bundle *b);

/* Writes the items to `target`, "-" for standard output. The exit status. */
int bundle_write(const bundle *b, const char *target);
void bundle_free(bundle *b);

#endif
