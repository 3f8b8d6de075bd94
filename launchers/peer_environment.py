"""Environments for the libraries that Temper is compared with, made from their own lock files."""

import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Optional

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_LOCKS = _ROOT / "requirements"
# torch_cpu.txt holds a build for this one, which is therefore tried first.
_PREFERRED = "3.11"
_MARK = ".made-by-temper"
_STAMP = ".stamp"
# torch itself and what its build for CUDA brings: not needed beside the build without.
_TORCH = re.compile(r"(torch|triton|cuda-[a-z-]+|nvidia-[a-z0-9-]+)==")
_TAIL = 2_000


class PeerError(RuntimeError):
  """A peer's environment cannot be made, or what runs in it failed."""


def default_folder(peer: str) -> pathlib.Path:
  """Returns where a peer's environment lies unless the user says otherwise."""
  return _ROOT / ".peers" / peer


def prepare(
  peer: str,
  folder: pathlib.Path,
  python: Optional[str] = None,
  *,
  oldest: tuple[int, int] = (3, 10),
) -> str:
  """Makes the environment of a peer, or returns at once if it is there.

  What requirements/peers/<peer>.txt locks is installed, and torch without CUDA if pip is offered
  such a build.

  Args:
    peer: name of the lock file.
    folder: the environment's. Made if it is missing, and made anew when a lock has changed.
    python: the interpreter to make it with; None takes Python 3.11 if there is one, else the one
      that runs this.
    oldest: the oldest Python that the lock is for.

  Returns:
    The environment's interpreter.

  Raises:
    PeerError: if there are no lock files, `folder` is somebody else's, Python is too old, or an
      installation failed.
  """
  locks = [_LOCKS / name for name in ("build.txt", "peers/torch_cpu.txt", f"peers/{peer}.txt")]
  missing = [str(lock) for lock in locks if not lock.exists()]
  if missing:
    raise PeerError(f"{', '.join(missing)}: not there. Run this from a checkout of the project.")
  folder = folder.absolute()
  interpreter = str(folder / "bin" / "python")
  parts = [str(folder).encode(), *(lock.read_bytes() for lock in locks)]
  stamp = hashlib.sha256(b"\0".join(parts)).hexdigest()
  stamp_file = folder / _STAMP
  if stamp_file.exists() and stamp_file.read_text() == stamp:
    return interpreter
  if folder.exists() and any(folder.iterdir()) and not (folder / _MARK).exists():
    raise PeerError(f"{folder} holds something else. Move it away, or name another folder.")
  python = python or find_python()
  test = f"import sys; sys.exit(sys.version_info < {oldest})"
  if _run([python, "-c", test]).returncode == 1:
    number = ".".join(map(str, oldest))
    raise PeerError(
      f"{python} is older than Python {number}, which {peer} needs. Name another, as in "
      f"--peer_python=python{number}."
    )
  print(f"Making the environment of {peer} in {folder}: a few minutes, once.", flush=True)
  shutil.rmtree(folder, ignore_errors=True)
  folder.mkdir(parents=True)
  (folder / _MARK).touch()
  (folder / ".gitignore").write_text("*\n")
  _check([python, "-m", "venv", str(folder)])
  _install(interpreter, folder, *locks)
  # Last: an environment without a stamp is made anew.
  stamp_file.write_text(stamp)
  return interpreter


def find_python() -> str:
  """Returns a Python 3.11 that can make environments, or else the interpreter that runs this."""
  candidates = [shutil.which(f"python{_PREFERRED}")]
  # pyenv's shims exist for versions that are not active.
  versions = pathlib.Path.home() / ".pyenv" / "versions"
  candidates += [str(path / "bin" / "python") for path in versions.glob(f"{_PREFERRED}*")]
  test = f"import ensurepip, sys, venv; sys.exit(sys.version[:4] != {_PREFERRED!r})"
  for candidate in candidates:
    if candidate and _run([candidate, "-c", test]).returncode == 0:
      return candidate
  return sys.executable


def without_torch(lock: str) -> str:
  """Returns a lock file's text without torch and what only its build for CUDA needs."""
  entries = re.split(r"^(?=[a-zA-Z])", lock, flags=re.MULTILINE)
  return "".join(entry for entry in entries if not _TORCH.match(entry))


def _install(
  interpreter: str,
  folder: pathlib.Path,
  build: pathlib.Path,
  torch_cpu: pathlib.Path,
  lock: pathlib.Path,
) -> None:
  # The locks are complete, so nothing is left to be resolved.
  pip = [interpreter, "-m", "pip", "install", "-qq", "--no-deps", "--require-hashes"]
  _check([*pip, "-r", str(build)])
  chosen = lock
  if _run([*pip, "-r", str(torch_cpu)]).returncode == 0:
    chosen = folder / "requirements.txt"
    chosen.write_text(without_torch(lock.read_text()))
  else:
    print(
      "pip is offered no build of torch without CUDA for this Python: taking the one with it, some "
      "3 GB to fetch and 5 GB on the disk.",
      flush=True,
    )
  # Some come as sources; they are built by the locked tools.
  _check([*pip, "--no-build-isolation", "-r", str(chosen)])


def _run(command: "list[str]") -> "subprocess.CompletedProcess[str]":
  try:
    return subprocess.run(command, capture_output=True, text=True, check=False)
  except OSError as error:
    return subprocess.CompletedProcess(command, 127, "", str(error))


def _check(command: "list[str]") -> None:
  result = _run(command)
  if result.returncode:
    raise PeerError(f"{' '.join(command)} failed:\n{result.stderr[-_TAIL:]}")
