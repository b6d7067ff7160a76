#!/usr/bin/env bash
# Installs what the build needs from the distribution's packages (Debian 12, Ubuntu 24.04), as root or through
# sudo; does nothing when all of it is there. Further packages can be named.
# scripts/setup.sh --download DIR installs nothing: it saves the libraries' packages as files, for a machine of
# this architecture that has a compiler and no network (scripts/gpu_check.sh --packages DIR).
set -euo pipefail
usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"; }

tools=(g++ cmake ninja-build ccache)
libraries=(
  libdnnl-dev libsentencepiece-dev libyaml-cpp-dev nlohmann-json3-dev libcli11-dev libfmt-dev
  libcpp-httplib-dev libxxhash-dev libsimdjson-dev zlib1g-dev libzstd-dev libboost-context-dev
  catch2 libbenchmark-dev
)

sudo=""
[ "$(id -u)" -eq 0 ] || ! command -v sudo >/dev/null || sudo=sudo

case "${1:-}" in
  --download)
    if [ $# -ne 2 ] || [ -z "$2" ]; then
      echo "setup: --download takes a folder, and nothing else" >&2
      exit 2
    fi
    ;;
  -h | --help) usage; exit 0 ;;
  -*) echo "setup: unknown argument $1" >&2; usage >&2; exit 2 ;;  # apt-get would take it for its own
esac
if [ "${1:-}" = --download ]; then
  dir=$(mkdir -p "$2/partial" && cd "$2" && pwd)
  $sudo apt-get update -qq
  # As for a system with nothing installed; what comes with a compiler and with the C library is left out.
  $sudo apt-get install -qq -y --no-install-recommends --download-only \
    -o Dir::State::status=/dev/null -o Dir::Cache::archives="$dir" "${libraries[@]}" >/dev/null
  (cd "$dir" && $sudo rm -rf partial lock gcc-*-base_* linux-libc-dev_* libc6* libc-dev-bin_* libcrypt* libgcc* \
    libstdc++* libgomp* libatomic1_* libquadmath* libitm* lib{a,l,t,ub}san*_* \
    libssl* libkrb5* libk5crypto* libgssapi* libtirpc* libnsl* rpcsvc-proto_* libcom-err2_* libkeyutils*)
  echo "setup: $(find "$dir" -name '*.deb' | wc -l) packages, $(du -sh "$dir" | cut -f 1), in $dir"
  exit 0
fi

missing=()
for p in "${tools[@]}" "${libraries[@]}" "$@"; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "setup: installing, which can take some minutes: ${missing[*]}"
if [ "$(id -u)" -ne 0 ] && [ -z "$sudo" ]; then
  echo "setup: not root and no sudo: install these packages first" >&2
  exit 1
fi
$sudo apt-get update -qq
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
