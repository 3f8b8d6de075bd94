"""Who plays the episodes of a dataset: random actions, a run's policy, or an agent that learns."""

import abc
from collections.abc import Callable, Iterator
import contextlib
import dataclasses
import json
from typing import Any, Optional

from acme import core
from acme import specs
from acme import types
import dm_env
import numpy as np

from temper.agents import local
from temper.agents import policies
from temper.launchers import agent_table
from temper.launchers.run_directory import RunDirectory
from temper.utils import checks
from temper.utils import environments
from temper.utils.checkpointing import Checkpointer
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
  """The policy of a run of the train launcher.

  Attributes:
    directory: folder of the run.
    checkpoint: path of one of its checkpoints; None takes the newest.
    policy: how actions are taken.
    noise: standard deviation of normal noise that is added to actions in [-1, 1].
  """

  directory: str
  checkpoint: Optional[str] = None
  policy: policies.PolicyChoice = policies.RAW
  noise: float = 0.0

  def __post_init__(self) -> None:
    checks.number("noise", self.noise, minimum=0)
    self.record()  # Refuses a folder that is no run.

  def record(self) -> dict[str, Any]:
    """Returns what the run's config.json holds.

    Raises:
      ValueError: if the folder holds no run of the train launcher.
    """
    path = RunDirectory(self.directory).config
    try:
      with open(path, encoding="utf-8") as file:
        record = json.load(file)
    except (OSError, ValueError) as error:
      raise ValueError(
        f"{self.directory} holds no run: {path} cannot be read ({error})."
      ) from error
    missing = {"agent", "environment", "config"} - set(record)
    if missing or record["agent"] not in agent_table.AGENTS or record.get("dataset") is not None:
      raise ValueError(
        f"{self.directory} holds no run of the train launcher: its config.json has the agent "
        f"{record.get('agent')!r}; runs of {list(agent_table.AGENTS)} that learnt while they acted "
        "can be played."
      )
    return record

  @contextlib.contextmanager
  def open(self, environment: CanonicalEnvironment, seed: int) -> Iterator[core.Actor]:
    checkpointer = Checkpointer(RunDirectory(self.directory).checkpoints)
    path = checkpointer.latest() if self.checkpoint is None else self.checkpoint
    if path is None:
      raise ValueError(f"{self.directory} has no checkpoint yet; train on, or give another run.")
    with local.LocalAgent(self._builder(), specs.make_environment_spec(environment)) as agent:
      checkpointer.restore(path, agent.checkpointables())
      actor = agent.make_evaluation_actor(self.policy, seed=seed)
      yield _NoisyActor(actor, self.noise, seed) if self.noise else actor

  def _builder(self) -> Any:
    record = self.record()
    entry = agent_table.find(record["agent"])
    values = {
      name: tuple(value) if isinstance(value, list) else value
      for name, value in record["config"].items()
    }
    return entry.builder_class(entry.config_class(**values))


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
