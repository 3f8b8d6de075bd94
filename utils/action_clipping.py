"""Actions clipped to their bounds inside of a network, with a gradient that stops where they were.

Policies with unbounded support propose actions outside of the bounds. The environment clips those,
so a critic has to see what the environment sees.
"""

from typing import Callable, Optional

from acme import specs
import numpy as np
import tensorflow as tf


class ActionClipper:
  """Clips actions to the bounds of their spec."""

  def __init__(self, action_spec: specs.BoundedArray):
    """Keeps the bounds."""
    self._minimum = _scalar_if_equal(action_spec.minimum)
    self._maximum = _scalar_if_equal(action_spec.maximum)

  def __call__(self, action: tf.Tensor) -> tf.Tensor:
    """Clips actions `[..., *A]`."""
    return _clip(action, self._minimum, self._maximum)


def _scalar_if_equal(bound: np.ndarray) -> np.ndarray:
  """Returns one number for equal bounds, since comparing with a vector takes far longer."""
  bound = np.asarray(bound, np.float32)
  return bound.flat[0] if bound.size and (bound == bound.flat[0]).all() else bound


@tf.custom_gradient
def _clip(
  action: tf.Tensor, minimum: np.ndarray, maximum: np.ndarray
) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[Optional[tf.Tensor], ...]]]:
  """Clips to the bounds; the gradient passes where nothing was clipped."""
  clipped = tf.maximum(tf.minimum(action, maximum), minimum)
  return clipped, lambda upstream: (
    upstream * tf.cast(tf.equal(action, clipped), action.dtype),
    None,
    None,
  )
