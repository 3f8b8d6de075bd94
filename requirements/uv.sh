# Sourced by the other scripts: finds uv, or obtains the locked one into .venv-bootstrap/. Needs $ROOT.
#
# uv does two things that pip cannot: install a Python, and resolve with a requirement overridden.

readonly BOOTSTRAP="$ROOT/.venv-bootstrap"
# Inside the repository, so that nothing appears in the user's home.
export UV_PYTHON_INSTALL_DIR="${UV_PYTHON_INSTALL_DIR:-$BOOTSTRAP/python}" UV_PYTHON_INSTALL_BIN=0

find_uv() {
  if [[ -x "$BOOTSTRAP/uv/bin/uv" ]]; then
    echo "$BOOTSTRAP/uv/bin/uv"
  else
    type -P uv
  fi
}

# Any Python 3 with pip will do. Where venv is missing (Debian keeps it in a package of its own), a plain
# pip can still install into a folder.
obtain_uv() {
  local uv python
  if uv="$(find_uv)"; then echo "$uv"; return; fi
  local -r target="$BOOTSTRAP/uv" lock="$ROOT/requirements/uv.txt"
  while IFS= read -r python; do
    rm -rf "$target"
    if "$python" -m venv "$target" >/dev/null 2>&1; then
      "$target/bin/python" -m pip install -qq --require-hashes -r "$lock" >&2 || true
    else
      rm -rf "$target"
      "$python" -m pip install -qq --target "$target" --require-hashes -r "$lock" >&2 || true
    fi
    if "$target/bin/uv" --version >/dev/null 2>&1; then echo "$target/bin/uv"; return; fi
  done < <(type -ap python3 python)
  rm -rf "$target"
  return 1
}
