/* Running an element group, tile by tile: see group.h.
 *
 * Everything is found through one table of addresses a thread. A chain runs on whole blocks where its operands lie;
 * the rest of a row is shorter than a block, so it goes through pads, copies as long as one. */
#include "elementwise.h"

#include <string.h>

#include "group.h"

enum {
  SLOT_GAP = 64,    /* bytes between slots, so that slots do not share low address bits */
  FOLD_GRAIN = 1024 /* columns */
};

static int64_t block_bytes(const sx_group *group) { return group->chains->block * 4; }

static int64_t slot_bytes(const sx_group *group) { return sx_aligned(group->tile * 4) + SLOT_GAP; }

static int64_t rows_of_tile(const sx_group *group) { return group->row ? group->tile / group->row : 1; }

static int64_t scalar_slot_bytes(const sx_group *group) { return sx_aligned(rows_of_tile(group) * 4); }

/* Scratch in this order: slots, slots of scalars, places of a block, pads, reductions. */
int64_t sx_group_scratch(const sx_group *group) {
  int64_t blocks = (int64_t)group->n_locals + group->n_pads;
  return (int64_t)group->n_slots * slot_bytes(group) + (int64_t)group->n_scalar_slots * scalar_slot_bytes(group) +
         blocks * block_bytes(group) + (int64_t)group->n_folds * sx_aligned((int64_t)sizeof(sx_fold));
}

/* Elements from one lane of a sum of columns to the next: whole blocks, and a gap. Where several rows go as one, which
 * are whole blocks together, their lanes lie side by side. */
static int64_t lane_room(const sx_group *group) {
  int64_t block = group->chains->block;
  if (sx_columns_joined(group->columns) > 1) return group->columns->width;
  return (group->row + block - 1) / block * block + SLOT_GAP / 4;
}

static int64_t table_elements(const sx_group *group) { return sx_aligned(SX_SUM_LANES * lane_room(group) * 4) / 4; }

/* Of a chunk, and all: in rows of the group. */
static int64_t chunk_rows(const sx_group *group) { return SX_SUM_CHUNK / sx_columns_joined(group->columns); }

static int64_t n_chunks(const sx_group *group) {
  return (group->columns->n_rows + chunk_rows(group) - 1) / chunk_rows(group);
}

/* Lanes of a chunk, as many together as rows go as one. */
static int64_t lane_groups(const sx_group *group) { return SX_SUM_LANES / sx_columns_joined(group->columns); }

/* A table for each sum and chunk, and where there are several chunks one for their results. */
static int64_t tables_bytes(const sx_group *group) {
  int64_t n = n_chunks(group);
  return group->columns->n * (n + (n > 1)) * table_elements(group) * 4;
}

/* A launch: groups that do not read what another writes, their tiles one after the other. */
typedef struct running {
  sx_group *const *groups;
  uint32_t n_groups;
  void *const *data;
  char *scratch; /* of all threads */
  int64_t scratch_each;
} running;

/* What a thread works with. */
typedef struct working {
  const sx_group *group;
  void *const *data;
  char *slots, *scalar_slots, *pads;
  int64_t begin, n; /* of the tile: elements */
  int64_t first_row, n_rows;
  int64_t width, pitch; /* of a row: elements that are evaluated; from a row to the next of what is given */
  float *const *given;
  float *tables;            /* of the group's sums of columns */
  void *at[SX_GROUP_TABLE]; /* of the tile's first element, or row */
} working;

static void *slot_of(const working *w, const sx_group_value *one) {
  return one->scalar ? w->scalar_slots + one->slot * scalar_slot_bytes(w->group)
                     : w->slots + one->slot * slot_bytes(w->group);
}

static void begin_work(working *w, const sx_group *group, void *const *data, char *scratch) {
  w->group = group;
  w->data = data;
  w->slots = scratch;
  w->scalar_slots = w->slots + (int64_t)group->n_slots * slot_bytes(group);
  char *locals = w->scalar_slots + (int64_t)group->n_scalar_slots * scalar_slot_bytes(group);
  w->pads = locals + (int64_t)group->n_locals * block_bytes(group);
  char *folds = w->pads + (int64_t)group->n_pads * block_bytes(group);
  for (uint32_t i = 0; i < group->n_locals; i++) w->at[SX_GROUP_LOCALS + i] = locals + i * block_bytes(group);
  for (uint32_t i = 0; i < group->n_folds; i++)
    w->at[SX_GROUP_FOLDS + i] = folds + i * sx_aligned((int64_t)sizeof(sx_fold));
  int64_t n = group->tile < group->n ? group->tile : group->n;
  for (uint32_t i = 0; i < group->n_values; i++) {
    const sx_group_value *one = &group->values[i];
    if (one->place == SX_PLACE_SPLAT) w->at[i] = (char *)data[one->buffer] + one->walk.offset * one->bytes;
    if (one->place == SX_PLACE_FIXED || one->place == SX_PLACE_SLOT) w->at[i] = slot_of(w, one);
    if (one->place == SX_PLACE_FIXED) sx_walk_read(&one->walk, data[one->buffer], 0, n, w->at[i]);
  }
}

static void place_direct(working *w) {
  for (uint32_t i = 0; i < w->group->n_values; i++) {
    const sx_group_value *one = &w->group->values[i];
    if (one->place != SX_PLACE_DIRECT) continue;
    if (one->given) {
      w->at[i] = w->given[one->given - 1];
      continue;
    }
    int64_t first = one->scalar ? w->first_row : w->begin;
    w->at[i] = (char *)w->data[one->buffer] + (first + one->walk.offset) * one->bytes;
  }
}

/* The place of a tile of an input: in its buffer where it lies in one piece, else read into the slot. */
static void *place_read(const working *w, const sx_group_value *one) {
  const sx_walk *walk = &one->walk;
  int last = walk->rank - 1;
  int64_t begin = one->scalar ? w->first_row : w->begin, n = one->scalar ? w->n_rows : w->n;
  char *buffer = w->data[one->buffer];
  if (walk->strides[last] == 1 && begin % walk->dims[last] + n <= walk->dims[last])
    return buffer + sx_walk_at(walk, begin) * one->bytes;
  void *slot = slot_of(w, one);
  sx_walk_read(walk, buffer, begin, begin + n, slot);
  return slot;
}

static void call(const working *w, const sx_instruction *one) {
  const void *inputs[3];
  for (uint32_t k = 0; k < one->n_inputs; k++) inputs[k] = w->at[one->inputs[k]];
  w->group->kernels->element(one->op, one->from, one->to, w->at[one->out], inputs, one->scalar ? w->n_rows : w->n);
}

/* ---- chains -------------------------------------------------------------------------------------- */

/* Whether the chain, which walks a row, finds the value in the same place all along it. */
static bool is_still(const sx_group_step *step, const sx_group_value *one) {
  return one->place == SX_PLACE_SPLAT || one->place == SX_PLACE_ROW_SPLAT || (one->scalar && !step->scalar);
}

/* Lanes of sums have room for a whole block at the end of a row. */
static void move_sums(const sx_group_step *step, void **table, int64_t n) {
  for (uint32_t i = 0; step->sums >> i; i++)
    if (step->sums >> i & 1) table[SX_GROUP_SUMS + i] = (float *)table[SX_GROUP_SUMS + i] + n;
}

/* The elements from `done` to n - 1, fewer than a block. Leaves the table as it was. */
static void run_rest(const working *w, const sx_group_step *step, void **table, int64_t done, int64_t n) {
  const sx_group *group = w->group;
  void *whole[SX_GROUP_VALUES];
  for (uint32_t i = 0; i < step->n_uses; i++) {
    const sx_chain_use *use = &step->uses[i];
    const sx_group_value *one = &group->values[use->value];
    if (is_still(step, one)) continue;
    char *from = (char *)table[use->value] + done * one->bytes, *pad = w->pads + i * block_bytes(group);
    whole[i] = from;
    table[use->value] = pad;
    if (!use->written) memcpy(pad, from, (size_t)((n - done) * one->bytes));
  }
  move_sums(step, table, done);
  group->chains->run(step->links, table, group->chains->block);
  move_sums(step, table, -done);
  for (uint32_t i = 0; i < step->n_uses; i++) {
    const sx_chain_use *use = &step->uses[i];
    const sx_group_value *one = &group->values[use->value];
    if (is_still(step, one)) continue;
    if (use->written) memcpy(whole[i], table[use->value], (size_t)((n - done) * one->bytes));
    table[use->value] = (char *)whole[i] - done * one->bytes;
  }
}

static void run_span(const working *w, const sx_group_step *step, void **table, int64_t n) {
  int64_t done = n - n % w->group->chains->block;
  w->group->chains->run(step->links, table, done);
  if (done < n) run_rest(w, step, table, done, n);
}

/* How a value is found from row to row. */
typedef struct row_place {
  int64_t step, left; /* bytes to the next row; rows until that does not lead to it */
} row_place;

static int64_t rows_in_run(const sx_group *group, const sx_walk *walk) {
  return walk->dims[walk->rank - 1] / group->row;
}

/* Rows of the outer loop are a step apart; in other walks those of the innermost loop are, as long as it runs. */
static void *place_walk(const working *w, const sx_group_value *one, int64_t row, row_place *place) {
  const sx_walk *walk = &one->walk;
  char *buffer = w->data[one->buffer];
  int last = walk->rank - 1;
  int64_t run = rows_in_run(w->group, walk);
  bool outer = walk->rank == 2 && run == 1;
  place->step = (outer ? walk->strides[0] : walk->strides[last] * w->group->row) * one->bytes;
  place->left = outer ? INT64_MAX : run - row % run;
  return buffer + (outer ? walk->offset + row * walk->strides[0] : sx_walk_at(walk, row * w->group->row)) * one->bytes;
}

static bool has_walk(const sx_group_value *one) {
  return one->place == SX_PLACE_ROW || one->place == SX_PLACE_ROW_SPLAT;
}

static void place_first_row(const working *w, const sx_group_step *step, row_place *places, void **table) {
  for (uint32_t i = 0; i < step->n_uses; i++) {
    uint32_t value = step->uses[i].value;
    const sx_group_value *one = &w->group->values[value];
    int64_t apart = one->scalar ? 1 : one->given ? w->pitch : w->group->row;
    places[i] = (row_place){apart * one->bytes, INT64_MAX};
    if (one->place == SX_PLACE_SPLAT) places[i].step = 0;
    table[value] = has_walk(one) ? place_walk(w, one, w->first_row, &places[i]) : w->at[value];
  }
}

static void place_next_row(const working *w, const sx_group_step *step, int64_t row, row_place *places, void **table) {
  for (uint32_t i = 0; i < step->n_uses; i++) {
    uint32_t value = step->uses[i].value;
    if (--places[i].left > 0)
      table[value] = (char *)table[value] + places[i].step;
    else
      table[value] = place_walk(w, &w->group->values[value], w->first_row + row, &places[i]);
  }
}

/* What a chain has of its own: places in a block, and reductions. */
static void place_own(const working *w, const sx_group_step *step, void **table) {
  for (uint32_t i = 0; i < step->n_locals; i++) table[SX_GROUP_LOCALS + i] = w->at[SX_GROUP_LOCALS + i];
  for (uint32_t i = 0; i < step->n_folds; i++) table[SX_GROUP_FOLDS + i] = w->at[SX_GROUP_FOLDS + i];
}

static float *table_of(const sx_group *group, float *tables, uint32_t sum, int64_t chunk) {
  return tables + (chunk * group->columns->n + sum) * table_elements(group);
}

/* The lanes that the group's row is added to. */
static float *lane_of(const working *w, uint32_t sum, int64_t row) {
  const sx_group *group = w->group;
  int64_t lane = row % lane_groups(group) * sx_columns_joined(group->columns);
  return table_of(group, w->tables, sum, row / chunk_rows(group)) + lane * lane_room(group);
}

/* Lanes of the sums, for the walk's row: those of the row before, and the next ones, until they begin anew. */
static void place_sums(const working *w, const sx_group_step *step, int64_t row, row_place *place, void **table) {
  const sx_group *group = w->group;
  if (--place->left > 0) {
    for (uint32_t i = 0; step->sums >> i; i++)
      if (step->sums >> i & 1) table[SX_GROUP_SUMS + i] = (float *)table[SX_GROUP_SUMS + i] + place->step;
    return;
  }
  for (uint32_t i = 0; step->sums >> i; i++) table[SX_GROUP_SUMS + i] = lane_of(w, i, w->first_row + row);
  place->step = lane_room(group) * sx_columns_joined(group->columns);
  place->left = lane_groups(group) - (w->first_row + row) % lane_groups(group);
}

static void run_rows(working *w, const sx_group_step *step) {
  const sx_group *group = w->group;
  const sx_chain_kernels *chains = group->chains;
  void *table[SX_GROUP_TABLE];
  row_place places[SX_GROUP_VALUES], lanes = {0};
  place_own(w, step, table);
  place_first_row(w, step, places, table);
  for (int64_t row = 0; row < w->n_rows; row++) {
    if (row) place_next_row(w, step, row, places, table);
    if (step->sums) place_sums(w, step, row, &lanes, table);
    for (uint32_t i = 0; i < step->n_folds; i++)
      chains->fold_begin(step->folds[i]->op, w->at[SX_GROUP_FOLDS + i], w->width);
    run_span(w, step, table, w->width);
    for (uint32_t i = 0; i < step->n_folds; i++)
      ((float *)w->at[step->folds[i]->out])[row] = chains->fold_end(step->folds[i]->op, w->at[SX_GROUP_FOLDS + i]);
  }
}

static void run_chain(working *w, const sx_group_step *step) {
  if (w->group->row && !step->scalar) {
    run_rows(w, step);
    return;
  }
  void *table[SX_GROUP_TABLE];
  place_own(w, step, table);
  for (uint32_t i = 0; i < step->n_uses; i++) table[step->uses[i].value] = w->at[step->uses[i].value];
  run_span(w, step, table, step->scalar ? w->n_rows : w->n);
}

/* ---- tiles --------------------------------------------------------------------------------------- */

static void run_tile(working *w) {
  const sx_group *group = w->group;
  place_direct(w);
  for (uint32_t s = 0; s < group->n_steps; s++) {
    const sx_group_step *step = &group->steps[s];
    for (uint32_t i = 0; i < step->n_reads; i++) w->at[step->reads[i]] = place_read(w, &group->values[step->reads[i]]);
    if (step->chained)
      run_chain(w, step);
    else
      call(w, step->instructions);
  }
}

static void run_elements(working *w, int64_t begin, int64_t end) {
  const sx_group *group = w->group;
  for (w->begin = begin; w->begin < end; w->begin += group->tile) {
    w->n = end - w->begin < group->tile ? end - w->begin : group->tile;
    w->first_row = group->row ? w->begin / group->row : 0;
    w->n_rows = group->row ? w->n / group->row : 1;
    w->width = group->row;
    run_tile(w);
  }
}

static void run_tiles(working *w, int64_t first, int64_t end) {
  const sx_group *group = w->group;
  for (int64_t number = first; number < end; number++) {
    int64_t piece = number / group->tiles_in_piece * group->piece, limit = piece + group->piece;
    int64_t begin = piece + number % group->tiles_in_piece * group->tile;
    run_elements(w, begin, limit - begin < group->tile ? limit : begin + group->tile);
  }
}

static int64_t n_tiles(const sx_group *group) { return group->n ? group->n / group->piece * group->tiles_in_piece : 0; }

/* The launch's work is a line along which the tiles of all groups lie; a tile belongs to whom its first unit does. */
static void run_work(void *context, int64_t begin, int64_t end, int thread) {
  const running *run = context;
  int64_t at = 0;
  for (uint32_t i = 0; i < run->n_groups && at < end; i++) {
    const sx_group *group = run->groups[i];
    int64_t n = n_tiles(group), each = group->work, first = begin > at ? (begin - at + each - 1) / each : 0;
    int64_t last = (end - at + each - 1) / each;
    at += n * each;
    if (last > n) last = n;
    if (first >= last) continue;
    working w;
    begin_work(&w, group, run->data, run->scratch + thread * run->scratch_each);
    run_tiles(&w, first, last);
  }
}

void sx_group_run(sx_group *const *groups, uint32_t n_groups, void *const *data, void *scratch, sx_pool *pool) {
  running run = {.groups = groups, .n_groups = n_groups, .data = data, .scratch = scratch};
  int64_t work = 0;
  for (uint32_t i = 0; i < n_groups; i++) {
    int64_t bytes = sx_group_scratch(groups[i]);
    if (bytes > run.scratch_each) run.scratch_each = bytes;
    work += n_tiles(groups[i]) * groups[i]->work;
  }
  sx_pool_run(pool, work, SX_GROUP_GRAIN, run_work, &run);
}

void sx_group_run_tile(const sx_group *group, void *const *data, void *scratch, const sx_group_tile *tile) {
  working w;
  begin_work(&w, group, data, scratch);
  w.first_row = tile->first_row;
  w.n_rows = tile->n_rows;
  w.begin = tile->first_row * group->row;
  w.n = tile->n_rows * group->row;
  w.width = tile->width;
  w.pitch = tile->pitch;
  w.given = tile->given;
  run_tile(&w);
}

/* ---- sums of columns ----------------------------------------------------------------------------- */

typedef struct summing {
  const sx_group *group;
  void *const *data;
  char *scratch; /* of all threads */
  float *tables;
} summing;

int64_t sx_group_columns_scratch(const sx_group *group, int n_threads) {
  return n_threads * sx_group_scratch(group) + tables_bytes(group);
}

static void clear(float *lanes, int64_t n) {
  for (int64_t k = 0; k < n; k++) lanes[k] = -0.0f;
}

/* Some lanes of a chunk, in rows of the group, and so the rows that belong to them: runs of neighbours. */
static void run_chunk(working *w, int64_t chunk, int64_t begin, int64_t end) {
  const sx_group *group = w->group;
  int64_t lanes = lane_groups(group), first = chunk * chunk_rows(group), last = first + chunk_rows(group);
  if (last > group->columns->n_rows) last = group->columns->n_rows;
  for (uint32_t i = 0; i < group->columns->n; i++)
    clear(lane_of(w, i, first + begin), (end - begin) * sx_columns_joined(group->columns) * lane_room(group));
  int64_t run = end - begin == lanes ? last - first : end - begin;
  for (int64_t row = first + begin; row < last; row += end - begin == lanes ? run : lanes)
    run_elements(w, row * group->row, (row + run < last ? row + run : last) * group->row);
}

/* Lanes of all chunks, one chunk's after the other's. */
static void run_lanes(void *context, int64_t begin, int64_t end, int thread) {
  const summing *sum = context;
  const sx_group *group = sum->group;
  int64_t lanes = lane_groups(group);
  working w;
  begin_work(&w, group, sum->data, sum->scratch + thread * sx_group_scratch(group));
  w.tables = sum->tables;
  for (int64_t chunk = begin / lanes; chunk * lanes < end; chunk++) {
    int64_t first = chunk * lanes > begin ? 0 : begin - chunk * lanes;
    run_chunk(&w, chunk, first, end - chunk * lanes < lanes ? end - chunk * lanes : lanes);
  }
}

/* Columns of the results of chunks: lanes of another table, by the same rule. */
static void fold_chunks(const summing *sum, uint32_t i, int64_t begin, int64_t end) {
  const sx_group *group = sum->group;
  int64_t n = n_chunks(group), room = lane_room(group);
  float *results = table_of(group, sum->tables, i, n);
  for (int64_t lane = n; lane < SX_SUM_LANES; lane++) clear(results + lane * room + begin, end - begin);
  for (int64_t chunk = 0; chunk < n; chunk++) {
    float *table = table_of(group, sum->tables, i, chunk), *lane = results + chunk % SX_SUM_LANES * room;
    float *out = chunk < SX_SUM_LANES ? lane : table + room;
    group->chains->fold_columns(table, room, begin, end, out);
    for (int64_t k = begin; chunk >= SX_SUM_LANES && k < end; k++) lane[k] += out[k];
  }
}

static void fold_lanes(void *context, int64_t begin, int64_t end, int thread) {
  const summing *sum = context;
  const sx_group *group = sum->group;
  (void)thread;
  for (uint32_t i = 0; i < group->columns->n; i++) {
    bool several = n_chunks(group) > 1;
    if (several) fold_chunks(sum, i, begin, end);
    group->chains->fold_columns(table_of(group, sum->tables, i, several ? n_chunks(group) : 0), lane_room(group), begin,
                                end, sum->data[group->columns->targets[i]]);
  }
}

/* A thread's lanes of a chunk are few shares, since rows of more of them lie side by side. */
void sx_group_run_columns(const sx_group *group, void *const *data, void *scratch, sx_pool *pool) {
  int n_threads = sx_pool_threads(pool);
  summing sum = {.group = group, .data = data, .scratch = scratch};
  sum.tables = (float *)(void *)(sum.scratch + n_threads * sx_group_scratch(group));
  int64_t n = n_chunks(group), lanes = n * lane_groups(group);
  int64_t shares = n_tiles(group) * group->work / SX_GROUP_GRAIN, most = n_threads > 1 ? 2 * n_threads : 1;
  if (n_threads > 1 && most < n) most = n;
  if (shares > most) shares = most;
  sx_pool_run(pool, lanes, shares > 1 ? (lanes + shares - 1) / shares : lanes, run_lanes, &sum);
  sx_pool_run(pool, group->columns->width, FOLD_GRAIN, fold_lanes, &sum);
}
