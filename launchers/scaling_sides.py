"""Ours and dm-acme's `DistributedSVG0`, made alike, on an environment that is as slow as asked."""

import glob
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
from temper.launchers import scaling_sizes as sizes
from temper.launchers.benchmark_case import OURS
from temper.launchers.scaling_sizes import ProgramSize
from temper.utils import replay_client

_OBSERVATIONS = specs.Array((sizes.OBSERVATION_SIZE,), np.float32)
_ACTIONS = specs.BoundedArray((sizes.ACTION_SIZE,), np.float32, -1.0, 1.0)
_REWARDS = specs.Array((), np.float32)
_DISCOUNTS = specs.BoundedArray((), np.float32, 0.0, 1.0)
_MAX_REPLAY_ITEMS = 10_000
_REMEMBERED = 64


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
    self._observations = random.standard_normal((_REMEMBERED, sizes.OBSERVATION_SIZE), np.float32)
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
    kind = dm_env.StepType.LAST if self._steps >= sizes.EPISODE_STEPS else dm_env.StepType.MID
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
  return module.make_default_networks(_ACTIONS, sizes.LAYER_SIZES, sizes.LAYER_SIZES)


def make_agent(size: ProgramSize) -> Any:
  """Makes the `DistributedSVG0` of a side."""
  environment_spec = specs.EnvironmentSpec(_OBSERVATIONS, _ACTIONS, _REWARDS, _DISCOUNTS)
  common: dict[str, Any] = dict(
    environment_factory=environment_factory(size),
    network_factory=lambda action_spec: make_networks(size.side),
    num_actors=size.num_actors,
    environment_spec=environment_spec,
    batch_size=sizes.BATCH_SIZE,
    max_replay_size=_MAX_REPLAY_ITEMS,
    sequence_length=sizes.SEQUENCE_LENGTH,
  )
  if size.side == OURS:
    return svg0_prior.DistributedSVG0(
      **common,
      min_replay_size=sizes.MIN_REPLAY_ITEMS * sizes.SEQUENCE_LENGTH,
      samples_per_insert=sizes.SAMPLES_PER_STEP if size.limited else None,
      variable_update_period=sizes.VARIABLE_PERIOD,
    )
  return AcmeDistributedSVG0(
    **common,
    min_replay_size=sizes.MIN_REPLAY_ITEMS,
    samples_per_insert=sizes.SAMPLES_PER_STEP * sizes.SEQUENCE_LENGTH if size.limited else None,
  )
