"""Notices that a replay server is gone; Reverb's own clients would wait for it for ever."""

import threading
from typing import Callable

from absl import logging
import reverb

# A server that is busy, such as with a checkpoint, may answer late: it takes two in a row.
_ANSWER_SECONDS = 8
_FAILURES_IN_A_ROW = 2


class ReplayLostError(RuntimeError):
  """The replay server does not answer any more."""


def check_server(client: reverb.Client, timeout_seconds: int = _ANSWER_SECONDS) -> None:
  """Asks the server for a sign of life.

  Raises:
    ReplayLostError: if there is none within the time.
  """
  try:
    client.server_info(timeout=timeout_seconds)
  except (reverb.ReverbError, RuntimeError) as error:
    raise ReplayLostError(
      f"The replay server at {client.server_address} has not answered for {timeout_seconds} s, so "
      "nothing can be added or sampled. Start again from the last checkpoint."
    ) from error


class ServerWatch:
  """Asks a server for signs of life in a thread of its own; calls back once there are none."""

  def __init__(
    self, client: reverb.Client, on_lost: Callable[[], None], period_seconds: float = 5.0
  ):
    """Starts watching.

    Args:
      client: client of the server.
      on_lost: called once, in the watching thread, when the server is gone. It takes at most two
        periods and two answer times until then, about 26 s with the default.
      period_seconds: time between two questions.
    """
    self._client = client
    self._on_lost = on_lost
    self._period_seconds = period_seconds
    self._stopped = threading.Event()
    self._thread = threading.Thread(target=self._watch, name="replay_watch", daemon=True)
    self._thread.start()

  def stop(self) -> None:
    """Ends watching; to be called before the server is stopped on purpose."""
    self._stopped.set()
    # The thread is at most waiting for a server that does not answer; nobody should wait here too.
    self._thread.join(timeout=1.0)

  def _watch(self) -> None:
    failures = 0
    while not self._stopped.wait(self._period_seconds):
      try:
        check_server(self._client)
        failures = 0
      except ReplayLostError as error:
        failures += 1
        if failures == _FAILURES_IN_A_ROW and not self._stopped.is_set():
          logging.error("%s", error)
          self._on_lost()
          return
