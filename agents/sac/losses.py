"""SAC's losses and targets: pure functions of tensors."""

from typing import Optional

import tensorflow as tf


def soft_value(min_q: tf.Tensor, log_prob: tf.Tensor, alpha: tf.Tensor) -> tf.Tensor:
  """Soft value of a state by one action sample, `min Q - alpha log pi` (Haarnoja 2018b, eq. 3).

  https://arxiv.org/abs/1812.05905. Both variants use it: as the bootstrap value, by the target
  critics, or as the target of the value network.

  Args:
    min_q: `[B]`, smaller value of the twin critics at a sampled action.
    log_prob: `[B]`, log density of the action, canonical.
    alpha: scalar temperature.

  Returns:
    `[B]`.
  """
  min_q.shape.assert_is_compatible_with(log_prob.shape)
  return min_q - alpha * log_prob


def bootstrapped_target(r_t: tf.Tensor, discount_t: tf.Tensor, value_t: tf.Tensor) -> tf.Tensor:
  """Target of the critics, `r + discount V(s')` (Haarnoja 2018b, equation 2); no gradient passes.

  Args:
    r_t: `[B]`, rewards, or sums of n discounted ones.
    discount_t: `[B]`, the agent's times the environment's discount; 0 after a termination, where
      the target is the reward exactly.
    value_t: `[B]`, soft value of the next state.

  Returns:
    `[B]`.
  """
  for x in (discount_t, value_t):
    x.shape.assert_is_compatible_with(r_t.shape)
  # At a termination the value, which nobody learnt, may even be infinite.
  bootstrap = tf.where(discount_t > 0, discount_t * value_t, tf.zeros_like(value_t))
  return tf.stop_gradient(r_t + bootstrap)


def squared_error(
  prediction: tf.Tensor, target: tf.Tensor, weights: Optional[tf.Tensor] = None
) -> tf.Tensor:
  """Squared error of a critic (Haarnoja 2018b, equation 5) or of the value network.

  As in the authors' code, without the half of the paper. No gradient passes through the target.

  Args:
    prediction: `[B]`.
    target: `[B]`.
    weights: `[B]`, importance weights of the examples; None is 1.

  Returns:
    `[B]`.
  """
  prediction.shape.assert_is_compatible_with(target.shape)
  error = tf.square(prediction - tf.stop_gradient(target))
  return error if weights is None else tf.stop_gradient(weights) * error


def policy_loss(
  log_prob: tf.Tensor,
  min_q: tf.Tensor,
  alpha: tf.Tensor,
  baseline: Optional[tf.Tensor] = None,
) -> tf.Tensor:
  """Loss of the policy, `alpha log pi - (min Q - V)` (Haarnoja 2018b, equation 9).

  Args:
    log_prob: `[B]`, log density of a reparameterised action.
    min_q: `[B]`, smaller value of the twin critics at that action.
    alpha: scalar temperature; no gradient passes.
    baseline: `[B]`, value of the state, subtracted without a gradient; None is 0. It changes what
      is logged, not the gradient.

  Returns:
    `[B]`.
  """
  log_prob.shape.assert_is_compatible_with(min_q.shape)
  advantage = min_q if baseline is None else min_q - tf.stop_gradient(baseline)
  return tf.stop_gradient(alpha) * log_prob - advantage


def td_error(q: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
  """TD error of the first critic, `Q1 - y`, by which replay is prioritised.

  Args:
    q: `[B]`.
    target: `[B]`.

  Returns:
    `[B]`, without a gradient.
  """
  return tf.stop_gradient(q - target)
