#!/bin/sh
# Writes the King James text, one verse a line, to build/data/king-james.txt (or the path given).
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
to=${1:-$top/build/data/king-james.txt}
[ ! -s "$to" ] || exit 0
mkdir -p "$(dirname "$to")"
bible -f gen1:1-rev22:21 < /dev/null > "$to.part"
mv "$to.part" "$to"
