#!/usr/bin/env bash
# Installs what is missing, builds everything with warnings as errors, and runs the tests.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
scripts/build.sh -DGENESIS_WERROR=ON
ctest --test-dir build --output-on-failure -j "$(nproc)" "$@"
