"""Ctrl-C and `kill` end a run at its next step instead of in the middle of one."""

import signal
import threading
from types import FrameType
from typing import Any, Optional


class StopRequested(BaseException):
  """The user asked the run to end. No error, so handlers of `Exception` let it pass.

  Attributes:
    signum: the signal that asked.
  """

  def __init__(self, signum: int):
    super().__init__(f"{signal.Signals(signum).name} received")
    self.signum = signum

  @property
  def exit_code(self) -> int:
    """What a shell expects of a process that this signal ended: 130 or 143."""
    return 128 + self.signum


class StopSignal:
  """While entered, SIGINT and SIGTERM set a flag that `check` turns into `StopRequested`.

  A second signal acts at once: Ctrl-C raises KeyboardInterrupt, SIGTERM ends the process. Outside
  the main thread, where Python allows no handlers, entering changes nothing.
  """

  def __init__(self) -> None:
    self._signum: Optional[int] = None
    self._previous: dict[int, Any] = {}

  def __enter__(self) -> "StopSignal":
    if threading.current_thread() is threading.main_thread():
      for signum in (signal.SIGINT, signal.SIGTERM):
        self._previous[signum] = signal.signal(signum, self._handle)
    return self

  def __exit__(self, *unused_exception: Any) -> None:
    for signum, handler in self._previous.items():
      signal.signal(signum, handler)
    self._previous.clear()

  def _handle(self, signum: int, unused_frame: Optional[FrameType]) -> None:
    self._signum = signum
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)

  def check(self) -> None:
    """Raises StopRequested if a signal has come since entering."""
    if self._signum is not None:
      raise StopRequested(self._signum)
