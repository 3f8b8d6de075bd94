"""SVG0's learner against dm-acme's: equal weights, batches and draws give equal steps."""

from acme.agents.tf.svg0_prior import learning as acme_learning
from acme.agents.tf.svg0_prior import networks as acme_networks
import learner_probes
import numpy as np
import pytest
import sonnet as snt
import svg0_cases
import tensorflow as tf

from temper.agents.svg0_prior import networks as networks_lib
from temper.utils import optimizers

_STEPS = 5


def _run(learner_class, networks, make_inner, iterator=True, **options):
  """Returns the losses, gradients and all weights after each step."""
  made = []

  def make():
    made.append(learner_probes.RecordingOptimizer(make_inner()))
    return made[-1]

  log = learner_probes.Log()
  dataset = svg0_cases.make_dataset(_STEPS)
  learner = svg0_cases.make_learner(
    networks, iter(dataset) if iterator else dataset, learner_class, make, log, **options
  )
  history = []
  for _ in range(_STEPS):
    learner.step()
    losses = {name: value for name, value in log.rows[-1].items() if name.endswith("_loss")}
    gradients = {
      f"{i}/{j}": update.numpy()
      for i, optimizer in enumerate(made)
      for j, update in enumerate(optimizer.updates)
    }
    history.append({**losses, **gradients, **svg0_cases.values(networks)})
  return history


def _assert_equal(ours, theirs):
  for step, (mine, other) in enumerate(zip(ours, theirs)):
    assert mine.keys() == other.keys()
    for name, value in other.items():
      # Absolute: float32's rounding of a tensor's largest entries, which its smallest ones inherit.
      absolute = 2e-6 * max(1e-1, np.abs(value).max())
      np.testing.assert_allclose(
        mine[name], value, 1e-4, absolute, err_msg=f"{name} after step {step + 1}"
      )


@pytest.mark.parametrize(
  "make, prior",
  [
    (acme_networks.make_network_with_prior, False),
    (acme_networks.make_network_with_prior, True),
    (networks_lib.make_network_with_prior, True),
  ],
  ids=["acme_networks", "acme_networks_with_prior", "own_networks_with_prior"],
)
def test_five_steps_of_sgd(make, prior):
  networks = svg0_cases.make_networks(make, prior)
  theirs = svg0_cases.copy_networks(networks)
  costs = dict(distillation_cost=0.1, entropy_regularizer_cost=0.2)

  def sgd():
    return snt.optimizers.SGD(0.05)

  other = _run(acme_learning.SVG0Learner, theirs, sgd, **costs)
  _assert_equal(_run(svg0_cases.learning.SVG0Learner, networks, sgd, **costs), other)
  # The comparison means something: losses and weights moved, and each network received a gradient.
  for name in ("critic_loss", "policy_loss", *(["prior_loss"] if prior else [])):
    assert len({round(row[name], 5) for row in other}) == _STEPS
  first, last = other[0], other[-1]
  moved = {name.split("/")[0] for name in first if np.abs(first[name] - last[name]).max() > 1e-4}
  assert {"policy", "critic", "target_policy", "target_critic"} <= moved
  assert prior == ("prior" in moved) == ("target_prior" in moved)


def test_five_steps_of_adam_with_default_costs_and_a_lambda():
  networks = svg0_cases.make_networks()
  theirs = svg0_cases.copy_networks(networks)
  options = dict(lambda_=0.8, num_action_samples=3)
  other = _run(acme_learning.SVG0Learner, theirs, lambda: snt.optimizers.Adam(1e-3), **options)
  ours = _run(
    svg0_cases.learning.SVG0Learner,
    networks,
    lambda: optimizers.Adam(1e-3),
    iterator=False,
    **options,
  )
  _assert_equal(ours, other)


def test_blocks_of_samples_change_nothing():
  networks = svg0_cases.make_networks()
  split = svg0_cases.copy_networks(networks)

  def sgd():
    return snt.optimizers.SGD(0.05)

  whole = _run(svg0_cases.learning.SVG0Learner, networks, sgd, sample_block_rows=10_000)
  # 20 rows a sample and 6 samples: blocks of two samples, three turns.
  rows = 2 * svg0_cases.NUM_PAIRS * svg0_cases.BATCH_SIZE
  _assert_equal(_run(svg0_cases.learning.SVG0Learner, split, sgd, sample_block_rows=rows), whole)


def test_targets_are_copied_before_the_first_step_and_each_period():
  networks = svg0_cases.make_networks()
  learner = svg0_cases.make_learner(networks, svg0_cases.make_dataset(), target_update_period=3)
  pairs = [(networks.policy, networks.target_policy), (networks.critic, networks.target_critic)]
  for step in range(5):
    before = [[v.numpy() for v in online.variables] for online, _ in pairs]
    targets_before = [[v.numpy() for v in target.variables] for _, target in pairs]
    learner.step()
    expected = before if step in (0, 3) else targets_before
    for (_, target), values in zip(pairs, expected):
      for variable, value in zip(target.variables, values):
        np.testing.assert_array_equal(variable.numpy(), value)
  assert learner.num_steps == 5


def test_a_batch_of_unknown_size_gives_the_same_step():
  networks = svg0_cases.make_networks()
  dataset = svg0_cases.make_dataset(1)
  spec = tf.nest.map_structure(
    lambda s: tf.TensorSpec([None, *s.shape[1:]], s.dtype), dataset.element_spec
  )
  sample = next(iter(dataset))
  unknown = tf.data.Dataset.from_generator(lambda: iter([sample]), output_signature=spec)
  rows = []
  for data, used in ((dataset, svg0_cases.copy_networks(networks)), (unknown, networks)):
    log = learner_probes.Log()
    svg0_cases.make_learner(used, data, log=log).step()
    rows.append(log.rows[0])
  for name in ("policy_loss", "critic_loss", "prior_loss", "policy_gradient_norm"):
    assert rows[0][name] == pytest.approx(rows[1][name], rel=1e-5)
