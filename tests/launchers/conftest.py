"""A dataset on disk for the launchers that learn from one."""

import numpy as np
import pytest

from temper.launchers import train
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


@pytest.fixture(scope="session")
def pendulum_run(tmp_path_factory):
  """The folder of a finished run of SVG0 on Pendulum-v1: 60 steps, checkpoints at 30 and 60."""
  folder = str(tmp_path_factory.mktemp("runs") / "pendulum")
  code = train.run(
    [
      "temper train",
      f"--directory={folder}",
      "--steps=60",
      "--checkpoint_every=30",
      "--log_every=20",
      "--eval_every=0",
      "--eval_episodes=2",
      "--nogif",
      "--config.policy_layer_sizes=8",
      "--config.critic_layer_sizes=8",
      "--config.prior_layer_sizes=8",
      "--config.batch_size=4",
      "--config.min_replay_size=40",
    ]
  )
  assert code == 0
  return folder
