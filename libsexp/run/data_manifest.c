/* Sources of many files: a manifest names shards of one kind, which follow one another. */
#include <inttypes.h>
#include <string.h>

#include "dataset.h"

static bool refuse(const sx_data *data, const char *what, sx_diags *diags) {
  sx_error(diags, SX_E_MANIFEST_KIND, data->span, "%s: %s", data->path, what);
  return false;
}

static bool find_kind(const sexp_manifest *manifest, sx_source_kind *kind) {
  static const struct {
    const char *name;
    sx_source_kind kind;
  } kinds[] = {
      {"arrays", SX_SOURCE_ARRAYS}, {"windows", SX_SOURCE_WINDOWS}, {"csv", SX_SOURCE_CSV}, {"idx", SX_SOURCE_IDX}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (!strcmp(kinds[i].name, manifest->kind)) {
      *kind = kinds[i].kind;
      return true;
    }
  return false;
}

static bool take_window(sx_data *shard, const sexp_manifest *manifest) {
  static const struct {
    const char *name;
    int n_bytes;
  } dtypes[] = {{"u8", 1}, {"u16", 2}, {"i32", 4}};
  shard->window_bytes = 0;
  for (size_t i = 0; manifest->dtype && i < sizeof dtypes / sizeof *dtypes; i++)
    if (!strcmp(dtypes[i].name, manifest->dtype)) shard->window_bytes = dtypes[i].n_bytes;
  shard->window_field = manifest->field;
  shard->window_length = manifest->length;
  shard->window_stride = manifest->stride;
  return shard->window_bytes && manifest->field && manifest->length > 0 && manifest->stride > 0;
}

/* Field f of a csv shard is column f, an f32; of an idx shard file f. */
static sx_source_field *take_fields(const sexp_manifest *manifest, sx_arena *arena) {
  sx_source_field *fields = SX_NEW_N(arena, sx_source_field, manifest->n_fields);
  for (size_t f = 0; f < manifest->n_fields; f++)
    fields[f] = (sx_source_field){.name = manifest->fields[f], .dtype = SX_F32, .first_column = (int64_t)f};
  return fields;
}

/* What all shards have in common. */
static bool describe_shard(sx_data *shard, const sx_data *data, const sexp_manifest *manifest, sx_arena *arena,
                           sx_diags *diags) {
  *shard = *data;
  if (!find_kind(manifest, &shard->kind)) return refuse(data, "its kind is none of arrays, windows, csv, idx", diags);
  size_t n_files = shard->kind == SX_SOURCE_IDX ? manifest->n_fields : 1;
  if (!manifest->n_shards || manifest->n_shard_files != n_files) return refuse(data, "its shards have no files", diags);
  bool named = shard->kind == SX_SOURCE_CSV || shard->kind == SX_SOURCE_IDX;
  if (named && !manifest->n_fields) return refuse(data, "it names no fields", diags);
  if (manifest->n_fields > UINT32_MAX) return refuse(data, "it names too many fields", diags);
  if (shard->kind == SX_SOURCE_WINDOWS && !take_window(shard, manifest))
    return refuse(data, "it lacks the dtype, length, stride or field of its windows", diags);
  shard->fields = named ? take_fields(manifest, arena) : NULL;
  shard->n_fields = named ? (uint32_t)manifest->n_fields : 0;
  return true;
}

bool sx_open_manifest(sx_dataset *dataset, const sx_data *data, sx_diags *diags) {
  static sx_open_shard *const open[] = {[SX_SOURCE_ARRAYS] = sx_open_arrays,
                                        [SX_SOURCE_WINDOWS] = sx_open_windows,
                                        [SX_SOURCE_CSV] = sx_open_csv,
                                        [SX_SOURCE_IDX] = sx_open_idx};
  const sexp_manifest *manifest = NULL;
  sx_data shard;
  if (!sx_files_open_manifest(&dataset->files, data->path, &manifest, data->span, diags)) return false;
  if (!describe_shard(&shard, data, manifest, dataset->files.arena, diags)) return false;
  for (size_t s = 0; s < manifest->n_shards; s++) {
    const char *const *paths = manifest->paths + s * manifest->n_shard_files;
    shard.path = paths[0];
    for (uint32_t f = 0; shard.kind == SX_SOURCE_IDX && f < shard.n_fields; f++) shard.fields[f].path = paths[f];
    if (!open[shard.kind](dataset, &shard, diags)) return false;
  }
  return true;
}
