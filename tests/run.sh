#!/bin/sh
# Runs every test of the build in BUILD and ends with one line "N passed, N failed".
# usage: run.sh BUILD [PATTERN]   only the suites whose name holds PATTERN. QUICK=1 leaves out the long matrices,
# QUICK=small the large examples and the simulated device too; QUICK=tools shortens what no compiler changes, kills and
# faults, and keeps the rest.
set -u
cd "$(dirname "$0")/.."
build=$1
pattern=${2:-}
programs=$build/test
log=$build/test-logs
mkdir -p "$log"
counts=$(mktemp)
trap 'rm -f "$counts"' EXIT
QUICK=${QUICK:-}
python=/usr/bin/python3 # the one that has the packages of dependencies.sh
[ -x "$python" ] || python=python3
export QUICK
export ASAN_OPTIONS="${ASAN_OPTIONS:-allocator_may_return_null=1}"

# count NAME STATUS: adds what a suite's log says; a suite that says nothing counts as one test.
count() {
  good=$(grep -c '^\[       OK \]' "$log/$1")
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log/$1" | tail -n 1)
  if [ -n "$line" ]; then
    good=$(echo "$line" | sed 's/ passed.*//')
    bad=$(echo "$line" | sed 's/.*passed, \([0-9]*\) failed.*/\1/')
  else
    bad=$(grep -c '^\[  FAILED  \] [a-z0-9_]*$' "$log/$1")
    bad=$((bad / 2))
  fi
  [ "$2" = 0 ] || [ "$bad" -gt 0 ] || bad=1
  [ "$good" -gt 0 ] || [ "$bad" -gt 0 ] || good=1
  echo "$good $bad" >> "$counts"
  if [ "$bad" = 0 ]; then
    printf '  ok    %-32s %4d   %4d s\n' "$1" "$good" "$3"
    grep '^skipped' "$log/$1" | sed 's/^/        /'
  else
    printf '  FAIL  %-32s %4d of %d failed (%s/%s)\n' "$1" "$bad" $((good + bad)) "$log" "$1"
    grep -vE '^\[ (RUN|      OK)' "$log/$1" | tail -n 25 | sed 's/^/        /'
  fi
}

# What a build with QUICK leaves out whole: suites of the device that run tools for long and find what no compiler and no
# sanitizer changes; with threads watched, the simulated device and long suites of one thread.
left_out() {
  case $QUICK:$1 in
    :*) return 1 ;;
    *:cli-test_levels | *:cli-test_gpu_check | *:cli-test_ptx | *:cli-test_stacking | *:cli-test_probes | *:cli-test_cudasim_cudnn) return 0 ;;
    small:cli-test_device | small:cli-test_cudasim*) return 0 ;;
    small:unit-test_lang_* | small:unit-test_recompute | small:unit-test_stack | small:unit-test_ckpt_safetensors_*) return 0 ;;
    small:oom-* | small:pass-* | small:lang-*) return 0 ;;
  esac
  return 1
}

suite() {
  name=$1
  shift
  case $name in *"$pattern"*) ;; *) return ;; esac
  left_out "$name" && return
  begin=$(date +%s)
  "$@" > "$log/$name" 2>&1
  said=$(count "$name" $? $(($(date +%s) - begin)))
  printf '%s\n' "$said"
}

programs() {
  for kind in unit op pass lang run oom; do
    for program in "$programs/$kind"/test_*; do
      case $program in *.o | *.d) continue ;; esac
      [ -x "$program" ] && suite "$kind-$(basename "$program")" "$program"
    done
  done
  [ -x "$programs/pass/run_pass" ] && suite pass-files "$programs/pass/run_pass" tests/pass
  [ -x "$programs/lang/evaluate" ] && suite lang-files "$python" tests/lang/run.py "$programs/lang/evaluate"
  for harness in "$programs"/fuzz/fuzz_*; do
    case $harness in *.o | *.d) continue ;; esac
    name=$(basename "$harness")
    suite "corpus-$name" "$harness" "tests/fuzz/corpus/${name#fuzz_}"
  done
}

run_script() { suite "$(basename "$(dirname "$1")")-$(basename "$1" .py)" "$python" "$1" "$build"; }

# Scripts of the device that go with the programs: they compute, as those do.
computing='tests/cli/test_device.py tests/cli/test_levels.py tests/cli/test_probes.py tests/cli/test_ptx.py'

scripts() {
  suite structure "$python" tests/structure/check.py "$build"
  for script in tests/cli/test_*.py tests/run/test_*.py; do
    case " $computing " in *" $script "*) continue ;; esac
    run_script "$script"
  done
}

# The programs beside the scripts, which wait for servers, disks and timers much of their time.
{
  programs
  for script in $computing; do run_script "$script"; done
} &
scripts
wait
awk '{ passed += $1; failed += $2 } END { printf "%d passed, %d failed\n", passed, failed; exit failed > 0 }' "$counts"
