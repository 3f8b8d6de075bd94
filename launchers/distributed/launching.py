"""What Launchpad changes of the process that launches, and how its threads end."""

from collections.abc import Iterator
import contextlib
import os
import signal
import sys
import threading
from typing import Any

_THREADS_END_SECONDS = 10.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGALRM)


@contextlib.contextmanager
def handlers_kept() -> Iterator[None]:
  """Keeps this process's handlers of signals, which Launchpad replaces."""
  handlers = {signum: signal.getsignal(signum) for signum in _SIGNALS}
  try:
    yield
  finally:
    if threading.current_thread() is threading.main_thread():
      for signum, handler in handlers.items():
        signal.signal(signum, handler)


@contextlib.contextmanager
def output_to(path: str) -> Iterator[None]:
  """Sends the descriptors that new processes inherit as their output to a file."""
  sys.stdout.flush()
  sys.stderr.flush()
  saved = [(number, os.dup(number)) for number in (1, 2)]
  log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
  try:
    for number, _ in saved:
      os.dup2(log, number)
    yield
  finally:
    sys.stdout.flush()
    sys.stderr.flush()
    os.close(log)
    for number, copy in saved:
      os.dup2(copy, number)
      os.close(copy)


def end_threads(manager: Any) -> None:
  """Asks the nodes' threads to end, and waits for them, but not for ever."""

  def end() -> None:
    manager.stop_and_wait()
    # An error that was told already would be raised once more when the process exits.
    with contextlib.suppress(Exception):
      manager.wait()

  ending = threading.Thread(target=end, name="end_of_nodes", daemon=True)
  ending.start()
  ending.join(_THREADS_END_SECONDS)
  if ending.is_alive():
    # Launchpad waits for its threads when the process exits: for one that hangs, for ever.
    manager._active_workers.clear()
