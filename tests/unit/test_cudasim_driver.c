/* The stand-in for the driver, used rightly: facts, memory, streams, events, capture, failures that were asked for,
 * time. */
#include "../common/cudasim.h"

#ifdef SX_CUDA
#include <pthread.h>
#include <string.h>

#include "../common/cmocka_all.h"

static const char *const ORDERS[] = {"order=forward", "order=reverse",  "order=lazy",
                                     "order=eager",   "order=random:1", "order=random:2"};
/* QUICK leaves out those of chance. */
static int n_orders(void) { return getenv("QUICK") && *getenv("QUICK") ? 4 : sizeof ORDERS / sizeof *ORDERS; }

/* ---- facts ---------------------------------------------------------------------------------------- */

static int attribute(CUdevice_attribute name) {
  int value = -1;
  GOOD(cu.cuDeviceGetAttribute(&value, name, 0));
  return value;
}

static void says_a100(void) {
  char name[64];
  size_t n_bytes = 0;
  int version = 0, n = 0;
  GOOD(cu.cuDriverGetVersion(&version));
  CHECK(version == 13000);
  GOOD(cu.cuInit(0));
  GOOD(cu.cuDeviceGetCount(&n));
  CHECK(n == 1);
  GOOD(cu.cuDeviceGetName(name, sizeof name, 0));
  CHECK(strcmp(name, "NVIDIA A100-SXM4-40GB") == 0);
  GOOD(cu.cuDeviceTotalMem(&n_bytes, 0));
  CHECK(n_bytes == 42949672960);
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) == 8);
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) == 0);
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) == 108);
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) == 166912);
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE) == 1410000);
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE) == 41943040);
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y) == 65535);
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z) == 64);
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) == 5120);
}

static void says_h200(void) {
  GOOD(cu.cuInit(0));
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) == 9);
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) == 6144);
  CHECK(strstr(cu.sim_card_json(), "\"deviceName\":\"NVIDIA H200\""));
}

static void says_what_was_set(void) {
  char name[64];
  int n = 0, version = 0;
  GOOD(cu.cuInit(0));
  GOOD(cu.cuDeviceGetCount(&n));
  CHECK(n == 3);
  GOOD(cu.cuDeviceGetName(name, sizeof name, 2));
  CHECK(strcmp(name, "Some Card") == 0);
  GOOD(cu.cuDriverGetVersion(&version));
  CHECK(version == 12080);
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) == 8 &&
        attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) == 6);
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) == 16);
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE) == 1234);
  CHECK(strstr(cu.sim_card_json(), "\"driverVer\":12080"));
  CHECK(cu.cuDeviceGet(&n, 3) == CUDA_ERROR_INVALID_DEVICE);
}

static void has_no_device(void) { CHECK(cu.cuInit(0) == CUDA_ERROR_NO_DEVICE); }

static void facts_are_the_cards(void **state) {
  (void)state;
  cudasim_good("", says_a100);
  cudasim_good("card=tests/cuda/h200.json", says_h200);
  cudasim_good(
      "count=3\ndevice.name=Some Card\ndriver.version=12080\ndevice.capability=8.6\ndevice.multiprocessors=16\n"
      "device.l2CacheSize=1234",
      says_what_was_set);
  cudasim_good("count=0", has_no_device);
}

static void names_results(void) {
  const char *text = NULL;
  GOOD(cu.cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
  CHECK(strcmp(text, "CUDA_ERROR_OUT_OF_MEMORY") == 0);
  GOOD(cu.cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
  CHECK(strcmp(text, "out of memory") == 0);
  CHECK(cu.cuGetErrorName((CUresult)12345, &text) == CUDA_ERROR_INVALID_VALUE);
}

static void results_have_names(void **state) {
  (void)state;
  cudasim_good("", names_results);
}

/* ---- memory --------------------------------------------------------------------------------------- */

static void finds_garbage(void) {
  cudasim_open();
  for (size_t n_bytes = 64; n_bytes <= (64u << 20); n_bytes <<= 10) {
    CUdeviceptr x = cudasim_memory(n_bytes);
    float first = 0, last = 0;
    CHECK(x % 512 == 0);
    GOOD(cu.cuMemcpyDtoH(&first, x, 4));
    GOOD(cu.cuMemcpyDtoH(&last, x + n_bytes - 4, 4));
    CHECK(first != first && last != last);
    GOOD(cu.cuMemFree(x));
  }
  cudasim_close();
}

/* A large allocation costs no memory of the host before it is written. */
static void takes_most_of_the_card(void) {
  cudasim_open();
  size_t free_bytes = 0, total = 0;
  GOOD(cu.cuMemGetInfo(&free_bytes, &total));
  size_t at_first = free_bytes;
  CHECK(free_bytes == total - (400u << 20));
  CUdeviceptr x = cudasim_memory(free_bytes - (1u << 30)), y = 0;
  GOOD(cu.cuMemGetInfo(&free_bytes, &total));
  CHECK(free_bytes == 1u << 30);
  CHECK(cu.cuMemAlloc(&y, (1u << 30) + 1) == CUDA_ERROR_OUT_OF_MEMORY);
  GOOD(cu.cuMemAlloc(&y, 1u << 30));
  GOOD(cu.cuMemFree(y));
  GOOD(cu.cuMemFree(x));
  GOOD(cu.cuMemGetInfo(&free_bytes, &total));
  CHECK(free_bytes == at_first);
  cudasim_close();
}

static void has_three_of_four(void) {
  cudasim_open();
  size_t free_bytes = 0, total = 0;
  GOOD(cu.cuMemGetInfo(&free_bytes, &total));
  size_t at_first = free_bytes;
  CHECK(total == 4ull << 30 && free_bytes == (3ull << 30) - (64u << 20));
  void *own = cu.sim_memory_take(1u << 20);
  CHECK(own && cu.sim_device_memory(own, 1u << 20) && !cu.sim_device_memory(own, (1u << 20) + 1));
  GOOD(cu.cuMemGetInfo(&free_bytes, &total));
  CHECK(free_bytes == at_first - (1u << 20));
  cu.sim_memory_give(own);
  cudasim_close();
}

static void fails_where_it_is_told(void) {
  cudasim_open();
  CUdeviceptr x = 0, y = 0;
  void *host = NULL;
  GOOD(cu.cuMemAlloc(&x, 4));
  CHECK(cu.cuMemAlloc(&y, 4) == CUDA_ERROR_OUT_OF_MEMORY);
  GOOD(cu.cuMemAlloc(&y, 4));
  GOOD(cu.cuMemFree(y));
  CHECK(cu.cuMemAlloc(&y, 4) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cu.cuMemAlloc(&y, 4) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cu.cuMemHostAlloc(&host, 4, 0) == CUDA_ERROR_OUT_OF_MEMORY);
  GOOD(cu.cuMemFree(x));
  cudasim_close();
}

static void memory_is_the_cards(void **state) {
  (void)state;
  cudasim_good("", finds_garbage);
  cudasim_good("", takes_most_of_the_card);
  cudasim_good("memory.total=4\nmemory.used=1", has_three_of_four);
  cudasim_good("memory.fail_at=2,4-\nmemory.fail_host=1", fails_where_it_is_told);
}

/* ---- streams and events --------------------------------------------------------------------------- */

/* What the host writes after it asked for a copy is what arrives, until it waits. */
static void copies_late(void) {
  cudasim_open();
  CUstream stream = cudasim_stream();
  CUdeviceptr x = cudasim_memory(4);
  float *host = cudasim_host(2);
  host[0] = 1, host[1] = 9;
  GOOD(cu.cuMemcpyHtoDAsync(x, &host[0], 4, stream));
  GOOD(cu.cuMemcpyDtoHAsync(&host[1], x, 4, stream));
  CHECK(cu.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
  host[0] = 2;
  CHECK(host[1] == 9);
  while (cu.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY) continue;
  CHECK(host[1] == 1);
  GOOD(cu.cuMemcpyHtoDAsync(x, &host[0], 4, stream));
  host[0] = 3;
  GOOD(cu.cuMemcpyDtoHAsync(&host[1], x, 4, stream));
  GOOD(cu.cuStreamSynchronize(stream));
  CHECK(host[1] == 3);
  GOOD(cu.cuMemFreeHost(host));
  GOOD(cu.cuMemFree(x));
  GOOD(cu.cuStreamDestroy(stream));
  cudasim_close();
}

/* x is filled on one stream and read on another; `waits` says whether an event orders them. */
static float pass_between_streams(bool waits) {
  cudasim_open();
  CUstream first = cudasim_stream(), second = cudasim_stream();
  CUdeviceptr x = cudasim_memory(4096), y = cudasim_memory(4096);
  CUevent event = NULL;
  float result = 0;
  GOOD(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  GOOD(cu.cuMemsetD32Async(x, 0x40000000, 1024, first));
  GOOD(cu.cuEventRecord(event, first));
  if (waits) GOOD(cu.cuStreamWaitEvent(second, event, 0));
  GOOD(cu.cuMemcpyDtoDAsync(y, x, 4096, second));
  GOOD(cu.cuStreamSynchronize(second));
  GOOD(cu.cuMemcpyDtoH(&result, y, 4));
  GOOD(cu.cuEventDestroy(event));
  GOOD(cu.cuMemFree(x));
  GOOD(cu.cuMemFree(y));
  GOOD(cu.cuStreamDestroy(first));
  GOOD(cu.cuStreamDestroy(second));
  cudasim_close();
  return result;
}

static void is_ordered(void) { CHECK(pass_between_streams(true) == 2); }
static void reads_too_early(void) {
  float result = pass_between_streams(false);
  CHECK(result != result);
}
static void happens_to_be_right(void) { CHECK(pass_between_streams(false) == 2); }

/* Eagerly, what was asked for is done before the host goes on: what it writes later is too late. */
static void copies_at_once(void) {
  cudasim_open();
  CUstream stream = cudasim_stream();
  CUdeviceptr x = cudasim_memory(4);
  float *host = cudasim_host(2);
  host[0] = 1;
  GOOD(cu.cuMemcpyHtoDAsync(x, &host[0], 4, stream));
  host[0] = 2;
  GOOD(cu.cuMemcpyDtoHAsync(&host[1], x, 4, stream));
  CHECK(host[1] == 1);
  GOOD(cu.cuStreamQuery(stream));
  GOOD(cu.cuMemFreeHost(host));
  GOOD(cu.cuMemFree(x));
  GOOD(cu.cuStreamDestroy(stream));
  cudasim_close();
}

static void streams_run_in_any_order_that_events_leave(void **state) {
  (void)state;
  for (int i = 0; i < n_orders(); i++) {
    cudasim_good(ORDERS[i], strstr(ORDERS[i], "eager") ? copies_at_once : copies_late);
    cudasim_good(ORDERS[i], is_ordered);
  }
  cudasim_good("order=forward\nraces=off", happens_to_be_right);
  cudasim_good("order=reverse\nraces=off", reads_too_early);
  cudasim_good("order=lazy\nraces=off", reads_too_early);
  cudasim_expect(
      "order=forward", happens_to_be_right, CUDASIM_VIOLATED,
      "cudasim: race: copy.dtod on stream 2 reads byte 0 of device memory 1 (4096 bytes), which set on stream 1 "
      "wrote with nothing that orders them");
}

/* The legacy stream waits for a stream that is not CU_STREAM_NON_BLOCKING, and it for the legacy stream. */
static void orders_by_the_legacy_stream(void) {
  cudasim_open();
  CUstream stream = NULL;
  CUdeviceptr x = cudasim_memory(4), y = cudasim_memory(4);
  unsigned result = 0;
  GOOD(cu.cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  GOOD(cu.cuMemsetD32Async(x, 5, 1, stream));
  GOOD(cu.cuMemcpyDtoDAsync(y, x, 4, NULL));
  GOOD(cu.cuMemsetD32Async(x, 6, 1, stream));
  GOOD(cu.cuMemcpyDtoH(&result, y, 4));
  CHECK(result == 5);
  GOOD(cu.cuMemcpyDtoH(&result, x, 4));
  CHECK(result == 6);
  GOOD(cu.cuMemFree(x));
  GOOD(cu.cuMemFree(y));
  GOOD(cu.cuStreamDestroy(stream));
  cudasim_close();
}

static void the_legacy_stream_orders(void **state) {
  (void)state;
  for (int i = 0; i < n_orders(); i++) cudasim_good(ORDERS[i], orders_by_the_legacy_stream);
}

/* Two threads, each with its own stream and memory. */
static void *works(void *state) {
  CUcontext context = state;
  GOOD(cu.cuCtxSetCurrent(context));
  CUstream stream = cudasim_stream();
  CUdeviceptr x = cudasim_memory(4096);
  unsigned *host = (unsigned *)(void *)cudasim_host(1024);
  for (unsigned i = 0; i < 200; i++) {
    GOOD(cu.cuMemsetD32Async(x, i, 1024, stream));
    GOOD(cu.cuMemcpyDtoHAsync(host, x, 4096, stream));
    GOOD(cu.cuStreamSynchronize(stream));
    CHECK(host[0] == i && host[1023] == i);
  }
  GOOD(cu.cuMemFreeHost(host));
  GOOD(cu.cuMemFree(x));
  GOOD(cu.cuStreamDestroy(stream));
  return NULL;
}

static void works_in_threads(void) {
  pthread_t threads[2];
  CUcontext context = NULL;
  cudasim_open();
  GOOD(cu.cuCtxGetCurrent(&context));
  for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, works, context) == 0);
  for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  cudasim_close();
}

static void threads_share_a_context(void **state) {
  (void)state;
  for (int i = 0; i < n_orders(); i++) cudasim_good(ORDERS[i], works_in_threads);
}

/* ---- simulated time ------------------------------------------------------------------------------- */

/* 64 MiB twice over 1555.2 GB/s; the end is recorded on a stream that waits for the copy's. */
static float time_of_a_copy(void) {
  cudasim_open();
  CUstream stream = cudasim_stream(), other = cudasim_stream();
  CUdeviceptr x = cudasim_memory(64u << 20), y = cudasim_memory(64u << 20);
  CUevent events[3];
  float ms = 0;
  for (int i = 0; i < 3; i++) GOOD(cu.cuEventCreate(&events[i], 0));
  GOOD(cu.cuMemsetD8Async(x, 0, 64u << 20, stream));
  GOOD(cu.cuEventRecord(events[0], stream));
  GOOD(cu.cuMemcpyDtoDAsync(y, x, 64u << 20, stream));
  GOOD(cu.cuEventRecord(events[1], stream));
  GOOD(cu.cuStreamWaitEvent(other, events[1], 0));
  GOOD(cu.cuEventRecord(events[2], other));
  CHECK(cu.cuEventElapsedTime(&ms, events[0], events[2]) == CUDA_ERROR_NOT_READY);
  CHECK(cu.cuEventQuery(events[2]) == CUDA_ERROR_NOT_READY);
  GOOD(cu.cuEventSynchronize(events[2]));
  GOOD(cu.cuEventQuery(events[2]));
  GOOD(cu.cuEventElapsedTime(&ms, events[0], events[2]));
  for (int i = 0; i < 3; i++) GOOD(cu.cuEventDestroy(events[i]));
  GOOD(cu.cuMemFree(x));
  GOOD(cu.cuMemFree(y));
  GOOD(cu.cuStreamDestroy(stream));
  GOOD(cu.cuStreamDestroy(other));
  cudasim_close();
  return ms;
}

static void takes_88_us(void) {
  float ms = time_of_a_copy();
  CHECK(ms > 0.0875F && ms < 0.0882F);
}
static void takes_44_us(void) {
  float ms = time_of_a_copy();
  CHECK(ms > 0.0437F && ms < 0.0442F);
}
static void says_its_time(void) { fprintf(stderr, "%.9g\n", (double)time_of_a_copy()); }

static void time_is_computed(void **state) {
  (void)state;
  outcome first, second, other;
  cudasim_good("", takes_88_us);
  cudasim_good("speed.copy.dtod=2", takes_44_us);
  cudasim_run(&first, "noise=1:5", says_its_time);
  cudasim_run(&second, "noise=1:5", says_its_time);
  cudasim_run(&other, "noise=2:5", says_its_time);
  assert_string_equal(first.text, second.text);
  assert_string_not_equal(first.text, other.text);
}

/* ---- capture -------------------------------------------------------------------------------------- */

/* x is filled on the first stream, y and z are made of it on the first and a second one, and w gets y after both. */
static void forks_and_joins(void) {
  cudasim_open();
  CUstream first = cudasim_stream(), second = cudasim_stream();
  CUdeviceptr x = cudasim_memory(64), y = cudasim_memory(64), z = cudasim_memory(64), w = cudasim_memory(128);
  CUevent fork = NULL, join = NULL;
  CUgraph graph = NULL;
  CUgraphExec executable = NULL;
  CUgraphNode nodes[8];
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_HOST;
  CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
  size_t n = 0;
  uint32_t result[32];
  GOOD(cu.cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
  GOOD(cu.cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
  GOOD(cu.cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_GLOBAL));
  GOOD(cu.cuMemsetD32Async(x, 7, 16, first));
  GOOD(cu.cuEventRecord(fork, first));
  GOOD(cu.cuStreamWaitEvent(second, fork, 0));
  GOOD(cu.cuStreamIsCapturing(second, &capturing));
  CHECK(capturing == CU_STREAM_CAPTURE_STATUS_ACTIVE && cu.sim_stream_capturing(second));
  GOOD(cu.cuMemcpyDtoDAsync(y, x, 64, first));
  GOOD(cu.cuMemcpyDtoDAsync(z, x, 64, second));
  GOOD(cu.cuEventRecord(join, second));
  GOOD(cu.cuStreamWaitEvent(first, join, 0));
  GOOD(cu.cuMemcpyDtoDAsync(w, y, 64, first));
  GOOD(cu.cuMemcpyDtoDAsync(w + 64, z, 64, first));
  GOOD(cu.cuStreamEndCapture(first, &graph));
  GOOD(cu.cuStreamIsCapturing(second, &capturing));
  CHECK(capturing == CU_STREAM_CAPTURE_STATUS_NONE);
  GOOD(cu.cuGraphGetNodes(graph, NULL, &n));
  CHECK(n == 5);
  GOOD(cu.cuGraphGetNodes(graph, nodes, &n));
  GOOD(cu.cuGraphNodeGetType(nodes[0], &type));
  CHECK(type == CU_GRAPH_NODE_TYPE_MEMSET);
  GOOD(cu.cuGraphInstantiate(&executable, graph, 0));
  GOOD(cu.cuGraphDestroy(graph));
  for (int i = 0; i < 3; i++) {
    GOOD(cu.cuMemsetD8Async(w, 0, 128, first));
    GOOD(cu.cuGraphLaunch(executable, first));
    GOOD(cu.cuGraphLaunch(executable, first));
    GOOD(cu.cuStreamSynchronize(first));
    GOOD(cu.cuMemcpyDtoH(result, w, 128));
    for (int j = 0; j < 32; j++) CHECK(result[j] == 7);
  }
  GOOD(cu.cuGraphExecDestroy(executable));
  GOOD(cu.cuEventDestroy(fork));
  GOOD(cu.cuEventDestroy(join));
  for (CUdeviceptr *at = (CUdeviceptr[]){x, y, z, w, 0}; *at; at++) GOOD(cu.cuMemFree(*at));
  GOOD(cu.cuStreamDestroy(first));
  GOOD(cu.cuStreamDestroy(second));
  cudasim_close();
}

/* Both nodes are first: each comes after what is on the stream, and a launch on another stream after the one before. */
static void has_two_first_nodes(void) {
  cudasim_open();
  CUstream first = cudasim_stream(), second = cudasim_stream();
  CUdeviceptr x = cudasim_memory(64), y = cudasim_memory(64), z = cudasim_memory(64);
  CUevent fork = NULL, join = NULL;
  CUgraph graph = NULL;
  CUgraphExec executable = NULL;
  unsigned result[2];
  GOOD(cu.cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
  GOOD(cu.cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
  GOOD(cu.cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  GOOD(cu.cuEventRecord(fork, first));
  GOOD(cu.cuStreamWaitEvent(second, fork, 0));
  GOOD(cu.cuMemcpyDtoDAsync(y, x, 64, first));
  GOOD(cu.cuMemcpyDtoDAsync(z, x, 64, second));
  GOOD(cu.cuEventRecord(join, second));
  GOOD(cu.cuStreamWaitEvent(first, join, 0));
  GOOD(cu.cuStreamEndCapture(first, &graph));
  GOOD(cu.cuGraphInstantiate(&executable, graph, 0));
  for (unsigned i = 1; i <= 2; i++) {
    GOOD(cu.cuMemsetD32Async(x, i, 16, first));
    GOOD(cu.cuGraphLaunch(executable, first));
    GOOD(cu.cuGraphLaunch(executable, second));
    GOOD(cu.cuStreamSynchronize(second));
    GOOD(cu.cuMemcpyDtoH(&result[0], y, 4));
    GOOD(cu.cuMemcpyDtoH(&result[1], z, 4));
    CHECK(result[0] == i && result[1] == i);
  }
  GOOD(cu.cuGraphExecDestroy(executable));
  GOOD(cu.cuGraphDestroy(graph));
  GOOD(cu.cuEventDestroy(fork));
  GOOD(cu.cuEventDestroy(join));
  for (CUdeviceptr *at = (CUdeviceptr[]){x, y, z, 0}; *at; at++) GOOD(cu.cuMemFree(*at));
  GOOD(cu.cuStreamDestroy(first));
  GOOD(cu.cuStreamDestroy(second));
  cudasim_close();
}

static void fails_the_second_replay(void) {
  cudasim_open();
  CUstream stream = cudasim_stream();
  CUdeviceptr x = cudasim_memory(4);
  CUgraph graph = NULL;
  CUgraphExec executable = NULL;
  GOOD(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  GOOD(cu.cuMemsetD32Async(x, 1, 1, stream));
  CUdeviceptr y = cudasim_memory(4);
  GOOD(cu.cuStreamEndCapture(stream, &graph));
  GOOD(cu.cuGraphInstantiate(&executable, graph, 0));
  GOOD(cu.cuGraphLaunch(executable, stream));
  CHECK(cu.cuGraphLaunch(executable, stream) == CUDA_ERROR_OUT_OF_MEMORY);
  GOOD(cu.cuGraphLaunch(executable, stream));
  GOOD(cu.cuCtxSynchronize());
  GOOD(cu.cuGraphExecDestroy(executable));
  GOOD(cu.cuGraphDestroy(graph));
  GOOD(cu.cuMemFree(x));
  GOOD(cu.cuMemFree(y));
  GOOD(cu.cuStreamDestroy(stream));
  cudasim_close();
}

static void captured_work_is_replayed(void **state) {
  (void)state;
  for (int i = 0; i < n_orders(); i++) {
    cudasim_good(ORDERS[i], forks_and_joins);
    cudasim_good(ORDERS[i], has_two_first_nodes);
  }
  cudasim_good("memory.fail_graph=2", fails_the_second_replay);
}

/* ---- tasks of the libraries ----------------------------------------------------------------------- */

static int n_runs, n_drops;
static void count_run(void *context) {
  *(float *)context += 1;
  n_runs++;
}
static void count_drop(void *context) {
  (void)context;
  n_drops++;
}

static void runs_tasks(void) {
  cudasim_open();
  CUstream stream = cudasim_stream();
  CUdeviceptr x = cudasim_memory(4);
  CUgraph graph = NULL;
  CUgraphExec executable = NULL;
  void *memory = (void *)(uintptr_t)x;
  sim_range range = {memory, 4, true};
  sim_task task = {.name = "add",
                   .run = count_run,
                   .drop = count_drop,
                   .context = memory,
                   .ranges = &range,
                   .n_ranges = 1,
                   .n_flops = 1e9};
  CHECK(cu.sim_context_current() && cu.sim_stream_valid(stream) && cu.sim_stream_valid(NULL));
  GOOD(cu.sim_enqueue(stream, &task));
  CHECK(n_runs == 0 || strstr(cu.sim_setting("order"), "eager"));
  GOOD(cu.sim_stream_finish(stream));
  CHECK(n_runs == 1 && n_drops == 1);
  GOOD(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  GOOD(cu.sim_enqueue(stream, &task));
  GOOD(cu.cuStreamEndCapture(stream, &graph));
  GOOD(cu.cuGraphInstantiate(&executable, graph, 0));
  GOOD(cu.cuGraphLaunch(executable, stream));
  GOOD(cu.cuGraphLaunch(executable, stream));
  GOOD(cu.cuStreamSynchronize(stream));
  CHECK(n_runs == 3 && n_drops == 1);
  GOOD(cu.cuGraphExecDestroy(executable));
  GOOD(cu.cuGraphDestroy(graph));
  CHECK(n_drops == 2);
  GOOD(cu.cuMemFree(x));
  GOOD(cu.cuStreamDestroy(stream));
  cudasim_close();
}

static void tasks_of_libraries_run_and_are_dropped(void **state) {
  (void)state;
  for (int i = 0; i < n_orders(); i++) cudasim_good(ORDERS[i], runs_tasks);
}

/* ---- kernels -------------------------------------------------------------------------------------- */

static void runs_kernels(void) {
  cudasim_open();
  CUmodule module = cudasim_module();
  CUstream stream = cudasim_stream();
  CUdeviceptr x = cudasim_memory(4000), y = cudasim_memory(4000), table = 0;
  size_t n_bytes = 0;
  float result[1000];
  cudasim_fill(module, x, 1000, 1.5F, stream);
  cudasim_copy(module, y, x, 1000, stream);
  GOOD(cu.cuStreamSynchronize(stream));
  GOOD(cu.cuMemcpyDtoH(result, y, sizeof result));
  for (int i = 0; i < 1000; i++) CHECK(result[i] == 3);
  CUfunction look_up = NULL;
  GOOD(cu.cuModuleGetFunction(&look_up, module, "look_up"));
  GOOD(cu.cuModuleGetGlobal(&table, &n_bytes, module, "table"));
  CHECK(n_bytes == 16);
  GOOD(cu.cuLaunchKernel(look_up, 1, 1, 1, 4, 1, 1, 0, stream, (void *[]){&y}, NULL));
  GOOD(cu.cuStreamSynchronize(stream));
  GOOD(cu.cuMemcpyDtoH(result, y, 16));
  for (int i = 0; i < 4; i++) CHECK(result[i] == (float)(i + 1));
  GOOD(cu.cuMemFree(x));
  GOOD(cu.cuMemFree(y));
  GOOD(cu.cuModuleUnload(module));
  GOOD(cu.cuStreamDestroy(stream));
  cudasim_close();
}

static void tells_of_kernels(void) {
  cudasim_open();
  CUmodule module = cudasim_module();
  CUfunction fill = NULL, copy = NULL;
  int value = 0;
  GOOD(cu.cuModuleGetFunction(&fill, module, "fill"));
  GOOD(cu.cuModuleGetFunction(&copy, module, "copy"));
  GOOD(cu.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, fill));
  CHECK(value == 256);
  GOOD(cu.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, fill));
  CHECK(value == 1024);
  GOOD(cu.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_BINARY_VERSION, fill));
  CHECK(value == 80);
  GOOD(cu.cuFuncSetAttribute(copy, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
  GOOD(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, copy, 256, 0));
  CHECK(value == 8);
  GOOD(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, copy, 256, 100000));
  CHECK(value == 1);
  GOOD(cu.cuModuleUnload(module));
  cudasim_close();
}

/* A kernel of many instructions, in simulated time. */
static void times_a_kernel(void) {
  cudasim_open();
  CUmodule module = cudasim_module();
  CUstream stream = cudasim_stream();
  CUdeviceptr x = cudasim_memory(4u << 18);
  CUevent events[2];
  float ms = 0;
  for (int i = 0; i < 2; i++) GOOD(cu.cuEventCreate(&events[i], 0));
  GOOD(cu.cuEventRecord(events[0], stream));
  cudasim_fill(module, x, 1u << 18, 1, stream);
  GOOD(cu.cuEventRecord(events[1], stream));
  GOOD(cu.cuStreamSynchronize(stream));
  GOOD(cu.cuEventElapsedTime(&ms, events[0], events[1]));
  fprintf(stderr, "%.9g\n", (double)ms);
  for (int i = 0; i < 2; i++) GOOD(cu.cuEventDestroy(events[i]));
  GOOD(cu.cuMemFree(x));
  GOOD(cu.cuModuleUnload(module));
  GOOD(cu.cuStreamDestroy(stream));
  cudasim_close();
}

static double kernel_ms(const char *settings) {
  outcome result;
  cudasim_run(&result, settings, times_a_kernel);
  assert_int_equal(result.status, 0);
  return atof(result.text);
}

static void refuses_a_launch(void) {
  cudasim_open();
  CUmodule module = cudasim_module();
  CUdeviceptr x = cudasim_memory(4);
  unsigned long long n = 1;
  float value = 1;
  CUfunction fill = NULL;
  GOOD(cu.cuModuleGetFunction(&fill, module, "fill"));
  CHECK(cu.cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&x, &n, &value}, NULL) ==
        CUDA_ERROR_OUT_OF_MEMORY);
  GOOD(cu.cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&x, &n, &value}, NULL));
  GOOD(cu.cuMemFree(x));
  GOOD(cu.cuModuleUnload(module));
  cudasim_close();
}

/* A cubin that was cut short is invalid, one for another capability does not run; the program is told and goes on. */
static void refuses_images(void) {
  cudasim_open();
  CUmodule module = NULL;
  char *image = cudasim_compile("extern \"C\" __global__ void f() {}", "sm_90");
  CHECK(cu.cuModuleLoadData(&module, image) == CUDA_ERROR_NO_BINARY_FOR_GPU);
  free(image);
  image = cudasim_compile("extern \"C\" __global__ void f() {}", "sm_86");
  CHECK(cu.cuModuleLoadData(&module, image) == CUDA_ERROR_NO_BINARY_FOR_GPU);
  free(image);
  image = cudasim_compile("extern \"C\" __global__ void f() {}", "sm_80");
  image[strlen(image) - 2] ^= 1;
  CHECK(cu.cuModuleLoadData(&module, image) == CUDA_ERROR_INVALID_IMAGE);
  image[strlen(image) - 2] = 0;
  CHECK(cu.cuModuleLoadData(&module, image) == CUDA_ERROR_INVALID_IMAGE);
  CHECK(cu.cuModuleLoadData(&module, "nonsense") == CUDA_ERROR_INVALID_IMAGE);
  free(image);
  cudasim_close();
}

static void kernels_run_from_nvrtcs_ptx(void **state) {
  (void)state;
  if (!cudasim_has_nvrtc()) return;
  for (int i = 0; i < n_orders(); i++) cudasim_good(ORDERS[i], runs_kernels);
  cudasim_good("", tells_of_kernels);
  cudasim_good("memory.fail_launch=1", refuses_a_launch);
  double ms = kernel_ms("");
  assert_true(ms > 0.0035 && ms == kernel_ms("order=lazy"));
  double slow = kernel_ms("speed.fill=0.1"), narrow = kernel_ms("device.multiprocessors=10");
  if (slow < 5 * ms || narrow < 1.5 * ms)
    fail_msg("%g ms, slowed down %g, on less multiprocessors %g", ms, slow, narrow);
  cudasim_good("", refuses_images);
  cudasim_good("device.capability=8.6", tells_of_kernels);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(facts_are_the_cards),
                                     cmocka_unit_test(results_have_names),
                                     cmocka_unit_test(memory_is_the_cards),
                                     cmocka_unit_test(streams_run_in_any_order_that_events_leave),
                                     cmocka_unit_test(the_legacy_stream_orders),
                                     cmocka_unit_test(threads_share_a_context),
                                     cmocka_unit_test(time_is_computed),
                                     cmocka_unit_test(captured_work_is_replayed),
                                     cmocka_unit_test(tasks_of_libraries_run_and_are_dropped),
                                     cmocka_unit_test(kernels_run_from_nvrtcs_ptx)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
  puts("skipped: this build was made without the headers of CUDA and cuDNN (make says why)");
  return 0;
}
#endif
