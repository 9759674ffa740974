/* Element groups on the CPU: a program of one instruction a node, run on tiles that stay in the cache. */
#ifndef SX_CPU_ELEMENTWISE_H
#define SX_CPU_ELEMENTWISE_H

#include "columns.h"
#include "kernel.h"
#include "walk.h"

typedef struct sx_group sx_group;

/* Prepares an ELEMENT task of a plan. Everything is in the arena. */
sx_group *sx_group_new(const sx_plan *plan, const sx_task *task, const sx_kernel_set *kernels, sx_arena *arena);
/* The same with sums of columns that are made with it. Such a group is run by sx_group_run_columns alone. */
sx_group *sx_group_new_columns(const sx_plan *plan, const sx_task *task, const sx_columns *columns,
                               const sx_kernel_set *kernels, sx_arena *arena);
/* Runs it and its sums. scratch: 64-aligned, sx_group_columns_scratch bytes. */
void sx_group_run_columns(const sx_group *group, void *const *data, void *scratch, sx_pool *pool);
int64_t sx_group_columns_scratch(const sx_group *group, int n_threads);
/* Bytes of scratch that each thread needs, a multiple of 64. */
int64_t sx_group_scratch(const sx_group *group);
/* Runs groups of which none reads or overwrites what another writes, in one launch: the threads share the work of all
 * of them. data: the memory of each buffer of the plan; scratch: 64-aligned, sx_group_scratch of the most demanding
 * one for each thread. Work that is not worth waking a thread is done by the caller. */
void sx_group_run(sx_group *const *groups, uint32_t n_groups, void *const *data, void *scratch, sx_pool *pool);
/* Rows of a group, with values that are not in buffers of the plan. */
typedef struct sx_group_tile {
  int64_t first_row, n_rows, width; /* the first `width` elements of each row are evaluated */
  float *const *given;              /* each [n_rows pitch] */
  int64_t pitch;                    /* elements from a row to the next */
} sx_group_tile;

/* Prepares a group with rows, all of whose operations chains can do, for tiles of at most n_rows rows. given: f32
 * nodes, inputs or stored, of all elements, whose memory the caller gives with each tile. */
sx_group *sx_group_new_tiled(const sx_plan *plan, const sx_task *task, const sx_id *given, uint32_t n_given,
                             int64_t n_rows, const sx_kernel_set *kernels, sx_arena *arena);
/* scratch: sx_group_scratch bytes. */
void sx_group_run_tile(const sx_group *group, void *const *data, void *scratch, const sx_group_tile *tile);

#endif
