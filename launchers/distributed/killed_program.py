"""A distributed run whose nodes are killed, and what must hold of it."""

import contextlib
import csv
import dataclasses
import json
import os
import random
import signal
import subprocess
import time
from typing import Callable, Optional

import psutil

from temper.launchers.distributed import board as board_lib
from temper.launchers.run_directory import RunDirectory
from temper.utils import checkpointing

# A program that does not come on for so long hangs.
_HANG_SECONDS = 300.0
# Whatever happened, all processes have ended by then.
_END_SECONDS = 30.0
_POLL_SECONDS = 0.05
# The process that launched the program, beside the nodes.
_LAUNCHER = "launcher"
_ENDS_THE_PROGRAM = (_LAUNCHER, "replay", "monitor")


class BrokenProgramError(RuntimeError):
  """What must hold of a distributed run does not; says what, and where."""


@dataclasses.dataclass(frozen=True)
class Kill:
  """One kill.

  Attributes:
    name: of the node, or "launcher".
    step: environment steps of the run then.
    consequence: what followed, in words.
  """

  name: str
  step: int
  consequence: str


class KilledProgram:
  """Starts a distributed run, kills its nodes, and starts it again when that ended it."""

  def __init__(self, command: list[str], directory: str, *, every: int):
    """Initialises; nothing is started.

    Args:
      command: what starts or resumes the run.
      directory: its folder.
      every: steps between its checkpoints.
    """
    self._command = command
    self._directory = RunDirectory(directory)
    self._board = board_lib.Board(os.path.join(directory, ".program"))
    self._every = every
    self._output = directory.rstrip(os.sep) + ".output"
    self._process: Optional[subprocess.Popen[bytes]] = None
    self.num_launches = 0

  def kill_one(
    self, step: int, chance: random.Random, *, check_stop: Callable[[], None] = lambda: None
  ) -> Kill:
    """Kills a random node once the run has done so many steps.

    Args:
      step: environment steps.
      chance: chooses the node.
      check_stop: called while waiting; raises when the user wants to stop.

    Raises:
      BrokenProgramError: if the run ended by itself, hung, did not answer to the kill as it should,
        or left processes behind.
    """
    process = self._running()
    self._wait(lambda: self._steps() >= step and self._all_run(), f"step {step}", check_stop)
    nodes = self._board.nodes()
    name = chance.choice([*sorted(nodes), _LAUNCHER])
    reached = self._steps()
    family = self._family()
    os.kill(process.pid if name == _LAUNCHER else nodes[name].pid, signal.SIGKILL)
    if name in _ENDS_THE_PROGRAM:
      return Kill(name, reached, self._ended_by(name, reached, family))
    restarts = nodes[name].restarts
    self._wait(lambda: self._restarts(name) > restarts, f"restart of {name}", check_stop)
    return Kill(name, reached, "it was started again")

  def finish(self, target: float) -> float:
    """Lets the run end by itself; returns the mean return of the deterministic policy.

    Args:
      target: what that has to reach.

    Raises:
      BrokenProgramError: if it fails, does not reach the target, or leaves what it must not.
    """
    process = self._running()
    self._wait(lambda: process.poll() is not None, "its end", lambda: None, ends=True)
    if process.returncode != 0:
      raise self._broken(f"the run ended with {process.returncode}")
    for name in ("train", "speed", "learner", "evaluation", "program"):
      self._check_rows(name)
    if os.path.exists(os.path.join(self._directory.path, ".program")):
      raise self._broken("the board is left")
    with open(self._directory.result, encoding="utf-8") as file:
      mean = float(json.load(file)["evaluations"]["deterministic"]["mean"])
    if mean < target:
      raise self._broken(f"the mean return is {mean:.1f}, less than {target:g}")
    return mean

  def close(self) -> None:
    """Kills what still runs."""
    for process in self._family():
      with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()
    if self._process is not None:
      self._process.wait()

  def _running(self) -> "subprocess.Popen[bytes]":
    if self._process is None:
      # What a killed launcher left would pass for what the new one says.
      self._board.remove()
      os.makedirs(os.path.dirname(os.path.abspath(self._output)), exist_ok=True)
      with open(self._output, "ab") as output:
        self._process = subprocess.Popen(
          self._command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
      self.num_launches += 1
    return self._process

  def _ended_by(self, name: str, reached: int, family: list[psutil.Process]) -> str:
    """Waits for the program's end after a kill; returns what it lost, in words."""
    assert self._process is not None
    begun = time.monotonic()
    try:
      code = self._process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired as error:
      raise self._broken(f"the run goes on {_END_SECONDS:g} s after {name} was killed") from error
    _, left = psutil.wait_procs(family, timeout=max(0.0, _END_SECONDS + begun - time.monotonic()))
    if left:
      raise self._broken(f"{left} are left {_END_SECONDS:g} s after {name} was killed")
    if code == 0 or (name != _LAUNCHER and code != 1):
      raise self._broken(f"the run ended with {code} after {name} was killed; 1 is right")
    seconds = time.monotonic() - begun
    self._process = None
    newest = checkpointing.complete_checkpoints(self._directory.checkpoints)
    saved = int(checkpointing.read_state(newest[-1])["step"]) if newest else 0
    # A checkpoint is asked for at its step, and is there a little later.
    if reached - saved > 2 * self._every:
      raise self._broken(f"{reached - saved} steps are lost, one checkpoint every {self._every}")
    return f"the run ended within {seconds:.0f} s and resumes from step {saved:,}"

  def _wait(
    self,
    happens: Callable[[], bool],
    what: str,
    check_stop: Callable[[], None],
    *,
    ends: bool = False,
  ) -> None:
    last, mark = self._steps(), time.monotonic()
    while not happens():
      check_stop()
      time.sleep(_POLL_SECONDS)
      process = self._running()
      if not ends and process.poll() is not None:
        raise self._broken(f"the run ended with {process.returncode} by itself")
      if self._steps() != last:
        last, mark = self._steps(), time.monotonic()
      if time.monotonic() - mark > _HANG_SECONDS:
        raise self._broken(f"the run does not come to {what}")

  def _steps(self) -> int:
    status = self._board.status()
    return int(status["steps"]) if status else -1

  def _all_run(self) -> bool:
    nodes = self._board.nodes().values()
    return all(node.state is board_lib.NodeState.RUNNING for node in nodes)

  def _restarts(self, name: str) -> int:
    node = self._board.nodes().get(name)
    return node.restarts if node else 0

  def _family(self) -> list[psutil.Process]:
    if self._process is None:
      return []
    try:
      launcher = psutil.Process(self._process.pid)
      return [launcher, *launcher.children(recursive=True)]
    except psutil.NoSuchProcess:
      return []

  def _check_rows(self, name: str) -> None:
    """Checks that a log's rows are whole, in order, and none is repeated."""
    path = os.path.join(self._directory.logs, f"{name}.csv")
    with open(path, encoding="utf-8", newline="") as file:
      text = file.read()
    header, *rows = list(csv.reader(text.splitlines()))
    if not text.endswith("\n") or any(len(row) != len(header) for row in rows):
      raise self._broken(f"{path} has a torn row")
    keys = [(int(row[0]), row[1] if name == "evaluation" else "") for row in rows]
    steps = [step for step, _ in keys]
    if steps != sorted(steps) or len(set(keys)) != len(keys):
      raise self._broken(f"{path} has a row repeated or out of order")
    if name == "train" and [int(row[1]) for row in rows] != list(range(1, len(rows) + 1)):
      raise self._broken(f"{path} has an episode repeated or missing")

  def _broken(self, what: str) -> BrokenProgramError:
    with open(self._output, encoding="utf-8", errors="replace") as file:
      lines = file.read().strip().splitlines()[-8:]
    said = "".join(f"\n  | {line}" for line in lines)
    return BrokenProgramError(f"In {self._directory.path}: {what}.{said}")
