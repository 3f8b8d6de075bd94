"""Keeps what native libraries print on stderr off the terminal, until something goes wrong."""

from collections.abc import Iterator
import contextlib
import os
import sys
import tempfile

_TAIL_BYTES = 4_000


@contextlib.contextmanager
def held_back() -> Iterator[None]:
  """Sends file descriptor 2 to a scratch file while Python's own stderr stays on the terminal.

  Reverb's server reports its start and every checkpoint there, in the middle of a progress bar, and
  has no switch for it. An exception that leaves the context prints the end of what was held back.
  """
  sys.stderr.flush()
  terminal = os.dup(2)
  python_stderr = sys.stderr
  with tempfile.TemporaryFile() as aside, os.fdopen(terminal, "w", buffering=1) as stream:
    os.dup2(aside.fileno(), 2)
    # A stderr that is not descriptor 2 (captured, or replaced by a program) is left alone.
    if _is_descriptor_two(python_stderr):
      sys.stderr = stream
    try:
      yield
    except Exception:
      aside.seek(max(0, aside.seek(0, os.SEEK_END) - _TAIL_BYTES))
      stream.write(aside.read().decode(errors="replace"))
      raise
    finally:
      os.dup2(terminal, 2)
      sys.stderr = python_stderr


def _is_descriptor_two(stream: object) -> bool:
  try:
    return stream.fileno() == 2  # type: ignore[attr-defined]
  except (AttributeError, OSError, ValueError):
    return False
