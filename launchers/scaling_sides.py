"""Ours and dm-acme's `DistributedSVG0`, made alike, on an environment that is as slow as asked."""

import dataclasses
import glob
import json
import os
import time
from typing import Any, Callable
import uuid

from acme import specs
from acme.agents.tf import svg0_prior as acme_svg0
import dm_env
import numpy as np
import reverb

from temper.agents import svg0_prior
from temper.launchers.benchmark_case import OURS
from temper.launchers.benchmark_case import THEIRS
from temper.utils import checks
from temper.utils import replay_client

OBSERVATION_SIZE = 24
ACTION_SIZE = 6
EPISODE_STEPS = 100
LAYER_SIZES = (64, 64)
BATCH_SIZE = 32
# T: an item holds one step more.
SEQUENCE_LENGTH = 10
# Each pair is learnt from so often; dm-acme counts by item, which is T times as much.
SAMPLES_PER_STEP = 1.6
MIN_REPLAY_ITEMS = 20
# Environment steps between two requests for variables; dm-acme's is fixed.
VARIABLE_PERIOD = 1000

_OBSERVATIONS = specs.Array((OBSERVATION_SIZE,), np.float32)
_ACTIONS = specs.BoundedArray((ACTION_SIZE,), np.float32, -1.0, 1.0)
_REWARDS = specs.Array((), np.float32)
_DISCOUNTS = specs.BoundedArray((), np.float32, 0.0, 1.0)
_MAX_REPLAY_ITEMS = 10_000
_REMEMBERED = 64


@dataclasses.dataclass(frozen=True)
class ProgramSize:
  """What one program is.

  Attributes:
    side: `OURS` or `THEIRS`.
    num_actors: actor nodes, at least 1.
    environment_seconds: how long a step of the environment sleeps, 0 or more.
    limited: whether replay's limiter couples learning to acting.
    folder: where the actors' environments count their steps.
  """

  side: str
  num_actors: int
  environment_seconds: float
  limited: bool
  folder: str

  def __post_init__(self) -> None:
    if self.side not in (OURS, THEIRS):
      raise ValueError(f"side is {self.side!r}; it must be {OURS} or {THEIRS}.")
    checks.integer("num_actors", self.num_actors, minimum=1)
    if not self.environment_seconds >= 0:
      raise ValueError(f"environment_seconds is {self.environment_seconds}; it must be 0 or more.")

  def to_text(self) -> str:
    """Returns what `from_text` reads."""
    return json.dumps(dataclasses.asdict(self))

  @classmethod
  def from_text(cls, text: str) -> "ProgramSize":
    """Returns the size that `to_text` wrote."""
    return cls(**json.loads(text))


class SlowEnvironment(dm_env.Environment):
  """Sleeps at each step, and counts its steps in a file that other processes read.

  Observations repeat, and actions are ignored, so that the environment itself costs next to
  nothing.
  """

  def __init__(self, seconds: float, counter_file: str):
    """Makes the environment and the file.

    Args:
      seconds: how long a step sleeps; 0 for not at all.
      counter_file: file of one int64.
    """
    self._seconds = seconds
    self._count = np.memmap(counter_file, np.int64, "w+", shape=(1,))
    random = np.random.default_rng(0)
    self._observations = random.standard_normal((_REMEMBERED, OBSERVATION_SIZE), np.float32)
    self._reward = np.float32(0.5)
    self._discount = np.float32(1.0)
    self._steps = 0

  def reset(self) -> dm_env.TimeStep:
    """Starts an episode of `EPISODE_STEPS` steps."""
    self._steps = 0
    return dm_env.restart(self._observations[0])

  def step(self, action: Any) -> dm_env.TimeStep:
    """Sleeps, counts, and returns the next of the remembered observations."""
    del action
    if self._seconds:
      time.sleep(self._seconds)
    self._count[0] += 1
    self._steps += 1
    kind = dm_env.StepType.LAST if self._steps >= EPISODE_STEPS else dm_env.StepType.MID
    observation = self._observations[self._steps % _REMEMBERED]
    return dm_env.TimeStep(kind, self._reward, self._discount, observation)

  def observation_spec(self) -> specs.Array:
    """Returns the spec of float32 [24]."""
    return _OBSERVATIONS

  def action_spec(self) -> specs.BoundedArray:
    """Returns the spec of float32 [6] within -1 and 1."""
    return _ACTIONS

  def reward_spec(self) -> specs.Array:
    """Returns the spec of a float32."""
    return _REWARDS

  def discount_spec(self) -> specs.BoundedArray:
    """Returns the spec of a float32 from 0 to 1."""
    return _DISCOUNTS


def environment_factory(size: ProgramSize) -> Callable[[bool], dm_env.Environment]:
  """Returns what makes the environments; those of evaluators are not counted."""

  def make(evaluation: bool) -> dm_env.Environment:
    kind = "evaluator" if evaluation else "actor"
    file = os.path.join(size.folder, f"{kind}-{uuid.uuid4().hex}.count")
    return SlowEnvironment(size.environment_seconds, file)

  return make


def actor_steps(folder: str) -> list[int]:
  """Returns how many steps each actor's environment has done."""
  files = glob.glob(os.path.join(folder, "actor-*.count"))
  return [int(np.fromfile(file, np.int64)[0]) for file in files if os.path.getsize(file) == 8]


class AcmeDistributedSVG0(acme_svg0.DistributedSVG0):
  """dm-acme's program, with a replay client that its adder can use with the installed Reverb."""

  def actor(self, replay: reverb.Client, variable_source: Any, counter: Any) -> Any:
    """As dm-acme's."""
    return super().actor(replay_client.adapt_client(replay), variable_source, counter)


def make_networks(side: str) -> Any:
  """Makes the networks of a side; `policy` and `critic` by name, without variables."""
  module: Any = svg0_prior if side == OURS else acme_svg0
  return module.make_default_networks(_ACTIONS, LAYER_SIZES, LAYER_SIZES)


def make_agent(size: ProgramSize) -> Any:
  """Makes the `DistributedSVG0` of a side."""
  environment_spec = specs.EnvironmentSpec(_OBSERVATIONS, _ACTIONS, _REWARDS, _DISCOUNTS)
  common: dict[str, Any] = dict(
    environment_factory=environment_factory(size),
    network_factory=lambda action_spec: make_networks(size.side),
    num_actors=size.num_actors,
    environment_spec=environment_spec,
    batch_size=BATCH_SIZE,
    max_replay_size=_MAX_REPLAY_ITEMS,
    sequence_length=SEQUENCE_LENGTH,
  )
  if size.side == OURS:
    return svg0_prior.DistributedSVG0(
      **common,
      min_replay_size=MIN_REPLAY_ITEMS * SEQUENCE_LENGTH,
      samples_per_insert=SAMPLES_PER_STEP if size.limited else None,
      variable_update_period=VARIABLE_PERIOD,
    )
  return AcmeDistributedSVG0(
    **common,
    min_replay_size=MIN_REPLAY_ITEMS,
    samples_per_insert=SAMPLES_PER_STEP * SEQUENCE_LENGTH if size.limited else None,
  )
