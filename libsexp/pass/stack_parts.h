/* What the parts of stacking share: stack.c says what is wanted of each node and builds it, stack_rules.c holds the
 * rules of operations. */
#ifndef SX_PASS_STACK_PARTS_H
#define SX_PASS_STACK_PARTS_H

#include "../ir/build.h"
#include "stack.h"

/* What is wanted of a node. A node that varies has another value in each microbatch. */
enum {
  SX_WANT_VALUE = 1, /* [d ...] of a node that varies, else its one value */
  SX_WANT_COPY = 2,  /* [d ...] of a node that does not vary: its value d times */
  SX_WANT_SUM = 4,   /* over the microbatches, f32 for bf16 and f16 */
  SX_WANT_RULE = 8   /* the sum comes from the sum rule of the operation, not from the value */
};

typedef struct sx_stacking {
  const sx_graph *from;
  sx_graph *to;
  int64_t degree;
  bool *varies;                  /* per node of `from` */
  uint8_t *wanted;               /* likewise */
  sx_id *values, *copies, *sums; /* likewise: what stands for the node in `to`, where wanted */
  sx_stack_refusal *why;
  bool refused;
} sx_stacking;

/* How a sum over the microbatches comes about without their values. `demand` marks what is wanted of the operands, or
 * returns false: the values are computed and summed. `build` follows where it marked. Of nodes that vary. */
typedef struct sx_stack_sum {
  bool (*demand)(sx_stacking *s, const sx_node *node);
  sx_id (*build)(sx_stacking *s, const sx_node *node);
} sx_stack_sum;

/* How the attributes say [d ...] where they said [...]. */
typedef enum sx_stack_shift {
  SX_SHIFT_NONE,  /* they name no axis, or the last */
  SX_SHIFT_AXIS,  /* the first is an axis */
  SX_SHIFT_AXES,  /* all are axes */
  SX_SHIFT_PERM,  /* all are axes, one for each axis of the result */
  SX_SHIFT_SLICE, /* start, end, step of each axis */
  SX_SHIFT_PAD    /* low, high, inner of each axis */
} sx_stack_shift;

typedef struct sx_stack_row {
  sx_stack_shift shift;
  bool takes_same;                                        /* operands that do not vary are taken as they are */
  const char *(*refuses)(sx_stacking *, const sx_node *); /* of a wanted value: why it cannot be, or NULL */
  sx_id (*value)(sx_stacking *s, const sx_node *node);    /* NULL: the operation on [d ...], attributes shifted */
  const sx_stack_sum *sum;                                /* NULL: the values, summed */
} sx_stack_row;

extern const sx_stack_row sx_stack_rows[SX_N_OPS];

static inline void sx_want(sx_stacking *s, sx_id id, unsigned what) { s->wanted[id] |= (uint8_t)what; }
/* Wants [d ...] of an operand: its value where it varies, else copies. */
static inline void sx_want_stacked(sx_stacking *s, sx_id id) {
  sx_want(s, id, s->varies[id] ? SX_WANT_VALUE : SX_WANT_COPY | SX_WANT_VALUE);
}
/* What stands for an operand that was wanted so. */
static inline sx_id sx_stacked(const sx_stacking *s, sx_id id) { return s->varies[id] ? s->values[id] : s->copies[id]; }

/* The operation on stacked operands, attributes shifted. */
sx_id sx_stack_shifted(sx_stacking *s, const sx_node *node, const sx_id *inputs);

#endif
