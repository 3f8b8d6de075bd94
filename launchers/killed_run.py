"""A training run that is killed again and again, and what must hold of its folder each time."""

from collections.abc import Sequence
import csv
import dataclasses
import enum
import os
import random
import re
import signal
import subprocess
import time
from typing import Callable, Optional

from temper.launchers.run_directory import RunDirectory
from temper.utils import checkpointing

_SAVING = ".saving_"
_POLL_SECONDS = 0.002
# A process that neither trains nor ends for so long hangs.
_HANG_SECONDS = 600.0
# How long after the beginning of a save, or of training, the latest kill comes.
_SAVE_SECONDS = 0.15
_TRAINING_SECONDS = 3.0
_STARTING_SECONDS = 12.0

# What a run says, in this order, once its logs are open.
_BEGUN = "Acting while training"
_RESUMING = re.compile(r"Resuming from (\S+); replay holds ([\d,]+) in")


class Moment(enum.Enum):
  """When a run is killed.

  SAVING: while it writes a checkpoint, or just after.
  TRAINING: at any time after its first new row in the logs.
  STARTING: at any time after its start, most often before it trains.
  """

  SAVING = "saving"
  TRAINING = "training"
  STARTING = "starting"


class BrokenRunError(RuntimeError):
  """What must hold after a kill does not; says what, and where."""


@dataclasses.dataclass(frozen=True)
class Kill:
  """One kill, and what was found then.

  Attributes:
    moment: when.
    saving: whether a checkpoint was half written.
    logged: the last step in the logs, -1 if there is none.
    checkpoint: step of the newest complete checkpoint, -1 if there is none.
    resumed: step from which the killed process itself had resumed; -1 if it began anew, None if it
      was killed before it said so.
  """

  moment: Moment
  saving: bool
  logged: int
  checkpoint: int
  resumed: Optional[int]


class KilledRun:
  """Starts a run, kills it, and checks its folder."""

  def __init__(self, command: Sequence[str], directory: str, *, every: int, log_every: int):
    """Initialises; nothing is started.

    Args:
      command: what starts or resumes the run in `directory`.
      directory: folder of the run.
      every: steps between its checkpoints.
      log_every: steps between rows of its logs; divides `every`.
    """
    self._command = list(command)
    self._directory = RunDirectory(directory)
    self._every = every
    self._log_every = log_every
    self._output = directory.rstrip(os.sep) + ".output"

  def kill_once(self, moment: Moment, chance: random.Random) -> Kill:
    """Starts the run, kills it at a moment, and checks what is left.

    Raises:
      BrokenRunError: if the run ended by itself, hung, resumed from another checkpoint than the
        newest, or left a log or checkpoint that it must not leave.
    """
    newest = self._newest()
    with self._started() as process:
      try:
        self._wait_for(moment, chance, process, restored=newest[0])
      finally:
        if process.poll() is None:
          os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    saving = any(name.startswith(_SAVING) for name in self._in_checkpoints())
    resumed = self._check_resumed(newest, has_trained=moment is not Moment.STARTING)
    return self._check(Kill(moment, saving, self.last_logged(), self._newest()[0], resumed))

  def finish(self) -> None:
    """Lets the run end by itself, and checks all of its folder.

    Raises:
      BrokenRunError: if it fails, or what must hold does not.
    """
    newest = self._newest()
    with self._started() as process:
      try:
        code = process.wait(_HANG_SECONDS)
      except subprocess.TimeoutExpired as error:
        raise self._broken("the run did not end") from error
      finally:
        if process.poll() is None:
          os.killpg(process.pid, signal.SIGKILL)
    if code != 0:
      raise self._broken(f"the run ended with {code}")
    self._check_resumed(newest, has_trained=True)
    for name in ("train", "speed", "learner", "evaluation"):
      if self._rows(name, torn=False) is None:
        raise self._broken(f"{name}.csv is missing")
    left = [name for name in self._in_checkpoints() if name.startswith(".")]
    if left:
      raise self._broken(f"{left} are left among the checkpoints")

  def last_logged(self) -> int:
    """Returns the last step in the speed log, -1 if there is none."""
    rows = self._rows("speed")
    return int(rows[-1][0]) if rows else -1

  # Starting and waiting.

  def _started(self) -> "subprocess.Popen[bytes]":
    with open(self._output, "wb") as output:
      # A group of its own, so that all it starts is killed with it, and nothing else.
      return subprocess.Popen(
        self._command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
      )

  def _wait_for(
    self,
    moment: Moment,
    chance: random.Random,
    process: "subprocess.Popen[bytes]",
    restored: int,
  ) -> None:
    """Waits for the moment of a process that goes on from a step, -1 if it begins anew."""
    if moment is Moment.STARTING:
      self._wait_until(lambda: False, process, chance.uniform(0.0, _STARTING_SECONDS))
      return
    if moment is Moment.TRAINING:
      # What the last process logged after the checkpoint is dropped before this one says so.
      trains = lambda: _BEGUN in self._said() and self.last_logged() > restored
      begins, latest = trains, _TRAINING_SECONDS
    else:
      # What the last process left half written is removed with the first save.
      old = {name for name in self._in_checkpoints() if name.startswith(_SAVING)}
      saving = lambda: any(
        name.startswith(_SAVING) and name not in old for name in self._in_checkpoints()
      )
      begins, latest = saving, _SAVE_SECONDS
    if not self._wait_until(begins, process, _HANG_SECONDS):
      raise self._broken(f"the run has not come to {moment.value} in {_HANG_SECONDS:g} s")
    self._wait_until(lambda: False, process, chance.uniform(0.0, latest))

  def _wait_until(
    self, happens: Callable[[], bool], process: "subprocess.Popen[bytes]", seconds: float
  ) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
      if process.poll() is not None:
        raise self._broken(f"the run ended with {process.returncode} by itself")
      if happens():
        return True
      time.sleep(_POLL_SECONDS)
    return False

  # Checking.

  def _check(self, kill: Kill) -> Kill:
    # The loop saves before it goes on, so no more than one interval can be lost.
    if max(kill.checkpoint, 0) < kill.logged - self._every:
      raise self._broken(
        f"the newest checkpoint is of step {kill.checkpoint}, but step {kill.logged} was logged "
        f"and one is due every {self._every}"
      )
    for name in ("train", "learner", "evaluation"):
      self._rows(name)
    return kill

  def _check_resumed(self, newest: tuple[int, str, int], *, has_trained: bool) -> Optional[int]:
    """Checks from what the process said it resumed; returns the step, see `Kill.resumed`.

    Args:
      newest: the newest checkpoint when it was started.
      has_trained: whether it must have said so.
    """
    step, path, items = newest
    found = _RESUMING.search(self._said())
    if found is None:
      if step >= 0 and has_trained:
        raise self._broken(f"the run began anew though there is {path}")
      return None if step >= 0 else -1
    if step < 0:
      raise self._broken(f"the run resumed from {found.group(1)}, which was not complete")
    if os.path.normpath(found.group(1)) != os.path.normpath(path):
      raise self._broken(f"the run resumed from {found.group(1)}, the newest was {path}")
    held = int(found.group(2).replace(",", ""))
    if held != items:
      raise self._broken(f"replay held {held} items after the resume, {path} holds {items}")
    return step

  def _newest(self) -> tuple[int, str, int]:
    """Returns step, path and items in replay of the newest complete checkpoint; -1, "", 0: none."""
    paths = checkpointing.complete_checkpoints(self._directory.checkpoints)
    if not paths:
      return -1, "", 0
    document = checkpointing.read_state(paths[-1])
    return document["step"], paths[-1], saved_items(paths[-1])

  def _rows(self, name: str, *, torn: bool = True) -> Optional[list[list[str]]]:
    """Returns the rows of a log without its header, None if there is no header.

    Args:
      name: of the file, without ".csv".
      torn: whether the last line may be torn, which is left out then.

    Raises:
      BrokenRunError: if another line is torn, or a row is repeated or missing.
    """
    path = os.path.join(self._directory.logs, f"{name}.csv")
    if not os.path.exists(path):
      return None
    with open(path, encoding="utf-8", newline="") as file:
      text = file.read()
    whole = text[: text.rfind("\n") + 1]
    if not torn and whole != text:
      raise self._broken(f"{path} ends with a torn row")
    rows = list(csv.reader(whole.splitlines()))
    if not rows:
      return None
    header, rows = rows[0], rows[1:]
    for row in rows:
      if len(row) != len(header) or not row[0].isdigit():
        raise self._broken(f"{path} has the torn row {row}")
    steps = [int(row[0]) for row in rows]
    if name == "speed" and steps != [self._log_every * (i + 1) for i in range(len(steps))]:
      raise self._broken(
        f"{path} has a row repeated or missing: {_irregular(steps, self._log_every)}"
      )
    if name == "train" and [int(row[1]) for row in rows] != list(range(1, len(rows) + 1)):
      raise self._broken(f"{path} has an episode repeated or missing")
    # The end is evaluated in several ways.
    distinct = [(row[0], row[1]) if name == "evaluation" else row[0] for row in rows]
    if steps != sorted(steps) or len(set(distinct)) != len(distinct):
      raise self._broken(f"{path} has a row repeated: {_irregular(steps)}")
    return rows

  def _in_checkpoints(self) -> list[str]:
    try:
      return os.listdir(self._directory.checkpoints)
    except FileNotFoundError:
      return []

  def _said(self) -> str:
    with open(self._output, encoding="utf-8", errors="replace") as file:
      return file.read()

  def _broken(self, what: str) -> BrokenRunError:
    lines = self._said().strip().splitlines()[-8:]
    said = "".join(f"\n  | {line}" for line in lines)
    return BrokenRunError(f"In {self._directory.path}: {what}.{said}")


def saved_items(checkpoint: str) -> int:
  """Returns how many items of replay a checkpoint holds, over all tables."""
  from temper.utils import replay_server  # Loads Reverb, for which a refusal need not wait.

  return sum(replay_server.saved_items(os.path.join(checkpoint, "replay")).values())


def _irregular(steps: Sequence[int], gap: Optional[int] = None) -> str:
  """Tells which steps follow on one another that must not; `gap` is what lies between them."""
  pairs = zip(steps, steps[1:])
  return ", ".join(
    f"{step} then {later}"
    for step, later in pairs
    if later <= step or gap is not None and later - step != gap
  )
