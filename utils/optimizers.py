"""Adam in one kernel per variable, with Sonnet's interface."""

from collections.abc import Sequence
from typing import Optional, Union

import sonnet as snt
import tensorflow as tf

from temper.utils import variables as variable_utils


class Adam(snt.Optimizer):
  """Adam (Kingma & Ba 2014, https://arxiv.org/abs/1412.6980, algorithm 1).

  It computes what `snt.optimizers.Adam` computes, by TensorFlow's fused kernel: one operation per
  variable instead of about twenty. Small networks spend most of a learner step in such operations.
  It runs under every `tf.distribute` strategy, whose replicas must be given equal (already
  averaged) updates.
  """

  def __init__(
    self,
    learning_rate: float = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    name: Optional[str] = None,
  ):
    """Initialises the optimizer.

    Args:
      learning_rate: step size, or a scalar tf.Variable of it.
      beta1: decay rate of the first moment, in [0, 1).
      beta2: decay rate of the second moment, in [0, 1).
      epsilon: added to the root of the bias-corrected second moment.
      name: module name.

    Raises:
      ValueError: if a number is out of its range.
    """
    super().__init__(name=name)
    if not isinstance(learning_rate, tf.Variable) and not learning_rate >= 0:
      raise ValueError(f"learning_rate is {learning_rate}; it must be at least 0.")
    for label, beta in (("beta1", beta1), ("beta2", beta2)):
      if not 0 <= beta < 1:
        raise ValueError(f"{label} is {beta}; it must be in [0, 1).")
    if not epsilon > 0:
      raise ValueError(f"epsilon is {epsilon}; it must be positive.")
    self.learning_rate = learning_rate
    self.beta1 = beta1
    self.beta2 = beta2
    self.epsilon = epsilon
    self.step = tf.Variable(0, trainable=False, name="t", dtype=tf.int64)
    self.m: list[tf.Variable] = []
    self.v: list[tf.Variable] = []

  @snt.once
  def _initialize(self, parameters: Sequence[tf.Variable]) -> None:
    with tf.name_scope("m"):
      self.m.extend(_zeros_like(p) for p in parameters)
    with tf.name_scope("v"):
      self.v.extend(_zeros_like(p) for p in parameters)

  def apply(
    self, updates: Sequence[Optional[tf.Tensor]], parameters: Sequence[tf.Variable]
  ) -> None:
    """Moves each parameter against its update; a parameter whose update is None stays.

    Args:
      updates: gradients, each of its parameter's shape and dtype.
      parameters: the variables, the same ones in the same order at every call.

    Raises:
      ValueError: if the two differ in number, or every update is None.
    """
    if len(updates) != len(parameters):
      raise ValueError(f"{len(updates)} updates for {len(parameters)} parameters.")
    if all(update is None for update in updates):
      raise ValueError(
        "None of the parameters received an update: the loss does not depend on them."
      )
    self._initialize(parameters)
    step = self.step.read_value() + 1
    variable_utils.assign(self.step, step)
    # The kernel adds epsilon to the uncorrected root of the second moment. Scaled by the root of
    # the correction it is the epsilon of the paper's algorithm.
    corrections = {}
    for update, parameter, m, v in zip(updates, parameters, self.m, self.v):
      if update is None:
        continue
      dtype = parameter.dtype
      if dtype not in corrections:
        exponent = tf.cast(step, dtype)
        beta1, beta2 = _number(self.beta1, dtype), _number(self.beta2, dtype)
        corrections[dtype] = (beta1**exponent, beta2**exponent)
      beta1_power, beta2_power = corrections[dtype]
      tf.raw_ops.ResourceApplyAdam(
        var=parameter.handle,
        m=m.handle,
        v=v.handle,
        beta1_power=beta1_power,
        beta2_power=beta2_power,
        lr=_number(self.learning_rate, dtype),
        beta1=_number(self.beta1, dtype),
        beta2=_number(self.beta2, dtype),
        epsilon=_number(self.epsilon, dtype) * tf.sqrt(1 - beta2_power),
        grad=tf.convert_to_tensor(update),
      )


def _number(value: Union[float, tf.Variable], dtype: tf.DType) -> tf.Tensor:
  # tf.cast would round a Python number to float32 first.
  return tf.constant(value, dtype) if isinstance(value, (int, float)) else tf.cast(value, dtype)


def _zeros_like(parameter: tf.Variable) -> tf.Variable:
  return tf.Variable(
    tf.zeros(parameter.shape, parameter.dtype), trainable=False, name=parameter.name.split(":")[0]
  )


def initialise_slots(optimizer: snt.Optimizer, parameters: Sequence[tf.Variable]) -> None:
  """Makes an optimizer's moments now rather than at its first update.

  Then they are created outside of the traced step, under the scope of the caller's strategy, and a
  checkpoint restored before the first update finds them.
  """
  initialise = getattr(optimizer, "_initialize", None)
  if initialise is not None:
    initialise(parameters)
