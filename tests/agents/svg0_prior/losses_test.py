import math

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest
import tensorflow as tf
from trfl import continuous_retrace_ops

from temper.agents.svg0_prior import losses

_NO_RESTART = tf.zeros([3, 1], tf.bool)


def _column(*values):
  return tf.constant([[float(v)] for v in values])


def _gradient(function, x):
  with tf.GradientTape() as tape:
    tape.watch(x)
    total = tf.reduce_sum(function(x))
  return tape.gradient(total, x).numpy()


def _finite_difference(function, x, step=1e-3):
  x = x.numpy().astype(np.float64)
  slopes = np.zeros_like(x)
  for index in np.ndindex(x.shape):
    for sign in (1, -1):
      moved = x.copy()
      moved[index] += sign * step
      slopes[index] += sign * float(tf.reduce_sum(function(tf.constant(moved)))) / (2 * step)
  return slopes


# Importance weights.


def test_log_importance_weights_by_hand():
  target, behaviour = _column(-1, -2, -1), _column(-2, -1.5, 4)
  restart = tf.constant([[False], [False], [True]])
  weights = losses.log_importance_weights(target, behaviour, restart)
  np.testing.assert_allclose(weights, [[1], [-0.5], [math.log(1e-20)]], rtol=1e-6)


@pytest.mark.parametrize("ratio", [1e4, -1e4, np.inf, -np.inf, np.nan])
def test_a_masked_ratio_of_any_size_leaves_no_trace(ratio):
  target = _column(ratio, 0.5)
  weights = losses.log_importance_weights(target, _column(0, 0), tf.constant([[True], [False]]))
  np.testing.assert_allclose(weights, [[math.log(1e-20)], [0.5]], rtol=1e-6)


# Retrace.


def test_retrace_of_three_steps_by_hand():
  # Weights 2 (cut to 1), 0.5 and 0.25; with lambda 0.9 the traces c_1 = 0.45 and c_2 = 0.225.
  q, v, r = _column(1, 2, 3), _column(2, 1, 4), _column(1, 0, 2)
  discount = _column(0.9, 0.8, 0.5)
  targets = losses.retrace_targets(q, v, r, discount, tf.math.log(_column(2, 0.5, 0.25)), 0.9)
  # delta = 1 + 1.8 - 1 = 1.8;  0 + 0.8 - 2 = -1.2;  2 + 2 - 3 = 1.
  # e_2 = 1;  e_1 = -1.2 + 0.8 * 0.225 * 1 = -1.02;  e_0 = 1.8 + 0.9 * 0.45 * -1.02 = 1.3869.
  np.testing.assert_allclose(targets, [[2.3869], [0.98], [4.0]], rtol=1e-6)


@pytest.mark.parametrize("num_pairs", [1, 2, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("lambda_", [1.0, 0.7, 0.0])
def test_retrace_equals_trfl(num_pairs, lambda_):
  random = np.random.RandomState(num_pairs)

  def draw(low, high):
    return random.uniform(low, high, (num_pairs, 6)).astype(np.float32)

  q, values, reward, log_rho = draw(-3, 3), draw(-3, 3), draw(-2, 2), draw(-3, 2)
  discount = 0.99 * (draw(0, 1) > 0.2).astype(np.float32)
  bootstrap = draw(-3, 3)[0]
  expected = continuous_retrace_ops.retrace_from_importance_weights(
    tf.constant(log_rho),
    tf.constant(discount),
    tf.constant(reward),
    tf.constant(q),
    tf.constant(values),
    tf.constant(bootstrap),
    lambda_,
  ).qs
  v_t = np.concatenate([values[1:], bootstrap[None]])
  ours = losses.retrace_targets(*map(tf.constant, (q, v_t, reward, discount, log_rho)), lambda_)
  np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)


def test_at_a_termination_the_target_is_the_reward():
  targets = losses.retrace_targets(
    _column(5, 7, 9), _column(100, 200, 300), _column(1, -2, 3), _column(0, 0, 0), _column(0, 0, 0)
  )
  np.testing.assert_array_equal(targets, [[1], [-2], [3]])


def test_nothing_passes_an_episode_start():
  restart = tf.constant([[False], [True], [False]])
  log_rho = losses.log_importance_weights(_column(0.3, 9, 0.1), _column(0, 0, 0), restart)

  def arguments(r, q):
    return (q, _column(1, 2, 3), r, _column(0.9, 0.0, 0.9), log_rho)

  targets = losses.retrace_targets(*arguments(_column(1, 0, 1), _column(1, 2, 3)))
  # What follows the first pair belongs to another episode or to the masked pair.
  perturbed = losses.retrace_targets(*arguments(_column(1, 50, -8), _column(1, -70, 4)))
  np.testing.assert_allclose(perturbed[0], targets[0], rtol=1e-6)
  np.testing.assert_allclose(targets[0], [1 + 0.9 * 1], rtol=1e-6)


def test_targets_are_stopped():
  x = _column(1, 2, 3)
  with tf.GradientTape() as tape:
    tape.watch(x)
    total = tf.reduce_sum(losses.retrace_targets(x, x, x, x, x))
  assert tape.gradient(total, x) is None


def test_retrace_needs_a_known_length():
  @tf.function(input_signature=[tf.TensorSpec([None, 2])])
  def call(x):
    return losses.retrace_targets(x, x, x, x, x)

  with pytest.raises(ValueError, match="number of steps must be known"):
    call(tf.ones([3, 2]))


# The three losses: by hand, by finite differences, under masks, by the sign of the gradient.


def test_critic_loss_by_hand():
  loss = losses.critic_loss(_column(1, 2, 5), _column(3, 2, 4), _NO_RESTART)
  np.testing.assert_allclose(loss, [[2.0], [0.0], [0.5]])


def test_policy_loss_by_hand():
  loss = losses.policy_loss(
    _column(1, -2, 0), _column(3, 1, 2), _NO_RESTART, 0.5, _column(1, 2, 3), 2.0
  )
  # -(1 + 1.5) + 2;  -(-2 + 0.5) + 4;  -(0 + 1) + 6.
  np.testing.assert_allclose(loss, [[-0.5], [5.5], [5.0]])
  without_prior = losses.policy_loss(_column(1, -2, 0), _column(3, 1, 2), _NO_RESTART, 0.5)
  np.testing.assert_allclose(without_prior, [[-2.5], [1.5], [-1.0]])


def test_prior_loss_by_hand():
  loss = losses.prior_loss(_column(1, 2, 3), tf.constant([[False], [True], [False]]))
  np.testing.assert_allclose(loss, [[1], [0], [3]])


_LOSSES = {
  "critic": lambda x, restart: losses.critic_loss(x, tf.cast(_column(3, 2, 4), x.dtype), restart),
  "policy_q": lambda x, restart: losses.policy_loss(
    x, tf.zeros_like(x), restart, 0.5, tf.zeros_like(x), 2.0
  ),
  "policy_entropy": lambda x, restart: losses.policy_loss(tf.zeros_like(x), x, restart, 0.5),
  "policy_kl": lambda x, restart: losses.policy_loss(
    tf.zeros_like(x), tf.zeros_like(x), restart, 0.5, x, 2.0
  ),
  "prior": losses.prior_loss,
}
# At a step whose x exceeds the critic's target. Higher Q and entropy lower the loss, KL raises it.
_SIGNS = {"critic": 1, "policy_q": -1, "policy_entropy": -1, "policy_kl": 1, "prior": 1}


@pytest.mark.parametrize("name", _LOSSES)
def test_gradient_sign_finite_differences_and_masks(name):
  restart = tf.constant([[False], [True], [False]])

  def function(x):
    return _LOSSES[name](x, restart)

  x = _column(1.5, -0.5, 6)
  gradient = _gradient(function, x)
  np.testing.assert_allclose(gradient, _finite_difference(function, x), rtol=1e-4, atol=1e-6)
  assert np.sign(gradient[2, 0]) == _SIGNS[name]
  assert gradient[1, 0] == 0
  for masked in (1e30, np.inf, np.nan):
    perturbed = tf.tensor_scatter_nd_update(x, [[1, 0]], [masked])
    np.testing.assert_array_equal(function(perturbed), function(x))


@pytest.mark.parametrize(
  "call",
  [
    lambda x: losses.critic_loss(x, x, _NO_RESTART),
    lambda x: losses.policy_loss(x, x, _NO_RESTART, 1.0),
    lambda x: losses.prior_loss(x, _NO_RESTART),
    lambda x: losses.retrace_targets(x, x, x, x, x),
    lambda x: losses.log_importance_weights(x, x, _NO_RESTART),
  ],
)
def test_a_wrong_rank_is_named(call):
  with pytest.raises(ValueError, match=r"has shape \(3, 1, 1\); it must have rank 2"):
    call(tf.zeros([3, 1, 1]))


_T, _B = 5, 3


def _arrays(low, high):
  return st.lists(st.floats(low, high, width=32), min_size=_T * _B, max_size=_T * _B).map(
    lambda values: np.reshape(np.array(values, np.float32), (_T, _B))
  )


@hypothesis.settings(max_examples=60, deadline=None, derandomize=True)
@hypothesis.given(
  log_ratio=_arrays(-1e4, 1e4),
  reward=_arrays(-1e6, 1e6),
  q=_arrays(-1e6, 1e6),
  discount=_arrays(0, 1),
  mask=st.lists(st.booleans(), min_size=_T * _B, max_size=_T * _B),
)
def test_every_loss_and_gradient_is_finite(log_ratio, reward, q, discount, mask):
  restart = tf.constant(np.reshape(mask, (_T, _B)))
  q, kl = tf.constant(q), tf.constant(np.abs(log_ratio))
  with tf.GradientTape(persistent=True) as tape:
    tape.watch([q, kl])
    log_rho = losses.log_importance_weights(tf.constant(log_ratio), tf.zeros([_T, _B]), restart)
    targets = losses.retrace_targets(q, -q, tf.constant(reward), tf.constant(discount), log_rho)
    critic = losses.critic_loss(q, targets, restart)
    policy = losses.policy_loss(q, q, restart, 1.0, kl, 1.0)
    prior = losses.prior_loss(kl, restart)
  for x in (
    log_rho,
    targets,
    critic,
    policy,
    prior,
    *tape.gradient([critic, policy, prior], [q, kl]),
  ):
    assert np.isfinite(x).all()
  for loss in (critic, policy, prior):
    assert not np.any(loss.numpy()[restart.numpy()])
