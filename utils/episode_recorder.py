"""Records what an environment itself gives and takes, as episodes that can be stored."""

from typing import Any, Optional

from acme.wrappers import base
import dm_env
import numpy as np
import tree

from temper.utils.datasets.episodes import Episode


class EpisodeRecorder(base.EnvironmentWrapper):
  """Keeps the running episode's observations, actions, rewards and discounts, without conversion.

  Around the environment itself, inside of `environments.wrap`, so that what is recorded is in the
  environment's own units, whatever form an agent is given.
  """

  def __init__(self, environment: dm_env.Environment):
    """Wraps an environment.

    Args:
      environment: any environment.
    """
    super().__init__(environment)
    self._observations: list[Any] = []
    self._actions: list[np.ndarray] = []
    self._rewards: list[float] = []
    self._discounts: list[float] = []

  def reset(self) -> dm_env.TimeStep:
    """Starts an episode, and forgets what was recorded of another."""
    return self._begin(self._environment.reset())

  def step(self, action: Any) -> dm_env.TimeStep:
    """Steps and records it."""
    # A copy, since agents and environments may write into the same buffer again.
    action = np.array(action)
    timestep = self._environment.step(action)
    if timestep.first():  # An environment begins anew when it is stepped after its last step.
      return self._begin(timestep)
    self._observations.append(_copy(timestep.observation))
    self._actions.append(action)
    self._rewards.append(timestep.reward)
    self._discounts.append(timestep.discount)
    return timestep

  def take(self) -> Optional[Episode]:
    """Returns the steps since the last reset as an episode, and forgets them.

    One that was not played to its end comes as a truncated one. None if there is no step.
    """
    if not self._actions:
      return None
    episode = Episode(
      observation=tree.map_structure(lambda *leaves: np.stack(leaves), *self._observations),
      action=np.stack(self._actions),
      reward=np.asarray(self._rewards, np.float32),
      discount=np.asarray(self._discounts, np.float32),
    )
    self._forget()
    return episode

  def _begin(self, timestep: dm_env.TimeStep) -> dm_env.TimeStep:
    self._forget()
    self._observations.append(_copy(timestep.observation))
    return timestep

  def _forget(self) -> None:
    self._observations, self._actions, self._rewards, self._discounts = [], [], [], []


def _copy(observation: Any) -> Any:
  return tree.map_structure(np.array, observation)
