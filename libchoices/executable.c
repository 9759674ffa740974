/* What identifies an executable: the build-id that its linker wrote. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "choices.h"
#include "error.h"

enum { MOST_NOTE_BYTES = 65536, MOST_SEGMENTS = 256, MOST_ID_BYTES = 64 };

static size_t padded(size_t n) { return (n + 3) & ~(size_t)3; }

/* The id among the notes; false: it is none of them. */
static bool find_id(char room[CHOICES_BUILD_ID_TEXT], const unsigned char *notes, size_t n) {
  for (size_t at = 0; n - at >= sizeof(Elf64_Nhdr);) {
    Elf64_Nhdr note;
    memcpy(&note, notes + at, sizeof note);
    at += sizeof note;
    if (note.n_namesz > n - at || padded(note.n_namesz) > n - at) return false;
    const unsigned char *name = notes + at;
    at += padded(note.n_namesz);
    if (note.n_descsz > n - at) return false;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(name, "GNU", 4) == 0 && note.n_descsz > 0 &&
        note.n_descsz <= MOST_ID_BYTES) {
      for (size_t i = 0; i < note.n_descsz; i++) snprintf(room + 2 * i, 3, "%02x", notes[at + i]);
      return true;
    }
    if (padded(note.n_descsz) > n - at) return false;
    at += padded(note.n_descsz);
  }
  return false;
}

/* Of a 64-bit ELF file of this machine's byte order; others have none here. */
static bool read_id(char room[CHOICES_BUILD_ID_TEXT], int fd) {
  unsigned char notes[MOST_NOTE_BYTES];
  Elf64_Ehdr header;
  if (pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr))
    return false;
  for (int i = 0; i < header.e_phnum && i < MOST_SEGMENTS; i++) {
    Elf64_Phdr segment;
    off_t at = (off_t)(header.e_phoff + (uint64_t)i * sizeof segment);
    if (pread(fd, &segment, sizeof segment, at) != (ssize_t)sizeof segment) return false;
    if (segment.p_type != PT_NOTE || segment.p_filesz > sizeof notes) continue;
    if (pread(fd, notes, segment.p_filesz, (off_t)segment.p_offset) != (ssize_t)segment.p_filesz) return false;
    if (find_id(room, notes, segment.p_filesz)) return true;
  }
  return false;
}

choices_status choices_executable_read(choices_executable *out, char room[CHOICES_BUILD_ID_TEXT], const char *path,
                                       choices_error *error) {
  struct stat facts;
  *out = (choices_executable){0};
  room[0] = 0;
  ch_error_clear(error);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ch_fail(error, CH_E_RECORD_READ, path, errno, "it cannot be opened");
  bool known = fstat(fd, &facts) == 0;
  int failed = known ? 0 : errno;
  if (known) *out = (choices_executable){NULL, (int64_t)facts.st_size, (int64_t)facts.st_mtime};
  if (known && read_id(room, fd)) out->build_id = room;
  close(fd);
  return known ? CHOICES_OK : ch_fail(error, CH_E_RECORD_READ, path, failed, "its size cannot be read");
}

void choices_executable_identity(char out[CHOICES_IDENTITY_TEXT], const choices_executable *executable) {
  if (executable->build_id)
    snprintf(out, CHOICES_IDENTITY_TEXT, "build-id %.*s", CHOICES_BUILD_ID_TEXT - 1, executable->build_id);
  else
    snprintf(out, CHOICES_IDENTITY_TEXT, "size %" PRId64 " modified %" PRId64, executable->n_bytes,
             executable->modified_s);
}
