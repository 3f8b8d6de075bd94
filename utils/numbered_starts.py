"""Start states by the number of the episode, so that a resumed run goes on with the next one."""

from typing import Any

from acme.wrappers import base
import dm_env
import numpy as np

from temper.utils.environment_wrappers import CanonicalEnvironment


class NumberedStarts(base.EnvironmentWrapper):
  """Seeds each episode by the seed of the run and the episode's number alone."""

  def __init__(self, environment: CanonicalEnvironment, seed: int, *, begun: int = 0):
    """Wraps an environment.

    Args:
      environment: one that can be seeded.
      seed: of the run, at least 0.
      begun: episodes that the run had begun before.

    Raises:
      ValueError: if the environment cannot be seeded.
    """
    super().__init__(environment)
    self._seed = seed
    self._begun = begun
    self._running = False
    environment.seed(start_seed(seed, begun))  # Refuses now what cannot be seeded.

  def reset(self) -> dm_env.TimeStep:
    """Starts the next episode."""
    self._environment.seed(start_seed(self._seed, self._begun))
    self._begun += 1
    self._running = True
    return self._environment.reset()

  def step(self, action: Any) -> dm_env.TimeStep:
    """Steps, or starts an episode after a LAST step."""
    if not self._running:
      return self.reset()
    timestep = self._environment.step(action)
    self._running = not timestep.last()
    return timestep


def start_seed(seed: int, number: int) -> int:
  """Returns the environment's seed for an episode, in [0, 2**32).

  Args:
    seed: of the run, at least 0.
    number: of the episode, 0 for the first.
  """
  return int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
