#!/usr/bin/env bash
# What training keeps of its speed beside another program: bench_step alone and beside one busy loop, in turns,
# and the medians' ratio.
#   scripts/bench_busy.sh [--rounds N] [--steps N] [BENCH_STEP...]
# 5 rounds of 40 steps of build/bin/bench_step, or of each of several builds of it, on configs/quickstart.yaml.
set -euo pipefail
usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"; }

rounds=5 steps=40 programs=()
while [ $# -gt 0 ]; do
  case "$1:${2:-}" in
    -h:* | --help:*) usage; exit 0 ;;
    --rounds:[1-9]*) rounds=$2; shift ;;
    --steps:[1-9]*) steps=$2; shift ;;
    -*) echo "bench_busy: unknown argument $1, or one without its number" >&2; usage >&2; exit 2 ;;
    *) programs+=("$(realpath -e -- "$1")") ;;
  esac
  shift
done
cd "$(dirname "$0")/.."
[ ${#programs[@]} -gt 0 ] || programs=("$PWD/build/bin/bench_step")
for program in "${programs[@]}"; do
  [ -x "$program" ] || { echo "bench_busy: no program $program: scripts/build.sh makes it" >&2; exit 2; }
done

results=$(mktemp -d)
busy=""
trap '[ -z "$busy" ] || kill "$busy"; rm -rf "$results"' EXIT
measure() { # HOW: a round of every program
  for i in "${!programs[@]}"; do
    "${programs[$i]}" configs/quickstart.yaml --steps "$steps" |
      sed -n 's/^step  .* \([0-9]*\) tokens\/s.*/\1/p' >>"$results/$i.$1"
  done
}
median() { sort -n "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

for ((round = 0; round < rounds; round++)); do
  measure alone
  while :; do :; done &
  busy=$!
  measure busy
  kill "$busy"
  wait "$busy" 2>/dev/null || true
  busy=""
done
for i in "${!programs[@]}"; do
  alone=$(median "$results/$i.alone") busy_too=$(median "$results/$i.busy")
  echo "${programs[$i]#"$PWD/"}: $alone tokens/s alone ($(sort -n "$results/$i.alone" | xargs)), $busy_too beside" \
    "one busy loop ($(sort -n "$results/$i.busy" | xargs)): $((100 * busy_too / alone))%"
done
