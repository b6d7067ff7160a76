#!/usr/bin/env bash
# Installs what the build needs from the distribution's packages (Debian 12, Ubuntu 24.04), as root or through
# sudo; does nothing when all of it is there.
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache
  libdnnl-dev libsentencepiece-dev libyaml-cpp-dev nlohmann-json3-dev libcli11-dev libfmt-dev
  libxxhash-dev libsimdjson-dev zlib1g-dev libzstd-dev libboost-context-dev
  catch2 libbenchmark-dev
)
# What a caller needs beyond the build: the quick start's text, say.
packages+=("$@")

missing=()
for p in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "setup: installing, which can take some minutes: ${missing[*]}"
sudo=""
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "setup: not root and no sudo: install these packages first" >&2; exit 1; }
  sudo=sudo
fi
$sudo apt-get update -qq
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
