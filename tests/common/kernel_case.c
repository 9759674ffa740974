#include "kernel_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../libsexp/cpu/operand.h"

/* ---- random choices ------------------------------------------------------------- */

/* One call an expression, below: C leaves the order of operands open, and the cases are golden. */
static uint64_t next(kernel_case *c) {
  uint64_t z = c->state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static int64_t below(kernel_case *c, int64_t n) { return (int64_t)(next(c) % (uint64_t)n); }
static bool one_in(kernel_case *c, int64_t n) { return below(c, n) == 0; }

/* Mostly small, now and then 0 or up to the largest. */
static int64_t size(kernel_case *c) {
  switch (below(c, 12)) {
    case 0:
      return 1;
    case 1:
      return below(c, 30) == 0 ? 0 : 1;
    case 2:
    case 3:
      return 1 + below(c, c->largest);
    default:
      return 1 + below(c, c->largest < 12 ? c->largest : 12);
  }
}

static int64_t size_not_0(kernel_case *c) {
  int64_t n = size(c);
  return n > 0 ? n : 1;
}

static const float specials[] = {
    0.0f,     -0.0f,    0x1p-149f, -0x1p-149f,      0x1p-126f,   -0x1.8p-127f, 0x1.fffffep127f, -0x1p127f,
    1.0f,     -1.0f,    0x1p31f,   -0x1p31f,        16777216.5f, 0.5f,         -2.5f,           0x1.8p-25f,
    65504.0f, 65520.0f, 0x1p33f,   -0x1.234568p40f, 255.5f,      0x1.921fb6p1f};

static float special_value(kernel_case *c) {
  int64_t n = (int64_t)(sizeof specials / sizeof *specials);
  int64_t k = below(c, n + 6);
  if (k < n) return specials[k];
  if (k < n + 2) return sx_from_bits_f32(0x7f800000u);
  if (k < n + 4) return sx_from_bits_f32(0xff800000u);
  return sx_from_bits_f32(0x7fc00000u | (uint32_t)below(c, 2) << 31);
}

static float real_value(kernel_case *c) {
  float unit = (float)(int32_t)(next(c) >> 40) * 0x1p-23f - 1.0f; /* [-1, 1) */
  switch (c->values) {
    case VALUES_SPECIAL:
      return one_in(c, 4) ? special_value(c) : unit * 8.0f;
    case VALUES_TIES: {
      float size = (float)below(c, 4);
      return size * (one_in(c, 2) ? -0.5f : 0.5f);
    }
    case VALUES_TINY:
      return one_in(c, 3) ? 0.0f * unit : unit * 0x1p-76f;
    default:
      return unit * 4.0f;
  }
}

static int32_t integer_value(kernel_case *c) {
  switch (c->values) {
    case VALUES_SPECIAL: {
      int32_t bits = (int32_t)next(c);
      return bits >> below(c, 32);
    }
    case VALUES_TIES:
      return (int32_t)below(c, 4) - 1;
    default:
      return (int32_t)below(c, 200) - 100;
  }
}

static void fill(kernel_case *c, void *data, sx_dtype dtype, int64_t n) {
  for (int64_t k = 0; k < n; k++) {
    sx_value x = {.f = 0.0f};
    if (sx_is_float(dtype))
      x.f = real_value(c);
    else
      x.i = dtype == SX_BOOL ? (int32_t)below(c, 2) : integer_value(c) & (dtype == SX_U8 ? 255 : -1);
    sx_store(data, dtype, k, x);
  }
}

/* ---- operands ---------------------------------------------------------------------- */

static void *block(kernel_case *c, int64_t n_bytes) {
  void *memory = NULL;
  if (c->n_blocks == CASE_BLOCKS || posix_memalign(&memory, 64, (size_t)n_bytes + 64)) abort();
  memset(memory, 0, (size_t)n_bytes + 64);
  return c->blocks[c->n_blocks++] = memory;
}

/* A way for the operand to lie: axes in any order, gaps, backwards, broadcast. Gives the elements of the
 * block and where the first element is in it. */
static int64_t lay_out(kernel_case *c, const int64_t *dims, int rank, int64_t *strides, int64_t *first) {
  int order[SX_RANK_MAX];
  for (int k = 0; k < rank; k++) order[k] = rank - 1 - k;
  bool odd = c->strided && one_in(c, 2);
  if (odd && one_in(c, 2))
    for (int k = rank - 1; k > 0; k--) {
      int other = (int)below(c, k + 1), held = order[k];
      order[k] = order[other];
      order[other] = held;
    }
  int64_t step = odd && one_in(c, 3) ? 2 : 1;
  *first = odd ? below(c, 4) : 0;
  for (int k = 0; k < rank; k++) {
    int axis = order[k];
    if (odd && one_in(c, 8)) {
      strides[axis] = 0;
      continue;
    }
    strides[axis] = step;
    if (odd && one_in(c, 6) && dims[axis] > 0) {
      strides[axis] = -step;
      *first += step * (dims[axis] - 1);
    }
    step *= dims[axis] > 0 ? dims[axis] + (odd && one_in(c, 6)) : 1;
  }
  return step + *first + 4;
}

static sx_operand *add_input(kernel_case *c, sx_dtype dtype, int rank, const int64_t *dims) {
  uint32_t k = c->n_inputs++;
  int64_t first;
  memcpy(c->dims[k], dims, (size_t)rank * sizeof *dims);
  int64_t n = lay_out(c, dims, rank, c->strides[k], &first);
  char *data = block(c, n * sx_element_bytes(dtype));
  fill(c, data, dtype, n);
  c->inputs[k] = (sx_operand){data + first * sx_element_bytes(dtype), dtype, rank, c->dims[k], c->strides[k]};
  return &c->inputs[k];
}

/* ids below n; in one case of eight one of them is not. They do not overlap themselves. */
static void add_ids(kernel_case *c, int rank, const int64_t *dims, int64_t n) {
  bool strided = c->strided;
  c->strided = false;
  sx_operand *ids = add_input(c, SX_I32, rank, dims);
  c->strided = strided;
  int64_t count = sx_operand_count(ids);
  for (int64_t k = 0; k < count; k++) ((int32_t *)ids->data)[k] = n > 0 ? (int32_t)below(c, n) : 0;
  if (count > 0 && c->strided && one_in(c, 8)) {
    int64_t at = below(c, count);
    ((int32_t *)ids->data)[at] = one_in(c, 2) ? -1 : (int32_t)n;
  }
}

static void set_out(kernel_case *c, sx_dtype dtype, int rank, const int64_t *dims) {
  int64_t *out = c->dims[CASE_INPUTS], *strides = c->strides[CASE_INPUTS];
  memcpy(out, dims, (size_t)rank * sizeof *dims);
  int64_t step = 1;
  for (int axis = rank - 1; axis >= 0; axis--) {
    strides[axis] = step;
    step *= out[axis];
  }
  c->out = (sx_operand){NULL, dtype, rank, out, strides};
}

static int random_dims(kernel_case *c, int least, int most, int64_t *dims) {
  int rank = least + (int)below(c, most - least + 1);
  for (int axis = 0; axis < rank; axis++) dims[axis] = size(c);
  return rank;
}

static sx_dtype pick(kernel_case *c, const char *letters) {
  static const char all[] = "fbhiut"; /* as sx_dtype: f32 bf16 f16 i32 u8 bool */
  return (sx_dtype)(strchr(all, letters[below(c, (int64_t)strlen(letters))]) - all);
}

#define FLOATS "fffbh"
#define NUMBERS "fffbhi"
#define ANY_DTYPE "fffbhiiut"

/* ---- one function a family ------------------------------------------------------------ */

static void make_element(kernel_case *c) {
  static const struct {
    sx_op first, last;
    const char *dtypes;
  } legal[] = {
      {SX_OP_ADD, SX_OP_MUL, NUMBERS},  {SX_OP_DIV, SX_OP_DIV, FLOATS},   {SX_OP_IDIV, SX_OP_MIN, NUMBERS},
      {SX_OP_POW, SX_OP_ATAN2, FLOATS}, {SX_OP_NEG, SX_OP_SIGN, NUMBERS}, {SX_OP_SQRT, SX_OP_ROUND, FLOATS},
      {SX_OP_EQ, SX_OP_GE, ANY_DTYPE},  {SX_OP_AND, SX_OP_NOT, "t"},      {SX_OP_WHERE, SX_OP_CAST, ANY_DTYPE},
  };
  sx_op op = c->node.op;
  int64_t dims[SX_RANK_MAX];
  int rank = random_dims(c, 0, 4, dims);
  sx_dtype from = SX_F32;
  for (size_t k = 0; k < sizeof legal / sizeof *legal; k++)
    if (op >= legal[k].first && op <= legal[k].last) from = pick(c, legal[k].dtypes);
  int n = sx_op_describe(op)->n_inputs;
  for (int k = 0; k < n; k++) add_input(c, op == SX_OP_WHERE && k == 0 ? SX_BOOL : from, rank, dims);
  bool to_bool = op >= SX_OP_EQ && op <= SX_OP_NOT;
  set_out(c, op == SX_OP_CAST ? pick(c, ANY_DTYPE) : to_bool ? SX_BOOL : from, rank, dims);
}

static void make_fill(kernel_case *c) {
  int64_t dims[SX_RANK_MAX];
  int rank = random_dims(c, 1, 4, dims);
  bool iota = c->node.op == SX_OP_IOTA;
  set_out(c, iota ? SX_I32 : pick(c, ANY_DTYPE), rank, dims);
  if (iota) c->ints[c->node.n_ints++] = below(c, rank);
  c->node.real = (double)below(c, 2);
}

static void make_reshape(kernel_case *c) {
  int64_t dims[SX_RANK_MAX];
  int rank = random_dims(c, 0, 4, dims);
  sx_dtype dtype = pick(c, ANY_DTYPE);
  int64_t n = sx_operand_count(add_input(c, dtype, rank, dims));
  set_out(c, dtype, 1, &n);
}

static void make_move(kernel_case *c) {
  int64_t dims[SX_RANK_MAX], out[SX_RANK_MAX];
  int rank = random_dims(c, 1, 4, dims);
  sx_dtype dtype = pick(c, ANY_DTYPE);
  int64_t *ints = c->ints;
  memcpy(out, dims, sizeof out);
  switch (c->node.op) {
    case SX_OP_TRANSPOSE:
      for (int k = 0, turn = (int)below(c, rank); k < rank; k++) ints[c->node.n_ints++] = (k + turn) % rank;
      for (int k = 0; k < rank; k++) out[k] = dims[ints[k]];
      break;
    case SX_OP_BROADCAST:
      for (int k = 0; k < rank; k++)
        if (one_in(c, 2)) dims[k] = 1;
      break;
    case SX_OP_REVERSE:
      ints[c->node.n_ints++] = below(c, rank);
      break;
    case SX_OP_SLICE:
      for (int k = 0; k < rank; k++) {
        int64_t start = dims[k] ? below(c, dims[k]) : 0, end = start + below(c, dims[k] - start + 1),
                step = 1 + below(c, 3);
        memcpy(ints + 3 * k, (int64_t[]){start, end, step}, 3 * sizeof *ints);
        out[k] = (end - start + step - 1) / step;
      }
      c->node.n_ints = 3 * (uint32_t)rank;
      break;
    default: /* pad */
      c->node.real = (double)below(c, 2);
      for (int k = 0; k < rank; k++) {
        int64_t low = below(c, 4), high = below(c, 4), inner = one_in(c, 3) ? below(c, 3) : 0;
        if (one_in(c, 5)) low = -below(c, dims[k] + 1);
        memcpy(ints + 3 * k, (int64_t[]){low, high, inner}, 3 * sizeof *ints);
        out[k] = low + high + dims[k] + (dims[k] > 0 ? (dims[k] - 1) * inner : 0);
      }
      c->node.n_ints = 3 * (uint32_t)rank;
      break;
  }
  add_input(c, dtype, rank, dims);
  set_out(c, dtype, rank, out);
}

static void make_concat(kernel_case *c) {
  int64_t dims[SX_RANK_MAX];
  int rank = random_dims(c, 1, 4, dims), n = 1 + (int)below(c, 4);
  int64_t axis = below(c, rank), length = 0;
  sx_dtype dtype = pick(c, ANY_DTYPE);
  for (int k = 0; k < n; k++) {
    dims[axis] = size(c);
    length += dims[axis];
    add_input(c, dtype, rank, dims);
  }
  dims[axis] = length;
  c->ints[c->node.n_ints++] = axis;
  set_out(c, dtype, rank, dims);
}

static void make_unfold(kernel_case *c) {
  bool fold = c->node.op == SX_OP_FOLD;
  int64_t dims[SX_RANK_MAX], windows[SX_RANK_MAX];
  int rank = random_dims(c, 1, 3, dims);
  int64_t axis = below(c, rank), length = dims[axis] = size_not_0(c);
  int64_t window = 1 + below(c, length < 5 ? length : 5), step = 1 + below(c, 3);
  memcpy(windows, dims, sizeof windows);
  windows[axis] = (length - window) / step + 1;
  windows[rank] = window;
  memcpy(c->ints, (int64_t[]){axis, window, step, length}, 4 * sizeof *c->ints);
  c->node.n_ints = fold ? 4 : 3;
  sx_dtype dtype = pick(c, fold ? NUMBERS : ANY_DTYPE);
  add_input(c, dtype, fold ? rank + 1 : rank, fold ? windows : dims);
  set_out(c, dtype, fold ? rank : rank + 1, fold ? dims : windows);
}

static void make_reduce(kernel_case *c) {
  sx_op op = c->node.op;
  bool arg = op == SX_OP_ARGMAX || op == SX_OP_ARGMIN, logic = op == SX_OP_ANY || op == SX_OP_ALL;
  int64_t dims[SX_RANK_MAX], out[SX_RANK_MAX];
  int rank = random_dims(c, 1, 4, dims), kept = 0;
  int64_t only = below(c, rank);
  if (one_in(c, 3)) {
    int64_t length = size(c);
    dims[only] = length * (1 + below(c, 40)); /* longer than a chunk, now and then */
  }
  for (int axis = 0; axis < rank; axis++) {
    if (arg ? axis == only : one_in(c, 2)) {
      if (arg && dims[axis] == 0) dims[axis] = 1;
      c->ints[c->node.n_ints++] = axis;
    } else {
      out[kept++] = dims[axis];
    }
  }
  sx_dtype dtype = logic ? SX_BOOL : pick(c, NUMBERS);
  add_input(c, dtype, rank, dims);
  set_out(c, arg ? SX_I32 : dtype, kept, out);
}

/* Labels a to h; each is in one or two of the operands and the result, in any order. */
static void make_einsum(kernel_case *c) {
  int64_t length[8];
  char texts[3][9] = {"", "", ""};
  int n = 1 + (int)below(c, 5);
  for (int label = 0; label < n; label++) {
    static const int presence[] = {3, 3, 3, 5, 5, 6, 6, 7, 1, 2}; /* bit 0: first, 1: second, 2: result */
    int in = presence[below(c, one_in(c, 4) ? 10 : 8)];
    length[label] = size(c);
    for (int k = 0; k < 3; k++) {
      if (!(in >> k & 1)) continue;
      size_t at = strlen(texts[k]), place = (size_t)below(c, (int64_t)at + 1);
      memmove(texts[k] + place + 1, texts[k] + place, at - place + 1);
      texts[k][place] = (char)('a' + label);
    }
  }
  snprintf(c->labels, sizeof c->labels, "%s,%s->%s", texts[0], texts[1], texts[2]);
  c->node.text = c->labels;
  sx_dtype dtype = pick(c, FLOATS);
  for (int k = 0; k < 3; k++) {
    int64_t dims[SX_RANK_MAX];
    int rank = (int)strlen(texts[k]);
    for (int axis = 0; axis < rank; axis++) dims[axis] = length[texts[k][axis] - 'a'];
    if (k < 2)
      add_input(c, dtype, rank, dims);
    else
      set_out(c, one_in(c, 2) ? dtype : SX_F32, rank, dims);
  }
}

static void make_conv(kernel_case *c) {
  int64_t stride = 1 + below(c, 3), padding = below(c, 3);
  int64_t limit = c->largest < 9 ? c->largest : 9;
  int64_t kernel[4], image[4];
  kernel[0] = size(c);
  for (int axis = 1; axis < 3; axis++) kernel[axis] = 1 + below(c, 4);
  kernel[3] = size(c);
  image[0] = 1 + below(c, 3);
  for (int axis = 1; axis < 3; axis++) image[axis] = 1 + below(c, limit);
  image[3] = kernel[3];
  for (int axis = 1; axis < 3; axis++)
    if (image[axis] + 2 * padding < kernel[axis]) image[axis] = kernel[axis];
  int64_t pixels[4] = {image[0], (image[1] + 2 * padding - kernel[1]) / stride + 1,
                       (image[2] + 2 * padding - kernel[2]) / stride + 1, kernel[0]};
  sx_dtype dtype = pick(c, FLOATS);
  memcpy(c->ints, (int64_t[]){stride, padding}, 2 * sizeof *c->ints);
  c->node.n_ints = 4;
  switch (c->node.op) {
    case SX_OP_CONV:
      c->node.n_ints = 2;
      add_input(c, dtype, 4, image);
      add_input(c, dtype, 4, kernel);
      set_out(c, dtype, 4, pixels);
      break;
    case SX_OP_CONVDATA:
      memcpy(c->ints + 2, image + 1, 2 * sizeof *image);
      add_input(c, dtype, 4, pixels);
      if (!one_in(c, 3) && c->values == VALUES_SPECIAL) c->values = VALUES_TINY; /* finite weights */
      add_input(c, dtype, 4, kernel);
      set_out(c, dtype, 4, image);
      break;
    default:
      memcpy(c->ints + 2, kernel + 1, 2 * sizeof *kernel);
      add_input(c, dtype, 4, pixels);
      add_input(c, dtype, 4, image);
      set_out(c, dtype, 4, kernel);
      break;
  }
}

/* Gather and scatter: [n rest...], ids, [ids... rest...]. */
static void make_rows(kernel_case *c) {
  bool gather = c->node.op == SX_OP_GATHER;
  int64_t table[SX_RANK_MAX], ids[SX_RANK_MAX], rows[SX_RANK_MAX];
  int table_rank = random_dims(c, 1, 3, table), ids_rank = random_dims(c, 0, 2, ids);
  table[0] = size_not_0(c);
  memcpy(rows, ids, (size_t)ids_rank * sizeof *ids);
  memcpy(rows + ids_rank, table + 1, (size_t)(table_rank - 1) * sizeof *table);
  int rows_rank = ids_rank + table_rank - 1;
  sx_dtype dtype = pick(c, gather ? ANY_DTYPE : NUMBERS);
  if (gather) add_input(c, dtype, table_rank, table);
  add_ids(c, ids_rank, ids, table[0]);
  if (!gather) {
    add_input(c, dtype, rows_rank, rows);
    c->ints[c->node.n_ints++] = table[0];
  }
  set_out(c, dtype, gather ? rows_rank : table_rank, gather ? rows : table);
}

static void make_along(kernel_case *c) {
  bool take = c->node.op == SX_OP_TAKE;
  int64_t dims[SX_RANK_MAX], ids[SX_RANK_MAX];
  int rank = random_dims(c, 1, 3, dims);
  int64_t axis = below(c, rank);
  dims[axis] = size_not_0(c);
  memcpy(ids, dims, sizeof ids);
  ids[axis] = size(c);
  c->ints[c->node.n_ints++] = axis;
  sx_dtype dtype = pick(c, take ? ANY_DTYPE : NUMBERS);
  if (take) add_input(c, dtype, rank, dims);
  add_ids(c, rank, ids, dims[axis]);
  if (!take) {
    add_input(c, dtype, rank, ids);
    c->ints[c->node.n_ints++] = dims[axis];
  }
  set_out(c, dtype, rank, take ? ids : dims);
}

static void make_one_hot(kernel_case *c) {
  int64_t dims[SX_RANK_MAX];
  int rank = random_dims(c, 0, 3, dims);
  int64_t n = dims[rank] = size_not_0(c);
  add_ids(c, rank, dims, n);
  c->ints[c->node.n_ints++] = n;
  set_out(c, pick(c, ANY_DTYPE), rank + 1, dims);
}

static void make_along_axis(kernel_case *c) {
  sx_op op = c->node.op;
  int64_t dims[SX_RANK_MAX];
  int rank = random_dims(c, 1, 3, dims);
  sx_dtype dtype = pick(c, op == SX_OP_SCANLINEAR ? FLOATS : NUMBERS);
  c->ints[0] = below(c, rank);
  c->ints[1] = below(c, 2);
  c->node.n_ints = 2;
  add_input(c, dtype, rank, dims);
  if (op == SX_OP_SCANLINEAR) add_input(c, dtype, rank, dims);
  if (op != SX_OP_ARGSORT && one_in(c, 2)) {
    add_input(c, SX_I32, rank, dims);
    sx_operand *segments = &c->inputs[c->n_inputs - 1];
    int64_t index[SX_RANK_MAX] = {0};
    for (int64_t k = sx_operand_count(segments); k > 0; k--) {
      ((int32_t *)segments->data)[sx_operand_at(segments, index)] = (int32_t)below(c, 2);
      sx_index_next(index, dims, rank);
    }
  }
  set_out(c, op == SX_OP_ARGSORT ? SX_I32 : dtype, rank, dims);
}

static void make_draw(kernel_case *c) {
  int64_t dims[SX_RANK_MAX];
  int rank = random_dims(c, 0, 3, dims);
  for (int64_t n = below(c, 4); n > 0; n--) add_input(c, SX_I32, 0, dims);
  set_out(c, SX_F32, rank, dims);
}

typedef void maker(kernel_case *c);

static maker *maker_of(sx_op op) {
  switch (sx_op_describe(op)->class) {
    case SX_CLASS_ELEMENT:
      return make_element;
    case SX_CLASS_RANDOM:
      return make_draw;
    case SX_CLASS_SCAN:
      return make_along_axis;
    case SX_CLASS_CONTRACT:
      return op == SX_OP_EINSUM ? make_einsum : make_conv;
    case SX_CLASS_REDUCE:
      return op == SX_OP_FOLD ? make_unfold : make_reduce;
    case SX_CLASS_LEAF:
      return op == SX_OP_CONST || op == SX_OP_IOTA ? make_fill : NULL;
    case SX_CLASS_META:
      return NULL;
    default:
      break;
  }
  switch (op) {
    case SX_OP_RESHAPE:
      return make_reshape;
    case SX_OP_CONCAT:
      return make_concat;
    case SX_OP_UNFOLD:
      return make_unfold;
    case SX_OP_GATHER:
    case SX_OP_SCATTER:
      return make_rows;
    case SX_OP_TAKE:
    case SX_OP_PUT:
      return make_along;
    case SX_OP_ONEHOT:
      return make_one_hot;
    case SX_OP_ARGSORT:
      return make_along_axis;
    case SX_OP_TRANSPOSE:
    case SX_OP_BROADCAST:
    case SX_OP_SLICE:
    case SX_OP_PAD:
    case SX_OP_REVERSE:
      return make_move;
    default:
      return NULL;
  }
}

/* ---- for tests ---------------------------------------------------------------------------- */

bool kernel_case_has(sx_op op) { return maker_of(op) != NULL; }

static void make(kernel_case *c, sx_op op, uint64_t seed, int64_t largest, bool strided) {
  memset(c, 0, sizeof *c);
  c->state = seed * 1000003u + (uint64_t)op;
  c->values = (case_values)below(c, N_CASE_VALUES);
  c->strided = strided;
  c->largest = largest;
  c->node.op = op;
  c->node.ints = c->ints;
  c->node.path = "";
  maker_of(op)(c);
  c->node.dtype = c->out.dtype;
  c->node.rank = c->out.rank;
  c->node.dims = c->dims[CASE_INPUTS];
  c->node.n_inputs = c->n_inputs;
  int at = snprintf(c->text, sizeof c->text, "%s seed %llu %s %s", sx_op_describe(op)->name, (unsigned long long)seed,
                    sx_dtype_name(c->n_inputs ? c->inputs[0].dtype : c->out.dtype), c->labels);
  for (int axis = 0; axis < c->out.rank && at > 0 && at < 50; axis++)
    at += snprintf(c->text + at, sizeof c->text - (size_t)at, " %lld", (long long)c->out.dims[axis]);
}

void kernel_case_make(kernel_case *c, sx_op op, uint64_t seed, int64_t largest) { make(c, op, seed, largest, true); }
void kernel_case_make_contiguous(kernel_case *c, sx_op op, uint64_t seed, int64_t largest) {
  make(c, op, seed, largest, false);
}

void kernel_case_free(kernel_case *c) {
  for (int k = 0; k < c->n_blocks; k++) free(c->blocks[k]);
  c->n_blocks = 0;
}

int64_t kernel_case_elements(const kernel_case *c) { return sx_operand_count(&c->out); }
int64_t kernel_case_bytes(const kernel_case *c) { return kernel_case_elements(c) * sx_element_bytes(c->out.dtype); }

sx_call kernel_case_call(kernel_case *c, void *out, void *scratch, sx_fault *fault, sx_pool *pool) {
  atomic_store(&fault->at, INT64_MAX);
  sx_call call = {.node = &c->node, .out = c->out, .inputs = c->inputs, .n_inputs = c->n_inputs, .fault = fault};
  call.out.data = out;
  call.scratch = scratch;
  call.pool = pool;
  call.stream_key = 0x123456789abcdefu;
  return call;
}

void *kernel_case_scratch(const kernel_case *c, sx_simd simd, int n_threads, int64_t *n_bytes) {
  sx_node nodes[CASE_INPUTS + 1] = {{.op = SX_OP_INPUT}};
  sx_id inputs[CASE_INPUTS];
  for (uint32_t k = 0; k < c->n_inputs; k++) {
    nodes[k] = (sx_node){.op = SX_OP_INPUT, .dtype = c->inputs[k].dtype, .rank = c->inputs[k].rank};
    nodes[k].dims = (int64_t *)(uintptr_t)c->dims[k];
    inputs[k] = k;
  }
  nodes[c->n_inputs] = c->node;
  nodes[c->n_inputs].inputs = inputs;
  sx_graph graph = {.nodes = {.items = nodes, .n = c->n_inputs + 1}};
  *n_bytes = sx_kernel_scratch(sx_kernels(simd), &graph, c->n_inputs, n_threads);
  void *memory = NULL;
  if (posix_memalign(&memory, 64, (size_t)*n_bytes + 64)) abort();
  return memory;
}

void canonicalize(void *data, sx_dtype dtype, int64_t n) {
  for (int64_t k = 0; k < n && sx_is_float(dtype); k++) sx_store(data, dtype, k, sx_load(data, dtype, k));
  for (int64_t k = 0; k < n && dtype == SX_F32; k++) ((float *)data)[k] = sx_canonical_f32(((float *)data)[k]);
}
