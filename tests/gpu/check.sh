#!/bin/sh
# Everything that a machine with a card can tell, in one report: builds, runs the device suite and benchmarks.
# usage: check.sh [--build DIR] [--report FILE] [--seconds N] [--short] [--no-make] [--only PART]...
# In less than eight minutes (--seconds 460). The report is docs/gpu/<card>-<date>.md unless FILE is given; on a simulated
# card build/gpu/. Parts: machine build facts operations levels device steps suites. A part that fails, hangs or lacks
# something does not stop the others; one for which no time is left is said to be not reached.
# Exits 1 where a part failed, 77 where there is no device.
set -u
cd "$(dirname "$0")/../.." || exit 2
build=build
report=
seconds=460
short=
make=1
only=
usage() {
  sed -n '3s/^# //p' "$0" >&2
  exit 2
}
while [ $# -gt 0 ]; do
  case $1 in
    --build | --report | --seconds | --only) [ $# -ge 2 ] || usage ;;
  esac
  case $1 in
    --build) build=$2; shift ;;
    --report) report=$2; shift ;;
    --seconds) seconds=$2; shift ;;
    --only) only="$only $2"; shift ;;
    --short) short=--short ;;
    --no-make) make= ;;
    *) usage ;;
  esac
  shift
done
case $seconds in '' | *[!0-9]*) usage ;; esac

began=$(date +%s)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
simulated=${CUDASIM_SETTINGS:+ (simulated)}
card=unknown-card
title=
kept=
log=$work/log
: > "$work/summary"
: > "$work/sections"

has() { command -v "$1" > /dev/null 2>&1; }
left() { echo $((seconds - $(date +%s) + began)); }

# ---- the report --------------------------------------------------------------------------------------------------

# Written anew after every part, so that what is known is there whatever comes.
write_report() {
  path=$report
  if [ -z "$path" ]; then
    folder=docs/gpu
    [ -n "$simulated" ] && folder=$build/gpu
    path=$folder/$card-$(date -u +%Y-%m-%d).md
  fi
  mkdir -p "$(dirname "$path")"
  {
    echo "# ${title:-A card that is not known}$simulated, $(date -u +%Y-%m-%d)"
    echo
    [ -n "$simulated" ] && printf 'On a simulated card: its figures are none of a card, and its libraries are stand-ins.\n\n'
    echo "Commit $(git rev-parse HEAD 2> /dev/null || echo unknown)$(git diff --quiet HEAD 2> /dev/null || echo ', changed'); $(uname -sm); $(($(date +%s) - began)) of $seconds s."
    echo
    echo '| part | result | seconds |'
    echo '| --- | --- | --- |'
    cat "$work/summary"
    cat "$work/sections"
  } > "$work/report"
  cp "$work/report" "$path.part" && mv "$path.part" "$path"
  [ -z "$kept" ] || [ "$kept" = "$path" ] || rm -f "$kept"
  kept=$path
}

# say NAME RESULT SECONDS
say() {
  echo "| $1 | $2 | $3 |" >> "$work/summary"
  printf '  %-11s %s (%s s)\n' "$1" "$2" "$3"
}

bounded() {
  limit=$1
  shift
  if has timeout; then timeout -k 5 "$limit" "$@"; else "$@"; fi
}

# What a part said of itself: its counts, or its first words.
words_of() {
  counts=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
  grep -q '^skipped: ' "$log" && [ "$1" = 0 ] && set -- 77
  case $1 in
    0) echo "${counts:-done}" ;;
    77) echo "skipped: $(grep -v '^$' "$log" | tail -n 1 | sed 's/^skipped: //; s/|/\//g' | cut -c1-300)" ;;
    124 | 137) echo "FAILED: it did not end in $2 s" ;;
    *) echo "FAILED: ${counts:-$(grep -v '^$' "$log" | tail -n 1 | sed 's/|/\//g' | cut -c1-300)}" ;;
  esac
}

# part NAME LIMIT TITLE COMMAND...: runs it for LIMIT seconds, or what is left. The command's --seconds of @ is that.
part() {
  name=$1 limit=$2 heading=$3
  shift 3
  case " $only " in '  ' | *" $name "*) ;; *) return 0 ;; esac
  printf '\n## %s\n\n' "$heading" >> "$work/sections"
  if [ "$(left)" -lt 4 ]; then
    say "$name" "not reached: $seconds s were used up" 0
    echo 'Not reached.' >> "$work/sections"
    write_report
    return 1
  fi
  [ "$limit" -le "$(left)" ] || limit=$(left)
  start=$(date +%s)
  for argument; do
    shift
    [ "$argument" = @ ] && argument=$((limit > 8 ? limit - 4 : limit))
    set -- "$@" "$argument"
  done
  bounded "$limit" "$@" > "$log" 2> "$work/said"
  status=$?
  say "$name" "$(words_of $status "$limit")" $(($(date +%s) - start))
  cat "$log" >> "$work/sections"
  [ -s "$work/said" ] && {
    printf '\nIt said:\n\n```text\n'
    tail -n 30 "$work/said" | cut -c1-400
    printf '```\n'
  } >> "$work/sections"
  write_report
  [ $status = 0 ]
}

# ---- the machine -------------------------------------------------------------------------------------------------

search() { bounded 5 find "${CUDA_HOME:-/usr/local/cuda}/" /usr/local/ /usr/lib/ /opt/ "${HOME:-/root}/" -maxdepth 8 "$@" 2> /dev/null; }
# Folders above an include that has the header.
look_for() { search -name "$1" | sed -n 's|/include/[^/]*$||p'; }

# Adds the folders of libraries of CUDA that the loader does not find: of the toolkit, of Python's packages.
find_libraries() {
  [ -z "$simulated" ] || return 0
  for stem in libnvrtc.so libcublas.so libcublasLt.so libcudnn.so; do
    found=
    for file in $stem.13 $stem.12 $stem.9; do
      { /sbin/ldconfig -p 2> /dev/null || ldconfig -p 2> /dev/null; } | grep -q "[[:space:]]$file " && found=1
      for folder in $(echo "${LD_LIBRARY_PATH:-}" | tr : ' '); do [ -e "$folder/$file" ] && found=1; done
    done
    [ -z "$found" ] || continue
    file=$(search -name "$stem.13" -o -name "$stem.12" -o -name "$stem.9" | head -n 1)
    [ -n "$file" ] || continue
    LD_LIBRARY_PATH=$(dirname "$file")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
    echo "$file" >> "$work/found"
  done
}

has_headers() { [ -e "$1/include/cuda.h" ] && [ -e "$1/include/nvrtc.h" ] && [ -e "$1/include/cublas_v2.h" ]; }

# The headers: where the Makefile looks, else the first folder that has them all, a toolkit's or of Python's packages.
find_headers() {
  for home in "${CUDA_HOME:-/usr/local/cuda}" /usr/local/cuda-* /opt/cuda /usr; do has_headers "$home" && break; done
  has_headers "$home" || for home in $(look_for cublas_v2.h); do has_headers "$home" && break; done
  has_headers "$home" && CUDA_HOME=$home && export CUDA_HOME
  for home in "${CUDNN_HOME:-${CUDA_HOME:-}}" /usr/local /usr; do [ -e "$home/include/cudnn_backend.h" ] && return 0; done
  CUDNN_HOME=$(look_for cudnn_backend.h | head -n 1)
  if [ -n "$CUDNN_HOME" ]; then export CUDNN_HOME; else unset CUDNN_HOME; fi
}

# ---- the parts ---------------------------------------------------------------------------------------------------

find_libraries
find_headers
# step PART LIMIT TITLE FUNCTION ARGUMENT...
step() {
  part_name=$1 part_limit=$2 part_title=$3 part_function=$4
  shift 4
  part "$part_name" "$part_limit" "$part_title" sh tests/gpu/parts.sh "$part_function" "$build" "$work" "$@"
}
if [ -n "$short" ]; then cases='--cases 1 --graphs 2 --candidates 1'; else cases='--cases 6 --graphs 40'; fi

step machine 30 'The machine' machine
[ -n "$make" ] && step build 240 'Building' make_all
step facts 40 'What the card says of itself' facts
named=$(bounded 20 "$build/test/gpu/check_facts" --name 2> /dev/null)
absent=$?
if [ $absent = 0 ]; then
  title=$(echo "$named" | tail -n 1)
  card=$(echo "$title" | tr 'A-Z' 'a-z' | tr -cs 'a-z0-9\n' '-' | sed 's/-*$//')
fi
step operations 130 'Operations against the CPU' program test/gpu/check_operations --seconds @ $cases
step levels 130 'What runs rely on' script tests/gpu/check_levels.py "$build" --seconds @ $short
step device 100 'Benchmarks of the device' program test/bench/bench_device --seconds @ $short
step steps 110 'Whole training steps' script tests/bench/bench_device_steps.py "$build" --seconds @ $short
[ -n "$short" ] || step suites 90 'Suites that work with the real libraries' suites
write_report
echo "$kept"
[ $absent = 0 ] || exit 77
! grep -q '| FAILED' "$work/summary"
