/* Loading through one table: the file, the entry points, the version. */
#define _GNU_SOURCE /* dlinfo */
#include "api.h"

#include <dlfcn.h>
#include <fenv.h>
#include <inttypes.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>

#include "../base/text.h"

typedef struct library_row {
  const char *name, *files;
  int64_t least;
} library_row;

static const library_row LIBRARIES[SX_N_LIBRARIES] = {
#define SX_LIBRARY(id, name, files, least) {name, files, least},
#include "api.def"
};

typedef struct entry_row {
  sx_library library;
  const char *name;
  size_t offset; /* of its pointer in sx_api */
} entry_row;

static const entry_row ENTRIES[] = {
#define NAME_OF(function) #function
#define SX_ENTRY(library, function) {SX_LIBRARY_##library, NAME_OF(function), offsetof(sx_api, function)},
#include "api.def"
};
enum { N_ENTRIES = sizeof ENTRIES / sizeof *ENTRIES };

/* ---- versions ----------------------------------------------------------------------------------- */

/* Each library numbers its versions in its own way: the number and the text, 0 and NULL where it does not say. */
typedef struct version {
  int64_t number;
  const char *text;
} version;

static version version_of_driver(const sx_api *api, sx_arena *arena) {
  int number = 0;
  if (api->cuDriverGetVersion(&number) != CUDA_SUCCESS) return (version){0};
  return (version){number, sx_format(arena, "%d.%d", number / 1000, number % 1000 / 10)};
}

static version version_of_nvrtc(const sx_api *api, sx_arena *arena) {
  int major = 0, minor = 0;
  if (api->nvrtcVersion(&major, &minor) != NVRTC_SUCCESS) return (version){0};
  return (version){major * 1000 + minor * 10, sx_format(arena, "%d.%d", major, minor)};
}

static version version_of_cublas(const sx_api *api, sx_arena *arena) {
  int part[3] = {0};
  static const libraryPropertyType parts[] = {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL};
  for (size_t i = 0; i < 3; i++)
    if (api->cublasGetProperty(parts[i], &part[i]) != CUBLAS_STATUS_SUCCESS) return (version){0};
  return (version){part[0] * 10000 + part[1] * 100 + part[2], sx_format(arena, "%d.%d.%d", part[0], part[1], part[2])};
}

static version split(int64_t number, sx_arena *arena) {
  return (version){
      number, sx_format(arena, "%" PRId64 ".%" PRId64 ".%" PRId64, number / 10000, number / 100 % 100, number % 100)};
}

static version version_of_cublaslt(const sx_api *api, sx_arena *arena) {
  return split((int64_t)api->cublasLtGetVersion(), arena);
}

static version version_of_cudnn(const sx_api *api, sx_arena *arena) {
  return split((int64_t)api->cudnnGetVersion(), arena);
}

static version (*const VERSIONS[SX_N_LIBRARIES])(const sx_api *, sx_arena *) = {
    [SX_LIBRARY_DRIVER] = version_of_driver, [SX_LIBRARY_NVRTC] = version_of_nvrtc,
    [SX_LIBRARY_CUBLAS] = version_of_cublas, [SX_LIBRARY_CUBLASLT] = version_of_cublaslt,
    [SX_LIBRARY_CUDNN] = version_of_cudnn,
};

/* ---- loading ------------------------------------------------------------------------------------ */

static void *open_file(const char *file) {
  fenv_t environment;
  fegetenv(&environment);
  void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  fesetenv(&environment); /* a library's initializers may set another one */
  return handle;
}

static bool is_directory(const char *path) {
  struct stat facts;
  return path && stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

/* Tries the files of the row in turn; *tried: each with what the loader said. */
static void *open_library(const library_row *row, const char *path, sx_text *tried, sx_arena *arena) {
  if (path && !is_directory(path)) {
    void *handle = open_file(path);
    if (!handle) sx_text_add(tried, dlerror());
    return handle;
  }
  for (const char *at = row->files; *at;) {
    size_t n = strcspn(at, " ");
    const char *file = sx_arena_copy_text(arena, at, n);
    at += n + (at[n] == ' ');
    if (path) file = sx_format(arena, "%s/%s", path, file);
    void *handle = open_file(file);
    if (handle) return handle;
    sx_text_addf(tried, "%s%s", tried->n ? "; " : "", dlerror());
  }
  return NULL;
}

static const char *path_of(void *handle, sx_arena *arena) {
  struct link_map *map = NULL;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) || !map->l_name) return "";
  return sx_arena_copy_text(arena, map->l_name, strlen(map->l_name));
}

/* NULL: all are there; else the first that is not. */
static const char *fill_entries(sx_api *api, sx_library library, void *handle) {
  for (size_t i = 0; i < N_ENTRIES; i++) {
    if (ENTRIES[i].library != library) continue;
    void *address = dlsym(handle, ENTRIES[i].name);
    if (!address) return ENTRIES[i].name;
    memcpy((char *)api + ENTRIES[i].offset, &address, sizeof address);
  }
  return NULL;
}

static bool fail(sx_library_found *found, sx_diags *diags, sx_code code, const char *message) {
  found->missing = message;
  if (diags) sx_error(diags, code, (sx_span){0}, "%s", message);
  return false;
}

bool sx_api_load(sx_api *api, sx_library library, const char *path, sx_arena *arena, sx_diags *diags) {
  const library_row *row = &LIBRARIES[library];
  sx_library_found *found = &api->found[library];
  *found = (sx_library_found){.name = row->name};
  sx_text tried;
  sx_text_init(&tried, arena);
  void *handle = open_library(row, path, &tried, arena);
  if (!handle)
    return fail(found, diags, SX_E_DEVICE_LIBRARY,
                sx_format(arena, "%s is not found %s %s: %s", row->name, path ? "at" : "by the system's loader as",
                          path ? path : row->files, sx_text_get(&tried)));
  found->path = path_of(handle, arena);
  const char *lacking = fill_entries(api, library, handle);
  if (lacking)
    return fail(found, diags, SX_E_DEVICE_ENTRY,
                sx_format(arena, "%s at %s has no function %s", row->name, found->path, lacking));
  version is = VERSIONS[library](api, arena);
  found->version = is.text;
  found->number = is.number;
  if (is.number < row->least)
    return fail(found, diags, SX_E_DEVICE_VERSION,
                sx_format(arena, "%s at %s reports version %" PRId64 "; it takes %" PRId64 " or later", row->name,
                          found->path, is.number, row->least));
  return true;
}

void sx_libraries_find(sx_library_found found[SX_N_LIBRARIES], const char *path, sx_arena *arena) {
  sx_api api = {0};
  for (int i = 0; i < SX_N_LIBRARIES; i++) sx_api_load(&api, (sx_library)i, path, arena, NULL);
  memcpy(found, api.found, sizeof api.found);
}
