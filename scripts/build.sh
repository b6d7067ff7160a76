#!/usr/bin/env bash
# Configures and builds into build/ (Release).
#   scripts/build.sh [--programs] [-DNAME=VALUE...]
#     --programs      the programs alone, without tests and benchmarks
#     -DNAME=VALUE    an option of CMakeLists.txt, kept until it is given again: -DGENESIS_CUDA=OFF
set -euo pipefail
usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"; }

targets=() options=()
for argument in "$@"; do
  case "$argument" in
    --programs) targets=(genesis_train genesis_tokenize genesis_generate genesis_report genesis_eval genesis_checkpoint genesis_serve) ;;
    -D?*=*) options+=("$argument") ;;
    -h | --help) usage; exit 0 ;;
    *) echo "build: unknown argument $argument" >&2; usage >&2; exit 2 ;;
  esac
done
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cmake -S . -B build -G Ninja ${options:+"${options[@]}"} >"$log" 2>&1 || { cat "$log"; exit 1; }
cmake --build build ${targets:+--target "${targets[@]}"}
