"""Target networks that are copies of the online ones, made anew every so many steps."""

from collections.abc import Mapping
import enum
from typing import Optional

import sonnet as snt
import tensorflow as tf

from temper.utils import checks
from temper.utils import variables as variable_utils


class TargetUpdate(enum.Enum):
  """When, in a step that copies the online to the target networks, the copy is made.

  A step copies when the number of steps done before it is a multiple of the period, so that the
  very first one does.

  BEFORE_GRADIENTS: before the losses are computed, which then see equal online and target networks.
    It does not wait for the step's batch: one that never comes may leave the targets copied, as a
    repeated step would.
  AFTER_GRADIENTS: after the optimizers have moved the online networks.
  """

  BEFORE_GRADIENTS = "before_gradients"
  AFTER_GRADIENTS = "after_gradients"


class TargetCopies:
  """Copies online to target networks on all replicas, when it is time to."""

  def __init__(
    self,
    networks: Mapping[str, snt.Module],
    target_networks: Mapping[str, snt.Module],
    period: Optional[int],
    when: TargetUpdate,
    strategy: tf.distribute.Strategy,
  ):
    """Pairs the variables and compiles the copy.

    Args:
      networks: online networks by name.
      target_networks: target networks; each name is one of `networks`.
      period: steps between copies; None: never, since the learner moves the targets itself.
      when: when in a step they are copied.
      strategy: the variables' strategy.

    Raises:
      ValueError: if the period is not positive, or target and online variables do not pair.
    """
    checks.integer("target_update_period", period, minimum=1, optional=True)
    self._period = period
    self._when = checks.member("target_update", when, TargetUpdate)
    self._online = [v for name in target_networks for v in networks[name].variables]
    self._targets = [v for name in target_networks for v in target_networks[name].variables]
    variable_utils.check_pairs(self._online, self._targets)
    self._strategy = strategy
    # Apart from the step: a copy is rare, and its mere presence in the graph costs every step time.
    self._copy = tf.function(self._on_all_replicas, autograph=False).get_concrete_function()

  def before(self, num_steps: int) -> None:
    """Copies if it is due before the gradients of the step after `num_steps`."""
    self._copy_if_due(num_steps, TargetUpdate.BEFORE_GRADIENTS)

  def after(self, num_steps: int) -> None:
    """Copies if it is due after the gradients of the step after `num_steps`."""
    self._copy_if_due(num_steps, TargetUpdate.AFTER_GRADIENTS)

  def _copy_if_due(self, num_steps: int, when: TargetUpdate) -> None:
    if self._targets and self._period and when is self._when and num_steps % self._period == 0:
      self._copy()

  def _on_all_replicas(self) -> None:
    self._strategy.run(variable_utils.copy, args=(self._online, self._targets))
