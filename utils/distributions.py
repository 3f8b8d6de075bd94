"""Sampling from distributions that may or may not take a seed."""

from collections.abc import Sequence
import inspect
from typing import Any, Optional, Union

import tensorflow as tf
import tensorflow_probability as tfp

from temper.utils import noise

# What decides a draw: a stateless seed, int32 `[2]`, or the noise itself.
Randomness = Union[tf.Tensor, noise.Noise]


def sample(
  distribution: Any, sample_shape: Union[int, Sequence[int]] = (), seed: Optional[Randomness] = None
) -> tf.Tensor:
  """Draws from a distribution, statelessly when it can.

  Args:
    distribution: has `sample(sample_shape)`; TensorFlow Probability's also take `seed`, a user's
      own may not.
    sample_shape: shape of the draws, put before the batch axes; noise has a shape of its own.
    seed: int32 `[2]`, stateless seed, or noise; None draws from TensorFlow's global generator.

  Returns:
    `[*sample_shape, B, A]`.
  """
  if isinstance(seed, noise.Noise):
    return noise.sample_and_log_prob(distribution, seed)[0]
  if seed is None or not _takes_seed(distribution):
    return distribution.sample(sample_shape)
  return distribution.sample(sample_shape, seed=seed)


def sample_and_log_prob(distribution: Any, seed: Randomness) -> tuple[tf.Tensor, tf.Tensor]:
  """Draws one action for each row, with its log density.

  A squashed distribution knows the density of its own draws better than that of a given action,
  which may have been rounded to the end of its range.

  Args:
    distribution: as for `sample`.
    seed: int32 `[2]`, stateless seed, or noise.

  Returns:
    Actions `[B, *A]` and log densities `[B]`.
  """
  if isinstance(seed, noise.Noise):
    return noise.sample_and_log_prob(distribution, seed)
  if isinstance(distribution, tfp.distributions.Distribution):
    return distribution.experimental_sample_and_log_prob(seed=seed)
  action = sample(distribution, (), seed)
  return action, distribution.log_prob(action)


def mean(distribution: Any) -> tf.Tensor:
  """Returns the mean of a distribution, `[B, *A]`.

  That of a mixture is written out: TensorFlow Probability's own works on shapes as it runs, by
  operations that no other format has.

  Args:
    distribution: has `mean()`.
  """
  if not noise.is_mixture(distribution):
    return distribution.mean()
  weights = tf.nn.softmax(distribution.mixture_distribution.logits_parameter())  # [B, K]
  means = distribution.components_distribution.mean()  # [B, K, *A]
  event_rank = distribution.event_shape.rank
  weights = weights[(..., *[tf.newaxis] * event_rank)]
  return tf.reduce_sum(weights * means, axis=-1 - event_rank)


def _takes_seed(distribution: Any) -> bool:
  parameters = inspect.signature(distribution.sample).parameters.values()
  return any(p.name == "seed" or p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
