#!/usr/bin/env bash
# scripts/gpu_check.sh in a copy of its folder, with tools that only say what they are asked for: what it does
# with wrong arguments, several GPUs, none, and a second run beside it.
set -euo pipefail
script=$(cd "$(dirname "$0")/../.." && pwd)/scripts/gpu_check.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/a tree/scripts" "$work/tools" "$work/no packages"
cp "$script" "$work/a tree/scripts"
printf '#!/bin/sh\necho "some lines"; echo "tiny dense model, f32: of these arguments: $*"\n' >"$work/a tree/scripts/gpu_train.sh"
chmod +x "$work/a tree/scripts/gpu_train.sh"
cd "$work/a tree"

# tool NAME TEXT: a script of that text in the place of the tool.
tool() { printf '#!/bin/sh\n%s\n' "$2" >"$work/tools/$1" && chmod +x "$work/tools/$1"; }
for name in nvcc ninja g++ ctest compute-sanitizer python3; do tool $name ':'; done
# shellcheck disable=SC2016  # the stand-in's own variables
tool cmake 'echo "asked: $*"; mkdir -p build-gpu/bin; cd build-gpu/bin
for p in tests_kernels_gpu bench_kernels; do echo "#!/bin/sh" >$p; chmod +x $p; done'
gpus() { tool nvidia-smi "$1"; }
check() { PATH=$work/tools:$PATH timeout 20 scripts/gpu_check.sh "$@" >"$work/said" 2>&1; }

fail() {
  echo "gpu_check_test: $*" >&2
  cat "$work/said" >&2
  exit 1
}
said() { grep -qF -- "$1" "$work/said" || fail "expected it to say: $1"; }

gpus 'echo 9.0'
touch "$work/file"
refused() {
  local result=0
  check "$@" || result=$?
  if [ $result -ne 2 ] || [ -e build-gpu/report/build.log ]; then fail "expected it to refuse $*"; fi
}
refused --bogus x
check --help || fail "expected --help to pass"
said "--baseline FILE"
refused --output
refused --output "$work/file"
refused --packages "$work/no packages"
refused --packages "$work/not there"
refused --baseline "$work/not there"
refused --baseline "$work"

gpus 'printf "12.0\n9.0\n[N/A]\n9.0\n"'
check --output "$work/a report" || fail "expected it to pass"
said 'all passed'
said "    tiny dense model, f32: of these arguments: --programs build-gpu/bin --output $work/a report/train configs/genesis_1b.yaml"
grep -qF -- '-DGENESIS_CUDA_ARCHITECTURES=120-real;90-real ' "$work/a report/build.log" ||
  fail "expected it to build for both GPUs"
# What is not built is not among ctest's tests either, so nothing would say that it was not run.
for program in $(sed -n 's/.*add_executable(\(tests_[a-z_]*_gpu\) .*/\1/p' "$(dirname "$script")/../tests/CMakeLists.txt"); do
  grep -qE -- "--target .*$program( |\$)" "$work/a report/build.log" || fail "expected it to build $program"
done

for broken in 'echo "NVIDIA-SMI has failed: 1.0"; exit 9' 'echo "[N/A]"'; do
  gpus "$broken"
  if check; then fail "expected a run without a GPU not to pass"; fi
  said 'running nothing'
  said 'nothing was checked'
  if grep -q FAILED "$work/said"; then fail "expected nothing to be said to have failed"; fi
done

gpus 'echo 9.0'
mv "$work/tools/ctest" "$work/kept"
tool ctest 'exit 3'
if check; then fail "expected a test that fails to fail"; fi
said 'something FAILED'
mv "$work/kept" "$work/tools/ctest"

# Without a tool of the build: what it is and where it comes from. Of the system's tools there are all others.
mkdir "$work/others"
for folder in /usr/bin /bin; do
  find "$folder"/ -maxdepth 1 ! -name ninja ! -name cmake -exec ln -sf -t "$work/others" {} +
done
mv "$work/tools/ninja" "$work/kept"
result=0
PATH=$work/tools:$work/others timeout 20 scripts/gpu_check.sh >"$work/said" 2>&1 || result=$?
[ $result -eq 1 ] || fail "expected a missing tool to be an error"
said 'missing: ninja (for the build: scripts/setup.sh installs it)'
said 'nothing was checked'
mv "$work/kept" "$work/tools/ninja"

mkfifo "$work/go"
tool ctest "cat '$work/go'"
rm -f build-gpu/report/tests.log
PATH=$work/tools:$PATH scripts/gpu_check.sh >/dev/null 2>&1 &
until [ -e build-gpu/report/tests.log ]; do sleep 0.1; done
if check; then fail "expected a second run to be refused"; fi
said 'another run is at work'
: >"$work/go"
wait $! || fail "expected the first run to pass all the same"
echo passed
