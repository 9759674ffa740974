#!/bin/sh
# Trains the Fashion-MNIST example, and says whether it reached 85 % of the test images.
# usage: demo.sh BIN_DIR
set -eu
examples=$(cd "$(dirname "$0")" && pwd)
bin=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
echo "training examples/fashion/fashion.sexp, a small convolutional network, on Fashion-MNIST"
start=$(date +%s)
"$bin/sexpgpu-run" "$examples/fashion/fashion.sexp" --metrics "jsonl:$out/metrics.jsonl"
seconds=$(($(date +%s) - start))
accuracy=$(sed -n 's/.*"name": *"eval\/test\/accuracy".*"value": *\([0-9.e-]*\).*/\1/p' "$out/metrics.jsonl" | tail -n 1)
awk -v a="${accuracy:-0}" -v s="$seconds" 'BEGIN {
  printf "test accuracy %.1f %% after %d s: %s 85 %%\n", 100 * a, s, (a > 0.85 ? "over" : "NOT over")
  exit !(a > 0.85)
}'
