/* What a plan costs: bytes and operations by counting, time by rates that a device has measured of itself. */
#ifndef SX_PASS_COST_H
#define SX_PASS_COST_H

#include "plan.h"

/* Of a device, measured once and remembered; all above 0, but for launch_ns and sequence_ns, which may be 0. */
typedef struct sx_cost_rates {
  double bytes_ns;                /* of memory, a nanosecond (GB/s) */
  double upload_ns;               /* bytes from the host's memory, a nanosecond */
  double product_ns[SX_N_DTYPES]; /* operations of products by the dtype of their operands: f32 bf16 f16 */
  double element_ns;              /* f32 operations outside products */
  double launch_ns;               /* from the beginning of one task to the next where the first does nothing */
  double sequence_ns;             /* of a recorded sequence besides what is in it */
} sx_cost_rates;

typedef struct sx_task_cost {
  double read_bytes, written_bytes; /* each element once a task, but no more than its buffer */
  double product_flops;             /* a multiplication and an addition are 2 */
  double element_flops;             /* as sx_op_flops counts */
  sx_dtype dtype;                   /* of the product's operands */
} sx_task_cost;

/* f32 operations for one element of the result (of the operand, where it is a reduction), binary64 counted twice: of
 * kernels/math.h, to about a tenth. Moves and leaves 0; products, which count otherwise, too. */
double sx_op_flops(sx_op op);

sx_task_cost sx_cost_of_task(const sx_plan *plan, size_t task, sx_arena *arena);
/* A launch, and the longer of memory and arithmetic, which overlap. */
double sx_cost_task_ns(const sx_task_cost *cost, const sx_cost_rates *rates);
/* One execution: all tasks one after the other. */
double sx_cost_ns(const sx_plan *plan, const sx_cost_rates *rates, sx_arena *arena);
/* Bit per sx_dtype of the products' operands: the rates of products that sx_cost_ns reads. */
unsigned sx_cost_dtypes(const sx_plan *plan, sx_arena *arena);

#endif
