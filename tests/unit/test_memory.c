/* Memory plans: lives are computed again from the tasks, and no two buffers that live at one time overlap,
 * but where an element group's result takes over an input. Packing alone: random intervals. */
#include <stdlib.h>
#include <string.h>

#include "../../libsexp/pass/pack.h"
#include "../common/cmocka_all.h"
#include "../common/planned.h"
#include "../common/random_graph.h"

typedef struct life {
  uint32_t first, last;
} life;

static void note(life *lives, uint32_t buffer, uint32_t task) {
  if (buffer == UINT32_MAX) return;
  if (lives[buffer].first > task) lives[buffer].first = task;
  if (lives[buffer].last < task) lives[buffer].last = task;
}

static life *lives_of(const sx_plan *plan) {
  life *lives = calloc(plan->buffers.n, sizeof *lives);
  for (size_t b = 0; b < plan->buffers.n; b++) lives[b] = (life){UINT32_MAX, 0};
  for (uint32_t t = 0; t < plan->tasks.n; t++) {
    const sx_task *task = &plan->tasks.items[t];
    if (task->kind == SX_TASK_COPY) {
      note(lives, task->target, t);
      note(lives, plan->views[task->nodes[1]].buffer, t);
      continue;
    }
    for (uint32_t i = 0; i < task->n_nodes; i++) {
      const sx_node *node = sx_node_at(plan->graph, task->nodes[i]);
      note(lives, plan->views[task->nodes[i]].buffer, t);
      for (uint32_t k = 0; k < node->n_inputs; k++) note(lives, plan->views[node->inputs[k]].buffer, t);
    }
  }
  return lives;
}

static bool views_whole(const sx_plan *plan, sx_id id, uint32_t buffer) {
  const sx_node *node = sx_node_at(plan->graph, id);
  const sx_view *view = &plan->views[id];
  int64_t n_bytes = sx_node_elements(node) * (int64_t)sx_dtype_bytes(node->dtype);
  return !view->offset && n_bytes == plan->buffers.items[buffer].n_bytes && sx_view_is_contiguous(view, node);
}

/* Whether task t, an element group, may write `to` over `from`, which it reads last. */
static bool may_take_over(const sx_plan *plan, uint32_t t, uint32_t from, uint32_t to) {
  const sx_task *task = &plan->tasks.items[t];
  bool written = false;
  if (task->kind != SX_TASK_ELEMENT || plan->buffers.items[from].dtype != plan->buffers.items[to].dtype) return false;
  for (uint32_t i = 0; i < task->n_nodes; i++) {
    const sx_node *node = sx_node_at(plan->graph, task->nodes[i]);
    for (uint32_t k = 0; k < node->n_inputs; k++) {
      if (plan->views[node->inputs[k]].buffer != from) continue;
      if (written || !views_whole(plan, node->inputs[k], from)) return false;
    }
    written = written || plan->views[task->nodes[i]].buffer == to;
  }
  return true;
}

static bool overlap(const sx_buffer *a, const sx_buffer *b) {
  return a->n_bytes && b->n_bytes && a->offset < b->offset + b->n_bytes && b->offset < a->offset + a->n_bytes;
}

static void check_pair(const sx_plan *plan, const life *lives, uint32_t a, uint32_t b, int *n_taken) {
  const sx_buffer *x = &plan->buffers.items[a], *y = &plan->buffers.items[b];
  if (!overlap(x, y) || lives[a].last < lives[b].first || lives[b].last < lives[a].first) return;
  uint32_t from = lives[a].last == lives[b].first ? a : b, to = from == a ? b : a;
  assert_int_equal(lives[from].last, lives[to].first);
  assert_int_equal(x->offset, y->offset);
  assert_int_equal(x->n_bytes, y->n_bytes);
  assert_true(may_take_over(plan, lives[to].first, from, to));
  ++*n_taken;
}

static int check_memory(const sx_plan *plan, bool reuse) {
  life *lives = lives_of(plan);
  int n_taken = 0;
  int64_t sum = 0;
  for (uint32_t a = 0; a < plan->buffers.n; a++) {
    const sx_buffer *buffer = &plan->buffers.items[a];
    if (buffer->kind != SX_BUFFER_TEMPORARY) continue;
    assert_int_equal(buffer->first, lives[a].first);
    assert_int_equal(buffer->last, lives[a].last);
    assert_int_equal(buffer->offset % 64, 0);
    assert_true(buffer->offset >= 0 && buffer->offset + buffer->n_bytes <= plan->block_bytes);
    sum += (buffer->n_bytes + 63) / 64 * 64;
    if (!reuse) lives[a].last = (uint32_t)plan->tasks.n;
    for (uint32_t b = 0; b < a; b++)
      if (plan->buffers.items[b].kind == SX_BUFFER_TEMPORARY) check_pair(plan, lives, a, b, &n_taken);
  }
  assert_int_equal(plan->sum_bytes, sum);
  assert_true(plan->bound_bytes <= plan->block_bytes && plan->block_bytes <= plan->sum_bytes);
  assert_true(reuse || plan->block_bytes == plan->sum_bytes);
  free(lives);
  return n_taken;
}

static void live_buffers_do_not_overlap(void **state) {
  (void)state;
  int n_taken = 0;
  int64_t block = 0, bound = 0, sum = 0;
  for (uint64_t seed = 0; seed < 600; seed++) {
    planned *p = planned_random(seed, 30 + (int)(seed % 12) * 25);
    sx_plan *plan = planned_plan(p, seed % 3 != 0, true);
    n_taken += check_memory(plan, true);
    check_memory(planned_engine_plan(p, true, true), true);
    block += plan->block_bytes;
    bound += plan->bound_bytes;
    sum += plan->sum_bytes;
    check_memory(planned_plan(p, seed % 3 != 0, false), false);
    planned_free(p);
  }
  print_message("%d buffers taken over; block %.3f of the bound, %.3f of the sum\n", n_taken,
                (double)block / (double)bound, (double)block / (double)sum);
  assert_true(n_taken > 100);
  assert_true((double)block < 1.05 * (double)bound);
}

static void a_chain_without_fusion_stays_in_one_place(void **state) {
  (void)state;
  planned *p = planned_text(
      "graph \"g\"\n"
      "%0 = param {path \"a\"} : f32 [1000]\n"
      "%1 = exp %0 : f32 [1000]\n"
      "%2 = neg %1 : f32 [1000]\n"
      "%3 = mul %2 %2 : f32 [1000]\n"
      "%4 = sum %3 {axes [0]} : f32 []\n"
      "output \"y\" %4\n");
  sx_plan *plan = planned_plan(p, false, true);
  assert_int_equal(plan->block_bytes, 4032);
  assert_int_equal(plan->sum_bytes, 3 * 4032);
  planned_free(p);
}

/* %2 reads %1 backwards, %5 is wider than %4: neither may be written over it. */
static void what_is_read_elsewhere_is_not_taken_over(void **state) {
  (void)state;
  planned *p = planned_text(
      "graph \"g\"\n"
      "%0 = param {path \"a\"} : f32 [1000]\n"
      "%1 = cumsum %0 {axis 0, reverse 0} : f32 [1000]\n"
      "%2 = reverse %1 {axis 0} : f32 [1000]\n"
      "%3 = add %1 %2 : f32 [1000]\n"
      "%4 = cast %3 : bf16 [1000]\n"
      "%5 = cast %4 : f32 [1000]\n"
      "%6 = sum %5 {axes [0]} : f32 []\n"
      "output \"y\" %6\n");
  sx_plan *plan = planned_plan(p, false, true);
  assert_int_equal(plan->bound_bytes, 2 * 4032);
  check_memory(plan, true);
  planned_free(p);
}

/* ---- packing ------------------------------------------------------------------------------------- */

static sx_slot *random_slots(uint64_t seed, uint32_t n, int64_t *bound) {
  random_source random = {seed};
  sx_slot *slots = calloc(n, sizeof *slots);
  int64_t *live = calloc(n + 1, sizeof *live);
  for (uint32_t i = 0; i < n; i++) {
    slots[i].size = 64 * random_below(&random, 1 + random_below(&random, 50));
    slots[i].first = i;
    slots[i].last = i + (uint32_t)random_below(&random, 1 + random_below(&random, n - i < 60 ? n - i : 60));
    for (uint32_t t = slots[i].first; t <= slots[i].last; t++) live[t] += slots[i].size;
  }
  *bound = 0;
  for (uint32_t t = 0; t < n; t++)
    if (live[t] > *bound) *bound = live[t];
  free(live);
  return slots;
}

static void packed_slots_do_not_overlap(void **state) {
  (void)state;
  sx_memory memory = sx_memory_default();
  for (uint64_t seed = 0; seed < 60; seed++) {
    sx_arena arena;
    sx_arena_init(&arena, &memory);
    uint32_t n = seed % 3 ? 1 + (uint32_t)seed * 5 : 2500;
    int64_t bound;
    sx_slot *slots = random_slots(seed, n, &bound);
    int64_t block = sx_pack(slots, n, 0, &arena);
    for (uint32_t i = 0; i < n; i++) {
      assert_true(slots[i].offset >= 0 && slots[i].offset + slots[i].size <= block);
      for (uint32_t k = i + 1; k < n && slots[k].first <= slots[i].last; k++)
        assert_true(slots[k].offset >= slots[i].offset + slots[i].size ||
                    slots[i].offset >= slots[k].offset + slots[k].size || !slots[i].size || !slots[k].size);
    }
    assert_true(block >= bound && block <= bound + bound / 2);
    free(slots);
    sx_arena_free(&arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(live_buffers_do_not_overlap),
      cmocka_unit_test(a_chain_without_fusion_stays_in_one_place),
      cmocka_unit_test(what_is_read_elsewhere_is_not_taken_over),
      cmocka_unit_test(packed_slots_do_not_overlap),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
