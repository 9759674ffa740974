#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "../common/cmocka_all.h"
#include "../common/scratch.h"

/* A zip archive, made field by field so that each can be made wrong. */
typedef struct zip_part {
  const char *name;
  bytes content; /* inflated */
  bool deflate, zip64;
  size_t local, central; /* where its headers stand */
} zip_part;

typedef struct archive {
  bytes file;
  size_t directory, end;
} archive;

static bytes npy(uint8_t first, size_t n) {
  static const char format[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (%zu,)}";
  char dictionary[128];
  bytes file = {0};
  int length = snprintf(dictionary, sizeof dictionary, format, n);
  put(&file, "\x93NUMPY\x01\x00", 8);
  put_le(&file, (uint64_t)length, 2);
  put(&file, dictionary, (size_t)length);
  for (size_t i = 0; i < n; i++) put_le(&file, (uint8_t)(first + i), 1);
  return file;
}

static bytes deflated(const bytes *content) {
  bytes out = {0};
  unsigned char room[4096];
  z_stream stream = {0};
  assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = content->data;
  stream.avail_in = (uInt)content->n;
  stream.next_out = room;
  stream.avail_out = sizeof room;
  assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
  put(&out, room, sizeof room - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

static void put_fields(bytes *to, const zip_part *part, size_t packed, bool central) {
  uint32_t crc = (uint32_t)crc32(0, part->content.data, (uInt)part->content.n);
  put_le(to, central ? 0x02014b50 : 0x04034b50, 4);
  if (central) put_le(to, 45, 2);
  put_le(to, 45, 2);                    /* version needed */
  put_le(to, 0, 2);                     /* flags */
  put_le(to, part->deflate ? 8 : 0, 2); /* method */
  put_le(to, 0, 4);                     /* time, date */
  put_le(to, crc, 4);
  put_le(to, part->zip64 ? 0xffffffff : packed, 4);
  put_le(to, part->zip64 ? 0xffffffff : part->content.n, 4);
  put_le(to, strlen(part->name), 2);
  put_le(to, part->zip64 ? (central ? 28 : 20) : 0, 2);
  if (central) put_le(to, 0, 2 + 2 + 2 + 4); /* comment, disk, attributes */
  if (central) put_le(to, part->zip64 ? 0xffffffff : part->local, 4);
  put(to, part->name, strlen(part->name));
  if (!part->zip64) return;
  put_le(to, 1, 2);
  put_le(to, central ? 24 : 16, 2);
  put_le(to, part->content.n, 8);
  put_le(to, packed, 8);
  if (central) put_le(to, part->local, 8);
}

static archive make_zip(zip_part *parts, size_t n, bool zip64_end) {
  archive out = {0};
  size_t packed[8];
  for (size_t i = 0; i < n; i++) {
    bytes data = {0};
    if (parts[i].deflate)
      data = deflated(&parts[i].content);
    else
      put(&data, parts[i].content.data, parts[i].content.n);
    parts[i].local = out.file.n;
    packed[i] = data.n;
    put_fields(&out.file, &parts[i], packed[i], false);
    put(&out.file, data.data, data.n);
    bytes_free(&data);
  }
  out.directory = out.file.n;
  for (size_t i = 0; i < n; i++) {
    parts[i].central = out.file.n;
    put_fields(&out.file, &parts[i], packed[i], true);
  }
  size_t n_directory = out.file.n - out.directory, end64 = out.file.n;
  if (zip64_end) {
    put_le(&out.file, 0x06064b50, 4);
    put_le(&out.file, 44, 8);
    put_le(&out.file, 45 | 45 << 16, 4);
    put_le(&out.file, 0, 8);
    put_le(&out.file, n, 8);
    put_le(&out.file, n, 8);
    put_le(&out.file, n_directory, 8);
    put_le(&out.file, out.directory, 8);
    put_le(&out.file, 0x07064b50, 4);
    put_le(&out.file, 0, 4);
    put_le(&out.file, end64, 8);
    put_le(&out.file, 1, 4);
  }
  out.end = out.file.n;
  put_le(&out.file, 0x06054b50, 4);
  put_le(&out.file, 0, 4);
  put_le(&out.file, zip64_end ? 0xffff : n, 2);
  put_le(&out.file, zip64_end ? 0xffff : n, 2);
  put_le(&out.file, zip64_end ? 0xffffffff : n_directory, 4);
  put_le(&out.file, zip64_end ? 0xffffffff : out.directory, 4);
  put_le(&out.file, 0, 2);
  return out;
}

static ckpt_status open_zip(ckpt_tensors **tensors, const bytes *file, ckpt_error *error) {
  scratch_write(scratch("t.npz"), file->data, file->n);
  return ckpt_tensors_open(tensors, scratch("t.npz"), NULL, error);
}

/* Two members, the second deflated. */
static archive two_members(zip_part parts[2], bool zip64) {
  parts[0] = (zip_part){.name = "b.npy", .content = npy(10, 5), .zip64 = zip64};
  parts[1] = (zip_part){.name = "a.npy", .content = npy(1, 300), .deflate = true, .zip64 = zip64};
  return make_zip(parts, 2, zip64);
}

static void free_all(archive *zip, zip_part *parts, size_t n) {
  bytes_free(&zip->file);
  for (size_t i = 0; i < n; i++) bytes_free(&parts[i].content);
}

static void reads_members(void **state) {
  (void)state;
  for (int zip64 = 0; zip64 < 2; zip64++) {
    zip_part parts[2];
    archive zip = two_members(parts, zip64);
    ckpt_tensors *tensors = NULL;
    ckpt_error error;
    put(&zip.file, "a comment", 9);
    zip.file.data[zip.end + 20] = 9;
    expect_ok(open_zip(&tensors, &zip.file, &error), &error);
    assert_int_equal(ckpt_tensors_count(tensors), 2);
    const ckpt_tensor *a = ckpt_tensors_at(tensors, 0), *b = ckpt_tensors_at(tensors, 1);
    assert_string_equal(a->name, "a");
    assert_string_equal(b->name, "b");
    assert_true(a->offset == -1 && b->offset > 0 && a->n_bytes == 300 && b->n_bytes == 5);
    unsigned char value[3];
    expect_ok(ckpt_tensors_read(value, tensors, a, 297, 3, &error), &error);
    assert_memory_equal(value, "\x2a\x2b\x2c", 3);
    expect_ok(ckpt_tensors_read(value, tensors, b, 0, 3, &error), &error);
    assert_memory_equal(value, "\x0a\x0b\x0c", 3);
    ckpt_tensors_close(tensors);
    free_all(&zip, parts, 2);
  }
}

static void empty_archive(void **state) {
  (void)state;
  archive zip = make_zip(NULL, 0, false);
  ckpt_tensors *tensors = NULL;
  ckpt_error error;
  expect_ok(open_zip(&tensors, &zip.file, &error), &error);
  assert_int_equal(ckpt_tensors_count(tensors), 0);
  ckpt_tensors_close(tensors);
  bytes_free(&zip.file);
}

/* Every byte of an archive flipped: it is refused, or gives the same tensors (times, attributes and the like). */
static void flipped_bits(void **state) {
  (void)state;
  zip_part parts[2];
  archive zip = two_members(parts, false);
  size_t n_refused = 0;
  for (size_t i = 0; i < zip.file.n; i++) {
    ckpt_tensors *tensors = NULL;
    ckpt_error error;
    zip.file.data[i] ^= 0x10;
    if (open_zip(&tensors, &zip.file, &error) != CKPT_OK) {
      n_refused++;
    } else {
      unsigned char value[5];
      assert_int_equal(ckpt_tensors_count(tensors), 2);
      expect_ok(ckpt_tensors_read(value, tensors, ckpt_tensors_at(tensors, 1), 0, 5, &error), &error);
      assert_memory_equal(value, "\x0a\x0b\x0c\x0d\x0e", 5);
      ckpt_tensors_close(tensors);
    }
    zip.file.data[i] ^= 0x10;
  }
  assert_true(n_refused > zip.file.n / 2);
  free_all(&zip, parts, 2);
}

static void truncated_at_every_byte(void **state) {
  (void)state;
  zip_part parts[2];
  archive zip = two_members(parts, true);
  size_t n = zip.file.n;
  for (zip.file.n = 0; zip.file.n < n; zip.file.n++) {
    ckpt_tensors *tensors = NULL;
    ckpt_error error;
    expect_error(open_zip(&tensors, &zip.file, &error), &error, "E-DATA-140", "end of a zip archive");
  }
  free_all(&zip, parts, 2);
}

static void expect_changed(size_t offset, uint64_t value, size_t n, archive *zip, const char *code, const char *word) {
  unsigned char kept[8];
  ckpt_tensors *tensors = NULL;
  ckpt_error error;
  memcpy(kept, zip->file.data + offset, n);
  for (size_t i = 0; i < n; i++) zip->file.data[offset + i] = (unsigned char)(value >> (8 * i));
  expect_error(open_zip(&tensors, &zip->file, &error), &error, code, word);
  memcpy(zip->file.data + offset, kept, n);
}

static void contradictions(void **state) {
  (void)state;
  zip_part parts[2];
  archive zip = two_members(parts, false);
  size_t local = parts[1].local, central = parts[1].central, end = zip.end;
  expect_changed(end + 4, 1, 2, &zip, "E-DATA-140", "single part");
  expect_changed(end + 8, 3, 2, &zip, "E-DATA-140", "single part");
  expect_changed(end + 12, 1, 4, &zip, "E-DATA-140", "to end here");
  expect_changed(end + 16, 0x7fffffff, 4, &zip, "E-DATA-140", "to end here");
  expect_changed(end + 16, 0xffffffff, 4, &zip, "E-DATA-140", "zip64");
  expect_changed(end + 8, 0x00010001, 4, &zip, "E-DATA-140", "after its last member");
  expect_changed(end + 8, 0x00030003, 4, &zip, "E-DATA-140", "members");
  expect_changed(central, 0, 4, &zip, "E-DATA-140", "entry of the central directory");
  expect_changed(central + 28, 0xffff, 2, &zip, "E-DATA-140", "ends within");
  expect_changed(central + 8, 1, 2, &zip, "E-DATA-141", "says the same");
  expect_changed(central + 10, 9, 2, &zip, "E-DATA-141", "says the same");
  expect_changed(central + 20, 5, 4, &zip, "E-DATA-141", "same sizes");
  expect_changed(central + 42, 0x7ffffff0, 4, &zip, "E-DATA-141", "before the central directory");
  expect_changed(central + 42, parts[0].local, 4, &zip, "E-DATA-141", "says the same");
  expect_changed(local, 0, 4, &zip, "E-DATA-141", "says the same");
  expect_changed(local + 14, 1, 4, &zip, "E-DATA-141", "CRC");
  expect_changed(local + 30, 'c', 1, &zip, "E-DATA-141", "same name");
  expect_changed(central + 46, 0, 1, &zip, "E-DATA-141", ".npy");
  expect_changed(central + 48, 'x', 1, &zip, "E-DATA-141", ".npy");
  expect_changed(parts[0].local + 30 + 5 + 66, 0xff, 1, &zip, "E-DATA-141", "CRC-32");
  expect_changed(local + 30 + 5, 0x07, 1, &zip, "E-DATA-141", "damaged");
  expect_changed(local + 26, 0xff, 2, &zip, "E-DATA-141", "says the same");
  expect_changed(local + 28, 0xffff, 2, &zip, "E-DATA-141", "before the central directory");
  free_all(&zip, parts, 2);
}

/* Both headers changed alike. */
static void impossible_members(void **state) {
  (void)state;
  static const struct {
    size_t local, central, n;
    uint64_t value;
    const char *code, *word;
  } cases[] = {
      {6, 8, 2, 1, "E-DATA-141", "encryption"},
      {8, 10, 2, 12, "E-DATA-141", "stored or deflated"},
      {22, 24, 4, 0x7fffffff, "E-DATA-141", "possible size"},
      {22, 24, 4, 20, "E-DATA-141", "inflates to"},
      {22, 24, 4, 2000, "E-DATA-141", "of the size told"},
      {18, 20, 4, 30, "E-DATA-141", "complete deflate stream"},
      {14, 16, 4, 7, "E-DATA-141", "expected CRC-32 00000007"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    zip_part parts[2];
    archive zip = two_members(parts, false);
    for (size_t b = 0; b < cases[i].n; b++)
      zip.file.data[parts[1].local + cases[i].local + b] = (unsigned char)(cases[i].value >> (8 * b));
    expect_changed(parts[1].central + cases[i].central, cases[i].value, cases[i].n, &zip, cases[i].code, cases[i].word);
    free_all(&zip, parts, 2);
  }
}

static void overlapping_members(void **state) {
  (void)state;
  zip_part parts[2] = {{.name = "a.npy", .content = npy(1, 200)}, {.name = "b.npy", .content = npy(1, 4)}};
  bytes inner = {0};
  put(&inner, parts[0].content.data, 78); /* an .npy whose elements hold the second member */
  archive plain = make_zip(parts + 1, 1, false);
  memcpy(parts[0].content.data + 80, plain.file.data, plain.directory);
  archive zip = make_zip(parts, 2, false);
  size_t inside = parts[0].local + 30 + 5 + 80;
  expect_changed(parts[1].central + 42, inside, 4, &zip, "E-DATA-141", "after the one before");
  bytes_free(&inner);
  bytes_free(&plain.file);
  free_all(&zip, parts, 2);
}

static void limits(void **state) {
  (void)state;
  zip_part parts[2];
  archive zip = two_members(parts, false);
  ckpt_tensors *tensors = NULL;
  ckpt_error error;
  ckpt_read_options options = CKPT_READ_OPTIONS;
  options.inflate_limit_n_bytes = 100;
  scratch_write(scratch("t.npz"), zip.file.data, zip.file.n);
  expect_error(ckpt_tensors_open(&tensors, scratch("t.npz"), &options, &error), &error, "E-DATA-113",
               "at most 100 bytes");
  free_all(&zip, parts, 2);
}

static void repeated_names(void **state) {
  (void)state;
  zip_part parts[2] = {{.name = "a.npy", .content = npy(1, 4)}, {.name = "a.npy", .content = npy(1, 4)}};
  archive zip = make_zip(parts, 2, false);
  ckpt_tensors *tensors = NULL;
  ckpt_error error;
  expect_error(open_zip(&tensors, &zip.file, &error), &error, "E-DATA-152", "'a' stands twice");
  free_all(&zip, parts, 2);
}

static void member_that_is_no_npy(void **state) {
  (void)state;
  zip_part part = {.name = "a.npy", .deflate = true};
  put(&part.content, "no npy at all", 13);
  archive zip = make_zip(&part, 1, false);
  ckpt_tensors *tensors = NULL;
  ckpt_error error;
  expect_error(open_zip(&tensors, &zip.file, &error), &error, "E-DATA-130", "array 'a': expected the magic");
  free_all(&zip, &part, 1);
}

static void reads_what_numpy_writes(void **state) {
  (void)state;
  static const char program[] =
      "a = np.arange(100000, dtype='<f4').reshape(100, 1000)\n"
      "b = np.asfortranarray(np.arange(6).reshape(2, 3))\n"
      "np.savez('s.npz', a=a, b=b)\n"
      "np.savez_compressed('d.npz', a=a, b=b)\n";
  if (!scratch_numpy(program)) skip();
  for (int i = 0; i < 2; i++) {
    ckpt_tensors *tensors = NULL;
    ckpt_error error;
    expect_ok(ckpt_tensors_open(&tensors, scratch(i ? "d.npz" : "s.npz"), NULL, &error), &error);
    assert_int_equal(ckpt_tensors_count(tensors), 2);
    float value;
    expect_ok(ckpt_tensors_read(&value, tensors, ckpt_tensors_at(tensors, 0), 99999, 1, &error), &error);
    assert_true(value > 99998.5f && value < 99999.5f);
    int64_t b[6];
    expect_ok(ckpt_tensors_read(b, tensors, ckpt_tensors_at(tensors, 1), 0, 6, &error), &error);
    for (int k = 0; k < 6; k++) assert_int_equal(b[k], k);
    ckpt_tensors_close(tensors);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_members),
      cmocka_unit_test(empty_archive),
      cmocka_unit_test(flipped_bits),
      cmocka_unit_test(truncated_at_every_byte),
      cmocka_unit_test(contradictions),
      cmocka_unit_test(impossible_members),
      cmocka_unit_test(overlapping_members),
      cmocka_unit_test(limits),
      cmocka_unit_test(repeated_names),
      cmocka_unit_test(member_that_is_no_npy),
      cmocka_unit_test(reads_what_numpy_writes),
  };
  return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
