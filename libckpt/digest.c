/* The digest of tensors. What is hashed, each part after its length in bytes as a 64-bit little-endian number:
 * "sexpgpu tensors 1"; then for each tensor "parameter" or "state", its path, its dtype's name, its dimensions as
 * 64-bit little-endian numbers, its canonical bytes. Parameters come before states, each in byte order of the paths. */
#include <stdlib.h>
#include <string.h>

#include "arrays.h"
#include "bytes.h"
#include "dtype.h"
#include "error.h"
#include "file.h"
#include "sha256.h"

struct ckpt_digest {
  ck_sha256 *hash;
  bool started;
  ckpt_kind kind; /* of the tensor before */
  char *path;     /* of the tensor before; NULL: none */
  ckpt_dtype dtype;
  uint64_t n_missing; /* bytes of that tensor that are still to come */
  unsigned char *room;
};

static ckpt_status add_part(ck_sha256 *hash, const void *bytes, size_t n_bytes, ckpt_error *error) {
  unsigned char length[8];
  ck_store_u64(length, n_bytes);
  ckpt_status status = ck_sha256_add(hash, length, sizeof length, error);
  return status == CKPT_OK ? ck_sha256_add(hash, bytes, n_bytes, error) : status;
}

static ckpt_status add_text(ck_sha256 *hash, const char *text, ckpt_error *error) {
  return add_part(hash, text, strlen(text), error);
}

ckpt_status ckpt_digest_new(ckpt_digest **out, ckpt_error *error) {
  *out = NULL;
  ckpt_digest *digest = ck_take(1, sizeof *digest);
  if (!digest) return ck_no_memory(error, sizeof *digest);
  digest->room = malloc(CK_PIECE_BYTES);
  ckpt_status status = digest->room ? ck_sha256_new(&digest->hash, error) : ck_no_memory(error, CK_PIECE_BYTES);
  if (status == CKPT_OK)
    *out = digest;
  else
    ckpt_digest_free(digest);
  return status;
}

void ckpt_digest_free(ckpt_digest *digest) {
  if (!digest) return;
  ck_sha256_free(digest->hash);
  free(digest->path);
  free(digest->room);
  free(digest);
}

static ckpt_status start(ckpt_digest *digest, ckpt_error *error) {
  if (digest->started) return CKPT_OK;
  digest->started = true;
  return add_text(digest->hash, "sexpgpu tensors 1", error);
}

static ckpt_status check_complete(const ckpt_digest *digest, ckpt_error *error) {
  if (digest->n_missing == 0) return CKPT_OK;
  return ck_fail(error, CK_E_ARGUMENT, NULL, -1, 0, "tensor '%.200s' lacks %llu bytes", digest->path,
                 (unsigned long long)digest->n_missing);
}

/* Remembers the tensor as the one before the next, if it comes after the one that was. */
static ckpt_status advance(ckpt_digest *digest, ckpt_kind kind, const ckpt_array *array, ckpt_error *error) {
  bool after = !digest->path || kind > digest->kind || (kind == digest->kind && strcmp(array->path, digest->path) > 0);
  if (!after)
    return ck_fail(error, CK_E_PATH_ORDER, NULL, -1, 0, "'%.200s' comes after '%.200s' in a digest", array->path,
                   digest->path);
  char *path = ck_copy_text(array->path);
  if (!path) return ck_no_memory(error, strlen(array->path));
  free(digest->path);
  digest->path = path;
  digest->kind = kind;
  digest->dtype = array->dtype;
  return CKPT_OK;
}

ckpt_status ckpt_digest_begin(ckpt_digest *digest, ckpt_kind kind, const ckpt_array *array, ckpt_error *error) {
  unsigned char dims[8 * CKPT_MAX_RANK], length[8];
  uint64_t n_bytes;
  ckpt_status status = check_complete(digest, error);
  if (status == CKPT_OK) status = ck_array_check(&n_bytes, array, error);
  if (status == CKPT_OK) status = advance(digest, kind, array, error);
  if (status == CKPT_OK) status = start(digest, error);
  if (status != CKPT_OK) return status;
  for (int i = 0; i < array->rank; i++) ck_store_u64(dims + 8 * i, (uint64_t)array->dims[i]);
  ck_store_u64(length, n_bytes);
  status = add_text(digest->hash, kind == CKPT_PARAMETER ? "parameter" : "state", error);
  if (status == CKPT_OK) status = add_text(digest->hash, array->path, error);
  if (status == CKPT_OK) status = add_text(digest->hash, ckpt_dtype_name(array->dtype), error);
  if (status == CKPT_OK) status = add_part(digest->hash, dims, 8 * (size_t)array->rank, error);
  if (status == CKPT_OK) status = ck_sha256_add(digest->hash, length, sizeof length, error);
  digest->n_missing = n_bytes;
  return status;
}

ckpt_status ckpt_digest_bytes(ckpt_digest *digest, const void *bytes, size_t n_bytes, ckpt_error *error) {
  if (n_bytes > digest->n_missing || (n_bytes && n_bytes % ckpt_dtype_n_bytes(digest->dtype)))
    return ck_fail(error, CK_E_ARGUMENT, NULL, -1, 0, "expected whole elements and at most %llu bytes, found %zu",
                   (unsigned long long)digest->n_missing, n_bytes);
  for (size_t done = 0; done < n_bytes;) {
    size_t n = n_bytes - done < CK_PIECE_BYTES ? n_bytes - done : CK_PIECE_BYTES;
    const void *canonical = ck_canonical(digest->room, (const unsigned char *)bytes + done, n, digest->dtype);
    ckpt_status status = ck_sha256_add(digest->hash, canonical, n, error);
    if (status != CKPT_OK) return status;
    done += n;
  }
  digest->n_missing -= n_bytes;
  return CKPT_OK;
}

static ckpt_status take_bytes(void *context, const void *bytes, size_t n_bytes, ckpt_error *error) {
  ckpt_digest *digest = context;
  digest->n_missing -= n_bytes;
  return ck_sha256_add(digest->hash, bytes, n_bytes, error);
}

ckpt_status ckpt_digest_tensor(ckpt_digest *digest, ckpt_kind kind, const ckpt_array *array, ckpt_error *error) {
  ckpt_status status = ckpt_digest_begin(digest, kind, array, error);
  if (status == CKPT_OK) status = ck_array_each(array, take_bytes, digest, error);
  return status;
}

ckpt_status ckpt_digest_finish(char out[CKPT_SHA256_TEXT], ckpt_digest *digest, ckpt_error *error) {
  ckpt_status status = check_complete(digest, error);
  if (status == CKPT_OK) status = start(digest, error);
  if (status == CKPT_OK) status = ck_sha256_finish(out, digest->hash, error);
  free(digest->path);
  digest->path = NULL;
  digest->started = false;
  return status;
}

static ckpt_status add_all(ckpt_digest *digest, ckpt_kind kind, const ckpt_array *arrays, size_t n, ckpt_error *error) {
  const ckpt_array **order = NULL;
  ckpt_status status = ck_arrays_sort(&order, arrays, n, error);
  for (size_t i = 0; status == CKPT_OK && i < n; i++) status = ckpt_digest_tensor(digest, kind, order[i], error);
  free(order);
  return status;
}

ckpt_status ckpt_digest_arrays(char out[CKPT_SHA256_TEXT], const ckpt_array *parameters, size_t n_parameters,
                               const ckpt_array *states, size_t n_states, ckpt_error *error) {
  ckpt_digest *digest = NULL;
  ckpt_status status = ckpt_digest_new(&digest, error);
  if (status == CKPT_OK) status = add_all(digest, CKPT_PARAMETER, parameters, n_parameters, error);
  if (status == CKPT_OK) status = add_all(digest, CKPT_STATE, states, n_states, error);
  if (status == CKPT_OK) status = ckpt_digest_finish(out, digest, error);
  ckpt_digest_free(digest);
  return status;
}
