/* NumPy's .npy files. The header is a Python dictionary of three members, which is read here as what it is.
 * Source: NumPy Enhancement Proposal 1 and numpy.lib.format, versions 1.0, 2.0 and 3.0. */
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "dtype.h"
#include "error.h"
#include "file.h"
#include "tensors.h"

enum { LARGEST_HEADER = 1 << 20, LARGEST_DESCR = 64 };

typedef struct array {
  const ck_span *span;
  const char *name; /* of the tensor */
  char *text;       /* the header, n bytes at `start` of the span */
  size_t start, n, at;
  char descr[LARGEST_DESCR];
  bool fortran, seen_descr, seen_order, seen_shape;
  int rank;
  int64_t dims[CKPT_MAX_RANK];
} array;

static const char *path_of(const array *npy) { return ckpt_file_path(npy->span->file); }

/* Byte of the file that stands `within` bytes into the .npy; of a compressed one, the start of the compressed data. */
static int64_t place(const array *npy, size_t within) {
  return (int64_t)(npy->span->memory ? npy->span->offset : npy->span->offset + within);
}

static ckpt_status refuse(const array *npy, size_t within, const char *expected, ckpt_error *error) {
  return ck_fail(error, CK_E_NPY_HEADER, path_of(npy), place(npy, within), 0, "array '%.200s': expected %s", npy->name,
                 expected);
}

static ckpt_status read_span(void *out, const array *npy, size_t within, size_t n_bytes, ckpt_error *error) {
  const ck_span *span = npy->span;
  if (within > span->n_bytes || n_bytes > span->n_bytes - within)
    return ck_fail(error, CK_E_DATA_TRUNCATED, path_of(npy), place(npy, (size_t)span->n_bytes), 0,
                   "array '%.200s': expected %zu bytes from its byte %zu on, found its end after %llu", npy->name,
                   n_bytes, within, (unsigned long long)span->n_bytes);
  if (!span->memory) return ckpt_file_read(out, span->file, span->offset + within, n_bytes, error);
  if (n_bytes) memcpy(out, span->memory + within, n_bytes);
  return CKPT_OK;
}

static ckpt_status read_header(array *npy, ckpt_error *error) {
  unsigned char bytes[12];
  ckpt_status status = read_span(bytes, npy, 0, 10, error);
  if (status != CKPT_OK) return status;
  if (memcmp(bytes, "\x93NUMPY", 6) != 0) return refuse(npy, 0, "the magic bytes 93 4e 55 4d 50 59", error);
  if (bytes[6] < 1 || bytes[6] > 3 || bytes[7] != 0) return refuse(npy, 6, "version 1.0, 2.0 or 3.0", error);
  npy->start = bytes[6] == 1 ? 10 : 12;
  if (npy->start == 12) status = read_span(bytes + 10, npy, 10, 2, error);
  if (status != CKPT_OK) return status;
  npy->n = npy->start == 10 ? ck_load_u16(bytes + 8) : ck_load_u32(bytes + 8);
  if (npy->n > LARGEST_HEADER) return refuse(npy, 8, "a header of at most 1048576 bytes", error);
  npy->text = malloc(npy->n + 1);
  if (!npy->text) return ck_no_memory(error, npy->n);
  npy->text[npy->n] = 0;
  return read_span(npy->text, npy, npy->start, npy->n, error);
}

/* ---- The dictionary ---- */

static void skip_space(array *npy) {
  while (npy->text[npy->at] && strchr(" \t\r\n", npy->text[npy->at])) npy->at++;
}

static bool take(array *npy, const char *token) {
  skip_space(npy);
  if (strncmp(npy->text + npy->at, token, strlen(token)) != 0) return false;
  npy->at += strlen(token);
  return true;
}

static ckpt_status refuse_here(const array *npy, const char *expected, ckpt_error *error) {
  return refuse(npy, npy->start + npy->at, expected, error);
}

/* A quoted text without escapes. */
static ckpt_status take_text(char out[LARGEST_DESCR], array *npy, ckpt_error *error) {
  skip_space(npy);
  char quote = npy->text[npy->at];
  if (quote != '\'' && quote != '"') return refuse_here(npy, "a quoted text", error);
  const char *start = npy->text + npy->at + 1, *end = strchr(start, quote);
  size_t n = end ? (size_t)(end - start) : LARGEST_DESCR;
  if (n >= LARGEST_DESCR) return refuse_here(npy, "a quoted text of less than 64 bytes", error);
  memcpy(out, start, n);
  out[n] = 0;
  npy->at += n + 2;
  return CKPT_OK;
}

static ckpt_status take_dim(array *npy, ckpt_error *error) {
  static const char expected[] = "a dimension from 0 to 2^63 - 1";
  skip_space(npy);
  const char *digits = npy->text + npy->at;
  size_t n = strspn(digits, "0123456789");
  int64_t value = 0;
  for (size_t i = 0; i < n; i++) {
    int digit = digits[i] - '0';
    if (value > (INT64_MAX - digit) / 10) return refuse_here(npy, expected, error);
    value = value * 10 + digit;
  }
  if (n == 0) return refuse_here(npy, expected, error);
  npy->at += n;
  take(npy, "L"); /* a long of Python 2 */
  if (npy->rank < CKPT_MAX_RANK) npy->dims[npy->rank] = value;
  npy->rank++;
  return CKPT_OK;
}

static ckpt_status take_shape(array *npy, ckpt_error *error) {
  if (!take(npy, "(")) return refuse_here(npy, "a tuple", error);
  while (!take(npy, ")")) {
    ckpt_status status = take_dim(npy, error);
    if (status != CKPT_OK) return status;
    if (take(npy, ",")) continue;
    if (take(npy, ")")) break;
    return refuse_here(npy, "',' or ')'", error);
  }
  return CKPT_OK;
}

static ckpt_status take_order(array *npy, ckpt_error *error) {
  npy->fortran = take(npy, "True");
  return npy->fortran || take(npy, "False") ? CKPT_OK : refuse_here(npy, "True or False", error);
}

static ckpt_status take_descr(array *npy, ckpt_error *error) {
  skip_space(npy);
  if (npy->text[npy->at] == '[')
    return ck_fail(error, CK_E_DTYPE, path_of(npy), place(npy, npy->start + npy->at), 0,
                   "array '%.200s' has records of several fields", npy->name);
  return take_text(npy->descr, npy, error);
}

static ckpt_status take_member(array *npy, ckpt_error *error) {
  char key[LARGEST_DESCR];
  skip_space(npy);
  size_t start = npy->at;
  ckpt_status status = take_text(key, npy, error);
  if (status != CKPT_OK) return status;
  bool *seen = strcmp(key, "descr") == 0           ? &npy->seen_descr
               : strcmp(key, "fortran_order") == 0 ? &npy->seen_order
               : strcmp(key, "shape") == 0         ? &npy->seen_shape
                                                   : NULL;
  if (!seen || *seen)
    return refuse(npy, npy->start + start, "the keys descr, fortran_order and shape, each once", error);
  *seen = true;
  if (!take(npy, ":")) return refuse_here(npy, "':'", error);
  if (seen == &npy->seen_descr) return take_descr(npy, error);
  return seen == &npy->seen_order ? take_order(npy, error) : take_shape(npy, error);
}

static ckpt_status parse_header(array *npy, ckpt_error *error) {
  if (!take(npy, "{")) return refuse_here(npy, "'{'", error);
  while (!take(npy, "}")) {
    ckpt_status status = take_member(npy, error);
    if (status != CKPT_OK) return status;
    if (take(npy, ",")) continue;
    if (take(npy, "}")) break;
    return refuse_here(npy, "',' or '}'", error);
  }
  skip_space(npy);
  if (npy->at != npy->n) return refuse_here(npy, "spaces and a line end after the dictionary", error);
  if (npy->seen_descr && npy->seen_order && npy->seen_shape) return CKPT_OK;
  return refuse(npy, npy->start, "the keys descr, fortran_order and shape, each once", error);
}

/* ---- The elements ---- */

static ckpt_status find_dtype(ckpt_dtype *out, bool *big_endian, const array *npy, ckpt_error *error) {
  static const struct {
    const char *name;
    ckpt_dtype dtype;
  } kinds[] = {{"b1", CKPT_BOOL}, {"u1", CKPT_U8},  {"i1", CKPT_I8},  {"u2", CKPT_U16},
               {"i2", CKPT_I16},  {"f2", CKPT_F16}, {"u4", CKPT_U32}, {"i4", CKPT_I32},
               {"f4", CKPT_F32},  {"u8", CKPT_U64}, {"i8", CKPT_I64}, {"f8", CKPT_F64}};
  char order = npy->descr[0];
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (!order || strcmp(npy->descr + 1, kinds[i].name) != 0) continue;
    bool single = ckpt_dtype_n_bytes(kinds[i].dtype) == 1;
    if (order != '<' && order != '>' && !(single && order == '|')) continue;
    *out = kinds[i].dtype;
    *big_endian = order == '>';
    return CKPT_OK;
  }
  return ck_fail(error, CK_E_DTYPE, path_of(npy), place(npy, npy->start), 0, "array '%.200s' has elements of type '%s'",
                 npy->name, npy->descr);
}

static bool order_matters(const array *npy, uint64_t n_elements) {
  int longer = 0;
  for (int i = 0; i < npy->rank; i++) longer += npy->dims[i] > 1;
  return npy->fortran && longer > 1 && n_elements > 0;
}

/* Elements that stand first index fastest, moved to last index fastest. */
static void transpose(unsigned char *out, const unsigned char *in, const array *npy, uint64_t n_elements,
                      size_t width) {
  uint64_t strides[CKPT_MAX_RANK], from = 0, stride = 1;
  int64_t index[CKPT_MAX_RANK] = {0};
  for (int i = 0; i < npy->rank; i++) {
    strides[i] = stride;
    stride *= (uint64_t)npy->dims[i];
  }
  for (uint64_t to = 0; to < n_elements; to++) {
    memcpy(out + to * width, in + from * width, width);
    for (int i = npy->rank - 1; i >= 0; i--) {
      from += strides[i];
      if (++index[i] < npy->dims[i]) break;
      from -= strides[i] * (uint64_t)npy->dims[i];
      index[i] = 0;
    }
  }
}

/* The elements in memory, in row-major order, where they are not usable in place. */
static ckpt_status load_elements(void **out, const array *npy, const ckpt_tensor *tensor, ckpt_error *error) {
  bool moved = order_matters(npy, tensor->n_elements);
  *out = NULL;
  if (!moved && !npy->span->memory) return CKPT_OK;
  size_t n_bytes = (size_t)tensor->n_bytes, width = ckpt_dtype_n_bytes(tensor->dtype);
  unsigned char *elements = malloc(n_bytes ? n_bytes : 1), *rows = moved ? malloc(n_bytes) : NULL;
  ckpt_status status = CKPT_OK;
  if (!elements || (moved && !rows)) status = ck_no_memory(error, n_bytes);
  if (status == CKPT_OK) status = read_span(elements, npy, npy->start + npy->n, n_bytes, error);
  if (status == CKPT_OK && moved) transpose(rows, elements, npy, tensor->n_elements, width);
  if (status == CKPT_OK) *out = moved ? rows : elements;
  if (*out != elements) free(elements);
  if (*out != rows) free(rows);
  return status;
}

static ckpt_status add_tensor(ckpt_tensors *tensors, const array *npy, ckpt_error *error) {
  ckpt_tensor tensor = {.name = npy->name, .rank = npy->rank, .file = npy->span->file, .offset = -1};
  bool big_endian = false;
  size_t start = npy->start + npy->n;
  for (int i = 0; i < npy->rank && i < CKPT_MAX_RANK; i++) tensor.dims[i] = npy->dims[i];
  ckpt_status status = find_dtype(&tensor.dtype, &big_endian, npy, error);
  if (status == CKPT_OK)
    status = ck_shape_size(&tensor.n_elements, &tensor.n_bytes, tensor.dtype, tensor.rank, tensor.dims, path_of(npy),
                           place(npy, npy->start), npy->name, error);
  if (status != CKPT_OK) return status;
  uint64_t found = npy->span->n_bytes - start;
  if (found != tensor.n_bytes)
    return ck_fail(error, found < tensor.n_bytes ? CK_E_DATA_TRUNCATED : CK_E_NPY_SIZE, path_of(npy),
                   place(npy, start + (size_t)(found < tensor.n_bytes ? found : tensor.n_bytes)), 0,
                   "array '%.200s': expected %llu bytes of elements, found %llu", npy->name,
                   (unsigned long long)tensor.n_bytes, (unsigned long long)found);
  void *elements = NULL;
  status = load_elements(&elements, npy, &tensor, error);
  if (status != CKPT_OK) return status;
  if (!elements) tensor.offset = place(npy, start);
  return ck_tensors_add(tensors, &tensor, big_endian, elements, error);
}

ckpt_status ck_npy_read_span(ckpt_tensors *tensors, const ck_span *span, const char *name, ckpt_error *error) {
  array npy = {.span = span, .name = name};
  ckpt_status status = read_header(&npy, error);
  if (status == CKPT_OK) status = parse_header(&npy, error);
  if (status == CKPT_OK) status = add_tensor(tensors, &npy, error);
  free(npy.text);
  return status;
}

ckpt_status ck_npy_read(ckpt_tensors *tensors, const ckpt_file *file, const ckpt_read_options *options,
                        ckpt_error *error) {
  (void)options;
  ck_span span = {.file = file, .n_bytes = ckpt_file_size(file)};
  const char *base = ck_base_name(ckpt_file_path(file));
  size_t n = strlen(base) - (ck_ends_with(base, ".gz") ? strlen(".npy.gz") : strlen(".npy"));
  char *name = ck_copy_text_n(base, n);
  if (!name) return ck_no_memory(error, n);
  ckpt_status status = ck_npy_read_span(tensors, &span, name, error);
  free(name);
  return status;
}
