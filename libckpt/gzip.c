/* Gzip files (RFC 1952) into memory. */
#include <stdlib.h>
#include <string.h>
#define ZLIB_CONST
#include <zlib.h>

#include "bytes.h"
#include "error.h"
#include "file.h"

enum { IN_BYTES = 1 << 16 };

typedef struct inflater {
  const ckpt_file *file;
  z_stream stream;
  unsigned char in[IN_BYTES];
  uint64_t read; /* stored bytes given to zlib; those before avail_in are used up */
  unsigned char *out;
  size_t n, room, limit;
} inflater;

static int64_t position(const inflater *state) { return (int64_t)(state->read - state->stream.avail_in); }

static const char *path_of(const inflater *state) { return ckpt_file_path(state->file); }

static ckpt_status refill(inflater *state, ckpt_error *error) {
  uint64_t left = ck_file_stored_size(state->file) - state->read;
  size_t n = left < IN_BYTES ? (size_t)left : IN_BYTES;
  ckpt_status status = ck_file_read_stored(state->in, state->file, state->read, n, error);
  if (status != CKPT_OK) return status;
  state->read += n;
  state->stream.next_in = state->in;
  state->stream.avail_in = (uInt)n;
  return CKPT_OK;
}

/* Room for what comes, at most limit bytes and one more that shows that the limit is passed. */
static ckpt_status make_room(inflater *state, ckpt_error *error) {
  if (state->n < state->room) return CKPT_OK;
  size_t most = state->limit + 1, larger = state->room < most / 2 ? state->room * 2 : most;
  if (state->n > state->limit)
    return ck_fail(error, CK_E_GZIP_LIMIT, path_of(state), position(state), 0, "expected at most %zu bytes of content",
                   state->limit);
  unsigned char *grown = realloc(state->out, larger);
  if (!grown) return ck_no_memory(error, larger);
  state->out = grown;
  state->room = larger;
  return CKPT_OK;
}

/* The last bytes of a gzip file say how large the content of its last member is, modulo 2^32. It is a guess only; no
 * deflate stream expands more than 1032 times. */
static ckpt_status guess_room(inflater *state, ckpt_error *error) {
  uint64_t stored = ck_file_stored_size(state->file), guess = 0;
  unsigned char tail[4];
  if (stored >= 18) {
    ckpt_status status = ck_file_read_stored(tail, state->file, stored - 4, 4, error);
    if (status != CKPT_OK) return status;
    guess = ck_load_u32(tail);
  }
  if (guess / 1032 > stored) guess = 0;
  if (guess < 4096) guess = 4096;
  if (guess > state->limit) guess = state->limit;
  state->room = (size_t)guess + 1;
  state->out = malloc(state->room);
  return state->out ? CKPT_OK : ck_no_memory(error, state->room);
}

static ckpt_status refuse(const inflater *state, int result, ckpt_error *error) {
  const char *words = state->stream.msg ? state->stream.msg : "no further words from zlib";
  if (result == Z_MEM_ERROR) return ck_no_memory(error, 0);
  bool check = strcmp(words, "incorrect data check") == 0 || strcmp(words, "incorrect length check") == 0;
  return ck_fail(error, check ? CK_E_GZIP_CHECK : CK_E_GZIP_FORMAT, path_of(state), position(state), 0, "%s", words);
}

/* One step of a member; *ended when it is complete. */
static ckpt_status inflate_some(inflater *state, bool *ended, ckpt_error *error) {
  ckpt_status status = make_room(state, error);
  if (status == CKPT_OK && state->stream.avail_in == 0) status = refill(state, error);
  if (status != CKPT_OK) return status;
  size_t room = state->room - state->n;
  uInt piece = room < (size_t)1 << 30 ? (uInt)room : (uInt)1 << 30;
  bool starved = state->stream.avail_in == 0;
  state->stream.next_out = state->out + state->n;
  state->stream.avail_out = piece;
  int result = inflate(&state->stream, Z_NO_FLUSH);
  state->n += piece - state->stream.avail_out;
  *ended = result == Z_STREAM_END;
  if (*ended) return CKPT_OK;
  if (result != Z_OK && result != Z_BUF_ERROR) return refuse(state, result, error);
  if (starved && state->stream.avail_out == piece)
    return ck_fail(error, CK_E_GZIP_TRUNCATED, path_of(state), position(state), 0,
                   "expected more compressed data, found the end of the file");
  return CKPT_OK;
}

/* Whether another member follows; anything else is an error. */
static ckpt_status next_member(inflater *state, bool *more, ckpt_error *error) {
  int64_t at = position(state);
  uint64_t left = ck_file_stored_size(state->file) - (uint64_t)at;
  unsigned char magic[2];
  *more = left > 0;
  if (!*more) return CKPT_OK;
  ckpt_status status = CKPT_OK;
  if (left >= 2) status = ck_file_read_stored(magic, state->file, (uint64_t)at, 2, error);
  if (status != CKPT_OK) return status;
  if (left < 2 || magic[0] != 0x1f || magic[1] != 0x8b)
    return ck_fail(error, CK_E_GZIP_TRAILING, path_of(state), at, 0,
                   "expected the end of the file or another gzip member (1f 8b), found %llu bytes of something else",
                   (unsigned long long)left);
  inflateReset(&state->stream);
  return CKPT_OK;
}

static ckpt_status inflate_all(inflater *state, ckpt_error *error) {
  ckpt_status status = guess_room(state, error);
  for (bool more = true; status == CKPT_OK && more;) {
    bool ended = false;
    while (status == CKPT_OK && !ended) status = inflate_some(state, &ended, error);
    if (status == CKPT_OK) status = next_member(state, &more, error);
  }
  if (status == CKPT_OK && state->n > state->limit) status = make_room(state, error);
  return status;
}

ckpt_status ck_gzip_inflate(unsigned char **out, size_t *n_out, const ckpt_file *file, uint64_t limit_n_bytes,
                            ckpt_error *error) {
  *out = NULL;
  inflater *state = ck_take(1, sizeof *state);
  if (!state) return ck_no_memory(error, sizeof *state);
  state->file = file;
  state->limit = limit_n_bytes < SIZE_MAX / 2 ? (size_t)limit_n_bytes : SIZE_MAX / 2;
  ckpt_status status = CKPT_OK;
  if (inflateInit2(&state->stream, 15 + 16) != Z_OK)
    status = ck_no_memory(error, 0);
  else
    status = inflate_all(state, error);
  inflateEnd(&state->stream);
  if (status == CKPT_OK) {
    *out = state->out;
    *n_out = state->n;
  } else {
    free(state->out);
  }
  free(state);
  return status;
}
