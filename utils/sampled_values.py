"""Values of many sampled actions per observation, in blocks that stay in the processor's cache."""

from typing import Callable

from acme import types
import tensorflow as tf
import tree

# Rows of one critic evaluation. On processors, a block whose activations stay in the cache runs about a third
# faster than all samples at once (the benchmark launcher measures it); on accelerators the block is still large.
DEFAULT_BLOCK_ROWS = 2816

Critic = Callable[[types.NestedTensor, types.NestedTensor], tf.Tensor]


def sampled_values(
    critic: Critic,
    observations: types.NestedTensor,
    actions: tf.Tensor,
    *,
    differentiable: bool,
    block_rows: int = DEFAULT_BLOCK_ROWS,
) -> tf.Tensor:
  """Evaluates a critic at S actions for each of N observations.

  The gradient flows to the actions alone, never to the critic's variables. Each block's derivative with respect to its actions
  is taken right after its forward pass, so the activations of one block, not of all S·N rows, are alive at a time.
  A row's value must depend on no other row (no batch normalisation over rows).

  Args:
    critic: maps `[R, ...]` observations and `[R, A]` actions to values `[R]` or `[R, 1]`.
    observations: nest of `[N, ...]`.
    actions: `[S, N, A]`.
    differentiable: whether the result is to be differentiated with respect to `actions`. If not, the gradient is
      stopped and the derivative is not computed.
    block_rows: at most this many rows are evaluated at once, but at least N.

  Returns:
    `[S, N]`.
  """
  num_samples, num_rows = actions.shape[0], tf.shape(actions)[1]
  per_block = _samples_per_block(num_samples, actions.shape[1], block_rows)
  tiled = tree.map_structure(lambda x: tf.repeat(x[None], per_block, axis=0), observations)
  tiled = tree.map_structure(_merge_two, tiled) if per_block > 1 else observations

  def evaluate(block: tf.Tensor) -> tf.Tensor:
    return tf.reshape(critic(tiled, _merge_two(block)), [per_block, num_rows])

  def evaluate_with_gradient(block: tf.Tensor):
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      tape.watch(block)
      values = evaluate(block)
    return values, tape.gradient(values, block, unconnected_gradients="zero")

  blocks = tf.reshape(actions, tf.concat([[num_samples // per_block, per_block], tf.shape(actions)[1:]], 0))
  blocks.set_shape([num_samples // per_block, per_block, *actions.shape[1:]])
  if not differentiable:
    values = _map_blocks(evaluate, tf.stop_gradient(blocks), actions.dtype)
    return tf.stop_gradient(tf.reshape(values, [num_samples, num_rows]))

  @tf.custom_gradient
  def values_of(blocks: tf.Tensor):
    values, slopes = _map_blocks(evaluate_with_gradient, blocks, (actions.dtype, actions.dtype))

    def gradient(upstream: tf.Tensor, variables=None):
      expand = tf.reshape(upstream, tf.concat([tf.shape(upstream), tf.ones_like(tf.shape(slopes)[3:])], 0))
      action_gradient = expand * slopes
      return action_gradient if variables is None else (action_gradient, [None] * len(variables))

    return values, gradient

  return tf.reshape(values_of(blocks), [num_samples, num_rows])


def _merge_two(x: tf.Tensor) -> tf.Tensor:
  shape = tf.shape(x)
  merged = tf.reshape(x, tf.concat([[shape[0] * shape[1]], shape[2:]], 0))
  known = None if None in x.shape[:2] else x.shape[0] * x.shape[1]
  return tf.ensure_shape(merged, [known, *x.shape[2:]])


def _samples_per_block(num_samples: int, num_rows, block_rows: int) -> int:
  """The largest divisor of the number of samples whose rows fit in a block; at least one."""
  if num_rows is None:
    return 1
  fitting = [k for k in range(1, num_samples + 1) if num_samples % k == 0 and k * num_rows <= block_rows]
  return max(fitting, default=1)


def _map_blocks(function, blocks: tf.Tensor, dtypes):
  # A loop of one turn costs more than it saves: small batches are evaluated in one go.
  if blocks.shape[0] == 1:
    return tree.map_structure(lambda x: x[None], function(blocks[0]))
  return tf.map_fn(function, blocks, fn_output_signature=dtypes, parallel_iterations=1)
