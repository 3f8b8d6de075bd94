"""CRR under strategies: two replicas with half the batch each equal one with all of it."""

import crr_cases
import learner_probes
import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from temper.utils import optimizers

_STEPS = 5
_BATCH_SIZE = 4
_METRICS = (
  "critic_loss",
  "policy_loss",
  "policy_loss_coef",
  "critic_gradient_norm",
  "policy_gradient_norm",
)
_STRATEGIES = {
  "one_device": lambda: tf.distribute.OneDeviceStrategy("CPU:1"),
  "mirrored": lambda: tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]),
  "replicator": lambda: snt.distribute.Replicator(["CPU:0", "CPU:1"]),
}


def _dataset():
  """Batches with boundaries and padding, more of it on the first replica than on the second."""
  steps = []
  for seed in range(_STEPS):
    step = crr_cases.make_step(seed, batch_size=_BATCH_SIZE, valid=True)
    step = crr_cases.edit(step, "start_of_episode", (2, 2), True)
    steps.append(crr_cases.edit(step, "valid_mask", (0, slice(2, None)), False))
  return crr_cases.as_dataset(*steps)


def _run(networks, strategy=None, **options):
  log = learner_probes.Log()
  learner = crr_cases.make_learner(
    networks,
    _dataset(),
    log=log,
    make_optimizer=lambda: optimizers.Adam(1e-3),
    accelerator_strategy=strategy,
    num_action_samples_td_learning=3,
    max_gradient_norm=0.5,
    **options,
  )
  for _ in range(_STEPS):
    learner.step()
  return learner, log.rows


@pytest.fixture(name="references", scope="module")
def _references():
  references = {}
  for normalise_by_valid in (False, True):
    networks = crr_cases.make_networks(scale=3.0)
    learner, rows = _run(networks, normalise_by_valid=normalise_by_valid)
    served = learner.get_variables(["policy", "critic"])
    references[normalise_by_valid] = (crr_cases.values(networks), rows, served)
  return references


@pytest.mark.parametrize("normalise_by_valid", [False, True], ids=["by_length", "by_valid"])
@pytest.mark.parametrize("name", _STRATEGIES)
def test_replicas_equal_one_device_with_the_whole_batch(references, name, normalise_by_valid):
  end, rows, served = references[normalise_by_valid]
  strategy = _STRATEGIES[name]()
  with strategy.scope():
    networks = crr_cases.make_networks(scale=3.0)
  learner, mine = _run(networks, strategy, normalise_by_valid=normalise_by_valid)
  for row, expected in zip(mine, rows):
    for key in _METRICS:
      assert row[key] == pytest.approx(expected[key], rel=2e-5, abs=1e-5), key
  for network in networks:
    for variable in network.variables:
      copies = strategy.experimental_local_results(variable)
      assert len(copies) == strategy.num_replicas_in_sync
      for copy in copies[1:]:
        np.testing.assert_array_equal(copy, copies[0])
  for key, value in crr_cases.values(networks).items():
    np.testing.assert_allclose(value, end[key], rtol=1e-5, atol=1e-5, err_msg=key)
  for variables, expected in zip(learner.get_variables(["policy", "critic"]), served):
    for a, b in zip(variables, expected):
      np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
  assert learner.num_steps == _STEPS


def test_sonnets_optimizers_work_under_the_replicator():
  strategy = _STRATEGIES["replicator"]()
  with strategy.scope():
    networks = crr_cases.make_networks()
  before = crr_cases.values(networks)
  learner = crr_cases.make_learner(
    networks,
    _dataset(),
    make_optimizer=lambda: snt.optimizers.Adam(1e-3),
    accelerator_strategy=strategy,
  )
  learner.step()
  assert crr_cases.differs(crr_cases.values(networks), before, "policy")


def test_replicas_draw_other_numbers():
  strategy = _STRATEGIES["replicator"]()
  half = crr_cases.make_step(batch_size=2)
  twice = tf.nest.map_structure(lambda x: np.concatenate([x, x]), half)
  runs = []
  for step, chosen in ((half, None), (twice, strategy)):
    with (chosen or tf.distribute.get_strategy()).scope():
      networks = crr_cases.make_networks(noise=False, core=crr_cases.stateless)
    log = learner_probes.Log()
    dataset = crr_cases.as_dataset(step)
    crr_cases.make_learner(networks, dataset, log=log, accelerator_strategy=chosen).step()
    runs.append(log.rows[0]["critic_loss"])
  # The first replica draws what one device alone does: equal draws would give an equal mean.
  assert runs[0] != pytest.approx(runs[1], rel=1e-6)
  assert runs[0] == pytest.approx(runs[1], rel=0.2)


def test_a_single_valid_pair_of_all_replicas_counts_once():
  step = crr_cases.make_step(length=2, batch_size=2, valid=True)
  step = crr_cases.edit(step, "valid_mask", (1, slice(1, None)), False)
  alone = tf.nest.map_structure(lambda x: x[:1], step)
  runs = []
  for batch, chosen in ((alone, None), (step, _STRATEGIES["replicator"]())):
    with (chosen or tf.distribute.get_strategy()).scope():
      networks = crr_cases.make_networks(core=crr_cases.stateless)
    log = learner_probes.Log()
    crr_cases.make_learner(
      networks,
      crr_cases.as_dataset(batch),
      log=log,
      accelerator_strategy=chosen,
      normalise_by_valid=True,
    ).step()
    runs.append(log.rows[0])
  for name in _METRICS:
    assert runs[1][name] == pytest.approx(runs[0][name], rel=1e-5), name


def test_a_batch_that_replicas_cannot_share_is_refused():
  strategy = _STRATEGIES["mirrored"]()
  with strategy.scope():
    networks = crr_cases.make_networks()
  with pytest.raises(ValueError, match="A batch of 5 cannot be shared equally by 2 replicas"):
    crr_cases.make_learner(
      networks,
      crr_cases.as_dataset(crr_cases.make_step(batch_size=5)),
      accelerator_strategy=strategy,
    )
