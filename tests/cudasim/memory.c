/* Device memory and page-locked host memory: mappings of their own with pages around them that nobody may touch, a
 * sorted table of all that were ever made, and the account of the card's memory. Freed addresses are never given again.
 */
#define _GNU_SOURCE /* memfd_create, MAP_ANONYMOUS */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver.h"

enum { PAGE = 4096, ALIGNMENT = 512, PATTERN_BYTES = 16 << 20, MOST_OF_CONTEXT = 400 << 20 };
/* Not a number as F32, BF16 and F64, and large as an integer. */
static const uint32_t GARBAGE = 0x7FFDFFC5u;

static sim_memory *table; /* by base */
static size_t n_table, n_room;
static size_t used[16]; /* by device */
static unsigned n_made;
static uint64_t n_allocations, n_host_allocations;

/* ---- the table ------------------------------------------------------------------------------------ */

static size_t upper(const char *address) {
  size_t low = 0, high = n_table;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (table[middle].base <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

sim_memory *sim_memory_find(const void *address) {
  static size_t last;
  const char *at = address;
  if (last < n_table && table[last].alive && at >= table[last].base && at < table[last].base + table[last].n_bytes)
    return &table[last];
  size_t i = upper(at);
  if (i == 0) return NULL;
  last = i - 1;
  sim_memory *memory = &table[last];
  size_t guard = memory->place == SIM_PLACE_MODULE ? 0 : PAGE;
  return at < memory->base + memory->n_mapped + guard ? memory : NULL;
}

bool sim_memory_holds(const sim_memory *memory, const void *address, size_t n_bytes) {
  size_t offset = (size_t)((const char *)address - memory->base);
  return offset <= memory->n_bytes && n_bytes <= memory->n_bytes - offset;
}

static sim_memory *insert(sim_memory memory) {
  if (n_table == n_room) {
    n_room = n_room ? 2 * n_room : 64;
    table = realloc(table, n_room * sizeof *table);
    if (!table) abort();
  }
  size_t i = upper(memory.base);
  memmove(&table[i + 1], &table[i], (n_table - i) * sizeof *table);
  memory.number = ++n_made;
  memory.alive = true;
  table[i] = memory;
  n_table++;
  return &table[i];
}

static const char *place_name(const sim_memory *memory) {
  static const char *const names[] = {"device memory", "a library's device memory", "a module's variable",
                                      "host memory"};
  return names[memory->place];
}

const char *sim_memory_describe(const sim_memory *memory, const void *address) {
  static _Thread_local char text[160];
  snprintf(text, sizeof text, "byte %td of %s %u (%zu bytes%s)", (const char *)address - memory->base,
           place_name(memory), memory->number, memory->n_bytes, memory->alive ? "" : ", freed");
  return text;
}

const char *sim_memory_wrong(const void *address, size_t n_bytes, bool host) {
  static _Thread_local char text[320];
  const sim_memory *memory = sim_memory_find(address);
  if (!memory)
    snprintf(text, sizeof text, "%p is in no %s", address, host ? "page-locked host memory" : "device memory");
  else if (!memory->alive)
    snprintf(text, sizeof text, "use after free: %s", sim_memory_describe(memory, address));
  else if ((memory->place == SIM_PLACE_HOST) != host)
    snprintf(text, sizeof text, "%s where %s was expected", sim_memory_describe(memory, address),
             host ? "host memory" : "device memory");
  else if (!sim_memory_holds(memory, address, n_bytes))
    snprintf(text, sizeof text, "%zu bytes at %s", n_bytes, sim_memory_describe(memory, address));
  else
    return NULL;
  return text;
}

bool sim_device_memory(const void *address, size_t n_bytes) { return !sim_memory_wrong(address, n_bytes, false); }
bool sim_host_memory(const void *address, size_t n_bytes) { return !sim_memory_wrong(address, n_bytes, true); }

/* ---- mappings ------------------------------------------------------------------------------------- */

/* One piece of garbage that large allocations map over and over: a page costs memory when it is written. */
static int pattern_file(void) {
  static int fd = -1;
  if (fd >= 0) return fd;
  fd = memfd_create("cudasim garbage", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, PATTERN_BYTES)) return -1;
  uint32_t *words = mmap(NULL, PATTERN_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (words == MAP_FAILED) return -1;
  for (size_t i = 0; i < PATTERN_BYTES / sizeof *words; i++) words[i] = GARBAGE;
  munmap(words, PATTERN_BYTES);
  return fd;
}

static bool fill_mapped(char *base, size_t n_mapped) {
  int fd = pattern_file();
  for (size_t at = 0; fd >= 0 && at < n_mapped; at += PATTERN_BYTES) {
    size_t n = n_mapped - at < PATTERN_BYTES ? n_mapped - at : PATTERN_BYTES;
    if (mmap(base + at, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd, 0) == MAP_FAILED)
      return false;
  }
  return fd >= 0;
}

/* Whole pages with an unreadable one before and after; NULL: the host has no room. */
static char *map(size_t n_bytes, size_t *n_mapped) {
  *n_mapped = (n_bytes + PAGE - 1) / PAGE * PAGE;
  char *around = mmap(NULL, *n_mapped + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (around == MAP_FAILED) return NULL;
  char *base = around + PAGE;
  if (*n_mapped >= PATTERN_BYTES) return fill_mapped(base, *n_mapped) ? base : NULL;
  if (mprotect(base, *n_mapped, PROT_READ | PROT_WRITE)) return NULL;
  for (size_t i = 0; i < *n_mapped / sizeof GARBAGE; i++) memcpy(base + i * sizeof GARBAGE, &GARBAGE, sizeof GARBAGE);
  return base;
}

/* The addresses stay taken, so that a late use stops. */
static void unmap(sim_memory *memory) {
  if (memory->place != SIM_PLACE_MODULE)
    mmap(memory->base, memory->n_mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  if (memory->shadow) munmap(memory->shadow, (memory->n_bytes + SIM_GRANULE - 1) / SIM_GRANULE * sizeof(sim_shadow));
  memory->shadow = NULL;
  memory->alive = false;
}

/* ---- the card's memory ---------------------------------------------------------------------------- */

static size_t total(void) { return (size_t)sim_card_fact("totalGlobalMem"); }

/* A context takes some for itself. */
static size_t of_context(void) { return total() / 64 < MOST_OF_CONTEXT ? total() / 64 : MOST_OF_CONTEXT; }

static size_t available(int device) {
  size_t others = (size_t)(sim_setting_number("memory.used", 0) * 0x1p30);
  size_t taken = used[device] + others + of_context();
  return taken < total() ? total() - taken : 0;
}

static size_t account(size_t n_bytes) { return (n_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static char *take(size_t n_bytes, sim_place place) {
  int device = sim_context_device();
  if (n_bytes > total() || account(n_bytes) > available(device)) return NULL;
  size_t n_mapped = 0;
  char *base = map(n_bytes, &n_mapped);
  if (!base) return NULL;
  insert((sim_memory){.base = base, .n_bytes = n_bytes, .n_mapped = n_mapped, .place = place, .device = device});
  used[device] += account(n_bytes);
  return base;
}

static void give(sim_memory *memory) {
  if (memory->place != SIM_PLACE_HOST && memory->place != SIM_PLACE_MODULE)
    used[memory->device] -= account(memory->n_bytes);
  unmap(memory);
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  if (free_bytes) *free_bytes = available(sim_context_device());
  if (total_bytes) *total_bytes = total();
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t n_bytes) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  if (!address) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "the address's address is NULL");
  if (n_bytes == 0) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "0 bytes were asked for");
  CUresult forbidden = sim_capture_forbids_unsafe();
  if (forbidden) return forbidden;
  if (sim_fails_at("memory.fail_at", ++n_allocations)) return CUDA_ERROR_OUT_OF_MEMORY;
  char *base = take(n_bytes, SIM_PLACE_DEVICE);
  if (!base) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = (CUdeviceptr)(uintptr_t)base;
  return CUDA_SUCCESS;
}

/* The allocation that begins at the address; NULL after a violation. */
static sim_memory *begins(const void *address, sim_place place) {
  sim_memory *memory = sim_memory_find(address);
  const char *kind = place == SIM_PLACE_HOST ? "host memory" : "device memory";
  if (!memory)
    sim_refuse(CUDA_ERROR_INVALID_VALUE, "%p is in no %s", address, kind);
  else if (!memory->alive)
    sim_refuse(CUDA_ERROR_INVALID_VALUE, "double free: %s", sim_memory_describe(memory, address));
  else if (memory->base != address || memory->place != place)
    sim_refuse(CUDA_ERROR_INVALID_VALUE, "%s is not the begin of %s", sim_memory_describe(memory, address), kind);
  else
    return memory;
  return NULL;
}

/* As the driver's does, freeing waits for the device. */
static CUresult release(const void *address, sim_place place) {
  if (!begins(address, place)) return CUDA_ERROR_INVALID_VALUE;
  CUresult forbidden = sim_capture_forbids_unsafe();
  if (forbidden) return forbidden;
  CUresult status = sim_device_drain(sim_context_device());
  give(sim_memory_find(address));
  return status;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  return address ? release((void *)(uintptr_t)address, SIM_PLACE_DEVICE) : CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *n_bytes, CUdeviceptr address) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  const char *wrong = sim_memory_wrong((void *)(uintptr_t)address, 1, false);
  if (wrong) return sim_refuse(CUDA_ERROR_NOT_FOUND, "%s", wrong);
  const sim_memory *memory = sim_memory_find((void *)(uintptr_t)address);
  if (base) *base = (CUdeviceptr)(uintptr_t)memory->base;
  if (n_bytes) *n_bytes = memory->n_bytes;
  return CUDA_SUCCESS;
}

/* ---- page-locked host memory ---------------------------------------------------------------------- */

static CUresult take_host(void **address, size_t n_bytes, bool device_map) {
  if (!address) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "the address's address is NULL");
  if (n_bytes == 0) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "0 bytes were asked for");
  CUresult forbidden = sim_capture_forbids_unsafe();
  if (forbidden) return forbidden;
  if (sim_fails_at("memory.fail_host", ++n_host_allocations)) return CUDA_ERROR_OUT_OF_MEMORY;
  size_t n_mapped = 0;
  char *base = map(n_bytes, &n_mapped);
  if (!base) return CUDA_ERROR_OUT_OF_MEMORY;
  insert((sim_memory){.base = base,
                      .n_bytes = n_bytes,
                      .n_mapped = n_mapped,
                      .place = SIM_PLACE_HOST,
                      .device_map = device_map,
                      .device = sim_context_device()});
  *address = base;
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **address, size_t n_bytes, unsigned flags) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  const unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (flags & ~known) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "there are no flags 0x%x", flags);
  return take_host(address, n_bytes, flags & CU_MEMHOSTALLOC_DEVICEMAP);
}

CUresult cuMemAllocHost_v2(void **address, size_t n_bytes) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  return take_host(address, n_bytes, false);
}

CUresult cuMemFreeHost(void *address) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  return release(address, SIM_PLACE_HOST);
}

/* ---- for the libraries and modules ---------------------------------------------------------------- */

void *sim_memory_take(size_t n_bytes) {
  sim_call call = sim_enter("sim_memory_take", SIM_NEEDS_NOTHING);
  void *base = n_bytes ? take(n_bytes, SIM_PLACE_LIBRARY) : NULL;
  sim_leave(&call);
  return base;
}

void sim_memory_give(void *address) {
  sim_call call = sim_enter("sim_memory_give", SIM_NEEDS_NOTHING);
  sim_memory *memory = address ? begins(address, SIM_PLACE_LIBRARY) : NULL;
  if (memory) {
    sim_device_drain(memory->device);
    give(sim_memory_find(address));
  }
  sim_leave(&call);
}

sim_memory *sim_memory_adopt(void *base, size_t n_bytes, int device) {
  return insert(
      (sim_memory){.base = base, .n_bytes = n_bytes, .n_mapped = n_bytes, .place = SIM_PLACE_MODULE, .device = device});
}

/* Its addresses are the host allocator's, which may give them again: so the row goes. */
void sim_memory_abandon(void *base) {
  sim_memory *memory = sim_memory_find(base);
  if (!memory || memory->base != base) return;
  unmap(memory);
  size_t i = (size_t)(memory - table);
  memmove(&table[i], &table[i + 1], (n_table - i - 1) * sizeof *table);
  n_table--;
}

void sim_memory_report(int device, const char *when) {
  for (size_t i = 0; i < n_table; i++) {
    sim_memory *memory = &table[i];
    if (!memory->alive || memory->device != device || memory->place == SIM_PLACE_MODULE) continue;
    if (memory->place != SIM_PLACE_LIBRARY) /* the library says what of it is left */
      sim_violation("leak: %s %u of %zu bytes is not freed when %s", place_name(memory), memory->number,
                    memory->n_bytes, when);
    give(memory);
  }
}
