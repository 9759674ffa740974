#!/bin/sh
# Compiles and runs a program against an installed copy: headers, libraries and pkg-config files agree.
# usage: installed.sh ROOT (make install DESTDIR=ROOT PREFIX=/usr)
set -eu
root=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cat > "$out/a.c" <<'C'
#include <choices.h>
#include <ckpt.h>
#include <sexp.h>
#include <stdio.h>
int main(void) {
  char digest[CKPT_SHA256_TEXT];
  choices_store *store = NULL;
  const choices_store_options options = {.path = "choices.db", .access = CHOICES_READ};
  if (choices_store_open(&store, &options, NULL) != CHOICES_OK) return 1;
  choices_store_close(store);
  if (ckpt_sha256_bytes(digest, "abc", 3, NULL) != CKPT_OK) return 1;
  printf("%s\n%s\n", digest, sexp_error_codes(0)->code);
  return 0;
}
C
cflags="-I$root/usr/include" libs="-L$root/usr/lib"
for name in libsexp libckpt libchoices; do
  test -s "$root/usr/lib/pkgconfig/$name.pc"
  grep -q '^Version: [0-9]' "$root/usr/lib/pkgconfig/$name.pc"
done
cc $cflags "$out/a.c" -o "$out/shared" $libs -lsexp -lckpt -lchoices
LD_LIBRARY_PATH="$root/usr/lib" "$out/shared" | grep -q ba7816bf
cc $cflags "$out/a.c" -o "$out/static" "$root/usr/lib/libsexp.a" "$root/usr/lib/libckpt.a" "$root/usr/lib/libchoices.a" -lsqlite3 -ljansson -lz -lcurl -lexpat -lcrypto -lm -pthread
"$out/static" | grep -q E-
