"""A dataset on disk for the launchers that learn from one."""

import numpy as np
import pytest

from temper.utils import fakes
from temper.utils.datasets import episodes
from temper.utils.datasets import writing


@pytest.fixture(scope="session")
def point_mass_file(tmp_path_factory):
  """Thirty episodes of the point mass, pushed towards the origin with much noise, as `.npz`."""
  environment = fakes.PointMass(seed=1)
  random = np.random.default_rng(0)
  recorded = []
  for _ in range(30):
    timestep = environment.reset()
    observations, actions, rewards = [timestep.observation], [], []
    while not timestep.last():
      action = np.clip(random.normal(-timestep.observation, 0.7), -1, 1).astype(np.float32)
      timestep = environment.step(action)
      observations.append(timestep.observation)
      actions.append(action)
      rewards.append(timestep.reward)
    recorded.append(
      episodes.Episode(
        observation=np.stack(observations),
        action=np.stack(actions),
        reward=np.asarray(rewards, np.float32),
        discount=np.ones(len(rewards), np.float32),
      )
    )
  path = tmp_path_factory.mktemp("data") / "point_mass.npz"
  writing.write_dataset(path, "npz", recorded)
  return str(path)
