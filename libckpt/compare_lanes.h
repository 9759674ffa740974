/* Comparing f32 elements many at a time. */
#ifndef CK_COMPARE_LANES_H
#define CK_COMPARE_LANES_H

#include "ckpt.h"

enum { CK_LANES = 16 };

/* Adds n elements (a multiple of CK_LANES, at most 2^20) at any alignment to all of *out but `first`. */
void ck_compare_lanes_f32(ckpt_difference *out, const unsigned char *left, const unsigned char *right, size_t n);

#endif
