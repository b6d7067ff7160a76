#!/usr/bin/env bash
# Every script says what it does and refuses what it does not know; and those that build ask CMake for the same build, so
# that none builds again what another has built.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree" "$work/tools"
cp -r "$root/scripts" "$work/tree"
cd "$work/tree"
fail() { echo "help_test: $*" >&2; cat "$work/said" >&2; exit 1; }

# Tools that only note what they are asked for: nothing is installed or built here.
for name in cmake ctest apt-get sudo clang-format; do
  printf '#!/bin/sh\necho "%s $*" >>"%s/asked"\n' $name "$work" >"$work/tools/$name"
  chmod +x "$work/tools/$name"
done
export PATH=$work/tools:$PATH

for script in scripts/*.sh; do
  for option in -h --help; do
    $script $option >"$work/said" 2>&1 || fail "$script $option failed"
    grep -q "$script" "$work/said" || fail "$script $option does not show its use"
    if $script $option >/dev/full 2>"$work/said"; then fail "$script $option passed on a full device"; fi
  done
  result=0
  $script --bogus >"$work/said" 2>&1 || result=$?
  [ $result -eq 2 ] || fail "$script --bogus gave $result"
  grep -q -- --bogus "$work/said" || fail "$script does not name --bogus"
  [ ! -e "$work/asked" ] || fail "$script did something for --help or --bogus: $(cat "$work/asked")"
done

printf '#!/bin/sh\n' >scripts/setup.sh
for command in "scripts/build.sh --programs" scripts/test.sh; do
  $command >"$work/said" 2>&1 || fail "$command failed"
done
[ "$(grep -c -- '-S \. -B build ' "$work/asked")" -eq 2 ] || fail "expected two configurations: $(cat "$work/asked")"
[ "$(grep -- '-S \. -B build ' "$work/asked" | sort -u | wc -l)" -eq 1 ] ||
  fail "the scripts build differently: $(cat "$work/asked")"
echo passed
