"""CRR learns from random data what cloning the data cannot."""

import acme
import crr_cases
import numpy as np
import pytest
import reverb
import tensorflow as tf

from temper.agents import crr
from temper.agents import offline
from temper.agents import policies
from temper.utils import environments
from temper.utils import fakes

_LENGTH = 3
_EPISODES = 150
_STEPS = 400


def _dataset(environment, seed=0):
  """Makes batches of windows of episodes with uniformly random actions."""
  random = np.random.RandomState(seed)
  windows = []
  for _ in range(_EPISODES):
    timestep, rows = environment.reset(), []
    while not timestep.last():
      action = random.uniform(-1, 1, timestep.observation.shape).astype(np.float32)
      following = environment.step(action)
      rows.append((timestep.observation, action, following.reward, following.discount))
      timestep = following
    windows.extend(rows[i : i + _LENGTH] for i in range(len(rows) - _LENGTH + 1))
  observation, action, reward, discount = (
    np.array([[row[i] for row in window] for window in windows], np.float32) for i in range(4)
  )
  step = crr_cases.make_step()._replace(
    observation=observation,
    action=action,
    reward=reward,
    discount=discount,
    start_of_episode=np.zeros(reward.shape, bool),
  )
  dataset = tf.data.Dataset.from_tensor_slices(reverb.ReplaySample(info=(), data=step))
  batches = dataset.shuffle(len(windows), seed=seed).repeat().batch(64, drop_remainder=True)
  return batches.with_options(crr_cases.untuned())


def _mean_shortfall(actor, episodes=20):
  """Mean of (optimal return - return) over fixed starts; 0 is optimal."""
  inner = fakes.PointMass(seed=123)
  environment = environments.wrap(inner)
  shortfalls = []
  for _ in range(episodes):
    timestep = environment.reset()
    actor.observe_first(timestep)
    best, total = inner.optimal_return(timestep.observation), 0.0
    while not timestep.last():
      timestep = environment.step(actor.select_action(timestep.observation))
      total += timestep.reward
    shortfalls.append(best - total)
  return np.mean(shortfalls)


def _learn(mode, lstm_size):
  environment = environments.wrap(fakes.PointMass(seed=0))
  config = crr.CRRConfig(
    sequence_length=_LENGTH,
    policy_improvement_modes=mode,
    beta=0.1,
    discount=0.9,
    target_update_period=25,
    policy_learning_rate=3e-3,
    critic_learning_rate=3e-3,
    policy_layer_sizes=(32,),
    critic_layer_sizes=(64,),
    lstm_size=lstm_size,
    vmin=-10.0,
    vmax=0.0,
    num_atoms=31,
  )
  agent = offline.OfflineAgent(
    crr.CRRBuilder(config), acme.make_environment_spec(environment), _dataset(environment)
  )
  for _ in range(_STEPS):
    agent.step()
  return agent


@pytest.fixture(name="cloned_shortfall", scope="module")
def _cloned_shortfall():
  agent = _learn("all", lstm_size=None)
  assert agent.metrics()["policy_loss_coef"] == pytest.approx((_LENGTH - 1) / _LENGTH)
  return _mean_shortfall(agent.make_evaluation_actor(policies.MEAN, seed=0))


@pytest.mark.parametrize(
  "mode, lstm_size, share",
  # Recurrent networks need more steps, since a core as small as this one passes on less.
  [("exp", None, 0.2), ("binary", None, 0.2), ("exp", 16, 0.5)],
)
def test_random_data_of_a_point_mass_are_improved_on(cloned_shortfall, mode, lstm_size, share):
  agent = _learn(mode, lstm_size)
  learnt = _mean_shortfall(agent.make_evaluation_actor(policies.MEAN, seed=0))
  # Cloning uniformly random actions learns to stay where one is.
  assert learnt < share * cloned_shortfall
