/* The stand-in for the driver, used wrongly: each mistake is reported with the call and the object, the call fails with
 * the driver's error, and the process ends with 86. */
#include "../common/cudasim.h"

#ifdef SX_CUDA
#include <dlfcn.h>
#include <string.h>

#include "../common/cmocka_all.h"

/* A mistake, and what must be said of it. */
typedef struct mistake {
  void (*body)(void);
  const char *words, *settings;
} mistake;

static void expect_all(const mistake *mistakes, size_t n) {
  for (size_t i = 0; i < n; i++)
    cudasim_expect(mistakes[i].settings, mistakes[i].body, CUDASIM_VIOLATED, mistakes[i].words);
}
#define EXPECT(...)                                           \
  do {                                                        \
    static const mistake mistakes[] = {__VA_ARGS__};          \
    expect_all(mistakes, sizeof mistakes / sizeof *mistakes); \
  } while (0)

#define FAILS(call, with) CHECK((call) == (with))

/* ---- beginning ------------------------------------------------------------------------------------ */

static void calls_too_early(void) {
  int n = 0;
  FAILS(cu.cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
}
static void has_no_context(void) {
  CUdeviceptr x = 0;
  GOOD(cu.cuInit(0));
  FAILS(cu.cuMemAlloc(&x, 4), CUDA_ERROR_INVALID_CONTEXT);
}
static void asks_device_7(void) {
  int value = 0;
  GOOD(cu.cuInit(0));
  FAILS(cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 7), CUDA_ERROR_INVALID_DEVICE);
}
static void asks_an_unknown_attribute(void) {
  int value = 0;
  GOOD(cu.cuInit(0));
  FAILS(cu.cuDeviceGetAttribute(&value, (CUdevice_attribute)9999, 0), CUDA_ERROR_INVALID_VALUE);
}
static void releases_twice(void) {
  cudasim_open();
  cudasim_close();
  FAILS(cu.cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
}
static void only_begins(void) { cu.cuInit(0); }
static void takes_an_old_entry(void) {
  CUresult (*old)(CUdeviceptr *, size_t) = NULL;
  void *entry = dlsym(RTLD_DEFAULT, "cuMemAlloc");
  CUdeviceptr x = 0;
  memcpy(&old, &entry, sizeof entry);
  CHECK(old);
  FAILS(old(&x, 4), CUDA_ERROR_NOT_SUPPORTED);
}
static void reports_of_a_library(void) { cu.sim_violation("cublasCreate: handle %d is odd", 3); }

static void errs_without_end(void) {
  for (int i = 0; i < 150; i++) cu.sim_violation("mistake %d", i);
}

static void a_wrong_begin_is_reported(void **state) {
  (void)state;
  EXPECT({calls_too_early, "cudasim: cuDeviceGetCount: called before cuInit\n", ""},
         {has_no_context, "cudasim: cuMemAlloc: the calling thread has no current context\n", ""},
         {asks_device_7, "cuDeviceGetAttribute: there is no device 7; there are 1", ""},
         {asks_an_unknown_attribute, "cuDeviceGetAttribute: attribute 9999 is not one of", ""},
         {releases_twice, "cuDevicePrimaryCtxRelease: the primary context of device 0 is not retained", ""},
         {only_begins, "there is no setting \"nothing=1\"", "nothing=1"},
         {only_begins, "there is no setting \"speed.=1\"", "speed.=1"},
         {only_begins, "setting device.wings: no number of tests/cuda", "device.wings=2"},
         {only_begins, "setting device.capability=eight: a capability such as 8.0 was expected",
          "device.capability=eight"},
         {only_begins, "setting count=two: a number was expected", "count=two"},
         {takes_an_old_entry, "cuMemAlloc: this entry has the types of an old CUDA; cuda.h's is cuMemAlloc_v2", ""},
         {reports_of_a_library, "cudasim: cublasCreate: handle 3 is odd\n", ""});
  cudasim_expect("", errs_without_end, CUDASIM_VIOLATED,
                 "cudasim: mistake 99\ncudasim: there are more mistakes, which are not listed\n");
  cudasim_expect("violations=report", calls_too_early, 0, "called before cuInit");
}

/* ---- memory --------------------------------------------------------------------------------------- */

static void allocates_nothing(void) {
  CUdeviceptr x = 0;
  cudasim_open();
  FAILS(cu.cuMemAlloc(&x, 0), CUDA_ERROR_INVALID_VALUE);
  cudasim_close();
}
static void frees_twice(void) {
  cudasim_open();
  CUdeviceptr x = cudasim_memory(100);
  GOOD(cu.cuMemFree(x));
  FAILS(cu.cuMemFree(x), CUDA_ERROR_INVALID_VALUE);
  cudasim_close();
}
static void frees_the_middle(void) {
  cudasim_open();
  CUdeviceptr x = cudasim_memory(100);
  FAILS(cu.cuMemFree(x + 4), CUDA_ERROR_INVALID_VALUE);
  GOOD(cu.cuMemFree(x));
  cudasim_close();
}
static void frees_the_other_kind(void) {
  cudasim_open();
  CUdeviceptr x = cudasim_memory(100);
  FAILS(cu.cuMemFreeHost((void *)(uintptr_t)x), CUDA_ERROR_INVALID_VALUE);
  GOOD(cu.cuMemFree(x));
  cudasim_close();
}
static void uses_after_free(void) {
  cudasim_open();
  CUdeviceptr x = cudasim_memory(100);
  GOOD(cu.cuMemFree(x));
  FAILS(cu.cuMemsetD8Async(x, 0, 100, NULL), CUDA_ERROR_INVALID_VALUE);
  cudasim_close();
}
static void copies_past_the_end(void) {
  char text[200] = "";
  cudasim_open();
  CUdeviceptr x = cudasim_memory(100);
  FAILS(cu.cuMemcpyHtoD(x + 1, text, 100), CUDA_ERROR_INVALID_VALUE);
  GOOD(cu.cuMemFree(x));
  cudasim_close();
}
static void copies_from_pageable_memory(void) {
  char text[100] = "";
  cudasim_open();
  CUdeviceptr x = cudasim_memory(100);
  FAILS(cu.cuMemcpyHtoDAsync(x, text, 100, NULL), CUDA_ERROR_INVALID_VALUE);
  GOOD(cu.cuMemFree(x));
  cudasim_close();
}
static void copies_onto_itself(void) {
  cudasim_open();
  CUdeviceptr x = cudasim_memory(100);
  FAILS(cu.cuMemcpyDtoDAsync(x, x + 10, 20, NULL), CUDA_ERROR_INVALID_VALUE);
  GOOD(cu.cuMemFree(x));
  cudasim_close();
}
static void sets_an_odd_address(void) {
  cudasim_open();
  CUdeviceptr x = cudasim_memory(100);
  FAILS(cu.cuMemsetD32Async(x + 2, 0, 1, NULL), CUDA_ERROR_INVALID_VALUE);
  GOOD(cu.cuMemFree(x));
  cudasim_close();
}

static void wrong_memory_is_reported(void **state) {
  (void)state;
  EXPECT({allocates_nothing, "cuMemAlloc: 0 bytes were asked for", ""},
         {frees_twice, "cuMemFree: double free: byte 0 of device memory 1 (100 bytes, freed)", ""},
         {frees_the_middle, "cuMemFree: byte 4 of device memory 1 (100 bytes) is not the begin of device memory", ""},
         {frees_the_other_kind, "cuMemFreeHost: byte 0 of device memory 1 (100 bytes) is not the begin of host memory",
          ""},
         {uses_after_free, "cuMemsetD8Async: the destination: use after free: byte 0 of device memory 1", ""},
         {copies_past_the_end, "cuMemcpyHtoD: the destination: 100 bytes at byte 1 of device memory 1 (100 bytes)", ""},
         {copies_from_pageable_memory,
          "is in no page-locked host memory (an asynchronous copy needs page-locked memory)", ""},
         {copies_onto_itself, "cuMemcpyDtoDAsync: source and destination overlap", ""},
         {sets_an_odd_address, "is not a multiple of 4", ""});
}

/* ---- leaks and handles ---------------------------------------------------------------------------- */

static void leaves_the_context(void) { cudasim_open(); }
static void leaves_memory(void) {
  cudasim_open();
  cudasim_memory(100);
  cudasim_close();
}
static void leaves_host_memory(void) {
  cudasim_open();
  cudasim_host(25);
  cudasim_close();
}
static void leaves_a_stream(void) {
  cudasim_open();
  cudasim_stream();
  cudasim_close();
}
static void leaves_an_event(void) {
  CUevent event = NULL;
  cudasim_open();
  GOOD(cu.cuEventCreate(&event, 0));
  cudasim_close();
}
static CUgraph capture_one(CUstream stream, CUdeviceptr x) {
  CUgraph graph = NULL;
  GOOD(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  GOOD(cu.cuMemsetD8Async(x, 0, 4, stream));
  GOOD(cu.cuStreamEndCapture(stream, &graph));
  return graph;
}
static void leaves_graphs(void) {
  cudasim_open();
  CUstream stream = cudasim_stream();
  CUdeviceptr x = cudasim_memory(4);
  CUgraphExec executable = NULL;
  GOOD(cu.cuGraphInstantiate(&executable, capture_one(stream, x), 0));
  GOOD(cu.cuMemFree(x));
  GOOD(cu.cuStreamDestroy(stream));
  cudasim_close();
}
static void destroys_twice(void) {
  cudasim_open();
  CUstream stream = cudasim_stream();
  GOOD(cu.cuStreamDestroy(stream));
  FAILS(cu.cuStreamDestroy(stream), CUDA_ERROR_INVALID_HANDLE);
  cudasim_close();
}
static void mixes_handles(void) {
  cudasim_open();
  CUstream stream = cudasim_stream();
  FAILS(cu.cuEventRecord((CUevent)(void *)stream, NULL), CUDA_ERROR_INVALID_HANDLE);
  FAILS(cu.cuEventQuery((CUevent)(void *)&stream), CUDA_ERROR_INVALID_HANDLE);
  GOOD(cu.cuStreamDestroy(stream));
  cudasim_close();
}
static void times_without_timing(void) {
  cudasim_open();
  CUevent event = NULL;
  float ms = 0;
  GOOD(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  FAILS(cu.cuEventElapsedTime(&ms, event, event), CUDA_ERROR_INVALID_HANDLE);
  GOOD(cu.cuEventDestroy(event));
  cudasim_close();
}
static void leaks_and_wrong_handles_are_reported(void **state) {
  (void)state;
  EXPECT({leaves_the_context, "leak: the primary context of device 0 is not released when the process ends", ""},
         {leaves_memory, "leak: device memory 1 of 100 bytes is not freed when its context is released", ""},
         {leaves_host_memory, "leak: host memory 1 of 100 bytes is not freed when its context is released", ""},
         {leaves_a_stream, "leak: stream 1 is not destroyed when its context is released", ""},
         {leaves_an_event, "leak: event 1 is not destroyed when its context is released", ""},
         {leaves_graphs,
          "leak: graph 1 is not destroyed when its context is released\n"
          "cudasim: leak: executable graph 1 is not destroyed when its context is released\n",
          ""},
         {destroys_twice, "cuStreamDestroy: stream 1 was destroyed", ""},
         {mixes_handles, "cuEventRecord: stream 1 was given where a handle of kind event is expected", ""},
         {mixes_handles, "is no event", ""},
         {times_without_timing, "cuEventElapsedTime: an event was created with CU_EVENT_DISABLE_TIMING", ""});
}

/* ---- capture -------------------------------------------------------------------------------------- */

typedef struct capture_case {
  CUstream first, second;
  CUdeviceptr x;
  CUevent event;
  CUgraph graph;
} capture_case;

static capture_case begin_capture(unsigned flags, CUstreamCaptureMode mode) {
  capture_case c = {0};
  cudasim_open();
  GOOD(cu.cuStreamCreate(&c.first, flags));
  c.second = cudasim_stream();
  c.x = cudasim_memory(64);
  GOOD(cu.cuEventCreate(&c.event, 0));
  GOOD(cu.cuEventRecord(c.event, c.second));
  GOOD(cu.cuStreamBeginCapture(c.first, mode));
  return c;
}

/* The capture must end with the error; everything is given back. */
static void end_capture(capture_case *c, CUresult error) {
  FAILS(cu.cuStreamEndCapture(c->first, &c->graph), error);
  CHECK((c->graph == NULL) == (error != CUDA_SUCCESS));
  if (c->graph) GOOD(cu.cuGraphDestroy(c->graph));
  GOOD(cu.cuMemFree(c->x));
  GOOD(cu.cuEventDestroy(c->event));
  GOOD(cu.cuStreamDestroy(c->first));
  GOOD(cu.cuStreamDestroy(c->second));
  cudasim_close();
}

static void synchronizes_in_a_capture(void) {
  capture_case c = begin_capture(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_RELAXED);
  FAILS(cu.cuStreamSynchronize(c.first), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  FAILS(cu.cuMemsetD8Async(c.x, 0, 4, c.first), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  end_capture(&c, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}
static void queries_in_a_capture(void) {
  capture_case c = begin_capture(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_RELAXED);
  FAILS(cu.cuStreamQuery(c.first), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  end_capture(&c, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}
static void waits_for_the_context_in_a_capture(void) {
  capture_case c = begin_capture(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_RELAXED);
  FAILS(cu.cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  end_capture(&c, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}
static void allocates_in_a_capture(void) {
  CUdeviceptr y = 0;
  capture_case c = begin_capture(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_GLOBAL);
  FAILS(cu.cuMemAlloc(&y, 4), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  end_capture(&c, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}
static void uses_the_legacy_stream_in_a_capture(void) {
  capture_case c = begin_capture(CU_STREAM_DEFAULT, CU_STREAM_CAPTURE_MODE_RELAXED);
  FAILS(cu.cuMemsetD8Async(c.x, 0, 4, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  end_capture(&c, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}
static void waits_for_an_event_of_before(void) {
  capture_case c = begin_capture(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_RELAXED);
  FAILS(cu.cuStreamWaitEvent(c.first, c.event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  end_capture(&c, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}
static void does_not_join(void) {
  capture_case c = begin_capture(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_RELAXED);
  GOOD(cu.cuEventRecord(c.event, c.first));
  GOOD(cu.cuStreamWaitEvent(c.second, c.event, 0));
  GOOD(cu.cuMemsetD8Async(c.x, 0, 4, c.second));
  end_capture(&c, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
}
static void waits_for_a_captured_event(void) {
  capture_case c = begin_capture(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_RELAXED);
  GOOD(cu.cuEventRecord(c.event, c.first));
  FAILS(cu.cuEventSynchronize(c.event), CUDA_ERROR_CAPTURED_EVENT);
  end_capture(&c, CUDA_SUCCESS);
}
static void captures_twice(void) {
  capture_case c = begin_capture(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_RELAXED);
  FAILS(cu.cuStreamBeginCapture(c.first, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_ERROR_ILLEGAL_STATE);
  end_capture(&c, CUDA_SUCCESS);
}
static void captures_nothing(void) {
  CUgraph graph = NULL;
  cudasim_open();
  CUstream stream = cudasim_stream();
  FAILS(cu.cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
  GOOD(cu.cuStreamDestroy(stream));
  cudasim_close();
}
static void replays_into_freed_memory(void) {
  cudasim_open();
  CUstream stream = cudasim_stream();
  CUdeviceptr x = cudasim_memory(4);
  CUgraph graph = capture_one(stream, x);
  CUgraphExec executable = NULL;
  GOOD(cu.cuGraphInstantiate(&executable, graph, 0));
  GOOD(cu.cuMemFree(x));
  GOOD(cu.cuGraphLaunch(executable, stream));
  FAILS(cu.cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  FAILS(cu.cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  FAILS(cu.cuMemAlloc(&x, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
}
static void races_within_a_graph(void) {
  capture_case c = begin_capture(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_RELAXED);
  CUevent join = NULL;
  CUgraphExec executable = NULL;
  GOOD(cu.cuEventCreate(&join, 0));
  GOOD(cu.cuEventRecord(c.event, c.first));
  GOOD(cu.cuStreamWaitEvent(c.second, c.event, 0));
  GOOD(cu.cuMemsetD8Async(c.x, 0, 32, c.second));
  GOOD(cu.cuMemsetD8Async(c.x + 16, 0, 32, c.first));
  GOOD(cu.cuEventRecord(join, c.second));
  GOOD(cu.cuStreamWaitEvent(c.first, join, 0));
  GOOD(cu.cuStreamEndCapture(c.first, &c.graph));
  GOOD(cu.cuGraphInstantiate(&executable, c.graph, 0));
  GOOD(cu.cuGraphLaunch(executable, c.second));
  GOOD(cu.cuCtxSynchronize());
  GOOD(cu.cuGraphExecDestroy(executable));
  GOOD(cu.cuGraphDestroy(c.graph));
  GOOD(cu.cuEventDestroy(join));
  GOOD(cu.cuStreamBeginCapture(c.first, CU_STREAM_CAPTURE_MODE_RELAXED));
  end_capture(&c, CUDA_SUCCESS);
}

static void wrong_captures_are_reported(void **state) {
  (void)state;
  EXPECT({synchronizes_in_a_capture,
          "cuStreamSynchronize: the stream is being captured; the capture of stream 1 is invalid now", ""},
         {queries_in_a_capture, "cuStreamQuery: the stream is being captured", ""},
         {waits_for_the_context_in_a_capture, "cuCtxSynchronize: a stream of the context is being captured", ""},
         {allocates_in_a_capture, "cuMemAlloc: not while a stream is captured in this mode", ""},
         {uses_the_legacy_stream_in_a_capture,
          "cuMemsetD8Async: the legacy stream waits for a stream that is being captured", ""},
         {waits_for_an_event_of_before, "cuStreamWaitEvent: the event was recorded outside the capture", ""},
         {does_not_join, "cuStreamEndCapture: work of stream 2 is not waited for by stream 1", ""},
         {waits_for_a_captured_event, "cuEventSynchronize: event 1 was last recorded in a capture", ""},
         {captures_twice, "cuStreamBeginCapture: stream 1 is being captured", ""},
         {captures_nothing, "cuStreamEndCapture: stream 1 is not being captured", ""},
         {replays_into_freed_memory, "set on stream 1 writes: use after free: byte 0 of device memory 1", ""},
         {races_within_a_graph,
          "race: set on stream 2 writes byte 16 of device memory 1 (64 bytes), which set on stream 2 wrote", ""});
}

/* ---- tasks of the libraries ----------------------------------------------------------------------- */

static void do_nothing(void *context) { (void)context; }
static void enqueues_a_wrong_range(void) {
  cudasim_open();
  CUdeviceptr x = cudasim_memory(64);
  sim_range range = {(void *)(uintptr_t)x, 65, false};
  sim_task task = {.name = "cublasGemmEx", .run = do_nothing, .ranges = &range, .n_ranges = 1};
  FAILS(cu.sim_enqueue(NULL, &task), CUDA_ERROR_INVALID_VALUE);
  GOOD(cu.cuMemFree(x));
  cudasim_close();
}

static void wrong_tasks_are_reported(void **state) {
  (void)state;
  EXPECT({enqueues_a_wrong_range, "cudasim: cublasGemmEx reads: 65 bytes at byte 0 of device memory 1 (64 bytes)", ""});
}

/* ---- kernels -------------------------------------------------------------------------------------- */

typedef struct kernel_case {
  CUmodule module;
  CUdeviceptr x;
  CUfunction fill;
  unsigned long long n;
  float value;
} kernel_case;

static kernel_case begin_kernel(void) {
  cudasim_open();
  kernel_case c = {cudasim_module(), cudasim_memory(4096), NULL, 1024, 1};
  GOOD(cu.cuModuleGetFunction(&c.fill, c.module, "fill"));
  return c;
}

static void end_kernel(kernel_case *c) {
  GOOD(cu.cuModuleUnload(c->module));
  GOOD(cu.cuMemFree(c->x));
  cudasim_close();
}

static CUresult launch(kernel_case *c, unsigned grid, unsigned block, unsigned shared, void **params, void **extra) {
  return cu.cuLaunchKernel(c->fill, grid, 1, 1, block, 1, 1, shared, NULL, params, extra);
}

static void launches_too_many_threads(void) {
  kernel_case c = begin_kernel();
  FAILS(launch(&c, 1, 257, 0, (void *[]){&c.x, &c.n, &c.value}, NULL), CUDA_ERROR_INVALID_VALUE);
  end_kernel(&c);
}
static void launches_an_empty_grid(void) {
  kernel_case c = begin_kernel();
  FAILS(launch(&c, 0, 256, 0, (void *[]){&c.x, &c.n, &c.value}, NULL), CUDA_ERROR_INVALID_VALUE);
  end_kernel(&c);
}
static void launches_with_too_much_shared_memory(void) {
  kernel_case c = begin_kernel();
  FAILS(launch(&c, 1, 256, 48 << 10, (void *[]){&c.x, &c.n, &c.value}, NULL), CUDA_ERROR_INVALID_VALUE);
  GOOD(cu.cuFuncSetAttribute(c.fill, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 48 << 10));
  GOOD(launch(&c, 1, 256, 48 << 10, (void *[]){&c.x, &c.n, &c.value}, NULL));
  end_kernel(&c);
}
static void asks_for_too_much_shared_memory(void) {
  kernel_case c = begin_kernel();
  FAILS(cu.cuFuncSetAttribute(c.fill, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 166912),
        CUDA_ERROR_INVALID_VALUE);
  end_kernel(&c);
}
static void passes_too_few_bytes(void) {
  kernel_case c = begin_kernel();
  char packed[16] = "";
  size_t n_bytes = sizeof packed;
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &n_bytes, CU_LAUNCH_PARAM_END};
  FAILS(launch(&c, 1, 256, 0, NULL, extra), CUDA_ERROR_INVALID_VALUE);
  end_kernel(&c);
}
static void passes_no_value(void) {
  kernel_case c = begin_kernel();
  FAILS(launch(&c, 1, 256, 0, (void *[]){&c.x, &c.n, NULL}, NULL), CUDA_ERROR_INVALID_VALUE);
  end_kernel(&c);
}
static void writes_past_the_end(void) {
  kernel_case c = begin_kernel();
  c.n = 1025;
  GOOD(launch(&c, 5, 256, 0, (void *[]){&c.x, &c.n, &c.value}, NULL));
  FAILS(cu.cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  FAILS(launch(&c, 4, 256, 0, (void *[]){&c.x, &c.n, &c.value}, NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
  FAILS(cu.cuMemFree(c.x), CUDA_ERROR_ILLEGAL_ADDRESS);
}
static void writes_host_memory(void) {
  kernel_case c = begin_kernel();
  c.x = (CUdeviceptr)(uintptr_t)cudasim_host(1024);
  GOOD(launch(&c, 4, 256, 0, (void *[]){&c.x, &c.n, &c.value}, NULL));
  FAILS(cu.cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}
static void races_with_a_copy(void) {
  kernel_case c = begin_kernel();
  CUstream first = cudasim_stream(), second = cudasim_stream();
  float *host = cudasim_host(1024);
  cudasim_fill(c.module, c.x, 1024, 1, first);
  GOOD(cu.cuMemcpyDtoHAsync(host, c.x, 4096, second));
  GOOD(cu.cuCtxSynchronize());
  GOOD(cu.cuMemFreeHost(host));
  GOOD(cu.cuStreamDestroy(first));
  GOOD(cu.cuStreamDestroy(second));
  end_kernel(&c);
}
static void asks_for_an_unknown_kernel(void) {
  kernel_case c = begin_kernel();
  CUfunction function = NULL;
  FAILS(cu.cuModuleGetFunction(&function, c.module, "empty"), CUDA_ERROR_NOT_FOUND);
  end_kernel(&c);
}
static void leaves_a_module(void) {
  cudasim_open();
  cudasim_module();
  cudasim_close();
}
static void launches_an_unloaded_function(void) {
  kernel_case c = begin_kernel();
  GOOD(cu.cuModuleUnload(c.module));
  FAILS(launch(&c, 1, 256, 0, (void *[]){&c.x, &c.n, &c.value}, NULL), CUDA_ERROR_INVALID_HANDLE);
  GOOD(cu.cuMemFree(c.x));
  cudasim_close();
}
static void loads_ptx(void) {
  CUmodule module = NULL;
  cudasim_open();
  FAILS(cu.cuModuleLoadData(&module, "//\n.version 9.0\n.target sm_80\n"), CUDA_ERROR_INVALID_PTX);
  cudasim_close();
}

static void wrong_kernels_are_reported(void **state) {
  (void)state;
  if (!cudasim_has_nvrtc()) return;
  EXPECT(
      {launches_too_many_threads, "cuLaunchKernel: fill: a block of 257 threads; it takes 256", ""},
      {launches_an_empty_grid, "cuLaunchKernel: fill: a grid of 0 blocks along x", ""},
      {launches_with_too_much_shared_memory, "fill: 49152 bytes of dynamic shared memory; it takes 48128", ""},
      {asks_for_too_much_shared_memory, "fill: 166912 bytes of dynamic shared memory; the card has 165888 for it", ""},
      {passes_too_few_bytes, "cuLaunchKernel: fill: 16 bytes of parameters; it takes 20", ""},
      {passes_no_value, "cuLaunchKernel: fill: parameter 3 of 3 is NULL", ""},
      {writes_past_the_end, "4 bytes at byte 4096 of device memory 1 (4096 bytes)", ""},
      {writes_host_memory, "byte 0 of host memory 2 (4096 bytes) where device memory was expected", ""},
      {races_with_a_copy,
       "race: copy.dtoh on stream 2 reads byte 0 of device memory 1 (4096 bytes), which fill on stream 1", ""},
      {races_with_a_copy, "race: fill on stream 1 writes byte 0 of device memory 1", "order=reverse"},
      {asks_for_an_unknown_kernel, "cuModuleGetFunction: module 1 has no kernel \"empty\"", ""},
      {leaves_a_module, "leak: module 1 is not destroyed when its context is released", ""},
      {launches_an_unloaded_function, "cuLaunchKernel: function 1 was destroyed", ""},
      {loads_ptx, "cuModuleLoadData: PTX was given, which the driver would compile", ""});
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_wrong_begin_is_reported),
                                     cmocka_unit_test(wrong_memory_is_reported),
                                     cmocka_unit_test(leaks_and_wrong_handles_are_reported),
                                     cmocka_unit_test(wrong_captures_are_reported),
                                     cmocka_unit_test(wrong_tasks_are_reported),
                                     cmocka_unit_test(wrong_kernels_are_reported)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
  puts("skipped: this build was made without the headers of CUDA and cuDNN (make says why)");
  return 0;
}
#endif
