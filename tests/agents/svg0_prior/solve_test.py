"""SVG0 solves a trivial environment, with and without a prior."""

import acme
from acme.utils import loggers
import agent_contract
import numpy as np
import pytest

from temper.agents import local
from temper.agents import policies
from temper.agents import svg0_prior
from temper.utils import environments
from temper.utils import fakes

_STEPS = 2500


def _config(**options):
  return svg0_prior.SVG0Config(
    batch_size=32,
    sequence_length=4,
    samples_per_insert=16.0,
    min_replay_size=100,
    max_replay_size=2000,
    target_update_period=25,
    num_action_samples=4,
    discount=0.9,
    policy_layer_sizes=(32, 32),
    critic_layer_sizes=(64, 64),
    prior_layer_sizes=(32,),
    policy_learning_rate=2e-3,
    critic_learning_rate=2e-3,
    prior_learning_rate=2e-3,
    **options,
  )


def _mean_shortfall(actor, episodes=20):
  """Mean of (optimal return - return) over fixed starts; 0 is optimal."""
  inner = fakes.PointMass(seed=123)
  environment = environments.wrap(inner)
  shortfalls = []
  for _ in range(episodes):
    timestep = environment.reset()
    best, total = inner.optimal_return(timestep.observation), 0.0
    while not timestep.last():
      timestep = environment.step(actor.select_action(timestep.observation))
      total += timestep.reward
    shortfalls.append(best - total)
  return np.mean(shortfalls)


class _RandomActor:
  def __init__(self):
    self._random = np.random.RandomState(0)

  def select_action(self, observation):
    return self._random.uniform(-1, 1, observation.shape).astype(np.float32)


@pytest.mark.parametrize("use_prior,seed", [(False, 0), (True, 1)], ids=["plain", "prior"])
def test_point_mass_is_solved(use_prior, seed):
  environment = environments.wrap(fakes.PointMass(seed=seed))
  with local.LocalAgent(
    svg0_prior.SVG0Builder(_config(use_prior=use_prior)),
    acme.make_environment_spec(environment),
    logger=loggers.NoOpLogger(),
    seed=seed,
  ) as agent:
    agent_contract.act(agent, environment, _STEPS)
    learnt = _mean_shortfall(agent.make_evaluation_actor(policies.PolicyChoice("mean"), seed=0))
  # Nine tenths of the way from a random policy to the best one.
  assert learnt < 0.1 * _mean_shortfall(_RandomActor())
