"""Wrappers that give every environment the form that agents expect."""

import math
from typing import Any, Optional

from acme.wrappers import base
import dm_env
from dm_env import specs
import numpy as np

from temper.utils import environment_actions
from temper.utils import environment_observations

_MAX_SEED = 2**32 - 1


class EnvironmentFault(ValueError):
  """An environment returned what breaks its own spec, or NaN or infinity; says what and when."""


class CanonicalEnvironment(dm_env.Environment):
  """The outermost wrapper: canonical observations, actions, rewards and discounts, all checked.

  Observations are converted by `ObservationMapping`, actions by `ActionMapping` (float32 within
  [-1, 1] for the agent); rewards and discounts are float32 scalars. The environment is reset once
  on construction to compare its first observation with its spec; the first call of `reset` returns
  that same episode start, so that none is lost.

  Attributes:
    environment: the environment inside.
    action_mapping: the `ActionMapping` in use; an exported policy needs it too.
    observation_mapping: the `ObservationMapping` in use; a dataset of the environment needs it too.
  """

  def __init__(
    self,
    environment: dm_env.Environment,
    *,
    infinite_action_scale: Optional[float] = None,
    observation_indices: Optional[environment_observations.Indices] = None,
  ):
    """Wraps and checks an environment.

    Args:
      environment: any `dm_env.Environment`; it is reset here.
      infinite_action_scale: see `ActionMapping`.
      observation_indices: see `ObservationMapping`.

    Raises:
      ValueError: if a spec is not supported, or the first time step does not match it.
    """
    self.environment = environment
    self.action_mapping = environment_actions.ActionMapping(
      environment.action_spec(), infinite_action_scale=infinite_action_scale
    )
    self.observation_mapping = environment_observations.ObservationMapping(
      environment.observation_spec(), indices=observation_indices
    )
    for name, spec in (
      ("reward", environment.reward_spec()),
      ("discount", environment.discount_spec()),
    ):
      if not isinstance(spec, specs.Array) or spec.shape != ():
        raise ValueError(
          f"the {name} spec is {spec!r}; it must be one scalar. Sum or choose in the environment."
        )
    self._reset_next_step = True
    # Since construction, for messages.
    self._episodes = 0
    self._steps = 0
    self._first: Optional[dm_env.TimeStep] = self._reset_inner()

  def reset(self) -> dm_env.TimeStep:
    """Starts an episode; returns its FIRST step, whose reward and discount are None."""
    timestep, self._first = self._first, None
    if timestep is None:
      timestep = self._reset_inner()
    self._reset_next_step = False
    return timestep

  def step(self, action: np.ndarray) -> dm_env.TimeStep:
    """Steps with a canonical action, or starts an episode after a LAST step.

    Args:
      action: float32 of the action spec's shape; values outside [-1, 1] are clipped.

    Raises:
      ValueError: if the action has another shape or holds NaN.
      EnvironmentFault: if what the environment returns does not match its spec or is not finite.
    """
    if self._reset_next_step:
      return self.reset()
    action = np.asarray(action)
    if action.shape != self.action_mapping.canonical_spec.shape:
      raise ValueError(
        f"the action has shape {action.shape}; this environment takes "
        f"{self.action_mapping.canonical_spec.shape}."
      )
    timestep = self.environment.step(self.action_mapping.to_environment(action))
    self._steps += 1
    try:
      canonical = self._check_step(timestep)
    except ValueError as error:
      raise EnvironmentFault(f"{self._when()}: {error}") from error
    self._reset_next_step = timestep.last()
    return canonical

  def observation_spec(self) -> Any:
    """Returns the nested spec of canonical observations."""
    return self.observation_mapping.spec

  def action_spec(self) -> specs.BoundedArray:
    """Returns the spec of canonical actions: float32 in [-1, 1], of the inner action's shape."""
    return self.action_mapping.canonical_spec

  def reward_spec(self) -> specs.Array:
    """Returns the spec of the reward, a float32 scalar."""
    return specs.Array((), np.float32, name="reward")

  def discount_spec(self) -> specs.BoundedArray:
    """Returns the spec of the discount, a float32 scalar in [0, 1]."""
    return specs.BoundedArray((), np.float32, 0.0, 1.0, name="discount")

  @property
  def can_seed(self) -> bool:
    """Whether `seed` works, that is, whether the environment inside has a `seed(seed)` method."""
    return callable(getattr(self.environment, "seed", None))

  def seed(self, seed: int) -> None:
    """Makes the next `reset` begin the sequence of episodes that belongs to `seed`.

    An evaluator calls this before each `reset` to meet the same episode starts again. It does not
    end a running episode.

    Args:
      seed: an integer in [0, 2**32).

    Raises:
      ValueError: if the seed is out of range, or the environment inside cannot be seeded.
    """
    if not self.can_seed:
      raise ValueError(
        f"{type(self.environment).__name__} has no seed(seed) method, so its episodes cannot be "
        "repeated. Give it one that re-seeds its random numbers from the next reset on."
      )
    self.environment.seed(check_seed(seed))
    self._first = None

  def render(self) -> np.ndarray:
    """Returns the current picture, uint8 [H, W, 3].

    Raises:
      RuntimeError: if this environment cannot draw itself here; the message says why.
    """
    draw = getattr(self.environment, "render", None)
    if not callable(draw):
      raise RuntimeError(
        f"{type(self.environment).__name__} has no render() method, so there is no picture of it. "
        "Give it one that returns a uint8 array [H, W, 3]."
      )
    frame = np.asarray(draw())
    if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[-1] != 3:
      raise RuntimeError(
        f"render() returned {frame.dtype} {frame.shape}; it must return a uint8 array [H, W, 3]."
      )
    return frame

  def close(self) -> None:
    """Closes the environment inside."""
    self.environment.close()

  def _reset_inner(self) -> dm_env.TimeStep:
    """Resets the environment inside and converts its first step."""
    timestep = self.environment.reset()
    self._episodes += 1
    self._steps = 0
    if not isinstance(timestep, dm_env.TimeStep) or not timestep.first():
      raise EnvironmentFault(
        f"reset() returned {timestep!r}; it must return a dm_env.TimeStep whose step_type is FIRST."
      )
    try:
      return dm_env.restart(self.observation_mapping(timestep.observation))
    except ValueError as error:
      raise EnvironmentFault(f"{self._when()}: {error}") from error

  def _check_step(self, timestep: dm_env.TimeStep) -> dm_env.TimeStep:
    """Converts a time step that follows an action; raises ValueError if something is amiss."""
    if timestep.first():
      raise ValueError(
        "the environment began a new episode in the middle of one: return a LAST step before a "
        "FIRST one."
      )
    discount = _scalar("discount", timestep.discount)
    if not 0.0 <= discount <= 1.0:
      raise ValueError(f"the environment returned the discount {discount}; it must lie in [0, 1].")
    reward = _scalar("reward", timestep.reward)
    if not math.isfinite(reward):
      raise ValueError(
        f"the environment returned the reward {timestep.reward}, which is no finite float32 "
        "number. Nothing can be learnt from it: mend it in the environment."
      )
    return dm_env.TimeStep(
      timestep.step_type, reward, discount, self.observation_mapping(timestep.observation)
    )

  def _when(self) -> str:
    where = f"step {self._steps}" if self._steps else "the reset"
    return f"{type(self.environment).__name__}, {where} of its episode {self._episodes}"


class StepLimit(base.EnvironmentWrapper):
  """Truncates episodes after a number of steps.

  The step that reaches the limit becomes LAST and keeps its discount, unless it was LAST already.
  """

  def __init__(self, environment: dm_env.Environment, max_episode_steps: int):
    """Wraps an environment.

    Args:
      environment: any environment. A limit of its own stays in force; this one can only shorten
        episodes.
      max_episode_steps: steps (actions) after which an episode is cut; at least 1.

    Raises:
      ValueError: if `max_episode_steps` is not a positive integer.
    """
    if (
      isinstance(max_episode_steps, bool)
      or not isinstance(max_episode_steps, (int, np.integer))
      or max_episode_steps < 1
    ):
      raise ValueError(
        f"max_episode_steps is {max_episode_steps!r}; it must be an integer of at least 1, or None."
      )
    super().__init__(environment)
    self._max_episode_steps = max_episode_steps
    self._steps: Optional[int] = None  # None while no episode runs.

  def reset(self) -> dm_env.TimeStep:
    """Starts an episode."""
    self._steps = 0
    return self._environment.reset()

  def step(self, action: Any) -> dm_env.TimeStep:
    """Steps, or starts an episode after the last one was cut."""
    if self._steps is None:
      return self.reset()
    timestep = self._environment.step(action)
    self._steps += 1
    if timestep.mid() and self._steps >= self._max_episode_steps:
      timestep = timestep._replace(step_type=dm_env.StepType.LAST)
    if timestep.last():
      self._steps = None
    return timestep


class FixedStart(base.EnvironmentWrapper):
  """Begins every episode as the first one of a seed begins: one start state, and the same noise."""

  def __init__(self, environment: CanonicalEnvironment, seed: int):
    """Wraps an environment.

    Args:
      environment: one that can be seeded.
      seed: an integer in [0, 2**32).

    Raises:
      ValueError: if the environment cannot be seeded, or not with this.
    """
    super().__init__(environment)
    environment.seed(seed)
    self._seed = seed
    self._running = False

  def reset(self) -> dm_env.TimeStep:
    """Starts an episode."""
    self._environment.seed(self._seed)
    self._running = True
    return self._environment.reset()

  def step(self, action: Any) -> dm_env.TimeStep:
    """Steps, or starts an episode after a LAST step."""
    if not self._running:
      return self.reset()
    timestep = self._environment.step(action)
    self._running = not timestep.last()
    return timestep


def check_seed(seed: Any) -> int:
  """Returns `seed` as an int, or raises ValueError if it is not an integer in [0, 2**32)."""
  if (
    isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed <= _MAX_SEED
  ):
    raise ValueError(f"the seed is {seed!r}; it must be an integer from 0 to {_MAX_SEED}.")
  return int(seed)


def _scalar(name: str, value: Any) -> np.floating:
  """Returns a reward or discount as a float32 scalar, or raises ValueError."""
  array = np.asarray(value)
  if array.shape != () or array.dtype.kind not in "fiub":
    raise ValueError(
      f"the environment returned the {name} {value!r}; after a step it must be one number (shape "
      f"(), not {array.shape})."
    )
  return np.float32(array)
