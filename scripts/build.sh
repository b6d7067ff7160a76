#!/usr/bin/env bash
# Configures and builds into build/ (Release). `--programs` builds the programs alone, without tests, benchmarks
# and CUDA; other arguments go to cmake: scripts/build.sh -DGENESIS_CUDA=OFF
set -euo pipefail
cd "$(dirname "$0")/.."
targets=()
if [ "${1:-}" = --programs ]; then
  shift
  targets=(genesis_train genesis_tokenize genesis_generate)
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cmake -S . -B build -G Ninja "$@" >"$log" 2>&1 || { cat "$log"; exit 1; }
cmake --build build ${targets:+--target "${targets[@]}"}
