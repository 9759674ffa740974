#!/bin/sh
# embed.sh schema.sql > schema.c: the steps of the schema as texts, one a version (see store.h).
set -eu
export LC_ALL=C
printf '/* Made by embed.sh. */\n#include "store.h"\n\nconst char *const ch_schema[] = {\n'
awk '
  /^-- version / { if (open) print "    ,"; open = 1; next }
  open { gsub(/\\/, "\\\\"); gsub(/"/, "\\\""); printf "    \"%s\\n\"\n", $0 }
' "$1"
printf '};\nconst int ch_schema_version = sizeof ch_schema / sizeof *ch_schema;\n'
