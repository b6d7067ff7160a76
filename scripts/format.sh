#!/usr/bin/env bash
# Formats every C++ and CUDA source as .clang-format says. With --check: names those that are not, and fails.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  "") git ls-files -z '*.h' '*.cpp' '*.cu' | xargs -0 clang-format -i ;;
  --check) git ls-files -z '*.h' '*.cpp' '*.cu' | xargs -0 clang-format --dry-run --Werror ;;
  *) echo "usage: scripts/format.sh [--check]" >&2; exit 2 ;;
esac
