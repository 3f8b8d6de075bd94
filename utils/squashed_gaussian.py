"""A normal distribution pressed into (-1, 1) by tanh, with a density that holds at the ends."""

from collections.abc import Sequence
import math
from typing import Any, Optional

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

tfd = tfp.distributions

_LOG_2 = math.log(2.0)
_HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)


class SquashedGaussian(tfp.distributions.Distribution):
  """Distribution of `a = tanh(u)`, with `u` independently normal (Haarnoja 2018, appendix C).

  https://arxiv.org/abs/1812.05905. By the change of variables

    `log p(a) = sum_i [log N(u_i; loc_i, scale_i) - log(1 - tanh(u_i)² + offset)]`.

  `1 - tanh(u)²` is `exp(2 (log 2 - u - softplus(-2 u)))`, which neither cancels nor becomes zero
  where tanh(u) rounds to one: density and gradient stay finite. A positive `offset`, which authors
  add against that zero, is part of the density that they learnt with; 0 is the true one.

  `mean()` is `tanh(loc)`: the deterministic action that SAC evaluates, not the expectation, which
  has no closed form.
  """

  def __init__(
    self,
    loc: tf.Tensor,
    log_scale: tf.Tensor,
    *,
    event_rank: int = 1,
    offset: float = 0.0,
    name: str = "SquashedGaussian",
  ):
    """Initialises the distribution.

    Args:
      loc: `[B, *A]`, means of u, float32 or float64.
      log_scale: `[B, *A]`, logarithms of the standard deviations of u.
      event_rank: number of axes of an action.
      offset: added to `1 - a²` inside of the logarithm.
      name: name of the distribution.
    """
    parameters = dict(locals())
    self._loc = loc
    self._log_scale = log_scale
    self._event_rank = event_rank
    self._offset = offset
    super().__init__(
      dtype=loc.dtype,
      reparameterization_type=tfd.FULLY_REPARAMETERIZED,
      validate_args=False,
      allow_nan_stats=False,
      parameters=parameters,
      name=name,
    )

  @property
  def offset(self) -> float:
    """What is added to `1 - a²` in the density."""
    return self._offset

  def sample_and_log_prob(self, noise: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Maps standard normal noise to actions, differentiably.

    Args:
      noise: `[..., B, *A]`.

    Returns:
      Actions `[..., B, *A]` and their log densities `[..., B]`.
    """
    u = self._loc + tf.exp(self._log_scale) * noise
    return tf.tanh(u), self._log_density(noise, u)

  def _log_density(self, noise: tf.Tensor, u: tf.Tensor) -> tf.Tensor:
    normal = -0.5 * tf.square(noise) - self._log_scale - _HALF_LOG_2_PI
    log_slope = 2.0 * (_LOG_2 - u - tf.nn.softplus(-2.0 * u))
    if self._offset:
      log_offset = math.log(self._offset)
      log_slope = log_offset + tf.nn.softplus(log_slope - log_offset)
    axes = list(range(-self._event_rank, 0))
    return tf.reduce_sum(normal - log_slope, axis=axes)

  def _sample_n(self, n: Any, seed: Any = None) -> tf.Tensor:
    return self._sample_and_log_prob([n], seed)[0]

  def _sample_and_log_prob(self, sample_shape: Any, seed: Any) -> tuple[tf.Tensor, tf.Tensor]:
    shape = tf.concat([sample_shape, tf.shape(self._loc)], axis=0)
    if tf.is_tensor(seed):
      noise = tf.random.stateless_normal(shape, seed, dtype=self.dtype)
    else:
      noise = tf.random.normal(shape, dtype=self.dtype, seed=seed)
    known = [None] * (noise.shape.rank - self._loc.shape.rank) + self._loc.shape.as_list()
    return self.sample_and_log_prob(tf.ensure_shape(noise, known))

  def _log_prob(self, value: tf.Tensor) -> tf.Tensor:
    # The number nearest to one that tanh still returns for a finite u.
    end = float(np.nextafter(self.dtype.as_numpy_dtype(1.0), self.dtype.as_numpy_dtype(0.0)))
    u = tf.atanh(tf.clip_by_value(value, -end, end))
    return self._log_density((u - self._loc) * tf.exp(-self._log_scale), u)

  def _mean(self) -> tf.Tensor:
    return tf.tanh(self._loc)

  def _event_shape(self) -> tf.TensorShape:
    return self._loc.shape[self._loc.shape.rank - self._event_rank :]

  def _event_shape_tensor(self) -> tf.Tensor:
    return tf.shape(self._loc)[self._loc.shape.rank - self._event_rank :]

  def _batch_shape(self) -> tf.TensorShape:
    return self._loc.shape[: self._loc.shape.rank - self._event_rank]

  def _batch_shape_tensor(self, **unused_parameters: Any) -> tf.Tensor:
    return tf.shape(self._loc)[: self._loc.shape.rank - self._event_rank]

  @classmethod
  def _parameter_properties(cls, dtype: Any, num_classes: Optional[int] = None) -> dict[str, Any]:
    del num_classes, dtype
    return {}

  def __getitem__(self, slices: Sequence[Any]) -> Any:
    """Is not supported: the parameters are not sliced by TensorFlow Probability's rules."""
    raise NotImplementedError("A SquashedGaussian cannot be sliced.")
