#!/bin/sh
# embed.sh FILE... > prelude.c: the files as one table of texts (see prelude.h).
set -eu
export LC_ALL=C
printf '/* Made by embed.sh. */\n#include "prelude.h"\n\n'
n=0
for file in "$@"; do
  printf 'static const unsigned char text_%d[] = {' "$n"
  od -An -v -tu1 "$file" | sed -e 's/  *\([0-9][0-9]*\)/\1,/g'
  printf '0};\n\n'
  n=$((n + 1))
done
printf 'const sx_embedded sx_prelude[] = {\n'
n=0
for file in "$@"; do
  printf '    {"prelude/%s", (const char *)text_%d, sizeof text_%d - 1},\n' "$(basename "$file")" "$n" "$n"
  n=$((n + 1))
done
printf '};\nconst size_t sx_prelude_count = %d;\n' "$n"
