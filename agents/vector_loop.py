"""A loop over several environments, whose actions come from one call of the policy."""

from collections.abc import Mapping, Sequence
import contextlib
import time
from typing import Any, Callable, Optional, Protocol

from absl import flags
from acme import core
from acme.utils import counting
from acme.utils import loggers
from acme.utils import signals
import dm_env
import numpy as np
import tree

EpisodeObserver = Callable[[Mapping[str, Any]], None]


class VectorActor(Protocol):
  """Acts in several environments, one a row; `temper.agents.vector_actor` has one."""

  @property
  def num_environments(self) -> int:
    """E, the number of rows."""

  def observe_first(self, row: int, timestep: dm_env.TimeStep) -> None:
    """Begins an episode in the environment of a row."""

  def select_actions(self, observations: Any) -> Any:
    """Returns an action for each row, nest of `[E, ...]`."""

  def observe(self, row: int, action: Any, next_timestep: dm_env.TimeStep) -> None:
    """Sees what an action has led to."""

  def update(self, wait: bool = False) -> None:
    """Is called once after each step of all environments."""

  def metrics(self) -> dict[str, float]:
    """Returns what is to be logged with an episode."""


class VectorLoop(core.Worker):
  """Runs E environments side by side, as `acme.EnvironmentLoop` runs one.

  In each round every environment takes a step. One whose episode has ended is reset before the
  next, whatever the others do. Counter, logger and observers are told of each finished episode.
  """

  def __init__(
    self,
    environments: Sequence[dm_env.Environment],
    actor: VectorActor,
    counter: Optional[counting.Counter] = None,
    logger: Optional[loggers.Logger] = None,
    should_update: bool = True,
    label: str = "environment_loop",
    observers: Sequence[EpisodeObserver] = (),
  ):
    """Initialises the loop; nothing is reset yet.

    Args:
      environments: E of one kind, with scalar rewards. They are stepped one after the other.
      actor: acts in E environments.
      counter: counts episodes and steps of all environments.
      logger: gets a row for each finished episode; None makes Acme's default one.
      should_update: whether the actor may fetch variables.
      label: of the default logger.
      observers: called with that row too: `episode_return`, `episode_length`, `steps_per_second`
        of all environments together, the counts, and the actor's metrics.

    Raises:
      ValueError: if the environments are not as many as the actor acts in.
    """
    if len(environments) != actor.num_environments:
      raise ValueError(
        f"There are {len(environments)} environments and the actor acts in "
        f"{actor.num_environments}; they must be as many."
      )
    self._rows = [_Row(environment) for environment in environments]
    self._actor = actor
    self._counter = counter or counting.Counter()
    # Acme's default CSV file would go below the home directory.
    self._logger = logger or loggers.make_default_logger(label, save_data=False)
    self._should_update = should_update
    self._observers = tuple(observers)
    self._observations: Any = None
    self._steps = 0

  def run(self, num_episodes: Optional[int] = None, num_steps: Optional[int] = None) -> None:
    """Runs until so many episodes have ended, or so many steps are done; else for ever.

    The steps are those of all environments together, rounded up to whole rounds. Episodes that are
    under way then go on when `run` is called again.

    Args:
      num_episodes: episodes to finish; rounded up when several end in one round.
      num_steps: steps to do.

    Raises:
      ValueError: if both numbers are given.
    """
    if num_episodes is not None and num_steps is not None:
      raise ValueError(
        f"num_episodes is {num_episodes} and num_steps is {num_steps}; give one of them at most."
      )
    episodes, first_step = 0, self._steps
    # Of a Launchpad program; it reads absl's flags, which not everyone has.
    parsed = flags.FLAGS.is_parsed()
    with signals.runtime_terminator() if parsed else contextlib.nullcontext():
      while (num_episodes is None or episodes < num_episodes) and (
        num_steps is None or self._steps - first_step < num_steps
      ):
        results = self.run_round()
        episodes += len(results)
        for result in results:
          self._logger.write(result)
      # Not when the program ends, since the counter may be gone before its actors.
      self._count_open_episodes()

  @property
  def num_steps(self) -> int:
    """Steps of all environments together."""
    return self._steps

  def run_round(self, num_rows: Optional[int] = None) -> list[dict[str, Any]]:
    """Takes a step in every environment; returns the results of the episodes that it ended.

    The counter and the observers are told of them, the logger is not.

    Args:
      num_rows: takes a step in the first so many only, which may be the last round: a recurrent
        policy has seen the others' observations then. None: in all.
    """
    for index, row in enumerate(self._rows):
      if row.timestep is None or row.timestep.last():
        self._actor.observe_first(index, row.reset(self._steps))
      self._put(index, row.observation)
    actions = self._actor.select_actions(self._observations)
    results = []
    for index, row in enumerate(self._rows[:num_rows]):
      action = tree.map_structure(lambda leaf, index=index: leaf[index], actions)
      self._actor.observe(index, action, row.step(action))
      self._steps += 1
      if row.ended:
        results.append(self._result(row))
    if self._should_update:
      self._actor.update()
    return results

  def _put(self, index: int, observation: Any) -> None:
    """Writes an observation into its row of the batch."""
    if self._observations is None:
      empty = lambda leaf: np.empty((len(self._rows), *np.shape(leaf)), np.asarray(leaf).dtype)
      self._observations = tree.map_structure(empty, observation)
    for batch, leaf in zip(tree.flatten(self._observations), tree.flatten(observation)):
      batch[index] = leaf

  def _result(self, row: "_Row") -> dict[str, Any]:
    counts = self._counter.increment(episodes=1, steps=row.count_steps())
    result = {
      "episode_length": row.length,
      "episode_return": row.episode_return,
      "steps_per_second": (self._steps - row.begun_at_step) / max(row.seconds, 1e-9),
      **counts,
      **self._actor.metrics(),
    }
    for observer in self._observers:
      observer(result)
    return result

  def _count_open_episodes(self) -> None:
    """Lets the counter know the steps of the episodes that are under way."""
    steps = sum(row.count_steps() for row in self._rows)
    if steps:
      self._counter.increment(steps=steps)


class _Row:
  """One environment, and the episode that is played in it."""

  def __init__(self, environment: dm_env.Environment):
    self._environment = environment
    self.timestep: Optional[dm_env.TimeStep] = None
    self.length = 0
    self.episode_return = 0.0
    self.begun_at_step = 0
    self._begun_at = 0.0
    self._counted = 0

  def reset(self, steps: int) -> dm_env.TimeStep:
    """Begins an episode after so many steps of all environments."""
    self._begun_at = time.monotonic()
    self.timestep = self._environment.reset()
    self.length, self.episode_return, self._counted = 0, 0.0, 0
    self.begun_at_step = steps
    return self.timestep

  def step(self, action: Any) -> dm_env.TimeStep:
    self.timestep = self._environment.step(action)
    self.length += 1
    self.episode_return += float(self.timestep.reward)
    return self.timestep

  @property
  def observation(self) -> Any:
    assert self.timestep is not None
    return self.timestep.observation

  @property
  def ended(self) -> bool:
    return self.timestep is not None and self.timestep.last()

  @property
  def seconds(self) -> float:
    """Seconds since the episode began."""
    return time.monotonic() - self._begun_at

  def count_steps(self) -> int:
    """Returns the episode's steps since this was called last."""
    steps, self._counted = self.length - self._counted, self.length
    return steps
