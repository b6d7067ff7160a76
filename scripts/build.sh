#!/usr/bin/env bash
# Configures and builds into build/ (Release). Arguments go to cmake: scripts/build.sh -DGENESIS_CUDA=OFF
set -euo pipefail
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cmake -S . -B build -G Ninja "$@" >"$log" 2>&1 || { cat "$log"; exit 1; }
cmake --build build
