/* Sources in the IDX format of the MNIST files: two zero bytes, a type code, the number of dimensions, the
 * dimensions as big-endian 32-bit integers, then the elements, big-endian, row-major. One file a field. */
#include <inttypes.h>

#include "dataset.h"

enum { HEADER = 4, MAX_DIMENSIONS = SX_RANK_MAX + 1 };

typedef struct idx_type {
  unsigned char code;
  sx_encoding encoding;
} idx_type;

static const idx_type types[] = {{0x08, SX_HOST_U8}, {0x09, SX_HOST_I8}, {0x0b, SX_BIG_I16},
                                 {0x0c, SX_BIG_I32}, {0x0d, SX_BIG_F32}, {0x0e, SX_BIG_F64}};

typedef struct idx {
  sx_encoding encoding;
  int n_dims;
  uint64_t dims[MAX_DIMENSIONS];
  uint64_t record_bytes;
} idx;

typedef struct idx_file {
  const char *path;
  sexp_file_info info;
  sx_span span;
} idx_file;

static bool parse_magic(idx *out, const idx_file *file, sx_diags *diags) {
  const unsigned char *bytes = file->info.bytes;
  if (file->info.n_bytes < HEADER) {
    sx_error(diags, SX_E_IDX_MAGIC, file->span, "%s: it ends at byte %" PRIu64 ", an idx header has 4", file->path,
             file->info.n_bytes);
    return false;
  }
  if (bytes[0] || bytes[1]) {
    sx_error(diags, SX_E_IDX_MAGIC, file->span, "%s: bytes 0 and 1 are 0x%02x 0x%02x, those of an idx file 0x00 0x00",
             file->path, bytes[0], bytes[1]);
    return false;
  }
  size_t n = sizeof types / sizeof *types, t = 0;
  while (t < n && types[t].code != bytes[2]) t++;
  if (t == n) {
    sx_error(diags, SX_E_IDX_TYPE, file->span, "%s: the type code at byte 2 is 0x%02x", file->path, bytes[2]);
    return false;
  }
  out->encoding = types[t].encoding;
  out->n_dims = bytes[3];
  if (out->n_dims >= 1 && out->n_dims <= MAX_DIMENSIONS) return true;
  sx_error(diags, SX_E_IDX_DIMENSIONS, file->span, "%s: the number of dimensions at byte 3 is %d; 1 to %d are possible",
           file->path, out->n_dims, MAX_DIMENSIONS);
  return false;
}

static bool parse_dims(idx *out, const idx_file *file, sx_diags *diags) {
  const unsigned char *bytes = file->info.bytes;
  uint64_t begin = HEADER + 4u * (unsigned)out->n_dims, total = sx_encoding_bytes(out->encoding);
  if (file->info.n_bytes < begin) {
    sx_error(diags, SX_E_IDX_SIZE, file->span, "%s: it ends at byte %" PRIu64 ", its header at byte %" PRIu64,
             file->path, file->info.n_bytes, begin);
    return false;
  }
  out->record_bytes = total;
  for (int i = out->n_dims - 1; i >= 0; i--) {
    const unsigned char *at = bytes + HEADER + 4 * i;
    out->dims[i] = (uint64_t)at[0] << 24 | (uint64_t)at[1] << 16 | (uint64_t)at[2] << 8 | at[3];
    out->record_bytes = total;
    if (__builtin_mul_overflow(total, out->dims[i], &total) || total > INT64_MAX) {
      sx_error(diags, SX_E_IDX_DIMENSIONS, file->span,
               "%s: dimension %d at byte %d, %" PRIu64 ", makes more bytes than 63 bits count", file->path, i,
               HEADER + 4 * i, out->dims[i]);
      return false;
    }
  }
  if (file->info.n_bytes - begin == total) return true;
  sx_error(diags, SX_E_IDX_SIZE, file->span,
           "%s: %" PRIu64 " bytes follow the header, which ends at byte %" PRIu64 "; its dimensions need %" PRIu64,
           file->path, file->info.n_bytes - begin, begin, total);
  return false;
}

static bool take_file(sx_dataset *dataset, const sx_data *data, const sx_source_field *named, sx_field_type *field,
                      sx_part *part, int64_t *n_records, sx_diags *diags) {
  idx_file file = {.path = named->path, .span = data->span};
  idx parsed = {0};
  sx_file *opened = sx_files_open(&dataset->files, named->path, &file.info, data->span, diags);
  if (!opened || !parse_magic(&parsed, &file, diags) || !parse_dims(&parsed, &file, diags)) return false;
  *field = (sx_field_type){.name = named->name, .dtype = sx_encoding_dtype(parsed.encoding), .rank = parsed.n_dims - 1};
  for (int i = 1; i < parsed.n_dims; i++) field->dims[i - 1] = (int64_t)parsed.dims[i];
  *part = (sx_part){file.info.bytes + HEADER + 4 * parsed.n_dims, parsed.record_bytes, parsed.encoding, opened->path};
  *n_records = (int64_t)parsed.dims[0];
  return true;
}

bool sx_open_idx(sx_dataset *dataset, const sx_data *data, sx_diags *diags) {
  uint32_t n_fields = data->n_fields;
  sx_field_type *fields = SX_NEW_N(dataset->files.arena, sx_field_type, n_fields);
  sx_part *parts = SX_NEW_N(dataset->files.arena, sx_part, n_fields);
  int64_t n_first = 0;
  for (uint32_t f = 0; f < n_fields; f++) {
    int64_t n = 0;
    if (!take_file(dataset, data, &data->fields[f], &fields[f], &parts[f], &n, diags)) return false;
    if (!f) n_first = n;
    if (n == n_first) continue;
    sx_error(diags, SX_E_DATA_COUNTS, data->span, "%s has %" PRId64 " records, %s has %" PRId64, parts[0].path, n_first,
             parts[f].path, n);
    return false;
  }
  const char *path = n_fields ? parts[0].path : data->name;
  return sx_dataset_append(dataset, fields, n_fields, parts, n_first, path, diags);
}
