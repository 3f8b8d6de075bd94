"""The training loop: Acme's environment loop, with what is due after each step."""

from collections.abc import Mapping
import dataclasses
import time
from typing import Any, Callable, Optional

import acme
from acme import core
from acme.utils import counting
from acme.utils import loggers
import dm_env
import numpy as np

from temper.launchers.callbacks import NO_CALLBACKS
from temper.launchers.callbacks import CallbackList
from temper.launchers.early_stop import REMEMBERED_RETURNS
from temper.launchers.early_stop import EarlyStop
from temper.utils import checks
from temper.utils import run_loggers
from temper.utils.progress import Progress
from temper.utils.progress import rates_per_second


@dataclasses.dataclass
class RunState:
  """The counts of a run, which a resume goes on from.

  Attributes:
    steps: environment steps.
    episodes: finished episodes.
    wall_seconds: time spent, all processes together, evaluations and checkpoints included.
    acting_seconds: time in the policy, the environment and the adder.
    learning_seconds: time in the learner.
    evaluated_at: environment steps at the last evaluation while training, -1 before the first.
    last_returns: those of the last training episodes, in time order.
    begun_episodes: episodes that were begun, which decides the next one's start.
  """

  steps: int = 0
  episodes: int = 0
  wall_seconds: float = 0.0
  acting_seconds: float = 0.0
  learning_seconds: float = 0.0
  evaluated_at: int = -1
  last_returns: list[float] = dataclasses.field(default_factory=list)
  begun_episodes: int = 0

  def __post_init__(self) -> None:
    # A checkpoint of an older version does not tell it.
    self.begun_episodes = max(self.begun_episodes, self.episodes)


@dataclasses.dataclass(frozen=True)
class Schedule:
  """When the loop does what, in steps of the run; 0 means never.

  Attributes:
    total: where training ends.
    log_every: between rows of the learner's log.
    evaluate_every: between evaluations.
    checkpoint_every: between checkpoints.
    checkpoint_minutes: minutes between checkpoints, beside those of `checkpoint_every`.
  """

  total: int
  log_every: int
  evaluate_every: int
  checkpoint_every: int
  checkpoint_minutes: float = 0.0

  def __post_init__(self) -> None:
    if self.total < 1:
      raise ValueError(f"steps is {self.total}; it must be at least 1.")
    for name in ("log_every", "evaluate_every", "checkpoint_every"):
      value = getattr(self, name)
      if value < 0:
        raise ValueError(f"{name} is {value}; it must be a number of steps, or 0 for never.")
    checks.number("checkpoint_minutes", self.checkpoint_minutes, minimum=0)


class CheckpointClock:
  """Tells when a checkpoint is due, by steps or by minutes since the last one."""

  def __init__(self, schedule: Schedule, *, steps: int):
    """Starts the clock.

    Args:
      schedule: of the run.
      steps: of the run so far, of which there is a checkpoint already.
    """
    self._saved_at = steps
    self._every = schedule.checkpoint_every
    self._seconds = 60.0 * schedule.checkpoint_minutes
    self._mark = time.monotonic()

  def due(self, steps: int) -> bool:
    """Whether a checkpoint is due after so many steps; if so, the minutes begin anew.

    Args:
      steps: of the run.
    """
    if steps == self._saved_at:
      return False
    late = self._seconds > 0 and time.monotonic() - self._mark >= self._seconds
    if late or due(steps, self._every):
      self._mark = time.monotonic()
      return True
    return False


class WallClock:
  """Counts the time that a run takes."""

  def __init__(self) -> None:
    self._mark = time.monotonic()

  def seconds(self) -> float:
    """Returns the seconds since the last call, or since this was made."""
    before, self._mark = self._mark, time.monotonic()
    return self._mark - before


class _EndOfTraining(Exception):
  """Leaves the environment loop in the middle of an episode, since all steps are done."""


class Trainer(core.Actor):
  """Runs an agent for an exact number of environment steps.

  It stands between Acme's loop and the agent: the loop calls `update` last in each step, which
  makes it the one place where a step is complete, and where stopping, evaluating or saving leaves
  nothing half done.
  """

  def __init__(
    self,
    agent: Any,
    environment: dm_env.Environment,
    *,
    state: RunState,
    schedule: Schedule,
    log: run_loggers.RunLog,
    progress: Progress,
    check_stop: Callable[[], None],
    evaluate: Callable[[], None],
    save: Callable[[], None],
    early_stop: Optional[EarlyStop] = None,
    callbacks: CallbackList = NO_CALLBACKS,
  ):
    """Wires the loop.

    Args:
      agent: a `LocalAgent`.
      environment: the environment to train in.
      state: counts to go on from; changed in place.
      schedule: when to do what.
      log: where episodes and learner metrics go.
      progress: what the user sees.
      check_stop: raises `StopRequested` when the user wants to stop.
      evaluate: called when an evaluation is due.
      save: called when a checkpoint is due.
      early_stop: ends training before its steps are done; None never does.
      callbacks: told of each episode.
    """
    self._agent = agent
    self._state = state
    self._schedule = schedule
    self._log = log
    self._progress = progress
    self._check_stop = check_stop
    self._evaluate = evaluate
    self._save = save
    self._early_stop = early_stop
    self._callbacks = callbacks
    self._checkpoint_clock = CheckpointClock(schedule, steps=state.steps)
    # The row of the step that a resume begins at was written before its checkpoint.
    self._logged_at = state.steps
    self._loop = acme.EnvironmentLoop(
      environment, self, counter=counting.Counter(), logger=loggers.NoOpLogger()
    )
    self._episode_over = True
    self._clock = WallClock()
    self._step_mark = time.monotonic()
    self._window = self._new_window()

  def run(self) -> None:
    """Trains until `finished`.

    Raises:
      StopRequested: at a step boundary, when `check_stop` does.
      Exception: whatever agent and environment raise.
    """
    try:
      self._do_what_isdue()
      while not self._finished():
        result = self._loop.run_episode()
        self._write_episode(result)
        self._do_what_isdue()
    except _EndOfTraining:
      pass
    finally:
      self._count_wall_time()

  # What the environment loop calls.

  def select_action(self, observation: Any) -> np.ndarray:
    """Asks the agent."""
    return self._agent.select_action(observation)

  def observe_first(self, timestep: dm_env.TimeStep) -> None:
    """Tells the agent of an episode's first step."""
    self._state.begun_episodes += 1
    self._agent.observe_first(timestep)

  def observe(self, action: np.ndarray, next_timestep: dm_env.TimeStep) -> None:
    """Tells the agent of a step."""
    self._episode_over = next_timestep.last()
    self._agent.observe(action, next_timestep=next_timestep)

  def update(self, wait: bool = False) -> None:
    """Lets the agent learn, then does what is due after this step."""
    acted = time.monotonic()
    self._agent.update(wait)
    learnt = time.monotonic()
    acting, learning = acted - self._step_mark, learnt - acted
    self._state.acting_seconds += acting
    self._state.learning_seconds += learning
    self._window.acting_seconds += acting
    self._window.learning_seconds += learning
    self._state.steps += 1
    self._progress.advance(self._state.steps)
    if not self._episode_over:
      # After the last step of an episode this waits for the loop to report the episode.
      self._do_what_isdue()
      if self._state.steps >= self._schedule.total:
        raise _EndOfTraining()
    self._step_mark = time.monotonic()

  # What happens between steps.

  def _do_what_isdue(self) -> None:
    steps = self._state.steps
    if steps != self._logged_at and due(steps, self._schedule.log_every):
      self._write_learner()
      self._logged_at = steps
    finished = self._finished()
    # The end of a run evaluates and saves by itself, and more thoroughly.
    if not finished and due(steps, self._schedule.evaluate_every):
      if self._state.evaluated_at != steps:
        self._evaluate()
        self._state.evaluated_at = steps
    if not finished and self._checkpoint_clock.due(steps):
      self._count_wall_time()
      self._save()
    self._check_stop()
    self._step_mark = time.monotonic()

  def _finished(self) -> bool:
    return finished(self._state, self._schedule.total, self._early_stop)

  def _write_episode(self, result: Mapping[str, Any]) -> None:
    self._state.episodes += 1
    self._count_wall_time()
    episode_return = float(result["episode_return"])
    remembered = self._early_stop.remembered if self._early_stop else REMEMBERED_RETURNS
    self._state.last_returns = [*self._state.last_returns, episode_return][-remembered:]
    length = int(result["episode_length"])
    self._log.write(
      "train",
      self._state.steps,
      {
        "episode": self._state.episodes,
        "episode_return": episode_return,
        "episode_length": length,
        "wall_seconds": self._state.wall_seconds,
      },
    )
    self._callbacks.on_episode(self._state.steps, self._state.episodes, episode_return, length)

  def _write_learner(self) -> None:
    metrics = self._agent.metrics()
    rates = self._rates_of_window()
    returns = self._state.last_returns
    self._progress.summarise(
      episode_return=returns[-1] if returns else None,
      metrics=metrics,
      rates=rates,
      goal=self._early_stop.state(returns) if self._early_stop else None,
    )
    self._log.write("speed", self._state.steps, rates)
    if metrics:
      self._log.write("learner", self._state.steps, metrics)

  def _new_window(self) -> "_Window":
    return _Window(steps=self._state.steps, learner_steps=self._agent.learner.num_steps)

  def _rates_of_window(self) -> dict[str, float]:
    """Returns the rates since the last call."""
    window, self._window = self._window, self._new_window()
    return rates_per_second(
      environment_steps=self._window.steps - window.steps,
      learner_steps=self._window.learner_steps - window.learner_steps,
      acting_seconds=window.acting_seconds,
      learning_seconds=window.learning_seconds,
    )

  def _count_wall_time(self) -> None:
    self._state.wall_seconds += self._clock.seconds()


@dataclasses.dataclass
class _Window:
  """Counts and times since the last row of the speed log."""

  steps: int
  learner_steps: int
  acting_seconds: float = 0.0
  learning_seconds: float = 0.0


def finished(state: RunState, total: int, early_stop: Optional[EarlyStop]) -> bool:
  """Whether a run is trained: it has all its steps, or has met its early stop."""
  return state.steps >= total or (early_stop is not None and early_stop.met(state.last_returns))


def due(steps: int, period: int) -> bool:
  """Whether something of a period is due after so many steps; never, if the period is 0."""
  return period > 0 and steps % period == 0
