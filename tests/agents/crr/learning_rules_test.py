"""How CRR's learner walks along a sequence: what reaches which loss, and what never does."""

import crr_cases
import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

_LENGTH = 5
_LOSSES = ("critic_loss", "policy_loss")
_ALL = slice(None)


@pytest.fixture(autouse=True, scope="module")
def _eagerly():
  # A graph for each length of the sequences would take far longer to make than to run.
  tf.config.run_functions_eagerly(True)
  yield
  tf.config.run_functions_eagerly(False)


@pytest.fixture(name="networks", scope="module")
def _networks():
  return crr_cases.make_networks()


@pytest.fixture(name="probe", scope="module")
def _probe(networks):
  return crr_cases.Prober(networks)


@pytest.fixture(name="step")
def _step():
  return crr_cases.make_step(length=_LENGTH, valid=True)


def _add(*outcomes):
  return {name: sum(outcome[name] for outcome in outcomes) for name in outcomes[0]}


# What an episode's first step reaches.


def _make_online_critic_blind(networks):
  """Leaves the online critic its biases alone, so that only its target depends on observations."""
  networks = crr_cases.copy_networks(networks)
  for variable in networks.critic.trainable_variables:
    if variable.shape.rank > 1:
      variable.assign(tf.zeros_like(variable))
  return networks


@pytest.mark.parametrize("length", [2, _LENGTH])
def test_the_first_observation_and_action_do_not_reach_the_target(networks, probe, step, length):
  blind, step = _make_online_critic_blind(networks), crr_cases.cut(step, 0, length)
  before = probe(step, blind)
  changed = crr_cases.edit(step, "observation", (_ALL, 0), 7.0)
  changed = crr_cases.edit(changed, "action", (_ALL, 0), -1.0)
  assert probe(changed, blind)["critic_loss"] == before["critic_loss"]
  for row in range(1, length):
    later = crr_cases.edit(step, "observation", (_ALL, row), 7.0)
    assert abs(probe(later, blind)["critic_loss"] - before["critic_loss"]) > 1e-5, row


def test_the_first_observation_and_action_reach_both_online_networks(probe, step):
  before = probe(step)
  for field in ("observation", "action"):
    changed = crr_cases.edit(step, field, (_ALL, 0), 1.0)
    after = probe(changed)
    assert all(after[name] != before[name] for name in _LOSSES), field


def test_what_follows_the_last_action_is_not_looked_at(probe, step):
  # The last row gives the last target its observation, and nothing else.
  before = probe(step)
  changed = step
  for field in ("action", "reward", "discount"):
    changed = crr_cases.edit(changed, field, (_ALL, -1), 0.25)
  crr_cases.assert_equal(probe(changed), before, rtol=0, atol=0)


def test_a_sequence_of_two_uses_no_recurrent_connection(networks, probe):
  moved = crr_cases.copy_networks(networks)
  recurrent = [v for network in moved for v in network.variables if "w_h" in v.name]
  assert len(recurrent) == 4
  for variable in recurrent:
    variable.assign(5 * tf.ones_like(variable))
  step = crr_cases.make_step(length=2)
  before, after = probe(step), probe(step, moved)
  crr_cases.assert_equal(after, before)
  assert not any(np.any(value) for name, value in after.items() if "w_h" in name)
  longer = crr_cases.make_step(length=3)
  assert crr_cases.differs(probe(longer, moved), probe(longer))


# Episode starts.


@pytest.mark.parametrize("start", [1, 2, 3])
def test_a_sequence_with_a_boundary_is_worth_its_two_parts(probe, step, start):
  whole = crr_cases.edit(step, "start_of_episode", (_ALL, start), True)
  parts = [crr_cases.cut(step, 0, start), crr_cases.cut(step, start, _LENGTH)]
  # A part of a single row has no pair.
  parts = [part for part in parts if part.reward.shape[1] > 1]
  expected = _add(*(probe(part, times_length=True) for part in parts))
  crr_cases.assert_equal(probe(whole, times_length=True), expected)
  assert crr_cases.differs(probe(step, times_length=True), expected)


def test_a_boundary_at_the_last_row_removes_one_pair(probe, step):
  whole = crr_cases.edit(step, "start_of_episode", (_ALL, -1), True)
  expected = probe(crr_cases.cut(step, 0, _LENGTH - 1), times_length=True)
  crr_cases.assert_equal(probe(whole, times_length=True), expected)


def test_each_sequence_has_boundaries_of_its_own(probe, step):
  starts = np.zeros_like(step.start_of_episode)
  starts[0, 2], starts[1, [1, 3]] = True, True
  whole = probe(step._replace(start_of_episode=starts), times_length=True)
  one_by_one = []
  for row in range(crr_cases.BATCH_SIZE):
    alone = tf.nest.map_structure(
      lambda x, row=row: x[row : row + 1], step._replace(start_of_episode=starts)
    )
    one_by_one.append(probe(alone, times_length=True))
  mean = {k: v / crr_cases.BATCH_SIZE for k, v in _add(*one_by_one).items()}
  crr_cases.assert_equal(whole, mean)


def test_nothing_before_a_start_changes_what_follows(probe, step):
  # The pairs before the start are burnt in, thus what is left are the losses of those after it.
  start = 3
  step = crr_cases.edit(step, "start_of_episode", (_ALL, start), True)
  before = probe(step, burn_in_length=start)
  after = probe(crr_cases.scramble(step, slice(0, start)), burn_in_length=start)
  crr_cases.assert_equal(after, before, rtol=0, atol=0)
  assert abs(before["critic_loss"]) > 1e-3


def test_a_start_at_the_first_row_says_nothing_new(probe, step):
  started = crr_cases.edit(step, "start_of_episode", (_ALL, 0), True)
  crr_cases.assert_equal(probe(started), probe(step), 0, 0)


def test_masks_that_hide_nothing_change_nothing(probe, step):
  without = probe(step._replace(extras=()))
  crr_cases.assert_equal(without, probe(step), rtol=1e-6, atol=1e-7)


# Padding.


def _pad(step, length, filler=0.0):
  """Marks rows from `length` on as padding, which holds `filler`."""
  step = crr_cases.edit(step, "valid_mask", (_ALL, slice(length, None)), False)
  for field in ("observation", "action", "reward", "discount"):
    step = crr_cases.edit(step, field, (_ALL, slice(length, None)), filler)
  return step


@pytest.mark.parametrize("length", [2, 3, 4])
def test_a_padded_sequence_is_worth_its_valid_part(probe, step, length):
  expected = probe(crr_cases.cut(step, 0, length), times_length=True)
  crr_cases.assert_equal(probe(_pad(step, length), times_length=True), expected)


@pytest.mark.parametrize("filler", [0.0, 1e30, np.inf, np.nan])
def test_padding_of_any_content_leaves_no_trace(probe, step, filler):
  expected = probe(_pad(step, 4, 0.5))
  after = probe(_pad(step, 4, filler))
  crr_cases.assert_equal(after, expected, rtol=0, atol=0)
  assert all(np.isfinite(value).all() for value in after.values())


def test_a_padded_first_sequence_does_not_touch_the_others(probe, step):
  padded = crr_cases.edit(step, "valid_mask", (0, slice(1, None)), False)
  padded = crr_cases.edit(padded, "observation", (0, slice(1, None)), np.nan)
  others = tf.nest.map_structure(lambda x: x[1:], step)
  expected = {k: v * 2 / 3 for k, v in probe(others).items()}
  crr_cases.assert_equal(probe(padded), expected)


def test_a_batch_of_padding_alone_is_worth_nothing(probe, step):
  padded = _pad(step, 0)
  for options in ({}, {"normalise_by_valid": True}):
    for value in probe(padded, **options).values():
      assert not np.any(value)


# Options.


def test_normalising_by_the_valid_pairs(probe, step):
  plain = probe(_pad(step, 3))
  normalised = probe(_pad(step, 3), normalise_by_valid=True)
  # The pairs of three rows are valid, where the default divides by the length of five.
  crr_cases.assert_equal(normalised, {k: v * _LENGTH / 2 for k, v in plain.items()})
  # Sequences of unlike length: every pair counts the same.
  ragged = crr_cases.edit(_pad(step, 4), "valid_mask", (0, slice(2, None)), False)
  valid = 1 + 3 + 3
  factor = _LENGTH * crr_cases.BATCH_SIZE / valid
  plain = probe(ragged)
  normalised = probe(ragged, normalise_by_valid=True)
  crr_cases.assert_equal(normalised, {k: v * factor for k, v in plain.items()})


@pytest.mark.parametrize("normalise_by_valid", [False, True])
def test_pairs_burnt_in_bear_no_loss(probe, step, normalise_by_valid):
  options = {"burn_in_length": 2, "normalise_by_valid": normalise_by_valid}
  before = probe(step, **options)
  # Rewards and discounts of burnt-in pairs are for their losses alone.
  for field in ("reward", "discount"):
    step = crr_cases.edit(step, field, (_ALL, slice(0, 2)), 0.25)
  crr_cases.assert_equal(probe(step, **options), before, rtol=0, atol=0)
  later = crr_cases.edit(step, "reward", (_ALL, 2), 0.25)
  assert crr_cases.differs(probe(later, **options), before)


def test_burning_in_warms_the_states(probe, step):
  before = probe(step, burn_in_length=2)
  for row in (0, 1):
    warmed = crr_cases.edit(step, "observation", (_ALL, row), 2.0)
    after = probe(warmed, burn_in_length=2)
    assert all(abs(after[name] - before[name]) > 1e-6 for name in _LOSSES), row
  cold = probe(crr_cases.cut(step, 2, _LENGTH), times_length=True)
  assert crr_cases.differs(probe(step, burn_in_length=2, times_length=True), cold)


def test_burning_in_cuts_a_sequence_without_memory(step):
  probe = crr_cases.Prober(crr_cases.make_networks(core=crr_cases.stateless))
  crr_cases.assert_equal(probe(step, burn_in_length=2), probe(crr_cases.cut(step, 2, _LENGTH)))


def test_rewards_are_scaled(probe, step):
  scaled = probe(step, reward_scale=0.125)
  by_hand = probe(step._replace(reward=0.125 * step.reward))
  crr_cases.assert_equal(scaled, by_hand, rtol=1e-6)
  assert crr_cases.differs(probe(step), scaled)


def test_numbers_of_other_dtypes_are_taken(probe, step):
  whole = step._replace(reward=np.round(step.reward))
  other = whole._replace(
    reward=whole.reward.astype(np.int64), discount=step.discount.astype(np.float64)
  )
  crr_cases.assert_equal(probe(other), probe(whole), 1e-6)


def test_the_seed_decides_the_draws(step):
  networks = crr_cases.make_networks(noise=False, core=crr_cases.stateless)
  # Each prober makes a learner, and so begins anew.
  runs = [crr_cases.Prober(networks)(step, seed=seed)["critic_loss"] for seed in (3, 3, 4)]
  assert runs[0] == runs[1] != runs[2]


# What is logged.


def _metrics(networks, step, **options):
  dataset = crr_cases.as_dataset(step)
  return crr_cases.run(crr_cases.copy_networks(networks), dataset, **options)[0]


def test_metrics_tell_of_divergence(networks, step):
  for bound, share in ((1e-6, 1.0), (1e6, 0.0)):
    row = _metrics(networks, step, ratio_upper_bound=bound)
    assert row["weight_saturated_share"] == pytest.approx(share)
  for reward, share in ((100.0, 1.0), (0.0, 0.0)):
    row = _metrics(networks, step._replace(reward=np.full_like(step.reward, reward)))
    assert row["target_outside_support_share"] == pytest.approx(share)


def test_metrics_are_of_the_valid_pairs_alone(networks, step):
  expected = _metrics(networks, crr_cases.cut(step, 0, 3))
  padded = _metrics(networks, _pad(step, 3))
  for name in (
    "q_mean",
    "advantage_mean",
    "positive_advantage_share",
    "weight_saturated_share",
    "target_outside_support_share",
  ):
    assert padded[name] == pytest.approx(expected[name], rel=1e-4, abs=1e-6), name
  assert crr_cases.V_MIN < expected["q_mean"] < crr_cases.V_MAX
  assert 0 < expected["positive_advantage_share"] < 1


@pytest.mark.parametrize("mode, reduce", [("binary", "min"), ("binary", "max"), ("all", "mean")])
def test_the_coefficient_is_the_mean_weight(networks, step, mode, reduce):
  options = {"policy_improvement_modes": mode, "baseline_reduce_function": reduce}
  row = _metrics(networks, step, **options)
  # Four pairs of five steps; in mode "all" no advantage is computed.
  share = 1.0 if mode == "all" else row["positive_advantage_share"]
  assert row["policy_loss_coef"] == pytest.approx(4 / 5 * share, rel=1e-5)


# The same, for networks of which the learner knows nothing but how they are called.


def test_opaque_cores_keep_the_rules(step):
  probe = crr_cases.Prober(crr_cases.make_networks(crr_cases.Kind.OPAQUE, snt.LSTM))
  start = 2
  whole = crr_cases.edit(step, "start_of_episode", (_ALL, start), True)
  parts = [crr_cases.cut(step, 0, start), crr_cases.cut(step, start, _LENGTH)]
  expected = _add(*(probe(part, times_length=True) for part in parts))
  crr_cases.assert_equal(probe(whole, times_length=True), expected)
  # `_pad` leaves a valid head of two rows, which is the first of the parts.
  expected = probe(parts[0], times_length=True)
  for filler in (0.0, np.nan):
    crr_cases.assert_equal(probe(_pad(step, start, filler), times_length=True), expected)
  before = probe(whole, burn_in_length=start)
  scrambled = crr_cases.scramble(whole, slice(0, start))
  crr_cases.assert_equal(probe(scrambled, burn_in_length=start), before, rtol=0, atol=0)


def test_both_rates_decay_to_a_tenth(networks, step):
  made = []

  def make_optimizer():
    made.append(snt.optimizers.SGD(0.02))
    return made[-1]

  learner = crr_cases.make_learner(
    crr_cases.copy_networks(networks),
    crr_cases.as_dataset(*[step] * 4),
    make_optimizer=make_optimizer,
    learning_rate_decay_period=2,
  )
  for factor in (1.0, 0.55, 0.1, 0.1):
    learner.step()
    assert learner.metrics["learning_rate_scale"] == pytest.approx(factor, rel=1e-6)
    rates = [float(optimizer.learning_rate) for optimizer in made]
    assert rates == pytest.approx([0.02 * factor] * 2, rel=1e-5)
