#!/usr/bin/env bash
# Installs what is missing, builds what is not built yet, and runs the tests.
#   scripts/test.sh [REGEX]    those of a name that matches; without it all
set -euo pipefail
usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"; }

only=()
case "$#:${1:-}" in
  1:-h | 1:--help) usage; exit 0 ;;
  0: | 1:[!-]*) only=(${1:+-R "$1"}) ;;
  *) echo "test: expected a regular expression or nothing, found $*" >&2; usage >&2; exit 2 ;;
esac
cd "$(dirname "$0")/.."
scripts/setup.sh
scripts/build.sh
ctest --test-dir build --output-on-failure --no-tests=error -j "$(nproc)" ${only:+"${only[@]}"}
