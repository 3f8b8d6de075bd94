"""Values of many sampled actions per observation, in blocks that stay in the processor's cache."""

import contextlib
from typing import Any, Callable, Optional

from acme import types
import tensorflow as tf
import tree

# Rows of one critic evaluation. On processors, a block whose activations stay in the cache runs
# faster than all samples at once; on accelerators the block is still large.
DEFAULT_BLOCK_ROWS = 4096

# Maps actions `[K, N, A]` to values `[K, N]`.
ValuesOfActions = Callable[[tf.Tensor], tf.Tensor]


def sampled_values(
  critic: Callable[..., tf.Tensor],
  observations: types.NestedTensor,
  actions: tf.Tensor,
  *,
  differentiable: bool,
  tape: Optional[tf.GradientTape] = None,
  block_rows: int = DEFAULT_BLOCK_ROWS,
) -> tf.Tensor:
  """Evaluates a critic at S actions for each of N observations.

  A critic that has a method `given(observations)`, which returns a `ValuesOfActions`, is asked for
  it, so that what depends on the observations alone is computed once and not S times.

  The gradient flows to the actions alone, never to the critic's variables. Each block's derivative
  with respect to its actions is taken right after its forward pass, so the activations of one
  block, not of all S·N rows, are alive at a time. A row's value must depend on no other row (no
  batch normalisation over rows).

  Args:
    critic: maps `[R, ...]` observations and `[R, *A]` actions to values `[R]` or `[R, 1]`.
    observations: nest of `[N, ...]`.
    actions: `[S, N, *A]`, S known.
    differentiable: whether the result is to be differentiated with respect to `actions`. If not,
      the gradient is stopped and the derivative is not computed.
    tape: the tape that is recording, if any. The evaluation is hidden from it, else TensorFlow
      builds gradients of the loop over blocks that nobody asks for, which takes seconds.
    block_rows: at most this many rows are evaluated at once, but at least N.

  Returns:
    `[S, N]`.
  """
  num_samples, num_rows = actions.shape[0], tf.shape(actions)[1]
  per_block = _samples_per_block(num_samples, actions.shape[1], block_rows)
  with tape.stop_recording() if tape is not None else contextlib.nullcontext():
    evaluate = values_given(critic, observations)
    shape = [num_samples // per_block, per_block]
    blocks = tf.reshape(actions, tf.concat([shape, tf.shape(actions)[1:]], 0))
    blocks.set_shape([*shape, *actions.shape[1:]])
    if differentiable:
      with_slopes = lambda block: _values_and_slopes(evaluate, block)
      values, slopes = _map_blocks(with_slopes, blocks, (actions.dtype, actions.dtype))
      slopes = tf.reshape(slopes, tf.shape(actions))
    else:
      values = _map_blocks(evaluate, blocks, actions.dtype)
    values = tf.stop_gradient(tf.reshape(values, [num_samples, num_rows]))
  if not differentiable:
    return values

  @tf.custom_gradient
  def values_of(actions: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    def gradient(upstream: tf.Tensor) -> tf.Tensor:
      over_action = tf.ones([actions.shape.rank - 2], tf.int32)
      return tf.reshape(upstream, tf.concat([tf.shape(upstream), over_action], 0)) * slopes

    return tf.identity(values), gradient

  return values_of(actions)


def _values_and_slopes(
  evaluate: ValuesOfActions, actions: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns the values of actions and their derivatives."""
  with tf.GradientTape(watch_accessed_variables=False) as tape:
    tape.watch(actions)
    values = evaluate(actions)
  return values, tape.gradient(values, actions, unconnected_gradients="zero")


def values_given(
  critic: Callable[..., tf.Tensor], observations: types.NestedTensor
) -> ValuesOfActions:
  """Returns the critic's values of actions at N observations, `[K, N, *A]` to `[K, N]`."""
  if hasattr(critic, "given"):
    return critic.given(observations)

  def evaluate(actions: tf.Tensor) -> tf.Tensor:
    shape = tf.shape(actions)[:2]
    repeat = lambda x: _merge_two(tf.repeat(x[None], shape[0], axis=0))
    tiled = observations if actions.shape[0] == 1 else tree.map_structure(repeat, observations)
    return tf.reshape(critic(tiled, _merge_two(actions)), shape)

  return evaluate


def _merge_two(x: tf.Tensor) -> tf.Tensor:
  shape = tf.shape(x)
  merged = tf.reshape(x, tf.concat([[shape[0] * shape[1]], shape[2:]], 0))
  known = None if None in x.shape[:2] else x.shape[0] * x.shape[1]
  return tf.ensure_shape(merged, [known, *x.shape[2:]])


def _samples_per_block(num_samples: int, num_rows: Any, block_rows: int) -> int:
  """The largest divisor of the number of samples whose rows fit in a block; at least one."""
  if num_rows is None:
    return 1
  divisors = [k for k in range(1, num_samples + 1) if num_samples % k == 0]
  return max((k for k in divisors if k * num_rows <= block_rows), default=1)


def _map_blocks(function: Callable[..., Any], blocks: tf.Tensor, dtypes: Any) -> Any:
  # A loop of one turn costs more than it saves: small batches are evaluated in one go.
  if blocks.shape[0] == 1:
    return tree.map_structure(lambda x: x[None], function(blocks[0]))
  return tf.map_fn(function, blocks, fn_output_signature=dtypes, parallel_iterations=1)
