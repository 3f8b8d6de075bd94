#!/usr/bin/env bash
# Makes .venv from the lock files and installs Temper into it, editable. Returns at once when that is done.
#
# Usage: requirements/setup.sh runtime|dev     (dev: also what the tests and checks need)
set -euo pipefail

readonly LEVEL="${1:?runtime or dev}"
readonly ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
readonly VENV="$ROOT/.venv"
readonly MARK="$VENV/.made-by-temper"   # Written first: tells our own, unfinished .venv from a stranger's.
cd "$ROOT"

# A stamp holds what it was made from, the folder included since neither scripts nor an editable install can
# be moved. It is written last: an interrupted set-up has none and starts anew.
fingerprint() { { pwd; cat "$@"; } | cksum; }
stamp_of() { cat "$VENV/.stamp-$1" 2>/dev/null || true; }
# The locks are complete. --no-deps keeps pip from resolving, which would end at dm-acme's pin on a Launchpad
# that TensorFlow 2.12 cannot load; the hashes make the set the one that was tested.
install() { "$VENV/bin/python" -m pip install -qq --no-deps --require-hashes "$@"; }

readonly LOCKS="$(fingerprint requirements/build.txt "requirements/$LEVEL.txt")"
readonly PACKAGE="$(fingerprint setup.py pyproject.toml)"

if [[ "$(stamp_of "$LEVEL")" != "$LOCKS" ]]; then
  started=$SECONDS
  runtime="$(fingerprint requirements/build.txt requirements/runtime.txt)"
  # dev.txt holds runtime.txt: on a current runtime only the rest has to be added. Anything else is made
  # from nothing, so that .venv never holds what an older lock named.
  if [[ "$LEVEL" != dev || "$(stamp_of runtime)" != "$runtime" ]]; then
    if [[ -e "$VENV" && ! -e "$MARK" ]]; then
      echo "$VENV exists and was not made by this set-up. Move it away, then run make again." >&2
      exit 1
    fi
    python="$(requirements/find_python.sh)"
    echo "Setting up .venv with $python: a few minutes, once."
    rm -rf "$VENV"
    mkdir "$VENV"
    touch "$MARK"
    "$python" -m venv "$VENV"
    # First what builds the others: dm-acme, trfl and gym come as sources, and --no-build-isolation builds
    # them with these locked tools instead of with whatever is newest.
    install -r requirements/build.txt
  fi
  install --no-build-isolation -r "requirements/$LEVEL.txt"
  if [[ "$LEVEL" == dev ]]; then echo "$runtime" > "$VENV/.stamp-runtime"; fi
  echo "$LOCKS" > "$VENV/.stamp-$LEVEL"
  echo "Installed the $LEVEL set in $((SECONDS - started)) s."
fi

if [[ "$(stamp_of package)" != "$PACKAGE" ]]; then
  "$VENV/bin/python" -m pip install -qq --no-deps --no-build-isolation -e .
  "$VENV/bin/python" -m temper.launchers.main --version
  echo "$PACKAGE" > "$VENV/.stamp-package"
fi
