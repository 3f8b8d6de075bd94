"""CRR's learner against dm-acme's: equal weights, batches and draws give equal steps."""

from acme.agents.tf import crr as acme_crr
import crr_cases
import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from temper.utils import optimizers

_STEPS = 5
_LOSSES = ("critic_loss", "policy_loss", "policy_loss_coef")


def _run(learner, networks, make_inner, bare, **options):
  steps = [crr_cases.make_step(seed) for seed in range(_STEPS)]
  dataset = crr_cases.as_dataset(*steps, bare=bare)
  history = crr_cases.run(networks, dataset, _STEPS, learner, make_inner, **options)
  return [{k: v for k, v in row.items() if k in _LOSSES or "/" in k} for row in history]


def _compare(networks, make_inner=None, bare=False, ours_make_inner=None, **options):
  """Runs both sides; returns dm-acme's history."""
  theirs = crr_cases.copy_networks(networks)
  # It loops over time in Python, so that to trace its graph takes longer than a few eager steps.
  tf.config.run_functions_eagerly(True)
  try:
    other = _run(
      acme_crr.RCRRLearner,
      theirs,
      make_inner,
      True,
      # Its own choice would take both logical processors.
      accelerator_strategy=tf.distribute.get_strategy(),
      **options,
    )
  finally:
    tf.config.run_functions_eagerly(False)
  mine = _run(None, networks, ours_make_inner or make_inner, bare, **options)
  for step, (a, b) in enumerate(zip(mine, other)):
    assert set(b) <= set(a), step
    # Absolute: gradients are sums whose terms cancel, which leaves rounding of the largest ones.
    crr_cases.assert_equal({name: a[name] for name in b}, b, rtol=1e-4, atol=2e-5)
  return other


def _norm(row, name):
  return np.sqrt(sum(np.sum(v**2) for k, v in row.items() if k.startswith(f"gradient/{name}/")))


@pytest.mark.parametrize(
  "mode, reduce, num_td_samples",
  [
    ("exp", "mean", 1),
    ("exp", "max", 3),
    ("exp", "min", 1),
    ("binary", "mean", 3),
    ("binary", "max", 1),
    ("binary", "min", 3),
    ("all", "mean", 1),
    ("all", "max", 3),
    ("all", "min", 1),
  ],
)
def test_five_steps_of_each_mode_and_baseline(mode, reduce, num_td_samples):
  networks = crr_cases.make_networks(scale=80.0)
  other = _compare(
    networks,
    lambda: snt.optimizers.SGD(2e-3),
    policy_improvement_modes=mode,
    baseline_reduce_function=reduce,
    num_action_samples_td_learning=num_td_samples,
    num_action_samples_policy_weight=4,
    beta=0.25,
  )
  # The comparison means something: losses moved, gradients were cut, targets were copied at times.
  for name in ("critic_loss", "policy_loss"):
    assert len({round(row[name], 5) for row in other}) == _STEPS
  coefficients = {round(row["policy_loss_coef"], 5) for row in other}
  assert coefficients == {0.75} if mode == "all" else len(coefficients) > 1
  assert any(_norm(row, "critic") == pytest.approx(40, rel=1e-4) for row in other)
  changes = [crr_cases.differs(a, b, "target_") for a, b in zip(other, other[1:])]
  assert changes == [False, True, False, True]


def test_five_steps_with_clipped_policy_gradients():
  networks = crr_cases.make_networks()
  for variable in networks.policy.trainable_variables:
    variable.assign(3 * variable)
  other = _compare(networks, lambda: snt.optimizers.SGD(1e-4), ratio_upper_bound=20.0, beta=0.02)
  assert any(_norm(row, "policy") == pytest.approx(40, rel=1e-4) for row in other)


@pytest.mark.parametrize(
  "kind, core",
  [
    (crr_cases.Kind.OWN, snt.GRU),
    (crr_cases.Kind.OWN, crr_cases.stateless),
    (crr_cases.Kind.DEEP_RNN, crr_cases.stateless),
    (crr_cases.Kind.DEEP_RNN, crr_cases.own_lstm),
    (crr_cases.Kind.OPAQUE, snt.LSTM),
  ],
)
def test_five_steps_of_adam_of_other_networks(kind, core):
  _compare(
    crr_cases.make_networks(kind, core),
    lambda: snt.optimizers.Adam(1e-3),
    bare=True,
    ours_make_inner=lambda: optimizers.Adam(1e-3),
    clipping=False,
    target_update_period=3,
    num_action_samples_td_learning=2,
    num_action_samples_policy_weight=2,
  )


def test_targets_are_copied_after_the_first_step_and_each_period():
  networks = crr_cases.make_networks(core=crr_cases.stateless)
  steps = [crr_cases.make_step(seed) for seed in range(_STEPS)]
  learner = crr_cases.make_learner(networks, crr_cases.as_dataset(*steps), target_update_period=3)
  pairs = [(networks.policy, networks.target_policy), (networks.critic, networks.target_critic)]
  for step in range(_STEPS):
    before = [[v.numpy() for v in target.variables] for _, target in pairs]
    learner.step()
    online = [[v.numpy() for v in network.variables] for network, _ in pairs]
    for (_, target), expected in zip(pairs, online if step in (0, 3) else before):
      for variable, value in zip(target.variables, expected):
        np.testing.assert_array_equal(variable.numpy(), value)
