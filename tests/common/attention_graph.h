/* Graphs of attention, forward and backward, for its test and its benchmark. */
#ifndef TESTS_COMMON_ATTENTION_GRAPH_H
#define TESTS_COMMON_ATTENTION_GRAPH_H

#include "planned.h"

typedef enum mask_kind { MASK_NONE, MASK_CAUSAL, MASK_STRICT, MASK_ANY } mask_kind;

/* Attention of q [b t h d] over k and v [b s h d], seen as [b h t d] and [b h s d]. */
typedef struct attention_shape {
  int b, h, t, s, d;
  mask_kind mask;
  bool bias, dropout, backward, merged; /* merged: results are wanted as [b t h d] */
  bool direct; /* the gradient of o is g, else g times o, so that there is nothing to do before o is known */
  bool joined; /* the one output of the backward is all gradients, scaled and with zeros added, side by side; t = s */
} attention_shape;

/* Inputs q k v g, and as the shape has them bias, drop, seen; outputs o dq dk dv. more: NULL, or further lines, a
 * format of the number of the probabilities' node. */
planned *planned_attention(const attention_shape *shape, const char *more);

#endif
