#!/usr/bin/env bash
# cmake/commit.cmake: the commit of a tree, changes said, unknown without git or inside of another's tree; and a file
# that stays as it is while the commit does.
set -euo pipefail
command -v git >/dev/null || exit 77 # skipped
script=$(cd "$(dirname "$0")/../.." && pwd)/cmake/commit.cmake
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
commit_of() {
  cmake -D SOURCE="$1" -D OUTPUT="$work/commit.cpp" -P "$script"
  sed -n 's/.*kCommit = "\(.*\)";/\1/p' "$work/commit.cpp"
}
is() { [ "$2" = "$1" ] || { echo "commit_test: expected '$1', found '$2'" >&2; exit 1; }; }

mkdir -p "$work/tree/inside"
is unknown "$(commit_of "$work/tree")"
git -C "$work/tree" init -q
is unknown "$(commit_of "$work/tree")" # nothing is committed yet
touch "$work/tree/file"
git -C "$work/tree" add file
git -C "$work/tree" -c user.name=a -c user.email=a@b commit -qm first
hash=$(git -C "$work/tree" rev-parse --short=12 HEAD)
is "$hash" "$(commit_of "$work/tree")"
git -C "$work/tree" -c user.name=a -c user.email=a@b tag -a v1 -m v1
is "$hash" "$(commit_of "$work/tree")"
touch -d '2001-01-01' "$work/commit.cpp"
is "$hash" "$(commit_of "$work/tree")"
is 2001 "$(date -r "$work/commit.cpp" +%Y)"
echo changed >"$work/tree/file"
is "$hash-dirty" "$(commit_of "$work/tree")"
is unknown "$(commit_of "$work/tree/inside")"
echo passed
