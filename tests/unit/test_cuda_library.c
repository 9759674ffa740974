/* Loading: where a library is looked for, what is said when it is not there, too old or another one. */
#include <stdlib.h>

#include "../common/cuda.h"

#ifdef SX_CUDA
#include <fenv.h>
#include <string.h>
#include <unistd.h>

#include "../../libsexp/sexp.h"
#include "../common/cmocka_all.h"

typedef struct load_case {
  sx_memory memory;
  sx_arena arena;
  sx_diags diags;
  sx_api api;
} load_case;

static bool load(load_case *c, sx_library library, const char *path) {
  *c = (load_case){.memory = sx_memory_default()};
  sx_arena_init(&c->arena, &c->memory);
  sx_diags_init(&c->diags, &c->arena);
  return sx_api_load(&c->api, library, path, &c->arena, &c->diags);
}

static void expect_refusal(load_case *c, const char *path, const char *code, const char *const words[3]) {
  assert_false(load(c, SX_LIBRARY_CUDNN, path));
  assert_int_equal(c->diags.n_errors, 1);
  const char *message = c->diags.list.items[0].message;
  assert_string_equal(sx_diag_code(&c->diags.list.items[0]), code);
  for (int i = 0; i < 3; i++)
    if (!strstr(message, words[i])) fail_msg("no \"%s\" in: %s", words[i], message);
  assert_string_equal(c->api.found[SX_LIBRARY_CUDNN].missing, message);
  sx_arena_free(&c->arena);
}

/* The doubles lie beside the test's own folder. */
static const char *double_path(char path[4096], const char *name) {
  ssize_t n = readlink("/proc/self/exe", path, 4000);
  assert_true(n > 0);
  path[n] = 0;
  *strrchr(path, '/') = 0;
  strcpy(strrchr(path, '/'), "/doubles/");
  strcat(path, name);
  return path;
}

static void the_loader_finds_it_or_a_path_names_it(void **state) {
  (void)state;
  load_case first, second, third;
  assert_true(load(&first, SX_LIBRARY_CUDNN, NULL));
  const sx_library_found *found = &first.api.found[SX_LIBRARY_CUDNN];
  assert_string_equal(found->name, "cuDNN");
  assert_null(found->missing);
  assert_int_equal(found->number, (int64_t)first.api.cudnnGetVersion());
  assert_true(found->number >= 90800);
  const char *version = sx_format(&first.arena, "%d.%d.%d", (int)(found->number / 10000),
                                  (int)(found->number / 100 % 100), (int)(found->number % 100));
  assert_string_equal(found->version, version);

  assert_true(load(&second, SX_LIBRARY_CUDNN, found->path));
  assert_string_equal(second.api.found[SX_LIBRARY_CUDNN].path, found->path);
  char *folder = strdup(found->path);
  *strrchr(folder, '/') = 0;
  assert_true(load(&third, SX_LIBRARY_CUDNN, folder));
  assert_ptr_equal(third.api.cudnnBackendFinalize, first.api.cudnnBackendFinalize);
  free(folder);
  sx_arena_free(&first.arena);
  sx_arena_free(&second.arena);
  sx_arena_free(&third.arena);
}

static void a_path_is_never_exchanged_for_another(void **state) {
  (void)state;
  load_case c;
  expect_refusal(&c, "/nowhere/libcudnn.so.9", "E-DEVICE-010",
                 (const char *const[]){"cuDNN is not found at /nowhere/libcudnn.so.9", "cannot open shared object file",
                                       "No such file"});
  expect_refusal(&c, "tests/cuda", "E-DEVICE-010",
                 (const char *const[]){"cuDNN is not found at tests/cuda", "tests/cuda/libcudnn.so.9",
                                       "cannot open shared object file"});
  expect_refusal(&c, "tests/cuda/a100.json", "E-DEVICE-010",
                 (const char *const[]){"tests/cuda/a100.json", "invalid ELF header", ""});
}

static void another_library_lacks_a_function(void **state) {
  (void)state;
  load_case c;
  char path[4096];
  expect_refusal(&c, double_path(path, "cudnn_lacks_finalize.so"), "E-DEVICE-011",
                 (const char *const[]){"cuDNN at", path, "has no function cudnnBackendFinalize"});
  expect_refusal(&c, "libz.so.1", "E-DEVICE-011",
                 (const char *const[]){"libz.so.1", "has no function cudnnGetVersion", ""});
}

static void an_old_version_is_refused(void **state) {
  (void)state;
  load_case c;
  char path[4096];
  expect_refusal(&c, double_path(path, "cudnn_old.so"), "E-DEVICE-012",
                 (const char *const[]){path, "reports version 90700", "90800 or later"});
}

/* The double sets another one when it is loaded, which happens once: here, in the first test. */
static void loading_leaves_rounding_as_it_was(void **state) {
  (void)state;
  char path[4096];
  load_case c;
  assert_int_equal(fesetround(FE_DOWNWARD), 0);
  bool loaded = load(&c, SX_LIBRARY_CUDNN, double_path(path, "cudnn_old.so"));
  int direction = fegetround();
  fesetround(FE_TONEAREST);
  sx_arena_free(&c.arena);
  assert_false(loaded);
  assert_int_equal(direction, FE_DOWNWARD);
}

static void a_report_names_every_library(void **state) {
  (void)state;
  sexp_libraries *libraries = sexp_libraries_find(NULL);
  assert_non_null(libraries);
  assert_null(libraries->unbuilt);
  assert_int_equal(libraries->n, SX_N_LIBRARIES);
  static const char *const names[] = {"CUDA driver", "NVRTC", "cuBLAS", "cuBLASLt", "cuDNN"};
  for (size_t i = 0; i < libraries->n; i++) {
    const sexp_library *library = &libraries->items[i];
    assert_string_equal(library->name, names[i]);
    assert_true((library->version && library->path) || library->missing);
    printf("%-12s %-8s %s\n", library->name, library->version ? library->version : "-",
           library->missing ? library->missing : library->path);
  }
  assert_null(libraries->items[4].missing);
  sexp_libraries_free(libraries);

  libraries = sexp_libraries_find("tests/cuda");
  for (size_t i = 0; i < libraries->n; i++) {
    assert_null(libraries->items[i].path);
    assert_non_null(strstr(libraries->items[i].missing, "not found at tests/cuda"));
  }
  assert_non_null(strstr(libraries->items[1].missing, "tests/cuda/libnvrtc.so.12"));
  sexp_libraries_free(libraries);
  sexp_libraries_free(NULL);
}

CUDA_MAIN(cmocka_unit_test(loading_leaves_rounding_as_it_was), cmocka_unit_test(the_loader_finds_it_or_a_path_names_it),
          cmocka_unit_test(a_path_is_never_exchanged_for_another), cmocka_unit_test(another_library_lacks_a_function),
          cmocka_unit_test(an_old_version_is_refused), cmocka_unit_test(a_report_names_every_library))
#else
#include "../../libsexp/sexp.h"

/* Without the headers of CUDA there is one thing to see: the report says so. */
int main(void) {
  sexp_libraries *libraries = sexp_libraries_find(NULL);
  bool said = libraries && libraries->unbuilt && !libraries->n;
  if (said) printf("skipped: %s\n", libraries->unbuilt);
  sexp_libraries_free(libraries);
  return !said;
}
#endif
