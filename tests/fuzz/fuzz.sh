#!/bin/sh
# Fuzzes each harness in turn with clang's libFuzzer, AddressSanitizer and UBSan.
# usage: fuzz.sh DIR SECONDS HARNESS...   findings and new inputs go to DIR; exit 1 when something was found.
set -u
cd "$(dirname "$0")/../.."
dir=$1 seconds=$2
shift 2
make --no-print-directory fuzzers CC=clang BUILD="$dir/objects" OPTIMIZE=-O1 \
  SANITIZE=address,undefined CFLAGS=-fsanitize=fuzzer-no-link || exit 1
found=0
for harness; do
  name=${harness#fuzz_}
  program=$(find "$dir/objects" -path "*/fuzz/$harness" -type f -perm -u+x ! -path '*/tests/*' | head -n 1)
  mkdir -p "$dir/$name"
  echo "$harness, $seconds s"
  "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -artifact_prefix="$dir/$harness-" \
    -print_final_stats=1 "$dir/$name" "tests/fuzz/corpus/$name" > "$dir/$harness.log" 2>&1 || { found=1; tail -n 30 "$dir/$harness.log"; }
  grep -E 'stat::number_of_executed_units' "$dir/$harness.log"
done
exit $found
