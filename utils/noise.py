"""Draws from distributions as functions of noise that is given, for formats without random ops.

The noise stands in the place of a seed: `temper.utils.distributions` takes either.
"""

from typing import Any, NamedTuple, Optional

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from temper.utils import squashed_gaussian

tfd = tfp.distributions


class Noise(NamedTuple):
  """All that is random about one draw of a policy.

  Attributes:
    normal: standard normal numbers, `[*S, B, *A]` for draws of that shape.
    component: uniform numbers in [0, 1), `[*S, B]`: which component of a mixture; None for others.
    choice: uniform numbers in [0, 1), `[B]`: which of several draws a Boltzmann policy chooses;
      None for others.
  """

  normal: tf.Tensor
  component: Optional[tf.Tensor] = None
  choice: Optional[tf.Tensor] = None


def is_mixture(distribution: Any) -> bool:
  """Whether a draw needs `Noise.component`."""
  return isinstance(distribution, tfd.MixtureSameFamily)


def sample_and_log_prob(distribution: Any, noise: Noise) -> tuple[tf.Tensor, tf.Tensor]:
  """Maps noise to draws of a distribution.

  Args:
    distribution: a `SquashedGaussian`, independent normals, a multivariate normal with a diagonal
      scale, or a mixture of independent normals.
    noise: its shapes say how many draws.

  Returns:
    Draws `[*S, B, *A]` and their log densities `[*S, B]`.

  Raises:
    TypeError: for another distribution.
    ValueError: if the noise of a mixture lacks `component`.
  """
  if isinstance(distribution, squashed_gaussian.SquashedGaussian):
    return distribution.sample_and_log_prob(noise.normal)
  if is_mixture(distribution):
    if noise.component is None:
      raise ValueError("A mixture's draws need noise.component, uniform numbers; it is None.")
    loc, scale = _of_component(distribution, noise.component)
    action = loc + scale * noise.normal
    return action, distribution.log_prob(action)
  loc, scale = _loc_and_scale(distribution)
  action = loc + scale * noise.normal
  density = -0.5 * tf.square(noise.normal) - tf.math.log(scale) - 0.5 * np.log(2.0 * np.pi)
  axes = list(range(-distribution.event_shape.rank, 0))
  return action, tf.reduce_sum(density, axis=axes)


def choose(probabilities: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
  """Chooses among K by inverting the cumulative distribution; never what has no probability.

  Args:
    probabilities: `[..., K]`, of any positive sum.
    uniform: `[...]`, uniform in [0, 1).

  Returns:
    int32 `[...]`, from 0 to K - 1.
  """
  cumulative = tf.cumsum(probabilities, axis=-1)
  # A number so near to one that it was rounded to it would pass the last one.
  below_one = float(np.nextafter(np.float32(1.0), np.float32(0.0)))
  threshold = tf.minimum(uniform, below_one)[..., None] * cumulative[..., -1:]
  return tf.reduce_sum(tf.cast(cumulative <= threshold, tf.int32), axis=-1)


def _loc_and_scale(distribution: Any) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns means and deviations of independent normal numbers, `[B, *A]`."""
  if isinstance(distribution, tfd.MultivariateNormalDiag):
    return distribution.loc, distribution.scale.diag_part()
  inner = distribution
  while isinstance(inner, tfd.Independent):
    inner = inner.distribution
  if isinstance(inner, tfd.Normal):
    return inner.loc, inner.scale
  raise TypeError(
    f"The policy's distribution is a {type(distribution).__name__}, whose draws are not known as a "
    "function of noise. Known are SquashedGaussian, Independent(Normal), MultivariateNormalDiag, "
    "and MixtureSameFamily of those two: end the policy in one of them."
  )


def _of_component(distribution: Any, uniform: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns means and deviations `[*S, B, *A]` of the components that are chosen."""
  loc, scale = _loc_and_scale(distribution.components_distribution)  # [B, K, *A]
  probabilities = tf.nn.softmax(distribution.mixture_distribution.logits_parameter())
  index = choose(probabilities, uniform)
  # A sum over the components, since no gather exists for every format.
  event_rank = distribution.event_shape.rank
  chosen = tf.one_hot(index, probabilities.shape[-1], dtype=loc.dtype)
  chosen = chosen[(..., *[tf.newaxis] * event_rank)]
  axis = -1 - event_rank
  return tf.reduce_sum(chosen * loc, axis=axis), tf.reduce_sum(chosen * scale, axis=axis)
