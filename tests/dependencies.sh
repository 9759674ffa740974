#!/bin/sh
# Installs what the named purposes need (build test demo bench fuzz): Debian and Ubuntu packages, when a
# package is missing. Elsewhere, or without the right to install, it prints the list and fails.
set -eu

packages() {
  for purpose; do
    case $purpose in
    build) echo gcc make libc6-dev libjansson-dev zlib1g-dev libssl-dev libcurl4-openssl-dev libexpat1-dev libsqlite3-dev ;;
    test) echo libcmocka-dev libmpfr-dev libgmp-dev python3 python3-numpy python3-jsonschema python3-swift openssl jq man-db \
      dataset-fashion-mnist bible-kjv bible-kjv-text ;;
    demo) echo dataset-fashion-mnist ;;
    bench) echo libopenblas0-pthread libopenblas0-openmp libblis4-pthread libblis4-openmp libdnnl2 libtcmalloc-minimal4 \
      python3-numpy python3-torch ;;
    fuzz) echo clang libclang-rt-14-dev ;;
    clang) echo clang libclang-rt-14-dev ;;
    style) echo clang-format clang-tidy ;;
    *) echo "dependencies.sh: unknown purpose $purpose" >&2; exit 2 ;;
    esac
  done
}

wanted=$(packages "$@")
if ! command -v dpkg-query > /dev/null; then
  echo "sexpgpu needs these packages (their Debian names); install what is missing: $(echo $wanted)"
  exit 0
fi
missing=
for package in $wanted; do
  dpkg-query -W -f '${Status}' "$package" 2> /dev/null | grep -q '^install ok installed$' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

echo "installing$missing"
as_root=
if [ "$(id -u)" != 0 ]; then
  command -v sudo > /dev/null || {
    echo "no right to install; run as root: apt-get install$missing" >&2
    exit 1
  }
  as_root=sudo
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
{ $as_root apt-get -q update && $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
  -o DPkg::Lock::Timeout=300 install --no-install-recommends $missing; } > "$log" 2>&1 || {
  tail -n 20 "$log" >&2
  echo "could not install$missing" >&2
  exit 1
}
