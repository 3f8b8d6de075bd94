"""SAC's losses: by hand, by finite differences, at terminations, and the signs of gradients."""

import numpy as np
import pytest
import tensorflow as tf

from temper.agents.sac import losses
from temper.utils import squashed_gaussian

_random = np.random.RandomState(0)
_A, _B, _C = (tf.constant(_random.normal(size=4)) for _ in range(3))


def _gradient(loss, *sources):
  with tf.GradientTape() as tape:
    tape.watch(sources)
    value = tf.reduce_sum(loss(*sources))
  return tape.gradient(value, sources)


def _numerical(loss, x, step=1e-6):
  units = step * np.eye(len(x))
  total = lambda y: float(tf.reduce_sum(loss(tf.constant(y))))
  return [(total(x + unit) - total(x - unit)) / (2 * step) for unit in units]


def test_by_hand():
  number = lambda *x: tf.constant(x)
  value = losses.soft_value(number(3.0, 1.0), number(-2.0, 0.5), tf.constant(0.5))
  np.testing.assert_allclose(value, [4.0, 0.75])
  target = losses.bootstrapped_target(number(1.0, -1.0), number(0.9, 0.5), value)
  np.testing.assert_allclose(target, [1 + 0.9 * 4, -1 + 0.5 * 0.75])
  np.testing.assert_allclose(losses.squared_error(number(2.0, 0.0), number(5.0, -1.0)), [9.0, 1.0])
  weighted = losses.squared_error(number(2.0, 0.0), number(5.0, -1.0), number(0.5, 0.25))
  np.testing.assert_allclose(weighted, [4.5, 0.25])
  policy = losses.policy_loss(number(-2.0, 1.0), number(3.0, 4.0), tf.constant(0.5))
  np.testing.assert_allclose(policy, [-4.0, -3.5])
  policy = losses.policy_loss(
    number(-2.0, 1.0), number(3.0, 4.0), tf.constant(0.5), number(1.0, 6.0)
  )
  np.testing.assert_allclose(policy, [-3.0, 2.5])
  np.testing.assert_allclose(losses.td_error(number(2.0, 0.0), number(5.0, -1.0)), [-3.0, 1.0])


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e30])
def test_at_a_termination_the_target_is_the_reward_exactly(value):
  reward = tf.constant([1.25, -3.0, 0.5])
  discount = tf.constant([0.0, 0.0, 0.9])
  target = losses.bootstrapped_target(reward, discount, tf.constant([value, 7.0, 2.0]))
  np.testing.assert_array_equal(target[:2], reward[:2])
  assert float(target[2]) == pytest.approx(0.5 + 0.9 * 2)


def test_gradients_equal_finite_differences():
  weights = tf.constant([0.1, 1.0, 0.5, 2.0], tf.float64)
  alpha = tf.constant(0.3, tf.float64)
  for loss in (
    lambda q: losses.squared_error(q, _B),
    lambda q: losses.squared_error(q, _B, weights),
    lambda q: losses.policy_loss(_B, q, alpha),
    lambda log_prob: losses.policy_loss(log_prob, _B, alpha, _C),
    lambda q: losses.soft_value(q, _B, alpha),
  ):
    np.testing.assert_allclose(_gradient(loss, _A)[0], _numerical(loss, _A.numpy()), rtol=1e-6)


def test_no_gradient_passes_through_targets_weights_alpha_and_baseline():
  alpha = tf.constant(0.3, tf.float64)
  assert _gradient(losses.bootstrapped_target, _A, _B, _C) == (None, None, None)
  assert _gradient(losses.td_error, _A, _B) == (None, None)
  assert _gradient(losses.squared_error, _A, _B, _C)[1:] == (None, None)
  assert _gradient(losses.policy_loss, _A, _B, alpha, _C)[2:] == (None, None)


def test_the_baseline_changes_no_gradient():
  alpha = tf.constant(0.3, tf.float64)
  plain = _gradient(losses.policy_loss, _A, _B, alpha)
  based = _gradient(losses.policy_loss, _A, _B, alpha, _C)
  for one, other in zip(plain[:2], based[:2]):
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_the_expected_gradient_raises_value_and_entropy(alpha):
  # min Q = -(a - 0.5)²; a deviation of e^-2 hardly spreads.
  loc, log_scale = tf.zeros([20_000, 1]), tf.fill([20_000, 1], -2.0)

  def loss(loc, log_scale):
    noise = tf.random.stateless_normal([20_000, 1], [1, 2])
    action, log_prob = squashed_gaussian.SquashedGaussian(loc, log_scale).sample_and_log_prob(noise)
    min_q = -tf.square(action[:, 0] - 0.5)
    return losses.policy_loss(log_prob, min_q, tf.constant(alpha)) / 20_000.0

  of_loc, of_scale = (float(tf.reduce_sum(g)) for g in _gradient(loss, loc, log_scale))
  # d E[Q] / d loc is about 2 · 0.5 at loc = 0, and the descent goes against the gradient.
  assert of_loc == pytest.approx(-1.0, abs=0.1)
  # Without entropy the spread is only a loss; with it, d(-H)/d log σ is about -1.
  assert of_scale == pytest.approx(2 * np.exp(-4) - alpha, abs=0.06)


def test_shapes_that_would_broadcast_are_refused():
  column, row, alpha = tf.zeros([3, 1]), tf.zeros([3]), tf.constant(1.0)
  for wrong in (
    lambda: losses.soft_value(column, row, alpha),
    lambda: losses.bootstrapped_target(row, row, column),
    lambda: losses.bootstrapped_target(row, column, row),
    lambda: losses.squared_error(column, row),
    lambda: losses.policy_loss(row, column, alpha),
  ):
    with pytest.raises(ValueError, match="incompatible|not compatible"):
      wrong()
