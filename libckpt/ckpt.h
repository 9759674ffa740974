/* libckpt: files of tensors, and checkpoints.
 *
 * It opens data files (mapped; .gz through zlib), reads the tensors of safetensors, sharded safetensors, .npy and .npz
 * files, reads data manifests, writes safetensors, and computes the digest that says whether two sets of tensors have
 * the same bits. ckpt_checkpoint.h, included here, writes, reads, compares and copies checkpoints; ckpt_json.h writes
 * the JSON of records; ckpt_s3.h is the client of object storage.
 *
 * Example: list the tensors of a file.
 *
 *     #include <stdio.h>
 *     #include "ckpt.h"
 *
 *     int main(int argc, char **argv) {
 *       ckpt_tensors *tensors = NULL;
 *       ckpt_error error;
 *       if (argc != 2) return 2;
 *       if (ckpt_tensors_open(&tensors, argv[1], NULL, &error) != CKPT_OK) {
 *         fprintf(stderr, "%s: %s\n", error.code, error.message);
 *         return error.status == CKPT_IO ? 4 : 2;
 *       }
 *       for (size_t i = 0; i < ckpt_tensors_count(tensors); i++)
 *         printf("%s %s\n", ckpt_dtype_name(ckpt_tensors_at(tensors, i)->dtype), ckpt_tensors_at(tensors, i)->name);
 *       ckpt_tensors_close(tensors);
 *       return 0;
 *     }
 *
 * Conventions, for every function unless its comment says otherwise:
 * - Ownership: a pointer to pointer is an output that the caller owns and gives to the matching close or free; it is
 *   NULL after a failure. Any other pointer is borrowed: arguments for the call, results for the object's life. close
 *   and free take NULL.
 * - Outputs come first, the error last. An options pointer may be NULL for the defaults, an error pointer NULL when
 *   the caller does not want it. Texts are UTF-8 and end in NUL.
 * - Errors: a fallible function returns a status and, when that is not CKPT_OK, fills *error. Codes are those of
 *   errors.def and docs/errors.md; ckpt_codes lists them. Out of memory (E-CKPT-001) may come from every one.
 * - Threads: no global state. Objects of different threads are independent. Functions that take a const pointer to an
 *   object may run at once on the same object; others need it to themselves.
 * - Determinism: nothing here reads the clock, the environment or a locale's settings (but for what ckpt_s3.h says of
 *   requests); the same arguments give the same bytes, on hosts of either byte order.
 * - The library never exits, prints, or handles signals. A mapped file that another program truncates makes a touch of
 *   the missing pages a SIGBUS: ckpt_file_read and ckpt_tensors_read give an error instead, `bytes` and `data` cannot.
 */
#ifndef CKPT_H
#define CKPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ckpt_json.h"
#include "ckpt_s3.h"
#include "ckpt_status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- SHA-256 ---- */

enum { CKPT_SHA256_TEXT = 72 }; /* room for "sha256:", 64 lowercase hexadecimal digits and NUL */

ckpt_status ckpt_sha256_bytes(char out[CKPT_SHA256_TEXT], const void *bytes, size_t n_bytes, ckpt_error *error);

/* Of the file as it is stored: a .gz is not inflated. Errors: E-DATA-101, E-DATA-102. */
ckpt_status ckpt_sha256_file(char out[CKPT_SHA256_TEXT], const char *path, ckpt_error *error);

/* ---- Element types ---- */

typedef enum ckpt_dtype {
  CKPT_BOOL,
  CKPT_U8,
  CKPT_I8,
  CKPT_U16,
  CKPT_I16,
  CKPT_F16,
  CKPT_BF16,
  CKPT_U32,
  CKPT_I32,
  CKPT_F32,
  CKPT_U64,
  CKPT_I64,
  CKPT_F64,
  CKPT_N_DTYPES
} ckpt_dtype;

const char *ckpt_dtype_name(ckpt_dtype dtype); /* "f32" */
size_t ckpt_dtype_n_bytes(ckpt_dtype dtype);
bool ckpt_dtype_find(ckpt_dtype *out, const char *name); /* from "f32" or "F32" */

enum { CKPT_MAX_RANK = 8 };

/* ---- Files ---- */

typedef struct ckpt_read_options {
  uint64_t inflate_limit_n_bytes; /* largest content of a .gz file, and of the compressed members of an .npz file */
  bool stored;                    /* take a .gz file as it is stored */
  ckpt_s3 *s3;                    /* reads s3:// names; NULL: they are refused (E-S3-001) */
} ckpt_read_options;
#define CKPT_READ_OPTIONS \
  ((ckpt_read_options){.inflate_limit_n_bytes = UINT64_C(16) << 30, .stored = false, .s3 = NULL})

/* What tells a file from another, or from itself when it has changed, without reading it. */
typedef struct ckpt_identity {
  uint64_t device, inode, n_bytes; /* n_bytes as stored */
  int64_t mtime_s, mtime_ns;
} ckpt_identity;

/* A file open for reading, of fixed content: a local one, or an object that was fetched. */
typedef struct ckpt_file ckpt_file;

/* Opens and maps `path`. With options->s3 an s3://bucket/key is fetched first, whole and in parallel, into a file
 * without a name in the client's scratch directory. A name that ends in .gz is inflated into memory (members one after
 * another are allowed). Errors: E-DATA-101 (cannot be opened, no regular file, no such object), E-DATA-102, E-DATA-11x
 * (gzip), E-S3-001, E-S3-021 (no room in the scratch directory), those of object storage. */
ckpt_status ckpt_file_open(ckpt_file **out, const char *path, const ckpt_read_options *options, ckpt_error *error);

/* The same for content in memory, borrowed until the close; `name` stands for the path. */
ckpt_status ckpt_file_from_bytes(ckpt_file **out, const char *name, const void *bytes, size_t n_bytes,
                                 const ckpt_read_options *options, ckpt_error *error);

/* Opens the file of `open` once more: an object is the same one, and not fetched again. */
ckpt_status ckpt_file_again(ckpt_file **out, const ckpt_file *open, const ckpt_read_options *options,
                            ckpt_error *error);
void ckpt_file_close(ckpt_file *file);

const char *ckpt_file_path(const ckpt_file *file);
uint64_t ckpt_file_size(const ckpt_file *file);          /* of the content, inflated */
const void *ckpt_file_bytes(const ckpt_file *file);      /* the content, size bytes; NULL only when that is 0 */
ckpt_identity ckpt_file_identity(const ckpt_file *file); /* as it was at the open; of an object n_bytes alone */

/* Copies content bytes offset to offset + n_bytes. Errors: E-DATA-102, E-DATA-104 (the file ends before that). */
ckpt_status ckpt_file_read(void *out, const ckpt_file *file, uint64_t offset, size_t n_bytes, ckpt_error *error);

/* Whether the stored file still has the size and modification time it had at the open. An object's content is our own
 * from the open on. Errors: E-DATA-103. */
ckpt_status ckpt_file_check(const ckpt_file *file, ckpt_error *error);

/* SHA-256 of what is stored. Errors: E-DATA-102, E-DATA-103. */
ckpt_status ckpt_file_sha256(char out[CKPT_SHA256_TEXT], const ckpt_file *file, ckpt_error *error);

/* The version that records keep: of a local file its SHA-256, of an object its ETag. Errors: E-DATA-102, E-DATA-103. */
ckpt_status ckpt_file_version(char out[CKPT_SHA256_TEXT], const ckpt_file *file, ckpt_error *error);

/* ---- Tensors of a file ---- */

typedef struct ckpt_tensor {
  const char *name;
  ckpt_dtype dtype;
  int rank;
  int64_t dims[CKPT_MAX_RANK];
  uint64_t n_elements, n_bytes;
  const void *data;      /* row-major elements in the host's byte order, at any alignment, or NULL: ckpt_tensors_read */
  const ckpt_file *file; /* that holds it */
  int64_t offset; /* of the first element in the file's content; -1: not there as it is (compressed, transposed) */
} ckpt_tensor;

typedef struct ckpt_tensors ckpt_tensors;

/* Opens *.safetensors, *.safetensors.index.json (its shards lie beside it), *.npy, *.npz, or any of them with .gz.
 * Tensors are in byte order of their names. The tensor of an .npy is named as the file without its suffixes. An .npy
 * in Fortran order is transposed into memory; elements of foreign byte order are swapped as they are read.
 * Errors: those of ckpt_file_open, E-DATA-120 to E-DATA-153. */
ckpt_status ckpt_tensors_open(ckpt_tensors **out, const char *path, const ckpt_read_options *options,
                              ckpt_error *error);

/* The same of an open file, which must outlive it; no index. */
ckpt_status ckpt_tensors_from_file(ckpt_tensors **out, const ckpt_file *file, const ckpt_read_options *options,
                                   ckpt_error *error);
void ckpt_tensors_close(ckpt_tensors *tensors);

size_t ckpt_tensors_count(const ckpt_tensors *tensors);
const ckpt_tensor *ckpt_tensors_at(const ckpt_tensors *tensors, size_t index);

/* The tensor of that name. Errors: E-LOAD-101, naming the nearest name there is. */
ckpt_status ckpt_tensors_find(const ckpt_tensor **out, const ckpt_tensors *tensors, const char *name,
                              ckpt_error *error);

/* Copies elements first to first + n_elements of a tensor of `tensors`, in the host's byte order.
 * Errors: E-DATA-102, E-DATA-104. */
ckpt_status ckpt_tensors_read(void *out, const ckpt_tensors *tensors, const ckpt_tensor *tensor, uint64_t first,
                              uint64_t n_elements, ckpt_error *error);

/* The files behind it: one, or an index's shards in byte order of their names. */
size_t ckpt_tensors_n_files(const ckpt_tensors *tensors);
const ckpt_file *ckpt_tensors_file(const ckpt_tensors *tensors, size_t index);

/* ---- Tensors to write or to digest ---- */

/* Where a parameter that was loaded came from. */
typedef struct ckpt_load {
  const char *file, *tensor;
  uint64_t size;
  const char *version;
} ckpt_load;

typedef struct ckpt_array {
  const char *path; /* of a parameter or state; the tensor's name in the file */
  ckpt_dtype dtype;
  int rank;
  int64_t dims[CKPT_MAX_RANK];
  const void *data; /* row-major elements in the host's byte order; NULL: `fill` gives them */
  ckpt_status (*fill)(void *out, void *context, uint64_t offset, size_t n_bytes, ckpt_error *error);
  void *context;
  const ckpt_load *load; /* NULL: not loaded */
} ckpt_array;

/* Writes a safetensors file: tensors in byte order of their paths, every NaN as 0x7fc00000 (f32), 0x7fc0 (bf16),
 * 0x7e00 (f16) or 0x7ff8000000000000 (f64), the header padded to 8 bytes. It appears whole, after an fsync. Above
 * shard_n_bytes (0: 5 GB) of tensors, name.safetensors becomes name-00001-of-0000N.safetensors … and
 * name.safetensors.index.json, written last. Errors: E-CKPT-004, E-CKPT-005, E-CKPT-006. */
ckpt_status ckpt_safetensors_write(const char *path, const ckpt_array *arrays, size_t n_arrays, uint64_t shard_n_bytes,
                                   ckpt_error *error);

/* ---- Digest ---- */

/* SHA-256 over paths, dtypes, shapes and bytes of parameters, then states, each in byte order of their paths
 * (docs/checkpoints.md defines the bytes). Equal digests mean equal bits, whatever the file layout. */
typedef struct ckpt_digest ckpt_digest;
typedef enum ckpt_kind { CKPT_PARAMETER, CKPT_STATE } ckpt_kind;

ckpt_status ckpt_digest_new(ckpt_digest **out, ckpt_error *error);
void ckpt_digest_free(ckpt_digest *digest);

/* The next tensor, at once or as begin and then its bytes in the host's order, in pieces of whole elements.
 * Errors: E-CKPT-006 (not after the one before), E-CKPT-005 (shape; bytes that are too few or too many). */
ckpt_status ckpt_digest_tensor(ckpt_digest *digest, ckpt_kind kind, const ckpt_array *array, ckpt_error *error);
ckpt_status ckpt_digest_begin(ckpt_digest *digest, ckpt_kind kind, const ckpt_array *array, ckpt_error *error);
ckpt_status ckpt_digest_bytes(ckpt_digest *digest, const void *bytes, size_t n_bytes, ckpt_error *error);

/* The digest of what was given so far; the object then starts anew. */
ckpt_status ckpt_digest_finish(char out[CKPT_SHA256_TEXT], ckpt_digest *digest, ckpt_error *error);

/* Of arrays in any order. */
ckpt_status ckpt_digest_arrays(char out[CKPT_SHA256_TEXT], const ckpt_array *parameters, size_t n_parameters,
                               const ckpt_array *states, size_t n_states, ckpt_error *error);

/* ---- Data manifests ---- */

typedef struct ckpt_shard_file {
  const char *path; /* relative ones taken from the manifest's directory */
  uint64_t size;    /* as stored */
  char sha256[CKPT_SHA256_TEXT];
} ckpt_shard_file;

/* docs/checkpoints.md has the format. */
typedef struct ckpt_manifest {
  const char *path;
  const char *kind;          /* "arrays", "windows", "csv", "idx" */
  const char *dtype, *field; /* windows; NULL else */
  int64_t length, stride;    /* windows; 0 else */
  size_t n_fields;           /* csv, idx */
  const char *const *fields;
  size_t n_shards, n_shard_files; /* files of a shard: 1, or n_fields for idx */
  const ckpt_shard_file *files;   /* shard s has files[s * n_shard_files] and those after it */
} ckpt_manifest;

/* Errors: those of ckpt_file_open, E-DATA-160, E-DATA-161. */
ckpt_status ckpt_manifest_open(ckpt_manifest **out, const char *path, const ckpt_read_options *options,
                               ckpt_error *error);
ckpt_status ckpt_manifest_from_file(ckpt_manifest **out, const ckpt_file *file, ckpt_error *error);
void ckpt_manifest_free(ckpt_manifest *manifest);

/* Every shard's size, which reads nothing of them, and with `hashes` its SHA-256.
 * Errors: E-DATA-101, E-DATA-102, E-DATA-162, E-DATA-163, those of object storage. */
ckpt_status ckpt_manifest_check(const ckpt_manifest *manifest, bool hashes, const ckpt_read_options *options,
                                ckpt_error *error);

/* Size and SHA-256 of a shard's file that is open. Errors: E-DATA-102, E-DATA-162, E-DATA-163. */
ckpt_status ckpt_manifest_check_file(const ckpt_shard_file *shard, const ckpt_file *file, ckpt_error *error);

#ifdef __cplusplus
}
#endif

#include "ckpt_checkpoint.h"

#endif
