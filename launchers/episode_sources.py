"""Who plays the episodes of a dataset: random actions, a run's policy, or an agent that learns."""

import abc
from collections.abc import Callable, Iterator
import contextlib
import dataclasses
from typing import Any, Optional

from acme import core
from acme import specs
from acme import types
import dm_env
import numpy as np

from temper.agents import actor as actor_lib
from temper.agents import local
from temper.agents import policies
from temper.launchers import run_loading
from temper.utils import checks
from temper.utils import environments
from temper.utils.datasets.episodes import Episode
from temper.utils.environment_wrappers import CanonicalEnvironment
from temper.utils.episode_recorder import EpisodeRecorder

ActorContext = contextlib.AbstractContextManager[core.Actor]


class Source(abc.ABC):
  """What takes the actions of recorded episodes."""

  @abc.abstractmethod
  def open(self, environment: CanonicalEnvironment, seed: int) -> ActorContext:
    """Returns a context that holds the actor.

    Args:
      environment: where it will play.
      seed: decides all that is random about it.

    Raises:
      ValueError: if it cannot play there.
    """


@dataclasses.dataclass(frozen=True)
class RandomSource(Source):
  """Actions that are uniform between the environment's bounds."""

  def open(self, environment: CanonicalEnvironment, seed: int) -> ActorContext:
    return contextlib.nullcontext(_RandomActor(environment.action_spec(), seed))


@dataclasses.dataclass(frozen=True)
class LearningSource(Source):
  """An agent that learns while it plays: episodes from random to trained.

  Attributes:
    builder: makes the agent, as `SVG0Builder(SVG0Config())` does.
  """

  builder: Any

  def open(self, environment: CanonicalEnvironment, seed: int) -> ActorContext:
    return local.LocalAgent(self.builder, specs.make_environment_spec(environment), seed=seed)


@dataclasses.dataclass(frozen=True)
class RunSource(Source):
  """The policy of a run, of `train` or `train-offline`.

  Attributes:
    directory: folder of the run.
    checkpoint: which of its checkpoints, see `run_loading.open_run`.
    policy: how actions are taken.
    noise: standard deviation of normal noise that is added to actions in [-1, 1].
    saved: the run, found when this is made.
  """

  directory: str
  checkpoint: Optional[str] = None
  policy: policies.PolicyChoice = policies.RAW
  noise: float = 0.0
  saved: run_loading.SavedRun = dataclasses.field(init=False)

  def __post_init__(self) -> None:
    """Raises ValueError if there is no such run or checkpoint, or the noise is below 0."""
    checks.number("noise", self.noise, minimum=0)
    saved = run_loading.open_run(self.directory, self.checkpoint, kind=self.policy.kind)
    # A frozen dataclass allows no other way.
    object.__setattr__(self, "saved", saved)

  @contextlib.contextmanager
  def open(self, environment: CanonicalEnvironment, seed: int) -> Iterator[core.Actor]:
    agent = self.saved.load(specs.make_environment_spec(environment))
    actor = actor_lib.Actor(agent.make_policy(self.policy), seed=seed)
    yield _NoisyActor(actor, self.noise, seed) if self.noise else actor


def make_recorded_environment(
  name: str, options: dict[str, Any], seed: int
) -> "tuple[CanonicalEnvironment, EpisodeRecorder]":
  """Makes an environment and the recorder inside of it.

  Args:
    name: as `environments.make_environment` takes it.
    options: further arguments of that.
    seed: fixes the sequence of episode starts.

  Raises:
    ValueError: see `environments.make_environment`.
    ImportError: see there.
  """
  made = environments.make_environment(name, seed=seed, **options)
  recorder = EpisodeRecorder(made.environment)
  environment = CanonicalEnvironment(
    recorder,
    infinite_action_scale=made.action_mapping.infinite_action_scale,
    observation_indices=made.observation_mapping.indices,
  )
  return environment, recorder


def play(
  environment: CanonicalEnvironment,
  recorder: EpisodeRecorder,
  actor: core.Actor,
  enough: Callable[[int, int], bool],
) -> Iterator[Episode]:
  """Plays and yields episodes; the last one is cut where it is enough.

  Args:
    environment: where to play.
    recorder: the one inside of it.
    actor: who plays, and learns in its `update` if it does.
    enough: of the numbers of finished episodes and of steps; asked before each step.

  Yields:
    Episodes in the environment's own units.
  """
  episodes = steps = 0
  while not enough(episodes, steps):
    timestep = environment.reset()
    actor.observe_first(timestep)
    while not timestep.last() and not enough(episodes, steps):
      action = actor.select_action(timestep.observation)
      timestep = environment.step(action)
      actor.observe(action, next_timestep=timestep)
      actor.update()
      steps += 1
    episodes += 1
    episode = recorder.take()
    if episode is not None:  # It was enough before the first step.
      yield episode


class _RandomActor(core.Actor):
  """Draws actions uniformly between the bounds."""

  def __init__(self, spec: specs.BoundedArray, seed: int):
    self._spec = spec
    self._random = np.random.default_rng(seed)

  def select_action(self, observation: types.NestedArray) -> np.ndarray:
    spec = self._spec
    action = self._random.uniform(spec.minimum, spec.maximum, spec.shape)
    return np.asarray(action, spec.dtype)

  def observe_first(self, timestep: dm_env.TimeStep) -> None:
    pass

  def observe(self, action: types.NestedArray, next_timestep: dm_env.TimeStep) -> None:
    pass

  def update(self, wait: bool = False) -> None:
    pass


class _NoisyActor(core.Actor):
  """Adds normal noise to another actor's actions, within the bounds."""

  def __init__(self, actor: core.Actor, scale: float, seed: int):
    self._actor = actor
    self._scale = scale
    self._random = np.random.default_rng(seed)

  def select_action(self, observation: types.NestedArray) -> np.ndarray:
    action = self._actor.select_action(observation)
    noisy = action + self._scale * self._random.standard_normal(np.shape(action))
    return np.asarray(np.clip(noisy, -1.0, 1.0), np.float32)

  def observe_first(self, timestep: dm_env.TimeStep) -> None:
    self._actor.observe_first(timestep)

  def observe(self, action: types.NestedArray, next_timestep: dm_env.TimeStep) -> None:
    self._actor.observe(action, next_timestep)

  def update(self, wait: bool = False) -> None:
    self._actor.update(wait)
