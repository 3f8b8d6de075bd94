"""The law by which one of N proposed actions is chosen: with probability softmax(Q / beta)."""

import math
import numbers
from typing import Any, Callable, NamedTuple, Optional, Union

from acme import specs
from acme import types
import numpy as np
import tensorflow as tf
import tree

from temper.utils import action_clipping
from temper.utils import distributions
from temper.utils import noise

# The temperature: a number, or a variable that may change between calls.
Beta = Union[float, tf.Variable]

# Flips the sign bit of a seed's first number, which makes another stream of random numbers of it.
_CHOICE_STREAM = np.array([-(2**31), 0], np.int32)
_SOUND = "it must be a number of at least 0, where 0 is the greedy choice"


class DefaultBeta(float):
  """The temperature of a sampler that is given none, told apart from an equal one that is given."""


DEFAULT_BETA = DefaultBeta(1.0)


class Choice(NamedTuple):
  """Which proposals were chosen.

  Attributes:
    index: int32 `[B]`, each row's chosen proposal, from 0 to N - 1.
    log_weight: `[B]`, log of the probability that it had.
  """

  index: tf.Tensor
  log_weight: tf.Tensor


def choose(
  values: tf.Tensor, beta: Beta, seed: Optional[distributions.Randomness] = None
) -> Choice:
  """Chooses one of N proposals for each row, with probability `softmax(values / beta)`.

  The largest value is subtracted before the division, so no temperature overflows. At `beta` = 0
  the best proposal is chosen; equally good ones are equally likely, which is the limit.

  Args:
    values: floats `[N, B]`.
    beta: temperature, see `resolve_beta`. A variable is checked again whenever this runs.
    seed: int32 `[2]`, decides the choice, or noise with `choice`; None draws from TensorFlow's
      global generator.

  Returns:
    The chosen indices and their log probabilities.

  Raises:
    InvalidArgumentError: if a value is NaN or infinite, or a variable `beta` is negative or NaN.
  """
  values = tf.debugging.check_numerics(
    values,
    "The critic's value of a proposed action is not finite. Either the observation is not, or the "
    "critic's variables are not: learning has diverged.",
  )
  below_best = values - tf.reduce_max(values, axis=0)
  # The smallest number stands for 0: no two different values of any use are closer than that.
  smallest = np.finfo(values.dtype.as_numpy_dtype).tiny
  logits = tf.transpose(below_best / tf.maximum(_checked(beta, values.dtype), smallest))
  if isinstance(seed, noise.Noise):
    index = noise.choose(tf.nn.softmax(logits), seed.choice)[:, None]
  else:
    seed = fresh_seed() if seed is None else tf.bitwise.bitwise_xor(seed, _CHOICE_STREAM)
    index = tf.random.stateless_categorical(logits, 1, seed, dtype=tf.int32)
  log_weight = tf.gather(tf.nn.log_softmax(logits), index, batch_dims=1)
  return Choice(index[:, 0], log_weight[:, 0])


def fresh_seed() -> tf.Tensor:
  """Returns a stateless seed, int32 `[2]`, from TensorFlow's global generator."""
  return tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32)


def resolve_beta(beta: Optional[Beta], temperature_beta: Optional[Beta]) -> Beta:
  """Returns the temperature that was given under either name, 1 if neither was.

  Args:
    beta: the temperature; None or `DEFAULT_BETA` if it was not given under this name.
    temperature_beta: likewise.

  Raises:
    TypeError: if it is neither a number nor a scalar `tf.Variable` of floats.
    ValueError: if both are given, or the temperature is negative or NaN.
  """
  named = {"beta": beta, "temperature_beta": temperature_beta}
  given = {n: v for n, v in named.items() if v is not None and not isinstance(v, DefaultBeta)}
  if len(given) == 2:
    raise ValueError(
      f"beta is {beta!r} and temperature_beta is {temperature_beta!r}; they are two names of one "
      "number. Give one of them."
    )
  return _check_beta(*given.popitem()) if given else float(DEFAULT_BETA)


def _check_beta(name: str, beta: Any) -> Beta:
  if isinstance(beta, tf.Variable):
    if beta.shape.rank != 0 or not beta.dtype.is_floating:
      raise TypeError(
        f"{name} is a variable of shape {beta.shape} and dtype {beta.dtype.name}; a scalar of "
        "floats is needed."
      )
    with tf.init_scope():
      value = float(beta.numpy())
  elif isinstance(beta, numbers.Real) and not isinstance(beta, bool):
    value = float(beta)
  else:
    raise TypeError(f"{name} is {beta!r}; it must be a number or a tf.Variable.")
  if math.isnan(value) or value < 0:
    raise ValueError(f"{name} is {value}; {_SOUND}.")
  return beta if isinstance(beta, tf.Variable) else value


def _checked(beta: Beta, dtype: tf.DType) -> tf.Tensor:
  """Returns the temperature of this moment as a tensor."""
  if not isinstance(beta, tf.Variable):
    return tf.constant(beta, dtype)
  value = beta.read_value()
  # NaN compares as false too. The plain operation, since TensorFlow's wrapper adds a conditional.
  tf.raw_ops.Assert(condition=value >= 0, data=["The variable beta is", value, f"; {_SOUND}."])
  return tf.cast(value, dtype)


def as_values(output: Any, shape: Any) -> tf.Tensor:
  """Returns a critic's output, or the mean of its distribution, as values `[N, B]`.

  Args:
    output: tensor or distribution over values, `[N·B]`, `[N·B, 1]`, `[N, B]` or `[N, B, 1]`.
    shape: N and B.

  Raises:
    ValueError: if the values have another shape.
  """
  values = output if tf.is_tensor(output) or not hasattr(output, "mean") else output.mean()
  values = tf.convert_to_tensor(values)
  static: list[Any] = [size if isinstance(size, int) else None for size in shape]
  rows = None if None in static else static[0] * static[1]
  allowed = ([rows], [rows, 1], static, [*static, 1])
  if not any(values.shape.is_compatible_with(tf.TensorShape(wanted)) for wanted in allowed):
    raise ValueError(
      f"critic_network's values have shape {values.shape} for {shape[0]} actions of each of "
      f"{shape[1]} observations; one value per action, [N·B] or [N·B, 1], is needed. End the "
      "critic with snt.Linear(1), or with a distribution over values."
    )
  return tf.reshape(values, shape)


def tile(nest: types.NestedTensor, count: int) -> types.NestedTensor:
  """Repeats `[B, ...]` as a whole, to `[count·B, ...]`."""
  return tree.map_structure(lambda x: tf.tile(x, [count] + [1] * (x.shape.rank - 1)), nest)


def merge(nest: types.NestedTensor) -> types.NestedTensor:
  """Reshapes `[N, B, ...]` to `[N·B, ...]`."""

  def merged(x: tf.Tensor) -> tf.Tensor:
    known = None if None in x.shape[:2] else x.shape[0] * x.shape[1]
    # One unknown size may be left to the reshaping, and mostly none is.
    if known is not None and x.shape[2:].is_fully_defined():
      return tf.reshape(x, [known, *x.shape[2:]])
    flat = tf.reshape(x, tf.concat([[-1], tf.shape(x)[2:]], axis=0))
    return tf.ensure_shape(flat, [known, *x.shape[2:]])

  return tree.map_structure(merged, nest)


def split(x: tf.Tensor, count: int) -> tf.Tensor:
  """Reshapes `[count·B, ...]` to `[count, B, ...]`."""
  rows = x.shape[0] // count if x.shape[0] is not None else tf.shape(x)[0] // count
  return tf.reshape(x, tf.concat([[count, rows], tf.shape(x)[1:]], axis=0))


def take(nest: types.NestedTensor, index: tf.Tensor) -> types.NestedTensor:
  """Returns each row's chosen entry, `[B, ...]`, of `[N·B, ...]`.

  Args:
    nest: tensors whose first axis has all first proposals, then all second ones, and so on.
    index: int32 `[B]`.
  """
  num_rows = index.shape[0] or tf.shape(index)[0]
  rows = index * num_rows + tf.range(num_rows)
  return tree.map_structure(lambda x: tf.gather(x, rows), nest)


def make_clipper(
  action_spec: Optional[types.NestedSpec],
) -> Callable[[types.NestedTensor], types.NestedTensor]:
  """Returns a function that clips actions to the bounds that their spec has, if any."""
  if action_spec is None:
    return lambda action: action
  bounded = lambda spec: isinstance(spec, specs.BoundedArray)
  clip = lambda spec: action_clipping.ActionClipper(spec) if bounded(spec) else tf.identity
  leaves = [clip(spec) for spec in tree.flatten(action_spec)]

  def clip_nest(action: types.NestedTensor) -> types.NestedTensor:
    tree.assert_same_structure(action_spec, action)
    clipped = [clip_leaf(x) for clip_leaf, x in zip(leaves, tree.flatten(action))]
    return tree.unflatten_as(action, clipped)

  return clip_nest
