"""SVG0 under strategies: two replicas with half the batch each equal one with all of it."""

import learner_probes
import numpy as np
import pytest
import sonnet as snt
import svg0_cases
import tensorflow as tf

from temper.agents.svg0_prior import networks as networks_lib
from temper.utils import optimizers

_STEPS = 5
_STRATEGIES = {
  "one_device": lambda: tf.distribute.OneDeviceStrategy("CPU:1"),
  "mirrored": lambda: tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]),
  "replicator": lambda: snt.distribute.Replicator(["CPU:0", "CPU:1"]),
}


def _make_networks():
  return svg0_cases.make_networks(networks_lib.make_network_with_prior)


def _run(networks, make_optimizer, strategy=None):
  log = learner_probes.Log()
  learner = svg0_cases.make_learner(
    networks,
    svg0_cases.make_dataset(_STEPS),
    optimizer=make_optimizer,
    log=log,
    strategy=strategy,
    distillation_cost=0.1,
    entropy_regularizer_cost=0.2,
    max_gradient_norm=1.0,
  )
  for _ in range(_STEPS):
    learner.step()
  return learner, log


@pytest.fixture(name="reference", scope="module")
def _reference():
  networks = _make_networks()
  start = svg0_cases.values(networks)
  learner, log = _run(networks, lambda: optimizers.Adam(1e-3))
  served = learner.get_variables(["policy", "critic", "prior"])
  return start, svg0_cases.values(networks), log.rows, served


@pytest.mark.parametrize("name", _STRATEGIES)
def test_replicas_equal_one_device_with_the_whole_batch(reference, name):
  start, end, rows, served = reference
  strategy = _STRATEGIES[name]()
  with strategy.scope():
    networks = _make_networks()
    for key, value in svg0_cases.values(networks).items():
      np.testing.assert_array_equal(value, start[key])
  learner, log = _run(networks, lambda: optimizers.Adam(1e-3), strategy)
  for mine, other in zip(log.rows, rows):
    for key in ("policy_loss", "critic_loss", "prior_loss", "policy_gradient_norm", "entropy"):
      assert mine[key] == pytest.approx(other[key], rel=1e-5, abs=1e-5), key
  for network in filter(None, networks):
    for variable in network.variables:
      copies = strategy.experimental_local_results(variable)
      assert len(copies) == strategy.num_replicas_in_sync
      for copy in copies[1:]:
        np.testing.assert_array_equal(copy, copies[0])
  for key, value in svg0_cases.values(networks).items():
    np.testing.assert_allclose(value, end[key], rtol=1e-5, atol=1e-5, err_msg=key)
  for mine, other in zip(learner.get_variables(["policy", "critic", "prior"]), served):
    for a, b in zip(mine, other):
      np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
  assert learner.num_steps == _STEPS


def test_sonnets_optimizers_work_under_the_replicator():
  strategy = _STRATEGIES["replicator"]()
  with strategy.scope():
    networks = _make_networks()
    made = [snt.optimizers.Adam(1e-3) for _ in range(3)]
  before = svg0_cases.values(networks)
  _run(networks, iter(made).__next__, strategy)
  after = svg0_cases.values(networks)
  assert any(np.abs(after[key] - before[key]).max() > 1e-4 for key in before)


def test_a_batch_that_replicas_cannot_share_is_refused():
  strategy = _STRATEGIES["mirrored"]()
  with strategy.scope():
    networks = _make_networks()
  with pytest.raises(ValueError, match="A batch of 5 cannot be shared equally by 2 replicas"):
    svg0_cases.make_learner(networks, svg0_cases.make_dataset(1, batch_size=5), strategy=strategy)


def test_a_plain_iterator_is_refused():
  strategy = _STRATEGIES["mirrored"]()
  with strategy.scope():
    networks = _make_networks()
  with pytest.raises(ValueError, match="cannot feed 2 replicas"):
    svg0_cases.make_learner(networks, iter(svg0_cases.make_dataset(1)), strategy=strategy)
