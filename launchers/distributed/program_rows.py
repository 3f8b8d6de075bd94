"""The rows that a distributed run writes of its episodes, its speed, its learner and its nodes."""

from collections.abc import Mapping
import dataclasses
import time

from temper.launchers import training
from temper.launchers.callbacks import CallbackList
from temper.launchers.distributed import board as board_lib
from temper.launchers.distributed import step_leases
from temper.launchers.early_stop import REMEMBERED_RETURNS
from temper.launchers.experiment_config import ExperimentConfig
from temper.utils import run_loggers
from temper.utils.progress import rates_per_second

# What `logs/program.csv` holds of the nodes, beside the step. The variables' age is that of the
# actor whose were the oldest, at any time since the row before.
FIELDS = (
  "actors",
  "learner_steps",
  "replay_items",
  "samples_per_insert",
  "variable_age_steps",
  "variable_age_seconds",
  "restarts",
)


@dataclasses.dataclass
class _Window:
  """Counts and time at the last row of the speed log."""

  steps: int
  learner_steps: int
  mark: float


class ProgramRows:
  """Writes the rows, each whole and once; only one thread may call at a time."""

  def __init__(
    self,
    log: run_loggers.RunLog,
    callbacks: CallbackList,
    leases: step_leases.StepLeases,
    board: board_lib.Board,
    config: ExperimentConfig,
    steps: int,
  ):
    """Begins after the last row that a run which is resumed has.

    Args:
      log: where rows go.
      callbacks: are told of episodes.
      leases: knows the actors.
      board: knows the nodes.
      config: of the run.
      steps: environment steps that are done.
    """
    self._log = log
    self._callbacks = callbacks
    self._leases = leases
    self._board = board
    self._every = config.schedule().log_every
    self._remembered = config.early_stop.remembered if config.early_stop else REMEMBERED_RETURNS
    self._logged_at = steps
    self._window = _Window(steps, 0, time.monotonic())
    self._replay_items = 0
    self._samples_per_insert = 0.0
    self.rates: dict[str, float] = {}

  def learner_started(self, num_steps: int) -> None:
    """Hears of a learner that may have gone back to a checkpoint."""
    self._window.learner_steps = min(self._window.learner_steps or num_steps, num_steps)

  def hear_of_replay(self, items: int, samples_per_insert: float) -> None:
    """Hears what replay holds, and how often an item has been sampled."""
    self._replay_items, self._samples_per_insert = items, samples_per_insert

  def write_episode(
    self, state: training.RunState, episode: step_leases.Episode, step: int
  ) -> None:
    """Writes an episode and counts it.

    Args:
      state: the run's counts, which are changed.
      episode: it.
      step: environment steps of the run when it ended.
    """
    state.episodes += 1
    state.begun_episodes = max(state.begun_episodes, state.episodes)
    state.last_returns = [*state.last_returns, episode.episode_return][-self._remembered :]
    row = {
      "episode": state.episodes,
      "episode_return": episode.episode_return,
      "episode_length": episode.length,
      "wall_seconds": state.wall_seconds,
    }
    self._log.write("train", step, row)
    self._callbacks.on_episode(step, state.episodes, episode.episode_return, episode.length)

  def write_due(self, steps: int, learner_steps: int, metrics: Mapping[str, float]) -> None:
    """Writes what is due every so many environment steps.

    Args:
      steps: environment steps that are done.
      learner_steps: of the learner.
      metrics: of its newest step.
    """
    every = self._every
    if not every or steps // every == self._logged_at // every:
      return
    step = steps // every * every
    now, window = time.monotonic(), self._window
    self._window = _Window(steps, learner_steps, now)
    seconds = now - window.mark
    self.rates = rates_per_second(
      environment_steps=steps - window.steps,
      learner_steps=max(0, learner_steps - window.learner_steps),
      acting_seconds=seconds,
      learning_seconds=seconds,
      elapsed_seconds=seconds,
    )
    self._logged_at = steps
    self._log.write("speed", step, self.rates)
    if metrics:
      self._log.write("learner", step, metrics)
    self._log.write("program", step, self.program(learner_steps))
    self._leases.forget_ages()

  def program(self, learner_steps: int) -> dict[str, float]:
    """Returns how the nodes are, by the names of `FIELDS`."""
    age = self._leases.oldest(learner_steps)
    return {
      "actors": self._leases.num_acting,
      "learner_steps": learner_steps,
      "replay_items": self._replay_items,
      "samples_per_insert": self._samples_per_insert,
      "variable_age_steps": age.steps,
      "variable_age_seconds": age.seconds,
      "restarts": sum(node.restarts for node in self._board.nodes().values()),
    }
