#!/bin/sh
# embed.sh math.h draws.h device.cuh arrays.cuh > kernels.c: the texts of kernels that are written by hand (see emit.h).
set -eu
export LC_ALL=C
bytes() { sed '/^#include "math.h"$/d' "$@" | od -An -v -tu1 | sed -e 's/  *\([0-9][0-9]*\)/\1,/g'; }
printf '/* Made by embed.sh. */\n#include "emit.h"\n\nconst char sx_emit_prelude[] = {\n'
bytes "$1" "$2" "$3"
printf '0};\n\nconst char sx_emit_arrays[] = {\n'
bytes "$4"
printf '0};\n'
