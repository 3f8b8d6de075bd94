#!/usr/bin/env bash
# Resolves every *.in of this folder into a *.txt with hashes: what `make lock` runs.
set -euo pipefail

readonly ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
source "$ROOT/requirements/uv.sh"
cd "$ROOT"

if ! uv="$(obtain_uv)"; then
  echo "make lock needs uv, and neither found nor obtained it: install uv, then run make lock again." >&2
  exit 1
fi

compile() {
  local -r name="$1"; shift
  echo "requirements/$name.txt"
  "$uv" pip compile "requirements/$name.in" "$@" --quiet --no-header --no-emit-index-url \
    --generate-hashes --output-file "requirements/$name.txt"
}

# uv itself must install on whatever Python 3 there is, the rest on the one that the stack needs.
readonly PLATFORM=(--python-version 3.10 --python-platform x86_64-manylinux_2_28)
compile uv --universal --python-version 3.8
compile build "${PLATFORM[@]}" --allow-unsafe
compile runtime "${PLATFORM[@]}" --override requirements/overrides.txt
compile dev "${PLATFORM[@]}" --override requirements/overrides.txt
compile peers/d3rlpy "${PLATFORM[@]}" --override requirements/peers/d3rlpy_overrides.txt
# JAX of the version that SBX is timed with is for a later Python.
compile peers/sac_peers --python-version 3.11 --python-platform x86_64-manylinux_2_28
