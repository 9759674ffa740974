/* What stops a launch, each provoked, and that the message names the place; what is not read. */
#include "../common/cmocka_all.h"
#include "../cudasim/ptx_case.h"

#define KERNEL "extern \"C\" __global__ void "

/* A kernel of one int pointer of 256 elements, launched with 64 threads; words of the message, NULL: it runs. */
typedef struct strict_case {
  const char *body;
  const char *words[4];
} strict_case;

static void expect(const strict_case *row, ptx_shape shape, bool is_constant) {
  char source[4096], problem[512];
  snprintf(source, sizeof source, "%s", row->body);
  static const int zeros[256];
  for (int architecture = 80; architecture <= 90; architecture += 10) {
    sim_module *module = ptx_module(source, architecture);
    ptx_memory memory = {0};
    int *z = is_constant ? ptx_take_copy(&memory, zeros, sizeof zeros) : ptx_take(&memory, sizeof zeros);
    bool ran = ptx_try(module, "k", &memory, shape, problem, 1, (ptx_argument[]){PTX_ARGUMENT(z)});
    if (ran != !row->words[0]) fail_msg("%s %s: %s", row->body, ran ? "ran" : "stopped", problem);
    for (size_t i = 0; i < 4 && row->words[i]; i++)
      if (!strstr(problem, row->words[i])) fail_msg("no \"%s\" in: %s", row->words[i], problem);
    if (row->words[0] && architecture == 90) printf("  %s\n", problem);
    ptx_free(&memory);
    sim_module_free(module);
  }
}

static void expect_rows(const strict_case *rows, size_t n, ptx_shape shape) {
  for (size_t i = 0; i < n; i++) expect(&rows[i], shape, false);
}
#define EXPECT(rows, ...) expect_rows(rows, sizeof rows / sizeof *rows, (ptx_shape){__VA_ARGS__})

static void memory_is_kept_to(void **state) {
  (void)state;
  static const strict_case rows[] = {
      {KERNEL "k(int *z) { z[threadIdx.x * 4] = 1; }", {NULL}},
      {KERNEL "k(int *z) { z[threadIdx.x * 4 + 4] = 1; }",
       {"kernel k", "thread (63, 0, 0)", "st.global", "writes 4 bytes"}},
      {KERNEL "k(int *z) { z[0] = z[-1]; }", {"thread (0, 0, 0)", "ld.global", "reads 4 bytes"}},
      {KERNEL "k(int *z) { ((int4 *)z)[threadIdx.x + 1] = make_int4(1, 2, 3, 4); }",
       {"thread (63, 0, 0)", "writes 16 bytes"}},
      {KERNEL "k(int *z) { *(int4 *)(z + threadIdx.x) = make_int4(1, 2, 3, 4); }",
       {"thread (1, 0, 0)", "writes 16 bytes", "not a multiple of 16"}},
      {KERNEL "k(int *z) { *(double *)(z + 1) = 1; }", {"writes 8 bytes", "not a multiple of 8"}},
      {KERNEL "k(int *z) { atomicAdd(z + 256 * (threadIdx.x == 40), 1); }", {"thread (40, 0, 0)", "updates 4 bytes"}},
      {KERNEL "k(int *z) { if (threadIdx.x == 33) z[1 << 20] = 1; }", {"thread (33, 0, 0)", "writes 4 bytes"}},
      {KERNEL "k(int *z) { *(volatile int *)0 = 1; }", {"writes 4 bytes at 0"}},
      {KERNEL "k(int *z) { __shared__ int s[64]; s[threadIdx.x] = 1; __syncthreads(); z[0] = s[threadIdx.x + 1]; }",
       {"thread (63, 0, 0)", "ld.shared", "reads 4 bytes at shared address 256, of which there are 256"}},
      {KERNEL "k(int *z) { __shared__ __align__(16) int s[6]; s[threadIdx.x % 6] = 1; __syncthreads();"
              "int4 v = *(int4 *)(s + 4); z[0] = v.x + v.y + v.z + v.w; }",
       {"reads 16 bytes at shared address 16, of which there are 24"}},
      {KERNEL "k(int *z) { extern __shared__ int s[]; s[threadIdx.x] = 1; }",
       {"thread (0, 0, 0)", "writes 4 bytes at shared address 0, of which there are 0"}},
      {"__constant__ int t[4];" KERNEL "k(int *z) { z[0] = t[threadIdx.x]; }",
       {"thread (4, 0, 0)", "ld.const", "constant"}},
      {"__device__ int t[4];" KERNEL "k(int *z) { t[threadIdx.x] = 1; }", {"thread (4, 0, 0)", "st.global"}},
      {KERNEL "k(int *z) { int t[9]; for (int i = 0; i < 9; i++) t[i] = z[i]; t[z[10] - 1] = 4; z[0] = t[z[3]]; }",
       {"thread (0, 0, 0)", "st.local", "writes 4 bytes at local address -4"}},
  };
  EXPECT(rows, 1, 64, 0, false, false);
  static const strict_case writes = {KERNEL "k(int *z) { z[0] = 1; }", {"st.global", "writes 4 bytes"}};
  expect(&writes, (ptx_shape){1, 64, 0, false, false}, true);
}

static void an_access_ends_before_memory_does(void **state) {
  (void)state;
  sim_module *module = ptx_module(KERNEL "k(int4 *z) { z[threadIdx.x] = make_int4(1, 2, 3, 4); }", 90);
  char problem[512];
  for (size_t rest = 0; rest <= 16; rest += 4) {
    ptx_memory memory = {0};
    void *z = ptx_take(&memory, 31 * 16 + rest);
    bool ran = ptx_try(module, "k", &memory, (ptx_shape){1, 32, 0, false, false}, problem, 1,
                       (ptx_argument[]){PTX_ARGUMENT(z)});
    assert_int_equal(ran, rest == 16);
    assert_true(ran || strstr(problem, "thread (31, 0, 0)"));
    ptx_free(&memory);
  }
  sim_module_free(module);
}

static void barriers_are_reached_by_all(void **state) {
  (void)state;
  static const strict_case rows[] = {
      {KERNEL "k(int *z) { if (threadIdx.x == 3) return; __syncthreads(); z[threadIdx.x] = 1; }",
       {"thread (0, 0, 0)", "bar.sync", "thread 3 of the block", "has ended"}},
      {KERNEL "k(int *z) { if (threadIdx.x >= 32) return; __syncthreads(); z[threadIdx.x] = 1; }",
       {"bar.sync", "thread 32 of the block", "has ended"}},
      {KERNEL "k(int *z) { if (threadIdx.x < 32) { __syncthreads(); z[1] = 1; } else { __syncthreads(); z[2] = 3; } }",
       {"bar.sync", "waits at another"}},
      {KERNEL "k(int *z) { if (threadIdx.x % 2) { __syncthreads(); z[1] = 1; } else { __syncthreads(); z[2] = 3; } }",
       {"bar.sync", "waits for lane 1"}},
      {KERNEL "k(int *z) { for (int i = 0; i < threadIdx.x % 3; i++) z[i] += 1; __syncthreads(); z[threadIdx.x] = 1; }",
       {NULL}},
      {KERNEL "k(int *z) { z[threadIdx.x] = __shfl_sync(0xffffu, 1, 0); }",
       {"thread (16, 0, 0)", "is not in the mask 0xffff"}},
      {KERNEL "k(int *z) { if (threadIdx.x % 32 == 5) return; z[threadIdx.x] = __shfl_xor_sync(~0u, threadIdx.x, 1); }",
       {"shfl.sync", "thread 5 of the block, which has ended"}},
      {KERNEL "k(int *z) { if (threadIdx.x % 2) z[threadIdx.x] = __shfl_sync(0xaaaaaaaau, 1, 2); }",
       {"thread (1, 0, 0)", "reads lane 2, which the mask 0xaaaaaaaa does not name"}},
      {KERNEL "k(int *z) { if (threadIdx.x % 2) z[0] = __shfl_sync(~0u, z[2], 1); else __syncthreads(); z[1] = 3; }",
       {"waits for lane"}},
      {KERNEL "k(int *z) { if (threadIdx.x % 2) z[threadIdx.x] = __shfl_sync(0xaaaaaaaau, z[4], 3); }", {NULL}},
      {KERNEL "k(int *z) { if (threadIdx.x == 9) __trap(); }", {"thread (9, 0, 0)", "traps"}},
  };
  EXPECT(rows, 1, 64, 0, false, false);
  static const strict_case few = {KERNEL "k(int *z) { z[threadIdx.x] = __shfl_down_sync(~0u, z[1], 1); }",
                                  {"names lane 16, which the block does not have"}};
  expect(&few, (ptx_shape){1, 16, 0, false, false}, false);
}

#define SHARED KERNEL "k(int *z) { __shared__ int s[64]; int t = threadIdx.x; "

static void shared_memory_is_written_and_waited_for(void **state) {
  (void)state;
  static const strict_case rows[] = {
      {SHARED "s[t] = 1; __syncthreads(); z[t] = s[63 - t]; __syncthreads(); s[t] = 2; }", {NULL}},
      {SHARED "s[t] = 1; z[t] = s[63 - t]; }", {"which thread", "no barrier between"}},
      {SHARED "s[t] = 1; __syncthreads(); z[t] = s[63 - t]; s[t] = 2; }", {"no barrier between"}},
      {SHARED "s[t] = 1; z[t] = s[t ^ 1]; }", {"ld.shared", "which thread", "no barrier between"}},
      {SHARED "s[t] = 1; __syncwarp(); z[t] = s[t ^ 1]; __syncwarp(); s[t] = z[t]; }", {NULL}},
      {SHARED "s[t] = 1; __syncwarp(); z[t] = s[t ^ 1]; s[t] = z[t]; }", {"st.shared", "no barrier between"}},
      {SHARED "s[t] = 1; z[t] = s[t] + 1; s[t] = 4; }", {NULL}},
      {KERNEL "k(int *z) { __shared__ char s[64]; int t = threadIdx.x; s[t] = t; z[t] = s[t]; }", {NULL}},
      {KERNEL "k(int *z) { __shared__ short s[64]; int t = threadIdx.x; s[t] = t; z[t] = s[t ^ 32]; }",
       {"no barrier between"}},
      {KERNEL "k(int *z) { __shared__ __align__(4) char s[64]; int t = threadIdx.x; s[t] = t; __syncwarp();"
              "z[t] = *(int *)(s + (t & 60)); if (t == 63) s[0] = 1; }",
       {"thread (63, 0, 0)", "writes shared byte 0"}},
      {SHARED "s[t / 2] = t; __syncthreads(); z[t] = s[t & 31]; }", {"st.shared", "which thread 0 of the block"}},
      {SHARED "if (t == 0) s[0] = 0; __syncthreads(); atomicAdd(s, t); __syncthreads(); z[t] = s[0]; }", {NULL}},
      {SHARED "if (t == 0) s[0] = 3; __syncthreads(); z[t] = s[0]; __syncthreads(); if (t == 40) s[0] = 2; }", {NULL}},
      {SHARED "if (t == 0) s[0] = 3; __syncthreads(); z[t] = s[0]; if (t == 40) s[0] = 2; }", {"thread (40, 0, 0)"}},
  };
  EXPECT(rows, 2, 64, 0, false, true);
  static const strict_case unwritten[] = {
      {SHARED "if (t < 40) s[t] = 1; __syncthreads(); z[t] = s[t]; }",
       {"thread (40, 0, 0)", "reads shared byte 160, which no thread has written"}},
      {SHARED "s[t] = 1; __syncthreads(); z[t] = s[63 - t]; }", {NULL}},
  };
  EXPECT(unwritten, 2, 64, 0, true, false);
  static const strict_case unasked = {SHARED "s[t] = 1; z[t] = s[t ^ 1] + s[63 - t]; }", {NULL}};
  expect(&unasked, (ptx_shape){1, 64, 0, false, false}, false);
}

static void expect_unread(const char *ptx, const char *words) {
  char problem[512] = "";
  sim_module *module = sim_module_parse(ptx, problem, sizeof problem);
  if (module) fail_msg("it is read: %s", ptx);
  if (!strstr(problem, words)) fail_msg("no \"%s\" in: %s", words, problem);
}

static void other_cuda_is_not_read(void **state) {
  (void)state;
  static const char *const rows[][2] = {
      {KERNEL "k(float *z) { z[0] = __expf(z[1]); }", "ex2.approx.f32"},
      {KERNEL "k(float *z) { z[0] = __fdividef(z[1], z[2]); }", "div.approx.f32"},
      {KERNEL "k(float *z) { z[0] = rsqrtf(z[1]); }", "rsqrt.approx.f32"},
      {KERNEL "k(float *z) { atomicAdd(z, 1.0f); }", "no order of its sum is fixed"},
      {KERNEL "k(double *z) { atomicAdd(z, 1.0); }", "no order of its sum is fixed"},
      {"__device__ __noinline__ float f(float x) { return x + __shfl_xor_sync(~0u, x, 1); }" KERNEL
       "k(float *z) { z[0] = f(z[1]) + f(z[2]); }",
       "must be inlined"},
      {KERNEL "k(float *z) { z[0] = clock(); }", "%clock"},
      {KERNEL "k(float *z) { asm(\"mul.ftz.f32 %0, %1, %2;\" : \"=f\"(z[0]) : \"f\"(z[1]), \"f\"(z[2])); }",
       "mul.ftz.f32"},
      {KERNEL "k(float *z) { asm(\"add.f32 %0, %1, %2;\" : \"=f\"(z[0]) : \"f\"(z[1]), \"f\"(z[2])); }", "add.f32"},
      {KERNEL "k(int *z) { asm(\"bar.sync 1, 64;\"); z[0] = 1; }", "a barrier of a part of the block"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char *ptx = ptx_compile(rows[i][0], 80);
    expect_unread(ptx, rows[i][1]);
    free(ptx);
  }
}

#define HEAD ".version 9.0\n.target sm_90\n.address_size 64\n"
#define ENTRY(body)                                                                                         \
  HEAD ".visible .entry k(.param .u64 p)\n{\n.reg .pred %p<3>;\n.reg .b32 %r<3>;\n.reg .b64 %rd<3>;\n" body \
       "\nret;\n}\n"

static void other_text_is_not_read(void **state) {
  (void)state;
  static const char *const rows[][2] = {
      {"", "this is not PTX"},
      {"\177ELF", "expected"},
      {".entry k()", ".version expected first"},
      {ENTRY("add.s32 %r1, %r2;"), "line 9, kernel k: instruction add.s32 with 2 operands"},
      {ENTRY("add.s32 %r1, %r2, %rd1;"), "add.s32"},
      {ENTRY("add.s32 %r1, %r2, %r3;"), "no register %r3"},
      {ENTRY("bra $over;"), "no label $over"},
      {ENTRY("$a: $a:"), "$a twice"},
      {ENTRY("ld.global.u64 %r1, [%rd1];"), "ld.global.u64"},
      {ENTRY("ld.shared.u32 %r1, [nothing];"), "nothing"},
      {ENTRY("mov.u32 %r1, %gridid;"), "%gridid"},
      {ENTRY("cvt.s32.f32 %r1, %r2;"), "cvt.s32.f32"},
      {ENTRY("{ .reg .b32 inner; } mov.u32 inner, 1;"), "mov.u32"},
      {ENTRY("ret"), "instruction ret with 1 operands"},
      {HEAD ".visible .entry k() {", "a word expected"},
      {HEAD ".global .u64 where = k;", "other than numbers"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) expect_unread(rows[i][0], rows[i][1]);
}

static void other_launches_are_refused(void **state) {
  (void)state;
  sim_module *module = ptx_module(KERNEL "__launch_bounds__(64) k(int *z) { z[0] = 1; }", 90);
  ptx_memory memory = {0};
  int *z = ptx_take(&memory, 4);
  static const struct {
    ptx_shape shape;
    const char *words;
  } rows[] = {{{1, 65, 0, false, false}, "65 threads a block, 64 at most"},
              {{0, 32, 0, false, false}, "no grid of 0"},
              {{1, 2000, 0, false, false}, "2000"},
              {{1, 32, 300000, false, false}, "bytes of shared memory"}};
  char problem[512];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    assert_false(ptx_try(module, "k", &memory, rows[i].shape, problem, 1, (ptx_argument[]){PTX_ARGUMENT(z)}));
    if (!strstr(problem, rows[i].words)) fail_msg("no \"%s\" in: %s", rows[i].words, problem);
  }
  assert_int_equal(sim_kernel_max_threads(sim_module_kernel(module, "k")), 64);
  assert_null(sim_module_kernel(module, "other"));
  ptx_free(&memory);
  sim_module_free(module);
}

int main(void) {
  if (!ptx_ready()) return 0;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(memory_is_kept_to),           cmocka_unit_test(an_access_ends_before_memory_does),
      cmocka_unit_test(barriers_are_reached_by_all), cmocka_unit_test(shared_memory_is_written_and_waited_for),
      cmocka_unit_test(other_cuda_is_not_read),      cmocka_unit_test(other_text_is_not_read),
      cmocka_unit_test(other_launches_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
