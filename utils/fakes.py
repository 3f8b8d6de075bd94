"""Small environments for tests: one of any specs, and one that is quickly solved."""

from typing import Any, Optional

import dm_env
from dm_env import specs
import numpy as np
import tree


class FakeEnvironment(dm_env.Environment):
  """An environment of the given specs with random observations and rewards, and a fixed length.

  It checks every action against its own action spec, so a test that steps it through a wrapper also
  shows that the wrapper's actions are inside.

  Attributes:
    actions: the actions received in the running episode.
  """

  def __init__(
    self,
    observation_spec: Any,
    action_spec: Any,
    *,
    reward_dtype: Any = np.float32,
    episode_length: int = 10,
    terminate: bool = False,
    seed: Optional[int] = None,
  ):
    """Makes the environment.

    Args:
      observation_spec: nest of dm_env array specs; observations are drawn inside their bounds.
      action_spec: spec of one action, or a nest.
      reward_dtype: dtype of the rewards, which are whole numbers from 0 to 9.
      episode_length: number of steps (actions) of an episode.
      terminate: whether the last step has discount 0; otherwise 1.
      seed: seed of the random numbers.
    """
    self._observation_spec = observation_spec
    self._action_spec = action_spec
    self._reward_dtype = np.dtype(reward_dtype)
    self._episode_length = episode_length
    self._terminate = terminate
    self._random = np.random.RandomState(seed)
    self._steps: Optional[int] = None
    self.actions: list[Any] = []

  def seed(self, seed: int) -> None:
    """Makes the next `reset` begin the episodes of this seed."""
    self._random.seed(seed)

  def reset(self) -> dm_env.TimeStep:
    """Starts an episode."""
    self._steps, self.actions = 0, []
    return dm_env.restart(self._observe())

  def step(self, action: Any) -> dm_env.TimeStep:
    """Steps; raises ValueError if the action is outside the action spec."""
    if self._steps is None:
      return self.reset()
    tree.map_structure(lambda spec, value: spec.validate(value), self._action_spec, action)
    self.actions.append(action)
    self._steps += 1
    reward = self._reward_dtype.type(self._random.randint(10))
    observation = self._observe()
    if self._steps < self._episode_length:
      return dm_env.transition(reward, observation)
    self._steps = None
    if self._terminate:
      return dm_env.termination(reward, observation)
    return dm_env.truncation(reward, observation)

  def observation_spec(self) -> Any:
    """Returns the observation spec that was given."""
    return self._observation_spec

  def action_spec(self) -> Any:
    """Returns the action spec that was given."""
    return self._action_spec

  def reward_spec(self) -> specs.Array:
    """Returns the spec of a scalar of the reward dtype."""
    return specs.Array((), self._reward_dtype, name="reward")

  def _observe(self) -> Any:
    return tree.map_structure(self._sample, self._observation_spec)

  def _sample(self, spec: specs.Array) -> np.ndarray:
    """Returns a random value that a spec allows."""
    dtype = np.dtype(spec.dtype)
    if dtype.kind == "b":
      return np.asarray(self._random.randint(2, size=spec.shape), dtype)
    if dtype.kind in "iu":
      low, high = (0, 255) if dtype == np.uint8 else (-5, 5)
      low, high = getattr(spec, "minimum", low), getattr(spec, "maximum", high)
      return np.asarray(
        self._random.randint(low, np.asarray(high, np.int64) + 1, spec.shape), dtype
      )
    value = self._random.normal(size=spec.shape)
    if isinstance(spec, specs.BoundedArray):
      value = np.clip(value, spec.minimum, spec.maximum)
    return np.asarray(value, dtype)


class PointMass(dm_env.Environment):
  """A point that actions push towards the origin: trivial to solve, with a known best return.

  Observations are the position, float32 `[dimensions]` within [-1, 1], uniform at the start; an
  action, float32 of the same shape within [-1, 1], moves it by `STEP` times the action, and walls
  stop it. The reward is minus the squared distance after the move. Episodes are truncated.
  """

  STEP = 0.25

  def __init__(self, dimensions: int = 2, *, episode_length: int = 20, seed: Optional[int] = None):
    """Makes the environment.

    Args:
      dimensions: of positions and actions.
      episode_length: number of steps (actions) of an episode.
      seed: seed of the start positions.
    """
    self._dimensions = dimensions
    self._episode_length = episode_length
    self._random = np.random.RandomState(seed)
    self._position = np.zeros((dimensions,), np.float64)
    self._steps: Optional[int] = None

  def seed(self, seed: int) -> None:
    """Makes the next `reset` begin the episodes of this seed."""
    self._random.seed(seed)

  def reset(self) -> dm_env.TimeStep:
    """Starts an episode at a random position."""
    self._steps = 0
    self._position = self._random.uniform(-1.0, 1.0, size=(self._dimensions,))
    return dm_env.restart(self._position.astype(np.float32))

  def step(self, action: np.ndarray) -> dm_env.TimeStep:
    """Moves the point; raises ValueError if the action is outside its spec."""
    if self._steps is None:
      return self.reset()
    self.action_spec().validate(action)
    self._steps += 1
    self._position = np.clip(self._position + self.STEP * action.astype(np.float64), -1.0, 1.0)
    reward = np.float32(-np.sum(self._position**2))
    observation = self._position.astype(np.float32)
    if self._steps < self._episode_length:
      return dm_env.transition(reward, observation)
    self._steps = None
    return dm_env.truncation(reward, observation)

  def optimal_return(self, start: np.ndarray) -> float:
    """Returns the best undiscounted return from a start position `[dimensions]`.

    Going straight to the origin is best, because dimensions do not interact and no move costs.
    """
    moves = self.STEP * np.arange(1, self._episode_length + 1)[:, np.newaxis]  # [steps, 1]
    distances = np.maximum(np.abs(np.asarray(start, np.float64)) - moves, 0.0)
    return float(-np.sum(distances**2))

  def observation_spec(self) -> specs.BoundedArray:
    """Returns the spec of the position."""
    return specs.BoundedArray((self._dimensions,), np.float32, -1.0, 1.0, name="position")

  def action_spec(self) -> specs.BoundedArray:
    """Returns the spec of the push."""
    return specs.BoundedArray((self._dimensions,), np.float32, -1.0, 1.0, name="push")

  def reward_spec(self) -> specs.Array:
    """Returns the spec of the reward."""
    return specs.Array((), np.float32, name="reward")

  def render(self) -> np.ndarray:
    """Returns the arena seen from above, first two axes, uint8 [64, 64, 3]."""
    frame = np.full((64, 64, 3), 255, np.uint8)
    row, column = (int(round(31.5 + 28 * x)) for x in np.resize(self._position, 2))
    frame[30:34, 30:34] = (170, 200, 170)
    frame[row - 2 : row + 3, column - 2 : column + 3] = (200, 60, 60)
    return frame
