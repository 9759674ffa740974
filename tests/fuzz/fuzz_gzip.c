/* Any bytes as a .gz file: an error, or what zlib's own reader of members gives. */
#include <zlib.h>

#include "tensors.h"

enum { LIMIT = 1 << 20 };

/* The content of all members by another way through zlib: one call a member. */
static size_t inflate_members(unsigned char *out, const uint8_t *data, size_t size) {
  size_t n = 0;
  while (size > 0) {
    z_stream stream = {0};
    fuzz_expect(inflateInit2(&stream, 15 + 16) == Z_OK);
    stream.next_in = (Bytef *)(uintptr_t)data;
    stream.avail_in = (uInt)size;
    stream.next_out = out + n;
    stream.avail_out = (uInt)(LIMIT - n);
    fuzz_expect(inflate(&stream, Z_FINISH) == Z_STREAM_END);
    n = LIMIT - stream.avail_out;
    data += size - stream.avail_in;
    size = stream.avail_in;
    inflateEnd(&stream);
  }
  return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ckpt_read_options options = CKPT_READ_OPTIONS;
  ckpt_file *file = NULL;
  ckpt_error error;
  options.inflate_limit_n_bytes = LIMIT;
  ckpt_status status = ckpt_file_from_bytes(&file, "fuzz.gz", data, size, &options, &error);
  fuzz_expect_error(status, &error);
  if (status == CKPT_OK) {
    unsigned char *expected = malloc(LIMIT);
    fuzz_expect(expected != NULL);
    size_t n = inflate_members(expected, data, size);
    fuzz_expect(n == ckpt_file_size(file) && (n == 0 || memcmp(expected, ckpt_file_bytes(file), n) == 0));
    free(expected);
  }
  ckpt_file_close(file);
  return 0;
}
