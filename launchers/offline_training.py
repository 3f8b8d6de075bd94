"""The loop of learner steps, with what is due after each."""

from collections.abc import Mapping
import dataclasses
from typing import Callable, Optional

from acme.utils import counting
import numpy as np

from temper.agents import offline
from temper.launchers import divergence
from temper.launchers import training
from temper.utils import run_loggers
from temper.utils.progress import Progress


@dataclasses.dataclass
class OfflineState:
  """The counts of an offline run, which a resume goes on from.

  Attributes:
    steps: learner steps.
    wall_seconds: time spent, all processes together, evaluations and checkpoints included.
    evaluated_at: learner steps at the last evaluation while training, -1 before the first.
  """

  steps: int = 0
  wall_seconds: float = 0.0
  evaluated_at: int = -1


class OfflineTrainer:
  """Does an exact number of learner steps."""

  def __init__(
    self,
    agent: offline.OfflineAgent,
    counter: counting.Counter,
    *,
    state: OfflineState,
    schedule: training.Schedule,
    log: run_loggers.RunLog,
    progress: Progress,
    watch: divergence.DivergenceWatch,
    check_stop: Callable[[], None],
    evaluate: Callable[[], float],
    save: Callable[[], None],
  ):
    """Wires the loop.

    Args:
      agent: what learns.
      counter: the agent's; what it counts is not logged as a metric.
      state: counts to go on from; changed in place.
      schedule: when to do what.
      log: where the learner's metrics go.
      progress: what the user sees.
      watch: looks at the metrics.
      check_stop: raises `StopRequested` when the user wants to stop.
      evaluate: called when an evaluation is due; returns a mean return to show.
      save: called when a checkpoint is due.
    """
    self._agent = agent
    self._counter = counter
    self._state = state
    self._schedule = schedule
    self._log = log
    self._progress = progress
    self._watch = watch
    self._check_stop = check_stop
    self._evaluate = evaluate
    self._save = save
    self._clock = training.WallClock()
    self._checkpoint_clock = training.CheckpointClock(schedule, steps=state.steps)
    self._last_return: Optional[float] = None
    # One entry a step since the last row of the log.
    self._metrics: list[Mapping[str, float]] = []
    self._seconds_mark = agent.learning_seconds

  def run(self) -> None:
    """Learns until `schedule.total`.

    Raises:
      StopRequested: between steps, when `check_stop` does.
      Exception: whatever agent and environment raise.
    """
    try:
      self._do_what_is_due()
      while self._state.steps < self._schedule.total:
        self._agent.step()
        self._state.steps += 1
        self._metrics.append(self._agent.metrics())
        self._progress.advance(self._state.steps)
        self._do_what_is_due()
    finally:
      self._count_wall_time()

  def _do_what_is_due(self) -> None:
    steps, schedule = self._state.steps, self._schedule
    if self._metrics and training.due(steps, schedule.log_every):
      self._write_learner()
    # The end of a run evaluates and saves by itself, and more thoroughly.
    if steps < schedule.total:
      if training.due(steps, schedule.evaluate_every) and self._state.evaluated_at != steps:
        self._count_wall_time()
        self._last_return = self._evaluate()
        self._state.evaluated_at = steps
      if self._checkpoint_clock.due(steps):
        self._count_wall_time()
        self._save()
    self._check_stop()

  def _write_learner(self) -> None:
    """Writes the means since the last row, which say more than one step's metrics."""
    counts = self._counter.get_counts()
    means = {
      name: float(np.mean([metrics[name] for metrics in self._metrics]))
      for name in self._metrics[-1]
      if name not in counts  # The rows' own steps say it.
    }
    seconds = self._agent.learning_seconds - self._seconds_mark
    self._seconds_mark = self._agent.learning_seconds
    rates = {"learning_steps_per_second": len(self._metrics) / max(seconds, 1e-9)}
    self._metrics.clear()
    self._count_wall_time()
    self._progress.summarise(episode_return=self._last_return, metrics=means, rates=rates)
    self._log.write("speed", self._state.steps, {**rates, "wall_seconds": self._state.wall_seconds})
    self._log.write("learner", self._state.steps, means)
    for note in self._watch.notes(self._state.steps, means):
      self._progress.note(note)

  def _count_wall_time(self) -> None:
    self._state.wall_seconds += self._clock.seconds()
