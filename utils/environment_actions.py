"""The one place where an agent's actions in [-1, 1] and an environment's own actions meet."""

from typing import Any, Optional, Union

from dm_env import specs
import numpy as np
import tensorflow as tf

Action = Union[np.ndarray, tf.Tensor]

# Spaces written with the largest float or integer as a bound mean "unbounded": mapping [-1, 1] onto
# them is of no use to an agent.
_PRACTICALLY_INFINITE = 1e18


class ActionMapping:
  """Maps canonical actions, float32 in [-1, 1], to an environment's own bounded actions and back.

  Each dimension is mapped by its own affine function, computed in float64. A dimension with an
  infinite bound is refused unless `infinite_action_scale` says which interval of it the agent
  shall use. Integer actions are rounded to the nearest value. A dimension whose bounds are equal
  is constant: every canonical action maps to its only value, which maps back to 0.

  Attributes:
    environment_spec: the environment's own action spec.
    canonical_spec: `BoundedArray` of the same shape, float32, with bounds -1 and 1.
    infinite_action_scale: the scale that was given, or None.
  """

  def __init__(self, spec: specs.Array, *, infinite_action_scale: Optional[float] = None):
    """Creates the mapping.

    Args:
      spec: the environment's action spec: one array of any shape, of a float or integer dtype.
      infinite_action_scale: in the environment's units. An unbounded dimension is used in [-scale,
        scale], one that is bounded on one side in [minimum, minimum + 2 scale] or [maximum - 2
        scale, maximum]. None refuses them.

    Raises:
      ValueError: if the actions are nested, discrete, empty or not numbers, if a bound is NaN, if
        a bound is infinite and no `infinite_action_scale` is given, or if that is not a positive
        finite number.
    """
    _check_spec(spec)
    if infinite_action_scale is not None and not 0 < infinite_action_scale < _PRACTICALLY_INFINITE:
      raise ValueError(
        f"infinite_action_scale is {infinite_action_scale!r}; it must be a positive finite number "
        "in the units of the environment's actions, or None to refuse infinite bounds."
      )
    dtype = np.dtype(spec.dtype)
    low, high = _finite_bounds(spec, infinite_action_scale)
    self.environment_spec = spec
    self.infinite_action_scale = infinite_action_scale
    self.canonical_spec = specs.BoundedArray(
      spec.shape, np.float32, -1.0, 1.0, name=spec.name or "action"
    )
    self._dtype = dtype
    self._round = np.issubdtype(dtype, np.integer)
    # Halves first: the difference of two large float64 bounds could overflow.
    self._centre = low / 2 + high / 2
    self._half = high / 2 - low / 2
    # The bounds in the environment's own dtype clip last, so that no rounding can leave the spec.
    self._low, self._high = _inner_bounds(low, high, dtype)

  def to_environment(self, canonical: Action, *, in_float32: bool = False) -> Action:
    """Maps canonical actions to the environment's.

    Args:
      canonical: [..., *shape] of a float dtype; values outside [-1, 1] are clipped. A NumPy array
        or a tensor.
      in_float32: of a tensor, computes in float32 and returns float32 in the place of float64, for
        where there is no float64.

    Returns:
      [..., *shape] in the dtype of the environment's spec, within its bounds exactly. Of the kind
      that was given.

    Raises:
      ValueError: if a NumPy action holds NaN. (A tensor's NaN cannot be seen inside a graph, and
        stays NaN.)
    """
    if tf.is_tensor(canonical) and in_float32:
      return self._to_environment_in_float32(canonical)
    if tf.is_tensor(canonical):
      action = (
        tf.clip_by_value(tf.cast(canonical, tf.float64), -1.0, 1.0) * self._half + self._centre
      )
      action = tf.cast(tf.round(action) if self._round else action, self._dtype)
      return tf.minimum(tf.maximum(action, self._low), self._high)
    canonical = np.asarray(canonical, np.float64)
    if np.isnan(canonical).any():
      raise ValueError(
        f"the action holds NaN: {canonical}. The policy's weights or its input are no longer "
        "finite; look at the observation that led here and at the last logged losses."
      )
    # `np.clip` takes as long as a whole step of a small environment; these two do not.
    action = np.maximum(np.minimum(canonical, 1.0), -1.0) * self._half + self._centre
    action = (np.rint(action) if self._round else action).astype(self._dtype)
    return np.asarray(np.maximum(np.minimum(action, self._high), self._low))

  def _to_environment_in_float32(self, canonical: tf.Tensor) -> tf.Tensor:
    """Maps as `to_environment` does; the last clipping too is done before the cast."""
    half, centre = (np.asarray(x, np.float32) for x in (self._half, self._centre))
    action = tf.clip_by_value(tf.cast(canonical, tf.float32), -1.0, 1.0) * half + centre
    action = tf.round(action) if self._round else action
    low, high = _inner_bounds(
      self._low.astype(np.float64), self._high.astype(np.float64), np.dtype(np.float32)
    )
    action = tf.minimum(tf.maximum(action, low), high)
    return action if self._dtype == np.float64 else tf.cast(action, self._dtype)

  def to_canonical(self, action: Action) -> Action:
    """Maps the environment's actions to canonical ones, the inverse of `to_environment`.

    Args:
      action: [..., *shape] in the environment's units. A NumPy array or a tensor.

    Returns:
      [..., *shape] float32 within [-1, 1] exactly; actions outside the bounds are clipped. Of the
      kind that was given.
    """
    if tf.is_tensor(action):
      canonical = tf.math.divide_no_nan(tf.cast(action, tf.float64) - self._centre, self._half)
      return tf.cast(tf.clip_by_value(canonical, -1.0, 1.0), tf.float32)
    offset = np.asarray(action, np.float64) - self._centre
    canonical = np.divide(offset, self._half, out=np.zeros_like(offset), where=self._half > 0)
    return np.asarray(np.clip(canonical, -1.0, 1.0), np.float32)


def _check_spec(spec: Any) -> None:
  """Raises ValueError if `spec` is not one array of continuous numbers."""
  if not isinstance(spec, specs.Array):
    raise ValueError(
      f"the environment's actions are nested or not described by a dm_env spec: {spec!r}. These "
      "agents act with one array: wrap the environment in one that concatenates its actions."
    )
  if isinstance(spec, specs.DiscreteArray):
    raise ValueError(
      f"the environment's actions are discrete, {spec.num_values} choices "
      f"({spec.name or 'unnamed'}). These agents are for continuous control: choose an environment "
      "with real-valued actions."
    )
  dtype = np.dtype(spec.dtype)
  if not (np.issubdtype(dtype, np.floating) or np.issubdtype(dtype, np.integer)):
    raise ValueError(
      f"the environment's actions have dtype {dtype}; allowed are float and integer dtypes."
    )
  if 0 in spec.shape:
    raise ValueError(
      f"the environment's action shape {spec.shape} has no elements, so there is nothing to "
      "control."
    )


def _finite_bounds(spec: specs.Array, scale: Optional[float]) -> tuple:
  """Returns float64 (low, high) of the spec's shape, infinite ends replaced by means of `scale`."""
  low = np.broadcast_to(getattr(spec, "minimum", -np.inf), spec.shape).astype(np.float64)
  high = np.broadcast_to(getattr(spec, "maximum", np.inf), spec.shape).astype(np.float64)
  open_low, open_high = low <= -_PRACTICALLY_INFINITE, high >= _PRACTICALLY_INFINITE
  for index in np.ndindex(*spec.shape):
    name = f"action dimension {list(index)} of {spec.name or 'the action'}"
    bounds = f"{name} has bounds [{low[index]}, {high[index]}]"
    if np.isnan(low[index]) or np.isnan(high[index]) or low[index] > high[index]:
      raise ValueError(f"{bounds}; they must be numbers, the first not above the second.")
    if low[index] >= _PRACTICALLY_INFINITE or high[index] <= -_PRACTICALLY_INFINITE:
      raise ValueError(f"{bounds}, which leaves no finite value.")
    if scale is None and (open_low[index] or open_high[index]):
      raise ValueError(
        f"{bounds}; both must be finite, because an agent's actions in [-1, 1] are stretched over "
        "them. Give infinite_action_scale=<number> to use [-scale, scale] of such a dimension, or "
        "give the environment bounds."
      )
  if scale is not None:
    new_low = np.where(open_low, np.where(open_high, -scale, high - 2 * scale), low)
    high = np.where(open_high, np.where(open_low, scale, low + 2 * scale), high)
    low = new_low
  return low, high


def _inner_bounds(low: np.ndarray, high: np.ndarray, dtype: np.dtype) -> tuple:
  """Returns (low, high) in `dtype`, rounded inwards: never outside the float64 bounds."""
  inner_low, inner_high = low.astype(dtype), high.astype(dtype)
  if np.issubdtype(dtype, np.integer):
    inner_low, inner_high = np.ceil(low).astype(dtype), np.floor(high).astype(dtype)
  else:
    inner_low = np.where(inner_low < low, np.nextafter(inner_low, dtype.type(np.inf)), inner_low)
    inner_high = np.where(
      inner_high > high, np.nextafter(inner_high, dtype.type(-np.inf)), inner_high
    )
  return np.asarray(inner_low, dtype), np.asarray(inner_high, dtype)
