/* A thread that hashes what its owner has in hand, while the owner writes it. */
#ifndef CK_LANE_H
#define CK_LANE_H

#include "sha256.h"

typedef struct ck_lane ck_lane;

/* NULL where no thread can be started: then the owner hashes. */
ck_lane *ck_lane_new(void);
void ck_lane_free(ck_lane *lane);

/* Adds bytes to a hash, beside the caller: neither may change before the wait that follows every give. */
void ck_lane_give(ck_lane *lane, ck_sha256 *hash, const void *bytes, size_t n_bytes);
ckpt_status ck_lane_wait(ck_lane *lane, ckpt_error *error);

#endif
