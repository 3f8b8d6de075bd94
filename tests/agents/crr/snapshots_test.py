"""Snapshots of raw policy, critic mean and critic-weighted policy, loaded as plain SavedModels."""

import copy

from acme.tf import utils as tf2_utils
from acme.utils import loggers
import crr_cases
import numpy as np
import tensorflow as tf
import tree

from temper.agents import boltzmann
from temper.agents import crr


def test_a_checkpointing_learner_leaves_snapshots_that_act_and_value(tmp_path):
  spec = crr_cases.environment_spec()
  networks = crr.make_networks(
    spec, policy_layer_sizes=(8,), critic_layer_sizes=(8,), lstm_size=4, num_atoms=5
  )
  cwp = boltzmann.RecurrentExpQWeightedPolicy(networks.policy_network, networks.critic_network)
  tf2_utils.create_variables(cwp, [spec.observations])
  target = copy.deepcopy(networks)
  learner = crr.RCRRLearner(
    networks.policy_network,
    networks.critic_network,
    target.policy_network,
    target.critic_network,
    crr_cases.as_dataset(crr_cases.make_step()),
    cwp_network=cwp,
    logger=loggers.NoOpLogger(),
    checkpoint=True,
    directory=str(tmp_path),
  )
  learner.step()
  learner.save_checkpoint()

  load = lambda name: tf.saved_model.load(str(tmp_path / "snapshots" / name))
  observation = tf.random.normal([3, *spec.observations.shape])
  action = tf.random.uniform([3, *spec.actions.shape], -1.0, 1.0)
  critic = load("critic")
  # A wrapped core's state is that of each of its recurrent parts.
  value, state = critic(observation, action, critic.initial_state(3))
  expected, expected_state = networks.critic_network(
    observation, action, networks.critic_network.initial_state(3)
  )
  np.testing.assert_allclose(value, expected.mean(), rtol=1e-5, atol=1e-6)
  for got, wanted in zip(tree.flatten(state), tree.flatten(expected_state)):
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
  for name in ("raw_policy", "cwp_policy"):
    policy = load(name)
    sample, _ = policy(observation, policy.initial_state(3))
    assert sample.shape == action.shape and np.isfinite(sample).all()
