"""Entropy targets: how far the policy's entropy is from where it should be moves its weight alpha.

The rules are those of ALF's EntropyTargetAlgorithm (Horizon Robotics,
https://github.com/HorizonRobotics/alf), as pure functions of a state. `temper.utils.temperature`
keeps the state in variables.

A state counts its stages: below -2 the first entropies are gathered, at -2 alpha falls slowly until
the entropy has left its start, at -1 it is free, and from 0 on it is adjusted; 1 says that the
entropy was above its target, 0 that it was not.
"""

import enum
import math
from typing import Any, NamedTuple, Optional

from acme import specs
import dm_env
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
import tree

from temper.utils import distributions
from temper.utils import temperature_config

# The share of a continuous action's range that the policy should spread over, or of a discrete
# one's probability that it should give to all but the likeliest value.
_SHARE = 0.1
# How much less random than at its start the policy is to be before the free stage.
_LEFT_START = 0.8
_CROSSING_DECAY = 0.9


class Tie(enum.Enum):
  """What an average entropy counts as that equals the one before.

  FALLING: in ALF's first two generations; alpha then rises without bound when entropy stands still.
  RISING: in the third.
  """

  FALLING = "falling"
  RISING = "rising"


class UpdateRates(NamedTuple):
  """Rates of log alpha per update, in ascending order of the stages that use them."""

  very_slow: float
  slow: float
  fast: float


class EntropyTargetState(NamedTuple):
  """What the staged rules remember; all floats are of one dtype.

  Attributes:
    stage: int32 scalar; see the module.
    log_alpha: scalar.
    update_rate: scalar, rate of the adjusting stage.
    max_entropy: scalar, nats, entropy at which the free stage begins; 0 until it is estimated.
    window: `[W]`, the newest mean entropies, the last one newest; zeros before the first ones.
    num_in_window: int32 scalar, how many of them there are.
  """

  stage: tf.Tensor
  log_alpha: tf.Tensor
  update_rate: tf.Tensor
  max_entropy: tf.Tensor
  window: tf.Tensor
  num_in_window: tf.Tensor


def first_stage_of_three(
  average_window: int, max_entropy: Optional[float] = None, skip_free_stage: bool = False
) -> int:
  """Returns the stage that the three-stage rule begins with.

  Args:
    average_window: W, updates that `max_entropy` is estimated in.
    max_entropy: given, nothing need be estimated.
    skip_free_stage: whether to adjust at once.
  """
  if skip_free_stage:
    return 1
  return -2 if max_entropy is not None else -2 - average_window


# The two-stage rule is the three-stage one that begins free.
FIRST_STAGE_OF_TWO = -1


def window_mean(state: EntropyTargetState) -> tf.Tensor:
  """Returns the mean of the entropies in the window, a scalar; 0 if it is empty."""
  count = tf.cast(tf.maximum(state.num_in_window, 1), state.window.dtype)
  return tf.reduce_sum(state.window) / count


def update(
  state: EntropyTargetState,
  entropy: tf.Tensor,
  target: tf.Tensor,
  rates: UpdateRates,
  log_alpha_bounds: tuple[float, float],
  tie: Tie = Tie.FALLING,
) -> EntropyTargetState:
  """Moves log alpha by one mean entropy, in the stage that the state is in.

  Several stages may be crossed at once, each as if its predecessor had ended earlier.

  Args:
    state: before the update.
    entropy: scalar, mean entropy of the policy, nats, of the state's dtype.
    target: scalar, entropy to hold, nats.
    rates: rates of log alpha.
    log_alpha_bounds: log alpha is kept between the two.
    tie: what an unchanged average counts as.

  Returns:
    The state after it.
  """
  previous = window_mean(state)
  state = state._replace(
    window=tf.concat([state.window[1:], [entropy]], axis=0),
    num_in_window=tf.minimum(state.num_in_window + 1, state.window.shape[0]),
  )
  mean = window_mean(state)
  rising = mean > previous if tie is Tie.FALLING else mean >= previous

  gathering = state.stage < -2
  estimate = tf.minimum(_LEFT_START * mean, mean / _LEFT_START)
  state = state._replace(
    max_entropy=tf.where(gathering, estimate, state.max_entropy),
    stage=state.stage + tf.cast(gathering, tf.int32),
  )
  leaving = tf.equal(state.stage, -2)
  step = rates.very_slow * tf.where(rising, tf.cast(-1.0, mean.dtype), 0.5)
  state = state._replace(
    log_alpha=state.log_alpha + tf.where(leaving, step, tf.zeros_like(step)),
    stage=state.stage + tf.cast(leaving & (mean < state.max_entropy), tf.int32),
  )
  free = tf.equal(state.stage, -1)
  state = state._replace(stage=state.stage + tf.cast(free & (mean < target), tf.int32))
  adjusted = _adjust(state, entropy, mean, target, rates, rising)
  in_adjustment = state.stage >= 0
  state = tree.map_structure(lambda new, old: tf.where(in_adjustment, new, old), adjusted, state)
  return state._replace(log_alpha=tf.clip_by_value(state.log_alpha, *log_alpha_bounds))


def _adjust(
  state: EntropyTargetState,
  entropy: tf.Tensor,
  mean: tf.Tensor,
  target: tf.Tensor,
  rates: UpdateRates,
  rising: tf.Tensor,
) -> EntropyTargetState:
  """Moves log alpha against the entropy's direction, faster on the wrong side of the target."""
  above = mean > target
  crossed = tf.not_equal(above, tf.not_equal(state.stage, 0))
  rate = tf.where(crossed, _CROSSING_DECAY * state.update_rate, state.update_rate)
  rate = tf.maximum(rate, rates.slow)
  far_below = entropy < tf.where(target > 0, 0.5 * target, 2.0 * target)
  rate = tf.where(far_below, tf.cast(rates.fast, rate.dtype), rate)
  share = lambda fully: tf.where(fully, tf.cast(1.0, rate.dtype), 0.5)
  direction = tf.where(rising, -share(above), share(~above))
  return state._replace(
    stage=tf.cast(above, tf.int32), log_alpha=state.log_alpha + direction * rate, update_rate=rate
  )


def default_target(action_spec: Any) -> float:
  """Returns the entropy that ALF aims at by default, nats.

  A continuous action should spread over a tenth of its range: `log(0.1 (M - m))` a dimension. A
  discrete one of N values gives a tenth of its probability evenly to all but the likeliest value:
  `0.1 (log(N - 1) - log 0.1) - 0.9 log 0.9`, and 0 if N is 1.

  Args:
    action_spec: spec, or nest of specs, of the actions that the policy's density is of.

  Raises:
    ValueError: if a continuous action is not bounded; names the spec.
  """
  return float(sum(_default_target_of_one(spec) for spec in tree.flatten(action_spec)))


def _default_target_of_one(spec: specs.Array) -> float:
  discrete = np.issubdtype(spec.dtype, np.integer)
  bounded = isinstance(spec, specs.BoundedArray)
  if bounded:
    low = np.broadcast_to(spec.minimum, spec.shape).astype(np.float64)
    high = np.broadcast_to(spec.maximum, spec.shape).astype(np.float64)
    ordered = high >= low if discrete else high > low
    bounded = bool(np.all(np.isfinite(high - low)) and np.all(ordered))
  if not bounded:
    raise ValueError(
      f"The action {spec} has no finite range, so its entropy has no default target. Set "
      "target_entropy."
    )
  if not discrete:
    return float(np.sum(np.log(_SHARE * (high - low))))
  others = (high - low)[high > low]
  of_likeliest = -(1 - _SHARE) * math.log(1 - _SHARE)
  return float(np.sum(_SHARE * (np.log(others) - math.log(_SHARE)) + of_likeliest))


def target_at(target: Any, step: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
  """Returns the target entropy at a step, a scalar.

  Args:
    target: a number, a `TargetSchedule`, or a function from the step to a scalar.
    step: int64 scalar.
    dtype: of the result.
  """
  if isinstance(target, temperature_config.TargetSchedule):
    steps, targets = tf.constant(target.steps, dtype), tf.constant(target.targets, dtype)
    now = tf.clip_by_value(tf.cast(step, dtype), steps[0], steps[-1])
    if len(target.steps) == 1:
      return targets[0]
    left = tf.minimum(tf.searchsorted(steps, now[None], side="right")[0], len(target.steps) - 1) - 1
    share = (now - steps[left]) / (steps[left + 1] - steps[left])
    return targets[left] + share * (targets[left + 1] - targets[left])
  value = target(step) if callable(target) else target
  return tf.cast(value, dtype) if tf.is_tensor(value) else tf.constant(value, dtype)


def valid_steps(step_type: tf.Tensor, valid_mask: Optional[tf.Tensor] = None) -> tf.Tensor:
  """Returns the steps whose entropies count, bool of `step_type`'s shape.

  At a LAST step no action is taken.

  Args:
    step_type: integers of `dm_env.StepType`, any shape, such as `[T, B]`.
    valid_mask: of the same shape or one that broadcasts to it; zero or False steps do not count.
  """
  valid = tf.not_equal(step_type, tf.cast(dm_env.StepType.LAST, step_type.dtype))
  return valid if valid_mask is None else valid & tf.cast(valid_mask, tf.bool)


def entropy_with_fallback(
  distribution: Any, seed: Optional[tf.Tensor] = None
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns the entropies of a policy, and what to differentiate in their place.

  They are exact where the distribution knows them, else `-log pi(a)` of one draw. A
  reparameterised draw carries the gradient itself. Of another one, `-log pi(a)` has the expected
  gradient zero; `-(log pi(a))^2 / 2` has that of the entropy, `-E[log pi(a) grad log pi(a)]`.

  Args:
    distribution: a distribution of batch shape `[...]`; `entropy` may be missing or raise
      NotImplementedError.
    seed: int32 `[2]`, stateless seed of the draw.

  Returns:
    `[...]`, the entropy, nats, and `[...]`, whose gradient is an unbiased one of the entropy.
  """
  try:
    entropy = distribution.entropy()
    return entropy, entropy
  except (NotImplementedError, AttributeError):
    pass
  action = distributions.sample(distribution, seed=seed)
  kind = getattr(distribution, "reparameterization_type", None)
  if kind == tfp.distributions.FULLY_REPARAMETERIZED:
    entropy = -distribution.log_prob(action)
    return entropy, entropy
  entropy = -distribution.log_prob(tf.stop_gradient(action))
  return entropy, -0.5 * tf.square(entropy)


def entropy_loss(alpha: tf.Tensor, entropy_for_gradient: tf.Tensor) -> tf.Tensor:
  """Returns `-alpha entropy`, of the entropy's shape; alpha is not differentiated."""
  return -tf.stop_gradient(alpha) * entropy_for_gradient
