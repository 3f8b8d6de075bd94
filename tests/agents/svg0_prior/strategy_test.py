"""SVG0 under strategies: two replicas with half the batch each equal one with all of it."""

import learner_probes
import numpy as np
import pytest
import reverb
import sonnet as snt
import svg0_cases
import tensorflow as tf

from temper.agents.svg0_prior import networks as networks_lib
from temper.utils import optimizers
from temper.utils import prioritised_replay

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


class _Writer:
  """Keeps the priorities that a learner writes."""

  max_priority = 1.0

  def __init__(self):
    self.written = []

  def write(self, keys, priorities):
    self.written.append(dict(zip(keys.tolist(), priorities.tolist())))


def _with_info(sample):
  """Gives the sequences of a batch of four probabilities and keys in replay."""
  info = reverb.SampleInfo(
    key=np.arange(10, 14, dtype=np.uint64),
    probability=np.array([0.5, 0.1, 0.02, 0.3]),
    table_size=np.full(4, 40, np.int64),
    priority=np.ones(4),
    times_sampled=np.ones(4, np.int32),
  )
  return sample._replace(info=info)


@pytest.mark.parametrize(
  "options",
  [
    {"entropy_estimator": "score"},
    {"entropy_estimator": "pathwise", "soft_value_target": True},
    {"entropy_estimator": "analytic", "soft_value_target": True},
    {"prioritised_replay": prioritised_replay.PrioritisedReplay(anneal_steps=2)},
  ],
  ids=["score", "pathwise", "analytic", "prioritised"],
)
def test_replicas_equal_one_device_without_a_prior_too(options):
  samples = [_with_info(svg0_cases.make_sample(seed)) for seed in range(3)]
  stacked = tf.nest.map_structure(lambda *leaves: np.stack(leaves), *samples)
  results = []
  for strategy in (None, _STRATEGIES["replicator"]()):
    with (strategy or tf.distribute.get_strategy()).scope():
      networks = svg0_cases.make_networks(networks_lib.make_network_with_prior, prior=False)
    log, writer = learner_probes.Log(), _Writer()
    dataset = tf.data.Dataset.from_tensor_slices(stacked).with_options(learner_probes.untuned())
    learner = svg0_cases.make_learner(
      networks,
      dataset,
      optimizer=lambda: optimizers.Adam(1e-3),
      log=log,
      strategy=strategy,
      priority_writer=writer if "prioritised_replay" in options else None,
      entropy_regularizer_cost=0.2,
      **options,
    )
    for _ in samples:
      learner.step()
    results.append((svg0_cases.values(networks), log.rows, writer.written))
  (end, rows, written), (replicated_end, replicated_rows, replicated_written) = results
  for mine, other in zip(replicated_rows, rows):
    for key in ("policy_loss", "critic_loss", "policy_gradient_norm", "entropy"):
      assert mine[key] == pytest.approx(other[key], rel=1e-5, abs=1e-5), key
  for key, value in end.items():
    np.testing.assert_allclose(replicated_end[key], value, rtol=1e-5, atol=1e-5, err_msg=key)
  assert len(written) == len(replicated_written) == 3 * ("prioritised_replay" in options)
  for mine, other in zip(replicated_written, written):
    assert mine.keys() == other.keys()
    for key, priority in other.items():
      assert mine[key] == pytest.approx(priority, rel=1e-5)
