/* Any bytes as a data manifest: an error, or shards whose every member is in range. */
#include "tensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ckpt_file *file = NULL;
  ckpt_manifest *manifest = NULL;
  ckpt_error error;
  if (ckpt_file_from_bytes(&file, "data/fuzz.json", data, size, NULL, &error) != CKPT_OK) return 0;
  ckpt_status status = ckpt_manifest_from_file(&manifest, file, &error);
  fuzz_expect_error(status, &error);
  fuzz_expect((status == CKPT_OK) == (manifest != NULL));
  if (manifest) {
    fuzz_expect(manifest->n_shards > 0 && manifest->n_shard_files > 0);
    for (size_t i = 0; i < manifest->n_shards * manifest->n_shard_files; i++) {
      fuzz_expect(strlen(manifest->files[i].path) > 0 && strlen(manifest->files[i].sha256) == 71);
      fuzz_expect(manifest->files[i].size <= INT64_MAX);
    }
    for (size_t i = 0; i < manifest->n_fields; i++) fuzz_expect(strlen(manifest->fields[i]) > 0);
  }
  ckpt_manifest_free(manifest);
  ckpt_file_close(file);
  return 0;
}
