"""Sampling from distributions that may or may not take a seed."""

from collections.abc import Sequence
import inspect
from typing import Any, Optional, Union

import tensorflow as tf


def sample(
  distribution: Any, sample_shape: Union[int, Sequence[int]] = (), seed: Optional[tf.Tensor] = None
) -> tf.Tensor:
  """Draws from a distribution, statelessly when it can.

  Args:
    distribution: has `sample(sample_shape)`; TensorFlow Probability's also take `seed`, a user's
      own may not.
    sample_shape: shape of the draws, put before the batch axes.
    seed: int32 `[2]`, stateless seed; None draws from TensorFlow's global generator.

  Returns:
    `[*sample_shape, B, A]`.
  """
  if seed is None or not _takes_seed(distribution):
    return distribution.sample(sample_shape)
  return distribution.sample(sample_shape, seed=seed)


def _takes_seed(distribution: Any) -> bool:
  parameters = inspect.signature(distribution.sample).parameters.values()
  return any(p.name == "seed" or p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
