#!/bin/sh
# One part of check.sh, which runs it with a time limit. usage: parts.sh PART BUILD WORK [ARGUMENT...]
# 77: something that it needs is not there; the last line says what.
set -u
name=$1 build=$2 work=$3
shift 3
python=/usr/bin/python3
[ -x "$python" ] || python=$(command -v python3 || echo)
# The first word: CC may have options.
has() { command -v "${1%% *}" > /dev/null 2>&1; }

# ---- the machine -------------------------------------------------------------------------------------------------

# cmocka.h wants others before it.
has_header() {
  printf '#include <%s>\n' stdarg.h stddef.h setjmp.h stdint.h stdio.h "$1" | ${CC:-gcc} -fsyntax-only -x c - 2> /dev/null
}

print_missing() {
  missing=
  for tool in "${CC:-gcc}" make git timeout "${python:-python3}" nvidia-smi; do has "$tool" || missing="$missing $tool"; done
  if has "${CC:-gcc}"; then
    for header in jansson.h openssl/evp.h zlib.h curl/curl.h expat.h sqlite3.h cmocka.h mpfr.h gmp.h; do
      has_header "$header" || missing="$missing $header"
    done
    for header in cuda.h nvrtc.h cublas_v2.h cublasLt.h cudnn_backend.h; do
      [ -e "${CUDA_HOME:-/usr/local/cuda}/include/$header" ] || [ -e "${CUDNN_HOME:-/usr}/include/$header" ] || has_header "$header" || missing="$missing $header"
    done
  fi
  for module in numpy jsonschema; do "${python:-false}" -c "import $module" 2> /dev/null || missing="$missing python3:$module"; done
  echo "- missing:${missing:- nothing that was looked for}"
  [ -e "$work/found" ] && sed 's/^/- not of the loader, found: /' "$work/found"
  return 0
}

machine() {
  echo "- processor: $(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1), $(nproc) of them; memory $(sed -n 's/^MemTotal: *//p' /proc/meminfo)"
  echo "- system: $(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release), kernel $(uname -r)"
  echo "- compiler: $(${CC:-gcc} --version 2> /dev/null | head -n 1)"
  print_missing
  if [ -z "${CUDASIM_SETTINGS:-}" ] && has nvidia-smi; then
    printf '\n```text\n'
    nvidia-smi --query-gpu=name,driver_version,vbios_version,memory.total,memory.used,clocks.max.sm,clocks.max.mem,power.limit,ecc.mode.current,mig.mode.current,persistence_mode,temperature.gpu,utilization.gpu --format=csv 2>&1
    nvidia-smi --query-compute-apps=pid,used_memory --format=csv 2>&1
    printf '```\n'
  fi
}

# ---- the parts ---------------------------------------------------------------------------------------------------

# Without the libraries of the tools, what needs libsexp alone is still built.
make_all() {
  has make || {
    echo 'skipped: there is no make'
    return 77
  }
  ${MAKE:-make} -k -j"$(nproc 2> /dev/null || echo 2)" BUILD="$build" all gpu > "$work/make" 2>&1
  status=$?
  grep -m 1 '^sexpgpu ' "$work/make"
  [ $status = 0 ] || {
    printf '\n```text\n'
    grep -E 'error:|Error|undefined|No such file' "$work/make" | awk '!seen[$0]++' | head -n 20 | cut -c1-300
    printf '```\n'
  }
  for program in bin/sexpgpu-run test/gpu/check_operations test/gpu/check_facts test/bench/bench_device; do
    [ -x "$build/$program" ] || printf '\n%s was not built.\n' "$program"
  done
  return $status
}

# program PATH ARGUMENT...: of the build, unless it is not there.
program() {
  [ -x "$build/$1" ] || {
    echo "skipped: $1 was not built"
    return 77
  }
  path=$build/$1
  shift
  "$path" "$@"
}

script() {
  [ -n "$python" ] || {
    echo 'skipped: there is no python3'
    return 77
  }
  [ -x "$build/bin/sexpgpu-run" ] || {
    echo 'skipped: bin/sexpgpu-run was not built'
    return 77
  }
  "$python" "$@"
}

facts() {
  program test/gpu/check_facts || return $?
  [ -x "$build/bin/sexpgpu-doctor" ] || return 0
  printf '\n```text\n'
  "$build/bin/sexpgpu-doctor" 2>&1
  printf '```\n'
}

# Suites of cmocka that work with the real libraries.
suites() {
  has_header cmocka.h || {
    echo 'skipped: there is no cmocka.h'
    return 77
  }
  [ -L "$build/test" ] || {
    echo 'skipped: nothing was built'
    return 77
  }
  objects=$build/$(readlink "$build/test")
  bad=0 good=0
  echo '| suite | result |'
  echo '| --- | --- |'
  for suite in test_cuda_library test_cudnn_facts test_cudnn_select test_cudnn_pin test_cudnn_choices; do
    ${MAKE:-make} -j"$(nproc)" BUILD="$build" "$objects/unit/$suite" > "$work/make" 2>&1 || {
      echo "| $suite | not built: $(grep -m 1 -E 'error|Error' "$work/make" | tr '|' '/' | cut -c1-200) |"
      bad=$((bad + 1))
      continue
    }
    if "$objects/unit/$suite" > "$work/suite" 2>&1; then
      good=$((good + 1))
      echo "| $suite | $(grep -c '^\[       OK' "$work/suite") passed $(grep -m 1 '^skipped' "$work/suite") |"
    else
      bad=$((bad + 1))
      echo "| $suite | FAILED: $(grep -v '^\[' "$work/suite" | head -n 3 | tr '|\n' '/ ' | cut -c1-300) |"
    fi
  done
  printf '\n%s passed, %s failed\n' $good $bad
  [ $bad = 0 ]
}

case $name in
  machine | make_all | facts | program | script | suites) "$name" "$@" ;;
  *) exit 2 ;;
esac
