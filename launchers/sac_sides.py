"""The sides of benchmark_sac: what each does, how they are started, and what threads they have."""

from collections.abc import Mapping
import contextlib
import dataclasses
import sys
from typing import Callable

from temper.launchers import sac_own_worker
from temper.launchers import sac_peer_worker
from temper.launchers import timed_worker
from temper.launchers.sac_own_worker import OURS
from temper.launchers.sac_peer_worker import LOOP
from temper.launchers.sac_peer_worker import SB3
from temper.launchers.sac_peer_worker import SBX
from temper.launchers.sac_peer_worker import UNITS
from temper.launchers.sac_peer_worker import UPDATES
from temper.launchers.sac_peer_worker import VALUE_NETWORK
from temper.launchers.timed_worker import Threads

# Starts the worker of a job.
Start = Callable[[sac_peer_worker.Job], timed_worker.TimedWorker]
# Side and work of a worker.
Key = tuple[str, str]


@dataclasses.dataclass(frozen=True)
class Case:
  """One comparison.

  Attributes:
    text: what is timed.
    ours: our work.
    theirs: that of the peers.
    targets: ratio to be reached, our rate over theirs, by peer.
  """

  text: str
  ours: str
  theirs: str
  targets: Mapping[str, float]

  @property
  def keys(self) -> list[Key]:
    """Side and work of each worker, ours first."""
    return [(OURS, self.ours), *((side, self.theirs) for side in self.targets)]


CASES = {
  UPDATES: Case(
    "gradient updates, twin targets, batch 256, 2x256, 24 observations, 6 actions",
    UPDATES,
    UPDATES,
    {SBX: 1.1, SB3: 4.0},
  ),
  VALUE_NETWORK: Case(
    "the same with a value network, beside SBX's own SAC",
    VALUE_NETWORK,
    UPDATES,
    {SBX: 1.1},
  ),
  LOOP: Case(
    f"environment steps on {sac_peer_worker.ENVIRONMENT}, an update each, batch 256, 2x256",
    LOOP,
    LOOP,
    {SBX: 1.2, SB3: 2.5},
  ),
}


def threads_of(text: str) -> dict[str, Threads]:
  """Reads the flag of the threads.

  Args:
    text: "trial", one setting for all sides, or `side=setting` with commas between.

  Returns:
    The settings by side; a side that is missing is to be tried.

  Raises:
    ValueError: if it is none of these; says what is allowed.
  """
  sides = (OURS, SBX, SB3)
  if text == "trial":
    return {}
  try:
    if "=" not in text:
      return {side: Threads.from_text(text) for side in sides}
    pairs = [word.partition("=") for word in text.split(",")]
    if not {side for side, _, _ in pairs} <= set(sides):
      raise ValueError(f"the sides are {', '.join(sides)}.")
    return {side: Threads.from_text(setting) for side, _, setting in pairs}
  except ValueError as error:
    raise ValueError(f"--threads={text}: {error}") from error


def starter(interpreter: str) -> Start:
  """Returns the function that starts workers, those of the peers by the given interpreter."""

  def start(job: sac_peer_worker.Job) -> timed_worker.TimedWorker:
    if job.side == OURS:
      program = [sys.executable, "-m", sac_own_worker.__name__]
    else:
      # Isolated, so that nothing is imported from beside the worker, which is Temper's.
      program = [interpreter, "-I", sac_peer_worker.__file__]
    return timed_worker.TimedWorker(f"{job.side}, {job.work}", [*program, job.to_text()])

  return start


class Sides:
  """The workers of a run, each started when it is first needed."""

  def __init__(
    self,
    threads: Mapping[str, Threads],
    start: Start,
    turn_seconds: float,
    cleanup: contextlib.ExitStack,
  ):
    """Keeps what is needed to start a worker.

    Args:
      threads: settings of the sides that need no trial.
      start: starts a worker.
      turn_seconds: how long a turn takes about.
      cleanup: closes the workers.
    """
    self._threads = threads
    self._start = start
    self._turn_seconds = turn_seconds
    self._cleanup = cleanup
    self._workers: dict[Key, timed_worker.TimedWorker] = {}
    self._chosen: dict[Key, Threads] = {}
    self._turns: dict[Key, int] = {}  # Units of a turn.

  def time(self, case: Case, rounds: int) -> dict[str, list[float]]:
    """Lets the sides of a case work in turn.

    Args:
      case: what to time.
      rounds: how many turns each has.

    Returns:
      Updates or environment steps a second by side, one of each round.
    """
    keys = case.keys
    for key in keys:
      if key not in self._workers:
        self._choose(key)
    rates: dict[str, list[float]] = {side: [] for side, _ in keys}
    for _ in range(rounds):
      for key in keys:
        rate = timed_worker.rate(self._workers[key], self._turns[key])
        rates[key[0]].append(rate * UNITS[key[1]])
    return rates

  def chosen(self, case: Case) -> dict[str, Threads]:
    """Returns the threads that the sides of a case have."""
    return {side: self._chosen[side, work] for side, work in case.keys}

  def versions(self) -> list[str]:
    """Returns a line for each side that worked."""
    by_side = {side: worker.versions for (side, _), worker in self._workers.items()}
    return [
      f"{side}: " + ", ".join(f"{name} {number}" for name, number in versions.items())
      for side, versions in by_side.items()
    ]

  def _choose(self, key: Key) -> None:
    """Starts a worker with each setting that comes into question, and keeps the fastest."""
    side, work = key
    settings = [self._threads[side]] if side in self._threads else timed_worker.TRIED
    best, said = 0.0, []
    for threads in settings:
      job = sac_peer_worker.Job(side, work, threads.count, threads.pinned)
      with contextlib.ExitStack() as losing:
        worker = self._start(job)
        losing.callback(worker.close)
        rate = timed_worker.rate(worker, 1)
        # What is far behind needs no closer look.
        if rate > best / 2:
          rate = timed_worker.rate(worker, self._units(rate))
        said.append(f"{threads} {rate * UNITS[work]:.0f}/s")
        if rate > best:
          losing.pop_all()
          if key in self._workers:
            self._workers[key].close()
          self._cleanup.callback(worker.close)
          best, self._workers[key], self._chosen[key] = rate, worker, threads
    self._turns[key] = self._units(best)
    print(f"Threads of {side}, {work}: {', '.join(said)}: {self._chosen[key]}.", flush=True)

  def _units(self, rate: float) -> int:
    return max(1, round(rate * self._turn_seconds))
