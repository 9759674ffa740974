/* NumPy's .npz files: zip archives of .npy members, stored or deflated.
 * Source: PKWARE's APPNOTE 6.3.10, sections 4.3 (records), 4.5.3 (zip64). What an archive says twice, in its central
 * directory and before each member, must agree; members must not overlap; every member's CRC-32 is checked. */
#include <stdlib.h>
#include <string.h>
#define ZLIB_CONST
#include <zlib.h>

#include "bytes.h"
#include "error.h"
#include "file.h"
#include "tensors.h"

enum {
  END_BYTES = 22,     /* end of central directory, without its comment */
  LOCATOR_BYTES = 20, /* of the zip64 end */
  END64_BYTES = 56,
  ENTRY_BYTES = 46, /* of the central directory, without name, extra and comment */
  LOCAL_BYTES = 30,
  LARGEST_COMMENT = 65535,
  LARGEST_DIRECTORY = 1 << 28,
  MOST_EXPANSION = 1032 /* of deflate */
};

typedef struct zip_member {
  char *name; /* without .npy */
  uint32_t flags, method, crc;
  uint64_t packed, size; /* bytes */
  uint64_t local;        /* where its local header starts */
  uint64_t data;         /* where its bytes start */
  int64_t entry;         /* where its central entry starts */
} zip_member;

typedef struct archive {
  const ckpt_file *file;
  const char *path;
  uint64_t limit;                  /* bytes that may still be inflated */
  uint64_t directory, n_directory; /* place and size of the central directory */
  uint64_t n_members;
  unsigned char *entries; /* the central directory */
  zip_member *members;
  size_t n, room;
} archive;

static ckpt_status refuse(const archive *zip, int64_t offset, const char *expected, ckpt_error *error) {
  return ck_fail(error, CK_E_NPZ_DIRECTORY, zip->path, offset, 0, "expected %s", expected);
}

static ckpt_status refuse_member(const archive *zip, const zip_member *member, const char *expected,
                                 ckpt_error *error) {
  return ck_fail(error, CK_E_NPZ_MEMBER, zip->path, member->entry, 0, "member '%.200s': expected %s", member->name,
                 expected);
}

/* ---- The end of the file ---- */

/* The zip64 end, where the plain one says that its fields are too small. `end` is the place of the plain one. */
static ckpt_status read_end64(archive *zip, uint64_t *end, ckpt_error *error) {
  unsigned char locator[LOCATOR_BYTES], record[END64_BYTES];
  if (*end < LOCATOR_BYTES + END64_BYTES) return refuse(zip, 0, "a zip64 end of central directory", error);
  ckpt_status status = ckpt_file_read(locator, zip->file, *end - LOCATOR_BYTES, LOCATOR_BYTES, error);
  if (status != CKPT_OK) return status;
  uint64_t at = ck_load_u64(locator + 8);
  if (ck_load_u32(locator) != 0x07064b50 || at > *end - LOCATOR_BYTES - END64_BYTES)
    return refuse(zip, (int64_t)(*end - LOCATOR_BYTES), "a zip64 locator that points into the file", error);
  status = ckpt_file_read(record, zip->file, at, END64_BYTES, error);
  if (status != CKPT_OK) return status;
  if (ck_load_u32(record) != 0x06064b50 || ck_load_u32(record + 16) || ck_load_u32(record + 20) ||
      ck_load_u64(record + 24) != ck_load_u64(record + 32))
    return refuse(zip, (int64_t)at, "a zip64 end of central directory of a single-part archive", error);
  zip->n_members = ck_load_u64(record + 32);
  zip->n_directory = ck_load_u64(record + 40);
  zip->directory = ck_load_u64(record + 48);
  *end = at;
  return CKPT_OK;
}

static ckpt_status read_end(archive *zip, const unsigned char *record, uint64_t end, ckpt_error *error) {
  if (ck_load_u16(record + 4) || ck_load_u16(record + 6) || ck_load_u16(record + 8) != ck_load_u16(record + 10))
    return refuse(zip, (int64_t)end, "an archive of a single part", error);
  zip->n_members = ck_load_u16(record + 10);
  zip->n_directory = ck_load_u32(record + 12);
  zip->directory = ck_load_u32(record + 16);
  bool is_64 = zip->n_members == 0xffff || zip->n_directory == 0xffffffff || zip->directory == 0xffffffff;
  ckpt_status status = is_64 ? read_end64(zip, &end, error) : CKPT_OK;
  if (status != CKPT_OK) return status;
  if (zip->directory > end || zip->n_directory != end - zip->directory)
    return ck_fail(error, CK_E_NPZ_DIRECTORY, zip->path, (int64_t)end, 0,
                   "expected the central directory to end here, found that it has %llu bytes from byte %llu on",
                   (unsigned long long)zip->n_directory, (unsigned long long)zip->directory);
  if (zip->n_directory > LARGEST_DIRECTORY || zip->n_members > zip->n_directory / ENTRY_BYTES)
    return ck_fail(error, CK_E_NPZ_DIRECTORY, zip->path, (int64_t)end, 0,
                   "expected at most %d bytes with room for every member, found %llu bytes and %llu members",
                   LARGEST_DIRECTORY, (unsigned long long)zip->n_directory, (unsigned long long)zip->n_members);
  return CKPT_OK;
}

/* The end record stands before a comment whose length it says, so it is looked for from the back. */
static ckpt_status find_end(archive *zip, ckpt_error *error) {
  uint64_t size = ckpt_file_size(zip->file);
  size_t n = size < END_BYTES + LARGEST_COMMENT ? (size_t)size : END_BYTES + LARGEST_COMMENT;
  char *tail = NULL;
  ckpt_status status = ck_file_text(&tail, zip->file, size - n, n, error);
  bool found = false;
  for (size_t i = n; status == CKPT_OK && !found && i >= END_BYTES; i--) {
    const unsigned char *record = (unsigned char *)tail + (i - END_BYTES);
    found = ck_load_u32(record) == 0x06054b50 && ck_load_u16(record + 20) == n - i;
    if (found) status = read_end(zip, record, size - n + (i - END_BYTES), error);
  }
  free(tail);
  if (status == CKPT_OK && !found)
    return refuse(zip, (int64_t)size, "the end of a zip archive (50 4b 05 06), found the end of the file", error);
  return status;
}

/* ---- The central directory ---- */

/* Replaces the fields that are all ones by those of the zip64 extra field. */
static ckpt_status apply_extra64(const archive *zip, zip_member *member, const unsigned char *extra, size_t n_extra,
                                 ckpt_error *error) {
  uint64_t *fields[3] = {&member->size, &member->packed, &member->local};
  size_t needed = 0;
  for (int i = 0; i < 3; i++) needed += *fields[i] == 0xffffffff;
  if (needed == 0) return CKPT_OK;
  while (n_extra >= 4) {
    size_t n = ck_load_u16(extra + 2);
    if (n > n_extra - 4) break;
    if (ck_load_u16(extra) == 1 && n >= 8 * needed) {
      const unsigned char *value = extra + 4;
      for (int i = 0; i < 3; i++) {
        if (*fields[i] != 0xffffffff) continue;
        *fields[i] = ck_load_u64(value);
        value += 8;
      }
      return CKPT_OK;
    }
    extra += 4 + n;
    n_extra -= 4 + n;
  }
  return refuse_member(zip, member, "a zip64 extra field with the sizes", error);
}

/* Places in the central entry and in the local header of the fields that both have. */
enum { C_FLAGS = 8, C_METHOD = 10, C_CRC = 16, C_PACKED = 20, C_SIZE = 24, C_NAME = 28, C_EXTRA = 30, C_COMMENT = 32 };
enum { L_FLAGS = 6, L_METHOD = 8, L_CRC = 14, L_PACKED = 18, L_SIZE = 22, L_NAME = 26, L_EXTRA = 28 };

/* The entry at *at of the directory; moves *at behind it. */
static ckpt_status read_entry(archive *zip, uint64_t *at, ckpt_error *error) {
  const unsigned char *entry = zip->entries + *at;
  int64_t place = (int64_t)(zip->directory + *at);
  uint64_t left = zip->n_directory - *at;
  if (left < ENTRY_BYTES || ck_load_u32(entry) != 0x02014b50)
    return refuse(zip, place, "an entry of the central directory (50 4b 01 02)", error);
  size_t n_name = ck_load_u16(entry + C_NAME), n_extra = ck_load_u16(entry + C_EXTRA);
  size_t n = ENTRY_BYTES + n_name + n_extra + ck_load_u16(entry + C_COMMENT);
  if (n > left) return refuse(zip, place, "an entry that ends within the central directory", error);
  const char *name = (const char *)entry + ENTRY_BYTES;
  if (n_name < 5 || memcmp(name + n_name - 4, ".npy", 4) != 0 || memchr(name, 0, n_name))
    return ck_fail(error, CK_E_NPZ_MEMBER, zip->path, place, 0,
                   "expected a member whose name ends in .npy, found '%.*s'", (int)n_name, name);
  zip_member *grown = ck_grow(zip->members, zip->n, &zip->room, sizeof *grown);
  if (!grown) return ck_no_memory(error, 0);
  zip->members = grown;
  zip_member *member = &zip->members[zip->n];
  memset(member, 0, sizeof *member);
  member->name = ck_copy_text_n(name, n_name - 4);
  if (!member->name) return ck_no_memory(error, n_name);
  zip->n++;
  member->flags = ck_load_u16(entry + C_FLAGS);
  member->method = ck_load_u16(entry + C_METHOD);
  member->crc = ck_load_u32(entry + C_CRC);
  member->packed = ck_load_u32(entry + C_PACKED);
  member->size = ck_load_u32(entry + C_SIZE);
  member->local = ck_load_u32(entry + 42);
  member->entry = place;
  *at += n;
  return apply_extra64(zip, member, entry + ENTRY_BYTES + n_name, n_extra, error);
}

static ckpt_status read_directory(archive *zip, ckpt_error *error) {
  char *entries = NULL;
  ckpt_status status = ck_file_text(&entries, zip->file, zip->directory, (size_t)zip->n_directory, error);
  zip->entries = (unsigned char *)entries;
  uint64_t at = 0;
  for (uint64_t i = 0; status == CKPT_OK && i < zip->n_members; i++) status = read_entry(zip, &at, error);
  if (status == CKPT_OK && at != zip->n_directory)
    status =
        refuse(zip, (int64_t)(zip->directory + at), "the end of the central directory after its last member", error);
  return status;
}

/* ---- Members ---- */

/* The header before the member agrees with the central entry, as far as it says anything. */
static ckpt_status check_local(archive *zip, zip_member *member, ckpt_error *error) {
  unsigned char local[LOCAL_BYTES];
  if (member->local > zip->directory || zip->directory - member->local < LOCAL_BYTES)
    return refuse_member(zip, member, "it to start before the central directory", error);
  ckpt_status status = ckpt_file_read(local, zip->file, member->local, LOCAL_BYTES, error);
  if (status != CKPT_OK) return status;
  size_t n_name = ck_load_u16(local + L_NAME), n_extra = ck_load_u16(local + L_EXTRA), known = strlen(member->name);
  if (ck_load_u32(local) != 0x04034b50 || ck_load_u16(local + L_FLAGS) != member->flags ||
      ck_load_u16(local + L_METHOD) != member->method || n_name != known + 4)
    return refuse_member(zip, member, "a local header that says the same", error);
  bool later = member->flags & 8; /* crc and sizes stand behind the data */
  uint64_t packed = ck_load_u32(local + L_PACKED), size = ck_load_u32(local + L_SIZE);
  if (!later && (ck_load_u32(local + L_CRC) != member->crc || (packed != 0xffffffff && packed != member->packed) ||
                 (size != 0xffffffff && size != member->size)))
    return refuse_member(zip, member, "a local header with the same sizes and CRC", error);
  member->data = member->local + LOCAL_BYTES + n_name + n_extra;
  if (member->data > zip->directory || member->packed > zip->directory - member->data)
    return refuse_member(zip, member, "its data to end before the central directory", error);
  char *name = NULL;
  status = ck_file_text(&name, zip->file, member->local + LOCAL_BYTES, n_name, error);
  if (status == CKPT_OK && memcmp(name, member->name, known) != 0)
    status = refuse_member(zip, member, "the same name in its local header", error);
  free(name);
  return status;
}

static int by_local(const void *left, const void *right) {
  const zip_member *a = left, *b = right;
  return a->local < b->local ? -1 : a->local > b->local;
}

static ckpt_status check_members(archive *zip, ckpt_error *error) {
  if (zip->n) qsort(zip->members, zip->n, sizeof *zip->members, by_local);
  for (size_t i = 0; i < zip->n; i++) {
    zip_member *member = &zip->members[i];
    ckpt_status status = check_local(zip, member, error);
    if (status != CKPT_OK) return status;
    if (member->flags & 1) return refuse_member(zip, member, "no encryption", error);
    if (member->method != 0 && member->method != 8)
      return refuse_member(zip, member, "it to be stored or deflated", error);
    if (i > 0 && member->local < zip->members[i - 1].data + zip->members[i - 1].packed)
      return refuse_member(zip, member, "it to start after the one before ends", error);
  }
  return CKPT_OK;
}

/* Gives the packed bytes to `use` in pieces. */
typedef ckpt_status piece_user(void *context, const unsigned char *bytes, size_t n_bytes, ckpt_error *error);
static ckpt_status each_piece(const archive *zip, const zip_member *member, piece_user *use, void *context,
                              ckpt_error *error) {
  unsigned char *piece = ck_take(CK_PIECE_BYTES, 1);
  if (!piece) return ck_no_memory(error, CK_PIECE_BYTES);
  ckpt_status status = CKPT_OK;
  for (uint64_t done = 0; status == CKPT_OK && done < member->packed;) {
    size_t n = member->packed - done < CK_PIECE_BYTES ? (size_t)(member->packed - done) : CK_PIECE_BYTES;
    status = ckpt_file_read(piece, zip->file, member->data + done, n, error);
    if (status == CKPT_OK) status = use(context, piece, n, error);
    done += n;
  }
  free(piece);
  return status;
}

static ckpt_status add_crc(void *context, const unsigned char *bytes, size_t n_bytes, ckpt_error *error) {
  uint32_t *crc = context;
  (void)error;
  *crc = (uint32_t)crc32_z(*crc, bytes, n_bytes);
  return CKPT_OK;
}

static ckpt_status check_crc(const archive *zip, const zip_member *member, uint32_t crc, ckpt_error *error) {
  if (crc == member->crc) return CKPT_OK;
  return ck_fail(error, CK_E_NPZ_MEMBER, zip->path, (int64_t)member->data, 0,
                 "member '%.200s': expected CRC-32 %08x, found %08x", member->name, (unsigned)member->crc,
                 (unsigned)crc);
}

static ckpt_status read_stored(archive *zip, const zip_member *member, ckpt_tensors *tensors, ckpt_error *error) {
  uint32_t crc = 0;
  if (member->packed != member->size) return refuse_member(zip, member, "a stored member to have one size", error);
  ckpt_status status = each_piece(zip, member, add_crc, &crc, error);
  if (status == CKPT_OK) status = check_crc(zip, member, crc, error);
  ck_span span = {.file = zip->file, .offset = member->data, .n_bytes = member->size};
  if (status == CKPT_OK) status = ck_npy_read_span(tensors, &span, member->name, error);
  return status;
}

typedef struct inflating {
  const archive *zip;
  const zip_member *member;
  z_stream stream;
  unsigned char *out;
  uint64_t n, size;
  bool ended;
} inflating;

static ckpt_status inflate_piece(void *context, const unsigned char *bytes, size_t n_bytes, ckpt_error *error) {
  inflating *state = context;
  state->stream.next_in = bytes;
  state->stream.avail_in = (uInt)n_bytes;
  while (!state->ended) {
    unsigned char beyond; /* what is inflated beyond the size that was told */
    uint64_t left = state->size - state->n;
    uInt room = left == 0 ? 1 : left < UINT64_C(1) << 30 ? (uInt)left : (uInt)1 << 30;
    state->stream.next_out = left == 0 ? &beyond : state->out + state->n;
    state->stream.avail_out = room;
    int result = inflate(&state->stream, Z_NO_FLUSH);
    uInt made = room - state->stream.avail_out;
    if (result == Z_MEM_ERROR) return ck_no_memory(error, 0);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
      return refuse_member(state->zip, state->member, "a deflate stream, found damaged data", error);
    if (left == 0 && made > 0) return refuse_member(state->zip, state->member, "less data than it inflates to", error);
    state->n += made;
    state->ended = result == Z_STREAM_END;
    if (state->stream.avail_in == 0 && state->stream.avail_out > 0) break;
  }
  if (state->ended && state->stream.avail_in > 0)
    return refuse_member(state->zip, state->member, "no bytes after its deflate stream", error);
  return CKPT_OK;
}

static ckpt_status inflate_member(inflating *state, ckpt_error *error) {
  ckpt_status status = each_piece(state->zip, state->member, inflate_piece, state, error);
  if (status == CKPT_OK && (!state->ended || state->n != state->size))
    status = refuse_member(state->zip, state->member, "a complete deflate stream of the size told", error);
  if (status == CKPT_OK)
    status = check_crc(state->zip, state->member, (uint32_t)crc32_z(0, state->out, (size_t)state->size), error);
  return status;
}

static ckpt_status read_deflated(archive *zip, const zip_member *member, ckpt_tensors *tensors, ckpt_error *error) {
  if (member->size > zip->limit)
    return ck_fail(error, CK_E_GZIP_LIMIT, zip->path, member->entry, 0,
                   "member '%.200s': expected at most %llu bytes of content, found %llu", member->name,
                   (unsigned long long)zip->limit, (unsigned long long)member->size);
  if (member->size / MOST_EXPANSION > member->packed)
    return refuse_member(zip, member, "deflated data of a possible size", error);
  zip->limit -= member->size;
  inflating state = {.zip = zip, .member = member, .size = member->size};
  if (inflateInit2(&state.stream, -15) != Z_OK) return ck_no_memory(error, 0);
  state.out = malloc(member->size ? (size_t)member->size : 1);
  ckpt_status status = state.out ? inflate_member(&state, error) : ck_no_memory(error, (size_t)member->size);
  inflateEnd(&state.stream);
  ck_span span = {.file = zip->file, .offset = member->data, .n_bytes = member->size, .memory = state.out};
  if (status == CKPT_OK) status = ck_npy_read_span(tensors, &span, member->name, error);
  free(state.out);
  return status;
}

ckpt_status ck_npz_read(ckpt_tensors *tensors, const ckpt_file *file, const ckpt_read_options *options,
                        ckpt_error *error) {
  archive zip = {.file = file, .path = ckpt_file_path(file), .limit = options->inflate_limit_n_bytes};
  ckpt_status status = find_end(&zip, error);
  if (status == CKPT_OK) status = read_directory(&zip, error);
  if (status == CKPT_OK) status = check_members(&zip, error);
  for (size_t i = 0; status == CKPT_OK && i < zip.n; i++) {
    const zip_member *member = &zip.members[i];
    status =
        member->method == 0 ? read_stored(&zip, member, tensors, error) : read_deflated(&zip, member, tensors, error);
  }
  for (size_t i = 0; i < zip.n; i++) free(zip.members[i].name);
  free(zip.members);
  free(zip.entries);
  return status;
}
