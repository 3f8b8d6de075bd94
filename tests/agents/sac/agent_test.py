"""The SAC agent: names, warm-up, values that are known exactly, acting by value."""

import acme
from acme import specs
from acme.utils import loggers
import agent_contract
import dm_env
import numpy as np
import pytest
import sac_cases
import tensorflow as tf

from temper.agents import builder as builder_lib
from temper.agents import policies
from temper.agents import sac
from temper.utils import environments
from temper.utils.temperature_config import TemperatureConfig


def _agent(config, environment, **options):
  return sac.SAC(
    acme.make_environment_spec(environment), config, logger=loggers.NoOpLogger(), **options
  )


def test_public_names():
  assert set(sac.__all__) == {
    "SAC",
    "DistributedSAC",
    "EncoderSharing",
    "SACBuilder",
    "SACConfig",
    "SACLearner",
    "SACNetworks",
    "SACVariant",
    "make_networks",
  }
  assert issubclass(sac.SACBuilder, builder_lib.AgentBuilder)
  assert all(hasattr(sac, name) for name in sac.__all__)


# Values.


class Circle(dm_env.Environment):
  """Three states in a row, with rewards of 1, 2 and 3; what is done does not matter.

  An episode ends where it began, in the first state, by termination or by truncation.
  """

  def __init__(self, terminate):
    self._terminate = terminate
    self._place = 0

  def _observe(self):
    return np.eye(3, dtype=np.float32)[self._place % 3]

  def reset(self):
    self._place = 0
    return dm_env.restart(self._observe())

  def step(self, action):
    self._place += 1
    reward = np.float32(self._place)
    if self._place < 3:
      return dm_env.transition(reward, self._observe())
    end = dm_env.termination if self._terminate else dm_env.truncation
    return end(reward, self._observe())

  def observation_spec(self):
    return specs.Array((3,), np.float32)

  def action_spec(self):
    return specs.BoundedArray((1,), np.float32, -1.0, 1.0)


# By hand, with a discount of 0.9: 3, 2 + 0.9 · 3, 1 + 0.9 · 4.7; and v = 5.23 + 0.9³ v where the
# end is only the first state again.
_ENDING = [5.23, 4.7, 3.0]
_LAST = 3 + 0.9 * 5.23 / (1 - 0.9**3)
_ENDLESS = [1 + 0.9 * (2 + 0.9 * _LAST), 2 + 0.9 * _LAST, _LAST]


def _learnt(variant, terminate, **options):
  """Learns from twenty episodes of any actions; returns the agent's networks."""
  environment = environments.wrap(Circle(terminate))
  config = sac_cases.make_config(
    variant,
    batch_size=32,
    discount=0.9,
    policy_layer_sizes=(4,),
    critic_layer_sizes=(32,),
    critic_learning_rate=2e-2,
    learning_rate_decay_period=1000,
    target_update_rate=0.2,
    policy_update_period=1,
    updates_per_call=100,
    warm_up_steps=1000,
    min_replay_size=1000,
    max_replay_size=1000,
    # No entropy, whose value would have to be known too.
    temperature=TemperatureConfig(kind="fixed", initial_alpha=0.0),
    **options,
  )
  with _agent(config, environment) as agent:
    agent_contract.act(agent, environment, 60, learn=False)
    agent.flush()
    for _ in range(10):
      agent.learner.step()
    return agent.networks


@pytest.mark.parametrize(
  "variant,terminate,bootstrap,exact",
  [
    ("value_network", True, True, _ENDING),
    ("value_network", False, True, _ENDLESS),
    ("twin_target", True, True, _ENDING),
    ("twin_target", False, True, _ENDLESS),
    ("twin_target", False, False, _ENDING),
  ],
)
def test_truncation_bootstraps_and_termination_does_not(variant, terminate, bootstrap, exact):
  networks = _learnt(variant, terminate, bootstrap_on_truncation=bootstrap)
  observation = tf.eye(3)
  for action in (-0.5, 0.5):
    for values in networks.critic_network(observation, tf.fill([3, 1], action)):
      np.testing.assert_allclose(values, exact, rtol=0.02)
  if variant == "value_network":
    np.testing.assert_allclose(networks.value_network(observation), exact, rtol=0.02)


def test_rewards_of_several_steps_have_the_same_values():
  networks = _learnt("twin_target", False, n_step=3)
  for values in networks.critic_network(tf.eye(3), tf.zeros([3, 1])):
    np.testing.assert_allclose(values, _ENDLESS, rtol=0.02)


# Warm-up.


def test_an_agent_begins_with_uniform_actions_and_goes_on_by_its_policy():
  environment = agent_contract.make_environment()
  config = sac_cases.make_config("twin_target", warm_up_steps=12, min_replay_size=100)
  with _agent(config, environment, seed=3) as agent:
    uniform = policies.UniformPolicy(environment.action_spec())
    # A policy of one action: what is uniform is not the policy's.
    for variable in agent.networks.policy_network.trainable_variables:
      variable.assign(tf.zeros_like(variable))
    bias = agent.networks.policy_network.trainable_variables
    (last,) = (v for v in bias if v.shape == [4])
    last.assign([0.3, -0.3, -20.0, -20.0])
    actions, _ = agent_contract.act(agent, environment, 20, learn=False)
    from_policy = np.tanh([0.3, -0.3])
    is_policys = [np.allclose(action, from_policy, atol=1e-4) for action in actions]
    assert is_policys == [False] * 12 + [True] * (len(actions) - 12)
    assert np.abs(actions[:12]).max() <= 1.0 and np.abs(actions[:12]).max() > 0.7
    assert uniform.choice == policies.RAW
    # An evaluation has none, however early.
    for kind in ("raw", "mean"):
      evaluator = agent.make_evaluation_actor(policies.PolicyChoice(kind), seed=0)
      action = evaluator.select_action(environment.reset().observation)
      np.testing.assert_allclose(action, from_policy, atol=1e-4)
    # What is stored is what was done.
    agent.flush()
    stored = {
      tuple(sample.data.action.numpy()[0])
      for sample in agent.builder.make_dataset(agent._replay.client, in_process=True).take(200)
    }
    assert stored <= {tuple(action) for action in actions}
    state = agent.state()
  with _agent(config, environment, seed=3) as resumed:
    resumed.load_state({**state, "actor": {"num_actions": 10}})
    again, _ = agent_contract.act(resumed, environment, 3, learn=False)
  # Resumed in the middle, the two that were left are the same.
  np.testing.assert_array_equal(again[:2], actions[10:12])
  assert not np.allclose(again[2], actions[9])


def test_uniform_actions_need_a_spec_and_can_be_left_out():
  builder = sac.SACBuilder(sac_cases.make_config("twin_target", warm_up_steps=5))
  networks = builder.make_networks(sac_cases.SPEC)
  with pytest.raises(ValueError, match="warm_up_steps is 5.*action_spec.*warm_up_steps=0"):
    builder.make_actor(networks.policy_network, adder=object())
  # Without an adder it is an evaluation.
  actor = builder.make_actor(networks.policy_network)
  assert np.isfinite(actor.select_action(np.zeros(3, np.float32))).all()
  builder = sac.SACBuilder(sac_cases.make_config("twin_target", warm_up_steps=0))
  builder.make_actor(networks.policy_network, adder=object())


# Acting from a source of variables, and by value.


def test_an_actor_elsewhere_fetches_policy_and_critic():
  config = sac_cases.make_config("value_network", policy_update_period=1)
  builder = sac.SACBuilder(config)
  learner = sac_cases.make_learner(config, sac_cases.make_dataset(1), seed=1)
  learner.step()
  own = builder.make_networks(sac_cases.SPEC, seed=2)
  actor = builder.make_actor(
    builder.make_policy(own),
    variable_source=learner,
    choice=policies.PolicyChoice("boltzmann", beta=0.0, num_action_samples=8),
    critic_network=builder.make_critic(own),
    action_spec=sac_cases.SPEC.actions,
  )
  for name, network in (("policy", own.policy_network), ("critic", own.critic_network)):
    (served,) = learner.get_variables([name])
    assert len(served) == len(network.variables)
    for mine, other in zip(network.variables, served):
      np.testing.assert_array_equal(mine, other)
  assert actor.select_action(np.zeros(3, np.float32)).shape == (2,)


@pytest.mark.parametrize(
  "actions", [specs.DiscreteArray(3), specs.BoundedArray((2,), np.float64, -1.0, 1.0)]
)
def test_specs_that_are_not_canonical_are_refused_with_networks_of_ones_own(actions):
  networks = sac.make_networks(sac_cases.SPEC, sac_cases.make_config("twin_target"))
  with pytest.raises(ValueError, match="action"):
    sac.SAC(
      sac_cases.SPEC._replace(actions=actions), sac_cases.make_config("twin_target"), networks
    )


def test_a_defaulted_agent_is_twin_target():
  with sac.SAC(sac_cases.SPEC, logger=loggers.NoOpLogger()) as agent:
    assert agent.builder.config.variant is sac.SACVariant.TWIN_TARGET
    assert agent.networks.value_network is None
