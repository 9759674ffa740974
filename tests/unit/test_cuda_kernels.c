/* Kernels compiled once, and kept on disk; failures of calls in the device's words. */
#include "../common/device_case.h"

#ifdef SX_CUDA
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../libsexp/base/guard.h"
#include "../../libsexp/cuda/compile.h"
#include "../../libsexp/cuda/cubins.h"
#include "../../libsexp/cuda/open.h"
#include "../common/cmocka_all.h"

typedef struct opened {
  sx_memory memory;
  sx_arena arena;
  sx_diags diags;
  sx_cuda *cuda;
} opened_device;

static opened_device at;
static char directory[4096];

static void open_cuda(const char *cubins) {
  sexp_device_options options = SEXP_DEVICE_OPTIONS_DEFAULT;
  options.portable = true;
  options.libraries = device_libraries();
  options.cubins = cubins;
  at = (opened_device){.memory = sx_memory_default()};
  sx_arena_init(&at.arena, &at.memory);
  sx_diags_init(&at.diags, &at.arena);
  if (!sx_cuda_open(&at.cuda, &options, &at.memory, &at.diags)) fprintf(stderr, "%s\n", at.diags.list.items[0].message);
  CHECK(!at.diags.n_errors);
}

static void close_cuda(void) {
  sx_cuda_close(at.cuda);
  sx_arena_free(&at.arena);
}

static const sx_kernel_source SOURCES[] = {
    {"twice", "extern \"C\" __global__ void twice(float *x) { x[threadIdx.x] = 2 * x[threadIdx.x]; }\n"},
    {"root", "extern \"C\" __global__ void root(float *x) { x[threadIdx.x] = sqrtf(x[threadIdx.x]); }\n"},
};
enum { N_SOURCES = sizeof SOURCES / sizeof *SOURCES };

typedef struct adding {
  const sx_kernel_source *sources;
  size_t n;
  bool good;
} adding;

static void add_body(void *context) {
  adding *a = context;
  a->good = sx_kernels_add(at.cuda, a->sources, a->n, &at.diags);
}

static bool add(const sx_kernel_source *sources, size_t n) {
  adding a = {sources, n, false};
  CHECK(sx_guard(&at.cuda->memory, add_body, &a));
  return a.good;
}

/* ---- one process --------------------------------------------------------------------------------- */

static void once(void) {
  open_cuda(NULL);
  sx_kernel_counts before = sx_kernels_count(at.cuda);
  CHECK(!sx_kernels_find(at.cuda, "twice") && sx_kernels_find(at.cuda, "arrays_add"));
  CHECK(add(SOURCES, 1) && add(SOURCES, N_SOURCES) && add(SOURCES, N_SOURCES));
  sx_kernel_counts after = sx_kernels_count(at.cuda);
  CHECK(after.n_kernels == before.n_kernels + 2 && after.n_units == before.n_units + 2);
  CHECK(after.n_compiled == after.n_units && after.n_taken == 0);
  CHECK(sx_kernels_find(at.cuda, "twice") && sx_kernels_find(at.cuda, "root"));
  close_cuda();
}

static void a_kernel_is_compiled_once(void **state) {
  (void)state;
  cudasim_good("", once);
}

/* ---- the directory ------------------------------------------------------------------------------- */

/* Opens, adds both kernels: so many units compiled, so many taken. */
static void expect(int64_t n_compiled, int64_t n_taken) {
  open_cuda(directory);
  CHECK(add(SOURCES, N_SOURCES));
  sx_kernel_counts counts = sx_kernels_count(at.cuda);
  if (counts.n_compiled != n_compiled || counts.n_taken != n_taken)
    fprintf(stderr, "%d compiled, %d taken\n", (int)counts.n_compiled, (int)counts.n_taken);
  CHECK(counts.n_compiled == n_compiled && counts.n_taken == n_taken);
  close_cuda();
}

static int each_file(void (*change)(const char *path)) {
  DIR *folder = opendir(directory);
  int n = 0;
  if (!folder) return 0;
  for (const struct dirent *entry; (entry = readdir(folder));) {
    char path[8192];
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
    CHECK(strlen(entry->d_name) == 64 + 6 && strcmp(entry->d_name + 64, ".cubin") == 0);
    if (change) change(path);
    n++;
  }
  closedir(folder);
  return n;
}

static void cut(const char *path) {
  struct stat facts;
  CHECK(stat(path, &facts) == 0 && truncate(path, facts.st_size - 1) == 0);
}

static void empty(const char *path) { CHECK(truncate(path, 0) == 0); }

static void flip(const char *path) {
  FILE *file = fopen(path, "r+b");
  CHECK(file && fseek(file, -10, SEEK_END) == 0);
  int byte = fgetc(file);
  CHECK(fseek(file, -10, SEEK_END) == 0 && fputc(byte ^ 1, file) != EOF && fclose(file) == 0);
}

static void make_folder(const char *path) { CHECK(unlink(path) == 0 && mkdir(path, 0777) == 0); }
static void remove_file(const char *path) { CHECK(unlink(path) == 0); }
static void remove_folder(const char *path) { CHECK(rmdir(path) == 0); }

static void compiles(void) { expect(2, 0); }
static void takes(void) { expect(0, 2); }
/* Of a file that is not whole nothing is left to be given back. */
static void is_none(const char *path) {
  sx_memory memory = sx_memory_default();
  char key[65];
  void *bytes = NULL;
  size_t n_bytes;
  snprintf(key, sizeof key, "%s", strrchr(path, '/') + 1);
  CHECK(!sx_cubin_read(&bytes, &n_bytes, directory, key, &memory) && !bytes);
}

static void compiles_for_another(void) { expect(2, 0); }

/* A file that is whole is taken; one that is not is compiled again, and then taken. */
static void compiled_kernels_are_kept(void **state) {
  (void)state;
  char base[] = "/tmp/sexpgpu-cubins-XXXXXX";
  assert_non_null(mkdtemp(base));
  snprintf(directory, sizeof directory, "%s/a/b", base);
  cudasim_good("", compiles);
  assert_int_equal(each_file(NULL), 2);
  cudasim_good("", takes);
  void (*const changes[])(const char *) = {cut, empty, flip};
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    assert_int_equal(each_file(changes[i]), 2);
    assert_int_equal(each_file(is_none), 2);
    cudasim_good("", compiles);
    cudasim_good("", takes);
  }
  cudasim_good("card=tests/cuda/h100.json", compiles_for_another);
  cudasim_good("nvrtc.version=13.1\ndriver.version=13010", compiles_for_another);
  assert_int_equal(each_file(NULL), 6);
  /* Folders stand in for files that cannot be written, which holds for the superuser too. */
  each_file(make_folder);
  cudasim_good("", compiles);
  cudasim_good("", compiles);
  assert_int_equal(each_file(remove_folder), 6);
  rmdir(directory);
  *strrchr(directory, '/') = 0;
  rmdir(directory);
  rmdir(base);
  snprintf(directory, sizeof directory, "/proc/nowhere");
  cudasim_good("", compiles);
}

/* ---- want of the host's memory -------------------------------------------------------------------- */

static long n_left; /* allocations until one fails; below 0: none does */

static void *allocate(void *context, size_t n_bytes) {
  (void)context;
  if (n_left == 0) return NULL;
  n_left--;
  return malloc(n_bytes);
}

static void release(void *context, void *pointer) {
  (void)context;
  free(pointer);
}

/* Every allocation of opening fails in turn; the stand-ins tell what is not given back. */
static void opens_without_memory(void) {
  sexp_device_options options = SEXP_DEVICE_OPTIONS_DEFAULT;
  options.libraries = device_libraries();
  options.cubins = directory;
  bool opened = false;
  int n = 0;
  for (; !opened; n++) {
    sx_memory memory = {.allocate = allocate, .release = release, .chunk_bytes = 1};
    at = (opened_device){.memory = sx_memory_default()};
    sx_arena_init(&at.arena, &at.memory);
    sx_diags_init(&at.diags, &at.arena);
    n_left = n;
    opened = sx_cuda_open(&at.cuda, &options, &memory, &at.diags);
    n_left = -1;
    CHECK(opened || !at.diags.n_errors || strcmp(sx_diag_code(&at.diags.list.items[0]), "E-RUN-001") == 0);
    close_cuda();
  }
  CHECK(n > 20);
}

static void nothing_is_lost_without_memory(void **state) {
  (void)state;
  char base[] = "/tmp/sexpgpu-cubins-XXXXXX";
  assert_non_null(mkdtemp(base));
  snprintf(directory, sizeof directory, "%s", base);
  cudasim_good("", opens_without_memory);
  each_file(remove_file);
  rmdir(base);
}

/* ---- failures ------------------------------------------------------------------------------------ */

static void expect_message(const char *code, const char *const words[3]) {
  CHECK(at.diags.n_errors == 1);
  const sx_diag *diag = &at.diags.list.items[0];
  bool good = strcmp(sx_diag_code(diag), code) == 0;
  for (int i = 0; i < 3; i++) good = good && strstr(diag->message, words[i]);
  if (!good) fprintf(stderr, "%s: %s\n", sx_diag_code(diag), diag->message);
  CHECK(good);
}

static void bad_text(void) {
  static const sx_kernel_source bad[] = {{"good", "extern \"C\" __global__ void good(void) {}\n"},
                                         {"bad", "extern \"C\" __global__ void bad(void) { int x = none; }\n"}};
  open_cuda(NULL);
  CHECK(!add(bad, 2));
  expect_message("E-DEVICE-027",
                 (const char *const[]){"identifier \"none\" is undefined", "of kernels good, bad", "kernels.cu("});
  CHECK(add(SOURCES, N_SOURCES)); /* the device works on */
  close_cuda();
}

static void another_name(void) {
  static const sx_kernel_source bad[] = {{"wanted", "extern \"C\" __global__ void given(void) {}\n"}};
  open_cuda(NULL);
  CHECK(!add(bad, 1));
  expect_message("E-DEVICE-027", (const char *const[]){"the code has no such kernel", "wanted", ""});
  close_cuda();
}

static void failed_call(void) {
  open_cuda(NULL);
  at.cuda->doing = "loss:%12 exp of block/mlp (kernel group_1)";
  CHECK(!sx_cuda_check(at.cuda, CUDA_ERROR_LAUNCH_FAILED, "cuLaunchKernel"));
  at.cuda->doing = NULL;
  CHECK(!sx_cuda_check(at.cuda, CUDA_ERROR_OUT_OF_MEMORY, "cuMemAlloc")); /* the first one stays */
  CHECK(!sx_cuda_enter(at.cuda) && !sx_cuda_take(at.cuda, 10) && !sx_cuda_report(at.cuda, &at.diags));
  expect_message("E-DEVICE-025", (const char *const[]){"cuLaunchKernel fails with 719 CUDA_ERROR_LAUNCH_FAILED (",
                                                       "in loss:%12 exp of", "block/mlp (kernel group_1)"});
  sx_stopped why;
  CHECK(at.cuda->backend->calls->finish(at.cuda->backend, &why, &at.diags) == SX_FINISHED_FAILED);
  close_cuda();
}

static void failed_library(void) {
  open_cuda(NULL);
  CHECK(sx_api_load(&at.cuda->api, SX_LIBRARY_CUBLAS, device_libraries(), &at.arena, &at.diags));
  CHECK(sx_cuda_check_cublas(at.cuda, CUBLAS_STATUS_SUCCESS, "cublasGemmEx"));
  CHECK(!sx_cuda_check_cublas(at.cuda, CUBLAS_STATUS_INVALID_VALUE, "cublasGemmEx"));
  CHECK(!sx_cuda_report(at.cuda, &at.diags));
  expect_message("E-DEVICE-028", (const char *const[]){"cublasGemmEx fails with 7 (", "", ""});
  sx_cuda_forgive(at.cuda);
  CHECK(!sx_cuda_check_cublas(at.cuda, CUBLAS_STATUS_ALLOC_FAILED, "cublasGemmEx") && at.cuda->failure.memory);
  sx_cuda_forgive(at.cuda);
  close_cuda();
}

static void failures_say_what_was_done(void **state) {
  (void)state;
  cudasim_good("", bad_text);
  cudasim_expect("violations=report", another_name, 0, "has no kernel \"wanted\"");
  cudasim_good("", failed_call);
  cudasim_good("", failed_library);
}

int main(void) {
  if (!cudasim_has_nvrtc()) return 0;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_kernel_is_compiled_once),
      cmocka_unit_test(compiled_kernels_are_kept),
      cmocka_unit_test(nothing_is_lost_without_memory),
      cmocka_unit_test(failures_say_what_was_done),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
  puts("skipped: this build was made without the headers of CUDA and cuDNN (make says why)");
  return 0;
}
#endif
