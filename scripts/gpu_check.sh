#!/usr/bin/env bash
# All that only a GPU can show, in one call, within 8 minutes and without a network: builds for the GPU that is
# here, runs the kernels' and ops' tests on it (kernels also under graph capture), trains, runs bench_kernels, and
# compute-sanitizer over a short list. A part that fails leaves the others' results.
#
#   scripts/gpu_check.sh [--output DIR]      the report and the parts' logs; build-gpu/report without it
#                        [--packages DIR]    libraries as scripts/setup.sh --download saved them, instead of
#                                            installed ones
#                        [--baseline FILE]   fractions of an earlier bench.json that must still be reached
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd) || exit

usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"; }
refuse() {
  echo "gpu_check: $*" >&2
  exit 2
}

output=$root/build-gpu/report packages="" baseline=""
while [ $# -gt 0 ]; do
  case "$1:${2:-}" in
    --output:?*) output=$2 ;;
    --packages:?*) packages=$(realpath -e -- "$2") || exit 2 ;;
    --baseline:?*) baseline=$(realpath -e -- "$2") || exit 2 ;;
    -h:* | --help:*) usage; exit ;;
    *) echo "gpu_check: unknown argument $1, or one without its value" >&2; usage >&2; exit 2 ;;
  esac
  shift 2
done
[ -z "$packages" ] || compgen -G "$packages/*.deb" >/dev/null || refuse "no .deb files in $packages"
mkdir -p -- "$output" && output=$(realpath -e -- "$output") && cd "$root" || exit 2
# A second run beside this one would spoil both. The parts do not inherit the lock, so that nothing that
# outlives this script holds it.
mkdir -p build-gpu && exec 9>build-gpu/gpu_check.lock || exit 2
if command -v flock >/dev/null; then
  flock -n 9 || refuse "another run is at work in $root/build-gpu"
fi
report=$output/report.txt
: >"$report" || exit 2
if [ -n "$baseline" ]; then  # this run's bench.json may take its place
  cp -- "$baseline" "$output/baseline.json" || exit 2
fi
seconds_allowed=470
failed=0 checked=0  # whether anything has run on a GPU

say() { printf '%s\n' "$*" | tee -a "$report"; }

# part NAME SECONDS COMMAND...: runs it for at most so long, and for no longer than is left of the whole.
part() {
  local name=$1 limit=$2 left=$((seconds_allowed - SECONDS)) began=$SECONDS result
  shift 2
  [ "$left" -lt "$limit" ] && limit=$left
  if [ "$limit" -le 5 ]; then
    say "$(printf '%-10s not run: %d seconds are over' "$name" "$seconds_allowed")"
    failed=1
    return 1
  fi
  [ "$name" = build ] || checked=1
  timeout --kill-after=5 "$limit" "$@" >"$output/$name.log" 2>&1 9>&-
  result=$?
  case $result in
    0) say "$(printf '%-10s passed in %3d s' "$name" $((SECONDS - began)))" ;;
    124 | 137) say "$(printf '%-10s STOPPED after %d s: its log ends with' "$name" "$limit")" ;;
    *) say "$(printf '%-10s FAILED (%d) after %d s: its log ends with' "$name" "$result" $((SECONDS - began)))" ;;
  esac
  if [ $result -ne 0 ]; then
    failed=1
    tail -n 25 "$output/$name.log" | sed 's/^/    /' | tee -a "$report"
  fi
  return $result
}

need() {
  command -v "$1" >/dev/null && return 0
  say "missing: $1 ($2)"
  failed=1
  return 1
}

say "gpu_check of $(git describe --always --dirty 2>/dev/null || echo 'a tree without git'), $(date -u +%FT%TZ)"
say "$(nproc) cores, $(uname -sr), $(sed -n 's/^PRETTY_NAME=//p' /etc/os-release 2>/dev/null)"

for dir in /usr/local/cuda/bin /usr/local/nvidia/bin /opt/cuda/bin; do
  [ -d "$dir" ] && PATH=$PATH:$dir
done
capabilities=""
if need nvidia-smi "the GPU's driver"; then
  say "$(timeout 30 nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap --format=csv,noheader 2>&1)"
  # Of all GPUs, each once: CUDA need not take the first that is listed.
  capabilities=$(timeout 30 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
    sed -nE 's/^ *([0-9]+)\.([0-9]+) *$/\1\2-real/p' | sort -u | paste -s -d ';')
fi
tools=1
need nvcc "CUDA Toolkit 12.4 or newer, on the PATH or in /usr/local/cuda" && say "$(nvcc --version | tail -n 2 | head -n 1)"
for tool in nvcc cmake ninja g++; do command -v $tool >/dev/null || tools=0; done
for tool in cmake ninja g++; do need $tool "for the build: scripts/setup.sh installs it"; done
if [ -z "$capabilities" ]; then
  say "the GPU's compute capability is not known: building for sm_90, and running nothing"
  failed=1
fi

library_dirs=()
options=(-DGENESIS_CUDA_ARCHITECTURES="${capabilities:-90-real}" -DGENESIS_GPU_TESTS=ON)
if [ -n "$packages" ]; then
  prefix=$PWD/build-gpu/packages
  mkdir -p "$prefix"
  for deb in "$packages"/*.deb; do
    dpkg -x "$deb" "$prefix" || { say "cannot unpack $deb"; failed=1; }
  done
  options+=(-DCMAKE_PREFIX_PATH="$prefix/usr")
  library_dirs+=("$prefix/usr/lib/$(uname -m)-linux-gnu")
fi

# Python's packages bring cuBLASLt where the toolkit was installed without it.
cublas_of_python() {
  local header library
  [ -e "$(dirname "$(dirname "$(command -v nvcc)")")/include/cublasLt.h" ] && return
  for python in $(type -ap python3); do
    header=$("$python" -c 'import nvidia; print(*nvidia.__path__, sep="\n")' 2>/dev/null |
      while read -r path; do find "$path" -name cublasLt.h; done | head -n 1)
    [ -n "$header" ] || continue
    library=$(find "$(dirname "$(dirname "$header")")/lib" -name 'libcublasLt.so*' | head -n 1)
    say "cuBLASLt is Python's: $library"
    options+=(-DCUDA_cublasLt_LIBRARY="$library")
    CPATH=$(dirname "$header")${CPATH:+:$CPATH}
    export CPATH
    library_dirs+=("$(dirname "$library")")
    return
  done
  say "missing: cublasLt.h, in the CUDA toolkit or the Python package nvidia-cublas"
}

built=0
if [ $tools -eq 1 ]; then
  cublas_of_python
  # In the old form, which also serves the libraries that a library needs.
  [ ${#library_dirs[@]} -gt 0 ] &&
    options+=(-DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags
      -DCMAKE_BUILD_RPATH="$(printf '%s;' "${library_dirs[@]}")")
  # shellcheck disable=SC2016  # "$@" is the inner shell's
  part build 240 sh -c 'cmake -S . -B build-gpu -G Ninja "$@" &&
    cmake --build build-gpu --target tests_kernels_gpu tests_ops_gpu bench_kernels genesis_train genesis_tokenize' \
    build "${options[@]}" && built=1
else
  say "build      not run: tools are missing"
  failed=1
fi

if [ $built -eq 1 ] && [ -n "$capabilities" ]; then
  tests=build-gpu/bin/tests_kernels_gpu
  part tests 150 ctest --test-dir build-gpu -R '^gpu:' --no-tests=error --output-on-failure -j 4
  grep -E 'tests passed|tests failed' "$output/tests.log" | sed 's/^/    /' | tee -a "$report"

  # train NAME SECONDS ARGUMENTS...: what scripts/gpu_train.sh says of it is part of the report.
  train() {
    local name=$1 limit=$2
    shift 2
    part "$name" "$limit" scripts/gpu_train.sh --programs build-gpu/bin --output "$output/$name" "$@"
    grep -E '^tiny |^[a-z0-9_]+: [0-9]+ steps|planned:' "$output/$name.log" | sed 's/^/    /' | tee -a "$report"
  }
  train tiny 60
  train train 120 configs/genesis_1b.yaml
  for k in 1 2; do
    train "recurrent$k" 90 --steps 10 configs/nano_1b_recurrent.yaml --model.recurrence.steps=$k
  done

  part bench 180 build-gpu/bin/bench_kernels --device cuda --config configs/genesis_1b.yaml \
    configs/genesis_1b_run1.yaml configs/nano_1b.yaml --save "$output/bench.json" \
    ${baseline:+--check "$output/baseline.json"}
  grep -E '^(kernel|cuda/|gpu:|slower|in the baseline)|kernels compared' "$output/bench.log" >>"$report"

  if need compute-sanitizer "CUDA Toolkit"; then
    sanitizer=(compute-sanitizer --error-exitcode 9 --print-limit 20)
    part memcheck 90 "${sanitizer[@]}" --tool memcheck $tests '~[long]'
    part racecheck 90 "${sanitizer[@]}" --tool racecheck $tests '~[long]'
    for tool in memcheck racecheck; do
      grep -h 'SUMMARY' "$output/$tool.log" 2>/dev/null | sed 's/^/    /' | tee -a "$report"
    done
  fi
fi

case "$failed$checked" in
  0*) outcome="all passed" ;;
  *1) outcome="something FAILED" ;;
  *) outcome="nothing was checked" ;;
esac
say "$outcome, $SECONDS seconds; the report is $report"
exit $failed
