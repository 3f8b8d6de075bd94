"""Learning rates that fall linearly to a tenth."""

from collections.abc import Mapping
from typing import Optional

import sonnet as snt
import tensorflow as tf

from temper.utils import checks
from temper.utils import variables as variable_utils

_LAST_SHARE = 0.1


class LinearDecay:
  """Multiplies the rates of optimizers by `1 - 0.9 min(k / period, 1)` after k updates.

  Attributes:
    active: whether the rates change at all.
  """

  def __init__(self, optimizers: Mapping[str, snt.Optimizer], period: Optional[int]):
    """Puts a variable in the place of each learning rate, in the current strategy's scope.

    Args:
      optimizers: by name; their attribute `learning_rate` must be a number.
      period: updates until the rates stay; None leaves the optimizers as they are.

    Raises:
      ValueError: if an optimizer's rate is not a number, and thus somebody else's to change.
    """
    checks.integer("learning_rate_decay_period", period, minimum=1, optional=True)
    self._period = period
    self.active = period is not None
    self._rates: list[tuple[tf.Variable, float]] = []
    if not self.active:
      return
    for name, optimizer in optimizers.items():
      rate = getattr(optimizer, "learning_rate", None)
      if not isinstance(rate, (int, float)):
        raise ValueError(
          f"The learning rate of the {name}'s optimizer is {rate!r}; to let it decay it must be a "
          "number. Leave learning_rate_decay_period None, or give the optimizer a number."
        )
      variable = tf.Variable(float(rate), trainable=False, name="learning_rate")
      # Sonnet types the attribute by what it was made with.
      optimizer.learning_rate = variable
      self._rates.append((variable, float(rate)))

  def apply(self, num_updates: tf.Tensor) -> tf.Tensor:
    """Sets the rates of the next update, inside of a replica; returns their factor, a scalar.

    Args:
      num_updates: int32 scalar, updates done before.
    """
    if self._period is None:
      return tf.ones([])
    done = tf.cast(num_updates, tf.float32) / float(self._period)
    scale = 1.0 - (1.0 - _LAST_SHARE) * tf.minimum(done, 1.0)
    for variable, rate in self._rates:
      variable_utils.assign(variable, rate * scale)
    return scale
