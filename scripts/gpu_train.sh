#!/usr/bin/env bash
# Trains on the GPU, with this repository's documentation as data: without CONFIG two tiny models, whose losses have to
# be the CPU's; else that one for some steps, with its tokens/s, MFU and memory beside the plan's.
#   scripts/gpu_train.sh [--programs DIR] [--output DIR] [--steps N] [CONFIG.yaml [--FIELD=VALUE...]]
#     --programs DIR    where genesis_train is; build/bin without it
#     --output DIR      the runs' metrics and what they said; a new folder without it
#     --steps N         of CONFIG; 30 without it
#     --FIELD=VALUE     of CONFIG's
set -euo pipefail
usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"; }
refuse() {
  echo "gpu_train: $*" >&2
  usage >&2
  exit 2
}

root=$(cd "$(dirname "$0")/.." && pwd)
programs=$root/build/bin output="" steps=30 config=()
while [ $# -gt 0 ]; do
  case "$1:${2:-}" in
    -h:* | --help:*) usage; exit 0 ;;
    --programs:?*) programs=$(realpath -e -- "$2") || exit 2; shift ;;
    --output:?*) output=$2; shift ;;
    --steps:[1-9]*) steps=$2; shift ;;
    -*) refuse "unknown argument $1, or one without its value" ;;
    *) config=("$(realpath -e -- "$1")" "${@:2}") || exit 2; shift $(($# - 1)) ;;
  esac
  shift
done
train=$programs/genesis_train
[ -x "$train" ] || refuse "no program $train"
tokenize=$programs/genesis_tokenize
[ -x "$tokenize" ] || tokenize=$root/build/bin/genesis_tokenize
[ -n "$output" ] || output=$(mktemp -d)
mkdir -p -- "$output" && cd "$output"
rm -rf runs data && mkdir runs data

text=("$root"/docs/*.md "$root"/README.md)
"$tokenize" train --vocab-size 512 --output data/t.model "${text[@]}" >data/log 2>&1 || { cat data/log >&2; exit 1; }
"$tokenize" encode --tokenizer data/t.model --output data/text "${text[@]}" >data/log 2>&1 ||
  { cat data/log >&2; exit 1; }

# A field of each step's record, a line a step.
steps_of() { sed -n "s/.*\"kind\":\"step\".*/&/p" "runs/$1/metrics.jsonl" | sed "s/.*\"$2\":\([-0-9.e+]*\).*/\1/"; }

# run NAME ARGUMENTS...: genesis_train into runs/NAME, its words kept.
run() {
  local name=$1
  shift
  "$train" "$@" --run_dir="$PWD/runs/$name" >"runs/$name.log" 2>&1 && return
  echo "$name: genesis_train FAILED, and said:"
  tail -n 20 "runs/$name.log" | sed 's/^/    /'
  return 1
}

failed=0
cat >tiny.yaml <<'YAML'
run_dir: given
model: {vocab_size: 512, hidden_size: 64, layers: 4, heads: 4, kv_heads: 2, head_size: 16, ffn_size: 96,
        tie_embeddings: true}
data: {train: data/text, sequence_length: 64}
train: {steps: 20, batch_size: 4, micro_batch: 2}
optim: {lr: 3e-3}
schedule: {warmup_steps: 2}
YAML
recurrent=(--model.recurrence.prelude=1 --model.recurrence.core=2 --model.recurrence.coda=1
  --model.recurrence.steps=2)
# tiny NAME DTYPE APART: 20 steps on both devices, whose losses may be so far apart.
tiny() {
  local name=$1 dtype=$2 apart=$3 kind model=()
  [ "$name" = dense ] || model=("${recurrent[@]}")
  for kind in cpu cuda; do
    run "$name-$dtype-$kind" tiny.yaml --device.kind=$kind --device.dtype="$dtype" ${model:+"${model[@]}"} || return 1
  done
  paste <(steps_of "$name-$dtype-cpu" loss) <(steps_of "$name-$dtype-cuda" loss) |
    awk -v what="tiny $name model, $dtype" -v allowed="$apart" '
      { d = $1 - $2; if (d < 0) d = -d; if (d > most) most = d; if (NR == 1) first = $1; last = $1 }
      END {
        ok = NR == 20 && most < allowed && last < first
        printf "%s: %d steps, loss %.4f to %.4f, at most %.2g from the CPU%s (%s allowed)\n", what, NR, first, last,
          most, ok ? "" : ": FAILED", allowed
        exit !ok
      }'
}
if [ ${#config[@]} -eq 0 ]; then
  for name in dense recurrent; do
    tiny $name f32 1e-3 || failed=1
    tiny $name bf16 5e-2 || failed=1
  done
  exit $failed
fi

# 16 sequences a step unless the caller says: what a GPU does in a second or two.
name=$(basename "${config[0]}" .yaml)
options=(--device.kind=cuda --data.train="$PWD/data/text" --data.validation=[] --eval.every=0 --data.tokenizer=
  --train.steps="$steps" --train.batch_size=16 --schedule.warmup_steps=1 --checkpoint.every=0 "${config[@]:1}")
"$train" "${config[0]}" "${options[@]}" --run_dir="$PWD/runs/$name" --plan >"runs/$name.plan" 2>&1 || failed=1
if run "$name" "${config[0]}" "${options[@]}"; then
  paste <(steps_of "$name" tokens_per_second) <(steps_of "$name" mfu) <(steps_of "$name" memory_bytes) \
    <(steps_of "$name" loss) | awk -v name="$name" '
    NR > 3 { rate[++n] = $1; mfu = $2; memory = $3 }
    { loss = $4 }
    END {
      for (i = 1; i <= n; ++i) for (j = i + 1; j <= n; ++j) if (rate[j] < rate[i]) {
        t = rate[i]; rate[i] = rate[j]; rate[j] = t
      }
      printf "%s: %d steps, %.0f tokens/s (median from the fourth), MFU %.3f, %.2f GiB, loss %.3f\n", name, NR,
        rate[int((n + 1) / 2)], mfu, memory / 2^30, loss
    }'
  sed -n 's/^ *peak.*/    planned: &/p' "runs/$name.plan"
else
  failed=1
fi
rm -rf "runs/$name/checkpoints"  # gigabytes
exit $failed
