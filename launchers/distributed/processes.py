"""The processes of a program that this process launched, and their end."""

import atexit
from collections.abc import Iterator
import contextlib
import re
from typing import Any

import psutil

_TERMINATION_SECONDS = 5.0
_KILL_SECONDS = 5.0
# Launchpad gives its wrapper of a node's output the node's group and number.
_TITLE = re.compile(r"(\w+)/(\d+)$")
_SINGLE = ("replay", "monitor", "learner")


class ProcessTree:
  """What was started while recording, and all that those start."""

  def __init__(self) -> None:
    self._started: dict[str, psutil.Process] = {}

  @contextlib.contextmanager
  def recording(self) -> Iterator[None]:
    """Remembers the children of this process that begin in the context, by their node's name."""
    before = set(psutil.Process().children())
    try:
      yield
    finally:
      for process in set(psutil.Process().children()) - before:
        with contextlib.suppress(psutil.Error):
          self._started[_name(process)] = process

  def gone(self) -> set[str]:
    """Returns the names of the nodes whose process has ended."""
    return {name for name, process in self._started.items() if not _runs(process)}

  def end(self) -> None:
    """Asks all processes to end, and kills what is left after five seconds."""
    processes = []
    for process in self._started.values():
      with contextlib.suppress(psutil.NoSuchProcess):
        processes += [process, *process.children(recursive=True)]
    for process in processes:
      with contextlib.suppress(psutil.NoSuchProcess):
        process.terminate()
    _, left = psutil.wait_procs(processes, timeout=_TERMINATION_SECONDS)
    for process in left:
      with contextlib.suppress(psutil.NoSuchProcess):
        # What it has started since is not to outlive it.
        left = [*left, *process.children(recursive=True)]
    for process in left:
      with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()
    psutil.wait_procs(left, timeout=_KILL_SECONDS)


def forget(manager: Any) -> None:
  """Keeps Launchpad from waiting for its processes when this process exits."""
  atexit.unregister(manager.wait)


def _runs(process: psutil.Process) -> bool:
  try:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
  except psutil.NoSuchProcess:
    return False


def _name(process: psutil.Process) -> str:
  for word in process.cmdline():
    found = _TITLE.fullmatch(word)
    if found:
      group, index = found.groups()
      return group if group in _SINGLE else f"{group}_{index}"
  return str(process.pid)
