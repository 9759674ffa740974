/* What the parts of emit share: paths of views, a kernel under way, members of element groups. */
#ifndef SX_CUDA_EMIT_PARTS_H
#define SX_CUDA_EMIT_PARTS_H

#include "../pass/plan_parts.h"
#include "emit.h"

/* ---- paths: emit_path.c --------------------------------------------------------------------------- */

/* Where elements lie: loops, no two of which could be one. At least one; of n = 1, one of length 1, of stride 0 where
 * the element is one that is repeated along other shapes, else 1. */
typedef struct sx_path {
  int rank;
  int64_t n;
  int64_t dims[SX_RANK_MAX], strides[SX_RANK_MAX];
} sx_path;

sx_path sx_path_make(const int64_t *dims, const int64_t *strides, int rank);
sx_path sx_path_of(const sx_plan *plan, sx_id node);
/* The row-major path of n elements. */
sx_path sx_path_row_major(int64_t n);
static inline bool sx_path_is_contiguous(const sx_path *path) { return path->rank == 1 && path->strides[0] == 1; }
static inline bool sx_path_is_splat(const sx_path *path) { return path->rank == 1 && path->strides[0] == 0; }
/* Elements that differ in place: for the count of bytes read. */
int64_t sx_path_distinct(const sx_path *path);
/* Farthest place from the first element, in either direction. */
int64_t sx_path_reach(const sx_path *path);
/* Splits the axes of a shape: the lines along one of them, and the places along it. */
void sx_path_lines(const int64_t *dims, const int64_t *strides, int rank, int axis, sx_path *lines, sx_path *along);
/* Splits into rows of `row` elements: element k of row r lies at outer(r) + inner(k). False: it cannot. */
bool sx_path_split(const sx_path *path, int64_t row, sx_path *outer, sx_path *inner);

/* ---- a kernel under way: emit_kernel.c ------------------------------------------------------------ */

enum { SX_EMIT_THREADS = 256 };

/* In texts: U is the unsigned type of indices, J the signed one of places; 32 bits unless `wide`. */
typedef struct sx_emitter {
  sx_lowering *lowering;
  uint32_t task;
  sx_id node;
  sx_arena *arena;
  sx_text parameters, body, outside; /* outside: before the kernel; what is there begins with KERNEL_ */
  SX_VEC(sx_argument) arguments;
  bool wide;
  bool overlaps; /* a result may take the place of an input: pointers are not promised to be apart */
  double flops, bytes;
} sx_emitter;

void sx_emit_begin(sx_emitter *e, sx_lowering *lowering, uint32_t task, sx_id node);
/* A pointer to elements. */
void sx_emit_pointer(sx_emitter *e, const char *name, const char *type, sx_place place, bool written);
/* The value of an input of the node, through its view; counts its bytes. */
void sx_emit_input(sx_emitter *e, const char *name, sx_id id);
/* The node's own buffer. */
void sx_emit_output(sx_emitter *e, const char *name, sx_id id);
void sx_emit_i64(sx_emitter *e, const char *name, int64_t value);
/* The parameter `fault`, the cell of a node that can stop. */
void sx_emit_fault(sx_emitter *e);
void sx_emit_add(sx_emitter *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Indices of the path and of n elements fit 32 bits, or the kernel is made wide. */
void sx_emit_reach(sx_emitter *e, const sx_path *path);
void sx_emit_count(sx_emitter *e, int64_t n);
/* Declares `J result`, the place of element `index`, an expression of type U. */
void sx_emit_place(sx_emitter *e, const sx_path *path, const char *index, const char *result);
/* `const U i`, the number of the thread; the kernel returns for i >= n. */
void sx_emit_each(sx_emitter *e, int64_t n);
/* Names the kernel, adds its launch. Blocks have a multiple of 32 threads. */
sx_work *sx_emit_end(sx_emitter *e, const char *prefix, const int64_t grid[3], uint32_t threads);
/* The same for sx_emit_each. */
sx_work *sx_emit_end_each(sx_emitter *e, const char *prefix, int64_t n);

const char *sx_emit_register(sx_dtype dtype); /* "float", "int" */
const char *sx_emit_bits(sx_dtype dtype);     /* an integer of its size, to move elements */
/* A value as an expression of the register's type. */
const char *sx_emit_literal(sx_arena *arena, sx_dtype dtype, double value);

/* ---- element operations: emit_element.c ----------------------------------------------------------- */

/* The expression of a node on expressions of its inputs, rounded to its dtype. `from`: the dtype of its
 * input 0 (WHERE: 1). */
const char *sx_emit_operation(sx_arena *arena, sx_op op, sx_dtype from, sx_dtype to, const char *const inputs[3]);

/* ---- members of groups: emit_members.c ------------------------------------------------------------ */

typedef struct sx_member {
  sx_id node;
  sx_op op;
  sx_dtype dtype, from;
  bool input, stored, narrow, reduces; /* narrow: one element a row */
  uint32_t phase;                      /* pass over the row in which it is known (rows.c) */
  uint32_t n_inputs, inputs[3];        /* numbers of members */
  sx_path path;                        /* of an input */
  const char *literal;                 /* of an input that is known; else NULL */
  char name[16];                       /* of its value in a register */
} sx_member;

typedef struct sx_members {
  sx_member *items;
  uint32_t n, n_inputs; /* inputs come first */
  int64_t n_elements, row;
} sx_members;

sx_members sx_members_of(const sx_plan *plan, const sx_task *task, sx_arena *arena);
/* Parameters for inputs that are no literals and for stored nodes: p0, p1, ... by member. */
void sx_members_parameters(sx_emitter *e, const sx_members *members);
/* "sx_add_f32(v1, v2)": of a member that is no input and reduces nothing. */
const char *sx_members_expression(const sx_members *members, uint32_t member, sx_arena *arena);

/* ---- families of tasks ---------------------------------------------------------------------------- */

void sx_emit_group(sx_lowering *lowering, uint32_t task);
void sx_emit_rows(sx_lowering *lowering, uint32_t task, const sx_members *members);
/* The elements of `source`, as its view sees them, to a place where its axes have the strides. `id`: what is computed.
 */
void sx_emit_copy(sx_lowering *lowering, uint32_t task, sx_id id, sx_id source, sx_place to, const int64_t *to_strides);

typedef void sx_emit_node(sx_lowering *lowering, uint32_t task, sx_id id);
sx_emit_node sx_emit_reshape, sx_emit_pad, sx_emit_concat, sx_emit_fold;
sx_emit_node sx_emit_sum, sx_emit_extreme, sx_emit_any_all, sx_emit_arg;
sx_emit_node sx_emit_gather, sx_emit_take, sx_emit_one_hot, sx_emit_scatter, sx_emit_put;
sx_emit_node sx_emit_scan, sx_emit_argsort, sx_emit_draw;

/* Sorts `lines` lines of n keys of 64 bits in scratch at `keys`, ascending; the same place or `other` has the result,
 * which is returned. No two keys of a line are equal. */
sx_place sx_emit_sort(sx_lowering *lowering, uint32_t task, sx_id id, sx_place keys, sx_place other, int64_t lines,
                      int64_t n);

#endif
