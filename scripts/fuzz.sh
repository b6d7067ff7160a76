#!/usr/bin/env bash
# Gives the server's parser of requests what nobody would write, by clang's libFuzzer, with AddressSanitizer and
# UndefinedBehaviorSanitizer. Installs what is missing; an input that breaks it is left in build-fuzz/.
#   scripts/fuzz.sh [SECONDS]    600 unless said otherwise
set -euo pipefail
usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"; }
case "$#:${1:-}" in
  0:) seconds=600 ;;
  1:-h | 1:--help) usage; exit 0 ;;
  1:*[!0-9]* | 1:) echo "fuzz: expected a number of seconds, found ${1:-nothing}" >&2; usage >&2; exit 2 ;;
  1:*) seconds=$1 ;;
  *) echo "fuzz: expected one argument at most, found $*" >&2; usage >&2; exit 2 ;;
esac
cd "$(dirname "$0")/.."
scripts/setup.sh clang libclang-rt-dev
mkdir -p build-fuzz/completion
clang++ -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -I. \
  tests/fuzz/completion_fuzz.cpp apps/serve/completion_request.cpp io/json.cpp io/sampler.cpp io/utf8.cpp \
  kernels/common/{random,parallel,available_cpus}.cpp -lfmt -pthread -o build-fuzz/completion_fuzz
build-fuzz/completion_fuzz -max_total_time="$seconds" -max_len=4096 -timeout=5 -rss_limit_mb=2048 -print_final_stats=1 \
  -artifact_prefix=build-fuzz/ build-fuzz/completion tests/fuzz/completion_corpus
