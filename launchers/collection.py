"""Records episodes and stores them, as a function."""

from collections.abc import Generator, Iterator, Mapping
import contextlib
import dataclasses
import os
import time
from typing import Any, Optional

from acme import core
import numpy as np

from temper.agents import learner as learner_lib
from temper.launchers import episode_sources
from temper.launchers.outcomes import SettingsError
from temper.launchers.outcomes import TrainingFailed
from temper.launchers.stopping import StopRequested
from temper.launchers.stopping import StopSignal
from temper.utils import checks
from temper.utils import datasets
from temper.utils import environment_wrappers
from temper.utils.episode_recorder import EpisodeRecorder
from temper.utils.progress import Progress


@dataclasses.dataclass(frozen=True)
class Part:
  """Episodes of one source; `episodes` or `steps` says how many.

  Attributes:
    source: who plays.
    episodes: number of episodes.
    steps: number of environment steps; the last episode is cut there.
  """

  source: episode_sources.Source
  episodes: Optional[int] = None
  steps: Optional[int] = None

  def __post_init__(self) -> None:
    if (self.episodes is None) == (self.steps is None):
      raise ValueError(
        f"episodes is {self.episodes} and steps is {self.steps}; exactly one of them must say how "
        "much to record."
      )
    for name in ("episodes", "steps"):
      if getattr(self, name) is not None:
        checks.integer(name, getattr(self, name), minimum=1)

  @property
  def unit(self) -> str:
    """What is counted, in the singular."""
    return "episode" if self.steps is None else "step"

  @property
  def total(self) -> int:
    """How many of the unit."""
    return self.episodes or self.steps or 0


@dataclasses.dataclass(frozen=True)
class CollectionConfig:
  """What to record and where to.

  Attributes:
    environment: name such as "gym:Pendulum-v1".
    output: path of the new dataset.
    format: how to store it.
    parts: what it holds, one part after the other.
    seed: an integer in [0, 2**31): start states, actions, and an agent that learns.
    environment_options: see `temper.utils.environments`.
    keep_when_stopped: whether a stop leaves a dataset of the episodes so far, or nothing.
  """

  environment: str
  output: str
  format: datasets.DatasetFormat
  parts: tuple[Part, ...]
  seed: int = 0
  environment_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  keep_when_stopped: bool = True

  def __post_init__(self) -> None:
    if not self.output:
      raise ValueError("output is empty; a dataset needs a path.")
    if not self.parts:
      raise ValueError("parts is empty; a dataset needs a source of episodes.")
    if not 0 <= self.seed < 2**31:
      raise ValueError(f"seed is {self.seed}; it must be an integer from 0 to {2**31 - 1}.")


@dataclasses.dataclass(frozen=True)
class Collected:
  """What was recorded.

  Attributes:
    summary: of the dataset, read back from disk.
    stop: why it ended early, None if it did not.
  """

  summary: datasets.DatasetSummary
  stop: Optional[StopRequested]


def collect(config: CollectionConfig, signal: StopSignal) -> Collected:
  """Records episodes into a new dataset, whole or not at all.

  Args:
    config: what to record.
    signal: an entered signal of the caller.

  Returns:
    What the dataset holds.

  Raises:
    SettingsError: if the output exists, or source or environment cannot be made.
    StopRequested: if the user stops it and nothing is to be kept, or there is nothing yet.
    TrainingFailed: if learning diverges or the environment returns what it may not.
    ImportError: if a package is missing.
  """
  if os.path.lexists(config.output):
    raise SettingsError(f"{config.output} exists already. Give another output, or remove it first.")
  try:
    made = episode_sources.make_recorded_environment(
      config.environment, dict(config.environment_options), config.seed
    )
    recording = _Recording(config, signal, *made)
    with contextlib.closing(made[0]), contextlib.closing(recording.episodes()) as episodes:
      datasets.write_dataset(
        config.output,
        config.format,
        episodes,
        action_spec=made[1].action_spec(),
        environment_name=config.environment,
      )
  except (
    learner_lib.NonFiniteError,
    learner_lib.DataExhaustedError,
    environment_wrappers.EnvironmentFault,
  ) as error:
    raise TrainingFailed(f"Recording failed, and nothing is written. {error}") from error
  except ValueError as error:
    raise SettingsError(str(error)) from error
  summary = datasets.summarise(datasets.open_dataset(config.output, config.format))
  return Collected(summary, recording.stop)


class _Recording:
  """The episodes of all parts, as they are played."""

  def __init__(
    self,
    config: CollectionConfig,
    signal: StopSignal,
    environment: environment_wrappers.CanonicalEnvironment,
    recorder: EpisodeRecorder,
  ):
    self._config = config
    self._signal = signal
    self._environment = environment
    self._recorder = recorder
    # Of all parts; those of the running episode count.
    self._steps = 0
    self.stop: Optional[StopRequested] = None

  def episodes(self) -> Generator[datasets.Episode, None, None]:
    """Plays all parts."""
    for number, part in enumerate(self._config.parts):
      seed = int(np.random.SeedSequence([self._config.seed, number]).generate_state(1)[0])
      with part.source.open(self._environment, seed) as actor:
        yield from self._play(part, actor)
      if self.stop is not None:
        return

  def _play(self, part: Part, actor: core.Actor) -> Iterator[datasets.Episode]:
    progress = Progress(part.total, unit=part.unit)
    begun, before = time.monotonic(), self._steps

    def enough(episodes: int, steps: int) -> bool:
      self._steps = before + steps
      done = episodes if part.steps is None else steps
      progress.advance(done)
      self._check_stop()
      return self.stop is not None or done >= part.total

    with contextlib.closing(progress):
      for episode in episode_sources.play(self._environment, self._recorder, actor, enough):
        rate = (self._steps - before) / (time.monotonic() - begun)
        progress.describe(f"return {episode.total_return:.4g} · {rate:.0f} steps/s")
        yield episode

  def _check_stop(self) -> None:
    """Notes that the user wants to stop; raises StopRequested if nothing is to be kept."""
    try:
      self._signal.check()
    except StopRequested as request:
      if not self._config.keep_when_stopped or self._steps == 0:
        raise
      self.stop = request
