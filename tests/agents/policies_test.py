"""Tests of `temper.agents.policies`: how actions are taken, and what is known of their density."""

import dataclasses

from acme import specs
import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf
import tensorflow_probability as tfp
import tree

from temper.agents import boltzmann
from temper.agents import policies

tfd = tfp.distributions

_SEED = tf.constant([1, 2])


def _network(observation):
  return tfd.Independent(tfd.Normal(observation[:, :1], 1.0), 1)


def _critic(observation, action):
  return 2.0 * action


class SummingPolicy(snt.RNNCore):
  """A normal distribution around the sum of all that was observed in the episode."""

  def __call__(self, observation, prev_state):
    total = prev_state + observation[:, :1]
    return tfd.Independent(tfd.Normal(total, 1.0), 1), total

  def initial_state(self, batch_size):
    return tf.zeros([batch_size, 1])


def test_a_choice_is_checked_and_says_what_it_is():
  assert str(policies.PolicyChoice()) == "raw" and str(policies.PolicyChoice("mean")) == "mean"
  boltzmann_choice = policies.PolicyChoice("boltzmann", beta=0.5, num_action_samples=8)
  assert str(boltzmann_choice) == "boltzmann (beta 0.5, 8 samples)"
  assert boltzmann_choice.kind is policies.PolicyKind.BOLTZMANN
  for wrong, message in (
    (dict(kind="greedy"), "kind is 'greedy'; .*PolicyKind.BOLTZMANN .'boltzmann'."),
    (dict(beta=-1.0), "beta is -1.0.*at least 0"),
    (dict(beta=float("nan")), "beta is nan"),
    (dict(num_action_samples=0), "num_action_samples is 0.*at least 1"),
  ):
    with pytest.raises(ValueError, match=message):
      policies.PolicyChoice(**wrong)
  with pytest.raises(dataclasses.FrozenInstanceError):
    boltzmann_choice.beta = 1.0
  with pytest.raises(ValueError, match="critic_network is None"):
    boltzmann_choice.make(_network)


def test_acmes_flag_and_a_choice_exclude_each_other():
  assert policies.choice_of(False, None) == policies.RAW
  assert policies.choice_of(True, None) == policies.MEAN
  assert policies.choice_of(False, policies.MEAN) == policies.MEAN
  with pytest.raises(ValueError, match="choice is raw; give one of them"):
    policies.choice_of(True, policies.RAW)


def test_a_sample_and_the_mean_with_the_density_of_the_distribution():
  observation = tf.constant([[0.5], [3.0]])
  mean = policies.MEAN.make(_network)
  acted = mean(observation, mean.initial_state(2), _SEED)
  np.testing.assert_array_equal(acted.action, observation)
  raw = policies.RAW.make(_network)
  assert raw.choice == policies.RAW and raw.initial_state(2) == ()
  acted = raw(observation, (), _SEED)
  np.testing.assert_array_equal(acted.action, _network(observation).sample(seed=_SEED))
  expected = -0.5 * (acted.action - observation) ** 2 - 0.5 * np.log(2 * np.pi)
  np.testing.assert_allclose(acted.distribution.log_prob(acted.action), expected[:, 0], rtol=1e-5)
  assert acted.next_state == ()


def test_a_recurrent_policy_carries_its_state():
  policy = policies.MEAN.make(SummingPolicy())
  state = policy.initial_state(2)
  for step in range(1, 4):
    acted = policy(tf.constant([[1.0], [2.0]]), state, _SEED)
    np.testing.assert_array_equal(acted.action, [[step], [2 * step]])
    state = acted.next_state


def test_a_recurrent_boltzmann_policy_has_the_states_of_both_networks():
  policy = policies.PolicyChoice("boltzmann").make(SummingPolicy(), _critic)
  state = policy.initial_state(3)
  assert isinstance(state, boltzmann.PolicyCriticRNNState)
  acted = policy(tf.ones([3, 1]), state, _SEED)
  tree.assert_same_structure(state, acted.next_state)
  np.testing.assert_array_equal(acted.next_state.policy, np.ones([3, 1]))


def test_one_sample_is_the_raw_policy():
  policy = policies.PolicyChoice("boltzmann", num_action_samples=1).make(_network, _critic)
  observation = tf.constant([[0.5], [3.0]])
  acted = policy(observation, policy.initial_state(2), _SEED)
  np.testing.assert_allclose(
    acted.distribution.log_prob(acted.action), _network(observation).log_prob(acted.action)
  )


@pytest.mark.parametrize("count,tolerance", [(2000, 0.12), (20_000, 0.05)])
def test_the_density_becomes_that_of_the_tilted_policy(count, tolerance):
  # Values 2 a at beta 4 tilt a standard normal by exp(a / 2): a normal of mean 1/2.
  choice = policies.PolicyChoice("boltzmann", beta=4.0, num_action_samples=count)
  policy = choice.make(_network, _critic)
  acted = policy(tf.zeros([200, 1]), policy.initial_state(200), _SEED)
  tilted = tfd.Normal(0.5, 1.0).log_prob(acted.action[:, 0])
  np.testing.assert_allclose(acted.distribution.log_prob(acted.action), tilted, atol=tolerance)


def test_the_density_of_actions_from_a_sampling_head_is_not_known():
  sampling_network = lambda observation: _network(observation).sample()
  policy = policies.PolicyChoice("boltzmann").make(sampling_network, _critic)
  acted = policy(tf.zeros([2, 1]), policy.initial_state(2), _SEED)
  assert acted.action.shape == [2, 1]
  with pytest.raises(TypeError, match="returns actions.*Let it return the distribution"):
    acted.distribution.log_prob(acted.action)


def test_the_critic_sees_what_the_bounds_allow():
  seen = []
  critic = lambda observation, action: seen.append(action) or action
  spec = specs.BoundedArray((1,), np.float32, -0.5, 0.5)
  policy = policies.PolicyChoice("boltzmann").make(_network, critic, spec)
  policy(tf.zeros([2, 1]), policy.initial_state(2), _SEED)
  assert np.abs(seen[0]).max() == 0.5


def test_variables_are_those_that_the_actions_depend_on():
  policy, critic = snt.Linear(1), snt.Linear(1)
  policy(tf.zeros([1, 1])), critic(tf.zeros([1, 1]))
  assert list(policies.MEAN.variables(policy, critic)) == ["policy"]
  weighted = policies.PolicyChoice("boltzmann").variables(policy, critic)
  assert weighted == {"policy": policy.variables, "critic": critic.variables}
  with pytest.raises(ValueError, match="critic_network is None"):
    policies.PolicyChoice("boltzmann").variables(policy)


_BOUNDS = {
  (): (-2.0, 3.0),
  (3,): ([-1.0, 0.0, 10.0], [0.5, 7.0, 11.0]),
  (2, 1): (-1.0, [[1.0], [4.0]]),
}


@pytest.mark.parametrize("shape", _BOUNDS, ids=str)
def test_uniform_actions_fill_their_bounds(shape):
  low, high = _BOUNDS[shape]
  policy = policies.UniformPolicy(specs.BoundedArray(shape, np.float32, low, high))
  assert policy.choice == policies.RAW
  observation = {"any": tf.zeros([4000, 2]), "thing": tf.zeros([4000], tf.int32)}
  acted = policy(observation, policy.initial_state(4000), _SEED)
  action = acted.action.numpy()
  assert action.shape == (4000, *shape) and action.dtype == np.float32
  low, high = np.broadcast_to(low, shape), np.broadcast_to(high, shape)
  assert np.all(action >= low) and np.all(action <= high)
  unit = (action - low) / (high - low)
  assert np.all(unit.min(axis=0) < 0.01) and np.all(unit.max(axis=0) > 0.99)
  # Standard errors are 0.29 / sqrt(4000) = 0.005.
  np.testing.assert_allclose(unit.mean(axis=0), np.full(shape, 0.5), atol=0.025)
  np.testing.assert_allclose(unit.std(axis=0), np.full(shape, np.sqrt(1 / 12)), atol=0.015)
  expected = np.full(4000, -np.sum(np.log(high - low)))
  np.testing.assert_allclose(acted.distribution.log_prob(acted.action), expected, atol=1e-5)
  np.testing.assert_array_equal(action, policy(observation, (), _SEED).action)
  assert not np.any(action == policy(observation, (), tf.constant([1, 3])).action)
