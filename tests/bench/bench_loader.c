/* How fast the loader makes batches, beside read(2) of the same bytes: files of about 32 MiB in the page cache, of
 * every kind of source, in turn; batches of 64 records, in order and shuffled, on demand; and what opening takes, which
 * of CSV is all of the reading. Prints MB of the file a second (the best of some rounds), batches a second and the
 * share of read(2), which copies the same bytes into a buffer of a batch's size. */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../libckpt/ckpt.h"
#include "../../libsexp/run/loader.h"
#include "../../tools/common/host.h"

enum { ROUNDS = 7, BATCH = 64, N_BYTES = 1 << 25, SHARDS = 4 };

static char folder[] = "/tmp/bench-loader-XXXXXX";
static unsigned char content[N_BYTES + 4096];

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static const char *path_of(const char *name) {
  static char paths[16][128];
  static int next;
  char *path = paths[next++ % 16];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static void write_file(const char *path, const char *head, size_t n_head, size_t n_content) {
  FILE *to = fopen(path, "wb");
  if (!to || fwrite(head, 1, n_head, to) != n_head || fwrite(content, 1, n_content, to) != n_content || fclose(to)) {
    perror(path);
    exit(1);
  }
}

/* ---- files ---------------------------------------------------------------------- */

static size_t write_safetensors(const char *path, const char *dtype, long n, long width, int n_bytes) {
  char head[256], json[240];
  int length = snprintf(json, sizeof json, "{\"x\":{\"dtype\":\"%s\",\"shape\":[%ld,%ld],\"data_offsets\":[0,%ld]}}",
                        dtype, n, width, n * width * n_bytes);
  while (length % 8) json[length++] = ' ';
  memset(head, 0, 8);
  head[0] = (char)length;
  memcpy(head + 8, json, (size_t)length);
  write_file(path, head, (size_t)length + 8, (size_t)(n * width * n_bytes));
  return (size_t)length + 8 + (size_t)(n * width * n_bytes);
}

static void write_npy(const char *path, const char *descr, long n, long width, int n_bytes) {
  char head[128];
  memset(head, ' ', sizeof head);
  memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10);
  int length =
      snprintf(head + 10, 100, "{'descr': '%s', 'fortran_order': False, 'shape': (%ld, %ld), }", descr, n, width);
  head[10 + length] = ' ';
  head[127] = '\n';
  write_file(path, head, sizeof head, (size_t)(n * width * n_bytes));
}

/* Images of 28 by 28, and their labels. */
static void write_idx(const char *images, const char *labels, int type, long n, int n_bytes) {
  unsigned char head[16] = {0, 0, (unsigned char)type, 3}, small[8] = {0, 0, 8, 1};
  const long dims[3] = {n, 28, 28};
  for (int d = 0; d < 3; d++)
    for (int b = 0; b < 4; b++) head[4 + 4 * d + b] = (unsigned char)(dims[d] >> (24 - 8 * b));
  memcpy(small + 4, head + 4, 4);
  write_file(images, (char *)head, sizeof head, (size_t)(n * 784 * n_bytes));
  write_file(labels, (char *)small, sizeof small, (size_t)n);
}

static size_t write_csv(const char *path, long n, int width) {
  FILE *to = fopen(path, "w");
  for (long r = 0; r < n; r++)
    for (int c = 0; c < width; c++)
      fprintf(to, "%.5g%c", (double)content[r * width + c] / 97, c + 1 < width ? ',' : '\n');
  size_t n_bytes = (size_t)ftell(to);
  fclose(to);
  return n_bytes;
}

static void write_manifest(const char *path, long n, long width) {
  FILE *to = fopen(path, "w");
  fputs("{\"record\": \"data-manifest\", \"version\": 1, \"kind\": \"arrays\", \"shards\": [", to);
  for (int s = 0; s < SHARDS; s++) {
    char name[32], digest[CKPT_SHA256_TEXT];
    ckpt_error error;
    snprintf(name, sizeof name, "shard%d.safetensors", s);
    size_t n_bytes = write_safetensors(path_of(name), "F32", n / SHARDS, width, 4);
    if (ckpt_sha256_file(digest, path_of(name), &error) != CKPT_OK) exit(1);
    fprintf(to, "%s{\"path\": \"%s\", \"size\": %zu, \"sha256\": \"%s\"}", s ? ", " : "", name, n_bytes, digest);
  }
  fputs("]}\n", to);
  fclose(to);
}

/* ---- measuring -------------------------------------------------------------------- */

typedef struct fixture {
  sexp_host host;
  tool_files files;
  sx_memory memory;
} fixture;

static void *take_of_arena(void *arena, int64_t n_bytes) { return sx_take_aligned(arena, n_bytes); }

/* Seconds of reading all records once. */
static double load_once(const sx_dataset *dataset, sx_arena *arena) {
  const sx_host_memory memory = {take_of_arena, arena, arena};
  const sx_loader_stage stage = {dataset, BATCH, 1, dataset->n / BATCH};
  sx_loader *loader = sx_loader_new(&stage, 1, false, &memory);
  double begin = now_s();
  for (int64_t i = 0; i < stage.steps; i++)
    if (sx_loader_next(loader)->failed) exit(1);
  return now_s() - begin;
}

static double read_once(const char *path, size_t piece) {
  static unsigned char buffer[1 << 20];
  if (piece > sizeof buffer) piece = sizeof buffer;
  int fd = open(path, O_RDONLY);
  double begin = now_s();
  while (read(fd, buffer, piece) > 0) continue;
  double took = now_s() - begin;
  close(fd);
  return took;
}

static void measure(fixture *f, const char *name, sx_data data, const char *raw, size_t n_bytes) {
  double open_s = 1e9, read_s = 1e9, order_s[2] = {1e9, 1e9};
  int64_t n_records = 0;
  data.record_lo = data.record_hi = -1;
  for (int round = 0; round < ROUNDS; round++)
    for (int shuffled = 0; shuffled < 2; shuffled++) {
      sx_arena arena;
      sx_diags diags;
      sx_arena_init(&arena, &f->memory);
      sx_diags_init(&diags, &arena);
      data.shuffled = shuffled;
      sx_dataset *dataset = sx_dataset_new(&data, &f->host, &arena);
      double begin = now_s();
      if (!sx_dataset_open(dataset, 1, &diags)) {
        fprintf(stderr, "%s: %s\n", name, diags.list.items[0].message);
        exit(1);
      }
      double opened = now_s() - begin;
      load_once(dataset, &arena); /* so that the pages are mapped */
      double loaded = load_once(dataset, &arena);
      n_records = dataset->n;
      double raw_s = read_once(raw, (size_t)((double)n_bytes / (double)n_records * BATCH));
      if (opened < open_s) open_s = opened;
      if (loaded < order_s[shuffled]) order_s[shuffled] = loaded;
      if (raw_s < read_s) read_s = raw_s;
      sx_dataset_close(dataset);
      sx_arena_free(&arena);
    }
  double mb = (double)n_bytes * 1e-6;
  printf("%-24s %8.1f %8.0f", name, open_s * 1e3, mb / read_s);
  for (int i = 0; i < 2; i++)
    printf("   %8.0f %8.0f %5.2f", mb / order_s[i], (double)(n_records / BATCH) / order_s[i], read_s / order_s[i]);
  putchar('\n');
}

static void measure_all(fixture *f) {
  const long n = N_BYTES / 4 / 1024;
  sx_data arrays = {.name = "x", .kind = SX_SOURCE_ARRAYS};
  arrays.path = path_of("f32.safetensors");
  write_safetensors(arrays.path, "F32", n, 1024, 4);
  measure(f, "safetensors f32", arrays, arrays.path, N_BYTES);
  arrays.path = path_of("i64.npy");
  for (size_t i = 0; i < N_BYTES; i += 8) memset(content + i + 2, 0, 6);
  write_npy(arrays.path, "<i8", n, 512, 8);
  measure(f, "npy i64 to i32", arrays, arrays.path, N_BYTES);
  arrays.path = path_of("f64.npy");
  write_npy(arrays.path, "<f8", n, 512, 8);
  measure(f, "npy f64 to f32", arrays, arrays.path, N_BYTES);
  const char *images = path_of("images"), *labels = path_of("labels"), *text = path_of("text"), *csv = path_of("csv");
  sx_source_field fields[] = {{.name = "x", .path = images}, {.name = "y", .path = labels}};
  sx_data idx = {.name = "i", .kind = SX_SOURCE_IDX, .fields = fields, .n_fields = 2};
  write_idx(images, labels, 8, N_BYTES / 784, 1);
  measure(f, "idx u8", idx, images, N_BYTES);
  write_idx(images, labels, 13, N_BYTES / 784 / 4, 4);
  measure(f, "idx f32, big-endian", idx, images, N_BYTES);
  sx_data windows = {.name = "w", .kind = SX_SOURCE_WINDOWS, .path = text, .window_field = "t", .window_dtype = SX_I32};
  windows.window_bytes = 2;
  windows.window_length = 257;
  windows.window_stride = 256;
  write_file(text, "", 0, N_BYTES);
  measure(f, "windows of u16 to i32", windows, text, N_BYTES);
  sx_source_field columns[] = {{.name = "x", .dtype = SX_F32, .n_columns = 31, .first_column = 0},
                               {.name = "y", .dtype = SX_F32, .first_column = 31}};
  sx_data table = {.name = "c", .kind = SX_SOURCE_CSV, .path = csv, .fields = columns, .n_fields = 2};
  measure(f, "csv, 32 columns", table, csv, write_csv(csv, 40000, 32));
  sx_data manifest = {.name = "m", .kind = SX_SOURCE_MANIFEST, .path = path_of("manifest.json")};
  write_manifest(manifest.path, n, 1024);
  measure(f, "manifest of 4 shards", manifest, path_of("f32.safetensors"), N_BYTES);
}

int main(void) {
  static fixture f;
  char command[128];
  if (!mkdtemp(folder)) return 1;
  for (size_t i = 0; i < sizeof content; i++) content[i] = (unsigned char)(i * 2654435761u >> 24 & 0x7f);
  f.host = tool_host(&f.files);
  f.memory = sx_memory_default();
  printf("%-24s %8s %8s   %24s %24s\n", "", "open ms", "read(2)", "in order MB/s, batches, share", "shuffled");
  measure_all(&f);
  tool_files_free(&f.files);
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command) != 0;
}
