#include "dataset.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../../kernels/draws.h"
#include "../base/sha256.h"

static sx_open_shard *const openers[] = {
    [SX_SOURCE_ARRAYS] = sx_open_arrays, [SX_SOURCE_WINDOWS] = sx_open_windows,   [SX_SOURCE_CSV] = sx_open_csv,
    [SX_SOURCE_IDX] = sx_open_idx,       [SX_SOURCE_MANIFEST] = sx_open_manifest,
};

sx_dataset *sx_dataset_new(const sx_data *data, const sexp_host *host, sx_arena *arena) {
  sx_dataset *dataset = SX_NEW(arena, sx_dataset);
  dataset->data = data;
  sx_files_init(&dataset->files, host, arena);
  return dataset;
}

void sx_dataset_close(sx_dataset *dataset) { sx_files_close(&dataset->files); }

/* ---- fields ---- */

static bool same_field(const sx_field_type *a, const sx_field_type *b) {
  if (strcmp(a->name, b->name) || a->dtype != b->dtype || a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i]) return false;
  return true;
}

/* Product of the dims times the size of an element; false: it does not fit 63 bits. */
static bool record_size(const sx_field_type *field, int64_t *n_elements, int64_t *n_bytes) {
  int64_t size = (int64_t)sx_dtype_bytes(field->dtype), n = 1;
  for (int i = 0; i < field->rank; i++)
    if (__builtin_mul_overflow(n, field->dims[i], &n)) return false;
  *n_elements = n;
  return !__builtin_mul_overflow(n, size, n_bytes);
}

static bool take_fields(sx_dataset *dataset, const sx_field_type *fields, uint32_t n_fields, const char *path,
                        sx_diags *diags) {
  sx_arena *arena = dataset->files.arena;
  dataset->fields = SX_NEW_N(arena, sx_field_type, n_fields);
  dataset->n_elements = SX_NEW_N(arena, int64_t, n_fields);
  dataset->n_bytes = SX_NEW_N(arena, int64_t, n_fields);
  dataset->n_fields = n_fields;
  for (uint32_t f = 0; f < n_fields; f++) {
    dataset->fields[f] = fields[f];
    dataset->fields[f].name = sx_arena_copy_text(arena, fields[f].name, strlen(fields[f].name));
    if (record_size(&fields[f], &dataset->n_elements[f], &dataset->n_bytes[f])) continue;
    sx_error(diags, SX_E_DATA_SHAPE, dataset->data->span, "%s: a record of field %s does not fit in memory", path,
             fields[f].name);
    return false;
  }
  return true;
}

static bool agree_fields(const sx_dataset *dataset, const sx_field_type *fields, uint32_t n_fields, const char *path,
                         sx_diags *diags) {
  bool same = n_fields == dataset->n_fields;
  for (uint32_t f = 0; same && f < n_fields; f++) same = same_field(&fields[f], &dataset->fields[f]);
  if (!same)
    sx_error(diags, SX_E_MANIFEST_SHARDS, dataset->data->span,
             "%s: its fields, dtypes or record shapes are not those of the first shard", path);
  return same;
}

bool sx_dataset_append(sx_dataset *dataset, const sx_field_type *fields, uint32_t n_fields, sx_part *parts,
                       int64_t n_records, const char *path, sx_diags *diags) {
  if (!n_fields || !n_records) {
    sx_error(diags, SX_E_DATA_EMPTY, dataset->data->span, "%s: it holds no %s", path, n_fields ? "record" : "field");
    return false;
  }
  bool fits = dataset->shards.n ? agree_fields(dataset, fields, n_fields, path, diags)
                                : take_fields(dataset, fields, n_fields, path, diags);
  if (!fits) return false;
  sx_shard shard = {n_records, dataset->n_total, parts};
  if (__builtin_add_overflow(dataset->n_total, n_records, &dataset->n_total)) {
    sx_error(diags, SX_E_DATA_SHAPE, dataset->data->span, "%s: more records than 63 bits count", path);
    return false;
  }
  SX_PUSH(dataset->files.arena, dataset->shards, shard);
  return true;
}

/* ---- order ---- */

static bool select_records(sx_dataset *dataset, sx_diags *diags) {
  const sx_data *data = dataset->data;
  int64_t n = dataset->n_total, lo = 0, hi = n;
  if (data->records_are_fractions) {
    lo = (int64_t)floor(data->fraction_lo * (double)n);
    hi = (int64_t)floor(data->fraction_hi * (double)n);
  } else if (data->record_hi >= 0) {
    lo = data->record_lo;
    hi = data->record_hi;
  }
  if (lo < 0 || hi > n || lo >= hi) {
    sx_error(diags, SX_E_DATA_RANGE, data->span, "records %" PRId64 " to %" PRId64 " of data %s, which has %" PRId64,
             lo, hi, data->name, n);
    return false;
  }
  dataset->begin = lo;
  dataset->n = hi - lo;
  return true;
}

static uint64_t order_key(const sx_dataset *dataset, int64_t run_seed) {
  const sx_data *data = dataset->data;
  uint64_t seed = (uint64_t)(data->has_seed ? data->seed : run_seed), key = 0;
  uint8_t seed_bytes[8], digest[32];
  for (int i = 0; i < 8; i++) seed_bytes[i] = (uint8_t)(seed >> (8 * i));
  sx_sha256 *hash = sx_sha256_new();
  if (!hash) sx_memory_fail(dataset->files.arena->memory);
  sx_sha256_add_part(hash, "sexpgpu shuffle 1", strlen("sexpgpu shuffle 1"));
  sx_sha256_add_part(hash, seed_bytes, sizeof seed_bytes);
  sx_sha256_add_part(hash, data->name, strlen(data->name));
  sx_sha256_end(hash, digest);
  for (int i = 0; i < 8; i++) key |= (uint64_t)digest[i] << (8 * i);
  return key;
}

bool sx_dataset_open(sx_dataset *dataset, int64_t run_seed, sx_diags *diags) {
  const sx_data *data = dataset->data;
  if (!openers[data->kind](dataset, data, diags) || !select_records(dataset, diags)) return false;
  dataset->key = order_key(dataset, run_seed);
  return true;
}

/* The first one opened is the last of the list. */
const sx_file *sx_dataset_first_file(const sx_dataset *dataset) {
  const sx_file *file = dataset->files.first;
  while (file->next) file = file->next;
  return file;
}

const char *sx_data_order(const sx_data *data) { return data->shuffled ? "shuffled" : "sequential"; }

int64_t sx_dataset_record(const sx_dataset *dataset, int64_t position) {
  int64_t epoch = position / dataset->n, place = position % dataset->n;
  if (dataset->data->shuffled)
    place = (int64_t)sx_shuffle_index(dataset->key, (uint64_t)epoch, (uint64_t)dataset->n, (uint64_t)place);
  return dataset->begin + place;
}

/* ---- reading ---- */

static const sx_shard *find_shard(const sx_dataset *dataset, int64_t record) {
  size_t low = 0, high = dataset->shards.n;
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (dataset->shards.items[middle].first <= record)
      low = middle;
    else
      high = middle;
  }
  return &dataset->shards.items[low];
}

static void bad_value(const sx_dataset *dataset, const sx_part *part, int64_t record, uint32_t field, int64_t element,
                      const unsigned char *bytes, sx_read_problem *why) {
  char value[24];
  sx_encoding_print(part->encoding, bytes + (size_t)element * sx_encoding_bytes(part->encoding), value);
  why->code = SX_E_DATA_VALUE;
  why->path = part->path;
  const char *needed = part->encoding == SX_HOST_BOOL ? "a bool is 0 or 1" : "it does not fit i32";
  snprintf(why->failure.message, sizeof why->failure.message,
           "%.400s: field %.200s of record %" PRId64 ", element %" PRId64 ", is %s: %s", part->path,
           dataset->fields[field].name, record, element, value, needed);
}

bool sx_dataset_read(const sx_dataset *dataset, int64_t record, uint32_t field, void *out, sx_read_problem *why) {
  const sx_shard *shard = find_shard(dataset, record);
  const sx_part *part = &shard->parts[field];
  const unsigned char *bytes = part->bytes + (uint64_t)(record - shard->first) * part->record_stride;
  int64_t n = dataset->n_elements[field];
  int64_t read = sx_encoding_read(part->encoding, out, bytes, n);
  if (read == n) return true;
  bad_value(dataset, part, record, field, read, bytes, why);
  return false;
}

bool sx_dataset_check(const sx_dataset *dataset, sx_read_problem *why) {
  const sexp_host *host = dataset->files.host;
  for (const sx_file *file = dataset->files.first; file; file = file->next) {
    if (!file->file || !host->check(host->context, file->file, &why->failure)) continue;
    why->code = SX_E_DATA_HOST;
    why->path = file->path;
    return false;
  }
  return true;
}

void sx_report_read_problem(sx_diags *diags, sx_span span, const sx_read_problem *why) {
  if (why->code == SX_E_DATA_HOST) {
    sx_report_failure(diags, span, why->path, &why->failure);
    return;
  }
  sx_error(diags, why->code, span, "%s", why->failure.message)->path = why->path;
}
