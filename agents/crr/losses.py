"""The losses of critic-regularised regression, as pure functions of time-major tensors.

Subscripts follow the field's custom: `tm1` is time t-1, `t` time t. T is the number of pairs
(t-1, t), K the number of atoms of a distribution over returns, S the number of action samples.

References:
  CRR: Wang et al. 2020, https://arxiv.org/abs/2006.15134
  Categorical TD: Bellemare et al. 2017, https://arxiv.org/abs/1707.06887
"""

import enum
import math

import tensorflow as tf


class PolicyImprovementMode(enum.Enum):
  """What the advantage of a stored action makes of its weight in the policy's regression.

  EXP: `min(exp(A / beta), ratio_upper_bound)`.
  BINARY: 1 if the advantage is positive, else 0.
  ALL: 1, which is behaviour cloning; the critic is learned all the same.
  """

  EXP = "exp"
  BINARY = "binary"
  ALL = "all"


class BaselineReduce(enum.Enum):
  """How the values of sampled actions become the baseline of the advantage."""

  MEAN = "mean"
  MAX = "max"
  MIN = "min"


def _check_rank(rank: int, axes: str, **tensors: tf.Tensor) -> None:
  for name, value in tensors.items():
    if value.shape.rank != rank:
      raise ValueError(f"{name} has shape {value.shape}; it must have rank {rank}, {axes}.")


def mean_of_distributions(logits: tf.Tensor) -> tf.Tensor:
  """Averages the probabilities of distributions over the same atoms.

  Args:
    logits: `[S, N, K]`, unnormalised log-probabilities.

  Returns:
    `[N, K]`, log-probabilities up to a constant, log S.
  """
  _check_rank(3, "[S, N, K]", logits=logits)
  return tf.reduce_logsumexp(tf.nn.log_softmax(logits), axis=0)


def expected_value(logits: tf.Tensor, atoms: tf.Tensor) -> tf.Tensor:
  """Means of distributions given by logits `[..., K]` over atoms `[K]`; `[...]`."""
  return tf.linalg.matvec(tf.nn.softmax(logits), atoms)


def project(values: tf.Tensor, probabilities: tf.Tensor, atoms: tf.Tensor) -> tf.Tensor:
  """Projects distributions onto atoms (Bellemare 2017, equation 7).

  A value between two atoms gives its probability to both, the nearer one more, so that the mean is
  kept; a value beyond the ends gives it to the end. For equally spaced and any other ascending
  atoms this minimises the L2 distance of the distribution functions (Cramér distance).

  Args:
    values: `[N, K]`, where the probabilities are.
    probabilities: `[N, K]`.
    atoms: `[M]`, ascending.

  Returns:
    `[N, M]`.
  """
  _check_rank(2, "[N, K]", values=values, probabilities=probabilities)
  num_rows, num_atoms = tf.shape(values)[0], atoms.shape[0]
  clipped = tf.clip_by_value(values, atoms[0], atoms[-1])
  flat = tf.reshape(clipped, [-1])
  lower = tf.clip_by_value(tf.searchsorted(atoms, flat, side="right") - 1, 0, num_atoms - 2)
  gaps = atoms[1:] - atoms[:-1]
  share_of_upper = (flat - tf.gather(atoms, lower)) / tf.gather(gaps, lower)
  first_of_row = tf.repeat(tf.range(num_rows) * num_atoms, tf.shape(values)[1])
  index = first_of_row + lower
  mass = tf.reshape(probabilities, [-1])
  projected = tf.math.unsorted_segment_sum(
    tf.concat([mass * (1 - share_of_upper), mass * share_of_upper], axis=0),
    tf.concat([index, index + 1], axis=0),
    num_rows * num_atoms,
  )
  return tf.reshape(projected, [num_rows, num_atoms])


def categorical_td_loss(
  q_logits_tm1: tf.Tensor,
  r_t: tf.Tensor,
  discount_t: tf.Tensor,
  q_logits_t: tf.Tensor,
  atoms: tf.Tensor,
) -> tf.Tensor:
  """Cross entropy of the critic from its projected one-step target (Bellemare 2017, algorithm 1).

  Args:
    q_logits_tm1: `[T, B, K]`, online critic at the stored actions.
    r_t: `[T, B]`, rewards that follow them.
    discount_t: `[T, B]`, agent's discount times the environment's.
    q_logits_t: `[T, B, K]`, target distribution at the next observations; not differentiated.
    atoms: `[K]`, support of both.

  Returns:
    `[T, B]`.
  """
  _check_rank(3, "[T, B, K]", q_logits_tm1=q_logits_tm1, q_logits_t=q_logits_t)
  _check_rank(2, "[T, B]", r_t=r_t, discount_t=discount_t)
  values = r_t[..., None] + discount_t[..., None] * atoms
  num_atoms = atoms.shape[0]
  target = project(
    tf.reshape(values, [-1, num_atoms]),
    tf.reshape(tf.nn.softmax(q_logits_t), [-1, num_atoms]),
    atoms,
  )
  target = tf.stop_gradient(tf.reshape(target, tf.shape(q_logits_tm1)))
  return tf.nn.softmax_cross_entropy_with_logits(labels=target, logits=q_logits_tm1)


def mass_outside_support(
  r_t: tf.Tensor, discount_t: tf.Tensor, q_logits_t: tf.Tensor, atoms: tf.Tensor
) -> tf.Tensor:
  """Probability of the one-step target beyond the ends of the support, which projection clips.

  More than a little of it means that returns cannot be represented: the critic is biased.

  Args:
    r_t, discount_t, q_logits_t, atoms: as in `categorical_td_loss`.

  Returns:
    `[T, B]`, in [0, 1].
  """
  values = r_t[..., None] + discount_t[..., None] * atoms
  outside = tf.logical_or(values < atoms[0], values > atoms[-1])
  return tf.reduce_sum(tf.nn.softmax(q_logits_t) * tf.cast(outside, tf.float32), axis=-1)


def baseline(values: tf.Tensor, reduce: BaselineReduce) -> tf.Tensor:
  """Reduces the values of sampled actions, `[S, ...]`, to one estimate, `[...]`.

  Wang 2020, equation 3, has the mean; its appendix the maximum.
  """
  reductions = {
    BaselineReduce.MEAN: tf.reduce_mean,
    BaselineReduce.MAX: tf.reduce_max,
    BaselineReduce.MIN: tf.reduce_min,
  }
  return reductions[reduce](values, axis=0)


def policy_weights(
  advantage_tm1: tf.Tensor,
  mode: PolicyImprovementMode,
  beta: float = 1.0,
  ratio_upper_bound: float = 20.0,
) -> tf.Tensor:
  """Weights of the stored actions in the policy's regression (Wang 2020, equations 2 and 4).

  The exponent is bounded, not the exponential, so that no advantage overflows.

  Args:
    advantage_tm1: any shape, value of the stored action less the baseline.
    mode: see `PolicyImprovementMode`.
    beta: temperature of `EXP`, above 0, in units of value.
    ratio_upper_bound: largest weight of `EXP`, above 0.

  Returns:
    The advantage's shape, with the gradient stopped.
  """
  if mode is PolicyImprovementMode.ALL:
    return tf.ones_like(advantage_tm1)
  if mode is PolicyImprovementMode.BINARY:
    return tf.cast(advantage_tm1 > 0, advantage_tm1.dtype)
  # One above the bound's logarithm, so that what is cut is the bound itself, not its rounding.
  exponent = tf.minimum(advantage_tm1 / beta, math.log(ratio_upper_bound) + 1.0)
  return tf.stop_gradient(tf.minimum(tf.exp(exponent), ratio_upper_bound))


def policy_loss(log_prob_tm1: tf.Tensor, weight_tm1: tf.Tensor) -> tf.Tensor:
  """Weighted regression onto the stored actions, `-w log pi(a|o)` (Wang 2020, equation 1).

  Args:
    log_prob_tm1: `[T, B]`, log density of the stored actions under the policy.
    weight_tm1: `[T, B]`, weights; not differentiated.

  Returns:
    `[T, B]`.
  """
  _check_rank(2, "[T, B]", log_prob_tm1=log_prob_tm1, weight_tm1=weight_tm1)
  return -tf.stop_gradient(weight_tm1) * log_prob_tm1
