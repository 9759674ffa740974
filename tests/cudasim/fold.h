/* What the stand-ins' products and convolutions compute with: sums of products in f32, in an order that is part of the
 * call. The same order gives the same bits on every host: each product is rounded, then each sum, never both at once.
 */
#ifndef SIM_FOLD_H
#define SIM_FOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- numbers ---- */

typedef enum sim_dtype { SIM_F32, SIM_BF16, SIM_F16, SIM_N_DTYPES } sim_dtype;

size_t sim_dtype_size(sim_dtype dtype);
const char *sim_dtype_name(sim_dtype dtype); /* "f32" */
float sim_widen_f16(uint16_t half);
/* Exact. In place, so that loops over one type are made of it. */
static inline float sim_widen(sim_dtype dtype, const void *values, int64_t at) {
  if (dtype == SIM_F32) return ((const float *)values)[at];
  uint16_t half = ((const uint16_t *)values)[at];
  if (dtype == SIM_F16) return sim_widen_f16(half);
  uint32_t bits = (uint32_t)half << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
/* `statement` with `dtype` as a constant in each of its copies. */
#define SIM_FOR_DTYPE(type, dtype, statement) \
  do {                                        \
    if ((type) == SIM_F32) {                  \
      const sim_dtype dtype = SIM_F32;        \
      statement;                              \
    } else if ((type) == SIM_BF16) {          \
      const sim_dtype dtype = SIM_BF16;       \
      statement;                              \
    } else {                                  \
      const sim_dtype dtype = SIM_F16;        \
      statement;                              \
    }                                         \
  } while (0)
/* To nearest, ties to even. */
void sim_narrow(sim_dtype dtype, void *values, int64_t at, float value);

/* ---- orders ---- */

/* The k terms of one sum are cut into `parts` runs of neighbours, the last ones shorter; a part into `lanes` that take
 * its terms in turn; a lane into blocks of `block` terms (0: one block). Terms are added to their block one by one,
 * from zero; blocks to their lane, from zero; lanes into their part and parts into the sum as a tree, or one by one. */
typedef struct sim_fold_order {
  int64_t parts, lanes, block; /* parts 1 to SIM_PARTS_MAX, lanes 1 to SIM_LANES_MAX */
  bool tree;
  int64_t first; /* each lane begins with this term of it, modulo their number, and comes round: 0 but where an engine
                    is to differ from call to call */
} sim_fold_order;
enum { SIM_PARTS_MAX = 16, SIM_LANES_MAX = 8 };

/* ---- sums ---- */

/* One side of a product: element (i, k) of `n` rows. */
typedef struct sim_operand {
  int64_t n;
  /* panel[k * width + r] = element (i + r, k) for all k below n_terms, 0 where i + r is n or above. */
  void (*fill)(const struct sim_operand *operand, float *panel, int64_t n_terms, int64_t i, int64_t width);
  const void *values;
  sim_dtype dtype;
  int64_t row_stride, term_stride; /* of sim_fill_strided: element (i, k) is at i * row_stride + k * term_stride */
  const void *context;             /* of other fillers */
} sim_operand;
void sim_fill_strided(const sim_operand *operand, float *panel, int64_t n_terms, int64_t i, int64_t width);

/* sums[i * b->n + j] = the sum over k of a(i, k) * b(j, k). a is held as f32 as a whole while it works, b by strips of
 * 32 rows. Ends the process where there is no memory. */
void sim_fold(float *sums, int64_t n_terms, const sim_operand *a, const sim_operand *b, const sim_fold_order *order);

/* malloc that ends the process where there is no memory. */
void *sim_take(size_t n_bytes);

#endif
