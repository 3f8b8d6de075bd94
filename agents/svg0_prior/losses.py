"""The losses of SVG0 with a behaviour prior, as pure functions of time-major tensors.

Subscripts follow the field's custom: `tm1` is time t-1, `t` time t; a sequence of T+1 stored steps
has T pairs.

References:
  SVG(0): Heess et al. 2015, https://arxiv.org/abs/1510.09142
  Retrace: Munos et al. 2016, https://arxiv.org/abs/1606.02647
  Behaviour priors: Tirumala et al. 2020, https://arxiv.org/abs/2010.14274
"""

import math
from typing import Union

import tensorflow as tf

from temper.utils import svg0_utils

# The logarithm that stands for a weight of zero. Acme adds 1e-20 to the weights before it takes
# their logarithm.
_LOG_ZERO_WEIGHT = math.log(1e-20)


def _check_rank_two(**tensors: tf.Tensor) -> None:
  for name, value in tensors.items():
    if value.shape.rank != 2:
      raise ValueError(f"{name} has shape {value.shape}; it must have rank 2, [T, B].")


def log_importance_weights(
  target_log_prob_tm1: tf.Tensor, behaviour_log_prob_tm1: tf.Tensor, restart_t: tf.Tensor
) -> tf.Tensor:
  """Log importance weights, bounded below, and at the bound across episode starts.

  `log w = log target(a|o) - log behaviour(a|o)`. The mask selects in log space: no exponential is
  taken, so a ratio of any size, masked or not, stays finite here.

  Args:
    target_log_prob_tm1: `[T, B]`, log density of the stored actions under the target policy.
    behaviour_log_prob_tm1: `[T, B]`, log density under the policy that acted, as stored.
    restart_t: bool `[T, B]`, whether the next step starts an episode.

  Returns:
    `[T, B]`.
  """
  _check_rank_two(
    target_log_prob_tm1=target_log_prob_tm1,
    behaviour_log_prob_tm1=behaviour_log_prob_tm1,
    restart_t=restart_t,
  )
  log_rho_tm1 = target_log_prob_tm1 - behaviour_log_prob_tm1
  floor = tf.constant(_LOG_ZERO_WEIGHT, log_rho_tm1.dtype)
  return tf.where(restart_t, floor, tf.maximum(log_rho_tm1, floor))


def retrace_targets(
  q_tm1: tf.Tensor,
  v_t: tf.Tensor,
  r_t: tf.Tensor,
  discount_t: tf.Tensor,
  log_rho_tm1: tf.Tensor,
  lambda_: Union[float, tf.Tensor] = 1.0,
) -> tf.Tensor:
  """Retrace(lambda) regression targets for the critic (Munos 2016, equation 3).

  `delta_k = r_k + discount_k v_{k+1} - q_k`,
  `q*_t = q_t + sum_{k >= t} (prod_{i=t+1..k} discount_{i-1} c_i) delta_k`, with `c_i = lambda
  min(1, w_i)`. The sum solves `e_t = delta_t + discount_t c_{t+1} e_{t+1}`, a linear recurrence
  that is evaluated by doubling, so that the graph grows with the logarithm of T.

  Args:
    q_tm1: `[T, B]`, target critic at the stored steps 0..T-1.
    v_t: `[T, B]`, target values of the steps 1..T; the last is the bootstrap value.
    r_t: `[T, B]`, rewards that follow the stored actions.
    discount_t: `[T, B]`, agent's discount times the environment's.
    log_rho_tm1: `[T, B]`, log importance weights; see `log_importance_weights`.
    lambda_: mixes one-step (0) and full (1) returns.

  Returns:
    `[T, B]`, with the gradient stopped.

  Raises:
    ValueError: if an argument is not of rank 2, or T is not known when the graph is made.
  """
  _check_rank_two(q_tm1=q_tm1, v_t=v_t, r_t=r_t, discount_t=discount_t, log_rho_tm1=log_rho_tm1)
  if q_tm1.shape[0] is None:
    raise ValueError(
      f"q_tm1 has shape {q_tm1.shape}; the number of steps must be known. Batches are of equal "
      "length."
    )
  # min(1, w) = exp(min(0, log w)): never overflows.
  c_tm1 = lambda_ * tf.exp(tf.minimum(log_rho_tm1, 0.0))
  later = lambda x, steps: tf.concat([x[steps:], tf.zeros_like(x[:steps])], axis=0)
  errors = tf.stop_gradient(r_t + discount_t * v_t - q_tm1)
  slopes = tf.stop_gradient(discount_t * later(c_tm1, 1))
  # Before each turn `e_t = errors_t + slopes_t e_{t + steps}`; nothing follows the last pair.
  steps = 1
  while steps < q_tm1.shape[0]:
    errors += slopes * later(errors, steps)
    slopes *= later(slopes, steps)
    steps *= 2
  return tf.stop_gradient(q_tm1) + errors


def critic_loss(q_tm1: tf.Tensor, target_tm1: tf.Tensor, restart_t: tf.Tensor) -> tf.Tensor:
  """Half squared error of the online critic from its target, zero across episode starts.

  Args:
    q_tm1: `[T, B]`, online critic at the stored actions.
    target_tm1: `[T, B]`, regression targets; not differentiated.
    restart_t: bool `[T, B]`, whether the next step starts an episode.

  Returns:
    `[T, B]`.
  """
  _check_rank_two(q_tm1=q_tm1, target_tm1=target_tm1, restart_t=restart_t)
  error = 0.5 * tf.math.squared_difference(tf.stop_gradient(target_tm1), q_tm1)
  return svg0_utils.mask_out_restarting(error, restart_t)


def policy_loss(
  expected_q_tm1: tf.Tensor,
  entropy_tm1: tf.Tensor,
  restart_t: tf.Tensor,
  entropy_cost: Union[float, tf.Tensor],
  kl_tm1: Union[float, tf.Tensor] = 0.0,
  distillation_cost: Union[float, tf.Tensor] = 0.0,
) -> tf.Tensor:
  """SVG(0) loss of the policy with its entropy and a prior (Tirumala 2020, section 4).

  It is `-(E_pi[Q] + entropy_cost H[pi]) + distillation_cost KL(pi || prior)`.

  Args:
    expected_q_tm1: `[T, B]`, mean value of actions drawn from the policy, differentiable through
      the actions.
    entropy_tm1: `[T, B]`, entropy estimate of the policy, nats.
    restart_t: bool `[T, B]`, whether the next step starts an episode.
    entropy_cost: weight of the entropy, at least 0.
    kl_tm1: `[T, B]`, KL from the policy to the target prior, nats; 0 without a prior.
    distillation_cost: weight of the KL.

  Returns:
    `[T, B]`, zero across episode starts.
  """
  _check_rank_two(expected_q_tm1=expected_q_tm1, entropy_tm1=entropy_tm1, restart_t=restart_t)
  loss = -(expected_q_tm1 + entropy_cost * entropy_tm1) + distillation_cost * kl_tm1
  return svg0_utils.mask_out_restarting(loss, restart_t)


def prior_loss(kl_tm1: tf.Tensor, restart_t: tf.Tensor) -> tf.Tensor:
  """Distils the policy into the prior: `KL(pi || prior)`, zero across episode starts.

  Args:
    kl_tm1: `[T, B]`, KL from the policy to the online prior, nats. Only the prior's variables are
      to receive its gradient; the caller chooses them.
    restart_t: bool `[T, B]`, whether the next step starts an episode.

  Returns:
    `[T, B]`.
  """
  _check_rank_two(kl_tm1=kl_tm1, restart_t=restart_t)
  return svg0_utils.mask_out_restarting(kl_tm1, restart_t)
