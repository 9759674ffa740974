#define _DEFAULT_SOURCE
#include "guarded.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cmocka_all.h"

guarded guarded_new(size_t n_bytes, bool at_end) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (n_bytes + page - 1) / page * page;
  guarded g = {.n_mapped = whole + 2 * page};
  g.pages = mmap(NULL, g.n_mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(g.pages != MAP_FAILED);
  memset(g.pages + page, 0xff, whole);
  assert_int_equal(mprotect(g.pages, page, PROT_NONE), 0);
  assert_int_equal(mprotect(g.pages + page + whole, page, PROT_NONE), 0);
  g.data = g.pages + page + (at_end ? whole - n_bytes : 0);
  return g;
}

void guarded_free(guarded *g) { munmap(g->pages, g->n_mapped); }
