"""Temperatures: what weighs the policy's entropy, and moves with it."""

import abc
import math
from typing import Any, NamedTuple, Optional, Union

import numpy as np
import sonnet as snt
import tensorflow as tf
import tree

from temper.utils import entropy_target
from temper.utils import optimizers
from temper.utils import temperature_config as config_lib
from temper.utils import variables as variable_utils


class TemperatureUpdate(NamedTuple):
  """What an update gives.

  Attributes:
    alpha: scalar, after the update.
    loss: scalar, to log.
    metrics: scalars by name, to log: `alpha`, `entropy` (mean over the valid ones, nats, 0 if there
      is none), `temperature_loss` and `alpha_at_bound`, 1 if alpha is at one of its bounds, else 0;
      of a staged temperature also `stage`, `temperature_rate`, `max_entropy` and `target_entropy`.
  """

  alpha: tf.Tensor
  loss: tf.Tensor
  metrics: dict[str, tf.Tensor]


class _Entropies(NamedTuple):
  """The entropies of an update, over all replicas; scalars."""

  mean: tf.Tensor  # Over the valid ones; 0 if there is none.
  mean_of_all: tf.Tensor
  any_valid: Optional[tf.Tensor]  # None: known to be so.


class Temperature(snt.Module, abc.ABC):
  """Weight alpha of a policy's entropy.

  All variables exist once it is made; with `variables` a checkpoint holds all that it needs. Under
  a strategy it is made in the strategy's scope.
  """

  def __init__(self, *, dtype: tf.DType = tf.float32, name: str = "temperature"):
    """Initialises it.

    Args:
      dtype: of alpha and all that is computed, float32 or float64.
      name: module name.

    Raises:
      ValueError: if the dtype is another one.
    """
    super().__init__(name=name)
    if dtype not in (tf.float32, tf.float64):
      raise ValueError(f"dtype is {dtype!r}; it must be tf.float32 or tf.float64.")
    self._dtype = dtype

  @property
  @abc.abstractmethod
  def alpha(self) -> tf.Tensor:
    """Scalar, now."""

  def update(
    self,
    entropy: tf.Tensor,
    valid: Optional[tf.Tensor] = None,
    learning_rate_scale: Union[float, tf.Tensor] = 1.0,
  ) -> TemperatureUpdate:
    """Moves alpha by the policy's entropies; in a replica, by those of all replicas.

    If none is valid, nothing changes but the time of a target's schedule.

    Args:
      entropy: any shape, entropies of the policy or estimates of them, `-log pi(a)`, nats.
      valid: bool of the same shape; None counts all.
      learning_rate_scale: scalar factor of the step size; staged rules have none and ignore it.

    Raises:
      ValueError: if the two shapes differ.
    """
    entropies = self._reduce(tf.cast(entropy, self._dtype), valid)
    # Counters and clocks must wait for the entropies, thus for a batch, too.
    with tf.control_dependencies([entropies.mean]):
      return self._update(entropies, learning_rate_scale)

  @abc.abstractmethod
  def _update(
    self, entropies: _Entropies, learning_rate_scale: Union[float, tf.Tensor]
  ) -> TemperatureUpdate:
    """Does what `update` says."""

  def _reduce(self, entropy: tf.Tensor, valid: Optional[tf.Tensor]) -> _Entropies:
    context = tf.distribute.get_replica_context()
    replicas = context.num_replicas_in_sync if context is not None else 1
    if valid is None:
      mean = tf.reduce_mean(entropy)
      if replicas > 1:  # Their shares of a batch are of one size.
        mean = context.all_reduce("mean", mean)
      return _Entropies(mean, mean, None)
    if not valid.shape.is_compatible_with(entropy.shape):
      raise ValueError(
        f"valid has shape {valid.shape}, the entropies {entropy.shape}; they differ."
      )
    count = tf.cast(valid, self._dtype)
    # Selected, not multiplied: what is not valid may be infinite.
    total = tf.reduce_sum(tf.where(valid, entropy, tf.zeros_like(entropy)))
    sums = tf.stack([total, tf.reduce_sum(count), tf.reduce_mean(entropy)])
    if replicas > 1:
      sums = context.all_reduce("sum", sums)
    mean = tf.math.divide_no_nan(sums[0], sums[1])
    return _Entropies(mean, sums[2] / replicas, sums[1] > 0)


class _Fixed(Temperature):
  """An alpha that nothing moves; a variable, so that checkpoints and exports see it."""

  def __init__(self, config: config_lib.TemperatureConfig, **kwargs: Any):
    super().__init__(**kwargs)
    self._alpha = tf.Variable(
      config.alpha_at_start, trainable=False, dtype=self._dtype, name="alpha"
    )

  @property
  def alpha(self) -> tf.Tensor:
    return self._alpha.read_value()

  def _update(
    self, entropies: _Entropies, learning_rate_scale: Union[float, tf.Tensor]
  ) -> TemperatureUpdate:
    alpha, loss = self.alpha, tf.zeros([], self._dtype)
    metrics = {
      "alpha": alpha,
      "entropy": entropies.mean,
      "temperature_loss": loss,
      "alpha_at_bound": tf.zeros([], self._dtype),
    }
    return TemperatureUpdate(alpha, loss, metrics)


class _Bounded(Temperature):
  """Keeps log alpha between two bounds."""

  def __init__(self, config: config_lib.TemperatureConfig, **kwargs: Any):
    super().__init__(**kwargs)
    self._bounds = config.log_alpha_bounds
    self._log_alpha = tf.Variable(
      math.log(config.alpha_at_start), trainable=False, dtype=self._dtype, name="log_alpha"
    )

  @property
  def alpha(self) -> tf.Tensor:
    return tf.exp(self._log_alpha.read_value())

  def _result(
    self, log_alpha: tf.Tensor, entropy: tf.Tensor, loss: tf.Tensor, **metrics: tf.Tensor
  ) -> TemperatureUpdate:
    low, high = self._bounds
    alpha = tf.exp(log_alpha)
    common = {
      "alpha": alpha,
      "entropy": entropy,
      "temperature_loss": loss,
      "alpha_at_bound": tf.cast((log_alpha <= low) | (log_alpha >= high), self._dtype),
    }
    return TemperatureUpdate(alpha, loss, {**common, **metrics})


class _Gradient(_Bounded):
  """Adam on log alpha (Haarnoja 2018, https://arxiv.org/abs/1812.05905, equation 18).

  The loss is `alpha (H - target)` or `log alpha (H - target)`, H the mean entropy; its gradient
  with regard to log alpha is `alpha (H - target)` or `H - target`. Entropy under the target
  therefore raises alpha.
  """

  def __init__(self, config: config_lib.TemperatureConfig, target: float, **kwargs: Any):
    super().__init__(config, **kwargs)
    self._target = target
    self._on_alpha = config.loss is config_lib.TemperatureLoss.ALPHA
    self._base_rate = config.learning_rate
    # Written at every update, so that a restored one does not outlive a change of the config.
    self._learning_rate = tf.Variable(
      config.learning_rate, trainable=False, dtype=self._dtype, name="learning_rate"
    )
    self._optimizer = optimizers.Adam(self._learning_rate)
    optimizers.initialise_slots(self._optimizer, [self._log_alpha])

  def _update(
    self, entropies: _Entropies, learning_rate_scale: Union[float, tf.Tensor]
  ) -> TemperatureUpdate:
    log_alpha = self._log_alpha.read_value()
    excess = entropies.mean - self._target
    loss = (tf.exp(log_alpha) if self._on_alpha else log_alpha) * excess
    gradient = loss if self._on_alpha else excess

    def apply() -> tf.Tensor:
      scale = tf.cast(learning_rate_scale, self._dtype)
      variable_utils.assign(self._learning_rate, self._base_rate * scale)
      self._optimizer.apply([gradient], [self._log_alpha])
      moved = tf.clip_by_value(self._log_alpha.read_value(), *self._bounds)
      variable_utils.assign(self._log_alpha, moved)
      return moved

    if entropies.any_valid is None:
      moved = apply()
    else:
      moved = tf.cond(entropies.any_valid, apply, lambda: log_alpha)
      loss = tf.where(entropies.any_valid, loss, tf.zeros_like(loss))
    return self._result(moved, entropies.mean, loss)


class _Staged(_Bounded):
  """The staged rules of `temper.utils.entropy_target`."""

  def __init__(self, config: config_lib.TemperatureConfig, target: Any, **kwargs: Any):
    super().__init__(config, **kwargs)
    make = lambda value, name, dtype=self._dtype: tf.Variable(
      value, trainable=False, dtype=dtype, name=name
    )
    two_stage = config.kind is config_lib.TemperatureKind.TWO_STAGE
    first = entropy_target.FIRST_STAGE_OF_TWO
    if not two_stage:
      first = entropy_target.first_stage_of_three(
        config.average_window, config.max_entropy, config.skip_free_stage
      )
    self._target = target
    self._tie = entropy_target.Tie.FALLING
    if config.kind is config_lib.TemperatureKind.SCHEDULED:
      self._tie = entropy_target.Tie.RISING
    self._rates = entropy_target.UpdateRates(
      config.very_slow_update_rate, config.slow_update_rate, config.fast_update_rate
    )
    # All calls, those without a valid entropy too: the clock that a schedule of the target follows.
    self._num_calls = make(0, "num_calls", tf.int64)
    self._state = entropy_target.EntropyTargetState(
      stage=make(first, "stage", tf.int32),
      log_alpha=self._log_alpha,
      update_rate=make(config.fast_update_rate, "update_rate"),
      max_entropy=make(config.max_entropy or 0.0, "max_entropy"),
      window=make(np.zeros(config.average_window), "window"),
      num_in_window=make(0, "num_in_window", tf.int32),
    )

  def _update(
    self, entropies: _Entropies, learning_rate_scale: Union[float, tf.Tensor]
  ) -> TemperatureUpdate:
    del learning_rate_scale
    num_calls = self._num_calls.read_value()
    before = tree.map_structure(lambda variable: variable.read_value(), self._state)
    target = entropy_target.target_at(self._target, num_calls, self._dtype)
    after = entropy_target.update(
      before, entropies.mean, target, self._rates, self._bounds, self._tie
    )
    if entropies.any_valid is not None:
      keep = lambda new, old: tf.where(entropies.any_valid, new, old)
      after = tree.map_structure(keep, after, before)
    variable_utils.assign(self._num_calls, num_calls + 1)
    tree.map_structure(variable_utils.assign, self._state, after)
    return self._result(
      after.log_alpha,
      entropies.mean,
      -tf.exp(after.log_alpha) * entropies.mean_of_all,
      stage=tf.cast(after.stage, self._dtype),
      temperature_rate=after.update_rate,
      max_entropy=after.max_entropy,
      target_entropy=target,
    )


def make_temperature(
  config: Union[config_lib.TemperatureConfig, config_lib.TemperatureKind, str],
  action_spec: Any,
  *,
  dtype: tf.DType = tf.float32,
  name: str = "temperature",
) -> Temperature:
  """Makes the temperature that a config describes.

  Args:
    config: the config, or a kind for its defaults.
    action_spec: spec, or nest of specs, of the actions that the policy's density is of; a target
      that is not given follows from it. None is enough for a fixed alpha or a given target.
    dtype: of alpha, float32 or float64.
    name: module name.

  Raises:
    ValueError: if no target is given and the spec is None or has no default, or the target is above
      `max_entropy`.
  """
  config = config_lib.as_config(config)
  kwargs: dict[str, Any] = dict(dtype=dtype, name=name)
  if config.kind is config_lib.TemperatureKind.FIXED:
    return _Fixed(config, **kwargs)
  target: Any = config.target_entropy if config.target_schedule is None else config.target_schedule
  gradient = config.kind is config_lib.TemperatureKind.GRADIENT
  if target is None:
    if action_spec is None:
      raise ValueError(
        "The temperature has no target entropy, and no spec of actions from which one could "
        "follow. Give the environment's spec, or set target_entropy."
      )
    default = _minus_size if gradient else entropy_target.default_target
    target = default(action_spec)
  if gradient:
    return _Gradient(config, target, **kwargs)
  if config.max_entropy is not None:
    with tf.init_scope():
      first = float(entropy_target.target_at(target, tf.constant(0, tf.int64), tf.float64))
    if first > config.max_entropy:
      raise ValueError(
        f"The target entropy is {first:g}, above max_entropy = {config.max_entropy:g}; the entropy "
        "must pass max_entropy before it comes to the target. Lower the target or raise "
        "max_entropy."
      )
  return _Staged(config, target, **kwargs)


def _minus_size(action_spec: Any) -> float:
  """SAC's default target (Haarnoja 2018, appendix D)."""
  flat = tree.flatten(action_spec)
  for spec in flat:
    if not np.issubdtype(spec.dtype, np.floating):
      raise ValueError(
        f"The action {spec} is not continuous; minus its size, the default target of a gradient "
        "temperature, is no entropy that it can have. Set target_entropy."
      )
  return -float(sum(np.prod(spec.shape) for spec in flat))
