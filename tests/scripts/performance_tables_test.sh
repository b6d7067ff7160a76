#!/usr/bin/env bash
# The tables of docs/performance.md that the model of time makes, line by line, against what the programs print:
# performance_tables_test.sh BIN_DIR
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

models=(configs/genesis_1b.yaml configs/genesis_1b_run1.yaml configs/nano_1b.yaml configs/nano_1b_recurrent.yaml)
"$bin/bench_kernels" --model rtx4090 --config "${models[@]}" >"$out/model"
"$bin/genesis_train" configs/genesis_1b.yaml --plan --gpu rtx4090 >"$out/plan"

# A table from the line that begins so to the first that ends it, which is not of it.
table() { awk -v first="$1" -v end="$2" 'index($0, first) == 1 {on = 1} on && $0 ~ end {exit} on' "$3"; }

failed=0
compare() {  # name, first line, end, program's output
  table "$2" "$3" "$4" >"$out/printed"
  table "$2" "$3" docs/performance.md >"$out/written"
  [[ -s $out/printed ]] || { echo "the program prints no table of $1"; failed=1; }
  if ! diff "$out/written" "$out/printed" >"$out/diff"; then
    echo "docs/performance.md's table of $1 (<) is not what is printed (>):"
    cat "$out/diff"
    failed=1
  fi
}
compare "micro-batches" "micro-batch    " '^(```|RTX)' "$out/plan"
compare "cards" "card             GB/s" '^(```|$)' "$out/model"
compare "a step" "RTX 4090 (sm_89)" '^(```|$)' "$out/model"
exit "$failed"
