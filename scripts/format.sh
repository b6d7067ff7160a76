#!/usr/bin/env bash
# Formats every C++ and CUDA source as .clang-format says.
#   scripts/format.sh [--check]
#     --check    changes nothing: names those that are not so formatted, and fails
set -euo pipefail
cd "$(dirname "$0")/.."
usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' scripts/format.sh; }
case "$#:${1:-}" in
  0:) git ls-files -z '*.h' '*.cpp' '*.cu' | xargs -0 clang-format -i ;;
  1:--check) git ls-files -z '*.h' '*.cpp' '*.cu' | xargs -0 clang-format --dry-run --Werror ;;
  1:-h | 1:--help) usage ;;
  *) echo "format: unknown argument $*" >&2; usage >&2; exit 2 ;;
esac
