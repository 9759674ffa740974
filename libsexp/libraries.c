/* What a machine has of the libraries of the CUDA device, for a report. */
#include "base/guard.h"
#include "base/memory.h"
#include "cuda/library.h"
#include "sexp.h"

typedef struct finding {
  sexp_libraries found; /* first: it is what the caller holds */
  sx_memory memory;
  sx_arena arena;
  const char *path;
} finding;

#ifdef SX_CUDA
static void find(void *context) {
  finding *f = context;
  sx_library_found found[SX_N_LIBRARIES];
  sx_libraries_find(found, f->path, &f->arena);
  sexp_library *items = SX_NEW_N(&f->arena, sexp_library, SX_N_LIBRARIES);
  for (int i = 0; i < SX_N_LIBRARIES; i++)
    items[i] = (sexp_library){found[i].name, found[i].path, found[i].version, found[i].missing};
  f->found.items = items;
  f->found.n = SX_N_LIBRARIES;
}
#else
static void find(void *context) {
  finding *f = context;
  f->found.unbuilt = "this build was made without the headers of CUDA and cuDNN";
}
#endif

sexp_libraries *sexp_libraries_find(const char *path) {
  sx_memory memory = sx_memory_default();
  finding *f = memory.allocate(memory.context, sizeof *f);
  if (!f) return NULL;
  *f = (finding){.memory = memory, .path = path};
  sx_arena_init(&f->arena, &f->memory);
  if (sx_guard(&f->memory, find, f)) return &f->found;
  sexp_libraries_free(&f->found);
  return NULL;
}

void sexp_libraries_free(sexp_libraries *libraries) {
  finding *f = (finding *)libraries;
  if (!f) return;
  sx_memory memory = f->memory;
  sx_arena_free(&f->arena);
  memory.release(memory.context, f);
}
