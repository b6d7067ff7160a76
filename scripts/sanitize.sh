#!/usr/bin/env bash
# The kernels and the host executor once more: built by clang, with AddressSanitizer and
# UndefinedBehaviorSanitizer, into build-sanitize/. Installs what is missing.
#   scripts/sanitize.sh
set -euo pipefail
usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"; }
case "$#:${1:-}" in
  0:) ;;
  1:-h | 1:--help) usage; exit 0 ;;
  *) echo "sanitize: expected no argument, found $*" >&2; usage >&2; exit 2 ;;
esac
cd "$(dirname "$0")/.."
scripts/setup.sh clang libclang-rt-dev libomp-dev
programs=(tests_simt tests_kernels_cuda tests_kernels)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# -O1 to compile sooner; without NDEBUG, so that asserts hold too.
cmake -S . -B build-sanitize -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DGENESIS_CUDA=OFF -DGENESIS_BENCH=OFF \
  -DGENESIS_WERROR=ON -DGENESIS_SANITIZE=address,undefined -DCMAKE_CXX_FLAGS_RELEASE=-O1 \
  >"$log" 2>&1 || { cat "$log"; exit 1; }
cmake --build build-sanitize --target "${programs[@]}"
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
echo leak:libomp >build-sanitize/not_ours.txt
export LSAN_OPTIONS=suppressions=$PWD/build-sanitize/not_ours.txt
for program in "${programs[@]}"; do
  echo "sanitize: $program"
  build-sanitize/bin/"$program"
done
