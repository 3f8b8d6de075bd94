"""SAC solves a trivial environment, in both variants and with prioritised replay."""

import acme
from acme.utils import loggers
import agent_contract
import numpy as np
import pytest
import sac_cases

from temper.agents import policies
from temper.agents import sac
from temper.utils import environments
from temper.utils import fakes
from temper.utils import prioritised_replay
from temper.utils.temperature_config import TemperatureConfig

_STEPS = 1200


def _config(variant, prioritised):
  return sac_cases.make_config(
    variant,
    batch_size=32,
    discount=0.9,
    policy_layer_sizes=(32,),
    critic_layer_sizes=(32,),
    policy_learning_rate=3e-3,
    critic_learning_rate=3e-3,
    policy_update_period=2,
    target_update_rate=0.05,
    warm_up_steps=200,
    min_replay_size=100,
    max_replay_size=2000,
    temperature=TemperatureConfig(initial_alpha=0.1, learning_rate=3e-3),
    prioritised_replay=prioritised_replay.PrioritisedReplay(anneal_steps=1000)
    if prioritised
    else None,
  )


def _mean_shortfall(act, episodes=20):
  """Mean of (optimal return - return) over fixed starts; 0 is optimal."""
  inner = fakes.PointMass(seed=123)
  environment = environments.wrap(inner)
  shortfalls = []
  for _ in range(episodes):
    timestep = environment.reset()
    best, total = inner.optimal_return(timestep.observation), 0.0
    while not timestep.last():
      timestep = environment.step(act(timestep.observation))
      total += timestep.reward
    shortfalls.append(best - total)
  return np.mean(shortfalls)


@pytest.mark.parametrize(
  "variant,prioritised",
  [("value_network", False), ("twin_target", False), ("twin_target", True)],
  ids=["value_network", "twin_target", "prioritised"],
)
def test_point_mass_is_solved(variant, prioritised):
  environment = environments.wrap(fakes.PointMass(seed=0))
  with sac.SAC(
    acme.make_environment_spec(environment),
    _config(variant, prioritised),
    logger=loggers.NoOpLogger(),
  ) as agent:
    agent_contract.act(agent, environment, _STEPS)
    actor = agent.make_evaluation_actor(policies.MEAN, seed=0)
    learnt = _mean_shortfall(actor.select_action)
    if prioritised:
      assert agent.learner.max_priority != 1.0
  random = np.random.RandomState(0)
  uniform = lambda observation: random.uniform(-1, 1, observation.shape).astype(np.float32)
  # Nine tenths of the way from a random policy to the best one.
  assert learnt < 0.1 * _mean_shortfall(uniform)
