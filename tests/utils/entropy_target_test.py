"""Tests of `temper.utils.entropy_target`."""

import math

from acme import specs
import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from temper.utils import entropy_target
from temper.utils import temperature_config

tfd = tfp.distributions
_RATES = entropy_target.UpdateRates(very_slow=0.001, slow=0.01, fast=0.5)
_FALLING, _RISING = entropy_target.Tie.FALLING, entropy_target.Tie.RISING


def _state(stage, *, window=(), log_alpha=0.0, rate=0.5, max_entropy=0.0, size=2):
  return entropy_target.EntropyTargetState(
    tf.constant(stage),
    tf.constant(log_alpha, tf.float64),
    tf.constant(rate, tf.float64),
    tf.constant(max_entropy, tf.float64),
    tf.constant([0.0] * (size - len(window)) + list(window), tf.float64),
    tf.constant(len(window)),
  )


def _update(state, entropy, target, tie=_FALLING, bounds=(-10.0, 10.0)):
  to_tensor = lambda x: tf.constant(x, tf.float64)
  return entropy_target.update(state, to_tensor(entropy), to_tensor(target), _RATES, bounds, tie)


# Adjusting, each with a window of one, so that means are entropies. Columns: stage before, previous
# entropy, entropy, change of log alpha in rates after the update, rate after, stage after.
@pytest.mark.parametrize(
  "stage, previous, entropy, change, rate, after",
  [
    (0, 0.9, 0.8, +1.0, 0.5, 0),  # Below and falling.
    (0, 0.8, 0.9, -0.5, 0.5, 0),  # Below and rising.
    (1, 1.2, 1.1, +0.5, 0.5, 1),  # Above and falling.
    (1, 1.1, 1.2, -1.0, 0.5, 1),  # Above and rising.
    (0, 0.9, 1.1, -1.0, 0.45, 1),  # A crossing upwards slows.
    (1, 1.1, 0.9, +1.0, 0.45, 0),  # So does one downwards.
  ],
)
def test_adjustment_by_hand(stage, previous, entropy, change, rate, after):
  result = _update(_state(stage, window=[previous], size=1), entropy, 1.0)
  assert float(result.log_alpha) == pytest.approx(change * rate)
  assert float(result.update_rate) == pytest.approx(rate)
  assert int(result.stage) == after


def test_the_rate_has_a_floor_and_a_fall_far_below_the_target_resets_it():
  crossing = _update(_state(1, window=[1.1], size=1, rate=0.0105), 0.9, 1.0)
  assert float(crossing.update_rate) == 0.01
  for target, kept, reset in ((1.0, 0.51, 0.49), (-1.0, -1.99, -2.01), (0.0, 0.0, -0.01)):
    slow = _state(0, window=[target, target], rate=0.02)
    assert float(_update(slow, kept, target).update_rate) == 0.02
    # One entropy does it, though the average of the window may be higher.
    assert float(_update(slow, reset, target).update_rate) == 0.5


def test_the_start_is_estimated_then_left_then_all_stages_are_crossed_at_once():
  state = _state(entropy_target.first_stage_of_three(2))
  state = _update(state, 4.0, 1.0)
  assert int(state.stage) == -3 and float(state.max_entropy) == pytest.approx(3.2)
  state = _update(state, 2.0, 1.0)  # The mean, 3, is not below 2.4; but falling: up by half a rate.
  assert int(state.stage) == -2 and float(state.max_entropy) == pytest.approx(2.4)
  assert float(state.log_alpha) == pytest.approx(0.5 * 0.001)
  state = _update(state, 5.0, 1.0)
  assert float(state.log_alpha) == pytest.approx(-0.5 * 0.001)
  state = _update(state, -5.0, 1.0)  # Below 2.4 and below the target: left, freed and adjusted.
  assert int(state.stage) == 0
  assert float(state.log_alpha) == pytest.approx(0.5)


def test_a_negative_start_is_left_downwards():
  state = _update(_state(-3, size=1), -2.0, -9.0)
  assert float(state.max_entropy) == pytest.approx(-2.5)


def test_alpha_rests_in_the_free_stage():
  state = _state(entropy_target.FIRST_STAGE_OF_TWO)
  for entropy in (3.0, 2.0, 4.0, 1.1):
    state = _update(state, entropy, 1.0)
    assert int(state.stage) == -1 and float(state.log_alpha) == 0.0


def test_where_the_rule_of_three_stages_begins():
  assert entropy_target.first_stage_of_three(5) == -7
  assert entropy_target.first_stage_of_three(5, max_entropy=0.0) == -2
  assert entropy_target.first_stage_of_three(5, skip_free_stage=True) == 1


@pytest.mark.parametrize("tie, sign", [(_FALLING, 1), (_RISING, -1)])
def test_a_tie(tie, sign):
  for stage, entropy in ((0, 0.9), (1, 1.1), (-2, 1.1)):
    result = _update(_state(stage, window=[entropy] * 2, max_entropy=0.0), entropy, 1.0, tie)
    assert np.sign(float(result.log_alpha)) == sign


@pytest.mark.parametrize("tie", [_FALLING, _RISING])
def test_an_entropy_that_keeps_falling_under_the_target_raises_alpha_in_any_stage(tie):
  for stage in (-4, -2, -1, 0, 1):
    state = _state(stage, max_entropy=5.0)
    for entropy in np.linspace(0.9, -3.0, 12):
      state = _update(state, entropy, 1.0, tie)
    assert float(state.log_alpha) > 1.0


@hypothesis.settings(max_examples=25, deadline=None)
@hypothesis.given(
  st.lists(st.floats(-100, 100), min_size=1, max_size=8), st.integers(1, 4), st.floats(-5, 5)
)
def test_the_window_holds_the_newest_entropies_and_bounds_hold(entropies, size, target):
  state = _state(1, size=size)
  assert float(entropy_target.window_mean(state)) == 0.0
  for i, entropy in enumerate(entropies):
    state = _update(state, entropy, target, bounds=(-1.0, 0.25))
    expected = np.mean(entropies[: i + 1][-size:])
    assert float(entropy_target.window_mean(state)) == pytest.approx(expected, abs=1e-9)
    assert -1.0 <= float(state.log_alpha) <= 0.25


def test_default_targets_by_hand():
  bounded = specs.BoundedArray((2,), np.float32, [-1.0, 0.0], [1.0, 10.0])
  assert entropy_target.default_target(bounded) == pytest.approx(math.log(0.2) + math.log(1.0))
  matrix = specs.BoundedArray((2, 3), np.float32, -1.0, 1.0)
  assert entropy_target.default_target(matrix) == pytest.approx(6 * math.log(0.2))
  # Probabilities 0.9, and a tenth shared by the three others.
  by_definition = lambda rest: -0.9 * math.log(0.9) - 0.1 * math.log(0.1 / rest)
  assert entropy_target.default_target(specs.DiscreteArray(4)) == pytest.approx(by_definition(3))
  assert entropy_target.default_target(specs.DiscreteArray(2)) == pytest.approx(by_definition(1))
  assert entropy_target.default_target(specs.DiscreteArray(1)) == 0.0
  several = specs.BoundedArray((2,), np.int32, [0, 2], [3, 2])
  assert entropy_target.default_target(several) == pytest.approx(by_definition(3))
  nest = {"a": bounded, "b": specs.DiscreteArray(4)}
  assert entropy_target.default_target(nest) == pytest.approx(math.log(0.2) + by_definition(3))


@pytest.mark.parametrize(
  "spec",
  [
    specs.Array((2,), np.float32),
    specs.BoundedArray((2,), np.float32, -np.inf, 1.0),
    specs.BoundedArray((2,), np.float32, 1.0, 1.0),
  ],
)
def test_an_action_without_a_range_has_no_default_target(spec):
  with pytest.raises(ValueError, match="no finite range.*Set target_entropy"):
    entropy_target.default_target(spec)


def test_target_at():
  schedule = temperature_config.TargetSchedule((10, 20, 40), (1.0, -1.0, 3.0))
  at = lambda target, step: float(
    entropy_target.target_at(target, tf.constant(step, tf.int64), tf.float64)
  )
  for step in (0, 9, 10, 13, 20, 25, 40, 41, 10**9):
    assert at(schedule, step) == pytest.approx(np.interp(step, schedule.steps, schedule.targets))
  assert at(temperature_config.TargetSchedule((5,), (2.5,)), 100) == 2.5
  assert at(0.1, 3) == 0.1
  assert at(lambda step: 0.5 * tf.cast(step, tf.float32), 3) == 1.5
  assert at(lambda step: 2, 3) == 2.0


def test_valid_steps_take_a_batched_mask():
  step_type = tf.constant([[0, 1, 2], [1, 2, 0]])
  valid = entropy_target.valid_steps(step_type)
  np.testing.assert_array_equal(valid, [[True, True, False], [True, False, True]])
  mask = tf.constant([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
  masked = entropy_target.valid_steps(step_type, mask)
  np.testing.assert_array_equal(masked, [[True, False, False], [False, False, True]])


def test_the_exact_entropy_is_taken_where_there_is_one():
  scale = tf.Variable([0.5, 2.0])
  with tf.GradientTape() as tape:
    entropy, for_gradient = entropy_target.entropy_with_fallback(tfd.Normal(0.0, scale))
  np.testing.assert_allclose(entropy, 0.5 * np.log(2 * np.pi * np.e) + np.log([0.5, 2.0]), 1e-6)
  np.testing.assert_allclose(tape.gradient(for_gradient, scale), [2.0, 0.5], 1e-6)


class _NoEntropy:
  """A diagonal normal that does not know its entropy, reparameterised or not."""

  def __init__(self, scale, reparameterised):
    self._normal = tfd.Normal(tf.zeros_like(scale), scale)
    self._reparameterised = reparameterised
    if reparameterised:
      self.reparameterization_type = tfd.FULLY_REPARAMETERIZED

  def sample(self, shape=(), seed=None):
    sample = self._normal.sample(shape, seed=seed)
    return sample if self._reparameterised else tf.stop_gradient(sample)

  def log_prob(self, action):
    return self._normal.log_prob(action)


@pytest.mark.parametrize("reparameterised", [True, False])
def test_the_fallback_and_its_gradient_are_those_of_a_normal_on_average(reparameterised):
  scale = tf.Variable(0.6, dtype=tf.float64)
  with tf.GradientTape() as tape:
    many = _NoEntropy(tf.fill([200_000], scale), reparameterised)
    entropy, for_gradient = entropy_target.entropy_with_fallback(many, tf.constant([1, 2]))
    loss = tf.reduce_mean(for_gradient)
  exact = 0.5 * math.log(2 * math.pi * math.e * 0.6**2)
  assert float(tf.reduce_mean(entropy)) == pytest.approx(exact, abs=0.01)
  assert float(tape.gradient(loss, scale)) == pytest.approx(1 / 0.6, abs=0.05)
  assert entropy.shape == for_gradient.shape == [200_000]


def test_a_squashed_normal_falls_back_and_its_seed_repeats_the_draw():
  squashed = tfd.TransformedDistribution(tfd.Normal([0.0, 1.0], 0.3), tfp.bijectors.Tanh())
  draw = lambda seed: entropy_target.entropy_with_fallback(squashed, tf.constant([seed, 0]))[0]
  np.testing.assert_array_equal(draw(1), draw(1))
  assert np.all(np.abs(draw(1) - draw(2)) > 1e-6)


def test_the_loss_does_not_differentiate_alpha():
  alpha, entropy = tf.Variable(0.5), tf.Variable([1.0, -2.0])
  with tf.GradientTape() as tape:
    loss = entropy_target.entropy_loss(alpha, entropy)
  np.testing.assert_allclose(loss, [-0.5, 1.0])
  gradients = tape.gradient(loss, [alpha, entropy])
  assert gradients[0] is None
  np.testing.assert_allclose(gradients[1], [-0.5, -0.5])
