#!/usr/bin/env bash
# Prints the path of a Python that the lock files were made for, obtaining one if the machine has none.
#
# Tried in this order: $PYTHON, python3.10 and python3 on the PATH, pyenv's versions (active or not), uv's
# versions, and last a Python that uv installs under .venv-bootstrap/. All other output goes to stderr.
set -euo pipefail

readonly WANTED=3.10
readonly ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
source "$ROOT/requirements/uv.sh"

# A name says little: pyenv's shims exist for versions that are not active, and a distribution may leave
# out the modules that a virtual environment needs. So each candidate is run.
works() {
  "$1" -c "
import sys, ctypes, ensurepip, ssl, venv, zlib
sys.exit('.'.join(map(str, sys.version_info[:2])) != '$WANTED')" >/dev/null 2>&1
}

use() {
  # The path that the interpreter itself gives: a shim's would depend on the folder it is called from.
  "$1" -c 'import sys; print(sys.executable)'
  exit 0
}

if [[ -n "${PYTHON:-}" ]]; then
  if works "$PYTHON"; then use "$PYTHON"; fi
  found="$("$PYTHON" -c 'import platform; print("is Python " + platform.python_version())' 2>/dev/null \
    || echo 'cannot be run')"
  if [[ "$found" == "is Python $WANTED."* ]]; then found="$found, but lacks venv, ensurepip, ssl, zlib or ctypes"; fi
  cat >&2 <<END
PYTHON=$PYTHON $found. The set-up needs Python $WANTED, for which the lock files were made (Launchpad
has builds for 3.9 and 3.10 only). Unset PYTHON to let one be found, or give it the path of a Python $WANTED.
END
  exit 1
fi

while IFS= read -r candidate; do
  if works "$candidate"; then use "$candidate"; fi
done < <(type -ap "python$WANTED" python3 python)

for candidate in "${PYENV_ROOT:-$HOME/.pyenv}/versions/$WANTED"*/bin/python; do
  if [[ -x "$candidate" ]] && works "$candidate"; then use "$candidate"; fi
done

if uv="$(find_uv)"; then
  candidate="$("$uv" python find --no-project "$WANTED" 2>/dev/null || true)"
  if [[ -n "$candidate" ]] && works "$candidate"; then use "$candidate"; fi
fi

echo "No Python $WANTED on this machine: obtaining one with uv, into .venv-bootstrap/" >&2
if uv="$(obtain_uv)" && "$uv" python install "$WANTED" >&2; then
  candidate="$("$uv" python find --no-project "$WANTED" 2>/dev/null || true)"
  if [[ -n "$candidate" ]] && works "$candidate"; then use "$candidate"; fi
fi

cat >&2 <<END

Python $WANTED is needed and could not be found or obtained. Any one of these brings it; then run make again:
  uv      : install uv, then   uv python install $WANTED
  pyenv   : install pyenv, then   pyenv install $WANTED
  conda   : conda create -p ./.venv-python python=$WANTED, then   make PYTHON=./.venv-python/bin/python …
  by hand : build it from its source release, then   make PYTHON=/path/to/python$WANTED …
(Obtaining uv by itself needs a network and a Python 3 with pip: on Debian, apt-get install python3-venv.)
END
exit 1
