#!/usr/bin/env bash
# From a fresh machine to a trained model and a sample of its text, in one command (Debian 12, Ubuntu 24.04):
# installs what is missing, builds, tokenizes, trains configs/quickstart.yaml, writes. What is already there is
# used again.
#   scripts/quickstart.sh                  the King James Bible
#   scripts/quickstart.sh --text FILE...   your own UTF-8 text
set -euo pipefail
cd "$(dirname "$0")/.."

# Training that is interrupted saves and ends well; what follows would be of half a model.
trap 'exit 130' INT

usage() { sed -n '2,6s/^# \{0,1\}//p' "$0"; }
step="" step_began=0 times=""
# Says what begins, and notes how long the step before took.
begin() {
  [ -z "$step" ] || times+="${times:+, }${step%%:*} $((SECONDS - step_began)) s"
  step=$1 step_began=$SECONDS
  [ -z "$step" ] || printf '\n== %s\n' "$step"
}

texts=()
case "${1:-}" in
  "") ;;
  --text)
    shift
    [ $# -gt 0 ] || { echo "quickstart: --text needs a file" >&2; exit 2; }
    for file in "$@"; do
      [ -r "$file" ] && [ -f "$file" ] || { echo "quickstart: cannot read $file" >&2; exit 2; }
      texts+=("$(realpath "$file")")
    done ;;
  -h | --help) usage; exit 0 ;;
  *) echo "quickstart: unknown argument $1" >&2; usage >&2; exit 2 ;;
esac

begin "Packages"
if [ ${#texts[@]} -eq 0 ]; then scripts/setup.sh bible-kjv xz-utils; else scripts/setup.sh xz-utils; fi

begin "Build"
scripts/build.sh --programs

# Each text has folders of its own, so that another text or another tenth never meets an old model.
if [ ${#texts[@]} -eq 0 ]; then
  name=quickstart
else
  name=quickstart-$(cat "${texts[@]}" | cksum | cut -d' ' -f1)
fi
data=data/$name
run=runs/$name
mkdir -p "$data"
if [ ${#texts[@]} -eq 0 ] && [ ! -s "$data/text.txt" ]; then
  bible -f -l 200 Genesis1:1-Revelation22:21 >"$data/text.tmp"
  mv "$data/text.tmp" "$data/text.txt"
fi
[ ${#texts[@]} -gt 0 ] || texts=("$data/text.txt")

begin "Tokenizer and data"
held_out=0.1 # the text's last tenth
[ -s "$data/tokenizer.model" ] ||
  build/bin/genesis_tokenize train --vocab-size 4096 --validation-fraction $held_out \
    --output "$data/tokenizer.model" "${texts[@]}"
[ -s "$data/train.json" ] && [ -s "$data/validation.json" ] ||
  build/bin/genesis_tokenize encode --tokenizer "$data/tokenizer.model" --validation-fraction $held_out \
    --output "$data/train" --validation-output "$data/validation" --force "${texts[@]}"

begin "Training: configs/quickstart.yaml"
build/bin/genesis_train configs/quickstart.yaml --run_dir="$run" --data.tokenizer="$data/tokenizer.model" \
  --data.train="$data/train" --data.validation="$data/validation"

begin "A sample"
build/bin/genesis_generate "$run" --prompt "In the beginning" --tokens 200

# What xz needs for the held-out text when it has read the training text: the bar to beat.
build/bin/genesis_tokenize decode --tokenizer "$data/tokenizer.model" --output "$data/train.txt" --force "$data/train"
build/bin/genesis_tokenize decode --tokenizer "$data/tokenizer.model" --output "$data/validation.txt" --force \
  "$data/validation"
both=$(cat "$data/train.txt" "$data/validation.txt" | xz -9 -c | wc -c)
train=$(xz -9 -c "$data/train.txt" | wc -c)
bytes=$(wc -c <"$data/validation.txt")
xz_bits=$(awk -v a="$both" -v b="$train" -v n="$bytes" 'BEGIN { printf "%.4f", (a - b) * 8 / n }')
bits=$(sed -n 's/.*"bits_per_byte":\([0-9.]*\).*/\1/p' "$run/metrics.jsonl" | tail -n 1)
begin ""
echo
echo "quickstart: took: $times"
echo "quickstart: validation bits-per-byte $(printf %.4f "$bits") (xz -9 given the training text: $xz_bits)"
echo "quickstart: try it in a browser: build/bin/genesis_serve $run, then http://127.0.0.1:8080/"
