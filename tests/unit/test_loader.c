/* The loader: the same microbatches with and without its thread, in every stage; failures; prompt stops. */
#include <string.h>

#include "../../libsexp/run/loader.h"
#include "../common/cmocka_all.h"
#include "../common/memory_host.h"

enum { N_RECORDS = 23 };

typedef struct fixture {
  memory_host files;
  sexp_host host;
  sx_memory memory;
  sx_arena arena;
  sx_host_memory data_memory;
  sx_diags diags;
  sx_data data[2];
  sx_dataset *datasets[2];
  sx_loader_stage stages[3];
} fixture;

static sx_data windows(const char *name, const char *path, int64_t length) {
  return (sx_data){.name = name,
                   .kind = SX_SOURCE_WINDOWS,
                   .path = path,
                   .window_dtype = SX_U8,
                   .window_bytes = 1,
                   .window_length = length,
                   .window_stride = length,
                   .window_field = "t",
                   .record_lo = -1,
                   .record_hi = -1,
                   .shuffled = length == 1};
}

static void *take_of_arena(void *arena, int64_t n_bytes) { return sx_take_aligned(arena, n_bytes); }

static int set_up(void **state) {
  static unsigned char text[N_RECORDS * 3];
  fixture *f = test_calloc(1, sizeof *f);
  for (size_t i = 0; i < sizeof text; i++) text[i] = (unsigned char)i;
  memory_host_add(&f->files, "a", text, N_RECORDS);
  memory_host_add(&f->files, "b", text, sizeof text);
  f->host = memory_host_callbacks(&f->files);
  f->memory = sx_memory_default();
  sx_arena_init(&f->arena, &f->memory);
  sx_diags_init(&f->diags, &f->arena);
  f->data_memory = (sx_host_memory){take_of_arena, &f->arena, &f->arena};
  f->data[0] = windows("a", "a", 1);
  f->data[1] = windows("b", "b", 3);
  for (int i = 0; i < 2; i++) {
    f->datasets[i] = sx_dataset_new(&f->data[i], &f->host, &f->arena);
    assert_true(sx_dataset_open(f->datasets[i], 1, &f->diags));
  }
  f->stages[0] = (sx_loader_stage){f->datasets[0], 5, 3, 4};
  f->stages[1] = (sx_loader_stage){NULL, 7, 2, 10};
  f->stages[2] = (sx_loader_stage){f->datasets[1], 2, 2, 6};
  *state = f;
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  for (int i = 0; i < 2; i++) sx_dataset_close(f->datasets[i]);
  sx_arena_free(&f->arena);
  test_free(f);
  return 0;
}

static void expect_microbatch(const fixture *f, const sx_microbatch *got, int stage, int64_t index) {
  const sx_loader_stage *s = &f->stages[stage];
  int64_t length = s->dataset->n_elements[0];
  assert_false(got->failed);
  for (int64_t r = 0; r < s->batch; r++) {
    int64_t record = sx_dataset_record(s->dataset, index * s->batch + r);
    assert_int_equal(got->records[r], record);
    for (int64_t i = 0; i < length; i++)
      assert_int_equal(((unsigned char *)got->fields[0])[r * length + i], record * length + i);
  }
}

static void walk(fixture *f, bool ahead) {
  sx_loader *loader = sx_loader_new(f->stages, 3, false, &f->data_memory);
  if (ahead) assert_true(sx_loader_start(loader));
  for (int stage = 0; stage < 3; stage += 2)
    for (int64_t i = 0; i < f->stages[stage].steps * f->stages[stage].microbatches; i++)
      expect_microbatch(f, sx_loader_next(loader), stage, i);
  sx_loader_stop(loader);
}

static void test_order(void **state) {
  walk(*state, false);
  walk(*state, true);
}

static void test_failure_comes_when_it_is_needed(void **state) {
  fixture *f = *state;
  for (int ahead = 0; ahead < 2; ahead++) {
    f->files.changed = "a";
    f->files.n_checks = 0;
    f->files.changed_from = 6;
    sx_loader *loader = sx_loader_new(f->stages, 3, false, &f->data_memory);
    if (ahead) assert_true(sx_loader_start(loader));
    for (int64_t i = 0; i < 6; i++) expect_microbatch(f, sx_loader_next(loader), 0, i);
    for (int again = 0; again < 3; again++) {
      const sx_microbatch *failed = sx_loader_next(loader);
      assert_true(failed->failed);
      assert_string_equal(failed->why.failure.code, "E-DATA-103");
    }
    sx_loader_stop(loader);
  }
}

static void test_stops_at_any_moment(void **state) {
  fixture *f = *state;
  for (int taken = 0; taken < 12; taken++) {
    sx_loader *loader = sx_loader_new(f->stages, 3, false, &f->data_memory);
    assert_true(sx_loader_start(loader));
    for (int i = 0; i < taken; i++) expect_microbatch(f, sx_loader_next(loader), 0, i);
    sx_loader_stop(loader);
    sx_loader_stop(loader);
  }
}

static void test_nothing_to_read(void **state) {
  fixture *f = *state;
  sx_loader *loader = sx_loader_new(&f->stages[1], 1, false, &f->data_memory);
  assert_true(sx_loader_start(loader));
  sx_loader_stop(loader);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {TEST(test_order), TEST(test_failure_comes_when_it_is_needed),
                                     TEST(test_stops_at_any_moment), TEST(test_nothing_to_read)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
