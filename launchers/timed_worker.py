"""Worker processes that do so much work when told to and say how long it took.

What a worker is told and answers: see `temper.launchers.sac_peer_worker`.
"""

from collections.abc import Mapping, Sequence
import contextlib
import dataclasses
import json
import subprocess
import tempfile
import threading
from typing import Any

_TAIL = 3_000
# Some libraries compile for minutes, and too many threads on too few CPUs take longer still.
_PATIENCE_SECONDS = 900.0
_CLOSING_SECONDS = 10.0


class WorkerError(RuntimeError):
  """A worker ended or did not answer; the message holds the end of what it said."""


@dataclasses.dataclass(frozen=True)
class Threads:
  """How many threads a library gets.

  Attributes:
    count: threads of one operation; 0 leaves the choice to the library.
    pinned: whether the process is kept on one CPU.
  """

  count: int = 0
  pinned: bool = False

  def __str__(self) -> str:
    return "pinned" if self.pinned else str(self.count or "all")

  @classmethod
  def from_text(cls, text: str) -> "Threads":
    """Reads what `str` gives; raises ValueError for anything else."""
    if text == "pinned":
      return cls(pinned=True)
    if text == "all":
      return cls()
    if not text.isdecimal() or int(text) < 1:
      raise ValueError(f"threads are {text!r}; they must be a number from 1, all, or pinned.")
    return cls(int(text))


# What is worth trying, on however many CPUs.
TRIED = (Threads(1), Threads(), Threads(pinned=True))


class TimedWorker:
  """A worker process."""

  def __init__(self, name: str, command: Sequence[str], patience: float = _PATIENCE_SECONDS):
    """Starts the process, and waits until all is compiled.

    Args:
      name: for messages.
      command: what to run.
      patience: seconds after which a worker that does not answer is given up.

    Raises:
      WorkerError: if it does not come so far.
    """
    self._name = name
    self._patience = patience
    self._errors = tempfile.TemporaryFile("w+")
    try:
      process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=self._errors,
        text=True,
        bufsize=1,
      )
    except OSError as error:
      self._errors.close()
      raise WorkerError(f"{name} cannot be started: {error}") from error
    assert process.stdin and process.stdout
    self._process, self._orders, self._answers = process, process.stdin, process.stdout
    try:
      self._versions: Mapping[str, str] = self._answer()["versions"]
    except BaseException:
      self.close()
      raise

  @property
  def versions(self) -> Mapping[str, str]:
    """What is timed, by the names of the distributions."""
    return self._versions

  def seconds(self, units: int) -> float:
    """Lets the worker do so many units and returns the seconds that they took it.

    Raises:
      WorkerError: if it ends or does not answer.
    """
    # One that has ended is noticed when its answer is missing.
    with contextlib.suppress(BrokenPipeError):
      print(units, file=self._orders, flush=True)
    return self._answer()["seconds"]

  def close(self) -> None:
    """Ends the process; closing twice does nothing."""
    if self._errors.closed:
      return
    with contextlib.suppress(BrokenPipeError):
      self._orders.close()
    try:
      self._process.wait(_CLOSING_SECONDS)
    except subprocess.TimeoutExpired:
      self._process.kill()
      self._process.wait()
    self._answers.close()
    self._errors.close()

  def _answer(self) -> Any:
    """Returns the next answer."""
    given_up = threading.Event()

    def give_up() -> None:
      given_up.set()
      self._process.kill()

    timer = threading.Timer(self._patience, give_up)
    timer.start()
    try:
      line = self._answers.readline()
    finally:
      timer.cancel()
    if line:
      return json.loads(line)
    # Its output has ended, so that it is about to.
    with contextlib.suppress(subprocess.TimeoutExpired):
      self._process.wait(_CLOSING_SECONDS)
    self._errors.seek(0)
    said = self._errors.read()[-_TAIL:]
    fate = (
      f"did not answer for {self._patience:.0f} s"
      if given_up.is_set()
      else f"ended with {self._process.poll()}"
    )
    raise WorkerError(f"{self._name} {fate}:\n{said}")


def rate(worker: TimedWorker, units: int) -> float:
  """Lets a worker do so many units and returns how many it did a second."""
  return units / worker.seconds(units)
